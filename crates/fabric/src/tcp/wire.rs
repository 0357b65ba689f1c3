//! What two processes say to each other: frames, each a header and a payload, on a stream that keeps the order.
//!
//! Cost class: *fast path*. Numbers are little-endian. Everything decoded here is input from another process;
//! what needs knowledge of segments, keys and transfers is checked by who has it.

use crate::LINE_BYTES;

/// Bytes of a header.
pub const HEAD: usize = 24;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Payload to `at` in the segment of handle `id`.
    Put = 1,
    /// The same, one word.
    Word = 2,
    /// The same, a line; words of zero at its end are left out.
    Line = 3,
    /// A packet; the flag is its priority.
    Packet = 4,
    /// `id` more packets of priority flag may be sent.
    Credit = 5,
    /// Answer when all before this is done; `id` is the number of the fence.
    Fence = 6,
    /// The answer; `at` counts the puts refused so far.
    Fenced = 7,
    /// Send bytes from `at` in the segment of handle `id`. Payload: [`Wanted`].
    Get = 8,
    /// Bytes of the transfer `id`, from its byte `at` on.
    Piece = 9,
    /// The transfer `id` is refused.
    Refused = 10,
    /// The segment `id` has handle `at`; the flag is what the receiver of this may do. Payload: [`Wanted`], with the
    /// segment's bytes, and the token of the question if it is an answer.
    Segment = 11,
    /// Which handle has segment `id`? `at` is a token.
    Find = 12,
    /// The segment of handle `id` is withdrawn.
    Forget = 13,
    /// The answer to that.
    Forgotten = 14,
    /// Send bytes from `at` of what key `id` exposes. Payload: [`Wanted`].
    BulkGet = 15,
    /// I will send bytes for `at` of what key `id` exposes. Payload: [`Wanted`].
    BulkPut = 16,
    /// The transfer `id` is complete.
    Done = 17,
    /// Wake up.
    Ring = 18,
    /// Orderly end: nothing comes after.
    Bye = 19,
    /// First frame on a connection, from who made it. Payload: [`Hello`].
    Hello = 20,
    /// Its answer. The connection is in use from here on.
    Welcome = 21,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        use Kind::*;
        const ALL: [Kind; 21] = [
            Put, Word, Line, Packet, Credit, Fence, Fenced, Get, Piece, Refused, Segment, Find, Forget,
            Forgotten, BulkGet, BulkPut, Done, Ring, Bye, Hello, Welcome,
        ];
        ALL.get(usize::from(byte).wrapping_sub(1)).copied()
    }

    /// Whether the payload goes to its place as it comes, instead of being taken whole.
    pub fn streams(self) -> bool {
        matches!(self, Kind::Put | Kind::Piece)
    }

    /// Whether a payload of `len` bytes is one that this kind can have.
    fn allows(self, len: usize) -> bool {
        match self {
            Kind::Put | Kind::Piece => true,
            Kind::Word => len == 8,
            Kind::Line => (8..=LINE_BYTES).contains(&len) && len.is_multiple_of(8),
            Kind::Packet => len <= crate::PACKET_BYTES,
            Kind::Get | Kind::Segment | Kind::BulkGet | Kind::BulkPut => len == Wanted::BYTES,
            Kind::Hello => len == Hello::BYTES,
            _ => len == 0,
        }
    }
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub kind: Kind,
    pub flag: u8,
    /// Bytes of payload that follow.
    pub len: u32,
    pub id: u64,
    pub at: u64,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Head {
    /// A header without payload.
    pub fn new(kind: Kind, id: u64, at: u64) -> Self {
        Self {
            kind,
            flag: 0,
            len: 0,
            id,
            at,
        }
    }

    /// The same with a payload of `len` bytes.
    pub fn with(self, len: usize) -> Self {
        Self {
            len: u32::try_from(len).expect("a payload of less than 4 GiB"),
            ..self
        }
    }

    /// The same with a flag.
    pub fn flagged(self, flag: u8) -> Self {
        Self { flag, ..self }
    }

    /// As sent.
    #[inline]
    pub fn encode(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[0] = self.kind as u8;
        bytes[1] = self.flag;
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.at.to_le_bytes());
        bytes
    }

    /// As received: the first [`HEAD`] bytes. What cannot be a header is returned as its first word.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self, u64> {
        let first = word(bytes, 0);
        let kind = Kind::of(bytes[0]).filter(|_| bytes[2] == 0 && bytes[3] == 0);
        let head = Self {
            kind: kind.ok_or(first)?,
            flag: bytes[1],
            len: (first >> 32) as u32,
            id: word(bytes, 8),
            at: word(bytes, 16),
        };
        head.kind.allows(head.len as usize).then_some(head).ok_or(first)
    }
}

/// Which bytes, and under which token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub token: u64,
    pub len: u64,
}

impl Wanted {
    /// Bytes of it.
    pub const BYTES: usize = 16;

    /// As sent.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.token.to_le_bytes());
        bytes[8..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// As received.
    pub fn decode(bytes: &[u8]) -> Self {
        Self {
            token: word(bytes, 0),
            len: word(bytes, 8),
        }
    }
}

/// Who connects, and to what job it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    pub me: u32,
    pub size: u32,
    /// Whom it wants.
    pub you: u32,
}

/// First bytes of a hello; the last is the version of all that is said in this module.
const MAGIC: u64 = u64::from_le_bytes(*b"farpost\x01");

impl Hello {
    /// Bytes of it.
    pub const BYTES: usize = 24;

    /// As sent.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.me.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.size.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.you.to_le_bytes());
        bytes
    }

    /// As received.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (one, two) = (word(bytes, 8), word(bytes, 16));
        (word(bytes, 0) == MAGIC && two >> 32 == 0).then_some(Self {
            me: one as u32,
            size: (one >> 32) as u32,
            you: two as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_header_or_refused(bytes in proptest::array::uniform24(any::<u8>())) {
            if let Ok(head) = Head::decode(&bytes) {
                prop_assert_eq!(head.encode(), bytes);
            }
        }

        #[test]
        fn headers_survive(kind in 1u8..=21, flag: u8, id: u64, at: u64, len: u32) {
            let kind = Kind::of(kind).unwrap();
            let head = Head { kind, flag, len, id, at };
            let back = Head::decode(&head.encode());
            if kind.allows(len as usize) {
                prop_assert_eq!(back, Ok(head));
            } else {
                prop_assert!(back.is_err());
            }
        }
    }

    #[test]
    fn kinds_end_where_the_list_ends() {
        assert_eq!(Kind::of(0), None);
        assert_eq!(Kind::of(22), None);
        for byte in 1..=21 {
            assert_eq!(Kind::of(byte).unwrap() as u8, byte);
        }
    }
}
