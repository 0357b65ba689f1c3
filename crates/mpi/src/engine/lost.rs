//! Peers that the fabric has given up, or that have ended on this host: what depends on them fails, at once and from then
//! on.
//!
//! Other hosts' processes the network notices by itself. Those of this host are asked about while nothing moves: it
//! costs a system call each, some ten times a second.
//!
//! Cost class: *set-up path*; the fast path asks whether there are any.
//!
//! What waits for a lost peer fails with `MPI_ERR_PROC_ABORTED` (the ABI of MPI-5.0 has no `MPI_ERR_PROC_FAILED`): sends to it, receives and
//! probes from it, and those from any source on communicators to which it belongs. Later operations on it are refused. Messages that it sent
//! before, and that have arrived, are still received.
//!
//! A collective fails at every rank that learns of a member's end, because that rank stops sending: no rank may wait for what another one would
//! have done. A rank that has learnt of it starts no further collective there, whose messages could be taken for those of the failed one. A peer that
//! left in order (it closed its last interface) fails only what waits for it alone. A connection that cannot be made for want of
//! descriptors or memory is tried again for a second; then the peer is lost in the same way.

use super::request::{Operation, RecvState, Request, SendState};
use super::{Carrier, Engine, Outgoing};
use crate::group::Group;
use crate::{Error, ErrorClass, Rank, Result};
use farpost_fabric::{End, Fabric, FabricError, Fault, Peer};
use std::time::Duration;

/// Time between two questions who has ended.
const ASK: Duration = Duration::from_millis(100);

fn ended(why: &str) -> Error {
    Error::new(ErrorClass::ERR_PROC_ABORTED, why.to_owned())
}

/// The error of a transfer with a peer.
pub(crate) fn of_transfer(error: &FabricError) -> Error {
    match error {
        FabricError::PeerDead { .. } => ended(&error.to_string()),
        _ => Error::new(ErrorClass::ERR_OTHER, error.to_string()),
    }
}

impl<F: Fabric, C: Carrier<F>> Engine<F, C> {
    /// The fabric has noticed something by itself: fail what waits for the peers that are gone. True: some are.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_for_lost(&mut self) -> bool {
        let (faults, _) = self.fabric.take_faults();
        let mut any = false;
        for fault in faults {
            let Fault { peer, error } = &fault;
            if matches!(error, FabricError::PeerDead { .. }) && *peer != self.me {
                any = true;
                let end = self.given_up(*peer, error);
                self.lose(*peer, end);
            }
            self.faults.push(fault);
        }
        any
    }

    /// Ask, if it is time, which processes of this host have ended, and fail what waits for them. True: some have.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_for_ended(&mut self) -> bool {
        let now = self.fabric.now();
        if now - self.asked < ASK {
            return false;
        }
        self.asked = now;
        let mut hopeless = self.give_up_connecting();
        if self.post.rest(self.fabric.now()) {
            self.fail_closed();
            hopeless = true;
        }
        let all = (0..self.fabric.size()).map(Peer);
        let others = all.filter(|peer| *peer != self.me && !self.lost.contains_key(&peer.0));
        let ended: Vec<(Peer, End)> = others
            .filter_map(|peer| Some((peer, self.fabric.end_of(peer)?)))
            .collect();
        if ended.is_empty() {
            return hopeless;
        }
        // What they sent before has arrived all the same.
        C::catch_up(self);
        for (peer, end) in ended {
            self.lose(peer, end);
        }
        true
    }

    /// The end of a peer that the fabric has noticed while something was done with it.
    fn given_up(&self, peer: Peer, error: &FabricError) -> End {
        self.fabric.end_of(peer).unwrap_or_else(|| End {
            why: error.to_string(),
            in_order: false,
        })
    }

    /// Fail what waits for connections that cannot be made for want of descriptors or memory. True: there were some.
    fn give_up_connecting(&mut self) -> bool {
        let mut any = false;
        while let Some((peer, error)) = self.post.hopeless() {
            any = true;
            // Either way it is lost, and not only what waits just now fails: a collective would go on without a message that
            // others wait for, and this process would wait for those.
            if let Some(peer) = peer {
                let why = format!("messages of {peer} cannot be received: {error}");
                self.lose(peer, End { why, in_order: false });
                continue;
            }
            for peer in self.busy.clone() {
                if self.fabric.maps(peer) && self.post.room(peer) == 0 {
                    let why = format!("nothing can be sent to {peer}: {error}");
                    self.lose(peer, End { why, in_order: false });
                }
            }
        }
        any
    }

    pub(crate) fn lose(&mut self, peer: Peer, end: End) {
        if !self.lost.contains_key(&peer.0) {
            // What it sent before it ended has arrived all the same.
            C::close_peer(self, peer);
            let why = end.why.clone();
            self.lost.insert(peer.0, end);
            self.fail_waiting(peer, &why);
        }
    }

    /// Fail what waits for peers whose queues, from or to them, were closed just now.
    #[cold]
    pub(crate) fn fail_closed(&mut self) {
        let (faults, _) = self.fabric.take_faults();
        for fault in faults {
            let Fault { peer, error } = &fault;
            if matches!(error, FabricError::PeerDead { .. }) {
                let end = self.given_up(*peer, error);
                self.lose(*peer, end);
            } else if self.post.is_dead(*peer) || !self.post.has_sender(*peer) {
                self.fail_waiting(*peer, &error.to_string());
            }
            self.faults.push(fault);
        }
    }

    /// Fail what waits for `peer`.
    #[cold]
    pub(crate) fn fail_peer(&mut self, peer: Peer) {
        let (faults, _) = self.fabric.take_faults();
        let cause = faults.iter().rev().find(|fault| fault.peer == peer);
        let why = match (cause, self.lost.get(&peer.0)) {
            (Some(fault), _) => fault.error.to_string(),
            (None, Some(known)) => known.why.clone(),
            (None, None) => format!("{peer} cannot be reached"),
        };
        if let Some(fault) = cause.filter(|fault| matches!(fault.error, FabricError::PeerDead { .. })) {
            let end = self.given_up(peer, &fault.error);
            self.lost.entry(peer.0).or_insert(end);
        }
        self.faults.extend(faults);
        self.fail_waiting(peer, &why);
    }

    fn fail_waiting(&mut self, peer: Peer, why: &str) {
        let hit: Vec<usize> = self
            .requests
            .iter()
            .filter(|(_, request)| !request.complete && self.waits_for(request, peer))
            .map(|(handle, _)| handle)
            .collect();
        for handle in hit {
            self.give_up(handle, ended(why));
        }
        self.outgoing[peer.index()] = Outgoing::default();
        self.retire_if_empty(peer);
    }

    /// Fail everything that is under way on a communicator: in the contexts `slots`, and sends in those that `carries` knows.
    #[cold]
    pub(crate) fn fail_within(&mut self, slots: &[usize], carries: impl Fn(u64) -> bool, error: &Error) {
        let within = |request: &Request| match &request.operation {
            Operation::Send(send) => carries(send.envelope.context),
            Operation::Recv(recv) => slots.contains(&recv.context),
            Operation::Idle => false,
        };
        let all = self.requests.iter();
        let hit = all.filter(|(_, request)| !request.complete && within(request));
        let hit: Vec<usize> = hit.map(|(handle, _)| handle).collect();
        for handle in hit {
            self.give_up(handle, error.clone());
        }
    }

    /// A request ends with an error, unless it is about to come to a good end.
    fn give_up(&mut self, handle: usize, error: Error) {
        if !C::give_up(self, handle) {
            return;
        }
        self.detach_from_queues(handle);
        self.release_memory(handle);
        self.fail(handle, error);
    }

    /// Why a collective among `groups` cannot come to an end: a member has ended without taking leave. Whoever notices
    /// gives up, so nobody may wait for what others would do in it.
    #[cold]
    pub(crate) fn broken(&self, groups: [Option<&Group>; 2]) -> Option<Error> {
        let member = |pid| groups.iter().flatten().any(|group| group.contains(pid));
        let mut gone = self.lost.iter().filter(|(_, end)| !end.in_order);
        let (_, end) = gone.find(|(pid, _)| member(**pid))?;
        Some(ended(&end.why))
    }

    /// A request of a collective that has broken: it is over now, one way or another.
    #[cold]
    pub(crate) fn abandon(&mut self, handle: usize, error: Error) {
        self.give_up(handle, error);
        // What is about to come to a good end does that without its owner.
        match self.requests.get(handle).map(|request| request.complete) {
            Some(true) => _ = self.reap(handle),
            Some(false) => {
                if let Some(request) = self.requests.get_mut(handle) {
                    request.detached = true;
                }
            }
            None => {}
        }
    }

    /// Why no message can come that a receive or a probe with this source would take.
    #[cold]
    pub(crate) fn lost_source(&self, context: usize, source: Rank) -> Option<Error> {
        let mut lost = self.lost.iter();
        let (_, end) = lost.find(|(pid, _)| self.may_come_from(context, source, Peer(**pid)))?;
        Some(ended(&end.why))
    }

    /// No transfer touches the memory of a request any more.
    fn release_memory(&self, handle: usize) {
        match self.requests.get(handle).map(|request| &request.operation) {
            Some(Operation::Send(send)) => match send.state {
                SendState::Offered { key: Some(key), .. } => self.fabric.withdraw(key),
                SendState::ZeroCopy { number } => self.fabric.release_zcopy(send.peer, number),
                _ => {}
            },
            Some(Operation::Recv(recv)) => match recv.state {
                RecvState::Fetching { ticket, .. } => self.fabric.cancel_transfer(ticket),
                RecvState::Landing {
                    peer, number, total, ..
                } => self.fabric.drop_zcopy(peer, number, total as usize),
                _ => {}
            },
            _ => {}
        }
    }

    fn waits_for(&self, request: &Request, peer: Peer) -> bool {
        match &request.operation {
            Operation::Send(send) => send.peer == peer,
            Operation::Recv(recv) => match recv.state {
                RecvState::Posted | RecvState::Entered { .. } => {
                    self.may_come_from(recv.context, recv.source, peer)
                }
                RecvState::Streaming { peer: from, .. }
                | RecvState::Copying { peer: from, .. }
                | RecvState::Landing { peer: from, .. }
                | RecvState::Coming { peer: from, .. }
                | RecvState::Got { peer: from, .. }
                | RecvState::Fetching { peer: from, .. } => from == peer,
            },
            Operation::Idle => false,
        }
    }

    /// Whether what a receive waits for comes from `peer`: from nobody else, or (any source) perhaps from it and
    /// then never, when the peer is lost.
    fn may_come_from(&self, context: usize, source: Rank, peer: Peer) -> bool {
        let Some(members) = &self.contexts[context].members else {
            return false;
        };
        if source >= 0 {
            members.pid(source) == Some(peer.0)
        } else {
            let lost = self.lost.get(&peer.0).is_some_and(|end| !end.in_order);
            let id = self.contexts[context].id;
            lost && !self.pardoned.contains(&(id, peer.0)) && members.rank_of(peer.0).is_some()
        }
    }

    /// What to say of an operation on `peer`, if it is lost.
    #[cold]
    pub(crate) fn lost_error(&self, peer: Peer) -> Option<Error> {
        self.lost.get(&peer.0).map(|end| ended(&end.why))
    }

    /// Whether a send to `peer` may begin, whose way there is `closed` or not.
    ///
    /// # Errors
    /// The peer is lost, or cannot be reached any more.
    #[inline]
    pub(crate) fn check_way(&self, peer: Peer, closed: bool) -> Result<()> {
        if !self.lost.is_empty()
            && let Some(error) = self.lost_error(peer)
        {
            return Err(error);
        }
        if closed {
            return fail!(ERR_PROC_ABORTED: "{peer} cannot be reached any more");
        }
        Ok(())
    }

    /// A receive was posted while peers are lost: it fails if it waits for one of them.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse_lost(&mut self, handle: usize, context: usize, source: Rank) {
        let Some(error) = self.lost_source(context, source) else {
            return;
        };
        let gone = match self.requests.get(handle) {
            Some(request) => request.complete,
            None => true,
        };
        if gone || !C::give_up(self, handle) {
            return;
        }
        self.contexts[context].queues.cancel(source, handle);
        self.fail(handle, error);
    }
}
