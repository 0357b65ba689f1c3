//! Between processes of one host: its memory.
//!
//! A put is a copy by the sender's processor, seen by the receiver `latency` after its last byte. Packets are the same, into queues of the receiver's.
//! There is no adapter in it, so nobody else's traffic is in the way; the memory's bandwidth is shared through one bus of the host.

use super::{Adapter, AdapterEvent, Get, Kernel, Load, Message, Outgoing, Pair, Put, What};
use crate::costs::Costs;
use crate::net::{Fate, HostId, Packet};
use crate::process::{Arrived, ImportId, OpId};
use crate::time::{Ps, Rate};
use farpost_fabric::ability::Ability;
use farpost_fabric::{Counter, Descriptor, Direction, Peer, Result, TrySend};

/// The memory of a host, between its processes.
#[derive(Clone, Debug)]
pub struct LocalParams {
    /// From a store to its being seen by another processor.
    pub latency: Ps,
    /// What all processors of the host together move.
    pub bus: Rate,
    /// Not messages alone go over the bus, but also long copies that layers charge.
    pub all_copies: bool,
    /// Packets that a queue holds.
    pub queue: u32,
    /// A process may copy from another's memory and to it; else only to and from segments.
    pub transfers: bool,
}

impl Default for LocalParams {
    fn default() -> Self {
        Self {
            latency: Ps::from_nanos(100),
            bus: Rate::INFINITE,
            all_copies: false,
            queue: 64,
            transfers: true,
        }
    }
}

#[derive(Debug, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Event {
    /// A message is there.
    Seen(Box<Message>),
}

/// The memories of all hosts.
pub struct Local {
    params: LocalParams,
    costs: Costs,
    /// Until when the bus of each host is taken.
    bus: Vec<Ps>,
}

impl Local {
    pub fn new(params: LocalParams, costs: Costs, hosts: u32) -> Self {
        Self {
            params,
            costs,
            bus: vec![Ps::ZERO; hosts as usize],
        }
    }

    /// Whether copies that layers charge go over the bus.
    pub fn has_all_copies(&self) -> bool {
        self.params.all_copies
    }

    /// The processor copies `bytes`, over the host's bus; when it has.
    pub fn copy(&mut self, kernel: &Kernel, host: HostId, bytes: usize) -> Ps {
        let bus = &mut self.bus[host.index()];
        *bus = (*bus).max(kernel.now) + self.params.bus.time(bytes as u64);
        (kernel.now + self.costs.copy(bytes as u64)).max(*bus)
    }

    /// `message` is seen a latency after `time`.
    fn show(&self, kernel: &mut Kernel, time: Ps, message: Message) {
        let host = kernel.procs.host_of(message.to);
        let event = Event::Seen(Box::new(message));
        kernel.at(time + self.params.latency, host, AdapterEvent::Local(event));
    }
}

impl Adapter for Local {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn lacks(&self) -> &'static [Ability] {
        if self.params.transfers {
            &[]
        } else {
            &[Ability::Transfer]
        }
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }

    fn put(&mut self, kernel: &mut Kernel, put: Put<'_>) -> Result<Ps> {
        let host = kernel.procs.host_of(put.pair.from);
        let done = self.copy(kernel, host, put.bytes.len());
        kernel.procs.import_of(put.import).under_way += 1;
        let what = What::Write {
            import: put.import,
            segment: put.segment.clone(),
            offset: put.offset,
            bytes: put.bytes.to_vec(),
        };
        let Pair { from, to } = put.pair;
        let message = kernel.message(from, to, what);
        self.show(kernel, done, message);
        Ok(done - kernel.now)
    }

    /// The stores of a processor are seen in their order.
    fn keeps_order(&self, _kernel: &Kernel, _line: bool) -> bool {
        true
    }

    fn fence(&mut self, kernel: &mut Kernel, pair: Pair, import: ImportId) -> Result<(Ps, OpId)> {
        let op = kernel.procs.begin(pair.from);
        kernel.procs.fence(import, op, kernel.now);
        Ok((Ps::ZERO, op))
    }

    fn get(&mut self, kernel: &mut Kernel, get: Get<'_>) -> Result<(Ps, OpId)> {
        let host = kernel.procs.host_of(get.pair.from);
        let done = self.copy(kernel, host, get.len);
        let mut bytes = vec![0; get.len];
        get.segment.read(get.offset, &mut bytes);
        let op = kernel.procs.begin(get.pair.from);
        let now = kernel.now;
        kernel.procs.finish(op, now, Ok(bytes));
        Ok((done - kernel.now + self.params.latency, op))
    }

    fn try_send(&mut self, kernel: &mut Kernel, packet: Outgoing<'_>) -> (Ps, TrySend) {
        let Pair { from, to } = packet.pair;
        if !kernel.procs.reserve((from, to), packet.lane, self.params.queue) {
            return (self.costs.poll, TrySend::Full);
        }
        let host = kernel.procs.host_of(from);
        let done = self.copy(kernel, host, packet.bytes.len());
        let what = What::Packet {
            lane: packet.lane,
            bytes: packet.bytes.to_vec(),
        };
        let message = kernel.message(from, to, what);
        self.show(kernel, done, message);
        (done - kernel.now, TrySend::Sent)
    }

    /// The queues are those that adapters fill too: whoever polls takes what is there.
    fn poll(&mut self, kernel: &mut Kernel, me: Peer, lane: usize) -> (Ps, Option<Arrived>) {
        let now = kernel.now;
        (self.costs.poll, kernel.procs.take_packet(me, lane, now))
    }

    fn ring(&mut self, kernel: &mut Kernel, pair: Pair) -> Ps {
        let Pair { from, to } = pair;
        let now = kernel.now;
        let what = What::Ring;
        let message = kernel.message(from, to, what);
        self.show(kernel, now, message);
        Ps::ZERO
    }

    fn transfers(&self) -> bool {
        self.params.transfers
    }

    /// The processor that asks copies.
    fn transfer(&mut self, kernel: &mut Kernel, me: Peer, descriptor: &Descriptor) -> Result<(Ps, OpId)> {
        let host = kernel.procs.host_of(me);
        let done = self.copy(kernel, host, descriptor.len);
        let op = kernel.procs.begin(me);
        let what = What::Moved {
            op,
            descriptor: *descriptor,
        };
        let latency = match descriptor.direction {
            Direction::Get => Ps::ZERO,
            Direction::Put => self.params.latency,
        };
        let (from, to) = (me, descriptor.peer);
        let event = Event::Seen(Box::new(kernel.message(from, to, what)));
        kernel.at(done + latency, host, AdapterEvent::Local(event));
        kernel
            .procs
            .count(me, descriptor.peer, Counter::BulkBytes, descriptor.len as u64);
        Ok((done - kernel.now, op))
    }

    fn arrived(&mut self, _kernel: &mut Kernel, _packet: Packet<Load>) {
        unreachable!("no network leads here");
    }

    fn lost(&mut self, _kernel: &mut Kernel, _packet: Packet<Load>, _fate: Fate) {
        unreachable!("no network leads here");
    }

    fn happen(&mut self, kernel: &mut Kernel, event: AdapterEvent) {
        let AdapterEvent::Local(Event::Seen(message)) = event else {
            unreachable!("an event of another adapter's");
        };
        let import = match &message.what {
            What::Write { import, .. } => Some(*import),
            _ => None,
        };
        kernel.deliver(*message);
        if let Some(import) = import {
            let now = kernel.now;
            kernel.procs.put_ended(import, now, None);
        }
    }
}
