//! Duplicates (MPI-5.0 section 7.4.2).

use super::Comm;
use super::talk::Words;
use crate::attr::AttrSet;
use crate::info::Info;
use crate::world::World;
use crate::{Error, ErrorClass, Result};
use farpost_fabric::Fabric;
use std::rc::Rc;

/// A duplicate that is being agreed on.
pub(crate) struct Pending {
    parent: Rc<Comm>,
    handle: usize,
    words: Rc<Words>,
    attrs: AttrSet,
    info: Info,
}

impl Pending {
    /// The number is agreed on (or that failed): make the communicator.
    pub(crate) fn finish<F: Fabric>(self, world: &World<F>, agreed: Result<()>) -> Result<()> {
        let number = agreed.and_then(|()| world.checked_context(&self.words.values()));
        let number = number.inspect_err(|_| world.unreserve_comm(self.handle))?;
        let parent = &self.parent;
        let (local, remote) = (parent.local.clone(), parent.remote.clone());
        let new = world.fill_comm(self.handle, number, local, remote, parent.rank);
        new.inherit(parent);
        new.attrs.take_over(self.attrs);
        new.info.replace(self.info);
        let topology = parent.topology.borrow().clone();
        new.topology.replace(topology);
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
        let number = self.checked_context(&words)?;
        let new = self.add_comm(number, comm.local.clone(), comm.remote.clone(), comm.rank)?;
        new.inherit(comm);
        // After the messages, so that an error here keeps nobody waiting.
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

    /// `MPI_Comm_idup` and `MPI_Comm_idup_with_info`: the handle, which is no communicator's until the
    /// request completes, and the request. Attributes are copied now.
    ///
    /// # Errors
    /// What a copy callback returned. The other ranks' duplicates complete all the same.
    pub fn comm_idup(&self, comm: &Rc<Comm>, info: Option<&Info>) -> Result<(usize, usize)> {
        let (plan, words) = self.hear_leader_later(comm, &[self.new_context() as i64]);
        let handle = self.reserve_comm()?;
        let attrs = AttrSet::new();
        let copied = comm.attrs.copy_into(comm.handle.get(), &attrs);
        let hints = info.map(Comm::hints).unwrap_or_default();
        let pending = Pending {
            parent: Rc::clone(comm),
            handle,
            words,
            attrs: if copied.is_ok() {
                attrs
            } else {
                let _ = attrs.delete_all(handle);
                AttrSet::new()
            },
            info: hints,
        };
        let request = self.start_making(comm, plan, Some(pending))?;
        match copied {
            Ok(()) => Ok((handle, request)),
            Err(error) => {
                // The others wait for this rank's part. What becomes of it nobody will see: a number and a
                // handle.
                self.free_request(request)?;
                Err(error)
            }
        }
    }

    /// A context number that somebody told.
    pub(super) fn checked_context(&self, words: &[i64]) -> Result<u64> {
        let number = words.first().copied().unwrap_or(-1);
        match u64::try_from(number) {
            Ok(number) if number <= crate::device::wire::CONTEXT_MASK && number & 3 == 0 => Ok(number),
            _ => Err(Error::new(
                ErrorClass::ERR_INTERN,
                format!("another process numbered the new communicator {number:#x}, which is no such number"),
            )),
        }
    }

    /// Free a communicator that nobody has seen yet.
    pub(super) fn give_up(&self, new: &Rc<Comm>) {
        // An attribute whose delete callback fails too is forgotten: there is no object left to keep it.
        let _ = new.attrs.delete_all(new.handle.get());
        self.remove_comm(new);
    }
}
