//! Packets without a number, and what packets say by the way.
//!
//! Cost class: queued path.

use super::wire::{self, CHECKED, Op, PacketKind, Word, Writer};
use farpost_fabric::{Fabric, PACKET_BYTES, Peer, Port, Priority, TrySend};

/// Acknowledgements that travel with packets of the other direction.
pub trait Piggyback {
    /// What to acknowledge in a packet of channel `index` to `peer`: flags and number.
    fn acknowledgement(&mut self, peer: Peer, index: usize) -> (u8, u16);
    /// That packet did not go.
    fn untold(&mut self, peer: Peer, index: usize, flags: u8);
}

/// Send a control packet. False: no room.
pub fn control<F: Fabric>(
    (fabric, port): (&F, Port),
    (to, checked): (Peer, bool),
    op: Op,
    index: usize,
    (tag, seq): (u16, u16),
    arguments: &[u64],
) -> bool {
    let mut packet = [0; PACKET_BYTES];
    let mut writer = Writer::new(&mut packet, checked);
    for argument in arguments {
        writer.put(&argument.to_le_bytes());
    }
    let len = writer.len();
    let word = Word {
        kind: PacketKind::Control,
        flags: if checked { CHECKED } else { 0 },
        second: op as u8 | (index as u8) << 7,
        seq,
        tag,
        ack: 0,
    };
    let bytes = wire::finish(&mut packet, len, word);
    let sent = fabric.try_send(to, port, Priority::High, bytes) == TrySend::Sent;
    if sent {
        fabric.wake(to);
    }
    sent
}
