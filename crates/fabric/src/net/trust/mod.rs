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
#![forbid(unsafe_code)]

mod handshake;
mod noise;
mod record;
mod refusal;
mod secret;
mod session;
pub mod wire;

pub use handshake::{Caller, Handshake, Listener, Progress};
pub use record::{
    BadRecord, Opener, RECORD_HEADER, RECORD_MAX, RECORD_OVERHEAD, RECORD_PLAIN_MAX, RECORD_TAG, Sealer,
};
pub use refusal::{Reason, Refusal, Stage};
pub use secret::Secret;
pub use session::{HeaderCheck, Session};
pub use wire::{Flight, Version};

#[cfg(test)]
mod tests;
