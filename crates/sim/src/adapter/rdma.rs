//! A generic RDMA adapter of today: the processor rings a doorbell with a descriptor, and the adapter does the rest.
//!
//! A put or packet of `n` bytes: the processor pays `post`; the adapter begins after `fetch` (it reads descriptor and data over the bus) and `process`, cuts the bytes into packets of
//! at most `mtu` with `header` bytes each, and they pass the host's bus (`bus`), the network, and the bus of the other host; they are in memory `store` later. An
//! acknowledgement comes back `fetch + process` later, which fences wait for. A get is a request of a header that way, and the bytes back.
//!
//! Up to `inline` bytes the processor stores with the descriptor, a `post` for each line, and nothing is fetched. What was posted first still begins first.

use super::{Adapter, AdapterEvent, Get, Kernel, Load, Message, Outgoing, Pair, Put, What};
use crate::net::{Fate, Hop, HostId, Packet, ResourceId, ResourceSpec};
use crate::process::{Arrived, ImportId, OpId};
use crate::time::{Ps, Rate};
use crate::topology::Port;
use farpost_fabric::{Counter, Descriptor, Direction, FabricError, Fault, Peer, Result, Route, TrySend};
use std::rc::Rc;

/// What the adapter is.
#[derive(Clone, Debug)]
pub struct RdmaParams {
    /// The processor's part of an operation: a line of descriptor, stored at the doorbell.
    pub post: Ps,
    /// A read of the host's memory, until its first byte is there.
    pub fetch: Ps,
    /// What the adapter gives to an operation before its first byte is on the bus.
    pub process: Ps,
    /// Bytes that go with the descriptor at most.
    pub inline: u32,
    /// From the last byte to its being seen in memory.
    pub store: Ps,
    /// A look at a completion queue.
    pub poll: Ps,
    /// The bus to memory, each way.
    pub bus: Rate,
    /// Bytes of payload in a packet.
    pub mtu: u32,
    /// Bytes of a packet besides those.
    pub header: u32,
    /// Packets that a receiver's queue holds.
    pub queue: u32,
}

#[derive(Debug, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Event {
    /// Something is in memory, and takes effect.
    Stored(Box<Message>),
    /// A host's question for bytes of this memory, behind what is on its way there.
    Asked(HostId, Box<Message>),
    /// The other side has got a put.
    Acknowledged(ImportId, Option<FabricError>),
}

/// The adapter of a host.
pub struct Rdma {
    params: RdmaParams,
    host: HostId,
    /// From and to memory.
    out: ResourceId,
    inward: Rc<[ResourceId]>,
    /// Packets ever sent.
    sent: u64,
    /// When the last operation began.
    began: Ps,
    /// When the last bytes that have come are in memory. Who reads pushes them ahead.
    written: Ps,
}

/// Where the bytes of an operation are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// With the processor, which may store them with the descriptor.
    Processor,
    /// In the host's memory.
    Memory,
}

/// Bytes of a descriptor in front of what is inline: control and remote address of 16 each, and a length of 4 (ConnectX's layout).
const DESCRIPTOR: usize = 36;

/// Bytes that the processor stores at once.
const LINE: usize = 64;

impl Rdma {
    /// The adapters of all hosts of a machine.
    pub fn of_hosts(params: &RdmaParams, kernel: &mut Kernel, hosts: u32) -> Vec<Rdma> {
        let mut bus = |host: u32, way: &str| {
            let name = format!("bus of host {host}, {way}");
            kernel.net.add(ResourceSpec::new(name, params.bus, Ps::ZERO))
        };
        let buses: Vec<_> = (0..hosts)
            .map(|host| (bus(host, "out"), bus(host, "in")))
            .collect();
        let inward: Rc<[ResourceId]> = buses.iter().map(|(_, inward)| *inward).collect();
        let adapter = |host: u32| Rdma {
            params: params.clone(),
            host: HostId(host),
            out: buses[host as usize].0,
            inward: Rc::clone(&inward),
            sent: 0,
            began: Ps::ZERO,
            written: Ps::ZERO,
        };
        (0..hosts).map(adapter).collect()
    }

    fn is_inline(&self, bytes: usize) -> bool {
        bytes <= self.params.inline as usize
    }

    /// What the processor gives to an operation with so many bytes of its own.
    fn post(&self, bytes: usize) -> Ps {
        let lines = match self.is_inline(bytes) {
            true => (DESCRIPTOR + bytes).div_ceil(LINE),
            false => 1,
        };
        self.params.post * lines as u64
    }

    /// Cut `bytes` into packets and send them; the last one carries `message`, which comes back where there is no way.
    fn send(
        &mut self,
        kernel: &mut Kernel,
        to: HostId,
        (source, bytes): (Source, usize),
        route: Route,
        message: Message,
    ) -> Option<Message> {
        let lane = |resource| Hop { resource, lane: 0 };
        let ends = [self.host, to].map(|host| Port { host, rail: 0 });
        let (before, after) = ([lane(self.out)], [lane(self.inward[to.index()])]);
        let Some(path) = kernel.path((ends[0], ends[1]), 1, route, &before, &after) else {
            return Some(message);
        };
        let mtu = self.params.mtu as usize;
        let packets = bytes.div_ceil(mtu).max(1);
        let fetch = match source {
            // All lines must be there.
            Source::Processor if self.is_inline(bytes) => self.post(bytes) - self.params.post,
            _ => self.params.fetch,
        };
        let start = (kernel.now + fetch + self.params.process).max(self.began);
        self.began = start;
        let (now, hosts) = (kernel.now, (self.host, to));
        kernel.now = start;
        let mut message = Some(message);
        for n in 0..packets {
            let payload = (bytes - n * mtu).min(mtu) as u32;
            let load = match n + 1 == packets {
                true => Load::Last(message.take().expect("the last packet is one")),
                false => Load::Part,
            };
            kernel.send(hosts, payload + self.params.header, 1, &path, start, load);
        }
        kernel.now = now;
        self.sent += packets as u64;
        None
    }

    /// An answer that is left because no way leads to who asked.
    fn no_way(&self, kernel: &mut Kernel, left: Option<Message>) {
        if let Some(message) = left {
            self.failed(kernel, message, "no way that works leads back");
        }
    }

    /// A message will not arrive: whoever waits for it hears of it.
    fn failed(&self, kernel: &mut Kernel, message: Message, why: &str) {
        let (now, peer) = (kernel.now, message.to);
        match message.what {
            What::Write { import, .. } => {
                let error = FabricError::put_failed(peer, why);
                kernel.procs.put_ended(import, now, Some(error));
            }
            // Not always of who sent it: answers are other's.
            What::Moved { op, .. } | What::Read { op, .. } | What::Answer { op, .. } => {
                kernel.procs.finish(op, now, Err(FabricError::dead(peer, why)));
            }
            What::Packet { lane, .. } => {
                kernel.procs.release(peer, lane, now);
                let error = FabricError::dead(peer, why);
                kernel.fault(message.from, Fault { peer, error });
            }
            What::Ring => {}
        }
    }

    /// A message takes effect when its last byte is in memory.
    fn store(&mut self, kernel: &mut Kernel, message: Message) {
        if matches!(message.what, What::Write { .. } | What::Moved { .. }) {
            self.written = kernel.now + self.params.store;
        }
        let event = Event::Stored(Box::new(message));
        kernel.at(
            kernel.now + self.params.store,
            self.host,
            AdapterEvent::Rdma(event),
        );
    }

    /// A message has come from `sender`, and nothing is before it.
    fn take(&mut self, kernel: &mut Kernel, sender: HostId, mut message: Message) {
        match message.what {
            // Fetched bytes go back, from this memory.
            What::Read {
                op,
                segment,
                offset,
                len,
            } => {
                let mut bytes = vec![0; len];
                segment.read(offset, &mut bytes);
                let (from, to) = (message.to, message.from);
                let what = What::Answer { op, bytes };
                kernel.recorder.arrives(message.mark, kernel.now);
                let answer = kernel.message(from, to, what);
                let left = self.send(kernel, sender, (Source::Memory, len), Route::Fixed(0), answer);
                self.no_way(kernel, left);
            }
            What::Moved { op, descriptor }
                if descriptor.direction == Direction::Get && sender != self.host =>
            {
                let (from, to) = (message.to, message.from);
                if kernel.procs.of(from).dead.is_some() {
                    let (now, error) = (kernel.now, FabricError::dead(from, "it has ended"));
                    return kernel.procs.finish(op, now, Err(error));
                }
                // On its way back it is a put of the other side's.
                let what = What::Moved {
                    op,
                    descriptor: Descriptor {
                        direction: Direction::Put,
                        local: descriptor.remote,
                        remote: descriptor.local,
                        ..descriptor
                    },
                };
                kernel.recorder.arrives(message.mark, kernel.now);
                let answer = kernel.message(from, to, what);
                let bytes = (Source::Memory, descriptor.len);
                let left = self.send(kernel, sender, bytes, Route::Fixed(0), answer);
                self.no_way(kernel, left);
            }
            what => {
                message.what = what;
                self.store(kernel, message);
            }
        }
    }
}

impl Adapter for Rdma {
    fn name(&self) -> &'static str {
        "rdma"
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }

    fn put(&mut self, kernel: &mut Kernel, put: Put<'_>) -> Result<Ps> {
        let Pair { from, to } = put.pair;
        let what = What::Write {
            import: put.import,
            segment: put.segment.clone(),
            offset: put.offset,
            bytes: put.bytes.to_vec(),
        };
        let host = kernel.procs.host_of(to);
        kernel.procs.import_of(put.import).under_way += 1;
        let message = kernel.message(from, to, what);
        if self
            .send(
                kernel,
                host,
                (Source::Processor, put.bytes.len()),
                Route::Fixed(0),
                message,
            )
            .is_some()
        {
            let error = FabricError::put_failed(to, "no way that works leads there");
            let now = kernel.now;
            kernel.procs.put_ended(put.import, now, Some(error));
        }
        Ok(self.post(put.bytes.len()))
    }

    fn fence(&mut self, kernel: &mut Kernel, pair: Pair, import: ImportId) -> Result<(Ps, OpId)> {
        let op = kernel.procs.begin(pair.from);
        kernel.procs.fence(import, op, kernel.now);
        Ok((Ps::ZERO, op))
    }

    fn get(&mut self, kernel: &mut Kernel, get: Get<'_>) -> Result<(Ps, OpId)> {
        let Pair { from, to } = get.pair;
        let op = kernel.procs.begin(from);
        let what = What::Read {
            op,
            segment: get.segment.clone(),
            offset: get.offset,
            len: get.len,
        };
        let host = kernel.procs.host_of(to);
        let message = kernel.message(from, to, what);
        if self
            .send(kernel, host, (Source::Processor, 0), Route::Fixed(0), message)
            .is_some()
        {
            kernel.procs.forget(op);
            return Err(FabricError::dead(to, "no way that works leads there"));
        }
        Ok((self.params.post, op))
    }

    fn try_send(&mut self, kernel: &mut Kernel, packet: Outgoing<'_>) -> (Ps, TrySend) {
        let Pair { from, to } = packet.pair;
        if !kernel.procs.reserve((from, to), packet.lane, self.params.queue) {
            return (self.params.poll, TrySend::Full);
        }
        let what = What::Packet {
            lane: packet.lane,
            bytes: packet.bytes.to_vec(),
        };
        let host = kernel.procs.host_of(to);
        let message = kernel.message(from, to, what);
        if self
            .send(
                kernel,
                host,
                (Source::Processor, packet.bytes.len()),
                packet.route,
                message,
            )
            .is_some()
        {
            let error = FabricError::dead(to, "no way that works leads there");
            kernel.fault(from, Fault { peer: to, error });
        }
        (self.post(packet.bytes.len()), TrySend::Sent)
    }

    fn poll(&mut self, kernel: &mut Kernel, me: Peer, lane: usize) -> (Ps, Option<Arrived>) {
        let now = kernel.now;
        (self.params.poll, kernel.procs.take_packet(me, lane, now))
    }

    fn ring(&mut self, kernel: &mut Kernel, pair: Pair) -> Ps {
        let Pair { from, to } = pair;
        let host = kernel.procs.host_of(to);
        let message = kernel.message(from, to, What::Ring);
        // Where nothing leads there is nobody to ring.
        let _ = self.send(kernel, host, (Source::Processor, 0), Route::Fixed(0), message);
        self.params.post
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
        let bytes = match descriptor.direction {
            Direction::Put => (Source::Memory, descriptor.len),
            Direction::Get => (Source::Processor, 0),
        };
        let message = kernel.message(me, to, what);
        if self.send(kernel, host, bytes, Route::Fixed(0), message).is_some() {
            kernel.procs.forget(op);
            return Err(FabricError::dead(to, "no way that works leads there"));
        }
        kernel
            .procs
            .count(me, to, Counter::BulkBytes, descriptor.len as u64);
        Ok((self.params.post, op))
    }

    fn arrived(&mut self, kernel: &mut Kernel, packet: Packet<Load>) {
        let Load::Last(message) = packet.load else {
            return;
        };
        let asks = match &message.what {
            What::Read { .. } => true,
            What::Moved { descriptor, .. } => {
                descriptor.direction == Direction::Get && packet.from != self.host
            }
            _ => false,
        };
        if asks && kernel.now < self.written {
            let event = Event::Asked(packet.from, Box::new(message));
            return kernel.at(self.written, self.host, AdapterEvent::Rdma(event));
        }
        self.take(kernel, packet.from, message);
    }

    fn lost(&mut self, kernel: &mut Kernel, packet: Packet<Load>, fate: Fate) {
        let (Load::Last(message), Fate::Lost(at)) = (packet.load, fate) else {
            return;
        };
        let why = format!("lost on {}", kernel.net.resource(at).spec.name);
        self.failed(kernel, message, &why);
    }

    fn happen(&mut self, kernel: &mut Kernel, event: AdapterEvent) {
        let AdapterEvent::Rdma(event) = event else {
            unreachable!("an event of another adapter's");
        };
        let now = kernel.now;
        match event {
            Event::Stored(message) => {
                let written = match &message.what {
                    What::Write { import, .. } => Some((*import, message.from, message.to)),
                    _ => None,
                };
                kernel.deliver(*message);
                if let Some((import, from, to)) = written {
                    let error = kernel.procs.check_alive(to).err();
                    let back = kernel.procs.host_of(from);
                    let acknowledged = Event::Acknowledged(import, error);
                    let after = self.params.fetch + self.params.process;
                    kernel.at(now + after, back, AdapterEvent::Rdma(acknowledged));
                }
            }
            Event::Asked(sender, message) => self.take(kernel, sender, *message),
            Event::Acknowledged(import, error) => kernel.procs.put_ended(import, now, error),
        }
    }

    fn registers(&self) -> Vec<(String, u64)> {
        vec![("packets_sent".into(), self.sent)]
    }
}
