//! Which synchronisation is under way at this process, and what it permits (MPI-5.0 section 12.5).

use farpost_mpi::{Result, fail};
use std::collections::{BTreeMap, BTreeSet};

pub use farpost_fabric::member_lock::HoldKind as LockKind;

/// As an origin.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Access {
    #[default]
    None,
    /// Between start and complete: with these ranks.
    Started(BTreeSet<i32>),
    /// Locks of single targets.
    Locks(BTreeMap<i32, LockKind>),
    /// All; the lock of a target is taken at its first operation.
    All(BTreeSet<i32>),
}

/// The state of a window at this process.
#[derive(Debug, Default)]
pub(crate) struct Epochs {
    pub access: Access,
    /// Posted to these ranks.
    pub exposed: Option<BTreeSet<i32>>,
    /// A fence was last, and may be followed by operations.
    pub fenced: bool,
    /// Operations came since the fence.
    pub used: bool,
}

impl Epochs {
    /// What forbids another synchronisation, in words.
    fn hindrance(&self) -> Option<&'static str> {
        match &self.access {
            Access::Started(_) => {
                Some("an access epoch is under way (MPI_Win_start without MPI_Win_complete)")
            }
            Access::Locks(_) => Some("a lock is held (MPI_Win_lock without MPI_Win_unlock)"),
            Access::All(_) => Some("all locks are held (MPI_Win_lock_all without MPI_Win_unlock_all)"),
            Access::None if self.fenced && self.used => {
                Some("operations have been made since the last MPI_Win_fence")
            }
            Access::None => None,
        }
    }

    fn need_none(&self) -> Result<()> {
        self.hindrance()
            .map_or(Ok(()), |what| fail!(ERR_RMA_SYNC: "win: {what}"))
    }

    pub(crate) fn fence(&self) -> Result<()> {
        if self.exposed.is_some() {
            return fail!(ERR_RMA_SYNC: "win: an exposure epoch is under way (MPI_Win_post without MPI_Win_wait)");
        }
        match self.access {
            Access::None => Ok(()),
            _ => self.need_none(),
        }
    }

    pub(crate) fn free(&self) -> Result<()> {
        if self.exposed.is_some() {
            return fail!(ERR_RMA_SYNC: "win: an exposure epoch is under way (MPI_Win_post without MPI_Win_wait)");
        }
        self.need_none()
    }

    pub(crate) fn start(&mut self, group: BTreeSet<i32>) -> Result<()> {
        self.need_none()?;
        (self.fenced, self.used) = (false, false);
        self.access = Access::Started(group);
        Ok(())
    }

    pub(crate) fn started(&self) -> Result<BTreeSet<i32>> {
        match &self.access {
            Access::Started(group) => Ok(group.clone()),
            _ => fail!(ERR_RMA_SYNC: "win: there is no access epoch to complete: MPI_Win_start comes before"),
        }
    }

    pub(crate) fn post(&mut self, group: BTreeSet<i32>) -> Result<()> {
        if self.exposed.is_some() {
            return fail!(ERR_RMA_SYNC: "win: posted already: MPI_Win_wait comes before the next MPI_Win_post");
        }
        if matches!(self.access, Access::None) {
            self.need_none()?;
        }
        self.fenced = false;
        self.exposed = Some(group);
        Ok(())
    }

    pub(crate) fn posted(&self) -> Result<BTreeSet<i32>> {
        match &self.exposed {
            Some(group) => Ok(group.clone()),
            None => {
                fail!(ERR_RMA_SYNC: "win: there is no exposure epoch to wait for: MPI_Win_post comes before")
            }
        }
    }

    pub(crate) fn lock(&mut self, rank: i32, kind: LockKind) -> Result<()> {
        if let Access::Locks(held) = &mut self.access {
            if held.contains_key(&rank) {
                return fail!(ERR_RMA_SYNC: "rank={rank}: its lock is held already");
            }
            held.insert(rank, kind);
            return Ok(());
        }
        self.need_none()?;
        (self.fenced, self.used) = (false, false);
        self.access = Access::Locks(BTreeMap::from([(rank, kind)]));
        Ok(())
    }

    pub(crate) fn lock_all(&mut self) -> Result<()> {
        self.need_none()?;
        (self.fenced, self.used) = (false, false);
        self.access = Access::All(BTreeSet::new());
        Ok(())
    }

    pub(crate) fn locked(&self, rank: i32) -> Result<()> {
        match &self.access {
            Access::Locks(held) if held.contains_key(&rank) => Ok(()),
            _ => fail!(ERR_RMA_SYNC: "rank={rank}: its lock is not held by MPI_Win_lock"),
        }
    }

    /// How it was held.
    pub(crate) fn unlock(&mut self, rank: i32) -> LockKind {
        let mut kind = LockKind::Shared;
        if let Access::Locks(held) = &mut self.access {
            kind = held.remove(&rank).unwrap_or(kind);
            if held.is_empty() {
                self.access = Access::None;
            }
        }
        kind
    }

    /// The targets whose locks were taken.
    pub(crate) fn locked_all(&self) -> Result<BTreeSet<i32>> {
        match &self.access {
            Access::All(taken) => Ok(taken.clone()),
            _ => fail!(ERR_RMA_SYNC: "win: MPI_Win_lock_all comes before"),
        }
    }

    /// For a flush of `rank`, or of all.
    pub(crate) fn passive(&self, rank: Option<i32>) -> Result<()> {
        match (&self.access, rank) {
            (Access::All(_), _) | (Access::Locks(_), None) => Ok(()),
            (Access::Locks(_), Some(rank)) => self.locked(rank),
            _ => {
                fail!(ERR_RMA_SYNC: "win: no lock is held: flushes and request-based operations are for passive targets")
            }
        }
    }

    /// An operation on `rank`. True: its lock has to be taken first.
    pub(crate) fn operate(&mut self, rank: i32, by_request: bool) -> Result<bool> {
        if by_request {
            self.passive(Some(rank))?;
        }
        match &self.access {
            Access::All(taken) => Ok(!taken.contains(&rank)),
            Access::Locks(_) => self.locked(rank).map(|()| false),
            Access::Started(group) if group.contains(&rank) => Ok(false),
            Access::None if self.fenced => {
                self.used = true;
                Ok(false)
            }
            Access::Started(_) => {
                fail!(ERR_RMA_SYNC: "target_rank={rank}: not in the group of MPI_Win_start")
            }
            Access::None => fail!(
                ERR_RMA_SYNC: "target_rank={rank}: no epoch is open: MPI_Win_fence, MPI_Win_start or MPI_Win_lock comes before"
            ),
        }
    }
}
