//! The network layer allocates nothing once it has met its peers, whatever it sends and however often pools run out.

mod common;
mod support;

use farpost_fabric::Peer;
use farpost_portals::Segments;
use farpost_portals::net::{Channel, Net, NetTunables, Outcome, Placement, RxId, Upper};
use farpost_shm::conformance::shm_ends;
use farpost_shm::{Shm, ShmTunables};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::rc::Rc;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // Not while a thread ends.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Keeps nothing but counts.
struct Counter {
    buffer: Box<[u8]>,
    came: u64,
    later: [Option<RxId>; 64],
    turn: u64,
    sent: u64,
}

impl Counter {
    fn keep(&mut self, length: u64) -> Placement {
        Placement::Keep {
            token: 0,
            bytes: length,
            into: Segments::one(self.buffer.as_mut_ptr().expose_provenance(), self.buffer.len()),
        }
    }
}

impl Upper for Counter {
    fn arrived(&mut self, id: RxId, _: Peer, _: &[u8], length: u64, inline: Option<&[u8]>) -> Placement {
        self.turn += 1;
        match self.turn % 5 {
            0 => Placement::Refuse,
            1 => {
                *self
                    .later
                    .iter_mut()
                    .find(|place| place.is_none())
                    .expect("fewer pendings") = Some(id);
                Placement::Later
            }
            2 => {
                self.came += 1;
                Placement::Discard
            }
            _ if inline.is_some() => {
                self.came += 1;
                Placement::Done
            }
            _ => self.keep(length),
        }
    }

    fn deposited(&mut self, _: u64, outcome: Outcome) {
        assert_eq!(outcome, Outcome::Done);
        self.came += 1;
    }

    fn sent(&mut self, _: u64, outcome: Outcome) {
        assert_eq!(outcome, Outcome::Done);
        self.sent += 1;
    }
}

const LENGTHS: [usize; 8] = [0, 8, 128, 700, 4096, 60_000, 200_000, 24];

/// `each` messages from everybody to everybody.
fn run(ends: &mut [(Net<Shm>, Counter)], body: &[u8], each: u64) {
    let size = ends.len();
    let mut left = [[each; 4]; 4];
    let mut waits = [0; 4];
    let mut before = [(0, 0); 4];
    for (before, (_, upper)) in before.iter_mut().zip(ends.iter()) {
        *before = (upper.came, upper.sent);
    }
    for round in 0.. {
        assert!(round < 1_000_000, "nothing moves any more");
        let mut done = true;
        for me in 0..size {
            for to in (0..size).filter(|to| *to != me) {
                let number = left[me][to];
                if number > 0 {
                    let part = &body[..LENGTHS[number as usize % LENGTHS.len()]];
                    let part = Segments::one(part.as_ptr().expose_provenance(), part.len());
                    let channel = [Channel::Answer, Channel::Request][number as usize % 2];
                    if let Ok(departure) = ends[me].0.send(Peer(to as u32), channel, &[1; 40], &part, 0) {
                        waits[me] += u64::from(departure == farpost_portals::net::Departure::Waits);
                        left[me][to] -= 1;
                    }
                }
                done &= left[me][to] == 0;
            }
            let (net, upper) = &mut ends[me];
            net.progress(upper);
            for at in 0..upper.later.len() {
                if let Some(id) = upper.later[at].take() {
                    let placement = upper.keep(u64::MAX);
                    assert!(net.place(id, placement));
                }
            }
            done &= upper.came - before[me].0 == each * (size as u64 - 1)
                && upper.sent - before[me].1 == waits[me];
        }
        if done {
            return;
        }
    }
}

#[test]
fn nothing_is_allocated_after_the_start() {
    let body = vec![3; 200_000];
    let full = NetTunables {
        resend: 0,
        ..NetTunables::default()
    };
    let few = NetTunables {
        tx_pendings: 2,
        rx_pendings: 2,
        window: 4,
        staging: 2,
        shared: 100_000,
        ..full.clone()
    };
    for config in [full, few] {
        let mut ends: Vec<(Net<Shm>, Counter)> = shm_ends(3, &ShmTunables::default())
            .into_iter()
            .map(|fabric| {
                let upper = Counter {
                    buffer: vec![0; 200_000].into(),
                    came: 0,
                    later: [None; 64],
                    turn: 0,
                    sent: 0,
                };
                (Net::new(Rc::new(fabric), &config), upper)
            })
            .collect();
        // Everybody meets everybody, and fetches a body that both copy from everybody: the fabric maps memory and probes.
        run(&mut ends, &body, 120);
        let before = ALLOCATIONS.get();
        run(&mut ends, &body, 300);
        assert_eq!(ALLOCATIONS.get() - before, 0, "allocations");
    }
}
