//! Encrypted records: what follows the handshake when encryption is on.
//!
//! ```text
//! 0..4          bytes of ciphertext, 1 to 16384, little-endian; authenticated
//! 4..4+n        ciphertext
//! 4+n..20+n     tag
//! ```
//!
//! The nonce is the number of the record on its connection and direction and is not sent: a record that is left out,
//! repeated, moved or cut does not open. Keys are replaced after 2^24 records (256 GiB), well inside the bounds that
//! TLS 1.3 keeps for AES-GCM (RFC 8446, section 5.5). Fast path but for that: no heap, no system call.

use std::io::IoSlice;

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use super::secret::derive;

/// Most bytes of plaintext in a record.
pub const RECORD_PLAIN_MAX: usize = 16 << 10;
/// Bytes before the ciphertext.
pub const RECORD_HEADER: usize = 4;
/// Bytes after the ciphertext.
pub const RECORD_TAG: usize = 16;
/// Bytes that a record adds.
pub const RECORD_OVERHEAD: usize = RECORD_HEADER + RECORD_TAG;
/// Bytes of the longest record.
pub const RECORD_MAX: usize = RECORD_PLAIN_MAX + RECORD_OVERHEAD;

/// Records under one key.
const REKEY_AFTER: u64 = 1 << 24;

/// A record that cannot be opened: the stream was tampered with or lost its place. The connection is of no use any
/// more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// The length at its head is not possible.
    #[error("record {number} says that it has {length} bytes, and 1 to {RECORD_PLAIN_MAX} are allowed")]
    Length { number: u64, length: u32 },
    /// It is not what the other side sealed as this record.
    #[error("record {number} was altered, or is not the next one of its connection")]
    Altered { number: u64 },
}

/// A key, what the next key comes from, and the number of the next record.
struct Direction {
    key: LessSafeKey,
    chain: [u8; 32],
    number: u64,
    in_key: u64,
}

impl Direction {
    fn new(chain: &[u8; 32]) -> Self {
        let bytes: [u8; 16] = derive(chain, "farpost record key");
        Direction {
            key: LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &bytes).expect("a key of the right length")),
            chain: derive(chain, "farpost next key"),
            number: 0,
            in_key: 0,
        }
    }

    /// The nonce of the next record, which then counts as used.
    #[inline]
    fn next(&mut self) -> Nonce {
        if self.in_key == REKEY_AFTER {
            self.rekey();
        }
        let mut n = [0u8; NONCE_LEN];
        n[4..].copy_from_slice(&self.number.to_le_bytes());
        self.number += 1;
        self.in_key += 1;
        Nonce::assume_unique_for_key(n)
    }

    #[cold]
    fn rekey(&mut self) {
        let number = self.number;
        *self = Direction {
            number,
            ..Direction::new(&self.chain)
        };
    }
}

/// Seals what is sent on one connection, record after record.
pub struct Sealer(Direction);

/// Opens what is received on one connection, record after record.
pub struct Opener(Direction);

impl Sealer {
    pub(super) fn of_key(key: &[u8; 32]) -> Self {
        Sealer(Direction::new(&derive(key, "farpost records")))
    }

    /// Bytes that [`Sealer::seal`] makes of `plain` bytes.
    pub const fn sealed_len(plain: usize) -> usize {
        plain + plain.div_ceil(RECORD_PLAIN_MAX) * RECORD_OVERHEAD
    }

    /// Seal in place: `record` is [`RECORD_HEADER`] bytes of any value, 1 to [`RECORD_PLAIN_MAX`] bytes of plaintext,
    /// [`RECORD_TAG`] bytes of any value. It is a whole record afterwards, and must be sent as the next one.
    ///
    /// # Panics
    /// With a length outside these bounds.
    pub fn seal_in_place(&mut self, record: &mut [u8]) {
        let plain = record
            .len()
            .checked_sub(RECORD_OVERHEAD)
            .filter(|n| (1..=RECORD_PLAIN_MAX).contains(n))
            .expect("a record of 1 to 16384 bytes of plaintext");
        let head = (plain as u32).to_le_bytes();
        let (front, body) = record.split_at_mut(RECORD_HEADER);
        front.copy_from_slice(&head);
        let (text, tag) = body.split_at_mut(plain);
        let nonce = self.0.next();
        let made = self
            .0
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(head), text)
            .expect("a length that AES-GCM permits");
        tag.copy_from_slice(made.as_ref());
    }

    /// Gather `parts` into records in `out`, one copy, sealed there; the number of bytes written, which is
    /// [`Sealer::sealed_len`] of the sum of the parts.
    ///
    /// # Panics
    /// If `out` is shorter than that.
    pub fn seal(&mut self, parts: &[IoSlice<'_>], out: &mut [u8]) -> usize {
        let mut left: usize = parts.iter().map(|p| p.len()).sum();
        let (mut part, mut taken, mut at) = (0, 0, 0);
        while left > 0 {
            let plain = left.min(RECORD_PLAIN_MAX);
            let record = &mut out[at..at + plain + RECORD_OVERHEAD];
            let mut to = RECORD_HEADER;
            while to < RECORD_HEADER + plain {
                let rest = &parts[part][taken..];
                let n = rest.len().min(RECORD_HEADER + plain - to);
                record[to..to + n].copy_from_slice(&rest[..n]);
                to += n;
                taken += n;
                if taken == parts[part].len() {
                    (part, taken) = (part + 1, 0);
                }
            }
            self.seal_in_place(record);
            at += plain + RECORD_OVERHEAD;
            left -= plain;
        }
        at
    }

    /// Records sealed.
    pub fn count(&self) -> u64 {
        self.0.number
    }
}

impl Opener {
    pub(super) fn of_key(key: &[u8; 32]) -> Self {
        Opener(Direction::new(&derive(key, "farpost records")))
    }

    /// Length of the whole record that `stream` begins with. `None`: fewer than [`RECORD_HEADER`] bytes are there.
    ///
    /// # Errors
    /// [`BadRecord::Length`].
    #[inline]
    pub fn record_len(&self, stream: &[u8]) -> Result<Option<usize>, BadRecord> {
        let Some(head) = stream.first_chunk::<RECORD_HEADER>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*head);
        if length == 0 || length as usize > RECORD_PLAIN_MAX {
            return Err(BadRecord::Length {
                number: self.0.number,
                length,
            });
        }
        Ok(Some(length as usize + RECORD_OVERHEAD))
    }

    /// Open the next record in place; its plaintext, which begins at byte [`RECORD_HEADER`].
    ///
    /// # Errors
    /// [`BadRecord`]: nothing of the record may be used, and the connection is to be given up.
    pub fn open<'a>(&mut self, record: &'a mut [u8]) -> Result<&'a mut [u8], BadRecord> {
        let number = self.0.number;
        let altered = BadRecord::Altered { number };
        if self.record_len(record)? != Some(record.len()) {
            return Err(altered);
        }
        let (head, body) = record.split_at_mut(RECORD_HEADER);
        let head: [u8; RECORD_HEADER] = (&*head).try_into().map_err(|_| altered)?;
        let nonce = self.0.next();
        self.0
            .key
            .open_in_place(nonce, Aad::from(head), body)
            .map_err(|_| altered)
    }

    /// Records opened, or tried.
    pub fn count(&self) -> u64 {
        self.0.number
    }
}

impl core::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Sealer({} records)", self.0.number)
    }
}

impl core::fmt::Debug for Opener {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Opener({} records)", self.0.number)
    }
}

#[cfg(test)]
impl Direction {
    fn skip_to_the_end_of_the_key(&mut self) {
        (self.number, self.in_key) = (REKEY_AFTER - 1, REKEY_AFTER - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_take_the_next_key_at_the_same_record() {
        let (mut s, mut o) = (Sealer::of_key(&[7; 32]), Opener::of_key(&[7; 32]));
        s.0.skip_to_the_end_of_the_key();
        o.0.skip_to_the_end_of_the_key();
        let before = s.0.chain;
        for _ in 0..3 {
            let mut record = vec![0u8; RECORD_OVERHEAD + 5];
            record[RECORD_HEADER..][..5].copy_from_slice(b"hello");
            s.seal_in_place(&mut record);
            assert_eq!(o.open(&mut record).unwrap(), b"hello");
        }
        assert_ne!(s.0.chain, before);
    }
}
