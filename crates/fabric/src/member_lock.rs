//! A lock for many readers or one writer among the members of a group, in words that all of them map. It says who holds it, so that the
//! lock of a member that has died can be taken from it.
//!
//! A writer takes the writer's word and then waits until no reader's bit is set; a reader sets its bit and then looks at the
//! writer's word. One of the two sees the other. A reader that found a writer asks for the lock: writers that come later let
//! it pass. So neither kind starves the other.
//!
//! Cost class: *queued path*, bounded by the members; nobody waits here.

use crate::sync::{AtomicU64, Ordering};

/// Words that all members share, zeroed at first.
pub trait SharedWords {
    /// Word `at`.
    fn word(&self, at: usize) -> &AtomicU64;
}

/// How the lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldKind {
    /// By one alone.
    Exclusive,
    /// By any number.
    Shared,
}

/// Words of a line, so that what is written by different members lies apart.
const LINE: usize = 8;

/// The lock of `size` members.
pub struct MemberLock<W> {
    words: W,
    size: usize,
}

impl<W: SharedWords> MemberLock<W> {
    /// How many words the lock of `size` members takes.
    pub fn words(size: usize) -> usize {
        LINE + 2 * Self::row(size)
    }

    /// Words of a bit for each member, in whole lines.
    fn row(size: usize) -> usize {
        size.div_ceil(64).next_multiple_of(LINE)
    }

    /// Seen from any of the members.
    pub fn new(words: W, size: usize) -> Self {
        Self { words, size }
    }

    fn writer(&self) -> &AtomicU64 {
        self.words.word(0)
    }

    fn reader(&self, group: usize) -> &AtomicU64 {
        self.words.word(LINE + group)
    }

    fn asker(&self, group: usize) -> &AtomicU64 {
        self.words.word(LINE + Self::row(self.size) + group)
    }

    fn groups(&self) -> std::ops::Range<usize> {
        0..self.size.div_ceil(64)
    }

    /// Try again until it is true, or [`withdraw`](Self::withdraw): a member that has tried in vain stands in line.
    pub fn try_lock(&self, kind: HoldKind, member: usize) -> bool {
        let (group, bit) = (member / 64, 1 << (member % 64));
        let me = member as u64 + 1;
        match kind {
            HoldKind::Shared => {
                self.reader(group).fetch_or(bit, Ordering::SeqCst);
                between();
                if self.writer().load(Ordering::SeqCst) == 0 {
                    if self.asker(group).load(Ordering::Relaxed) & bit != 0 {
                        self.asker(group).fetch_and(!bit, Ordering::Relaxed);
                    }
                    return true;
                }
                self.reader(group).fetch_and(!bit, Ordering::SeqCst);
                if self.asker(group).load(Ordering::Relaxed) & bit == 0 {
                    self.asker(group).fetch_or(bit, Ordering::Relaxed);
                }
                false
            }
            HoldKind::Exclusive => {
                if self.writer().load(Ordering::Relaxed) != me {
                    if self
                        .groups()
                        .any(|group| self.asker(group).load(Ordering::Relaxed) != 0)
                    {
                        return false;
                    }
                    let taken = self
                        .writer()
                        .compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed);
                    if taken.is_err() {
                        return false;
                    }
                    between();
                }
                self.groups()
                    .all(|group| self.reader(group).load(Ordering::SeqCst) == 0)
            }
        }
    }

    /// Give it back.
    pub fn unlock(&self, kind: HoldKind, member: usize) {
        match kind {
            HoldKind::Exclusive => self.writer().store(0, Ordering::SeqCst),
            HoldKind::Shared => {
                let bit = 1 << (member % 64);
                self.reader(member / 64).fetch_and(!bit, Ordering::SeqCst);
            }
        }
    }

    /// Leave the line, and give back what is held: of a member that gives up, or that has died.
    pub fn withdraw(&self, member: usize) {
        let (group, bit) = (member / 64, 1 << (member % 64));
        let its = member as u64 + 1;
        // Bits first: a writer that takes its place waits for readers that are there.
        self.asker(group).fetch_and(!bit, Ordering::SeqCst);
        self.reader(group).fetch_and(!bit, Ordering::SeqCst);
        let _ = self
            .writer()
            .compare_exchange(its, 0, Ordering::SeqCst, Ordering::Relaxed);
    }

    /// Whom `member` may be waiting for: who holds the lock or stands in line.
    pub fn others(&self, member: usize) -> Vec<usize> {
        let mut list = Vec::new();
        let writer = self.writer().load(Ordering::Relaxed) as usize;
        list.extend((1..=self.size).contains(&writer).then(|| writer - 1));
        for group in self.groups() {
            let bits = self.reader(group).load(Ordering::Relaxed) | self.asker(group).load(Ordering::Relaxed);
            let members = (0..64).filter(|at| bits >> at & 1 != 0).map(|at| group * 64 + at);
            list.extend(members.filter(|at| *at < self.size));
        }
        list.retain(|other| *other != member);
        list
    }
}

/// Between a write and the look at what the other side writes. The order of both is that of sequential consistency, which loom does not
/// know of accesses, only of fences.
#[inline(always)]
fn between() {
    #[cfg(loom)]
    crate::sync::fence(Ordering::SeqCst);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::HoldKind::{Exclusive, Shared};
    use super::*;

    impl SharedWords for &Vec<AtomicU64> {
        fn word(&self, at: usize) -> &AtomicU64 {
            &self[at]
        }
    }

    fn words(size: usize) -> Vec<AtomicU64> {
        let count = MemberLock::<&Vec<AtomicU64>>::words(size);
        (0..count).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn writers_exclude_all_and_neither_kind_starves() {
        let words = words(130);
        let lock = MemberLock::new(&words, 130);
        assert!(lock.try_lock(Shared, 0) && lock.try_lock(Shared, 129));
        // The writer stands in line, and readers that come later wait for it.
        assert!(!lock.try_lock(Exclusive, 2) && !lock.try_lock(Shared, 3) && !lock.try_lock(Exclusive, 4));
        assert_eq!(lock.others(4), [2, 0, 3, 129]);
        lock.unlock(Shared, 0);
        assert!(!lock.try_lock(Exclusive, 2));
        lock.unlock(Shared, 129);
        assert!(lock.try_lock(Exclusive, 2) && !lock.try_lock(Shared, 3));
        lock.unlock(Exclusive, 2);
        // A reader has asked: it is before the writers that come now.
        assert!(!lock.try_lock(Exclusive, 4) && lock.try_lock(Shared, 3) && !lock.try_lock(Exclusive, 4));
        lock.unlock(Shared, 3);
        assert!(lock.try_lock(Exclusive, 4));
        lock.unlock(Exclusive, 4);
        assert!(lock.others(0).is_empty());
    }

    #[test]
    fn what_the_dead_held_is_free() {
        let words = words(3);
        let lock = MemberLock::new(&words, 3);
        assert!(lock.try_lock(Exclusive, 0) && !lock.try_lock(Shared, 1));
        lock.withdraw(0);
        assert!(lock.try_lock(Shared, 1) && !lock.try_lock(Exclusive, 2));
        lock.withdraw(1);
        assert!(lock.try_lock(Exclusive, 2));
        // Who has nothing loses nothing of others.
        lock.withdraw(1);
        assert!(!lock.try_lock(Shared, 0));
        assert_eq!(lock.others(1), [2, 0]);
        lock.withdraw(0);
        lock.unlock(Exclusive, 2);
        assert!(lock.others(1).is_empty());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    struct Memory {
        words: Vec<AtomicU64>,
        guarded: UnsafeCell<u32>,
    }

    struct View(Arc<Memory>);

    impl SharedWords for View {
        fn word(&self, at: usize) -> &AtomicU64 {
            // Lines have eight words, of which each part uses its first.
            &self.0.words[at / LINE]
        }
    }

    fn part(memory: &Arc<Memory>, kind: HoldKind, member: usize) -> bool {
        let lock = MemberLock::new(View(Arc::clone(memory)), 2);
        for _ in 0..3 {
            if lock.try_lock(kind, member) {
                match kind {
                    // SAFETY: loom fails if anybody else looks meanwhile.
                    HoldKind::Exclusive => memory.guarded.with_mut(|at| unsafe { *at += 1 }),
                    // SAFETY: as above.
                    HoldKind::Shared => memory.guarded.with(|at| assert!(unsafe { *at } <= 2)),
                }
                lock.unlock(kind, member);
                return true;
            }
            loom::thread::yield_now();
        }
        lock.withdraw(member);
        false
    }

    fn model(kinds: [HoldKind; 2]) {
        loom::model(move || {
            let memory = Arc::new(Memory {
                words: (0..3).map(|_| AtomicU64::new(0)).collect(),
                guarded: UnsafeCell::new(0),
            });
            let other = Arc::clone(&memory);
            let thread = loom::thread::spawn(move || part(&other, kinds[1], 1));
            part(&memory, kinds[0], 0);
            thread.join().unwrap();
            let lock = MemberLock::new(View(Arc::clone(&memory)), 2);
            assert!(lock.try_lock(HoldKind::Exclusive, 0), "all is given back");
        });
    }

    #[test]
    fn loom_writer_and_reader_exclude_each_other() {
        model([HoldKind::Exclusive, HoldKind::Shared]);
    }

    #[test]
    fn loom_writers_exclude_each_other() {
        model([HoldKind::Exclusive, HoldKind::Exclusive]);
    }
}
