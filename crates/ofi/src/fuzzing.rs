//! For the fuzz targets: what the messages of two peers do, without libfabric.

use crate::link::Link;
use crate::packet_queues::Packets;
use crate::segment_table::{Segments, Wrong};
use farpost_fabric::{LANES, LocalMemory, Peer, Permission, Result, SegmentId};
use farpost_mapped::Mapping;
use std::rc::Rc;

pub use crate::wire::{Parsed, Small, control, parse, word};

/// Packets that may be under way.
pub const WINDOW: u32 = 8;
pub const BYTES: usize = 4096;

/// A process with a segment for its peer 1 to write, one for it to read, one that was withdrawn, and one of peer 2's; their handles are
/// 0 to 3.
pub struct Receiver {
    segments: Segments,
    memory: Vec<Mapping>,
    links: [Rc<Link>; 2],
    packets: Packets,
    pub blamed: Vec<(Peer, Wrong)>,
}

impl Receiver {
    pub fn new() -> Result<Self> {
        let links = [1, 2].map(|peer| Rc::new(Link::new(Peer(0), Peer(peer), &[5; 32])));
        let segments = Segments::default();
        let mut memory = Vec::new();
        for (id, peer, permission) in [
            (10, 0, Permission::ReadWrite),
            (11, 0, Permission::Read),
            (12, 0, Permission::ReadWrite),
            (13, 1, Permission::ReadWrite),
        ] {
            let one = Mapping::private(BYTES, (Peer(0), SegmentId(id)))?;
            segments.grant(&links[peer], id, &one, permission);
            memory.push(one);
        }
        segments.void_all(SegmentId(12));
        Ok(Self {
            segments,
            memory,
            links,
            packets: Packets::new(WINDOW),
            blamed: Vec::new(),
        })
    }

    /// A message came. `from`: the peer whose tokens its sender knows. False: it is none of the job's.
    pub fn arrived(&mut self, from: Peer, bytes: &[u8]) -> bool {
        let Some((_, message)) = parse(bytes) else {
            return false;
        };
        if let Parsed::Control {
            sender,
            what,
            argument,
            rest,
        } = message
        {
            let link = self
                .links
                .iter()
                .find(|link| link.peer.0 == sender && link.peer == from);
            let Some(link) = link else { return false };
            let done = match what {
                control::PACKET => self.packets.arrived(link, argument, rest),
                control::CREDIT => {
                    word(rest, 0).and_then(|count| self.packets.credited(link, argument, count))
                }
                _ => return false,
            };
            if done.is_none() {
                self.blamed.push((link.peer, ("a control message", what.into())));
            }
            return true;
        }
        let admitted = std::cell::Cell::new(true);
        let admit = |link: &Rc<Link>| {
            admitted.set(link.peer == from);
            link.peer == from
        };
        let blamed = &mut self.blamed;
        let known = self
            .segments
            .deliver(message, admit, |link, wrong| blamed.push((link.peer, wrong)));
        known && admitted.get()
    }

    /// A packet goes to `to`, if its window has room.
    pub fn sends(&self, to: Peer, lane: usize) {
        let credits = &self.links[to.index() - 1].credits[lane];
        if self.under_way(to, lane) < WINDOW {
            credits.sent.set(credits.sent.get().wrapping_add(1));
        }
    }

    /// Packets to `to` that it has not taken.
    pub fn under_way(&self, to: Peer, lane: usize) -> u32 {
        let credits = &self.links[to.index() - 1].credits[lane];
        credits.sent.get().wrapping_sub(credits.returned.get())
    }

    /// Ports and priorities.
    pub fn lanes(&self) -> usize {
        LANES
    }

    /// What a segment holds, by its handle.
    pub fn bytes(&self, handle: usize) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        self.memory[handle].read(0, &mut bytes);
        bytes
    }
}
