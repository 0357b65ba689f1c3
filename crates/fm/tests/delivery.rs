//! Whatever happens in between, every message is delivered exactly once, and streams in order.
#![cfg(not(loom))]

mod support;

use farpost_fabric::inproc::Config;
use farpost_fabric::{Counters, Peer, Register};
use farpost_fm::FmTunables;
use proptest::prelude::*;
use support::*;

#[derive(Clone, Debug)]
enum Act {
    Send { node: u32, to: u32 },
    Stream { node: u32, to: u32 },
    Push { node: u32, most: usize },
    Extract { node: u32, bytes: usize },
    ExtractAll { node: u32 },
    Drain { node: u32 },
    Step,
}

const NODES: u32 = 3;
const LONGEST: usize = 128;
const LONGEST_STREAM: usize = 1500;

fn act() -> impl Strategy<Value = Act> {
    let node = || 0..NODES;
    prop_oneof![
        6 => (node(), node()).prop_map(|(node, to)| Act::Send { node, to }),
        2 => (node(), node()).prop_map(|(node, to)| Act::Stream { node, to }),
        4 => (node(), 1usize..400).prop_map(|(node, most)| Act::Push { node, most }),
        2 => (node(), 1usize..300).prop_map(|(node, bytes)| Act::Extract { node, bytes }),
        1 => node().prop_map(|node| Act::ExtractAll { node }),
        2 => node().prop_map(|node| Act::Drain { node }),
        3 => Just(Act::Step),
    ]
}

fn run(acts: &[Act], seed: u64, tunables: &FmTunables) {
    let (network, nodes) = nodes(NODES, seed, Config::default(), tunables);
    let mut sent = [[0; NODES as usize]; NODES as usize];
    let mut streamed = sent;
    let mut streams: Vec<Option<Stream>> = (0..NODES).map(|_| None).collect();
    for act in acts {
        match *act {
            Act::Send { node, to } => {
                let number = &mut sent[node as usize][to as usize];
                let bytes = message(node, to, *number, LONGEST);
                let fm = &nodes[node as usize].fm;
                *number += u32::from(fm.try_send(to, MESSAGE, &bytes).unwrap());
            }
            Act::Stream { node, to } => {
                let number = &mut streamed[node as usize][to as usize];
                let bytes = message(node, to, *number, LONGEST_STREAM);
                if let Some(stream) = Stream::new(&nodes[node as usize].fm, to, bytes) {
                    assert!(streams[node as usize].is_none(), "one at a time");
                    streams[node as usize] = Some(stream);
                    *number += 1;
                }
            }
            Act::Push { node, most } => {
                let stream = &mut streams[node as usize];
                if stream.as_mut().is_some_and(|stream| stream.push(most)) {
                    *stream = None;
                }
            }
            Act::Extract { node, bytes } => {
                let handled = nodes[node as usize].fm.extract(bytes);
                assert!(handled < bytes + LONGEST, "the bound is soft by one frame");
            }
            Act::ExtractAll { node } => {
                nodes[node as usize].fm.extract(usize::MAX);
            }
            Act::Drain { node } => nodes[node as usize].fm.drain(),
            Act::Step => {
                network.step();
            }
        }
    }
    for turn in 0.. {
        assert!(turn < 100_000, "a stream never ends");
        let mut open = false;
        for (node, stream) in nodes.iter().zip(&mut streams) {
            open |= stream.as_mut().is_some_and(|stream| !stream.push(1000));
            node.fm.extract(usize::MAX);
        }
        network.step();
        if !open {
            break;
        }
    }
    finish(&network, &nodes);
    for node in &nodes {
        for from in 0..NODES {
            let (from_at, to_at) = (from as usize, node.fm.node() as usize);
            assert_once(node, from, sent[from_at][to_at], LONGEST);
            assert_ordered(node, from, streamed[from_at][to_at], LONGEST_STREAM);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]
    #[test]
    fn any_interleaving_delivers_everything_once(
        acts in prop::collection::vec(act(), 1..400),
        seed in any::<u64>(),
        slots in 4u64..12,
        receive in 1u64..8,
        streams in 1u64..4,
    ) {
        run(&acts, seed, &FmTunables { slots, receive, streams, ..SMALL });
    }
}

/// A receiver that makes little room returns frames, and what came back is overtaken.
#[test]
fn rejection_reorders_messages_and_not_streams() {
    let (mut overtaken, mut rejected) = (0, 0);
    for seed in 0..8 {
        let (network, nodes) = nodes(2, seed, Config::default(), &SMALL);
        let (mut sent, mut turn) = (0, 0);
        while sent < 100 {
            turn += 1;
            let bytes = message(0, 1, sent, 16);
            sent += u32::from(nodes[0].fm.try_send(1, MESSAGE, &bytes).unwrap());
            nodes[0].fm.extract(usize::MAX);
            if turn % 4 == 0 {
                nodes[1].fm.extract(1);
            }
            network.step();
        }
        finish(&network, &nodes);
        assert_once(&nodes[1], 0, 100, 16);
        let seen: Vec<u32> = nodes[1].messages.borrow()[0]
            .iter()
            .map(|bytes| number(bytes))
            .collect();
        overtaken += seen.windows(2).filter(|pair| pair[0] > pair[1]).count();
        let figures = nodes[1].fm.figures();
        assert_eq!(figures.rejected, nodes[0].fm.figures().returned);
        assert_eq!(figures.rejected, nodes[0].fm.figures().again);
        // Who watches the processes sees as many.
        let fabric = nodes[0].fm.fabric();
        assert_eq!(fabric.register(Peer(1), Register::FmRejected), figures.rejected);
        assert_eq!(fabric.register(Peer(0), Register::FmReturned), figures.rejected);
        rejected += figures.rejected;
    }
    assert!(
        overtaken > 0 && rejected > 0,
        "{overtaken} overtaken, {rejected} rejected"
    );

    let mut rejected = 0;
    for seed in 0..8 {
        let (network, nodes) = nodes(2, seed, Config::default(), &SMALL);
        let (mut sent, mut turn, mut stream) = (0, 0, None::<Stream>);
        while sent < 20 || stream.is_some() {
            turn += 1;
            assert!(turn < 100_000, "no progress");
            if stream.is_none() {
                stream = Stream::new(&nodes[0].fm, 1, message(0, 1, sent, LONGEST_STREAM));
                sent += u32::from(stream.is_some());
            }
            if stream.as_mut().is_some_and(|stream| stream.push(500)) {
                stream = None;
            }
            nodes[0].fm.extract(usize::MAX);
            if turn % 4 == 0 {
                nodes[1].fm.extract(1);
            }
            network.step();
        }
        finish(&network, &nodes);
        assert_ordered(&nodes[1], 0, sent, LONGEST_STREAM);
        rejected += nodes[1].fm.figures().rejected;
    }
    assert!(rejected > 0);
}

/// Two runs of a seed are the same, to the byte and to the nanosecond; runs of different seeds differ.
#[test]
fn a_seed_replays_exactly() {
    let run = |seed| {
        let (network, nodes) = nodes(NODES, seed, Config::default(), &SMALL);
        network.record();
        for turn in 0..300 {
            let (from, to) = (turn % NODES, turn / NODES % NODES);
            let bytes = message(from, to, turn, LONGEST);
            nodes[from as usize].fm.try_send(to, MESSAGE, &bytes).unwrap();
            nodes[(turn / 2 % NODES) as usize].fm.extract(64);
            network.step();
        }
        finish(&network, &nodes);
        network.arrivals()
    };
    for seed in 0..5 {
        assert!(run(seed).len() > 100);
        assert!(run(seed) == run(seed), "seed {seed}");
        assert!(run(seed) != run(seed + 1), "seed {seed}");
    }
}

/// Many senders, one slow receiver: nothing is lost, and nothing piles up anywhere.
#[test]
fn soak_many_senders_one_slow_receiver() {
    const SENDERS: u32 = 7;
    const EACH: u32 = 150;
    for seed in 0..6 {
        let (network, nodes) = nodes(SENDERS + 1, seed, Config::default(), &SMALL);
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut sent = [0; SENDERS as usize];
        let mut streamed = sent;
        let mut streams: Vec<Option<Stream>> = (0..SENDERS).map(|_| None).collect();
        let mut turn = 0;
        while sent.iter().any(|n| *n < EACH) || streamed.iter().any(|n| *n < EACH / 10) {
            turn += 1;
            assert!(turn < 1_000_000, "no progress");
            let from = rng.u32(0..SENDERS);
            let (at, node) = (from as usize, &nodes[from as usize]);
            if sent[at] < EACH {
                let bytes = message(from, SENDERS, sent[at], LONGEST);
                sent[at] += u32::from(node.fm.try_send(SENDERS, MESSAGE, &bytes).unwrap());
            }
            if streams[at].is_none() && streamed[at] < EACH / 10 {
                let bytes = message(from, SENDERS, streamed[at], LONGEST_STREAM);
                streams[at] = Stream::new(&node.fm, SENDERS, bytes);
            }
            if streams[at].as_mut().is_some_and(|stream| stream.push(700)) {
                streams[at] = None;
                streamed[at] += 1;
            }
            node.fm.extract(usize::MAX);
            if rng.u32(0..6) == 0 {
                nodes[SENDERS as usize].fm.extract(rng.usize(0..200));
            }
            network.step();
        }
        finish(&network, &nodes);
        for from in 0..SENDERS {
            assert_once(&nodes[SENDERS as usize], from, EACH, LONGEST);
            assert_ordered(&nodes[SENDERS as usize], from, EACH / 10, LONGEST_STREAM);
        }
        assert!(nodes[SENDERS as usize].fm.figures().rejected > 0);
    }
}

/// Answers carry the acknowledgements: none travels alone.
#[test]
fn acknowledgements_travel_with_answers() {
    let config = Config {
        full_every: 0,
        ..Config::default()
    };
    let (network, nodes) = nodes(2, 1, config, &SMALL);
    for round in 0..100 {
        for from in [0, 1] {
            let to = 1 - from;
            assert!(
                nodes[from as usize]
                    .fm
                    .try_send(to, MESSAGE, &message(from, to, round, 16))
                    .unwrap()
            );
            network.settle();
            while nodes[to as usize].fm.extract(usize::MAX) == 0 {}
        }
    }
    for node in &nodes {
        let figures = node.fm.figures();
        assert!(figures.piggybacked >= 99 && figures.explicit == 0, "{figures:?}");
    }
    finish(&network, &nodes);
}
