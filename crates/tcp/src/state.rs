//! The state of an endpoint: its peers, its connections, and what one turn does with them.
//!
//! Cost class: [`TcpState::turn`], [`TcpState::put`] and [`TcpState::put_line`] are *fast path* (but for their system call).

use super::TcpSettings;
use super::card;
use super::connections::{ConnectionStage, Connections};
use super::diagnostics::Diagnostics;
use super::heap::{self, FreedBytes};
use super::listeners::{Acceptor, LISTENER};
use super::packets::Packets;
use super::peer::{Deferred, NONE, PeerState, PeerStatus, Peers, Rail};
use super::segment_table::SegmentTable;
use super::socket;
use super::transfers::Transfers;
use crate::link::{Event, Link, LinkConfig, SpareLogs, TransportReport};
use crate::trust::Secret;
use farpost_fabric::clock::Clock;
use farpost_fabric::{Counter, FabricError, Fault, Peer, Result};
use farpost_net::NetConfig;
use farpost_net::interfaces::Card;
use farpost_net::poll::{self, Alarm, Poll};
use std::os::fd::{OwnedFd, RawFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// With one connection, which is read directly, the other descriptors are polled once in so many turns.
const POLL_OTHERS: u32 = 64;

/// With several connections, the one that last received something is read directly, and all are polled once in so many turns.
const POLL_ALL: u32 = 4;

/// A gap of so many nanoseconds between two turns means that the program computes in between: then each turn polls all descriptors.
const COMPUTE_GAP: u64 = 20_000;

/// Key of the alarm in the poll set.
const ALARM: u64 = u64::MAX - 1;

pub struct TcpState {
    pub me: Peer,
    pub size: u32,
    pub net: NetConfig,
    pub settings: TcpSettings,
    pub secret: Secret,
    pub card: Card,
    pub peers: Peers,
    pub conns: Connections,
    pub poll: Poll,
    pub acceptor: Acceptor,
    alarm: Alarm,
    alarm_at: u64,
    /// Peers with something to send.
    pub send_list: Vec<u32>,
    pub turns: u32,
    /// When the latest turn began.
    turned: u64,
    pub clock: Rc<Clock>,
    /// When [`TcpState::run_timers`] has something to do, in nanoseconds since the epoch.
    pub deadline: u64,
    /// Counts what arrived: who is about to sleep compares it with what it saw before.
    pub arrivals: u64,
    /// The last read brought pings and pongs only.
    pub only_pings: bool,
    pub segments: SegmentTable,
    pub packets: Packets,
    pub transfers: Transfers,
    pub spare: super::payloads::SpareBuffers,
    /// What connections read into.
    pub read_buffers: super::input::ReadBuffers,
    /// What links have left of their logs, and when it goes back.
    pub spare_logs: (SpareLogs, super::heap::Rest),
    /// What was freed after a rest.
    freed: FreedBytes,
    /// Peers to which acknowledgements are due.
    pub ack_pending: Vec<u32>,
    pub diagnostics: Diagnostics,
    pub closing: bool,
}

impl TcpState {
    pub fn new(net: NetConfig, settings: TcpSettings, listeners: Vec<OwnedFd>, card: Card) -> Result<Self> {
        let fail = |e: std::io::Error| FabricError::os_error("make a poll set", &e);
        let poll = Poll::new().map_err(fail)?;
        let acceptor = Acceptor::new(listeners, settings.trust.limits(), &poll).map_err(fail)?;
        let alarm = Alarm::new().map_err(fail)?;
        poll.add(alarm.descriptor(), poll::IN, ALARM).map_err(fail)?;
        Ok(Self {
            me: net.me,
            size: net.size,
            secret: Secret::new(&net.secret),
            card,
            peers: Peers::new(net.size),
            conns: Connections::default(),
            poll,
            acceptor,
            alarm,
            alarm_at: u64::MAX,
            send_list: Vec::new(),
            turns: 0,
            turned: 0,
            clock: Rc::new(Clock::new()),
            deadline: u64::MAX,
            arrivals: 0,
            only_pings: false,
            segments: SegmentTable::default(),
            packets: Packets::new(&settings.tcp),
            transfers: Transfers::default(),
            spare: Default::default(),
            read_buffers: Default::default(),
            spare_logs: Default::default(),
            freed: FreedBytes::default(),
            ack_pending: Vec::new(),
            diagnostics: Diagnostics::new(net.size),
            closing: false,
            net,
            settings,
        })
    }

    pub fn descriptor(&self) -> RawFd {
        self.poll.descriptor()
    }

    /// Where the clock starts.
    pub fn epoch(&self) -> Instant {
        self.clock.epoch()
    }

    /// Nanoseconds since the epoch.
    #[inline]
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    // ---- peers ----

    pub fn check_peer(&self, peer: Peer) -> Result<()> {
        peer.check(self.size)
    }

    /// The state of `peer`, to which something is to be sent; the first call makes the link.
    #[inline]
    pub fn peer_state(&mut self, peer: Peer) -> Result<&mut PeerState> {
        if self.peers.get(peer).is_none() {
            self.meet(peer);
        }
        let remote = self.peers.at(peer).expect("made above");
        match &remote.status {
            PeerStatus::Active => Ok(remote),
            PeerStatus::Left => Err(FabricError::dead(peer, "it has left the job")),
            PeerStatus::Lost(why) => Err(FabricError::dead(peer, why.clone())),
        }
    }

    /// There is something to send to `peer`: [`TcpState::flush`] sends it.
    pub fn schedule_send(&mut self, peer: Peer) {
        if let Some(remote) = self.peers.at(peer)
            && !remote.in_send_list
        {
            remote.in_send_list = true;
            self.send_list.push(peer.0);
        }
    }

    /// Send `message` to a peer that is active, now or when the link has room; nothing happens for any other.
    pub fn push_or_defer(&mut self, peer: Peer, message: Deferred) {
        if let Ok(remote) = self.peer_state(peer) {
            remote.push_or_defer(message);
            remote.note_sent();
            self.schedule_send(peer);
        }
    }

    /// As [`push_or_defer`](Self::push_or_defer), a control frame.
    pub fn control(&mut self, peer: Peer, code: super::control::ControlCode, object: u32, words: &[u64]) {
        if let Ok(remote) = self.peer_state(peer) {
            remote.control(code, object, words);
            remote.note_sent();
            self.schedule_send(peer);
        }
    }

    /// Make a link to `peer`, whose rails the timers will connect.
    #[cold]
    pub fn meet(&mut self, peer: Peer) {
        let card = self.net.book.card(peer).and_then(|card| card::decode(&card));
        let plan = card.and_then(|card| card::plan_rails((self.me, &self.card), (peer, &card)));
        let (plan, why) = match plan {
            Ok(plan) => (plan, None),
            Err(why) => (Default::default(), Some(why)),
        };
        let mut rails: Vec<Rail> = (plan.rails.into_iter())
            .map(|of| Rail::new(of.candidates))
            .collect();
        if let Some(first) = rails.first_mut() {
            first.candidates.extend(plan.fallback);
        }
        // One or two each, and they stay.
        rails.iter_mut().for_each(|rail| rail.candidates.shrink_to_fit());
        let config = LinkConfig {
            rails: rails.len().clamp(1, 32),
            connect: self.settings.connect.total * 1_000_000,
            reports: true,
            tunables: self.settings.link.clone(),
            spare: self.spare_logs.0.clone(),
        };
        let link = Link::new(config, self.now());
        let mut remote = PeerState::new(link, rails);
        self.segments.announce_all(peer, &mut remote);
        self.peers.insert(peer, remote);
        self.open_zcopy(peer);
        match why {
            Some(why) => self.lose(peer, why),
            None => {
                self.deadline = 0;
                self.schedule_send(peer);
            }
        }
    }

    /// Give `peer` up: calls that wait for it end with an error.
    pub fn lose(&mut self, peer: Peer, why: String) {
        let Some(remote) = self.peers.at(peer) else {
            return;
        };
        let before = std::mem::replace(&mut remote.status, PeerStatus::Lost(why.clone()));
        remote.clear_deferred();
        for rail in 0..self.peers.get(peer).map_or(0, |remote| remote.rails.len()) {
            self.close_rail(peer, rail);
            if let Some(remote) = self.peers.at(peer) {
                let trying = std::mem::replace(&mut remote.rails[rail].trying, NONE);
                self.conns.close(trying);
            }
        }
        self.peer_gone(peer);
        self.arrivals += 1;
        if before == PeerStatus::Active && !self.closing {
            let error = FabricError::dead(peer, why);
            self.diagnostics.record_fault(Fault { peer, error });
        }
    }

    // ---- turns ----

    /// Send what waits and read what came, waiting for it at most `timeout` nanoseconds. True: something came.
    #[inline]
    pub fn turn(&mut self, timeout: u64) -> bool {
        let before = self.arrivals;
        self.flush();
        let now = self.now();
        if now >= self.deadline {
            self.run_timers(now);
        }
        self.turns = self.turns.wrapping_add(1);
        let away = now.saturating_sub(std::mem::replace(&mut self.turned, now)) > COMPUTE_GAP;
        if !self.conns.paused.is_empty() {
            self.resume(now);
        }
        if self.conns.hot != NONE && timeout == 0 && self.conns.blocked == 0 {
            let only = self.conns.open == 1 && self.conns.len() == 1;
            self.read(self.conns.hot, now);
            let every = if only { POLL_OTHERS } else { POLL_ALL };
            if away || self.arrivals == before && self.turns.is_multiple_of(every) {
                self.poll_descriptors(0, now);
            }
        } else {
            self.poll_descriptors(timeout, now);
        }
        if self.arrivals == before && !self.ack_pending.is_empty() {
            self.flush_pending_acks();
        }
        self.flush();
        self.arrivals != before
    }

    /// As [`turn`](Self::turn), but a timer that expires meanwhile does not end it.
    pub fn sleep(&mut self, timeout: Duration) -> bool {
        let until = self
            .now()
            .saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        loop {
            let left = until.saturating_sub(self.now());
            if self.turn(left) {
                return true;
            }
            if self.now() >= until {
                return false;
            }
        }
    }

    /// Prepare for a sleep on the poll set: it becomes readable when a timer expires, too.
    pub fn arm(&mut self) {
        if self.deadline != self.alarm_at {
            self.alarm_at = self.deadline;
            if self.deadline != u64::MAX {
                let left = Duration::from_nanos(self.deadline.saturating_sub(self.now()));
                self.alarm.set(left, Duration::ZERO);
            }
        }
    }

    fn poll_descriptors(&mut self, timeout: u64, now: u64) {
        let mut events = [poll::NO_EVENT; 32];
        let mut found = [(0, 0); 32];
        let mut count = 0;
        let clock = self.deadline.saturating_sub(now);
        let wait = timeout.min(clock).div_ceil(1_000_000);
        let wait = i32::try_from(wait).unwrap_or(i32::MAX);
        for (to, event) in found.iter_mut().zip(self.poll.wait(&mut events, wait)) {
            *to = (event.u64, event.events);
            count += 1;
        }
        let now = if wait > 0 { self.now() } else { now };
        for &(key, what) in &found[..count] {
            match key {
                LISTENER => {
                    self.arrivals += 1;
                    self.accept();
                }
                ALARM => {
                    self.alarm.quiet();
                    self.alarm_at = u64::MAX;
                }
                _ => self.ready(key as usize, what, now),
            }
        }
        self.conns.trim();
    }

    fn ready(&mut self, slot: usize, what: u32, now: u64) {
        let Some(conn) = self.conns.get(slot) else {
            return;
        };
        match conn.stage {
            ConnectionStage::Connecting { .. } => {
                self.arrivals += 1;
                self.reached(slot);
            }
            ConnectionStage::Handshaking { .. } | ConnectionStage::Unauthenticated { .. } => {
                self.arrivals += 1;
                self.advance_handshake(slot);
            }
            ConnectionStage::Open { peer, rail } => {
                if what & poll::OUT != 0 {
                    self.arrivals += 1;
                    self.unblock(peer, rail);
                }
                if what & !poll::OUT != 0 {
                    self.read(slot, now);
                }
            }
        }
    }

    /// Do what is due by the clock.
    #[cold]
    fn run_timers(&mut self, now: u64) {
        self.deadline = u64::MAX;
        if now >= self.acceptor.deadline {
            self.check_acceptor();
        }
        let (logs, rest) = &mut self.spare_logs;
        rest.used |= logs.take_used();
        let logs = match logs.bytes() {
            0 => (0, u64::MAX),
            _ if rest.is_over(now) => (logs.free(), u64::MAX),
            _ => (0, rest.look_at()),
        };
        let spare = [self.spare.rest(now), self.read_buffers.rest(now), logs];
        for (freed, next) in spare {
            self.freed.add(freed);
            self.deadline = self.deadline.min(next);
        }
        self.deadline = self.deadline.min(self.acceptor.deadline);
        // Not always the same first, so that pings of many processes do not meet at one.
        let first = (now / 1000) % u64::from(self.size);
        let mut routes = self.host_routes();
        for at in 0..u64::from(self.size) {
            let peer = Peer(((first + at) % u64::from(self.size)) as u32);
            if self.peers.get(peer).is_some() {
                self.use_host_routes(peer, &mut routes, now);
                self.run_link_timers(peer, now);
                self.add_host_routes(peer, &mut routes);
            }
            if let Some(remote) = self.peers.at(peer) {
                self.freed.add(remote.take_freed());
            }
        }
        if self.freed.is_worthwhile() {
            heap::trim();
        }
    }

    /// Run the timers of the link to `peer` and do what the link asks for.
    pub fn run_link_timers(&mut self, peer: Peer, now: u64) {
        loop {
            let Some(remote) = self.peers.at(peer) else {
                return;
            };
            if matches!(remote.status, PeerStatus::Lost(_)) {
                return;
            }
            remote.link.poll(now);
            let Some(event) = remote.link.next_event() else {
                self.deadline = self.deadline.min(remote.link.next_deadline().max(now + 1));
                break;
            };
            match event {
                Event::Ask(rail) => {
                    let fd = remote.rails.get(rail).map_or(-1, |rail| rail.fd);
                    if let Ok((acknowledged, in_flight)) = socket::confirmed(fd) {
                        let report = TransportReport {
                            acknowledged,
                            in_flight,
                        };
                        remote.link.on_report(rail, report, now);
                    }
                }
                Event::Drop { rail, why } => {
                    self.close_rail(peer, rail);
                    self.record_rail_error(peer, rail, why);
                }
                Event::Reconnect(rail) => self.dial(peer, rail, now),
                Event::Lost { rails, waited_ns } => {
                    let why = self.lost(peer, rails, waited_ns);
                    self.lose(peer, why);
                }
            }
        }
        self.schedule_send(peer);
    }

    fn record_rail_error(&mut self, peer: Peer, rail: usize, why: &str) {
        self.diagnostics.count(peer, Counter::Retries, 1);
        if let Some(remote) = self.peers.at(peer) {
            let via = remote.rails[rail]
                .candidates
                .first()
                .map_or("?", |c| c.interface.as_str());
            remote.rails[rail].trouble = format!("rail {rail} via {via}: {why}");
        }
    }

    /// The error text for a peer whose rails are all down.
    fn lost(&self, peer: Peer, rails: usize, waited: u64) -> String {
        let number = || {
            self.net
                .host_of
                .get(peer.index())
                .copied()
                .unwrap_or(0)
                .to_string()
        };
        let host = self.net.book.host(peer).unwrap_or_else(number);
        let ms = waited / 1_000_000;
        let remote = self.peers.get(peer);
        if let Some(never) = remote.filter(|remote| !remote.link.was_up()) {
            return super::peer::never_reached(&host, never, waited);
        }
        let mut why = format!("host {host}: none of {rails} rails has worked for {ms} ms");
        if let Some(remote) = remote {
            for rail in remote.rails.iter().filter(|rail| !rail.trouble.is_empty()) {
                why.push_str("; ");
                why.push_str(&rail.trouble);
            }
        }
        why
    }

    // ---- the end ----    /// End without a bye frame, unless one was sent: what waits is sent as far as the sockets take it now, and peers that
    /// wait for this process learn that it is gone.
    pub fn abandon(&mut self) {
        if std::mem::replace(&mut self.closing, true) {
            return;
        }
        self.turn(0);
        for remote in self.peers.iter() {
            for rail in remote.rails.iter().filter(|rail| rail.fd >= 0) {
                socket::finish(rail.fd);
            }
        }
    }

    /// Send bye frames and what waits, and read until the peers have all, at most for `patience`.
    pub fn close(&mut self, patience: Duration) {
        if std::mem::replace(&mut self.closing, true) {
            return;
        }
        let started = Instant::now();
        // Peers get what is striped themselves, and ask nothing after a bye.
        while self.owes_striped() && started.elapsed() < patience {
            self.turn(1_000_000);
        }
        for peer in (0..self.size).map(Peer) {
            if let Some(remote) = self.peers.at(peer)
                && (remote.is_connected() || remote.is_active() && remote.has_user_traffic)
            {
                // Also to a peer that has sent its bye first and waits for ours: an end without one looks like a rail
                // that broke.
                remote.push_or_defer(Deferred::Bye);
                self.schedule_send(peer);
            }
        }
        self.turn(0);
        // Bytes that arrive and are not read make the kernel reset the connection, and what the peer's kernel has not
        // got by then is lost: read on until it has, and its process too if that takes no longer.
        let mut held = true;
        while held && started.elapsed() < patience {
            let late = started.elapsed() > LINGER;
            held = self.peers.iter().any(|remote| {
                // A peer that has sent its bye and closed its connections acknowledges nothing more.
                let here = match remote.status {
                    PeerStatus::Lost(_) => false,
                    PeerStatus::Left => remote.is_connected(),
                    PeerStatus::Active => remote.has_user_traffic || remote.is_connected(),
                };
                let in_kernel = || {
                    let open = remote.rails.iter().filter(|rail| rail.fd >= 0);
                    let mut all = open
                        .map(|rail| socket::unconfirmed(rail.fd) == 0 && !rail.blocked)
                        .peekable();
                    all.peek().is_some() && all.all(|there| there)
                };
                here && !(remote.link.drained() && remote.is_free())
                    && !(late && remote.is_free() && in_kernel())
            });
            if held {
                self.turn(1_000_000);
            }
        }
        for remote in self.peers.iter() {
            for rail in remote.rails.iter().filter(|rail| rail.fd >= 0) {
                socket::finish(rail.fd);
            }
        }
    }
}

/// How long a process that closes waits for peers' processes to take what their kernels have got.
const LINGER: Duration = Duration::from_millis(20);
