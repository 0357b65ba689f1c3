//! Messages of the Arctic network (section 5.1, figure 3): two header words, 2 to 22 payload words, a CRC of 16 bits.
//!
//! The paper's text names the fields of the first header word and not their places. Chosen here:
//!
//! ```text
//! bits 0..16 down-route (the receiver)   16..20 service   20..24 up-route   24 random up-route
//!      25 low priority                   26..31 words of payload            31 zero
//! ```
//!
//! The second word is the user's. *Service* keeps the messages of JAM's own protocols apart from the user's.

use crate::{JamError, crc16};
use farpost_fabric::{Peer, Priority, Route, copy_words};

/// Fewest words of payload.
pub const MIN_WORDS: usize = 2;
/// Most words of payload.
pub const MAX_WORDS: usize = 22;
/// Bytes of a message on the way: header, payload, check.
pub(crate) const MAX_BYTES: usize = 8 + 4 * MAX_WORDS + 2;

/// Whose message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Service {
    User = 0,
    Rpc = 1,
    Rdma = 2,
    Vi = 3,
}

/// The way of a message and the user's header word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The receiver.
    pub to: Peer,
    /// High can hold up low, never the reverse.
    pub priority: Priority,
    /// Which way up the fat tree, 0 to 15. Messages of one priority and one way arrive in order.
    pub up_route: u8,
    /// Any way up: such messages may overtake and be overtaken.
    pub random: bool,
    /// The second header word.
    pub tag: u32,
}

impl Header {
    /// A header for `to`, in order, with the user's word `tag`.
    pub fn new(to: Peer, priority: Priority, tag: u32) -> Self {
        Self {
            to,
            priority,
            up_route: 0,
            random: false,
            tag,
        }
    }

    /// The way as the fabric is asked for it.
    #[inline(always)]
    pub fn route(&self) -> Route {
        if self.random {
            Route::Random
        } else {
            Route::Fixed(self.up_route & 15)
        }
    }

    #[inline(always)]
    fn word(&self, service: Service, words: usize) -> u32 {
        (self.to.0 & 0xffff)
            | u32::from(service as u8) << 16
            | u32::from(self.up_route & 15) << 20
            | u32::from(self.random) << 24
            | u32::from(self.priority == Priority::Low) << 25
            | (words as u32) << 26
    }
}

/// A message as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who sent it, by the fabric's word.
    pub from: Peer,
    /// Its queue.
    pub priority: Priority,
    /// The second header word.
    pub tag: u32,
    len: u8,
    words: [u32; MAX_WORDS],
}

impl Message {
    /// The payload.
    #[inline]
    pub fn words(&self) -> &[u32] {
        &self.words[..self.len as usize]
    }
}

/// Words of eight bytes of the longest message.
const WORDS: usize = MAX_BYTES.div_ceil(8);

/// A message in the form that travels: header, payload, check. It is made, checked and read by eight bytes at a time: a
/// read that spans writes of a moment ago waits for them.
#[derive(Clone, Copy)]
pub(crate) struct Packet {
    pub to: Peer,
    pub route: Route,
    len: u8,
    words: [[u8; 8]; WORDS],
}

impl Packet {
    pub const EMPTY: Packet = Packet {
        to: Peer(0),
        route: Route::Fixed(0),
        len: 0,
        words: [[0; 8]; WORDS],
    };

    /// Become a message of `payload`. In place: moving what was just written would wait for the writes.
    ///
    /// # Errors
    /// Too few or too many words.
    #[inline(always)]
    pub fn set(&mut self, header: &Header, service: Service, payload: &[u32]) -> Result<(), JamError> {
        let count = payload.len();
        if !(MIN_WORDS..=MAX_WORDS).contains(&count) {
            return Err(JamError::Length(count));
        }
        self.begin(header, service, count);
        let (pairs, odd) = payload.as_chunks::<2>();
        for (to, [low, high]) in self.words[1..].iter_mut().zip(pairs) {
            *to = (u64::from(*low) | u64::from(*high) << 32).to_le_bytes();
        }
        self.end(1 + pairs.len(), odd.first().copied(), true);
        Ok(())
    }

    /// Become a message of the words `lead` and `bytes`, together at most 4 * ([`MAX_WORDS`] - 1) bytes, filled up to whole words, at
    /// least one, and the word `last`; `checked` or with 0 in the place of the check.
    ///
    /// # Panics
    /// With more bytes.
    #[inline(always)]
    pub fn set_bytes(
        &mut self,
        header: &Header,
        service: Service,
        (lead, bytes): (&[u64], &[u8]),
        last: u32,
        checked: bool,
    ) {
        let len = 8 * lead.len() + bytes.len();
        assert!(len <= 4 * (MAX_WORDS - 1));
        let count = len.div_ceil(4).max(1);
        self.begin(header, service, count + 1);
        let (words, rest) = self.words[1..].split_at_mut(lead.len());
        for (to, word) in words.iter_mut().zip(lead) {
            *to = word.to_le_bytes();
        }
        copy_words(rest, bytes);
        let at = 1 + count / 2;
        if count.is_multiple_of(2) {
            return self.end(at, Some(last), checked);
        }
        let half = if len == 0 {
            0
        } else {
            u64::from_le_bytes(self.words[at])
        };
        self.words[at] = (half | u64::from(last) << 32).to_le_bytes();
        self.end(at + 1, None, checked);
    }

    #[inline(always)]
    fn begin(&mut self, header: &Header, service: Service, count: usize) {
        self.to = header.to;
        self.route = header.route();
        self.len = (10 + 4 * count) as u8;
        let head = u64::from(header.word(service, count)) | u64::from(header.tag) << 32;
        self.words[0] = head.to_le_bytes();
    }

    /// The check, behind `at` words and the `odd` half of one.
    #[inline(always)]
    fn end(&mut self, at: usize, odd: Option<u32>, checked: bool) {
        let half = u64::from(odd.unwrap_or(0));
        self.words[at] = half.to_le_bytes();
        if !checked {
            return;
        }
        let bits = if odd.is_some() { 32 } else { 0 };
        let check = crc16::of(&self.words.as_flattened()[..usize::from(self.len) - 2]);
        self.words[at] = (half | u64::from(check) << bits).to_le_bytes();
    }

    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.words.as_flattened()[..usize::from(self.len)]
    }
}

/// The field that makes a message invalid, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidHeader {
    pub what: &'static str,
    pub value: u64,
}

/// Check a message that came for `me`, where it lies: its service, its second header word, its payload. What is not `checked` carries no
/// check; everything else about it is looked at all the same.
#[inline(always)]
pub(crate) fn look(
    bytes: &[u8],
    priority: Priority,
    me: Peer,
    checked: bool,
) -> Result<(u8, u32, &[u8]), InvalidHeader> {
    let bad = |what, value| Err(InvalidHeader { what, value });
    let len = bytes.len();
    if !(10 + 4 * MIN_WORDS..=MAX_BYTES).contains(&len) {
        return bad("the length of a message", len as u64);
    }
    let (body, check) = bytes.split_at(len - 2);
    let check = u16::from_le_bytes([check[0], check[1]]);
    if checked && crc16::of(body) != check {
        return bad("the check of a message", u64::from(check));
    }
    let word = |at: usize| u32::from_le_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
    let first = word(0);
    let words = (first >> 26 & 31) as usize;
    if 8 + 4 * words != body.len() || first >> 31 != 0 {
        return bad("the length in a header", u64::from(first));
    }
    if first & 0xffff != me.0 & 0xffff {
        return bad("the receiver in a header", u64::from(first & 0xffff));
    }
    if (first >> 25 & 1 == 1) != (priority == Priority::Low) {
        return bad("the priority in a header", u64::from(first));
    }
    Ok(((first >> 16 & 15) as u8, word(4), &body[8..]))
}

impl Message {
    /// Take these words for the payload, at most [`MAX_WORDS`].
    pub(crate) fn fill(&mut self, words: impl Iterator<Item = u32>) {
        self.len = 0;
        for (to, word) in self.words.iter_mut().zip(words) {
            *to = word;
            self.len += 1;
        }
    }

    /// A message with that payload, as it travels: whole words, at most [`MAX_WORDS`].
    #[inline(always)]
    pub(crate) fn of(from: Peer, priority: Priority, tag: u32, payload: &[u8]) -> Self {
        let mut message = Message {
            from,
            priority,
            tag,
            len: (payload.len() / 4) as u8,
            words: [0; MAX_WORDS],
        };
        for (to, bytes) in message.words.iter_mut().zip(payload.as_chunks::<4>().0) {
            *to = u32::from_le_bytes(*bytes);
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_beyond_the_papers_are_refused() {
        let header = Header::new(Peer(1), Priority::Low, 7);
        for words in [0, 1, 23, 40] {
            let mut packet = Packet::EMPTY;
            let refused = packet.set(&header, Service::User, &vec![0; words]).err();
            assert_eq!(refused, Some(JamError::Length(words)));
        }
    }

    proptest! {
        #[test]
        fn messages_survive(to in 0u32..65536, tag: u32, low: bool, random: bool, up in 0u8..16,
                            words in proptest::collection::vec(any::<u32>(), MIN_WORDS..=MAX_WORDS)) {
            let priority = if low { Priority::Low } else { Priority::High };
            let header = Header { to: Peer(to), priority, up_route: up, random, tag };
            let mut packet = Packet::EMPTY;
            packet.set(&header, Service::Vi, &words).unwrap();
            let (service, tagged, payload) = look(packet.bytes(), priority, Peer(to), true).unwrap();
            let message = Message::of(Peer(3), priority, tagged, payload);
            prop_assert_eq!((service, message.from, message.tag), (3, Peer(3), tag));
            prop_assert_eq!(message.words(), &words[..]);
            let (check, body) = packet.bytes().split_last_chunk::<2>().map(|(body, check)| (check, body)).unwrap();
            prop_assert_eq!(u16::from_le_bytes(*check), crc16::of(body));
        }

        #[test]
        fn bytes_survive(bytes in proptest::collection::vec(any::<u8>(), 0..=4 * (MAX_WORDS - 1)), last: u32, checked: bool) {
            let header = Header::new(Peer(4), Priority::Low, 9);
            let mut packet = Packet::EMPTY;
            packet.set_bytes(&header, Service::Rpc, (&[], &bytes), last, checked);
            let (service, tag, payload) = look(packet.bytes(), Priority::Low, Peer(4), checked).unwrap();
            prop_assert_eq!((service, tag), (1, 9));
            let mut whole = bytes.clone();
            whole.resize(bytes.len().next_multiple_of(4).max(4), 0);
            whole.extend_from_slice(&last.to_le_bytes());
            prop_assert_eq!(payload, &whole[..]);
            prop_assert_eq!(look(packet.bytes(), Priority::Low, Peer(4), true).is_ok(), checked || crc16::of(&packet.bytes()[..packet.bytes().len() - 2]) == 0);
        }

        #[test]
        fn any_flipped_bit_is_noticed(tag: u32, at in 0usize..(8 + 4 * 5 + 2) * 8) {
            let header = Header::new(Peer(2), Priority::High, tag);
            let mut packet = Packet::EMPTY;
            packet.set(&header, Service::User, &[1, 2, 3, 4, 5]).unwrap();
            let mut bytes = packet.bytes().to_vec();
            bytes[at / 8] ^= 1 << (at % 8);
            prop_assert!(look(&bytes, Priority::High, Peer(2), true).is_err());
        }

        #[test]
        fn garbage_is_refused_or_is_a_message(bytes in proptest::collection::vec(any::<u8>(), 0..120), checked: bool) {
            let _ = look(&bytes, Priority::Low, Peer(0), checked);
        }
    }
}
