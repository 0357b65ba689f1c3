//! The reject queue (paper, sections 4.4 and 4.5): frames that came back because their receiver had no room, until they
//! are sent again. The host writes it and the host reads it. It cannot overflow: each frame in it has a slot of the
//! [window](crate::window).
//!
//! A frame is sent again when its receiver acknowledges something, which says that it makes room, or when a number of
//! turns has passed that doubles with each return: turns are calls that move the network. Few are sent again per turn,
//! so that what arrives is not starved.

use crate::wire::{Frame, FrameKind, Header};

/// Turns until a frame is sent again the first time, and at most.
const FIRST: u32 = 2;
const DOUBLINGS: u32 = 5;

struct RejectedFrame<const WORDS: usize> {
    frame: Frame<WORDS>,
    header: Header,
    due: u32,
}

/// The frames that came back.
pub struct RejectQueue<const WORDS: usize> {
    held: Vec<RejectedFrame<WORDS>>,
    /// Pieces among them.
    pieces: usize,
}

impl<const WORDS: usize> RejectQueue<WORDS> {
    pub fn new(slots: u32) -> Self {
        Self {
            held: Vec::with_capacity(slots as usize),
            pieces: 0,
        }
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether pieces to `peer` are back: later ones would only follow them.
    #[inline(always)]
    pub fn holds_pieces(&self, peer: u32) -> bool {
        let piece =
            |held: &RejectedFrame<WORDS>| held.frame.peer == peer && held.header.kind == FrameKind::Piece;
        self.pieces > 0 && self.held.iter().any(piece)
    }

    /// A frame is back; a slot is reserved for it.
    pub fn put(&mut self, frame: &Frame<WORDS>, header: &Header, turn: u32) {
        debug_assert!(self.held.len() < self.held.capacity());
        let wait = FIRST << u32::from(header.tries).min(DOUBLINGS);
        self.pieces += usize::from(header.kind == FrameKind::Piece);
        self.held.push(RejectedFrame {
            frame: *frame,
            header: *header,
            due: turn.wrapping_add(wait),
        });
    }

    /// `peer` makes room.
    pub fn hurry(&mut self, peer: u32, turn: u32) {
        for held in &mut self.held {
            if held.frame.peer == peer {
                held.due = turn;
            }
        }
    }

    /// The network takes nothing for `peer` now: its frames are due again in the next turn.
    #[cold]
    pub fn delay(&mut self, peer: u32, turn: u32) {
        for held in &mut self.held {
            if held.frame.peer == peer {
                held.due = turn.wrapping_add(1);
            }
        }
    }

    /// Time has passed that turns do not show.
    pub fn hurry_all(&mut self, turn: u32) {
        for held in &mut self.held {
            held.due = turn;
        }
    }

    /// A frame that is due. It stays until [`taken`](RejectQueue::taken): its place.
    pub fn due(&self, turn: u32) -> Option<usize> {
        let is_due = |held: &RejectedFrame<WORDS>| turn.wrapping_sub(held.due) as i32 >= 0;
        let at = self.held.iter().position(is_due)?;
        let first = &self.held[at];
        if first.header.kind != FrameKind::Piece {
            return Some(at);
        }
        // Pieces go in order: the first of those to the same peer.
        let same = |held: &&(usize, &RejectedFrame<WORDS>)| {
            held.1.header.kind == FrameKind::Piece && held.1.frame.peer == first.frame.peer
        };
        let seq = first.header.seq;
        let oldest = self.held.iter().enumerate().filter(|one| same(&one));
        oldest
            .min_by_key(|(_, held)| held.header.seq.wrapping_sub(seq) as i16)
            .map(|(at, _)| at)
    }

    /// The frame at a place.
    pub fn at(&self, at: usize) -> (Frame<WORDS>, Header) {
        (self.held[at].frame, self.held[at].header)
    }

    /// The frame at a place has been sent.
    pub fn taken(&mut self, at: usize) {
        let held = self.held.swap_remove(at);
        self.pieces -= usize::from(held.header.kind == FrameKind::Piece);
    }

    /// `peer` is gone.
    pub fn forget(&mut self, peer: u32) {
        self.held.retain(|held| held.frame.peer != peer);
        self.pieces = self
            .held
            .iter()
            .filter(|held| held.header.kind == FrameKind::Piece)
            .count();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pieces_go_again_in_order_and_messages_when_due() {
        let mut queue = RejectQueue::new(8);
        let mut put = |peer, kind, seq, tries, turn| {
            let header = Header {
                seq,
                tries,
                ..Header::new(kind, 0, 0, 0)
            };
            queue.put(&Frame::new(peer, &header, &[]), &header, turn);
        };
        let start = u32::MAX - 1;
        put(1, FrameKind::Piece, 1, 1, start);
        put(1, FrameKind::Piece, 0xffff, 2, start);
        put(2, FrameKind::Message, 0, 200, start);
        put(1, FrameKind::Piece, 0, 1, start);
        assert!(queue.holds_pieces(1) && !queue.holds_pieces(2));
        assert_eq!(queue.due(start.wrapping_add(3)), None);
        let mut seen = Vec::new();
        while let Some(at) = queue.due(start.wrapping_add(4)) {
            seen.push(queue.at(at).1.seq);
            queue.taken(at);
            queue.hurry(1, start);
        }
        assert_eq!(seen, [0xffff, 0, 1]);
        assert_eq!(queue.due(start.wrapping_add(63)), None);
        assert!(queue.due(start.wrapping_add(64)).is_some());
        queue.forget(2);
        assert!(queue.is_empty());
    }
}
