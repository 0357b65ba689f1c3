//! What a collective does at one rank, as a graph of steps, and the builder algorithms write it with.

use std::ops::Range;
use std::rc::Rc;

use super::hosts::Hosts;
use super::mem::{Block, Pool, Temp};
use crate::datatype::Datatype;
use crate::op::Op;

/// Which group a message goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Ranks of my own group.
    Local,
    /// Ranks of the other group of an intercommunicator.
    Remote,
}

/// One thing to do.
pub(crate) enum Action {
    Send {
        lane: Lane,
        peer: usize,
        buf: Block,
    },
    Recv {
        lane: Lane,
        peer: usize,
        buf: Block,
    },
    /// Packed bytes `from_at..from_at+len` of `from` to byte `to_at` of `to`.
    Copy {
        from: Block,
        from_at: u64,
        to: Block,
        to_at: u64,
        len: u64,
    },
    /// `inout = input op inout`.
    Reduce {
        input: Block,
        inout: Block,
    },
    /// Nothing: a place where dependencies meet.
    Join,
}

/// A step of the plan under construction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step(u32);

impl Step {
    /// A step that was not needed; waiting for it is waiting for nothing.
    pub(crate) const NONE: Step = Step(u32::MAX);

    /// Wait until the step is complete.
    pub(crate) fn done(self) -> After {
        After::Done(self)
    }

    /// Wait until the step is started: keeps messages between two ranks in order.
    pub(crate) fn issued(self) -> After {
        After::Issued(self)
    }
}

/// What a step waits for.
#[derive(Clone, Copy)]
pub(crate) enum After {
    Done(Step),
    Issued(Step),
}

pub(crate) struct Node {
    pub(crate) action: Action,
    /// How many edges lead here.
    pub(crate) waits: u32,
    /// Edges out of this node that fire when it starts, then those that fire when it is complete.
    pub(crate) on_issue: Range<u32>,
    pub(crate) on_done: Range<u32>,
}

/// A collective at one rank, ready to be run, any number of times (see [`super::Schedule`]).
pub struct Plan {
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: Vec<u32>,
    pub(crate) op: Option<Op>,
    temps: Vec<Temp>,
}

impl Plan {
    /// Never give the temporaries back: somebody may still write to them.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.temps));
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.nodes.len()
    }
}

/// Writes a [`Plan`]. Steps added between two calls of [`Builder::round`] may run in any order but for the
/// dependencies given; messages of one round to one peer are started in the order they were added unless
/// dependencies delay them, in which case [`Step::issued`] keeps them in order.
pub(crate) struct Builder {
    /// My rank and the number of ranks in my group.
    pub(crate) rank: usize,
    pub(crate) size: usize,
    /// Which ranks share a host, when they do not all.
    pub(crate) hosts: Option<Rc<Hosts>>,
    /// What is written now concerns these ranks only, and calls them by their places here.
    members: Option<Rc<[usize]>>,
    pool: Pool,
    actions: Vec<Action>,
    /// (from, to, fires at completion).
    edges: Vec<(u32, u32, bool)>,
    gate: Option<u32>,
    round_start: u32,
    op: Option<Op>,
    temps: Vec<Temp>,
}

impl Builder {
    pub(crate) fn new(rank: usize, size: usize, hosts: Option<Rc<Hosts>>, pool: &Pool) -> Self {
        Self {
            rank,
            size,
            hosts,
            members: None,
            pool: pool.clone(),
            actions: Vec::new(),
            edges: Vec::new(),
            gate: None,
            round_start: 0,
            op: None,
            temps: Vec::new(),
        }
    }

    /// Write the part of an algorithm among `members` of my group, of whom I am one: inside `write` ranks are places in
    /// `members`, and hosts do not matter. `of` is one of them, too, told as its place.
    pub(crate) fn within(&mut self, members: &Rc<[usize]>, of: usize, write: impl FnOnce(&mut Self, usize)) {
        let place = |rank| members.iter().position(|other| *other == rank);
        let (Some(me), Some(of)) = (place(self.rank), place(of)) else {
            unreachable!("a rank is among those that share its host, or leads it");
        };
        let (rank, size, hosts) = (self.rank, self.size, self.hosts.take());
        debug_assert!(self.members.is_none(), "parts of an algorithm are one level deep");
        (self.rank, self.size, self.members) = (me, members.len(), Some(Rc::clone(members)));
        write(self, of);
        (self.rank, self.size, self.hosts, self.members) = (rank, size, hosts, None);
    }

    /// The rank in the group of a rank among those written about.
    fn peer(&self, lane: Lane, peer: usize) -> usize {
        match &self.members {
            Some(members) if lane == Lane::Local => members[peer],
            _ => peer,
        }
    }

    /// The operation every reduction of this plan applies.
    pub(crate) fn set_op(&mut self, op: &Op) {
        self.op = Some(op.clone());
    }

    /// Does the order of operands not matter?
    pub(crate) fn commutes(&self) -> bool {
        self.op.as_ref().is_some_and(Op::is_commutative)
    }

    /// Room for `count` elements of `ty`.
    pub(crate) fn temp(&mut self, count: u64, ty: &Datatype) -> Block {
        let (temp, block) = Temp::new(&self.pool, count, ty);
        self.temps.push(temp);
        block
    }

    /// Room for `bytes` packed bytes.
    pub(crate) fn temp_bytes(&mut self, bytes: u64) -> Block {
        self.temp(bytes, &Datatype::byte())
    }

    fn add(&mut self, action: Action, after: &[After]) -> Step {
        let id = self.actions.len() as u32;
        self.actions.push(action);
        if let Some(gate) = self.gate {
            self.edges.push((gate, id, true));
        }
        for dep in after {
            match *dep {
                After::Done(step) if step != Step::NONE => self.edges.push((step.0, id, true)),
                After::Issued(step) if step != Step::NONE => self.edges.push((step.0, id, false)),
                _ => {}
            }
        }
        Step(id)
    }

    /// Send `buf` to `peer` on `lane`. Nothing is sent when there are no bytes: the receiver sees the same.
    pub(crate) fn send_on(&mut self, lane: Lane, buf: &Block, peer: usize, after: &[After]) -> Step {
        if buf.bytes() == 0 {
            return self.nothing(after);
        }
        let (buf, peer) = (buf.clone(), self.peer(lane, peer));
        self.add(Action::Send { lane, peer, buf }, after)
    }

    /// Receive `buf` from `peer` on `lane`.
    pub(crate) fn recv_on(&mut self, lane: Lane, buf: &Block, peer: usize, after: &[After]) -> Step {
        if buf.bytes() == 0 {
            return self.nothing(after);
        }
        let (buf, peer) = (buf.clone(), self.peer(lane, peer));
        self.add(Action::Recv { lane, peer, buf }, after)
    }

    /// A step left out: what waits for it waits for what it would have waited for.
    fn nothing(&mut self, after: &[After]) -> Step {
        let waits = after
            .iter()
            .any(|a| !matches!(*a, After::Done(Step::NONE) | After::Issued(Step::NONE)));
        if waits {
            self.add(Action::Join, after)
        } else {
            Step::NONE
        }
    }

    /// Send within my group.
    pub(crate) fn send(&mut self, buf: &Block, peer: usize, after: &[After]) -> Step {
        self.send_on(Lane::Local, buf, peer, after)
    }

    /// Receive within my group.
    pub(crate) fn recv(&mut self, buf: &Block, peer: usize, after: &[After]) -> Step {
        self.recv_on(Lane::Local, buf, peer, after)
    }

    /// Send an empty message: for synchronisation, so never left out.
    pub(crate) fn signal(&mut self, lane: Lane, peer: usize) -> Step {
        let (buf, peer) = (Block::none(), self.peer(lane, peer));
        self.add(Action::Send { lane, peer, buf }, &[])
    }

    /// Receive an empty message.
    pub(crate) fn await_signal(&mut self, lane: Lane, peer: usize) -> Step {
        let (buf, peer) = (Block::none(), self.peer(lane, peer));
        self.add(Action::Recv { lane, peer, buf }, &[])
    }

    /// Copy all of `from` to `to`: same type signature, any layout.
    pub(crate) fn copy(&mut self, from: &Block, to: &Block, after: &[After]) -> Step {
        self.copy_range(from, 0, to, 0, from.bytes(), after)
    }

    /// Copy `len` packed bytes from byte `from_at` of `from` to byte `to_at` of `to`.
    pub(crate) fn copy_range(
        &mut self,
        from: &Block,
        from_at: u64,
        to: &Block,
        to_at: u64,
        len: u64,
        after: &[After],
    ) -> Step {
        if len == 0 {
            return self.nothing(after);
        }
        let (from, to) = (from.clone(), to.clone());
        self.add(
            Action::Copy {
                from,
                from_at,
                to,
                to_at,
                len,
            },
            after,
        )
    }

    /// `inout = input op inout`.
    pub(crate) fn reduce(&mut self, input: &Block, inout: &Block, after: &[After]) -> Step {
        if inout.count() == 0 {
            return self.nothing(after);
        }
        let (input, inout) = (input.clone(), inout.clone());
        self.add(Action::Reduce { input, inout }, after)
    }

    /// Everything added from now on starts when everything added before is complete.
    pub(crate) fn round(&mut self) {
        let end = self.actions.len() as u32;
        match end - self.round_start {
            0 => {}
            1 => self.gate = Some(self.round_start),
            _ => {
                let join = self.actions.len() as u32;
                self.actions.push(Action::Join);
                let start = self.round_start;
                self.edges.extend((start..end).map(|from| (from, join, true)));
                self.gate = Some(join);
            }
        }
        self.round_start = self.actions.len() as u32;
    }

    /// The plan is written.
    pub(crate) fn finish(mut self) -> Plan {
        // Edges leave a node in the order of their targets, so that steps set free together start in the
        // order they were written.
        self.edges
            .sort_unstable_by_key(|&(from, to, done)| (from, done, to));
        let mut waits = vec![0u32; self.actions.len()];
        for &(_, to, _) in &self.edges {
            waits[to as usize] += 1;
        }
        let mut at = 0;
        let mut run = |from: u32, done: bool| {
            let start = at;
            while self
                .edges
                .get(at as usize)
                .is_some_and(|e| e.0 == from && e.2 == done)
            {
                at += 1;
            }
            start..at
        };
        let nodes = self
            .actions
            .into_iter()
            .zip(waits)
            .enumerate()
            .map(|(i, (action, waits))| Node {
                action,
                waits,
                on_issue: run(i as u32, false),
                on_done: run(i as u32, true),
            })
            .collect();
        Plan {
            nodes,
            edges: self.edges.iter().map(|e| e.1).collect(),
            op: self.op,
            temps: self.temps,
        }
    }
}

/// Keeps a stream of messages in order and bounds how many of them are under way.
pub(crate) struct Flow {
    depth: usize,
    steps: Vec<Step>,
}

impl Flow {
    /// At most `depth` steps under way.
    pub(crate) fn new(depth: usize) -> Self {
        Self {
            depth: depth.max(1),
            steps: Vec::new(),
        }
    }

    /// What the next step has to wait for.
    pub(crate) fn next(&self) -> [After; 2] {
        let n = self.steps.len();
        let old = n.checked_sub(self.depth).map_or(Step::NONE, |i| self.steps[i]);
        let last = self.steps.last().copied().unwrap_or(Step::NONE);
        [old.done(), last.issued()]
    }

    /// The next step was added; `end` is the step whose completion lets a later one start.
    pub(crate) fn push(&mut self, end: Step) {
        self.steps.push(end);
    }
}
