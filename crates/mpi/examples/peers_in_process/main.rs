//! Memory of a rank for its peers, with all ranks in one process: bytes in use of the heap, counted as they are allocated, beyond what
//! there was before any peer was met, divided by the ranks. The program's own buffers are not among them.
//!
//!   peers_in_process [RANKS] [ROUNDS]     default 256 ranks, 10 messages of 8 bytes and of 1 KiB to each peer, and one of 64 KiB
//!
//! For each step a line: "peers STEP BYTES AREAS", the mean of a rank; AREAS is the part that lies in areas. Time is virtual and the order
//! comes from a seed, so that the numbers are the same in every run. `scripts/measure-memory.py --peers --in-process` draws them.

mod measure;

use measure::{CountingAllocator, Exchange, measure};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |default| match args.next() {
        None => default,
        Some(text) => text.parse().unwrap_or_else(|_| {
            eprintln!("usage: peers_in_process [RANKS] [ROUNDS]; '{text}' is no number");
            std::process::exit(2)
        }),
    };
    let (ranks, rounds) = (number(256), number(10));
    let exchange = Exchange {
        ranks,
        rounds,
        ..Exchange::default()
    };
    for step in measure(exchange) {
        println!("peers {} {:.0} {:.0}", step.name, step.bytes, step.areas);
    }
}
