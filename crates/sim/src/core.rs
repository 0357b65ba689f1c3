//! A machine that runs: its kernel, adapters and costs.

use crate::adapter::{Adapter, AdapterEvent, Event, Kernel, Local};
use crate::costs::Costs;
use crate::net::{Fate, HostId};
use crate::time::Ps;
use farpost_fabric::Peer;

/// A machine that runs.
pub struct Core {
    pub kernel: Kernel,
    pub costs: Costs,
    /// Of each host.
    adapters: Vec<Box<dyn Adapter>>,
    /// Between processes of a host.
    local: Local,
}

impl Core {
    pub fn new(kernel: Kernel, adapters: Vec<Box<dyn Adapter>>, local: Local, costs: Costs) -> Self {
        Self {
            kernel,
            costs,
            adapters,
            local,
        }
    }

    /// When the next event happens.
    pub fn next_event(&self) -> Option<Ps> {
        self.kernel.queue.next_time()
    }

    /// The next event happens. False: there is none.
    pub fn step(&mut self) -> bool {
        let Some((time, event)) = self.kernel.queue.pop() else {
            return false;
        };
        debug_assert!(time >= self.kernel.now, "time goes back");
        self.kernel.now = time;
        match event {
            Event::Net(event) => {
                let kernel = &mut self.kernel;
                if let Some((packet, fate)) = kernel.net.handle(&mut kernel.queue, time, event) {
                    match fate {
                        Fate::Arrived => self.adapters[packet.to.index()].arrived(&mut self.kernel, packet),
                        Fate::Lost(_) => {
                            self.adapters[packet.from.index()].lost(&mut self.kernel, packet, fate)
                        }
                    }
                }
            }
            Event::Adapter(_, event @ AdapterEvent::Local(_)) => self.local.happen(&mut self.kernel, event),
            Event::Adapter(host, event) => self.adapters[host.index()].happen(&mut self.kernel, event),
        }
        true
    }

    /// The adapter that carries operations of `from` to `to`, and the kernel.
    pub fn adapter(&mut self, from: Peer, to: Peer) -> (&mut dyn Adapter, &mut Kernel) {
        let host = self.kernel.procs.host_of(from);
        let adapter: &mut dyn Adapter = if host == self.kernel.procs.host_of(to) {
            &mut self.local
        } else {
            &mut *self.adapters[host.index()]
        };
        (adapter, &mut self.kernel)
    }

    /// The adapter of a host, and the kernel.
    pub fn adapter_of(&mut self, host: HostId) -> (&mut dyn Adapter, &mut Kernel) {
        (&mut *self.adapters[host.index()], &mut self.kernel)
    }

    /// Between processes of a host, and the kernel.
    pub fn local(&mut self) -> (&mut dyn Adapter, &mut Kernel) {
        (&mut self.local, &mut self.kernel)
    }

    /// The running rank does what takes so long.
    pub fn spend(&mut self, rank: Peer, time: Ps) {
        self.kernel.procs.schedule.spend(rank.0, time);
    }

    /// What is next, after `rank` at its time: true if nothing that comes before it is left. Events that do are let happen.
    pub fn catch_up(&mut self, rank: Peer) -> bool {
        loop {
            // Interrupts move it.
            let clock = self.kernel.procs.schedule.clock(rank.0);
            let other = self.kernel.procs.schedule.next_turn();
            let before = other.filter(|next| *next < (clock, rank.0));
            let until = before.map_or(clock, |(time, _)| time);
            match self.next_event() {
                Some(time) if time <= until => {
                    self.step();
                }
                _ if before.is_some() => return false,
                _ => {
                    self.kernel.now = clock;
                    return true;
                }
            }
        }
    }

    /// Let happen what is before the next rank's turn, and begin that. None: all have ended.
    pub fn next_rank(&mut self) -> Option<u32> {
        loop {
            let (time, _) = self.kernel.procs.schedule.next_turn()?;
            match self.next_event() {
                Some(event) if event <= time => {
                    self.step();
                }
                _ => break,
            }
        }
        let rank = self.kernel.procs.schedule.start()?;
        self.kernel.now = self.kernel.procs.schedule.clock(rank);
        Some(rank)
    }

    /// Nothing happens before this time but what the running rank does.
    pub fn horizon(&mut self) -> Ps {
        let other = self.kernel.procs.schedule.next_turn();
        let event = self.next_event().unwrap_or(Ps::NEVER);
        other.map_or(event, |(time, _)| time.min(event))
    }

    /// `peer` ends before its time.
    pub fn kill(&mut self, peer: Peer, why: &str) {
        self.kernel.procs.of_mut(peer).dead = Some(why.into());
    }
}
