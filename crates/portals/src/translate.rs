//! Between the words of the library and those of the network layer, for whoever joins the two.

use crate::library::{HEADER_BYTES, MessageKind};
use crate::net::{Channel, Outcome};
use crate::types::NiFail;

/// What a message travels on.
#[inline(always)]
pub fn channel_of(header: &[u8; HEADER_BYTES]) -> Channel {
    if MessageKind::is_request(header) {
        Channel::Request
    } else {
        Channel::Answer
    }
}

/// How events tell the end of a message.
pub fn fail_of(outcome: Outcome) -> NiFail {
    match outcome {
        Outcome::Done => NiFail::OK,
        Outcome::PeerEnded => NiFail::UNDELIVERABLE,
        Outcome::Failed => NiFail::FAIL,
    }
}
