//! One end of the network.

use super::state::NetworkState;
use super::{Costs, Network};
use crate::clock::{Clock, Simulated};
use crate::packet::lane;
use crate::{
    Cost, Counter, Counters, Distance, ErrorStatus, Fabric, Fault, Interrupt, PacketQueue, Peer, Port,
    Priority, Register, Result, Route, Time, Topology, TrySend, Wake, ZeroCopy,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// One endpoint. All of one network belong to one thread.
pub struct InProc {
    pub(super) network: Network,
    pub(super) me: Peer,
    pub(super) size: u32,
    clock: Rc<Clock>,
    costs: Costs,
}

/// Who sleeps for longer wakes for no reason.
const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 3600);

impl InProc {
    pub(super) fn new(network: Network, me: Peer, size: u32) -> Self {
        let clock = Rc::new(Clock::simulated(Rc::clone(&network.0) as Rc<dyn Simulated>));
        let costs = network.0.borrow().config.costs;
        Self {
            network,
            me,
            size,
            clock,
            costs,
        }
    }

    /// The network, to step, settle and break it.
    pub fn network(&self) -> &Network {
        &self.network
    }

    pub(super) fn check_peer(&self, peer: Peer) -> Result<()> {
        peer.check(self.size)
    }

    fn assert_peer(&self, peer: Peer) {
        assert!(peer.0 < self.size, "{peer} does not exist");
    }
}

impl PacketQueue for InProc {
    const ORDERED: bool = true;
    /// As the frames of the papers' machines, more than the networks have: whoever counts on theirs is found out.
    const PACKET_BYTES: usize = 600;

    fn try_send(&self, peer: Peer, port: Port, priority: Priority, payload: &[u8]) -> TrySend {
        self.try_send_by(Route::default(), peer, port, priority, payload)
    }

    fn try_send_by(
        &self,
        route: Route,
        peer: Peer,
        port: Port,
        priority: Priority,
        payload: &[u8],
    ) -> TrySend {
        self.assert_peer(peer);
        let mut state = self.network.0.borrow_mut();
        state.try_send(self.me, peer, (lane(port, priority), route), payload)
    }

    fn poll_priority(&self, port: Port, priority: Priority, mut take: impl FnMut(Peer, &[u8])) -> bool {
        // The borrow ends before the closure runs: it may send.
        let next = self
            .network
            .0
            .borrow_mut()
            .next_packet(self.me, lane(port, priority));
        match next {
            Some((from, bytes)) => {
                take(from, &bytes);
                true
            }
            None => false,
        }
    }

    fn packets_waiting(&self, port: Port, priority: Priority, limit: u32) -> u32 {
        let waiting = (self.network.0.borrow_mut()).packets_waiting(self.me, lane(port, priority));
        u32::try_from(waiting).unwrap_or(limit).min(limit)
    }
}

impl Simulated for RefCell<NetworkState> {
    fn now(&self) -> u64 {
        self.borrow().now
    }

    fn pass(&self, nanos: u64) {
        self.borrow_mut().pass(nanos);
        super::ranks::let_others_run(self);
    }
}

impl Time for InProc {
    fn clock(&self) -> &Rc<Clock> {
        &self.clock
    }

    fn random(&self) -> u64 {
        self.network.0.borrow_mut().random()
    }

    fn charge(&self, cost: Cost) {
        self.network.0.borrow_mut().now += self.costs.of(cost);
    }
}

impl Interrupt for InProc {
    type Bell = Peer;

    fn bell(&self, peer: Peer) -> Peer {
        self.assert_peer(peer);
        peer
    }

    fn wake_by(&self, bell: &Peer) {
        self.wake(*bell);
    }

    fn wake(&self, peer: Peer) {
        self.assert_peer(peer);
        self.network.0.borrow_mut().wake(self.me, peer);
    }

    fn sleep(&self, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> Wake {
        let state = &self.network.0;
        state.borrow_mut().set_asleep(self.me, true);
        let wake = if ready() {
            Wake::Ready
        } else {
            let deadline = self.now() + timeout.min(LONGEST_SLEEP);
            loop {
                if super::ranks::sleep(state, deadline.nanos()) {
                    let rung = state.borrow().is_rung(self.me);
                    break if rung { Wake::Rung } else { Wake::Timeout };
                }
                let wake = state.borrow_mut().sleep_on(self.me, deadline.nanos());
                if let Some(wake) = wake {
                    break wake;
                }
            }
        };
        state.borrow_mut().set_asleep(self.me, false);
        wake
    }
}

impl ErrorStatus for InProc {
    fn record_fault(&self, fault: Fault) {
        self.network.0.borrow_mut().record_fault(self.me, fault);
    }

    fn take_faults(&self) -> (Vec<Fault>, u64) {
        self.network.0.borrow_mut().take_faults(self.me)
    }

    fn has_ended(&self, peer: Peer) -> bool {
        self.network.0.borrow().has_ended(peer)
    }
}

impl Counters for InProc {
    fn count(&self, peer: Peer, counter: Counter, amount: u64) {
        self.assert_peer(peer);
        self.network.0.borrow_mut().count(self.me, peer, counter, amount);
    }

    fn counter(&self, of: Peer, peer: Peer, counter: Counter) -> u64 {
        self.assert_peer(of);
        self.assert_peer(peer);
        self.network.0.borrow().counter(of, peer, counter)
    }

    fn set_register(&self, of: Peer, register: Register, value: u64) {
        self.assert_peer(of);
        self.network
            .0
            .borrow_mut()
            .registers
            .insert((of, register), value);
    }

    fn register(&self, of: Peer, register: Register) -> u64 {
        self.assert_peer(of);
        let registers = &self.network.0.borrow().registers;
        registers.get(&(of, register)).copied().unwrap_or(0)
    }
}

impl Topology for InProc {
    fn hosts(&self) -> u32 {
        self.size
    }

    fn host_of(&self, peer: Peer) -> u32 {
        peer.0
    }

    fn distance(&self, peer: Peer) -> Distance {
        if peer == self.me {
            Distance::Same
        } else {
            Distance::Far
        }
    }

    fn rails(&self, peer: Peer) -> u32 {
        if peer == self.me {
            1
        } else {
            self.network.0.borrow().config.rails
        }
    }

    fn cores_and_processes(&self) -> (u32, u32) {
        (self.network.0.borrow().config.cores, 1)
    }
}

impl Fabric for InProc {
    fn me(&self) -> Peer {
        self.me
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn name(&self) -> &'static str {
        "inproc"
    }
}

/// None: what follows a line would have to arrive in order, and here nothing does.
impl ZeroCopy for InProc {}
