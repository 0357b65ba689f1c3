//! Packets between the RSMAPI of two processes.

/// What a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketKind {
    /// Importer to exporter: I am connected.
    Connect = 1,
    /// Importer to exporter: not any more.
    Disconnect = 2,
    /// Importer to exporter: `count` events.
    SignalExporter = 3,
    /// Exporter to importer: `count` events.
    SignalImporter = 4,
    /// Exporter to importer: the segment is withdrawn.
    Abort = 5,
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    pub kind: PacketKind,
    /// Of a signal: discard it when one is pending.
    pub single: bool,
    /// Of the exporter's directory.
    pub slot: u32,
    pub generation: u64,
    /// The importer's number for the connection.
    pub connection: u32,
    /// Events, or the permissions asked for.
    pub count: u32,
}

const VERSION: u8 = 1;
const BYTES: usize = 32;

impl Packet {
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[0] = self.kind as u8;
        bytes[1] = VERSION;
        bytes[2] = u8::from(self.single);
        bytes[4..8].copy_from_slice(&self.slot.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.generation.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.connection.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.count.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != BYTES || bytes[1] != VERSION || bytes[2] > 1 {
            return None;
        }
        let kind = match bytes[0] {
            1 => PacketKind::Connect,
            2 => PacketKind::Disconnect,
            3 => PacketKind::SignalExporter,
            4 => PacketKind::SignalImporter,
            5 => PacketKind::Abort,
            _ => return None,
        };
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Some(Self {
            kind,
            single: bytes[2] == 1,
            slot: word(4),
            generation: u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes")),
            connection: word(16),
            count: word(20),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_and_malformed_packets_do_not() {
        let packet = Packet {
            kind: PacketKind::SignalImporter,
            single: true,
            slot: 3,
            generation: u64::MAX - 1,
            connection: 77,
            count: 5,
        };
        let bytes = packet.encode();
        assert_eq!(Packet::decode(&bytes), Some(packet));
        assert_eq!(Packet::decode(&bytes[1..]), None);
        for (at, value) in [(0, 0), (0, 6), (1, 0), (2, 2)] {
            let mut bad = bytes;
            bad[at] = value;
            assert_eq!(Packet::decode(&bad), None);
        }
    }
}
