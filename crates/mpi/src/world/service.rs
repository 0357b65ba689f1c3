//! What others have a world do in every call that makes progress, and the requests that they complete.

use super::World;
use crate::comm::Comm;
use crate::engine::request::Status;
use crate::{Error, Result};
use farpost_fabric::Fabric;
use std::rc::Rc;

/// Something that goes on in every call that makes progress: it takes messages, answers, and never waits.
pub trait Service<F: Fabric> {
    /// Let everything move that can. True: something moved.
    fn advance(&self, world: &World<F>) -> bool;

    /// Handles of requests that it has made for itself, and perhaps of some that are over.
    fn requests(&self) -> Vec<usize>;
}

impl<F: Fabric> World<F> {
    /// From now on `service` takes part in progress.
    pub fn add_service(&self, service: Rc<dyn Service<F>>) {
        self.services.borrow_mut().push(service);
    }

    /// Let the services move. They may start messages meanwhile, and none is added.
    pub(super) fn advance_services(&self) -> bool {
        let (mut moved, mut at) = (false, 0);
        loop {
            let service = self.services.borrow().get(at).cloned();
            let Some(service) = service else { return moved };
            moved |= service.advance(self);
            at += 1;
        }
    }

    /// As [`wait_until`](World::wait_until), for what comes without anybody ringing.
    pub fn wait_unrung(&self, done: impl FnMut() -> Result<bool>) -> Result<()> {
        let before = self.unrung.replace(true);
        let result = self.wait_until(done);
        self.unrung.set(before);
        result
    }

    /// A request that somebody else completes, by [`complete_request`](Self::complete_request).
    pub fn open_request(&self) -> Result<usize> {
        self.engine.borrow_mut().requests.insert_idle()
    }

    /// What a request of [`open_request`](Self::open_request) stands for is over.
    pub fn complete_request(&self, handle: usize, error: Option<Error>) {
        let result = |status: &mut Status| status.error = error.map(Box::new);
        self.engine.borrow_mut().complete(handle, result);
    }

    /// A communicator like `comm` that the program does not see: for what keeps its messages apart. Collective;
    /// [`remove_comm`](Self::remove_comm) ends it.
    pub fn private_comm(&self, comm: &Rc<Comm>) -> Result<Rc<Comm>> {
        let words = self.hear_leader(comm, &[self.new_context() as i64])?;
        let number = self.checked_context(&words)?;
        let engine = &mut self.engine.borrow_mut();
        let comm = super::lifetime::make_hidden(engine, number, comm.local.clone(), comm.rank);
        Ok(Rc::new(comm))
    }

    /// Everybody's words in rank order, of any one length.
    pub fn gather_words(&self, comm: &Comm, mine: &[i64]) -> Result<Vec<i64>> {
        self.gather_local(comm, mine)
    }
}
