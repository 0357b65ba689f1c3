//! Plain TCP between hosts: needs nothing installed.
//!
//! Two processes that communicate share a [link](crate::link), made at the first
//! message, over one connection for each pair of interfaces that reach each other (a *rail*). The link keeps order and
//! loses nothing while one rail lives; here are the sockets, who may use them ([`trust`](crate::trust)), and what
//! the frames do: puts, packets, fences, and bulk data, which goes from the one user's memory to the socket and from the
//! socket into the other's. Nothing runs in the background: every call that waits, and [`Fabric::progress`], reads and
//! writes what can be read and written.
//!
//! A line is one `send` from the call that posts it; the lines of a run wait for its last one and are one `send` together. A poll is one `recv`.
//! The code in a frame's header is SipHash-2-4 under a key of the connection and the direction ([`link`]). It covers the header and the number of the
//! frame, not the payload; with `FARPOST_ENCRYPT=1` everything travels in AES-GCM records.

#![cfg(not(loom))]

mod acceptor;
mod apply;
mod bulk;
mod card;
mod close_reason;
#[cfg(feature = "conformance")]
pub mod conformance;
mod connection;
mod connections;
mod control;
mod diagnostics;
mod heap;
mod input;
pub mod link;
mod listeners;
mod packets;
mod payloads;
mod peer;
mod receive;
mod routes;
mod segment_table;
mod segments;
mod send;
mod socket;
mod started;
mod state;
mod striped;
#[cfg(test)]
mod tests;
mod transfers;
pub mod trust;
mod zcopy;

pub use card::OpenError;
pub use segments::Imported;
#[cfg(fuzzing)]
#[doc(hidden)]
pub use segments::fuzzing;

use crate::link::LinkTunables;
use crate::trust::{Tally, TrustTunables};
use control::ControlCode;
use farpost_fabric::clock::Clock;
use farpost_fabric::lane;
use farpost_fabric::{
    Carried, Counter, Counters, Distance, ErrorStatus, Fabric, FabricError, Fault, Interrupt, PacketQueue,
    Peer, Port, Priority, Result, Time, Topology, TrySend, Wake,
};
use farpost_net::NetConfig;
use farpost_net::interfaces::{
    Card, Choice, ConnectTunables, INTERFACE_VARIABLE, PORTS_VARIABLE, Plan, PortRange, Usable,
};
use state::TcpState;
use std::cell::RefCell;
use std::os::fd::{OwnedFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

farpost_tunables::tunables! {
    /// Tunables of the TCP fabric.
    pub struct TcpTunables {
        /// Puts from this size on are sent at once; smaller ones wait a moment for what follows, to be sent together.
        direct: "FARPOST_TCP_DIRECT" = 64 << 10, 0..=1 << 30, "bytes";
        /// Size of a socket's buffers in the kernel. 0 leaves it to the kernel, which adapts them to the connection.
        buffer: "FARPOST_TCP_BUFFER" = 0, 0..=1 << 30, "bytes";
        /// 1 leaves connections to the system's congestion control where that is BBR, which holds back the bursts of parallel programs; 0 takes Reno or CUBIC there.
        paced: "FARPOST_TCP_PACED" = 0, 0..=1, "switch";
        /// Packets of one priority on their way to one process.
        packets: "FARPOST_TCP_PACKETS" = 32, 2..=1 << 16, "packets";
        /// Bytes of eager zero-copy payloads (sent right behind the line that announces them) that one process buffers for each other one before a receive matches them. A sender that has used its grant takes the rendezvous protocol. 0 turns them off.
        zcopy: "FARPOST_TCP_ZCOPY" = 4 << 20, 0..=1 << 30, "bytes";
        /// Segments from this size on ask for huge pages; smaller ones would waste memory.
        huge_from: "FARPOST_TCP_HUGE_FROM" = 4 << 20, 0..=1 << 40, "bytes";
    }
}

/// All settings of the TCP fabric.
#[derive(Clone, Debug, Default)]
pub struct TcpSettings {
    /// Its own.
    pub tcp: TcpTunables,
    /// Of its links.
    pub link: LinkTunables,
    /// Of connecting.
    pub connect: ConnectTunables,
    /// Of authentication.
    pub trust: TrustTunables,
    /// The interfaces to use.
    pub choice: Choice,
    /// The ports to listen on.
    pub ports: PortRange,
}

impl TcpSettings {
    /// The value of a tunable.
    pub fn value(&self, name: &str) -> Option<u64> {
        let own = self.tcp.get(name).or_else(|| self.link.get(name));
        own.or_else(|| self.connect.get(name))
            .or_else(|| self.trust.get(name))
    }

    /// Set what the variable `name` is about. `Ok(false)`: it is about nothing here.
    ///
    /// # Errors
    /// A sentence with the variable and its value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let text = |error: farpost_tunables::TunableError| error.to_string();
        match name {
            INTERFACE_VARIABLE => self.choice = Choice::parse(value).map_err(|error| error.to_string())?,
            PORTS_VARIABLE => self.ports = PortRange::parse(value).map_err(|error| error.to_string())?,
            _ => {
                return Ok(self.tcp.set(name, value).map_err(text)?
                    || self.link.set(name, value).map_err(text)?
                    || self.connect.set(name, value).map_err(text)?
                    || self.trust.set(name, value).map_err(text)?);
            }
        }
        Ok(true)
    }

    /// Whether the interfaces asked for, if any were, are there.
    ///
    /// # Errors
    /// None of this host's is meant by what was asked; the sentence lists them.
    pub fn check_interfaces(&self) -> Result<(), OpenError> {
        if self.choice != Choice::default() {
            card::usable(&self.choice)?;
        }
        Ok(())
    }
}

impl From<TcpTunables> for TcpSettings {
    fn from(tcp: TcpTunables) -> Self {
        Self {
            tcp,
            ..Self::default()
        }
    }
}

impl TcpTunables {
    fn tuning(&self) -> socket::Tuning {
        socket::Tuning {
            buffer: self.buffer as usize,
            paced: self.paced != 0,
        }
    }
}

/// Polls of the sockets before a wait sleeps.
const SPINS: u32 = 100;

/// Longest sleep between two polls.
const NAP: Duration = Duration::from_millis(20);

/// What the fabric and its imports share.
struct Core {
    state: RefCell<TcpState>,
}

/// The TCP fabric of one process.
pub struct Tcp {
    core: Rc<Core>,
    me: Peer,
    size: u32,
    host_of: Rc<[u32]>,
    clock: Rc<Clock>,
}

/// A process that others can find, and that does not yet know who they are: first this, then its card is published,
/// then the job is joined.
pub struct Listening {
    listeners: Vec<OwnedFd>,
    addresses: Card,
    card: Vec<u8>,
    settings: TcpSettings,
}

impl Listening {
    /// Listen on the interfaces that the settings choose.
    ///
    /// # Errors
    /// There is none, no port is free, or the system refuses.
    pub fn open(settings: impl Into<TcpSettings>) -> Result<Self, OpenError> {
        let settings = settings.into();
        let on = card::usable(&settings.choice)?;
        Self::open_on(settings, &on)
    }

    /// Listen on these interfaces.
    ///
    /// # Errors
    /// No port is free, or the system refuses.
    pub fn open_on(settings: impl Into<TcpSettings>, on: &[Usable]) -> Result<Self, OpenError> {
        let settings = settings.into();
        let (listeners, addresses) = card::listen(on, settings.ports)?;
        Ok(Self {
            listeners,
            card: card::encode(&addresses),
            addresses,
            settings,
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
    pub fn start(self, net: NetConfig) -> Result<Tcp> {
        let (me, size, host_of) = (net.me, net.size, Rc::clone(&net.host_of));
        if me.0 >= size || host_of.len() != size as usize {
            return Err(FabricError::NoSuchPeer { peer: me, size });
        }
        let state = TcpState::new(net, self.settings, self.listeners, self.addresses)?;
        Ok(Tcp {
            clock: Rc::clone(&state.clock),
            core: Rc::new(Core {
                state: RefCell::new(state),
            }),
            me,
            size,
            host_of,
        })
    }
}

impl Tcp {
    /// The rails between this process and `peer`, and why these: what `farpost doctor --hosts` shows.
    ///
    /// # Errors
    /// A sentence: its card cannot be had or read, or no way leads to it.
    pub fn rail_plan(&self, peer: Peer) -> Result<Plan, String> {
        let state = self.core.state.borrow();
        let theirs = card::decode(&state.net.book.card(peer)?)?;
        card::plan_rails((self.me, &state.card), (peer, &theirs))
    }

    /// By rail to `peer`: whether a proved connection is there, or what became of the latest attempt. Empty before the
    /// first message.
    pub fn rails_up(&self, peer: Peer) -> Vec<Result<(), String>> {
        let state = self.core.state.borrow();
        let Some(remote) = state.peers.get(peer) else {
            return Vec::new();
        };
        let of = |rail: &peer::Rail| match rail.slot {
            peer::NONE => Err(rail.trouble.clone()),
            _ => Ok(()),
        };
        remote.rails.iter().map(of).collect()
    }

    /// Connections that came, that proved themselves, and that were refused, by reason.
    pub fn strangers(&self) -> Tally {
        *self.core.state.borrow().acceptor.gate.tally()
    }
}

impl Tcp {
    /// Connections that came and were not let in, for people: empty if there were none.
    pub fn refused(&self) -> String {
        self.core.state.borrow().acceptor.gate.tally().sentence()
    }
}

impl Core {
    /// Progress until `ready` has an answer.
    fn wait<T>(&self, mut ready: impl FnMut(&mut TcpState) -> Result<Option<T>>) -> Result<T> {
        let mut idle = 0;
        loop {
            let mut state = self.state.borrow_mut();
            if let Some(answer) = ready(&mut state)? {
                return Ok(answer);
            }
            let came = if idle < SPINS {
                state.turn(0)
            } else {
                state.sleep(NAP)
            };
            idle = if came { 0 } else { idle + 1 };
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.state.get_mut().abandon();
    }
}

impl PacketQueue for Tcp {
    const ORDERED: bool = true;
    const PACKET_BYTES: usize = link::PACKET_BYTES;

    fn try_send(&self, peer: Peer, port: Port, priority: Priority, payload: &[u8]) -> TrySend {
        assert!(peer.0 < self.size, "{peer} does not exist");
        assert!(
            payload.len() <= Self::PACKET_BYTES,
            "a packet of {} bytes",
            payload.len()
        );
        let lane = lane(port, priority);
        let state = &mut *self.core.state.borrow_mut();
        if !state.packets.may_send(peer, lane) {
            state.turn(0);
            if !state.packets.may_send(peer, lane) {
                return TrySend::Full;
            }
        }
        state.send_packet(peer, lane as u8, payload);
        TrySend::Sent
    }

    fn poll_priority(&self, port: Port, priority: Priority, mut take: impl FnMut(Peer, &[u8])) -> bool {
        let lane = lane(port, priority);
        let next = {
            let state = &mut *self.core.state.borrow_mut();
            let next = state.packets.next(self.me, lane);
            if let Some((from, .., Some(credit))) = &next {
                state.control(*from, ControlCode::Credit, lane as u32, &[*credit]);
            }
            next
        };
        let Some((from, bytes, len, _)) = next else {
            return false;
        };
        take(from, &bytes[..len]);
        true
    }

    fn packets_waiting(&self, port: Port, priority: Priority, limit: u32) -> u32 {
        let waiting = self.core.state.borrow().packets.waiting(lane(port, priority));
        u32::try_from(waiting).unwrap_or(limit).min(limit)
    }
}

impl Time for Tcp {
    #[inline]
    fn clock(&self) -> &Rc<Clock> {
        &self.clock
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
        // What `ready` received counts as a ring: it may concern something that `ready` does not ask for.
        if ready() {
            return Wake::Ready;
        }
        let mut state = self.core.state.borrow_mut();
        if state.arrivals != before || state.sleep(timeout) {
            Wake::Rung
        } else {
            Wake::Timeout
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.core.state.borrow().descriptor())
    }

    fn arm(&self) -> bool {
        let mut state = self.core.state.borrow_mut();
        let quiet = !state.turn(0);
        state.arm();
        quiet
    }
}

impl ErrorStatus for Tcp {
    fn record_fault(&self, fault: Fault) {
        self.core.state.borrow_mut().diagnostics.record_fault(fault);
    }

    fn take_faults(&self) -> (Vec<Fault>, u64) {
        self.core.state.borrow_mut().diagnostics.faults.take()
    }

    fn faulted(&self) -> bool {
        !self.core.state.borrow().diagnostics.faults.is_empty()
    }

    fn is_gone(&self, peer: Peer) -> bool {
        let state = self.core.state.borrow();
        let remote = state.peers.get(peer);
        remote.is_some_and(|remote| remote.status != peer::PeerStatus::Active)
    }
}

impl Counters for Tcp {
    fn count(&self, peer: Peer, counter: Counter, amount: u64) {
        assert!(peer.0 < self.size, "{peer} does not exist");
        self.core
            .state
            .borrow_mut()
            .diagnostics
            .count(peer, counter, amount);
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
        self.core.state.borrow().diagnostics.counter(peer, counter)
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

    fn rails(&self, peer: Peer) -> u32 {
        let state = self.core.state.borrow();
        let rails = match state.peers.get(peer) {
            Some(remote) => remote.rails.len(),
            None if peer == self.me => 1,
            // Nothing was sent there yet: what the two cards say.
            None => {
                drop(state);
                self.rail_plan(peer).map_or(1, |plan| plan.rails.len())
            }
        };
        rails.max(1) as u32
    }

    fn rail_works(&self, peer: Peer, rail: u32) -> bool {
        let state = self.core.state.borrow();
        match state.peers.get(peer) {
            Some(remote) if remote.link.was_up() => remote.link.is_usable(rail as usize),
            _ => {
                drop(state);
                rail < self.rails(peer)
            }
        }
    }

    fn reroutes(&self, peer: Peer) -> u64 {
        let state = self.core.state.borrow();
        let remote = state.peers.get(peer);
        remote.map_or(0, |remote| remote.link.counters().reroutes)
    }

    fn carried(&self, peer: Peer, rail: u32) -> Carried {
        let state = self.core.state.borrow();
        let remote = state.peers.get(peer);
        remote.map_or_else(Carried::default, |remote| remote.link.carried(rail as usize))
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
