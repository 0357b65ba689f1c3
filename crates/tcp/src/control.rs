//! Control frames, and what they carry.

/// Control frames; their words are 64 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
pub enum ControlCode {
    /// So many more packets (word 0) of lane `object` may be sent.
    Credit = 1,
    /// Answer when all before this is done; word 0 is the number of the fence.
    Fence = 2,
    /// The answer; what was refused before was told by [`ControlCode::Refused`].
    Fenced = 3,
    /// A segment, or that there is none: [`SegmentNotice`].
    Segment = 4,
    /// Which handle has segment `object`? Word 0 is a token.
    Find = 5,
    /// The segment of handle `object` is withdrawn.
    Forget = 6,
    /// The answer to that.
    Forgotten = 7,
    /// Fetch what is to be put into what was exposed, or into a segment: token, key there, offset, bytes, key here.
    PutAsk = 8,
    /// The transfer of that token is over; word 1 is 1 if it was refused.
    PutDone = 9,
    /// So many bytes of eager zero-copy payloads (word 0), in all, may be sent.
    ZcopyGrant = 10,
    /// So many puts (word 0), in all, to the segment of handle `object`, which is withdrawn, were refused.
    Refused = 11,
}

impl ControlCode {
    /// Words that it has.
    pub fn words(self) -> usize {
        use ControlCode::*;
        match self {
            Forget | Forgotten => 0,
            PutDone => 2,
            Segment => SegmentNotice::WORDS,
            PutAsk => WORDS_MAX,
            Credit | Fence | Fenced | Find | ZcopyGrant | Refused => 1,
        }
    }
}

/// Most words of a control frame.
pub const WORDS_MAX: usize = 5;

/// A frame that announces a segment or answers a query, with the query's token (0: an announcement).
pub struct SegmentNotice {
    pub id: u32,
    pub handle: u32,
    pub flag: u32,
    pub len: u64,
    pub token: u64,
}

impl SegmentNotice {
    /// Words of it besides the number of the segment.
    pub const WORDS: usize = 3;

    pub fn encode(&self) -> [u64; Self::WORDS] {
        [
            u64::from(self.handle) | u64::from(self.flag) << 32,
            self.len,
            self.token,
        ]
    }

    pub fn decode(id: u32, words: &[u64]) -> Self {
        Self {
            id,
            handle: words[0] as u32,
            flag: (words[0] >> 32) as u32,
            len: words[1],
            token: words[2],
        }
    }
}
