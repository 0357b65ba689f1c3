//! Each of the paper's features on and off, frames of all sizes, and what moves while the host computes.
#![cfg(not(loom))]

mod support;

use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::{PacketQueue, Port, Priority};
use farpost_fm::wire::HEADER_BYTES;
use farpost_fm::{Buffers, Flow, Fm, FmConfig, FmError, FmTunables, Interpret, LONG_WORDS, Sending, Tended};
use std::cell::RefCell;
use std::rc::Rc;
use support::{MESSAGE, SMALL, STREAM, message, number};

const NODES: u32 = 3;
const LONGEST_STREAM: usize = 2000;

type Node = Fm<InProc, LONG_WORDS>;
/// A message under way, its bytes, and how many have left.
type Stream = (Sending<InProc, LONG_WORDS>, Vec<u8>, usize);
/// Node, sender, kind, bytes.
type Log = Rc<RefCell<Vec<(u32, u32, u32, Vec<u8>)>>>;

fn made(size: u32, seed: u64, network: Config, config: &FmConfig) -> (Network, Vec<Node>, Log) {
    let log = Log::default();
    let ends = Network::new(size, seed, network);
    let network = ends[0].network().clone();
    let node = |end| {
        let fm: Node = Fm::with_config(Rc::new(end), config, &Default::default(), 8).unwrap();
        let (me, seen) = (fm.node(), Rc::clone(&log));
        fm.register_message_handler(MESSAGE, move |_, from, bytes| {
            seen.borrow_mut().push((me, from.0, MESSAGE, bytes.to_vec()));
        })
        .unwrap();
        let seen = Rc::clone(&log);
        fm.register_handler(STREAM, move |_, receive, from| {
            let mut head = [0; 8];
            receive.receive(&mut head).unwrap();
            let len = u32::from_le_bytes(head[4..].try_into().unwrap()) as usize;
            let mut whole = head.to_vec();
            whole.resize(len, 0);
            receive.receive(&mut whole[8..]).unwrap();
            assert!(receive.at_end().unwrap());
            seen.borrow_mut().push((me, from.0, STREAM, whole));
            Flow::Continue
        })
        .unwrap();
        fm
    };
    (network, ends.into_iter().map(node).collect(), log)
}

fn settle(network: &Network, nodes: &[Node]) {
    for turn in 0.. {
        assert!(turn < 100_000, "something is outstanding for ever");
        let mut handled = 0;
        for node in nodes {
            handled += node.extract(usize::MAX);
        }
        network.step();
        if handled == 0 && turn > 200 && nodes.iter().all(Fm::is_settled) {
            break;
        }
    }
    for node in nodes {
        assert_eq!(node.take_faults(), (vec![], 0));
    }
}

/// All of Table 4 and what lies between its rows.
fn configurations() -> Vec<FmConfig> {
    let mut all = vec![];
    for buffers in [Buffers::None, Buffers::AsNeeded, Buffers::Always] {
        for flow_control in [true, false] {
            for interpret in [Interpret::Host, Interpret::Network] {
                for frame in [16, 40, 128, 584] {
                    all.push(FmConfig {
                        lengths: SMALL,
                        frame,
                        buffers,
                        flow_control,
                        interpret,
                    });
                }
            }
        }
    }
    all
}

/// Whatever the features, everything arrives once, and streams in order.
#[test]
fn every_configuration_delivers_everything_once() {
    for (at, config) in configurations().iter().enumerate() {
        for seed in 0..3 {
            let (network, nodes, log) = made(NODES, seed, Config::default(), config);
            let mut rng = fastrand::Rng::with_seed(seed);
            let (mut sent, mut streamed) = ([[0; 3]; 3], [[0; 3]; 3]);
            let mut streams: Vec<Option<Stream>> = (0..NODES).map(|_| None).collect();
            let mut turn = 0;
            while turn < 400 || streams.iter().any(Option::is_some) {
                turn += 1;
                assert!(turn < 100_000, "{config:?}: a stream never ends");
                let from = rng.u32(0..NODES);
                let (fm, to) = (&nodes[from as usize], rng.u32(0..NODES));
                if turn < 400 {
                    let number = &mut sent[from as usize][to as usize];
                    let bytes = message(from, to, *number, config.frame);
                    *number += u32::from(fm.try_send(to, MESSAGE, &bytes).unwrap());
                    if rng.bool()
                        && let Some(sending) = fm.begin_message(to, LONGEST_STREAM, STREAM).unwrap()
                    {
                        let number = &mut streamed[from as usize][to as usize];
                        let bytes = message(from, to, *number, LONGEST_STREAM);
                        *number += 1;
                        streams[from as usize] = Some((sending, bytes, 0));
                    }
                }
                if let Some((sending, bytes, done)) = &mut streams[from as usize] {
                    *done += sending.try_piece(&bytes[*done..]).unwrap();
                    if *done == bytes.len() && sending.try_end().unwrap() {
                        streams[from as usize] = None;
                    }
                }
                match rng.u32(0..4) {
                    0 => _ = fm.extract(rng.usize(1..300)),
                    1 => _ = fm.extract(usize::MAX),
                    2 => _ = fm.tend(),
                    _ => fm.drain(),
                }
                network.step();
            }
            settle(&network, &nodes);
            let log = log.borrow();
            for from in 0..NODES {
                for to in 0..NODES {
                    let seen = |kind| {
                        let these = log
                            .iter()
                            .filter(move |one| (one.0, one.1, one.2) == (to, from, kind));
                        these.map(|one| one.3.clone()).collect::<Vec<_>>()
                    };
                    let wanted = |count: u32, longest| {
                        (0..count)
                            .map(|n| message(from, to, n, longest))
                            .collect::<Vec<_>>()
                    };
                    let mut messages = seen(MESSAGE);
                    if config.flow_control {
                        messages.sort_by_key(|bytes| number(bytes));
                    }
                    let (sent, streamed) = (
                        sent[from as usize][to as usize],
                        streamed[from as usize][to as usize],
                    );
                    assert!(
                        messages == wanted(sent, config.frame),
                        "{at}, {config:?}, {from} to {to}"
                    );
                    assert!(
                        seen(STREAM) == wanted(streamed, LONGEST_STREAM),
                        "{at}, {config:?}, {from} to {to}"
                    );
                }
            }
        }
    }
}

fn with(change: impl Fn(&mut FmConfig)) -> FmConfig {
    let mut config = FmConfig {
        lengths: SMALL,
        ..FmConfig::default()
    };
    change(&mut config);
    config
}

/// Send as much as goes to a receiver that takes nothing: how many.
fn stuffed(network: &Network, from: &Node, most: u32) -> u32 {
    let mut sent = 0;
    for _ in 0..1000 {
        sent += u32::from(sent < most && from.try_send(1, MESSAGE, &message(0, 1, sent, 16)).unwrap());
        from.extract(usize::MAX);
        network.settle();
    }
    sent
}

/// What bounds a sender whose receiver makes no call, feature by feature: the network alone, queues beside it, the window.
#[test]
fn each_feature_bounds_a_sender_in_its_own_way() {
    let network_of = Config {
        queue_packets: 5,
        full_every: 0,
        ..Config::default()
    };
    let most = |config: &FmConfig| {
        let (network, nodes, _) = made(2, 1, network_of.clone(), config);
        let sent = stuffed(&network, &nodes[0], 1000);
        settle(&network, &nodes);
        sent
    };
    let bare = with(|c| (c.buffers, c.flow_control) = (Buffers::None, false));
    assert_eq!(most(&bare), 5, "the network's queue");
    let buffered = with(|c| c.flow_control = false);
    assert_eq!(most(&buffered), 5 + 8, "and the send queue");
    assert_eq!(most(&with(|_| ())), 8, "the window");
    assert_eq!(
        most(&with(|c| c.buffers = Buffers::None)),
        5,
        "the network before the window"
    );
}

/// Without flow control nothing travels but what the program sends; with it, the receiver acknowledges.
#[test]
fn without_flow_control_there_are_no_acknowledgements_and_nothing_goes_back() {
    let packets = |flow_control| {
        let config = with(|c| c.flow_control = flow_control);
        let (network, nodes, _) = made(
            2,
            2,
            Config::counting(farpost_fabric::inproc::Costs::NOTHING),
            &config,
        );
        network.record();
        for number in 0..40 {
            while !nodes[0].try_send(1, MESSAGE, &message(0, 1, number, 16)).unwrap() {
                nodes[0].extract(usize::MAX);
                nodes[1].extract(1);
                network.step();
            }
        }
        settle(&network, &nodes);
        let packets = network.arrivals().into_iter().filter(|one| one.what == "packet");
        (packets.count(), nodes[1].figures())
    };
    let (without, figures) = packets(false);
    assert_eq!(without, 40);
    assert_eq!((figures.explicit, figures.rejected, figures.accepted), (0, 0, 40));
    let (with, figures) = packets(true);
    assert!(with > 40 && figures.explicit > 0, "{figures:?}");
}

/// With `Always` a frame waits in the host receive queue even where everything is extracted, and costs the copies through the queues.
#[test]
fn the_four_queues_are_the_path_where_they_are_asked_for() {
    let charged = |buffers| {
        let config = with(|c| c.buffers = buffers);
        let costs = farpost_fabric::inproc::Costs::COPIES;
        let (network, nodes, _) = made(2, 3, Config::counting(costs), &config);
        let (send, _) = network.charged(|| assert!(nodes[0].try_send(1, MESSAGE, &[5; 100]).unwrap()));
        network.settle();
        let (receive, _) = network.charged(|| assert_eq!(nodes[1].extract(usize::MAX), 100));
        (send, receive)
    };
    let frame = HEADER_BYTES as u64 + 100;
    assert_eq!(charged(Buffers::None), (100, frame));
    assert_eq!(charged(Buffers::AsNeeded), (100, frame));
    assert_eq!(charged(Buffers::Always), (100 + 2 * frame, 3 * frame));
}

/// A frame carries no more than it is made for; longer messages go in pieces of that.
#[test]
fn the_frame_size_is_what_the_configuration_says() {
    let config = with(|c| c.frame = 584);
    let (network, nodes, log) = made(
        2,
        4,
        Config::counting(farpost_fabric::inproc::Costs::NOTHING),
        &config,
    );
    assert_eq!(nodes[0].frame(), 584);
    assert!(nodes[0].try_send(1, MESSAGE, &[1; 584]).unwrap());
    let refused = nodes[0].try_send(1, MESSAGE, &[1; 585]);
    assert_eq!(
        refused,
        Err(FmError::TooLong {
            bytes: 585,
            most: 584
        })
    );
    settle(&network, &nodes);
    assert_eq!(log.borrow()[0], (1, 0, MESSAGE, vec![1; 584]));

    let frames = |frame| {
        let config = with(|c| c.frame = frame);
        let (network, nodes, _) = made(
            2,
            4,
            Config::counting(farpost_fabric::inproc::Costs::NOTHING),
            &config,
        );
        let mut sending = nodes[0].begin_message(1, 1000, STREAM).unwrap().unwrap();
        let mut bytes = vec![0; 1000];
        bytes[4..8].copy_from_slice(&1000_u32.to_le_bytes());
        let mut done = 0;
        while done < bytes.len() {
            done += sending.try_piece(&bytes[done..]).unwrap();
            nodes.iter().for_each(|node| _ = node.extract(usize::MAX));
            network.settle();
        }
        while !sending.try_end().unwrap() {}
        settle(&network, &nodes);
        nodes[0].figures().sent
    };
    assert_eq!((frames(584), frames(128), frames(100)), (2, 8, 10));
}

#[test]
fn frames_that_do_not_fit_are_refused_by_name() {
    let make = |frame| {
        let end = Network::new(1, 1, Config::default()).pop().unwrap();
        let made = Fm::<_, LONG_WORDS>::with_config(
            Rc::new(end),
            &with(|c| c.frame = frame),
            &Default::default(),
            8,
        );
        made.err()
    };
    let most = InProc::PACKET_BYTES - HEADER_BYTES;
    for bytes in [0, 15, most + 1, 601, 1 << 20] {
        let (least, most) = (16, most);
        assert_eq!(make(bytes), Some(FmError::FrameSize { bytes, least, most }));
    }
    assert_eq!((make(16), make(most)), (None, None));
    // Where frames have room for those of FM 1.0, more is refused though packets would have room.
    let end = Network::new(1, 1, Config::default()).pop().unwrap();
    let small: Result<Fm<InProc>, _> =
        Fm::with_config(Rc::new(end), &with(|c| c.frame = 129), &Default::default(), 8);
    assert!(matches!(small.err(), Some(FmError::FrameSize { most: 128, .. })));
}

/// The LANai's part: the host receive queue fills while the receiver extracts nothing, what it holds is acknowledged, and what has no room stays where
/// it is, neither returned nor sent again.
#[test]
fn the_network_drains_while_the_host_computes() {
    const RECEIVE: u32 = 4;
    let few = Config {
        queue_packets: 2,
        full_every: 0,
        ..Config::default()
    };
    for interpret in [Interpret::Network, Interpret::Host] {
        let config = with(|c| c.interpret = interpret);
        let (network, nodes, log) = made(2, 5, few.clone(), &config);
        let mut sent = 0;
        let mut step = |tends: bool| {
            sent += u32::from(nodes[0].try_send(1, MESSAGE, &message(0, 1, sent, 16)).unwrap());
            nodes[0].extract(usize::MAX);
            network.settle();
            tends.then(|| nodes[1].tend());
            network.settle();
            (sent, nodes[0].is_settled())
        };
        // Nobody tends: what is sent stays in the network.
        assert_eq!(step(false), (1, false));
        assert_eq!(step(false), (2, false));
        // What arrives in the host receive queue has left the network.
        for _ in 2..RECEIVE {
            step(true);
        }
        let waiting = |priority| nodes[1].fabric().packets_waiting(Port::Fm, priority, 9);
        assert_eq!(waiting(Priority::Low), 0);
        if interpret == Interpret::Network {
            nodes[0].extract(usize::MAX);
            assert!(nodes[0].is_settled(), "the queue's frames are acknowledged");
        }
        // There is no more room.
        for _ in 0..20 {
            step(true);
        }
        let (figures, last) = (nodes[1].figures(), nodes[1].tend());
        assert_eq!((figures.rejected, last), (0, Tended::Nothing), "{interpret:?}");
        assert_eq!(waiting(Priority::Low), 2);
        let accepted = if interpret == Interpret::Network {
            RECEIVE
        } else {
            0
        };
        assert_eq!(figures.accepted, u64::from(accepted));
        assert!(log.borrow().is_empty(), "no handler runs");
        let sent = step(true).0;
        settle(&network, &nodes);
        assert_eq!(log.borrow().len() as u32, sent);
    }
}

/// A sender that computes sends what waits, and again what came back.
#[test]
fn what_came_back_is_sent_again_while_the_host_computes() {
    let (network, nodes, log) = made(2, 6, Config::default(), &with(|_| ()));
    let mut sent = 0;
    while nodes[0].figures().returned == 0 {
        sent += u32::from(nodes[0].try_send(1, MESSAGE, &message(0, 1, sent, 16)).unwrap());
        nodes[1].extract(1);
        network.step();
        nodes[0].drain();
    }
    assert!(!nodes[0].is_settled());
    for turn in 0.. {
        assert!(turn < 10_000, "never sent again");
        nodes[0].tend();
        nodes[1].extract(usize::MAX);
        network.step();
        if nodes[0].is_settled() && nodes[0].tend() == Tended::Nothing {
            break;
        }
    }
    assert_eq!(log.borrow().len() as u32, sent);
}

#[test]
fn what_carries_mpi_has_features_of_its_own() {
    let config = FmConfig::from(&FmTunables::default());
    assert_eq!((config.frame, config.buffers), (128, Buffers::AsNeeded));
    assert!(config.flow_control);
}
