//! What a postbox holds when it carries MPI.
//!
//! ```text
//! word 0   bits 0..32 sequence number (rsm's), 32..40 kind, 40..48 postboxes or pieces, 48..64 bytes inline
//! word 1   bits 0..32 tag, 32..64 sender's rank in the communicator
//! word 2   bits 0..48 context, 48..56 type class, 56..64 flags
//! word 3.. payload, or the fields of the kind (see [`Header`]'s users)
//! ```

use super::envelope::{CONTEXT_MASK, Envelope};
use farpost_fabric::Line;

/// Words before the payload of the first postbox.
pub const FIRST_WORD: usize = 3;
/// Bytes of payload in the first postbox of a message.
pub const FIRST_BYTES: usize = 40;
/// Bytes of payload in each postbox after the first.
pub const MORE_BYTES: usize = 56;
/// Most postboxes that an inline message takes.
pub const MAX_RUN: usize = 8;

/// Postboxes of the longest message that may be [sent in postboxes alone](crate::engine::EngineTunables) on request.
pub const LONGEST_RUN: usize = 36;
/// Its bytes.
pub const LONGEST_RUN_BYTES: usize = FIRST_BYTES + (LONGEST_RUN - 1) * MORE_BYTES;

/// A message of at most [`FIRST_BYTES`].
pub const KIND_SHORT: u8 = 1;
/// A message in several postboxes.
pub const KIND_RUN: u8 = 2;
/// A postbox after the first of a run.
pub const KIND_MORE: u8 = 3;
/// A message in blocks. Word 3: total bytes; word 4: block and bytes of the first piece; word 5: request.
pub const KIND_BLOCK: u8 = 4;
/// A piece after the first. Word 4: block and bytes.
pub const KIND_PIECE: u8 = 5;
/// Request to send. Word 3: total bytes; 4: position of the buffer; 5: request; 6: rendezvous slot + 1, or 0, and
/// [`ONE_RUN`]; 7: key of the buffer.
pub const KIND_RTS: u8 = 6;
/// Clear to send. Word 3: the sender's request; word 4: the receiver's; word 5: bytes wanted.
pub const KIND_CTS: u8 = 7;
/// A piece of a long message. Word 3: the receiver's request; 4: block and bytes. Or, with bytes inline: words 5 to 7 and as
/// many more postboxes as it counts are the piece ([`PART_FIRST`]).
pub const KIND_DATA: u8 = 8;
/// Bytes of a piece without a block in its first postbox.
pub const PART_FIRST: usize = 24;
/// The longest piece without a block.
pub const PART_MAX: usize = PART_FIRST + (MAX_RUN - 1) * MORE_BYTES;
/// A synchronous send (`FLAG_SYNC`, with its request in word 5, or in word 7 of a short one) was matched, or a long one is over.
/// Word 3: the sender's request.
pub const KIND_DONE: u8 = 9;

/// A message whose bytes follow by themselves. Word 3: total bytes; word 4: the number that the fabric gave them.
pub const KIND_ZCOPY: u8 = 10;

/// The sender would have a message back that was not matched. Word 3: its request.
pub const KIND_CANCEL: u8 = 11;
/// It is dropped. Word 3: the sender's request.
pub const KIND_CANCELLED: u8 = 12;

/// In word 6 of [`KIND_RTS`]: the buffer is one run that the receiver may transfer from; words 4 and 7 say where.
pub const ONE_RUN: u64 = 1 << 63;

/// The upper half of the first word of a message of so many bytes in one postbox.
#[inline(always)]
pub fn short_of(bytes: usize) -> u32 {
    u32::from(KIND_SHORT) | 1 << 8 | (bytes as u32) << 16
}

/// Whether messages of so many bytes are a word: what most programs send alone.
#[inline(always)]
pub fn is_word(bytes: usize) -> bool {
    bytes == 8 || bytes == 4
}

/// The word of a message, if it [is one](is_word).
#[inline(always)]
pub fn word(message: &[u8]) -> Option<u64> {
    if let Ok(eight) = message.try_into() {
        return Some(u64::from_le_bytes(eight));
    }
    match message.try_into() {
        Ok(four) => Some(u64::from(u32::from_le_bytes(four))),
        Err(_) => None,
    }
}

/// Write it to where a message is wanted that [is one](is_word).
#[inline(always)]
pub fn put_word(word: u64, to: &mut [u8]) {
    if let Ok(eight) = <&mut [u8; 8]>::try_from(&mut *to) {
        *eight = word.to_le_bytes();
    } else if let Ok(four) = <&mut [u8; 4]>::try_from(to) {
        *four = (word as u32).to_le_bytes();
    }
}

impl Envelope {
    /// The first three words, for a postbox of `kind` with `count` postboxes or pieces and `inline` bytes.
    #[inline(always)]
    pub fn line(&self, kind: u8, count: usize, inline: usize) -> Line {
        let [second, third] = self.words();
        [
            u64::from(kind) << 32 | (count as u64) << 40 | (inline as u64) << 48,
            second,
            third,
            0,
            0,
            0,
            0,
            0,
        ]
    }

    /// The second and the third word.
    #[inline(always)]
    pub fn words(&self) -> [u64; 2] {
        [
            u64::from(self.tag as u32) | u64::from(self.source) << 32,
            self.context | u64::from(self.class) << 48 | u64::from(self.flags) << 56,
        ]
    }

    /// The envelope of a postbox.
    #[inline]
    pub fn of(line: &Line) -> Self {
        Envelope {
            context: line[2] & CONTEXT_MASK,
            source: (line[1] >> 32) as u32,
            tag: line[1] as u32 as i32,
            class: (line[2] >> 48) as u8,
            flags: (line[2] >> 56) as u8,
        }
    }
}

/// Kind of a postbox.
#[inline]
pub fn kind(line: &Line) -> u8 {
    kind_of(line[0])
}

/// Kind of a postbox with this first word.
#[inline(always)]
pub fn kind_of(first: u64) -> u8 {
    (first >> 32) as u8
}

/// Bytes inline in a postbox with this first word.
#[inline(always)]
pub fn inline_bytes_of(first: u64) -> usize {
    (first >> 48) as usize
}

/// Class in this third word.
#[inline(always)]
pub fn class_of(third: u64) -> u8 {
    (third >> 48) as u8
}

/// This third word but for its class: the context, if there are no flags.
#[inline(always)]
pub fn without_class(third: u64) -> u64 {
    third & !(0xff << 48)
}

/// Postboxes or pieces.
#[inline]
pub fn count(line: &Line) -> usize {
    (line[0] >> 40) as u8 as usize
}

/// Bytes inline.
#[inline]
pub fn inline_bytes(line: &Line) -> usize {
    inline_bytes_of(line[0])
}

/// Block and bytes in one word.
#[inline]
pub fn piece(block: u32, bytes: usize) -> u64 {
    u64::from(block) | (bytes as u64) << 32
}

/// Put up to five words of payload behind the envelope.
#[inline]
pub fn fill_first(line: &mut Line, from: &[u8]) {
    fill(&mut line[3..], from);
}

/// Put up to seven words of payload behind the first word.
#[inline]
pub fn fill_more(line: &mut Line, from: &[u8]) {
    fill(&mut line[1..], from);
}

/// Put up to [`PART_FIRST`] bytes of a piece behind its three words.
pub fn fill_part(line: &mut Line, from: &[u8]) {
    fill_any(&mut line[5..], from);
}

/// The bytes of a piece in its first postbox.
pub fn first_part(line: &Line) -> [u8; PART_FIRST] {
    bytes_of::<3, PART_FIRST>(line[5..8].try_into().expect("three words"))
}

#[inline(always)]
fn fill(words: &mut [u64], from: &[u8]) {
    if let Ok(eight) = from.try_into() {
        words[0] = u64::from_le_bytes(eight);
    } else {
        fill_any(words, from);
    }
}

fn fill_any(words: &mut [u64], from: &[u8]) {
    let mut whole = [0; MORE_BYTES];
    whole[..from.len()].copy_from_slice(from);
    for (word, bytes) in words.iter_mut().zip(whole.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
}

/// Payload words as bytes.
#[inline]
pub fn bytes_of<const W: usize, const B: usize>(words: &[u64; W]) -> [u8; B] {
    let mut bytes = [0; B];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The payload of a first postbox.
#[inline]
pub fn first_payload(line: &Line) -> [u8; FIRST_BYTES] {
    bytes_of::<5, FIRST_BYTES>(line[3..8].try_into().expect("five words"))
}

/// Copy the first bytes of the payload of a first postbox.
#[inline(always)]
pub fn copy_first(line: &Line, to: &mut [u8]) {
    if let Ok(eight) = <&mut [u8; 8]>::try_from(&mut *to) {
        *eight = line[FIRST_WORD].to_le_bytes();
        return;
    }
    for (bytes, word) in to.chunks_mut(8).zip(&line[FIRST_WORD..]) {
        bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
    }
}

/// The payload of a later postbox.
#[inline]
pub fn more_payload(line: &Line) -> [u8; MORE_BYTES] {
    bytes_of::<7, MORE_BYTES>(line[1..8].try_into().expect("seven words"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_survives_its_line_at_the_extremes() {
        const INLINE_MAX: usize = FIRST_BYTES + (MAX_RUN - 1) * MORE_BYTES;
        for (context, source, tag, class, flags) in [
            (0, 0, 0, 0, 0),
            (CONTEXT_MASK, u32::MAX, i32::MAX, 255, 255),
            (5 << 40, 7, -1, 1, 128),
        ] {
            let envelope = Envelope {
                context,
                source,
                tag,
                class,
                flags,
            };
            let line = envelope.line(KIND_RUN, MAX_RUN, INLINE_MAX);
            assert_eq!(Envelope::of(&line), envelope);
            assert_eq!(
                (kind(&line), count(&line), inline_bytes(&line)),
                (KIND_RUN, MAX_RUN, INLINE_MAX)
            );
            assert_eq!(line[0] as u32, 0, "the sequence number is not ours");
        }
    }

    #[test]
    fn payload_survives_every_length() {
        let data: Vec<u8> = (1..=MORE_BYTES as u8).collect();
        for len in 0..=MORE_BYTES {
            let mut line = [0; 8];
            fill_more(&mut line, &data[..len]);
            assert_eq!(more_payload(&line)[..len], data[..len]);
            if len <= FIRST_BYTES {
                let mut line = [0; 8];
                fill_first(&mut line, &data[..len]);
                assert_eq!(first_payload(&line)[..len], data[..len]);
            }
        }
    }
}
