//! Going on after processes have ended: who has, communicators that are revoked, agreement, and communicators of those that are left.
//!
//! Processes tell each other of it on a context of their own, which a process opens when the program asks for something of this or somebody
//! else has sent something there.

use super::{Awaited, Service, World, lifetime};
use crate::buffer::RecvBuf;
use crate::comm::{Comm, ContextLane};
use crate::engine::context::{ANY_SOURCE, ANY_TAG};
use crate::engine::envelope::{FAILURES, FAILURES_COUNT};
use crate::failures::{Agreement, Told, Verdict, revoked};
use crate::group::Group;
use crate::partitioned::Room;
use crate::{Rank, Result};
use farpost_fabric::Fabric;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

const _: () = assert!(FAILURES_COUNT == crate::partitioned::CONTEXT_COUNT + 1);
const TAG: i32 = 0;
/// Agreements of a communicator that are kept after they were decided, for those who ask later because who led them has ended meanwhile.
const KEPT: u64 = 64;

/// An agreement: its communicator and how many there were on that before.
type Key = (u64, u64);

/// What a request waits for, and where the outcome goes.
struct Waiting {
    key: Key,
    request: usize,
    comm: Rc<Comm>,
    to: RecvBuf,
    shrinks: bool,
}

#[derive(Default)]
struct FailureState {
    coming: Option<(usize, Room, Rank)>,
    serials: BTreeMap<u64, u64>,
    agreements: BTreeMap<Key, Agreement>,
    waiting: Vec<Waiting>,
    revoked: BTreeSet<u64>,
    /// By communicator: who has ended, in the order in which this process learnt it, and how many the program has acknowledged.
    known: BTreeMap<u64, (Vec<u32>, usize)>,
}

/// What a process keeps of all this.
pub(crate) struct Failures {
    comm: Rc<Comm>,
    state: RefCell<FailureState>,
    /// Processes that had ended at the last look; none at the first.
    lost: Cell<Option<usize>>,
}

impl Failures {
    fn send<F: Fabric>(&self, world: &World<F>, to: u32, told: &Told) {
        // Who has ended need not hear it.
        if let Ok(handle) = world.isend_owned(&self.comm, told.to_bytes(), to as Rank, TAG) {
            _ = world.free_request(handle);
        }
    }

    /// The next thing that somebody has told.
    fn next<F: Fabric>(&self, world: &World<F>) -> Option<(u32, Told)> {
        let mut engine = world.engine.borrow_mut();
        let mut state = self.state.borrow_mut();
        loop {
            let (handle, room, source) = match state.coming.take() {
                Some(coming) => coming,
                None => {
                    let status = engine.probe(self.comm.slots[0], ANY_SOURCE, ANY_TAG)?;
                    let room = Room::new(status.bytes as usize);
                    let handle = engine.irecv(self.comm.slots[0], room.recv_buf(), status.source, status.tag);
                    (handle.ok()?, room, status.source)
                }
            };
            let Some(status) = engine.reap(handle) else {
                state.coming = Some((handle, room, source));
                return None;
            };
            if status.error.is_none()
                && let Some(told) = Told::from_bytes(room.bytes())
            {
                return Some((source as u32, told));
            }
        }
    }

    fn hear<F: Fabric>(&self, world: &World<F>, from: u32, told: Told) {
        match told {
            Told::Revoked { context } => world.hear_revoked(self, context),
            Told::Agreeing {
                context,
                serial,
                message,
            } => {
                let mut state = self.state.borrow_mut();
                let begun = state.serials.get(&context).copied().unwrap_or(0);
                let key = (context, serial);
                if serial + KEPT < begun && !state.agreements.contains_key(&key) {
                    return;
                }
                let answer = state.agreements.entry(key).or_default().hear(from, message);
                drop(state);
                if let Some(message) = answer {
                    let told = Told::Agreeing {
                        context,
                        serial,
                        message,
                    };
                    self.send(world, from, &told);
                }
            }
        }
    }

    /// Let all agreements go on as far as they can.
    fn advance_all<F: Fabric>(&self, world: &World<F>) {
        let lost: BTreeSet<u32> = world.engine.borrow().lost.keys().copied().collect();
        self.lost.set(Some(lost.len()));
        let mut out = Vec::new();
        for ((context, serial), agreement) in &mut self.state.borrow_mut().agreements {
            let messages = agreement.advance(|pid| lost.contains(&pid), || world.new_context());
            let tell = |(to, message)| {
                let told = Told::Agreeing {
                    context: *context,
                    serial: *serial,
                    message,
                };
                (to, told)
            };
            out.extend(messages.into_iter().map(tell));
        }
        for (to, told) in out {
            self.send(world, to, &told);
        }
    }

    /// The requests whose agreements are over.
    fn complete<F: Fabric>(&self, world: &World<F>) {
        loop {
            let mut state = self.state.borrow_mut();
            let over = |state: &FailureState, w: &Waiting| {
                state
                    .agreements
                    .get(&w.key)
                    .is_some_and(|a| a.decided().is_some())
            };
            let Some(at) = state.waiting.iter().position(|w| over(&state, w)) else {
                return;
            };
            let waiting = state.waiting.remove(at);
            let verdict = state
                .agreements
                .get(&waiting.key)
                .and_then(Agreement::decided)
                .cloned();
            drop(state);
            let verdict = verdict.unwrap_or_default();
            world.learn(&waiting.comm, &verdict);
            let error = if waiting.shrinks {
                world.left_over(&waiting.comm, &verdict).map(|new| {
                    let handle = new.map_or(NO_COMM, |new| new.handle.get());
                    waiting.to.unpack(0, &handle.to_ne_bytes());
                })
            } else {
                waiting.to.unpack(0, &verdict.flags.to_ne_bytes());
                unknown(&verdict)
            };
            world.complete_request(waiting.request, error.err());
        }
    }
}

/// `MPI_COMM_NULL`.
const NO_COMM: usize = 0x100;

/// Not everybody knows of all that have ended.
fn unknown(verdict: &Verdict) -> Result<()> {
    let unknown: Vec<u32> = verdict
        .failed
        .iter()
        .copied()
        .filter(|pid| !verdict.acknowledged.contains(pid))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    fail!(ERR_PROC_ABORTED: "processes have ended that not all of comm have acknowledged: {unknown:?}")
}

impl<F: Fabric> Service<F> for Failures {
    fn advance(&self, world: &World<F>) -> bool {
        let mut moved = self.lost.get() != Some(world.engine.borrow().lost.len());
        while let Some((from, told)) = self.next(world) {
            self.hear(world, from, told);
            moved = true;
        }
        if moved {
            self.advance_all(world);
            self.complete(world);
        }
        moved
    }

    fn requests(&self) -> Vec<usize> {
        self.state
            .borrow()
            .coming
            .iter()
            .map(|(handle, ..)| *handle)
            .collect()
    }
}

impl<F: Fabric> World<F> {
    pub(crate) fn failures(&self) -> Rc<Failures> {
        if let Some(failures) = self.failures.get() {
            return Rc::clone(failures);
        }
        let engine = &mut self.engine.borrow_mut();
        engine.called_on = false;
        let everyone = Group::all(self.size());
        let comm = lifetime::make_hidden(engine, FAILURES, everyone, self.pid() as Rank);
        let failures = Rc::new(Failures {
            comm: Rc::new(comm),
            state: RefCell::default(),
            lost: Cell::new(None),
        });
        _ = self.failures.set(Rc::clone(&failures));
        self.add_service(failures.clone());
        failures
    }

    /// Somebody has told something that this process does not listen to yet.
    #[cold]
    pub(super) fn answer_call(&self) {
        if self.engine.borrow().called_on {
            self.failures();
        }
    }

    fn members(comm: &Comm) -> Group {
        match &comm.remote {
            None => comm.local.clone(),
            Some(remote) => comm.local.union(remote),
        }
    }

    /// `MPIX_Comm_revoke`: not collective.
    pub fn comm_revoke(&self, comm: &Rc<Comm>) {
        self.hear_revoked(&self.failures(), comm.context);
    }

    /// Whoever hears it first tells everybody, so that all hear it although some end meanwhile.
    fn hear_revoked(&self, failures: &Failures, context: u64) {
        if failures.state.borrow_mut().revoked.insert(context)
            && let Some(comm) = self.comm_of(context)
        {
            self.spread_revoked(failures, &comm);
        }
    }

    fn spread_revoked(&self, failures: &Failures, comm: &Rc<Comm>) {
        comm.revoke();
        self.bar_board(comm);
        let error = revoked();
        self.engine
            .borrow_mut()
            .fail_within(&comm.slots, |context| comm.carries(context), &error);
        let told = Told::Revoked {
            context: comm.context,
        };
        for pid in Self::members(comm).iter().filter(|pid| *pid != self.pid()) {
            failures.send(self, pid, &told);
        }
    }

    /// Contexts of communicators that this process knows to be revoked, of those too that it has freed.
    pub fn revoked_contexts(&self) -> Vec<u64> {
        let of = |failures: &Rc<Failures>| failures.state.borrow().revoked.iter().copied().collect();
        self.failures.get().map(of).unwrap_or_default()
    }

    /// A communicator is made, of which others have said already that it is revoked.
    pub(super) fn revoked_before(&self, comm: &Rc<Comm>) {
        if let Some(failures) = self.failures.get()
            && failures.state.borrow().revoked.contains(&comm.context)
        {
            self.spread_revoked(failures, comm);
        }
    }

    /// Who of `comm` has ended, in the order in which this process learnt it.
    fn known_failed(&self, comm: &Comm) -> Vec<u32> {
        let failures = self.failures();
        self.progress();
        let mut engine = self.engine.borrow_mut();
        engine.look_for_lost();
        engine.look_for_ended();
        let members = Self::members(comm);
        let mut state = failures.state.borrow_mut();
        let (known, _) = state.known.entry(comm.context).or_default();
        let failed = engine
            .lost
            .iter()
            .filter(|(_, end)| !end.in_order)
            .map(|(pid, _)| *pid);
        for pid in failed {
            if members.contains(pid) && !known.contains(&pid) {
                known.push(pid);
            }
        }
        known.clone()
    }

    /// `MPIX_Comm_get_failed`.
    pub fn comm_get_failed(&self, comm: &Comm) -> Group {
        let group = Group::from_pids(&self.known_failed(comm));
        group.of_session(comm.local.session())
    }

    /// `MPIX_Comm_ack_failed`: so many of them, and never fewer than before; how many are acknowledged. Receives from any source no longer
    /// fail for them.
    pub fn comm_ack_failed(&self, comm: &Comm, many: usize) -> usize {
        let known = self.known_failed(comm);
        let failures = self.failures();
        let mut state = failures.state.borrow_mut();
        let (_, acknowledged) = state.known.entry(comm.context).or_default();
        *acknowledged = many.min(known.len()).max(*acknowledged);
        let lane = comm.lane(ContextLane::Messages);
        let mut engine = self.engine.borrow_mut();
        engine
            .pardoned
            .extend(known[..*acknowledged].iter().map(|pid| (lane, *pid)));
        *acknowledged
    }

    fn begin_agreement(&self, comm: &Comm, flags: i32) -> (Rc<Failures>, Key) {
        let failures = self.failures();
        let known = self.known_failed(comm);
        let mut state = failures.state.borrow_mut();
        let acknowledged = state
            .known
            .get(&comm.context)
            .map_or(0, |(_, acknowledged)| *acknowledged);
        let serial = state.serials.entry(comm.context).or_default();
        let key = (comm.context, *serial);
        *serial += 1;
        if let Some(last) = key.1.checked_sub(KEPT) {
            let FailureState {
                agreements, waiting, ..
            } = &mut *state;
            let old = agreements.range((key.0, 0)..=(key.0, last));
            let over = old.filter(|(key, agreement)| {
                agreement.decided().is_some() && !waiting.iter().any(|waiting| waiting.key == **key)
            });
            let over: Vec<Key> = over.map(|(key, _)| *key).collect();
            for key in over {
                agreements.remove(&key);
            }
        }
        let mine = Verdict {
            flags,
            acknowledged: known[..acknowledged].to_vec(),
            failed: known,
            context: 0,
        };
        let mut members = Self::members(comm).to_pids();
        members.sort_unstable();
        state
            .agreements
            .entry(key)
            .or_default()
            .begin(self.pid(), members, mine);
        // Whatever this process has to tell goes out in the next call that makes progress.
        failures.lost.set(None);
        drop(state);
        (failures, key)
    }

    /// What the others know, this process knows now.
    fn learn(&self, comm: &Comm, verdict: &Verdict) {
        if let Some(failures) = self.failures.get() {
            let mut state = failures.state.borrow_mut();
            let (known, _) = state.known.entry(comm.context).or_default();
            for pid in &verdict.failed {
                if !known.contains(pid) {
                    known.push(*pid);
                }
            }
        }
    }

    fn agreed(&self, comm: &Comm, flags: i32) -> Result<Verdict> {
        let (failures, key) = self.begin_agreement(comm, flags);
        let mut verdict = None;
        self.wait_for(Awaited::Collective(comm), || {
            let state = failures.state.borrow();
            verdict = state.agreements.get(&key).and_then(Agreement::decided).cloned();
            Ok(verdict.is_some())
        })?;
        let verdict = verdict.ok_or_else(|| error!(ERR_INTERN: "an agreement ended without an outcome"))?;
        self.learn(comm, &verdict);
        Ok(verdict)
    }

    /// `MPIX_Comm_agree`: the flags that all have set, and an error, the same everywhere, when not all know of all that have ended.
    pub fn comm_agree(&self, comm: &Comm, flags: i32) -> Result<(i32, Result<()>)> {
        let verdict = self.agreed(comm, flags)?;
        Ok((verdict.flags, unknown(&verdict)))
    }

    /// `MPIX_Comm_shrink`: a communicator of those that are left; `None` where a side of an intercommunicator has nobody.
    pub fn comm_shrink(&self, comm: &Rc<Comm>) -> Result<Option<Rc<Comm>>> {
        let verdict = self.agreed(comm, 0)?;
        self.left_over(comm, &verdict)
    }

    /// `MPIX_Comm_iagree`, and `MPIX_Comm_ishrink`: flags, or the handle of the communicator, go to `to`.
    pub fn comm_agree_later(&self, comm: &Rc<Comm>, flags: i32, to: RecvBuf, shrinks: bool) -> Result<usize> {
        let request = self.open_request()?;
        let (failures, key) = self.begin_agreement(comm, flags);
        let waiting = Waiting {
            key,
            request,
            comm: Rc::clone(comm),
            to,
            shrinks,
        };
        failures.state.borrow_mut().waiting.push(waiting);
        self.progress();
        Ok(request)
    }

    fn left_over(&self, comm: &Comm, verdict: &Verdict) -> Result<Option<Rc<Comm>>> {
        let left = |group: &Group| {
            let left = group.iter().filter(|pid| !verdict.failed.contains(pid));
            Group::from_pids(&left.collect::<Vec<u32>>())
        };
        let (local, remote) = (left(&comm.local), comm.remote.as_ref().map(left));
        if !local.contains(self.pid()) {
            return fail!(ERR_PROC_ABORTED: "the others of comm take this process for one that has ended");
        }
        if remote.as_ref().is_some_and(Group::is_empty) {
            return Ok(None);
        }
        self.make(comm, verdict.context as i64, local, remote).map(Some)
    }
}
