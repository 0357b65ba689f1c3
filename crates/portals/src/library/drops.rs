//! Messages that were dropped, by reason. Each counts in the status register.

use farpost_fabric::Register;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)*) => {
        /// Why a message was dropped (section 4.2). The initiator is not told.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DropReason { $($(#[doc = $doc])+ $name,)* }

        impl DropReason {
            /// All of them.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$name),*];

            /// In words.
            pub const fn text(self) -> &'static str {
                match self { $(DropReason::$name => $text,)* }
            }
        }
    };
}

reasons! {
    /// A header that no library writes.
    Malformed = "a header that cannot be",
    /// From a process that the job does not have, or for an interface that is not open.
    UnknownProcess = "unknown process or interface",
    /// Portal index beyond the table.
    PtIndex = "portal index beyond the table",
    /// Access control index beyond the table.
    AcIndex = "access control index beyond the table",
    /// The access entry admits another user.
    AccessUid = "access denied: user",
    /// The access entry is for another portal.
    AccessPortal = "access denied: portal",
    /// The access entry admits another job.
    AccessJid = "access denied: job",
    /// The access entry admits another node.
    AccessNid = "access denied: node",
    /// The access entry admits another process of that node.
    AccessPid = "access denied: process",
    /// No entry of the match list accepts it.
    NoMatch = "no match entry accepts it",
    /// An acknowledgement or a reply that nobody waits for: its descriptor is gone or inactive.
    Answer = "an answer whose descriptor is gone or inactive",
    /// More operations are in progress than there is room for.
    NoRoom = "too many operations in progress",
}

impl DropReason {
    /// Where those who watch the process see how many there were.
    pub const fn register(self) -> Register {
        match self {
            DropReason::Malformed => Register::PortalsMalformed,
            DropReason::UnknownProcess => Register::PortalsUnknownProcess,
            DropReason::PtIndex => Register::PortalsPtIndex,
            DropReason::AcIndex => Register::PortalsAcIndex,
            DropReason::AccessUid => Register::PortalsAccessUid,
            DropReason::AccessPortal => Register::PortalsAccessPortal,
            DropReason::AccessJid => Register::PortalsAccessJid,
            DropReason::AccessNid => Register::PortalsAccessNid,
            DropReason::AccessPid => Register::PortalsAccessPid,
            DropReason::NoMatch => Register::PortalsNoMatch,
            DropReason::Answer => Register::PortalsAnswer,
            DropReason::NoRoom => Register::PortalsNoRoom,
        }
    }
}

/// Counts of them.
#[derive(Clone, Debug, Default)]
pub struct Drops {
    counts: [u64; DropReason::ALL.len()],
}

impl Drops {
    pub(super) fn add(&mut self, reason: DropReason) {
        self.counts[reason as usize] += 1;
    }

    /// How many for that reason.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.counts[reason as usize]
    }

    /// How many for any reason.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}
