//! Sun Fire Link's interfaces (NIs) with their RSM controllers (Sistare and Jackson, SC 2002, sections 2.1 to 2.7).
//!
//! There is no DMA engine: the processor stores and loads whole lines of 64 bytes. A put of `n` lines takes `call + n store` of the processor, and no
//! `call` when it goes on where and when the last one ended: that is one call of the library's routine. A line of which only a part is put costs a line (layers own the
//! lines they write). A processor has `stores_under_way` lines on their way to its NIs at most, and stands still until there is room for the next.
//!
//! Lines go over the host's links in turn, `stripe` bytes each, those of one stripe together (*train*):
//!
//! ```text
//! store, out | port of the NI | link to the switch | link to the host | port of the NI | in
//! ```
//!
//! A port carries `host_port` in both directions together, and takes `header` bytes for each line besides its data. A link carries the data of
//! both directions beside the acknowledgements of the lines that came the other way, `ack` bytes for each: alone a direction has all of the link, and with as much traffic the
//! other way it has `line / (line + ack)` of it. That is why 1 GB/s becomes 800 MB/s for `ack` of 16 bytes.
//!
//! The acknowledgement says whether the line was written. What was not is in the status register (CESR) of the process that stored it, and of no other. A barrier
//! ([`fence`](Adapter::fence)) stores and loads a scratch line behind the data: it ends after a round trip, when all lines before it have been acknowledged, and reads the register.
//!
//! A get loads lines, `stores_under_way` at a time, a round trip each. Interrupts are lines for an address that the receiving NI takes for one, which
//! puts the sender's name into their first bytes; packets of the fabric are such lines, whose handler takes `interrupt` and passes them on.
//!
//! A link that fails loses what is on it. What is stored afterwards goes over the others, and what was lost is reported; or it is stored again over the others, as Sun's MPI
//! does ([`RsmParams::resend`]).

mod registers;
mod train;

pub use registers::Cesr;

use super::{Adapter, AdapterEvent, Get, Kernel, Load, Message, Outgoing, Pair, Put, What};
use crate::machine;
use crate::net::{Fate, HostId, Packet, ResourceId, ResourceSpec};
use crate::process::{Arrived, ImportId, OpId};
use crate::record::MessageKind;
use crate::time::{Ps, Rate};
use farpost_fabric::ability::Ability;
use farpost_fabric::{FabricError, Fault, Peer, Result, Route, TrySend};
use registers::Registers;
use std::any::Any;
use std::collections::BTreeMap;
use std::rc::Rc;
use train::{Line, Train};

/// What the interfaces are.
#[derive(Clone, Debug)]
pub struct RsmParams {
    /// Of a host.
    pub nis: u32,
    pub links_per_ni: u32,
    /// Between an NI and memory, both directions together.
    pub host_port: Rate,
    /// Bytes stored and loaded at once.
    pub line: u32,
    /// What a line takes of the port besides its data.
    pub header: u32,
    /// What the acknowledgement of a line takes of the link the other way.
    pub ack: u32,
    /// Bytes that go over one link before it is the next one's turn.
    pub stripe: u32,
    /// The processor's time for the library's routine that stores.
    pub call: Ps,
    /// For each line stored, and for each line loaded besides its round trip.
    pub store: Ps,
    pub load: Ps,
    /// Lines of a processor between it and its NIs.
    pub stores_under_way: u32,
    /// From the processor to the link, from the link to memory.
    pub out: Ps,
    pub into: Ps,
    /// Of a barrier besides its round trip, and a look at the status register.
    pub barrier: Ps,
    pub cesr: Ps,
    /// A look at a queue.
    pub poll: Ps,
    /// From an interrupt's arrival to its process's seeing it.
    pub interrupt: Ps,
    /// An interrupt that finds no place is tried again after this.
    pub spin: Ps,
    /// Packets that a process's queue of interrupts holds, for each port and priority.
    pub queue: u32,
    /// Lines lost with a link are stored again over the others, by software that nobody sees.
    pub resend: bool,
}

impl RsmParams {
    /// Of a machine file, with what its host costs.
    pub fn of(rsm: &machine::Rsm, host: &machine::Host, software: &machine::Software) -> Self {
        Self {
            nis: rsm.nis.0,
            links_per_ni: rsm.links_per_ni.0,
            host_port: rsm.host_port.value,
            line: rsm.line.0 as u32,
            header: rsm.header.as_ref().map_or(0, |header| header.0 as u32),
            ack: rsm.ack.0 as u32,
            stripe: rsm.stripe.0 as u32,
            call: software.rsm_put.value,
            store: rsm.store.value,
            load: rsm.load.value,
            stores_under_way: rsm.stores_under_way.0,
            out: rsm.out.value,
            into: rsm.into.value,
            barrier: rsm.barrier.value,
            cesr: rsm.cesr.value,
            poll: host.poll.value,
            interrupt: host.interrupt.value,
            spin: rsm.retry.spin.value,
            queue: rsm.interrupts.0,
            resend: false,
        }
    }

    /// Links of a host.
    pub fn links(&self) -> u32 {
        self.nis * self.links_per_ni
    }

    fn lines(&self, offset: usize, len: usize) -> u32 {
        let line = self.line as usize;
        let last = (offset + len).div_ceil(line).max(offset / line + 1);
        (last - offset / line) as u32
    }
}

#[derive(Debug, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Event {
    /// A train is in memory, and takes effect.
    Stored(Box<Train>),
}

/// Where a process's last put ended: on which import, at which offset, and when.
type Burst = (ImportId, usize, Ps);

/// The interfaces of a host.
pub struct Rsm {
    params: Rc<RsmParams>,
    host: HostId,
    /// Of all hosts, by host and NI.
    ports: Rc<[Vec<ResourceId>]>,
    /// Of all hosts: where acknowledgements wait for a link, by host and NI.
    acks: Rc<[Vec<ResourceId>]>,
    registers: Registers,
    bursts: BTreeMap<Peer, Burst>,
    /// Processes that store lines themselves, without the library's routine.
    inline: Vec<Peer>,
    /// The rail that a process's last line went over.
    last_rail: BTreeMap<Peer, u32>,
    /// Of gets: what is still to be loaded, and what has been.
    gets: BTreeMap<usize, train::Loading>,
}

impl Rsm {
    /// The interfaces of all hosts of a machine.
    pub fn of_hosts(params: &RsmParams, kernel: &mut Kernel, hosts: u32) -> Vec<Rsm> {
        let share = f64::from(params.line) / f64::from(params.line + params.header);
        let mut port = |host: u32, ni: u32| {
            let name = format!("port of NI {ni} of host {host}");
            kernel.net.add(ResourceSpec {
                // It is given to a train when all of it is there, so that nobody waits for lines that are still on a slower link.
                whole: true,
                ..ResourceSpec::new(name, Rate(params.host_port.0 * share), Ps::ZERO)
            })
        };
        let ports: Rc<[Vec<ResourceId>]> = (0..hosts)
            .map(|host| (0..params.nis).map(|ni| port(host, ni)).collect())
            .collect();
        let mut waiting = |host: u32, ni: u32| {
            let name = format!("acknowledgements of NI {ni} of host {host}");
            kernel.net.add(ResourceSpec::new(name, Rate::INFINITE, Ps::ZERO))
        };
        let acks: Rc<[Vec<ResourceId>]> = (0..hosts)
            .map(|host| (0..params.nis).map(|ni| waiting(host, ni)).collect())
            .collect();
        let params = Rc::new(params.clone());
        let adapter = |host: u32| Rsm {
            params: Rc::clone(&params),
            host: HostId(host),
            ports: Rc::clone(&ports),
            acks: Rc::clone(&acks),
            registers: Registers::default(),
            bursts: BTreeMap::new(),
            inline: Vec::new(),
            last_rail: BTreeMap::new(),
            gets: BTreeMap::new(),
        };
        (0..hosts).map(adapter).collect()
    }

    /// The process stores lines with block stores of its own, not by the library's routine: no `call`.
    pub fn store_inline(&mut self, of: Peer) {
        self.inline.push(of);
    }

    /// The status register of a process of this host, which is cleared.
    pub fn take_cesr(&mut self, of: Peer) -> Cesr {
        self.registers.take(of)
    }

    /// The processor's time for `lines` more at `offset`.
    fn storing(&mut self, kernel: &Kernel, of: Peer, import: Option<ImportId>, at: (usize, u32)) -> Ps {
        let (offset, lines) = at;
        let line = self.params.line as usize;
        let first = offset / line * line;
        // A run of postboxes is put from its last line to its first.
        let goes_on = import.is_some_and(|import| {
            self.bursts.get(&of).is_some_and(|(of, at, ended)| {
                *of == import && *ended == kernel.now && (first == *at || first + 2 * line == *at)
            })
        });
        let call = if goes_on || self.inline.contains(&of) {
            Ps::ZERO
        } else {
            self.params.call
        };
        let time = call + self.params.store * u64::from(lines) + self.stall(kernel);
        if let Some(import) = import {
            let end = first + line * lines as usize;
            self.bursts.insert(of, (import, end, kernel.now + time));
        }
        time
    }

    /// The processor's wait for room on the way to the NIs: what is before the least busy of their ports, but for what may be.
    fn stall(&self, kernel: &Kernel) -> Ps {
        let before = |port: &ResourceId| {
            kernel
                .net
                .resource(*port)
                .spec
                .rate
                .time(kernel.net.bytes_waiting(*port))
        };
        let ports = &self.ports[self.host.index()];
        let least = ports.iter().map(before).min().unwrap_or(Ps::ZERO);
        let port = kernel.net.resource(ports[0]);
        let may = port
            .spec
            .rate
            .time(u64::from(self.params.stores_under_way * self.params.line));
        least - may
    }

    /// What a train does at its end, seen from the host that it came to.
    fn take(&mut self, kernel: &mut Kernel, train: Train) {
        let Train {
            from, to, line, mark, ..
        } = train;
        if !matches!(&line, Line::Write { put, .. } if put.left.get() > 1) {
            kernel.recorder.arrives(mark, kernel.now);
        }
        match line {
            Line::Write {
                put,
                segment,
                offset,
                bytes,
            } => {
                let error = kernel.procs.check_alive(to).err();
                if error.is_none() {
                    segment.write(offset, &bytes);
                    put.left.set(put.left.get() - 1);
                    if put.left.get() == 0 {
                        let now = kernel.now;
                        kernel.procs.touch(to, now);
                    }
                }
                let line = Line::Ack {
                    import: put.import,
                    error,
                };
                self.send_back(kernel, (to, from), train.rail, train.lines, line);
            }
            Line::Barrier { import } => {
                let line = Line::Passed { import };
                self.answer(kernel, (to, from), train.rail, 1, line);
            }
            Line::Passed { import } => {
                let now = kernel.now;
                kernel.procs.put_ended(import, now, None);
            }
            Line::Load {
                get,
                segment,
                offset,
                len,
            } => {
                let mut bytes = vec![0; len];
                segment.read(offset, &mut bytes);
                let lines = self.params.lines(offset, len);
                self.answer(kernel, (to, from), train.rail, lines, Line::Loaded { get, bytes });
            }
            Line::Loaded { get, bytes } => self.loaded(kernel, get, bytes),
            Line::Interrupt(what) => kernel.deliver(Message { from, to, what, mark }),
            Line::Ack { .. } => unreachable!("acknowledgements end at the NI"),
        }
    }

    /// A line that is lost is reported to the process that stored it, or stored again.
    fn lose(&mut self, kernel: &mut Kernel, mut train: Train, at: ResourceId) {
        if self.params.resend && kernel.net.resource(at).broken {
            self.registers.resent += 1;
            match self.launch(kernel, train, kernel.now) {
                None => return,
                Some(back) => train = back,
            }
        }
        let (now, name) = (kernel.now, kernel.net.resource(at).spec.name.clone());
        self.fail(kernel, train, now, &format!("lost on {name}"));
    }

    /// `train` has not come to its end.
    fn fail(&mut self, kernel: &mut Kernel, train: Train, now: Ps, why: &str) {
        let Train { from, to, line, .. } = train;
        match line {
            Line::Write { put, .. } => {
                let error = FabricError::put_failed(to, why);
                self.report(from, &error);
                kernel.procs.put_ended(put.import, now, Some(error));
            }
            // It was written, but nobody says so; or a barrier that has not come back.
            Line::Ack { import, .. } | Line::Passed { import } | Line::Barrier { import } => {
                let owner = kernel.procs.import_of(import).from;
                let peer = kernel.procs.import_of(import).to;
                let error = FabricError::put_failed(peer, why);
                if kernel.procs.host_of(owner) == self.host {
                    self.report(owner, &error);
                }
                kernel.procs.put_ended(import, now, Some(error));
            }
            Line::Load { get, .. } | Line::Loaded { get, .. } => {
                self.gets.remove(&get.0);
                kernel.procs.finish(get, now, Err(FabricError::dead(to, why)));
            }
            Line::Interrupt(What::Packet { lane, .. }) => {
                kernel.procs.release(to, lane, now);
                let error = FabricError::dead(to, why);
                self.report(from, &error);
                kernel.fault(from, Fault { peer: to, error });
            }
            Line::Interrupt(_) => {}
        }
    }

    fn report(&mut self, of: Peer, error: &FabricError) {
        self.registers.report(of, error.to_string());
    }

    /// Begin a train from this host; it comes back if no link leads there.
    fn begin(&mut self, kernel: &mut Kernel, train: Train, head: Ps) {
        if let Some(train) = self.launch(kernel, train, head) {
            let now = kernel.now;
            self.fail(kernel, train, now, "no link that works leads there");
        }
    }
}

impl Adapter for Rsm {
    fn name(&self) -> &'static str {
        "rsm"
    }

    /// No DMA; packets are interrupts, in queues of their own.
    fn lacks(&self) -> &'static [Ability] {
        &[Ability::Transfer]
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn put(&mut self, kernel: &mut Kernel, put: Put<'_>) -> Result<Ps> {
        let Pair { from, to } = put.pair;
        let lines = self.params.lines(put.offset, put.bytes.len());
        let time = self.storing(kernel, from, Some(put.import), (put.offset, lines));
        let begun = kernel.now + time - self.params.store * u64::from(lines);
        self.store_lines(kernel, (from, to), &put, begun);
        Ok(time)
    }

    /// A line always goes over the link of its stripe, unless one is broken.
    fn keeps_order(&self, kernel: &Kernel, line: bool) -> bool {
        line && kernel.net.resources().all(|(_, resource)| !resource.broken)
    }

    fn fence(&mut self, kernel: &mut Kernel, pair: Pair, import: ImportId) -> Result<(Ps, OpId)> {
        let op = kernel.procs.begin(pair.from);
        kernel.procs.import_of(import).under_way += 1;
        let rail = self.last_rail.get(&pair.from).copied().unwrap_or(0);
        let line = Line::Barrier { import };
        let train = Train {
            from: pair.from,
            to: pair.to,
            rail,
            lines: 1,
            line,
            mark: kernel.mark(MessageKind::Barrier, (pair.from, pair.to), 0),
        };
        let stored = kernel.now + self.params.barrier;
        self.begin(kernel, train, stored + self.params.out);
        kernel.procs.fence(import, op, kernel.now);
        Ok((self.params.barrier + self.params.cesr, op))
    }

    fn get(&mut self, kernel: &mut Kernel, get: Get<'_>) -> Result<(Ps, OpId)> {
        let op = kernel.procs.begin(get.pair.from);
        let lines = self.params.lines(get.offset, get.len);
        self.gets.insert(
            op.0,
            train::Loading::new(get.pair, get.segment, get.offset, get.len),
        );
        self.load_more(kernel, op);
        Ok((self.params.load * u64::from(lines), op))
    }

    fn try_send(&mut self, kernel: &mut Kernel, packet: Outgoing<'_>) -> (Ps, TrySend) {
        let Pair { from, to } = packet.pair;
        if !kernel.procs.reserve((from, to), packet.lane, self.params.queue) {
            return (self.params.spin, TrySend::Full);
        }
        // The first bytes of each line are the sender's name.
        let room = self.params.line as usize - train::TAG;
        let lines = packet.bytes.len().div_ceil(room).max(1) as u32;
        let time = self.storing(kernel, from, None, (0, lines));
        let mark = kernel.mark(MessageKind::Packet, (from, to), packet.bytes.len() as u64);
        let what = What::Packet {
            lane: packet.lane,
            bytes: packet.bytes.to_vec(),
        };
        // One link, so that they keep their order.
        let line = Line::Interrupt(what);
        let train = Train {
            from,
            to,
            rail: 0,
            lines,
            line,
            mark,
        };
        self.begin(kernel, train, kernel.now + time + self.params.out);
        (time, TrySend::Sent)
    }

    fn poll(&mut self, kernel: &mut Kernel, me: Peer, lane: usize) -> (Ps, Option<Arrived>) {
        let now = kernel.now;
        (self.params.poll, kernel.procs.take_packet(me, lane, now))
    }

    fn ring(&mut self, kernel: &mut Kernel, pair: Pair) -> Ps {
        let Pair { from, to } = pair;
        let time = self.storing(kernel, from, None, (0, 1));
        let line = Line::Interrupt(What::Ring);
        let train = Train {
            from,
            to,
            rail: 0,
            lines: 1,
            line,
            mark: kernel.mark(MessageKind::Ring, (from, to), 0),
        };
        self.begin(kernel, train, kernel.now + time + self.params.out);
        time
    }

    fn arrived(&mut self, kernel: &mut Kernel, packet: Packet<Load>) {
        let Some(train) = Train::of(packet.load) else {
            return;
        };
        if let Line::Ack { import, error } = train.line {
            if let Some(error) = &error {
                self.report(train.to, error);
            }
            let now = kernel.now;
            return kernel.procs.put_ended(import, now, error);
        }
        let interrupt = match train.line {
            Line::Interrupt(_) => self.params.interrupt,
            _ => Ps::ZERO,
        };
        let at = kernel.now + self.params.into + interrupt;
        kernel.at(at, self.host, AdapterEvent::Rsm(Event::Stored(Box::new(train))));
    }

    /// The NI that a line comes to checks it.
    fn answers_damage(&self) -> bool {
        true
    }

    fn lost(&mut self, kernel: &mut Kernel, packet: Packet<Load>, fate: Fate) {
        if let (Some(train), Fate::Lost(at)) = (Train::of(packet.load), fate) {
            self.lose(kernel, train, at);
        }
    }

    fn happen(&mut self, kernel: &mut Kernel, event: AdapterEvent) {
        let AdapterEvent::Rsm(Event::Stored(train)) = event else {
            unreachable!("an event of another adapter's");
        };
        self.take(kernel, *train);
    }

    fn registers(&self) -> Vec<(String, u64)> {
        self.registers.shown()
    }
}

/// The way of acknowledgements, which pass no ports.
const ACKS: Route = Route::Fixed(1);
/// The way of lines.
const LINES: Route = Route::Fixed(0);
