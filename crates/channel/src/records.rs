//! Queues of records in memory that the reader exports and the writer puts lines to, so that they work on every fabric and neither side
//! can do the other harm: for two processes that tell each other things of many kinds and lengths.
//!
//! A record is one line or several. The first word of line *n* holds *n* + 1 in its low half; that of a record's first line
//! also the kind (bits 32 to 40), the number of lines (40 to 48) and a small number (48 to 64). A line arrives whole, so a reader that finds
//! the number finds the rest (this is [`Lines`]' promise, which is model-checked where it is implemented). The reader copies a record before
//! it looks at it, and tells how far it is on a line of the writer's, whose place is the caller's affair; a number that cannot be is not
//! believed.
//!
//! Cost class: queued path.

use farpost_fabric::{FabricError, LINE_BYTES, Line, Lines, LocalMemory, Remote};

/// Most lines of a record.
pub const MAX_LINES: usize = 160;
/// Words of a line that carry something.
const WORDS: usize = 7;
/// Most words of a record.
pub const RECORD: usize = MAX_LINES * WORDS;

/// A value that cannot be: what it was to be, and it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What it was to be.
    pub what: &'static str,
    /// It.
    pub value: u64,
}

/// Lines that a record of so many words takes.
pub const fn lines_of(words: usize) -> u32 {
    let lines = words.div_ceil(WORDS);
    if lines == 0 { 1 } else { lines as u32 }
}

#[inline]
fn tag(number: u32) -> u32 {
    number.wrapping_add(1)
}

/// A record's first word beside its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Title {
    /// What it is.
    pub kind: u8,
    /// A small number of it.
    pub aux: u16,
}

/// The reading end, at home.
pub struct Reader<L> {
    lines: L,
    count: u32,
    next: u32,
    words: Vec<u64>,
}

impl<L: Lines> Reader<L> {
    /// The queue of `count` lines, a power of two, at `offset`. *Set-up path*.
    ///
    /// # Panics
    /// When `count` is no power of two, or the lines leave the memory.
    pub fn new<M: LocalMemory<Lines = L>>(memory: &M, offset: usize, count: u32) -> Self {
        Self {
            lines: memory.lines(offset, count),
            count,
            next: 0,
            words: Vec::with_capacity(RECORD),
        }
    }

    /// Lines taken so far, modulo 2^32.
    pub fn taken(&self) -> u32 {
        self.next
    }

    /// Whether a record, or its beginning, waits.
    #[inline]
    pub fn waits(&self) -> bool {
        self.lines.first(self.next) as u32 == tag(self.next)
    }

    /// What kind of record waits.
    #[inline]
    pub fn kind(&self) -> Option<u8> {
        let word = self.lines.first(self.next);
        (word as u32 == tag(self.next)).then_some((word >> 32) as u8)
    }

    /// The next record's title and words, once all of it is there.
    ///
    /// # Errors
    /// Its length cannot be. The queue is of no use any more.
    #[inline]
    pub fn take(&mut self) -> Result<Option<(Title, &[u64])>, Malformed> {
        let mut words = std::mem::take(&mut self.words);
        let taken = self.take_into(&mut words);
        self.words = words;
        Ok(taken?.map(|title| (title, &self.words[..])))
    }

    /// As [`take`](Self::take), with the words in `words`.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    #[inline]
    pub fn take_into(&mut self, words: &mut Vec<u64>) -> Result<Option<Title>, Malformed> {
        if !self.waits() {
            return Ok(None);
        }
        let first = self.lines.line(self.next);
        let title = Title {
            kind: (first[0] >> 32) as u8,
            aux: (first[0] >> 48) as u16,
        };
        let count = (first[0] >> 40) as u8;
        if count == 0 || usize::from(count) > MAX_LINES || u32::from(count) > self.count {
            return Err(Malformed {
                what: "the length of a record",
                value: u64::from(count),
            });
        }
        let count = u32::from(count);
        for further in 1..count {
            let number = self.next.wrapping_add(further);
            if self.lines.first(number) as u32 != tag(number) {
                return Ok(None);
            }
        }
        words.clear();
        words.extend_from_slice(&first[1..]);
        for further in 1..count {
            let line = self.lines.line(self.next.wrapping_add(further));
            words.extend_from_slice(&line[1..]);
        }
        self.next = self.next.wrapping_add(count);
        Ok(Some(title))
    }
}

/// The writing end, in a peer's memory.
pub struct Writer<R> {
    import: R,
    offset: usize,
    count: u32,
    written: u32,
    taken: u32,
}

impl<R: Remote + Clone> Writer<R> {
    /// The queue of `count` lines, a power of two, at `offset`, of which `written` have been written and taken before. *Set-up path*.
    ///
    /// # Panics
    /// When `count` is no power of two: a line's place would not follow from its number, which wraps. Or when the lines leave the
    /// segment.
    pub fn new(import: &R, offset: usize, count: u32, written: u32) -> Self {
        assert!(count.is_power_of_two(), "{count} lines are no power of two");
        assert!(
            offset + count as usize * LINE_BYTES <= import.len(),
            "{count} lines at {offset} of a segment of {} bytes",
            import.len()
        );
        Self {
            import: import.clone(),
            offset,
            count,
            written,
            taken: written,
        }
    }

    /// Lines that may be written.
    #[inline]
    pub fn room(&self) -> u32 {
        self.count - self.written.wrapping_sub(self.taken)
    }

    /// Lines that the reader has taken, as far as it has told, modulo 2^32.
    pub fn taken(&self) -> u32 {
        self.taken
    }

    /// Whether it has taken all.
    pub fn is_empty(&self) -> bool {
        self.taken == self.written
    }

    /// Lines written so far, modulo 2^32.
    pub fn written(&self) -> u32 {
        self.written
    }

    /// What the reader says it has taken. What cannot be is not believed.
    #[inline]
    pub fn told(&mut self, taken: u32) {
        if self.written.wrapping_sub(taken) <= self.written.wrapping_sub(self.taken) {
            self.taken = taken;
        }
    }

    /// Write a record. False: there is no room, and nothing was written.
    ///
    /// # Errors
    /// As of [`put_line`](Remote::put_line): the reader is gone, or may not be written to. The record counts as not written,
    /// though lines of it may have gone; the queue is of no use any more. Errors of lines under way may surface at the import's next
    /// fence only.
    ///
    /// # Panics
    /// With more than [`RECORD`] words.
    #[inline]
    pub fn put(&mut self, title: Title, words: &[u64]) -> Result<bool, FabricError> {
        let lines = lines_of(words.len());
        assert!(lines as usize <= MAX_LINES, "a record of {lines} lines");
        if self.room() < lines {
            return Ok(false);
        }
        // The first line last: who finds it finds the rest where lines arrive in order.
        for index in (0..lines).rev() {
            let number = self.written.wrapping_add(index);
            let mut line: Line = [0; 8];
            line[0] = u64::from(tag(number));
            if index == 0 {
                line[0] |= u64::from(title.kind) << 32 | u64::from(lines) << 40 | u64::from(title.aux) << 48;
            }
            let from = (index as usize * WORDS).min(words.len());
            let part = &words[from..(from + WORDS).min(words.len())];
            line[1..=part.len()].copy_from_slice(part);
            let at = self.offset + (number & (self.count - 1)) as usize * LINE_BYTES;
            self.import.put_line(at, &line)?;
        }
        self.written = self.written.wrapping_add(lines);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farpost_fabric::inproc::{Config, Network};
    use farpost_fabric::{Access, Fabric, Peer, Permission, RemoteMemory, SegmentId};

    /// A short queue, behind a longer one.
    const SHORT: u32 = 16;
    const SHORT_AT: usize = LONG_AT + 256 * LINE_BYTES;
    const LONG_AT: usize = 2 * LINE_BYTES;
    const BYTES: usize = SHORT_AT + SHORT as usize * LINE_BYTES;

    #[test]
    fn records_arrive_whole_and_in_order_whatever_overtakes_what() {
        for seed in 0..20 {
            let ends = Network::new(2, seed, Config::default());
            let (id, bytes) = (SegmentId(1), BYTES);
            let access = Access::Everyone(Permission::ReadWrite);
            let memory = ends[0].export(id, bytes, access).expect("exported");
            let import = ends[1]
                .import(Peer(0), id, bytes, Permission::ReadWrite)
                .expect("imported");
            let mut reader = Reader::new(&memory, SHORT_AT, SHORT);
            let mut writer = Writer::new(&import, SHORT_AT, SHORT, 0);
            let mut rng = fastrand::Rng::with_seed(seed);
            let (mut written, mut taken) = (0u64, 0u64);
            while taken < 200 {
                let words: Vec<u64> = (0..written % 30).map(|i| written * 100 + i).collect();
                let title = Title {
                    kind: written as u8,
                    aux: written as u16,
                };
                written += u64::from(writer.put(title, &words).expect("put"));
                ends[0].progress();
                if rng.bool() {
                    let _ = import.get(0, &mut [0]);
                }
                while let Some((title, words)) = reader.take().expect("good records") {
                    assert_eq!((title.kind, title.aux), (taken as u8, taken as u16));
                    let expected = (0..taken % 30).map(|i| taken * 100 + i);
                    assert!(words.iter().copied().zip(expected.clone()).all(|(a, b)| a == b));
                    assert!(words.len() >= expected.count());
                    taken += 1;
                }
                writer.told(reader.taken());
                // A malformed message is not believed.
                writer.told(reader.taken().wrapping_sub(1));
                writer.told(reader.taken().wrapping_add(1000));
                import.fence().expect("arrived");
            }
        }
    }

    /// A writer of `count` lines at `offset`.
    fn writer_of(offset: usize, count: u32) {
        let ends = Network::new(2, 1, Config::default());
        let access = Access::Everyone(Permission::ReadWrite);
        ends[0].export(SegmentId(1), BYTES, access).expect("exported");
        let import = ends[1].import(Peer(0), SegmentId(1), BYTES, Permission::ReadWrite);
        Writer::new(&import.expect("imported"), offset, count, 0);
    }

    #[test]
    #[should_panic(expected = "12 lines are no power of two")]
    fn a_queue_has_a_power_of_two_of_lines() {
        writer_of(SHORT_AT, SHORT);
        writer_of(SHORT_AT, 12);
    }

    #[test]
    #[should_panic(expected = "32 lines at 16512 of a segment of 17536 bytes")]
    fn a_queue_lies_within_its_segment() {
        writer_of(SHORT_AT, 2 * SHORT);
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        for count in [0u64, 17, 161, 255] {
            let ends = Network::new(1, 1, Config::default());
            let access = Access::Everyone(Permission::ReadWrite);
            let memory = ends[0].export(SegmentId(1), BYTES, access).expect("exported");
            let mut reader = Reader::new(&memory, SHORT_AT, SHORT);
            memory.store(SHORT_AT, 1 | count << 40);
            assert_eq!(reader.take().expect_err("no such length").value, count);
        }
    }

    /// Any bytes at all in the queue: records within its bounds, or a complaint, and an end to either.
    #[test]
    fn whatever_is_written_is_read_within_bounds() {
        for seed in 0..3000u64 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let ends = Network::new(1, seed, Config::default());
            let access = Access::Everyone(Permission::ReadWrite);
            let memory = ends[0].export(SegmentId(1), BYTES, access).expect("exported");
            let (offset, count) = match seed % 2 {
                0 => (SHORT_AT, SHORT),
                _ => (LONG_AT, 256),
            };
            // Mostly with numbers that fit, or nothing would be looked at.
            for number in 0..count {
                let mut line = [0; 8].map(|_: u64| rng.u64(..));
                let kind = rng.u64(..) << 32;
                line[0] = match rng.u8(..20) {
                    0 => rng.u64(..),
                    1 => u64::from(tag(number)) | kind,
                    _ => u64::from(tag(number)) | (kind & !(0xff << 40)) | rng.u64(1..4) << 40,
                };
                memory.store_line(offset + number as usize * LINE_BYTES, &line);
            }
            let mut reader = Reader::new(&memory, offset, count);
            let mut lines = 0;
            while let Ok(Some((_, words))) = reader.take() {
                assert!(!words.is_empty() && words.len() <= RECORD && words.len().is_multiple_of(WORDS));
                lines += (words.len() / WORDS) as u32;
                assert_eq!(reader.taken(), lines);
                assert!(lines <= count, "a line is not read twice");
            }
        }
    }
}
