//! The SeaStar of the Cray XT3 (Brightwell et al., "Implementation and Performance of Portals 3.3 on the Cray XT3", 2005, sections 2 and 4).
//!
//! | Part | How it is modelled |
//! |---|---|
//! | PowerPC | one server: each command, start of a transmission, header and completion takes its cycles, one after the other |
//! | SRAM | sources and pendings are counted; a pool that is empty is *exhausted*: the node panics, or the sender goes back to what was refused |
//! | host and chip | a command is stored into a mailbox, which has so many places; events are written to the host's memory, an access takes `hypertransport_latency` |
//! | transmit | one list for all messages: header, then body, at `dma`; the next one begins when this one has left |
//! | receive | concurrent across sources, in order within one; into memory at `hypertransport`, one engine for all |
//! | buffers | of each source at most `ahead` bytes are on their way or wait at the receiver; then the whole list waits |
//! | interrupts | take the host's processor; one pass of the handler drains all events that came before its end |
//!
//! A fabric's packet of at most `header + inline` bytes is a *header packet* of 64 bytes; the rest of a longer one follows as its body. A packet that
//! ends with the key of [exposed](Adapter::expose) memory is the header of a message with that memory as its body, as the host's transmit command names
//! the payload's address: the body follows at once. At the receiver the header is seen after an interrupt, and a get with that key is the
//! *receive command*, upon which the body goes to its place; one more interrupt tells that it is there. So 2 interrupts for each message, and 1 where the
//! body is in the header packet. For packets of high priority (answers, acknowledgements) nothing is to be matched, so their headers make no interrupt: an answer's
//! body makes one. An *accelerated* process has none at all, no trap, and the firmware matches.
//!
//! The paper's host matches in the interrupt handler. Farpost's matches in the calls of a process, which may come late: a body that nobody has asked for within `hold`
//! is dropped, and sent again upon the command. Long bodies go in trains of packets, [`TRAIN`] at a time, to keep events few.
//!
//! There is no remote memory in it: what wants that is refused.

mod receive;
mod transmit;

use super::{Adapter, AdapterEvent, Kernel, Load, Message, Outgoing, Pair, What};
use crate::machine::{AdapterSpec, Bytes, Cycles, Exhaustion, Machine, SeaStarMode};
use crate::net::{Fate, HostId, Packet, ResourceId, ResourceSpec};
use crate::process::{Arrived, OpId};
use crate::record::{Mark, MessageKind};
use crate::time::{Ps, Rate};
use farpost_fabric::ability::Ability;
use farpost_fabric::{Counter, Descriptor, Direction, FabricError, Fault, Peer, Result, TrySend};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes of the header of Farpost's Portals, its word included: what the 52 bytes of a SeaStar header hold besides 12 of the user's.
pub const LAYER_HEADER: u32 = 44;
/// Bodies of so many bytes and more go in trains.
const LONG: u64 = 64 << 10;
/// Packets of a train.
pub const TRAIN: u32 = 16;

/// What the adapter is.
#[derive(Clone, Debug)]
pub struct SeaStarParams {
    /// The firmware matches, and processes reach it without the kernel.
    pub accelerated: bool,
    /// What is refused comes again; else an exhausted pool is the end of the node.
    pub go_back_n: bool,
    /// Structures for nodes that messages go to or come from.
    pub sources: u32,
    /// Structures for messages: half of them to send, managed by the host, half to receive, by the firmware.
    pub pendings: u32,
    /// Commands that the mailbox holds.
    pub mailbox: u32,
    /// The firmware takes a command,
    pub command: Ps,
    /// begins to transmit a message,
    pub transmit: Ps,
    /// takes in a header,
    pub header_in: Ps,
    /// ends a message,
    pub completion: Ps,
    /// and matches, in accelerated mode.
    pub match_entry: Ps,
    /// Out of the host's memory: reads over HyperTransport.
    pub dma: Rate,
    /// Into it: writes, which nobody waits for.
    pub hypertransport: Rate,
    /// An access to the host's memory.
    pub hypertransport_latency: Ps,
    /// Bytes of a packet, and of the user's in one with a header.
    pub packet: u32,
    pub inline: u32,
    /// Of a source on their way, bytes: the FIFOs of both chips and the buffers between.
    pub ahead: u32,
    /// The host's part: the call of the kernel, the words of a command, an interrupt, a look at an event queue.
    pub trap: Ps,
    pub post: Ps,
    pub interrupt: Ps,
    pub poll: Ps,
    /// How long a body is held that nobody asks for.
    pub hold: Ps,
    /// Wait before what was refused is sent again.
    pub resend: Ps,
}

impl SeaStarParams {
    /// As a machine's file says. None: it has another adapter.
    pub fn of(machine: &Machine) -> Option<Self> {
        let (AdapterSpec::SeaStar(it), host) = (&machine.adapter, &machine.host) else {
            return None;
        };
        let cycles = |cycles: Cycles| cycles.at(it.clock.value);
        let bytes = |bytes: Bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX);
        Some(Self {
            accelerated: it.mode == SeaStarMode::Accelerated,
            go_back_n: it.exhaustion == Exhaustion::GoBackN,
            sources: it.sources.0,
            pendings: it.pendings.0,
            mailbox: it.mailbox.0,
            command: cycles(it.command.value),
            transmit: cycles(it.transmit.value),
            header_in: cycles(it.header_in.value),
            completion: cycles(it.completion.value),
            match_entry: cycles(it.match_entry.value),
            dma: it.dma.value,
            hypertransport: it.hypertransport.value,
            hypertransport_latency: it.hypertransport_latency.value,
            packet: bytes(it.packet.value),
            inline: bytes(it.inline.value),
            ahead: bytes(it.ahead.value),
            trap: host.trap.value,
            // The words of a command leave together, as a line of the write-combining buffer.
            post: host.device_store.value,
            interrupt: host.interrupt.value,
            poll: host.poll.value,
            hold: it.hold.value,
            resend: it.resend.value,
        })
    }
}

/// A message that is sent.
#[derive(Clone, Debug)]
pub struct Outbound {
    to: HostId,
    /// Of those to this host, in order.
    seq: u64,
    content: Content,
    body: u64,
    /// The firmware's own, which takes no pending of the host's.
    own: bool,
    /// Its name in a recording.
    mark: Mark,
}

/// What a header says.
#[derive(Clone, Debug)]
enum Content {
    /// A fabric's packet. With a key its body is memory, which a get asks for.
    Packet {
        from: Peer,
        to: Peer,
        lane: usize,
        answer: bool,
        bytes: Vec<u8>,
        key: Option<u64>,
    },
    /// Bytes of a transfer: they go to their place by themselves.
    Moved {
        to: Peer,
        op: OpId,
        descriptor: Descriptor,
    },
    /// Bytes are to be sent.
    Fetch {
        from: Peer,
        to: Peer,
        op: OpId,
        descriptor: Descriptor,
    },
    /// Firmware to firmware: all before this number are taken.
    Taken(u64),
    /// This one and all behind it were refused.
    Refused(u64),
    Ring(Peer, Peer),
}

impl Content {
    /// The firmware's own, without a number.
    fn is_control(&self) -> bool {
        matches!(self, Content::Taken(_) | Content::Refused(_))
    }
}

/// What travels.
#[derive(Debug)]
pub enum Frame {
    Header(Box<Outbound>),
    Body(u32),
}

/// What a host's processor sees.
#[derive(Debug)]
pub enum Seen {
    Message(Box<Message>),
    /// The header of a message whose body has a place: the handler posts the receive command.
    Header(HostId),
    /// The body of a transfer is in its place.
    Moved(OpId, Box<Descriptor>, Mark),
}

#[derive(Debug, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Event {
    Frame(Frame),
    /// A transmit command is in the mailbox.
    Mailed(Box<Outbound>),
    /// The firmware has taken it.
    Command(Box<Outbound>),
    /// The transmit engine is ready for the next frame.
    Next,
    /// The last frame of a message has left.
    Left(Box<Outbound>),
    /// The firmware has ended that.
    Sent(Box<Outbound>),
    /// A receiver has taken so many bytes.
    Credit(HostId, u32),
    /// The firmware has taken in the header of a source's message.
    HeaderIn(HostId),
    /// A frame of a source's is in memory.
    Drained(HostId),
    /// A receive command for the body of a source's message is in the mailbox.
    ReceiveCommand(HostId),
    /// The firmware has the command for the body of a source's message.
    Open(HostId),
    /// In the host's memory; it interrupts this process.
    Posted(Seen, Option<Peer>),
    Seen(Seen),
    /// Nobody has asked for the body of this number among those kept.
    Hold(HostId, u64),
    /// Memory is withdrawn, of which a body may be held here.
    Withdrawn(HostId, u64),
    /// Send again to a host what it refused.
    Resend(HostId),
}

/// Memory that a peer may have.
struct Exposed {
    to: Peer,
    len: u64,
}

/// Counters for people and experiments.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    sent: u64,
    received: u64,
    interrupts: u64,
    /// Events that an earlier interrupt's pass has drained.
    drained: u64,
    refused: u64,
    resent: u64,
    dropped: u64,
    most_sources: u32,
    most_pendings: u32,
}

/// The adapter of a host.
pub struct SeaStar {
    params: SeaStarParams,
    host: HostId,
    out: ResourceId,
    /// Until when firmware, receive engine and interrupt handler are busy.
    firmware: Ps,
    receiving: Ps,
    handler: Ps,
    /// Why the node has stopped.
    panicked: Option<String>,
    sources: BTreeSet<HostId>,
    exposed: BTreeMap<u64, Exposed>,
    exposures: u64,
    figures: Figures,
    // Transmit.
    commands: u32,
    tx_pendings: u32,
    /// Processes that found no place.
    waiting: Vec<Peer>,
    list: VecDeque<Outbound>,
    /// Bytes of the first of the list that have gone, once its header has.
    gone: Option<u64>,
    /// The engine sends, or is about to.
    sending: bool,
    /// It waits for room ahead.
    stalled: bool,
    /// By host: bytes on their way, the next number, what is not known to be taken.
    targets: BTreeMap<HostId, transmit::Target>,
    // Receive.
    rx_pendings: u32,
    inbound: BTreeMap<HostId, receive::Inbound>,
    kept: u64,
}

impl SeaStar {
    /// The adapters of all hosts of a machine.
    pub fn of_hosts(params: &SeaStarParams, kernel: &mut Kernel, hosts: u32) -> Vec<SeaStar> {
        let adapter = |host: u32| {
            let name = format!("transmit engine of host {host}");
            SeaStar {
                params: params.clone(),
                host: HostId(host),
                out: kernel.net.add(ResourceSpec::new(name, params.dma, Ps::ZERO)),
                firmware: Ps::ZERO,
                receiving: Ps::ZERO,
                handler: Ps::ZERO,
                panicked: None,
                sources: BTreeSet::new(),
                exposed: BTreeMap::new(),
                exposures: 0,
                figures: Figures::default(),
                commands: 0,
                tx_pendings: 0,
                waiting: Vec::new(),
                list: VecDeque::new(),
                gone: None,
                sending: false,
                stalled: false,
                targets: BTreeMap::new(),
                rx_pendings: 0,
                inbound: BTreeMap::new(),
                kept: 0,
            }
        };
        (0..hosts).map(adapter).collect()
    }

    /// The firmware does what takes so long, after all that it has to do before; when it has.
    fn firmware(&mut self, from: Ps, cost: Ps) -> Ps {
        self.firmware = self.firmware.max(from) + cost;
        self.firmware
    }

    fn later(&self, kernel: &mut Kernel, time: Ps, event: Event) {
        kernel.at(time, self.host, AdapterEvent::SeaStar(event));
    }

    /// Whether there is a source structure for `host` now. In go-back-n one that is not in use is given up for it.
    fn has_source(&mut self, host: HostId) -> bool {
        if self.sources.contains(&host) {
            return true;
        }
        if self.sources.len() >= self.params.sources as usize {
            let idle = |of: &&HostId| {
                self.params.go_back_n
                    && self.inbound.get(of).is_none_or(receive::Inbound::is_idle)
                    && self.targets.get(of).is_none_or(transmit::Target::is_idle)
            };
            let Some(idle) = self.sources.iter().find(idle).copied() else {
                return false;
            };
            self.sources.remove(&idle);
        }
        self.sources.insert(host);
        self.figures.most_sources = self.figures.most_sources.max(self.sources.len() as u32);
        true
    }

    fn note_pendings(&mut self) {
        let taken = self.tx_pendings + self.rx_pendings;
        self.figures.most_pendings = self.figures.most_pendings.max(taken);
    }

    /// The end of the node: all its processes die.
    fn panic(&mut self, kernel: &mut Kernel, what: &str) {
        let why = format!(
            "the SeaStar of host {} has no {what} left: the node has panicked",
            self.host.0
        );
        for peer in (0..kernel.procs.size()).map(Peer) {
            if kernel.procs.host_of(peer) == self.host {
                kernel.procs.kill(peer, &why);
                let error = FabricError::dead(peer, why.clone());
                kernel.fault(peer, Fault { peer, error });
            }
        }
        self.panicked = Some(why);
    }

    /// Something is in the host's memory: seen at once by who polls, or after an interrupt, by the pass that is under way or one more.
    fn posted(&mut self, kernel: &mut Kernel, seen: Seen, interrupt: Option<Peer>) {
        let Some(peer) = interrupt.filter(|_| !self.params.accelerated) else {
            return self.seen(kernel, seen);
        };
        let now = kernel.now;
        if now < self.handler {
            self.figures.drained += 1;
        } else {
            self.figures.interrupts += 1;
            self.handler = now + self.params.interrupt;
            kernel
                .procs
                .schedule
                .interrupt(peer.0, now, self.params.interrupt);
        }
        self.later(kernel, self.handler, Event::Seen(seen));
    }

    fn seen(&mut self, kernel: &mut Kernel, seen: Seen) {
        match seen {
            Seen::Message(message) => kernel.deliver(*message),
            Seen::Header(source) => self.give_receive_command(kernel, source),
            Seen::Moved(op, descriptor, mark) => {
                kernel.recorder.arrives(mark, kernel.now);
                let result = kernel.procs.move_bytes(op, &descriptor);
                let now = kernel.now;
                kernel.procs.finish(op, now, result);
            }
        }
    }

    /// What the host's part of a command takes: words for the mailbox and, but for those that a handler gives, the kernel.
    fn call(&self, answer: bool) -> Ps {
        match self.params.accelerated || answer {
            true => self.params.post,
            false => self.params.trap + self.params.post,
        }
    }

    /// The host gives a transmit command.
    fn give_command(&mut self, kernel: &mut Kernel, message: Outbound, call: Ps) {
        self.commands += u32::from(!message.own);
        self.later(kernel, kernel.now + call, Event::Mailed(Box::new(message)));
    }
}

impl Adapter for SeaStar {
    /// Portals only; what has come waits in the memory of the host.
    fn lacks(&self) -> &'static [Ability] {
        &[Ability::Put, Ability::Get, Ability::Bounds]
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }

    fn name(&self) -> &'static str {
        "seastar"
    }

    fn try_send(&mut self, kernel: &mut Kernel, packet: Outgoing<'_>) -> (Ps, TrySend) {
        let Pair { from, to } = packet.pair;
        if self.panicked.is_some() {
            return (self.params.poll, TrySend::Sent);
        }
        if self.commands >= self.params.mailbox || self.tx_pendings >= self.params.pendings / 2 {
            if !self.waiting.contains(&from) {
                self.waiting.push(from);
            }
            return (self.params.poll, TrySend::Full);
        }
        self.tx_pendings += 1;
        self.note_pendings();
        // Lanes are ports with two priorities each, the high one first.
        let answer = packet.lane.is_multiple_of(2);
        let named = packet.bytes.last_chunk().map(|key| u64::from_le_bytes(*key));
        let memory = named.and_then(|key| self.exposed.get(&key).filter(|it| it.to == to));
        let (key, body) = match memory {
            Some(exposed) => (named, exposed.len),
            None => {
                let header = (LAYER_HEADER + self.params.inline) as usize;
                let body = match packet.bytes.len() <= header {
                    true => 0,
                    false => packet.bytes.len() - LAYER_HEADER as usize,
                };
                (None, body as u64)
            }
        };
        let content = Content::Packet {
            from,
            to,
            lane: packet.lane,
            answer,
            bytes: packet.bytes.to_vec(),
            key,
        };
        let call = self.call(answer);
        let size = body.max(packet.bytes.len() as u64);
        let mark = kernel.mark(MessageKind::Packet, (from, to), size);
        let to = kernel.procs.host_of(to);
        let message = Outbound {
            to,
            seq: 0,
            content,
            body,
            own: false,
            mark,
        };
        self.give_command(kernel, message, call);
        (call, TrySend::Sent)
    }

    /// The pending of what is taken goes back to the firmware.
    fn poll(&mut self, kernel: &mut Kernel, me: Peer, lane: usize) -> (Ps, Option<Arrived>) {
        let found = kernel.procs.of_mut(me).arrived[lane].pop_front();
        if found.is_some() {
            self.rx_pendings = self.rx_pendings.saturating_sub(1);
        }
        (self.params.poll, found)
    }

    fn ring(&mut self, kernel: &mut Kernel, pair: Pair) -> Ps {
        let Pair { from, to } = pair;
        let message = Outbound {
            to: kernel.procs.host_of(to),
            seq: 0,
            content: Content::Ring(from, to),
            body: 0,
            own: true,
            mark: kernel.mark(MessageKind::Ring, (from, to), 0),
        };
        let call = self.call(false);
        self.give_command(kernel, message, call);
        call
    }

    fn transfers(&self) -> bool {
        true
    }

    fn expose(&mut self, _kernel: &mut Kernel, pair: Pair, _address: usize, len: usize) -> u64 {
        self.exposures += 1;
        let key = u64::from(self.host.0 + 1) << 40 | self.exposures;
        let (to, len) = (pair.to, len as u64);
        self.exposed.insert(key, Exposed { to, len });
        key
    }

    fn withdraw(&mut self, kernel: &mut Kernel, key: u64) {
        if let Some(exposed) = self.exposed.remove(&key) {
            let there = kernel.procs.host_of(exposed.to);
            let event = Event::Withdrawn(self.host, key);
            kernel.at(kernel.now, there, AdapterEvent::SeaStar(event));
        }
    }

    fn transfer(&mut self, kernel: &mut Kernel, me: Peer, descriptor: &Descriptor) -> Result<(Ps, OpId)> {
        let op = kernel.procs.begin(me);
        let to = descriptor.peer;
        let host = kernel.procs.host_of(to);
        kernel
            .procs
            .count(me, to, Counter::BulkBytes, descriptor.len as u64);
        if descriptor.direction == Direction::Get && self.ask_for_kept(kernel, (me, host), op, descriptor) {
            return Ok((self.params.post, op));
        }
        let (from, descriptor) = (me, *descriptor);
        let (content, body) = match descriptor.direction {
            Direction::Put => (Content::Moved { to, op, descriptor }, descriptor.len as u64),
            Direction::Get => (
                Content::Fetch {
                    from,
                    to,
                    op,
                    descriptor,
                },
                0,
            ),
        };
        let kind = match body {
            0 => MessageKind::Ask,
            _ => MessageKind::Transfer,
        };
        let mark = kernel.mark(kind, (me, to), descriptor.len as u64);
        let message = Outbound {
            to: host,
            seq: 0,
            content,
            body,
            own: true,
            mark,
        };
        let call = self.call(false);
        self.give_command(kernel, message, call);
        Ok((call, op))
    }

    fn arrived(&mut self, kernel: &mut Kernel, packet: Packet<Load>) {
        if let Load::Own(event) = packet.load
            && let AdapterEvent::SeaStar(Event::Frame(frame)) = *event
        {
            self.frame(kernel, packet.from, frame);
        }
    }

    /// Links have retries, so this is one that is cut.
    fn lost(&mut self, kernel: &mut Kernel, packet: Packet<Load>, fate: Fate) {
        let Fate::Lost(at) = fate else { return };
        let why = format!("lost on {}", kernel.net.resource(at).spec.name);
        let (to, bytes) = (packet.to, packet.bytes);
        if let Load::Own(event) = packet.load
            && let AdapterEvent::SeaStar(Event::Frame(frame)) = *event
        {
            match frame {
                Frame::Header(message) => self.lost_header(kernel, *message, &why),
                Frame::Body(_) => self.lost_body(kernel, to, &why),
            }
        }
        self.later(kernel, kernel.now, Event::Credit(packet.to, bytes));
    }

    fn happen(&mut self, kernel: &mut Kernel, event: AdapterEvent) {
        let AdapterEvent::SeaStar(event) = event else {
            unreachable!("an event of another adapter's");
        };
        match event {
            Event::Mailed(message) => self.command(kernel, message),
            Event::Left(message) => {
                let at = self.firmware(kernel.now, self.params.completion);
                self.later(kernel, at, Event::Sent(message));
            }
            Event::ReceiveCommand(source) => {
                let at = self.firmware(kernel.now, self.params.command);
                self.later(kernel, at, Event::Open(source));
            }
            Event::Command(message) => self.enqueue(kernel, *message),
            Event::Next => self.next_frame(kernel),
            Event::Sent(message) => self.sent(kernel, *message),
            Event::Credit(host, bytes) => self.credit(kernel, host, bytes),
            Event::Resend(host) => self.resend(kernel, host),
            Event::HeaderIn(source) => self.header_in(kernel, source),
            Event::Drained(source) => self.drained(kernel, source),
            Event::Open(source) => self.open(kernel, source),
            Event::Posted(seen, interrupt) => self.posted(kernel, seen, interrupt),
            Event::Seen(seen) => self.seen(kernel, seen),
            Event::Hold(source, kept) => self.held_long(kernel, source, kept),
            Event::Withdrawn(source, key) => self.withdrawn(kernel, source, key),
            Event::Frame(_) => unreachable!("frames come by the network"),
        }
    }

    fn registers(&self) -> Vec<(String, u64)> {
        let figures = &self.figures;
        [
            ("messages_sent", figures.sent),
            ("messages_received", figures.received),
            ("interrupts", figures.interrupts),
            ("events_drained", figures.drained),
            ("refused", figures.refused),
            ("resent", figures.resent),
            ("bodies_dropped", figures.dropped),
            ("sources", self.sources.len() as u64),
            ("most_sources", u64::from(figures.most_sources)),
            ("tx_pendings", u64::from(self.tx_pendings)),
            ("rx_pendings", u64::from(self.rx_pendings)),
            ("most_pendings", u64::from(figures.most_pendings)),
            ("panicked", u64::from(self.panicked.is_some())),
        ]
        .map(|(name, value)| (name.into(), value))
        .into()
    }
}
