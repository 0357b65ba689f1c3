//! The DMA engines: batches of messages (VI) and blocks (RDMA).

use super::{Event, HIGH, StarTx, TRAIN};
use crate::adapter::{AdapterEvent, Kernel, Load, Message, What};
use crate::net::{HostId, Packet};
use crate::record::Mark;
use crate::time::Ps;
use farpost_fabric::{Descriptor, Direction, FabricError, Fault, Peer, Route};
use std::collections::VecDeque;

/// Bytes that the transmit engine is to send.
#[derive(Debug)]
pub struct Job {
    to: HostId,
    left: usize,
    sent: usize,
    /// A block needs the receiver for itself.
    exclusive: bool,
    message: Option<Message>,
}

impl Job {
    pub fn batch(to: HostId, bytes: usize, message: Message) -> Self {
        Self {
            to,
            left: bytes.max(1),
            sent: 0,
            exclusive: false,
            message: Some(message),
        }
    }

    pub fn block(to: HostId, bytes: usize, message: Message) -> Self {
        Self {
            exclusive: true,
            ..Self::batch(to, bytes, message)
        }
    }
}

/// The transmit engine.
#[derive(Default)]
pub(super) struct Engine {
    jobs: VecDeque<Job>,
    /// It is at work until then.
    busy: Ps,
}

impl StarTx {
    /// Something more for the transmit engine, which its driver starts now.
    pub(super) fn start(&mut self, kernel: &mut Kernel, job: Job) {
        self.engine.jobs.push_back(job);
        if self.engine.jobs.len() == 1 {
            let begins = self.params.dma.setup.max(self.engine.busy - kernel.now);
            self.at(kernel, begins, Event::Engine);
        }
    }

    pub(super) fn run_engine(&mut self, kernel: &mut Kernel) {
        let now = kernel.now;
        if now < self.engine.busy {
            // Its own event comes.
            return;
        }
        let Some(job) = self.engine.jobs.front() else {
            return;
        };
        let (to, exclusive) = (job.to, job.exclusive);
        if exclusive && !self.share.borrow_mut().own(self.host, to) {
            // What waits there is taken out of the way.
            return kernel.at(now, to, AdapterEvent::StarTx(Event::Drain));
        }
        if !exclusive {
            let mut share = self.share.borrow_mut();
            let it = share.of(to);
            if it.owner.is_some() {
                if !it.waiting.contains(&self.host) {
                    it.waiting.push(self.host);
                }
                return;
            }
        }
        let Some(path) = self.path(kernel, to, HIGH, Route::Fixed(0)) else {
            return self.no_way(kernel);
        };
        if self.free(kernel, HIGH) == 0 {
            let message = self.params.message + self.params.check;
            return self.at(
                kernel,
                self.params.back_end.time(u64::from(message)),
                Event::Engine,
            );
        }
        let payload = self.params.dma.payload;
        let job = self.engine.jobs.front_mut().expect("looked at");
        kernel.sending = job.message.as_ref().map_or(Mark::NONE, |it| it.mark);
        let most = match job.sent {
            0..0x4000 => payload,
            _ => payload * TRAIN,
        };
        let bytes = most.min(u32::try_from(job.left).unwrap_or(u32::MAX));
        job.left -= bytes as usize;
        job.sent += bytes as usize;
        let last = (job.left == 0)
            .then(|| job.message.take())
            .flatten()
            .map(Box::new);
        let ended = job.left == 0;
        let end = self.bus.read(now, bytes, self.params.pci, &self.params.dma);
        let messages = bytes.div_ceil(payload);
        let wire = bytes + messages * (self.params.header + self.params.check);
        self.share.borrow_mut().of(to).under_way += 1;
        self.registers.sent += u64::from(messages);
        let load = Load::Own(Box::new(AdapterEvent::StarTx(Event::Block { bytes, last })));
        kernel.send((self.host, to), wire, HIGH as u8, &path, end, load);
        self.engine.busy = end;
        if ended {
            self.engine.jobs.pop_front();
        }
        if !self.engine.jobs.is_empty() {
            let next = if ended { self.params.dma.setup } else { Ps::ZERO };
            kernel.at(end + next, self.host, AdapterEvent::StarTx(Event::Engine));
        }
    }

    fn no_way(&mut self, kernel: &mut Kernel) {
        let Some(job) = self.engine.jobs.pop_front() else {
            return;
        };
        if let Some(message) = job.message {
            let to = message.to;
            self.message_failed(
                kernel,
                message,
                FabricError::dead(to, "no way that works leads there"),
            );
        }
        self.end_of(kernel, job.to);
        self.at(kernel, Ps::ZERO, Event::Engine);
    }

    /// A packet of another's engine goes to memory.
    pub(super) fn store(&mut self, kernel: &mut Kernel, bytes: u32, last: Option<Box<Message>>) {
        let end = self.bus.write(
            kernel.now + self.params.into,
            bytes,
            self.params.pci,
            &self.params.dma,
        );
        kernel.at(
            end,
            self.host,
            AdapterEvent::StarTx(Event::Stored { bytes, last }),
        );
    }

    pub(super) fn stored(&mut self, kernel: &mut Kernel, _bytes: u32, last: Option<Box<Message>>) {
        let now = kernel.now;
        kernel.net.release(&mut kernel.queue, now, self.host, HIGH as u8);
        self.gone(kernel, self.host, 1);
        let Some(message) = last else { return };
        let written = match &message.what {
            What::Write { import, .. } => Some((*import, message.from, message.to)),
            _ => {
                self.end_of(kernel, self.host);
                None
            }
        };
        let (to, moved) = (message.to, matches!(message.what, What::Moved { .. }));
        kernel.deliver(*message);
        if moved {
            kernel.procs.touch(to, now);
        }
        if let Some((import, from, to)) = written {
            let error = kernel.procs.check_alive(to).err();
            let back = kernel.procs.host_of(from);
            let later = self.params.send + self.params.out + self.params.into + self.params.word_read;
            kernel.at(
                now + later,
                back,
                AdapterEvent::StarTx(Event::Acknowledged(import, error)),
            );
        }
    }

    /// The block to `to` has ended: others may own it, and who was kept away may send.
    fn end_of(&self, kernel: &mut Kernel, to: HostId) {
        let now = kernel.now;
        let (waiting, refused) = {
            let mut share = self.share.borrow_mut();
            let it = share.of(to);
            it.owner = None;
            (std::mem::take(&mut it.waiting), std::mem::take(&mut it.refused))
        };
        for host in waiting {
            kernel.at(now, host, AdapterEvent::StarTx(Event::Engine));
        }
        for peer in refused {
            kernel.procs.touch(peer, now);
        }
    }

    /// A peer asks for a block of this host's memory: whoever polls here starts it.
    pub(super) fn asked(&mut self, kernel: &mut Kernel, by: HostId, message: Message) {
        let What::Moved { op, descriptor } = message.what else {
            return;
        };
        kernel.recorder.arrives(message.mark, kernel.now);
        let (from, to) = (message.to, message.from);
        let params = &self.params;
        let seen = params.into + params.word_read + params.receive + params.double_load * 2;
        if kernel.procs.of(from).dead.is_some() {
            let (now, error) = (kernel.now, FabricError::dead(from, "it has ended"));
            return kernel.procs.finish(op, now, Err(error));
        }
        // On its way back it is a put of this side's.
        let what = What::Moved {
            op,
            descriptor: Descriptor {
                direction: Direction::Put,
                local: descriptor.remote,
                remote: descriptor.local,
                ..descriptor
            },
        };
        let answer = kernel.message(from, to, what);
        let job = Job::block(by, descriptor.len, answer);
        self.at(kernel, seen, Event::Fetch(Box::new(job)));
    }

    /// A packet whose check is wrong: it is dropped, and its receiver hears of it.
    pub(super) fn damaged(&mut self, kernel: &mut Kernel, packet: Packet<Load>) {
        let now = kernel.now;
        self.registers.check_errors += 1;
        kernel.net.release(&mut kernel.queue, now, self.host, packet.lane);
        let of = |load: &Load| match load {
            Load::Last(message) => Some((message.from, message.to)),
            Load::Own(event) => match &**event {
                AdapterEvent::StarTx(Event::Block { last: Some(it), .. }) => Some((it.from, it.to)),
                _ => None,
            },
            Load::Part => None,
        };
        let check = |peer| FabricError::corrupt(peer, "the check of a message", packet_number(&packet));
        if let Some((from, to)) = of(&packet.load) {
            let error = check(from);
            kernel.fault(to, Fault { peer: from, error });
        }
        self.failed(kernel, packet, &|peer| {
            FabricError::dead(peer, "a message was damaged on its way")
        });
    }

    /// A packet will not be where it was to go.
    pub(super) fn failed(
        &mut self,
        kernel: &mut Kernel,
        packet: Packet<Load>,
        why: &dyn Fn(Peer) -> FabricError,
    ) {
        if usize::from(packet.lane) == HIGH {
            self.gone(kernel, packet.to, 1);
        }
        let message = match packet.load {
            Load::Last(message) => message,
            Load::Own(event) => match *event {
                AdapterEvent::StarTx(Event::Block {
                    last: Some(message), ..
                }) => {
                    if !matches!(message.what, What::Write { .. }) {
                        self.end_of(kernel, packet.to);
                    }
                    *message
                }
                _ => return,
            },
            Load::Part => return,
        };
        let error = why(message.to);
        self.message_failed(kernel, message, error);
    }

    pub(super) fn message_failed(&mut self, kernel: &mut Kernel, message: Message, error: FabricError) {
        let (now, peer) = (kernel.now, message.to);
        match message.what {
            What::Write { import, .. } => kernel.procs.put_ended(import, now, Some(error)),
            What::Moved { op, .. } | What::Read { op, .. } | What::Answer { op, .. } => {
                kernel.procs.finish(op, now, Err(error));
            }
            What::Packet { .. } => kernel.fault(message.from, Fault { peer, error }),
            What::Ring => {}
        }
    }
}

/// What a fault shows of a packet.
fn packet_number(packet: &Packet<Load>) -> u64 {
    u64::from(packet.bytes)
}
