//! Requests of partitioned communication: persistent ones, whose partitions are given away and asked for one by one.
//!
//! Requirements of MPI-5.0 sections 4.2.1, 4.2.2, 4.2.3.

use super::requests::{Extra, PersistentSpec};
use super::{Awaited, World};
use crate::Rank;
use crate::Result;
use crate::buffer::{RecvBuf, SendBuf};
use crate::comm::Comm;
use crate::engine::SENT;
use crate::engine::request::Status;
use crate::partitioned::Channel;
use crate::world::p2p::PROC_NULL;
use farpost_fabric::Fabric;
use std::ops::Range;
use std::rc::Rc;

impl<F: Fabric> World<F> {
    /// Make a partitioned send, inactive: `buf` holds all partitions, which have as many elements each.
    pub fn psend_init(
        &self,
        comm: &Rc<Comm>,
        buf: SendBuf,
        partitions: u32,
        dest: Rank,
        tag: i32,
    ) -> Result<usize> {
        let engine = &mut self.engine.borrow_mut();
        let mut all = self.partitioned.borrow_mut();
        let channel = all.send_init(engine, comm, (buf, partitions), dest, tag)?;
        drop(all);
        self.persistent_in(engine, PersistentSpec::Partitioned(channel))
    }

    /// Make a partitioned receive, inactive.
    pub fn precv_init(
        &self,
        comm: &Rc<Comm>,
        buf: RecvBuf,
        partitions: u32,
        source: Rank,
        tag: i32,
    ) -> Result<usize> {
        let mut all = self.partitioned.borrow_mut();
        let channel = all.recv_init(comm, (buf, partitions), source, tag);
        drop(all);
        self.persistent(PersistentSpec::Partitioned(channel))
    }

    /// Start a channel: the request of the round.
    pub(super) fn start_partitioned(&self, channel: &Rc<Channel>) -> Result<usize> {
        if channel.rank == PROC_NULL && !channel.sends() {
            return self.done(Status::PROC_NULL);
        }
        let engine = &mut self.engine.borrow_mut();
        let request = engine.requests.insert_idle()?;
        let mut all = self.partitioned.borrow_mut();
        let started = all.start(engine, channel, request);
        self.parts_under_way.set(!all.is_idle());
        if let Err(error) = started {
            engine.requests.remove(request);
            return Err(error);
        }
        Ok(request)
    }

    /// The channel behind a request, and whether it is active.
    fn channel_of(&self, handle: usize) -> Result<(Rc<Channel>, bool)> {
        match self.extras.borrow().get(&handle) {
            Some(Extra::Persistent { spec, running })
                if let PersistentSpec::Partitioned(channel) = &**spec =>
            {
                Ok((Rc::clone(channel), running.is_some()))
            }
            _ if handle == SENT || self.engine.borrow().requests.get(handle).is_some() => {
                fail!(ERR_REQUEST: "request={handle:#x}: not a request of MPI_Psend_init or MPI_Precv_init")
            }
            _ => fail!(ERR_REQUEST: "request={handle:#x}: not a live request (freed, or never one)"),
        }
    }

    /// Partitions of a send may be sent: `runs` of them (`MPI_Pready` and its kin).
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`: not an active partitioned send. `MPI_ERR_ARG`: no such partition, or it was ready before; then none is by
    /// this call.
    pub fn pready(&self, handle: usize, runs: &[Range<u32>]) -> Result<()> {
        let (channel, active) = self.channel_of(handle)?;
        let ready = || {
            if !channel.sends() {
                return fail!(
                    ERR_REQUEST: "request={handle:#x}: a partitioned receive; partitions of sends are made ready"
                );
            }
            if !active {
                return fail!(ERR_REQUEST: "request={handle:#x}: not started; partitions are ready between MPI_Start and completion");
            }
            runs.iter()
                .try_for_each(|run| in_range(&channel, run.end.saturating_sub(1)))?;
            let engine = &mut self.engine.borrow_mut();
            let mut all = self.partitioned.borrow_mut();
            let ready = all.ready(engine, &channel, runs);
            self.parts_under_way.set(!all.is_idle());
            ready
        };
        ready().inspect_err(|_| self.blame(&channel))
    }

    /// Whether a partition of a receive has arrived, after making progress if it had not (`MPI_Parrived`). All have, of a receive that
    /// is not active.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`: not a partitioned receive. `MPI_ERR_ARG`: no such partition.
    pub fn parrived(&self, handle: usize, partition: u32) -> Result<bool> {
        let (channel, active) = self.channel_of(handle)?;
        let asked = || {
            if channel.sends() {
                return fail!(
                    ERR_REQUEST: "request={handle:#x}: a partitioned send; partitions of receives arrive"
                );
            }
            in_range(&channel, partition)
        };
        asked().inspect_err(|_| self.blame(&channel))?;
        if !active || channel.rank == PROC_NULL || channel.has_arrived(partition) {
            return Ok(true);
        }
        self.looks();
        self.progress();
        let arrived = channel.has_arrived(partition);
        self.looked_for(Awaited::All(&[handle]), arrived);
        Ok(arrived)
    }

    /// Whose error handler hears of an error.
    fn blame(&self, channel: &Channel) {
        self.engine.borrow_mut().failed = Some(channel.comm.slots[0]);
    }

    pub(super) fn advance_partitioned(&self) -> bool {
        let engine = &mut self.engine.borrow_mut();
        let mut all = self.partitioned.borrow_mut();
        let moved = all.advance(engine);
        self.parts_under_way.set(!all.is_idle());
        moved
    }
}

fn in_range(channel: &Channel, partition: u32) -> Result<()> {
    let partitions = channel.partitions();
    if partition < partitions {
        return Ok(());
    }
    match partitions {
        0 => fail!(ERR_ARG: "partition={partition}: the request has none"),
        _ => fail!(ERR_ARG: "partition={partition}: the request has partitions 0 to {}", partitions - 1),
    }
}
