//! What a node keeps does not depend on how many nodes there are, nor on how many it has talked to.
#![cfg(not(loom))]

use farpost_fm::{Flow, Fm, FmTunables};
use farpost_shm::conformance::shm_ends;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::rc::Rc;

/// Counts the bytes that a thread has allocated: the test's runner allocates beside it whenever it likes.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    // Not while a thread ends.
    let _ = ALLOCATED.try_with(|bytes| bytes.set(bytes.get() + change));
}

fn allocated() -> isize {
    ALLOCATED.with(Cell::get)
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as the system's.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    // SAFETY: as the system's.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // What another thread allocated may be given back here.
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes of node 0 among `size` when new, and after everybody has talked with it and it with everybody.
fn bytes(size: u32) -> (isize, isize) {
    let mut ends = shm_ends(size, &Default::default()).into_iter().map(Rc::new);
    let end = ends.next().unwrap();
    let before = allocated();
    let fm = Fm::new(end, &FmTunables::default(), &Default::default(), 1024);
    fm.register_handler(0, |_, receive, _| {
        while !receive.at_end().unwrap() {
            receive.skip(1).unwrap();
        }
        Flow::Continue
    })
    .unwrap();
    let fresh = allocated() - before;
    let mut others = Vec::new();
    for end in ends {
        let other = Fm::new(end, &FmTunables::default(), &Default::default(), 1024);
        other.register_message_handler(0, |_, _, _| ()).unwrap();
        others.push(other);
    }
    let before = allocated();
    for round in 0..3 {
        for other in &others {
            other.send_4(0, 0, [round; 4]).unwrap();
            let mut sending = other.begin_message(0, 300, 0).unwrap().unwrap();
            assert_eq!(sending.try_piece(&[1; 300]), Ok(300));
            assert_eq!(sending.try_end(), Ok(true));
            fm.extract(if round == 0 { 100 } else { usize::MAX });
            assert!(fm.try_send(other.node(), 0, &[1; 100]).unwrap());
            other.extract(usize::MAX);
        }
        for _ in 0..100 {
            fm.extract(usize::MAX);
            for other in &others {
                other.extract(usize::MAX);
            }
        }
    }
    assert!(fm.is_settled() && others.iter().all(Fm::is_settled));
    let grown = (allocated() - before).max(0);
    (fresh, grown)
}

#[test]
fn memory_does_not_grow_with_the_number_of_nodes() {
    let two = bytes(2);
    let many = bytes(128);
    assert_eq!(two.0, many.0);
    // All nodes live in this process; each has what the handlers' stacks and the fabric remember, and no more.
    assert_eq!(two.1, 0, "nothing grows by talking");
    assert_eq!(many.1, 0, "nothing grows by talking with many");
}
