//! Network interfaces over library and network layer, several stepped in one thread: on the in-process fabric, whose
//! completions a seed delays and reorders, and on shared memory.

mod common;

use common::*;
use farpost_fabric::conformance::shm_ends;
use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::shm::{Shm, ShmTunables};
use farpost_fabric::{ErrorStatus, Fabric, Peer};
use farpost_portals::EventKind::{
    Ack, GetEnd, GetStart, PutEnd, PutStart, ReplyEnd, ReplyStart, SendEnd, SendStart,
};
use farpost_portals::net::NetTunables;
use farpost_portals::option::*;
use farpost_portals::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

fn small() -> NetTunables {
    NetTunables {
        tx_pendings: 8,
        rx_pendings: 8,
        check: 2,
        ..SMALL
    }
}

/// Of everything one.
fn tiny() -> NetTunables {
    NetTunables {
        sources: 1,
        tx_pendings: 1,
        rx_pendings: 1,
        window: 1,
        staging: 1,
        ..small()
    }
}

fn inproc(size: u32, seed: u64) -> Vec<InProc> {
    Network::new(
        size,
        seed,
        Config {
            bulk: seed.is_multiple_of(2),
            ..Config::default()
        },
    )
}

fn shm(size: u32) -> Vec<Shm> {
    shm_ends(size, &ShmTunables::default())
}

const LENGTHS: [usize; 9] = [0, 1, 8, 57, 100, 130, 3000, 9000, 70_000];

/// A test on both fabrics, with several seeds and pools.
macro_rules! everywhere {
    ($($name:ident($size:literal);)*) => { $(mod $name {
        #[test]
        fn inproc() {
            for seed in 0..6 {
                let config = if seed % 3 == 2 { super::tiny() } else { super::small() };
                super::$name(&super::interfaces(super::inproc($size, seed), &config));
            }
        }

        #[test]
        fn shm() {
            super::$name(&super::interfaces(super::shm($size), &super::NetTunables::default()));
            super::$name(&super::interfaces(super::shm($size), &super::small()));
        }
    })* };
}

everywhere! {
    put_with_ack(2);
    get(2);
    get_put(3);
    truncation(2);
    segments(2);
    to_oneself(1);
    drops_are_counted_by_reason(2);
    handlers_may_call_anything(2);
    everybody_puts_and_gets(4);
    puts_to_one_place(3);
    gets_of_what_is_being_put(3);
    a_flood_waits_for_room(2);
    a_closed_interface_drops(2);
    polling(2);
    unlinking_until_it_works(2);
    gets_of_more_than_there_is(2);
    memory_that_can_only_be_read(2);
    unlinking_while_puts_come(2);
    waiting_ends_with_the_interface(1);
    more_questions_than_room_for_answers(3);
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

fn drops_are_counted_by_reason<F: Fabric>(ends: &[Interface<F>]) {
    let here = Memory::zeros(9000);
    let eq = ends[0].eq_alloc(64, None).unwrap();
    let md = bind(&ends[0], here.md(0, eq));
    ends[1]
        .ac_entry(
            5,
            AccessEntry {
                id: ProcessId::ANY,
                uid: 1,
                jid: ANY,
                pt_index: ANY,
            },
        )
        .unwrap();
    let cases = [
        (
            Target {
                pt_index: 64,
                ..target(1, 7)
            },
            DropReason::PtIndex,
        ),
        (
            Target {
                ac_index: 64,
                ..target(1, 7)
            },
            DropReason::AcIndex,
        ),
        (
            Target {
                ac_index: 5,
                ..target(1, 7)
            },
            DropReason::AccessUid,
        ),
        (target(1, 7), DropReason::NoMatch),
    ];
    for (to, _) in &cases {
        ends[0].put_region(md, (0, 8), AckReq::Ack, to, 0).unwrap();
        ends[0].put(md, AckReq::NoAck, to, 0).unwrap();
        ends[0].get(md, to).unwrap();
    }
    until(ends, || ends[1].drops().total() == 12);
    settle(ends);
    for (_, reason) in cases {
        assert_eq!(ends[1].drops().of(reason), 3, "{reason:?}");
    }
    assert_eq!(ends[1].ni_status(SR_DROP_COUNT), Ok(12));
    let kinds: Vec<_> = events(&ends[0], eq).iter().map(|e| e.kind).collect();
    assert_eq!(kinds.len(), 16, "sends start and end, and that is all: {kinds:?}");
    assert!(kinds.iter().all(|k| matches!(k, SendStart | SendEnd)));
    ends[0].md_unlink(md).unwrap();
}

/// Ping-pong that handlers play alone.
fn handlers_may_call_anything<F: Fabric + 'static>(ends: &[Interface<F>]) {
    const TURNS: u64 = 20;
    let seen = Rc::new(RefCell::new(Vec::new()));
    let memory: Vec<Memory> = ends.iter().map(|_| Memory::zeros(8)).collect();
    let mut sources = Vec::new();
    for (n, end) in ends.iter().enumerate() {
        let md = bind(end, memory[n].md(0, Handle::EQ_NONE));
        sources.push(md);
        let seen = Rc::clone(&seen);
        // The test outlives the handlers: they are run by its own calls only.
        let other: *const Interface<F> = end;
        let handler = move |event: &Event| {
            if event.kind == PutEnd {
                seen.borrow_mut().push(event.hdr_data);
                if event.hdr_data < TURNS {
                    // SAFETY: the interface lives while it makes progress, which is when its handlers run.
                    let end = unsafe { &*other };
                    end.put(md, AckReq::NoAck, &target(1 - n as u32, 7), event.hdr_data + 1)
                        .unwrap();
                    end.progress();
                }
            }
        };
        let eq = end.eq_alloc(4, Some(Rc::new(handler))).unwrap();
        post(end, (7, 0), memory[n].md(OP_PUT | MANAGE_REMOTE, eq), None);
    }
    ends[0].put(sources[0], AckReq::NoAck, &target(1, 7), 0).unwrap();
    until(ends, || seen.borrow().len() as u64 == TURNS + 1);
    settle(ends);
    assert_eq!(*seen.borrow(), (0..=TURNS).collect::<Vec<_>>());
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

/// More than all pools hold, sent before anybody looks: it waits, in order.
fn a_flood_waits_for_room<F: Fabric>(ends: &[Interface<F>]) {
    const PUTS: u64 = 300;
    let eq = ends[1].eq_alloc(1024, None).unwrap();
    let (there, here) = (Memory::zeros(2000), Memory::zeros(2000));
    post(
        &ends[1],
        (7, 0),
        there.md(OP_PUT | OP_GET | MANAGE_REMOTE | EVENT_START_DISABLE, eq),
        None,
    );
    let own = ends[0].eq_alloc(2048, None).unwrap();
    let md = bind(&ends[0], here.md(EVENT_START_DISABLE, own));
    for n in 0..PUTS {
        let length = [8, 200, 2000][n as usize % 3];
        ends[0]
            .put_region(md, (0, length), AckReq::Ack, &target(1, 7), n)
            .unwrap();
        if n % 4 == 0 {
            ends[0].get(md, &target(1, 7)).unwrap();
        }
    }
    let (mut here_seen, mut there_seen) = (Vec::new(), Vec::new());
    until(ends, || {
        here_seen.extend(events(&ends[0], own).iter().map(|e| e.kind));
        there_seen.extend(events(&ends[1], eq));
        here_seen.len() == 2 * PUTS as usize + 75 && there_seen.len() == PUTS as usize + 75
    });
    // START is logged in order, so that the links of the ENDs tell it.
    there_seen.sort_by_key(|e| e.link);
    let order: Vec<u64> = there_seen
        .iter()
        .filter(|e| e.kind == PutEnd)
        .map(|e| e.hdr_data)
        .collect();
    assert_eq!(order, (0..PUTS).collect::<Vec<_>>());
    settle(ends);
    assert_eq!(ends[1].drops().total(), 0);
}

fn a_closed_interface_drops<F: Fabric>(ends: &[Interface<F>]) {
    let (there, here) = (Memory::zeros(9000), Memory::zeros(9000));
    let (me, _) = post(&ends[1], (7, 0), there.md(OP_PUT, Handle::EQ_NONE), None);
    assert!(ends[1].close(Duration::from_secs(10)));
    assert_eq!(ends[1].me_unlink(me), Err(Error::MeInvalid));
    assert_eq!(
        ends[1].put(Handle(0), AckReq::Ack, &target(0, 7), 0),
        Err(Error::NiInvalid)
    );
    let eq = ends[0].eq_alloc(64, None).unwrap();
    let md = bind(&ends[0], here.md(0, eq));
    ends[0].put(md, AckReq::Ack, &target(1, 7), 0).unwrap();
    ends[0].get(md, &target(1, 7)).unwrap();
    until(ends, || ends[1].drops().of(DropReason::UnknownProcess) == 2);
    settle(ends);
    let before = ends[1].handle();
    ends[1].reopen(None, 5);
    assert_ne!(before, ends[1].handle());
    let (again, _) = post(&ends[1], (7, 0), there.md(OP_PUT, Handle::EQ_NONE), None);
    assert_eq!(again.index(), me.index());
    assert_eq!(ends[1].me_unlink(me), Err(Error::MeInvalid), "stale");
    events(&ends[0], eq);
    ends[0].put(md, AckReq::Ack, &target(1, 7), 0).unwrap();
    let mut seen = 0;
    until(ends, || {
        seen += events(&ends[0], eq).len();
        seen == 3
    });
    settle(ends);
}

fn polling<F: Fabric>(ends: &[Interface<F>]) {
    let end = &ends[0];
    let (a, b) = (end.eq_alloc(8, None).unwrap(), end.eq_alloc(8, None).unwrap());
    let now = Some(Duration::ZERO);
    assert_eq!(end.eq_poll(&[], now), Err(Error::EqInvalid));
    assert_eq!(end.eq_poll(&[a, Handle::EQ_NONE], now), Err(Error::EqInvalid));
    assert_eq!(end.eq_poll(&[a, b], now), Err(Error::EqEmpty));
    assert_eq!(
        end.eq_poll(&[a, b], Some(Duration::from_millis(3))),
        Err(Error::EqEmpty)
    );
    assert_eq!(end.eq_wait(Handle::EQ_NONE), Err(Error::EqInvalid));
    let memory = Memory::zeros(8);
    let to_b = bind(end, memory.md(0, b));
    end.put(to_b, AckReq::NoAck, &target(1, 7), 0).unwrap();
    let (which, taken) = end.eq_poll(&[a, b], None).unwrap();
    assert_eq!((which, taken.event.kind), (1, SendStart));
    // The first in the array that holds an event.
    let to_a = bind(end, memory.md(0, a));
    end.put(to_a, AckReq::NoAck, &target(1, 7), 0).unwrap();
    assert_eq!(end.eq_poll(&[a, b], now).unwrap().0, 0);
    settle(ends);
    assert_eq!(end.eq_wait(b).unwrap().event.kind, SendEnd);
    assert_eq!(end.eq_poll(&[b, a], None).unwrap().0, 1);
    assert_eq!(end.eq_get(a), Err(Error::EqEmpty));
}

/// Section 12, 12: who repeats an unlink until it works does not wait for itself.
fn unlinking_until_it_works<F: Fabric>(ends: &[Interface<F>]) {
    let (there, here) = (Memory::zeros(70_000), Memory::zeros(70_000));
    let (me, _) = post(&ends[1], (7, 0), there.md(OP_PUT, Handle::EQ_NONE), None);
    let md = bind(&ends[0], here.md(0, Handle::EQ_NONE));
    ends[0].put(md, AckReq::NoAck, &target(1, 7), 0).unwrap();
    assert_eq!(
        ends[0].md_unlink(md),
        Err(Error::MdInUse),
        "the target has not moved"
    );
    let mut done = [false; 2];
    for _ in 0..1_000_000 {
        done[0] |= ends[0].md_unlink(md).is_ok();
        if done[0] {
            done[1] |= ends[1].me_unlink(me).is_ok();
        } else {
            ends[1].progress();
        }
        if done == [true; 2] {
            return settle(ends);
        }
    }
    panic!("it never works: {done:?}");
}

/// Every operation that was started ends when its target has ended.
fn the_dead_are_reported<F: Fabric>(ends: &[Interface<F>], kill: impl FnOnce()) {
    let eq = ends[0].eq_alloc(256, None).unwrap();
    let here = Memory::zeros(70_000);
    let md = bind(&ends[0], here.md(0, eq));
    let mut started = 0;
    for len in LENGTHS {
        ends[0]
            .put_region(md, (0, len as u64), AckReq::Ack, &target(1, 7), 0)
            .unwrap();
        ends[0].get_region(md, (0, len as u64), &target(1, 7)).unwrap();
        started += 1;
    }
    kill();
    ends[0].put(md, AckReq::NoAck, &target(1, 7), 0).unwrap();
    ends[0].get(md, &target(1, 7)).unwrap();
    started += 1;
    let mut seen: Vec<Event> = Vec::new();
    let count = |seen: &[Event], kind| seen.iter().filter(|e| e.kind == kind).count();
    until(&ends[..1], || {
        seen.extend(events(&ends[0], eq));
        count(&seen, SendEnd) == started && count(&seen, ReplyEnd) == started
    });
    for event in seen.iter().filter(|e| matches!(e.kind, ReplyEnd | Ack)) {
        assert_eq!(event.ni_fail_type, NiFail::UNDELIVERABLE, "{event:?}");
    }
    // A put whose send ended well is acknowledged by a failure.
    let sent = seen
        .iter()
        .filter(|e| e.kind == SendEnd && e.ni_fail_type == NiFail::OK)
        .count();
    let acked = count(&seen, Ack);
    assert!(
        acked == sent || acked + 1 == sent,
        "{sent} sent, {acked} acknowledged"
    );
    settle(&ends[..1]);
    ends[0].md_unlink(md).unwrap();
}

#[test]
fn the_dead_are_reported_inproc() {
    for seed in 0..6 {
        let fabrics = inproc(2, seed);
        let network = fabrics[0].network().clone();
        the_dead_are_reported(&interfaces(fabrics, &small()), || network.kill(Peer(1)));
    }
}

#[test]
fn what_is_not_a_header_is_a_fault_of_its_sender() {
    use farpost_portals::net::{Channel, Net};
    let mut fabrics = inproc(2, 0).into_iter().map(Rc::new);
    let (bad, good) = (fabrics.next().unwrap(), fabrics.next().unwrap());
    let processes = Rc::new(Processes::on_one_host(2, 1000, 1));
    let good = interface(good, &small(), &processes);
    let bad = Net::new(bad, &small());
    for header in [&[9; 36][..], &[1, 2, 3], &[]] {
        assert!(
            bad.send(Peer(1), Channel::Request, header, &Segments::default(), 0)
                .is_ok()
        );
    }
    struct Nobody;
    impl farpost_portals::net::Upper for Nobody {
        fn arrived(
            &mut self,
            _: farpost_portals::net::RxId,
            _: Peer,
            _: &[u8],
            _: u64,
            _: Option<&[u8]>,
        ) -> farpost_portals::net::Placement {
            farpost_portals::net::Placement::Done
        }
        fn deposited(&mut self, _: u64, _: farpost_portals::net::Outcome) {}
        fn sent(&mut self, _: u64, _: farpost_portals::net::Outcome) {}
    }
    until(std::slice::from_ref(&good), || {
        bad.progress(&mut Nobody);
        good.drops().of(DropReason::Malformed) == 3
    });
    let (faults, more) = good.fabric().take_faults();
    assert_eq!((faults.len(), more), (3, 0));
    assert!(
        faults
            .iter()
            .all(|fault| fault.peer == Peer(0) && fault.error.to_string().contains("Portals header"))
    );
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

/// Every put is delivered once, or dropped and counted.
fn unlinking_while_puts_come<F: Fabric>(ends: &[Interface<F>]) {
    const PUTS: u64 = 200;
    let mut random = fastrand::Rng::with_seed(11);
    let eq = ends[1].eq_alloc(2048, None).unwrap();
    let (there, here) = (Memory::zeros(5000), Memory::zeros(5000));
    let md = bind(&ends[0], here.md(0, Handle::EQ_NONE));
    let (mut entry, mut started, mut arrived) = (None, 0, 0);
    until(ends, || {
        for _ in 0..random.u32(0..4) {
            if started < PUTS {
                let len = *random.choice([8, 300, 5000].iter()).unwrap();
                ends[0]
                    .put_region(md, (0, len), AckReq::Ack, &target(1, 7), 0)
                    .unwrap();
                started += 1;
            }
        }
        if random.bool() {
            entry = match entry.take() {
                None => {
                    let md = there.md(OP_PUT | MANAGE_REMOTE | EVENT_START_DISABLE, eq);
                    Some(post(&ends[1], (7, 0), md, None).0)
                }
                Some(me) => match ends[1].me_unlink(me) {
                    Ok(()) => None,
                    Err(error) => {
                        assert_eq!(error, Error::MeInUse);
                        Some(me)
                    }
                },
            };
        }
        arrived += events(&ends[1], eq).len() as u64;
        started == PUTS && arrived + ends[1].drops().of(DropReason::NoMatch) == PUTS
    });
    settle(ends);
    assert!(arrived > 0 && arrived < PUTS, "{arrived} arrived");
    assert_eq!(arrived + ends[1].drops().total(), PUTS);
    assert!(events(&ends[1], eq).is_empty());
}

fn waiting_ends_with_the_interface<F: Fabric>(ends: &[Interface<F>]) {
    let eq = ends[0].eq_alloc(4, None).unwrap();
    assert!(ends[0].close(Duration::from_secs(10)));
    assert_eq!(ends[0].eq_wait(eq), Err(Error::EqInvalid));
    assert_eq!(ends[0].eq_poll(&[eq], None), Err(Error::EqInvalid));
    ends[0].reopen(None, 1);
    assert_ne!(ends[0].eq_alloc(4, None).unwrap(), eq);
    assert_eq!(ends[0].eq_wait(eq), Err(Error::EqInvalid));
}

/// Everybody asks everybody, also itself, for more acknowledgements than may wait to be sent. With one structure for targets and
/// one for sources none is refused for ever, and requests under way do not hold up answers.
fn more_questions_than_room_for_answers<F: Fabric>(ends: &[Interface<F>]) {
    const EACH: usize = 100;
    let there = Memory::zeros(8);
    let here = Memory::zeros(8);
    let queues: Vec<_> = ends
        .iter()
        .map(|end| {
            post(
                end,
                (7, 0),
                there.md(OP_PUT | MANAGE_REMOTE, Handle::EQ_NONE),
                None,
            );
            end.eq_alloc(8 * (EACH * ends.len()) as u32, None).unwrap()
        })
        .collect();
    for (end, eq) in ends.iter().zip(&queues) {
        let md = bind(end, here.md(EVENT_START_DISABLE, *eq));
        for n in 0..EACH * ends.len() {
            let to = target((n % ends.len()) as u32, 7);
            end.put(md, AckReq::Ack, &to, 0).unwrap();
        }
    }
    let mut acks = vec![0; ends.len()];
    until(ends, || {
        for ((end, eq), acks) in ends.iter().zip(&queues).zip(&mut acks) {
            *acks += events(end, *eq).iter().filter(|e| e.kind == Ack).count();
        }
        acks.iter().all(|acks| *acks == EACH * ends.len())
    });
}
