//! Running collectives' schedules over the engine.
//!
//! Requirements of MPI-5.0 sections 6.12, 6.14.

use crate::buffer::{RecvBuf, SendBuf};
use crate::carrier::Engine;
use crate::coll::{Lane, Plan, Schedule, Site, Transport};
use crate::comm::{Comm, ContextLane, Started};
use crate::engine::SENT;
use crate::group::Group;
use crate::p2p::Mode;
use crate::world::comm::PendingDup;
use crate::world::{Awaited, PersistentSpec, World};
use crate::{Rank, Result};
use farpost_fabric::{Cost, Fabric, Peer};
use farpost_rollcall::Teller;
use std::cell::RefCell;
use std::rc::Rc;

/// A collective under way.
pub struct CollectiveRequest<F: Fabric> {
    pub(crate) comm: Rc<Comm>,
    handle: usize,
    /// The function that began it, for the roll-call.
    pub(crate) site: u32,
    schedule: RefCell<Schedule<usize>>,
    /// The communicator to make when it is over.
    making: RefCell<Option<PendingDup>>,
    fabric: std::marker::PhantomData<F>,
}

/// A communicator's collective context as a transport.
pub struct Via<'a, F: Fabric> {
    pub world: &'a World<F>,
    pub comm: &'a Comm,
}

impl<F: Fabric> Via<'_, F> {
    /// Context, its engine index, and the process behind a rank.
    fn route(&self, lane: Lane, rank: Rank) -> Result<(u64, usize, Peer)> {
        let comm = self.comm;
        let (context, slot, group) = match (&comm.remote, lane) {
            (Some(remote), Lane::Remote) => (ContextLane::Collective, 1, remote),
            (Some(_), Lane::Local) => (ContextLane::Local, 2, &comm.local),
            (None, _) => (ContextLane::Collective, 1, &comm.local),
        };
        let peer = group
            .pid(rank)
            .ok_or_else(|| error!(ERR_INTERN: "a collective addresses rank {rank}, which is not there"))?;
        Ok((comm.lane(context), comm.slots[slot], Peer(peer)))
    }
}

impl<F: Fabric> Via<'_, F> {
    /// As [`Transport::test`], of a collective among the members of `groups`: it breaks when one of them has ended.
    pub(crate) fn test_among(&self, groups: [Option<&Group>; 2], req: usize) -> Result<bool> {
        if req == SENT {
            return Ok(true);
        }
        let mut engine = self.world.engine.borrow_mut();
        if let Some(status) = engine.reap(req) {
            return status.error.map_or(Ok(true), |error| Err(*error));
        }
        let broken = if self.comm.is_revoked() {
            Some(crate::failures::revoked())
        } else if engine.lost.is_empty() {
            None
        } else {
            engine.broken(groups)
        };
        if let Some(error) = broken {
            engine.abandon(req, error.clone());
            return Err(error);
        }
        Ok(false)
    }

    /// Whether a collective among the members of `groups` can come to an end: asked before each of its sends, so that
    /// messages of a later one are not taken for those of one that others are still in.
    #[inline]
    pub(crate) fn may_go_on(&self, groups: [Option<&Group>; 2]) -> Result<()> {
        self.comm.need_unrevoked()?;
        let engine = self.world.engine.borrow();
        if engine.lost.is_empty() {
            return Ok(());
        }
        engine.broken(groups).map_or(Ok(()), Err)
    }
}

impl<F: Fabric> Transport for Via<'_, F> {
    type Req = usize;

    fn rank(&self) -> usize {
        self.comm.rank as usize
    }

    fn size(&self) -> usize {
        self.comm.size() as usize
    }

    fn remote_size(&self) -> usize {
        self.comm
            .remote
            .as_ref()
            .map_or(0, |remote| remote.size() as usize)
    }

    fn isend(&self, lane: Lane, buf: SendBuf, dest: Rank, tag: i32) -> Result<usize> {
        let (context, _, peer) = self.route(lane, dest)?;
        self.may_go_on([Some(&self.comm.local), self.comm.remote.as_ref()])?;
        let envelope = Engine::<F>::envelope(context, self.comm.rank as u32, tag, buf.sig(), 0);
        let mut engine = self.world.engine.borrow_mut();
        Ok(engine
            .isend_user(peer, envelope, &buf, Mode::Standard)?
            .unwrap_or(SENT))
    }

    fn irecv(&self, lane: Lane, buf: RecvBuf, src: Rank, tag: i32) -> Result<usize> {
        let (_, slot, _) = self.route(lane, src)?;
        self.world.engine.borrow_mut().irecv(slot, buf, src, tag)
    }

    fn test(&self, req: &mut usize) -> Result<bool> {
        self.test_among([Some(&self.comm.local), self.comm.remote.as_ref()], *req)
    }

    #[inline(always)]
    fn copied(&self, bytes: u64) {
        self.world.fabric().charge(Cost::Copy(bytes as usize));
    }

    #[inline(always)]
    fn reduced(&self, bytes: u64) {
        self.world.fabric().charge(Cost::Reduce(bytes as usize));
    }

    fn cancel(&self, req: usize) {
        if req != SENT {
            let mut engine = self.world.engine.borrow_mut();
            engine.cancel_receive(req);
            engine.reap(req);
        }
    }
}

impl<F: Fabric> World<F> {
    /// Where plans for collectives on `comm` are built.
    pub fn site<'a>(&'a self, comm: &Comm) -> Site<'a> {
        Site {
            hosts: comm.hosts(&*self.fabric),
            ..Site::of(&Via { world: self, comm }, &self.tuning, &self.pool)
        }
    }

    /// Run a collective to its end.
    pub fn run_collective(&self, comm: &Comm, plan: Plan) -> Result<()> {
        comm.need_unrevoked()?;
        let mut schedule = Schedule::new(plan, comm.next_collective(Started::Blocking));
        let via = Via { world: self, comm };
        if schedule.advance(&via)? {
            return Ok(());
        }
        self.wait_for(Awaited::Collective(comm), || schedule.advance(&via))
    }

    /// Start a collective; its request.
    pub fn start_collective(&self, comm: &Rc<Comm>, plan: Plan) -> Result<usize> {
        self.start_making(comm, plan, None)
    }

    /// As [`start_collective`](Self::start_collective), and then make a communicator.
    pub(crate) fn start_making(
        &self,
        comm: &Rc<Comm>,
        plan: Plan,
        making: Option<PendingDup>,
    ) -> Result<usize> {
        self.start_tagged(comm, plan, making, comm.next_collective(Started::Nonblocking))
    }

    /// Make a persistent collective, inactive. All ranks make those of a communicator in the same order, which is how they
    /// find each other (MPI-5.0 section 6.13).
    pub fn persistent_collective(
        &self,
        comm: &Rc<Comm>,
        plan: Box<dyn Fn() -> Result<Plan>>,
    ) -> Result<usize> {
        let tag = comm.next_collective(Started::Persistent);
        let comm = Rc::clone(comm);
        self.persistent(PersistentSpec::Collective { comm, plan, tag })
    }

    /// As [`start_making`](Self::start_making), with messages that carry `tag`.
    pub(crate) fn start_tagged(
        &self,
        comm: &Rc<Comm>,
        plan: Plan,
        making: Option<PendingDup>,
        tag: i32,
    ) -> Result<usize> {
        comm.need_unrevoked()?;
        let handle = self.engine.borrow_mut().requests.insert_idle()?;
        let running = Rc::new(CollectiveRequest {
            comm: Rc::clone(comm),
            handle,
            site: self.teller.get().map_or(0, Teller::site),
            schedule: RefCell::new(Schedule::new(plan, tag)),
            making: RefCell::new(making),
            fabric: std::marker::PhantomData,
        });
        self.extras
            .borrow_mut()
            .insert(handle, crate::world::Extra::Collective(Rc::clone(&running)));
        if !self.advance_collective(&running) {
            self.active.borrow_mut().push(running);
        }
        Ok(handle)
    }

    /// True: it is over.
    fn advance_collective(&self, running: &CollectiveRequest<F>) -> bool {
        // A user's operation that makes progress comes back here while its own collective is being
        // advanced: then that one is left alone.
        let Ok(mut schedule) = running.schedule.try_borrow_mut() else {
            return false;
        };
        let result = schedule.advance(&Via {
            world: self,
            comm: &running.comm,
        });
        let result = match result {
            Ok(false) => return false,
            Ok(true) => Ok(()),
            Err(error) => Err(error),
        };
        drop(schedule);
        let making = running.making.take();
        let error = making.map_or(result.clone(), |m| m.finish(self, result)).err();
        self.engine
            .borrow_mut()
            .complete(running.handle, |status| status.error = error.map(Box::new));
        true
    }

    pub(crate) fn advance_collectives(&self) -> bool {
        let list: Vec<_> = self.active.borrow().clone();
        let mut moved = false;
        for running in &list {
            if self.advance_collective(running) {
                self.active
                    .borrow_mut()
                    .retain(|other| !Rc::ptr_eq(other, running));
                moved = true;
            }
        }
        moved
    }
}
