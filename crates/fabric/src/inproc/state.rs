//! What is on its way, and how it arrives.

use super::ranks::Ranks;
use super::record::Arrival;
use super::{Config, InProc};
use crate::packet::LANES;
use crate::segment::Segment;
use crate::{
    Access, Cost, Counter, Descriptor, FabricError, Fault, FaultLog, PacketQueue, Peer, Register, Result,
    Route, SegmentId, TrySend, Wake,
};
use std::collections::{BTreeMap, VecDeque};

/// A published segment.
pub struct Published {
    pub segment: Segment,
    pub access: Access,
}

/// Names an import among all of the network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImportId(pub u64);

/// Something on its way.
pub struct Event {
    /// Order of submission.
    serial: u64,
    /// Not before that time.
    due: u64,
    pub from: Peer,
    pub to: Peer,
    pub what: What,
}

pub enum What {
    /// Bytes that arrive together.
    Piece {
        import: ImportId,
        segment: Segment,
        offset: usize,
        bytes: Vec<u8>,
    },
    /// The oldest packet of that pair, lane and way.
    Packet(usize, RouteLane),
    Ring,
    Transfer(u64, Descriptor),
}

/// What keeps its order: packets of one fixed route, and each packet of a random one by itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteLane {
    Fixed(u8),
    /// By number among everything submitted.
    Alone(u64),
}

struct Packet {
    from: Peer,
    bytes: Vec<u8>,
}

/// What one endpoint has at the network.
#[derive(Default)]
struct Endpoint {
    dead: bool,
    asleep: bool,
    rung: bool,
    arrived: [VecDeque<Packet>; LANES],
    /// Packets arrived or on their way.
    occupied: [usize; LANES],
    faults: FaultLog,
    counters: Vec<[u64; Counter::COUNT]>,
}

/// A step of the network's, in nanoseconds.
const STEP: u64 = 1_000;

pub struct NetworkState {
    /// Nanoseconds since the start.
    pub now: u64,
    pub config: Config,
    pub published: BTreeMap<(Peer, SegmentId), Published>,
    /// What processes show of themselves.
    pub registers: BTreeMap<(Peer, Register), u64>,
    /// What has arrived, where that is written down.
    pub arrivals: Option<Vec<Arrival>>,
    rng: fastrand::Rng,
    chance: fastrand::Rng,
    events: Vec<Event>,
    serial: u64,
    imports: u64,
    ports: Vec<Endpoint>,
    /// Packets on their way, per sender, receiver, port and priority (a lane), and way.
    lanes: BTreeMap<(Peer, Peer, usize, RouteLane), VecDeque<Packet>>,
    /// Errors that the next fence of an import reports.
    put_errors: BTreeMap<ImportId, FabricError>,
    /// Ended transfers that nobody asked about yet.
    ended: BTreeMap<u64, Result<()>>,
    /// Processes that are coroutines.
    pub ranks: Option<Ranks>,
}

impl NetworkState {
    pub fn new(size: u32, seed: u64, config: Config) -> Self {
        let port = |_| Endpoint {
            counters: vec![[0; Counter::COUNT]; size as usize],
            ..Endpoint::default()
        };
        Self {
            now: 0,
            config,
            published: BTreeMap::new(),
            registers: BTreeMap::new(),
            arrivals: None,
            rng: fastrand::Rng::with_seed(seed),
            chance: fastrand::Rng::with_seed(!seed),
            events: Vec::new(),
            serial: 0,
            imports: 0,
            ports: (0..size).map(port).collect(),
            lanes: BTreeMap::new(),
            put_errors: BTreeMap::new(),
            ended: BTreeMap::new(),
            ranks: None,
        }
    }

    /// A random number, and none that decides what arrives when.
    pub fn random(&mut self) -> u64 {
        self.chance.u64(..)
    }

    fn one_in(&mut self, chances: u32) -> bool {
        chances > 0 && self.rng.u32(0..chances) == 0
    }

    fn submit(&mut self, from: Peer, to: Peer, what: What) -> u64 {
        self.serial += 1;
        let due = self.now + STEP * self.rng.u64(0..=self.config.longest_delay);
        self.events.push(Event {
            serial: self.serial,
            due,
            from,
            to,
            what,
        });
        self.serial
    }

    /// One step; whether anything is on its way afterwards.
    pub fn step(&mut self) -> bool {
        self.pass(STEP)
    }

    /// So many nanoseconds pass, and one of the things that are due arrives; whether anything is on its way afterwards.
    pub fn pass(&mut self, nanos: u64) -> bool {
        self.now = self.now.saturating_add(nanos);
        let due = self.events.iter().filter(|e| e.due <= self.now).count();
        if due > 0 {
            let chosen = self.rng.usize(0..due);
            let at = (0..self.events.len())
                .filter(|&i| self.events[i].due <= self.now)
                .nth(chosen)
                .expect("counted above");
            self.deliver(at);
        }
        !self.events.is_empty()
    }

    /// Let a few steps pass, as time does during any call.
    pub fn drift(&mut self) {
        for _ in 0..self.rng.u32(0..3) {
            self.step();
        }
    }

    fn deliver(&mut self, at: usize) {
        if matches!(self.events[at].what, What::Ring) {
            let (from, to, serial) = (self.events[at].from, self.events[at].to, self.events[at].serial);
            let earlier: Vec<usize> = (0..self.events.len())
                .filter(|&i| {
                    let e = &self.events[i];
                    e.from == from && e.to == to && e.serial < serial && !matches!(e.what, What::Ring)
                })
                .collect();
            if !earlier.is_empty() {
                // An interrupt does not overtake: something before it arrives instead.
                let chosen = earlier[self.rng.usize(0..earlier.len())];
                return self.deliver(chosen);
            }
        }
        let event = self.events.swap_remove(at);
        if self.arrivals.is_some() {
            self.record(&event);
        }
        match event.what {
            What::Piece {
                segment,
                offset,
                bytes,
                ..
            } => segment.arrive(offset, &bytes),
            What::Packet(lane, way) => {
                let key = (event.from, event.to, lane, way);
                let under_way = self.lanes.get_mut(&key).expect("a lane per packet");
                let packet = under_way.pop_front().expect("an event per packet");
                if matches!(way, RouteLane::Alone(_)) {
                    self.lanes.remove(&key);
                }
                self.ports[event.to.index()].arrived[lane].push_back(packet);
            }
            What::Ring => self.ring(event.to),
            What::Transfer(ticket, descriptor) => {
                let result = crate::segment::move_bytes(&descriptor);
                self.ended.insert(ticket, result);
            }
        }
    }

    fn record(&mut self, event: &Event) {
        let packet = match event.what {
            What::Packet(lane, way) => {
                let under_way = self.lanes.get(&(event.from, event.to, lane, way));
                under_way
                    .and_then(|lane| lane.front())
                    .map(|packet| &packet.bytes[..])
            }
            _ => None,
        };
        let arrival = Arrival::new(self.now, event, packet);
        self.arrivals.get_or_insert_default().push(arrival);
    }

    fn ring(&mut self, peer: Peer) {
        let port = &mut self.ports[peer.index()];
        port.rung |= port.asleep;
        if port.asleep
            && let Some(ranks) = &mut self.ranks
        {
            ranks.rung(peer, self.now);
        }
    }

    /// When the next thing is due.
    pub fn next_due(&self) -> Option<u64> {
        self.events.iter().map(|event| event.due).min()
    }

    /// Something that is due at `now` arrives.
    pub fn arrive(&mut self, now: u64) {
        self.now = now;
        self.pass(0);
    }

    /// Everything that was ever on its way.
    pub fn submitted(&self) -> u64 {
        self.serial
    }

    // Puts.

    pub fn new_import(&mut self) -> ImportId {
        self.imports += 1;
        ImportId(self.imports)
    }

    pub fn check_alive(&self, peer: Peer) -> Result<()> {
        if self.ports[peer.index()].dead {
            return Err(FabricError::dead(peer, "the test ended it"));
        }
        Ok(())
    }

    /// Bytes in pieces; `whole` in one.
    pub fn put(
        &mut self,
        (from, to, import): (Peer, Peer, ImportId),
        segment: &Segment,
        offset: usize,
        bytes: &[u8],
        whole: bool,
    ) {
        if self.ports[to.index()].dead || self.ports[from.index()].dead {
            return;
        }
        self.now += self.config.costs.of(Cost::Store(bytes.len().div_ceil(8)));
        let lost = self.one_in(self.config.put_error_every);
        if lost {
            let error = FabricError::put_failed(to, "the test lost it on the way");
            self.put_errors.entry(import).or_insert(error);
        }
        let mut at = 0;
        while at < bytes.len() {
            let most = if whole {
                bytes.len()
            } else {
                self.config.largest_piece
            };
            let len = if whole { most } else { self.rng.usize(1..=most) }.min(bytes.len() - at);
            if !(lost && self.rng.bool()) {
                let what = What::Piece {
                    import,
                    segment: segment.clone(),
                    offset: offset + at,
                    bytes: bytes[at..at + len].to_vec(),
                };
                self.submit(from, to, what);
            }
            at += len;
        }
    }

    /// Everything put through `import` arrives, among other things.
    pub fn fence(&mut self, to: Peer, import: ImportId) -> Result<()> {
        let of_import = |e: &Event| matches!(e.what, What::Piece { import: i, .. } if i == import);
        while self.events.iter().any(of_import) {
            self.step();
        }
        self.drift();
        self.check_alive(to)?;
        self.put_errors.remove(&import).map_or(Ok(()), Err)
    }

    // Packets.

    pub fn try_send(
        &mut self,
        from: Peer,
        to: Peer,
        (lane, route): (usize, Route),
        payload: &[u8],
    ) -> TrySend {
        assert!(
            payload.len() <= InProc::PACKET_BYTES,
            "a packet holds {} bytes",
            InProc::PACKET_BYTES
        );
        self.now += self.config.costs.of(Cost::Store(payload.len().div_ceil(8)));
        self.drift();
        if let Err(error) = self.check_alive(to) {
            self.record_fault(from, Fault { peer: to, error });
            return TrySend::Sent;
        }
        let room = self.config.queue_packets;
        let occupied = &mut self.ports[to.index()].occupied[lane];
        if *occupied >= room {
            return TrySend::Full;
        }
        *occupied += 1;
        if self.one_in(self.config.full_every) {
            self.ports[to.index()].occupied[lane] -= 1;
            return TrySend::Full;
        }
        let packet = Packet {
            from,
            bytes: payload.to_vec(),
        };
        let way = match route {
            Route::Fixed(number) => RouteLane::Fixed(number),
            Route::Random => RouteLane::Alone(self.serial),
        };
        self.lanes
            .entry((from, to, lane, way))
            .or_default()
            .push_back(packet);
        self.submit(from, to, What::Packet(lane, way));
        TrySend::Sent
    }

    /// The next packet of a lane that has arrived.
    pub fn next_packet(&mut self, me: Peer, lane: usize) -> Option<(Peer, Vec<u8>)> {
        self.now += self.config.costs.of(Cost::Poll);
        self.drift();
        let port = &mut self.ports[me.index()];
        let packet = port.arrived[lane].pop_front()?;
        port.occupied[lane] -= 1;
        Some((packet.from, packet.bytes))
    }

    /// How many packets of a lane have arrived.
    pub fn packets_waiting(&mut self, me: Peer, lane: usize) -> usize {
        self.drift();
        self.ports[me.index()].arrived[lane].len()
    }

    // Interrupts.

    /// What a sleep that may last until `deadline` sees next: rung, or over. None: it goes on.
    pub fn sleep_on(&mut self, me: Peer, deadline: u64) -> Option<Wake> {
        if self.is_rung(me) {
            return Some(Wake::Rung);
        }
        let over = self.now >= deadline;
        if !over && (self.pass(STEP.min(deadline - self.now)) || self.is_rung(me)) {
            return None;
        }
        // Nobody else runs while this process sleeps: when nothing is on its way, nothing will ring.
        self.now = self.now.max(deadline);
        Some(Wake::Timeout)
    }

    pub fn wake(&mut self, from: Peer, to: Peer) {
        if !self.ports[to.index()].dead {
            self.submit(from, to, What::Ring);
        }
    }

    pub fn set_asleep(&mut self, me: Peer, asleep: bool) {
        let port = &mut self.ports[me.index()];
        port.asleep = asleep;
        port.rung = false;
    }

    pub fn is_rung(&self, me: Peer) -> bool {
        self.ports[me.index()].rung
    }

    // Bulk.

    pub fn transfer(&mut self, me: Peer, descriptor: Descriptor) -> Result<u64> {
        self.check_alive(descriptor.peer)?;
        let ticket = self.serial + 1;
        let submitted = self.submit(me, descriptor.peer, What::Transfer(ticket, descriptor));
        debug_assert_eq!(ticket, submitted);
        Ok(ticket)
    }

    /// Whether the transfer has ended; lets time pass if not.
    pub fn transfer_ended(&mut self, ticket: u64) -> Result<bool> {
        self.drift();
        match self.ended.remove(&ticket) {
            Some(result) => result.map(|()| true),
            None => Ok(false),
        }
    }

    // Status.

    pub fn record_fault(&mut self, me: Peer, fault: Fault) {
        if fault.peer.index() < self.ports.len() {
            self.count(me, fault.peer, Counter::Faults, 1);
        }
        self.ports[me.index()].faults.record(fault);
    }

    pub fn has_ended(&self, peer: Peer) -> bool {
        self.ports.get(peer.index()).is_some_and(|port| port.dead)
    }

    pub fn take_faults(&mut self, me: Peer) -> (Vec<Fault>, u64) {
        self.ports[me.index()].faults.take()
    }

    pub fn count(&mut self, me: Peer, peer: Peer, counter: Counter, amount: u64) {
        let cell = &mut self.ports[me.index()].counters[peer.index()][counter as usize];
        *cell = cell.wrapping_add(amount);
    }

    pub fn counter(&self, of: Peer, peer: Peer, counter: Counter) -> u64 {
        self.ports[of.index()].counters[peer.index()][counter as usize]
    }

    pub fn kill(&mut self, peer: Peer) {
        self.ports[peer.index()].dead = true;
        let why = "the test ended it";
        for event in std::mem::take(&mut self.events) {
            if event.from != peer && event.to != peer {
                self.events.push(event);
                continue;
            }
            match event.what {
                What::Packet(lane, _) => {
                    self.ports[event.to.index()].occupied[lane] -= 1;
                }
                What::Transfer(ticket, _) => {
                    let error = FabricError::dead(peer, why);
                    self.ended.insert(ticket, Err(error));
                }
                What::Piece { .. } | What::Ring => {}
            }
        }
        self.lanes
            .retain(|(from, to, ..), _| *from != peer && *to != peer);
    }
}
