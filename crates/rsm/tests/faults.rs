//! Postboxes on a fabric that loses puts, and towards a process that dies.
#![cfg(not(loom))]

mod support;

use farpost_fabric::inproc::{Config, Network};
use farpost_fabric::{ErrorStatus, FabricError, Peer};
use std::rc::Rc;
use support::{SMALL, Talk, message};

const SENDER: Peer = Peer(0);
const RECEIVER: Peer = Peer(1);

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
