//! Harnesses of the conformance suites: an endpoint per thread, or per process.

use crate::{Shm, ShmConfig, ShmTunables, region_bytes};
use farpost_fabric::conformance::{BoardRef, End, Harness, block_on, fork_all};
use farpost_mapped::sealed_memory;
use std::ops::AsyncFn;
use std::os::fd::OwnedFd;

/// The shared-memory fabric, an endpoint per thread.
#[derive(Clone, Default)]
pub struct ShmThreads {
    /// Cores that the endpoints believe in. 0: one fewer than endpoints.
    pub cores: u32,
    /// Tunables of the endpoints.
    pub tunables: ShmTunables,
}

fn attach(file: OwnedFd, (index, size): (u32, u32), (cores, tunables): (u32, ShmTunables)) -> Shm {
    Shm::attach(ShmConfig {
        file,
        offset: 0,
        len: region_bytes(size) as u64,
        index,
        size,
        processes: size,
        cores: if cores == 0 {
            size.saturating_sub(1).max(1)
        } else {
            cores
        },
        tunables,
    })
    .expect("attach to the region")
}

/// Endpoint `index` of `size` in the region that `file` is, which believes in `cores` (0: one fewer than endpoints): for tests
/// whose endpoints are processes.
pub fn shm_end(file: &OwnedFd, place: (u32, u32), cores: u32, tunables: ShmTunables) -> Shm {
    let file = file.try_clone().expect("a descriptor");
    attach(file, place, (cores, tunables))
}

/// The endpoints of a job on the shared-memory fabric, all of this thread: for tests that step them.
pub fn shm_ends(size: u32, tunables: &ShmTunables) -> Vec<Shm> {
    let file = sealed_memory(c"farpost-test", region_bytes(size)).expect("a region");
    let one = |index| shm_end(&file, (index, size), 0, tunables.clone());
    (0..size).map(one).collect()
}

impl Harness for ShmThreads {
    type Fabric = Shm;
    const PARALLEL: bool = true;

    fn run(&self, size: u32, role: impl AsyncFn(&End<Shm>) + Sync) -> bool {
        let file = sealed_memory(c"farpost-test", region_bytes(size)).expect("a region");
        let board = BoardRef::shared();
        std::thread::scope(|scope| {
            for index in 0..size {
                let file = file.try_clone().expect("a descriptor");
                let (board, role) = (board.clone(), &role);
                let mine = (self.cores, self.tunables.clone());
                scope.spawn(move || {
                    let end = End::new(attach(file, (index, size), mine), board, |_| ());
                    block_on(&end, role);
                });
            }
        });
        board.is_skipped()
    }
}

/// The shared-memory fabric, an endpoint per process.
#[derive(Clone, Default)]
pub struct ShmProcesses {
    /// As for [`ShmThreads`].
    pub cores: u32,
    /// Tunables of the endpoints.
    pub tunables: ShmTunables,
}

impl Harness for ShmProcesses {
    type Fabric = Shm;
    const PARALLEL: bool = true;

    fn run(&self, size: u32, role: impl AsyncFn(&End<Shm>) + Sync) -> bool {
        let file = sealed_memory(c"farpost-test", region_bytes(size)).expect("a region");
        fork_all(size, |index, board| {
            let file = file.try_clone().expect("a descriptor");
            let mine = (self.cores, self.tunables.clone());
            let end = End::new(attach(file, (index, size), mine), board, |_| ());
            block_on(&end, &role);
        })
    }
}
