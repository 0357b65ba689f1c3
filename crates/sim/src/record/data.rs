//! What entries of a recording say.

use crate::time::Ps;

/// Names a message of a recording, or none.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark(u32);

impl Mark {
    /// No message, or one that was not written down.
    pub const NONE: Self = Self(u32::MAX);

    pub(super) fn new(number: usize) -> Self {
        Self(u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// As an index.
    pub fn number(self) -> Option<usize> {
        (self != Self::NONE).then_some(self.0 as usize)
    }
}

impl Default for Mark {
    fn default() -> Self {
        Self::NONE
    }
}

impl std::fmt::Debug for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.number() {
            Some(number) => write!(f, "message {number}"),
            None => write!(f, "no message"),
        }
    }
}

/// During which happening something was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause(pub(crate) u32);

impl Cause {
    /// Nothing that was written down.
    pub const NONE: Self = Self(u32::MAX);
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// A rank acted.
    Rank(u32),
    /// A packet's head came before a resource, by this [service](Serve) or from an adapter.
    Head { travel: u32, before: u32 },
    /// A packet's tail came to its destination.
    Tail { travel: u32, before: u32 },
    /// A resource has served.
    Served { resource: u32 },
    /// An adapter's own: the number of a name, and whether it is between processes of the host.
    Adapter { host: u32, what: u16, local: bool },
}

/// Something that happened, and its cause.
#[derive(Clone, Copy, Debug)]
pub struct Happening {
    pub time: Ps,
    pub cause: Cause,
    pub label: Label,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum MessageKind {
    Put,
    /// A request of bytes.
    Get,
    /// Those bytes.
    Answer,
    Packet,
    Ring,
    Transfer,
    /// A request of a transfer.
    Ask,
    /// To see whether puts have arrived.
    Barrier,
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub kind: MessageKind,
    pub from: u32,
    pub to: u32,
    pub bytes: u64,
    pub begun: Ps,
    pub arrived: Option<Ps>,
}

/// A packet's way.
#[derive(Clone, Copy, Debug)]
pub struct Travel {
    pub mark: Mark,
    /// Hosts.
    pub from: u32,
    pub to: u32,
    pub bytes: u32,
    /// When its head came before the resource that it is at.
    pub(super) head: Cause,
    /// The last service.
    pub(super) serve: u32,
}

impl Travel {
    pub const NONE: u32 = u32::MAX;

    /// The number of its last service.
    pub fn last_serve(&self) -> u32 {
        self.serve
    }
}

/// A resource serves a packet.
#[derive(Clone, Copy, Debug)]
pub struct Serve {
    pub travel: u32,
    pub resource: u32,
    /// Its head's coming.
    pub head: Cause,
    /// The packet's service before.
    pub before: u32,
    pub came: Ps,
    pub begun: Ps,
    pub served: Ps,
}

impl Serve {
    pub const NONE: u32 = u32::MAX;
}

/// A rank slept.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    pub from: Ps,
    pub until: Ps,
    /// When what it waited for happened; it saw that at its next poll.
    pub touched: Ps,
    /// None: its deadline.
    pub cause: Cause,
}

/// An interrupt had a rank's processor.
#[derive(Clone, Copy, Debug)]
pub struct Interrupted {
    pub from: Ps,
    pub until: Ps,
}

/// A call that a rank made.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub name: u16,
    /// Calls around it.
    pub depth: u16,
    pub begun: Ps,
    pub end: Ps,
}
