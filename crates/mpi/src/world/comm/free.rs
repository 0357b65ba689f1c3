//! Freeing communicators (MPI-5.0 sections 7.4.3, 11.10.4).

use crate::Result;
use crate::comm::Comm;
use crate::world::{COMM_SELF, COMM_WORLD, World};
use farpost_fabric::Fabric;
use std::rc::Rc;

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
}
