//! Communicators (MPI-5.0 chapter 7): what they are. A world makes and frees them (`world/comm`).
//!
//! Cost class: fast path.
//!
//! Requirements of MPI-5.0 sections 6.2.2, 7.4.1, 8.8, 9.3.

mod attached;
mod hints;
mod split_type;

pub use attached::Attached;
pub use split_type::{RESOURCE_KEY, SHARED_MEMORY, SplitType};

use crate::coll::{Hosts, Neighbors};
use crate::engine::envelope::Envelope;
use crate::errhandler::ErrorHandler;
use crate::group::{Comparison, Group};
use crate::info::Info;
use crate::{Rank, Result, attr, topo};
use farpost_fabric::{NEAR_PEERS, Peer, Topology};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// Which messages of a communicator a context carries. The lowest bits of a context's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextLane {
    /// Point-to-point.
    Messages = 0,
    /// Collectives; on an intercommunicator those messages that go to the other group.
    Collective = 1,
    /// Collectives' messages within the local group of an intercommunicator.
    Local = 2,
    /// Messages that make communicators of some of the members, or with members of another one: outside the
    /// order of collectives, told apart by the program's tag.
    Making = 3,
}

impl ContextLane {
    /// Every lane.
    pub const ALL: [Self; 4] = [Self::Messages, Self::Collective, Self::Local, Self::Making];
}

/// How a collective is started. Those of different kinds do not match each other (MPI-5.0 sections 6.12 and 6.13), so each
/// kind is numbered apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// By a nonblocking call; numbered in the order of these calls.
    Nonblocking = 0,
    /// By a blocking call; likewise.
    Blocking = 1,
    /// By `MPI_Start`; numbered in the order of the calls that made the requests, whatever the order of starting.
    Persistent = 2,
}

/// What a short message takes of a communicator:
///
/// ```text
/// byte 0         8      16      20      24     28     32
///      | context | slot | first | ranks | rank |      |
/// ```
#[repr(C, align(32))]
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// Number and index of the context of messages.
    context: u64,
    pub slot: usize,
    /// The process of rank 0 and the number of ranks that a message can go to in a fast lane: those that have one, if ranks and processes grow together;
    /// else no ranks.
    first: u32,
    ranks: Cell<u32>,
    /// My rank.
    rank: u32,
    /// The communicator is revoked; then there are no ranks.
    revoked: Cell<bool>,
}

const _: () = assert!(
    size_of::<Route>() == 32
        && std::mem::offset_of!(Route, slot) == 8
        && std::mem::offset_of!(Route, first) == 16
        && std::mem::offset_of!(Route, rank) == 24
);

impl Route {
    pub(crate) fn new(context: u64, slot: usize, peers: &Group, rank: Rank, lanes: bool) -> Self {
        let (first, ranks) = peers.as_range().filter(|_| lanes).unwrap_or((0, 0));
        let ranks = ranks.min((NEAR_PEERS as u32).saturating_sub(first));
        Self {
            context: context | ContextLane::Messages as u64,
            slot,
            first,
            ranks: Cell::new(ranks),
            rank: rank as u32,
            revoked: Cell::new(false),
        }
    }

    /// The process behind a rank. `None`: ask the [communicator](Comm::peer).
    #[inline(always)]
    pub(crate) fn peer(&self, rank: Rank) -> Option<Peer> {
        let rank = rank as u32;
        (rank < self.ranks.get()).then(|| Peer(self.first.wrapping_add(rank)))
    }

    /// The words of an envelope of mine.
    #[inline(always)]
    pub(crate) fn sent(&self, tag: i32, class: u8) -> [u64; 2] {
        self.words(self.rank, tag, class)
    }

    /// Those of the rank `source`.
    #[inline(always)]
    pub(crate) fn wanted(&self, source: Rank, tag: i32, class: u8) -> [u64; 2] {
        self.words(source as u32, tag, class)
    }

    #[inline(always)]
    fn words(&self, source: u32, tag: i32, class: u8) -> [u64; 2] {
        Envelope {
            context: self.context,
            source,
            tag,
            class,
            flags: 0,
        }
        .words()
    }
}

/// A communicator.
pub struct Comm {
    pub(crate) route: Route,
    /// ABI handle; 0 until it has one.
    pub handle: Cell<usize>,
    /// Number of its first context; unique among the live communicators of the job.
    pub context: u64,
    /// My group.
    pub local: Group,
    /// The other group of an intercommunicator.
    pub remote: Option<Group>,
    /// My rank in the local group.
    pub rank: Rank,
    /// The engine's indexes of the contexts, by lane.
    pub slots: [usize; 3],
    pub name: RefCell<Vec<u8>>,
    pub errhandler: RefCell<ErrorHandler>,
    pub attrs: attr::AttrSet,
    pub info: RefCell<Info>,
    pub topology: RefCell<Option<topo::Topology>>,
    /// Collectives so far, by [`Started`]: the tags of the next.
    pub collectives: [Cell<u32>; 3],
    /// Buffer for buffered sends on this communicator (MPI-4.1).
    pub buffer: RefCell<Option<Attached>>,
    /// Which ranks of the local group share a host, found out when it is first asked for.
    pub(crate) hosts: OnceCell<Option<Rc<Hosts>>>,
}

impl Comm {
    /// Which ranks of the local group share a host; `None` when all do.
    pub(crate) fn hosts(&self, fabric: &impl Topology) -> Option<Rc<Hosts>> {
        let places = || Hosts::of(self.local.iter().map(|pid| fabric.host_of(Peer(pid))));
        self.hosts.get_or_init(|| places().map(Rc::new)).clone()
    }

    /// Ranks that a message can go to: the group's, or the remote group's.
    #[inline]
    pub fn peers(&self) -> u32 {
        self.remote.as_ref().unwrap_or(&self.local).size()
    }

    /// The process behind a rank that a message can go to.
    #[inline]
    pub fn peer(&self, rank: Rank) -> Option<Peer> {
        self.route.peer(rank).or_else(|| self.listed(rank))
    }

    /// Whether ranks and processes grow together up to `rank`, and it has no fast lane all the same.
    pub(crate) fn lacks_lane(&self, rank: Rank) -> bool {
        let peers = self.remote.as_ref().unwrap_or(&self.local);
        self.route.peer(rank).is_none() && peers.as_range().is_some_and(|(_, ranks)| (rank as u32) < ranks)
    }

    #[inline(never)]
    fn listed(&self, rank: Rank) -> Option<Peer> {
        if self.is_revoked() {
            return None;
        }
        self.remote.as_ref().unwrap_or(&self.local).pid(rank).map(Peer)
    }

    /// From now on no messages go to any rank.
    pub(crate) fn revoke(&self) {
        self.route.ranks.set(0);
        self.route.revoked.set(true);
    }

    /// `MPIX_Comm_is_revoked`.
    #[inline]
    pub fn is_revoked(&self) -> bool {
        self.route.revoked.get()
    }

    /// # Errors
    /// `MPIX_ERR_REVOKED`.
    #[inline]
    pub(crate) fn need_unrevoked(&self) -> Result<()> {
        if self.is_revoked() {
            return Err(crate::failures::revoked());
        }
        Ok(())
    }

    /// Whether a context is one of this communicator's.
    pub(crate) fn carries(&self, context: u64) -> bool {
        ContextLane::ALL.iter().any(|lane| self.lane(*lane) == context)
    }

    /// Ranks in the local group.
    #[inline]
    pub fn size(&self) -> u32 {
        self.local.size()
    }

    /// Whether it has two groups.
    pub fn is_inter(&self) -> bool {
        self.remote.is_some()
    }

    /// Number of a context.
    #[inline]
    pub fn lane(&self, lane: ContextLane) -> u64 {
        self.context | lane as u64
    }

    /// The envelope of a message from here, point-to-point.
    #[inline]
    pub(crate) fn envelope(&self, tag: i32, class: u8) -> Envelope {
        Envelope {
            context: self.lane(ContextLane::Messages),
            source: self.rank as u32,
            tag,
            class,
            flags: 0,
        }
    }

    /// The tag for the next collective: the same at all ranks, since all start (or, persistent ones, make) the same ones in
    /// order. The kind is in the lowest bits, since a carrier may drop the highest (`carrier/portals/bits.rs`).
    ///
    /// A persistent collective keeps its tag for life. A rank may be in a later round than another: it sends what belongs to
    /// that round after everything of the rounds before, and messages of one tag are received in order.
    pub fn next_collective(&self, kind: Started) -> i32 {
        let counter = &self.collectives[kind as usize];
        let number = counter.get();
        counter.set(number.wrapping_add(1));
        ((number & 0x1fff_ffff) << 2 | kind as u32) as i32
    }

    /// The neighbours of this process in the topology (MPI-5.0 section 8.7).
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY`: there is none.
    pub fn neighbors(&self) -> Result<Neighbors> {
        match &*self.topology.borrow() {
            Some(topology) => Neighbors::of(topology, self.rank),
            None => fail!(ERR_TOPOLOGY: "comm has no topology, so no neighbours"),
        }
    }

    /// Whether rank 0 of my group leads: it is the only one, or the lower one.
    pub fn leads(&self) -> bool {
        match &self.remote {
            None => true,
            Some(remote) => self.local.pid(0) < remote.pid(0),
        }
    }

    /// `MPI_Comm_compare`.
    pub fn compare(&self, other: &Self) -> Comparison {
        if self.handle == other.handle {
            return Comparison::Ident;
        }
        let remote = match (&self.remote, &other.remote) {
            (None, None) => Comparison::Ident,
            (Some(one), Some(two)) => one.compare(two),
            _ => Comparison::Unequal,
        };
        let least_alike = |a: Comparison, b: Comparison| if (a as i32) < b as i32 { b } else { a };
        match least_alike(self.local.compare(&other.local), remote) {
            Comparison::Ident => Comparison::Congruent,
            differing => differing,
        }
    }

    /// Whether two communicators have the error handler and nothing else in common: called on a new one.
    pub(crate) fn inherit(&self, parent: &Comm) {
        let handler = parent.errhandler.borrow().clone();
        self.errhandler.replace(handler);
    }

    pub(crate) fn need_intra(&self, argument: &str) -> Result<()> {
        if self.is_inter() {
            return fail!(
                ERR_COMM: "{argument} is an intercommunicator; this call needs an intracommunicator"
            );
        }
        Ok(())
    }

    pub(crate) fn need_inter(&self, argument: &str) -> Result<()> {
        if !self.is_inter() {
            return fail!(
                ERR_COMM: "{argument} is an intracommunicator; this call needs an intercommunicator"
            );
        }
        Ok(())
    }

    /// A rank argument that names a member of my group.
    pub(crate) fn need_rank(&self, argument: &str, rank: Rank) -> Result<()> {
        if self.local.pid(rank).is_some() {
            return Ok(());
        }
        fail!(ERR_RANK: "{argument}={rank}: the communicator has {}", self.local.ranks_sentence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_leads_to_those_that_have_a_fast_lane() {
        let near = NEAR_PEERS as Rank;
        let all = Route::new(0, 0, &Group::all(10_000), 1, true);
        assert_eq!(all.peer(near - 1), Some(Peer(NEAR_PEERS as u32 - 1)));
        assert_eq!(all.peer(near), None);
        let pids: Vec<u32> = (4000..5000).collect();
        let some = Route::new(0, 0, &Group::from_pids(&pids), 1, true);
        assert_eq!(some.peer(0), Some(Peer(4000)));
        assert_eq!(
            (some.peer(near - 4001), some.peer(near - 4000)),
            (Some(Peer(4095)), None)
        );
        let pids: Vec<u32> = (5000..6000).collect();
        let far = Route::new(0, 0, &Group::from_pids(&pids), 1, true);
        assert_eq!(far.peer(0), None);
        let none = Route::new(0, 0, &Group::all(10), 1, false);
        assert_eq!(none.peer(0), None, "the fabric has no lanes");
    }
}
