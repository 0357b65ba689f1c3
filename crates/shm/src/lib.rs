//! The memory of one host as a fabric.
//!
//! Every process maps one small region of the job (packet rings, sleep words, counters, the table of
//! published segments) that it got from its launcher. Segments are anonymous files of their own, made when
//! they are first needed, found through the table and opened through `/proc/<pid>/fd`, which the kernel
//! grants to the same user only; the importer checks owner, size, inode and seals.
//!
//! The region also holds [`common`](farpost_fabric::RemoteMemory) memory and a word per process on which it sleeps. It has room for
//! all ranks of the job, so that ranks keep their numbers on every host; pages of other hosts' ranks are never touched. Segments from
//! `FARPOST_SHM_HUGE_FROM` bytes on ask for huge pages. What is found in shared memory is written first, published last, and hidden before it is
//! written over; `farpost_fabric::publish` is the one place where that order is made.
//!
//! **Trust.** The region and all segments are anonymous: nothing is left in `/dev/shm`, and no name can be guessed. What a process reads there
//! was written by another process and is checked. With cross-memory attach a process may read and write the memory of its job's other processes by the
//! kernel's leave, as any debugger of the same user may. Under Yama's `ptrace_scope` 1 a process permits that to what its launcher started,
//! and to nobody else.
//!
//! **Sleeping.** A sleeper raises its flag and looks once more; a sender posts and looks at the flag. One of the two sees the other, which takes a
//! full barrier on both sides. With a core for every process the sleeper pays for both: `membarrier` (global, expedited) makes the senders' processors
//! pass a barrier. With more processes than cores, sleeping is frequent and the sender executes a fence. Where the kernel has no
//! `membarrier`, sleeps are short.

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
    EndReport, PeerProcess, Shm, ShmBell, ShmConfig, ShmTunables, Watch, cross_memory_available, futex_wait,
    futex_wake, region_bytes,
};
