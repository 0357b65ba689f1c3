//! Why a connection was not let in, in words for people and as a number for counters and for the wire.

use super::wire::Version;
use strum::{EnumCount, EnumDiscriminants, IntoStaticStr, VariantArray};

/// How far a handshake had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display)]
pub enum HandshakeStage {
    /// Nothing has come yet.
    #[strum(to_string = "before it sent anything")]
    Silent,
    /// The first message is under way.
    #[strum(to_string = "in the middle of the first message")]
    Hello,
    /// The answer is awaited.
    #[strum(to_string = "before the answer was complete")]
    Answer,
    /// The first message proved right; the one that proves that it is no recording is awaited.
    #[strum(to_string = "before it showed that its first message was no recording")]
    Confirm,
}

/// Why a handshake ended without a session. The sentences go after "the connection from *address*" or "the
/// connection to *process* at *address*" and a colon.
///
/// A [`Reason`] is one without details, by a number that stays: what counters count, and what the wire tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error, EnumDiscriminants)]
#[strum_discriminants(name(Reason), derive(Hash, EnumCount, VariantArray, IntoStaticStr))]
#[strum_discriminants(strum(serialize_all = "snake_case"), repr(u8))]
#[strum_discriminants(doc = "What a [`Refusal`] is, without details.")]
pub enum Refusal {
    /// The first bytes are of another protocol.
    #[error("not a Farpost handshake (it begins with \"{}\")", .0.escape_ascii())]
    #[strum_discriminants(strum(to_string = "not Farpost"))]
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
    OtherVersion { theirs: Version, ours: Version },
    /// Same secret, other job.
    #[error("it belongs to another job that has the same secret")]
    OtherJob,
    /// The initiator wants somebody else.
    #[error("it asked for process {asked}, and process {here} listens there")]
    NotForThisRank { asked: u32, here: u32 },
    /// The initiator says that it is a process which the job does not have, or the responder itself.
    #[error(
        "it says that it is process {said}, which cannot be: the job has {size} and the caller is another"
    )]
    NoSuchRank { said: u32, size: u32 },
    /// The initiator names a rail, from 0, that the responder does not have.
    #[error("it asked for rail {asked}, and there are {rails}")]
    NoSuchRail { asked: u8, rails: u8 },
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
    #[strum_discriminants(strum(to_string = "crowded out"))]
    Crowded,
    /// The system has no random numbers to give.
    #[error("the operating system gave no random numbers")]
    #[strum_discriminants(strum(to_string = "no random numbers"))]
    NoRandom,
}

impl Reason {
    /// Number of reasons.
    pub const COUNT: usize = <Self as EnumCount>::COUNT;
    /// All of them, by number.
    pub const ALL: &[Reason] = Self::VARIANTS;

    /// A few words for a table.
    pub fn label(self) -> String {
        <&str>::from(self).replace('_', " ")
    }
}

impl Refusal {
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
