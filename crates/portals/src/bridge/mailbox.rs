//! Mailboxes: queues of records in memory that the reader exports and the writer puts lines to, so that they work on every
//! fabric and neither side can do the other harm.
//!
//! | Where | What |
//! |---|---|
//! | agent's segment for a client, line 0 | what the client tells: event lines taken, requests dealt with, its opening |
//! | line 1 | whether the client may attach, and where its commands begin then; written by the agent |
//! | from line 2 on | the command queue, [`LINES`] lines |
//! | behind that | [`SLOTS`] windows of [`SLOT_BYTES`] for bodies, where the agent cannot reach the client's memory |
//! | client's segment, line 0 | [`Control`], written by the agent |
//! | from line 2 on | the event queue, [`EVENTS`] lines |
//! | behind that | the result queue, [`RESULTS`] lines |
//!
//! The queues are [`farpost_channel::records`]; a descriptor of 256 segments has room in one record.

pub use farpost_channel::records::{Reader, Title, Writer, lines_of};
use farpost_fabric::{FabricError, LINE_BYTES, Line, Remote};

/// Lines of a command queue.
pub const LINES: u32 = 512;
/// Lines of an event queue.
pub const EVENTS: u32 = 1024;
/// Lines of a result queue.
pub const RESULTS: u32 = 16;
/// Where a client tells how far it is.
pub const TOLD_AT: usize = 0;
/// Where the agent says whether a client may attach.
pub const DOOR_AT: usize = LINE_BYTES;
/// Where queues begin.
pub const QUEUE_AT: usize = 2 * LINE_BYTES;
/// Where the windows are.
pub const WINDOWS_AT: usize = QUEUE_AT + LINES as usize * LINE_BYTES;
/// Windows, and bytes of one. Only those that are used are ever touched.
pub const SLOTS: usize = 4;
pub const SLOT_BYTES: usize = 32 << 10;
/// Where the result queue begins.
pub const RESULTS_AT: usize = QUEUE_AT + EVENTS as usize * LINE_BYTES;
/// Bytes of the agent's segment for a client.
pub const AGENT_BYTES: usize = WINDOWS_AT + SLOTS * SLOT_BYTES;
/// Bytes of a client's segment.
pub const CLIENT_BYTES: usize = RESULTS_AT + RESULTS as usize * LINE_BYTES;

/// The title of a record.
#[inline]
pub const fn title(kind: u8, aux: u16) -> Title {
    Title { kind, aux }
}

/// What an agent tells a client on its first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// See [`ClientState`].
    pub state: u64,
    /// Command lines taken.
    pub taken: u64,
    /// Messages sent on, by channel: as many more may be given to the agent.
    pub sent: [u64; 2],
    /// Messages that may be waiting in the agent, of each channel.
    pub sends: u64,
}

impl Control {
    /// What the client is.
    pub fn client(&self) -> ClientState {
        ClientState::from_repr(self.state as u8).unwrap_or(ClientState::Unknown)
    }

    /// Which opening it is about.
    pub fn opening(&self) -> u32 {
        (self.state >> 8) as u32
    }

    /// As a line.
    pub fn line(&self) -> Line {
        [
            self.state,
            self.taken,
            self.sent[0],
            self.sent[1],
            self.sends,
            0,
            0,
            0,
        ]
    }

    /// From a line.
    pub fn of(line: &Line) -> Self {
        Self {
            state: line[0],
            taken: line[1],
            sent: [line[2], line[3]],
            sends: line[4],
        }
    }
}

/// What a client is to its agent: the low byte of [`Control::state`], the opening that it is about above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
pub enum ClientState {
    /// Nothing has been said.
    Unknown = 0,
    /// Served.
    Open = 1,
    /// Closed at its own request.
    Closed = 2,
    /// Wrote what cannot be: not served any more.
    Faulty = 3,
    /// Served, with bodies going through windows: the agent cannot reach its memory.
    Carried = 4,
}

/// The word by which the agent says whether a client may enter: state, the opening that would be, command lines taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Opening, and lines.
    Free(u32, u32),
    /// Somebody is inside.
    InUse,
    /// Who was inside wrote what cannot be.
    Shut,
}

impl Door {
    /// The number of the next opening.
    pub fn opening_after(opening: u32) -> u32 {
        opening.wrapping_add(1) & OPENINGS
    }

    pub fn word(self) -> u64 {
        match self {
            Door::Free(opening, taken) => 1 | u64::from(opening & OPENINGS) << 8 | u64::from(taken) << 32,
            Door::InUse => 2,
            Door::Shut => 3,
        }
    }

    /// None: the agent has not said anything yet.
    pub fn of(word: u64) -> Option<Self> {
        match word as u8 {
            1 => Some(Door::Free((word >> 8) as u32 & OPENINGS, (word >> 32) as u32)),
            2 => Some(Door::InUse),
            3 => Some(Door::Shut),
            _ => None,
        }
    }

    /// As a client reads it.
    pub fn read<R: Remote>(import: &R) -> Result<Option<Self>, FabricError> {
        let mut word = [0; 8];
        import.get_elements(LINE_BYTES, &mut word, 8)?;
        Ok(Self::of(u64::from_le_bytes(word)))
    }
}

/// Numbers of openings have 24 bits.
const OPENINGS: u32 = (1 << 24) - 1;
