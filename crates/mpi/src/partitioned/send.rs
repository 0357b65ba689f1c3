//! The sending side (MPI-5.0 section 4.2.1): partitions become ready in any order and leave as runs.

use super::{Step, envelope};
use crate::buffer::SendBuf;
use crate::carrier::Engine;
use crate::engine::request::{Mode, Payload};
use crate::{Error, Result};
use farpost_fabric::{Fabric, Peer};
use std::ops::Range;

/// A frame: which send, where in the data, how many bytes.
pub(super) const HEADER_BYTES: usize = 24;
/// Runs up to this length go in their frame.
pub(super) const INLINE: u64 = 4096;

/// While so many messages are on their way, runs wait and grow together.
const UNDER_WAY: usize = 8;

pub(super) struct Sending {
    buf: SendBuf,
    partitions: u32,
    /// Elements of a partition.
    each: u64,
    /// Who receives, the tag between the two, and the number of this send; `None`: nobody.
    to: Option<(Peer, i32, u64)>,
    /// By partition: it is ready.
    ready: Vec<bool>,
    not_ready: u32,
    /// Ready and not sent.
    runs: Vec<Range<u32>>,
    /// There is no data at all, and the frame that says so has not been sent.
    owes_empty: bool,
    /// Messages on their way.
    under_way: Vec<usize>,
    /// Where frames are made.
    frame: Vec<u8>,
    /// The round is over, or none was started.
    over: bool,
    pub(super) request: usize,
    pub(super) error: Option<Error>,
}

impl Sending {
    pub(super) fn new(buf: SendBuf, partitions: u32, to: Option<(Peer, i32, u64)>) -> Self {
        Self {
            each: buf.count().checked_div(u64::from(partitions)).unwrap_or(0),
            buf,
            partitions,
            to,
            ready: Vec::new(),
            not_ready: 0,
            runs: Vec::new(),
            owes_empty: false,
            under_way: Vec::new(),
            frame: Vec::new(),
            over: true,
            request: 0,
            error: None,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.buf.bytes()
    }

    pub(super) fn pair(&self) -> Option<i32> {
        self.to.map(|(_, pair, _)| pair)
    }

    pub(super) fn lacks_partitions(&self) -> bool {
        self.not_ready > 0
    }

    pub(super) fn start(&mut self, request: usize) -> Result<()> {
        self.ready.clear();
        self.ready.resize(self.partitions as usize, false);
        self.not_ready = self.partitions;
        self.runs.clear();
        self.owes_empty = self.buf.bytes() == 0;
        self.over = false;
        self.request = request;
        self.error = None;
        Ok(())
    }

    /// Partitions are ready. After an error none is.
    pub(super) fn ready(&mut self, runs: &[Range<u32>]) -> Result<()> {
        for (at, run) in runs.iter().enumerate() {
            let flags = &mut self.ready[run.start as usize..run.end as usize];
            if let Some(twice) = flags.iter().position(|ready| *ready) {
                for run in &runs[..at] {
                    self.ready[run.start as usize..run.end as usize].fill(false);
                }
                return fail!(
                    ERR_ARG: "partition={}: it is ready since an earlier call; each is once between two starts",
                    run.start as usize + twice
                );
            }
            flags.fill(true);
        }
        for run in runs {
            self.not_ready -= run.end - run.start;
            match self.runs.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => self.runs.push(run.clone()),
            }
        }
        Ok(())
    }

    pub(super) fn step<F: Fabric>(&mut self, engine: &mut Engine<F>) -> Step {
        if self.over {
            // To nobody, or after an error: partitions that become ready still are of no use.
            self.runs.clear();
            return Step::Nothing;
        }
        let Some((peer, pair, serial)) = self.to else {
            self.over = true;
            return Step::Over;
        };
        let before = (self.under_way.len(), self.runs.len());
        let error = &mut self.error;
        self.under_way.retain(|handle| {
            let over = engine.requests.is_over(*handle);
            if over && let Some(failed) = engine.reap(*handle).and_then(|status| status.error) {
                *error = Some(*failed);
            }
            !over
        });
        if self.under_way.len() < UNDER_WAY && !self.runs.is_empty() && self.error.is_none() {
            self.error = self.leave(engine, peer, pair, serial).err();
        }
        if self.owes_empty && self.not_ready == 0 && self.error.is_none() {
            self.owes_empty = false;
            self.frame.clear();
            self.frame.extend(header(serial, 0, 0));
            self.error = self.send_frame(engine, (peer, pair)).err();
        }
        let sent = self.not_ready == 0 && self.runs.is_empty() && !self.owes_empty;
        match () {
            () if self.under_way.is_empty() && (sent || self.error.is_some()) => {
                self.over = true;
                Step::Over
            }
            () if before == (self.under_way.len(), self.runs.len()) => Step::Nothing,
            () => Step::Moved,
        }
    }

    /// Send what is ready, neighbours together.
    fn leave<F: Fabric>(&mut self, engine: &mut Engine<F>, peer: Peer, pair: i32, serial: u64) -> Result<()> {
        let mut runs = std::mem::take(&mut self.runs);
        runs.sort_unstable_by_key(|run| run.start);
        runs.dedup_by(|next, run| {
            let joined = run.end == next.start;
            if joined {
                run.end = next.end;
            }
            joined
        });
        let size = self.each * self.buf.datatype().size();
        for (at, run) in runs.iter().enumerate() {
            if self.under_way.len() >= UNDER_WAY {
                self.runs = runs.split_off(at);
                return Ok(());
            }
            let partitions = u64::from(run.end - run.start);
            let (offset, len) = (u64::from(run.start) * size, partitions * size);
            if len == 0 {
                continue;
            }
            self.frame.clear();
            self.frame.extend(header(serial, offset, len));
            if len <= INLINE {
                self.frame.resize(HEADER_BYTES + len as usize, 0);
                self.buf
                    .pack_on(&*engine.fabric, offset, &mut self.frame[HEADER_BYTES..]);
            }
            self.send_frame(engine, (peer, pair))?;
            if len <= INLINE {
                continue;
            }
            let part = self
                .buf
                .part(u64::from(run.start) * self.each, partitions * self.each);
            let sent = engine.isend_user(peer, envelope(engine.me, pair), &part, Mode::Standard)?;
            self.under_way.extend(sent);
        }
        Ok(())
    }

    fn send_frame<F: Fabric>(&mut self, engine: &mut Engine<F>, (peer, pair): (Peer, i32)) -> Result<()> {
        let envelope = envelope(engine.me, pair);
        // Without a copy of its own, if nothing stands in the way.
        if peer != engine.me && engine.try_eager(peer, &envelope, &self.frame) {
            return Ok(());
        }
        let payload = Payload::Owned(self.frame.as_slice().into());
        let sent = engine.isend(peer, envelope, payload, Mode::Standard)?;
        self.under_way.extend(sent);
        Ok(())
    }
}

fn header(serial: u64, offset: u64, len: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    for (at, word) in [serial, offset, len].into_iter().enumerate() {
        bytes[at * 8..][..8].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}
