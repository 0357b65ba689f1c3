//! Freeing and comparing communicators, and what new ones have from old ones (MPI-5.0 sections 7.4.1, 7.4.3,
//! 11.10.4).
//!
//! Requirements of MPI-5.0 section 9.3.

use super::{Comm, ContextLane};
use crate::engine::request::Operation;
use crate::group::Comparison;
use crate::info::Info;
use crate::world::{COMM_SELF, COMM_WORLD, World};
use crate::{Rank, Result};
use farpost_fabric::Fabric;
use std::rc::Rc;

/// The hints that a communicator keeps (MPI-5.0 section 7.4.4): those the standard defines.
const HINTS: &[&str] = &[
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
    "mpi_assert_strict_persistent_collective_ordering",
    "mpi_assert_memory_alloc_kinds",
];

impl Comm {
    /// Whether rank 0 of my group leads: it is the only one, or the lower one.
    pub fn leads(&self) -> bool {
        match &self.remote {
            None => true,
            Some(remote) => self.local.pid(0) < remote.pid(0),
        }
    }

    /// `MPI_Comm_compare`.
    pub fn compare(&self, other: &Self) -> Comparison {
        if self.handle == other.handle {
            return Comparison::Ident;
        }
        let remote = match (&self.remote, &other.remote) {
            (None, None) => Comparison::Ident,
            (Some(one), Some(two)) => one.compare(two),
            _ => Comparison::Unequal,
        };
        let least_alike = |a: Comparison, b: Comparison| if (a as i32) < b as i32 { b } else { a };
        match least_alike(self.local.compare(&other.local), remote) {
            Comparison::Ident => Comparison::Congruent,
            differing => differing,
        }
    }

    /// Whether two communicators have the error handler and nothing else in common: called on a new one.
    pub(super) fn inherit(&self, parent: &Comm) {
        let handler = parent.errhandler.borrow().clone();
        self.errhandler.replace(handler);
    }

    /// Those of `info` that mean something here.
    pub fn hints(info: &Info) -> Info {
        let mut kept = Info::new();
        for (key, value) in info.iter() {
            if HINTS.iter().any(|hint| hint.as_bytes() == key) {
                // It was in an info object, so it fits one.
                let _ = kept.set(key, value);
            }
        }
        kept
    }

    /// `MPI_Comm_set_info`: unknown hints are ignored.
    pub fn set_info(&self, info: &Info) {
        let mut mine = self.info.borrow_mut();
        for (key, value) in Self::hints(info).iter() {
            let _ = mine.set(key, value);
        }
    }

    pub(super) fn need_intra(&self, argument: &str) -> Result<()> {
        if self.is_inter() {
            return fail!(
                ERR_COMM: "{argument} is an intercommunicator; this call needs an intracommunicator"
            );
        }
        Ok(())
    }

    pub(super) fn need_inter(&self, argument: &str) -> Result<()> {
        if !self.is_inter() {
            return fail!(
                ERR_COMM: "{argument} is an intracommunicator; this call needs an intercommunicator"
            );
        }
        Ok(())
    }

    /// A rank argument that names a member of my group.
    pub(super) fn need_rank(&self, argument: &str, rank: Rank) -> Result<()> {
        if self.local.pid(rank).is_some() {
            return Ok(());
        }
        fail!(ERR_RANK: "{argument}={rank}: the communicator has {}", self.local.ranks_sentence())
    }
}

fn not_predefined(comm: &Comm) -> Result<()> {
    let name = match comm.handle.get() {
        COMM_WORLD => "MPI_COMM_WORLD",
        COMM_SELF => "MPI_COMM_SELF",
        _ => return Ok(()),
    };
    fail!(ERR_COMM: "comm={name}: a predefined communicator cannot be freed")
}

impl<F: Fabric> World<F> {
    /// `MPI_Comm_free`. What is under way goes on.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: a predefined one. What an attribute's delete callback returned; the communicator then
    /// stays.
    pub fn comm_free(&self, comm: &Rc<Comm>) -> Result<()> {
        not_predefined(comm)?;
        comm.attrs.delete_all(comm.handle.get())?;
        // Copies of what was sent buffered are ours and go out by themselves.
        self.forget_buffer(&comm.buffer);
        self.remove_comm(comm);
        Ok(())
    }

    /// `MPI_Comm_disconnect`: as [`comm_free`](Self::comm_free), once nothing is under way on it at any rank.
    ///
    /// # Errors
    /// As [`comm_free`](Self::comm_free).
    pub fn comm_disconnect(&self, comm: &Rc<Comm>) -> Result<()> {
        not_predefined(comm)?;
        self.flush_buffer(&comm.buffer)?;
        self.wait_until(|| Ok(!self.is_busy(comm)))?;
        let plan = crate::coll::barrier(&self.site(comm))?;
        self.run_collective(comm, plan)?;
        self.comm_free(comm)
    }

    /// Whether anything that this process started on `comm` is not over.
    fn is_busy(&self, comm: &Rc<Comm>) -> bool {
        if self.active.borrow().iter().any(|c| Rc::ptr_eq(&c.comm, comm)) {
            return true;
        }
        let lanes = ContextLane::ALL.map(|lane| comm.lane(lane));
        let engine = self.engine.borrow();
        engine.requests.iter().any(|(_, request)| {
            !request.complete
                && match &request.operation {
                    Operation::Send(send) => lanes.contains(&send.envelope.context),
                    Operation::Recv(recv) => comm.slots.contains(&recv.context),
                    Operation::Idle => false,
                }
        })
    }
}
