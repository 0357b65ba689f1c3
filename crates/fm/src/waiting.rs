//! Waiting civilly: look again, then yield, then sleep until rung or for a millisecond.

use crate::receive_queue;
use farpost_fabric::Fabric;
use std::cell::Cell;
use std::time::Duration;

/// Looks before a yield with a core of one's own, and with fewer cores than processes.
const LOOKS: [u32; 2] = [2000, 2];
/// Yields before a sleep.
const YIELDS: u32 = 64;
/// Room in a queue is not announced by a ring, so sleeps are short.
const SLEEP: Duration = Duration::from_millis(1);

/// How a process waits.
pub struct Pacer {
    looks: u32,
    /// Empty extractions in a row.
    empty: Cell<u32>,
}

/// One wait.
pub struct Pause {
    looks: u32,
    count: u32,
}

impl Pacer {
    pub fn new(cores: u32, processes: u32) -> Self {
        Self {
            looks: LOOKS[usize::from(processes > cores)],
            empty: Cell::new(0),
        }
    }

    /// Begin to wait.
    pub fn pause(&self) -> Pause {
        Pause {
            looks: self.looks,
            count: 0,
        }
    }

    /// An extraction found something.
    #[inline(always)]
    pub fn found(&self) {
        self.empty.set(0);
    }

    /// An extraction found nothing: how many in a row.
    #[inline(always)]
    pub fn nothing(&self) -> u32 {
        let empty = self.empty.get().saturating_add(1);
        self.empty.set(empty);
        empty
    }

    /// After `empty` extractions that found nothing. True: time has passed.
    #[inline(always)]
    pub fn rest<F: Fabric>(&self, fabric: &F, empty: u32) -> bool {
        empty > self.looks && rest(fabric, empty - self.looks)
    }
}

impl Pause {
    /// Nothing has moved. True: time has passed.
    pub fn rest<F: Fabric>(&mut self, fabric: &F) -> bool {
        self.count = self.count.saturating_add(1);
        if self.count <= self.looks {
            std::hint::spin_loop();
            return false;
        }
        rest(fabric, self.count - self.looks)
    }
}

#[cold]
fn rest<F: Fabric>(fabric: &F, count: u32) -> bool {
    if count <= YIELDS {
        std::thread::yield_now();
        return count == YIELDS;
    }
    fabric.sleep(SLEEP, &mut || receive_queue::waits(fabric));
    true
}
