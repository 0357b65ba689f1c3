//! Making and unmaking communicators, once their groups and context are agreed on.
//!
//! Requirements of MPI-5.0 section 7.4.3.
//!
//! A context is 48 bits: the number of the leading process, how many contexts that process has handed out, and the lane. The process that leads a
//! new communicator picks the number alone and sends it with messages that are exchanged anyway; no reduction is needed, and a leader never hands
//! out a number twice. The four lanes separate point-to-point messages, collectives, collectives inside one side of an intercommunicator, and the
//! making of communicators.

use super::World;
use crate::carrier::{Chosen, Engine};
use crate::comm::{Comm, ContextLane, Route};
use crate::engine::Carrier;
use crate::engine::envelope::{COUNT_BITS, LANE_BITS};
use crate::errhandler::ErrorHandler;
use crate::group::Group;
use crate::info::Info;
use crate::{Rank, Result};
use farpost_fabric::Fabric;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The number, of process 0, of [`World::hidden_comm`]: the first that is not a predefined communicator's.
const HIDDEN: u64 = 2;

/// The first context of the `count`th communicator that process `leader` leads.
pub(super) fn context_number(leader: u32, count: u64) -> u64 {
    (u64::from(leader) << COUNT_BITS | count & ((1 << COUNT_BITS) - 1)) << LANE_BITS
}

pub(super) fn make_comm<F: Fabric>(
    engine: &mut Engine<F>,
    context: u64,
    local: Group,
    remote: Option<Group>,
    rank: Rank,
    handle: usize,
    name: &[u8],
) -> Comm {
    let others = remote.clone().unwrap_or_else(|| local.clone());
    let peers = others.clone();
    let slots = [
        engine.open_context(context | ContextLane::Messages as u64, others.clone()),
        engine.open_context(context | ContextLane::Collective as u64, others),
        engine.open_context(context | ContextLane::Local as u64, local.clone()),
    ];
    Comm {
        route: Route::new(context, slots[0], &peers, rank, engine.fabric.has_lanes()),
        handle: Cell::new(handle),
        context,
        local,
        remote,
        rank,
        slots,
        name: RefCell::new(name.to_vec()),
        errhandler: RefCell::new(ErrorHandler::AreFatal),
        attrs: Default::default(),
        info: RefCell::new(Info::new()),
        topology: RefCell::new(None),
        collectives: Default::default(),
        hosts: Default::default(),
        buffer: RefCell::new(None),
    }
}

/// A communicator that the program does not see. Its messages are not the program's.
pub(super) fn make_hidden<F: Fabric>(engine: &mut Engine<F>, context: u64, local: Group, rank: Rank) -> Comm {
    let comm = make_comm(engine, context, local, None, rank, 0, b"");
    for slot in comm.slots {
        engine.contexts[slot].hidden = true;
    }
    comm
}

impl<F: Fabric> World<F> {
    /// A context number for a communicator that this process leads: unique in the job. The leader tells the
    /// others.
    pub fn new_context(&self) -> u64 {
        let engine = self.engine.borrow();
        let bits = engine.limits.count_bits;
        loop {
            let count = self.next_context.get();
            self.next_context.set(count + 1);
            let context = context_number(self.pid(), count & ((1 << bits) - 1));
            // Counts that come round again pass over those in use.
            if count >> bits == 0 || !engine.has_context(context) {
                return context;
            }
        }
    }

    /// A communicator of everybody that the program does not see: for checks of a program, which all processes of the job
    /// make right after their worlds, or none.
    pub fn hidden_comm(&self) -> Rc<Comm> {
        let me = self.pid();
        let everyone = Group::all(self.size());
        // The second number of process 0, which nobody hands out then.
        let context = context_number(0, HIDDEN);
        self.next_context.set(self.next_context.get().max(HIDDEN + 1));
        let engine = &mut self.engine.borrow_mut();
        Rc::new(make_hidden(engine, context, everyone, me as i32))
    }

    /// Make a communicator of agreed groups and context, and give it a handle. `rank` is mine in `local`.
    pub fn add_comm(
        &self,
        context: u64,
        local: Group,
        remote: Option<Group>,
        rank: Rank,
    ) -> Result<Rc<Comm>> {
        let made = make_comm(
            &mut self.engine.borrow_mut(),
            context,
            local,
            remote,
            rank,
            0,
            b"",
        );
        let comm = Rc::new(made);
        let handle = self.comms.borrow_mut().insert(Rc::clone(&comm))?;
        comm.handle.set(handle);
        self.revoked_before(&comm);
        Ok(comm)
    }

    /// The same communicator with another context. What the program has set meanwhile goes along; there are
    /// no messages on it yet.
    pub(crate) fn renumber_comm(&self, comm: &Rc<Comm>, context: u64) {
        if comm.context == context {
            return;
        }
        let handle = comm.handle.get();
        let new = {
            let engine = &mut self.engine.borrow_mut();
            let (local, remote) = (comm.local.clone(), comm.remote.clone());
            make_comm(engine, context, local, remote, comm.rank, handle, b"")
        };
        new.name.replace(comm.name.take());
        new.errhandler.replace(comm.errhandler.borrow().clone());
        new.attrs.take_over(&comm.attrs);
        new.info.replace(comm.info.take());
        new.topology.replace(comm.topology.take());
        new.buffer.replace(comm.buffer.take());
        if let Some(place) = self.comms.borrow_mut().get_mut(handle) {
            *place = Rc::new(new);
        }
        self.close(comm);
    }

    /// Drop a communicator's handle and, when nothing is under way on it, its contexts. Attributes have been
    /// deleted by the caller.
    pub fn remove_comm(&self, comm: &Rc<Comm>) {
        self.drop_board(comm);
        self.comms.borrow_mut().remove(comm.handle.get());
        self.close(comm);
    }

    fn close(&self, comm: &Rc<Comm>) {
        let mut closing = self.closing.borrow_mut();
        let mut engine = self.engine.borrow_mut();
        // Whoever has a reference may still post receives: collectives under way, inactive persistent
        // requests. This one is looked at again with the next.
        closing.retain(|comm| {
            let quiet = Rc::strong_count(comm) == 1
                && comm
                    .slots
                    .iter()
                    .all(|slot| !engine.contexts[*slot].queues.has_posted());
            if quiet {
                for lane in ContextLane::ALL {
                    engine.close_context(comm.lane(lane));
                }
            }
            !quiet
        });
        closing.push(Rc::clone(comm));
    }

    /// Handles of the communicators that live, beside the predefined ones.
    pub fn comm_handles(&self) -> Vec<usize> {
        self.comms.borrow().iter().map(|(handle, _)| handle).collect()
    }

    /// Wait until every peer that reads our memory has taken what was posted to it, or is `gone`: after this it may go.
    pub fn drain_to_peers(&self, gone: impl Fn(u32) -> bool) -> Result<()> {
        self.unrung.set(true);
        let result = self.wait_until(|| {
            let mut engine = self.engine.borrow_mut();
            Ok(Chosen::is_drained(&mut engine, &|peer| gone(peer.0)))
        });
        self.unrung.set(false);
        result
    }

    /// Wait until everything started is on its way, so that the memory below may go: for MPI_Finalize.
    pub fn quiesce(&self) -> Result<()> {
        self.wait_until(|| {
            let engine = self.engine.borrow();
            Ok(!engine.has_duties() && engine.promised == 0)
        })
    }
}
