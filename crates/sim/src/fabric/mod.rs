//! A simulated machine as a fabric: one process's end of it.
//!
//! What a process does takes time on its clock. Before anything that others could see or have changed, all that comes before that time happens ([`Running::sync`]),
//! so that every operation finds the machine as it is at its time. Ranks that wait sleep until something happens to them, and see it when their next poll
//! would: nobody spins.

mod bulk;
mod memory;
mod packets;

pub use memory::Imported;

use crate::process::OpId;
use crate::running::Running;
use crate::time::Ps;
use farpost_fabric::clock::{Clock, Simulated};
use farpost_fabric::{
    Cost, Counter, Counters, Distance, ErrorStatus, Fabric, Fault, Interrupt, Peer, Result, Time, Topology,
    Wake, ZeroCopy,
};
use std::cell::{Cell, RefMut};
use std::rc::Rc;
use std::time::Duration;

/// One process's end of a simulated machine.
pub struct SimFabric {
    running: Rc<Running>,
    me: Peer,
    size: u32,
    clock: Rc<Clock>,
    time: Rc<RankTime>,
}

/// The clock of a rank, and how it passes time.
struct RankTime {
    running: Rc<Running>,
    me: Peer,
    /// Pauses in a row in which nothing happened, and the time of the last one.
    idle: Cell<(u32, Ps)>,
}

/// Who sleeps for longer wakes for no reason.
const LONGEST_SLEEP: Ps = Ps(3_600_000_000_000_000);

/// Pauses of a loop become longer by doubling, up to so many times, while nothing happens.
const LONGER: u32 = 10;

impl RankTime {
    fn core(&self) -> RefMut<'_, crate::core::Core> {
        self.running.core.borrow_mut()
    }

    fn now(&self) -> Ps {
        self.core().kernel.procs.schedule.clock(self.me.0)
    }

    /// A pause of so long at least, or until something happens. `period`: how often what happens is looked for.
    fn pause(&self, least: Ps, most: Ps) {
        let touched = self.core().kernel.procs.schedule.take_touched(self.me.0);
        let now = self.now();
        let (count, last) = self.idle.get();
        // The loop's own period: from the last pause's end to now, and the pause.
        let period = (now - last) + least;
        if touched {
            self.idle.set((0, now + least));
            self.core().spend(self.me, least);
            return self.running.sync(self.me);
        }
        let longer = least * (1 << count.min(LONGER));
        let deadline = now + longer.max(least).min(most);
        self.running.sleep(self.me, period, deadline);
        self.idle.set((count + 1, self.now()));
    }
}

impl Simulated for RankTime {
    fn now(&self) -> u64 {
        RankTime::now(self).nanos()
    }

    fn pass(&self, nanos: u64) {
        self.pause(Ps::from_nanos(nanos), Ps::NEVER);
    }

    fn skips(&self) -> bool {
        true
    }
}

impl SimFabric {
    pub(crate) fn new(running: Rc<Running>, me: Peer) -> Self {
        let size = running.core.borrow().kernel.procs.size();
        let time = Rc::new(RankTime {
            running: Rc::clone(&running),
            me,
            idle: Cell::new((0, Ps::ZERO)),
        });
        let clock = Rc::new(Clock::simulated(Rc::clone(&time) as Rc<dyn Simulated>));
        Self {
            running,
            me,
            size,
            clock,
            time,
        }
    }

    /// The virtual time of this process, exactly.
    pub fn time(&self) -> Ps {
        self.time.now()
    }

    /// The process computes for so long.
    pub fn compute(&self, time: Ps) {
        self.core().spend(self.me, time);
    }

    /// The machine, at this process's time: for experiments that look below the fabric.
    pub fn with_core<T>(&self, look: impl FnOnce(&mut crate::core::Core) -> T) -> T {
        self.running.sync(self.me);
        look(&mut self.core())
    }

    /// Wait until something happens to this process, at most until `deadline`.
    pub fn wait_for_something(&self, deadline: Ps) {
        let touched = self.core().kernel.procs.schedule.take_touched(self.me.0);
        if !touched {
            self.running.sleep(self.me, Ps::ZERO, deadline);
        }
    }

    fn core(&self) -> RefMut<'_, crate::core::Core> {
        self.running.core.borrow_mut()
    }

    /// Wait until an operation has ended.
    fn finish(&self, op: OpId) -> Result<Vec<u8>> {
        loop {
            self.running.sync(self.me);
            let ended = self.core().kernel.procs.ended(op);
            if let Some(result) = ended {
                return result;
            }
            self.wait_for_something(self.time() + LONGEST_SLEEP);
        }
    }
}

impl Time for SimFabric {
    fn clock(&self) -> &Rc<Clock> {
        &self.clock
    }

    fn random(&self) -> u64 {
        self.core().kernel.chance.u64(..)
    }

    fn charge(&self, cost: Cost) {
        let mut core = self.core();
        let time = core.costs.of(cost);
        core.spend(self.me, time);
    }
}

impl Interrupt for SimFabric {
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
        self.core().kernel.procs.schedule.take_touched(self.me.0);
        if ready() {
            return Wake::Ready;
        }
        // The look was a poll; the loop goes on at its pace.
        let period = self.time() - begun;
        let most = Ps::from_nanos(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)).min(LONGEST_SLEEP);
        if self.core().kernel.procs.schedule.take_touched(self.me.0) {
            return Wake::Rung;
        }
        let deadline = self.time() + most;
        self.running.sleep(self.me, period.max(Ps(1_000)), deadline);
        if self.time() >= deadline {
            Wake::Timeout
        } else {
            Wake::Rung
        }
    }
}

impl ErrorStatus for SimFabric {
    fn record_fault(&self, fault: Fault) {
        self.core().kernel.procs.record_fault(self.me, fault);
    }

    fn take_faults(&self) -> (Vec<Fault>, u64) {
        self.core().kernel.procs.take_faults(self.me)
    }

    fn has_ended(&self, peer: Peer) -> bool {
        self.core().kernel.procs.of(peer).dead.is_some()
    }
}

impl Counters for SimFabric {
    fn count(&self, peer: Peer, counter: Counter, amount: u64) {
        self.core().kernel.procs.count(self.me, peer, counter, amount);
    }

    fn counter(&self, of: Peer, peer: Peer, counter: Counter) -> u64 {
        self.core().kernel.procs.counter(of, peer, counter)
    }
}

impl Topology for SimFabric {
    fn hosts(&self) -> u32 {
        self.core().kernel.procs.hosts()
    }

    fn host_of(&self, peer: Peer) -> u32 {
        self.core().kernel.procs.host_of(peer).0
    }

    fn distance(&self, peer: Peer) -> Distance {
        if peer == self.me {
            Distance::Same
        } else if self.host_of(peer) == self.host_of(self.me) {
            Distance::Host
        } else {
            Distance::Far
        }
    }

    fn rails(&self, peer: Peer) -> u32 {
        match self.distance(peer) {
            Distance::Far => self.core().kernel.rails(),
            _ => 1,
        }
    }

    /// A core for each.
    fn cores_and_processes(&self) -> (u32, u32) {
        let core = self.core();
        let processes = core.kernel.procs.on_host(core.kernel.procs.host_of(self.me));
        (processes, processes)
    }
}

impl Fabric for SimFabric {
    fn me(&self) -> Peer {
        self.me
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn name(&self) -> &'static str {
        "sim"
    }

    /// Whoever looks at its memory in a loop sees what has come meanwhile.
    fn progress(&self) -> bool {
        self.running.sync(self.me);
        false
    }
}

/// None: adapters of the papers have no such thing.
impl ZeroCopy for SimFabric {}
