//! The network window (paper, section 4.5): one slot in the reject queue is reserved for each frame that is outstanding,
//! whomever it went to. It is free again when the frame is acknowledged. No slot, no sending.

use crate::wire::{Acks, FrameKind, Header, Malformed};
use farpost_fabric::PeerMap;

/// What is outstanding at one peer.
#[derive(Clone, Copy, Default)]
pub struct Outstanding {
    /// Slots reserved for frames to this peer, wherever the frames are.
    slots: u16,
    /// Messages that the peer may acknowledge or return.
    messages: u16,
    /// Pieces that the peer may acknowledge or return.
    pieces: u16,
    /// Slots reserved for pieces.
    streamed: u16,
    /// Number of the next piece.
    next: u16,
}

fn idle(out: &Outstanding) -> bool {
    out.slots == 0
}

/// The slots of a node.
pub struct Window {
    /// Peers that hold slots.
    active: u32,
    free: u32,
    slots: u32,
    peers: PeerMap<Outstanding>,
}

impl Window {
    pub fn new(slots: u32) -> Self {
        Self {
            active: 0,
            free: slots,
            slots,
            // Whoever has something outstanding holds a slot.
            peers: PeerMap::new(slots as usize),
        }
    }

    /// Slots not reserved.
    #[inline(always)]
    pub fn free(&self) -> u32 {
        self.free
    }

    /// All slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Whether nothing is outstanding.
    pub fn is_idle(&self) -> bool {
        self.free == self.slots
    }

    /// Whether less than a quarter of the slots is free.
    #[inline(always)]
    pub fn is_scarce(&self) -> bool {
        self.free < self.slots / 4
    }

    /// Reserve a slot for a frame to `peer`: its number, if it is a piece. None: no slot is free.
    #[inline(always)]
    pub fn reserve(&mut self, peer: u32, kind: FrameKind) -> Option<u16> {
        if self.free == 0 {
            return None;
        }
        let out = self.peers.enter(peer, idle)?;
        self.free -= 1;
        self.active += u32::from(out.slots == 0);
        out.slots += 1;
        if kind == FrameKind::Message {
            return Some(0);
        }
        let seq = out.next;
        out.next = seq.wrapping_add(1);
        out.streamed += 1;
        Some(seq)
    }

    /// Whether `peer` has as much as it may while others need slots too: it leaves one to each of the `others` that has none,
    /// and has at most three times what it leaves free.
    #[inline(always)]
    pub fn has_share(&mut self, peer: u32, others: u32) -> bool {
        let (free, idle) = (self.free, others.saturating_sub(self.active));
        self.peers.get(peer).is_some_and(|out| {
            out.slots > 0 && (free <= idle || u32::from(out.slots) >= free.saturating_mul(3))
        })
    }

    /// The frame to `peer` for which a slot was reserved last does not go.
    #[cold]
    pub fn unreserve(&mut self, peer: u32, kind: FrameKind) {
        if let Some(out) = self.peers.get(peer) {
            out.slots -= 1;
            self.active -= u32::from(out.slots == 0);
            self.free += 1;
            if kind != FrameKind::Message {
                out.next = out.next.wrapping_sub(1);
                out.streamed -= 1;
            }
        }
    }

    /// Whether piece `seq` to `peer` is the oldest outstanding. None: nothing is outstanding there, the peer was lost.
    #[inline(always)]
    pub fn is_oldest(&mut self, peer: u32, header: &Header) -> Option<bool> {
        let out = self.peers.get(peer)?;
        if out.slots == 0 {
            return None;
        }
        Some(header.kind == FrameKind::Piece && out.next.wrapping_sub(header.seq) == out.streamed)
    }

    /// A frame to `peer` has left.
    #[inline(always)]
    pub fn left(&mut self, peer: u32, kind: FrameKind) {
        if let Some(out) = self.peers.get(peer) {
            match kind {
                FrameKind::Message => out.messages += 1,
                _ => out.pieces += 1,
            }
        }
    }

    /// `peer` acknowledges frames.
    #[inline(always)]
    pub fn acknowledged(&mut self, peer: u32, acks: Acks) -> Result<(), Malformed> {
        let out = match self.peers.get(peer) {
            Some(out) if acks.messages <= out.messages && acks.pieces <= out.pieces => out,
            _ => {
                return Err(Malformed {
                    what: "the number of frames acknowledged",
                    value: u64::from(acks.total()),
                });
            }
        };
        out.messages -= acks.messages;
        out.pieces -= acks.pieces;
        out.streamed -= acks.pieces;
        let had = out.slots;
        out.slots -= acks.messages + acks.pieces;
        self.active -= u32::from(had > 0 && out.slots == 0);
        self.free += acks.total();
        Ok(())
    }

    /// `peer` returns a frame; its slot stays reserved, and is what the frame goes into.
    pub fn returned(&mut self, peer: u32, header: &Header) -> Result<(), Malformed> {
        let out = self.peers.get(peer);
        let known = match (&out, header.kind) {
            (Some(out), FrameKind::Message) => out.messages > 0,
            (Some(out), FrameKind::Piece) => {
                let age = out.next.wrapping_sub(header.seq);
                out.pieces > 0 && age > 0 && age <= out.streamed
            }
            _ => false,
        };
        match out {
            Some(out) if known => {
                match header.kind {
                    FrameKind::Message => out.messages -= 1,
                    _ => out.pieces -= 1,
                }
                Ok(())
            }
            _ => Err(Malformed {
                what: "a returned frame that is outstanding",
                value: u64::from(header.seq),
            }),
        }
    }

    /// `peer` is gone: its slots are free. How many they were.
    pub fn forget(&mut self, peer: u32) -> u32 {
        let Some(out) = self.peers.get(peer) else { return 0 };
        let freed = u32::from(out.slots);
        *out = Outstanding::default();
        self.active -= u32::from(freed > 0);
        self.free += freed;
        freed
    }

    /// Peers that hold slots, one call each.
    pub fn for_each(&mut self, mut see: impl FnMut(u32)) {
        for at in 0..self.peers.len() {
            if let Some((peer, out)) = self.peers.entry(at)
                && out.slots > 0
            {
                see(peer);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn acks(messages: u16, pieces: u16) -> Acks {
        Acks { messages, pieces }
    }

    #[test]
    fn slots_are_over_all_destinations() {
        let mut window = Window::new(4);
        for peer in 0..4 {
            assert_eq!(window.reserve(peer * 1000, FrameKind::Message), Some(0));
            window.left(peer * 1000, FrameKind::Message);
        }
        assert_eq!(window.reserve(7, FrameKind::Message), None);
        assert_eq!(window.acknowledged(2000, acks(1, 0)), Ok(()));
        assert!(
            window.acknowledged(2000, acks(1, 0)).is_err(),
            "nothing more is there"
        );
        assert!(
            window.acknowledged(1000, acks(0, 1)).is_err(),
            "no piece is there"
        );
        assert!(window.reserve(7, FrameKind::Message).is_some());
        assert_eq!(window.forget(1000), 1);
        assert!(window.acknowledged(1000, acks(1, 0)).is_err());
        assert_eq!(window.free(), 1);
    }

    #[test]
    fn who_takes_nothing_leaves_slots_to_others() {
        // Of twelve others eleven take nothing.
        let mut window = Window::new(16);
        for peer in 1..=11 {
            while !window.has_share(peer, 12) {
                window.reserve(peer, FrameKind::Piece).unwrap();
            }
        }
        let free = window.free();
        assert!(free > 0);
        for _ in 0..10 {
            assert!(!window.has_share(12, 12));
            let seq = window.reserve(12, FrameKind::Piece).unwrap();
            window.unreserve(12, FrameKind::Piece);
            assert_eq!(
                window.reserve(12, FrameKind::Piece),
                Some(seq),
                "as if it had never been"
            );
            window.left(12, FrameKind::Piece);
            assert_eq!(window.acknowledged(12, acks(0, 1)), Ok(()));
            assert_eq!(window.free(), free);
        }
    }

    #[test]
    fn the_oldest_piece_is_known() {
        let mut window = Window::new(4);
        let piece = |seq| Header {
            seq,
            ..Header::new(FrameKind::Piece, 0, 0, 0)
        };
        for seq in 0..3 {
            assert_eq!(window.reserve(1, FrameKind::Piece), Some(seq));
            window.left(1, FrameKind::Piece);
        }
        assert_eq!(window.is_oldest(1, &piece(0)), Some(true));
        assert_eq!(window.is_oldest(1, &piece(1)), Some(false));
        assert_eq!(window.acknowledged(1, acks(0, 1)), Ok(()));
        assert_eq!(window.is_oldest(1, &piece(1)), Some(true));
        assert!(window.returned(1, &piece(0)).is_err(), "acknowledged");
        assert!(window.returned(1, &piece(3)).is_err(), "never sent");
        assert_eq!(window.returned(1, &piece(1)), Ok(()));
        assert_eq!(window.returned(1, &piece(2)), Ok(()));
        assert!(window.returned(1, &piece(2)).is_err(), "both are back");
        assert!(window.acknowledged(1, acks(0, 1)).is_err(), "both are back");
    }
}
