//! Myrinet's interface with its LANai 2.3 on the SBus, as its control program for Fast Messages drives it.
//!
//! Pakin, Lauria and Chien, "High Performance Messaging on Workstations: Illinois Fast Messages (FM) for Myrinet", Supercomputing 1995, section 4.
//!
//! The LANai is a slow serial processor: it does one thing after the other, and waits for the channel's DMA. Its program (figure 2) sends, receives and delivers:
//!
//! | Loop | Sends | Receives |
//! |---|---|---|
//! | baseline | at most one each time round | at most one |
//! | streamed | as long as there is one and the channel takes it | as long as one is in the channel |
//!
//! * **Send**: the instructions of the loop, set-up of the channel's DMA, then the packet's bytes at the link's rate, all of it in turn. [`LanaiBus::Hybrid`]: the
//!   host has stored the packet into the send queue, over the SBus, and then `hostsent`. [`LanaiBus::AllDma`]: the host has copied it to its DMA region and stored a pointer;
//!   the LANai fetches the next packet while the channel has one. It synchronises with the host twice for that.
//! * **Receive**: a packet stays in the channel (one place) until the LANai has set DMA up for it and there is room in the receive queue. So the network is full behind a LANai
//!   whose queues are full.
//! * **Deliver**: when the host's DMA is idle, once each time round: all undelivered packets with one DMA, if the host's queue has room. With
//!   [`interpret`](LanaiSpec::interpret) a packet passes a `switch()` and is delivered alone, before the next is received.
//!
//! The SBus carries one thing at a time: stores of the host, DMA in, DMA out. The host looks at the LANai's `lanaisent` only when its own counters say that the queue is full.
//! A packet larger than a frame takes several places. Other hosts' memory is out of reach. There are no priorities: what waits behind a full queue waits, whatever it is.
//!
//! Without hosts ([`Event::Alone`]) the LANais send from a fixed place and receive to another, as for figure 3.

use super::{Adapter, AdapterEvent, Kernel, Load, Message, Outgoing, Pair, What};
use crate::machine::{Cycles, Host, Lanai as LanaiSpec, LanaiBus, LanaiProgram};
use crate::net::{Fate, HostId, Packet, Path};
use crate::process::Arrived;
use crate::time::{Ps, Rate};
use crate::topology::Port;
use farpost_fabric::ability::Ability;
use farpost_fabric::{FabricError, Fault, Peer, Route, TrySend};
use std::collections::VecDeque;

/// A channel that takes nothing is looked at again after so long.
const LOOK_AGAIN: Ps = Ps::from_nanos(200);
/// The host stores double words.
const WORD: u32 = 8;

/// LANais without hosts: packets of so many bytes for another one.
#[derive(Clone, Copy, Debug)]
pub struct Alone {
    pub to: HostId,
    pub bytes: u32,
    /// To be sent at once.
    pub packets: u32,
    /// Received packets that are answered.
    pub answers: u32,
}

/// A packet in the send queue.
#[derive(Debug)]
pub struct Queued {
    path: Path,
    to: HostId,
    bytes: u32,
    places: u32,
    load: Load,
    /// It is in the LANai's memory.
    here: bool,
}

#[derive(Debug, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Event {
    /// The host has stored a packet, or a pointer to it, and counted it.
    Queued(Box<Queued>),
    /// The packet is in the LANai's memory.
    Fetched,
    /// The channel's DMA begins.
    Launch(Box<Queued>),
    /// It has ended.
    Sent(u32),
    /// A packet from the channel is in the receive queue.
    Received,
    /// DMA of so many bytes to the host begins.
    Deliver(Vec<Message>, u64),
    /// DMA to the host has ended.
    Stored(Vec<Message>),
    /// The host can see what that brought.
    Seen(Vec<Message>),
    /// The program looks again at what it waited for.
    Look,
    /// Send without a host.
    Alone(Alone),
}

/// What the program tries next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Send,
    Receive,
    Deliver,
}

/// Times of the host's and the program's steps, from the machine.
#[derive(Clone, Debug)]
struct Times {
    send: Ps,
    receive: Ps,
    /// One synchronisation with the host's DMA.
    host_dma: Ps,
    interpret: Ps,
    channel_setup: Ps,
    host_setup: Ps,
    poll: Ps,
}

/// The interface of a host.
pub struct Lanai {
    spec: LanaiSpec,
    times: Times,
    /// A copy to the DMA region.
    copy: Rate,
    link: Rate,
    host: HostId,
    step: Step,
    busy: bool,
    /// A look is on its way.
    looks: bool,
    /// Until when the SBus is taken.
    bus: Ps,
    send: VecDeque<Queued>,
    /// Places of the send queue that are taken, those that the host is storing to included.
    send_taken: u32,
    /// Processes that found it full.
    refused: Vec<Peer>,
    /// Packets in the channel.
    channel: VecDeque<Packet<Load>>,
    receive: VecDeque<(Message, u32, u32)>,
    receive_taken: u32,
    delivering: bool,
    /// Packets of the host's queue.
    host_taken: u32,
    alone: Option<Alone>,
    // Counters, free-running.
    hostsent: u32,
    lanaisent: u32,
    received: u64,
    delivered: u64,
    dmas: u64,
    /// Packets whose check was wrong.
    check_errors: u64,
    arrived_at: Ps,
    received_at: Ps,
}

impl Lanai {
    /// The interfaces of all hosts of a machine, with links of such a rate.
    pub fn of_hosts(spec: &LanaiSpec, host: &Host, link: Rate, hosts: u32) -> Vec<Lanai> {
        let instructions = |count: f64| Cycles(count * spec.cycles_per_instruction.0).at(spec.clock.value);
        let managed = if spec.manage_buffers {
            spec.buffer_management.0
        } else {
            0.0
        };
        let send = match spec.program {
            LanaiProgram::Baseline => spec.baseline.0,
            LanaiProgram::Streamed => spec.streamed.0,
        };
        // What the loop itself takes more is the same for both.
        let receive = spec.receive.0 + send - spec.streamed.0;
        let times = Times {
            send: instructions(send + managed),
            receive: instructions(receive + managed),
            host_dma: instructions(spec.host_dma.0),
            interpret: instructions(spec.interpretation.0),
            channel_setup: spec.channel_setup.at(spec.clock.value),
            host_setup: spec.host_setup.at(spec.clock.value),
            poll: host.poll.value,
        };
        let copy = host.copy.last().map_or(Rate::INFINITE, |level| level.rate.value);
        let adapter = |number| Lanai {
            spec: spec.clone(),
            times: times.clone(),
            copy,
            link,
            host: HostId(number),
            step: Step::Send,
            busy: false,
            looks: false,
            bus: Ps::ZERO,
            send: VecDeque::new(),
            send_taken: 0,
            refused: Vec::new(),
            channel: VecDeque::new(),
            receive: VecDeque::new(),
            receive_taken: 0,
            delivering: false,
            host_taken: 0,
            alone: None,
            // They soon wrap, so that wrapping is what always happens.
            hostsent: u32::MAX - 8,
            lanaisent: u32::MAX - 8,
            received: 0,
            delivered: 0,
            dmas: 0,
            check_errors: 0,
            arrived_at: Ps::ZERO,
            received_at: Ps::ZERO,
        };
        (0..hosts).map(adapter).collect()
    }

    /// Places that a packet takes of a queue.
    fn places(&self, bytes: u32) -> u32 {
        let place = (self.spec.frame.0 + self.spec.header.0) as u32;
        bytes.div_ceil(place).max(1)
    }

    fn post(&self, kernel: &mut Kernel, time: Ps, event: Event) {
        kernel.at(time, self.host, AdapterEvent::Lanai(event));
    }

    fn path(&self, kernel: &mut Kernel, to: HostId, route: Route) -> Option<Path> {
        let ends = [self.host, to].map(|host| Port { host, rail: 0 });
        kernel.path((ends[0], ends[1]), 0, route, &[], &[])
    }

    /// Something passes the SBus for so long, from `from` on: when it has.
    fn over_bus(&mut self, from: Ps, time: Ps) -> Ps {
        self.bus = self.bus.max(from) + time;
        self.bus
    }

    /// The host hands a packet over: what that takes.
    fn hand_over(&mut self, kernel: &mut Kernel, queued: Queued) -> Ps {
        let now = kernel.now;
        let words = |count: u32| self.spec.sbus_pio.time(u64::from(count * WORD));
        let end = match self.spec.bus {
            // The packet, and `hostsent`.
            LanaiBus::Hybrid => self.over_bus(now, words(queued.bytes.div_ceil(WORD) + 1)),
            // After the copy: pointer and length, and `hostsent`. It reads what the LANai has taken before. So few words do not hold up others, but wait for them.
            LanaiBus::AllDma => {
                let copied = now + self.copy.time(u64::from(queued.bytes));
                copied.max(self.bus) + self.spec.status_read.value * 2 + words(3)
            }
        };
        self.send_taken += queued.places;
        self.hostsent = self.hostsent.wrapping_add(1);
        self.post(kernel, end, Event::Queued(Box::new(queued)));
        end - now
    }

    fn queued(&self, kernel: &mut Kernel, message: Message, route: Route) -> Result<Queued, Message> {
        let payload = match &message.what {
            What::Packet { bytes, .. } => bytes.len() as u32,
            _ => 0,
        };
        let to = kernel.procs.host_of(message.to);
        let Some(path) = self.path(kernel, to, route) else {
            return Err(message);
        };
        let bytes = payload + self.spec.header.0 as u32;
        Ok(Queued {
            path,
            to,
            bytes,
            places: self.places(bytes),
            load: Load::Last(message),
            here: self.spec.bus == LanaiBus::Hybrid,
        })
    }

    // The program.

    /// What the program does next, if it is not busy.
    fn run(&mut self, kernel: &mut Kernel) {
        let once = self.spec.program == LanaiProgram::Baseline;
        // Once round, and the step that it began with.
        for _ in 0..4 {
            if self.busy {
                return;
            }
            let (began, next) = match self.step {
                Step::Send => (self.begin_send(kernel), Step::Receive),
                Step::Receive => (self.begin_receive(kernel), Step::Deliver),
                Step::Deliver => (self.begin_delivery(kernel), Step::Send),
            };
            let deliver = self.step == Step::Deliver || self.spec.interpret && self.step == Step::Receive;
            if !began || once || deliver {
                self.step = next;
            }
        }
    }

    fn look_later(&mut self, kernel: &mut Kernel) {
        if !self.looks {
            self.looks = true;
            self.post(kernel, kernel.now + LOOK_AGAIN, Event::Look);
        }
    }

    fn begin_send(&mut self, kernel: &mut Kernel) -> bool {
        if self.send.is_empty() && !self.make_alone(kernel) {
            return false;
        }
        let now = kernel.now;
        if !kernel.net.has_room(self.send[0].path[0]) {
            self.look_later(kernel);
            return false;
        }
        self.busy = true;
        let fetch = self.times.host_dma + self.times.host_setup;
        if !self.send[0].here {
            let time = self.spec.sbus_dma.time(u64::from(self.send[0].bytes));
            let end = self.over_bus(now + fetch, time);
            self.post(kernel, end, Event::Fetched);
            return true;
        }
        let queued = self.send.pop_front().expect("just looked");
        let (mut begin, mut fetched) = (now, Ps::ZERO);
        if self.spec.bus == LanaiBus::AllDma {
            // The next one meanwhile. And the host is told that this one's buffer is free.
            if let Some(next) = self.send.front_mut()
                && !next.here
            {
                next.here = true;
                let time = self.spec.sbus_dma.time(u64::from(next.bytes));
                begin += fetch;
                fetched = self.over_bus(begin, time);
            }
            begin += self.times.host_dma;
        }
        let launch = begin + self.times.send + self.times.channel_setup;
        let sent = launch + self.link.time(u64::from(queued.bytes));
        self.post(kernel, sent.max(fetched), Event::Sent(queued.places));
        self.post(kernel, launch, Event::Launch(Box::new(queued)));
        true
    }

    /// The packet that a LANai without a host sends next.
    fn make_alone(&mut self, kernel: &mut Kernel) -> bool {
        let Some(alone) = self.alone.filter(|alone| alone.packets > 0) else {
            return false;
        };
        let Some(path) = self.path(kernel, alone.to, Route::Fixed(0)) else {
            return false;
        };
        self.alone = Some(Alone {
            packets: alone.packets - 1,
            ..alone
        });
        self.send.push_back(Queued {
            path,
            to: alone.to,
            bytes: alone.bytes + self.spec.header.0 as u32,
            places: 0,
            load: Load::Part,
            here: true,
        });
        true
    }

    fn begin_receive(&mut self, kernel: &mut Kernel) -> bool {
        let Some(packet) = self.channel.front() else {
            return false;
        };
        let places = self.places(packet.bytes);
        if matches!(packet.load, Load::Last(_)) {
            if self.receive_taken + places > self.spec.slots(self.spec.receive_queue.value) {
                // It stays in the channel, and more behind it.
                return false;
            }
            self.receive_taken += places;
        }
        self.busy = true;
        let mut time = self.times.receive + self.times.channel_setup;
        if self.spec.interpret {
            time += self.times.interpret;
        }
        self.post(kernel, kernel.now + time, Event::Received);
        true
    }

    fn begin_delivery(&mut self, kernel: &mut Kernel) -> bool {
        let room = self.spec.host_queue.0.saturating_sub(self.host_taken);
        let most = if self.spec.interpret {
            1
        } else {
            self.spec.aggregate.0
        };
        let count = self.receive.len().min(room.min(most) as usize);
        if self.delivering || count == 0 {
            return false;
        }
        let now = kernel.now;
        let (mut bytes, mut messages) = (0, Vec::with_capacity(count));
        for (message, length, places) in self.receive.drain(..count) {
            self.host_taken += u32::from(matches!(message.what, What::Packet { .. }));
            self.receive_taken -= places;
            bytes += u64::from(length);
            messages.push(message);
        }
        let begun = now + self.times.host_dma + self.times.host_setup;
        (self.busy, self.delivering) = (true, true);
        self.dmas += 1;
        self.post(kernel, begun, Event::Deliver(messages, bytes));
        true
    }

    /// The first packet of the channel has been received.
    fn received(&mut self, kernel: &mut Kernel) {
        let packet = self.channel.pop_front().expect("being received");
        let (now, places) = (kernel.now, self.places(packet.bytes));
        // What is interpreted stays where it is until it is delivered, and the channel with it.
        if !(self.spec.interpret && matches!(packet.load, Load::Last(_))) {
            kernel.net.release(&mut kernel.queue, now, self.host, 0);
        }
        self.received += 1;
        self.received_at = now;
        match packet.load {
            Load::Last(message) => self.receive.push_back((message, packet.bytes, places)),
            _ => {
                if let Some(alone) = &mut self.alone
                    && alone.answers > 0
                {
                    alone.answers -= 1;
                    alone.packets += 1;
                }
            }
        }
    }
}

impl Lanai {
    /// The hardware's check is wrong: the packet is dropped, and both sides hear of it, as nothing is sent again.
    fn drop_damaged(&mut self, kernel: &mut Kernel, packet: Packet<Load>) {
        let now = kernel.now;
        self.check_errors += 1;
        kernel.net.release(&mut kernel.queue, now, self.host, 0);
        if let Load::Last(Message {
            from,
            to,
            what: What::Packet { .. },
            ..
        }) = packet.load
        {
            let error = FabricError::corrupt(from, "the check of a packet", packet.bytes);
            kernel.fault(to, Fault { peer: from, error });
            let error = FabricError::dead(to, "a packet was damaged on its way");
            kernel.fault(from, Fault { peer: to, error });
        }
    }
}

impl Adapter for Lanai {
    /// Frames only, in one receive queue for all: when it is full, all wait in the channel.
    fn lacks(&self) -> &'static [Ability] {
        &[
            Ability::Put,
            Ability::Get,
            Ability::Transfer,
            Ability::Ports,
            Ability::Priorities,
        ]
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }

    fn name(&self) -> &'static str {
        "lanai"
    }

    fn try_send(&mut self, kernel: &mut Kernel, packet: Outgoing<'_>) -> (Ps, TrySend) {
        let Pair { from, to } = packet.pair;
        let bytes = packet.bytes.len() as u32 + self.spec.header.0 as u32;
        if self.send_taken + self.places(bytes) > self.spec.slots(self.spec.send_queue.value) {
            if !self.refused.contains(&from) {
                self.refused.push(from);
            }
            let end = self.over_bus(kernel.now, self.spec.status_read.value);
            return (end - kernel.now, TrySend::Full);
        }
        let what = What::Packet {
            lane: packet.lane,
            bytes: packet.bytes.to_vec(),
        };
        let message = kernel.message(from, to, what);
        match self.queued(kernel, message, packet.route) {
            Ok(queued) => (self.hand_over(kernel, queued), TrySend::Sent),
            Err(message) => {
                let peer = message.to;
                let error = FabricError::dead(peer, "no way that works leads there");
                kernel.fault(from, Fault { peer, error });
                (Ps::ZERO, TrySend::Sent)
            }
        }
    }

    fn poll(&mut self, kernel: &mut Kernel, me: Peer, lane: usize) -> (Ps, Option<Arrived>) {
        let found = kernel.procs.of_mut(me).arrived[lane].pop_front();
        if found.is_some() {
            self.host_taken -= 1;
            // What had no room may be delivered now.
            if !self.busy && !self.receive.is_empty() {
                self.post(kernel, kernel.now, Event::Look);
            }
        }
        (self.times.poll, found)
    }

    /// A packet without bytes. It finds a place always, as what it asks for is that somebody makes room.
    fn ring(&mut self, kernel: &mut Kernel, pair: Pair) -> Ps {
        let Pair { from, to } = pair;
        let what = What::Ring;
        let message = kernel.message(from, to, what);
        match self.queued(kernel, message, Route::Fixed(0)) {
            Ok(queued) => self.hand_over(kernel, queued),
            // Where nothing leads there is nobody to ring.
            Err(_) => Ps::ZERO,
        }
    }

    fn arrived(&mut self, kernel: &mut Kernel, packet: Packet<Load>) {
        if packet.damaged {
            return self.drop_damaged(kernel, packet);
        }
        self.arrived_at = kernel.now;
        self.channel.push_back(packet);
        self.run(kernel);
    }

    fn lost(&mut self, kernel: &mut Kernel, packet: Packet<Load>, fate: Fate) {
        let (Load::Last(message), Fate::Lost(at)) = (packet.load, fate) else {
            return;
        };
        if let What::Packet { .. } = message.what {
            let name = kernel.net.resource(at).spec.name.clone();
            let (peer, error) = (
                message.to,
                FabricError::dead(message.to, format!("lost on {name}")),
            );
            kernel.fault(message.from, Fault { peer, error });
        }
    }

    fn happen(&mut self, kernel: &mut Kernel, event: AdapterEvent) {
        let AdapterEvent::Lanai(event) = event else {
            unreachable!("an event of another adapter's");
        };
        let now = kernel.now;
        match event {
            Event::Queued(queued) => self.send.push_back(*queued),
            Event::Fetched => {
                self.send[0].here = true;
                self.busy = false;
            }
            Event::Launch(queued) => {
                let Queued {
                    path,
                    to,
                    bytes,
                    load,
                    ..
                } = *queued;
                kernel.send((self.host, to), bytes, 0, &path, now, load);
                return;
            }
            Event::Sent(places) => {
                if places > 0 {
                    self.lanaisent = self.lanaisent.wrapping_add(1);
                    self.send_taken -= places;
                    for peer in self.refused.drain(..) {
                        kernel.procs.touch(peer, now);
                    }
                }
                self.busy = false;
            }
            Event::Received => {
                self.received(kernel);
                self.busy = false;
            }
            Event::Deliver(messages, bytes) => {
                let end = self.over_bus(now, self.spec.sbus_dma.time(bytes));
                self.post(kernel, end, Event::Stored(messages));
                // Who interprets packets one by one waits for each.
                self.busy = self.spec.interpret;
            }
            Event::Stored(messages) => {
                self.delivering = false;
                if self.spec.interpret {
                    self.busy = false;
                    kernel.net.release(&mut kernel.queue, now, self.host, 0);
                }
                self.delivered += messages.len() as u64;
                self.post(kernel, now + self.spec.delivery.value, Event::Seen(messages));
            }
            Event::Seen(messages) => {
                for message in messages {
                    let lost = kernel.procs.check_alive(message.to).is_err();
                    self.host_taken -= u32::from(lost && matches!(message.what, What::Packet { .. }));
                    kernel.deliver(message);
                }
                if self.receive.is_empty() {
                    return;
                }
            }
            Event::Look => self.looks = false,
            Event::Alone(alone) => self.alone = Some(alone),
        }
        self.run(kernel);
    }

    fn registers(&self) -> Vec<(String, u64)> {
        [
            ("hostsent", u64::from(self.hostsent)),
            ("lanaisent", u64::from(self.lanaisent)),
            (
                "send_queue",
                u64::from(self.hostsent.wrapping_sub(self.lanaisent)),
            ),
            ("receive_queue", self.receive.len() as u64),
            ("host_queue", u64::from(self.host_taken)),
            ("received", self.received),
            ("delivered", self.delivered),
            ("dmas", self.dmas),
            ("check_errors", self.check_errors),
            ("arrived_at", self.arrived_at.0),
            ("received_at", self.received_at.0),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }
}
