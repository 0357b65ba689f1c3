//! A machine that runs: its kernel, adapters and costs.

use crate::adapter::{Adapter, AdapterEvent, Event, Kernel, Load, Local};
use crate::costs::Costs;
use crate::net::{Fate, HostId, NetEvent, Packet};
use crate::record::{Cause, Label, Recorder};
use crate::strikes::{ASKED, Strikes};
use crate::time::Ps;
use farpost_fabric::Peer;

/// Shorter copies than this take what they take alone: of them nobody's bus is full.
const SHORT_COPY: usize = 1024;

/// A machine that runs.
pub struct Core {
    pub kernel: Kernel,
    pub costs: Costs,
    /// Of each host.
    adapters: Vec<Box<dyn Adapter>>,
    /// Between processes of a host.
    local: Local,
    pub(crate) faults: Strikes,
}

impl Core {
    pub fn new(kernel: Kernel, adapters: Vec<Box<dyn Adapter>>, local: Local, costs: Costs) -> Self {
        Self {
            kernel,
            costs,
            adapters,
            local,
            faults: Strikes::default(),
        }
    }

    /// From now on write down what happens, for [`crate::trace`]: at most so many entries ([`crate::record::ENTRIES`] is a good number). Before the first rank runs.
    pub fn record(&mut self, limit: usize) {
        let recorder = Recorder::new(self.kernel.procs.size(), limit);
        self.kernel.record(&recorder);
    }

    fn note(&self, time: Ps, cause: Cause, event: &Event) {
        let recorder = &self.kernel.recorder;
        let net = &self.kernel.net;
        let came = |id| {
            let travel = net.travel(id);
            (travel, recorder.last_serve(travel))
        };
        let label = match event {
            Event::Net(NetEvent::Head(id) | NetEvent::Cut(id)) => {
                let (travel, before) = came(*id);
                Label::Head { travel, before }
            }
            Event::Net(NetEvent::Tail(id)) => {
                let (travel, before) = came(*id);
                Label::Tail { travel, before }
            }
            Event::Net(NetEvent::Served(id)) => Label::Served { resource: id.0 },
            Event::Adapter(host, event) => {
                let local = matches!(event, AdapterEvent::Local(_));
                return recorder.adapter_happens(time, cause, host.0, event.what(), local);
            }
            Event::Fault(number) => {
                let (host, what) = self.faults.told(*number);
                return recorder.adapter_happens(time, cause, host, what, false);
            }
            Event::Unasked(_) => return recorder.adapter_happens(time, cause, 0, "lost_put", false),
        };
        recorder.happens(time, cause, label);
    }

    /// `rank` begins a call of this name at `time`, within those that it is in. For traces; costs nothing where nothing is recorded.
    pub fn call_begins(&mut self, rank: Peer, name: &str, time: Ps) {
        self.kernel.recorder.call_begins(rank.0, name, time);
    }

    /// The last call that `rank` began ends at `time`.
    pub fn call_ends(&mut self, rank: Peer, time: Ps) {
        self.kernel.recorder.call_ends(rank.0, time);
    }

    /// The running rank computes for so long: [`spend`](Self::spend), and traces say that it was the program itself.
    pub fn compute(&mut self, rank: Peer, time: Ps) {
        let from = self.kernel.procs.schedule.clock(rank.0);
        self.spend(rank, time);
        self.kernel.recorder.computes(rank.0, from, from + time);
    }

    /// The adapters of all hosts.
    pub fn adapters(&self) -> impl Iterator<Item = (HostId, &dyn Adapter)> {
        (0..)
            .map(HostId)
            .zip(self.adapters.iter().map(|adapter| &**adapter))
    }

    /// The latest time of all ranks and events so far.
    pub fn elapsed(&self) -> Ps {
        let schedule = &self.kernel.procs.schedule;
        let clocks = (0..self.kernel.procs.size()).map(|rank| schedule.clock(rank));
        clocks.fold(self.kernel.now, Ps::max)
    }

    /// When the next event happens.
    pub fn next_event(&self) -> Option<Ps> {
        self.kernel.queue.next_time()
    }

    /// The next event happens. False: there is none.
    pub fn step(&mut self) -> bool {
        let Some((time, event, cause)) = self.kernel.queue.pop_caused() else {
            return false;
        };
        if self.kernel.recorder.is_on() {
            self.note(time, cause, &event);
        }
        debug_assert!(time >= self.kernel.now, "time goes back");
        self.kernel.now = time;
        match event {
            Event::Net(event) => {
                let kernel = &mut self.kernel;
                if let Some((packet, fate)) = kernel.net.handle(&mut kernel.queue, time, event) {
                    let fate = self.fate(&packet, fate);
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
            Event::Fault(number) => self.strike(number),
            Event::Unasked(import) => self.tell_of_put(import),
        }
        true
    }

    /// Who stored what was lost has some time to ask.
    fn time_untold(&mut self) {
        for import in self.kernel.procs.take_untold() {
            let time = self.kernel.now + ASKED;
            self.kernel.queue.at(time, Event::Unasked(import));
        }
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

    /// What becomes of a packet in the end.
    fn fate(&mut self, packet: &Packet<Load>, fate: Fate) -> Fate {
        if packet.damaged && fate == Fate::Arrived && self.adapters[packet.to.index()].answers_damage() {
            let now = self.kernel.now;
            let (net, queue) = (&mut self.kernel.net, &mut self.kernel.queue);
            net.release(queue, now, packet.to, packet.lane);
            return Fate::Lost(packet.path.last().expect("a path has a resource").resource);
        }
        self.kernel.fate(packet, fate)
    }

    /// The running rank's software does what takes so long, on a host that is not slow.
    pub fn charge(&mut self, rank: Peer, time: Ps) {
        let time = self.kernel.procs.schedule.slowed(rank.0, time);
        self.spend(rank, time);
    }

    /// Copies that layers charge share the host's bus: those long enough to matter.
    pub fn copies_share(&self, bytes: usize) -> bool {
        bytes >= SHORT_COPY && self.local.has_all_copies()
    }

    /// What a copy by `rank` takes now, beside those of its host's other processors.
    pub fn copy(&mut self, rank: Peer, bytes: usize) -> Ps {
        let host = self.kernel.procs.host_of(rank);
        self.local.copy(&self.kernel, host, bytes) - self.kernel.now
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
                    self.kernel.recorder.acts(rank.0, clock);
                    return true;
                }
            }
        }
    }

    /// Let happen what is before the next rank's turn, and begin that. None: all have ended.
    pub fn next_rank(&mut self) -> Option<u32> {
        self.time_untold();
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
        self.kernel.procs.kill(peer, why);
    }
}
