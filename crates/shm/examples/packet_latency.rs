//! How long a packet takes from one core to another through shared memory, beside what one cache line takes by itself.
//!
//! ```text
//! cargo run --release -p farpost-shm --example packet_latency [CORE CORE]
//! ```
//! Two pinned threads answer each other; half a round trip is printed, the median of many batches, in nanoseconds. Batches of
//! all kinds alternate, so that what disturbs one disturbs all.

use farpost_fabric::{Fabric, PacketQueue, Peer, Port, Priority, TrySend};
use farpost_mapped::sealed_memory;
use farpost_shm::{Shm, ShmConfig, ShmTunables, region_bytes};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const BATCHES: usize = 300;
const ROUNDS: u64 = 1000;
const SIZES: [usize; 6] = [8, 16, 56, 64, 96, 144];

#[repr(align(128))]
struct OwnLine([AtomicU64; 8]);

/// What one thread writes and the other reads: 56 bytes, then a number.
static LINES: [OwnLine; 2] = [const { OwnLine([const { AtomicU64::new(0) }; 8]) }; 2];

fn pin(core: usize) {
    // SAFETY: a cpu_set_t is plain data for which all zeroes are valid, and it lives through the call.
    let failed = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    assert_eq!(failed, 0, "core {core} cannot be had");
}

/// One round of the bare line.
fn line_round(me: usize, number: u64) {
    let post = || {
        for word in &LINES[me].0[1..] {
            word.store(number, Ordering::Relaxed);
        }
        LINES[me].0[0].store(number, Ordering::Release);
    };
    let wait = || {
        let mut sum = 0u64;
        while LINES[1 - me].0[0].load(Ordering::Acquire) != number {
            std::hint::spin_loop();
        }
        for word in &LINES[1 - me].0[1..] {
            sum = sum.wrapping_add(word.load(Ordering::Relaxed));
        }
        std::hint::black_box(sum);
    };
    if me == 0 {
        post();
        wait();
    } else {
        wait();
        post();
    }
}

fn packet_round(shm: &Shm, payload: &[u8]) {
    let send = || {
        let to = Peer(1 - shm.me().0);
        while shm.try_send(to, Port::Fm, Priority::Low, payload) == TrySend::Full {}
    };
    let wait = || {
        while !shm.poll_priority(Port::Fm, Priority::Low, |_, bytes| {
            assert_eq!(std::hint::black_box(bytes).len(), payload.len());
        }) {
            std::hint::spin_loop();
        }
    };
    if shm.me().0 == 0 {
        send();
        wait();
    } else {
        wait();
        send();
    }
}

/// Half a round trip of each kind in nanoseconds: the bare line, then the sizes.
fn run(shm: &Shm) -> Vec<Vec<f64>> {
    let me = shm.me().index();
    let mut times = vec![Vec::new(); 1 + SIZES.len()];
    let mut number = 0;
    for _ in 0..BATCHES {
        for (kind, times) in times.iter_mut().enumerate() {
            let payload = kind.checked_sub(1).map(|at| vec![7; SIZES[at]]);
            let began = Instant::now();
            for _ in 0..ROUNDS {
                number += 1;
                match &payload {
                    None => line_round(me, number),
                    Some(payload) => packet_round(shm, payload),
                }
            }
            times.push(began.elapsed().as_nanos() as f64 / ROUNDS as f64 / 2.0);
        }
    }
    times
}

fn main() {
    let cores: Vec<usize> = std::env::args()
        .skip(1)
        .map(|core| core.parse().expect("a core's number"))
        .collect();
    let core = |which: usize| cores.get(which).copied().unwrap_or(which);
    let file = sealed_memory(c"packet-latency", region_bytes(2)).expect("memory");
    let attach = |index: u32| {
        pin(core(index as usize));
        Shm::attach(ShmConfig {
            file: file.try_clone().expect("a descriptor"),
            offset: 0,
            len: region_bytes(2) as u64,
            index,
            size: 2,
            processes: 2,
            cores: 2,
            tunables: ShmTunables::default(),
        })
        .expect("the region")
    };
    let times = std::thread::scope(|scope| {
        scope.spawn(|| run(&attach(1)));
        run(&attach(0))
    });
    let median = |times: &Vec<f64>| {
        let mut sorted = times.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    let floor = median(&times[0]);
    println!("bare line     {floor:7.1} ns");
    for (size, times) in SIZES.iter().zip(&times[1..]) {
        let time = median(times);
        println!("{size:4} bytes    {time:7.1} ns   {:.2} x", time / floor);
    }
}
