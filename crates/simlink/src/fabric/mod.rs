//! A simulated machine as a fabric: one process's end of it.
//!
//! What a process does takes time on its clock. Before anything that others could see or have changed, all that comes before that time happens ([`Link::sync`]),
//! so that every operation finds the machine as it is at its time. Ranks that wait sleep until something happens to them, and see it when their next poll
//! would: nobody spins.

mod bulk;
mod memory;
mod packets;

pub use memory::Imported;

use crate::link::{Below, Link, OpId};
use crate::time::Ps;
use farpost_fabric::clock::{Clock, Simulated};
use farpost_fabric::{
    Cost, Counter, Counters, Distance, ErrorStatus, Fabric, Fault, Interrupt, Peer, Result, Time, Topology,
    Wake, ZeroCopy,
};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// One process's end of a simulated machine.
pub struct SimFabric<L> {
    link: Rc<L>,
    clock: Rc<Clock>,
}

/// The clock of a rank, and how it passes time.
struct RankTime<L> {
    link: Rc<L>,
    /// Pauses in a row in which nothing happened, and the time of the last one.
    idle: Cell<(u32, Ps)>,
}

/// Who sleeps for longer wakes for no reason.
const LONGEST_SLEEP: Ps = Ps(3_600_000_000_000_000);

/// Pauses of a loop become longer by doubling, up to so many times, while nothing happens.
const LONGER: u32 = 10;

impl<L: Link> RankTime<L> {
    /// A pause of so long at least, or until something happens. `period`: how often what happens is looked for.
    fn pause(&self, least: Ps, most: Ps) {
        let touched = self.link.take_touched();
        let now = self.link.now();
        let (count, last) = self.idle.get();
        // The loop's own period: from the last pause's end to now, and the pause.
        let period = (now - last) + least;
        if touched {
            self.idle.set((0, now + least));
            self.link.spend(least);
            return self.link.sync();
        }
        let longer = least * (1 << count.min(LONGER));
        let deadline = now + longer.max(least).min(most);
        self.link.sleep(period, deadline);
        self.idle.set((count + 1, self.link.now()));
    }
}

impl<L: Link> Simulated for RankTime<L> {
    fn now(&self) -> u64 {
        self.link.now().nanos()
    }

    fn pass(&self, nanos: u64) {
        self.pause(Ps::from_nanos(nanos), Ps::NEVER);
    }

    fn skips(&self) -> bool {
        true
    }
}

/// Wait until something happens to this process, at most until `deadline`.
fn wait_for_something(link: &impl Link, deadline: Ps) {
    if !link.take_touched() {
        link.sleep(Ps::ZERO, deadline);
    }
}

/// Wait until an operation has ended.
fn finish(link: &impl Link, op: OpId, into: &mut [u8]) -> Result<()> {
    loop {
        if let Some(result) = link.ended(op, into) {
            return result;
        }
        wait_for_something(link, link.now() + LONGEST_SLEEP);
    }
}

impl<L: Link> SimFabric<L> {
    /// The end of the process whose link this is.
    pub fn new(link: L) -> Self {
        let link = Rc::new(link);
        let time = RankTime {
            link: Rc::clone(&link),
            idle: Cell::new((0, Ps::ZERO)),
        };
        Self {
            link,
            clock: Rc::new(Clock::simulated(Rc::new(time))),
        }
    }

    /// The way to the machine.
    pub fn link(&self) -> &L {
        &self.link
    }

    /// The virtual time of this process, exactly.
    pub fn time(&self) -> Ps {
        self.link.now()
    }

    /// The process computes for so long.
    pub fn compute(&self, time: Ps) {
        self.link.compute(time);
    }

    /// Wait until something happens to this process, at most until `deadline`.
    pub fn wait_for_something(&self, deadline: Ps) {
        wait_for_something(&*self.link, deadline);
    }
}

impl<L: Below> SimFabric<L> {
    /// The machine, at this process's time: for experiments that look below the fabric.
    pub fn with_core<T>(&self, look: impl FnOnce(&mut L::Core) -> T) -> T {
        self.link.with_core(look)
    }
}

impl<L: Link> Time for SimFabric<L> {
    fn clock(&self) -> &Rc<Clock> {
        &self.clock
    }

    fn random(&self) -> u64 {
        self.link.random()
    }

    fn charge(&self, cost: Cost) {
        self.link.spend(self.link.cost(cost));
    }

    /// None, so that those of real networks need not ask whether they have to charge anything.
    fn has_lanes(&self) -> bool {
        false
    }
}

impl<L: Link> Interrupt for SimFabric<L> {
    type Bell = Peer;

    fn bell(&self, peer: Peer) -> Peer {
        peer
    }

    fn wake_by(&self, bell: &Peer) {
        self.wake(*bell);
    }

    /// Nothing: whoever sleeps here wakes when something arrives, as a process that polls would see it. Adapters ring where their paper does.
    fn wake(&self, _peer: Peer) {}

    fn sleep(&self, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> Wake {
        let begun = self.time();
        self.link.take_touched();
        if ready() {
            return Wake::Ready;
        }
        // The look was a poll; the loop goes on at its pace.
        let period = self.time() - begun;
        let most = Ps::from_nanos(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)).min(LONGEST_SLEEP);
        if self.link.take_touched() {
            return Wake::Rung;
        }
        let deadline = self.time() + most;
        self.link.sleep(period.max(Ps(1_000)), deadline);
        if self.time() >= deadline {
            Wake::Timeout
        } else {
            Wake::Rung
        }
    }
}

impl<L: Link> ErrorStatus for SimFabric<L> {
    fn record_fault(&self, fault: Fault) {
        self.link.record_fault(fault);
    }

    fn take_faults(&self) -> (Vec<Fault>, u64) {
        self.link.take_faults()
    }

    fn faulted(&self) -> bool {
        self.link.faulted()
    }

    fn has_ended(&self, peer: Peer) -> bool {
        self.link.is_dead(peer)
    }
}

impl<L: Link> Counters for SimFabric<L> {
    fn count(&self, peer: Peer, counter: Counter, amount: u64) {
        self.link.count(peer, counter, amount);
    }

    fn counter(&self, of: Peer, peer: Peer, counter: Counter) -> u64 {
        self.link.counter(of, peer, counter)
    }
}

impl<L: Link> Topology for SimFabric<L> {
    fn hosts(&self) -> u32 {
        self.link.hosts()
    }

    fn host_of(&self, peer: Peer) -> u32 {
        self.link.host_of(peer)
    }

    fn distance(&self, peer: Peer) -> Distance {
        if peer == self.link.me() {
            Distance::Same
        } else if self.host_of(peer) == self.host_of(self.link.me()) {
            Distance::Host
        } else {
            Distance::Far
        }
    }

    fn rails(&self, peer: Peer) -> u32 {
        match self.distance(peer) {
            Distance::Far => self.link.rails(),
            _ => 1,
        }
    }

    /// A core for each.
    fn cores_and_processes(&self) -> (u32, u32) {
        let processes = self.link.neighbours();
        (processes, processes)
    }
}

impl<L: Link> Fabric for SimFabric<L> {
    fn me(&self) -> Peer {
        self.link.me()
    }

    fn size(&self) -> u32 {
        self.link.size()
    }

    fn name(&self) -> &'static str {
        "sim"
    }

    /// Whoever looks at its memory in a loop sees what has come meanwhile.
    fn progress(&self) -> bool {
        self.link.sync();
        false
    }

    fn close(&self, _patience: Duration) {
        self.link.leave();
    }
}

/// None: adapters of the papers have no such thing.
impl<L: Link> ZeroCopy for SimFabric<L> {}
