//! Packet queues.

use super::{End, Harness, Outcome, panics};
use crate::{Fabric, PacketQueue, Peer, Port, Priority, Route, TrySend};
use strum::IntoEnumIterator;

const PRIORITIES: [Priority; 2] = [Priority::High, Priority::Low];

/// Payload `number` from `from` to `to`: what it is, and filling of a length that varies.
fn payload<F: PacketQueue>(from: Peer, to: Peer, priority: Priority, number: u32) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(u64::from(number) << 8 | u64::from(from.0) << 4 | u64::from(to.0));
    let mut bytes = vec![0; 6 + rng.usize(0..=F::PACKET_BYTES - 6)];
    rng.fill(&mut bytes);
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes[4] = to.0 as u8;
    bytes[5] = priority as u8;
    bytes
}

/// Every packet arrives once, with its true sender, unchanged, and in order where the fabric says so.
pub fn once_in_order<H: Harness>(harness: &H) -> Outcome {
    const SIZE: u32 = 3;
    const EACH: u32 = 150;
    harness.run(SIZE, async |end: &End<H::Fabric>| {
        let me = end.fabric.me();
        let mut sent = [[0u32; 2]; SIZE as usize];
        let mut seen = vec![[const { Vec::<u32>::new() }; 2]; SIZE as usize];
        let whole = |list: &[[Vec<u32>; 2]]| {
            let full = |p: &Peer| list[p.index()].iter().all(|s| s.len() == EACH as usize);
            end.others().all(|p| full(&p))
        };
        loop {
            for to in end.others() {
                for priority in PRIORITIES {
                    let next = &mut sent[to.index()][priority as usize];
                    if *next < EACH {
                        let bytes = payload::<H::Fabric>(me, to, priority, *next);
                        if end.fabric.try_send(to, Port::Jam, priority, &bytes) == TrySend::Sent {
                            *next += 1;
                        }
                    }
                }
            }
            while end.fabric.poll_packet(Port::Jam, |from, priority, bytes| {
                let number = u32::from_le_bytes(bytes[..4].try_into().unwrap());
                assert_eq!(bytes, payload::<H::Fabric>(from, me, priority, number));
                seen[from.index()][priority as usize].push(number);
            }) {}
            let all_sent = end.others().all(|p| sent[p.index()] == [EACH; 2]);
            if all_sent && whole(&seen) {
                break;
            }
            end.pause().await;
        }
        end.barrier().await;
        end.settle();
        assert!(
            !end.fabric.poll_packet(Port::Jam, |_, _, _| ()),
            "a packet too many"
        );
        for from in end.others() {
            for numbers in &mut seen[from.index()] {
                if !<H::Fabric as PacketQueue>::ORDERED {
                    numbers.sort_unstable();
                }
                assert!(numbers.iter().copied().eq(0..EACH));
            }
        }
        assert!(seen[me.index()].iter().all(Vec::is_empty));
    });
    Outcome::Held
}

/// Packets of one fixed route arrive in order; those by any way, and those of other routes, arrive once.
pub fn routes_keep_their_order<H: Harness>(harness: &H) -> Outcome {
    const EACH: u32 = 100;
    const ROUTES: [Route; 3] = [Route::Fixed(0), Route::Fixed(3), Route::Random];
    harness.run(2, async |end: &End<H::Fabric>| {
        if end.me() == 0 {
            for number in 0..EACH {
                for (index, route) in ROUTES.into_iter().enumerate() {
                    let bytes = [index as u8, number as u8];
                    end.until("room", || {
                        end.fabric
                            .try_send_by(route, Peer(1), Port::Jam, Priority::Low, &bytes)
                            == TrySend::Sent
                    })
                    .await;
                }
            }
        } else {
            let mut seen = [const { Vec::new() }; ROUTES.len()];
            end.until("all packets", || {
                end.fabric.poll_packet(Port::Jam, |from, _, bytes| {
                    assert_eq!((from, bytes.len()), (Peer(0), 2));
                    seen[usize::from(bytes[0])].push(u32::from(bytes[1]));
                });
                seen.iter().all(|numbers| numbers.len() == EACH as usize)
            })
            .await;
            for (numbers, route) in seen.iter_mut().zip(ROUTES) {
                if route == Route::Random || !<H::Fabric as PacketQueue>::ORDERED {
                    numbers.sort_unstable();
                }
                assert!(numbers.iter().copied().eq(0..EACH), "{route:?}: {numbers:?}");
            }
        }
        end.barrier().await;
    });
    Outcome::Held
}

/// A queue that nobody polls says *full* in the end, loses nothing, and takes more once it was polled.
pub fn full_is_said<H: Harness>(harness: &H) -> Outcome {
    const MANY: u32 = 100_000;
    harness.run(2, async |end: &End<H::Fabric>| {
        if end.me() == 0 {
            for round in 0..3 {
                let mut sent = 1u32;
                let mut refused = 0;
                // What the other end polled has made room, which may take a transport's credits a while to say.
                end.until("room", || {
                    let first = 0u32.to_le_bytes();
                    end.fabric.try_send(Peer(1), Port::Jam, Priority::Low, &first) == TrySend::Sent
                })
                .await;
                // *Full* may be said in passing; a full queue says it every time.
                while refused < 100 {
                    let bytes = sent.to_le_bytes();
                    match end.fabric.try_send(Peer(1), Port::Jam, Priority::Low, &bytes) {
                        TrySend::Sent => (sent, refused) = (sent + 1, 0),
                        TrySend::Full => refused += 1,
                    }
                    assert!(sent < MANY, "the queue has no end");
                }
                end.post(round, u64::from(sent));
                end.barrier().await;
                end.barrier().await;
            }
        } else {
            for round in 0..3 {
                end.barrier().await;
                let sent = end.posted(round) as u32;
                let mut next = 0u32;
                end.until("the packets", || {
                    while end.fabric.poll_packet(Port::Jam, |from, priority, bytes| {
                        assert_eq!((from, priority), (Peer(0), Priority::Low));
                        let number = u32::from_le_bytes(bytes.try_into().unwrap());
                        assert!(number == next || !<H::Fabric as PacketQueue>::ORDERED);
                        next += 1;
                    }) {}
                    next == sent
                })
                .await;
                end.barrier().await;
            }
        }
    });
    Outcome::Held
}

/// A full low queue holds up no high packet, and a high packet that has arrived comes first.
pub fn high_passes_low<H: Harness>(harness: &H) -> Outcome {
    harness.run(2, async |end: &End<H::Fabric>| {
        if end.me() == 0 {
            let mut refused = 0;
            while refused < 100 {
                if end.fabric.try_send(Peer(1), Port::Jam, Priority::Low, b"low") == TrySend::Full {
                    refused += 1;
                }
            }
            end.until("room for a high packet", || {
                end.fabric.try_send(Peer(1), Port::Jam, Priority::High, b"high") == TrySend::Sent
            })
            .await;
            end.barrier().await;
        } else {
            end.barrier().await;
            // Sent both; on a busy machine what was sent takes its time.
            let waits = |priority| end.fabric.packets_waiting(Port::Jam, priority, 1) > 0;
            end.until("packets of both priorities", || PRIORITIES.into_iter().all(waits))
                .await;
            end.settle();
            let mut order = Vec::new();
            while end.fabric.poll_packet(Port::Jam, |_, priority, bytes| {
                let name: &[u8] = if priority == Priority::High {
                    b"high"
                } else {
                    b"low"
                };
                assert_eq!(bytes, name);
                order.push(priority);
            }) {}
            assert_eq!(order[..2], PRIORITIES);
            assert!(order[1..].iter().all(|p| *p == Priority::Low));
        }
    });
    Outcome::Held
}

/// A port that is full holds up no other, a poll finds its own port's packets only, and what waits is counted.
pub fn ports_are_apart<H: Harness>(harness: &H) -> Outcome {
    harness.run(2, async |end: &End<H::Fabric>| {
        let lanes = || Port::iter().flat_map(|port| PRIORITIES.map(|p| (port, p)));
        let full = (Port::Fm, Priority::Low);
        if end.me() == 0 {
            let mut refused = 0;
            while refused < 100 {
                if end.fabric.try_send(Peer(1), full.0, full.1, b"full") == TrySend::Full {
                    refused += 1;
                }
            }
            for (port, priority) in lanes().filter(|lane| *lane != full) {
                // A queue may have room for one packet only.
                end.until("room at another port", || {
                    let name = [port as u8, priority as u8];
                    end.fabric.try_send(Peer(1), port, priority, &name) == TrySend::Sent
                })
                .await;
            }
            end.barrier().await;
        } else {
            end.barrier().await;
            end.settle();
            end.until("the first packet", || {
                end.fabric.packets_waiting(full.0, full.1, 1) == 1
            })
            .await;
            for (port, priority) in lanes().filter(|lane| *lane != full) {
                end.until("a packet", || end.fabric.packets_waiting(port, priority, 9) == 1)
                    .await;
                assert!(end.fabric.poll_priority(port, priority, |from, bytes| {
                    assert_eq!((from, bytes), (Peer(0), &[port as u8, priority as u8][..]));
                }));
                assert_eq!(end.fabric.packets_waiting(port, priority, 9), 0);
                assert!(!end.fabric.poll_priority(port, priority, |_, _| ()));
            }
            while (end.fabric).poll_priority(full.0, full.1, |_, bytes| assert_eq!(bytes, b"full")) {}
            assert_eq!(end.fabric.packets_waiting(full.0, full.1, 1), 0);
        }
    });
    Outcome::Held
}

/// A process may send packets to itself; empty ones and full ones too.
pub fn to_oneself<H: Harness>(harness: &H) -> Outcome {
    harness.run(1, async |end: &End<H::Fabric>| {
        let most = <H::Fabric as PacketQueue>::PACKET_BYTES;
        for len in [0, 1, 7, 8, most - 1, most] {
            let bytes = vec![len as u8; len];
            end.until("room", || {
                end.fabric.try_send(Peer(0), Port::Jam, Priority::High, &bytes) == TrySend::Sent
            })
            .await;
            let mut got = None;
            end.until("my packet", || {
                end.fabric.poll_packet(Port::Jam, |from, _, bytes| {
                    assert_eq!(from, Peer(0));
                    got = Some(bytes.to_vec());
                })
            })
            .await;
            assert_eq!(got, Some(bytes));
        }
    });
    Outcome::Held
}

/// Payloads that are too long and peers that do not exist are errors of the program.
pub fn misuse_panics<H: Harness>(harness: &H) -> Outcome {
    harness.run(2, async |end: &End<H::Fabric>| {
        let offer = |peer, len| {
            let bytes = vec![0; len];
            panics(|| end.fabric.try_send(peer, Port::Jam, Priority::Low, &bytes))
        };
        let refused = (
            offer(end.next(), <H::Fabric as PacketQueue>::PACKET_BYTES + 1),
            offer(Peer(2), 1),
        );
        assert_eq!(refused, (true, true));
        end.barrier().await;
        end.settle();
        assert!(!end.fabric.poll_packet(Port::Jam, |_, _, _| ()));
    });
    Outcome::Held
}
