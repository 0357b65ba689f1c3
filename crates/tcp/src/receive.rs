//! The receive path: from the sockets to the link, and the frames that the link delivers.
//!
//! Cost class: *fast path*, but for its system call.

use super::close_reason::CloseReason;
use super::connections::{Connection, ConnectionStage};
use super::input::{ReadOutcome, Sink};
use super::payloads::ZcopyAction;
use super::peer::NONE;
use super::state::TcpState;
use crate::link::{Arrival, FrameKind, HEADER_BYTES, Header, LinkError, ZCOPY};
use farpost_fabric::{Counter, FabricError, Fault, Peer};
use std::os::fd::AsRawFd;

/// The longest that the peer waits to hear that bulk data has arrived, nanoseconds.
const PATIENCE: u64 = 200_000;

/// A socket is read at most so often in a row, so that one peer does not keep all others waiting.
const READS: u32 = 16;

impl TcpState {
    pub fn read(&mut self, slot: usize, now: u64) {
        let Some(mut conn) = self.conns.take(slot) else {
            return;
        };
        let ConnectionStage::Open { peer, rail } = conn.stage else {
            self.conns.put(slot, conn);
            return;
        };
        if conn.paused {
            self.conns.put(slot, conn);
            return;
        }
        let fd = conn.fd.as_raw_fd();
        self.conns.reading = slot;
        conn.input.enter(&mut self.read_buffers);
        let mut end = None;
        let mut some = false;
        for _ in 0..READS {
            let received = match &mut conn.seal {
                None => {
                    let direct = self.place(peer, conn.input.sink.as_ref());
                    let remote = self.peers.get(peer);
                    let little = remote.is_some_and(|remote| !remote.tickets.is_empty());
                    // SAFETY: memory of a transfer of ours that is under way: its user has lent it until the transfer
                    // ends, which only happens in calls of this thread.
                    unsafe { conn.input.receive(fd, direct, little) }
                }
                Some(seal) => match conn.input.receive_sealed(fd, &mut seal.opener) {
                    Ok(Ok(came)) => Ok(came),
                    Ok(Err(error)) => Err(std::io::Error::other(error.to_string())),
                    Err(error) => Err(error),
                },
            };
            match received {
                Ok(ReadOutcome::Nothing) => break,
                Ok(ReadOutcome::Closed) => {
                    end = Some(CloseReason::Lost("the other side closed the connection".into()));
                    break;
                }
                Err(error) => {
                    end = Some(CloseReason::Lost(error.to_string()));
                    break;
                }
                Ok(came) => {
                    let before = self.arrivals;
                    self.arrivals += 1;
                    self.conns.hot = slot;
                    some = true;
                    self.only_pings = true;
                    if let Err(why) = self.parse(peer, rail, &mut conn, now) {
                        end = Some(why);
                        break;
                    }
                    if self.only_pings && self.arrivals == before + 1 {
                        // Nobody waits for pings, and they are no progress of the program's.
                        self.arrivals = before;
                    }
                    if conn.paused {
                        self.conns.paused.push(slot);
                        break;
                    }
                    if came == ReadOutcome::Drained {
                        break;
                    }
                }
            }
        }
        self.conns.reading = NONE;
        conn.input.leave(&mut self.read_buffers);
        self.put_back(slot, (peer, rail), conn, (some, end), now);
    }

    /// Go on with what was left for the protocol above to look at.
    #[cold]
    pub fn resume(&mut self, now: u64) {
        for slot in std::mem::take(&mut self.conns.paused) {
            let Some(mut conn) = self.conns.take(slot) else {
                continue;
            };
            let ConnectionStage::Open { peer, rail } = conn.stage else {
                self.conns.put(slot, conn);
                continue;
            };
            self.arrivals += 1;
            conn.paused = false;
            self.conns.reading = slot;
            conn.input.enter(&mut self.read_buffers);
            let end = self.parse(peer, rail, &mut conn, now).err();
            conn.input.leave(&mut self.read_buffers);
            self.conns.reading = NONE;
            if conn.paused {
                self.conns.paused.push(slot);
            }
            self.put_back(slot, (peer, rail), conn, (true, end), now);
        }
    }

    /// A connection was read, from which `some` came and perhaps the end.
    fn put_back(
        &mut self,
        slot: usize,
        (peer, rail): (Peer, usize),
        mut conn: Box<Connection>,
        (some, end): (bool, Option<CloseReason>),
        now: u64,
    ) {
        let came = std::mem::take(&mut conn.input.came);
        if !some && end.is_none() {
            self.conns.put(slot, conn);
            return;
        }
        // Closed meanwhile, by what it brought.
        let stays = self
            .peers
            .get(peer)
            .is_some_and(|remote| remote.rails[rail].slot == slot);
        if !stays {
            return;
        }
        self.conns.put(slot, conn);
        if let Some(end) = end {
            self.ended(peer, rail, end);
        }
        let Some(remote) = self.peers.at(peer) else {
            return;
        };
        remote.link.received(rail, came as u64);
        self.deadline = self.deadline.min(remote.link.next_deadline());
        if std::mem::take(&mut remote.answer_due) || remote.rails.len() > 1 {
            self.schedule_send(peer);
        } else {
            // All that can be due is to tell that bulk data is here. It goes with what is said next, which is soon.
            self.deadline = self.deadline.min(now + PATIENCE);
        }
    }

    /// Where the payload of a bulk frame goes from here on.
    #[inline]
    fn place(&self, peer: Peer, sink: Option<&Sink>) -> Option<(*mut u8, usize)> {
        let Sink { header, done } = sink?;
        let remote = self.peers.get(peer)?;
        if header.flags == ZCOPY {
            let left = header.len as usize - done;
            let address =
                remote
                    .link
                    .place_zcopy(header.object, header.offset + *done as u64, left as u64)?;
            return Some((std::ptr::with_exposed_provenance_mut(address), left));
        }
        // A transfer that was given up keeps its ticket in the link, and lost its own.
        remote.tickets.get(&header.object)?;
        let left = header.len as usize - done;
        let address = remote
            .link
            .place(header.object, header.offset + *done as u64, left as u64)?;
        Some((std::ptr::with_exposed_provenance_mut(address), left))
    }

    fn ended(&mut self, peer: Peer, rail: usize, end: CloseReason) {
        match end {
            CloseReason::Lost(why) => self.rail_ended(peer, rail, &why),
            CloseReason::Damaged(error) => {
                self.diagnostics.count(peer, Counter::Faults, 1);
                self.rail_ended(peer, rail, &error.to_string());
                let now = self.now();
                if let Some(remote) = self.peers.at(peer)
                    && remote.malformed_input.record(now)
                {
                    self.lose(peer, format!("its connections bring malformed_input: it {error}"));
                }
            }
            CloseReason::Violation(what, value) => {
                let error = FabricError::corrupt(peer, what, value);
                self.diagnostics.record_fault(Fault { peer, error });
                let why = format!("it sent {value:#x} where {what} was expected");
                if let Some(remote) = self.peers.at(peer) {
                    let _ = remote.link.push_fault(1, &why);
                    let now = self.now();
                    self.pump(peer, now);
                }
                let closing = std::mem::replace(&mut self.closing, true);
                self.lose(peer, why);
                self.closing = closing;
            }
            CloseReason::Accused(why) => self.lose(peer, format!("it refuses to go on: {why}")),
        }
    }

    /// Take what came as far as it is complete.
    #[inline]
    fn parse(&mut self, peer: Peer, rail: usize, conn: &mut Connection, now: u64) -> Result<(), CloseReason> {
        loop {
            if conn.input.sink.is_some() {
                self.only_pings = false;
                if !self.fill(peer, rail, conn, now)? {
                    return Ok(());
                }
            }
            let Some(remote) = self.peers.at(peer) else {
                return Ok(());
            };
            let waiting = conn.input.waiting();
            let Some(head) = waiting.first_chunk::<HEADER_BYTES>() else {
                return Ok(());
            };
            let header = remote.link.parse(rail, head)?;
            self.only_pings &= !remote.link.is_news(&header);
            if header.kind == FrameKind::BulkData {
                if header.flags == ZCOPY {
                    if self.zcopy_begins(peer, &header)? == ZcopyAction::Wait {
                        conn.paused = true;
                        return Ok(());
                    }
                    let Some(remote) = self.peers.at(peer) else {
                        return Ok(());
                    };
                    remote.link.on_zcopy_header(rail, &header, now)?;
                } else {
                    remote.link.on_bulk_header(rail, &header, now)?;
                }
                conn.input.take(HEADER_BYTES);
                conn.input.sink = Some(Sink { header, done: 0 });
                continue;
            }
            let total = header.total();
            if waiting.len() < total {
                remote.link.on_bytes(rail, now);
                conn.input.expect(total);
                return Ok(());
            }
            remote.answer_due = true;
            let payload = &waiting[HEADER_BYTES..total];
            if remote.link.on_frame(rail, &header, payload, now)? == Arrival::Deliver {
                self.apply(peer, &header, payload)?;
                while let Some((header, payload)) = self.next_held(peer)? {
                    self.apply(peer, &header, &payload)?;
                }
            }
            conn.input.take(total);
        }
    }

    #[inline]
    fn next_held(&mut self, peer: Peer) -> Result<Option<(Header, Vec<u8>)>, LinkError> {
        match self.peers.at(peer) {
            Some(remote) => remote.link.next_held(),
            None => Ok(None),
        }
    }

    /// Move buffered bytes of a bulk frame to their place. True: it is complete.
    fn fill(
        &mut self,
        peer: Peer,
        rail: usize,
        conn: &mut Connection,
        now: u64,
    ) -> Result<bool, CloseReason> {
        let place = self.place(peer, conn.input.sink.as_ref());
        let waiting = conn.input.waiting();
        let Some(sink) = &conn.input.sink else {
            return Ok(true);
        };
        let header = sink.header;
        let len = waiting.len().min(header.len as usize - sink.done);
        if let Some((to, left)) = place {
            debug_assert!(len <= left);
            // SAFETY: the place is writable for what is left of the frame (see `read`), and what waits is ours.
            unsafe { std::ptr::copy_nonoverlapping(waiting.as_ptr(), to, len) };
        }
        conn.input.take(len);
        let Some(sink) = &mut conn.input.sink else {
            return Ok(true);
        };
        sink.done += len;
        let Some(remote) = self.peers.at(peer) else {
            return Ok(true);
        };
        if sink.done < header.len as usize {
            remote.link.on_bytes(rail, now);
            return Ok(false);
        }
        conn.input.sink = None;
        if header.flags == ZCOPY {
            if remote.link.on_zcopy(rail, &header, now)? {
                self.zcopy_complete(peer, header.object);
            }
            return Ok(true);
        }
        if let Some(ticket) = remote.link.on_bulk(rail, &header, now)?
            && let Some(token) = remote.tickets.remove(&ticket)
        {
            self.transfer_done(peer, token);
        }
        Ok(true)
    }
}
