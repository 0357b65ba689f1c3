//! Network interfaces over library and network layer, several stepped in one thread: what is dropped, waits, is unlinked, closed or
//! dies. On the in-process fabric, whose completions a seed delays and reorders, and on shared memory.

mod common;
#[macro_use]
mod everywhere;

use common::*;
use everywhere::*;
use farpost_fabric::{ErrorStatus, Fabric, Peer};
use farpost_portals::EventKind::{Ack, PutEnd, ReplyEnd, SendEnd, SendStart};
use farpost_portals::net::NetTunables;
use farpost_portals::option::*;
use farpost_portals::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

everywhere! {
    drops_are_counted_by_reason(2);
    handlers_may_call_anything(2);
    a_flood_waits_for_room(2);
    a_closed_interface_drops(2);
    polling(2);
    unlinking_until_it_works(2);
    unlinking_while_puts_come(2);
    waiting_ends_with_the_interface(1);
    more_questions_than_room_for_answers(3);
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

/// Of the situations of the Portals 4 reference's tests, like the next. Every put is delivered once, or dropped and counted.
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
