//! Bad input: every value that a peer could get wrong is refused, named and counted, and the next good message arrives.
#![cfg(not(loom))]

mod support;

use farpost_fabric::inproc::{Config, Network};
use farpost_fabric::{Counter, Counters, FabricError, PacketQueue, Peer, Port, Priority, TrySend};
use farpost_fm::wire::{Acks, BEGIN, END, Frame, FrameKind, Header, OLDEST};
use farpost_fm::{Flow, Fm, FmError};
use std::cell::RefCell;
use std::rc::Rc;
use support::*;

fn plain() -> Config {
    Config {
        full_every: 0,
        queue_packets: 64,
        ..Config::default()
    }
}

/// Send a packet as it is from node 1 to node 0, and let node 0 see it: the value that the fault names.
fn refused(network: &Network, nodes: &[Node], priority: Priority, packet: &[u8]) -> (&'static str, u64) {
    let sent = nodes[1].fm.fabric().try_send(Peer(0), Port::Fm, priority, packet);
    assert_eq!(sent, TrySend::Sent);
    network.settle();
    let before = nodes[0].fm.figures().faults;
    nodes[0].fm.extract(usize::MAX);
    assert_eq!(nodes[0].fm.figures().faults, before + 1);
    let (faults, more) = nodes[0].fm.take_faults();
    assert_eq!((faults.len(), more), (1, 0), "{faults:?}");
    match &faults[0].error {
        FabricError::Corrupt { peer, what, value } => {
            assert_eq!((*peer, faults[0].peer), (Peer(1), Peer(1)));
            (what, *value)
        }
        other => panic!("{other}"),
    }
}

fn packet(kind: FrameKind, flags: u8, handler: u16, payload: &[u8], change: impl Fn(&mut Header)) -> Vec<u8> {
    let mut header = Header::new(kind, flags, handler, payload.len());
    change(&mut header);
    Frame::new(0, &header, payload).packet().to_vec()
}

#[test]
fn what_cannot_be_right_is_refused_and_the_next_message_arrives() {
    let (network, nodes) = nodes(2, 3, plain(), &SMALL);
    let good = packet(FrameKind::Message, 0, MESSAGE as u16, &[7; 8], |_| ());
    let mut lying = good.clone();
    lying[4] = 9;
    let mut shorter = good.clone();
    shorter.pop();
    let mut kind = good.clone();
    kind[0] = 0x77;
    let mut flags = good.clone();
    flags[1] = 0x40;
    let mut oversized = good.clone();
    oversized.resize(170, 1);
    oversized[4] = 154;
    let back = |header: &mut Header| header.returned = true;
    let acks = |header: &mut Header| {
        header.acks = Acks {
            messages: 3,
            pieces: 1,
        };
    };
    let low = Priority::Low;
    let high = Priority::High;
    let unknown = packet(FrameKind::Message, 0, 9, &[1; 16], |_| ());
    let outside = packet(FrameKind::Message, 0, 0x4242, &[1; 16], |_| ());
    let orphan = packet(FrameKind::Piece, OLDEST | END, STREAM as u16, &[1; 16], |_| ());
    let stranger = packet(FrameKind::Piece, OLDEST | BEGIN | END, 11, &[1; 16], |h| {
        h.seq = 1
    });
    let cases: Vec<(&str, Priority, Vec<u8>, u64)> = vec![
        ("unknown handler", low, unknown, 9),
        ("handler outside the table", low, outside, 0x4242),
        ("nothing", low, vec![], 0),
        ("half a header", low, good[..10].to_vec(), 10),
        ("longer than said", low, lying, 9),
        ("shorter than said", low, shorter, 8),
        ("kind", low, kind, 0x77),
        ("flags", low, flags, 0x40),
        ("oversized", low, oversized, 170),
        (
            "control among data",
            low,
            packet(FrameKind::Ack, 0, 0, &[], acks),
            3,
        ),
        ("data among control", high, good.clone(), 1),
        (
            "acknowledges what is not outstanding",
            high,
            packet(FrameKind::Ack, 0, 0, &[], acks),
            4,
        ),
        (
            "returns what was never sent",
            high,
            packet(FrameKind::Message, 0, 1, &[1; 4], back),
            0,
        ),
        ("a piece of nothing", low, orphan, u64::from(STREAM)),
        ("a stream for nobody", low, stranger, 11),
    ];
    for (round, (case, priority, packet, value)) in cases.iter().enumerate() {
        let (what, named) = refused(&network, &nodes, *priority, packet);
        assert_eq!(named, *value, "{case}: {what}");
        let bytes = message(1, 0, round as u32, 100);
        let sent = nodes[1].fm.fabric().try_send(
            Peer(0),
            Port::Fm,
            low,
            &self::packet(FrameKind::Message, 0, MESSAGE as u16, &bytes, |_| ()),
        );
        assert_eq!(sent, TrySend::Sent);
        network.settle();
        nodes[0].fm.extract(usize::MAX);
        assert_eq!(
            nodes[0].messages.borrow()[1].last(),
            Some(&bytes),
            "after: {case}"
        );
    }
    let counted = nodes[0].fm.fabric().counter(Peer(0), Peer(1), Counter::Faults);
    assert_eq!(counted, cases.len() as u64);
}

/// Messages that lie about their length as a whole, and senders that never end one.
#[test]
fn streams_that_lie_or_break_off() {
    let ends = Network::new(2, 5, plain());
    let network = ends[0].network().clone();
    let ends: Vec<_> = ends.into_iter().map(Rc::new).collect();
    let fm = Fm::new(Rc::clone(&ends[0]), &SMALL, &Default::default(), 8);
    let outcomes: Rc<RefCell<Vec<Result<(), FmError>>>> = Rc::default();
    let seen = Rc::clone(&outcomes);
    fm.register_handler(STREAM, move |_, receive, _| {
        let mut all = [0; 300];
        let outcome = receive.receive(&mut all);
        seen.borrow_mut().push(outcome);
        Flow::Continue
    })
    .unwrap();
    let send = |flags, seq, announced, len: usize| {
        let packet = packet(FrameKind::Piece, flags, STREAM as u16, &vec![1; len], |header| {
            header.seq = seq;
            header.announced = announced;
        });
        assert_eq!(
            ends[1].try_send(Peer(0), Port::Fm, Priority::Low, &packet),
            TrySend::Sent
        );
        network.settle();
        fm.extract(usize::MAX);
    };
    let broken = || Err(FmError::BrokenOff { peer: Peer(1) });
    // More than announced.
    send(BEGIN | OLDEST, 0, 200, 128);
    send(0, 1, 0, 128);
    assert_eq!(*outcomes.borrow(), [broken()]);
    send(END, 2, 0, 100);
    assert_eq!(fm.take_faults().0.len(), 1);
    // Never ended: the next one breaks it off.
    send(BEGIN, 3, 300, 128);
    send(BEGIN, 4, 300, 128);
    assert_eq!(*outcomes.borrow(), [broken(), broken()]);
    assert_eq!(fm.take_faults().0.len(), 1);
    send(0, 5, 0, 128);
    send(END, 6, 0, 44);
    assert_eq!(*outcomes.borrow(), [broken(), broken(), Ok(())]);
    // Less than the handler wants.
    send(BEGIN, 7, 300, 128);
    send(END, 8, 0, 100);
    let (peer, wanted) = (Peer(1), 72);
    assert_eq!(outcomes.borrow()[3], Err(FmError::PastEnd { peer, wanted }));
    send(BEGIN | END, 9, 300, 10);
    let wanted = 290;
    assert_eq!(outcomes.borrow()[4], Err(FmError::PastEnd { peer, wanted }));
    assert_eq!(fm.take_faults(), (vec![], 0));
    // Its place is free again.
    for seq in 0..20 {
        send(BEGIN, 10 + 3 * seq, 300, 128);
        send(0, 11 + 3 * seq, 0, 128);
        send(END, 12 + 3 * seq, 0, 44);
    }
    assert_eq!(outcomes.borrow()[5..], vec![Ok(()); 20]);
}

#[test]
fn mistakes_of_the_caller_are_told() {
    let (_, nodes) = nodes(2, 1, plain(), &SMALL);
    let fm = &nodes[0].fm;
    let told = |result: Result<bool, FmError>| result.unwrap_err().to_string();
    assert!(told(fm.try_send(0, MESSAGE, &[0; 129])).contains("129 bytes does not fit a frame of 128"));
    assert!(told(fm.try_send(2, MESSAGE, &[])).contains("node 2 does not exist: the job has nodes 0 to 1"));
    assert!(told(fm.try_send(1, 16, &[])).contains("handler 16 is outside the table: numbers are 0 to 15"));
    assert_eq!(
        fm.register_message_handler(16, |_, _, _| ()),
        Err(FmError::NoSuchHandler { id: 16, max: 16 })
    );
    let mut sending = fm.begin_message(1, 10, STREAM).unwrap().expect("a free node");
    assert!(
        fm.begin_message(1, 10, STREAM).unwrap().is_none(),
        "one at a time"
    );
    assert_eq!(sending.try_piece(&[0; 6]), Ok(6));
    let told = sending.try_piece(&[0; 5]).unwrap_err().to_string();
    assert!(told.contains("a piece of 5 bytes") && told.contains("11") && told.contains("announced as 10"));
    assert_eq!(sending.try_end(), Ok(true));
    drop(sending);
    assert!(fm.begin_message(1, 10, STREAM).unwrap().is_some());
    for _ in 2..16 {
        let next = fm.register_message_handler(farpost_fm::ANY_ID, |_, _, _| ());
        assert!(next.is_ok_and(|next| ![MESSAGE, STREAM].contains(&next)));
    }
    let full = fm.register_message_handler(farpost_fm::ANY_ID, |_, _, _| ());
    assert_eq!(full, Err(FmError::NoHandlerLeft { max: 16 }));
}

/// A dead peer's slots are free, it is reported, and its unfinished message is broken off.
#[test]
fn a_dead_peer_frees_its_slots() {
    let (network, nodes) = nodes(3, 9, plain(), &SMALL);
    let broken = Rc::new(RefCell::new(None));
    let seen = Rc::clone(&broken);
    nodes[0]
        .fm
        .register_handler(5, move |_, receive, _| {
            let outcome = receive.receive(&mut [0; 400]);
            *seen.borrow_mut() = Some(outcome);
            Flow::Continue
        })
        .unwrap();
    let mut sending = nodes[1].fm.begin_message(0, 400, 5).unwrap().unwrap();
    assert_eq!(sending.try_piece(&[1; 300]), Ok(300));
    network.settle();
    nodes[0].fm.extract(usize::MAX);
    assert_eq!(*broken.borrow(), None, "it waits for more");
    let mut sent = 0;
    while nodes[0]
        .fm
        .try_send(1, MESSAGE, &message(0, 1, sent, 50))
        .unwrap()
    {
        sent += 1;
    }
    assert_eq!(u64::from(sent), SMALL.slots);
    assert_eq!(
        nodes[0].fm.try_send(2, MESSAGE, &[0; 8]),
        Ok(false),
        "the window is over all destinations"
    );
    network.kill(Peer(1));
    nodes[0].fm.look_for_lost();
    let (faults, _) = nodes[0].fm.take_faults();
    assert!(
        faults
            .iter()
            .any(|f| f.peer == Peer(1) && matches!(f.error, FabricError::PeerDead { .. }))
    );
    assert_eq!(*broken.borrow(), Some(Err(FmError::BrokenOff { peer: Peer(1) })));
    assert_eq!(
        nodes[0].fm.send(1, MESSAGE, &[0; 8]),
        Err(FmError::Lost { peer: Peer(1) })
    );
    assert!(nodes[0].fm.begin_message(1, 8, MESSAGE).is_err());
    for number in 0..SMALL.slots as u32 {
        assert_eq!(
            nodes[0].fm.try_send(2, MESSAGE, &message(0, 2, number, 50)),
            Ok(true)
        );
    }
    network.settle();
    nodes[2].fm.extract(usize::MAX);
    assert_eq!(nodes[2].messages.borrow()[0].len() as u64, SMALL.slots);
}

/// A handler waits for ever for nobody: a send from inside it is kept, and fails when there is no room for that and its patience is over.
#[test]
fn a_send_that_only_handlers_could_help_fails_in_the_end() {
    let ends = Network::new(2, 2, plain());
    let network = ends[0].network().clone();
    let ends: Vec<_> = ends.into_iter().map(Rc::new).collect();
    let tunables = farpost_fm::FmTunables {
        patience: 1,
        depth: 1,
        ..SMALL
    };
    let fm = Fm::new(Rc::clone(&ends[0]), &tunables, &Default::default(), 8);
    let outcome = Rc::new(RefCell::new(None));
    let seen = Rc::clone(&outcome);
    fm.register_message_handler(0, move |fm, from, _| {
        let stuck = (0..1000).find_map(|_| fm.send(from.0, 0, &[]).err());
        *seen.borrow_mut() = stuck;
    })
    .unwrap();
    let bytes = packet(FrameKind::Message, 0, 0, &[], |_| ());
    assert_eq!(
        ends[1].try_send(Peer(0), Port::Fm, Priority::Low, &bytes),
        TrySend::Sent
    );
    network.settle();
    fm.extract(usize::MAX);
    assert!(matches!(
        *outcome.borrow(),
        Some(FmError::Stuck {
            peer: Peer(1),
            seconds: 1,
            depth: 1
        })
    ));
}

/// What a handler sends without a slot is kept, and goes when there are slots again.
#[test]
fn what_a_handler_sends_without_slots_arrives_in_the_end() {
    let ends = Network::new(2, 3, plain());
    let network = ends[0].network().clone();
    let ends: Vec<_> = ends.into_iter().map(Rc::new).collect();
    let tunables = farpost_fm::FmTunables { depth: 1, ..SMALL };
    let nodes: Vec<_> = ends
        .iter()
        .map(|end| Fm::new(Rc::clone(end), &tunables, &Default::default(), 8))
        .collect();
    let most = 10 * SMALL.slots as u8;
    nodes[0]
        .register_message_handler(0, move |fm, from, _| {
            for number in 0..most {
                fm.send(from.0, 1, &[number]).unwrap();
            }
        })
        .unwrap();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let all = Rc::clone(&seen);
    nodes[1]
        .register_message_handler(1, move |_, _, bytes| all.borrow_mut().push(bytes[0]))
        .unwrap();
    assert!(nodes[1].try_send(0, 0, &[]).unwrap());
    network.settle();
    nodes[0].extract(usize::MAX);
    assert!(!nodes[0].is_settled(), "nobody has taken anything yet");
    for _ in 0..1000 {
        nodes.iter().for_each(|node| _ = node.extract(usize::MAX));
        network.settle();
    }
    seen.borrow_mut().sort_unstable();
    assert_eq!(*seen.borrow(), (0..most).collect::<Vec<_>>());
    assert!(nodes[0].is_settled());
}
