//! Routes and priorities: what keeps its order, and what holds up what.

mod support;

use farpost_fabric::inproc::{InProc, Network};
use farpost_fabric::{Peer, Priority};
use farpost_jam::pio::TRANSMIT;
use farpost_jam::{Header, Jam, JamError, JamTunables};
use support::{jams, roomy, until};

/// In how many of a hundred runs messages, `header` makes the header of each, arrive in another order than theirs.
fn overtaken(header: impl Fn(u32) -> Header) -> usize {
    let runs = (0..100).filter(|seed| {
        let jams = jams(2, *seed, roomy(32), &JamTunables::default());
        for number in 0..16 {
            jams[0].send(&header(number), &[number, 0]).unwrap();
        }
        let mut order = Vec::new();
        until(&jams, || {
            order.extend(jams[1].receive(Priority::Low).map(|message| message.tag));
            order.len() == 16
        });
        let sorted = order.is_sorted();
        order.sort_unstable();
        assert!(order.into_iter().eq(0..16));
        !sorted
    });
    runs.count()
}

#[test]
fn the_up_route_of_a_header_reaches_the_network() {
    let plain = |tag| Header::new(Peer(1), Priority::Low, tag);
    let by = |up_route, tag| Header {
        up_route,
        ..plain(tag)
    };
    assert_eq!(overtaken(plain), 0);
    assert_eq!(overtaken(|tag| by(9, tag)), 0, "one way keeps its order");
    let two = overtaken(|tag| by(tag as u8 % 2, tag));
    let random = overtaken(|tag| Header {
        random: true,
        ..plain(tag)
    });
    assert!(two > 80 && random > 80, "{two} and {random} of 100");
}

/// Fill both the network's queue and the transmit queue of one priority, towards process 1, which takes nothing.
fn stuck(seed: u64, priority: Priority) -> Vec<Jam<InProc>> {
    let jams = jams(3, seed, roomy(8), &JamTunables::default());
    let header = Header::new(Peer(1), priority, 0);
    let mut sent = 0;
    while jams[0].send(&header, &[0, 0]).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 8 + TRANSMIT);
    jams
}

fn settled(network: &Network, jams: &[Jam<InProc>]) {
    for _ in 0..50 {
        jams.iter().for_each(|jam| {
            jam.poll();
        });
        network.settle();
    }
}

#[test]
fn high_holds_up_low() {
    for seed in 0..20 {
        let jams = stuck(seed, Priority::High);
        let network = jams[0].fabric().network().clone();
        jams[0]
            .send(&Header::new(Peer(2), Priority::Low, 7), &[1, 2])
            .unwrap();
        settled(&network, &jams);
        assert_eq!(jams[2].receive(Priority::Low), None, "low waits behind high");
        // Once the high ones are taken, it goes.
        let (mut high, mut low) = (0, None);
        until(&jams, || {
            high += usize::from(jams[1].receive(Priority::High).is_some());
            low = low.or(jams[2].receive(Priority::Low));
            low.is_some()
        });
        assert_eq!(low.map(|message| message.tag), Some(7));
        assert!(high >= TRANSMIT, "only {high} high ones went before");
    }
}

#[test]
fn low_never_holds_up_high() {
    for seed in 0..20 {
        let jams = stuck(seed, Priority::Low);
        let network = jams[0].fabric().network().clone();
        let low = Header::new(Peer(2), Priority::Low, 7);
        assert_eq!(jams[0].send(&low, &[1, 2]), Err(JamError::TransmitFull(TRANSMIT)));
        jams[0]
            .send(&Header::new(Peer(2), Priority::High, 8), &[1, 2])
            .unwrap();
        jams[0]
            .send(&Header::new(Peer(1), Priority::High, 9), &[1, 2])
            .unwrap();
        settled(&network, &jams);
        for (receiver, tag) in [(2, 8), (1, 9)] {
            let message = jams[receiver].receive(Priority::High);
            assert_eq!(message.map(|message| message.tag), Some(tag));
        }
    }
}
