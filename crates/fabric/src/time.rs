//! Time, chance and what work costs, as the fabric has them.
//!
//! Protocols read no clock of the system's, wait by no call of the system's and draw no numbers of their own: they ask the
//! fabric. A real fabric has the host's clock and random numbers, and work costs on it what it costs. A simulated fabric has virtual time, which moves
//! by its own delays, by pauses and by what is charged, and draws everything from its seed, so that a run can be replayed.
//!
//! A pause is one of three: [`Time::spin`], [`Time::yield_core`], and [`Interrupt::sleep`](crate::Interrupt::sleep), which ends when this process is rung or
//! at a deadline. [`WaitPolicy`](crate::wait::WaitPolicy) chooses among them.
//!
//! Cost class: *fast path* on real fabrics: [`Time::charge`] compiles to nothing there.

use crate::clock::Clock;
use std::ops::{Add, AddAssign, Sub};
use std::rc::Rc;
use std::time::Duration;

/// A point in a fabric's time, in nanoseconds since a start that the processes of a job need not share. Sums and differences
/// saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Where a fabric's time starts.
    pub const START: Self = Self(0);
    /// After all others: a deadline that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// So many nanoseconds after the start.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    #[inline]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The time since `earlier`; none if that is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    #[inline]
    fn add(self, time: Duration) -> Self {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Moment {
    #[inline]
    fn add_assign(&mut self, time: Duration) {
        *self = *self + time;
    }
}

impl Sub for Moment {
    type Output = Duration;

    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

/// What a protocol does that costs time on the papers' machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// So many bytes are copied by the processor.
    Copy(usize),
    /// So many bytes are combined with as many others by a reduction's operation.
    Reduce(usize),
    /// A queue is asked for something new.
    Poll,
    /// So many words are stored to the adapter.
    Store(usize),
    /// So many entries of a list are looked at to find one that matches.
    Match(usize),
    /// The operating system is entered, by a call or by an interrupt.
    Trap,
    /// What a layer's own code does once for an operation, besides the above.
    Work(Work),
}

/// Operations whose code costs something of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumCount, strum::EnumIter, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Work {
    /// MPI: a message is sent.
    MpiSend,
    /// MPI: a message is received.
    MpiReceive,
    /// Fast Messages: a frame is sent.
    FmSend,
    /// Fast Messages: a frame is extracted and handed to its handler.
    FmExtract,
    /// JAM: a message is sent.
    JamSend,
    /// JAM: a message is received.
    JamReceive,
    /// JAM: a remote procedure is called.
    JamRpcCall,
    /// JAM: a remote procedure that was called here begins.
    JamRpcServe,
    /// Portals: a put or get is started.
    PortalsCall,
    /// Portals: a put or get is taken in at its target, besides the entries that matching looks at.
    PortalsReceive,
    /// Portals: an event is made.
    PortalsEvent,
}

/// The time of a fabric, its pauses, its random numbers, and what work costs on it.
#[ambassador::delegatable_trait]
pub trait Time {
    /// The clock that [`now`](Time::now) reads, for those who keep it.
    fn clock(&self) -> &Rc<Clock>;

    /// The time. It nearly never goes back, and then by very little.
    #[inline]
    fn now(&self) -> Moment {
        Moment(self.clock().now())
    }

    /// Let the shortest time pass, without giving up the core.
    #[inline(always)]
    fn spin(&self) {
        self.clock().spin();
    }

    /// Give up the core for now.
    #[inline]
    fn yield_core(&self) {
        self.clock().yield_core();
    }

    /// A random number.
    #[inline]
    fn random(&self) -> u64 {
        fastrand::u64(..)
    }

    /// The caller has done, or is about to do, what costs this. A simulated fabric adds it to the caller's time. Charged is what a
    /// fabric does not see by itself: what it is called for (puts, packets, transfers) it charges there.
    #[inline(always)]
    fn charge(&self, _cost: Cost) {}

    /// Whether short messages may take fast lanes, of which work is charged by [`charge_in_lane`](Self::charge_in_lane) alone.
    #[inline]
    fn has_lanes(&self) -> bool {
        true
    }

    /// As [`charge`](Self::charge), in a fast lane: never called where the fabric [has none](Self::has_lanes).
    #[inline(always)]
    fn charge_in_lane(&self, cost: Cost) {
        self.charge(cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_differences_saturate() {
        let moment = Moment::from_nanos(5);
        assert_eq!(moment + Duration::MAX, Moment::NEVER);
        assert_eq!(Moment::NEVER + Duration::from_nanos(1), Moment::NEVER);
        assert_eq!(moment - Moment::from_nanos(7), Duration::ZERO);
        assert_eq!(
            (moment + Duration::from_micros(1)) - moment,
            Duration::from_micros(1)
        );
    }
}
