//! What is kept about each process that is sent to.
//!
//! Cost class: fast path.

use super::by_lines::KeptInLines;
use crate::net::go_back_n::SendConnection;
use crate::net::queue::MessageQueue;
use farpost_fabric::{Fabric, Peer};

/// How messages get to a target.
pub enum SendPath {
    /// In packets: to those whose memory is not mapped, and to others until they say that they have lines.
    Packets(SendConnection),
    /// By lines, which lose and refuse nothing; what is kept there of each channel.
    Lines([KeptInLines; 2]),
}

/// What is kept about a process that is sent to.
pub struct Target<F: Fabric> {
    pub peer: Peer,
    pub bell: F::Bell,
    /// Routes of bodies that do not work with this peer.
    pub not: u8,
    pub checked: bool,
    pub dead: bool,
    /// Lines can go there.
    pub near: bool,
    /// In the list of those that have something to send.
    pub active: bool,
    pub path: SendPath,
    pub queues: [MessageQueue; 2],
}

impl<F: Fabric> Target<F> {
    pub fn is_idle(&self) -> bool {
        self.queues.iter().all(MessageQueue::is_empty)
    }

    /// What a queue of it that begins or ends to have messages adds to those that share structures.
    #[inline(always)]
    pub fn counts(&self, index: usize) -> usize {
        if self.near { 0 } else { index }
    }

    pub fn has_waiting(&self) -> bool {
        self.queues.iter().any(MessageQueue::has_waiting)
    }

    /// Whether it has as many pendings as it may: it leaves `reserve`, and has at most three times what it leaves free.
    #[inline(always)]
    pub fn has_share(&self, index: usize, free: usize, reserve: usize) -> bool {
        let count = self.queues[index].count();
        count > 0 && (free <= reserve || count >= 3 * free)
    }

    /// Whether there was a refusal, and nobody has looked since whether the pause after it is over.
    #[inline(always)]
    pub fn is_waiting(&self) -> bool {
        matches!(&self.path, SendPath::Packets(connection) if connection.is_waiting())
    }

    /// Whether a pause after a refusal lasts.
    #[inline(always)]
    pub fn pauses(&mut self, turn: u64) -> bool {
        match &mut self.path {
            SendPath::Packets(connection) => connection.pauses(turn),
            SendPath::Lines(_) => false,
        }
    }

    /// Whether what waits, if anything, waits for acknowledgements alone.
    #[inline(always)]
    pub fn is_blocked(&self, window: u16) -> bool {
        match &self.path {
            SendPath::Packets(connection) => {
                let mut queues = self.queues.iter().enumerate();
                queues.all(|(index, queue)| !queue.has_waiting() || !connection.has_room(index, window))
            }
            SendPath::Lines(_) => !self.has_waiting(),
        }
    }

    /// The channels of which nothing waits and whose messages may go by lines, a bit each. What has gone as a packet before the receiver said that it
    /// has lines comes again, and so waits.
    pub fn open_lanes(&self) -> u8 {
        let by_lines = matches!(self.path, SendPath::Lines(_));
        let [answers, requests] = self
            .queues
            .each_ref()
            .map(|queue| !queue.has_waiting() && (by_lines || queue.is_empty()));
        if self.dead {
            0
        } else {
            u8::from(answers) | u8::from(requests) << 1
        }
    }
}
