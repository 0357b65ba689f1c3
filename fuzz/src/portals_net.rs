//! The Portals network layer of process 0: process 2 sends it any packets, process 1 and it send each other messages. When process 2
//! has ended, everything that was started with it ends, and what process 1 sent has arrived as it was, once and in order.
//!
//! Script: a byte for the way of process 0, then steps. Bit 7 of a step that sends is the channel.

use crate::common::pattern;
use crate::input::{Input, Script};
use crate::processes::{Process, Taking, header};
use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::{ErrorStatus, PACKET_BYTES, PacketQueue, Peer, Port, Priority};
use farpost_portals::net::{Channel, NetTunables, Outcome};
use std::rc::Rc;

const CHECKED: u8 = 1 << 6;
const LENGTHS: [usize; 4] = [0, 8, 500, 9000];

fn tunables(check: u64, transmit: u64) -> NetTunables {
    NetTunables {
        sources: 2,
        tx_pendings: 4,
        rx_pendings: 4,
        window: 8,
        staged: 4096,
        staging: 4,
        chunk: 8192,
        shared: 32 << 10,
        resend: 0,
        transmit,
        check,
    }
}

/// The peer: what it knows of the connection.
struct Peculiar {
    fabric: Rc<InProc>,
    tag: u16,
    next: [u16; 2],
    check: bool,
}

impl Peculiar {
    fn send(&self, channel: usize, packet: &mut [u8]) {
        if self.check && packet.len() >= 12 {
            packet[0] |= CHECKED;
            packet[8..12].fill(0);
            let check = crc32fast::hash(packet);
            packet[8..12].copy_from_slice(&check.to_le_bytes());
        }
        let _ = self
            .fabric
            .try_send(Peer(0), Port::Portals, Priority::ALL[channel], packet);
    }

    /// Read what has come, and learn the tag.
    fn listen(&mut self) {
        let mut tag = self.tag;
        for _ in 0..16 {
            let polled = self.fabric.poll_packet(Port::Portals, |_, _, bytes| {
                if bytes.len() >= 8 && bytes[0] & 7 == 6 && bytes[1] & 0x7f == 4 {
                    tag = u16::from_le_bytes([bytes[4], bytes[5]]);
                }
            });
            if !polled {
                break;
            }
        }
        self.tag = tag;
    }
}

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let how = input.u8();
    let way = [
        Taking::AtOnce,
        Taking::Later(2),
        Taking::Reluctant,
        Taking::Half,
        Taking::Discard,
        Taking::Later(40),
    ][usize::from(how & 15) % 6];
    let config = Config {
        queue_packets: 64,
        bulk: how & 16 == 0,
        ..Config::default()
    };
    let settings = tunables(if how & 32 == 0 { 0 } else { 2 }, u64::from(how >> 6 & 1));
    let fabrics: Vec<Rc<InProc>> = Network::new(3, u64::from(how), config)
        .into_iter()
        .map(Rc::new)
        .collect();
    let network = fabrics[0].network().clone();
    let mut victim = Process::new(Rc::clone(&fabrics[0]), &settings, way);
    let mut honest = Process::new(Rc::clone(&fabrics[1]), &settings, Taking::AtOnce);
    let mut peer = Peculiar {
        fabric: Rc::clone(&fabrics[2]),
        tag: 0,
        next: [0; 2],
        check: how & 32 != 0,
    };
    let (mut wanted, mut sent) = ([0u32; 2], [0u32; 2]);
    let mut steps = 0;
    while let Some(step) = input.step() {
        steps += 1;
        if steps > 300 {
            break;
        }
        let channel = usize::from(step >> 7);
        match step & 15 {
            0 => {
                let mut packet = input.counted().to_vec();
                packet.truncate(PACKET_BYTES);
                peer.send(channel, &mut packet);
            }
            1..=6 => {
                // A packet whose word is right but for what the script changes.
                let (first, second, ahead) = (input.u8(), input.u8(), input.u8());
                let seq = peer.next[channel].wrapping_add(u16::from(ahead & 15));
                let tag = if ahead & 16 == 0 {
                    peer.tag
                } else {
                    u16::from(input.u8())
                };
                let ack = u16::from(input.u8());
                let mut packet = vec![first & 0xbf, second];
                for half in [seq, tag, ack] {
                    packet.extend(half.to_le_bytes());
                }
                if peer.check {
                    packet.extend([0; 4]);
                }
                packet.extend(input.counted());
                packet.truncate(PACKET_BYTES);
                if first & 7 != 6 && ahead & 32 == 0 {
                    peer.next[channel] = seq.wrapping_add(1);
                }
                peer.send(channel, &mut packet);
            }
            7 => peer.listen(),
            8 => {
                for _ in 0..step >> 4 & 7 {
                    network.step();
                }
                victim.turn();
                honest.turn();
            }
            9 => {
                for _ in 0..64 {
                    victim.turn();
                    honest.turn();
                }
            }
            10 => {
                let len = usize::from(input.u16());
                let head = header(0, 2, Channel::Request, 0);
                victim.send(
                    2,
                    [Channel::Answer, Channel::Request][channel],
                    &head,
                    &pattern(1, len),
                );
            }
            11 => wanted[1] += 1,
            12 => wanted[0] += 1,
            _ => victim.decide(),
        }
        talk(&mut victim, &mut honest, wanted, &mut sent);
    }
    network.kill(Peer(2));
    for round in 0..60_000 {
        talk(&mut victim, &mut honest, wanted, &mut sent);
        victim.turn();
        honest.turn();
        victim.decide();
        let from = |process: &Process<InProc>, from| {
            let came = process.upper.came.iter();
            came.filter(|came| came.from == from && came.outcome.is_some())
                .count() as u32
        };
        if sent == wanted
            && from(&victim, Peer(1)) == wanted[1]
            && from(&honest, Peer(0)) == wanted[0]
            && victim.settled()
            && honest.settled()
        {
            break;
        }
        assert!(
            round < 59_999,
            "nothing moves any more: {:?}",
            victim.net.figures()
        );
    }
    for (process, from) in [(&victim, Peer(1)), (&honest, Peer(0))] {
        let came = process.upper.came.iter().filter(|came| came.from == from);
        for (number, came) in came.enumerate() {
            let whole = pattern(number as u64, LENGTHS[number % LENGTHS.len()]);
            assert_eq!(
                (came.outcome, came.length),
                (Some(Outcome::Done), whole.len() as u64)
            );
            assert_eq!(
                came.header,
                header(from.0, 1 - from.0, Channel::Request, number as u32)
            );
            // As much of it as is wanted.
            assert_eq!(came.body, whole[..came.body.len()]);
        }
    }
    let (faults, _) = fabrics[0].take_faults();
    assert!(faults.iter().all(|fault| fault.peer == Peer(2)), "{faults:?}");
    assert_eq!(fabrics[1].take_faults().0, vec![]);
}

/// What process 0 and process 1 have to send each other.
fn talk(victim: &mut Process<InProc>, honest: &mut Process<InProc>, wanted: [u32; 2], sent: &mut [u32; 2]) {
    for (from, process) in [victim, honest].into_iter().enumerate() {
        if sent[from] < wanted[from] {
            let number = sent[from];
            let body = pattern(u64::from(number), LENGTHS[number as usize % LENGTHS.len()]);
            let (me, to) = (from as u32, 1 - from as u32);
            let head = header(me, to, Channel::Request, number);
            sent[from] += u32::from(process.send(to, Channel::Request, &head, &body));
        }
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    // The ways, then a meeting: the first packet asks for a tag.
    let start = |how: u8| {
        let script = Script::default().u8(how).u8(11).u8(12);
        packet(script, 0x11, 40, &[1; 48]).u8(9).u8(7)
    };
    let word = |number: u64| number.to_le_bytes();
    let long = |parts: &[[u8; 8]]| [&[5; 40][..], parts.as_flattened()].concat();
    let end = |script: Script| script.u8(9).u8(7).u8(9).u8(11).0;
    let mut all = vec![];
    for how in [0, 1, 2, 3, 4, 16, 33, 64, 68, 97] {
        all.push(end(packet(start(how), 0x11, 40, &[2; 60])));
    }
    all.push(end(packet(start(1), 0x12, 40, &long(&[word(1000 | 16 << 32)]))));
    all.push(end(packet(
        start(0),
        0x13,
        40,
        &long(&[word(3000), word(0x1000), word(1)]),
    )));
    all.push(end(packet(
        start(1),
        0x17,
        40,
        &long(&[word(3000), word(2 << 32)]),
    )));
    let stream = packet(start(0), 0x14, 40, &long(&[word(200)]));
    all.push(end(packet(packet(stream, 5, 0, &[1; 160]), 5, 0, &[1; 40])));
    for op in 1..8 {
        let script = start(0).u8(10).u16(100).u8(0x8a).u16(9000).u8(9);
        all.push(end(packet(script, 6, op, &[0; 24])));
    }
    all.push(end(start(2).u8(0).counted(&[1, 2, 3])));
    all
}

/// A packet of the channel for requests, numbered after the one before.
fn packet(script: Script, first: u8, second: u8, rest: &[u8]) -> Script {
    script.u8(0x81).u8(first).u8(second).u8(0).u8(0).counted(rest)
}
