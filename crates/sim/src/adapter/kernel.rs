//! What all adapters of a machine share: time, network, processes.

use super::{AdapterEvent, Event};
use crate::memory::Memory;
use crate::net::{Fate, Hop, HostId, Network, Packet, Path, ResourceId};
use crate::process::{Arrived, ImportId, OpId, Processes};
use crate::queue::EventQueue;
use crate::record::{Mark, MessageKind, Recorder};
use crate::time::Ps;
use crate::topology::{By, Port, Topology};
use farpost_fabric::{Descriptor, Direction, Fault, Peer, Route};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// What a message does where it arrives.
#[derive(Debug)]
pub enum What {
    /// Bytes for a segment.
    Write {
        import: ImportId,
        segment: Memory,
        offset: usize,
        bytes: Vec<u8>,
    },
    /// A packet for a [queue](farpost_fabric::lane).
    Packet {
        lane: usize,
        bytes: Vec<u8>,
    },
    Ring,
    /// The last bytes of a transfer are there.
    Moved {
        op: OpId,
        descriptor: Descriptor,
    },
    /// Bytes of a segment are wanted.
    Read {
        op: OpId,
        segment: Memory,
        offset: usize,
        len: usize,
    },
    /// Here they are.
    Answer {
        op: OpId,
        bytes: Vec<u8>,
    },
}

/// Something for a process.
#[derive(Debug)]
pub struct Message {
    pub from: Peer,
    pub to: Peer,
    pub what: What,
    /// Its name in a recording.
    pub mark: Mark,
}

/// What a packet of the network carries.
#[derive(Debug)]
pub enum Load {
    /// The last or only packet of a message.
    Last(Message),
    /// A packet before that.
    Part,
    /// Of the adapter's own, to be read by its like.
    Own(Box<AdapterEvent>),
}

impl Load {
    /// Whether more packets of the same message follow, without which the last one is worth nothing. `None`: it is no packet of such a message.
    fn goes_on(&self) -> Option<bool> {
        match self {
            Self::Part => Some(true),
            Self::Last(_) => Some(false),
            Self::Own(event) => event.block_goes_on(),
        }
    }
}

/// Which of the hosts' ports, which priority, which route.
type PathKey = (Port, Port, u8, u8);

/// Paths that are kept. When there are more, which a machine of 100,000 hosts has, all are looked for anew.
const MOST_PATHS: usize = 1 << 18;

/// Time, network and processes of a machine.
pub struct Kernel {
    pub now: Ps,
    pub queue: EventQueue<Event>,
    pub net: Network<Load>,
    pub procs: Processes,
    pub chance: fastrand::Rng,
    pub recorder: Recorder,
    /// Of which message packets are that carry parts of one.
    pub sending: Mark,
    topology: Box<dyn Topology>,
    paths: HashMap<PathKey, Option<Path>>,
    scratch: Vec<Hop>,
    /// Messages of which a packet is lost, by hosts and lane: the last one is still to come.
    torn: BTreeMap<(HostId, HostId, u8), ResourceId>,
}

impl Kernel {
    pub fn new(net: Network<Load>, topology: Box<dyn Topology>, procs: Processes, seed: u64) -> Self {
        Self {
            now: Ps::ZERO,
            queue: EventQueue::default(),
            net,
            procs,
            chance: fastrand::Rng::with_seed(seed),
            recorder: Recorder::default(),
            sending: Mark::NONE,
            topology,
            paths: HashMap::new(),
            scratch: Vec::new(),
            torn: BTreeMap::new(),
        }
    }

    /// From now on everything is written down.
    pub(crate) fn record(&mut self, recorder: &Recorder) {
        self.recorder = recorder.clone();
        self.queue.record(recorder);
        self.net.record(recorder);
        self.procs.schedule.record(recorder);
    }

    /// How hosts are connected.
    pub fn topology(&self) -> &dyn Topology {
        &*self.topology
    }

    /// A message begins now. What is sent from here on is of it, until something else is said.
    pub fn message(&mut self, from: Peer, to: Peer, what: What) -> Message {
        let (kind, bytes) = match &what {
            What::Write { bytes, .. } => (MessageKind::Put, bytes.len()),
            What::Packet { bytes, .. } => (MessageKind::Packet, bytes.len()),
            What::Ring => (MessageKind::Ring, 0),
            What::Moved { descriptor, .. } => match descriptor.direction {
                Direction::Put => (MessageKind::Transfer, descriptor.len),
                Direction::Get => (MessageKind::Ask, descriptor.len),
            },
            What::Read { len, .. } => (MessageKind::Get, *len),
            What::Answer { bytes, .. } => (MessageKind::Answer, bytes.len()),
        };
        let mark = self.mark(kind, (from, to), bytes as u64);
        Message { from, to, what, mark }
    }

    /// A name in the recording for a message that begins now.
    pub fn mark(&mut self, kind: MessageKind, (from, to): (Peer, Peer), bytes: u64) -> Mark {
        self.sending = self.recorder.message(kind, (from.0, to.0), bytes, self.now);
        self.sending
    }

    /// Rails of each host.
    pub fn rails(&self) -> u32 {
        self.topology.rails()
    }

    /// Something happens on the adapter of `host` at `time`.
    pub fn at(&mut self, time: Ps, host: HostId, event: AdapterEvent) {
        self.queue.at(time, Event::Adapter(host, event));
    }

    /// What packets pass between two ports, `before` and `after` that being resources of the adapters at its ends. `None`: nothing that works connects them.
    pub fn path(
        &mut self,
        ends: (Port, Port),
        lane: u8,
        route: Route,
        before: &[Hop],
        after: &[Hop],
    ) -> Option<Path> {
        let number = match route {
            Route::Fixed(number) => number,
            // Random routes are as many as there are, so they are not kept.
            Route::Random => {
                let number = self.chance.u32(..);
                return self.find_path(ends, lane, By { route, number }, before, after);
            }
        };
        let key = (ends.0, ends.1, lane, number);
        if let Some(path) = self.paths.get(&key) {
            return path.clone();
        }
        let path = self.find_path(ends, lane, route.into(), before, after);
        if self.paths.len() >= MOST_PATHS {
            self.paths.clear();
        }
        self.paths.insert(key, path.clone());
        path
    }

    fn find_path(
        &mut self,
        ends: (Port, Port),
        lane: u8,
        by: By,
        before: &[Hop],
        after: &[Hop],
    ) -> Option<Path> {
        let mut hops = std::mem::take(&mut self.scratch);
        hops.clear();
        hops.extend_from_slice(before);
        let net = &self.net;
        let broken = |id: ResourceId| net.resource(id).broken;
        let found = self.topology.path(ends, lane, by, &broken, &mut hops);
        hops.extend_from_slice(after);
        let path = found.then(|| Rc::from(&hops[..]));
        self.scratch = hops;
        path
    }

    /// A resource fails, with what is in it and before it, or works again: ways are looked for anew.
    pub fn set_broken(&mut self, id: ResourceId, broken: bool) {
        match broken {
            true => self.net.cut(&mut self.queue, self.now, id),
            false => self.net.set_broken(id, false),
        }
        self.paths.clear();
    }

    /// What becomes of a packet of which the network says `fate`: the last one of a message is lost if another one is.
    pub(crate) fn fate(&mut self, packet: &Packet<Load>, fate: Fate) -> Fate {
        let of = (packet.from, packet.to, packet.lane);
        match (packet.load.goes_on(), fate) {
            (Some(true), Fate::Lost(at)) => {
                self.torn.insert(of, at);
                fate
            }
            (Some(true), Fate::Arrived) if packet.damaged => {
                let last = packet.path.last().expect("a path has a resource");
                self.torn.insert(of, last.resource);
                fate
            }
            (Some(false), _) if !self.torn.is_empty() => match (self.torn.remove(&of), fate) {
                (Some(at), Fate::Arrived) => {
                    let now = self.now;
                    self.net.release(&mut self.queue, now, packet.to, packet.lane);
                    Fate::Lost(at)
                }
                _ => fate,
            },
            _ => fate,
        }
    }

    /// Something of `of` has gone wrong: it is told, and wakes.
    pub fn fault(&mut self, of: Peer, fault: Fault) {
        let now = self.now;
        self.procs.record_fault(of, fault);
        self.procs.touch(of, now);
    }

    /// A packet begins its way now. Its last byte comes at `tail`.
    pub fn send(&mut self, hosts: (HostId, HostId), bytes: u32, lane: u8, path: &Path, tail: Ps, load: Load) {
        let times = (self.now, tail);
        let mark = match &load {
            Load::Last(message) => message.mark,
            _ => self.sending,
        };
        let mut packet = Packet::new(hosts, bytes, lane, Rc::clone(path), times, load);
        packet.mark = mark;
        self.net.send(&mut self.queue, self.now, packet);
    }

    /// A message takes effect now, in the memory of its receiver. Reads are the adapter's affair.
    pub fn deliver(&mut self, message: Message) {
        let Message { from, to, what, mark } = message;
        self.recorder.arrives(mark, self.now);
        if let Err(error) = self.procs.check_alive(to) {
            if let What::Packet { .. } = what {
                self.fault(from, Fault { peer: to, error });
            }
            return;
        }
        match what {
            What::Write {
                segment,
                offset,
                bytes,
                ..
            } => {
                segment.write(offset, &bytes);
                self.procs.touch(to, self.now);
            }
            What::Packet { lane, bytes } => {
                self.procs.of_mut(to).arrived[lane].push_back(Arrived { from, bytes });
                self.procs.touch(to, self.now);
            }
            What::Ring => self.procs.ring(to, self.now),
            What::Moved { op, descriptor } => {
                let result = self.procs.move_bytes(op, &descriptor);
                self.procs.finish(op, self.now, result);
            }
            What::Answer { op, bytes } => self.procs.finish(op, self.now, Ok(bytes)),
            What::Read { .. } => unreachable!("adapters answer reads"),
        }
    }
}
