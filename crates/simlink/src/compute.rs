//! What a program computes between calls, in virtual time.
//!
//! Each of its threads computes by itself; the library's own threads, which call nothing, do not. What threads compute is the process's, one after the
//! other: a process has one clock.

use crate::time::Ps;
use crate::wire::Compute;
use perf_event::events::Hardware;
use perf_event::{Builder, Counter};
use rustix::thread::gettid;
use std::path::Path;
use std::thread::{self, ThreadId};

/// A number that only grows while this thread runs.
pub trait Count {
    /// The number now.
    fn count(&mut self) -> u64;
}

/// Processor time of this thread, nanoseconds.
struct Processor;

impl Count for Processor {
    fn count(&mut self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// Instructions of this thread outside of the kernel.
pub struct Instructions(Counter);

impl Instructions {
    /// From now on they are counted.
    ///
    /// # Errors
    /// A sentence: the system counts none.
    pub fn begin() -> Result<Self, String> {
        let refused = |error: std::io::Error| {
            let why = match error.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => " (sysctl kernel.perf_event_paranoid decides who may)",
                Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
                    " (its processor, or virtual machine, has no counter)"
                }
                _ => "",
            };
            format!("this system counts no instructions: perf_event_open says {error}{why}")
        };
        let mut builder = Builder::new(Hardware::INSTRUCTIONS);
        builder.exclude_kernel(true).exclude_hv(true);
        let mut counter = builder.build().map_err(refused)?;
        counter.enable().map_err(refused)?;
        Ok(Self(counter))
    }
}

impl Count for Instructions {
    fn count(&mut self) -> u64 {
        // The descriptor is this process's own and open, so it can be read.
        self.0.read().unwrap_or_default()
    }
}

/// What is counted of one thread.
struct Meter {
    thread: ThreadId,
    /// The system's number of it, which another thread may have after its end.
    number: i32,
    count: Box<dyn Count>,
    /// The count at about the end of the last call.
    last: u64,
}

impl Meter {
    /// Of this thread, from now on.
    fn begin(mut count: Box<dyn Count>) -> Self {
        Self {
            thread: thread::current().id(),
            number: gettid().as_raw_nonzero().get(),
            last: count.count(),
            count,
        }
    }

    fn is_there(&self) -> bool {
        Path::new(&format!("/proc/self/task/{}", self.number)).exists()
    }
}

/// What counts for the thread that asks for it.
type Make = Box<dyn Fn() -> Result<Box<dyn Count>, String>>;

/// The time of what the program does between calls, by what is counted meanwhile in each of its threads.
pub struct Meters {
    /// `None`: the one that is there counts for all.
    make: Option<Make>,
    /// Virtual picoseconds for each that is counted.
    each: f64,
    /// Of threads that have called.
    meters: Vec<Meter>,
}

impl Meters {
    /// As is wished; of this thread from now on. `None`: computing takes nothing.
    ///
    /// # Errors
    /// A sentence: what is to be counted is not.
    pub fn new(wished: Compute) -> Result<Option<Self>, String> {
        let (make, each): (Make, f64) = match wished {
            Compute::Nothing => return Ok(None),
            Compute::Measured(factor) => (Box::new(|| Ok(Box::new(Processor))), 1e3 * factor),
            Compute::Counted(megahertz) => {
                (Box::new(|| Ok(Box::new(Instructions::begin()?))), 1e6 / megahertz)
            }
        };
        Self::by(make, each).map(Some)
    }

    /// By what counts instructions for all, one a cycle of so many megahertz.
    pub fn shared(count: Box<dyn Count>, megahertz: f64) -> Self {
        Self {
            make: None,
            each: 1e6 / megahertz,
            meters: vec![Meter::begin(count)],
        }
    }

    /// So many picoseconds for each that is counted.
    fn by(make: Make, each: f64) -> Result<Self, String> {
        let meters = vec![Meter::begin(make()?)];
        Ok(Self {
            make: Some(make),
            each,
            meters,
        })
    }

    /// That of this thread, if it has called before.
    fn mine(&mut self) -> Option<&mut Meter> {
        if self.make.is_none() {
            return self.meters.first_mut();
        }
        let me = thread::current().id();
        self.meters.iter_mut().find(|meter| meter.thread == me)
    }

    /// What comes from now on is the program's, where this thread is one of the program's.
    pub fn call_ends(&mut self) {
        if let Some(meter) = self.mine() {
            meter.last = meter.count.count();
        }
    }

    /// A call begins in this thread: what the program has done in it since its last one's end. What a further thread did before its first is not known.
    pub fn call_begins(&mut self) -> Ps {
        let Some(meter) = self.mine() else {
            self.know();
            return Ps::ZERO;
        };
        let before = std::mem::replace(&mut meter.last, meter.count.count());
        let counted = meter.last.saturating_sub(before);
        Ps((counted as f64 * self.each).round() as u64)
    }

    /// This thread calls for the first time; those that have ended are forgotten.
    #[cold]
    fn know(&mut self) {
        self.meters.retain(Meter::is_there);
        // What has been counted for one thread is for another, but for a lack of descriptors: then it computes nothing.
        if let Some(Ok(count)) = self.make.as_ref().map(|make| make()) {
            self.meters.push(Meter::begin(count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::{Arc, Mutex};

    thread_local! {
        /// What has been counted of this thread.
        static COUNTED: Cell<u64> = const { Cell::new(1_000_000) };
    }

    struct Fake;

    impl Count for Fake {
        fn count(&mut self) -> u64 {
            COUNTED.get()
        }
    }

    fn counts(more: u64) {
        COUNTED.set(COUNTED.get() + more);
    }

    fn fake(each: f64) -> Meters {
        Meters::by(Box::new(|| Ok(Box::new(Fake))), each).expect("it begins")
    }

    #[test]
    fn instructions_between_calls_take_a_cycle_each() {
        // At 200 MHz an instruction takes 5 ns.
        let mut meters = fake(1e6 / 200.0);
        counts(3);
        assert_eq!(meters.call_begins(), Ps::from_nanos(15));
        // The call's own.
        counts(1000);
        meters.call_ends();
        counts(2);
        assert_eq!(meters.call_begins(), Ps::from_nanos(10));
        assert_eq!(meters.call_begins(), Ps::ZERO);
    }

    #[test]
    fn a_count_that_falls_is_no_time() {
        let mut meters = fake(1.0);
        COUNTED.set(0);
        assert_eq!(meters.call_begins(), Ps::ZERO);
    }

    /// The meters may be where any thread of a process is that has the library.
    struct Moved(Meters);
    // SAFETY: what is counted here is plain.
    unsafe impl Send for Moved {}

    #[test]
    fn a_thread_computes_what_it_has_computed_and_no_other_has() {
        let meters = Arc::new(Mutex::new(Moved(fake(1.0))));
        let with =
            |meters: &Mutex<Moved>, look: fn(&mut Meters) -> Ps| look(&mut meters.lock().expect("free").0);
        let ends = |meters: &mut Meters| {
            meters.call_ends();
            Ps::ZERO
        };
        counts(5);
        // The library's own thread has had an answer, and a thread of the program has come and computed more than this one.
        let theirs = Arc::clone(&meters);
        thread::spawn(move || {
            counts(7_000_000);
            with(&theirs, ends);
        })
        .join()
        .expect("no panic");
        let theirs = Arc::clone(&meters);
        thread::spawn(move || {
            counts(9_000_000);
            assert_eq!(
                with(&theirs, Meters::call_begins),
                Ps::ZERO,
                "it is not known since when"
            );
            counts(3);
            assert_eq!(with(&theirs, Meters::call_begins), Ps(3));
        })
        .join()
        .expect("no panic");
        assert_eq!(with(&meters, Meters::call_begins), Ps(5));
    }

    #[test]
    fn threads_that_have_ended_are_forgotten() {
        let meters = Arc::new(Mutex::new(Moved(fake(1.0))));
        for _ in 0..20 {
            let theirs = Arc::clone(&meters);
            let call = move || theirs.lock().expect("free").0.call_begins();
            thread::spawn(call).join().expect("no panic");
        }
        // The last one may have had an earlier one's number, and may not have quite ended.
        let known = meters.lock().expect("free").0.meters.len();
        assert!(known < 10, "{known}");
    }

    #[test]
    fn computing_takes_nothing_or_what_its_processor_time_says() {
        assert!(Meters::new(Compute::Nothing).expect("nothing to open").is_none());
        let meters = |factor| {
            Meters::new(Compute::Measured(factor))
                .expect("a clock")
                .expect("some")
        };
        let (mut some, mut none) = (meters(1e6), meters(0.0));
        (0..100_000u64).for_each(|number| {
            std::hint::black_box(number);
        });
        assert!(some.call_begins() > Ps::ZERO);
        assert_eq!(none.call_begins(), Ps::ZERO);
    }

    /// Where the system counts, more is more; else it is said who refuses.
    #[test]
    fn instructions_are_counted_or_the_refusal_is_a_sentence() {
        match Meters::new(Compute::Counted(1000.0)) {
            Ok(meters) => {
                let mut meters = meters.expect("some");
                let mut of = |turns: u64| {
                    meters.call_ends();
                    (0..turns).for_each(|number| {
                        std::hint::black_box(number);
                    });
                    meters.call_begins()
                };
                let (few, many) = (of(1000), of(1_000_000));
                assert!(few > Ps::ZERO && many > few, "{few} {many}");
            }
            Err(why) => assert!(why.contains("counts no instructions: perf_event_open"), "{why}"),
        }
    }
}
