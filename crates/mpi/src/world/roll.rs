//! What a process waits for, for the roll-call (`farpost_rollcall`): described once a wait has lasted, and now and then from then on.
//!
//! Cost class: *queued path*; nothing of it is done in a wait that ends soon.

use super::World;
use super::requests::{Extra, PersistentSpec};
use crate::Rank;
use crate::comm::{Comm, ContextLane};
use crate::engine::SENT;
use crate::engine::context::{ANY_SOURCE, ANY_TAG};
use crate::engine::envelope::LANE_BITS;
use crate::engine::request::{Operation, RecvState, SendState};
use crate::partitioned::Channel;
use farpost_fabric::{Fabric, Peer};
use farpost_rollcall::{Collective, Communicator, Mismatch, NearMiss, Record, Teller, WaitKind, Want};
use std::rc::Rc;

/// Unmatched messages that are looked at.
const LOOKED_AT: usize = 2000;
/// Things waited for that are compared with them, and most that are listed.
const COMPARED: usize = 4;
const LISTED: usize = 64;

/// What a wait is for.
#[derive(Clone, Copy)]
pub enum Awaited<'a> {
    /// These requests, all of them.
    All(&'a [usize]),
    /// One of them at least.
    Any(&'a [usize]),
    /// A message to be probed.
    Message { comm: &'a Comm, source: Rank, tag: i32 },
    /// A collective by messages.
    Collective(&'a Comm),
    /// A rank's line on a board, or those of all: the number of the step that they are to show.
    Lines {
        comm: &'a Comm,
        only: Option<usize>,
        step: u64,
    },
    /// Whatever is under way.
    Everything,
}

impl<F: Fabric> World<F> {
    /// Tell others of waits that last.
    pub fn set_teller(&self, teller: Option<&'static Teller>) {
        self.teller.set(teller);
    }

    /// Fill in what is waited for.
    pub(super) fn describe(&self, awaited: Awaited, record: &mut Record) {
        match awaited {
            Awaited::All(requests) | Awaited::Any(requests) => {
                record.any = matches!(awaited, Awaited::Any(_));
                for request in requests {
                    self.describe_request(*request, record);
                }
            }
            Awaited::Message { comm, source, tag } => {
                let want = self.receive_of(comm, source, tag, 0, WaitKind::Probe);
                list(record, want);
            }
            Awaited::Collective(comm) => {
                let function = record.function.clone();
                self.describe_collective(comm, function, record);
            }
            Awaited::Lines { comm, only, step } => {
                let function = record.function.clone();
                self.describe_collective(comm, function, record);
                self.describe_lines(comm, only, step, record);
            }
            Awaited::Everything => {
                record.any = true;
                self.describe_everything(record);
            }
        }
        self.describe_near(record);
        self.seek(record);
    }

    /// Who has never had to do with a process of another host does not hear of its end: a wait for it that lasts opens the way to it,
    /// where one is to be opened, and what is wrong with that way is an error as ever.
    fn seek(&self, record: &Record) {
        let sought = |want: &Want| {
            want.peer
                .filter(|_| !matches!(want.kind, WaitKind::Program | WaitKind::Other))
        };
        for peer in record.wants.iter().filter_map(sought) {
            if peer != self.pid() && !self.fabric.maps(Peer(peer)) && self.sought.borrow_mut().insert(peer) {
                self.fabric.wake(Peer(peer));
            }
        }
    }

    fn place(comm: &Comm) -> Communicator {
        Communicator {
            name: String::from_utf8_lossy(&comm.name.borrow()).into_owned(),
            context: comm.context,
        }
    }

    /// The communicator that a context belongs to.
    pub(super) fn comm_of(&self, context: u64) -> Option<Rc<Comm>> {
        let base = context >> LANE_BITS << LANE_BITS;
        let own = [&self.comm_world, &self.comm_self];
        if let Some(comm) = own.into_iter().find(|comm| comm.context == base) {
            return Some(Rc::clone(comm));
        }
        let comms = self.comms.borrow();
        let found = comms.iter().find(|(_, comm)| comm.context == base);
        found
            .map(|(_, comm)| Rc::clone(comm))
            .or_else(|| self.closing.borrow().iter().find(|c| c.context == base).cloned())
    }

    fn place_of(&self, context: u64) -> Communicator {
        match self.comm_of(context) {
            Some(comm) => Self::place(&comm),
            None => Communicator {
                name: "a freed communicator".into(),
                context: context >> LANE_BITS << LANE_BITS,
            },
        }
    }

    fn receive_of(&self, comm: &Comm, source: Rank, tag: i32, bytes: u64, kind: WaitKind) -> Want {
        let peer = comm.peer(source).filter(|_| source != ANY_SOURCE);
        Want {
            kind,
            peer: peer.map(|peer| peer.0),
            rank: source.max(0) as u32,
            tag: (tag != ANY_TAG).then_some(tag),
            bytes,
            communicator: Self::place(comm),
        }
    }

    fn describe_request(&self, handle: usize, record: &mut Record) {
        if handle == SENT {
            return;
        }
        let inner: Vec<usize> = match self.extras.borrow().get(&handle) {
            Some(Extra::Collective(running)) => {
                let function = self
                    .teller
                    .get()
                    .map_or("", |teller| teller.name(running.site))
                    .to_owned();
                let over = self.engine.borrow().requests.is_over(handle);
                if !over {
                    self.describe_collective(&running.comm, function, record);
                }
                return;
            }
            Some(Extra::Generalized(_)) => {
                let over = self.engine.borrow().requests.is_over(handle);
                if !over {
                    list(record, other(WaitKind::Program));
                }
                return;
            }
            Some(Extra::Persistent {
                running: Some(running),
                spec,
            }) if let PersistentSpec::Partitioned(channel) = &**spec => {
                if !self.engine.borrow().requests.is_over(*running) {
                    list(record, self.want_of_channel(channel));
                }
                return;
            }
            Some(Extra::Persistent { running, .. }) => running.iter().copied().collect(),
            Some(Extra::Joined(first, second)) => vec![*first, *second],
            Some(Extra::Flush(sends)) => sends.to_vec(),
            None | Some(Extra::Watched) => {
                if let Some(want) = self.want_of(handle) {
                    list(record, want);
                }
                return;
            }
        };
        for request in inner {
            self.describe_request(request, record);
        }
    }

    /// What a partitioned message waits for: the program's other threads, or the other end.
    fn want_of_channel(&self, channel: &Channel) -> Want {
        if channel.waits_for_program() {
            return other(WaitKind::Program);
        }
        let kind = match channel.sends() {
            true => WaitKind::Send,
            false => WaitKind::Receive,
        };
        self.receive_of(&channel.comm, channel.rank, channel.tag, channel.bytes(), kind)
    }

    /// What a message's request waits for.
    fn want_of(&self, handle: usize) -> Option<Want> {
        let engine = self.engine.borrow();
        let request = engine.requests.get(handle).filter(|request| !request.complete)?;
        match &request.operation {
            Operation::Recv(recv) => {
                let context = engine.contexts.get(recv.context)?.id;
                let kind = match recv.state {
                    RecvState::Posted | RecvState::Entered { .. } => WaitKind::Receive,
                    _ => WaitKind::Rest,
                };
                let comm = self.comm_of(context)?;
                let mut want = self.receive_of(&comm, recv.source, recv.tag, recv.buf.bytes(), kind);
                if let Some(peer) = recv.state.peer() {
                    want.peer = Some(peer.0);
                    want.rank = engine.contexts[recv.context]
                        .members
                        .as_ref()
                        .and_then(|members| members.rank_of(peer.0))
                        .unwrap_or(0) as u32;
                }
                Some(want)
            }
            Operation::Send(send) => {
                let kind = match send.state {
                    SendState::Queued | SendState::Leaving | SendState::Streaming { .. } => WaitKind::Room,
                    // It would be over if the receiver had room to keep it, or the pool a block for it.
                    _ if send.for_space => WaitKind::Space,
                    SendState::Offered { .. } | SendState::Carried { .. } => WaitKind::Send,
                    SendState::Matched | SendState::ZeroCopy { .. } => WaitKind::Taken,
                };
                let comm = self.comm_of(send.envelope.context);
                let there = comm
                    .as_ref()
                    .and_then(|comm| comm.remote.as_ref().unwrap_or(&comm.local).rank_of(send.peer.0));
                Some(Want {
                    kind,
                    peer: Some(send.peer.0),
                    rank: there.unwrap_or(0) as u32,
                    tag: Some(send.envelope.tag),
                    bytes: send.payload.bytes(),
                    communicator: self.place_of(send.envelope.context),
                })
            }
            Operation::Idle => None,
        }
    }

    /// A collective on `comm`, and who has not yet done what this process waits for.
    fn describe_collective(&self, comm: &Comm, function: String, record: &mut Record) {
        let remote = comm.remote.iter().flat_map(|group| group.iter());
        let collective = Collective {
            communicator: Self::place(comm),
            function,
            members: Record::ranges(comm.local.iter().chain(remote)),
        };
        if !record.collectives.contains(&collective) {
            record.collectives.push(collective);
        }
        let lanes = [ContextLane::Collective, ContextLane::Local, ContextLane::Making];
        let lanes = lanes.map(|lane| comm.lane(lane));
        let engine = self.engine.borrow();
        for (_, request) in engine.requests.iter().filter(|(_, request)| !request.complete) {
            let peer = match &request.operation {
                Operation::Send(send) if lanes.contains(&send.envelope.context) => Some(send.peer),
                Operation::Recv(recv) => engine
                    .contexts
                    .get(recv.context)
                    .filter(|entry| lanes.contains(&entry.id))
                    .and_then(|entry| entry.members.as_ref().unwrap_or(&comm.local).pid(recv.source))
                    .map(Peer),
                _ => None,
            };
            if let Some(peer) = peer {
                part(record, comm, peer.0);
            }
        }
    }

    /// Ranks of this host that have not shown the line of a step.
    fn describe_lines(&self, comm: &Comm, only: Option<usize>, step: u64, record: &mut Record) {
        if let Some(rank) = only {
            if let Some(peer) = comm.local.pid(rank as Rank) {
                part(record, comm, peer);
            }
            return;
        }
        let Ok(Some(board)) = self.board(comm) else { return };
        for (rank, row) in board.rows.rows().iter().enumerate() {
            if rank != board.rows.me()
                && !row.shows(step)
                && let Some(peer) = comm.local.pid(rank as Rank)
            {
                part(record, comm, peer);
            }
        }
    }

    fn describe_everything(&self, record: &mut Record) {
        let messages: Vec<usize> = {
            let engine = self.engine.borrow();
            let of_the_program = |context: u64| context & 3 == ContextLane::Messages as u64;
            let mine = |operation: &Operation| match operation {
                Operation::Send(send) => of_the_program(send.envelope.context),
                Operation::Recv(recv) => engine
                    .contexts
                    .get(recv.context)
                    .is_some_and(|entry| of_the_program(entry.id)),
                Operation::Idle => false,
            };
            let live = engine.requests.iter().filter(|(_, request)| !request.complete);
            live.filter(|(_, request)| mine(&request.operation))
                .map(|(handle, _)| handle)
                .take(LISTED)
                .collect()
        };
        for handle in messages {
            if let Some(want) = self.want_of(handle) {
                list(record, want);
            }
        }
        let active = self.active.borrow().clone();
        for running in active {
            let teller = self.teller.get();
            let function = teller.map_or("", |teller| teller.name(running.site)).to_owned();
            self.describe_collective(&running.comm, function, record);
        }
    }

    /// Messages that lie unmatched and nearly fit what is waited for.
    fn describe_near(&self, record: &mut Record) {
        let wants: Vec<Want> = record
            .wants
            .iter()
            .filter(|want| matches!(want.kind, WaitKind::Receive | WaitKind::Probe))
            .take(COMPARED)
            .cloned()
            .collect();
        if wants.is_empty() {
            return;
        }
        let engine = self.engine.borrow();
        let held = engine
            .contexts
            .iter()
            .filter(|entry| entry.queues.has_unexpected());
        let held = held.flat_map(|entry| entry.queues.unexpected().map(move |message| (entry.id, message)));
        for (context, message) in held.take(LOOKED_AT) {
            // What collectives send each other is no concern of the program's.
            if context & 3 != ContextLane::Messages as u64 {
                continue;
            }
            let (peer, tag) = (message.peer.0, message.envelope.tag);
            let why = wants.iter().find_map(|want| {
                let place = want.communicator.context == context;
                let source = want.peer.is_none_or(|wanted| wanted == peer);
                match (place, source, want.tag.is_none_or(|wanted| wanted == tag)) {
                    (true, true, true) => Some(Mismatch::Fits),
                    (true, true, false) => Some(Mismatch::Tag),
                    (true, false, true) => Some(Mismatch::Source),
                    (false, true, true) => Some(Mismatch::Communicator),
                    _ => None,
                }
            });
            let Some(why) = why else { continue };
            let same = |near: &&mut NearMiss| {
                near.why == why
                    && near.peer == peer
                    && near.tag == tag
                    && near.communicator.context == context
            };
            if let Some(near) = record.nears.iter_mut().find(same) {
                near.count += 1;
                continue;
            }
            record.nears.push(NearMiss {
                why,
                peer,
                tag,
                bytes: message.total(),
                count: 1,
                communicator: self.place_of(context),
            });
        }
    }
}

fn other(kind: WaitKind) -> Want {
    Want {
        kind,
        peer: None,
        rank: 0,
        tag: None,
        bytes: 0,
        communicator: Communicator::default(),
    }
}

fn list(record: &mut Record, want: Want) {
    if record.wants.len() < LISTED {
        record.wants.push(want);
    } else {
        record.more += 1;
    }
}

/// The part of process `peer` in a collective on `comm`.
fn part(record: &mut Record, comm: &Comm, peer: u32) {
    let known = |want: &Want| {
        want.kind == WaitKind::Part && want.peer == Some(peer) && want.communicator.context == comm.context
    };
    if !record.wants.iter().any(known) {
        let want = Want {
            peer: Some(peer),
            rank: peer,
            communicator: Communicator {
                // The collective beside it has the name.
                name: String::new(),
                context: comm.context,
            },
            ..other(WaitKind::Part)
        };
        list(record, want);
    }
}
