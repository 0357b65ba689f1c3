//! Operations in progress: what is kept of one between its START and its END, and while an answer is awaited.

use super::table::Key;
use crate::types::option;

/// What the target's descriptor of a request is asked for.
pub(super) const PUT: u8 = option::OP_PUT as u8;
pub(super) const GET: u8 = option::OP_GET as u8;

/// What the events of an operation tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub pt_index: u32,
    pub match_bits: u64,
    pub rlength: u64,
    pub mlength: u64,
    pub offset: u64,
    pub hdr_data: u64,
    pub link: u32,
    /// Sequence of the START event, where one was logged.
    pub start: u32,
}

/// Which part an operation plays here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// We put.
    Put,
    /// We get.
    Get,
    /// We get and put.
    GetPut,
    /// A peer puts into our descriptor.
    Incoming,
    /// A peer's get is being answered from our descriptor.
    Answering,
    /// A peer's get-put: its bytes come.
    Swapping,
    /// A peer's get-put: what was here goes.
    Swapped,
}

/// What an initiator waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing (any more).
    None,
    /// An ack or a reply.
    Awaited,
    /// An ack has come before the network layer was done with the put: bytes stored, offset used.
    Held(u64, u64),
    /// A reply is being stored.
    Arriving,
}

pub(super) struct Operation {
    pub role: Role,
    /// The other process.
    pub peer: u32,
    /// The network layer has not let the message go: for puts, the descriptor's memory is in use.
    pub sending: bool,
    pub answer: Answer,
    /// The descriptor that is sent from (initiator) or addressed (target).
    pub md: Key,
    /// The descriptor that the reply goes to.
    pub get_md: Key,
    pub facts: Facts,
    /// Of a reply: where it goes and how much is stored at most; then what its events tell.
    pub reply: Facts,
    /// At a target: the initiator's operation, for the answer.
    pub initiator: u64,
}

impl Operation {
    /// It has left, and its target is to answer.
    pub fn waits_for_answer(&self) -> bool {
        !self.sending
            && self.answer == Answer::Awaited
            && matches!(self.role, Role::Put | Role::Get | Role::GetPut)
    }

    /// Nothing more will happen to it.
    pub fn is_over(&self) -> bool {
        !self.sending && self.answer == Answer::None
    }
}
