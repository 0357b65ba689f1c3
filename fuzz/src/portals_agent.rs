//! An agent of three clients, of which the first writes anything into its mailbox. The other two go on exchanging messages.
//!
//! Script: a byte (kind of the client), then records: kind, small number, length, whether something is wrong with it, and words.

use crate::bridge::{Config, World};
use crate::common::pattern;
use crate::input::{Input, Script};
use farpost_fabric::inproc::{self, InProc, Network};
use farpost_fabric::{Interrupt, Peer, Permission, Remote, RemoteMemory, SegmentId};
use farpost_portals::agent::Mode::{Accelerated, Generic};
use farpost_portals::{AckReq, NetworkInterface};
use std::rc::Rc;

/// The agent's segment for client 1, and what it has.
const MAILBOX: SegmentId = SegmentId(0x5041_0001);
const QUEUE_AT: usize = 128;
const LINES: u32 = 512;

fn write(world: &World<InProc>, mailbox: &impl Remote, number: &mut u32, input: &mut Input<'_>) {
    let (kind, aux) = (input.u8(), input.u8());
    let lines = 1 + u32::from(input.u8() % 8);
    let wrong = input.u8();
    let first = *number;
    for line in 0..lines {
        let mut words = [0; 8];
        for word in words.iter_mut().skip(1) {
            *word = input.number();
        }
        words[0] = u64::from(number.wrapping_add(1));
        if line == 0 {
            let count = if wrong & 1 == 0 {
                lines
            } else {
                u32::from(wrong >> 1)
            };
            words[0] |= u64::from(kind) << 32 | u64::from(count & 255) << 40 | u64::from(aux) << 48;
        } else if wrong & 2 != 0 {
            words[0] ^= 1 << (wrong >> 2 & 31);
        }
        let at = QUEUE_AT + (*number & (LINES - 1)) as usize * 64;
        mailbox.put_line(at, &words).expect("put");
        *number = number.wrapping_add(1);
    }
    let _ = mailbox.fence();
    world.fabric(1).wake(Peer(0));
    // Where the agent did not take it, it would not look at the next one either.
    if wrong & 2 != 0 {
        *number = first;
    }
}

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let how = input.u8();
    let mode = if how & 1 == 0 { Accelerated } else { Generic };
    let other = if how & 2 == 0 { Accelerated } else { Generic };
    // Clients whose memory cannot be reached: what is written at the word of client 1 would be written in this process.
    // Little is on its way at a time: steps of the network are most of the time of a run.
    let network = inproc::Config {
        bulk: false,
        largest_piece: 4096,
        longest_delay: 2,
        ..inproc::Config::default()
    };
    let fabrics = Network::new(4, u64::from(how), network);
    let fabrics = fabrics.into_iter().map(Rc::new).collect();
    let config = Config {
        memory: 128 << 10,
        ..Config::default()
    };
    let mut world = World::new(
        fabrics,
        &config,
        &[(0, &[(1, mode), (2, other), (3, Accelerated)])],
        &[],
    );
    let mailbox = world.fabric(1).import(Peer(0), MAILBOX, 0, Permission::ReadWrite);
    let mailbox = mailbox.expect("the mailbox");
    world.steps(20);
    let mut number = world.agent(0).commands_taken(1);
    world.without(1);
    let mut steps = 0;
    while let Some(step) = input.step() {
        steps += 1;
        if steps > 60 {
            break;
        }
        match step & 7 {
            0..=3 => write(&world, &mailbox, &mut number, &mut input),
            4 => mailbox
                .put_word(usize::from(step >> 3 & 7) * 8, input.number())
                .expect("put"),
            5 => {
                // A window.
                let at = QUEUE_AT + LINES as usize * 64 + usize::from(input.u16());
                let _ = mailbox.put(at, input.counted());
            }
            6 => world.steps(usize::from(step >> 3)),
            _ => {
                // Somebody sends to it.
                let (memory, md) = world.descriptor(2, usize::from(input.u16()) % 40_000, None);
                let to = world.target(1);
                if world.client(2).is_idle() {
                    let _ = world.client(2).put(md, AckReq::NoAck, &to, 1);
                }
                // It stays where it is until the end of the process: who knows when it is read.
                KEPT.with_borrow_mut(|kept| kept.push(memory));
                world.steps(4);
            }
        }
    }
    let _ = mailbox.fence();
    world.steps(60);
    world.forget_faults();
    // What client 1 holds of the agent's is not waited for.
    world.fabric(1).network().kill(Peer(1));
    world.exchange(2, 3, &pattern(3, 500));
    world.exchange(3, 2, &pattern(4, 8));
    drop(world);
    KEPT.with_borrow_mut(Vec::clear);
}

thread_local! {
    static KEPT: std::cell::RefCell<Vec<Vec<u8>>> = const { std::cell::RefCell::new(vec![]) };
}

pub fn seeds() -> Vec<Vec<u8>> {
    let start = |how: u8| Script::default().u8(how);
    let record = |script: Script, kind: u8, aux: u8, words: &[u64]| {
        let lines = words.len().div_ceil(7).max(1);
        let script = script.u8(0).u8(kind).u8(aux).u8(lines as u8 - 1).u8(0);
        let padded = words.iter().copied().chain(std::iter::repeat(0));
        padded
            .take(lines * 7)
            .fold(script, |script, word| script.number(word))
    };
    let end = |script: Script| script.u8(0x5e).0;
    let pair = |low: u64, high: u64| low | high << 32;
    let any = u64::MAX;
    let md = [4096, 500, pair(0xffff_ffff, 0x1f), 0, 0, 0xbfff_ffff];
    let to = [pair(0, 2), pair(3, 0), 77, 0];
    let mut all = vec![];
    // Accelerated: objects, then messages.
    for kind in 10..27 {
        let words: Vec<u64> = match kind {
            10..=12 => vec![3, any, 9, 0, 0, 0],
            14 | 15 => [&[1][..], &md, &[0, 0, 0]].concat(),
            23..=25 => [&[1, 0][..], &to, &[5, 100, 0]].concat(),
            _ => vec![1, 2, 3],
        };
        all.push(end(record(start(0), kind, 0, &words)));
    }
    // Generic: messages by themselves.
    let header = [u64::from_le_bytes([1, 3, 0, 0, 255, 255, 255, 255]), any, 9, 0, 0];
    for kind in [3, 4] {
        all.push(end(record(
            start(1),
            kind,
            1,
            &[&[pair(0, 2), 16][..], &header, &[7; 9]].concat(),
        )));
    }
    for kind in 5..8 {
        let script = start(1).u8(7).u16(3000).u8(0x2e);
        all.push(end(record(script, kind, 0, &[1, 2000, 1, 4096, 2000, 4096, 0])));
    }
    all.push(end(record(start(0), 1, 0, &[2, 1, 0, 0, 0, 0, 0])));
    all.push(end(record(start(0), 2, 0, &[])));
    all
}
