//! The sessions of a process, and what is derived from them (MPI-5.0 section 11.3).

use super::World;
use crate::Result;
use crate::comm::{Comm, ContextLane};
use crate::engine::request::Operation;
use crate::group::Group;
use crate::session::{ProcessSet, Session};
use farpost_fabric::{Fabric, Peer};
use std::rc::Rc;

impl<F: Fabric> World<F> {
    /// The session of a handle.
    pub fn session(&self, handle: usize) -> Option<Rc<Session>> {
        if handle == 0 {
            return None;
        }
        self.sessions.borrow().get(handle).cloned()
    }

    /// Whether any session is open.
    pub fn has_sessions(&self) -> bool {
        !self.sessions.borrow().is_empty()
    }

    /// Give a session a handle.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`: there are too many.
    pub fn add_session(&self, session: Session) -> Result<usize> {
        let session = Rc::new(session);
        let handle = self.sessions.borrow_mut().insert(Rc::clone(&session))?;
        session.handle.set(handle);
        Ok(handle)
    }

    /// The processes of a set, as a group of this session.
    pub fn pset_group(&self, session: &Session, set: ProcessSet) -> Group {
        let group = match set {
            ProcessSet::World => Group::all(self.size()),
            ProcessSet::Own => Group::from_pids(&[self.pid()]),
            ProcessSet::Host => {
                let host = |pid| self.fabric.host_of(Peer(pid));
                let mine = host(self.pid());
                let beside: Vec<u32> = (0..self.size()).filter(|pid| host(*pid) == mine).collect();
                Group::from_pids(&beside)
            }
        };
        group.of_session(session.handle.get())
    }

    /// The communicators of a session that the program has not freed.
    pub fn comms_of(&self, session: &Session) -> Vec<Rc<Comm>> {
        let comms = self.comms.borrow();
        let all = comms.iter().map(|(_, comm)| comm);
        let derived = all.filter(|comm| comm.local.session() == session.handle.get());
        derived.cloned().collect()
    }

    /// `MPI_Session_finalize`: what the program sent goes out, and the communicators that it has not freed are freed.
    ///
    /// # Errors
    /// `MPI_ERR_PENDING`: a receive or a collective on one of them is not complete; nothing has changed then. What an
    /// attribute's delete callback returned; the session stays, with the communicators that are left.
    pub fn finalize_session(&self, session: &Rc<Session>) -> Result<()> {
        let derived = self.comms_of(session);
        // What is complete by now should count as such.
        self.progress();
        if let Some(comm) = derived.iter().find(|comm| self.expects(comm)) {
            let name = String::from_utf8_lossy(&comm.name.borrow()).into_owned();
            let name = if name.is_empty() { "a communicator" } else { &name };
            return fail!(
                ERR_PENDING: "session: a receive or a collective on {name} of it is not complete; complete or cancel it before"
            );
        }
        self.flush_buffer(&session.buffer)?;
        for comm in &derived {
            self.flush_buffer(&comm.buffer)?;
            self.wait_until(|| Ok(!self.is_busy(comm)))?;
            self.comm_free(comm)?;
        }
        session.buffer.take();
        self.sessions.borrow_mut().remove(session.handle.get());
        Ok(())
    }

    /// Whether something that this process started on `comm` waits for others to do the same.
    fn expects(&self, comm: &Rc<Comm>) -> bool {
        if self.active.borrow().iter().any(|c| Rc::ptr_eq(&c.comm, comm)) {
            return true;
        }
        let engine = self.engine.borrow();
        engine.requests.iter().any(|(_, request)| {
            !request.complete
                && matches!(&request.operation, Operation::Recv(recv) if comm.slots.contains(&recv.context))
        })
    }

    /// Whether anything that this process started on `comm` is not over.
    pub(crate) fn is_busy(&self, comm: &Rc<Comm>) -> bool {
        if self.expects(comm) {
            return true;
        }
        let lanes = ContextLane::ALL.map(|lane| comm.lane(lane));
        let engine = self.engine.borrow();
        engine.requests.iter().any(|(_, request)| {
            !request.complete
                && matches!(&request.operation, Operation::Send(send) if lanes.contains(&send.envelope.context))
        })
    }
}
