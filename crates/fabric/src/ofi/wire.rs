//! What travels in libfabric's messages.
//!
//! ```text
//! word 0   the token: proves the sender and numbers the message (see `token.rs`)
//! word 1   bits 0..32 handle of the segment, or the sender's number (CONTROL)
//!          bits 32..56 number of the line (LINE), bits 32..40 what, 40..56 argument (CONTROL)
//!          bits 56..60 words of the line less one (LINE), bits 60..64 kind
//! LINE     the line's words; those left out are zero
//! PUT      word 2: offset; then bytes
//! CONTROL  words, and for some bytes after them
//! ```
//!
//! All little-endian: Farpost does not mix byte orders in a job. A line is a message and not an RDMA write because a
//! line must become visible whole: a provider on a byte stream (tcp) places a write as it arrives, in parts, and
//! RDMA adapters promise no order inside a write either. A message is applied by its receiver when it has arrived as a
//! whole. It also needs no registration, and fits what every provider injects without a completion.
//!
//! Cost class: *fast path*.

/// Bytes before the words of a line or of a control message.
pub const HEADER: usize = 16;
/// Bytes before those of a put.
pub const PUT_HEADER: usize = 24;
/// Lines from this number on are put as bytes.
pub const LINES: usize = 1 << 24;

/// Kinds of message.
pub mod kind {
    pub const LINE: u64 = 1;
    pub const PUT: u64 = 2;
    pub const CONTROL: u64 = 3;
}

/// What a control message says.
pub mod control {
    /// A packet; argument: priority; bytes follow.
    pub const PACKET: u8 = 1;
    /// Packets consumed so far; argument: priority.
    pub const CREDIT: u8 = 2;
    /// Question: number, segment, permission, length.
    pub const IMPORT: u8 = 3;
    /// Answer: number, outcome, length, handle.
    pub const IMPORTED: u8 = 4;
    /// A segment to import without asking: segment, permission, length, handle.
    pub const ANNOUNCE: u8 = 5;
    /// Question: has all before this arrived? Number.
    pub const FENCE: u8 = 6;
    /// Answer: number.
    pub const FENCED: u8 = 7;
    /// Question: number, handle, offset, length.
    pub const GET: u8 = 8;
    /// Answer: number, outcome; bytes follow.
    pub const GOT: u8 = 9;
    /// Question about a counter: number, peer, which.
    pub const COUNT: u8 = 10;
    /// Answer: number, value.
    pub const COUNTED: u8 = 11;
    /// Nothing: only to see whether it arrives.
    pub const NOTHING: u8 = 12;
    /// The sender ends in good order.
    pub const BYE: u8 = 13;
    /// A segment is no more: segment.
    pub const WITHDRAW: u8 = 14;
}

/// Outcomes in answers.
pub mod outcome {
    pub const YES: u64 = 0;
    pub const NOT_PUBLISHED: u64 = 1;
    pub const DENIED: u64 = 2;
}

/// A message of words, built in place.
#[derive(Clone, Copy)]
pub struct Small {
    words: [u64; 10],
    len: usize,
}

impl Small {
    /// A control message.
    #[inline]
    pub fn control(token: u64, sender: u32, what: u8, argument: u16, words: &[u64]) -> Self {
        let second =
            u64::from(sender) | u64::from(what) << 32 | u64::from(argument) << 40 | kind::CONTROL << 60;
        let mut small = Self {
            words: [0; 10],
            len: 2 + words.len(),
        };
        small.words[0] = token.to_le();
        small.words[1] = second.to_le();
        for (to, word) in small.words[2..].iter_mut().zip(words) {
            *to = word.to_le();
        }
        small
    }

    /// A line, without the zero words at its end.
    #[inline]
    pub fn line(token: u64, handle: u32, number: u32, line: &crate::Line) -> Self {
        let mut count = 8;
        while count > 1 && line[count - 1] == 0 {
            count -= 1;
        }
        let second =
            u64::from(handle) | u64::from(number) << 32 | (count as u64 - 1) << 56 | kind::LINE << 60;
        let mut words = [0; 10];
        words[0] = token.to_le();
        words[1] = second.to_le();
        words[2..].copy_from_slice(line);
        Self {
            words,
            len: 2 + count,
        }
    }

    /// The header of a put.
    #[inline]
    pub fn put(token: u64, handle: u32, offset: usize) -> Self {
        let mut words = [0; 10];
        words[0] = token.to_le();
        words[1] = (u64::from(handle) | kind::PUT << 60).to_le();
        words[2] = (offset as u64).to_le();
        Self { words, len: 3 }
    }

    /// One word more.
    #[inline]
    pub fn with(mut self, word: u64) -> Self {
        self.words[self.len] = word;
        self.len += 1;
        self
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: words are bytes; `len` is at most their number.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.len * 8) }
    }
}

/// A message as received, cut up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    Line {
        handle: u32,
        number: u32,
        line: crate::Line,
    },
    Put {
        handle: u32,
        offset: u64,
        bytes: &'a [u8],
    },
    Control {
        sender: u32,
        what: u8,
        argument: u16,
        rest: &'a [u8],
    },
}

/// Word `index` of `bytes`, if it is there.
#[inline]
pub fn word(bytes: &[u8], index: usize) -> Option<u64> {
    let at = bytes.get(index * 8..index * 8 + 8)?;
    Some(u64::from_le_bytes(at.try_into().expect("eight bytes")))
}

/// The token and the message. None: it is none of ours.
#[inline]
pub fn parse(bytes: &[u8]) -> Option<(u64, Parsed<'_>)> {
    let token = word(bytes, 0)?;
    let second = word(bytes, 1)?;
    let first_half = second as u32;
    let parsed = match second >> 60 {
        kind::LINE => {
            let count = (second >> 56 & 15) as usize + 1;
            if count > 8 || bytes.len() != HEADER + 8 * count {
                return None;
            }
            let mut line = [0; 8];
            for (to, from) in line.iter_mut().zip(bytes[HEADER..].chunks_exact(8)) {
                *to = u64::from_ne_bytes(from.try_into().expect("eight bytes"));
            }
            let number = (second >> 32) as u32 & (LINES as u32 - 1);
            Parsed::Line {
                handle: first_half,
                number,
                line,
            }
        }
        kind::PUT => Parsed::Put {
            handle: first_half,
            offset: word(bytes, 2)?,
            bytes: &bytes[PUT_HEADER..],
        },
        kind::CONTROL => Parsed::Control {
            sender: first_half,
            what: (second >> 32) as u8,
            argument: (second >> 40) as u16,
            rest: &bytes[HEADER..],
        },
        _ => return None,
    };
    Some((token, parsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_whatever_they_end_with() {
        for used in 0..=8 {
            let line: crate::Line = std::array::from_fn(|i| if i < used { i as u64 + 1 } else { 0 });
            let small = Small::line(7, 0xffff_fffe, LINES as u32 - 1, &line);
            assert_eq!(small.bytes().len(), HEADER + 8 * used.max(1));
            let expected = Parsed::Line {
                handle: 0xffff_fffe,
                number: LINES as u32 - 1,
                line,
            };
            assert_eq!(parse(small.bytes()), Some((7, expected)));
        }
    }

    #[test]
    fn puts_and_controls_come_back() {
        let small = Small::put(9, 3, 0x1234_5678_9abc);
        let mut bytes = small.bytes().to_vec();
        bytes.extend_from_slice(b"hello");
        let expected = Parsed::Put {
            handle: 3,
            offset: 0x1234_5678_9abc,
            bytes: b"hello",
        };
        assert_eq!(parse(&bytes), Some((9, expected)));
        let small = Small::control(u64::MAX, 5, control::IMPORT, 0x1ff, &[1, 2, 3, 4]);
        let Some((
            token,
            Parsed::Control {
                sender,
                what,
                argument,
                rest,
            },
        )) = parse(small.bytes())
        else {
            panic!("not a control message");
        };
        assert_eq!(
            (token, sender, what, argument),
            (u64::MAX, 5, control::IMPORT, 0x1ff)
        );
        assert_eq!((word(rest, 3), word(rest, 4)), (Some(4), None));
    }

    #[test]
    fn rubbish_is_none_of_ours() {
        let mut rng = fastrand::Rng::with_seed(1);
        for len in 0..200 {
            let bytes: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
            // Must not panic, whatever it says.
            let _ = parse(&bytes);
        }
        assert_eq!(parse(&[0; 15]), None);
        let line = Small::line(1, 1, 1, &[1; 8]);
        assert_eq!(parse(&line.bytes()[..72]), None);
    }
}
