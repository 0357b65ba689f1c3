//! The job's secret and what is derived from it.

use std::rc::Rc;

use ring::{hkdf, hmac};

/// The job's secret, as the handshake uses it. Cheap to copy; shows nothing of itself.
#[derive(Clone)]
pub struct Secret(Rc<Keys>);

/// A key per purpose, so that no code of one is ever good for the other.
pub struct Keys {
    /// Of the openings' codes.
    pub code: hmac::Key,
    /// Noise's pre-shared key.
    pub psk: [u8; 32],
}

impl Secret {
    /// From the 32 random bytes that the launcher gave every process of the job.
    pub fn new(bytes: &[u8; 32]) -> Self {
        let code: [u8; 32] = derive(bytes, "farpost opening");
        Secret(Rc::new(Keys {
            code: hmac::Key::new(hmac::HMAC_SHA256, &code),
            psk: derive(bytes, "farpost noise psk"),
        }))
    }
}

impl core::ops::Deref for Secret {
    type Target = Keys;
    fn deref(&self) -> &Keys {
        &self.0
    }
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret(..)")
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
