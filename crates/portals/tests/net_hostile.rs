//! What a peer that does not keep to the protocol can do to the network layer: be counted, and lose its own messages.

mod common;
mod support;

use common::{SMALL, pattern};
use farpost_channel::{ChannelTunables, Postboxes, Service};
use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::{ErrorStatus, PacketQueue, Peer, Port, Priority};
use farpost_portals::net::{Channel, NetTunables, Outcome};
use std::rc::Rc;
use support::{Process, Taking, header};

const FEW: NetTunables = NetTunables {
    sources: 2,
    tx_pendings: 4,
    rx_pendings: 4,
    // Nothing is checked, so that everything gets through to where it can do harm.
    check: 0,
    ..SMALL
};

fn network(seed: u64, size: u32) -> Vec<Rc<InProc>> {
    let config = Config {
        queue_packets: 64,
        ..Config::default()
    };
    Network::new(size, seed, config)
        .into_iter()
        .map(Rc::new)
        .collect()
}

/// Process 1 and process 0 talk, while process 2 sends anything: their messages arrive all the same, and memory stays bounded.
#[test]
fn garbage_harms_nobody_else() {
    for seed in 0..6 {
        let fabrics = network(seed, 3);
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut ends: Vec<_> = fabrics[..2]
            .iter()
            .map(|fabric| Process::new(Rc::clone(fabric), &FEW, Taking::Later(2)))
            .collect();
        let lengths = [8, 500, 9000];
        let (mut sent, wanted) = (0, 40);
        let mut seq = [rng.u16(..), rng.u16(..)];
        for round in 0..400_000 {
            assert!(
                round < 399_999,
                "nothing moves any more: {:?}",
                ends[0].net.figures()
            );
            if sent < wanted {
                let body = pattern(u64::from(sent), lengths[sent as usize % 3]);
                sent += u32::from(ends[1].send(
                    0,
                    Channel::Request,
                    &header(1, 0, Channel::Request, sent),
                    &body,
                ));
            }
            for end in &mut ends {
                end.turn();
            }
            if round < 20_000 {
                // Mostly what is nearly right.
                let mut packet = [0; InProc::PACKET_BYTES];
                rng.fill(&mut packet);
                let channel = rng.usize(0..2);
                packet[0] = rng.u8(1..8) | rng.u8(..) & 0x38;
                packet[1] = if packet[0] & 7 == 6 {
                    rng.u8(0..9) | rng.u8(..) & 0x80
                } else {
                    rng.u8(0..50)
                };
                packet[2..4].copy_from_slice(&seq[channel].to_le_bytes());
                packet[4..6].copy_from_slice(&rng.u16(0..4).to_le_bytes());
                if rng.bool() {
                    seq[channel] = seq[channel].wrapping_add(1);
                }
                for byte in &mut packet[8..] {
                    if rng.u8(..) < 200 {
                        *byte = 0;
                    }
                }
                let len = rng.usize(0..=InProc::PACKET_BYTES);
                let priority = Priority::ALL[channel];
                let _ = fabrics[2].try_send(Peer(0), Port::Portals, priority, &packet[..len]);
                // What is answered is not read but now and then.
                fabrics[2].poll_packet(Port::Portals, |_, _, bytes| {
                    if bytes.len() >= 6 && bytes[0] & 7 == 6 {
                        packet[4..6].copy_from_slice(&bytes[4..6]);
                    }
                });
                packet[0] |= 0x10;
                let _ = fabrics[2].try_send(Peer(0), Port::Portals, priority, &packet[..len]);
            }
            let from_1 = ends[0]
                .upper
                .came
                .iter()
                .filter(|came| came.from == Peer(1) && came.outcome.is_some());
            if from_1.count() == wanted as usize && round >= 20_000 {
                break;
            }
        }
        let from_1 = ends[0].upper.came.iter().filter(|came| came.from == Peer(1));
        for (number, came) in from_1.enumerate() {
            assert_eq!(came.outcome, Some(Outcome::Done));
            assert_eq!(came.body, pattern(number as u64, lengths[number % 3]));
        }
        assert!(ends[0].net.figures().faults > 0);
        let (faults, more) = fabrics[0].take_faults();
        assert!(faults.iter().all(|fault| fault.peer == Peer(2)), "{faults:?}");
        assert!(!faults.is_empty() && faults.len() as u64 + more > 0);
    }
}

/// Requirement: a dead peer ends everything that was started with it with a failure, in bounded time; others go on.
#[test]
fn a_dead_peer_ends_what_was_started_with_it() {
    for seed in 0..8 {
        let fabrics = network(seed, 3);
        let mut ends: Vec<_> = fabrics
            .iter()
            .map(|fabric| Process::new(Rc::clone(fabric), &FEW, Taking::Later(u32::MAX)))
            .collect();
        let body = pattern(seed, 30_000);
        // Of three, as many as find a pending.
        let mut taken = 0;
        for me in [0, 1] {
            for number in 0..3 {
                for to in 0..3 {
                    if to != me {
                        let header = header(me, to, Channel::Request, number);
                        let sent = ends[me as usize].send(to, Channel::Request, &header, &body);
                        taken += usize::from(sent && (me, to) == (0, 2));
                    }
                }
            }
        }
        assert!(taken > 0);
        for _ in 0..seed * 40 {
            for end in &mut ends {
                end.turn();
            }
        }
        fabrics[0].network().kill(Peer(1));
        let (dead, mut living): (Vec<_>, Vec<_>) = ends.into_iter().enumerate().partition(|(me, _)| *me == 1);
        for round in 0..200_000 {
            assert!(round < 199_999, "nothing moves any more");
            for (_, end) in &mut living {
                end.turn();
                end.decide();
            }
            let came = living[1].1.upper.came.iter();
            let from_0 = came.filter(|came| came.from == Peer(0) && came.outcome.is_some());
            if living.iter().all(|(_, end)| end.settled()) && from_0.count() == taken {
                break;
            }
        }
        let outcomes: Vec<_> = living[0].1.upper.sent.values().collect();
        assert!(
            outcomes.contains(&&Outcome::PeerEnded) || seed > 4,
            "{outcomes:?}"
        );
        for (_, end) in &living {
            for came in &end.upper.came {
                match came.outcome {
                    Some(Outcome::Done) => assert_eq!(came.body, body),
                    other => assert_eq!((came.from, other), (Peer(1), Some(Outcome::PeerEnded))),
                }
            }
            assert_eq!(end.net.available(Channel::Request), FEW.tx_pendings as usize);
        }
        drop(dead);
    }
}

/// As above, by lines in shared memory: whoever writes what cannot be right is not listened to any more.
#[test]
fn garbage_in_lines_harms_nobody_else() {
    let tunables = ChannelTunables {
        slots: FEW.window * 4,
        block: 1024,
        blocks: 8,
    };
    let mut faults = 0;
    for seed in 0..60 {
        let fabrics = common::shm(3, &farpost_shm::ShmTunables::default());
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut ends: Vec<_> = fabrics[..2]
            .iter()
            .map(|fabric| Process::new(Rc::clone(fabric), &FEW, Taking::Later(1)))
            .collect();
        let mut post = [0, 1].map(|index| {
            let service = Service {
                control: (Port::PortalsChannel, Priority::ALL[index]),
                segments: 0x7b10_0000 + 0x10_0000 * index as u32,
                processes: 3,
            };
            Postboxes::of_service(Rc::clone(&fabrics[2]), service, &tunables)
        });
        // A first packet, which is told to go by lines.
        let first = [1, 40, 0, 0, 0, 0, 0, 0];
        let _ = fabrics[2].try_send(Peer(0), Port::Portals, Priority::Low, &first);
        let (mut sent, wanted) = (0, 30);
        for round in 0.. {
            assert!(round < 400_000, "{:?}", ends[0].net.figures());
            if sent < wanted {
                let body = pattern(u64::from(sent), [8, 500, 9000, 100][sent as usize % 4]);
                let header = header(1, 0, Channel::Request, sent + 1);
                sent += u32::from(ends[1].send(0, Channel::Request, &header, &body));
            }
            ends.iter_mut().for_each(|end| _ = end.turn());
            let index = rng.usize(0..2);
            if round < 200 && post[index].room(Peer(0)) >= 4 {
                let mut lines = [[0u64; 8]; 4];
                let (form, header, bytes) = (rng.u64(1..4), rng.u64(30..50), rng.u64(40..180));
                let title = form << 32 | header << 40 | bytes << 48;
                lines.as_flattened_mut().iter_mut().for_each(|word| {
                    *word = if rng.u8(..) < 60 {
                        rng.u64(..)
                    } else {
                        rng.u64(0..20)
                    };
                });
                lines[0][0] = title | rng.u64(..) & 0xffff_ffff;
                // The word of a packet, mostly nearly right.
                lines[0][1] = rng.u64(2..8) | rng.u64(..) & 0x38 | rng.u64(36..50) << 8 | rng.u64(0..9) << 16;
                let count = rng.usize(1..=4);
                post[index].post_run(Peer(0), &lines[..count], 0);
            }
            post.iter_mut().for_each(|post| _ = post.poll_control());
            let from_1 = ends[0].upper.came.iter();
            let from_1 = from_1.filter(|came| came.from == Peer(1) && came.outcome.is_some());
            if from_1.count() == wanted as usize && round >= 200 {
                break;
            }
        }
        let from_1 = ends[0].upper.came.iter().filter(|came| came.from == Peer(1));
        for (number, came) in from_1.enumerate() {
            assert_eq!(came.outcome, Some(Outcome::Done));
            assert_eq!(came.body, pattern(number as u64, [8, 500, 9000, 100][number % 4]));
        }
        faults += ends[0].net.figures().faults;
    }
    assert!(faults >= 40, "{faults}");
}
