//! The three messages of the handshake, byte by byte. Numbers are little-endian.
//!
//! ```text
//! hello    initiator   opening (48), Noise message 1 (88)
//! answer   responder   opening (48), Noise message 2 (64)      or a refusal: opening (48) alone
//! confirm  initiator   proof (16)
//!
//! opening  0..8   magic
//!          8..14  version: major, minor, patch, 16 bits each
//!          14..16 kind: 0 hello, 1 welcome, 0x100 + reason: refused
//!          16..32 random bytes; in a refusal two 64-bit details
//!          32..48 HMAC-SHA256 under the job's secret, first half
//! ```
//!
//! The opening and the length of the hello stay as they are in every version to come, so that two versions can
//! always tell each other apart and say so.

use ring::hmac;

/// What every opening begins with.
pub const MAGIC: [u8; 8] = *b"\xf7Farpost";
/// Bytes of an opening.
pub const OPENING_BYTES: usize = 48;
/// What the opening's code covers of it.
const SIGNED_BYTES: usize = 32;
/// Bytes of what the initiator tells: job, initiator, responder, rail, flags, note.
pub const CALL_BYTES: usize = 16 + 4 + 4 + 1 + 1 + 2 + 8 + 4;
/// Bytes of what the responder tells: flags, note.
pub const WELCOME_BYTES: usize = 8 + 8;
/// Bytes that Noise adds to the payload of each of its two messages: an ephemeral key and a tag.
pub const NOISE_BYTES: usize = 32 + 16;
/// Bytes of the first message.
pub const HELLO_BYTES: usize = OPENING_BYTES + NOISE_BYTES + CALL_BYTES;
/// Bytes of the answer.
pub const ANSWER_BYTES: usize = OPENING_BYTES + NOISE_BYTES + WELCOME_BYTES;
/// Bytes of the last message.
pub const CONFIRM_BYTES: usize = 16;
/// No message is longer.
pub const LONGEST: usize = HELLO_BYTES;

/// Kind of an opening: the first message.
pub const KIND_HELLO: u16 = 0;
/// Kind of an opening: the answer of who lets in.
pub const KIND_WELCOME: u16 = 1;
/// Kinds from here on: refused, with the reason's number added.
pub const KIND_REFUSED: u16 = 0x100;

/// A version of Farpost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// First number.
    pub major: u16,
    /// Second number.
    pub minor: u16,
    /// Third number.
    pub patch: u16,
}

impl Version {
    /// What this process runs.
    pub const OURS: Version = Version {
        major: number(env!("CARGO_PKG_VERSION_MAJOR")),
        minor: number(env!("CARGO_PKG_VERSION_MINOR")),
        patch: number(env!("CARGO_PKG_VERSION_PATCH")),
    };
}

impl core::fmt::Display for Version {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

const fn number(text: &str) -> u16 {
    match u16::from_str_radix(text, 10) {
        Ok(n) => n,
        Err(_) => panic!("a part of the version is no number"),
    }
}

/// The fixed part that a hello and an answer begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    pub version: Version,
    pub kind: u16,
    pub random: [u8; 16],
}

/// Why an opening was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadOpening {
    Magic,
    Code,
}

impl Opening {
    /// The bytes, with the code under `key`. `about` is what it answers: the hello's opening, or nothing.
    pub fn encode(&self, key: &hmac::Key, about: &[u8]) -> [u8; OPENING_BYTES] {
        let mut b = [0u8; OPENING_BYTES];
        b[..8].copy_from_slice(&MAGIC);
        b[8..10].copy_from_slice(&self.version.major.to_le_bytes());
        b[10..12].copy_from_slice(&self.version.minor.to_le_bytes());
        b[12..14].copy_from_slice(&self.version.patch.to_le_bytes());
        b[14..16].copy_from_slice(&self.kind.to_le_bytes());
        b[16..32].copy_from_slice(&self.random);
        let code = code(key, about, &b[..SIGNED_BYTES]);
        b[SIGNED_BYTES..].copy_from_slice(&code);
        b
    }

    /// Read what `encode` wrote; nothing of it is looked at before magic and code are found right.
    pub fn decode(b: &[u8; OPENING_BYTES], key: &hmac::Key, about: &[u8]) -> Result<Opening, BadOpening> {
        if b[..8] != MAGIC {
            return Err(BadOpening::Magic);
        }
        let right = code(key, about, &b[..SIGNED_BYTES]);
        if !same(&right, &b[SIGNED_BYTES..]) {
            return Err(BadOpening::Code);
        }
        let half = |at: usize| u16::from_le_bytes([b[at], b[at + 1]]);
        let mut random = [0u8; 16];
        random.copy_from_slice(&b[16..32]);
        Ok(Opening {
            version: Version {
                major: half(8),
                minor: half(10),
                patch: half(12),
            },
            kind: half(14),
            random,
        })
    }
}

fn code(key: &hmac::Key, about: &[u8], opening: &[u8]) -> [u8; 16] {
    let mut c = hmac::Context::with_key(key);
    // The length keeps a hello's code from being an answer's.
    c.update(&(about.len() as u64).to_le_bytes());
    c.update(about);
    c.update(opening);
    let mut out = [0u8; 16];
    out.copy_from_slice(&c.sign().as_ref()[..16]);
    out
}

/// Compare without telling by the time it takes where the difference is.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && core::hint::black_box(a.iter().zip(b).fold(0u8, |d, (x, y)| d | (x ^ y))) == 0
}

/// What the initiator tells, encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub job: [u8; 16],
    pub initiator: u32,
    pub responder: u32,
    pub rail: u8,
    pub encrypt: bool,
    pub note: u64,
}

impl Call {
    pub fn encode(&self) -> [u8; CALL_BYTES] {
        let mut b = [0u8; CALL_BYTES];
        b[..16].copy_from_slice(&self.job);
        b[16..20].copy_from_slice(&self.initiator.to_le_bytes());
        b[20..24].copy_from_slice(&self.responder.to_le_bytes());
        b[24] = self.rail;
        b[25] = u8::from(self.encrypt);
        b[28..36].copy_from_slice(&self.note.to_le_bytes());
        b
    }

    pub fn decode(b: &[u8; CALL_BYTES]) -> Call {
        let word = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let mut job = [0u8; 16];
        job.copy_from_slice(&b[..16]);
        Call {
            job,
            initiator: word(16),
            responder: word(20),
            rail: b[24],
            encrypt: b[25] & 1 != 0,
            note: u64::from(word(28)) | u64::from(word(32)) << 32,
        }
    }
}

/// What the responder tells who is let in, encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    pub encrypt: bool,
    pub note: u64,
}

impl Welcome {
    pub fn encode(&self) -> [u8; WELCOME_BYTES] {
        let mut b = [0u8; WELCOME_BYTES];
        b[0] = u8::from(self.encrypt);
        b[8..].copy_from_slice(&self.note.to_le_bytes());
        b
    }

    pub fn decode(b: &[u8; WELCOME_BYTES]) -> Welcome {
        let mut note = [0u8; 8];
        note.copy_from_slice(&b[8..]);
        Welcome {
            encrypt: b[0] & 1 != 0,
            note: u64::from_le_bytes(note),
        }
    }
}

/// Bytes to send: a message of the handshake, or nothing.
#[derive(Clone, Copy)]
pub struct Flight {
    bytes: [u8; LONGEST],
    len: u8,
}

impl Flight {
    /// Nothing to send.
    pub const NOTHING: Flight = Flight {
        bytes: [0; LONGEST],
        len: 0,
    };

    pub(super) fn of(parts: [&[u8]; 2]) -> Flight {
        let mut f = Flight::NOTHING;
        let mut at = 0;
        for part in parts {
            f.bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        f.len = at as u8;
        f
    }
}

impl core::ops::Deref for Flight {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl core::fmt::Debug for Flight {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

const _: () = assert!(LONGEST <= 256 && HELLO_BYTES == 136 && LONGEST <= u8::MAX as usize);
