//! The state of an endpoint: its peers, its connections, and what one turn does with them.
//!
//! Cost class: [`State::turn`], [`State::put`] and [`State::put_line`] are *fast path* (but for their system call);
//! making connections is *set-up path*.

use super::bulk::Transfers;
use super::input::{Came, Input, Place, Sink};
use super::output::Output;
use super::packets::Packets;
use super::segments::Table;
use super::socket::{self, Poll};
use super::wire::{HEAD, Head, Hello, Kind, Wanted};
use super::{TcpTunables, card};
use crate::net::NetConfig;
use crate::{FabricError, Fault, LINE_BYTES, Line, Peer, Permission, Priority};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// How many faults are kept until somebody asks.
const FAULTS_KEPT: usize = 64;

/// Connections of whom nothing is known yet, at most.
const STRANGERS: usize = 64;

/// A socket is read at most so often in a row, so that one peer does not keep all others waiting.
const READS: u32 = 16;

/// With one connection, which is read directly, other descriptors are looked at once in so many turns.
const LOOK_AROUND: u32 = 64;

/// Key of the listener in the poll set; connections have their slot.
const LISTENER: u64 = u64::MAX;

/// What a peer is to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A connection is being made.
    Connecting,
    /// In use.
    Up,
    /// It has said goodbye.
    Left,
    /// Given up, and why.
    Dead(String),
}

/// A peer with whom something was exchanged.
pub struct Other {
    pub standing: Standing,
    /// Its socket, while up.
    pub fd: RawFd,
    slot: usize,
    pub out: Output,
    /// The socket takes no more for the time being.
    blocked: bool,
    /// In the list of those with something to send.
    listed: bool,
    /// Something was sent since it was last rung.
    pub told: bool,
    /// Fences asked for and answered, and whether something was put since the last.
    pub fences: u64,
    pub fenced: u64,
    pub unfenced: bool,
    /// Puts of ours that it refused: in all, and those reported.
    pub refused: u64,
    pub refused_told: u64,
    /// Puts of its that we refused.
    pub refusals: u64,
    /// Transfers to it that wait for their turn.
    pub bulk: VecDeque<super::bulk::Outgoing>,
}

impl Other {
    /// It is connected, or will be.
    pub fn is_there(&self) -> bool {
        matches!(self.standing, Standing::Connecting | Standing::Up)
    }

    pub fn is_up(&self) -> bool {
        self.standing == Standing::Up
    }

    fn new() -> Self {
        Self {
            standing: Standing::Connecting,
            fd: -1,
            slot: usize::MAX,
            out: Output::default(),
            blocked: false,
            listed: false,
            told: false,
            fences: 0,
            fenced: 0,
            unfenced: false,
            refused: 0,
            refused_told: 0,
            refusals: 0,
            bulk: VecDeque::new(),
        }
    }
}

enum Stage {
    /// We connect: waiting for the kernel.
    Reaching(Peer),
    /// We connect: waiting for the welcome.
    Greeting(Peer),
    /// Somebody connected: waiting for the hello.
    Stranger,
    Open(Peer),
}

struct Conn {
    fd: OwnedFd,
    stage: Stage,
    input: Input,
    since: Instant,
}

/// Why a connection ends.
enum End {
    /// The peer has closed it, or it broke.
    Lost(String),
    /// What came is not what may come.
    Bad(&'static str, u64),
    /// No longer needed.
    Quietly,
}

pub struct State {
    pub me: Peer,
    pub size: u32,
    pub net: NetConfig,
    pub tunables: TcpTunables,
    pub others: Vec<Option<Box<Other>>>,
    conns: Vec<Option<Box<Conn>>>,
    open: usize,
    strangers: usize,
    /// The slot whose connection is taken out while it is read.
    reading: usize,
    poll: Poll,
    listeners: Vec<OwnedFd>,
    /// Peers with something to send.
    list: Vec<u32>,
    blocked: usize,
    turns: u32,
    /// Counts what arrived, so that nobody sleeps over it.
    pub arrivals: u64,
    pub segments: Table,
    pub packets: Packets,
    pub transfers: Transfers,
    pub faults: (Vec<Fault>, u64),
    pub counters: Vec<Option<Box<[u64; crate::Counter::COUNT]>>>,
    closing: bool,
}

impl State {
    pub fn new(net: NetConfig, tunables: TcpTunables, listeners: Vec<OwnedFd>) -> Result<Self, FabricError> {
        let fail = |e: std::io::Error| FabricError::os_error("make a poll set", &e);
        let poll = Poll::new().map_err(fail)?;
        for listener in &listeners {
            poll.add(listener.as_raw_fd(), socket::IN, LISTENER)
                .map_err(fail)?;
        }
        Ok(Self {
            me: net.me,
            size: net.size,
            others: (0..net.size).map(|_| None).collect(),
            conns: Vec::new(),
            open: 0,
            strangers: 0,
            reading: usize::MAX,
            poll,
            listeners,
            list: Vec::new(),
            blocked: 0,
            turns: 0,
            arrivals: 0,
            segments: Table::default(),
            packets: Packets::new(&tunables),
            transfers: Transfers::default(),
            faults: (Vec::new(), 0),
            counters: (0..net.size).map(|_| None).collect(),
            closing: false,
            net,
            tunables,
        })
    }

    pub fn descriptor(&self) -> RawFd {
        self.poll.descriptor()
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
    pub fn other(&mut self, peer: Peer) -> Result<&mut Other, FabricError> {
        if self.others[peer.index()].is_none() {
            self.meet(peer);
            self.reach(peer);
        }
        let other = self.others[peer.index()].as_deref_mut().expect("just met");
        match &other.standing {
            Standing::Connecting | Standing::Up => Ok(other),
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

    /// Send a packet, which has its place in the window.
    pub fn send_packet(&mut self, peer: Peer, priority: Priority, payload: &[u8]) {
        if peer == self.me {
            let own = self.packets.arrived(peer, priority as u8, payload);
            debug_assert_eq!(own, Ok(()), "as many as the window has arrive");
            self.arrivals += 1;
            return;
        }
        let head = Head::new(Kind::Packet, 0, 0)
            .with(payload.len())
            .flagged(priority as u8);
        self.say(peer, head, payload);
        self.flush();
    }

    /// Queue a frame to a peer that is there; nothing happens when it is not.
    pub fn say(&mut self, peer: Peer, head: Head, payload: &[u8]) {
        if let Ok(other) = self.other(peer) {
            other.out.frame(head, payload);
            other.told = true;
            self.list(peer);
        }
    }

    fn meet(&mut self, peer: Peer) {
        let mut other = Box::new(Other::new());
        self.segments.announce_all(peer, &mut other.out);
        self.others[peer.index()] = Some(other);
        self.list(peer);
    }

    /// Begin to connect.
    fn reach(&mut self, peer: Peer) {
        let buffer = self.tunables.buffer as usize;
        let connected = self
            .net
            .book
            .card(peer)
            .and_then(|card| card::decode(&card))
            .and_then(|addresses| self.choose(&addresses))
            .and_then(|address| {
                socket::connect(address, buffer).map_err(|e| format!("connecting to {address}: {e}"))
            });
        match connected {
            Ok(fd) => {
                if let Err(why) = self.admit(fd, Stage::Reaching(peer), socket::OUT) {
                    self.lose(peer, why);
                }
            }
            Err(why) => self.lose(peer, why),
        }
    }

    fn choose(&self, addresses: &[SocketAddr]) -> Result<SocketAddr, String> {
        addresses.first().copied().ok_or("its card has no address".into())
    }

    /// Take a socket among the connections.
    fn admit(&mut self, fd: OwnedFd, stage: Stage, interest: u32) -> Result<(), String> {
        let free = |(slot, conn): (usize, &Option<_>)| conn.is_none() && slot != self.reading;
        let slot = self
            .conns
            .iter()
            .enumerate()
            .position(free)
            .unwrap_or(self.conns.len());
        let added = self.poll.add(fd.as_raw_fd(), interest, slot as u64);
        added.map_err(|e| format!("watching a socket: {e}"))?;
        let conn = Box::new(Conn {
            fd,
            stage,
            input: Input::new(),
            since: Instant::now(),
        });
        if slot == self.conns.len() {
            self.conns.push(None);
        }
        self.conns[slot] = Some(conn);
        Ok(())
    }

    /// A peer is given up: everybody who waits for it learns it.
    pub fn lose(&mut self, peer: Peer, why: String) {
        let Some(other) = self.others[peer.index()].as_deref_mut() else {
            return;
        };
        if matches!(other.standing, Standing::Dead(_) | Standing::Left) {
            return;
        }
        self.end_traffic(peer, Standing::Dead(why.clone()));
        if !self.closing {
            let error = FabricError::PeerDead { peer, why };
            self.record_fault(Fault { peer, error });
        }
    }

    /// Nothing goes to `peer` or comes from it any more.
    fn end_traffic(&mut self, peer: Peer, standing: Standing) {
        let Some(other) = self.others[peer.index()].as_deref_mut() else {
            return;
        };
        if other.blocked {
            self.blocked -= 1;
            other.blocked = false;
        }
        let up = other.standing == Standing::Up;
        other.standing = standing;
        other.out.clear();
        other.bulk.clear();
        other.fd = -1;
        let slot = std::mem::replace(&mut other.slot, usize::MAX);
        if up {
            self.open -= 1;
            if let Some(conn) = self.conns.get_mut(slot) {
                *conn = None;
            }
        }
        self.transfers.peer_gone(peer);
        self.arrivals += 1;
    }

    pub fn record_fault(&mut self, fault: Fault) {
        if fault.peer.0 < self.size {
            self.count(fault.peer, crate::Counter::Faults, 1);
        }
        if self.faults.0.len() < FAULTS_KEPT {
            self.faults.0.push(fault);
        } else {
            self.faults.1 += 1;
        }
    }

    pub fn count(&mut self, peer: Peer, counter: crate::Counter, amount: u64) {
        let counters = self.counters[peer.index()].get_or_insert_default();
        let cell = &mut counters[counter as usize];
        *cell = cell.wrapping_add(amount);
    }

    // ---- sending ----

    /// Put bytes, kept back for company if they are few.
    pub fn put(&mut self, peer: Peer, handle: u64, offset: usize, from: &[u8]) -> Result<(), FabricError> {
        let direct = self.tunables.direct as usize;
        let most = super::bulk::PIECE;
        let other = self.other(peer)?;
        other.unfenced = true;
        other.told = true;
        for (i, part) in from.chunks(most).enumerate() {
            let head = Head::new(Kind::Put, handle, (offset + i * most) as u64).with(part.len());
            let other = self.other(peer)?;
            if part.len() < direct || other.standing != Standing::Up || other.blocked {
                other.out.frame(head, part);
                self.list(peer);
            } else {
                let sent = other.out.send_along(other.fd, head, part);
                self.sent(peer, sent);
            }
        }
        Ok(())
    }

    /// Put a word, kept back for company.
    pub fn put_word(
        &mut self,
        peer: Peer,
        handle: u64,
        offset: usize,
        value: u64,
    ) -> Result<(), FabricError> {
        let other = self.other(peer)?;
        other.unfenced = true;
        other.told = true;
        let head = Head::new(Kind::Word, handle, offset as u64).with(8);
        other.out.frame(head, &value.to_ne_bytes());
        self.list(peer);
        Ok(())
    }

    /// Put a line, and send what waits.
    #[inline]
    pub fn put_line(
        &mut self,
        peer: Peer,
        handle: u64,
        offset: usize,
        line: &Line,
    ) -> Result<(), FabricError> {
        let words = 8 - line[1..].iter().rev().take_while(|word| **word == 0).count();
        let head = Head::new(Kind::Line, handle, offset as u64).with(words * 8);
        let mut frame = [0; HEAD + LINE_BYTES];
        frame[..HEAD].copy_from_slice(&head.encode());
        for (to, word) in frame[HEAD..].chunks_exact_mut(8).zip(line) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        let frame = &frame[..HEAD + words * 8];
        let other = self.other(peer)?;
        other.unfenced = true;
        other.told = true;
        if other.standing == Standing::Up && !other.blocked {
            let sent = other.out.send_now(other.fd, frame);
            self.sent(peer, sent);
        } else {
            other.out.push(frame, &[]);
            self.list(peer);
        }
        Ok(())
    }

    /// What a send brought: all, or the socket is full, or it broke.
    #[inline]
    fn sent(&mut self, peer: Peer, result: std::io::Result<bool>) {
        match result {
            Ok(true) => {}
            Ok(false) => self.block(peer),
            // The receiving side finds out why and what came before it.
            Err(_) => self.block(peer),
        }
    }

    /// The socket is full: go on when it has room.
    #[cold]
    fn block(&mut self, peer: Peer) {
        let Some(other) = self.others[peer.index()].as_deref_mut() else {
            return;
        };
        if other.standing == Standing::Up && !other.blocked {
            other.blocked = true;
            self.blocked += 1;
            let _ = self
                .poll
                .change(other.fd, socket::IN | socket::OUT, other.slot as u64);
        }
    }

    fn unblock(&mut self, peer: Peer) {
        let Some(other) = self.others[peer.index()].as_deref_mut() else {
            return;
        };
        if other.blocked {
            other.blocked = false;
            self.blocked -= 1;
            let _ = self.poll.change(other.fd, socket::IN, other.slot as u64);
            self.list(peer);
        }
    }

    /// Send what waits for `peer`, bulk data in its turn.
    fn flush_to(&mut self, peer: Peer) {
        loop {
            let Some(other) = self.others[peer.index()].as_deref_mut() else {
                return;
            };
            if other.standing != Standing::Up || other.blocked {
                return;
            }
            if other.out.len() < super::bulk::PIECE {
                self.transfers.next_piece(&mut other.bulk, &mut other.out);
            }
            if other.out.len() == 0 {
                return;
            }
            match other.out.flush(other.fd) {
                Ok(true) => {}
                Ok(false) | Err(_) => return self.block(peer),
            }
        }
    }

    /// Send what waits, to everybody.
    pub fn flush(&mut self) {
        while let Some(index) = self.list.pop() {
            if let Some(other) = &mut self.others[index as usize] {
                other.listed = false;
            }
            self.flush_to(Peer(index));
        }
    }

    /// Send what waits for `peer`; ring it if nothing was sent since the last time.
    pub fn wake(&mut self, peer: Peer) {
        if peer == self.me {
            return;
        }
        if let Ok(other) = self.other(peer) {
            if !std::mem::take(&mut other.told) {
                other.out.frame(Head::new(Kind::Ring, 0, 0), &[]);
            }
            if other.out.len() > 0 {
                self.flush_to(peer);
            }
        }
    }

    // ---- receiving ----

    /// Send what waits and read what came, waiting for it at most `timeout` milliseconds. True: something came.
    #[inline]
    pub fn turn(&mut self, timeout: i32) -> bool {
        let before = self.arrivals;
        if !self.list.is_empty() {
            self.flush();
        }
        self.turns = self.turns.wrapping_add(1);
        if timeout == 0
            && self.open == 1
            && self.conns.len() == 1
            && self.blocked == 0
            && !self.turns.is_multiple_of(LOOK_AROUND)
        {
            self.read(0);
        } else {
            self.look_around(timeout);
        }
        if !self.list.is_empty() {
            self.flush();
        }
        self.arrivals != before
    }

    fn look_around(&mut self, timeout: i32) {
        let mut events = [socket::NO_EVENT; 32];
        let mut found = [(0, 0); 32];
        let mut count = 0;
        for (to, event) in found.iter_mut().zip(self.poll.wait(&mut events, timeout)) {
            *to = (event.u64, event.events);
            count += 1;
        }
        // A connection made, or room to write: whoever slept looks again.
        self.arrivals += u64::from(count > 0);
        for &(key, what) in &found[..count] {
            if key == LISTENER {
                self.accept();
                continue;
            }
            let slot = key as usize;
            let Some(Some(conn)) = self.conns.get(slot) else {
                continue;
            };
            let peer = match conn.stage {
                Stage::Reaching(peer) => {
                    self.reached(slot, peer);
                    continue;
                }
                Stage::Open(peer) => Some(peer),
                _ => None,
            };
            if what & socket::OUT != 0
                && let Some(peer) = peer
            {
                self.unblock(peer);
            }
            if what & !socket::OUT != 0 {
                self.read(slot);
            }
        }
        if self.open < self.conns.len() {
            self.expire();
            while let Some(None) = self.conns.last() {
                self.conns.pop();
            }
        }
    }

    /// Connections that take too long to become one.
    fn expire(&mut self) {
        let limit = Duration::from_millis(self.tunables.connect_ms);
        for slot in 0..self.conns.len() {
            let Some(conn) = &self.conns[slot] else { continue };
            if conn.since.elapsed() < limit {
                continue;
            }
            match conn.stage {
                Stage::Stranger => self.drop_conn(slot),
                Stage::Reaching(peer) | Stage::Greeting(peer) => {
                    self.drop_conn(slot);
                    let why = format!("no answer to a connection for {} ms", limit.as_millis());
                    self.lose(peer, why);
                }
                Stage::Open(_) => {}
            }
        }
    }

    fn accept(&mut self) {
        for at in 0..self.listeners.len() {
            while let Ok(Some(fd)) = socket::accept(&self.listeners[at], self.tunables.buffer as usize) {
                if self.strangers >= STRANGERS {
                    continue;
                }
                if self.admit(fd, Stage::Stranger, socket::IN).is_ok() {
                    self.strangers += 1;
                }
            }
        }
    }

    fn drop_conn(&mut self, slot: usize) {
        if let Some(conn) = self.conns[slot].take()
            && matches!(conn.stage, Stage::Stranger)
        {
            self.strangers -= 1;
        }
    }

    /// The kernel has decided about a connection of ours.
    fn reached(&mut self, slot: usize, peer: Peer) {
        let Some(conn) = self.conns[slot].as_deref_mut() else {
            return;
        };
        let fd = conn.fd.as_raw_fd();
        conn.stage = Stage::Greeting(peer);
        let hello = Hello {
            me: self.me.0,
            size: self.size,
            you: peer.0,
        };
        let mut frame = Head::new(Kind::Hello, 0, 0).with(Hello::BYTES).encode().to_vec();
        frame.extend_from_slice(&hello.encode());
        let greeted = socket::outcome(fd)
            .and_then(|()| socket::send(fd, &frame))
            .and_then(|_| self.poll.change(fd, socket::IN, slot as u64));
        if let Err(error) = greeted {
            self.drop_conn(slot);
            self.lose(peer, format!("connecting failed: {error}"));
        }
    }

    fn read(&mut self, slot: usize) {
        let Some(mut conn) = self.conns.get_mut(slot).and_then(Option::take) else {
            return;
        };
        let fd = conn.fd.as_raw_fd();
        self.reading = slot;
        let mut end = None;
        for _ in 0..READS {
            match conn.input.receive(fd) {
                Ok(Came::Nothing) => break,
                Ok(Came::End) => {
                    end = Some(End::Lost("it closed the connection".into()));
                    break;
                }
                Err(error) => {
                    end = Some(End::Lost(format!("the connection broke: {error}")));
                    break;
                }
                Ok(came) => {
                    self.arrivals += 1;
                    if let Err(why) = self.parse(slot, &mut conn) {
                        end = Some(why);
                        break;
                    }
                    if came == Came::All {
                        break;
                    }
                }
            }
        }
        self.reading = usize::MAX;
        // Given up meanwhile, by what it sent.
        if let Stage::Open(peer) = conn.stage
            && self.others[peer.index()]
                .as_ref()
                .is_none_or(|other| other.slot != slot)
        {
            return;
        }
        match end {
            None => self.conns[slot] = Some(conn),
            Some(end) => self.ended(slot, conn, end),
        }
    }

    fn ended(&mut self, slot: usize, conn: Box<Conn>, end: End) {
        self.conns[slot] = Some(conn);
        let stage = self.conns[slot].as_ref().map(|conn| &conn.stage);
        let peer = match stage {
            Some(Stage::Open(peer)) => *peer,
            Some(Stage::Greeting(peer)) => {
                // It may have closed this one because it has connected to us.
                let peer = *peer;
                self.drop_conn(slot);
                if peer > self.me {
                    let why = "it closed the connection before it was made".into();
                    self.lose(peer, why);
                }
                return;
            }
            _ => return self.drop_conn(slot),
        };
        match end {
            End::Lost(why) => self.lose(peer, why),
            End::Bad(what, value) => {
                let error = FabricError::Corrupt { peer, what, value };
                self.record_fault(Fault { peer, error });
                let why = format!("it sent {value:#x} where {what} was expected");
                self.end_traffic(peer, Standing::Dead(why));
            }
            End::Quietly => self.end_traffic(peer, Standing::Left),
        }
    }

    /// Take what came as far as it is complete.
    fn parse(&mut self, slot: usize, conn: &mut Conn) -> Result<(), End> {
        loop {
            if conn.input.sink.is_some() {
                let Some(sink) = conn.input.fill_sink() else {
                    return Ok(());
                };
                if let Stage::Open(peer) = conn.stage {
                    self.arrived(peer, &sink);
                }
                continue;
            }
            let waiting = conn.input.waiting();
            if waiting.len() < HEAD {
                return Ok(());
            }
            let head = Head::decode(waiting).map_err(|first| End::Bad("a frame's header", first))?;
            let whole = HEAD + head.len as usize;
            let Stage::Open(peer) = conn.stage else {
                if !matches!(head.kind, Kind::Hello | Kind::Welcome) {
                    return Err(End::Bad("a greeting", head.kind as u64));
                }
                if waiting.len() < whole {
                    return Ok(());
                }
                let hello = Hello::decode(&[&waiting[HEAD..whole], &[0; Hello::BYTES]].concat());
                conn.input.take(whole);
                self.greeting(slot, conn, head.kind, hello)?;
                continue;
            };
            if head.kind.streams() {
                let sink = self.sink(peer, &head)?;
                conn.input.take(HEAD);
                conn.input.sink = Some(sink);
                continue;
            }
            if waiting.len() < whole {
                return Ok(());
            }
            let result = self.frame(peer, &head, &conn.input.waiting()[HEAD..whole]);
            conn.input.take(whole);
            result?;
        }
    }

    fn greeting(
        &mut self,
        slot: usize,
        conn: &mut Conn,
        kind: Kind,
        hello: Option<Hello>,
    ) -> Result<(), End> {
        let peer = match (&conn.stage, kind, hello) {
            (Stage::Greeting(peer), Kind::Welcome, _) => *peer,
            (Stage::Stranger, Kind::Hello, Some(hello))
                if hello.size == self.size && hello.you == self.me.0 && hello.me < self.size =>
            {
                let peer = Peer(hello.me);
                if self.others[peer.index()].is_none() {
                    self.meet(peer);
                }
                let other = self.others[peer.index()].as_deref().expect("just met");
                // Of two connections made at once, the one that the lower number began stays.
                let ours =
                    self.conns.iter().flatten().any(
                        |conn| matches!(conn.stage, Stage::Reaching(p) | Stage::Greeting(p) if p == peer),
                    );
                if other.standing != Standing::Connecting || ours && self.me < peer || peer == self.me {
                    return Err(End::Quietly);
                }
                for at in 0..self.conns.len() {
                    if let Some(conn) = &self.conns[at]
                        && matches!(conn.stage, Stage::Reaching(p) | Stage::Greeting(p) if p == peer)
                    {
                        self.conns[at] = None;
                    }
                }
                let welcome = Head::new(Kind::Welcome, 0, 0).encode();
                if !matches!(socket::send(conn.fd.as_raw_fd(), &welcome), Ok(HEAD)) {
                    return Err(End::Quietly);
                }
                self.strangers -= 1;
                peer
            }
            _ => return Err(End::Bad("a greeting", kind as u64)),
        };
        conn.stage = Stage::Open(peer);
        self.open += 1;
        let other = self.others[peer.index()].as_deref_mut().expect("it was met");
        other.standing = Standing::Up;
        other.fd = conn.fd.as_raw_fd();
        other.slot = slot;
        self.list(peer);
        Ok(())
    }

    /// Where the payload of a frame goes.
    fn sink(&mut self, peer: Peer, head: &Head) -> Result<Sink, End> {
        let len = head.len as usize;
        let (place, token) = match head.kind {
            Kind::Put => (self.target(peer, head, len)?, None),
            _ => {
                let place = self.transfers.place(peer, head);
                let place = place.map_err(|value| End::Bad("a transfer's piece", value))?;
                (place, Some((head.flag, head.id)))
            }
        };
        Ok(Sink {
            place,
            rest: len,
            len,
            token,
        })
    }

    /// The place of `len` bytes at the header's offset in the segment that it names.
    #[inline]
    fn target(&mut self, peer: Peer, head: &Head, len: usize) -> Result<Place, End> {
        match self
            .segments
            .reach(peer, head.id, head.at, len, Permission::ReadWrite)
        {
            Ok(Some((memory, offset))) => Ok(Place::Segment(memory.clone(), offset)),
            Ok(None) => {
                self.refuse(peer);
                Ok(Place::Nowhere)
            }
            Err((what, value)) => Err(End::Bad(what, value)),
        }
    }

    /// A put of `peer`'s goes to a segment that was withdrawn.
    fn refuse(&mut self, peer: Peer) {
        if let Some(other) = &mut self.others[peer.index()] {
            other.refusals += 1;
        }
    }

    /// The payload of a frame is complete.
    fn arrived(&mut self, peer: Peer, sink: &Sink) {
        if let Some((flag, token)) = sink.token
            && let Some(head) = self.transfers.arrived(peer, flag, token, sink.len)
        {
            self.say(peer, head, &[]);
        }
    }

    /// What comes of the transfers chosen goes nowhere from now on.
    pub fn silence(&mut self, peer: Peer, chosen: impl Fn(u8, u64) -> bool) {
        let slot = self.others[peer.index()]
            .as_ref()
            .map_or(usize::MAX, |other| other.slot);
        if let Some(Some(conn)) = self.conns.get_mut(slot)
            && let Some(sink) = &mut conn.input.sink
            && sink.token.is_some_and(|(flag, token)| chosen(flag, token))
        {
            sink.place = Place::Nowhere;
        }
    }

    /// A frame that came whole.
    #[inline]
    fn frame(&mut self, peer: Peer, head: &Head, payload: &[u8]) -> Result<(), End> {
        use crate::LocalMemory;
        let number = |at: usize| u64::from_ne_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
        match head.kind {
            Kind::Line | Kind::Word => {
                let (unit, permission) = if head.kind == Kind::Line {
                    (LINE_BYTES, Permission::ReadWrite)
                } else {
                    (8, Permission::ReadWrite)
                };
                if !head.at.is_multiple_of(unit as u64) {
                    return Err(End::Bad("an aligned offset", head.at));
                }
                match self.segments.reach(peer, head.id, head.at, unit, permission) {
                    Ok(Some((memory, offset))) if unit == 8 => memory.store(offset, number(0)),
                    Ok(Some((memory, offset))) => {
                        let mut line: Line = [0; 8];
                        for (to, from) in line.iter_mut().zip(payload.chunks_exact(8)) {
                            *to = u64::from_ne_bytes(from.try_into().expect("eight bytes"));
                        }
                        memory.store_line(offset, &line);
                    }
                    Ok(None) => self.refuse(peer),
                    Err((what, value)) => return Err(End::Bad(what, value)),
                }
            }
            _ => self.control(peer, head, payload)?,
        }
        Ok(())
    }

    fn control(&mut self, peer: Peer, head: &Head, payload: &[u8]) -> Result<(), End> {
        let bad = |(what, value)| End::Bad(what, value);
        match head.kind {
            Kind::Packet => self.packets.arrived(peer, head.flag, payload).map_err(bad)?,
            Kind::Credit => self.packets.credit(peer, head.flag, head.id).map_err(bad)?,
            Kind::Fence => {
                let refusals = self.others[peer.index()]
                    .as_ref()
                    .map_or(0, |other| other.refusals);
                self.say(peer, Head::new(Kind::Fenced, head.id, refusals), &[]);
            }
            Kind::Fenced => {
                if let Some(other) = &mut self.others[peer.index()] {
                    if head.id > other.fences || head.id < other.fenced || head.at < other.refused {
                        return Err(End::Bad("the number of a fence", head.id));
                    }
                    (other.fenced, other.refused) = (head.id, head.at);
                }
            }
            Kind::Get => {
                let wanted = Wanted::decode(payload);
                let len = usize::try_from(wanted.len).unwrap_or(usize::MAX);
                match self.segments.reach(peer, head.id, head.at, len, Permission::Read) {
                    Ok(Some((memory, offset))) => {
                        let memory = memory.clone();
                        self.send_segment(peer, wanted.token, &memory, offset, len);
                    }
                    Ok(None) => self.say(peer, Head::new(Kind::Refused, wanted.token, 0), &[]),
                    Err(error) => return Err(bad(error)),
                }
            }
            Kind::Refused | Kind::Done => {
                let done = head.kind == Kind::Done;
                self.transfers.ended(peer, head.id, done).map_err(bad)?;
            }
            Kind::Segment => self
                .segments
                .told(peer, head, Wanted::decode(payload))
                .map_err(bad)?,
            Kind::Find => {
                let (head, wanted) = self.segments.answer(peer, head);
                self.say(peer, head, &wanted.encode());
            }
            Kind::Forget => {
                self.segments.forget(peer, head.id);
                self.say(peer, Head::new(Kind::Forgotten, head.id, 0), &[]);
            }
            Kind::Forgotten => self.segments.forgotten(peer, head.id),
            Kind::BulkGet | Kind::BulkPut => self.bulk_request(peer, head, Wanted::decode(payload)),
            Kind::Ring => {}
            Kind::Bye => return Err(End::Quietly),
            _ => return Err(End::Bad("a frame of an open connection", head.kind as u64)),
        }
        Ok(())
    }

    // ---- the end ----

    /// Say goodbye, send what waits, and see the peers off, until `patience` runs out.
    pub fn close(&mut self, patience: Duration) {
        if std::mem::replace(&mut self.closing, true) {
            return;
        }
        let started = Instant::now();
        let peers: Vec<Peer> = (0..self.size).map(Peer).collect();
        for peer in &peers {
            if let Some(other) = &mut self.others[peer.index()]
                && matches!(other.standing, Standing::Connecting | Standing::Up)
                && (other.standing == Standing::Up || other.out.len() > 0)
            {
                other.out.frame(Head::new(Kind::Bye, 0, 0), &[]);
                self.list(*peer);
            }
        }
        self.flush();
        let waits = |other: &Option<Box<Other>>| {
            other.as_ref().is_some_and(|other| {
                matches!(other.standing, Standing::Up | Standing::Connecting) && other.out.len() > 0
            })
        };
        while started.elapsed() < patience && self.others.iter().any(waits) {
            self.turn(1);
        }
        // Bytes that arrive and are not read make the kernel reset the connection, and what the peer's kernel has not
        // got by then is lost: read on until it has.
        self.turn(0);
        let on_its_way = |other: &Option<Box<Other>>| {
            other
                .as_ref()
                .is_some_and(|other| other.is_up() && socket::unconfirmed(other.fd) > 0)
        };
        while started.elapsed() < patience && self.others.iter().any(on_its_way) {
            self.turn(1);
        }
        for other in self.others.iter().flatten() {
            if other.fd >= 0 {
                socket::finish(other.fd);
            }
        }
    }
}
