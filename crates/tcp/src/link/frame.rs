//! The wire format: one fixed header of 32 bytes before every payload.
//!
//! ```text
//! byte  0      kind
//! byte  1      flags                      (port and priority of a packet, code of a control frame, bulk kinds: ZCOPY, else 0)
//! bytes 2..4   0
//! bytes 4..8   link sequence number       (ordered kinds; length of the range in BULK_ACK; of all in an eager zero-copy payload; else 0)
//! bytes 8..12  acknowledgement: the next ordered frame expected, so all before it have arrived
//! bytes 12..16 object                     (segment, ticket, token of a ping, code of a fault)
//! bytes 16..19 bytes of payload
//! bytes 19..24 offset                     (in the segment or the transfer; reason of a refusal)
//! bytes 24..32 code over the 24 before and the number of the frame on its connection, keyed by connection and direction
//! ```
//!
//! Everything is little-endian. TCP's own checksum misses one damaged segment in some ten thousand, and a damaged
//! length would misframe everything after it: the check code finds that before a byte is used. Since it depends on the
//! connection and on the place in it, it is written when a frame is offered to a rail ([`Header::seal`]), anew on each.

use crate::trust::{HEADER_CODED, HeaderCheck};
use farpost_fabric::{LANES, LINE_BYTES};
use strum::{FromRepr, VariantArray};

/// Bytes in a header.
pub const HEADER_BYTES: usize = HEADER_CODED + 8;
/// Largest payload of a packet.
pub const PACKET_BYTES: usize = 176;
/// Largest payload of an ordered frame. A larger put travels as several.
pub const ORDERED_MAX: usize = 64 << 10;
/// Largest payload of a bulk chunk.
pub const CHUNK_MAX: usize = 4 << 20;
/// Largest payload of a control frame.
pub const CONTROL_MAX: usize = 4096;
/// Largest text of a fault.
pub const FAULT_MAX: usize = 512;
/// Offsets are below this.
pub const OFFSET_LIMIT: u64 = 1 << 40;

/// Flag of [`FrameKind::BulkData`], [`FrameKind::BulkAck`] and [`FrameKind::BulkDone`]: about bytes that nobody asked for, by the number
/// that their sender gave them.
pub const ZCOPY: u8 = 1;

/// What a frame is. Those below 32 are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, VariantArray)]
#[repr(u8)]
pub enum FrameKind {
    /// Bytes for a segment (object) at offset.
    Put = 1,
    /// One line for a segment, applied whole, its first word last.
    PutLine = 2,
    /// One word for a segment.
    PutWord = 3,
    /// A packet; flags: its port times two plus its priority.
    Packet = 4,
    /// Wake the receiver.
    Ring = 5,
    /// Please send bytes of exposed memory; object: the asker's ticket; payload: [`GetRequest`].
    BulkGet = 6,
    /// All bytes of the ticket have arrived.
    BulkDone = 7,
    /// The ticket will not be served; offset: [`Refusal`].
    BulkRefused = 8,
    /// For the fabric above: flags, object, offset and payload mean what it wants.
    Control = 9,
    /// What the sender holds against the receiver; object: a code, payload: text.
    Fault = 10,
    /// Nothing ordered follows.
    Bye = 11,
    /// Only the acknowledgement that every header carries.
    Ack = 32,
    /// The bytes from offset on, as many as the sequence field says, of the ticket have arrived.
    BulkAck = 33,
    /// Bytes of a ticket at offset.
    BulkData = 34,
    /// Answer with a pong of the same object.
    Ping = 35,
    /// The answer.
    Pong = 36,
    /// First frame of every connection of a rail: how far the sender has received.
    Position = 37,
}

impl FrameKind {
    /// Every kind.
    pub const ALL: &[FrameKind] = Self::VARIANTS;

    /// Whether it has a sequence number and is delivered exactly once and in order.
    #[inline]
    pub fn ordered(self) -> bool {
        (self as u8) < 32
    }

    /// Smallest and largest payload.
    #[inline]
    pub fn lengths(self) -> (usize, usize) {
        match self {
            FrameKind::Put => (1, ORDERED_MAX),
            FrameKind::PutLine => (LINE_BYTES, LINE_BYTES),
            FrameKind::PutWord => (8, 8),
            FrameKind::Packet => (0, PACKET_BYTES),
            FrameKind::BulkGet => (GetRequest::BYTES, GetRequest::BYTES),
            FrameKind::Control => (0, CONTROL_MAX),
            FrameKind::Fault => (0, FAULT_MAX),
            FrameKind::BulkData => (1, CHUNK_MAX),
            _ => (0, 0),
        }
    }
}

/// Why a bulk transfer was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, FromRepr)]
#[repr(u8)]
pub enum Refusal {
    #[error("no memory is exposed under that key")]
    NoSuchKey = 1,
    #[error("the range leaves the exposed memory")]
    OutOfRange = 2,
    #[error("the memory was withdrawn")]
    Withdrawn = 3,
    #[error("too many transfers are under way")]
    TooMany = 4,
}

/// Payload of [`FrameKind::BulkGet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetRequest {
    /// The key under which the owner exposed the memory.
    pub key: u64,
    /// Offset in it.
    pub offset: u64,
    /// Bytes wanted.
    pub len: u64,
}

impl GetRequest {
    /// On the wire.
    pub const BYTES: usize = 24;

    /// As payload.
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..8].copy_from_slice(&self.key.to_le_bytes());
        out[8..16].copy_from_slice(&self.offset.to_le_bytes());
        out[16..].copy_from_slice(&self.len.to_le_bytes());
        out
    }

    /// From a payload. None: not of the right size, nothing wanted, or more than a transfer can be.
    pub fn parse(payload: &[u8]) -> Option<GetRequest> {
        let payload: &[u8; Self::BYTES] = payload.try_into().ok()?;
        let [key, offset, len] = words(payload);
        (len > 0 && len <= OFFSET_LIMIT && offset.checked_add(len).is_some()).then_some(GetRequest {
            key,
            offset,
            len,
        })
    }
}

/// What is wrong with bytes that should be a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Damaged, repeated, out of its place, or meant for another connection.
    #[error("a frame header whose code is wrong: it was altered on the way, or is not the peer's next one")]
    Code,
    /// Whole, but of no kind known.
    #[error("a frame of unknown kind {0}")]
    FrameKind(u8),
    /// A length that the kind cannot have.
    #[error("a {kind:?} frame of {len} bytes")]
    Length { kind: FrameKind, len: u32 },
    /// A field with a value that the kind does not permit.
    #[error("a {kind:?} frame with {value:#x} as its {field}")]
    Field {
        kind: FrameKind,
        field: &'static str,
        value: u64,
    },
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: FrameKind,
    /// Port and priority of a packet, code of a control frame, [`ZCOPY`] or not of bulk kinds, else 0.
    pub flags: u8,
    /// Bytes of payload.
    pub len: u32,
    /// Link sequence number of ordered kinds; length of the range in [`FrameKind::BulkAck`]; bytes of the whole zero-copy payload in
    /// its [`FrameKind::BulkData`]; else 0.
    pub seq: u32,
    /// The next ordered frame expected by the sender of this one.
    pub ack: u32,
    /// Segment, ticket, token or code.
    pub object: u32,
    /// Offset, or reason.
    pub offset: u64,
}

impl Header {
    /// A header of `kind` with everything else 0.
    pub fn new(kind: FrameKind) -> Self {
        Self {
            kind,
            flags: 0,
            len: 0,
            seq: 0,
            ack: 0,
            object: 0,
            offset: 0,
        }
    }

    /// Of `kind`, about an object, at an offset.
    #[inline]
    pub fn of(kind: FrameKind, object: u32, offset: u64) -> Self {
        Self {
            object,
            offset,
            ..Self::new(kind)
        }
    }

    /// Of `kind` and with these flags, about an object.
    pub fn flagged(kind: FrameKind, flags: u8, object: u32) -> Self {
        Self {
            flags,
            ..Self::of(kind, object, 0)
        }
    }

    /// Header and payload.
    #[inline]
    pub fn total(&self) -> usize {
        HEADER_BYTES + self.len as usize
    }

    /// The refusal that a [`FrameKind::BulkRefused`] carries.
    pub fn refusal(&self) -> Option<Refusal> {
        Refusal::from_repr(u8::try_from(self.offset).ok()?)
    }

    /// On the wire, but for the code.
    #[inline]
    pub fn emit(&self) -> [u8; HEADER_BYTES] {
        debug_assert!(self.offset < OFFSET_LIMIT && self.len < 1 << 24);
        let first = u64::from(self.kind as u8) | u64::from(self.flags) << 8 | u64::from(self.seq) << 32;
        let second = u64::from(self.ack) | u64::from(self.object) << 32;
        let third = u64::from(self.len) | self.offset << 24;
        let mut out = [0; HEADER_BYTES];
        out[..8].copy_from_slice(&first.to_le_bytes());
        out[8..16].copy_from_slice(&second.to_le_bytes());
        out[16..24].copy_from_slice(&third.to_le_bytes());
        out
    }

    /// Give the header that `frame` begins with its code, as frame `number` of a connection.
    #[inline]
    pub fn seal(frame: &mut [u8], check: &HeaderCheck, number: u64) {
        if let Some((header, rest)) = frame.split_first_chunk_mut::<HEADER_CODED>()
            && let Some(code) = rest.first_chunk_mut::<8>()
        {
            *code = check.of(number, header).to_le_bytes();
        }
    }

    /// Read and check every field of what should be frame `number` of a connection.
    ///
    /// # Errors
    /// Says which field is wrong. Nothing of a stream in which one header was wrong can be trusted.
    #[inline]
    pub fn parse(bytes: &[u8; HEADER_BYTES], check: &HeaderCheck, number: u64) -> Result<Header, FrameError> {
        let [first, second, third, code] = words(bytes);
        let coded = bytes.first_chunk().expect("a header is longer");
        if code != check.of(number, coded) || first & 0xffff_0000 != 0 {
            return Err(FrameError::Code);
        }
        let kind = FrameKind::from_repr(first as u8).ok_or(FrameError::FrameKind(first as u8))?;
        let header = Header {
            kind,
            flags: (first >> 8) as u8,
            len: third as u32 & 0xff_ffff,
            seq: (first >> 32) as u32,
            ack: second as u32,
            object: (second >> 32) as u32,
            offset: third >> 24,
        };
        header.validate()?;
        Ok(header)
    }

    /// The fields against what the kind permits.
    #[inline]
    fn validate(&self) -> Result<(), FrameError> {
        let kind = self.kind;
        let (least, most) = kind.lengths();
        if (self.len as usize) < least || self.len as usize > most {
            return Err(FrameError::Length { kind, len: self.len });
        }
        let bad = |field, value| Err(FrameError::Field { kind, field, value });
        let flags_ok = match kind {
            FrameKind::Packet => usize::from(self.flags) < LANES,
            FrameKind::Control => true,
            FrameKind::BulkData | FrameKind::BulkAck | FrameKind::BulkDone => self.flags <= ZCOPY,
            _ => self.flags == 0,
        };
        if !flags_ok {
            return bad("flags", self.flags.into());
        }
        let zcopy = kind == FrameKind::BulkData && self.flags == ZCOPY;
        if !kind.ordered() && kind != FrameKind::BulkAck && !zcopy && self.seq != 0 {
            return bad("sequence number", self.seq.into());
        }
        let object_free = !matches!(
            kind,
            FrameKind::Packet | FrameKind::Ring | FrameKind::Bye | FrameKind::Ack | FrameKind::Position
        );
        if !object_free && self.object != 0 {
            return bad("object", self.object.into());
        }
        let offset_ok = match kind {
            FrameKind::BulkData if zcopy => self.offset + u64::from(self.len) <= u64::from(self.seq),
            FrameKind::Put | FrameKind::BulkData => self.offset + u64::from(self.len) <= OFFSET_LIMIT,
            FrameKind::PutLine => self.offset.is_multiple_of(LINE_BYTES as u64),
            FrameKind::PutWord => self.offset.is_multiple_of(8),
            FrameKind::BulkAck => self.seq != 0 && self.offset + u64::from(self.seq) <= OFFSET_LIMIT,
            FrameKind::BulkRefused => self.refusal().is_some(),
            FrameKind::Control => true,
            _ => self.offset == 0,
        };
        if !offset_ok {
            return bad("offset", self.offset);
        }
        Ok(())
    }
}

#[inline]
fn words<const N: usize, const W: usize>(bytes: &[u8; N]) -> [u64; W] {
    const { assert!(N == 8 * W) };
    let word = |at: usize| {
        let mut w = [0; 8];
        w.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(w)
    };
    core::array::from_fn(|i| word(8 * i))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(seed: u8) -> HeaderCheck {
        HeaderCheck::new(&[seed; 16])
    }

    /// As it goes onto the wire.
    fn sealed(header: &Header, key: &HeaderCheck, number: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = header.emit();
        Header::seal(&mut bytes, key, number);
        bytes
    }

    fn headers() -> impl Strategy<Value = Header> {
        (
            0..FrameKind::ALL.len(),
            any::<u8>(),
            any::<u32>(),
            any::<u32>(),
            any::<u32>(),
            any::<u32>(),
            0..OFFSET_LIMIT,
        )
            .prop_map(|(kind, flags, len, seq, ack, object, offset)| {
                let kind = FrameKind::ALL[kind];
                let (least, most) = kind.lengths();
                let len = least as u32 + len % (most - least + 1) as u32;
                let zcopy = kind == FrameKind::BulkData && flags & 1 != 0;
                let seq = match kind {
                    FrameKind::BulkAck => seq.max(1),
                    FrameKind::BulkData if zcopy => seq.max(len),
                    k if k.ordered() => seq,
                    _ => 0,
                };
                let flags = match kind {
                    FrameKind::Packet => flags % LANES as u8,
                    FrameKind::BulkData | FrameKind::BulkAck | FrameKind::BulkDone => flags & 1,
                    FrameKind::Control => flags,
                    _ => 0,
                };
                let object = match kind {
                    FrameKind::Packet
                    | FrameKind::Ring
                    | FrameKind::Bye
                    | FrameKind::Ack
                    | FrameKind::Position => 0,
                    _ => object,
                };
                let offset = match kind {
                    FrameKind::BulkData if zcopy => offset.min(u64::from(seq - len)),
                    FrameKind::Put | FrameKind::BulkData => offset.min(OFFSET_LIMIT - u64::from(len)),
                    FrameKind::BulkAck => offset.min(OFFSET_LIMIT - u64::from(seq)),
                    FrameKind::PutLine => offset & !63,
                    FrameKind::PutWord => offset & !7,
                    FrameKind::BulkRefused => 1 + offset % 4,
                    FrameKind::Control => offset,
                    _ => 0,
                };
                Header {
                    kind,
                    flags,
                    len,
                    seq,
                    ack,
                    object,
                    offset,
                }
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_emitted_is_parsed(header in headers(), seed in any::<u8>(), number in any::<u64>()) {
            let bytes = sealed(&header, &key(seed), number);
            prop_assert_eq!(Header::parse(&bytes, &key(seed), number), Ok(header));
            // Not once more, not before its turn, and on no other connection.
            for (of, at) in [(seed, number.wrapping_add(1)), (seed, number.wrapping_sub(1)), (!seed, number)] {
                prop_assert_eq!(Header::parse(&bytes, &key(of), at), Err(FrameError::Code));
            }
        }

        #[test]
        fn one_flipped_bit_is_not_believed(header in headers(), bit in 0..8 * HEADER_BYTES) {
            let mut bytes = sealed(&header, &key(1), 5);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Header::parse(&bytes, &key(1), 5), Err(FrameError::Code));
        }

        #[test]
        fn random_bytes_never_give_an_impossible_header(
            mut bytes in any::<[u8; HEADER_BYTES]>(),
            honest in any::<bool>(),
        ) {
            if honest {
                // The right code, so that the fields are what is tested.
                bytes[2..4].fill(0);
                Header::seal(&mut bytes, &key(1), 5);
            }
            match Header::parse(&bytes, &key(1), 5) {
                Ok(header) => {
                    let (least, most) = header.kind.lengths();
                    prop_assert!((least..=most).contains(&(header.len as usize)));
                    prop_assert!(header.offset < OFFSET_LIMIT);
                    prop_assert_eq!(sealed(&header, &key(1), 5), bytes);
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }

        #[test]
        fn random_kinds_and_lengths_behind_a_right_code(kind in any::<u8>(), len in 0u32..1 << 24) {
            let mut bytes = [0; HEADER_BYTES];
            bytes[0] = kind;
            bytes[16..20].copy_from_slice(&len.to_le_bytes());
            Header::seal(&mut bytes, &key(1), 0);
            if let Ok(header) = Header::parse(&bytes, &key(1), 0) {
                let (least, most) = header.kind.lengths();
                prop_assert!((least..=most).contains(&(len as usize)));
            }
        }

        #[test]
        fn get_requests_survive(key in any::<u64>(), offset in 0..1u64 << 60, len in 1..=OFFSET_LIMIT) {
            let request = GetRequest { key, offset, len };
            prop_assert_eq!(GetRequest::parse(&request.emit()), Some(request));
        }
    }

    #[test]
    fn the_bytes_on_the_wire() {
        let header = Header {
            len: 0x123,
            seq: 0x0403_0201,
            ack: 0x1413_1211,
            object: 0x2423_2221,
            offset: 0x35_3433_3231,
            ..Header::new(FrameKind::Put)
        };
        let bytes = sealed(&header, &key(0), 9);
        let expected = [
            1, 0, 0, 0, 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x23, 0x01, 0, 0x31,
            0x32, 0x33, 0x34, 0x35,
        ];
        assert_eq!(bytes[..24], expected);
        assert_eq!(bytes[24..], key(0).of(9, &expected).to_le_bytes());
    }

    #[test]
    fn fields_that_a_kind_cannot_have_are_named() {
        let cases = [
            (
                Header {
                    offset: 8,
                    len: 64,
                    ..Header::new(FrameKind::PutLine)
                },
                "offset",
            ),
            (
                Header {
                    offset: 4,
                    len: 8,
                    ..Header::new(FrameKind::PutWord)
                },
                "offset",
            ),
            (
                Header {
                    flags: LANES as u8,
                    ..Header::new(FrameKind::Packet)
                },
                "flags",
            ),
            (
                Header {
                    seq: 1,
                    ..Header::new(FrameKind::Ack)
                },
                "sequence number",
            ),
            (
                Header {
                    object: 1,
                    ..Header::new(FrameKind::Bye)
                },
                "object",
            ),
            (
                Header {
                    offset: 5,
                    ..Header::new(FrameKind::BulkRefused)
                },
                "offset",
            ),
            (Header::new(FrameKind::BulkAck), "offset"),
            (
                Header {
                    len: 9,
                    offset: OFFSET_LIMIT - 8,
                    ..Header::new(FrameKind::Put)
                },
                "offset",
            ),
        ];
        for (header, name) in cases {
            match Header::parse(&sealed(&header, &key(1), 5), &key(1), 5) {
                Err(FrameError::Field { field, .. }) => assert_eq!(field, name, "{header:?}"),
                other => panic!("{header:?} gave {other:?}"),
            }
        }
        let long = Header {
            len: PACKET_BYTES as u32 + 1,
            ..Header::new(FrameKind::Packet)
        };
        assert!(matches!(
            Header::parse(&sealed(&long, &key(1), 5), &key(1), 5),
            Err(FrameError::Length { len: 177, .. })
        ));
        assert_eq!(GetRequest::parse(&[0; 24]), None);
        assert_eq!(GetRequest::parse(&[1; 23]), None);
    }
}
