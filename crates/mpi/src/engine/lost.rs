//! Peers that the fabric has given up: what depends on them fails, at once and from then on.
//!
//! Cost class: *set-up path*; the fast path asks whether there are any.

use super::{Engine, Outgoing};
use crate::engine::request::{Operation, RecvState, Request, SendState};
use crate::{Error, ErrorClass, Rank};
use farpost_fabric::{Fabric, FabricError, Fault, Peer};

impl<F: Fabric> Engine<F> {
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
                self.lose(*peer, &error.to_string());
            }
            self.faults.push(fault);
        }
        any
    }

    pub(crate) fn lose(&mut self, peer: Peer, why: &str) {
        if !self.lost.contains_key(&peer.0) {
            // What it sent before it ended has arrived all the same.
            if self.portals.is_none() {
                while self.post.has_sender(peer) && self.drain(peer, true) {}
            }
            self.lost.insert(peer.0, why.to_owned());
            self.fail_waiting(peer, why);
        }
    }

    /// Fail what waits for peers whose queues, from or to them, were closed just now.
    #[cold]
    pub(crate) fn fail_closed(&mut self) {
        let (faults, _) = self.fabric.take_faults();
        for fault in faults {
            let Fault { peer, error } = &fault;
            if matches!(error, FabricError::PeerDead { .. }) {
                self.lose(*peer, &error.to_string());
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
            (None, Some(known)) => known.clone(),
            (None, None) => format!("{peer} cannot be reached"),
        };
        if cause.is_some_and(|fault| matches!(fault.error, FabricError::PeerDead { .. })) {
            self.lost.entry(peer.0).or_insert_with(|| why.clone());
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
            if self.portals.is_some() && !self.give_up_by_portals(handle) {
                continue;
            }
            self.detach_from_queues(handle);
            self.release_memory(handle);
            let error = Error::new(ErrorClass::ERR_PROC_ABORTED, why.to_owned());
            self.complete(handle, |status| status.error = Some(Box::new(error)));
        }
        self.outgoing[peer.index()] = Outgoing::default();
        self.retire_if_empty(peer);
    }

    /// No transfer touches the memory of a request any more.
    fn release_memory(&self, handle: usize) {
        match self.requests.get(handle).map(|request| &request.operation) {
            Some(Operation::Send(send)) => match send.state {
                SendState::Offered { key: Some(key), .. } => self.fabric.withdraw(key),
                SendState::Tailed { number } => self.fabric.release_tail(send.peer, number),
                _ => {}
            },
            Some(Operation::Recv(recv)) => match recv.state {
                RecvState::Fetching { ticket, .. } => self.fabric.cancel_transfer(ticket),
                RecvState::Landing {
                    peer, number, total, ..
                } => self.fabric.drop_tail(peer, number, total as usize),
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
            self.lost.contains_key(&peer.0) && members.rank_of(peer.0).is_some()
        }
    }

    /// What to say of an operation on `peer`, if it is lost.
    #[cold]
    pub(crate) fn lost_error(&self, peer: Peer) -> Option<Error> {
        let why = self.lost.get(&peer.0)?;
        Some(Error::new(ErrorClass::ERR_PROC_ABORTED, why.clone()))
    }

    /// A receive was posted while peers are lost: it fails if it waits for one of them.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse_lost(&mut self, handle: usize, context: usize, source: Rank) {
        let lost = self.lost.keys().map(|peer| Peer(*peer));
        let Some(peer) = lost
            .into_iter()
            .find(|peer| self.may_come_from(context, source, *peer))
        else {
            return;
        };
        let gone = match self.requests.get(handle) {
            Some(request) => request.complete,
            None => true,
        };
        if gone || self.portals.is_some() && !self.give_up_by_portals(handle) {
            return;
        }
        self.contexts[context].queues.cancel(source, handle);
        let error = self.lost_error(peer).map(Box::new);
        self.complete(handle, |status| status.error = error);
    }
}
