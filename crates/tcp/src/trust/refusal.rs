//! Why a connection was not let in, in words for people and as a number for counters and for the wire.

use super::wire::Version;

/// How far a handshake had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandshakeStage {
    /// Nothing has come yet.
    Silent,
    /// The first message is under way.
    Hello,
    /// The answer is awaited.
    Answer,
    /// The first message proved right; the one that proves that it is no recording is awaited.
    Confirm,
}

impl core::fmt::Display for HandshakeStage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            HandshakeStage::Silent => "before it sent anything",
            HandshakeStage::Hello => "in the middle of the first message",
            HandshakeStage::Answer => "before the answer was complete",
            HandshakeStage::Confirm => "before it showed that its first message was no recording",
        })
    }
}

/// Why a handshake ended without a session. The sentences go after "the connection from *address*" or "the
/// connection to *process* at *address*" and a colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The first bytes are of another protocol.
    #[error("not a Farpost handshake (it begins with {})", Opening(.0))]
    NotFarpost([u8; 8]),
    /// The other side speaks Farpost, but is not keyed with this job's secret.
    #[error(
        "it does not know this job's secret: it belongs to another job, or the launcher gave the two sides \
         different secrets"
    )]
    WrongSecret,
    /// Same secret, other version of Farpost.
    #[error(
        "it runs Farpost {theirs}, this process runs Farpost {ours}: install the same version on every host"
    )]
    OtherVersion {
        /// The other side's version.
        theirs: Version,
        /// This process's version.
        ours: Version,
    },
    /// Same secret, other job.
    #[error("it belongs to another job that has the same secret")]
    OtherJob,
    /// The initiator wants somebody else.
    #[error("it asked for process {asked}, and process {here} listens there")]
    NotForThisRank {
        /// The process that the initiator wanted.
        asked: u32,
        /// The process that the initiator reached.
        here: u32,
    },
    /// The initiator says that it is a process which the job does not have, or the responder itself.
    #[error(
        "it says that it is process {said}, which cannot be: the job has {size} and the caller is another"
    )]
    NoSuchRank {
        /// What the initiator says it is.
        said: u32,
        /// Processes in the job.
        size: u32,
    },
    /// The initiator names a rail that the responder does not have.
    #[error("it asked for rail {asked}, and there are {rails}")]
    NoSuchRail {
        /// The rail asked for, from 0.
        asked: u8,
        /// Rails that the responder has.
        rails: u8,
    },
    /// A message of the handshake was changed on its way, or was put together by somebody without the secret.
    #[error("a message of its handshake was altered or forged")]
    Altered,
    /// The first message was right and what had to follow was not: the first was a recording.
    #[error("its handshake is a replay of an earlier one, or was cut short by somebody in between")]
    Replay,
    /// The connection ended too early.
    #[error("it closed the connection {0}{hint}", hint = if matches!(.0, HandshakeStage::Answer) {
        ", which Farpost does with those who do not know the job's secret"
    } else { "" })]
    Incomplete(HandshakeStage),
    /// The time allowed passed.
    #[error("it was too slow: the time allowed passed {0}")]
    TooSlow(HandshakeStage),
    /// Too many connections waited at once to prove themselves.
    #[error("dropped to make room: too many connections that have not proved themselves yet")]
    Crowded,
    /// The system has no random numbers to give.
    #[error("the operating system gave no random numbers")]
    NoRandom,
}

/// What a [`Refusal`] is, without details: what counters count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// [`Refusal::NotFarpost`]
    NotFarpost = 0,
    /// [`Refusal::WrongSecret`]
    WrongSecret = 1,
    /// [`Refusal::OtherVersion`]
    OtherVersion = 2,
    /// [`Refusal::OtherJob`]
    OtherJob = 3,
    /// [`Refusal::NotForThisRank`]
    NotForThisRank = 4,
    /// [`Refusal::NoSuchRank`]
    NoSuchRank = 5,
    /// [`Refusal::NoSuchRail`]
    NoSuchRail = 6,
    /// [`Refusal::Altered`]
    Altered = 7,
    /// [`Refusal::Replay`]
    Replay = 8,
    /// [`Refusal::Incomplete`]
    Incomplete = 9,
    /// [`Refusal::TooSlow`]
    TooSlow = 10,
    /// [`Refusal::Crowded`]
    Crowded = 11,
    /// [`Refusal::NoRandom`]
    NoRandom = 12,
}

impl Reason {
    /// Number of reasons.
    pub const COUNT: usize = 13;
    /// All of them, in order.
    pub const ALL: [Reason; Self::COUNT] = [
        Reason::NotFarpost,
        Reason::WrongSecret,
        Reason::OtherVersion,
        Reason::OtherJob,
        Reason::NotForThisRank,
        Reason::NoSuchRank,
        Reason::NoSuchRail,
        Reason::Altered,
        Reason::Replay,
        Reason::Incomplete,
        Reason::TooSlow,
        Reason::Crowded,
        Reason::NoRandom,
    ];

    /// A few words for a table.
    pub fn label(self) -> &'static str {
        match self {
            Reason::NotFarpost => "not Farpost",
            Reason::WrongSecret => "wrong secret",
            Reason::OtherVersion => "other version",
            Reason::OtherJob => "other job",
            Reason::NotForThisRank => "not for this rank",
            Reason::NoSuchRank => "no such rank",
            Reason::NoSuchRail => "no such rail",
            Reason::Altered => "altered",
            Reason::Replay => "replay",
            Reason::Incomplete => "incomplete",
            Reason::TooSlow => "too slow",
            Reason::Crowded => "crowded out",
            Reason::NoRandom => "no random numbers",
        }
    }
}

impl Refusal {
    /// What kind of refusal this is.
    pub fn reason(&self) -> Reason {
        match self {
            Refusal::NotFarpost(_) => Reason::NotFarpost,
            Refusal::WrongSecret => Reason::WrongSecret,
            Refusal::OtherVersion { .. } => Reason::OtherVersion,
            Refusal::OtherJob => Reason::OtherJob,
            Refusal::NotForThisRank { .. } => Reason::NotForThisRank,
            Refusal::NoSuchRank { .. } => Reason::NoSuchRank,
            Refusal::NoSuchRail { .. } => Reason::NoSuchRail,
            Refusal::Altered => Reason::Altered,
            Refusal::Replay => Reason::Replay,
            Refusal::Incomplete(_) => Reason::Incomplete,
            Refusal::TooSlow(_) => Reason::TooSlow,
            Refusal::Crowded => Reason::Crowded,
            Refusal::NoRandom => Reason::NoRandom,
        }
    }

    /// True: trying again, with another connection, may succeed. False: the two sides disagree about something that
    /// time does not change.
    pub fn worth_another_try(&self) -> bool {
        matches!(
            self,
            Refusal::Altered
                | Refusal::Replay
                | Refusal::Incomplete(_)
                | Refusal::TooSlow(_)
                | Refusal::Crowded
                | Refusal::NoRandom
        )
    }
}

/// First bytes of a stranger, printable.
struct Opening<'a>(&'a [u8; 8]);

impl core::fmt::Display for Opening<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
