//! MPI's postboxes: process 0 sends process 1 messages, and somebody writes any lines of MPI's kinds into the queue between them, in
//! turn and out of it, any words anywhere, and any acknowledgements. Only these two blame and are blamed; process 2's messages arrive.

use crate::input::{Input, Script};
use crate::mpi_world::{ANY_SOURCE, ANY_TAG, Buffers, delivers, reap, receive, send};
use farpost_channel::{ChannelTunables, Layout};
use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::{LINE_BYTES, LocalMemory, PACKET_BYTES, PacketQueue, Peer, Port, Priority, SegmentId};
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use std::rc::Rc;

const SMALL: ChannelTunables = ChannelTunables {
    slots: 16,
    block: 1024,
    blocks: 8,
};
const RECEIVER: Peer = Peer(1);
const ACKS: SegmentId = SegmentId(0x40_0001);
const AREA: SegmentId = SegmentId(0x41_0000);
const MODES: [Mode; 2] = [Mode::Standard, Mode::Synchronous];

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let config = Config {
        bulk: input.u8() & 1 == 0,
        ..Config::default()
    };
    let ends: Vec<Rc<InProc>> = Network::new(3, 1, config).into_iter().map(Rc::new).collect();
    let mut buffers = Buffers::default();
    let config = WorldConfig {
        rsm: SMALL.clone(),
        ..WorldConfig::default()
    };
    let worlds: Vec<_> = ends
        .iter()
        .map(|end| World::on(Rc::clone(end), config.clone()))
        .collect();
    let network = ends[0].network().clone();
    let turn = || {
        for world in &worlds {
            world.progress();
        }
        network.settle();
    };
    assert!(delivers((&worlds[0], &worlds[1]), &mut buffers, (1, 5, 9), turn));
    let layout = Layout::new(&SMALL, 1);
    let area = network.segment(RECEIVER, AREA).expect("an area");
    let acks = network.segment(Peer(0), ACKS).expect("acknowledgements");
    let mut open = [Vec::new(), Vec::new()];
    let mut steps = 0;
    while let Some(step) = input.step() {
        steps += 1;
        if steps > 200 {
            break;
        }
        match step & 7 {
            0 => {
                let (tag, len) = (i32::from(step >> 3), usize::from(input.u16()) % 6000);
                let mode = MODES[usize::from(step >> 7)];
                open[0].extend(send(&worlds[0], &mut buffers, 1, tag, len, 1, mode));
            }
            1 => turn(),
            2 => {
                // A line of a kind, in its place and with its number if the script says the right ones.
                let line = usize::from(step >> 3) % SMALL.slots as usize;
                let [kind, count] = input.array();
                let (number, inline) = (input.number(), u64::from(input.u8()) * 2);
                let mut words = [0; 8];
                words[0] =
                    number & 0xffff_ffff | u64::from(kind) << 32 | u64::from(count) << 40 | inline << 48;
                for word in &mut words[1..] {
                    *word = input.number();
                }
                area.store_line(layout.queue(0) + line * LINE_BYTES, &words);
            }
            3 => {
                let (at, word) = (usize::from(input.u16()), input.number());
                area.store(at % (layout.bytes() / 8) * 8, word);
            }
            4 => acks.store(RECEIVER.index() * LINE_BYTES, input.number()),
            5 => {
                let bytes = input.counted();
                let bytes = &bytes[..bytes.len().min(PACKET_BYTES)];
                let _ = ends[0].try_send(RECEIVER, Port::Postbox, Priority::High, bytes);
            }
            6 => {
                let source = [0, ANY_SOURCE][usize::from(step >> 3 & 1)];
                let tag = [i32::from(step >> 5), ANY_TAG][usize::from(step >> 4 & 1)];
                let started = receive(
                    &worlds[1],
                    &mut buffers,
                    source,
                    tag,
                    usize::from(input.u16()) % 6000,
                );
                open[1].extend(started.map(|(handle, _)| handle));
            }
            _ => {
                let _ = worlds[1].iprobe(worlds[1].comm_world(), ANY_SOURCE, ANY_TAG);
            }
        }
        for (world, open) in worlds.iter().zip(&mut open) {
            reap(world, open);
        }
    }
    for _ in 0..60 {
        turn();
    }
    // A receive from anybody would take what process 2 sends.
    for handle in &open[1] {
        let _ = worlds[1].cancel(*handle);
    }
    for _ in 0..20 {
        turn();
    }
    reap(&worlds[1], &mut open[1]);
    assert_eq!(worlds[2].take_faults(), Vec::<String>::new());
    for len in [5, 200, 3000] {
        assert!(
            delivers((&worlds[2], &worlds[1]), &mut buffers, (77, len, 4), turn),
            "{len} bytes of process 2 were lost"
        );
    }
    drop(worlds);
    buffers.check();
}

pub fn seeds() -> Vec<Vec<u8>> {
    let script = || Script::default().u8(0);
    let line = |script: Script, at: u8, [kind, count, inline]: [u8; 3], number: u64, words: &[u64]| {
        let script = script
            .u8(2 | at << 3)
            .u8(kind)
            .u8(count)
            .number(number)
            .u8(inline);
        words
            .iter()
            .chain(&[0; 7][words.len()..])
            .fold(script, |script, word| script.number(*word))
    };
    let receive = |script: Script| script.u8(6 | 0x18).u16(5000);
    let honest = |script: Script, len: u16| receive(script.u8(0).u16(len).u8(1)).u8(1).u8(1);
    let kinds = 1..=10u8;
    let mut seeds: Vec<_> = [0, 40, 41, 264, 1000, 5000]
        .map(|len| honest(script(), len).0)
        .into();
    // The second postbox: number 2, in line 1; context 0 with the type of bytes.
    seeds.extend(kinds.map(|kind| {
        let script = line(script(), 1, [kind, 1, 4], 2, &[1, 0, 600, 1 << 32 | 3, 7, 1, 9]);
        receive(script.u8(1)).u8(1).u8(1).0
    }));
    seeds.push(
        receive(line(
            line(script(), 2, [3, 0, 0], 3, &[5; 7]),
            1,
            [2, 2, 40],
            2,
            &[1, 0, 5],
        ))
        .u8(1)
        .0,
    );
    seeds.push(honest(script().u8(0x80).u16(3000).u8(4).number(40), 100).0);
    seeds
}
