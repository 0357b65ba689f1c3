//! Model-checked: what processes do together in shared memory. Memory is loom's atomics, with the orders that the shared-memory
//! fabric's has and no more; everything but the memory is the real code.
#![cfg(loom)]

#[macro_use]
mod memory;

mod postboxes;
mod records;
mod rendezvous_slots;
mod rows;
mod shared_copies;
