//! What a handshake leaves: who is there, and keys of this connection alone.

use ring::hkdf;

use super::record::{Opener, Sealer};

/// A connection whose both ends have proved that they know the job's secret. The two ends hold the same values with
/// sending and receiving exchanged.
pub struct Session {
    /// The process that connected.
    pub initiator: u32,
    /// The process that listened.
    pub responder: u32,
    /// The rail that the connection belongs to, numbered as the two have agreed.
    pub rail: u8,
    /// The word that the other side sent along.
    pub note: u64,
    /// Keyed check for headers of frames that I send.
    pub send_check: HeaderCheck,
    /// Keyed check for headers of frames that I receive.
    pub receive_check: HeaderCheck,
    /// With encryption, which either side may ask for: what closes and opens records. Everything after the handshake
    /// is then in records.
    pub records: Option<(Sealer, Opener)>,
}

impl core::fmt::Debug for Session {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Session")
            .field("initiator", &self.initiator)
            .field("responder", &self.responder)
            .field("rail", &self.rail)
            .field("encrypted", &self.records.is_some())
            .finish_non_exhaustive()
    }
}

/// Length of key material, for `ring`'s HKDF.
struct Bytes(usize);

impl hkdf::KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// `N` bytes for one purpose from `key`, which must be random already: HKDF's second half (RFC 5869, section 2.3).
pub fn derive<const N: usize>(key: &[u8; 32], purpose: &str) -> [u8; N] {
    let mut out = [0u8; N];
    // Both fail only beyond 255 blocks; the largest `N` here is 32.
    if let Ok(okm) = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, key).expand(&[purpose.as_bytes()], Bytes(N))
    {
        okm.fill(&mut out).expect("a length that HKDF permits");
        return out;
    }
    unreachable!("a length that HKDF permits")
}

/// A check of frame headers under a key of the connection and of the direction: it notices a stream that lost its
/// place, a frame from another connection and bytes that somebody outside put in blindly. It costs a few
/// nanoseconds and is no proof against somebody who can read the stream: that takes encryption.
#[derive(Clone, Copy)]
pub struct HeaderCheck {
    a: u64,
    b: u64,
}

impl HeaderCheck {
    pub(super) fn of_key(key: &[u8; 32]) -> Self {
        let k: [u8; 16] = derive(key, "farpost header check");
        HeaderCheck {
            a: word(&k, 0),
            b: word(&k, 8),
        }
    }

    /// The check of a header, for the frame with that number on its connection.
    #[inline]
    pub fn of(&self, number: u64, header: &[u8]) -> u32 {
        let (pairs, rest) = header.as_chunks::<16>();
        let mut h = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.a;
        for pair in pairs {
            h = fold(h ^ word(pair, 0), self.b ^ word(pair, 8));
        }
        // What is left, as two words: they overlap, or are padded, and the length tells which it was.
        let (x, y) = if rest.len() >= 8 {
            (word(rest, 0), word(rest, rest.len() - 8))
        } else {
            let mut last = [0u8; 8];
            last[..rest.len()].copy_from_slice(rest);
            (u64::from_le_bytes(last), 0)
        };
        h = fold(h ^ x, self.b ^ y);
        h = fold(h ^ self.a, header.len() as u64 ^ self.b);
        (h ^ h >> 32) as u32
    }

    /// A word of the key, for a caller with a check of its own.
    pub fn seed(&self) -> u64 {
        self.a ^ self.b.rotate_left(32)
    }
}

impl core::fmt::Debug for HeaderCheck {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HeaderCheck(..)")
    }
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Multiply to 128 bits and fold the halves together.
#[inline]
fn fold(x: u64, y: u64) -> u64 {
    let wide = u128::from(x) * u128::from(y);
    (wide as u64) ^ (wide >> 64) as u64
}
