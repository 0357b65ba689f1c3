//! A view of a job's counters for a process that is not part of the job: reads, and writes nothing.

use super::region;
use farpost_fabric::sync::Ordering;
use farpost_fabric::{Counter, FabricError, Peer, Permission, RailFigures, Register, Result};
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
    /// The memory cannot be mapped; it is of another version than this program.
    pub fn open(file: BorrowedFd<'_>, offset: u64, size: u32) -> Result<Self> {
        let region = Mapping::new(file, offset, region::bytes(size), Permission::Read)?;
        // SAFETY: only atomic fields.
        let header: &region::Header = unsafe { region.table(0) };
        match header.magic.load(Ordering::Acquire) {
            // Nobody has attached yet.
            0 | region::MAGIC => Ok(Self { region, size }),
            other => {
                let why = format!(
                    "they are of layout {}, and this program reads layout {}: look with the farpost that belongs to the job's library",
                    other >> 56,
                    region::MAGIC >> 56
                );
                Err(FabricError::os_error(
                    "reading the job's counters",
                    &std::io::Error::other(why),
                ))
            }
        }
    }

    /// A register of process `of`.
    ///
    /// # Panics
    /// When the job has no such process.
    pub fn register(&self, of: Peer, register: Register) -> u64 {
        assert!(of.0 < self.size, "{of} does not exist");
        let registers = region::registers(&self.region, of.0, self.size);
        registers.registers[register as usize].load(Ordering::Relaxed)
    }

    /// What the rails of process `of` carry: as of when it was last idle, or a while ago.
    ///
    /// # Panics
    /// When the job has no such process.
    pub fn rails(&self, of: Peer) -> Vec<RailFigures> {
        assert!(of.0 < self.size, "{of} does not exist");
        let rails = &region::registers(&self.region, of.0, self.size).rails;
        let words = |rail: &[_; farpost_fabric::RAIL_WORDS]| {
            let load = |word: &farpost_fabric::sync::AtomicU64| word.load(Ordering::Relaxed);
            RailFigures::of_words(rail.each_ref().map(load))
        };
        rails.iter().map_while(words).collect()
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
