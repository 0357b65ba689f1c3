//! What travels: a frame is a header of 16 bytes and its payload, of at most 128 bytes in FM 1.0 and wherever nothing else is said
//! ([`FmConfig::frame`](crate::FmConfig::frame)).
//!
//! ```text
//! byte 0      kind: 1 message (FM 1.0), 2 piece of a stream (FM 2.x), 3 acknowledgement; bit 7: returned to its sender
//! byte 1      flags: 1 begins a message, 2 ends it, 4 oldest, 8 wants an acknowledgement
//! bytes 2, 3  number of the handler
//! bytes 4, 5  bytes of payload, and in the upper five bits times it has been returned, at most 31
//! bytes 6, 7  number of the piece among those from its sender to its receiver
//! bytes 8, 9  messages acknowledged by the way; bytes 10, 11: pieces
//! bytes 12..  bytes announced for the whole message, in the piece that begins it
//! ```
//!
//! A frame of 40 bytes of payload or fewer is one line of a packet queue in shared memory.

use farpost_fabric::copy_words;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 16;
/// Largest payload of a frame of FM 1.0, in bytes: 32 words (paper, section 3.1).
pub const FRAME_PAYLOAD: usize = 128;
/// Words of such a frame, header included: what frames have room for where nothing else is said.
pub const FRAME_WORDS: usize = (HEADER_BYTES + FRAME_PAYLOAD) / 8;
/// Least and most that the payload of a frame may be made: what `FM_send_4` sends, and what the paper's figures end with.
pub const PAYLOADS: std::ops::RangeInclusive<usize> = 16..=600;
/// Words of a frame with room for the largest payload.
pub const LONG_WORDS: usize = (HEADER_BYTES + 600) / 8;

/// Begins a message.
pub const BEGIN: u8 = 1;
/// Ends a message.
pub const END: u8 = 2;
/// Every earlier piece to this receiver has been acknowledged, so this one is in order.
pub const OLDEST: u8 = 4;
/// The sender runs out of slots: acknowledge soon.
pub const WANTS_ACK: u8 = 8;
const FLAGS: u8 = BEGIN | END | OLDEST | WANTS_ACK;

const RETURNED: u8 = 0x80;
/// Bits of the length, and of how often it has been returned.
const LENGTH: u16 = 0x7ff;
const TRIES_AT: u32 = 11;
/// Most times that a header can say it has been returned.
pub const TRIES_MAX: u8 = 31;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// A message of FM 1.0, unordered.
    Message = 1,
    /// A piece of a message of FM 2.x, ordered.
    Piece = 2,
    /// Nothing but acknowledgements.
    Ack = 3,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: FrameKind,
    /// The receiver had no room: the frame is back at its sender.
    pub returned: bool,
    pub flags: u8,
    pub handler: u16,
    /// Bytes of payload.
    pub len: u16,
    /// Times it has been returned; stays at [`TRIES_MAX`].
    pub tries: u8,
    /// Number of a piece, wrapping around.
    pub seq: u16,
    /// Messages and pieces that are acknowledged.
    pub acks: Acks,
    /// Bytes announced for the whole message.
    pub announced: u32,
}

/// Frames accepted that their sender has not been told of, or is being told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acks {
    pub messages: u16,
    pub pieces: u16,
}

impl Acks {
    #[inline(always)]
    pub fn is_zero(self) -> bool {
        self.messages | self.pieces == 0
    }
    #[inline(always)]
    pub fn total(self) -> u32 {
        u32::from(self.messages) + u32::from(self.pieces)
    }
}

/// A header that cannot be right: what, and the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub what: &'static str,
    pub value: u64,
}

impl Header {
    /// A frame with that payload for that handler; no acknowledgements yet.
    #[inline(always)]
    pub fn new(kind: FrameKind, flags: u8, handler: u16, len: usize) -> Self {
        debug_assert!(len <= *PAYLOADS.end());
        Self {
            kind,
            returned: false,
            flags,
            handler,
            len: len as u16,
            tries: 0,
            seq: 0,
            acks: Acks::default(),
            announced: 0,
        }
    }

    #[inline(always)]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// As it travels.
    #[inline(always)]
    pub fn words(&self) -> [[u8; 8]; HEADER_BYTES / 8] {
        let kind = self.kind as u8 | if self.returned { RETURNED } else { 0 };
        let length = self.len & LENGTH | u16::from(self.tries.min(TRIES_MAX)) << TRIES_AT;
        let first = u64::from(kind)
            | u64::from(self.flags) << 8
            | u64::from(self.handler) << 16
            | u64::from(length) << 32
            | u64::from(self.seq) << 48;
        let second = u64::from(self.acks.messages)
            | u64::from(self.acks.pieces) << 16
            | u64::from(self.announced) << 32;
        [first.to_le_bytes(), second.to_le_bytes()]
    }

    /// Of a packet as it came, whose length must be what the header says.
    #[inline(always)]
    pub fn read(packet: &[u8]) -> Result<Self, Malformed> {
        let bad = |what, value| Err(Malformed { what, value });
        let Some((header, payload)) = packet.split_first_chunk::<HEADER_BYTES>() else {
            return bad("the length of an FM frame", packet.len() as u64);
        };
        let (first, second) = header.split_at(8);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let (first, second) = (word(first), word(second));
        let length = (first >> 32) as u16;
        let len = length & LENGTH;
        if usize::from(len) != payload.len() || payload.len() > *PAYLOADS.end() {
            return bad("the payload length in the header of an FM frame", u64::from(len));
        }
        let kind = match first as u8 & !RETURNED {
            1 => FrameKind::Message,
            2 => FrameKind::Piece,
            3 if len == 0 && first as u8 & RETURNED == 0 => FrameKind::Ack,
            _ => return bad("the kind of an FM frame", first & 0xff),
        };
        let flags = (first >> 8) as u8;
        if flags & !FLAGS != 0 {
            return bad("the flags of an FM frame", first >> 8 & 0xff);
        }
        Ok(Self {
            kind,
            returned: first as u8 & RETURNED != 0,
            flags,
            handler: (first >> 16) as u16,
            len,
            tries: (length >> TRIES_AT) as u8,
            seq: (first >> 48) as u16,
            acks: Acks {
                messages: second as u16,
                pieces: (second >> 16) as u16,
            },
            announced: (second >> 32) as u32,
        })
    }
}

/// A frame and whom it came from or goes to. It has room for so many words, header included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Frame<const WORDS: usize = FRAME_WORDS> {
    /// Header and payload. First, so that payloads are aligned to 16 bytes.
    words: [[u8; 8]; WORDS],
    /// The other process's number.
    pub peer: u32,
    /// Bytes in use, header included.
    len: u32,
}

impl Frame {
    /// A frame of FM 1.0 of that header and payload.
    #[inline(always)]
    pub fn new(peer: u32, header: &Header, payload: &[u8]) -> Self {
        let mut frame = Self::default();
        frame.set(peer, header, &[], payload);
        frame
    }

    /// Room for a frame of FM 1.0.
    #[inline(always)]
    pub fn empty() -> Self {
        Self::default()
    }
}

impl<const WORDS: usize> Default for Frame<WORDS> {
    /// Room for a frame.
    #[inline(always)]
    fn default() -> Self {
        Self {
            words: [[0; 8]; WORDS],
            peer: 0,
            len: 0,
        }
    }
}

impl<const WORDS: usize> Frame<WORDS> {
    /// Bytes that it has room for, header included.
    pub const BYTES: usize = 8 * WORDS;

    /// Become a frame of that header, whose payload is some words, and after them bytes. In place: moving what was just
    /// written would wait for the writes.
    #[inline(always)]
    pub fn set(&mut self, peer: u32, header: &Header, lead: &[u64], payload: &[u8]) {
        self.peer = peer;
        self.set_header(header);
        let (words, rest) = self.words[HEADER_BYTES / 8..].split_at_mut(lead.len());
        for (to, word) in words.iter_mut().zip(lead) {
            *to = word.to_le_bytes();
        }
        copy(rest, payload);
        self.len = (HEADER_BYTES + 8 * lead.len() + payload.len()) as u32;
    }

    /// A packet as it came. One that is longer than a frame keeps its first bytes and one more than a frame has, so
    /// that [`Header::read`] refuses it.
    #[inline(always)]
    pub fn fill(&mut self, peer: u32, packet: &[u8]) {
        let kept = packet.len().min(Self::BYTES);
        copy(&mut self.words, &packet[..kept]);
        self.peer = peer;
        self.len = packet.len() as u32;
    }

    /// As it travels; of a packet that was too long, its beginning.
    #[inline(always)]
    pub fn packet(&self) -> &[u8] {
        &self.words.as_flattened()[..(self.len as usize).min(Self::BYTES)]
    }

    /// Its header, checked.
    #[inline(always)]
    pub fn header(&self) -> Result<Header, Malformed> {
        if self.len as usize > Self::BYTES {
            return Err(Malformed {
                what: "the length of an FM frame",
                value: u64::from(self.len),
            });
        }
        Header::read(self.packet())
    }

    /// Change the header; the payload stays.
    #[inline(always)]
    pub fn set_header(&mut self, header: &Header) {
        [self.words[0], self.words[1]] = header.words();
    }

    /// Its payload.
    #[inline(always)]
    pub fn payload(&self) -> &[u8] {
        self.packet().get(HEADER_BYTES..).unwrap_or_default()
    }

    /// Nobody may look at the payload again: it becomes something that no message has. In debug builds, after a handler.
    pub(crate) fn poison(&mut self) {
        let len = (self.len as usize).min(Self::BYTES);
        if let Some(payload) = self.words.as_flattened_mut()[..len].get_mut(HEADER_BYTES..) {
            payload.fill(POISON);
        }
    }

    /// The words in use, for the queues.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        let words = &self.words[..self.packet().len().div_ceil(8)];
        words.iter().map(|word| u64::from_le_bytes(*word))
    }

    /// As many words as [`set_who`](Self::set_who) has said are in use.
    pub(crate) fn set_words(&mut self, words: impl Iterator<Item = u64>) {
        let used = self.packet().len().div_ceil(8);
        for (to, word) in self.words[..used].iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
    }

    pub(crate) fn who(&self) -> u64 {
        u64::from(self.peer) << 32 | u64::from(self.len)
    }

    pub(crate) fn set_who(&mut self, who: u64) {
        self.peer = (who >> 32) as u32;
        self.len = who as u32;
    }
}

/// A byte of what a handler may not look at any more.
pub(crate) const POISON: u8 = 0xdb;

/// Longest copy that is made word by word.
const BY_WORDS: usize = 64;

#[inline(always)]
fn copy(to: &mut [[u8; 8]], from: &[u8]) {
    if from.len() <= BY_WORDS {
        copy_words(to, from);
    } else {
        to.as_flattened_mut()[..from.len()].copy_from_slice(from);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_way() {
        let header = Header {
            kind: FrameKind::Piece,
            returned: true,
            flags: BEGIN | OLDEST,
            handler: 0xfffe,
            len: 3,
            tries: 9,
            seq: 0x8001,
            acks: Acks {
                messages: 7,
                pieces: 0xffff,
            },
            announced: 0xdead_beef,
        };
        let frame = Frame::new(5, &header, &[1, 2, 3]);
        assert_eq!(frame.header(), Ok(header));
        assert_eq!((frame.payload(), frame.packet().len()), (&[1, 2, 3][..], 19));
    }

    #[test]
    fn headers_that_lie_are_refused() {
        let frame = Frame::new(0, &Header::new(FrameKind::Message, 0, 1, 4), &[0; 4]);
        let good = frame.packet().to_vec();
        assert!(Header::read(&good).is_ok());
        for (at, value) in [(0, 0), (0, 4), (0, 0x83), (1, 0x10), (4, 5), (4, 3), (4, 129)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert!(Header::read(&bad).is_err(), "byte {at} = {value}");
        }
        assert!(Header::read(&good[..15]).is_err());
        let mut long = Frame::empty();
        long.fill(0, &[1; 170]);
        assert!(long.header().is_err());
    }
}
