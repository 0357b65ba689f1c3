//! Control packets, by which connections are made and changed: of whom, and what they say.

use crate::area::Layout;
use farpost_fabric::{FabricError, Moment, Peer, Port, Priority, SegmentId};

/// Who uses channels: several may in one process, with areas and connections of their own.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// The port and priority of the packets that make connections; nobody else takes packets of both.
    pub control: (Port, Priority),
    /// The first of 2^17 segment ids.
    pub segments: u32,
    /// Processes that may be connected to, 0 to this.
    pub processes: u32,
}

impl Service {
    /// Postboxes between the `size` processes of a program. The segments are of the range that RSMAPI sets aside for Sun MPI (0x400000 to
    /// 0x4fffff).
    pub fn postboxes(size: u32) -> Self {
        Self {
            control: (Port::Postbox, Priority::High),
            segments: 0x40_0000,
            processes: size,
        }
    }

    pub(crate) fn area(&self) -> SegmentId {
        SegmentId(self.segments)
    }

    pub(crate) fn acks(&self) -> SegmentId {
        SegmentId(self.segments + 1)
    }

    pub(crate) fn area_for(&self, peer: Peer) -> SegmentId {
        SegmentId(self.segments + 0x1_0000 + peer.0)
    }
}

pub(crate) const HELLO: u8 = 1;
pub(crate) const WELCOME: u8 = 2;
/// A sender's [queue](crate::grow) is to have all its postboxes.
pub(crate) const GROW: u8 = 3;
const VERSION: u8 = 1;

/// A control packet: its sender, what it says if it says something, and its first bytes.
pub(crate) type Control = (Peer, Option<(u8, u16, Layout)>, u64);

/// A packet that found the queue full and waits to be sent.
pub(crate) struct PendingConnection {
    pub(crate) peer: Peer,
    pub(crate) kind: u8,
    /// The low half of a count of postboxes, of [`GROW`].
    pub(crate) count: u16,
    pub(crate) layout: Layout,
}

pub(crate) fn encode(kind: u8, count: u16, layout: &Layout) -> [u8; 20] {
    let mut packet = [0; 20];
    packet[0] = kind;
    packet[1] = VERSION;
    packet[2..4].copy_from_slice(&count.to_le_bytes());
    for (to, value) in
        packet[4..]
            .chunks_exact_mut(4)
            .zip([layout.queues, layout.slots, layout.block, layout.blocks])
    {
        to.copy_from_slice(&value.to_le_bytes());
    }
    packet
}

pub(crate) fn decode(packet: &[u8]) -> Option<(u8, u16, Layout)> {
    if packet.len() != 20 || packet[1] != VERSION {
        return None;
    }
    let word = |at: usize| u32::from_le_bytes(packet[at..at + 4].try_into().expect("four bytes"));
    let layout = Layout {
        queues: word(4),
        slots: word(8),
        block: word(12),
        blocks: word(16),
    };
    let count = u16::from_le_bytes([packet[2], packet[3]]);
    layout.plausible().then_some((packet[0], count, layout))
}

/// Descriptors or memory were lacking to make a connection.
pub(crate) struct Lack {
    /// Who has said hello; none: my own area could not be made.
    pub(crate) hello: Option<(Peer, Layout)>,
    pub(crate) since: Moment,
    pub(crate) error: FabricError,
}
