//! What a program computes between calls, in virtual time.

use crate::time::Ps;
use crate::wire::Compute;
use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

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

/// The time of what the program does between calls, by what is counted meanwhile.
pub struct Meter {
    count: Box<dyn Count>,
    /// Virtual picoseconds for each.
    each: f64,
    /// The count at about the end of the last call.
    last: u64,
}

impl Meter {
    /// As is wished. `None`: computing takes nothing.
    ///
    /// # Errors
    /// A sentence: what is to be counted is not.
    pub fn new(wished: Compute) -> Result<Option<Self>, String> {
        Ok(match wished {
            Compute::Nothing => None,
            Compute::Measured(factor) => Some(Self::by(Box::new(Processor), 1e3 * factor)),
            Compute::Counted(megahertz) => Some(Self::counted(Box::new(Instructions::begin()?), megahertz)),
        })
    }

    /// By what counts instructions, one a cycle of so many megahertz.
    pub fn counted(count: Box<dyn Count>, megahertz: f64) -> Self {
        Self::by(count, 1e6 / megahertz)
    }

    /// So many picoseconds for each that is counted.
    pub fn by(mut count: Box<dyn Count>, each: f64) -> Self {
        let last = count.count();
        Self { count, each, last }
    }

    /// What comes from now on is the program's.
    pub fn call_ends(&mut self) {
        self.last = self.count.count();
    }

    /// A call begins: what the program has done since the last one's end.
    pub fn call_begins(&mut self) -> Ps {
        let before = std::mem::replace(&mut self.last, self.count.count());
        Ps((self.last.saturating_sub(before) as f64 * self.each).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    struct Fake(Rc<Cell<u64>>);

    impl Count for Fake {
        fn count(&mut self) -> u64 {
            self.0.get()
        }
    }

    #[test]
    fn instructions_between_calls_take_a_cycle_each() {
        let counted = Rc::new(Cell::new(1_000_000));
        // At 200 MHz an instruction takes 5 ns.
        let mut meter = Meter::by(Box::new(Fake(Rc::clone(&counted))), 1e6 / 200.0);
        counted.set(counted.get() + 3);
        assert_eq!(meter.call_begins(), Ps::from_nanos(15));
        // The call's own.
        counted.set(counted.get() + 1000);
        meter.call_ends();
        counted.set(counted.get() + 2);
        assert_eq!(meter.call_begins(), Ps::from_nanos(10));
        assert_eq!(meter.call_begins(), Ps::ZERO);
    }

    #[test]
    fn a_count_that_falls_is_no_time() {
        let counted = Rc::new(Cell::new(10));
        let mut meter = Meter::by(Box::new(Fake(Rc::clone(&counted))), 1.0);
        counted.set(0);
        assert_eq!(meter.call_begins(), Ps::ZERO);
    }

    #[test]
    fn computing_takes_nothing_or_what_its_processor_time_says() {
        assert!(Meter::new(Compute::Nothing).expect("nothing to open").is_none());
        let meter = |factor| {
            Meter::new(Compute::Measured(factor))
                .expect("a clock")
                .expect("one")
        };
        let (mut one, mut none) = (meter(1e6), meter(0.0));
        (0..100_000u64).for_each(|number| {
            std::hint::black_box(number);
        });
        assert!(one.call_begins() > Ps::ZERO);
        assert_eq!(none.call_begins(), Ps::ZERO);
    }

    /// Where the system counts, more is more; else it is said who refuses.
    #[test]
    fn instructions_are_counted_or_the_refusal_is_a_sentence() {
        match Meter::new(Compute::Counted(1000.0)) {
            Ok(meter) => {
                let mut meter = meter.expect("one");
                let mut of = |turns: u64| {
                    meter.call_ends();
                    (0..turns).for_each(|number| {
                        std::hint::black_box(number);
                    });
                    meter.call_begins()
                };
                let (few, many) = (of(1000), of(1_000_000));
                assert!(few > Ps::ZERO && many > few, "{few} {many}");
            }
            Err(why) => assert!(why.contains("counts no instructions: perf_event_open"), "{why}"),
        }
    }
}
