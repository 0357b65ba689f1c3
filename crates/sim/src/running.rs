//! The machine with its ranks, as each of them sees it: how a rank lets others run.

use crate::core::Core;
use crate::time::Ps;
use corosensei::Yielder;
use farpost_fabric::Peer;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

/// By which a rank lets others run.
pub(crate) type Yield = Yielder<(), ()>;

/// The core with the ranks that run on it.
pub(crate) struct Running {
    pub core: RefCell<Core>,
    /// Set while a rank's coroutine exists.
    yielders: RefCell<Vec<Option<NonNull<Yield>>>>,
    /// Pauses of ranks, ever.
    pub pauses: Cell<u64>,
}

impl Running {
    /// No rank has a coroutine yet.
    pub fn new(core: Core) -> Self {
        let size = core.kernel.procs.size();
        Self {
            core: RefCell::new(core),
            yielders: RefCell::new(vec![None; size as usize]),
            pauses: Cell::new(0),
        }
    }

    /// By which `rank` lets others run, from the start of its coroutine; `None` at its end.
    pub fn set_yielder(&self, rank: u32, yielder: Option<NonNull<Yield>>) {
        self.yielders.borrow_mut()[rank as usize] = yielder;
    }

    /// The running rank, whose turn has been given up, lets others run until it has another.
    fn suspend(&self, rank: Peer) {
        let yielder = self.yielders.borrow()[rank.index()].expect("it is a coroutine");
        self.pauses.set(self.pauses.get() + 1);
        // SAFETY: it is the running rank's own, set from the start of its coroutine to its end, and all of it belongs to one thread. So this is on the stack
        // of that coroutine, where the yielder is alive.
        unsafe { yielder.as_ref() }.suspend(());
    }

    fn is_there(&self, rank: Peer) -> bool {
        self.yielders.borrow()[rank.index()].is_some()
    }

    /// Whether the host of `rank` has died.
    pub fn is_struck(&self, rank: Peer) -> bool {
        self.core.borrow().is_struck(rank)
    }

    /// All that comes before the time of the running rank happens.
    pub fn sync(&self, rank: Peer) {
        // What a rank of a dead host still does, while its stack goes, lets nobody run.
        while self.is_there(rank) && (!self.core.borrow_mut().catch_up(rank) || self.is_struck(rank)) {
            self.core.borrow_mut().kernel.procs.schedule.give_way();
            self.suspend(rank);
        }
    }

    /// The running rank sleeps until something happens to it, as seen by polls of this period, or until the deadline.
    pub fn sleep(&self, rank: Peer, period: Ps, deadline: Ps) {
        if !self.is_there(rank) {
            return;
        }
        self.core
            .borrow_mut()
            .kernel
            .procs
            .schedule
            .sleep(period, deadline);
        self.suspend(rank);
    }
}
