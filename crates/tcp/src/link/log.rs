//! The retransmit log: ordered frames as they go onto the wire, kept until acknowledged.
//!
//! One ring of bytes; a frame lies in it in one piece, so that frames to be sent are one or two slices of it. The
//! ring starts small, doubles when it must, and refuses beyond its bound. Positions run on for ever and are
//! masked; a frame that would cross the end starts at the beginning again.
//!
//! Memory is taken by use. Of a ring only the part up to the last byte ever written has memory, in steps of [`STEP`]. An empty log
//! starts at its beginning again, and so does a short one that is not empty, if what it would touch next is free there: a link with a
//! message or two under way never touches more than those take, whatever the size of its ring. A log that becomes empty leaves what is more than a few short frames take to the links of the
//! process ([`SpareLogs`]), and the next frame of any of them takes it from there: so there is as much as was not acknowledged at
//! once, by all peers.

use super::frame::{HEADER_BYTES, Header};
use super::rail::OfferedItem;
use crate::trust::HeaderCheck;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes of the ring at the first frame.
const FIRST_BYTES: usize = 512;

/// The memory of a ring grows by multiples of so many bytes.
const STEP: usize = 256;

/// Rings up to this size start again before their end rather than to touch more.
const SHORT: usize = 8 << 10;

/// A log that becomes empty keeps so many bytes and so many entries.
const KEPT: usize = 256;
const KEPT_ENTRIES: usize = 4;

/// Logs whose memory is kept for others; beyond that it is freed.
const SPARE_LOGS: usize = 64;

/// Longest ring that is left to others. A link that had more under way keeps it until it [rests](Log::shrink), and does not grow it
/// again and again.
const LEFT: usize = 64 << 10;

/// Not on any rail: never sent, or to be sent again.
pub(super) const NOWHERE: u8 = u8::MAX;

/// A frame in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Running position of its first byte.
    pub at: u64,
    /// Bytes with the header.
    pub len: u32,
    /// The rail that it was last sent on.
    pub rail: u8,
    /// The connection and the number on it that its code is for.
    connection: u32,
    number: u64,
}

/// What a log has its frames in.
#[derive(Default)]
struct LogMemory {
    ring: Vec<u8>,
    entries: VecDeque<Entry>,
}

impl LogMemory {
    fn bytes(&self) -> usize {
        self.ring.capacity() + self.entries.capacity() * size_of::<Entry>()
    }
}

/// Memory that the links of a process share: what logs have left, and the list of what a rail is to send.
#[derive(Clone, Default)]
pub struct SpareLogs(Rc<RefCell<Spare>>);

#[derive(Default)]
struct Spare {
    logs: Vec<LogMemory>,
    used: bool,
    /// What is [offered](super::send) is given to a transport before anything else is: one list is enough for all rails.
    offer: Vec<OfferedItem>,
}

impl std::fmt::Debug for SpareLogs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SpareLogs").field(&self.bytes()).finish()
    }
}

impl SpareLogs {
    /// Bytes of it.
    pub fn bytes(&self) -> usize {
        self.0.borrow().logs.iter().map(LogMemory::bytes).sum()
    }

    /// Whether any was left or taken since the last call.
    pub fn take_used(&self) -> bool {
        std::mem::take(&mut self.0.borrow_mut().used)
    }

    /// Free it: so many bytes.
    pub fn free(&self) -> usize {
        let freed = self.bytes();
        self.0.borrow_mut().logs = Vec::new();
        freed
    }

    /// The list of what is offered, empty.
    #[inline]
    pub(super) fn take_offer(&self) -> Vec<OfferedItem> {
        std::mem::take(&mut self.0.borrow_mut().offer)
    }

    /// It was given to a transport.
    #[inline]
    pub(super) fn give_offer(&self, mut offer: Vec<OfferedItem>) {
        offer.clear();
        let mut spare = self.0.borrow_mut();
        if spare.offer.capacity() < offer.capacity() {
            spare.offer = offer;
        }
    }

    fn take(&self) -> Option<LogMemory> {
        let mut spare = self.0.borrow_mut();
        spare.used = true;
        spare.logs.pop()
    }

    fn give(&self, memory: LogMemory) {
        let mut spare = self.0.borrow_mut();
        spare.used = true;
        if spare.logs.len() < SPARE_LOGS {
            spare.logs.push(memory);
        }
    }
}

#[derive(Default)]
pub(super) struct Log {
    /// As much of the ring as was written.
    ring: Vec<u8>,
    /// Bytes of the ring; a power of two, or 0.
    size: usize,
    spare: SpareLogs,
    head: u64,
    tail: u64,
    entries: VecDeque<Entry>,
    /// Sequence number of the first entry.
    first: u32,
    bound: usize,
}

impl Log {
    pub fn new(bound: usize, first: u32, spare: SpareLogs) -> Self {
        Self {
            ring: Vec::new(),
            size: 0,
            spare,
            head: 0,
            tail: 0,
            entries: VecDeque::new(),
            first,
            bound: bound
                .next_power_of_two()
                .max(2 * (super::frame::ORDERED_MAX + HEADER_BYTES)),
        }
    }

    /// Sequence number of the oldest frame not acknowledged.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Sequence number that the next frame gets.
    #[inline]
    pub fn end(&self) -> u32 {
        self.first.wrapping_add(self.entries.len() as u32)
    }

    /// Frames in the log.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of memory that the ring has now.
    pub fn memory(&self) -> usize {
        self.ring.capacity()
    }

    /// Give back what a burst took: so many bytes. Only while the log is empty and no position in it is known to anybody.
    pub fn shrink(&mut self) -> usize {
        debug_assert!(self.entries.is_empty());
        let freed = std::mem::take(&mut self.ring).capacity();
        (self.size, self.head, self.tail) = (0, 0, 0);
        self.entries = VecDeque::new();
        freed
    }

    /// Whether frames of these lengths (with headers) fit in, one after the other, within the bound.
    pub fn fits(&self, frames: usize, each: usize, last: usize) -> bool {
        // Each may leave a gap at the end of the ring once.
        let bytes = (frames - 1) * each + last + each.max(last);
        (self.tail - self.head) as usize + bytes <= self.bound
    }

    /// Room for a frame of `len` bytes; `fill` writes them. False: the log is full and nothing was written.
    /// `force` goes beyond the bound, for frames whose number is bounded otherwise.
    #[inline]
    pub fn push(&mut self, len: usize, force: bool, fill: impl FnOnce(&mut [u8])) -> bool {
        if self.entries.is_empty() {
            // The same cache lines again and again while messages go back and forth.
            self.head = 0;
            self.tail = 0;
        }
        let mut at = match self.place(len) {
            Some(at) => at,
            None => {
                if !self.grow(len, force) {
                    return false;
                }
                self.place(len).expect("grown for it")
            }
        };
        if self.ring.len() < (at as usize & (self.size - 1)) + len {
            at = self.touch(at, len);
        }
        let index = at as usize & (self.size - 1);
        fill(&mut self.ring[index..index + len]);
        self.tail = at + len as u64;
        self.entries.push_back(Entry {
            at,
            len: len as u32,
            rail: NOWHERE,
            connection: 0,
            number: 0,
        });
        true
    }

    #[inline]
    fn place(&self, len: usize) -> Option<u64> {
        let size = self.size as u64;
        if size == 0 {
            return None;
        }
        let index = self.tail & (size - 1);
        let at = if index + len as u64 > size {
            self.tail + size - index
        } else {
            self.tail
        };
        (at + len as u64 - self.head <= size).then_some(at)
    }

    /// More of the ring would be written by a frame of `len` bytes at `at`. Where it goes instead.
    #[cold]
    fn touch(&mut self, at: u64, len: usize) -> u64 {
        let size = self.size as u64;
        let start = (self.tail | (size - 1)) + 1;
        let starts_again = self.size <= SHORT && start + len as u64 - self.head <= size;
        let at = if starts_again { start } else { at };
        let to = (at & (size - 1)) as usize + len;
        if self.ring.len() < to {
            self.extend(to);
        }
        at
    }

    /// Have memory up to there.
    fn extend(&mut self, to: usize) {
        let to = to.next_multiple_of(STEP).min(self.size);
        // Most rings are short, and are as long as what they have to hold; the memory of long ones is doubled.
        let wanted = match to {
            ..=SHORT => to,
            _ => to.max(2 * self.ring.len()).min(self.size),
        };
        self.ring.reserve_exact(wanted - self.ring.len());
        self.ring.resize(to, 0);
    }

    /// Make room for `len` more bytes. A frame that crosses no multiple of the old size crosses none of twice
    /// the size, so frames stay in one piece.
    #[cold]
    fn grow(&mut self, len: usize, force: bool) -> bool {
        let old = self.size;
        if old == 0
            && let Some(spare) = self.spare.take()
        {
            (self.ring, self.entries) = (spare.ring, spare.entries);
        }
        let mut size = old.max(FIRST_BYTES / 2);
        loop {
            size *= 2;
            if size > self.bound && !force {
                return false;
            }
            let index = self.tail as usize & (size - 1);
            let at = if index + len > size {
                self.tail + (size - index) as u64
            } else {
                self.tail
            };
            if at + len as u64 - self.head <= size as u64 {
                break;
            }
        }
        self.size = size;
        let moves = |entry: &Entry| (entry.at as usize & (old - 1)) != (entry.at as usize & (size - 1));
        if !self.entries.iter().any(moves) {
            return true;
        }
        let places = |entry: &Entry| (entry.at as usize & (size - 1)) + entry.len as usize;
        let end = self.entries.iter().map(places).max().unwrap_or(0);
        let mut ring = vec![0; end.next_multiple_of(STEP).min(size)];
        for entry in &self.entries {
            let from = entry.at as usize & (old - 1);
            let to = entry.at as usize & (size - 1);
            let len = entry.len as usize;
            ring[to..to + len].copy_from_slice(&self.ring[from..from + len]);
        }
        self.ring = ring;
        true
    }

    /// The frame `seq`, which is in the log.
    #[inline]
    pub fn entry(&mut self, seq: u32) -> &mut Entry {
        let index = seq.wrapping_sub(self.first) as usize;
        &mut self.entries[index]
    }

    /// As [`Log::entry`], to look at.
    #[inline]
    pub fn peek(&self, seq: u32) -> Entry {
        self.entries[seq.wrapping_sub(self.first) as usize]
    }

    /// Frames from the oldest on.
    pub fn entries(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }

    /// The bytes at a running position.
    #[inline]
    pub fn bytes(&self, at: u64, len: usize) -> &[u8] {
        let index = at as usize & (self.size - 1);
        &self.ring[index..index + len]
    }

    /// The longest run of whole frames from `seq` on that lies in one piece: bytes and frames, at most `limit`
    /// bytes but at least one frame.
    #[inline]
    pub fn run(&self, seq: u32, limit: usize) -> (u64, usize, u32) {
        let index = seq.wrapping_sub(self.first) as usize;
        let start = self.entries[index].at;
        let mask = self.size as u64 - 1;
        let (mut len, mut frames) = (0usize, 0);
        for entry in self.entries.range(index..) {
            let joined = entry.at == start + len as u64 && (frames == 0 || entry.at & mask != 0);
            if !joined || (frames > 0 && len + entry.len as usize > limit) {
                break;
            }
            len += entry.len as usize;
            frames += 1;
        }
        (start, len, frames)
    }

    /// Give `frames` frames from `seq` on their codes for a connection (1 and up), on which the first of them is frame
    /// `number`. Those that have them already are left alone.
    #[inline]
    pub fn seal(&mut self, seq: u32, frames: u32, connection: u32, number: u64, check: &HeaderCheck) {
        let index = seq.wrapping_sub(self.first) as usize;
        let mask = self.size - 1;
        for (entry, number) in self
            .entries
            .range_mut(index..index + frames as usize)
            .zip(number..)
        {
            if (entry.connection, entry.number) != (connection, number) {
                (entry.connection, entry.number) = (connection, number);
                let at = entry.at as usize & mask;
                Header::seal(&mut self.ring[at..at + HEADER_BYTES], check, number);
            }
        }
    }

    /// Forget the oldest frame.
    #[inline]
    pub fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.first = self.first.wrapping_add(1);
        self.head = match self.entries.front() {
            Some(next) => next.at,
            None => self.tail,
        };
        Some(entry)
    }

    /// After frames were forgotten, if no position in the log is known to anybody: what an empty log need not keep is left to others.
    #[inline]
    pub fn leave(&mut self) {
        let much = self.ring.capacity() > KEPT || self.entries.capacity() > KEPT_ENTRIES;
        if much && self.entries.is_empty() && self.ring.capacity() <= LEFT {
            self.leave_memory();
        }
    }

    #[cold]
    fn leave_memory(&mut self) {
        let ring = std::mem::take(&mut self.ring);
        let entries = std::mem::take(&mut self.entries);
        (self.size, self.head, self.tail) = (0, 0, 0);
        self.spare.give(LogMemory { ring, entries });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

        /// Whatever is pushed and popped, each frame keeps its bytes, and the memory its bound.
        #[test]
        fn frames_keep_their_bytes(steps in prop::collection::vec((any::<bool>(), HEADER_BYTES..40_000), 1..100)) {
            let bound = 256 << 10;
            let mut log = Log::new(bound, u32::MAX - 20, SpareLogs::default());
            let mut model: VecDeque<(u8, usize)> = VecDeque::new();
            let mut stamp = 0u8;
            for (push, len) in steps {
                if push {
                    stamp = stamp.wrapping_add(1);
                    if log.push(len, false, |to| to.fill(stamp)) {
                        model.push_back((stamp, len));
                    } else {
                        prop_assert!(model.iter().map(|(_, l)| l).sum::<usize>() + 3 * 40_000 > bound / 2);
                    }
                } else {
                    prop_assert_eq!(log.pop().is_some(), model.pop_front().is_some());
                    log.leave();
                }
                prop_assert!(log.memory() <= bound);
                prop_assert_eq!(log.len(), model.len());
                if !stamp.is_multiple_of(8) {
                    continue;
                }
                let mut seq = log.first();
                let mut seen = 0;
                while seq != log.end() {
                    let (at, len, frames) = log.run(seq, usize::MAX);
                    let mut expected = Vec::new();
                    for (stamp, len) in model.iter().skip(seen).take(frames as usize) {
                        expected.extend(std::iter::repeat_n(*stamp, *len));
                    }
                    prop_assert_eq!(log.bytes(at, len), &expected[..]);
                    seq = seq.wrapping_add(frames);
                    seen += frames as usize;
                }
                prop_assert_eq!(seen, model.len());
            }
        }
    }

    /// Messages and the lines behind them, of which two are under way at any time: no more is touched than three take, however many
    /// there are.
    #[test]
    fn a_log_with_little_under_way_touches_little() {
        const FRAMES: [usize; 2] = [1056, 96];
        let mut log = Log::new(4 << 20, 0, SpareLogs::default());
        for number in 0..1000u32 {
            for len in FRAMES {
                assert!(log.push(len, false, |to| to.fill(number as u8)));
            }
            if number >= 2 {
                for len in FRAMES {
                    let (at, ..) = log.run(log.first(), 1);
                    assert!(log.bytes(at, len).iter().all(|byte| *byte == (number - 2) as u8));
                    assert_eq!(log.pop().map(|entry| entry.len as usize), Some(len));
                }
            }
            assert!(
                log.memory() <= (3 * 1152usize).next_multiple_of(STEP),
                "{} bytes",
                log.memory()
            );
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_unless_forced() {
        let mut log = Log::new(0, 0, SpareLogs::default());
        while log.push(30_000, false, |_| ()) {}
        let before = log.len();
        assert!(log.memory() <= 256 << 10 && before >= 4);
        assert!(log.push(30_000, true, |_| ()));
        assert_eq!(log.len(), before + 1);
    }

    /// Logs that have nothing under way at the same time take turns with the same memory, which is as much as a frame needs.
    #[test]
    fn what_an_empty_log_does_not_need_is_left_to_others() {
        let spare = SpareLogs::default();
        let mut logs: Vec<_> = (0..50).map(|_| Log::new(0, 0, spare.clone())).collect();
        for (at, log) in logs.iter_mut().enumerate() {
            assert!(log.push(1200, false, |to| to.fill(at as u8)));
            assert!(
                log.memory() <= 1200usize.next_multiple_of(STEP),
                "{} bytes",
                log.memory()
            );
            let (position, len, _) = log.run(log.first(), usize::MAX);
            assert_eq!(log.bytes(position, len), [at as u8; 1200]);
            log.pop();
            log.leave();
            assert_eq!(log.memory(), 0);
        }
        assert!(
            (1200..2000).contains(&spare.bytes()),
            "{} bytes for 50 logs",
            spare.bytes()
        );
        assert!(spare.take_used() && !spare.take_used());
        assert!(spare.free() >= 1200 && spare.bytes() == 0);
        // All at once: each has its own.
        for (at, log) in logs.iter_mut().enumerate() {
            assert!(log.push(1200, false, |to| to.fill(at as u8)));
        }
        for (at, log) in logs.iter_mut().enumerate() {
            let (position, len, _) = log.run(log.first(), usize::MAX);
            assert_eq!(log.bytes(position, len), [at as u8; 1200]);
        }
    }
}
