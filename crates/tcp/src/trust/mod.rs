//! Who may talk to this process over a network: a keyed handshake, keys of each connection, and a gate that keeps
//! strangers from costing anything.
//!
//! # What it promises
//!
//! * No byte of a connection is interpreted before the other side has proved that it knows the job's secret, a
//!   number of 32 random bytes from the launcher. Before that proof a stranger meets one comparison with eight fixed
//!   bytes and one HMAC over 32 more.
//! * Whoever listens sends nothing to a stranger and makes nothing for one: per waiting connection there is a
//!   [`Handshake`] with a fixed buffer of 136 bytes. The [`Gate`] bounds how many wait, and how long.
//! * A recorded handshake is of no use. The answer to it is encrypted to a key that only the living initiator has, and
//!   the connection is good when the initiator has shown that it could read it.
//! * The handshake binds version, job, both ranks and the rail. Someone in between can only end it.
//! * Two versions of Farpost refuse each other and name both versions. A version is told only to who has the secret.
//!
//! # How
//!
//! [Three messages](wire) of 136, 112 and 16 bytes. The first begins with a fixed opening under HMAC-SHA256, in
//! the same form in every version; the rest is Noise (revision 34) in the pattern `NNpsk0`: both sides make ephemeral
//! keys, and the job's secret goes in before the first of them. The third is a value derived from the result. Data may
//! follow the third message at once, so a connection costs one round trip.
//!
//! # Why these libraries
//!
//! Measured on one core of a Xeon with VAES, `cargo test --profile quick -p farpost-fabric --lib
//! trust::tests::measure -- --ignored --nocapture`:
//!
//! | What | Time |
//! |---|---|
//! | handshake, both sides together | 130 us, of which 106 are X25519 |
//! | the same with HMAC and HKDF alone | about 4 us |
//! | refusing a hello with a wrong secret | 0.25 us |
//! | sealing, opening a record of 16 KiB, AES-128-GCM | 11.3, 12.0 GB/s |
//! | the same with AES-256-GCM; ChaCha20-Poly1305 | 9.5; 2.3 GB/s |
//!
//! A handshake put together from HMAC would be quicker and ours alone to defend; Noise is analysed, a pair of processes
//! does it once per rail, and with ephemeral keys a recorded connection stays closed even to who learns the secret
//! later. `snow` keeps to Noise and leaves the arithmetic to `ring`, which also seals the records: in place, with the
//! vector instructions of the processor, several times faster than a wire of 10 Gbit/s. Records of 16 KiB are where the rate
//! levels off (64 KiB: 11.7 GB/s) and are still in the first-level cache when they are copied. Both crates
//! together add some 15 s to a build from nothing.
#![forbid(unsafe_code)]

mod gate;
mod handshake;
mod noise;
mod record;
mod refusal;
mod secret;
mod session;
pub mod wire;

pub use gate::{Admission, Gate, GateSlot, Limits, Tally};
pub use handshake::{Caller, Handshake, Listener, Progress};
pub use record::{
    BadRecord, Opener, RECORD_HEADER, RECORD_MAX, RECORD_OVERHEAD, RECORD_PLAIN_MAX, RECORD_TAG, Sealer,
};
pub use refusal::{HandshakeStage, Reason, Refusal};
pub use secret::Secret;
pub use session::{HEADER_CODED, HeaderCheck, Session};
pub use wire::{Flight, Version};

farpost_tunables::tunables! {
    /// Trust between hosts.
    pub struct TrustTunables {
        /// 1 encrypts everything between hosts (AES-128-GCM). It is on for a connection if either of its ends asks.
        encrypt: "FARPOST_ENCRYPT" = 0, 0..=1, "off/on";
        /// Connections that may wait at once to prove that they belong to the job; beyond that the oldest stranger is dropped.
        waiting: "FARPOST_HANDSHAKE_PLACES" = 64, 1..=4096, "connections";
        /// How long a connection may take for its first message. Strangers that say nothing are dropped then.
        patience: "FARPOST_HANDSHAKE_MS" = 2000, 10..=600_000, "milliseconds";
        /// How long a connection whose first message was right may take for its last. A peer that computes takes long.
        known: "FARPOST_HANDSHAKE_KNOWN_MS" = 60_000, 10..=3_600_000, "milliseconds";
    }
}

impl TrustTunables {
    /// What a [`Gate`] needs of them.
    pub fn limits(&self) -> Limits {
        Limits {
            places: self.waiting as usize,
            patience: core::time::Duration::from_millis(self.patience),
            known_patience: core::time::Duration::from_millis(self.known),
        }
    }
}

#[cfg(test)]
mod tests;
