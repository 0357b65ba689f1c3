//! What travels. Every packet begins with a word:
//!
//! ```text
//! byte 0      bits 0..3 kind, bit 3 HAS_ACK, 4 FIRST, 5 WANTS_ACK, 6 CHECKED, 7 ACK_OTHER
//! byte 1      bytes of header; of control: the operation, and in bit 7 the channel it is about
//! bytes 2, 3  number of the packet in its channel
//! bytes 4, 5  the tag that the receiver gave this connection; 0: none yet
//! bytes 6, 7  with HAS_ACK: the packet wanted next, of the same channel the other way, with ACK_OTHER of the other channel
//! 8..12       with CHECKED only: CRC-32 of the packet with this field zero
//! ```
//!
//! Then, by kind:
//!
//! ```text
//! SHORT   header, body
//! STAGED  header, length (4), offset in the sender's staging memory (4)  [CRC-32 of the body (4)]
//! PULL    header, length (8), position (8), key (8)                      [CRC-32 of the body (4)]
//! GATHER  header, length (8), offset of a list in staging memory (4), its pieces (4)  [CRC-32 of the body (4)]
//! STREAM  header, length (8); as many DATA packets as the body takes follow
//! DATA    the next bytes of a body
//! CONTROL see [`Op`]
//! ```
//!
//! A header of 40 bytes and a body of 8, or what tells where a staged body lies, fill the first line of a packet in
//! shared memory, which carries 56 bytes.

use super::upper::HEADER_BYTES;
use crate::malformed::{Malformed, fail};
use farpost_fabric::PACKET_BYTES;

/// The word at the front.
pub const WORD: usize = 8;
/// The check behind it, where there is one.
pub const CHECK: usize = 4;
/// The segment with the staging memory of a process.
pub const STAGING: u32 = 0x7b00_0000;

/// Bytes of a body in a packet of its own.
pub fn stream_bytes(checked: bool) -> usize {
    PACKET_BYTES - WORD - if checked { CHECK } else { 0 }
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
pub enum PacketKind {
    Short = 1,
    Staged = 2,
    Pull = 3,
    Stream = 4,
    Data = 5,
    Control = 6,
    Gather = 7,
}

pub const HAS_ACK: u8 = 1 << 3;
/// Nothing that was numbered before it is outstanding.
pub const FIRST: u8 = 1 << 4;
/// The sender runs out of pendings: acknowledge soon.
pub const WANTS_ACK: u8 = 1 << 5;
pub const CHECKED: u8 = 1 << 6;
pub const ACK_OTHER: u8 = 1 << 7;

/// Unnumbered packets. The channel is the one whose receiver (acknowledgements, refusals) or sender speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
pub enum Op {
    /// Acknowledgements of both channels: word 1 holds a mask (bytes 0, 1) and the packets wanted next (bytes 2..6).
    Ack = 1,
    /// A packet before this one is missing: send again from the numbered one on.
    Gap = 2,
    /// No room for the numbered packet: send again later. Tag 0: no source, nothing is known about the sender.
    Busy = 3,
    /// A new connection with this tag. Word 1: the tag before (bytes 0, 1), the packets wanted next of both channels under it
    /// (bytes 2..6), ways of sending that do not work (byte 6).
    Sync = 4,
    /// The receiver wants to forget the connection with this tag. Word 1 as in `Ack`.
    Detach = 5,
    /// The sender has forgotten it too.
    Detached = 6,
    /// The sender of the numbered message may copy parts of its body too. Words 1 to 3: bytes wanted, bytes of a part, the
    /// receiver's address.
    Grant = 7,
}

/// Number of an [`Op::Detached`] by which a sender says that it has no use for the tag that it was told of, and knows what was
/// accepted before.
pub const UNUSED: u16 = 1;
/// In [`Op::Sync`]: the receiver cannot fetch bodies from the sender's memory.
pub const NO_PULL: u8 = 1;
/// In [`Op::Sync`]: the receiver cannot read the sender's staging memory.
pub const NO_STAGING: u8 = 2;
/// In [`Op::Sync`]: everything goes by [lines](super::lines) from now on.
pub const BY_LINES: u8 = 4;

/// The word at the front of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    pub kind: PacketKind,
    pub flags: u8,
    /// Bytes of header, or operation and channel.
    pub second: u8,
    pub seq: u16,
    pub tag: u16,
    pub ack: u16,
}

impl Word {
    #[inline(always)]
    pub fn bits(self) -> u64 {
        u64::from(self.kind as u8 | self.flags)
            | u64::from(self.second) << 8
            | u64::from(self.seq) << 16
            | u64::from(self.tag) << 32
            | u64::from(self.ack) << 48
    }

    /// Of a packet as it came, with the rest of it.
    #[inline(always)]
    pub fn read(packet: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let Some((first, rest)) = packet.split_first_chunk::<WORD>() else {
            return fail!("the length of a Portals packet", packet.len());
        };
        let word = u64::from_le_bytes(*first);
        let Some(kind) = PacketKind::from_repr(word as u8 & 7) else {
            return fail!("the kind of a Portals packet", word & 0xff);
        };
        let read = Self {
            kind,
            flags: word as u8 & !7,
            second: (word >> 8) as u8,
            seq: (word >> 16) as u16,
            tag: (word >> 32) as u16,
            ack: (word >> 48) as u16,
        };
        Ok((read, rest))
    }

    #[inline(always)]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The channel that the acknowledgement in a packet of channel `index` is about.
    #[inline(always)]
    pub fn about(&self, index: usize) -> usize {
        if self.has(ACK_OTHER) { 1 - index } else { index }
    }

    /// The operation and the channel of a control packet.
    pub fn op(&self) -> Result<(Op, usize), Malformed> {
        let Some(op) = Op::from_repr(self.second & 0x7f) else {
            return fail!("the operation of a Portals control packet", self.second);
        };
        Ok((op, usize::from(self.second >> 7)))
    }
}

/// The check of a packet whose check field is to be taken as zero.
fn check_of(packet: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&packet[..WORD]);
    hasher.update(&[0; CHECK]);
    hasher.update(&packet[WORD + CHECK..]);
    hasher.finalize()
}

/// Fill the check field in.
fn set_check(packet: &mut [u8]) {
    let check = check_of(packet);
    packet[WORD..WORD + CHECK].copy_from_slice(&check.to_le_bytes());
}

/// Write the word at the front of a packet of `len` bytes, and its check if it is to have one: its bytes.
#[inline(always)]
pub fn finish(packet: &mut [u8; PACKET_BYTES], len: usize, word: Word) -> &[u8] {
    let bytes = &mut packet[..len];
    bytes[..WORD].copy_from_slice(&word.bits().to_le_bytes());
    if word.has(CHECKED) {
        set_check(bytes);
    }
    bytes
}

/// Whether a packet is as it was sent. One without a check is not.
pub fn is_whole(packet: &[u8]) -> bool {
    packet.len() >= WORD + CHECK
        && packet[0] & CHECKED != 0
        && packet[WORD..WORD + CHECK] == check_of(packet).to_le_bytes()
}

/// Where a long body is, as its header packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Staged { offset: u32 },
    Pull { position: u64, key: u64 },
    Gather { offset: u32, pieces: u32 },
    Stream,
}

/// Bytes of a piece in the list that [`PacketKind::Gather`] names: address (8) and length (8).
pub const PIECE: usize = 16;

/// A piece as it stands in that list.
pub fn piece_bytes(address: usize, len: usize) -> [u8; PIECE] {
    let mut bytes = [0; PIECE];
    bytes[..8].copy_from_slice(&(address as u64).to_le_bytes());
    bytes[8..].copy_from_slice(&(len as u64).to_le_bytes());
    bytes
}

/// Address and length of a piece.
pub fn piece_of(bytes: &[u8; PIECE]) -> (u64, u64) {
    (word_at(bytes, 0), word_at(bytes, 8))
}

/// Header packets taken apart: header, and what follows it.
pub enum Message<'a> {
    Short { header: &'a [u8], body: &'a [u8] },
    Long(Long<'a>),
}

/// A message whose body does not come with its header.
pub struct Long<'a> {
    pub header: &'a [u8],
    pub length: u64,
    pub place: Place,
    pub check: Option<u32>,
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn half_at(bytes: &[u8], at: usize) -> u32 {
    let mut half = [0; 4];
    half.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(half)
}

/// Take a header packet apart; `rest` is what follows its word and check.
#[inline(always)]
pub fn message<'a>(word: &Word, rest: &'a [u8]) -> Result<Message<'a>, Malformed> {
    let length = usize::from(word.second);
    if length > HEADER_BYTES || length > rest.len() {
        return fail!("the length of a Portals header", length);
    }
    let (header, body) = rest.split_at(length);
    if word.kind == PacketKind::Short {
        return Ok(Message::Short { header, body });
    }
    long(word, header, body)
}

#[inline(never)]
fn long<'a>(word: &Word, header: &'a [u8], extra: &[u8]) -> Result<Message<'a>, Malformed> {
    let fixed = match word.kind {
        PacketKind::Staged => 8,
        PacketKind::Pull => 24,
        PacketKind::Gather => 16,
        _ => 8,
    };
    let checked = word.has(CHECKED) && word.kind != PacketKind::Stream;
    let wanted = fixed + if checked { CHECK } else { 0 };
    if extra.len() != wanted {
        return fail!(
            "the length of the header packet of a long Portals message",
            extra.len()
        );
    }
    let check = checked.then(|| half_at(extra, fixed));
    let (length, place) = match word.kind {
        PacketKind::Staged => {
            let offset = half_at(extra, 4);
            (u64::from(half_at(extra, 0)), Place::Staged { offset })
        }
        PacketKind::Pull => {
            let (position, key) = (word_at(extra, 8), word_at(extra, 16));
            (word_at(extra, 0), Place::Pull { position, key })
        }
        PacketKind::Gather => {
            let (offset, pieces) = (half_at(extra, 8), half_at(extra, 12));
            (word_at(extra, 0), Place::Gather { offset, pieces })
        }
        _ => (word_at(extra, 0), Place::Stream),
    };
    if length == 0 || length > 1 << 48 {
        return fail!("the length of a long Portals message", length);
    }
    Ok(Message::Long(Long {
        header,
        length,
        place,
        check,
    }))
}

/// A packet being written.
pub struct Writer<'a> {
    packet: &'a mut [u8; PACKET_BYTES],
    len: usize,
}

impl<'a> Writer<'a> {
    /// Behind the word and, with `checked`, the check, which are filled in later.
    #[inline(always)]
    pub fn new(packet: &'a mut [u8; PACKET_BYTES], checked: bool) -> Self {
        let len = if checked { WORD + CHECK } else { WORD };
        Self { packet, len }
    }

    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.packet[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        self
    }

    /// The next `len` bytes, to be written by the caller.
    #[inline(always)]
    pub fn room(&mut self, len: usize) -> &mut [u8] {
        self.len += len;
        &mut self.packet[self.len - len..self.len]
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }
}

/// A word of a control packet's arguments, if it is that long.
pub fn argument(rest: &[u8], index: usize) -> Result<u64, Malformed> {
    if rest.len() < 8 * (index + 1) {
        return fail!("the length of a Portals control packet", rest.len());
    }
    Ok(word_at(rest, 8 * index))
}

/// Mask or tag, and two packet numbers, as [`Op::Ack`], [`Op::Detach`] and [`Op::Sync`] carry them.
pub fn numbers(first: u16, wanted: [u16; 2], last: u8) -> u64 {
    u64::from(first) | u64::from(wanted[0]) << 16 | u64::from(wanted[1]) << 32 | u64::from(last) << 48
}

/// The reverse.
pub fn numbers_of(word: u64) -> (u16, [u16; 2], u8) {
    (
        word as u16,
        [(word >> 16) as u16, (word >> 32) as u16],
        (word >> 48) as u8,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_way() {
        let word = Word {
            kind: PacketKind::Pull,
            flags: HAS_ACK | CHECKED,
            second: 40,
            seq: 0x8001,
            tag: 0xffff,
            ack: 7,
        };
        let bytes = word.bits().to_le_bytes();
        assert_eq!(Word::read(&bytes), Ok((word, &[][..])));
        assert!(Word::read(&bytes[..7]).is_err());
        assert!(Word::read(&[0; 8]).is_err());
    }

    #[test]
    fn any_bit_that_flips_is_noticed() {
        let mut packet = [3u8; 100];
        packet[0] = PacketKind::Short as u8 | CHECKED;
        set_check(&mut packet);
        assert!(is_whole(&packet));
        for bit in 0..packet.len() * 8 {
            packet[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_whole(&packet), "bit {bit}");
            packet[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(!is_whole(&packet[..99]) && !is_whole(&packet[..5]));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let word = |kind, second| Word {
            kind,
            flags: 0,
            second,
            seq: 0,
            tag: 1,
            ack: 0,
        };
        let bytes = [1u8; PACKET_BYTES];
        assert!(message(&word(PacketKind::Short, 40), &bytes[..39]).is_err());
        assert!(message(&word(PacketKind::Short, HEADER_BYTES as u8 + 1), &bytes).is_err());
        assert!(message(&word(PacketKind::Pull, 40), &bytes[..40 + 23]).is_err());
        assert!(message(&word(PacketKind::Staged, 40), &bytes[..40 + 8]).is_ok());
        assert!(
            message(&word(PacketKind::Staged, 40), &[0; 48]).is_err(),
            "no bytes"
        );
        assert!(
            message(&word(PacketKind::Stream, 40), &[255; 48]).is_err(),
            "too long"
        );
    }
}
