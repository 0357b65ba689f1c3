//! Lines of one stripe on their way together.

use super::{ACKS, AdapterEvent, Event, LINES, Rsm};
use crate::adapter::{Kernel, Load, Pair, Put, What};
use crate::net::{Hop, HostId};
use crate::process::{ImportId, OpId};
use crate::record::{Mark, MessageKind};
use crate::time::Ps;
use crate::topology::Port;
use crate::memory::Memory;
use farpost_fabric::{FabricError, Peer};
use std::cell::Cell;
use std::rc::Rc;

/// Bytes of an interrupt's line that say who sent it.
pub(super) const TAG: usize = 8;

/// A put whose lines are under way.
#[derive(Debug)]
pub struct Storing {
    pub import: ImportId,
    /// Trains that have not come to memory.
    pub left: Cell<u32>,
}

/// What lines are for.
#[derive(Debug)]
pub enum Line {
    Write {
        put: Rc<Storing>,
        segment: Memory,
        offset: usize,
        bytes: Vec<u8>,
    },
    /// Lines of a write came.
    Ack {
        import: ImportId,
        error: Option<FabricError>,
    },
    /// The scratch line, stored and loaded; and on its way back.
    Barrier {
        import: ImportId,
    },
    Passed {
        import: ImportId,
    },
    /// Block loads, and what they got.
    Load {
        get: OpId,
        segment: Memory,
        offset: usize,
        len: usize,
    },
    Loaded {
        get: OpId,
        bytes: Vec<u8>,
    },
    Interrupt(What),
}

/// Lines of one stripe.
#[derive(Debug)]
pub struct Train {
    pub from: Peer,
    pub to: Peer,
    /// Whose turn it is; another one's if that leads nowhere.
    pub rail: u32,
    pub lines: u32,
    pub line: Line,
    /// Of which message, in a recording.
    pub mark: Mark,
}

impl Train {
    /// Out of a packet of the network.
    pub fn of(load: Load) -> Option<Train> {
        match load {
            Load::Own(event) => match *event {
                AdapterEvent::Rsm(Event::Stored(train)) => Some(*train),
                _ => None,
            },
            _ => None,
        }
    }
}

/// A get under way.
pub(super) struct Loading {
    pair: Pair,
    segment: Memory,
    offset: usize,
    len: usize,
    got: Vec<u8>,
}

impl Loading {
    pub fn new(pair: Pair, segment: &Memory, offset: usize, len: usize) -> Self {
        Self {
            pair,
            segment: segment.clone(),
            offset,
            len,
            got: Vec::new(),
        }
    }
}

impl Rsm {
    /// The lines of a put, of which the first is stored from `begun` on.
    pub(super) fn store_lines(
        &mut self,
        kernel: &mut Kernel,
        (from, to): (Peer, Peer),
        put: &Put<'_>,
        begun: Ps,
    ) {
        let params = Rc::clone(&self.params);
        let (stripe, len) = (params.stripe as usize, put.bytes.len());
        let count =
            ((put.offset + len).div_ceil(stripe).max(put.offset / stripe + 1) - put.offset / stripe) as u32;
        let storing = Rc::new(Storing {
            import: put.import,
            left: Cell::new(count),
        });
        kernel.procs.import_of(put.import).under_way += u64::from(count);
        let mark = kernel.mark(MessageKind::Put, (from, to), len as u64);
        let (mut at, mut stored) = (0, begun);
        for _ in 0..count {
            let offset = put.offset + at;
            let here = (stripe - offset % stripe).min(len - at);
            let lines = params.lines(offset, here);
            stored += params.store * u64::from(lines);
            // Processes begin with different links.
            let rail = ((offset / stripe) as u32).wrapping_add(from.0) % params.links();
            let train = Train {
                from,
                to,
                rail,
                lines,
                line: Line::Write {
                    put: Rc::clone(&storing),
                    segment: put.segment.clone(),
                    offset,
                    bytes: put.bytes[at..at + here].to_vec(),
                },
                mark,
            };
            self.last_rail.insert(from, rail);
            self.begin(kernel, train, stored + params.out);
            at += here;
        }
    }

    /// Load the next lines of a get.
    pub(super) fn load_more(&mut self, kernel: &mut Kernel, get: OpId) {
        let params = Rc::clone(&self.params);
        let Some(it) = self.gets.get(&get.0) else { return };
        let most = (params.stores_under_way * params.line) as usize;
        let offset = it.offset + it.got.len();
        let len = (it.len - it.got.len()).min(most - offset % params.line as usize);
        let mark = kernel.mark(MessageKind::Get, (it.pair.from, it.pair.to), len as u64);
        let train = Train {
            from: it.pair.from,
            to: it.pair.to,
            rail: ((offset / params.stripe as usize) as u32).wrapping_add(it.pair.from.0) % params.links(),
            lines: 1,
            line: Line::Load {
                get,
                segment: it.segment.clone(),
                offset,
                len,
            },
            mark,
        };
        let head = kernel.now + params.load + params.out;
        self.begin(kernel, train, head);
    }

    /// Lines of a get are here.
    pub(super) fn loaded(&mut self, kernel: &mut Kernel, get: OpId, bytes: Vec<u8>) {
        let Some(it) = self.gets.get_mut(&get.0) else {
            return;
        };
        it.got.extend(bytes);
        if it.got.len() < it.len {
            return self.load_more(kernel, get);
        }
        let it = self.gets.remove(&get.0).expect("it is there");
        let now = kernel.now;
        kernel.procs.finish(get, now, Ok(it.got));
    }

    /// Lines that answer others, from memory.
    pub(super) fn answer(
        &mut self,
        kernel: &mut Kernel,
        (from, to): (Peer, Peer),
        rail: u32,
        lines: u32,
        line: Line,
    ) {
        let head = kernel.now + self.params.out;
        let (kind, bytes) = match &line {
            Line::Loaded { bytes, .. } => (MessageKind::Answer, bytes.len()),
            _ => (MessageKind::Barrier, 0),
        };
        let mark = kernel.mark(kind, (from, to), bytes as u64);
        let train = Train {
            from,
            to,
            rail,
            lines,
            line,
            mark,
        };
        self.begin(kernel, train, head);
    }

    /// An acknowledgement, from NI to NI.
    pub(super) fn send_back(
        &mut self,
        kernel: &mut Kernel,
        (from, to): (Peer, Peer),
        rail: u32,
        lines: u32,
        line: Line,
    ) {
        self.registers.acks += 1;
        let train = Train {
            from,
            to,
            rail,
            lines,
            line,
            mark: Mark::NONE,
        };
        self.begin(kernel, train, kernel.now);
    }

    /// Send a train at `head`, over its link or the next that works. It comes back if there is none.
    pub(super) fn launch(&mut self, kernel: &mut Kernel, mut train: Train, head: Ps) -> Option<Train> {
        let to = kernel.procs.host_of(train.to);
        let is_ack = matches!(train.line, Line::Ack { .. });
        let (links, per_ni) = (self.params.links(), self.params.links_per_ni);
        for turn in 0..links {
            let rail = (train.rail + turn) % links;
            let ends = [self.host, to].map(|host| Port { host, rail });
            let port = |host: HostId| Hop {
                resource: self.ports[host.index()][(rail / per_ni) as usize],
                lane: 0,
            };
            let path = if is_ack {
                {
                    let queue = Hop {
                        resource: self.acks[self.host.index()][(rail / per_ni) as usize],
                        lane: 0,
                    };
                    kernel.path((ends[0], ends[1]), 1, ACKS, &[queue], &[])
                }
            } else {
                kernel.path((ends[0], ends[1]), 1, LINES, &[port(self.host)], &[port(to)])
            };
            let Some(path) = path else { continue };
            let each = if is_ack { self.params.ack } else { self.params.line };
            self.registers.rerouted += u64::from(turn > 0);
            if !is_ack {
                self.registers.trains += 1;
                self.registers.lines += u64::from(train.lines);
            }
            train.rail = rail;
            kernel.sending = train.mark;
            let bytes = each * train.lines;
            let load = Load::Own(Box::new(AdapterEvent::Rsm(Event::Stored(Box::new(train)))));
            // All of it is stored when it leaves.
            let now = std::mem::replace(&mut kernel.now, head);
            kernel.send((self.host, to), bytes, 1, &path, head, load);
            kernel.now = now;
            return None;
        }
        Some(train)
    }
}
