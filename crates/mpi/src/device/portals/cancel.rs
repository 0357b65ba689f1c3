//! Sends that the program would rather not have made: what was not matched is dropped by its receiver, who is asked.
//!
//! Question and answer travel as credits do, in zero-length puts to the same portal. Each process asks another one thing at
//! a time, so that they need no more room there than the few events that are kept for every peer.

use super::{CREDITS, Portals, Seen};
use crate::engine::Engine;
use crate::engine::context::Held;
use farpost_fabric::{Fabric, Peer};
use farpost_portals::{AckReq, NetworkInterface};
use std::collections::VecDeque;

/// Header data of what is no credit: bit 63. Below: bit 62 an answer, bit 61 what was asked for was dropped, and from bit 0 the
/// sender's name for the message.
const WORD: u64 = 1 << 63;
const ANSWER: u64 = 1 << 62;
const DROPPED: u64 = 1 << 61;

/// Messages that one peer is asked to drop, the first of which it has been.
#[derive(Default)]
pub(super) struct Asked(VecDeque<u32>);

/// Whether the header data of a put to [`CREDITS`] is a question or an answer of these.
#[inline]
pub(super) fn is_word(data: u64) -> bool {
    data & WORD != 0
}

impl<F: Fabric> Portals<F> {
    fn say(&mut self, peer: Peer, data: u64) {
        let target = self.target(peer, CREDITS, 0);
        let sent = self.ni.put(self.silent, AckReq::NoAck, &target, data);
        debug_assert!(sent.is_ok(), "{sent:?}");
        self.stirred = true;
    }

    /// Ask the receiver of send `index` to drop it.
    pub(crate) fn ask_back(&mut self, index: u32) {
        let Some((peer, id)) = self.sends.kept(index) else {
            return;
        };
        let asked = &mut self.asked[peer.index()].0;
        asked.push_back(id);
        if asked.len() == 1 {
            self.say(peer, WORD | u64::from(id));
        }
    }

    /// The peer has answered about what it was asked first. The request of that send if it was dropped; `None` also
    /// if it is over by now. Error: it was not asked that.
    fn answered(&mut self, peer: Peer, data: u64) -> Result<Option<usize>, ()> {
        let asked = &mut self.asked[peer.index()].0;
        if asked.front() != Some(&(data as u32)) {
            return Err(());
        }
        asked.pop_front();
        if let Some(&next) = asked.front() {
            self.say(peer, WORD | u64::from(next));
        }
        let index = data as u32 & 0xffff;
        if data & DROPPED == 0 || self.sends.kept(index) != Some((peer, data as u32)) {
            return Ok(None);
        }
        let request = self.sends.get(index).and_then(|sending| sending.request);
        self.abandon(index);
        Ok(request)
    }
}

impl<F: Fabric> Engine<F> {
    /// A question or an answer has come. False: it cannot be right.
    pub(super) fn on_word(&mut self, seen: &Seen) -> bool {
        let peer = seen.from;
        let Some(portals) = &mut self.portals else {
            return true;
        };
        if seen.data & ANSWER != 0 {
            let Ok(dropped) = portals.answered(peer, seen.data) else {
                return false;
            };
            if let Some(handle) = dropped {
                self.complete(handle, |status| status.cancelled = true);
            }
            return true;
        }
        let id = seen.data as u32;
        let mut contexts = self.contexts.iter_mut();
        let held = contexts.find_map(|context| {
            context.queues.take_back(|message| match message.held {
                Held::ByPortals { message: number, .. } => {
                    message.peer == peer && portals.managed.is_kept(number, id)
                }
                _ => false,
            })
        });
        let mut answer = WORD | ANSWER | u64::from(id);
        if let Some(message) = held {
            if let Held::ByPortals { message: number, .. } = message.held {
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
}
