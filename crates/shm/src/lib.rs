//! The memory of one host as a fabric.
//!
//! Every process maps one small region of the job (packet rings, sleep words, counters, the table of
//! published segments) that it got from its launcher. Segments are anonymous files of their own, made when
//! they are first needed, found through the table and opened through `/proc/<pid>/fd`, which the kernel
//! grants to the same user only; the importer checks owner, size, inode and seals.

#[cfg(all(feature = "conformance", not(loom)))]
pub mod conformance;
#[cfg(not(loom))]
mod fabric;
/// Model checking: what works on atomics alone. Loom's atomics cannot live in mapped memory.
#[cfg(all(loom, test))]
mod fabric {
    mod flag;
    mod ring;
}

#[cfg(not(loom))]
pub use fabric::{
    Seen, Shm, ShmBell, ShmConfig, ShmTunables, Watch, Word, cross_memory_available, futex_wait, futex_wake,
    region_bytes,
};
