//! Publishing in shared memory: what others are to find is written first and shown last, and what is taken back is hidden
//! before it is written over. The one place where that order is made; the shared-memory fabric's tables stand on it, and
//! memory is exported in the same order ([`RemoteMemory::export_with`](crate::RemoteMemory::export_with)).
//!
//! Cost class: *set-up path*.

use crate::sync::{AtomicU64, Ordering, fence};

/// Of the word: which it is, plus 1; 0 while nothing is shown. Above: how often something was shown.
const KEY: u64 = (1 << ROUND) - 1;
const ROUND: u32 = 33;

/// A word that shows what lies beside it. One process or thread, the owner, writes both; any other may read.
///
/// All zero it shows nothing. Each time that something is shown has a number, so that a reader who finds the same key
/// twice knows whether what it read between belongs together.
#[repr(transparent)]
pub struct Shown(AtomicU64);

/// What a reader has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View(u64);

impl View {
    /// What was shown.
    pub fn key(self) -> u32 {
        ((self.0 & KEY) - 1) as u32
    }
}

impl Shown {
    /// Showing nothing.
    #[cfg(test)]
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Owner: whether something is shown.
    pub fn is_shown(&self) -> bool {
        self.0.load(Ordering::Relaxed) & KEY != 0
    }

    /// Owner: show as `key` what was written beside it since it was hidden.
    pub fn show(&self, key: u32) {
        let round = (self.0.load(Ordering::Relaxed) >> ROUND).wrapping_add(1);
        self.0
            .store(round << ROUND | (u64::from(key) + 1), Ordering::Release);
    }

    /// Owner: nobody finds it from now on, and what lies beside it may be written over: who sees anything of that sees also
    /// that it was hidden.
    pub fn hide(&self) {
        let word = self.0.load(Ordering::Relaxed);
        self.0.store(word & !KEY, Ordering::Relaxed);
        fence(Ordering::Release);
    }

    /// What is shown, if anything. What lies beside it may be read after this, and holds if [`still`](Self::still) says so.
    pub fn view(&self) -> Option<View> {
        let word = self.0.load(Ordering::Acquire);
        // The key's largest value is 2^32; what another process wrote may be anything.
        (word & KEY != 0 && word & KEY <= 1 << 32).then_some(View(word))
    }

    /// Whether it has been shown all the time since `view`, so that what was read between belongs together.
    pub fn still(&self, view: View) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == view.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_and_nothing_else() {
        let shown = Shown::new();
        assert_eq!(shown.view(), None);
        for key in [0, 1, 7, u32::MAX] {
            shown.show(key);
            let view = shown.view().expect("shown");
            assert!(view.key() == key && shown.still(view) && shown.is_shown());
            shown.hide();
            assert!(shown.view().is_none() && !shown.still(view) && !shown.is_shown());
            // The same again is another one.
            shown.show(key);
            assert!(!shown.still(view) && shown.view().is_some_and(|again| again.key() == key));
            shown.hide();
        }
        // What no owner writes is nothing that is shown.
        shown.0.store(KEY, Ordering::Relaxed);
        assert_eq!(shown.view(), None);
        // Rounds that have run out begin again.
        shown.0.store(!KEY, Ordering::Relaxed);
        shown.show(3);
        assert_eq!(shown.view().map(View::key), Some(3));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A table's entry: two words that belong together.
    struct Entry {
        shown: Shown,
        words: [AtomicU64; 2],
    }

    impl Entry {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                shown: Shown::new(),
                words: [AtomicU64::new(0), AtomicU64::new(0)],
            })
        }

        fn publish(&self, key: u32, value: u64) {
            for word in &self.words {
                word.store(value, Ordering::Relaxed);
            }
            self.shown.show(key);
        }

        fn find(&self) -> Option<(u32, [u64; 2])> {
            let view = self.shown.view()?;
            let words = [0, 1].map(|at: usize| self.words[at].load(Ordering::Relaxed));
            self.shown.still(view).then_some((view.key(), words))
        }
    }

    #[test]
    fn loom_who_finds_what_is_published_finds_it_written() {
        loom::model(|| {
            let entry = Entry::new();
            let owner = thread::spawn({
                let entry = Arc::clone(&entry);
                move || entry.publish(0, 7)
            });
            if let Some(found) = entry.find() {
                assert_eq!(found, (0, [7, 7]));
            }
            owner.join().unwrap();
            assert_eq!(entry.find(), Some((0, [7, 7])));
        });
    }

    #[test]
    fn loom_what_takes_the_place_of_another_is_not_mixed_with_it() {
        loom::model(|| {
            let entry = Entry::new();
            entry.publish(5, 1);
            let owner = thread::spawn({
                let entry = Arc::clone(&entry);
                move || {
                    // The same key again: what a reader compares may not be the key alone.
                    entry.shown.hide();
                    entry.publish(5, 2);
                }
            });
            if let Some((key, words)) = entry.find() {
                assert!(key == 5 && words[0] == words[1], "{words:?}");
            }
            owner.join().unwrap();
            assert_eq!(entry.find(), Some((5, [2, 2])));
        });
    }
}
