//! What a handshake leaves: who is there, and keys of this connection alone.

use siphasher::sip::SipHasher24;

use super::record::{Opener, Sealer};
use super::secret::derive;

/// Bytes of a frame header that its code is about.
pub const HEADER_CODED: usize = 24;

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
    /// The code of headers of frames that I send.
    pub send_check: HeaderCheck,
    /// The code of headers of frames that I receive.
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

/// The code of frame headers under a key of the connection and of the direction: SipHash-2-4 over the number of the frame on
/// its connection and the header. Who does not have the key finds a code by one guess in 2^64, so nobody puts in, leaves out,
/// repeats, exchanges or alters headers. Of what follows a header it says nothing: that takes encryption.
#[derive(Clone, Copy)]
pub struct HeaderCheck(SipHasher24);

impl HeaderCheck {
    /// Under that key.
    pub fn new(key: &[u8; 16]) -> Self {
        HeaderCheck(SipHasher24::new_with_key(key))
    }

    pub(super) fn of_key(key: &[u8; 32]) -> Self {
        Self::new(&derive(key, "farpost header check"))
    }

    /// The code of a header, for the frame with that number on its connection.
    #[inline]
    pub fn of(&self, number: u64, header: &[u8; HEADER_CODED]) -> u64 {
        let mut bytes = [0; 8 + HEADER_CODED];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..].copy_from_slice(header);
        self.0.hash(&bytes)
    }
}

impl core::fmt::Debug for HeaderCheck {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HeaderCheck(..)")
    }
}
