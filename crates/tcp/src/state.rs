//! The state of an endpoint: its peers, its connections, and what one turn does with them.
//!
//! Cost class: [`State::turn`], [`State::put`] and [`State::put_line`] are *fast path* (but for their system call).

use super::TcpSettings;
use super::bulk::Transfers;
use super::card;
use super::conn::{Conn, LISTENER, Stage};
use super::other::{NONE, Other, Rail, Say, Standing};
use super::packets::Packets;
use super::segments::Table;
use super::socket::{self, Alarm, Poll};
use super::ways;
use crate::link::{Event, Link, LinkConfig, TransportReport};
use crate::trust::{Gate, Secret};
use farpost_fabric::clock::Clock;
use farpost_fabric::{Counter, FabricError, Fault, Peer};
use farpost_net::NetConfig;
use farpost_net::interfaces::Card;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How many faults are kept until somebody asks.
const FAULTS_KEPT: usize = 64;

/// With one connection, which is read directly, other descriptors are looked at once in so many turns.
const LOOK_AROUND: u32 = 64;

/// With several, the one that last brought something is read directly, and all are looked at once in so many turns.
const LOOK_AT_ALL: u32 = 4;

/// Who lets so many nanoseconds pass between two turns computes in between: all are looked at then, each time.
const AWAY: u64 = 20_000;

/// Key of the alarm in the poll set.
const ALARM: u64 = u64::MAX - 1;

pub struct State {
    pub me: Peer,
    pub size: u32,
    pub net: NetConfig,
    pub settings: TcpSettings,
    pub secret: Secret,
    pub card: Card,
    pub others: Vec<Option<Box<Other>>>,
    pub conns: Vec<Option<Box<Conn>>>,
    /// The slot whose connection is taken out while it is read.
    pub reading: usize,
    /// Connections in use as rails.
    pub open: usize,
    /// The connection that last brought something.
    pub hot: usize,
    /// Rails whose sockets are full.
    pub blocked: usize,
    pub poll: Poll,
    pub listeners: Vec<OwnedFd>,
    pub gate: Gate,
    /// By place at the gate: the slot.
    pub waiting_in: Vec<usize>,
    pub shut_until: Option<Instant>,
    pub door_at: u64,
    alarm: Alarm,
    alarm_at: u64,
    /// Peers with something to send.
    pub list: Vec<u32>,
    pub turns: u32,
    /// When the latest turn began.
    turned: u64,
    /// The turn at which packets were last polled for.
    pub clock: Rc<Clock>,
    /// When something depends on the clock next, in nanoseconds since the epoch.
    pub deadline: u64,
    /// Counts what arrived, so that nobody sleeps over it.
    pub arrivals: u64,
    /// What was read last were questions and answers whether the other lives, and nothing else.
    pub only_pings: bool,
    pub segments: Table,
    pub packets: Packets,
    pub transfers: Transfers,
    pub spare: super::tails::Spare,
    /// Peers that have not been told of all that came.
    pub owing: Vec<u32>,
    /// Connections of which nothing is read before the protocol above has looked at what came.
    pub paused: Vec<usize>,
    pub faults: (Vec<Fault>, u64),
    pub counters: Vec<Option<Box<[u64; Counter::COUNT]>>>,
    pub closing: bool,
}

impl State {
    pub fn new(
        net: NetConfig,
        settings: TcpSettings,
        listeners: Vec<OwnedFd>,
        card: Card,
    ) -> Result<Self, FabricError> {
        let fail = |e: std::io::Error| FabricError::os_error("make a poll set", &e);
        let poll = Poll::new().map_err(fail)?;
        for listener in &listeners {
            poll.add(listener.as_raw_fd(), socket::IN, LISTENER)
                .map_err(fail)?;
        }
        let alarm = Alarm::new().map_err(fail)?;
        poll.add(alarm.descriptor(), socket::IN, ALARM).map_err(fail)?;
        let limits = settings.trust.limits();
        Ok(Self {
            me: net.me,
            size: net.size,
            secret: Secret::new(&net.secret),
            card,
            others: (0..net.size).map(|_| None).collect(),
            conns: Vec::new(),
            reading: NONE,
            open: 0,
            hot: NONE,
            blocked: 0,
            poll,
            listeners,
            gate: Gate::new(limits),
            waiting_in: vec![NONE; limits.places.max(1)],
            shut_until: None,
            door_at: u64::MAX,
            alarm,
            alarm_at: u64::MAX,
            list: Vec::new(),
            turns: 0,
            turned: 0,
            clock: Rc::new(Clock::new()),
            deadline: u64::MAX,
            arrivals: 0,
            only_pings: false,
            segments: Table::default(),
            packets: Packets::new(&settings.tcp),
            transfers: Transfers::default(),
            spare: Default::default(),
            owing: Vec::new(),
            paused: Vec::new(),
            faults: (Vec::new(), 0),
            counters: (0..net.size).map(|_| None).collect(),
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

    pub fn check_peer(&self, peer: Peer) -> Result<(), FabricError> {
        if peer.0 >= self.size {
            return Err(FabricError::NoSuchPeer {
                peer,
                size: self.size,
            });
        }
        Ok(())
    }

    /// The peer, to be sent something: connected to now, if it was not before.
    #[inline]
    pub fn other(&mut self, peer: Peer) -> Result<&mut Other, FabricError> {
        if self.others[peer.index()].is_none() {
            self.meet(peer);
        }
        let other = self.others[peer.index()].as_deref_mut().expect("just met");
        match &other.standing {
            Standing::Here => Ok(other),
            Standing::Left => Err(FabricError::PeerDead {
                peer,
                why: "it has left the job".into(),
            }),
            Standing::Dead(why) => Err(FabricError::PeerDead {
                peer,
                why: why.clone(),
            }),
        }
    }

    /// Note that there is something to send to `peer`.
    pub fn list(&mut self, peer: Peer) {
        if let Some(other) = &mut self.others[peer.index()]
            && !other.listed
        {
            other.listed = true;
            self.list.push(peer.0);
        }
    }

    /// Say something to a peer that is there; nothing happens when it is not.
    pub fn say(&mut self, peer: Peer, say: Say) {
        if let Ok(other) = self.other(peer) {
            other.say(say);
            other.told = true;
            other.used = true;
            self.list(peer);
        }
    }

    /// As [`say`](Self::say), a control frame.
    pub fn control(&mut self, peer: Peer, code: super::apply::Code, object: u32, words: &[u64]) {
        if let Ok(other) = self.other(peer) {
            other.control(code, object, words);
            other.told = true;
            other.used = true;
            self.list(peer);
        }
    }

    /// Make a link to `peer`, whose rails the clock will connect.
    #[cold]
    pub fn meet(&mut self, peer: Peer) {
        let card = self.net.book.card(peer).and_then(|card| card::decode(&card));
        let ways = card.and_then(|card| card::ways((self.me, &self.card), (peer, &card)));
        let (ways, why) = match ways {
            Ok(plan) => (plan, None),
            Err(why) => (Default::default(), Some(why)),
        };
        let rail = |of: farpost_net::interfaces::Rail| Rail {
            candidates: of.candidates,
            next: 0,
            outcomes: Vec::new(),
            refusals: Vec::new(),
            slot: NONE,
            fd: -1,
            blocked: false,
            sealed: false,
            trying: NONE,
            took: 0,
            ours_since: None,
            trouble: String::new(),
        };
        let mut rails: Vec<Rail> = ways.rails.into_iter().map(rail).collect();
        if let Some(first) = rails.first_mut() {
            first.candidates.extend(ways.fallback);
        }
        let config = LinkConfig {
            rails: rails.len().clamp(1, 32),
            connect: self.settings.connect.total * 1_000_000,
            reports: true,
            tunables: self.settings.link.clone(),
        };
        let link = Link::new(config, self.now());
        let mut other = Box::new(Other::new(link, rails));
        self.segments.announce_all(peer, &mut other);
        self.others[peer.index()] = Some(other);
        self.open_tails(peer);
        match why {
            Some(why) => self.lose(peer, why),
            None => {
                self.deadline = 0;
                self.list(peer);
            }
        }
    }

    /// A peer is given up: everybody who waits for it learns it.
    pub fn lose(&mut self, peer: Peer, why: String) {
        let Some(other) = self.others[peer.index()].as_deref_mut() else {
            return;
        };
        let before = std::mem::replace(&mut other.standing, Standing::Dead(why.clone()));
        other.forget_all();
        for rail in 0..self.others[peer.index()]
            .as_ref()
            .map_or(0, |other| other.rails.len())
        {
            self.close_rail(peer, rail);
            if let Some(other) = &mut self.others[peer.index()] {
                let trying = std::mem::replace(&mut other.rails[rail].trying, NONE);
                if let Some(conn) = self.conns.get_mut(trying) {
                    *conn = None;
                }
            }
        }
        self.transfers.peer_gone(peer);
        self.arrivals += 1;
        if before == Standing::Here && !self.closing {
            let error = FabricError::PeerDead { peer, why };
            self.record_fault(Fault { peer, error });
        }
    }

    pub fn record_fault(&mut self, fault: Fault) {
        if fault.peer.0 < self.size {
            self.count(fault.peer, Counter::Faults, 1);
        }
        if self.faults.0.len() < FAULTS_KEPT {
            self.faults.0.push(fault);
        } else {
            self.faults.1 += 1;
        }
    }

    pub fn count(&mut self, peer: Peer, counter: Counter, amount: u64) {
        let counters = self.counters[peer.index()].get_or_insert_default();
        let cell = &mut counters[counter as usize];
        *cell = cell.wrapping_add(amount);
    }

    // ---- turns ----

    /// Send what waits and read what came, waiting for it at most `timeout` nanoseconds. True: something came.
    #[inline]
    pub fn turn(&mut self, timeout: u64) -> bool {
        let before = self.arrivals;
        self.flush();
        let now = self.now();
        if now >= self.deadline {
            self.clocks(now);
        }
        self.turns = self.turns.wrapping_add(1);
        let away = now.saturating_sub(std::mem::replace(&mut self.turned, now)) > AWAY;
        if !self.paused.is_empty() {
            self.resume(now);
        }
        if self.hot != NONE && timeout == 0 && self.blocked == 0 {
            let only = self.open == 1 && self.conns.len() == 1;
            self.read(self.hot, now);
            let every = if only { LOOK_AROUND } else { LOOK_AT_ALL };
            if away || self.arrivals == before && self.turns.is_multiple_of(every) {
                self.look_around(0, now);
            }
        } else {
            self.look_around(timeout, now);
        }
        if self.arrivals == before && !self.owing.is_empty() {
            self.settle_owing();
        }
        self.flush();
        self.arrivals != before
    }

    /// As [`turn`](Self::turn), but what the clock wants meanwhile does not end it.
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

    /// Ready to be slept on: the poll set becomes readable when the clock wants something, too.
    pub fn arm(&mut self) {
        if self.deadline != self.alarm_at {
            self.alarm_at = self.deadline;
            if self.deadline != u64::MAX {
                self.alarm.set(self.deadline.saturating_sub(self.now()));
            }
        }
    }

    fn look_around(&mut self, timeout: u64, now: u64) {
        let mut events = [socket::NO_EVENT; 32];
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
        while let Some(None) = self.conns.last() {
            self.conns.pop();
        }
    }

    fn ready(&mut self, slot: usize, what: u32, now: u64) {
        let Some(Some(conn)) = self.conns.get(slot) else {
            return;
        };
        match conn.stage {
            Stage::Reaching { .. } => {
                self.arrivals += 1;
                self.reached(slot);
            }
            Stage::Calling { .. } | Stage::Stranger { .. } => {
                self.arrivals += 1;
                self.shake(slot);
            }
            Stage::Open { peer, rail } => {
                if what & socket::OUT != 0 {
                    self.arrivals += 1;
                    self.unblock(peer, rail);
                }
                if what & !socket::OUT != 0 {
                    self.read(slot, now);
                }
            }
        }
    }

    /// What the clock wants.
    #[cold]
    fn clocks(&mut self, now: u64) {
        self.deadline = u64::MAX;
        if now >= self.door_at {
            self.mind_door();
        }
        self.deadline = self.deadline.min(self.door_at);
        // Not always the same first, so that pings of many processes do not meet at one.
        let first = (now / 1000) % u64::from(self.size);
        let mut ways = self.ways();
        for at in 0..u64::from(self.size) {
            let peer = Peer(((first + at) % u64::from(self.size)) as u32);
            if self.others[peer.index()].is_some() {
                self.share(peer, &mut ways, now, true);
                self.clock_of(peer, now);
                self.share(peer, &mut ways, now, false);
            }
        }
    }

    /// What the clock wants of the link to `peer`, and what the link wants.
    pub fn clock_of(&mut self, peer: Peer, now: u64) {
        loop {
            let Some(other) = self.others[peer.index()].as_deref_mut() else {
                return;
            };
            if matches!(other.standing, Standing::Dead(_)) {
                return;
            }
            other.link.poll(now);
            let Some(event) = other.link.next_event() else {
                self.deadline = self.deadline.min(other.link.next_deadline().max(now + 1));
                break;
            };
            match event {
                Event::Ask(rail) => {
                    let fd = other.rails.get(rail).map_or(-1, |rail| rail.fd);
                    if let Ok((acknowledged, in_flight)) = socket::confirmed(fd) {
                        let report = TransportReport {
                            acknowledged,
                            in_flight,
                        };
                        other.link.on_report(rail, report, now);
                    }
                }
                Event::Drop { rail, why } => {
                    self.close_rail(peer, rail);
                    self.note_trouble(peer, rail, why);
                }
                Event::Reconnect(rail) => self.dial(peer, rail, now),
                Event::Lost { rails, waited_ns } => {
                    let why = self.lost(peer, rails, waited_ns);
                    self.lose(peer, why);
                }
            }
        }
        self.list(peer);
    }

    fn note_trouble(&mut self, peer: Peer, rail: usize, why: &str) {
        self.count(peer, Counter::Retries, 1);
        if let Some(other) = &mut self.others[peer.index()] {
            let via = other.rails[rail]
                .candidates
                .first()
                .map_or("?", |c| c.interface.as_str());
            other.rails[rail].trouble = format!("rail {rail} via {via}: {why}");
        }
    }

    /// The sentence about a peer whose rails are all gone.
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
        let other = self.others[peer.index()].as_deref();
        if let Some(never) = other.filter(|other| !other.link.was_up()) {
            return ways::never_reached(&host, never, waited);
        }
        let mut why = format!("host {host}: none of {rails} rails has worked for {ms} ms");
        if let Some(other) = other {
            for rail in other.rails.iter().filter(|rail| !rail.trouble.is_empty()) {
                why.push_str("; ");
                why.push_str(&rail.trouble);
            }
        }
        why
    }

    // ---- the end ----

    /// End without goodbye, unless it was said: what waits is sent as far as it goes now, and peers that wait for this
    /// process learn that it is gone.
    pub fn abandon(&mut self) {
        if std::mem::replace(&mut self.closing, true) {
            return;
        }
        self.turn(0);
        for other in self.others.iter().flatten() {
            for rail in other.rails.iter().filter(|rail| rail.fd >= 0) {
                socket::finish(rail.fd);
            }
        }
    }

    /// Say goodbye, send what waits, and see the peers off, until `patience` runs out.
    pub fn close(&mut self, patience: Duration) {
        if std::mem::replace(&mut self.closing, true) {
            return;
        }
        let started = Instant::now();
        for peer in (0..self.size).map(Peer) {
            if let Some(other) = &mut self.others[peer.index()]
                && (other.is_connected() || other.is_here() && other.used)
            {
                // Also to who has said goodbye first and waits for the answer: an end without one looks like a rail
                // that broke.
                other.say(Say::Bye);
                self.list(peer);
            }
        }
        self.turn(0);
        // Bytes that arrive and are not read make the kernel reset the connection, and what the peer's kernel has not
        // got by then is lost: read on until it has, and its process too if that takes no longer.
        let mut held = true;
        while held && started.elapsed() < patience {
            let late = started.elapsed() > LINGER;
            held = self.others.iter().flatten().any(|other| {
                // Who has said goodbye and gone wants nothing more, and confirms nothing more.
                let here = match other.standing {
                    Standing::Dead(_) => false,
                    Standing::Left => other.is_connected(),
                    Standing::Here => other.used || other.is_connected(),
                };
                let in_kernel = || {
                    let open = other.rails.iter().filter(|rail| rail.fd >= 0);
                    let mut all = open
                        .map(|rail| socket::unconfirmed(rail.fd) == 0 && !rail.blocked)
                        .peekable();
                    all.peek().is_some() && all.all(|there| there)
                };
                here && !(other.link.drained() && other.is_free())
                    && !(late && other.is_free() && in_kernel())
            });
            if held {
                self.turn(1_000_000);
            }
        }
        for other in self.others.iter().flatten() {
            for rail in other.rails.iter().filter(|rail| rail.fd >= 0) {
                socket::finish(rail.fd);
            }
        }
    }
}

/// How long a process that closes waits for peers' processes to take what their kernels have got.
const LINGER: Duration = Duration::from_millis(20);
