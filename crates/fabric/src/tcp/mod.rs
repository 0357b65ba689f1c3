//! Plain TCP between hosts: needs nothing installed.
//!
//! Two processes that have something to say to each other share a connection, made at the first message. What they
//! say are frames (`wire`) on a stream that keeps their order: puts, packets, fences, and bulk data, which goes from
//! the one user's memory to the socket and from the socket into the other's. Nothing runs in the background: every
//! call that waits, and [`Fabric::progress`], reads and writes what can be read and written.

mod bulk;
mod card;
mod input;
mod output;
mod packets;
mod segments;
mod socket;
mod state;
#[cfg(test)]
mod tests;
mod wire;

pub use segments::Imported;

use crate::net::NetConfig;
use crate::{
    Counter, Counters, Distance, ErrorStatus, Fabric, FabricError, Fault, Interrupt, PACKET_BYTES,
    PacketQueue, Peer, Priority, Topology, TrySend, Wake,
};
use state::State;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

farpost_tunables::tunables! {
    /// Tunables of the TCP fabric.
    pub struct TcpTunables {
        /// Puts from this size on are sent at once from where they lie; smaller ones are copied and sent together with what follows them.
        direct: "FARPOST_TCP_DIRECT" = 4 << 10, 0..=1 << 30, "bytes";
        /// Size of a socket's buffers in the kernel. 0 leaves it to the kernel, which adapts them to the connection.
        buffer: "FARPOST_TCP_BUFFER" = 0, 0..=1 << 30, "bytes";
        /// Packets of one priority on their way to one process.
        packets: "FARPOST_TCP_PACKETS" = 32, 2..=1 << 16, "packets";
        /// A connection that is not made after this long never will be.
        connect_ms: "FARPOST_TCP_CONNECT_MS" = 10_000, 1..=1 << 30, "ms";
        /// Segments from this size on ask for huge pages; smaller ones would waste memory.
        huge_from: "FARPOST_TCP_HUGE_FROM" = 4 << 20, 0..=1 << 40, "bytes";
    }
}

/// Connections that may wait to be accepted: the kernel's own limit may be lower.
const BACKLOG: i32 = 4096;

/// Looks at the sockets before a wait sleeps.
const SPINS: u32 = 100;

/// Longest sleep between two looks, in milliseconds.
const NAP: i32 = 20;

/// What the fabric and its imports share.
struct Core {
    state: RefCell<State>,
}

/// The TCP fabric of one process.
pub struct Tcp {
    core: Rc<Core>,
    me: Peer,
    size: u32,
    host_of: Rc<[u32]>,
}

/// A process that others can find, and that does not yet know who they are: first this, then its card is published,
/// then the job is joined.
pub struct Listening {
    listeners: Vec<std::os::fd::OwnedFd>,
    card: Vec<u8>,
    tunables: TcpTunables,
}

impl Listening {
    /// Listen at all addresses of this host that others may reach.
    ///
    /// # Errors
    /// There is none, or the system refuses.
    pub fn open(tunables: TcpTunables) -> Result<Self, FabricError> {
        let addresses =
            socket::addresses().map_err(|e| FabricError::os_error("list the addresses of this host", &e))?;
        Self::open_at(tunables, &addresses)
    }

    /// Listen at these addresses, on ports that the kernel chooses.
    ///
    /// # Errors
    /// The system refuses.
    pub fn open_at(tunables: TcpTunables, at: &[IpAddr]) -> Result<Self, FabricError> {
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for &address in at.iter().take(card::ADDRESSES_MAX) {
            let listening = socket::listen(address, BACKLOG);
            let (listener, port) =
                listening.map_err(|e| FabricError::os_error("listen for the job's other processes", &e))?;
            addresses.push(SocketAddr::new(address, port));
            listeners.push(listener);
        }
        Ok(Self {
            listeners,
            card: card::encode(&addresses),
            tunables,
        })
    }

    /// What to publish, so that others find this process.
    pub fn card(&self) -> &[u8] {
        &self.card
    }

    /// Become an endpoint of the job.
    ///
    /// # Errors
    /// The job does not have this process, or the system refuses.
    pub fn start(self, net: NetConfig) -> Result<Tcp, FabricError> {
        let (me, size, host_of) = (net.me, net.size, Rc::clone(&net.host_of));
        if me.0 >= size || host_of.len() != size as usize {
            return Err(FabricError::NoSuchPeer { peer: me, size });
        }
        let state = State::new(net, self.tunables, self.listeners)?;
        Ok(Tcp {
            core: Rc::new(Core {
                state: RefCell::new(state),
            }),
            me,
            size,
            host_of,
        })
    }
}

impl Core {
    /// Progress until `ready` has an answer.
    fn wait<T>(
        &self,
        mut ready: impl FnMut(&mut State) -> Result<Option<T>, FabricError>,
    ) -> Result<T, FabricError> {
        let mut idle = 0;
        loop {
            let mut state = self.state.borrow_mut();
            if let Some(answer) = ready(&mut state)? {
                return Ok(answer);
            }
            let timeout = if idle < SPINS { 0 } else { NAP };
            idle = if state.turn(timeout) { 0 } else { idle + 1 };
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.state.get_mut().close(Duration::ZERO);
    }
}

impl PacketQueue for Tcp {
    const ORDERED: bool = true;

    fn try_send(&self, peer: Peer, priority: Priority, payload: &[u8]) -> TrySend {
        assert!(peer.0 < self.size, "{peer} does not exist");
        assert!(
            payload.len() <= PACKET_BYTES,
            "a packet of {} bytes",
            payload.len()
        );
        let state = &mut *self.core.state.borrow_mut();
        if !state.packets.may_send(peer, priority) {
            state.turn(0);
            if !state.packets.may_send(peer, priority) {
                return TrySend::Full;
            }
        }
        state.send_packet(peer, priority, payload);
        TrySend::Sent
    }

    fn poll_packet(&self, take: &mut dyn FnMut(Peer, Priority, &[u8])) -> bool {
        let next = {
            let state = &mut *self.core.state.borrow_mut();
            // High before low, so look at all that came first.
            state.turn(0);
            let next = state.packets.next(self.me);
            if let Some((from, .., Some(credit))) = &next {
                state.say(*from, *credit, &[]);
            }
            next
        };
        let Some((from, priority, bytes, len, _)) = next else {
            return false;
        };
        take(from, priority, &bytes[..len]);
        true
    }
}

impl Interrupt for Tcp {
    type Bell = Peer;

    fn bell(&self, peer: Peer) -> Peer {
        assert!(peer.0 < self.size, "{peer} does not exist");
        peer
    }

    #[inline]
    fn wake_by(&self, bell: &Peer) {
        self.core.state.borrow_mut().wake(*bell);
    }

    fn wake(&self, peer: Peer) {
        assert!(peer.0 < self.size, "{peer} does not exist");
        self.core.state.borrow_mut().wake(peer);
    }

    fn sleep(&self, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> Wake {
        let before = {
            let mut state = self.core.state.borrow_mut();
            state.flush();
            state.arrivals
        };
        // What asking brings in counts as a ring: the question may have been about something else.
        if ready() {
            return Wake::Ready;
        }
        let mut state = self.core.state.borrow_mut();
        let whole = timeout.as_nanos().div_ceil(1_000_000);
        let whole = i32::try_from(whole).unwrap_or(i32::MAX);
        if state.arrivals != before || state.turn(whole) {
            Wake::Rung
        } else {
            Wake::Timeout
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.core.state.borrow().descriptor())
    }

    fn arm(&self) -> bool {
        !self.core.state.borrow_mut().turn(0)
    }
}

impl ErrorStatus for Tcp {
    fn record_fault(&self, fault: Fault) {
        self.core.state.borrow_mut().record_fault(fault);
    }

    fn take_faults(&self) -> (Vec<Fault>, u64) {
        std::mem::take(&mut self.core.state.borrow_mut().faults)
    }

    fn faulted(&self) -> bool {
        !self.core.state.borrow().faults.0.is_empty()
    }
}

impl Counters for Tcp {
    fn count(&self, peer: Peer, counter: Counter, amount: u64) {
        assert!(peer.0 < self.size, "{peer} does not exist");
        self.core.state.borrow_mut().count(peer, counter, amount);
    }

    /// Those of other processes are not to be seen from here: 0.
    fn counter(&self, of: Peer, peer: Peer, counter: Counter) -> u64 {
        assert!(
            of.0 < self.size && peer.0 < self.size,
            "{of} or {peer} does not exist"
        );
        if of != self.me {
            return 0;
        }
        let state = self.core.state.borrow();
        state.counters[peer.index()]
            .as_ref()
            .map_or(0, |counters| counters[counter as usize])
    }
}

impl Topology for Tcp {
    fn hosts(&self) -> u32 {
        self.host_of.iter().max().map_or(0, |last| last + 1)
    }

    fn host_of(&self, peer: Peer) -> u32 {
        self.host_of[peer.index()]
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

    fn rails(&self, _peer: Peer) -> u32 {
        1
    }

    fn cores_and_processes(&self) -> (u32, u32) {
        let state = self.core.state.borrow();
        (state.net.cores, state.net.processes)
    }
}

impl Fabric for Tcp {
    #[inline]
    fn me(&self) -> Peer {
        self.me
    }

    #[inline]
    fn size(&self) -> u32 {
        self.size
    }

    fn name(&self) -> &'static str {
        "tcp"
    }

    #[inline]
    fn progress(&self) -> bool {
        self.core.state.borrow_mut().turn(0)
    }

    fn close(&self, patience: Duration) {
        self.core.state.borrow_mut().close(patience);
    }
}
