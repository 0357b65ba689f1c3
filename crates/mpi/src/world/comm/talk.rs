//! The numbers that ranks tell each other while they make communicators.
//!
//! The only place here that hands memory to the engine. It is always [`Words`], and the invariant of every
//! `unsafe` block is theirs: they stay where they are, kept by whoever waits for the messages, until these are
//! over.
#![allow(unsafe_code)]

use crate::buffer::{RecvBuf, SendBuf};
use crate::carrier::Engine;
use crate::coll::{self, Block, Lane, Plan, Root, Schedule, Site, Transport};
use crate::comm::{Comm, ContextLane, Started};
use crate::datatype::Datatype;
use crate::engine::SENT;
use crate::engine::request::Payload;
use crate::group::Group;
use crate::p2p::Mode;
use crate::world::coll::Via;
use crate::world::{Awaited, World};
use crate::{Rank, Result};
use farpost_fabric::{Fabric, Peer};
use std::cell::Cell;
use std::rc::Rc;

const WORD: usize = size_of::<i64>();

/// Numbers in memory that messages fill or are read from.
pub(super) struct Words(Box<[Cell<i64>]>);

impl Words {
    fn new(values: impl IntoIterator<Item = i64>) -> Self {
        Self(values.into_iter().map(Cell::new).collect())
    }

    fn zeros(len: usize) -> Self {
        Self::new(core::iter::repeat_n(0, len))
    }

    /// The values now.
    pub(super) fn values(&self) -> Vec<i64> {
        self.0.iter().map(Cell::get).collect()
    }

    fn unsigned(&self) -> Vec<u64> {
        self.0.iter().map(|word| word.get().cast_unsigned()).collect()
    }

    fn address(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut().cast()
    }

    fn bytes(&self) -> u64 {
        (self.0.len() * WORD) as u64
    }

    /// All of them as the buffer of a collective; cut into `parts`, the first part.
    fn block(&self, parts: usize) -> Block {
        // SAFETY: see the top of the file.
        unsafe {
            Block::new(
                self.address(),
                self.bytes() / parts.max(1) as u64,
                Datatype::byte(),
            )
        }
    }

    fn send_buf(&self) -> SendBuf {
        // SAFETY: see the top of the file.
        unsafe { SendBuf::new(self.address(), self.bytes(), Datatype::byte()) }
    }

    fn recv_buf(&self) -> RecvBuf {
        // SAFETY: see the top of the file.
        unsafe { RecvBuf::new(self.address(), self.bytes(), Datatype::byte()) }
    }
}

/// Some members of a communicator, as the ranks of a transport.
struct Among<'a, F: Fabric> {
    via: Via<'a, F>,
    group: &'a Group,
    context: u64,
    slot: usize,
}

impl<F: Fabric> Among<'_, F> {
    fn peer(&self, rank: Rank) -> Result<Peer> {
        let pid = self.group.pid(rank).map(Peer);
        pid.ok_or_else(|| error!(ERR_INTERN: "rank {rank} is not in the group"))
    }
}

impl<F: Fabric> Transport for Among<'_, F> {
    type Req = usize;

    fn rank(&self) -> usize {
        self.group.rank_of(self.via.world.pid()).unwrap_or(0) as usize
    }

    fn size(&self) -> usize {
        self.group.size() as usize
    }

    fn remote_size(&self) -> usize {
        0
    }

    fn isend(&self, _: Lane, buf: SendBuf, dest: Rank, tag: i32) -> Result<usize> {
        let peer = self.peer(dest)?;
        self.via.may_go_on([Some(self.group), None])?;
        let envelope = Engine::<F>::envelope(self.context, self.via.comm.rank as u32, tag, buf.sig(), 0);
        let mut engine = self.via.world.engine.borrow_mut();
        let started = engine.isend(peer, envelope, Payload::User(buf), Mode::Standard)?;
        Ok(started.unwrap_or(SENT))
    }

    fn irecv(&self, _: Lane, buf: RecvBuf, src: Rank, tag: i32) -> Result<usize> {
        let peer = self.peer(src)?;
        // Messages carry the sender's rank in the communicator.
        let source = self.via.comm.local.rank_of(peer.0);
        let source = source.ok_or_else(|| error!(ERR_INTERN: "{peer} is not in comm"))?;
        self.via
            .world
            .engine
            .borrow_mut()
            .irecv(self.slot, buf, source, tag)
    }

    fn test(&self, req: &mut usize) -> Result<bool> {
        self.via.test_among([Some(self.group), None], *req)
    }

    fn cancel(&self, req: usize) {
        self.via.cancel(req);
    }

    fn copied(&self, bytes: u64) {
        self.via.copied(bytes);
    }
}

/// The tag of a message of lane [`ContextLane::Making`].
#[derive(Clone, Copy)]
pub(super) struct MakingTag(i32);

impl MakingTag {
    const MASK: i32 = 0x3fff_ffff;

    /// For the program's tag: below all special values.
    pub(super) fn number(tag: i32) -> Self {
        Self(i32::MIN | (tag & Self::MASK))
    }

    /// For the program's string: above them. Different strings may meet in one tag; then calls that overlap in
    /// time must come in the same order at all processes that are in both.
    pub(super) fn string(tag: &[u8]) -> Self {
        let hash = Self::hash(tag.iter().copied());
        Self((hash ^ hash >> 32) as i32 & Self::MASK)
    }

    /// A number that is the same for calls that belong together, and for no others as far as can be told: of string and groups.
    pub(super) fn told_apart(tag: &[u8], groups: &[&Group]) -> i64 {
        let members = groups.iter().flat_map(|group| {
            // The processes may have the other group in orders of their own.
            let mut pids = group.to_pids();
            pids.sort_unstable();
            let pids = pids.into_iter().flat_map(u32::to_le_bytes);
            group.size().to_le_bytes().into_iter().chain(pids)
        });
        Self::hash(members.chain(tag.iter().copied())).cast_signed()
    }

    /// FNV-1a.
    fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    }
}

impl<F: Fabric> World<F> {
    /// The shape of my own group, also of an intercommunicator.
    fn local_site(&self, comm: &Comm) -> Site<'_> {
        Site {
            remote_size: 0,
            ..self.site(comm)
        }
    }

    fn run_over<T: Transport<Req = usize>>(&self, comm: &Comm, over: &T, plan: Plan, tag: i32) -> Result<()> {
        let mut schedule = Schedule::new(plan, tag);
        self.wait_for(Awaited::Collective(comm), || schedule.advance(over))
    }

    /// Everybody's words in my group, in rank order. All bring the same number of them.
    pub(crate) fn gather_local(&self, comm: &Comm, mine: &[i64]) -> Result<Vec<i64>> {
        let ranks = comm.size() as usize;
        let (send, all) = (Words::new(mine.iter().copied()), Words::zeros(mine.len() * ranks));
        let plan = coll::allgather(&self.local_site(comm), Some(send.block(1)), all.block(ranks))?;
        self.run_collective(comm, plan)?;
        Ok(all.values())
    }

    /// Everybody's words in my group, in rank order, any number from each: `lengths` of them.
    pub(super) fn gather_uneven(&self, comm: &Comm, mine: &[i64], lengths: &[i64]) -> Result<Vec<i64>> {
        let total = lengths.iter().sum::<i64>() as usize;
        let (send, all) = (Words::new(mine.iter().copied()), Words::zeros(total));
        let mut at = 0;
        let starts = lengths.iter().map(|len| {
            at += len;
            (at - len) * WORD as i64
        });
        let starts: Vec<i64> = starts.collect();
        let counts = lengths.iter().map(|len| *len as u64 * WORD as u64);
        let blocks = coll::Blocks::v(&all.block(1), counts, starts);
        let plan = coll::allgatherv(&self.local_site(comm), Some(send.block(1)), blocks)?;
        self.run_collective(comm, plan)?;
        Ok(all.values())
    }

    /// Everybody's words in the other group of an intercommunicator, in rank order.
    pub(super) fn gather_remote(&self, comm: &Comm, mine: &[i64]) -> Result<Vec<i64>> {
        let ranks = comm.peers() as usize;
        let (send, all) = (Words::new(mine.iter().copied()), Words::zeros(mine.len() * ranks));
        let plan = coll::allgather(&self.site(comm), Some(send.block(1)), all.block(ranks))?;
        self.run_collective(comm, plan)?;
        Ok(all.values())
    }

    /// The words of rank `root` of my group.
    pub(super) fn hear_root(&self, comm: &Comm, words: &[i64], root: Rank) -> Result<Vec<i64>> {
        let words = Words::new(words.iter().copied());
        let root = Root::Rank(root as usize);
        let plan = coll::bcast(&self.local_site(comm), words.block(1), root)?;
        self.run_collective(comm, plan)?;
        Ok(words.values())
    }

    /// The words of the rank 0 that leads both groups ([`Comm::leads`]).
    pub(crate) fn hear_leader(&self, comm: &Comm, words: &[i64]) -> Result<Vec<i64>> {
        let words = Words::new(words.iter().copied());
        let plan = coll::agree(&self.site(comm), words.block(1), comm.leads());
        self.run_collective(comm, plan)?;
        Ok(words.values())
    }

    /// As [`hear_leader`](Self::hear_leader), to be run by somebody else, who keeps the words until it is
    /// over.
    pub(super) fn hear_leader_later(&self, comm: &Comm, words: &[i64]) -> (Plan, Rc<Words>) {
        let words = Rc::new(Words::new(words.iter().copied()));
        let plan = coll::agree(&self.site(comm), words.block(1), comm.leads());
        (plan, words)
    }

    /// The words of the other group's rank 0, on an intercommunicator.
    pub(super) fn hear_other_root(&self, comm: &Comm, mine: &[i64]) -> Result<Vec<i64>> {
        let (mine, theirs) = (Words::new(mine.iter().copied()), Words::zeros(mine.len()));
        let sending = if comm.rank == 0 { Root::Me } else { Root::Idle };
        // The lower group speaks first.
        for speaking in [comm.leads(), !comm.leads()] {
            let (words, root) = if speaking {
                (&mine, sending)
            } else {
                (&theirs, Root::Rank(0))
            };
            let plan = coll::bcast(&self.site(comm), words.block(1), root)?;
            self.run_collective(comm, plan)?;
        }
        Ok(theirs.values())
    }

    /// The words of the first of `group`, some members of `comm`, told to all of it. Takes part in the order of
    /// collectives (`tag: None`: all members of `comm` call, those outside `group` to keep count), or in that
    /// of calls with the same tag.
    pub(super) fn hear_first(
        &self,
        comm: &Comm,
        group: &Group,
        tag: Option<MakingTag>,
        words: &[i64],
    ) -> Result<Vec<i64>> {
        let (context, slot, tag) = match tag {
            None => (
                comm.lane(ContextLane::Collective),
                comm.slots[1],
                comm.next_collective(Started::Nonblocking),
            ),
            Some(tag) => {
                let (context, slot) = self.making_lane(comm);
                (context, slot, tag.0)
            }
        };
        if !group.contains(self.pid()) {
            return Ok(Vec::new());
        }
        let words = Words::new(words.iter().copied());
        let via = Via { world: self, comm };
        let among = Among {
            via,
            group,
            context,
            slot,
        };
        let site = Site::of(&among, &self.tuning, &self.pool);
        let plan = coll::agree(&site, words.block(1), true);
        self.run_over(comm, &among, plan, tag)?;
        Ok(words.values())
    }

    /// Wait for all of `group`, some members of `comm`, of whom this is one, as part of the collective `tag`.
    pub(crate) fn meet_some(&self, comm: &Comm, group: &Group, tag: i32) -> Result<()> {
        let among = self.among(comm, group);
        let plan = coll::barrier(&Site::of(&among, &self.tuning, &self.pool))?;
        self.run_over(comm, &among, plan, tag)
    }

    /// The words of the member `root` of `group`, some members of `comm`, of whom this is one, as part of the
    /// collective `tag`. All bring as many.
    pub(crate) fn hear_one(
        &self,
        comm: &Comm,
        group: &Group,
        tag: i32,
        words: &[u64],
        root: usize,
    ) -> Result<Vec<u64>> {
        let among = self.among(comm, group);
        let words = Words::new(words.iter().map(|word| word.cast_signed()));
        let site = Site::of(&among, &self.tuning, &self.pool);
        let plan = coll::bcast(&site, words.block(1), Root::Rank(root))?;
        self.run_over(comm, &among, plan, tag)?;
        Ok(words.unsigned())
    }

    /// Everybody's words in `group`, in its order: as [`hear_one`](Self::hear_one).
    pub(crate) fn hear_all(&self, comm: &Comm, group: &Group, tag: i32, mine: &[u64]) -> Result<Vec<u64>> {
        let among = self.among(comm, group);
        let ranks = group.size() as usize;
        let send = Words::new(mine.iter().map(|word| word.cast_signed()));
        let all = Words::zeros(mine.len() * ranks);
        let site = Site::of(&among, &self.tuning, &self.pool);
        let plan = coll::allgather(&site, Some(send.block(1)), all.block(ranks))?;
        self.run_over(comm, &among, plan, tag)?;
        Ok(all.unsigned())
    }

    /// Some members of `comm`, on its collectives' lane.
    fn among<'a>(&'a self, comm: &'a Comm, group: &'a Group) -> Among<'a, F> {
        Among {
            via: Via { world: self, comm },
            group,
            context: comm.lane(ContextLane::Collective),
            slot: comm.slots[1],
        }
    }

    /// The lane's number and the engine's index of it.
    fn making_lane(&self, comm: &Comm) -> (u64, usize) {
        let context = comm.lane(ContextLane::Making);
        let others = comm.remote.as_ref().unwrap_or(&comm.local).clone();
        (context, self.engine.borrow_mut().open_context(context, others))
    }

    /// My words to `other`, a rank that messages on `comm` go to, and `expected` words from there.
    pub(super) fn swap(
        &self,
        comm: &Comm,
        other: Rank,
        tag: MakingTag,
        mine: &[i64],
        expected: usize,
    ) -> Result<Vec<i64>> {
        let (mine, theirs) = (Words::new(mine.iter().copied()), Words::zeros(expected));
        let (context, slot) = self.making_lane(comm);
        let tag = tag.0;
        let peer = comm
            .peer(other)
            .ok_or_else(|| error!(ERR_RANK: "rank {other} is not in comm"))?;
        let envelope = Engine::<F>::envelope(context, comm.rank as u32, tag, 0, 0);
        let requests = {
            let mut engine = self.engine.borrow_mut();
            let receive = engine.irecv(slot, theirs.recv_buf(), other, tag)?;
            let payload = Payload::User(mine.send_buf());
            let send = engine.isend(peer, envelope, payload, Mode::Standard)?;
            [send.unwrap_or(SENT), receive]
        };
        let mut failed = None;
        for request in requests {
            failed = failed.or(self.wait(request)?.error);
        }
        failed.map_or_else(|| Ok(theirs.values()), |error| Err(*error))
    }
}
