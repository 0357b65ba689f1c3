//! What a process shows of itself beside its traffic by peer: how often its interfaces refused something, what their status
//! registers hold, and what each of its rails has carried.
//!
//! Cost class: *queued path*. Registers are written where something is refused, rails where a process is idle.

use std::fmt::Write;

/// Bytes that the name of a rail may have.
const NAME_BYTES: usize = 16;
/// Words that a rail takes where others can see it.
pub const RAIL_WORDS: usize = 8;
/// Rails of which a process shows figures; of more, the first.
pub const RAILS_SHOWN: usize = 32;

macro_rules! registers {
    ($($name:ident = $interface:literal $key:literal $text:literal,)*) => {
        /// A number of a process's that others of its host may look at.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::EnumCount, strum::EnumIter)]
        #[repr(usize)]
        pub enum Register { $(#[doc = $text] $name,)* }

        impl Register {
            /// The interface that it belongs to.
            pub const fn interface(self) -> &'static str {
                match self { $(Register::$name => $interface,)* }
            }

            /// Its name for programs.
            pub const fn key(self) -> &'static str {
                match self { $(Register::$name => $key,)* }
            }

            /// For people.
            pub const fn text(self) -> &'static str {
                match self { $(Register::$name => $text,)* }
            }
        }
    };
}

registers! {
    RsmControllers = "rsm" "rsm_controllers" "calls with a controller that is not there or does not reach the node",
    RsmSegments = "rsm" "rsm_segments" "connects to a segment that is not published, or not to this node",
    RsmDenied = "rsm" "rsm_denied" "access denied: permission that the connection or the segment does not give",
    RsmRanges = "rsm" "rsm_ranges" "accesses past the end of a segment",
    RsmStrangers = "rsm" "rsm_strangers" "signals and connections of unknown peers",
    RsmMalformed = "rsm" "rsm_malformed" "malformed packets and directories",
    RsmLate = "rsm" "rsm_late" "signals for a segment that is gone",
    RsmErrors = "rsm" "rsm_errors" "errors recorded in the status (CESR)",
    RsmCesr = "rsm" "rsm_cesr" "CESR: cause of the oldest error not read",
    FmRejected = "fm" "fm_rejected" "frames returned to their senders for want of room",
    FmReturned = "fm" "fm_returned" "own frames that came back",
    JamRefused = "jam" "jam_refused" "messages refused: a wrong check, a header that cannot be",
    PortalsMalformed = "portals" "portals_malformed" "dropped: a header that cannot be",
    PortalsUnknownProcess = "portals" "portals_unknown_process" "dropped: unknown process or interface",
    PortalsPtIndex = "portals" "portals_pt_index" "dropped: portal index beyond the table",
    PortalsAcIndex = "portals" "portals_ac_index" "dropped: access control index beyond the table",
    PortalsAccessUid = "portals" "portals_access_uid" "dropped: access denied: user",
    PortalsAccessPortal = "portals" "portals_access_portal" "dropped: access denied: portal",
    PortalsAccessJid = "portals" "portals_access_jid" "dropped: access denied: job",
    PortalsAccessNid = "portals" "portals_access_nid" "dropped: access denied: node",
    PortalsAccessPid = "portals" "portals_access_pid" "dropped: access denied: process",
    PortalsNoMatch = "portals" "portals_no_match" "dropped: no match entry accepts it",
    PortalsAnswer = "portals" "portals_answer" "dropped: an answer whose descriptor is gone or inactive",
    PortalsNoRoom = "portals" "portals_no_room" "dropped: too many operations in progress",
    PortalsAgentDropped = "portals" "portals_agent_dropped" "dropped by its agent",
    PortalsAgentRefused = "portals" "portals_agent_refused" "refused by its agent for want of room; they come again",
    PortalsRefusals = "portals" "portals_refusals" "packets refused for want of room, or after a gap; they come again",
}

impl Register {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        <Self as strum::IntoEnumIterator>::iter()
    }

    /// How many there are.
    pub const COUNT: usize = <Self as strum::EnumCount>::COUNT;
    /// Those that `PTL_SR_DROP_COUNT` is the sum of.
    pub const DROPPED: std::ops::RangeInclusive<Self> = Self::PortalsMalformed..=Self::PortalsAgentDropped;
}

/// What the rails of one interface of a process's host carry for it, to all its peers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RailFigures {
    /// The interface, or the provider: of more than 16 bytes the first are shown.
    pub name: String,
    /// Connections that work.
    pub up: u32,
    /// Connections that worked, and do not now.
    pub down: u32,
    /// Frames or messages given to it.
    pub sent: u64,
    /// Bytes of them, headers included.
    pub sent_bytes: u64,
    /// Frames or messages that came.
    pub received: u64,
    /// Bytes of them, headers included.
    pub received_bytes: u64,
    /// Times that what was on its way had to go by another rail, or a new connection.
    pub reroutes: u64,
}

impl RailFigures {
    /// As words that others can see.
    pub fn words(&self) -> [u64; RAIL_WORDS] {
        let mut name = [0; NAME_BYTES];
        let len = self.name.len().min(NAME_BYTES);
        name[..len].copy_from_slice(&self.name.as_bytes()[..len]);
        let [a, b] =
            [&name[..8], &name[8..]].map(|half| u64::from_le_bytes(half.try_into().expect("eight bytes")));
        [
            a,
            b,
            u64::from(self.up) | u64::from(self.down) << 32,
            self.sent,
            self.sent_bytes,
            self.received,
            self.received_bytes,
            self.reroutes,
        ]
    }

    /// What another process shows; none: there is nothing there. It may have written anything.
    pub fn of_words(words: [u64; RAIL_WORDS]) -> Option<Self> {
        let [
            a,
            b,
            connections,
            sent,
            sent_bytes,
            received,
            received_bytes,
            reroutes,
        ] = words;
        if a == 0 {
            return None;
        }
        let mut name = String::new();
        for byte in [a, b].map(u64::to_le_bytes).as_flattened() {
            match byte {
                0 => break,
                b' '..=b'~' => name.push(char::from(*byte)),
                _ => {
                    let _ = write!(name, "\\x{byte:02x}");
                }
            }
        }
        Some(Self {
            name,
            up: connections as u32,
            down: (connections >> 32) as u32,
            sent,
            sent_bytes,
            received,
            received_bytes,
            reroutes,
        })
    }

    /// How it is, in a word.
    pub fn state(&self) -> &'static str {
        match (self.up, self.down) {
            (0, 0) => "idle",
            (_, 0) => "up",
            (0, _) => "down",
            _ => "partly",
        }
    }

    /// Add what another connection by the same interface carries.
    pub fn add(&mut self, other: &Self) {
        self.up += other.up;
        self.down += other.down;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.reroutes += other.reroutes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::IntoEnumIterator;

    #[test]
    fn rails_survive_being_words_and_what_others_write_is_shown_safely() {
        let rail = RailFigures {
            name: "enp0s31f6.1234.vlan".into(),
            up: 3,
            down: 1,
            sent: 10,
            sent_bytes: 11,
            received: 12,
            received_bytes: 13,
            reroutes: 2,
        };
        let seen = RailFigures::of_words(rail.words()).expect("a rail");
        assert_eq!(seen.name, "enp0s31f6.1234.v");
        assert_eq!(
            (
                RailFigures {
                    name: rail.name.clone(),
                    ..seen
                },
                "partly"
            ),
            (rail.clone(), rail.state())
        );
        assert_eq!(RailFigures::of_words([0; RAIL_WORDS]), None);
        let odd = RailFigures::of_words([0x1b41, 0, 0, 0, 0, 0, 0, 0]).expect("a rail");
        assert_eq!((odd.name.as_str(), odd.state()), ("A\\x1b", "idle"));
    }

    #[test]
    fn registers_have_names_of_their_own() {
        let mut keys: Vec<_> = Register::iter().map(Register::key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), Register::COUNT);
        assert!(Register::iter().all(|it| it.key().starts_with(it.interface())));
    }
}
