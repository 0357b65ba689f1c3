//! Whose answers are awaited, and what becomes of that when a process ends. Set-up path.

use super::Library;
use super::table::Key;
use crate::types::NiFail;

impl Library {
    /// Whose answers are awaited.
    pub fn awaited(&self) -> Vec<u32> {
        let mut peers: Vec<u32> = self
            .operations
            .iter()
            .filter(|(_, o)| o.waits_for_answer())
            .map(|(_, o)| o.peer)
            .collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }

    /// The first process whose answer is awaited of which `which` is true. Nothing is allocated.
    pub fn awaited_of(&self, mut which: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut asked = None;
        self.operations
            .iter()
            .filter(|(_, o)| o.waits_for_answer())
            .map(|(_, o)| o.peer)
            .find(|peer| asked.replace(*peer) != Some(*peer) && which(*peer))
    }

    /// Process `peer` has ended: what waits for an answer from it ends with an ACK or a REPLY_START and REPLY_END that
    /// say so. What the network layer still has of it is ended by [`finished`](Library::finished), as always. The
    /// document leaves open what an initiator is told of a node that dies.
    pub fn peer_ended(&mut self, peer: u32) {
        let waiting: Vec<Key> = self
            .operations
            .iter()
            .filter(|(_, o)| o.peer == peer && o.waits_for_answer())
            .map(|(key, _)| key)
            .collect();
        for key in waiting {
            self.fail_answer(key, NiFail::UNDELIVERABLE);
        }
    }
}
