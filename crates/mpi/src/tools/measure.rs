//! Performance variables (MPI-5.0 section 15.3.7): what is counted anyway, and what there is at the moment.

use super::{STAGE, ValueKind};
use farpost_fabric::{Counter, Register};

/// Classes of performance variables, by their numbers in the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Class {
    State = 1,
    Level = 2,
    Size = 3,
    Percentage = 4,
    Counter = 7,
    Aggregate = 8,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Before, between or after MPI_Init and MPI_Finalize.
    Stage,
    UnexpectedMessages,
    UnexpectedBytes,
    /// The same as a share of what is allowed: bits of an f64.
    UnexpectedShare,
    PostedReceives,
    Requests,
    Communicators,
    /// Of the traffic with each peer of a communicator.
    Peer(Counter),
    /// Refused by an interface beside MPI.
    Register(Register),
}

/// A performance variable.
pub struct Measure {
    pub name: &'static str,
    pub text: String,
    pub class: Class,
    pub kind: ValueKind,
    pub what: What,
    pub category: &'static str,
}

impl Measure {
    /// Whether it is bound to a communicator, of which it has a value for each peer.
    pub fn of_comm(&self) -> bool {
        matches!(self.what, What::Peer(_))
    }

    /// Whether it is always active.
    pub fn is_continuous(&self) -> bool {
        !self.of_comm()
    }

    /// Whether it only can be read.
    pub fn is_read_only(&self) -> bool {
        !matches!(self.class, Class::Counter | Class::Aggregate)
    }
}

pub(super) fn all() -> Vec<Measure> {
    let plain = |name, text: &str, class, kind, what, category| Measure {
        name,
        text: text.into(),
        class,
        kind,
        what,
        category,
    };
    let number = ValueKind::Number;
    let mut all = vec![
        plain(
            "stage",
            "Where the process is in its life.",
            Class::State,
            ValueKind::Choice(STAGE),
            What::Stage,
            "library",
        ),
        plain(
            "unexpected_messages",
            "Messages that came before their receives and lie here.",
            Class::Level,
            number,
            What::UnexpectedMessages,
            "queues",
        ),
        plain(
            "unexpected_bytes",
            "Memory that they take, in bytes.",
            Class::Level,
            number,
            What::UnexpectedBytes,
            "queues",
        ),
        plain(
            "unexpected_share",
            "The same as a part, 0 to 1, of what FARPOST_UNEXPECTED_BYTES allows.",
            Class::Percentage,
            ValueKind::Fraction,
            What::UnexpectedShare,
            "queues",
        ),
        plain(
            "posted_receives",
            "Receives that wait for their messages.",
            Class::Level,
            number,
            What::PostedReceives,
            "queues",
        ),
        plain(
            "requests",
            "Requests that live.",
            Class::Level,
            number,
            What::Requests,
            "queues",
        ),
        plain(
            "communicators",
            "Communicators that live, with the two predefined ones.",
            Class::Size,
            number,
            What::Communicators,
            "library",
        ),
    ];
    let peers = [
        (
            "packets_sent",
            "Postboxes or packets sent, by peer.",
            Counter::Sent,
        ),
        (
            "bytes_sent",
            "Bytes of payload sent in them, by peer.",
            Counter::SentBytes,
        ),
        (
            "packets_received",
            "Postboxes or packets received, by peer.",
            Counter::Received,
        ),
        (
            "bytes_received",
            "Bytes of payload received in them, by peer.",
            Counter::ReceivedBytes,
        ),
        ("stalls", "Times a send found no room, by peer.", Counter::Stalls),
        (
            "retries",
            "Times something was sent again, by peer.",
            Counter::Retries,
        ),
        (
            "bulk_bytes",
            "Bytes moved from memory to memory in one copy, by peer.",
            Counter::BulkBytes,
        ),
        (
            "refused_values",
            "Values refused because they cannot be right, by peer.",
            Counter::Faults,
        ),
    ];
    all.extend(peers.map(|(name, text, counter)| {
        let class = match counter {
            Counter::SentBytes | Counter::ReceivedBytes | Counter::BulkBytes => Class::Aggregate,
            _ => Class::Counter,
        };
        plain(name, text, class, number, What::Peer(counter), "traffic")
    }));
    all.extend(
        Register::all()
            .filter(|register| *register != Register::RsmCesr)
            .map(|register| Measure {
                name: register.key(),
                text: format!("{}: {}.", register.interface(), register.text()),
                class: Class::Counter,
                kind: number,
                what: What::Register(register),
                category: register.interface(),
            }),
    );
    all
}
