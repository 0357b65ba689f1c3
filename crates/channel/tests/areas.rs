//! Postbox areas on every fabric: nothing is lost, doubled, reordered or changed, whatever the fabric does.
#![cfg(not(loom))]

mod support;

use farpost_channel::ChannelTunables;
use farpost_fabric::conformance::{End, Harness, InProcHarness};
use farpost_fabric::inproc::Config;
use farpost_fabric::{Counter, Counters, Fabric, Peer};
use farpost_shm::conformance::ShmThreads;
use support::{SMALL, Talk, drive, message};

/// Queues and blocks of a page each, which are given back one by one.
const PAGES: ChannelTunables = ChannelTunables {
    slots: 64,
    block: 4096,
    blocks: 8,
};

fn no_faults<F: Fabric>(end: &End<F>) {
    assert_eq!(end.fabric.take_faults(), (vec![], 0));
}

/// Everyone talks to everyone, connections being made in all directions at once.
fn everyone_talks<H: Harness>(harness: &H, size: u32, each: u32, tunables: &ChannelTunables) {
    harness.run(size, async |end: &End<H::Fabric>| {
        let me = end.fabric.me();
        let mut talk = Talk::new(&end.fabric, tunables);
        let mut rng = fastrand::Rng::with_seed(u64::from(me.0));
        let mut sent = vec![0; size as usize];
        let mut seen = vec![0; size as usize];
        let all: Vec<Peer> = (0..size).map(Peer).collect();
        loop {
            for &to in &all {
                if sent[to.index()] < each && talk.waiting(to) < 3 && rng.bool() {
                    talk.send(to, message(me, to, sent[to.index()]));
                    sent[to.index()] += 1;
                }
            }
            if rng.u32(0..3) > 0 {
                talk.progress();
            }
            for &from in &all {
                while let Some(bytes) = talk.received[from.index()].pop_front() {
                    let expected = message(from, me, seen[from.index()]);
                    assert!(
                        bytes == expected,
                        "message {} of {from} to {me}",
                        seen[from.index()]
                    );
                    seen[from.index()] += 1;
                }
            }
            let done = |p: &Peer| sent[p.index()] == each && seen[p.index()] == each && talk.waiting(*p) == 0;
            if all.iter().all(done) {
                break;
            }
            no_faults(end);
            end.pause().await;
        }
        drive(end, &mut talk, "the last acks", |talk| {
            all.iter().all(|p| talk.boxes.drained(*p))
        })
        .await;
        // Who is drained may leave only when the others are: they may still need our acks.
        let mut arrived = false;
        end.post(me.index(), 1);
        drive(end, &mut talk, "the others", |_| {
            arrived |= (0..size as usize).all(|i| end.posted(i) == 1);
            arrived
        })
        .await;
        no_faults(end);
        end.barrier().await;
        for &peer in &all {
            let postboxes = end.fabric.counter(peer, me, Counter::Sent);
            assert_eq!(end.fabric.counter(me, peer, Counter::Received), postboxes);
            let bytes: usize = (0..each).map(|i| message(peer, me, i).len()).sum();
            assert_eq!(end.fabric.counter(peer, me, Counter::SentBytes), bytes as u64);
            assert_eq!(end.fabric.counter(me, peer, Counter::ReceivedBytes), bytes as u64);
        }
    });
}

/// A receiver that takes nothing stops its sender at exactly the size of the queue.
fn back_pressure<H: Harness>(harness: &H) {
    harness.run(2, async |end: &End<H::Fabric>| {
        let mut talk = Talk::new(&end.fabric, &SMALL);
        for round in 0..4 {
            if end.me() == 0 {
                let mut posted = 0;
                end.until("the connection", || {
                    talk.boxes.poll_control();
                    talk.boxes.room(Peer(1)) > 0
                })
                .await;
                while talk.boxes.room(Peer(1)) > 0 {
                    talk.boxes.post(Peer(1), &[0, posted, 0, 0, 0, 0, 0, 0], 0);
                    posted += 1;
                }
                assert_eq!(posted, 16, "round {round}");
                for _ in 0..100 {
                    assert_eq!(talk.boxes.room(Peer(1)), 0);
                    end.pause().await;
                }
                assert!(!talk.boxes.drained(Peer(1)));
                assert!(end.fabric.counter(Peer(0), Peer(1), Counter::Stalls) >= 100);
                end.barrier().await;
                end.until("acks", || talk.boxes.drained(Peer(1))).await;
            } else {
                // Connections are taken in while no message is.
                end.until("a connection", || {
                    talk.boxes.poll_control();
                    talk.boxes.has_sender(Peer(0)) && !talk.boxes.control_pending()
                })
                .await;
                end.barrier().await;
                for expected in 0..16 {
                    end.until("a postbox", || talk.boxes.peek(Peer(0)).is_some())
                        .await;
                    let line = talk.boxes.peek(Peer(0)).unwrap();
                    assert_eq!(line[1], expected);
                    assert_eq!(line[0] as u32, round * 16 + expected as u32 + 1);
                    talk.boxes.consume(Peer(0), 1, 0);
                }
                assert!(talk.boxes.peek(Peer(0)).is_none());
                talk.boxes.settle();
            }
            end.barrier().await;
        }
        no_faults(end);
    });
}

/// Blocks run out, come back when their postboxes are consumed, and only then.
fn blocks_are_recycled<H: Harness>(harness: &H) {
    harness.run(2, async |end: &End<H::Fabric>| {
        let mut talk = Talk::new(&end.fabric, &SMALL);
        let peer = end.next();
        // A pool at home is there for others too.
        let most = if farpost_fabric::RemoteMemory::maps(&*end.fabric, peer) {
            6
        } else {
            8
        };
        if end.me() == 0 {
            end.until("the connection", || {
                talk.boxes.poll_control();
                talk.boxes.room(peer) > 0
            })
            .await;
            for round in 0..5u8 {
                let mut blocks = Vec::new();
                while let Some(block) = talk.boxes.take_block(peer) {
                    assert!(!blocks.contains(&block));
                    blocks.push(block);
                }
                assert_eq!(blocks.len(), most, "round {round}");
                // One goes back unused; the others are posted.
                talk.boxes.return_block(peer, blocks.pop().unwrap());
                for (i, block) in blocks.into_iter().enumerate() {
                    let bytes = [round * 16 + i as u8; 1024];
                    talk.boxes.write_block(peer, block, 0, &bytes);
                    let line = [0, u64::from(block), 0, 0, 0, 0, 0, 0];
                    talk.boxes.post_block(peer, &line, Some(block), 1024);
                }
                let last = talk.boxes.take_block(peer).unwrap();
                assert_eq!(talk.boxes.take_block(peer), None);
                talk.boxes.return_block(peer, last);
                end.barrier().await;
                end.until("acks", || talk.boxes.drained(peer)).await;
            }
        } else {
            end.until("a connection", || {
                talk.boxes.poll_control();
                talk.boxes.has_sender(peer) && !talk.boxes.control_pending()
            })
            .await;
            for round in 0..5u8 {
                end.barrier().await;
                for i in 0..most as u8 - 1 {
                    end.until("a postbox", || talk.boxes.peek(peer).is_some()).await;
                    let line = talk.boxes.peek(peer).unwrap();
                    let mut bytes = [0; 1024];
                    talk.boxes
                        .read_block(peer, line[1] as u32, 0, &mut bytes)
                        .unwrap();
                    assert_eq!(bytes, [round * 16 + i; 1024]);
                    talk.boxes.consume(peer, 1, 1024);
                }
                talk.boxes.settle();
            }
        }
        no_faults(end);
    });
}

/// A receiver that holds back what it would have to keep: its sender knows when it gets to know of more room, at the
/// latest, and goes on when it may.
fn held_back<H: Harness>(harness: &H) {
    harness.run(2, async |end: &End<H::Fabric>| {
        let mut talk = Talk::new(&end.fabric, &SMALL);
        let peer = end.next();
        if end.me() == 0 {
            end.until("the connection", || {
                talk.boxes.poll_control();
                talk.boxes.eager_room(peer) == 16
            })
            .await;
            for number in 0..16 {
                talk.boxes.post(peer, &[0, number, 0, 0, 0, 0, 0, 0], 0);
            }
            end.barrier().await;
            end.until("room", || talk.boxes.room(peer) > 0).await;
            assert!(talk.boxes.is_held_back(peer));
            assert_eq!(talk.boxes.eager_room(peer), 0);
            talk.boxes.post(peer, &[0, 16, 0, 0, 0, 0, 0, 0], 0);
            end.barrier().await;
            end.until("leave", || talk.boxes.eager_room(peer) > 0).await;
            assert!(!talk.boxes.is_held_back(peer));
            end.until("acks", || talk.boxes.drained(peer)).await;
        } else {
            end.until("a connection", || {
                talk.boxes.poll_control();
                talk.boxes.has_sender(peer) && !talk.boxes.control_pending()
            })
            .await;
            end.barrier().await;
            for number in 0..17 {
                end.until("a postbox", || talk.boxes.peek(peer).is_some()).await;
                assert_eq!(talk.boxes.peek(peer).unwrap()[1], number);
                if number == 0 {
                    talk.boxes.hold_back(peer, true);
                }
                talk.boxes.consume(peer, 1, 0);
            }
            talk.boxes.settle();
            end.barrier().await;
            talk.boxes.hold_back(peer, false);
        }
        end.barrier().await;
        no_faults(end);
    });
}

/// Rendezvous slots are memory that both ends share, where the fabric maps; elsewhere there is none.
fn slot<H: Harness>(harness: &H) {
    use farpost_fabric::RemoteMemory;
    harness.run(2, async |end: &End<H::Fabric>| {
        let mut talk = Talk::new(&end.fabric, &SMALL);
        let peer = end.next();
        talk.send(peer, vec![1, 2, 3]);
        drive(end, &mut talk, "a message", |talk| {
            !talk.received[peer.index()].is_empty()
                && talk.waiting(peer) == 0
                && !talk.boxes.control_pending()
        })
        .await;
        let (mine, theirs) = (talk.boxes.my_slots(), talk.boxes.slots_of(peer));
        assert_eq!(mine.is_some(), <H::Fabric as RemoteMemory>::MAPPED);
        assert_eq!(theirs.is_some(), mine.is_some());
        if let (Some(mine), Some(theirs)) = (mine, theirs) {
            for _ in 0..1000 {
                mine.fetch_add(3, 1, 1);
                theirs.fetch_add(3, 1, 1);
            }
            theirs.store(255, 7, 9);
            end.barrier().await;
            assert_eq!((mine.load(3, 1), mine.load(255, 7)), (2000, 9));
            assert_eq!(mine.load(2, 1), 0);
        }
        end.barrier().await;
    });
}

fn all<H: Harness>(harness: &H, each: u32) {
    everyone_talks(harness, 2, each, &SMALL);
    everyone_talks(harness, 3, each / 2, &SMALL);
    everyone_talks(harness, 2, each / 2, &ChannelTunables::default());
    everyone_talks(harness, 3, each / 2, &PAGES);
    everyone_talks(harness, 1, each / 4, &SMALL);
    back_pressure(harness);
    blocks_are_recycled(harness);
    held_back(harness);
    slot(harness);
}

#[test]
fn on_shared_memory() {
    all(&ShmThreads::default(), 1000);
}

#[test]
fn on_shared_memory_with_cores_to_spare() {
    let harness = ShmThreads {
        cores: 64,
        ..ShmThreads::default()
    };
    all(&harness, 300);
}

#[test]
fn without_mapping_over_many_seeds() {
    for seed in 0..20 {
        eprintln!("seed {seed}");
        all(&InProcHarness::new(seed), 80);
    }
}

#[test]
fn without_mapping_at_the_extremes() {
    for seed in 0..3 {
        let slow = Config {
            queue_packets: 1,
            full_every: 2,
            longest_delay: 300,
            largest_piece: 16,
            ..Config::default()
        };
        let quick = Config {
            longest_delay: 0,
            largest_piece: 4096,
            ..Config::default()
        };
        for config in [slow, quick] {
            all(&InProcHarness { seed, config }, 40);
        }
    }
}
