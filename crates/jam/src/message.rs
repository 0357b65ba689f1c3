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
use farpost_fabric::{Peer, Priority};

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

/// A message in the form that travels.
#[derive(Clone, Copy)]
pub(crate) struct Packet {
    pub to: Peer,
    pub random: bool,
    len: u8,
    bytes: [u8; MAX_BYTES],
}

impl Packet {
    pub const EMPTY: Packet = Packet {
        to: Peer(0),
        random: false,
        len: 0,
        bytes: [0; MAX_BYTES],
    };

    /// # Errors
    /// Too few or too many words.
    #[inline]
    pub fn new(header: &Header, service: Service, payload: &[u32]) -> Result<Self, JamError> {
        let words = payload.len();
        if !(MIN_WORDS..=MAX_WORDS).contains(&words) {
            return Err(JamError::Length(words));
        }
        let mut packet = Packet {
            to: header.to,
            random: header.random,
            len: (10 + 4 * words) as u8,
            bytes: [0; MAX_BYTES],
        };
        let (head, rest) = packet.bytes.split_at_mut(8);
        head[..4].copy_from_slice(&header.word(service, words).to_le_bytes());
        head[4..].copy_from_slice(&header.tag.to_le_bytes());
        for (to, word) in rest.chunks_exact_mut(4).zip(payload) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let end = 8 + 4 * words;
        let check = crc16::of(&packet.bytes[..end]);
        packet.bytes[end..end + 2].copy_from_slice(&check.to_le_bytes());
        Ok(packet)
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    pub what: &'static str,
    pub value: u64,
}

/// Check a message that came for `me`, where it lies: its service, its second header word, its payload.
#[inline(always)]
pub(crate) fn look(bytes: &[u8], priority: Priority, me: Peer) -> Result<(u8, u32, &[u8]), Bad> {
    let bad = |what, value| Err(Bad { what, value });
    let len = bytes.len();
    if !(10 + 4 * MIN_WORDS..=MAX_BYTES).contains(&len) {
        return bad("the length of a message", len as u64);
    }
    let (body, check) = bytes.split_at(len - 2);
    let check = u16::from_le_bytes([check[0], check[1]]);
    if crc16::of(body) != check {
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

/// Read a message that came for `me` from `from`.
#[inline]
pub(crate) fn parse(bytes: &[u8], from: Peer, priority: Priority, me: Peer) -> Result<(u8, Message), Bad> {
    let (service, tag, payload) = look(bytes, priority, me)?;
    let mut message = Message {
        from,
        priority,
        tag,
        len: (payload.len() / 4) as u8,
        words: [0; MAX_WORDS],
    };
    for (to, bytes) in message.words.iter_mut().zip(payload.chunks_exact(4)) {
        *to = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    Ok((service, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_beyond_the_papers_are_refused() {
        let header = Header::new(Peer(1), Priority::Low, 7);
        for words in [0, 1, 23, 40] {
            let refused = Packet::new(&header, Service::User, &vec![0; words]).err();
            assert_eq!(refused, Some(JamError::Length(words)));
        }
    }

    proptest! {
        #[test]
        fn messages_survive(to in 0u32..65536, tag: u32, low: bool, random: bool, up in 0u8..16,
                            words in proptest::collection::vec(any::<u32>(), MIN_WORDS..=MAX_WORDS)) {
            let priority = if low { Priority::Low } else { Priority::High };
            let header = Header { to: Peer(to), priority, up_route: up, random, tag };
            let packet = Packet::new(&header, Service::Vi, &words).unwrap();
            let (service, message) = parse(packet.bytes(), Peer(3), priority, Peer(to)).unwrap();
            prop_assert_eq!((service, message.from, message.tag), (3, Peer(3), tag));
            prop_assert_eq!(message.words(), &words[..]);
        }

        #[test]
        fn any_flipped_bit_is_noticed(tag: u32, at in 0usize..(8 + 4 * 5 + 2) * 8) {
            let header = Header::new(Peer(2), Priority::High, tag);
            let packet = Packet::new(&header, Service::User, &[1, 2, 3, 4, 5]).unwrap();
            let mut bytes = packet.bytes().to_vec();
            bytes[at / 8] ^= 1 << (at % 8);
            prop_assert!(parse(&bytes, Peer(0), Priority::High, Peer(2)).is_err());
        }

        #[test]
        fn garbage_is_refused_or_is_a_message(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = parse(&bytes, Peer(0), Priority::Low, Peer(0));
        }
    }
}
