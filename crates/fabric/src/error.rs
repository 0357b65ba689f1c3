//! What can go wrong on a fabric, split by what the caller can do about it, and the sticky error status.

use crate::{Peer, SegmentId};

/// An operation that failed. Back-pressure (*full*) is not an error and has its own return values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// The peer has not published that segment, or not yet: ask again later or give up.
    #[error("{peer} has not published segment {id:#x}")]
    NotPublished { peer: Peer, id: u32 },
    /// The peer's access list does not admit this process with that permission.
    #[error("{peer} does not permit this access to segment {id:#x}")]
    Denied { peer: Peer, id: u32 },
    /// Offset and length leave the segment: a programming error of the caller.
    #[error("bytes {offset} to {end} leave a segment of {len} bytes")]
    OutOfRange { offset: usize, end: usize, len: usize },
    /// The segment identifier is already taken by this process.
    #[error("segment {id:#x} is already published by this process")]
    InUse { id: u32 },
    /// A value read from a peer's memory cannot be right. The peer is at fault; its messages are lost.
    #[error("{peer} wrote {value:#x} where {what} was expected")]
    Corrupt {
        peer: Peer,
        what: &'static str,
        value: u64,
    },
    /// The peer is gone.
    #[error("{peer} is gone ({why})")]
    PeerDead { peer: Peer, why: String },
    /// A put did not arrive, or not all of it; the peer is alive. What was put since the last fence may be
    /// there in part: put it again or give up.
    #[error("a put to {peer} did not arrive ({why})")]
    PutFailed { peer: Peer, why: String },
    /// Something named a process that the job does not have.
    #[error("{peer} does not exist: the job has {size} processes")]
    NoSuchPeer { peer: Peer, size: u32 },
    /// The fabric cannot do this at all, or not with this peer: take another way.
    #[error("{what} is not possible with {peer}: {why}")]
    Unsupported {
        peer: Peer,
        what: &'static str,
        why: String,
    },
    /// The operating system refused.
    #[error("{what}: {source_text}")]
    Os {
        what: &'static str,
        errno: i32,
        source_text: String,
    },
}

/// Of what a fabric does.
pub type Result<T, E = FabricError> = std::result::Result<T, E>;

/// Errors in one line each. Numbers and sentences may be given as whatever becomes them.
impl FabricError {
    /// [`NotPublished`](Self::NotPublished).
    pub fn not_published(peer: Peer, id: SegmentId) -> Self {
        Self::NotPublished { peer, id: id.0 }
    }

    /// [`Corrupt`](Self::Corrupt).
    #[cold]
    pub fn corrupt(peer: Peer, what: &'static str, value: impl Into<u64>) -> Self {
        let value = value.into();
        Self::Corrupt { peer, what, value }
    }

    /// [`PeerDead`](Self::PeerDead).
    #[cold]
    pub fn dead(peer: Peer, why: impl Into<String>) -> Self {
        let why = why.into();
        Self::PeerDead { peer, why }
    }

    /// [`PutFailed`](Self::PutFailed).
    #[cold]
    pub fn put_failed(peer: Peer, why: impl Into<String>) -> Self {
        let why = why.into();
        Self::PutFailed { peer, why }
    }

    /// [`Unsupported`](Self::Unsupported).
    #[cold]
    pub fn unsupported(peer: Peer, what: &'static str, why: impl Into<String>) -> Self {
        let why = why.into();
        Self::Unsupported { peer, what, why }
    }

    /// The operating system's latest refusal, while trying `what`.
    #[cold]
    pub fn os(what: &'static str) -> Self {
        Self::os_error(what, &std::io::Error::last_os_error())
    }

    /// `error` as met while trying `what`.
    #[cold]
    pub fn os_error(what: &'static str, error: &std::io::Error) -> Self {
        FabricError::Os {
            what,
            errno: error.raw_os_error().unwrap_or(0),
            source_text: error.to_string(),
        }
    }
}

/// One entry of the error status: an error that happened without anybody waiting for its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Who caused it.
    pub peer: Peer,
    /// What happened.
    pub error: FabricError,
}

/// How a peer came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// A sentence for people, without a full stop: who and how.
    pub why: String,
    /// It took leave first: whoever had something to do with it has had it, by its own account.
    pub in_order: bool,
}

/// Error status in the manner of Sun's CESR: per endpoint, sticky until read, naming peer and cause,
/// showing a process only its own errors.
#[ambassador::delegatable_trait]
pub trait ErrorStatus {
    /// Add a fault. The list is bounded; when it is full the oldest entries stay and the rest are counted.
    fn record_fault(&self, fault: Fault);
    /// The faults since the last call, and how many more there were than fit.
    fn take_faults(&self) -> (Vec<Fault>, u64);
    /// Whether there are faults to take that progress should look at: a fabric that notices by itself that a peer
    /// is gone says so here. Cheap.
    #[inline(always)]
    fn faulted(&self) -> bool {
        false
    }
    /// Whether `peer`'s process has ended or has left the job: it reads and writes nothing any more. False
    /// where nobody can tell. May be a system call: for idle moments.
    fn has_ended(&self, _peer: Peer) -> bool {
        false
    }
    /// As [`has_ended`](Self::has_ended), of peers that have taken leave too, and how; `None` also while that is still being
    /// found out. For those who wait for this very peer: what it sent before may wait to be polled.
    fn end_of(&self, peer: Peer) -> Option<End> {
        self.has_ended(peer).then(|| End {
            why: format!("the process of {peer} has ended"),
            in_order: false,
        })
    }
    /// As [`has_ended`](Self::has_ended), and true also of a peer on another host that has said goodbye or that the fabric
    /// has given up. What it sent before may wait to be polled.
    fn is_gone(&self, peer: Peer) -> bool {
        self.has_ended(peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_is_said_in_its_words() {
        let error = FabricError::os_error("open a file", &std::io::Error::from_raw_os_error(24));
        assert_eq!(
            error.to_string(),
            "open a file: Too many open files (os error 24)"
        );
    }
}
