//! JAM's rings of batches: process 1 writes anything into the ring that process 0 made for it, doorbell included, and what it says
//! of room. Batches of process 2 arrive, in order.

use crate::input::{Input, Script};
use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{LINE_BYTES, LocalMemory, Peer, SegmentId};
use farpost_jam::vi::Batch;
use farpost_jam::{Jam, JamTunables};
use std::rc::Rc;

const RING: u64 = 4096;
const SMALL: JamTunables = JamTunables {
    rpc_rdma: 84,
    rpc_max: 4096,
    owner_silence: 1,
    vi_ring: RING,
};
/// The ring at a receiver for messages of process 1.
const RING_FOR_1: SegmentId = SegmentId(0x7a00_0001);

/// Make a batch of `count` messages and launch it; whether it went.
fn ring(from: &Jam<InProc>, first: u32, count: u32) -> bool {
    let mut batch = Batch::new(Peer(0));
    for number in first..first + count {
        batch.push(number, &[number, 2, 3]).expect("a short message");
    }
    matches!(from.doorbell(&mut batch), Ok(true))
}

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let config = Config {
        full_every: 0,
        queue_packets: 64,
        ..Config::default()
    };
    let ends = Network::new(3, 1, config);
    let network = ends[0].network().clone();
    let jams: Vec<_> = ends
        .into_iter()
        .map(|end| Jam::new(Rc::new(end), &SMALL, &WaitTunables::default()))
        .collect();
    let (mut came, mut sent) = (0, 0);
    let take = |came: &mut u32| {
        jams[0].receive_batches(100, |from, tag, words| {
            assert!((2..=22).contains(&words.len()));
            if from == Peer(2) {
                assert_eq!(tag, *came);
                *came += 1;
            }
        });
    };
    let turn = |came: &mut u32| {
        for jam in &jams {
            jam.poll();
        }
        network.settle();
        take(came);
    };
    // Both have a ring there.
    for (sender, number) in [(1, 0), (2, 0)] {
        let mut patience = 100;
        while !ring(&jams[sender], number, 1) {
            patience -= 1;
            assert!(patience > 0, "process {sender} never got a ring");
            turn(&mut came);
        }
    }
    sent += 1;
    turn(&mut came);
    let memory = network.segment(Peer(0), RING_FOR_1).expect("a ring");
    let mut steps = 0;
    while let Some(step) = input.step() {
        steps += 1;
        if steps > 200 {
            break;
        }
        match step & 7 {
            0 => {
                let _ = ring(&jams[1], 9, u32::from(step >> 3));
            }
            1 => turn(&mut came),
            2 => memory.store(0, input.number()),
            3 => {
                let at = usize::from(input.u16()) % (RING as usize / 8);
                memory.store(LINE_BYTES + at * 8, input.u64());
            }
            4 => {
                // A message as it should be, or nearly, and the doorbell behind it.
                let at = u64::from(input.u16()) % (RING / 8) * 8;
                let [words, check] = input.array().map(u64::from);
                memory.store(LINE_BYTES + at as usize, words | check << 16 | 7 << 32);
                memory.store(0, at + 8 + (4 * words).next_multiple_of(8));
            }
            _ => {
                if ring(&jams[2], sent, 1 + u32::from(step >> 6)) {
                    sent += 1 + u32::from(step >> 6);
                }
            }
        }
    }
    for _ in 0..200 {
        turn(&mut came);
    }
    assert_eq!(came, sent);
    while let Some(fault) = jams[0].next_fault() {
        assert_eq!(fault.peer, Peer(1), "{fault:?}");
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let script = Script::default;
    let turn = |script: Script| script.u8(1);
    vec![
        turn(turn(script().u8(0x18).u8(5)).u8(0x45)).0,
        turn(script().u8(2).number(8)).0,
        turn(script().u8(2).number(RING + 8)).0,
        turn(script().u8(2).number(u64::MAX)).0,
        turn(script().u8(4).u16(3).u8(3).u8(1).u8(5)).0,
        turn(script().u8(3).u16(3).u64(0xffff).u8(2).number(48)).0,
    ]
}
