//! Where a process shows its record: words in shared memory with one writer and any number of readers, which a count of versions keeps
//! from seeing half of a record (a sequence lock). The writer never waits; a reader gives up after some tries, for a writer may have
//! been killed in the middle.

use farpost_fabric::sync::{AtomicU64, Ordering, fence, spin_loop};

/// The count of versions; odd while the record is being written.
const VERSION: usize = 0;
/// How many words of record follow; 0: there is no record.
const LEN: usize = 1;
const DATA: usize = 2;
/// Words of a slot that are no record.
pub const BESIDE: usize = DATA;
/// How often a reader tries.
const TRIES: u32 = if cfg!(loom) { 2 } else { 1000 };

/// A slot in memory that others see. All zero: there is no record.
#[derive(Clone, Copy)]
pub struct Slot<'a>(&'a [AtomicU64]);

/// Why there is nothing to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It was being written at each try.
    Busy,
    /// Its length cannot be right.
    Length(u64),
}

impl<'a> Slot<'a> {
    /// A slot in `words`.
    ///
    /// # Panics
    /// When there is no room for any record.
    pub fn new(words: &'a [AtomicU64]) -> Self {
        assert!(words.len() > BESIDE, "a slot of {} words", words.len());
        Self(words)
    }

    /// Words of the longest record.
    pub fn room(&self) -> usize {
        self.0.len() - BESIDE
    }

    /// Show `record`, as much of it as there is room for; an empty one is none. For the one writer.
    pub fn write(&self, record: &[u64]) {
        let record = &record[..record.len().min(self.room())];
        // A predecessor that was killed in the middle left an odd count.
        let before = self.0[VERSION].load(Ordering::Relaxed) & !1;
        self.0[VERSION].store(before.wrapping_add(1), Ordering::Relaxed);
        // Nobody sees what follows and not the odd count.
        fence(Ordering::Release);
        self.0[LEN].store(record.len() as u64, Ordering::Relaxed);
        for (to, word) in self.0[DATA..].iter().zip(record) {
            to.store(*word, Ordering::Relaxed);
        }
        self.0[VERSION].store(before.wrapping_add(2), Ordering::Release);
    }

    /// The record that is shown; an empty one is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self) -> Result<Vec<u64>, Unreadable> {
        for _ in 0..TRIES {
            let before = self.0[VERSION].load(Ordering::Acquire);
            if before & 1 == 0 {
                let len = self.0[LEN].load(Ordering::Relaxed);
                let words = self.0[DATA..].iter().take(len.min(self.room() as u64) as usize);
                let record: Vec<u64> = words.map(|word| word.load(Ordering::Relaxed)).collect();
                // What was read above is not newer than the count below.
                fence(Ordering::Acquire);
                if self.0[VERSION].load(Ordering::Relaxed) == before {
                    if len > self.room() as u64 {
                        return Err(Unreadable::Length(len));
                    }
                    return Ok(record);
                }
            }
            spin_loop();
        }
        Err(Unreadable::Busy)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn memory(words: usize) -> Vec<AtomicU64> {
        (0..words).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn what_was_written_is_read() {
        let memory = memory(6);
        let slot = Slot::new(&memory);
        assert_eq!(slot.read(), Ok(vec![]));
        slot.write(&[1, 2, 3]);
        assert_eq!(slot.read(), Ok(vec![1, 2, 3]));
        slot.write(&[9; 7]);
        assert_eq!(slot.read(), Ok(vec![9; 4]), "as much as there is room for");
        slot.write(&[]);
        assert_eq!(slot.read(), Ok(vec![]));
    }

    #[test]
    fn damage_is_noticed_and_written_over() {
        let memory = memory(6);
        let slot = Slot::new(&memory);
        memory[VERSION].store(7, Ordering::Relaxed);
        assert_eq!(slot.read(), Err(Unreadable::Busy), "its writer was killed");
        slot.write(&[1]);
        assert_eq!(slot.read(), Ok(vec![1]));
        memory[LEN].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(slot.read(), Err(Unreadable::Length(u64::MAX)));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A reader sees a record as a whole, or none, or that it is busy, whenever it looks.
    #[test]
    fn loom_a_record_is_seen_whole() {
        loom::model(|| {
            let memory: Arc<Vec<AtomicU64>> = Arc::new((0..4).map(|_| AtomicU64::new(0)).collect());
            let writer = thread::spawn({
                let memory = Arc::clone(&memory);
                move || {
                    let slot = Slot::new(&memory);
                    slot.write(&[1, 1]);
                    slot.write(&[2]);
                }
            });
            match Slot::new(&memory).read() {
                Err(Unreadable::Busy) => {}
                Ok(record) => assert!([&[][..], &[1, 1], &[2]].contains(&&record[..]), "{record:?}"),
                Err(other) => panic!("{other:?}"),
            }
            writer.join().unwrap();
            assert_eq!(Slot::new(&memory).read(), Ok(vec![2]));
        });
    }
}
