//! What ranks take of the heap does not grow with how many others there are: tables by peer have memory for those that a rank talks with.

#[path = "support/machines.rs"]
mod machines;
#[path = "support/many.rs"]
mod many;

use farpost_sim::ranks;
use many::{On, Pattern};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, which knows the most bytes that were in use.
struct Peak;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it is, which keeps what is promised; the counters have no part in it.
unsafe impl GlobalAlloc for Peak {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = IN_USE.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        // SAFETY: the caller keeps the allocator's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the allocator's contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Peak = Peak;

/// The most bytes of the heap in use at once beside the machine, for each of so many ranks.
fn bytes_of_each(pattern: Pattern, size: u32) -> usize {
    let (core, device) = On("torus".into()).core(size, 1).expect("so many hosts");
    let before = IN_USE.load(Relaxed);
    MOST.store(before, Relaxed);
    let (results, _) = ranks::run(core, |end| pattern.run(end, device)).expect("no rank hangs");
    for (rank, got) in (0..).zip(results) {
        assert_eq!(got, pattern.expected(rank, size), "rank {rank}");
    }
    (MOST.load(Relaxed) - before) / size as usize
}

/// One after the other: the heap is that of the whole program.
#[test]
fn what_a_rank_takes_does_not_grow_with_the_ranks() {
    for (name, most) in [("ring", 30_000), ("allreduce", 80_000)] {
        let pattern = Pattern::parse(name).expect("a pattern");
        let few = bytes_of_each(pattern, 500);
        let many = bytes_of_each(pattern, 2000);
        println!("{name}: {few} bytes for each of 500 ranks, {many} of 2000");
        assert!(many <= most, "{name}: {many} bytes for each of 2000 ranks");
        // An allreduce has two more rounds.
        assert!(
            many <= few + few / 3,
            "{name}: {few} bytes for each of 500 ranks, {many} of 2000"
        );
    }
}
