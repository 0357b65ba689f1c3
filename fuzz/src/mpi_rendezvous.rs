//! MPI's rendezvous slots: process 0 sends process 1 long messages, of which both copy, and anybody writes anything to the slots that they use; process 0
//! may offer what it likes besides. Nothing is written but what receives are for, and process 2's messages arrive.

use crate::input::{Input, Script};
use crate::mpi_world::{ANY_TAG, Buffers, delivers, reap, receive, send};
use farpost_channel::{ChannelTunables, Layout};
use farpost_fabric::{LINE_BYTES, Peer, Permission, Remote, RemoteMemory, SegmentId};
use farpost_mpi::engine::EngineTunables;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use farpost_shm::conformance::shm_ends;
use farpost_shm::{Shm, ShmTunables};
use std::rc::Rc;

const SMALL: ChannelTunables = ChannelTunables {
    slots: 16,
    block: 1024,
    blocks: 8,
};
const SENDER: Peer = Peer(0);
const AREA: SegmentId = SegmentId(0x40_0000);
/// Rendezvous slots that are used first: they are taken from the front.
const LINES: usize = 4;
const MODES: [Mode; 2] = [Mode::Standard, Mode::Synchronous];

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let ends: Vec<Rc<Shm>> = shm_ends(3, &ShmTunables::default())
        .into_iter()
        .map(Rc::new)
        .collect();
    let mut buffers = Buffers::default();
    let config = WorldConfig {
        rsm: SMALL,
        engine: EngineTunables {
            eager_max: 1024,
            chunk_min: 4096,
            chunk_max: 8192,
            ..EngineTunables::default()
        },
        ..WorldConfig::default()
    };
    let worlds: Vec<_> = ends
        .iter()
        .map(|end| World::on(Rc::clone(end), config.clone()))
        .collect();
    let turn = || {
        for world in &worlds {
            world.progress();
        }
    };
    assert!(delivers((&worlds[0], &worlds[1]), &mut buffers, (1, 5, 9), turn));
    assert!(delivers(
        (&worlds[0], &worlds[1]),
        &mut buffers,
        (1, 40_000, 9),
        turn
    ));
    assert!(delivers((&worlds[2], &worlds[1]), &mut buffers, (1, 5, 9), turn));
    let layout = Layout::new(&SMALL, 3);
    let area = ends[2]
        .import(SENDER, AREA, layout.bytes(), Permission::ReadWrite)
        .expect("an area");
    let mut open = [Vec::new(), Vec::new()];
    let mut steps = 0;
    while let Some(step) = input.step() {
        steps += 1;
        if steps > 100 {
            break;
        }
        match step & 7 {
            0 => {
                let (tag, len) = (i32::from(step >> 3 & 1), usize::from(input.u16()));
                let mode = MODES[usize::from(step >> 7)];
                open[0].extend(send(&worlds[0], &mut buffers, 1, tag, len, 1, mode));
            }
            1 => {
                let tag = [i32::from(step >> 3 & 1), ANY_TAG][usize::from(step >> 4 & 1)];
                let started = receive(&worlds[1], &mut buffers, 0, tag, usize::from(input.u16()));
                open[1].extend(started.map(|(handle, _)| handle));
            }
            2 | 3 => drop(worlds[usize::from(step & 1)].progress()),
            4 | 5 => {
                let (line, word) = (usize::from(step >> 6), usize::from(step >> 3) & 7);
                assert!(line < LINES);
                let at = layout.slots() + line * LINE_BYTES + word * 8;
                area.put_word(at, input.number()).expect("it is mapped");
            }
            6 => {
                // A line in its place, with its number if the script says the right one.
                let [line, kind, inline] = input.array::<3>();
                let number = input.number() & 0xffff_ffff;
                let mut words = [0; 8];
                words[0] = number | u64::from(kind) << 32 | 1 << 40 | u64::from(inline) << 49;
                for word in &mut words[1..] {
                    *word = input.number();
                }
                let at = layout.queue(1) + usize::from(line % 16) * LINE_BYTES;
                area.put_line(at, &words).expect("it is mapped");
            }
            _ => turn(),
        }
        for (world, open) in worlds.iter().zip(&mut open) {
            reap(world, open);
        }
    }
    for _ in 0..20 {
        turn();
    }
    for handle in &open[1] {
        let _ = worlds[1].cancel(*handle);
    }
    for _ in 0..10 {
        turn();
    }
    reap(&worlds[1], &mut open[1]);
    assert_eq!(worlds[2].take_faults(), Vec::<String>::new());
    for len in [5, 900, 20_000] {
        assert!(
            delivers((&worlds[2], &worlds[1]), &mut buffers, (77, len, 4), turn),
            "{len} bytes of process 2 were lost"
        );
    }
    drop(worlds);
    buffers.check();
}

pub fn seeds() -> Vec<Vec<u8>> {
    let new = Script::default;
    let send = |script: Script, len: u16| script.u8(0).u16(len);
    let receive = |script: Script, len: u16| script.u8(1 | 0x10).u16(len);
    let word = |script: Script, word: u8, value: u64| script.u8(4 | word << 3).number(value);
    let mut seeds = Vec::new();
    for len in [0, 1000, 1025, 4097, 60_000] {
        seeds.push(receive(send(new(), len), len).u8(3).u8(2).u8(7).0);
        seeds.push(send(receive(new(), len / 2), len).u8(2).u8(3).u8(2).0);
    }
    // Offered, opened, and the slot altered: chunks claimed and copied, the grant's address, open, closed, failed.
    for (at, value) in [
        (0, 3),
        (0, u64::MAX),
        (1, 100),
        (2, 8),
        (2, u64::MAX),
        (5, 1),
        (5, 0),
        (6, 1),
        (7, 1),
    ] {
        seeds.push(
            word(receive(send(new(), 60_000), 60_000), at, value)
                .u8(3)
                .u8(2)
                .u8(7)
                .0,
        );
        seeds.push(
            word(receive(send(new(), 60_000), 60_000).u8(3), at, value)
                .u8(2)
                .u8(3)
                .u8(7)
                .0,
        );
    }
    // An offer by hand, as the fourth line.
    for kind in 1..=10 {
        let line = receive(new(), 9000).u8(6).bytes(&[2, kind, 4]).number(3);
        let words = [1, 0, 9000, 1 << 32, 3, 1 << 63 | 2, 0];
        seeds.push(
            words
                .iter()
                .fold(line, |script, word| script.number(*word))
                .u8(3)
                .u8(2)
                .u8(7)
                .0,
        );
    }
    seeds
}
