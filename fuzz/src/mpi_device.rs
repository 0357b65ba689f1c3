//! MPI over Fast Messages or JAM: what a piece of a message says. Process 0 sends process 1 packets and pieces of its own making on
//! the device's port beside its own messages; process 2's messages arrive, and nobody blames it.

use crate::input::{Input, Script};
use crate::mpi_world::{ANY_SOURCE, ANY_TAG, Buffers, delivers, reap, receive, send};
use farpost_channel::ChannelTunables;
use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::{PACKET_BYTES, PacketQueue, Peer, Port, Priority};
use farpost_fm::{FRAME_PAYLOAD, Fm, FmTunables, Label};
use farpost_jam::pio::Pio;
use farpost_jam::{Header, MAX_WORDS};
use farpost_mpi::carrier::{Device, DeviceConfig, DeviceTunables};
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use std::rc::Rc;

const SMALL: ChannelTunables = ChannelTunables {
    slots: 16,
    block: 1024,
    blocks: 8,
};

/// Sends pieces of any kind.
enum Pieces {
    Fm(Fm<InProc>),
    Jam(Pio<InProc>),
}

impl Pieces {
    fn send(&self, kind: u8, number: u32, bytes: &[u8]) {
        match self {
            Pieces::Fm(fm) => {
                let kind = u16::from(kind);
                fm.try_frame(
                    1,
                    Label { kind, number },
                    &[],
                    &bytes[..bytes.len().min(FRAME_PAYLOAD)],
                );
            }
            Pieces::Jam(pio) => {
                let bytes = &bytes[..bytes.len().min(4 * (MAX_WORDS - 1))];
                let unused = bytes.len().wrapping_neg() as u32 & 3;
                let header = Header::new(Peer(1), Priority::Low, u32::from(kind) | unused << 8);
                let _ = pio.try_bytes(&header, (&[], bytes), number);
            }
        }
    }
}

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let device = DeviceConfig {
        device: [Device::Fm, Device::Jam][usize::from(input.u8() & 1)],
        tunables: DeviceTunables {
            jam_local: 0,
            ..DeviceTunables::default()
        },
        ..DeviceConfig::default()
    };
    let config = WorldConfig {
        rsm: SMALL,
        device: device.clone(),
        ..WorldConfig::default()
    };
    let ends: Vec<Rc<InProc>> = Network::new(3, 1, Config::default())
        .into_iter()
        .map(Rc::new)
        .collect();
    let pieces = match device.device {
        Device::Fm => Pieces::Fm(Fm::on_port(
            Rc::clone(&ends[0]),
            &FmTunables::default(),
            Port::Device,
        )),
        _ => Pieces::Jam(Pio::new(Rc::clone(&ends[0]), Port::Device)),
    };
    let mut buffers = Buffers::default();
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
    let mut open = [Vec::new(), Vec::new()];
    let mut steps = 0;
    while let Some(step) = input.step() {
        steps += 1;
        if steps > 100 {
            break;
        }
        let priority = Priority::ALL[usize::from(step >> 7)];
        match step & 3 {
            0 => {
                let len = usize::from(input.u16()) % 6000;
                open[0].extend(send(
                    &worlds[0],
                    &mut buffers,
                    1,
                    i32::from(step >> 2),
                    len,
                    1,
                    Mode::Standard,
                ));
            }
            1 if step & 0x40 != 0 => {
                let (kind, number) = (step >> 2 & 15, u32::from(input.u16()));
                pieces.send(kind, number, input.counted());
            }
            1 => turn(),
            2 => {
                let bytes = input.counted();
                let bytes = &bytes[..bytes.len().min(PACKET_BYTES)];
                let port = [Port::Device, Port::Postbox][usize::from(step >> 6 & 1)];
                let _ = ends[0].try_send(Peer(1), port, priority, bytes);
            }
            _ => {
                let len = usize::from(input.u16()) % 6000;
                let started = receive(
                    &worlds[1],
                    &mut buffers,
                    [0, ANY_SOURCE][usize::from(step >> 2 & 1)],
                    ANY_TAG,
                    len,
                );
                open[1].extend(started.map(|(handle, _)| handle));
            }
        }
        for (world, open) in worlds.iter().zip(&mut open) {
            reap(world, open);
        }
    }
    for _ in 0..60 {
        turn();
    }
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
    let mut seeds = Vec::new();
    for device in [0, 1] {
        let script = || Script::default().u8(device);
        for len in [0, 40, 1000, 5000] {
            seeds.push(script().u8(0).u16(len).u8(1).u8(3).u16(6000).u8(1).u8(1).0);
        }
        seeds.push(
            script()
                .u8(2)
                .counted(&[0; 24])
                .u8(1)
                .u8(0x82)
                .counted(&[1; 40])
                .u8(1)
                .0,
        );
        // A message of one piece and of two, an offer, a part of nothing, a credit.
        let words = |words: &[u64]| {
            words
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect::<Vec<u8>>()
        };
        let piece = |kind: u8, number, bytes: &[u8]| {
            script()
                .u8(3)
                .u16(600)
                .u8(0x41 | kind << 2)
                .u16(number)
                .counted(bytes)
        };
        seeds.push(piece(2, 8, &words(&[7, 0, 9])).u8(1).0);
        seeds.push(
            piece(2, 16, &words(&[7, 0, 9]))
                .u8(0x41 | 3 << 2)
                .u16(0)
                .counted(&[8; 8])
                .u8(1)
                .0,
        );
        seeds.push(piece(6, 0, &words(&[7, 0, 5000, 0, 1, 0, 0])).u8(1).0);
        seeds.push(piece(8, 8, &words(&[1, 2])).u8(1).0);
        seeds.push(piece(13, 0, &words(&[1, 8, 0])).u8(1).0);
        seeds.push(
            script()
                .u8(0x42)
                .counted(&[1, 1, 0, 0, 16, 0, 0, 0, 0, 4, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0])
                .u8(1)
                .0,
        );
    }
    seeds
}
