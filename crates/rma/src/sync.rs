//! The origin's side: synchronisation.
//!
//! Requirements of MPI-5.0 section 12.5.

use crate::epoch::{Access, LockKind};
use crate::message::{Message, MessageKind};
use crate::win::{PROC_NULL, Win};
use farpost_fabric::Fabric;
use farpost_mpi::coll;
use farpost_mpi::group::Group;
use farpost_mpi::world::World;
use farpost_mpi::{Error, ErrorClass, Result, fail};
use std::collections::{BTreeMap, BTreeSet};

/// `MPI_MODE_NOSUCCEED`.
const NOSUCCEED: i32 = 16384;
const MODES: [(&str, i32); 5] = [
    ("MPI_MODE_NOCHECK", 1024),
    ("MPI_MODE_NOPRECEDE", 2048),
    ("MPI_MODE_NOPUT", 4096),
    ("MPI_MODE_NOSTORE", 8192),
    ("MPI_MODE_NOSUCCEED", NOSUCCEED),
];

/// An assertion may have these bits.
fn assertion(value: i32, allowed: &[&str]) -> Result<()> {
    let bits = MODES.iter().filter(|(name, _)| allowed.contains(name));
    let bits: i32 = bits.map(|(_, bit)| bit).sum();
    if value & !bits == 0 {
        return Ok(());
    }
    fail!(ERR_ASSERT: "assert={value}: allowed are 0{}", allowed.iter().map(|name| format!(", {name}")).collect::<String>())
}

/// Whether each rank of `group` is counted, and taken off then.
fn all_counted(counts: &mut BTreeMap<i32, u64>, group: &BTreeSet<i32>) -> bool {
    if !group
        .iter()
        .all(|rank| counts.get(rank).is_some_and(|count| *count > 0))
    {
        return false;
    }
    for rank in group {
        if let Some(count) = counts.get_mut(rank) {
            *count -= 1;
        }
    }
    true
}

impl<F: Fabric> Win<F> {
    /// What went wrong at a target.
    fn remote(&self) -> Result<()> {
        match self.remote_error.take() {
            0 => Ok(()),
            class => Err(Error::new(
                ErrorClass(class),
                "an operation has failed at its target: what it addressed is not in the target's window",
            )),
        }
    }

    /// Wait until the operations at `target`, or at all, are done there and here; with `here`, until they need no memory of
    /// the program's.
    fn settle(&self, world: &World<F>, target: Option<i32>, here: bool) -> Result<()> {
        self.check()?;
        let chosen = |rank: &i32| target.is_none_or(|target| target == *rank);
        if !here {
            let peers = self.peers.borrow();
            let silent = peers
                .iter()
                .filter(|(rank, peer)| chosen(rank) && peer.silent > 0);
            let silent: Vec<i32> = silent.map(|(rank, _)| *rank).collect();
            drop(peers);
            for rank in silent {
                self.with_peer(rank, |peer| peer.silent = 0);
                self.send(world, rank, Message::new(MessageKind::Hurry, 0))?;
            }
        }
        // Stores of this process before, whatever it does next.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        let settled = || {
            let peers = self.peers.borrow();
            peers
                .iter()
                .all(|(rank, peer)| !chosen(rank) || peer.local == 0 && (here || peer.outstanding == 0))
        };
        if settled() {
            // Whoever polls by flushes makes progress for everybody.
            world.progress();
        } else {
            self.wait(world, settled)?;
        }
        if here { Ok(()) } else { self.remote() }
    }

    /// `MPI_Win_fence`.
    pub fn fence(&self, world: &World<F>, assert: i32) -> Result<()> {
        let allowed = [
            "MPI_MODE_NOSTORE",
            "MPI_MODE_NOPUT",
            "MPI_MODE_NOPRECEDE",
            "MPI_MODE_NOSUCCEED",
        ];
        assertion(assert, &allowed)?;
        self.epochs.borrow().fence()?;
        let settled = self.settle(world, None, false);
        // Also where something failed: the others wait.
        let met = self.meet(world);
        let mut epochs = self.epochs.borrow_mut();
        (epochs.fenced, epochs.used) = (assert & NOSUCCEED == 0, false);
        settled.and(met)
    }

    /// Wait for all members.
    pub(crate) fn meet(&self, world: &World<F>) -> Result<()> {
        let plan = coll::barrier(&world.site(&self.comm))?;
        world.run_collective(&self.comm, plan)
    }

    /// The window's ranks of a group.
    fn ranks(&self, group: &Group) -> Result<BTreeSet<i32>> {
        let rank = |pid: u32| match self.comm.local.rank_of(pid) {
            Some(rank) => Ok(rank),
            None => fail!(ERR_GROUP: "group: process {pid} of it is not in the window's group"),
        };
        group.iter().map(rank).collect()
    }

    /// `MPI_Win_start`.
    pub fn start(&self, world: &World<F>, group: &Group, assert: i32) -> Result<()> {
        assertion(assert, &["MPI_MODE_NOCHECK"])?;
        let group = self.ranks(group)?;
        self.check()?;
        self.epochs.borrow_mut().start(group.clone())?;
        self.wait(world, || all_counted(&mut self.posts.borrow_mut(), &group))
    }

    /// `MPI_Win_complete`.
    pub fn complete(&self, world: &World<F>) -> Result<()> {
        let group = self.epochs.borrow().started()?;
        let settled = self.settle(world, None, false);
        self.epochs.borrow_mut().access = Access::None;
        for rank in group {
            self.send(world, rank, Message::new(MessageKind::Complete, 0))?;
        }
        settled
    }

    /// `MPI_Win_post`.
    pub fn post(&self, world: &World<F>, group: &Group, assert: i32) -> Result<()> {
        assertion(
            assert,
            &["MPI_MODE_NOCHECK", "MPI_MODE_NOSTORE", "MPI_MODE_NOPUT"],
        )?;
        let group = self.ranks(group)?;
        self.check()?;
        self.epochs.borrow_mut().post(group.clone())?;
        for rank in group {
            self.send(world, rank, Message::new(MessageKind::Post, 0))?;
        }
        Ok(())
    }

    /// `MPI_Win_wait`.
    pub fn wait_posted(&self, world: &World<F>) -> Result<()> {
        let group = self.epochs.borrow().posted()?;
        let waited = self.wait(world, || all_counted(&mut self.completes.borrow_mut(), &group));
        self.epochs.borrow_mut().exposed = None;
        waited
    }

    /// `MPI_Win_test`.
    pub fn test_posted(&self, world: &World<F>) -> Result<bool> {
        let group = self.epochs.borrow().posted()?;
        world.looks();
        world.progress();
        self.check()?;
        let over = all_counted(&mut self.completes.borrow_mut(), &group);
        if over {
            self.epochs.borrow_mut().exposed = None;
        }
        world.looked(over);
        Ok(over)
    }

    fn ask_for(&self, world: &World<F>, rank: i32, kind: LockKind) -> Result<()> {
        self.with_peer(rank, |peer| peer.granted = false);
        let exclusive = u64::from(kind == LockKind::Exclusive);
        self.send(world, rank, Message::new(MessageKind::Lock, exclusive))
    }

    fn granted(&self, world: &World<F>, rank: i32) -> Result<()> {
        self.wait(world, || self.with_peer(rank, |peer| peer.granted))
    }

    /// A target's lock, at the first operation under `MPI_Win_lock_all`.
    pub(crate) fn take_lock(&self, world: &World<F>, rank: i32) -> Result<()> {
        if let Access::All(taken) = &mut self.epochs.borrow_mut().access {
            taken.insert(rank);
        }
        self.ask_for(world, rank, LockKind::Shared)?;
        self.granted(world, rank)
    }

    /// `MPI_Win_lock`.
    pub fn lock(&self, world: &World<F>, kind: LockKind, rank: i32, assert: i32) -> Result<()> {
        assertion(assert, &["MPI_MODE_NOCHECK"])?;
        self.target("rank", rank)?;
        self.check()?;
        self.epochs.borrow_mut().lock(rank, kind)?;
        if rank == PROC_NULL {
            return Ok(());
        }
        if self.shared.is_some() {
            return self.lock_directly(world, kind, rank);
        }
        self.ask_for(world, rank, kind)?;
        self.granted(world, rank)
    }

    /// `MPI_Win_unlock`.
    pub fn unlock(&self, world: &World<F>, rank: i32) -> Result<()> {
        self.target("rank", rank)?;
        self.epochs.borrow().locked(rank)?;
        let kind = self.epochs.borrow_mut().unlock(rank);
        if rank == PROC_NULL {
            return Ok(());
        }
        if self.shared.is_some() {
            self.unlock_directly(kind, rank);
            return self.check();
        }
        self.unlock_these(world, &BTreeSet::from([rank]))
    }

    /// Give locks back, once the operations under them are done.
    fn unlock_these(&self, world: &World<F>, ranks: &BTreeSet<i32>) -> Result<()> {
        self.check()?;
        for rank in ranks {
            self.with_peer(*rank, |peer| (peer.silent, peer.unlocked) = (0, false));
            self.send(world, *rank, Message::new(MessageKind::Unlock, 0))?;
        }
        self.wait(world, || {
            ranks.iter().all(|rank| {
                self.with_peer(*rank, |peer| {
                    peer.unlocked && peer.outstanding == 0 && peer.local == 0
                })
            })
        })?;
        self.remote()
    }

    /// `MPI_Win_lock_all`.
    pub fn lock_all(&self, world: &World<F>, assert: i32) -> Result<()> {
        assertion(assert, &["MPI_MODE_NOCHECK"])?;
        self.check()?;
        self.epochs.borrow_mut().lock_all()?;
        if self.shared.is_none() {
            return Ok(());
        }
        // What is shared is reached without operations that could take the locks.
        let all: BTreeSet<i32> = (0..self.comm.size() as i32).collect();
        if let Access::All(taken) = &mut self.epochs.borrow_mut().access {
            taken.clone_from(&all);
        }
        all.iter()
            .try_for_each(|rank| self.lock_directly(world, LockKind::Shared, *rank))
    }

    /// `MPI_Win_unlock_all`.
    pub fn unlock_all(&self, world: &World<F>) -> Result<()> {
        let taken = self.epochs.borrow().locked_all()?;
        self.epochs.borrow_mut().access = Access::None;
        if self.shared.is_some() {
            for rank in taken {
                self.unlock_directly(LockKind::Shared, rank);
            }
            return self.check();
        }
        self.unlock_these(world, &taken)
    }

    /// `MPI_Win_flush` and its kin: of one target or of all, at the target or here only.
    pub fn flush(&self, world: &World<F>, rank: Option<i32>, here: bool) -> Result<()> {
        if let Some(rank) = rank {
            self.target("rank", rank)?;
        }
        self.epochs
            .borrow()
            .passive(rank.filter(|rank| *rank != PROC_NULL))?;
        self.settle(world, rank, here)
    }

    /// `MPI_Win_sync`: the program's own loads and stores are in order with those of others.
    pub fn sync(&self, world: &World<F>) -> Result<()> {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        world.progress();
        self.check()
    }
}
