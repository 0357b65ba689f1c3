//! A view of a job's counters for a process that is not part of the job: reads, and writes nothing.

use super::region;
use farpost_fabric::sync::Ordering;
use farpost_fabric::{Counter, Peer, Permission, Result};
use farpost_mapped::Mapping;
use std::os::fd::BorrowedFd;

/// The counters of a running job.
pub struct Watch {
    region: Mapping,
    size: u32,
}

impl Watch {
    /// Look at the region at `offset` of a job's memory `file`, for `size` processes.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub fn open(file: BorrowedFd<'_>, offset: u64, size: u32) -> Result<Self> {
        let region = Mapping::new(file, offset, region::bytes(size), Permission::Read)?;
        Ok(Self { region, size })
    }

    /// A counter that process `of` keeps about `peer`. Processes add to their counters when they are idle or
    /// have moved much, so the newest traffic may be missing.
    ///
    /// # Panics
    /// When the job has no such process.
    pub fn counter(&self, of: Peer, peer: Peer, counter: Counter) -> u64 {
        assert!(
            of.0 < self.size && peer.0 < self.size,
            "{of} or {peer} does not exist"
        );
        // Only loaded: the mapping may be read.
        region::counter(&self.region, of.0, peer.0, self.size, counter).load(Ordering::Relaxed)
    }

    /// A counter of process `of`, summed over its peers.
    ///
    /// # Panics
    /// When the job has no such process.
    pub fn total(&self, of: Peer, counter: Counter) -> u64 {
        let each = (0..self.size).map(|peer| self.counter(of, Peer(peer), counter));
        each.fold(0, u64::wrapping_add)
    }
}
