//! Fast Messages: node 1 sends node 0 any packets, while node 2 and node 0 talk. What node 2 sent arrives, once each and in order,
//! when node 1 has been given up.
//!
//! Packet steps: port priority in the step's highest bit, then a header field by field, or bytes as they are.

use crate::input::{Input, Script};
use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::{PacketQueue, Peer, Port, Priority};
use farpost_fm::wire::{Acks, BEGIN, END, Frame, FrameKind, Header, OLDEST, WANTS_ACK};
use farpost_fm::{FRAME_PAYLOAD, Flow, Fm, FmTunables};
use std::cell::RefCell;
use std::rc::Rc;

const MESSAGE: u32 = 1;
const STREAM: u32 = 2;
const STOPS: u32 = 3;

const SMALL: FmTunables = FmTunables {
    slots: 8,
    receive: 4,
    streams: 2,
    stack: 64 << 10,
    depth: 2,
    patience: 5,
};

/// Numbers that node 2 sent, as node 0's handlers saw them.
type Log = Rc<RefCell<Vec<u32>>>;

fn node(end: InProc, log: &Log) -> Fm<InProc> {
    let fm = Fm::new(Rc::new(end), &SMALL, &Default::default(), 16);
    let number = |bytes: &[u8]| bytes.first_chunk().map(|word| u32::from_le_bytes(*word));
    let seen = Rc::clone(log);
    let note = move |fm: &Fm<InProc>, from: Peer, bytes: &[u8]| {
        assert!(bytes.len() <= FRAME_PAYLOAD);
        if from == Peer(2) && fm.node() == 0 {
            seen.borrow_mut().push(number(bytes).expect("a number"));
        }
    };
    fm.register_message_handler(MESSAGE, note).expect("registered");
    let seen = Rc::clone(log);
    fm.register_handler(STREAM, move |fm, receive, from| {
        let mut bytes = vec![];
        while let Ok(false) = receive.at_end() {
            let here = receive.here().max(1);
            assert!(here <= FRAME_PAYLOAD);
            let mut part = vec![0; here];
            if receive.receive(&mut part).is_err() {
                return Flow::Continue;
            }
            bytes.extend(part);
        }
        if from == Peer(2) && fm.node() == 0 {
            seen.borrow_mut().push(number(&bytes).expect("a number"));
        }
        Flow::Continue
    })
    .expect("registered");
    // Looks at a part, and may answer.
    fm.register_handler(STOPS, |fm, receive, from| {
        let _ = receive.receive(&mut [0; 8]);
        let _ = receive.skip(3);
        let _ = fm.try_send(from.0, MESSAGE, &[1; 16]);
        Flow::Continue
    })
    .expect("registered");
    fm
}

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let config = Config {
        full_every: 0,
        queue_packets: 64,
        ..Config::default()
    };
    let mut ends = Network::new(3, 1, config);
    let network = ends[0].network().clone();
    let log = Log::default();
    let honest = node(ends.pop().expect("an end"), &log);
    let peer = ends.pop().expect("an end");
    let victim = node(ends.pop().expect("an end"), &log);
    let (mut sent, mut steps, mut unsent) = (0u32, 0, vec![]);
    while let Some(step) = input.step() {
        steps += 1;
        if steps > 400 {
            break;
        }
        let priority = Priority::ALL[usize::from(step >> 7)];
        match step & 7 {
            0..=2 => {
                let kind = [FrameKind::Message, FrameKind::Piece, FrameKind::Ack][usize::from(step & 7)];
                let (flags, handler) = (input.u8(), input.u8());
                let more = input.u8();
                let mut header = Header::new(kind, flags & 15, u16::from(handler), 0);
                header.returned = flags & 128 != 0;
                header.tries = flags >> 4 & 7;
                header.seq = u16::from(more & 15);
                header.acks = Acks {
                    messages: u16::from(more >> 4 & 3),
                    pieces: u16::from(more >> 6),
                };
                let payload = input.counted();
                let payload = &payload[..payload.len().min(FRAME_PAYLOAD)];
                header.len = payload.len() as u16;
                if flags & BEGIN != 0 {
                    header.announced = input.number() as u32;
                }
                let frame = Frame::new(0, &header, payload);
                let _ = peer.try_send(Peer(0), Port::Fm, priority, frame.packet());
            }
            3 => {
                let bytes = input.counted();
                let bytes = &bytes[..bytes.len().min(farpost_fabric::PACKET_BYTES)];
                let _ = peer.try_send(Peer(0), Port::Fm, priority, bytes);
            }
            4 => {
                // Where it does not go at once it would wait for node 1.
                let bytes = input.counted();
                let bytes = &bytes[..bytes.len().min(FRAME_PAYLOAD)];
                let _ = victim.try_send(1, MESSAGE, bytes);
            }
            5 => {
                unsent.push(sent);
                sent += 1;
            }
            6 => {
                victim.extract(usize::MAX);
            }
            _ => {
                for _ in 0..step >> 3 & 15 {
                    network.step();
                }
                let _ = peer.poll_priority(Port::Fm, priority, |_, _| ());
            }
        }
        unsent.retain(|number| !send(&honest, *number));
        honest.extract(usize::MAX);
    }
    network.kill(Peer(1));
    victim.lose(Peer(1));
    honest.lose(Peer(1));
    for turn in 0..20_000 {
        unsent.retain(|number| !send(&honest, *number));
        victim.extract(usize::MAX);
        honest.extract(usize::MAX);
        network.step();
        if unsent.is_empty() && log.borrow().len() == sent as usize && honest.is_settled() {
            break;
        }
        assert!(turn < 19_999, "{} of {sent} messages arrive", log.borrow().len());
    }
    let mut all = log.borrow().clone();
    let streams: Vec<u32> = all.iter().copied().filter(|number| number % 2 == 1).collect();
    assert!(streams.is_sorted(), "streams out of order: {streams:?}");
    all.sort_unstable();
    assert!(all.into_iter().eq(0..sent));
    let (faults, _) = honest.take_faults();
    assert!(faults.iter().all(|fault| fault.peer == Peer(1)), "{faults:?}");
}

/// Even numbers are messages, odd ones streams of several frames. False: there is no slot.
fn send(fm: &Fm<InProc>, number: u32) -> bool {
    if number.is_multiple_of(2) {
        return fm
            .try_send(0, MESSAGE, &number.to_le_bytes())
            .expect("a living node");
    }
    // All or nothing: no slot may be missing in the middle.
    if !fm.is_settled() {
        return false;
    }
    let mut bytes = vec![number as u8; 300];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    let Some(mut sending) = fm.begin_message(0, bytes.len(), STREAM).expect("a living node") else {
        return false;
    };
    let gone = sending.try_piece(&bytes).expect("a living node");
    assert_eq!(gone, bytes.len(), "slots for three frames");
    assert!(sending.try_end().expect("a living node"));
    true
}

pub fn seeds() -> Vec<Vec<u8>> {
    let script = Script::default;
    let piece = |script: Script, flags: u8, handler: u8, seq: u8, bytes: &[u8]| {
        let script = script.u8(1).u8(flags).u8(handler).u8(seq).counted(bytes);
        if flags & BEGIN == 0 {
            script
        } else {
            script.number(200)
        }
    };
    let turn = |script: Script| script.u8(0x7f).u8(6);
    vec![
        turn(script().u8(5).u8(5).u8(0).u8(0).u8(1).u8(0).counted(b"a message")).0,
        turn(piece(script(), BEGIN | END | OLDEST, 2, 0, b"a stream of one")).0,
        turn(piece(
            piece(script().u8(5).u8(5), BEGIN | OLDEST, 2, 0, &[1; 128]),
            END,
            2,
            1,
            &[2; 72],
        ))
        .0,
        turn(piece(
            piece(script(), BEGIN | OLDEST | WANTS_ACK, 3, 0, &[1; 12]),
            0,
            3,
            1,
            &[2; 20],
        ))
        .0,
        turn(
            script()
                .u8(4)
                .counted(b"to be acknowledged")
                .u8(0x82)
                .u8(0)
                .u8(0)
                .u8(16)
                .counted(b""),
        )
        .0,
        turn(
            script()
                .u8(4)
                .counted(b"to come back")
                .u8(0x80)
                .u8(128)
                .u8(1)
                .u8(0)
                .counted(b"to come back"),
        )
        .u8(6)
        .0,
        turn(
            script()
                .u8(3)
                .counted(&[1, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 5]),
        )
        .0,
    ]
}
