//! Duplicates (MPI-5.0 section 7.4.2).

use super::talk::Words;
use crate::Result;
use crate::comm::Comm;
use crate::info::Info;
use crate::world::World;
use farpost_fabric::Fabric;
use std::rc::Rc;

/// A duplicate that is being agreed on.
pub(crate) struct PendingDup {
    /// It has a number of this process's own until then: the program may name it, but not use it. `None` when
    /// this rank gave up.
    new: Option<Rc<Comm>>,
    words: Rc<Words>,
}

impl PendingDup {
    /// The number is agreed on (or that failed).
    pub(crate) fn finish<F: Fabric>(self, world: &World<F>, agreed: Result<()>) -> Result<()> {
        agreed?;
        let number = world.checked_context(&self.words.values())?;
        if let Some(new) = &self.new {
            world.renumber_comm(new, number);
        }
        Ok(())
    }
}

impl<F: Fabric> World<F> {
    /// `MPI_Comm_dup` (`info: None`) and `MPI_Comm_dup_with_info`.
    ///
    /// # Errors
    /// What a copy callback returned; the duplicate is freed then, with its attributes.
    pub fn comm_dup(&self, comm: &Rc<Comm>, info: Option<&Info>) -> Result<Rc<Comm>> {
        let words = self.hear_leader(comm, &[self.new_context() as i64])?;
        // The program's copy callbacks come after the messages, so that an error of theirs keeps nobody waiting.
        let number = self.checked_context(&words)?;
        self.twin(comm, number, info)
    }

    /// `MPI_Comm_idup` and `MPI_Comm_idup_with_info`: the communicator, which is not to be used until the request
    /// completes, and the request. Attributes are copied now.
    ///
    /// # Errors
    /// What a copy callback returned. The other ranks' duplicates complete all the same.
    pub fn comm_idup(&self, comm: &Rc<Comm>, info: Option<&Info>) -> Result<(usize, usize)> {
        let number = self.new_context();
        let (plan, words) = self.hear_leader_later(comm, &[number as i64]);
        let made = self.twin(comm, number, info);
        let new = made.as_ref().ok().cloned();
        // Also without one: the others wait for this rank's part.
        let request = self.start_making(comm, plan, Some(PendingDup { new, words }))?;
        match made {
            Ok(new) => Ok((new.handle.get(), request)),
            Err(error) => {
                self.free_request(request)?;
                Err(error)
            }
        }
    }

    /// A communicator like `comm`, numbered `number`.
    fn twin(&self, comm: &Rc<Comm>, number: u64, info: Option<&Info>) -> Result<Rc<Comm>> {
        let new = self.add_comm(number, comm.local.clone(), comm.remote.clone(), comm.rank)?;
        new.inherit(comm);
        let copied = comm.attrs.copy_into(comm.handle.get(), &new.attrs);
        if let Err(error) = copied {
            self.give_up(&new);
            return Err(error);
        }
        if let Some(info) = info {
            new.set_info(info);
        }
        let topology = comm.topology.borrow().clone();
        new.topology.replace(topology);
        Ok(new)
    }

    /// A context number that somebody told.
    pub(crate) fn checked_context(&self, words: &[i64]) -> Result<u64> {
        let number = words.first().copied().unwrap_or(-1);
        match u64::try_from(number) {
            Ok(number) if number <= crate::engine::envelope::CONTEXT_MASK && number & 3 == 0 => Ok(number),
            _ => fail!(
                ERR_INTERN: "another process numbered the new communicator {number:#x}, which is no such number"
            ),
        }
    }

    /// Free a communicator that nobody has seen yet.
    pub(super) fn give_up(&self, new: &Rc<Comm>) {
        // An attribute whose delete callback fails too is forgotten: there is no object left to keep it.
        let _ = new.attrs.delete_all(new.handle.get());
        self.remove_comm(new);
    }
}
