//! Small collectives on shared memory: every rank shows its few bytes on a line of its own and reads the lines
//! of the others. One step for any number of ranks, where a tree of messages takes log(ranks) and, with more
//! ranks than cores, as many turns of the scheduler.
//!
//! A communicator has two lines at each rank, used in turn: `farpost_channel::rows` says how.
//!
//! A communicator on several hosts has a board on each, which `by_host` joins by messages.
//!
//! Cost class: fast path when everybody is there; one line written, and one read per other rank.

use super::by_host::Span;
use crate::comm::Comm;
use crate::engine::lost::of_transfer;
use crate::world::{Awaited, World};
use crate::{Error, Rank, Result};
use farpost_channel::rows::{Look, Row, Rows};
use farpost_fabric::{COMMON_BYTES, Fabric, FabricError, Fault, LINE_BYTES, LocalMemory, Peer, RemoteMemory};
use std::cell::RefCell;
use std::rc::Rc;

pub use farpost_channel::rows::WORDS;
/// Bytes that a rank can show.
pub const BYTES: usize = WORDS * 8;
/// Communicators that can have a board at a time.
const SLOTS: u32 = (COMMON_BYTES / LINE_BYTES / 2) as u32;
/// More ranks than this read too many lines.
pub(crate) const MOST_RANKS: u32 = 128;
/// What a rank without a free slot says.
const NONE: u32 = u32::MAX;

/// Whether a communicator has a board.
#[derive(Default)]
pub enum Stand<F: Fabric> {
    /// Nobody has asked.
    #[default]
    Unknown,
    /// It cannot have one.
    Impossible,
    /// It has.
    Ready(Rc<Board<F>>),
}

/// Two lines of a rank of this host.
pub(crate) type RowOf<F> = Row<<<F as RemoteMemory>::Export as LocalMemory>::Lines>;

/// The lines of one communicator.
pub struct Board<F: Fabric> {
    slot: u32,
    /// By rank, of those on this host.
    pub(crate) rows: Rows<<F::Export as LocalMemory>::Lines>,
    /// Of the others.
    pub(crate) bells: Vec<F::Bell>,
    /// Ranks that are on other hosts.
    pub(crate) span: Option<Span>,
}

/// The free slots of a process, and the boards of its communicators by context.
pub(crate) struct Boards<F: Fabric> {
    free: RefCell<Option<Vec<u32>>>,
    stands: RefCell<std::collections::BTreeMap<u64, Stand<F>>>,
    /// Boards of communicators that went, whose slots others may still be reading.
    left: RefCell<Vec<Rc<Board<F>>>>,
    /// The board of MPI_COMM_WORLD, which has slot 0 everywhere.
    world: RefCell<Option<Rc<Board<F>>>>,
}

impl<F: Fabric> Default for Boards<F> {
    fn default() -> Self {
        Self {
            free: RefCell::default(),
            stands: RefCell::default(),
            left: RefCell::default(),
            world: RefCell::default(),
        }
    }
}

impl<F: Fabric> Boards<F> {
    fn take_slot(&self) -> u32 {
        let mut free = self.free.borrow_mut();
        let free = free.get_or_insert_with(|| (1..SLOTS).rev().collect());
        if free.is_empty() {
            self.left.borrow_mut().retain(|board| {
                let over = board.rows.everybody_left();
                if over {
                    free.push(board.slot);
                }
                !over
            });
        }
        free.pop().unwrap_or(NONE)
    }

    fn give_slot(&self, slot: u32) {
        if slot != NONE
            && let Some(free) = &mut *self.free.borrow_mut()
        {
            free.push(slot);
        }
    }
}

impl<F: Fabric> World<F> {
    /// `slots` by rank.
    fn build_board(&self, comm: &Comm, slots: &[u32], span: Option<Span>) -> Option<Board<F>> {
        if slots.iter().any(|slot| *slot >= SLOTS) {
            return None;
        }
        let here: Vec<usize> = match &span {
            Some(span) => span.here.clone(),
            None => (0..slots.len()).collect(),
        };
        let mut rows = Vec::with_capacity(here.len());
        let mut bells = Vec::with_capacity(here.len());
        for rank in &here {
            let peer = Peer(comm.local.pid(*rank as Rank)?);
            let memory = self.fabric.common(peer)?;
            rows.push(Row::new(memory.lines(0, SLOTS * 2), slots[*rank] * 2));
            if peer != self.fabric.me() {
                bells.push(self.fabric.bell(peer));
            }
        }
        let rank = comm.rank as usize;
        Some(Board {
            slot: slots[rank],
            rows: Rows::new(here.iter().position(|other| *other == rank)?, rows),
            bells,
            span,
        })
    }

    /// The board of a communicator, made at the first call, which is collective.
    pub(crate) fn board(&self, comm: &Comm) -> Result<Option<Rc<Board<F>>>> {
        if comm.context == 0
            && let Some(board) = &*self.boards.world.borrow()
        {
            return Ok(Some(Rc::clone(board)));
        }
        match self.boards.stands.borrow().get(&comm.context) {
            Some(Stand::Ready(board)) => return Ok(Some(Rc::clone(board))),
            Some(Stand::Impossible) => return Ok(None),
            Some(Stand::Unknown) | None => {}
        }
        self.make_board(comm)
    }

    #[cold]
    fn make_board(&self, comm: &Comm) -> Result<Option<Rc<Board<F>>>> {
        let size = comm.size();
        let span = Span::of(&*self.fabric, comm);
        let by_postbox = |peer: Peer| self.engine.borrow().by_postbox.get(peer);
        let possible = match &span {
            None => {
                let shared = |pid| by_postbox(Peer(pid)) && self.fabric.common(Peer(pid)).is_some();
                !comm.is_inter() && (2..=MOST_RANKS).contains(&size) && comm.local.iter().all(shared)
            }
            // Whether a process writes to its own memory says whether those of each host do to each other's.
            Some(span) => span.pays && by_postbox(self.fabric.me()),
        };
        if !possible {
            self.boards
                .stands
                .borrow_mut()
                .insert(comm.context, Stand::Impossible);
            return Ok(None);
        }
        if comm.context == 0 {
            let board = self.build_board(comm, &vec![0; size as usize], span).map(Rc::new);
            match &board {
                Some(board) => *self.boards.world.borrow_mut() = Some(Rc::clone(board)),
                None => {
                    self.boards.stands.borrow_mut().insert(0, Stand::Impossible);
                }
            }
            return Ok(board);
        }
        // Everybody says which slot is free there; the slot's lines are clean before anybody knows of it.
        let mine = self.boards.take_slot();
        if mine != NONE
            && let Some(memory) = self.fabric.common(self.fabric.me())
        {
            Row::new(memory.lines(0, SLOTS * 2), mine * 2).clear();
        }
        // The same answer at all ranks: all see all slots.
        let slots = self.gather_local(comm, &[i64::from(mine)])?;
        let slots: Vec<u32> = slots.into_iter().map(|slot| slot as u32).collect();
        let board = self.build_board(comm, &slots, span).map(Rc::new);
        if board.is_none() {
            self.boards.give_slot(mine);
        }
        let stand = board.clone().map_or(Stand::Impossible, Stand::Ready);
        self.boards.stands.borrow_mut().insert(comm.context, stand);
        Ok(board)
    }

    /// The communicator goes. Its slot is used again when nobody can still be reading the last line.
    pub(crate) fn drop_board(&self, comm: &Comm) {
        if let Some(Stand::Ready(board)) = self.boards.stands.borrow_mut().remove(&comm.context) {
            board.rows.show(&[0; WORDS], WORDS);
            self.boards.left.borrow_mut().push(board);
        }
    }

    /// The communicator is revoked: nothing more is shown.
    pub(crate) fn bar_board(&self, comm: &Comm) {
        let left = self
            .boards
            .stands
            .borrow_mut()
            .insert(comm.context, Stand::Impossible);
        if comm.context == 0 {
            self.boards.world.take();
        } else if let Some(Stand::Ready(board)) = left {
            self.boards.left.borrow_mut().push(board);
        }
    }

    /// Show `mine` to all ranks of `comm` and see what they show, in the order of their ranks. `Ok(false)`: the
    /// communicator has no board of all its ranks (nowhere), and nothing was done.
    #[inline]
    pub fn show_all(
        &self,
        comm: &Comm,
        mine: &[u64; WORDS],
        words: usize,
        see: impl FnMut(usize, &[u64; WORDS]) -> Result<()>,
    ) -> Result<bool> {
        let Some(board) = self.board(comm)? else {
            return Ok(false);
        };
        if board.span.is_some() {
            return Ok(false);
        }
        let ring = || {
            for bell in &board.bells {
                self.fabric.wake_by(bell);
            }
        };
        let wait = |rank, row: &RowOf<F>, step| self.wait_line(comm, rank, row, step);
        board.rows.exchange(mine, words, ring, wait, see).map(|()| true)
    }

    /// Whether memory is shared with `peer` and may be used beside messages.
    fn shares(&self, peer: Peer) -> bool {
        self.fabric.maps(peer) && self.engine.borrow().by_postbox.get(peer)
    }

    /// Whether this process can read the memory of every other rank of `comm`.
    pub fn reads_all(&self, comm: &Comm) -> bool {
        comm.local.iter().all(|pid| {
            let peer = Peer(pid);
            peer == self.fabric.me() || self.shares(peer) && self.fabric.can_transfer(peer)
        })
    }

    /// Read the memory of a rank of `comm` at an address that it has shown.
    pub fn read_rank(&self, comm: &Comm, rank: Rank, address: u64, to: &mut [u8]) -> Result<()> {
        let peer = comm
            .local
            .pid(rank)
            .map(Peer)
            .ok_or_else(|| error!(ERR_INTERN: "rank {rank} is not there to be read"))?;
        crate::engine::bulk::get(&*self.fabric, peer, address, to).map_err(|error| of_transfer(&error))
    }

    /// Write to the memory of a rank of `comm` at an address that it has shown.
    pub fn write_rank(&self, comm: &Comm, rank: Rank, address: u64, from: &[u8]) -> Result<()> {
        let peer = comm
            .local
            .pid(rank)
            .map(Peer)
            .ok_or_else(|| error!(ERR_INTERN: "rank {rank} is not there to be written to"))?;
        crate::engine::bulk::put(&*self.fabric, peer, address, from).map_err(|error| of_transfer(&error))
    }

    /// Other ranks have written to memory of this process, by [`write_rank`](Self::write_rank): for tools that follow what is
    /// written where.
    pub fn written_by_peers(&self, address: usize, len: usize) {
        farpost_fabric::memcheck::written_by_peer(address, len);
    }

    /// Wait until the line of `rank` shows `step`.
    #[inline]
    pub(crate) fn wait_line(&self, comm: &Comm, rank: usize, row: &RowOf<F>, step: u64) -> Result<()> {
        for poll in 0..self.policy.looks() {
            if row.shows(step) {
                return Ok(());
            }
            if poll & 15 == 15 {
                std::hint::spin_loop();
            }
        }
        let only = self.board(comm)?.is_none_or(|board| board.span.is_some());
        let only = only.then_some(rank);
        self.wait_for(Awaited::Lines { comm, only, step }, || match row.look(step) {
            Look::Shown => Ok(true),
            Look::Before => self.still_there(comm, rank).map(|()| false),
            Look::Wrong(found) => Err(self.bad_line(comm, rank, found, step)),
        })
    }

    /// An error where `rank` has ended.
    fn still_there(&self, comm: &Comm, rank: usize) -> Result<()> {
        comm.need_unrevoked()?;
        let engine = self.engine.borrow();
        if engine.lost.is_empty() {
            return Ok(());
        }
        let peer = comm.local.pid(rank as Rank).map(Peer);
        peer.and_then(|peer| engine.lost_error(peer)).map_or(Ok(()), Err)
    }

    /// `rank` shows something that it cannot have written: a fault, and the error of the collective.
    #[cold]
    fn bad_line(&self, comm: &Comm, rank: usize, found: u64, step: u64) -> Error {
        let who = comm.local.pid(rank as Rank).map(Peer);
        if let Some(peer) = who {
            let what = "the step of a collective";
            let error = FabricError::Corrupt {
                peer,
                what,
                value: found,
            };
            self.fabric.record_fault(Fault { peer, error });
        }
        let who = who.map_or_else(String::new, |peer| format!(" ({peer})"));
        error!(
            ERR_INTERN: "rank {rank}{who} shows step {found:#x} of a collective where {step:#x} comes next: its memory is damaged"
        )
    }
}
