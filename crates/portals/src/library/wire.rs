//! Headers as they travel (section 4.1): 36 bytes, little endian, checked field by field when they arrive.
//!
//! | Bytes | put | get | get-put | ack | reply | nothing |
//! |---|---|---|---|---|---|---|
//! | 0 | kind | | | | | |
//! | 1, 2 | portal and access index, 255 for whatever does not fit | same | same | 0 | 0 | 0 |
//! | 3 | interface | same | same | same | same | same |
//! | 4-11 | the initiator's operation, all ones: no answer wanted | operation | operation | echoed | echoed | echoed |
//! | 12-19 | match bits | same | same | 0 | 0 | 0 |
//! | 20-27 | offset | same | same | offset used | offset used | 0 |
//! | 28-35 | hdr_data | length | hdr_data | bytes stored | 0 | 0 |
//!
//! A put of which only the *header* goes, and what is left of a *lost* put, whose body could not be read, are as a put, with the length of
//! that body in the place of the operation: nothing answers them. A lost reply is as a reply.
//!
//! The length of a put, get-put or reply is that of its body, which the network layer tells. Who the initiator is, is not
//! in it: that is the trusted layer's word. A *nothing* answers a request that was dropped, or that will not be
//! acknowledged: it releases what the initiator keeps of it. Programs do not see it: there is no negative
//! acknowledgement (section 4.2).

use super::drops::DropReason;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 36;
/// In the place of an operation: no answer is wanted.
pub const NO_ANSWER: u64 = u64::MAX;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
pub enum MessageKind {
    /// Acknowledges a put.
    Ack = 0,
    /// Brings data.
    Put = 1,
    /// Asks for data.
    Get = 2,
    /// Answers a get or a get-put.
    Reply = 3,
    /// Brings data and asks for what it replaces.
    GetPut = 4,
    /// There will be no ack or reply.
    Nothing = 5,
    /// A put of which only the header goes.
    PutHeader = 6,
    /// A put whose body could not be read.
    LostPut = 7,
    /// A reply whose body could not be read.
    LostReply = 8,
}

impl MessageKind {
    /// Whether the message with this header asks for something, and answers nothing.
    #[inline(always)]
    pub fn is_request(header: &[u8; HEADER_BYTES]) -> bool {
        const REQUESTS: [u8; 5] = [
            MessageKind::Put as u8,
            MessageKind::Get as u8,
            MessageKind::GetPut as u8,
            MessageKind::PutHeader as u8,
            MessageKind::LostPut as u8,
        ];
        REQUESTS.contains(&header[0])
    }
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: MessageKind,
    /// Portal index.
    pub pt_index: u8,
    /// Access control index.
    pub ac_index: u8,
    /// Interface number.
    pub interface: u8,
    /// The initiator's operation.
    pub operation: u64,
    /// Match bits.
    pub match_bits: u64,
    /// Offset in the target's descriptor.
    pub offset: u64,
    /// hdr_data, the length of a get, or the bytes that an ack says are stored.
    pub data: u64,
}

/// An index as it travels: what no table has is 255, which no table has either.
#[inline]
pub(super) fn index_byte(index: u32) -> u8 {
    index.min(255) as u8
}

impl Header {
    /// Its first bytes: what a message is, and which tables of the target it is for.
    #[inline(always)]
    pub fn route(&self) -> u32 {
        u32::from_le_bytes([self.kind as u8, self.pt_index, self.ac_index, self.interface])
    }

    /// As it travels, in words, of the last only the lower half.
    #[inline(always)]
    pub fn words(&self) -> ([u64; 4], u32) {
        let words = [
            u64::from(self.route()) | self.operation << 32,
            self.operation >> 32 | self.match_bits << 32,
            self.match_bits >> 32 | self.offset << 32,
            self.offset >> 32 | self.data << 32,
        ];
        (words, (self.data >> 32) as u32)
    }

    /// As it travels.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&[self.kind as u8, self.pt_index, self.ac_index, self.interface]);
        bytes[4..12].copy_from_slice(&self.operation.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.match_bits.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.offset.to_le_bytes());
        bytes[28..36].copy_from_slice(&self.data.to_le_bytes());
        bytes
    }

    /// Read a header with a body of `length` bytes.
    ///
    /// # Errors
    /// [`DropReason::Malformed`]: the size, the kind, or a field that such a message does not have.
    #[inline]
    pub fn decode(bytes: &[u8], length: u64) -> Result<Self, DropReason> {
        let bytes: &[u8; HEADER_BYTES] = bytes.try_into().map_err(|_| DropReason::Malformed)?;
        // By the words that the packet was written in, of which fields are two halves: a processor makes a read that spans two
        // writes wait until both have left it.
        let at = |at: usize| {
            let word: [u8; 8] = bytes[at..at + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(word)
        };
        let words = [at(0), at(8), at(16), at(24)];
        let half: [u8; 4] = bytes[32..].try_into().expect("four bytes");
        let half = u64::from(u32::from_le_bytes(half));
        let field = |low: u64, high: u64| low >> 32 | high << 32;
        let kind = MessageKind::from_repr(words[0] as u8).ok_or(DropReason::Malformed)?;
        let header = Self {
            kind,
            pt_index: (words[0] >> 8) as u8,
            ac_index: (words[0] >> 16) as u8,
            interface: (words[0] >> 24) as u8,
            operation: field(words[0], words[1]),
            match_bits: field(words[1], words[2]),
            offset: field(words[2], words[3]),
            data: field(words[3], half),
        };
        let answer = header.pt_index == 0 && header.ac_index == 0 && header.match_bits == 0;
        let possible = match kind {
            MessageKind::Put => true,
            MessageKind::GetPut => header.operation != NO_ANSWER,
            MessageKind::Get => header.operation != NO_ANSWER && length == 0,
            MessageKind::Ack => answer && length == 0,
            MessageKind::Reply => answer && header.data == 0,
            MessageKind::LostReply => answer && length == 0 && header.data == 0,
            MessageKind::PutHeader | MessageKind::LostPut => {
                length == 0 && header.operation <= isize::MAX as u64
            }
            MessageKind::Nothing => answer && length == 0 && header.data == 0 && header.offset == 0,
        };
        if possible {
            Ok(header)
        } else {
            Err(DropReason::Malformed)
        }
    }
}
