//! StarT-X: two pairs of message queues on a PCI card, and DMA engines behind them (Hoe, Hot Interconnects VI, 1998).
//!
//! **PIO** (5.1). A packet of the fabric is a message, or several if it is longer. The processor pays `send` and `double_store` for each 8 bytes; words go to the link as they are
//! stored (the measured L does not depend on the size, so the link's time is hidden behind the stores), behind `out`. The status word tells how many messages each queue takes and has, the
//! latter up to [`RECEIVE_COUNT`]: software reads it (`word_read`) only when what it knows is used up. The processors of an SMP share the queues: whoever
//! receives takes out what is first, by `receive` and `double_load` for each 8 bytes, and leaves it in memory for whom it is. [`StarTx::send_burst`] and [`StarTx::receive_burst`] move 64 bytes at once.
//!
//! **VI** (5.2). A put is a batch: a driver's call starts the transmit engine, messages of high priority carry it, and the other receive engine writes them to memory.
//!
//! **RDMA** (5.3). The same, with exclusive ownership of the receiver ([`share`]). To fetch, the receiver asks by a message of low priority; its peer's driver starts the block.
//!
//! All ports of the fabric share the two queues, as all programs share the hardware's: a receiver that polls none of its ports holds up all of one priority.
//!
//! Messages that fail their check are dropped and reported to the receiver. An engine moves messages in trains of up to [`TRAIN`] once a block is long: the link is
//! never its limit, and low priority passes between trains.

mod bus;
mod engine;
mod params;
mod share;
#[cfg(test)]
mod tests;

pub use params::{DmaParams, StarTxParams};

use super::{Adapter, AdapterEvent, Kernel, Load, Message, Outgoing, Pair, Put, What};
use crate::net::{Fate, Hop, HostId, Packet, Path, ResourceId, ResourceSpec};
use crate::process::{Arrived, ImportId, OpId};
use crate::time::Ps;
use crate::topology::Port as HostPort;
use bus::Bus;
use engine::{Engine, Job};
use farpost_fabric::ability::Ability;
use farpost_fabric::{
    Counter, Descriptor, Direction, FabricError, Fault, LANES, Peer, Port, Priority, Result, Route, TrySend,
};
use share::Share;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Messages of a receive queue that the status word counts: 32 receives for one read of it (5.1).
pub const RECEIVE_COUNT: u32 = 16;
/// Messages that an engine moves at once in a long block.
pub const TRAIN: u32 = 16;
/// Bytes of a burst access.
const BURST: u32 = 64;

const HIGH: usize = 0;
const LOW: usize = 1;

#[derive(Debug, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Event {
    /// The transmit engine looks for what to do.
    Engine,
    /// A packet of an engine: so many bytes of payload, the last with what it means.
    Block { bytes: u32, last: Option<Box<Message>> },
    /// Those are in memory.
    Stored { bytes: u32, last: Option<Box<Message>> },
    /// A message is in a receive queue.
    Queued {
        priority: usize,
        bytes: u32,
        message: Option<Box<Message>>,
    },
    /// What waits with high priority is taken to memory: a block comes.
    Drain,
    /// Whoever found a transmit queue full looks again.
    Look,
    /// A block that was asked for begins.
    Fetch(Box<Job>),
    /// Software of the other side knows that its put is there.
    Acknowledged(ImportId, Option<FabricError>),
}

/// A message in a receive queue. `None`: more of it follows.
struct Waiting {
    bytes: u32,
    message: Option<Box<Message>>,
}

/// What has been counted.
#[derive(Default)]
struct Registers {
    sent: u64,
    received: u64,
    status_reads: u64,
    check_errors: u64,
    interrupts: u64,
}

/// The adapter of a host.
pub struct StarTx {
    params: StarTxParams,
    host: HostId,
    fifo: ResourceId,
    share: Rc<RefCell<Share>>,
    bus: Bus,
    engine: Engine,
    receive: [VecDeque<Waiting>; 2],
    /// What software knows by the status word that it read last: room to send, messages to receive.
    room: [u32; 2],
    known: [u32; 2],
    /// How often it was read, and which of these reads a queue's reader has used.
    reads: u64,
    used: BTreeMap<Peer, [u64; LANES]>,
    full: Vec<Peer>,
    /// Messages of the adapter's own that found the transmit queue full, before all that software sends.
    own: VecDeque<(HostId, Message)>,
    looking: bool,
    registers: Registers,
}

impl StarTx {
    /// The adapters of all hosts of a machine, whose network has two lanes of `queue` places at each host.
    pub fn of_hosts(params: &StarTxParams, kernel: &mut Kernel, hosts: u32) -> Vec<StarTx> {
        let share = Rc::new(RefCell::new(Share(vec![
            share::Receiver::default();
            hosts as usize
        ])));
        let adapter = |host: u32| {
            let fifo = kernel.net.add(ResourceSpec {
                room: Some(params.queue),
                lanes: 2,
                priorities: true,
                ..ResourceSpec::new(
                    format!("transmit queues of host {host}"),
                    params.back_end,
                    params.out,
                )
            });
            StarTx {
                params: params.clone(),
                host: HostId(host),
                fifo,
                share: Rc::clone(&share),
                bus: Bus::new(),
                engine: Engine::default(),
                receive: Default::default(),
                room: [0; 2],
                known: [0; 2],
                reads: 1,
                used: BTreeMap::new(),
                full: Vec::new(),
                own: VecDeque::new(),
                looking: false,
                registers: Registers::default(),
            }
        };
        (0..hosts).map(adapter).collect()
    }

    /// Adds that path's resources; `None`: nothing leads there.
    fn path(&self, kernel: &mut Kernel, to: HostId, priority: usize, route: Route) -> Option<Path> {
        let lane = priority as u8;
        let fifo = [Hop {
            resource: self.fifo,
            lane,
        }];
        let ends = [self.host, to].map(|host| HostPort { host, rail: 0 });
        kernel.path((ends[0], ends[1]), lane, route, &fifo, &[])
    }

    fn free(&self, kernel: &Kernel, priority: usize) -> u32 {
        let hop = Hop {
            resource: self.fifo,
            lane: priority as u8,
        };
        kernel.net.room(hop).unwrap_or(u32::MAX)
    }

    /// Read the status word: what both pairs of queues take and have.
    fn read_status(&mut self, kernel: &Kernel) -> Ps {
        self.reads += 1;
        self.registers.status_reads += 1;
        for priority in [HIGH, LOW] {
            self.room[priority] = self.free(kernel, priority);
            self.known[priority] = (self.receive[priority].len() as u32).min(RECEIVE_COUNT);
        }
        self.params.word_read + self.access(kernel, 1)
    }

    /// The counts of the status word, for people and tests, without reading it: receive queues, transmit queues.
    pub fn counts(&self, kernel: &Kernel) -> ([u32; 2], [u32; 2]) {
        let waiting = |priority: usize| (self.receive[priority].len() as u32).min(RECEIVE_COUNT);
        (
            [HIGH, LOW].map(waiting),
            [HIGH, LOW].map(|priority| self.free(kernel, priority)),
        )
    }

    /// The processor's access of so many words has the bus for two clocks a word and what a burst costs; what it waits.
    fn access(&mut self, kernel: &Kernel, words: u64) -> Ps {
        let params = &self.params;
        let time = params.dma.overhead + params.pci.time(8 * words);
        self.bus.access(kernel.now, time, params.pci, &params.dma)
    }

    /// Whether there is room for `count` messages, as software finds out, and what that takes.
    fn find_room(&mut self, kernel: &mut Kernel, from: Peer, priority: usize, count: u32) -> (Ps, bool) {
        let mut time = Ps::ZERO;
        if self.room[priority] < count {
            time = self.read_status(kernel);
            if self.room[priority] < count {
                self.refuse(kernel, from);
                return (time, false);
            }
        }
        // Engines and drivers send behind software's back.
        if self.free(kernel, priority) < count || priority == LOW && !self.own.is_empty() {
            self.room[priority] = 0;
            self.refuse(kernel, from);
            return (time, false);
        }
        self.room[priority] -= count;
        (time, true)
    }

    /// What software looks at before it sends: whether a transmit queue takes a message.
    pub fn takes(&mut self, kernel: &mut Kernel, from: Peer, priority: Priority) -> (Ps, bool) {
        let (time, room) = self.find_room(kernel, from, priority as usize, 1);
        self.room[priority as usize] += u32::from(room);
        (time, room)
    }

    fn refuse(&mut self, kernel: &mut Kernel, from: Peer) {
        if !self.full.contains(&from) {
            self.full.push(from);
        }
        self.look_again(kernel);
    }

    fn look_again(&mut self, kernel: &mut Kernel) {
        if !self.looking {
            self.looking = true;
            self.at(kernel, self.params.word_read, Event::Look);
        }
    }

    fn at(&self, kernel: &mut Kernel, later: Ps, event: Event) {
        kernel.at(kernel.now + later, self.host, AdapterEvent::StarTx(event));
    }

    /// Whether somebody else's block keeps high priority away from `to`; then `from` is told when it has ended.
    fn excluded(&self, from: Peer, to: HostId, priority: usize) -> bool {
        let mut share = self.share.borrow_mut();
        let it = share.of(to);
        if priority == LOW {
            return false;
        }
        let owned = it.owner.is_some() || !it.waiting.is_empty();
        if owned && !it.refused.contains(&from) {
            it.refused.push(from);
        }
        owned
    }

    /// Send a message to `to` in so many parts; it begins at the link `begin` from now and its last byte comes there at `end`.
    fn launch(
        &mut self,
        kernel: &mut Kernel,
        (to, priority, route): (HostId, usize, Route),
        (count, part, last): (u32, u32, u32),
        (begin, end): (Ps, Ps),
        message: Message,
    ) -> Option<Message> {
        let Some(path) = self.path(kernel, to, priority, route) else {
            return Some(message);
        };
        if priority == HIGH {
            self.share.borrow_mut().of(to).under_way += count;
        }
        self.registers.sent += u64::from(count);
        let now = kernel.now;
        let each = Ps((end - begin).0 / u64::from(count));
        let mut message = Some(message);
        for nr in 0..count {
            kernel.now = now + begin + each * u64::from(nr);
            let tail = kernel.now + each;
            let (bytes, load) = match message.take_if(|_| nr + 1 == count) {
                Some(message) => (last, Load::Last(message)),
                None => (part, Load::Part),
            };
            kernel.send((self.host, to), bytes, priority as u8, &path, tail, load);
        }
        kernel.now = now;
        None
    }

    /// Send 64 bytes, header included, with one store (`stda`).
    pub fn send_burst(
        &mut self,
        kernel: &mut Kernel,
        pair: Pair,
        lane: usize,
        bytes: &[u8],
    ) -> (Ps, TrySend) {
        assert_eq!(bytes.len() as u32, BURST, "a burst");
        let store = self.params.burst_store;
        // It has left the processor; the bus takes its time for it.
        let tail = self.params.pci.time(u64::from(BURST));
        let packet = Outgoing {
            pair,
            lane,
            route: Route::Fixed(0),
            bytes,
        };
        self.send_by(
            kernel,
            packet,
            (1, BURST + self.params.check, BURST + self.params.check),
            (store, tail),
        )
    }

    fn send_by(
        &mut self,
        kernel: &mut Kernel,
        packet: Outgoing<'_>,
        parts: (u32, u32, u32),
        (stores, more): (Ps, Ps),
    ) -> (Ps, TrySend) {
        let Pair { from, to } = packet.pair;
        let (host, priority) = (kernel.procs.host_of(to), packet.lane % 2);
        if self.excluded(from, host, priority) {
            return (self.params.poll, TrySend::Full);
        }
        let (looked, room) = self.find_room(kernel, from, priority, parts.0);
        if !room {
            return (looked, TrySend::Full);
        }
        let words = u64::from(parts.1 / 4 * (parts.0 - 1) + parts.2 / 4);
        let begin = looked + self.access(kernel, words) + self.params.send * u64::from(parts.0);
        let end = begin + stores;
        let what = What::Packet {
            lane: packet.lane,
            bytes: packet.bytes.to_vec(),
        };
        let message = kernel.message(from, to, what);
        let to_host = (host, priority, packet.route);
        if self
            .launch(kernel, to_host, parts, (begin, end + more), message)
            .is_some()
        {
            let error = FabricError::dead(to, "no way that works leads there");
            kernel.fault(from, Fault { peer: to, error });
        }
        (end, TrySend::Sent)
    }

    /// Receive 64 bytes with one load (`ldda`): what is first in a receive queue, if that is for `me`.
    pub fn receive_burst(&mut self, kernel: &mut Kernel, me: Peer, lane: usize) -> (Ps, Option<Arrived>) {
        let params = &self.params;
        let (read, more) = (params.burst_read, params.receive_burst);
        self.take(kernel, me, lane, |_| read + more)
    }

    /// What polls do; `cost` of taking out a message of so many bytes.
    fn take(
        &mut self,
        kernel: &mut Kernel,
        me: Peer,
        lane: usize,
        cost: impl Fn(u32) -> Ps,
    ) -> (Ps, Option<Arrived>) {
        let now = kernel.now;
        if let Some(packet) = kernel.procs.take_packet(me, lane, now) {
            return (self.params.poll, Some(packet));
        }
        let priority = lane % 2;
        let mut time = self.params.poll;
        if self.known[priority] == 0 {
            let used = &mut self.used.entry(me).or_insert([0; LANES])[lane];
            if std::mem::replace(used, self.reads) != self.reads {
                return (time, None);
            }
            time = self.read_status(kernel);
            self.used.entry(me).or_insert([0; LANES])[lane] = self.reads;
        }
        while self.known[priority] > 0 {
            self.known[priority] -= 1;
            let Some(waiting) = self.pop(kernel, priority) else {
                break;
            };
            time += cost(waiting.bytes) + self.access(kernel, u64::from(waiting.bytes / 4));
            if let Some(message) = waiting.message
                && let Some(packet) = self.hand_over(kernel, *message, Some((me, lane)))
            {
                return (time, Some(packet));
            }
        }
        (time, None)
    }

    /// Take out what is first in a receive queue.
    fn pop(&mut self, kernel: &mut Kernel, priority: usize) -> Option<Waiting> {
        let waiting = self.receive[priority].pop_front()?;
        self.registers.received += 1;
        let now = kernel.now;
        kernel
            .net
            .release(&mut kernel.queue, now, self.host, priority as u8);
        if priority == HIGH {
            self.gone(kernel, self.host, 1);
        }
        Some(waiting)
    }

    /// So many messages of high priority to `to` are on their way no more; blocks may have waited for that.
    fn gone(&self, kernel: &mut Kernel, to: HostId, count: u32) {
        let mut share = self.share.borrow_mut();
        let it = share.of(to);
        it.under_way -= count;
        if it.under_way == 0 && it.owner.is_none() && !it.waiting.is_empty() {
            let next = it.waiting.remove(0);
            kernel.at(kernel.now, next, AdapterEvent::StarTx(Event::Engine));
        }
    }

    /// A message taken out of the queue: to whoever asks, or to memory for whom it is.
    fn hand_over(
        &mut self,
        kernel: &mut Kernel,
        message: Message,
        asks: Option<(Peer, usize)>,
    ) -> Option<Arrived> {
        match message.what {
            What::Packet { lane, bytes } if asks == Some((message.to, lane)) => {
                let packet = Arrived {
                    from: message.from,
                    bytes,
                };
                return Some(packet);
            }
            What::Packet { lane, .. } => {
                // In memory there is room for all.
                kernel.procs.reserve((message.from, message.to), lane, u32::MAX);
                kernel.deliver(message);
            }
            _ => kernel.deliver(message),
        }
        None
    }

    /// A message is in a receive queue.
    fn queued(&mut self, kernel: &mut Kernel, priority: usize, waiting: Waiting) {
        let mut told = None;
        if let Some(message) = &waiting.message {
            told = Some(message.to);
            if let What::Ring = message.what {
                self.registers.interrupts += 1;
            }
            if let What::Packet { lane, .. } = message.what {
                // Whoever waits reads the status word anew.
                self.used.entry(message.to).or_insert([0; LANES])[lane] = self.reads;
            }
        }
        self.receive[priority].push_back(waiting);
        if let Some(peer) = told {
            let now = kernel.now;
            kernel.procs.touch(peer, now);
        }
        let drains = priority == HIGH && !self.share.borrow_mut().of(self.host).waiting.is_empty();
        if drains {
            self.drain(kernel);
        }
        // An interrupt is its own message, which its handler takes at once with what is before it.
        if self.receive[LOW].iter().any(|it| {
            matches!(
                it.message.as_deref(),
                Some(Message {
                    what: What::Ring | What::Read { .. },
                    ..
                })
            )
        }) {
            while let Some(waiting) = self.pop(kernel, LOW) {
                if let Some(message) = waiting.message {
                    self.hand_over(kernel, *message, None);
                }
            }
            self.known[LOW] = 0;
        }
    }

    /// All of high priority is taken to memory, so that a block may come.
    fn drain(&mut self, kernel: &mut Kernel) {
        while let Some(waiting) = self.pop(kernel, HIGH) {
            if let Some(message) = waiting.message {
                self.hand_over(kernel, *message, None);
            }
        }
        self.known[HIGH] = 0;
    }

    /// A message of the adapter's own by low priority: it costs its sender a short send, and where the queue is full it waits in the driver.
    fn send_own(&mut self, kernel: &mut Kernel, to: HostId, message: Message) -> (Ps, Option<Message>) {
        if self.free(kernel, LOW) == 0 || !self.own.is_empty() {
            self.own.push_back((to, message));
            self.look_again(kernel);
            return (self.params.send, None);
        }
        self.launch_own(kernel, to, message)
    }

    fn launch_own(&mut self, kernel: &mut Kernel, to: HostId, message: Message) -> (Ps, Option<Message>) {
        let bytes = 16 + self.params.check;
        let begin = self.params.send;
        let end = begin + self.params.double_store * 2;
        let left = self.launch(
            kernel,
            (to, LOW, Route::Fixed(0)),
            (1, bytes, bytes),
            (begin, end),
            message,
        );
        (end, left)
    }

    /// Send a block without memory: who gets it is rung. For experiments below the fabric.
    pub fn send_block(&mut self, kernel: &mut Kernel, pair: Pair, bytes: usize) -> Ps {
        let message = kernel.message(pair.from, pair.to, What::Ring);
        self.start(kernel, Job::block(kernel.procs.host_of(pair.to), bytes, message));
        self.params.dma.setup
    }
}

impl Adapter for StarTx {
    fn name(&self) -> &'static str {
        "startx"
    }

    /// Batches and blocks; two queues for all ports.
    fn lacks(&self) -> &'static [Ability] {
        &[Ability::Get, Ability::Ports]
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }

    fn put(&mut self, kernel: &mut Kernel, put: Put<'_>) -> Result<Ps> {
        let Pair { from, to } = put.pair;
        kernel.procs.import_of(put.import).under_way += 1;
        let what = What::Write {
            import: put.import,
            segment: put.segment.clone(),
            offset: put.offset,
            bytes: put.bytes.to_vec(),
        };
        let host = kernel.procs.host_of(to);
        let message = kernel.message(from, to, what);
        self.start(kernel, Job::batch(host, put.bytes.len(), message));
        Ok(self.params.dma.setup)
    }

    fn fence(&mut self, kernel: &mut Kernel, pair: Pair, import: ImportId) -> Result<(Ps, OpId)> {
        let op = kernel.procs.begin(pair.from);
        kernel.procs.fence(import, op, kernel.now);
        Ok((Ps::ZERO, op))
    }

    fn try_send(&mut self, kernel: &mut Kernel, packet: Outgoing<'_>) -> (Ps, TrySend) {
        let port = packet.lane / 2;
        let whole = [Port::Jam, Port::JamService, Port::Device]
            .iter()
            .any(|it| *it as usize == port);
        let parts = self.params.messages(packet.bytes.len(), whole);
        let (count, part, last) = parts;
        let doubles = self.params.doubles(part) * u64::from(count - 1) + self.params.doubles(last);
        let stores = self.params.double_store * doubles;
        self.send_by(kernel, packet, parts, (stores, Ps::ZERO))
    }

    fn poll(&mut self, kernel: &mut Kernel, me: Peer, lane: usize) -> (Ps, Option<Arrived>) {
        let params = self.params.clone();
        self.take(kernel, me, lane, |bytes| {
            params.receive + params.double_load * params.doubles(bytes)
        })
    }

    fn waiting(&self, kernel: &Kernel, me: Peer, lane: usize, limit: usize) -> usize {
        let mine = |it: &&Waiting| {
            let message = it.message.as_deref();
            message.is_some_and(|it| {
                it.to == me && matches!(it.what, What::Packet { lane: of, .. } if of == lane)
            })
        };
        let there = self.receive[lane % 2].iter().filter(mine).count();
        (kernel.procs.of(me).arrived[lane].len() + there).min(limit)
    }

    fn ring(&mut self, kernel: &mut Kernel, pair: Pair) -> Ps {
        let Pair { from, to } = pair;
        let host = kernel.procs.host_of(to);
        let message = kernel.message(from, to, What::Ring);
        // Where nothing leads there is nobody to ring.
        self.send_own(kernel, host, message).0
    }

    fn transfers(&self) -> bool {
        true
    }

    fn transfer(&mut self, kernel: &mut Kernel, me: Peer, descriptor: &Descriptor) -> Result<(Ps, OpId)> {
        let op = kernel.procs.begin(me);
        let to = descriptor.peer;
        let host = kernel.procs.host_of(to);
        let what = What::Moved {
            op,
            descriptor: *descriptor,
        };
        let message = kernel.message(me, to, what);
        kernel
            .procs
            .count(me, to, Counter::BulkBytes, descriptor.len as u64);
        let setup = self.params.dma.setup;
        if descriptor.direction == Direction::Put {
            self.start(kernel, Job::block(host, descriptor.len, message));
            return Ok((setup, op));
        }
        // The receive engine is armed; then the other side is asked.
        let (time, left) = self.send_own(kernel, host, message);
        if left.is_some() {
            kernel.procs.forget(op);
            return Err(FabricError::dead(to, "no way that works leads there"));
        }
        Ok((setup + time, op))
    }

    fn arrived(&mut self, kernel: &mut Kernel, packet: Packet<Load>) {
        let priority = usize::from(packet.lane);
        let now = kernel.now;
        if packet.damaged {
            return self.damaged(kernel, packet);
        }
        let message = match packet.load {
            Load::Own(event) => match *event {
                AdapterEvent::StarTx(Event::Block { bytes, last }) => return self.store(kernel, bytes, last),
                _ => unreachable!("a packet of another adapter's"),
            },
            // Another's wish for a block: its driver sees it and starts it. It is in no queue that software reads for others.
            Load::Last(message) if matches!(message.what, What::Moved { .. }) => {
                kernel.net.release(&mut kernel.queue, now, self.host, packet.lane);
                return self.asked(kernel, packet.from, message);
            }
            Load::Last(message) => Some(Box::new(message)),
            Load::Part => None,
        };
        let bytes = packet.bytes;
        let interrupt = match message.as_deref() {
            Some(Message { what: What::Ring, .. }) => self.params.interrupt,
            _ => Ps::ZERO,
        };
        self.at(
            kernel,
            self.params.into + interrupt,
            Event::Queued {
                priority,
                bytes,
                message,
            },
        );
    }

    fn lost(&mut self, kernel: &mut Kernel, packet: Packet<Load>, fate: Fate) {
        let Fate::Lost(at) = fate else { return };
        let name = kernel.net.resource(at).spec.name.clone();
        self.failed(kernel, packet, &|to| {
            FabricError::dead(to, format!("lost on {name}"))
        });
    }

    fn happen(&mut self, kernel: &mut Kernel, event: AdapterEvent) {
        let AdapterEvent::StarTx(event) = event else {
            unreachable!("an event of another adapter's");
        };
        match event {
            Event::Engine => self.run_engine(kernel),
            Event::Queued {
                priority,
                bytes,
                message,
            } => self.queued(kernel, priority, Waiting { bytes, message }),
            Event::Stored { bytes, last } => self.stored(kernel, bytes, last),
            Event::Block { .. } => unreachable!("it comes as a packet"),
            Event::Drain => self.drain(kernel),
            Event::Fetch(job) => self.start(kernel, *job),
            Event::Acknowledged(import, error) => {
                let now = kernel.now;
                kernel.procs.put_ended(import, now, error);
            }
            Event::Look => {
                self.looking = false;
                while self.free(kernel, LOW) > 0
                    && let Some((to, message)) = self.own.pop_front()
                {
                    if let Some(message) = self.launch_own(kernel, to, message).1 {
                        let error = FabricError::dead(message.to, "no way that works leads there");
                        self.message_failed(kernel, message, error);
                    }
                }
                if [HIGH, LOW]
                    .iter()
                    .any(|priority| self.free(kernel, *priority) == 0)
                {
                    self.looking = true;
                    return self.at(kernel, self.params.word_read, Event::Look);
                }
                let now = kernel.now;
                for peer in std::mem::take(&mut self.full) {
                    kernel.procs.touch(peer, now);
                }
            }
        }
    }

    fn registers(&self) -> Vec<(String, u64)> {
        let registers = &self.registers;
        [
            ("messages_sent", registers.sent),
            ("messages_received", registers.received),
            ("status_reads", registers.status_reads),
            ("check_errors", registers.check_errors),
            ("interrupts", registers.interrupts),
            ("bus_busy_ns", self.bus.busy.nanos()),
        ]
        .map(|(name, value)| (name.into(), value))
        .into()
    }
}
