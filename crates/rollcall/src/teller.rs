//! The side of the process that waits: when a wait has lasted, it is written down; when it ends, the record goes.
//!
//! A wait notes next to nothing until it sleeps, and says nothing until it has slept for [`PATIENCE`]. Polls are counted, and the clock
//! is read once in [`BATCH`] of them.
//!
//! How long a wait sleeps at a time depends on whether it has been written down. On a simulated machine that is decided by
//! virtual time ([`Teller::set_clock`]), so that runs can be repeated.

use crate::clock::{now, used, waited_for_processor};
use crate::record::{Record, WaitMode};
use crate::slot::Slot;
use farpost_fabric::sync::{AtomicU32, Ordering};
use std::cell::Cell;
use std::time::Duration;

/// Waits that are over sooner are not written down.
pub const PATIENCE: Duration = Duration::from_millis(20);
/// Time between two records of a wait.
const AGAIN: Duration = Duration::from_millis(100);
/// Polls that find nothing between two looks at the clock.
const BATCH: u32 = 1024;
/// A program that spends less on the time between two polls does nothing there.
const BETWEEN: Duration = Duration::from_micros(20);

/// What is done now and then by whoever waits for long, with the time. True: what has moved lately may have been its own.
pub type Chore = fn(u64) -> bool;

/// What a process shows others of its waits. For whoever is inside the library.
pub struct Teller {
    slot: Slot<'static>,
    /// Which function the program has called last.
    current: &'static AtomicU32,
    /// Its name.
    name: fn(u32) -> &'static str,
    /// Waits begun.
    waits: Cell<u64>,
    /// Looking after others' records.
    chore: Cell<Option<Chore>>,
    /// Nanoseconds by which waits last, if not the host's.
    clock: Cell<Option<fn() -> u64>>,
}

impl Teller {
    /// One that writes to `slot` and learns from `current` which function is being called.
    pub fn new(slot: Slot<'static>, current: &'static AtomicU32, name: fn(u32) -> &'static str) -> Self {
        slot.write(&[]);
        Self {
            slot,
            current,
            name,
            waits: Cell::new(0),
            chore: Cell::new(None),
            clock: Cell::new(None),
        }
    }

    /// The clock, nanoseconds, by which it is decided how long a wait has lasted: the host's, if this is not called. Records
    /// have the host's time all the same.
    pub fn set_clock(&self, clock: fn() -> u64) {
        self.clock.set(Some(clock));
    }

    /// What a wait does now and then once it has lasted.
    pub fn set_chore(&self, chore: Option<Chore>) {
        self.chore.set(chore);
    }

    /// The function that is being called.
    #[inline]
    pub fn site(&self) -> u32 {
        self.current.load(Ordering::Relaxed)
    }

    /// The name of a function.
    pub fn name(&self, site: u32) -> &'static str {
        (self.name)(site)
    }

    fn show(&self, record: &Record) {
        self.slot.write(&record.encode());
    }

    fn clear(&self) {
        self.slot.write(&[]);
    }
}

/// A wait that may last.
pub struct Noted<'a> {
    teller: Option<&'a Teller>,
    site: u32,
    /// When it slept first; 0: it has not.
    since: u64,
    quiet: u64,
    /// It has been written down.
    written: bool,
    /// When it was last written down, else when it slept first, by the clock that decides.
    last: u64,
    /// At the last look: the host's time, processor time used, waits begun.
    looked: u64,
    used: u64,
    waits: u64,
    moved: bool,
}

impl<'a> Noted<'a> {
    /// A wait begins.
    #[inline]
    pub fn begin(teller: Option<&'a Teller>) -> Self {
        let mut site = 0;
        if let Some(teller) = teller {
            site = teller.site();
            teller.waits.set(teller.waits.get() + 1);
        }
        Self {
            teller,
            site,
            since: 0,
            quiet: 0,
            written: false,
            last: 0,
            looked: 0,
            used: 0,
            waits: 0,
            moved: false,
        }
    }

    /// Something has moved.
    #[inline]
    pub fn moved(&mut self) {
        self.moved = true;
    }

    /// Longest sleep now, of `longest`: a wait that begins to last is soon written down.
    #[inline]
    pub fn nap(&self, longest: Duration) -> Duration {
        if !self.written && self.teller.is_some() {
            longest.min(PATIENCE)
        } else {
            longest
        }
    }

    /// It is about to sleep. `describe` fills in what is waited for.
    #[inline(never)]
    pub fn sleeps(&mut self, describe: impl FnOnce(&mut Record)) {
        let Some(teller) = self.teller else { return };
        let now = now();
        let time = teller.clock.get().map_or(now, |clock| clock());
        if self.since == 0 {
            (self.since, self.quiet, self.looked) = (now, now, now);
            (self.used, self.waits) = (used(), teller.waits.get());
            self.last = time;
            return;
        }
        let after = if self.written { AGAIN } else { PATIENCE };
        if u128::from(time.saturating_sub(self.last)) < after.as_nanos() {
            return;
        }
        // Other threads of this process compute, or wait in turn.
        let (used, others) = (used(), teller.waits.get() != self.waits);
        let works = used.saturating_sub(self.used) > now.saturating_sub(self.looked) / 2;
        (self.looked, self.used, self.waits) = (now, used, teller.waits.get());
        let own = self.written && teller.chore.get().is_some_and(|chore| chore(now));
        if self.moved && !own || others || works {
            self.quiet = now;
        }
        self.moved = false;
        let mut record = Record {
            function: teller.name(self.site).into(),
            since: self.since,
            quiet: self.quiet,
            ..Record::default()
        };
        describe(&mut record);
        teller.show(&record);
        (self.written, self.last) = (true, time);
    }
}

impl Drop for Noted<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.written
            && let Some(teller) = self.teller
        {
            teller.clear();
        }
    }
}

/// Polls in a row that have found nothing.
#[derive(Default)]
pub struct Polls {
    fruitless: Cell<u32>,
    /// Of the last look at the clock: when, processor time used.
    looked: Cell<(u64, u64)>,
    /// How long this thread had waited for a processor then, where little was used.
    waited: Cell<Option<u64>>,
    /// Batches of polls since then.
    batches: Cell<u32>,
    since: Cell<u64>,
    written: Cell<bool>,
}

impl Polls {
    /// A poll has found something.
    #[inline(always)]
    pub fn found(&self, teller: Option<&Teller>) {
        self.fruitless.set(0);
        if self.written.get() {
            self.end(teller);
        }
    }

    /// A poll has found nothing. `describe` fills in what is waited for, now and then.
    #[inline(always)]
    pub fn nothing(&self, teller: Option<&Teller>, describe: impl FnOnce(&mut Record)) {
        let fruitless = self.fruitless.get().wrapping_add(1);
        self.fruitless.set(fruitless);
        if fruitless.is_multiple_of(BATCH) {
            self.look(teller, fruitless == BATCH, describe);
        }
    }

    #[cold]
    #[inline(never)]
    fn end(&self, teller: Option<&Teller>) {
        self.written.set(false);
        if let Some(teller) = teller {
            teller.clear();
        }
    }

    #[cold]
    #[inline(never)]
    fn look(&self, teller: Option<&Teller>, first: bool, describe: impl FnOnce(&mut Record)) {
        let Some(teller) = teller else { return };
        let (now, used) = (now(), used());
        let (before, used_before) = self.looked.replace((now, used));
        let span = now.saturating_sub(before);
        // Who computes between the polls is not stuck; who sleeps between them may be.
        let polls = u128::from(BATCH) * u128::from(self.batches.replace(0) + 1);
        let used = used.saturating_sub(used_before);
        // By the processor's time: who has to leave it to others does no more between its polls for that.
        let often = u128::from(used) < BETWEEN.as_nanos() * polls;
        let waited_before = self.waited.take();
        let sleeps = !often && used < span / 4 && {
            // Little was used; but a processor that others had is no sleep.
            let waited = waited_for_processor();
            self.waited.set(Some(waited));
            waited_before.is_some_and(|before| used + waited.saturating_sub(before) < span / 4)
        };
        if first || !(often || sleeps) {
            self.since.set(now);
            if self.written.replace(false) {
                teller.clear();
            }
            return;
        }
        if span < PATIENCE.as_nanos() as u64 {
            // Too soon to say anything.
            self.looked.set((before, used_before));
            self.waited.set(waited_before);
            self.batches.set((polls / u128::from(BATCH)) as u32);
            return;
        }
        let mut record = Record {
            how: WaitMode::Polls,
            function: teller.name(teller.site()).into(),
            since: self.since.get(),
            quiet: self.since.get(),
            // A program that polls no more computes, for all that is known here.
            until: now + 2 * span + 1_000_000_000,
            ..Record::default()
        };
        describe(&mut record);
        teller.show(&record);
        self.written.set(true);
        if let Some(chore) = teller.chore.get() {
            chore(now);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use farpost_fabric::sync::AtomicU64;

    static FUNCTION: AtomicU32 = AtomicU32::new(0);
    static TIME: AtomicU64 = AtomicU64::new(0);

    fn memory() -> &'static [AtomicU64] {
        Vec::leak((0..64).map(|_| AtomicU64::new(0)).collect())
    }

    #[test]
    fn a_given_clock_decides_how_long_a_wait_has_lasted() {
        let slot = Slot::new(memory());
        let teller = Teller::new(slot, &FUNCTION, |_| "MPI_Recv");
        teller.set_clock(|| TIME.load(Ordering::Relaxed));
        let longest = Duration::from_secs(1);
        let patience = PATIENCE.as_nanos() as u64;
        let mut noted = Noted::begin(Some(&teller));
        noted.sleeps(|_| {});
        // However long the host takes.
        std::thread::sleep(PATIENCE + PATIENCE / 2);
        TIME.store(patience - 1, Ordering::Relaxed);
        noted.sleeps(|_| {});
        assert_eq!((noted.nap(longest), slot.read()), (PATIENCE, Ok(vec![])));
        // And however quickly it goes.
        TIME.store(patience, Ordering::Relaxed);
        noted.sleeps(|_| {});
        assert_eq!(noted.nap(longest), longest);
        assert_ne!(slot.read(), Ok(vec![]));
        drop(noted);
        assert_eq!(slot.read(), Ok(vec![]));
    }
}
