//! The receiving side (MPI-5.0 sections 4.2.1, 4.2.3): runs arrive in the order in which they left, and each partition of this side is there when the
//! runs that cover it are.

use super::Step;
use super::meeting::{Hello, corrupt};
use super::room::Room;
use super::send::{HEADER_BYTES, INLINE};
use crate::buffer::RecvBuf;
use crate::carrier::Engine;
use crate::{Error, Rank, Result};
use farpost_fabric::{Fabric, Peer};

/// A run whose bytes are on their way.
struct Run {
    handle: usize,
    offset: u64,
    len: u64,
    /// It does not fit the program's elements, or not its buffer: it comes here first.
    aside: Option<Room>,
}

pub(super) struct Receiving {
    buf: RecvBuf,
    /// Bytes of a partition.
    each: u64,
    /// Who sends; `None`: nobody.
    from: Option<Peer>,
    /// The send that belongs to this.
    hello: Option<Hello>,
    /// Bytes that each partition lacks in this round.
    missing: Vec<u64>,
    /// Bytes of this round that frames have told of, and that have arrived.
    told: u64,
    arrived: u64,
    /// The receive of the next frame.
    frame: Option<(usize, Room)>,
    /// Memory of the one before.
    spare: Option<Room>,
    runs: Vec<Run>,
    /// The frame that says that there is no data has come.
    empty_told: bool,
    over: bool,
    pub(super) request: usize,
    pub(super) error: Option<Error>,
    /// It cannot be started again.
    broken: Option<Error>,
}

impl Receiving {
    pub(super) fn new(buf: RecvBuf, partitions: u32, from: Option<Peer>) -> Self {
        Self {
            each: buf.bytes().checked_div(u64::from(partitions)).unwrap_or(0),
            buf,
            from,
            hello: None,
            missing: vec![0; partitions as usize],
            told: 0,
            arrived: 0,
            frame: None,
            spare: None,
            runs: Vec::new(),
            empty_told: false,
            over: true,
            request: 0,
            error: None,
            broken: None,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.buf.bytes()
    }

    /// Whose send it looks for, while it has none.
    pub(super) fn unmatched(&self) -> Option<Peer> {
        self.from.filter(|_| self.hello.is_none() && !self.over)
    }

    pub(super) fn join(&mut self, hello: Hello) {
        self.hello = Some(hello);
    }

    pub(super) fn start(&mut self, request: usize) -> Result<()> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        self.missing.fill(self.each);
        (self.told, self.arrived, self.empty_told) = (0, 0, false);
        self.over = false;
        self.error = None;
        self.request = request;
        Ok(())
    }

    pub(super) fn has_arrived(&self, partition: u32) -> bool {
        let missing = self.missing.get(partition as usize);
        self.over || self.each > 0 && missing.is_some_and(|bytes| *bytes == 0)
    }

    /// Bytes that came; `None`: from nobody.
    pub(super) fn received(&self) -> Option<u64> {
        self.from.map(|_| self.arrived.min(self.buf.bytes()))
    }

    /// It ends with an error, for good: what comes next from the sender could not be told apart.
    pub(super) fn fail<F: Fabric>(&mut self, engine: &mut Engine<F>, error: Error, kept: &mut Vec<Room>) {
        let runs = self.runs.drain(..).map(|run| (run.handle, run.aside));
        let frame = self.frame.take().map(|(handle, room)| (handle, Some(room)));
        for (handle, room) in runs.chain(frame) {
            engine.cancel_receive(handle);
            engine.reap(handle);
            kept.extend(room);
        }
        self.broken = Some(error.clone());
        self.error = Some(error);
    }

    pub(super) fn step<F: Fabric>(
        &mut self,
        engine: &mut Engine<F>,
        slot: usize,
        kept: &mut Vec<Room>,
    ) -> Step {
        let Some(peer) = self.from else {
            self.over = true;
            return Step::Over;
        };
        let moved = match self.hello {
            Some(hello) if self.broken.is_none() => {
                let moved = self.take(engine, slot, peer, hello);
                moved.unwrap_or_else(|error| {
                    self.fail(engine, error, kept);
                    true
                })
            }
            _ => false,
        };
        let all = self.hello.is_some_and(|hello| match hello.total {
            0 => self.empty_told,
            total => self.arrived == total,
        });
        if all || self.broken.is_some() {
            self.over = true;
            return Step::Over;
        }
        if moved { Step::Moved } else { Step::Nothing }
    }

    /// Take what has come. True: something has.
    fn take<F: Fabric>(
        &mut self,
        engine: &mut Engine<F>,
        slot: usize,
        peer: Peer,
        hello: Hello,
    ) -> Result<bool> {
        let mut moved = false;
        while self.told < hello.total || hello.total == 0 && !self.empty_told {
            let (handle, room) = match self.frame.take() {
                Some(posted) => posted,
                None => {
                    let bytes = HEADER_BYTES + INLINE.min(hello.total) as usize;
                    let room = self.spare.take().unwrap_or_else(|| Room::new(bytes));
                    let handle = engine.irecv(slot, room.recv_buf(), peer.0 as Rank, hello.pair)?;
                    (handle, room)
                }
            };
            let Some(status) = engine.reap(handle) else {
                self.frame = Some((handle, room));
                break;
            };
            if let Some(error) = status.error {
                return Err(*error);
            }
            moved = true;
            self.take_frame(
                engine,
                (slot, peer),
                hello,
                &room.bytes()[..status.bytes as usize],
            )?;
            self.spare = Some(room);
        }
        let mut at = 0;
        while let Some(run) = self.runs.get(at) {
            let Some(status) = engine.reap(run.handle) else {
                at += 1;
                continue;
            };
            moved = true;
            let run = self.runs.remove(at);
            if let Some(error) = status.error {
                return Err(*error);
            }
            if status.bytes != run.len {
                return Err(corrupt(peer, "the length of partitions"));
            }
            if let Some(room) = &run.aside {
                self.put(engine, run.offset, room.bytes());
            }
            self.count(run.offset, run.len);
        }
        Ok(moved)
    }

    fn take_frame<F: Fabric>(
        &mut self,
        engine: &mut Engine<F>,
        (slot, peer): (usize, Peer),
        hello: Hello,
        frame: &[u8],
    ) -> Result<()> {
        let told = frame.split_at_checked(HEADER_BYTES).and_then(|(header, data)| {
            let (words, _) = header.as_chunks::<8>();
            let &[serial, offset, len] = words else {
                return None;
            };
            let [serial, offset, len] = [serial, offset, len].map(u64::from_le_bytes);
            let end = offset.checked_add(len)?;
            let within = end <= hello.total && len <= hello.total - self.told && serial == hello.serial;
            let whole = data.is_empty() || data.len() as u64 == len;
            (within && whole && (len > 0 || hello.total == 0)).then_some((offset, len, data))
        });
        let Some((offset, len, data)) = told else {
            return Err(corrupt(peer, "partitions"));
        };
        if len == 0 {
            self.empty_told = true;
            return Ok(());
        }
        self.told += len;
        if !data.is_empty() {
            self.put(engine, offset, data);
            self.count(offset, len);
            return Ok(());
        }
        let fits = offset + len <= self.buf.bytes();
        let place = self.buf.stream_part(offset, len).filter(|_| fits);
        let (place, aside) = match place {
            Some(place) => (place, None),
            None => {
                let room = Room::new(len as usize);
                (room.recv_buf(), Some(room))
            }
        };
        let handle = engine.irecv(slot, place, peer.0 as Rank, hello.pair)?;
        self.runs.push(Run {
            handle,
            offset,
            len,
            aside,
        });
        Ok(())
    }

    /// Bytes to where they belong; what there is no room for is an error of this round.
    fn put<F: Fabric>(&mut self, engine: &Engine<F>, offset: u64, data: &[u8]) {
        self.buf.unpack_on(&*engine.fabric, offset, data);
    }

    /// Bytes have arrived.
    fn count(&mut self, offset: u64, len: u64) {
        self.arrived += len;
        let end = offset + len;
        if end > self.buf.bytes() {
            let (bytes, total) = (self.buf.bytes(), self.hello.map_or(0, |hello| hello.total));
            self.error = Some(error!(
                ERR_TRUNCATE: "the partitions that were sent have {total} bytes, those to be received {bytes}"
            ));
        }
        let mut from = offset;
        while from < end && self.each > 0 {
            let partition = from / self.each;
            let Some(missing) = self.missing.get_mut(partition as usize) else {
                break;
            };
            let upto = ((partition + 1) * self.each).min(end);
            *missing = missing.saturating_sub(upto - from);
            from = upto;
        }
    }
}
