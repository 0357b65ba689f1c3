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
//! GATHER   word 1: handle of the first record's segment; then records: lines as above from word 1 on, and puts with
//!          their length in bits 32..60 of word 1, word 2, and bytes up to a multiple of eight
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
    pub const GATHER: u64 = 4;
}

/// Bytes that a gathered line with its record and the message's header may add to a put.
pub const GATHER_ROOM: usize = 192;
/// Bytes before a gathered put's.
pub const RECORD_HEADER: usize = 16;

/// What a control message says.
pub mod control {
    /// A packet; argument: port times two plus priority; bytes follow.
    pub const PACKET: u8 = 1;
    /// Packets consumed so far; argument: as above.
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
    /// Question: a segment's memory for `fi_read`. Number, handle, offset, length.
    pub const READ: u8 = 15;
    /// Answer: number, outcome, position, key.
    pub const READABLE: u8 = 16;
    /// The memory was read: key.
    pub const WAS_READ: u8 = 17;
}

/// Outcomes in answers.
pub mod outcome {
    pub const YES: u64 = 0;
    pub const NOT_PUBLISHED: u64 = 1;
    pub const DENIED: u64 = 2;
    pub const CANNOT: u64 = 3;
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
        let what = u64::from(what) << 32 | u64::from(argument) << 40;
        let mut small = Self::of(token, kind::CONTROL, sender, what, 2 + words.len());
        for (to, word) in small.words[2..].iter_mut().zip(words) {
            *to = word.to_le();
        }
        small
    }

    /// With the first two words, the second of which has `first` in its lower half and `more` above.
    #[inline(always)]
    fn of(token: u64, kind: u64, first: u32, more: u64, len: usize) -> Self {
        let mut words = [0; 10];
        words[0] = token.to_le();
        words[1] = (u64::from(first) | more | kind << 60).to_le();
        Self { words, len }
    }

    /// A line, without the zero words at its end.
    #[inline]
    pub fn line(token: u64, handle: u32, number: u32, line: &farpost_fabric::Line) -> Self {
        let mut count = 8;
        while count > 1 && line[count - 1] == 0 {
            count -= 1;
        }
        let more = u64::from(number) << 32 | (count as u64 - 1) << 56;
        let mut small = Self::of(token, kind::LINE, handle, more, 2 + count);
        small.words[2..].copy_from_slice(line);
        small
    }

    /// The header of a put.
    #[inline]
    pub fn put(token: u64, handle: u32, offset: usize) -> Self {
        Self::of(token, kind::PUT, handle, 0, 2).with((offset as u64).to_le())
    }

    /// The header of gathered puts and lines, the first of which is about `handle`.
    #[inline]
    pub fn gather(token: u64, handle: u32) -> Self {
        Self::of(token, kind::GATHER, handle, 0, 2)
    }

    /// The header of a gathered put, to be used without its first word.
    #[inline]
    pub fn record(handle: u32, offset: usize, len: usize) -> Self {
        Self::of(0, kind::PUT, handle, (len as u64) << 32, 2).with((offset as u64).to_le())
    }

    /// Its bytes but for the token: a record.
    #[inline]
    pub fn as_record(&self) -> &[u8] {
        &self.bytes()[8..]
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
        line: farpost_fabric::Line,
    },
    Put {
        handle: u32,
        offset: u64,
        bytes: &'a [u8],
    },
    Gather {
        handle: u32,
        records: Records<'a>,
    },
    Control {
        sender: u32,
        what: u8,
        argument: u16,
        rest: &'a [u8],
    },
}

/// Lines and puts of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records<'a>(&'a [u8]);

impl<'a> Records<'a> {
    /// The next one. None: there is none, or what follows is none of ours.
    #[inline]
    pub fn next(&mut self) -> Option<Parsed<'a>> {
        let first = word(self.0, 0)?;
        let handle = first as u32;
        let (record, len) = match first >> 60 {
            kind::LINE => {
                let count = (first >> 56 & 15) as usize + 1;
                let words = self.0.get(8..8 + 8 * count).filter(|_| count <= 8)?;
                (line(first, words), 8 + 8 * count)
            }
            kind::PUT => {
                let len = (first >> 32) as usize & ((1 << 28) - 1);
                let record = Parsed::Put {
                    handle,
                    offset: word(self.0, 1)?,
                    bytes: self.0.get(RECORD_HEADER..RECORD_HEADER + len)?,
                };
                (record, (RECORD_HEADER + len).next_multiple_of(8))
            }
            _ => return None,
        };
        self.0 = self.0.get(len..)?;
        Some(record)
    }

    /// Whether all was read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The line with this first word and these bytes, of at most eight words.
#[inline]
fn line(first: u64, bytes: &[u8]) -> Parsed<'static> {
    let mut line = [0; 8];
    for (to, from) in line.iter_mut().zip(bytes.chunks_exact(8)) {
        *to = u64::from_ne_bytes(from.try_into().expect("eight bytes"));
    }
    Parsed::Line {
        handle: first as u32,
        number: (first >> 32) as u32 & (LINES as u32 - 1),
        line,
    }
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
            line(second, &bytes[HEADER..])
        }
        kind::GATHER => Parsed::Gather {
            handle: first_half,
            records: Records(&bytes[HEADER..]),
        },
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
            let line: farpost_fabric::Line = std::array::from_fn(|i| if i < used { i as u64 + 1 } else { 0 });
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
    fn gathered_records_come_back_and_end_where_they_end() {
        let mut bytes = Small::gather(3, 8).bytes().to_vec();
        for len in [0, 1, 8, 13] {
            bytes.extend_from_slice(Small::record(8, 40, len).as_record());
            bytes.extend((0..len as u8).map(|b| b + 1));
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes.extend_from_slice(Small::line(0, 8, 5, &[1, 2, 3, 0, 0, 0, 0, 0]).as_record());
        let Some((
            3,
            Parsed::Gather {
                handle: 8,
                mut records,
            },
        )) = parse(&bytes)
        else {
            panic!("not gathered");
        };
        for len in [0, 1, 8, 13] {
            let Some(Parsed::Put {
                handle: 8,
                offset: 40,
                bytes,
            }) = records.next()
            else {
                panic!("not a put");
            };
            assert!(bytes.iter().copied().eq((0..len as u8).map(|b| b + 1)));
        }
        let line = [1, 2, 3, 0, 0, 0, 0, 0];
        assert_eq!(
            records.next(),
            Some(Parsed::Line {
                handle: 8,
                number: 5,
                line
            })
        );
        assert!(records.is_empty() && records.next().is_none());
        // Cut anywhere, it ends early and never reads past its end.
        for cut in HEADER..bytes.len() {
            let Some((_, Parsed::Gather { mut records, .. })) = parse(&bytes[..cut]) else {
                continue;
            };
            while records.next().is_some() {}
            assert!(cut == HEADER || !records.is_empty() || cut % 8 == 0);
        }
    }

    #[test]
    fn rubbish_is_none_of_ours() {
        let mut rng = fastrand::Rng::with_seed(1);
        for len in 0..200 {
            let bytes: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
            // Must not panic, whatever it says.
            if let Some((_, Parsed::Gather { mut records, .. })) = parse(&bytes) {
                while records.next().is_some() {}
            }
        }
        assert_eq!(parse(&[0; 15]), None);
        let line = Small::line(1, 1, 1, &[1; 8]);
        assert_eq!(parse(&line.bytes()[..72]), None);
    }
}
