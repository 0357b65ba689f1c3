//! What arrives, written down with its time: to show that a seed replays a run exactly.

use super::state::{Event, What};
use crate::{Moment, Peer};

/// Something that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Moment,
    /// Who sent it.
    pub from: Peer,
    /// To whom it came.
    pub to: Peer,
    /// What it was: `put`, `packet`, `ring` or `transfer`.
    pub what: &'static str,
    /// Where it is: the offset of a put, the port and priority of a packet.
    pub place: usize,
    /// The bytes of a put or a packet.
    pub bytes: Vec<u8>,
}

impl Arrival {
    pub(super) fn new(at: u64, event: &Event, packet: Option<&[u8]>) -> Self {
        let (what, place, bytes) = match &event.what {
            What::Piece { offset, bytes, .. } => ("put", *offset, bytes.clone()),
            What::Packet(lane, _) => ("packet", *lane, packet.unwrap_or_default().to_vec()),
            What::Ring => ("ring", 0, Vec::new()),
            What::Transfer(..) => ("transfer", 0, Vec::new()),
        };
        Self {
            at: Moment::from_nanos(at),
            from: event.from,
            to: event.to,
            what,
            place,
            bytes,
        }
    }
}
