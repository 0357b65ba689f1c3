//! Questions that processes ask each other about messages. Sends that the program would rather not have made: what was not matched
//! is dropped by its receiver, who is asked. Messages that are announced only: their sender is asked for a match entry by which
//! they can be fetched.
//!
//! Question and answer travel as credits do, in zero-length puts to the same portal. Each process asks another one thing at
//! a time, so that they need no more room there than the few events that are kept for every peer.

use super::{CREDITS, Portals, Seen, bits};
use crate::carrier::{Chosen, Engine};
use crate::engine::context::Held;
use farpost_fabric::{Fabric, Peer};
use farpost_portals::{AckReq, NetworkInterface, NiFail};
use std::collections::VecDeque;

/// Header data of what is no credit: bit 63. Below: bit 62 an answer, bit 61 what was asked for was dropped, bit 60 the message is
/// wanted (else: to be dropped), and from bit 0 the sender's name for the message.
const WORD: u64 = 1 << 63;
const ANSWER: u64 = 1 << 62;
const DROPPED: u64 = 1 << 61;
const WANTED: u64 = 1 << 60;

/// What one peer is asked, the first of which it has been.
#[derive(Default)]
pub(super) struct Asked(VecDeque<u64>);

/// A receive whose message has to be fetched, when its sender has said that it can be.
pub(super) struct Want {
    pub peer: Peer,
    pub id: u64,
    pub bytes: u64,
    pub request: usize,
}

/// Whether the header data of a put to [`CREDITS`] is a question or an answer of these.
#[inline]
pub(super) fn is_word(data: u64) -> bool {
    data & WORD != 0
}

impl<F: Fabric> Portals<F> {
    fn say(&mut self, peer: Peer, data: u64) {
        let target = self.target(peer, CREDITS, 0);
        let sent = self.ni.put(self.silent, AckReq::NoAck, &target, data);
        debug_assert!(Self::begun(sent), "{sent:?}");
        self.needs_progress = true;
    }

    /// Ask the receiver of send `index` to drop it.
    pub(crate) fn ask_back(&mut self, index: u32) {
        let Some((peer, id)) = self.sends.kept(index) else {
            return;
        };
        self.ask(peer, id);
    }

    fn ask(&mut self, peer: Peer, question: u64) {
        let asked = &mut self.asked[peer.index()].0;
        asked.push_back(question);
        if asked.len() == 1 {
            self.say(peer, WORD | question);
        }
    }

    /// Ask the sender of an announced message for it.
    pub(super) fn want(&mut self, want: Want) {
        self.ask(want.peer, WANTED | want.id);
        self.wants.push(want);
    }

    /// Nobody waits for what a receive wants: its sender, if it is not `lost`, need not keep it.
    pub(super) fn want_no_more(&mut self, request: usize, lost: bool) {
        let wants = self.wants.extract_if(.., |want| want.request == request);
        let at = self.later.iter().position(|want| want.request == request);
        let over: Vec<Want> = wants.chain(at.and_then(|at| self.later.remove(at))).collect();
        for want in over.iter().filter(|_| !lost) {
            self.notice(want.peer, want.id, NiFail::OK);
        }
    }

    /// Answer who wants announced messages, as far as there are match entries for them.
    pub(super) fn answer_wants(&mut self) {
        for (peer, id) in std::mem::take(&mut self.wanted) {
            if self.expose_announced(peer, id) {
                self.say(peer, WORD | ANSWER | WANTED | id);
            } else {
                self.wanted.push((peer, id));
            }
        }
    }

    /// The peer has answered about what it was asked first. The request of that send if it was dropped; `None` also
    /// if it is over by now. Error: it was not asked that.
    fn answered(&mut self, peer: Peer, data: u64) -> Result<Option<usize>, ()> {
        let asked = &mut self.asked[peer.index()].0;
        if asked.front() != Some(&(data & (WANTED | bits::NAME))) {
            return Err(());
        }
        asked.pop_front();
        if let Some(&next) = asked.front() {
            self.say(peer, WORD | next);
        }
        let of_name = self.sends.of_name(data & bits::NAME);
        let Some((_, index)) = of_name.filter(|(to, _)| *to == peer && data & DROPPED != 0) else {
            return Ok(None);
        };
        let request = self.sends.get(index).and_then(|sending| sending.request);
        self.abandon(index);
        Ok(request)
    }
}

impl<F: Fabric> Engine<F> {
    /// A question or an answer has come. False: it cannot be right.
    pub(super) fn on_word(&mut self, seen: &Seen) -> bool {
        let peer = seen.from;
        let portals = portals!(self, true);
        if seen.data & ANSWER != 0 {
            let Ok(dropped) = portals.answered(peer, seen.data) else {
                return false;
            };
            if seen.data & WANTED != 0 {
                self.fetch_wanted(peer, seen.data & bits::NAME);
                return true;
            }
            if let Some(handle) = dropped {
                self.complete(handle, |status| status.cancelled = true);
            }
            return true;
        }
        let id = seen.data & bits::NAME;
        if seen.data & WANTED != 0 {
            portals.wanted.push((peer, id));
            portals.answer_wants();
            return true;
        }
        let mut contexts = self.contexts.iter_mut();
        let held = contexts.find_map(|context| {
            context.queues.take_back(|message| match message.held {
                Held::Carried { number, .. } => message.peer == peer && portals.managed.is_kept(number, id),
                _ => false,
            })
        });
        let mut answer = WORD | ANSWER | id;
        if let Some(message) = held {
            if let Held::Carried { number, .. } = message.held {
                portals.drop_message(number);
            }
            answer |= DROPPED;
            let cost = message.cost();
            portals.say(peer, answer);
            self.discharge(peer, cost);
            return true;
        }
        portals.say(peer, answer);
        true
    }

    /// An announced message can be fetched now.
    fn fetch_wanted(&mut self, peer: Peer, id: u64) {
        let portals = portals!(self);
        let at = (portals.wants.iter()).position(|want| want.peer == peer && want.id == id);
        if let Some(want) = at.map(|at| portals.wants.swap_remove(at)) {
            self.fetch_kept(want);
        }
    }
}
