//! Network interfaces over library and network layer, several stepped in one thread: what is moved. On the in-process fabric, whose
//! completions a seed delays and reorders, and on shared memory.

mod common;
#[macro_use]
mod everywhere;

use common::*;
use everywhere::*;
use farpost_fabric::Fabric;
use farpost_portals::EventKind::{
    Ack, GetEnd, GetStart, PutEnd, PutStart, ReplyEnd, ReplyStart, SendEnd, SendStart,
};
use farpost_portals::net::NetTunables;
use farpost_portals::option::*;
use farpost_portals::*;
use std::rc::Rc;

everywhere! {
    put_with_ack(2);
    get(2);
    get_put(3);
    truncation(2);
    segments(2);
    to_oneself(1);
    everybody_puts_and_gets(4);
    puts_to_one_place(3);
    gets_of_what_is_being_put(3);
    gets_of_more_than_there_is(2);
    memory_that_can_only_be_read(2);
}

fn put_with_ack<F: Fabric>(ends: &[Interface<F>]) {
    let (a, b) = (
        ends[0].eq_alloc(64, None).unwrap(),
        ends[1].eq_alloc(64, None).unwrap(),
    );
    let there = Memory::zeros(80_000);
    post(&ends[1], (7, 0), there.md(OP_PUT | MANAGE_REMOTE, b), None);
    for (n, len) in LENGTHS.into_iter().enumerate() {
        let bytes = pattern(n as u64, len);
        let here = Memory::new(&bytes);
        let md = bind(&ends[0], here.md(0, a));
        let to = Target {
            offset: 1000 + n as u64,
            ..target(1, 7)
        };
        ends[0].put(md, AckReq::Ack, &to, n as u64).unwrap();
        let mut seen = Vec::new();
        until(ends, || {
            seen.extend(events(&ends[0], a));
            seen.len() == 3
        });
        assert_eq!(
            seen.iter().map(|e| e.kind).collect::<Vec<_>>(),
            [SendStart, SendEnd, Ack],
            "{len} bytes"
        );
        assert_eq!((seen[2].mlength, seen[2].ni_fail_type), (len as u64, NiFail::OK));
        let got = events(&ends[1], b);
        assert_eq!(got.iter().map(|e| e.kind).collect::<Vec<_>>(), [PutStart, PutEnd]);
        assert_eq!(
            (got[1].mlength, got[1].offset, got[1].hdr_data),
            (len as u64, to.offset, n as u64)
        );
        assert_eq!(got[1].initiator, ProcessId::new(0, 0));
        assert_eq!(there.bytes()[to.offset as usize..][..len], bytes, "{len} bytes");
        settle(ends);
        ends[0].md_unlink(md).unwrap();
    }
}

fn get<F: Fabric>(ends: &[Interface<F>]) {
    let (a, b) = (
        ends[0].eq_alloc(64, None).unwrap(),
        ends[1].eq_alloc(64, None).unwrap(),
    );
    let there = Memory::new(&pattern(9, 80_000));
    post(&ends[1], (7, 0), there.md(OP_GET | MANAGE_REMOTE, b), None);
    for len in LENGTHS {
        let here = Memory::zeros(len + 20);
        let md = bind(&ends[0], here.md(0, a));
        let to = Target {
            offset: 500,
            ..target(1, 7)
        };
        ends[0].get_region(md, (10, len as u64), &to).unwrap();
        let (mut seen, mut got) = (Vec::new(), Vec::new());
        until(ends, || {
            seen.extend(events(&ends[0], a));
            got.extend(events(&ends[1], b));
            seen.len() == 2 && got.len() == 2
        });
        assert_eq!(
            (seen[0].kind, seen[1].kind, seen[1].mlength),
            (ReplyStart, ReplyEnd, len as u64)
        );
        assert_eq!(
            (got[0].kind, got[1].kind, got[1].mlength),
            (GetStart, GetEnd, len as u64)
        );
        let bytes = here.bytes();
        assert_eq!(bytes[10..][..len], there.bytes()[500..][..len], "{len} bytes");
        assert!(bytes[..10].iter().chain(&bytes[10 + len..]).all(|b| *b == 0));
        settle(ends);
    }
}

/// Values are exchanged, never lost or doubled.
fn get_put<F: Fabric>(ends: &[Interface<F>]) {
    let there = Memory::zeros(64);
    let (me, _) = post(
        &ends[0],
        (7, 0),
        there.md(OP_PUT | OP_GET | MANAGE_REMOTE, Handle::EQ_NONE),
        None,
    );
    for len in [8, 64] {
        let mut values: Vec<Vec<u8>> = vec![there.bytes()[..len].to_vec()];
        let mut hands = Vec::new();
        for (n, end) in ends.iter().enumerate() {
            let value = pattern(n as u64 + len as u64, len);
            values.push(value.clone());
            let (give, take) = (Memory::new(&value), Memory::zeros(len));
            let eq = end.eq_alloc(16, None).unwrap();
            let (give_md, take_md) = (bind(end, give.md(0, Handle::EQ_NONE)), bind(end, take.md(0, eq)));
            end.get_put(take_md, give_md, &target(0, 7), 1).unwrap();
            hands.push((give, take, eq));
        }
        let mut ended = 0;
        until(ends, || {
            ended += ends
                .iter()
                .zip(&hands)
                .map(|(end, (_, _, eq))| events(end, *eq).len())
                .sum::<usize>();
            ended == 2 * ends.len()
        });
        let mut after: Vec<Vec<u8>> = hands.iter().map(|(_, take, _)| take.bytes()).collect();
        after.push(there.bytes()[..len].to_vec());
        values.sort();
        after.sort();
        assert_eq!(values, after);
        settle(ends);
    }
    ends[0].me_unlink(me).unwrap();
}

fn truncation<F: Fabric>(ends: &[Interface<F>]) {
    let (a, b) = (
        ends[0].eq_alloc(64, None).unwrap(),
        ends[1].eq_alloc(64, None).unwrap(),
    );
    for len in LENGTHS.into_iter().filter(|len| *len > 0) {
        for room in [0, len / 2, len - 1] {
            let there = Memory::zeros(room);
            let (me, _) = post(&ends[1], (7, 0), there.md(OP_PUT | TRUNCATE, b), None);
            let bytes = pattern(1, len);
            let here = Memory::new(&bytes);
            let md = bind(&ends[0], here.md(0, a));
            ends[0].put(md, AckReq::Ack, &target(1, 7), 0).unwrap();
            let mut seen = Vec::new();
            until(ends, || {
                seen.extend(events(&ends[0], a));
                seen.len() == 3
            });
            settle(ends);
            assert_eq!(
                (seen[2].kind, seen[2].mlength, seen[2].rlength),
                (Ack, room as u64, len as u64)
            );
            let got = events(&ends[1], b);
            assert_eq!(
                (got[1].kind, got[1].mlength, got[1].rlength),
                (PutEnd, room as u64, len as u64)
            );
            assert_eq!(there.bytes(), bytes[..room]);
            ends[1].me_unlink(me).unwrap();
            ends[0].md_unlink(md).unwrap();
        }
    }
}

fn segments<F: Fabric>(ends: &[Interface<F>]) {
    let eq = ends[1].eq_alloc(64, None).unwrap();
    for len in [20, 200, 5000, 60_000] {
        let bytes = pattern(3, len);
        let cuts = |cuts: &[usize]| -> Vec<Memory> {
            let mut parts = Vec::new();
            let mut from = 0;
            for to in cuts.iter().copied().chain([len]) {
                parts.push(Memory::new(&bytes[from..to]));
                from = to;
            }
            parts
        };
        let list = |parts: &[Memory]| -> Rc<[Segment]> {
            parts
                .iter()
                .map(|m| Segment {
                    address: m.address(),
                    len: m.bytes().len(),
                })
                .collect()
        };
        let (here, there) = (
            cuts(&[1, 7, len / 2]),
            [Memory::zeros(len / 3), Memory::zeros(0), Memory::zeros(len)],
        );
        let md = Md {
            length: 4,
            ..here[0].md(IOVEC, Handle::EQ_NONE)
        };
        // SAFETY: the memory stays until everything has settled.
        let source = unsafe { ends[0].md_bind(md, Some(list(&here)), Unlink::Retain) }.unwrap();
        let md = Md {
            length: 3,
            ..there[0].md(OP_PUT | IOVEC, eq)
        };
        let (me, _) = post(&ends[1], (7, 0), md, Some(list(&there)));
        ends[0].put(source, AckReq::NoAck, &target(1, 7), 0).unwrap();
        let mut seen = 0;
        until(ends, || {
            seen += events(&ends[1], eq).len();
            seen == 2
        });
        settle(ends);
        let mut got = there[0].bytes();
        got.extend(&there[2].bytes()[..len - len / 3]);
        assert_eq!(got, bytes, "{len} bytes");
        ends[1].me_unlink(me).unwrap();
    }
}

fn to_oneself<F: Fabric>(ends: &[Interface<F>]) {
    let end = &ends[0];
    let eq = end.eq_alloc(64, None).unwrap();
    for len in LENGTHS {
        let (there, here) = (Memory::zeros(len), Memory::new(&pattern(5, len)));
        let (me, _) = post(
            end,
            (7, 0),
            there.md(OP_PUT | OP_GET | MANAGE_REMOTE, Handle::EQ_NONE),
            None,
        );
        let md = bind(end, here.md(0, eq));
        end.put(md, AckReq::Ack, &target(0, 7), 0).unwrap();
        let mut seen = 0;
        until(ends, || {
            seen += events(end, eq).len();
            seen == 3
        });
        assert_eq!(there.bytes(), here.bytes());
        let back = Memory::zeros(len);
        let md = bind(end, back.md(0, eq));
        end.get(md, &target(0, 7)).unwrap();
        until(ends, || {
            seen += events(end, eq).len();
            seen == 5
        });
        assert_eq!(back.bytes(), here.bytes(), "{len} bytes");
        settle(ends);
        end.me_unlink(me).unwrap();
    }
}

/// Every process has a board with a place for everybody; all put into all boards, and all get them back.
fn everybody_puts_and_gets<F: Fabric>(ends: &[Interface<F>]) {
    const PLACE: usize = 9100;
    let size = ends.len();
    let boards: Vec<Memory> = ends.iter().map(|_| Memory::zeros(size * PLACE)).collect();
    let mut queues = Vec::new();
    for (end, board) in ends.iter().zip(&boards) {
        post(
            end,
            (0, NO_BITS),
            board.md(OP_PUT | OP_GET | MANAGE_REMOTE, Handle::EQ_NONE),
            None,
        );
        queues.push(end.eq_alloc(256, None).unwrap());
    }
    let bytes = |from: usize, to: usize| pattern((from * size + to) as u64, LENGTHS[(from + 3 * to) % 8]);
    let mut kept = Vec::new();
    for (from, end) in ends.iter().enumerate() {
        for to in 0..size {
            let memory = Memory::new(&bytes(from, to));
            let md = bind(end, memory.md(0, queues[from]));
            let to = Target {
                offset: (from * PLACE) as u64,
                ..target(to as u32, 1)
            };
            end.put(md, AckReq::Ack, &to, 0).unwrap();
            kept.push(memory);
        }
    }
    let mut acks = 0;
    until(ends, || {
        for (end, eq) in ends.iter().zip(&queues) {
            acks += events(end, *eq)
                .iter()
                .filter(|e| e.kind == Ack && e.ni_fail_type == NiFail::OK)
                .count();
        }
        acks == size * size
    });
    for (to, board) in boards.iter().enumerate() {
        for from in 0..size {
            let expected = bytes(from, to);
            assert_eq!(
                board.bytes()[from * PLACE..][..expected.len()],
                expected,
                "from {from} to {to}"
            );
        }
    }
    let mut copies = Vec::new();
    for (me, end) in ends.iter().enumerate() {
        for of in 0..size {
            let copy = Memory::zeros(size * PLACE);
            let md = bind(end, copy.md(0, queues[me]));
            end.get(md, &target(of as u32, 1)).unwrap();
            copies.push(copy);
        }
    }
    let mut replies = 0;
    until(ends, || {
        for (end, eq) in ends.iter().zip(&queues) {
            replies += events(end, *eq).iter().filter(|e| e.kind == ReplyEnd).count();
        }
        replies == size * size
    });
    for (n, copy) in copies.iter().enumerate() {
        assert!(copy.bytes() == boards[n % size].bytes(), "copy {n}");
    }
    settle(ends);
}

/// What is there afterwards nobody promises, but all of them arrive: a check is about what came, not about what others wrote
/// meanwhile to the place where it went.
fn puts_to_one_place<F: Fabric>(ends: &[Interface<F>]) {
    let there = Memory::zeros(70_000);
    post(
        &ends[0],
        (7, 0),
        there.md(OP_PUT | MANAGE_REMOTE, Handle::EQ_NONE),
        None,
    );
    let queues = [1, 2].map(|from| ends[from].eq_alloc(64, None).unwrap());
    for round in 0..12 {
        let len = [3000, 70_000, 9000][round % 3];
        let memories = [1, 2].map(|from| Memory::new(&vec![from as u8; len]));
        for ((end, eq), memory) in ends[1..].iter().zip(queues).zip(&memories) {
            let md = bind(end, memory.md(EVENT_START_DISABLE, eq));
            end.put(md, AckReq::Ack, &target(0, 7), 0).unwrap();
        }
        let mut seen = [Vec::new(), Vec::new()];
        until(ends, || {
            for ((end, eq), seen) in ends[1..].iter().zip(queues).zip(&mut seen) {
                seen.extend(
                    events(end, eq)
                        .iter()
                        .map(|e| (e.kind, e.ni_fail_type, e.mlength)),
                );
            }
            seen.iter().all(|seen| seen.len() == 2)
        });
        for seen in seen {
            assert_eq!(seen[1], (Ack, NiFail::OK, len as u64));
        }
        assert!(there.bytes()[..len].iter().all(|byte| [1, 2].contains(byte)));
        settle(ends);
    }
}

/// What a get brings is what was there at some time, however often others write it meanwhile.
fn gets_of_what_is_being_put<F: Fabric>(ends: &[Interface<F>]) {
    let there = Memory::zeros(60_000);
    post(
        &ends[0],
        (7, 0),
        there.md(OP_PUT | OP_GET | MANAGE_REMOTE, Handle::EQ_NONE),
        None,
    );
    let queues = [1, 2].map(|at| ends[at].eq_alloc(64, None).unwrap());
    for round in 0..12 {
        let len = [3000, 60_000, 9000][round % 3];
        let here = Memory::zeros(len);
        let get = bind(&ends[1], here.md(0, queues[0]));
        let written = Memory::new(&vec![1 + round as u8; len]);
        let put = bind(&ends[2], written.md(0, queues[1]));
        ends[1].get(get, &target(0, 7)).unwrap();
        ends[2].put(put, AckReq::Ack, &target(0, 7), 0).unwrap();
        let mut seen = [Vec::new(), Vec::new()];
        until(ends, || {
            for ((end, eq), seen) in ends[1..].iter().zip(queues).zip(&mut seen) {
                seen.extend(events(end, eq).iter().map(|e| (e.kind, e.ni_fail_type)));
            }
            seen[0].len() == 2 && seen[1].len() == 3
        });
        assert_eq!(seen[0][1], (ReplyEnd, NiFail::OK), "{len} bytes");
        assert_eq!(seen[1][2], (Ack, NiFail::OK));
        assert!(here.bytes().iter().all(|byte| *byte as usize <= round + 1));
        settle(ends);
    }
}

/// The situations of the Portals 4 reference's tests that 3.3 knows, from here on.
fn gets_of_more_than_there_is<F: Fabric>(ends: &[Interface<F>]) {
    let eq = ends[0].eq_alloc(64, None).unwrap();
    for len in LENGTHS.into_iter().filter(|len| *len > 0) {
        let there = Memory::new(&pattern(2, len));
        let options = OP_GET | MANAGE_REMOTE;
        let (short, _) = post(
            &ends[1],
            (7, 0),
            there.md(options | TRUNCATE, Handle::EQ_NONE),
            None,
        );
        let (strict, _) = post(&ends[1], (8, 0), there.md(options, Handle::EQ_NONE), None);
        let here = Memory::zeros(len + 10);
        let md = bind(&ends[0], here.md(0, eq));
        let before = ends[1].drops().total();
        ends[0].get(md, &target(1, 8)).unwrap();
        ends[0]
            .get(
                md,
                &Target {
                    offset: len as u64 / 2,
                    ..target(1, 7)
                },
            )
            .unwrap();
        let mut seen = Vec::new();
        until(ends, || {
            seen.extend(events(&ends[0], eq));
            seen.len() == 2
        });
        settle(ends);
        assert_eq!(
            ends[1].drops().total() - before,
            1,
            "without truncation it does not fit"
        );
        let left = len - len / 2;
        assert_eq!((seen[1].kind, seen[1].mlength), (ReplyEnd, left as u64));
        assert_eq!(here.bytes()[..left], there.bytes()[len / 2..]);
        assert!(here.bytes()[left..].iter().all(|b| *b == 0));
        for me in [short, strict] {
            ends[1].me_unlink(me).unwrap();
        }
        ends[0].md_unlink(md).unwrap();
    }
}

fn memory_that_can_only_be_read<F: Fabric>(ends: &[Interface<F>]) {
    static FIXED: [u8; 200_000] = [0x5a; 200_000];
    let eq = ends[0].eq_alloc(64, None).unwrap();
    let there = Memory::zeros(FIXED.len());
    post(
        &ends[1],
        (7, 0),
        there.md(OP_PUT | MANAGE_REMOTE, Handle::EQ_NONE),
        None,
    );
    let here = Md {
        start: FIXED.as_ptr().expose_provenance(),
        length: FIXED.len() as u64,
        ..there.md(0, eq)
    };
    let md = bind(&ends[0], here);
    for len in [8, 3000, 200_000] {
        ends[0]
            .put_region(md, (0, len), AckReq::Ack, &target(1, 7), 0)
            .unwrap();
        let mut seen = 0;
        until(ends, || {
            seen += events(&ends[0], eq).len();
            seen == 3
        });
        assert!(there.bytes()[..len as usize] == FIXED[..len as usize]);
    }
    settle(ends);
}

/// Two runs of a seed are the same, to the byte and to the nanosecond; runs of different seeds differ.
#[test]
fn a_seed_replays_exactly() {
    let run = |seed: u64| {
        // Without bulk transfers: descriptors hold addresses, which differ from run to run.
        let ends = interfaces(everywhere::inproc(3, 2 * seed + 1), &everywhere::small());
        let network = ends[0].fabric().network().clone();
        network.record();
        everybody_puts_and_gets(&ends);
        network.arrivals()
    };
    for seed in 0..3 {
        assert!(run(seed).len() > 100);
        assert!(run(seed) == run(seed), "seed {seed}");
        assert!(run(seed) != run(seed + 1), "seed {seed}");
    }
}

/// What moves within a call that makes progress by the way is news to the next `progress`: who looks for events only after that would
/// wait for ever otherwise for one that such a call has logged.
#[test]
fn what_another_call_has_moved_is_told() {
    let mut within = 0;
    for seed in 0..20 {
        let ends = interfaces(everywhere::inproc(2, seed), &everywhere::small());
        let eq = ends[1].eq_alloc(64, None).unwrap();
        let there = Memory::zeros(70_000);
        let (_, there_md) = post(&ends[1], (7, 0), there.md(OP_PUT, eq), None);
        let here = Memory::new(&pattern(seed, 70_000));
        let md = bind(&ends[0], here.md(0, Handle::EQ_NONE));
        ends[0].put(md, AckReq::NoAck, &target(1, 7), 0).unwrap();
        let taken = || std::iter::from_fn(|| ends[1].eq_take(eq, |event, _| event.kind));
        let mut kinds = Vec::new();
        until(&ends, || {
            kinds.extend(taken());
            !kinds.is_empty()
        });
        while kinds.last() != Some(&PutEnd) {
            ends[0].progress();
            while ends[1].progress() {}
            kinds.extend(taken());
            // Refused while the message is being received, after a look at the network.
            let same = Some((there.md(0, eq), None));
            // SAFETY: as for `bind`.
            let refused = unsafe { ends[1].md_update(there_md, None, same, Handle::EQ_NONE) };
            let before = kinds.len();
            kinds.extend(taken());
            if kinds.len() > before {
                within += usize::from(refused == Err(Error::MdNoUpdate));
                assert!(ends[1].progress(), "seed {seed}: an event that nobody is told of");
            }
        }
        assert_eq!(kinds, [PutStart, PutEnd]);
        settle(&ends);
    }
    assert!(within > 0, "no event was logged by another call");
}
