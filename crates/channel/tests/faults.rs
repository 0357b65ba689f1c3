//! Postboxes on a fabric that loses puts, and towards a process that dies.
#![cfg(not(loom))]

mod support;

use farpost_fabric::inproc::{Config, Network};
use farpost_fabric::{
    ErrorStatus, Fabric, FabricError, LocalMemory, Peer, Permission, RemoteMemory, SegmentId,
};
use farpost_shm::conformance::shm_ends;
use farpost_shm::{Shm, ShmTunables};
use std::collections::BTreeSet;
use std::rc::Rc;
use support::{SMALL, Talk, message};

const SENDER: Peer = Peer(0);
const RECEIVER: Peer = Peer(1);
const BYSTANDER: Peer = Peer(2);

#[test]
fn a_dead_receiver_is_reported_by_the_audit() {
    for seed in 0..20 {
        let ends: Vec<_> = Network::new(3, seed, Config::default())
            .into_iter()
            .map(Rc::new)
            .collect();
        let network = ends[0].network().clone();
        let mut talks: Vec<_> = ends.iter().map(|end| Talk::new(end, &SMALL)).collect();
        talks[0].send(RECEIVER, vec![1]);
        for _ in 0..50 {
            talks.iter_mut().for_each(Talk::progress);
            network.settle();
        }
        assert_eq!(talks[1].received[0].len(), 1, "seed {seed}");
        network.kill(RECEIVER);
        for number in 0..seed as u32 % 3 + 1 {
            talks[0].send(RECEIVER, message(SENDER, RECEIVER, number));
        }
        talks[0].push();
        talks[0].boxes.audit();
        assert!(talks[0].boxes.is_dead(RECEIVER));
        assert_eq!(talks[0].boxes.room(RECEIVER), 0);
        let (faults, _) = ends[0].take_faults();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(matches!(
            faults[0].error,
            FabricError::PeerDead { peer: RECEIVER, .. }
        ));
        // Others are reached as before.
        talks[0].send(Peer(2), vec![2]);
        for _ in 0..50 {
            talks[0].progress();
            talks[2].progress();
            network.settle();
        }
        assert_eq!(talks[2].received[0].len(), 1);
    }
}

/// Whatever is lost: what arrives is right and in order up to the loss, and the loss is reported.
#[test]
fn lost_puts_are_reported_and_nothing_wrong_is_delivered() {
    let mut losses = 0;
    for seed in 0..60 {
        let config = Config {
            put_error_every: 40,
            ..Config::default()
        };
        let ends: Vec<_> = Network::new(2, seed, config).into_iter().map(Rc::new).collect();
        let network = ends[0].network().clone();
        let mut talks: Vec<_> = ends.iter().map(|end| Talk::new(end, &SMALL)).collect();
        for number in 0..40 {
            talks[0].send(RECEIVER, message(SENDER, RECEIVER, number));
        }
        for _ in 0..400 {
            talks.iter_mut().for_each(Talk::progress);
            network.step();
        }
        network.settle();
        talks.iter_mut().for_each(Talk::progress);
        let received = &talks[1].received[0];
        for (number, bytes) in received.iter().enumerate() {
            let expected = message(SENDER, RECEIVER, number as u32);
            assert!(*bytes == expected, "seed {seed}, message {number}");
        }
        let reported = ends.iter().any(|end| !end.take_faults().0.is_empty());
        assert!(received.len() == 40 || reported, "seed {seed}: silence");
        losses += u32::from(reported);
    }
    assert!(losses > 10);
}

/// Most blocks that one receiver may have of the pool that it shares: three times as many as it leaves.
const SHARE: u64 = 3 * SMALL.blocks / 4;

/// Post to `to` until it has its share of the pool; how many blocks that took.
fn fill_pool<F: Fabric>(talk: &mut Talk<F>, to: Peer) -> u64 {
    let mut blocks = 0;
    while let Some(block) = talk.boxes.take_block(to) {
        talk.boxes.post_block(
            to,
            &[0, 3000, u64::from(block), 1024, 0, 0, 0, 0],
            Some(block),
            1024,
        );
        blocks += 1;
    }
    blocks
}

/// Three processes on shared memory, the first connected to both others.
fn three() -> (Vec<Rc<Shm>>, Vec<Talk<Shm>>) {
    let ends: Vec<_> = shm_ends(3, &ShmTunables::default())
        .into_iter()
        .map(Rc::new)
        .collect();
    let mut talks: Vec<_> = ends.iter().map(|end| Talk::new(end, &SMALL)).collect();
    for to in [RECEIVER, BYSTANDER] {
        talks[0].send(to, vec![1]);
    }
    for _ in 0..10 {
        talks.iter_mut().for_each(Talk::progress);
    }
    assert_eq!(ends[0].take_faults().0, vec![]);
    (ends, talks)
}

#[test]
fn blocks_of_a_receiver_that_ended_come_back() {
    let (mut ends, mut talks) = three();
    assert_eq!(fill_pool(&mut talks[0], RECEIVER), SHARE);
    // As long as it lives it may take its time.
    for _ in 0..100 {
        talks[0].progress();
    }
    // What it leaves is there for others, and comes back while it takes nothing.
    for round in 0..3u8 {
        talks[0].send(BYSTANDER, vec![round; 9000]);
        for _ in 0..40 {
            talks.iter_mut().skip(2).for_each(Talk::progress);
            talks[0].progress();
        }
        assert_eq!(talks[2].received[0].back(), Some(&vec![round; 9000]));
    }
    assert_eq!(talks[0].boxes.take_block(RECEIVER), None);
    assert!(!talks[0].boxes.is_dead(RECEIVER));
    drop((talks.remove(1), ends.remove(1)));
    let closed = (0..100).filter(|_| talks[0].boxes.audit()).count();
    assert_eq!(closed, 1);
    assert!(talks[0].boxes.is_dead(RECEIVER));
    assert_eq!(talks[0].boxes.room(RECEIVER), 0);
    let (faults, _) = ends[0].take_faults();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(matches!(
        faults[0].error,
        FabricError::PeerDead { peer: RECEIVER, .. }
    ));
    // All that one may have, and once each.
    let again: BTreeSet<_> = (0..SMALL.blocks)
        .filter_map(|_| talks[0].boxes.take_block(BYSTANDER))
        .collect();
    assert_eq!(again.len(), SHARE as usize);
    assert_eq!(talks[0].boxes.take_block(BYSTANDER), None);
    again
        .into_iter()
        .for_each(|block| talks[0].boxes.return_block(BYSTANDER, block));
    talks[0].send(BYSTANDER, vec![7; 3000]);
    for _ in 0..10 {
        talks.iter_mut().for_each(Talk::progress);
    }
    assert_eq!(talks[1].received[0].back(), Some(&vec![7; 3000]));
}

/// A bad ack closes the queue, but its receiver may still be reading: other messages do not get those blocks
/// before it has ended.
#[test]
fn blocks_of_a_closed_queue_stay_while_its_receiver_lives() {
    let (mut ends, mut talks) = three();
    assert_eq!(fill_pool(&mut talks[0], RECEIVER), SHARE);
    let area = ends[0].import(SENDER, SegmentId(0x40_0000), 64, Permission::ReadWrite);
    let ack = farpost_channel::Layout::new(&SMALL, 3).ack(RECEIVER.0);
    area.unwrap().store(ack, u64::MAX);
    for _ in 0..100 {
        talks[0].progress();
    }
    assert!(talks[0].boxes.is_dead(RECEIVER));
    assert_eq!(ends[0].take_faults().0.len(), 1);
    let left = (0..SMALL.blocks).filter(|_| talks[0].boxes.take_block(BYSTANDER).is_some());
    // The last is for one who has none.
    let taken = SMALL.blocks - SHARE - 1;
    assert_eq!(left.count() as u64, taken);
    drop((talks.remove(1), ends.remove(1)));
    for _ in 0..100 {
        talks[0].boxes.audit();
    }
    let again = (0..SMALL.blocks).filter(|_| talks[0].boxes.take_block(BYSTANDER).is_some());
    assert_eq!(again.count() as u64, SHARE - taken);
    // It was reported when its queue was closed.
    assert_eq!(ends[0].take_faults().0, vec![]);
}

/// A receiver that dies while its queue rests is reported when something is sent to it again; one that lives takes no harm from a
/// sender that dies there.
#[test]
fn ends_die_while_a_queue_rests() {
    for seed in 0..20 {
        for dying in [SENDER, RECEIVER] {
            let ends: Vec<_> = Network::new(3, seed, Config::default())
                .into_iter()
                .map(Rc::new)
                .collect();
            let network = ends[0].network().clone();
            let mut talks: Vec<_> = ends.iter().map(|end| Talk::new(end, &SMALL)).collect();
            for to in [RECEIVER, BYSTANDER] {
                talks[0].send(to, vec![3; 3000]);
            }
            for _ in 0..60 {
                talks.iter_mut().for_each(Talk::progress);
                network.settle();
            }
            assert_eq!(talks[1].received[0].len(), 1, "seed {seed}");
            for _ in 0..seed % 5 {
                talks.iter_mut().for_each(Talk::rest);
                network.step();
            }
            network.kill(dying);
            if dying == RECEIVER {
                talks[0].send(RECEIVER, vec![4]);
                talks[0].send(BYSTANDER, vec![5]);
            }
            for _ in 0..60 {
                for (index, talk) in talks.iter_mut().enumerate() {
                    if index != dying.index() {
                        talk.progress();
                    }
                }
                network.settle();
            }
            if dying == RECEIVER {
                assert!(talks[0].boxes.is_dead(RECEIVER), "seed {seed}");
                assert!(!ends[0].take_faults().0.is_empty());
                assert_eq!(talks[2].received[0].pop_back(), Some(vec![5]));
            } else {
                assert_eq!(ends[1].take_faults(), (vec![], 0));
                assert_eq!(ends[2].take_faults(), (vec![], 0));
            }
        }
    }
}
