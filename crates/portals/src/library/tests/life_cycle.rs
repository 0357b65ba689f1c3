//! Section 6: threshold, release, updates, and the recipes.

use super::*;
use crate::types::option::*;

#[test]
fn the_threshold_counts_what_could_make_an_event() {
    let mut w = world(2);
    w.ends[1].post(
        7,
        md(64, OP_PUT | OP_GET | TRUNCATE, Handle::EQ_NONE),
        Unlink::Retain,
    );
    let eq = w.ends[0].queue();
    let here = w.ends[0]
        .md_bind(with_threshold(5, md(8, 0, eq)), None, Unlink::Retain)
        .unwrap();
    let left = |w: &mut World| w.ends[0].events(eq).last().map(|e| e.md.threshold);
    let put = w.ends[0].put(here, None, AckReq::Ack, &target(1, 7), 0).unwrap();
    w.carry(0, put); // a send and an ack
    assert_eq!(left(&mut w), Some(3));
    let get = w.ends[0].get(here, None, &target(1, 7)).unwrap();
    assert_eq!(left(&mut w), None, "sending the request of a get does not count");
    w.carry(0, get); // a reply
    assert_eq!(left(&mut w), Some(2));
    let mut values = md(0, 0, eq);
    w.ends[0]
        .md_update(here, Some(&mut values), None, Handle::EQ_NONE)
        .unwrap();
    assert_eq!(values.threshold, 2, "an update does not count");
    let swap = w.ends[0].get_put(here, here, &target(1, 7), 0).unwrap();
    w.carry(0, swap); // a send and a reply
    assert_eq!(left(&mut w), Some(0));
    assert_eq!(
        w.ends[0]
            .put(here, None, AckReq::NoAck, &target(1, 7), 0)
            .unwrap_err(),
        Error::MdInvalid
    );
    assert!(w.at_rest());
}

/// A descriptor of a match entry may send, too: what that uses of its threshold is gone for those who match.
#[test]
fn an_attached_descriptor_that_sends() {
    let mut w = world(2);
    let eq = w.ends[1].queue();
    let (me, both) = w.ends[1].post(7, with_threshold(1, md(8, OP_PUT, eq)), Unlink::Retain);
    w.ends[0].post(7, md(64, OP_PUT, Handle::EQ_NONE), Unlink::Retain);
    let message = w.ends[1].send(both, &target(0, 7));
    assert_eq!(
        w.ends[1].me_unlink(me),
        Err(Error::MeInUse),
        "its memory is being sent"
    );
    w.put(0, 8, AckReq::NoAck, &target(1, 7));
    assert_eq!(w.dropped(1, DropReason::NoMatch), 1);
    w.carry(1, message);
    assert_eq!(w.ends[1].kinds(eq), [SendStart, SendEnd]);
    w.ends[1].me_unlink(me).unwrap();
    // The other way round: what was matched is gone for who sends.
    let (_, both) = w.ends[1].post(7, with_threshold(1, md(8, OP_PUT, eq)), Unlink::Retain);
    w.put(0, 8, AckReq::NoAck, &target(1, 7));
    let sent = w.ends[1].put(both, None, AckReq::NoAck, &target(0, 7), 0);
    assert_eq!(sent.unwrap_err(), Error::MdInvalid);
}

#[test]
fn huge_and_infinite_thresholds() {
    let mut w = world(2);
    let eq = w.ends[1].queue();
    for (bits, threshold, after) in [
        (1, i32::MAX, i32::MAX - 2),
        (2, THRESHOLD_INFINITE, THRESHOLD_INFINITE),
    ] {
        w.ends[1].post(
            bits,
            with_threshold(threshold, md(64, OP_PUT, eq)),
            Unlink::Unlink,
        );
        w.put(0, 8, AckReq::NoAck, &target(1, bits));
        w.put(0, 8, AckReq::NoAck, &target(1, bits));
        assert_eq!(w.ends[1].events(eq).last().unwrap().md.threshold, after);
    }
}

#[test]
fn threshold_0_exists_and_matches_nothing_and_stays() {
    let mut w = world(2);
    let eq = w.ends[1].queue();
    let (me, off) = w.ends[1].post(7, with_threshold(0, md(64, OP_PUT, eq)), Unlink::Unlink);
    w.put(0, 8, AckReq::NoAck, &target(1, 7));
    assert_eq!(w.dropped(1, DropReason::NoMatch), 1);
    // An update to 0 (which the reference forgets, section 8) and back.
    for (threshold, matched) in [(1, true), (0, false), (1, true)] {
        let new = with_threshold(threshold, md(64, OP_PUT, eq));
        match w.ends[1].md_update(off, None, Some((new, None)), Handle::EQ_NONE) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error, Error::MdInvalid);
                // The operation before made it inactive, so that it went.
                return;
            }
        }
        w.put(0, 8, AckReq::NoAck, &target(1, 7));
        assert_eq!(
            w.ends[1].kinds(eq),
            if matched {
                &[PutStart, PutEnd, UNLINK][..]
            } else {
                &[]
            }
        );
        if matched {
            assert_eq!(
                w.ends[1].me_unlink(me),
                Err(Error::MeInvalid),
                "gone with its descriptor"
            );
        }
    }
    panic!("the descriptor outlived its threshold");
}

#[test]
fn an_update_to_threshold_0_switches_off() {
    let mut w = world(2);
    let eq = w.ends[1].queue();
    let (_, here) = w.ends[1].post(7, md(64, OP_PUT, eq), Unlink::Unlink);
    for threshold in [0, 5, 0, THRESHOLD_INFINITE] {
        let new = with_threshold(threshold, md(64, OP_PUT, eq));
        w.ends[1]
            .md_update(here, None, Some((new, None)), Handle::EQ_NONE)
            .unwrap();
        w.put(0, 8, AckReq::NoAck, &target(1, 7));
        assert_eq!(w.ends[1].kinds(eq).len(), if threshold == 0 { 0 } else { 2 });
    }
}

#[test]
fn auto_unlink_waits_for_what_is_in_progress() {
    let mut w = world(2);
    let eq = w.ends[1].queue();
    w.ends[1].post(7, with_threshold(2, md(64, OP_PUT, eq)), Unlink::Unlink);
    let source = w.ends[0]
        .md_bind(md(8, 0, Handle::EQ_NONE), None, Unlink::Retain)
        .unwrap();
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let message = w.ends[0].send(source, &target(1, 7));
        let Verdict::Store { token, .. } = w.ends[1].incoming(0, &message.header, 8) else {
            panic!()
        };
        tokens.push(token);
    }
    w.put(0, 8, AckReq::NoAck, &target(1, 7));
    assert_eq!(
        w.dropped(1, DropReason::NoMatch),
        1,
        "inactive, though it is still there"
    );
    w.ended(1, tokens[1], NiFail::OK);
    assert_eq!(w.ends[1].kinds(eq), [PutStart, PutStart, PutEnd]);
    w.ended(1, tokens[0], NiFail::OK);
    assert_eq!(w.ends[1].kinds(eq), [PutEnd, UNLINK]);
}

#[test]
fn an_entry_goes_with_its_descriptor_or_stays_empty() {
    for (entry, explicit) in [
        (Unlink::Unlink, false),
        (Unlink::Unlink, true),
        (Unlink::Retain, false),
        (Unlink::Retain, true),
    ] {
        let mut w = world(2);
        let end = &mut w.ends[1];
        let me = end
            .me_attach(3, ProcessId::ANY, (7, EXACT), entry, Position::After)
            .unwrap();
        let block = with_threshold(1, md(8, OP_PUT, Handle::EQ_NONE));
        let here = end.md_attach(me, block, None, Unlink::Unlink).unwrap();
        if explicit {
            end.md_unlink(here).unwrap();
        } else {
            w.put(0, 8, AckReq::NoAck, &target(1, 7));
        }
        let end = &mut w.ends[1];
        assert_eq!(end.md_unlink(here), Err(Error::MdInvalid));
        let again = end.md_attach(me, block, None, Unlink::Unlink);
        assert_eq!(again.is_ok(), entry == Unlink::Retain, "{again:?}");
        if entry == Unlink::Retain {
            w.put(0, 8, AckReq::NoAck, &target(1, 7));
            assert_eq!(w.ends[1].drops().total(), 0);
        }
    }
}

#[test]
fn an_update_replaces_all_values_and_begins_the_offset_again() {
    let mut w = world(2);
    let (a, b) = (w.ends[1].queue(), w.ends[1].queue());
    let (_, here) = w.ends[1].post(7, md(64, OP_PUT, a), Unlink::Retain);
    w.put(0, 40, AckReq::NoAck, &target(1, 7));
    let new = Md {
        start: 0x2000,
        user_ptr: 9,
        ..with_threshold(3, md(50, OP_PUT, b))
    };
    let mut old = md(0, 0, a);
    w.ends[1]
        .md_update(here, Some(&mut old), Some((new, None)), b)
        .unwrap();
    assert_eq!(old, md(64, OP_PUT, a));
    w.put(0, 40, AckReq::NoAck, &target(1, 7));
    let events = w.ends[1].events(b);
    assert_eq!(events[1].offset, 0);
    assert_eq!(
        (events[1].md.start, events[1].md.user_ptr, events[1].md.threshold),
        (0x2000, 9, 2)
    );
    assert_eq!(w.ends[1].kinds(a).len(), 2);
    // With `new` NULL nothing changes, whatever the queue holds.
    w.ends[1].md_update(here, Some(&mut old), None, a).unwrap();
    assert_eq!(old, with_threshold(2, new));
}

#[test]
fn an_update_is_refused_while_the_queue_holds_events_or_will() {
    let mut w = world(2);
    let (own, other) = (w.ends[1].queue(), w.ends[1].queue());
    let (_, here) = w.ends[1].post(7, md(64, OP_PUT, own), Unlink::Retain);
    w.ends[1].post(8, md(64, OP_PUT | EVENT_START_DISABLE, other), Unlink::Retain);
    let new = md(32, OP_PUT, own);
    let mut old = md(1, 0, own);
    let update =
        |w: &mut World, old: &mut Md, testq| w.ends[1].md_update(here, Some(old), Some((new, None)), testq);
    // An operation on another descriptor that will log to the tested queue, which is empty yet.
    let source = w.ends[0]
        .md_bind(md(8, 0, Handle::EQ_NONE), None, Unlink::Retain)
        .unwrap();
    let message = w.ends[0].send(source, &target(1, 8));
    let Verdict::Store { token, .. } = w.ends[1].incoming(0, &message.header, 8) else {
        panic!()
    };
    assert!(!w.ends[1].eq_has_events(other).unwrap());
    assert_eq!(update(&mut w, &mut old, other), Err(Error::MdNoUpdate));
    assert_eq!(old.length, 64, "old is told in any case");
    let at_once = |w: &mut World, eq| w.ends[1].md_update_unless_logged(here, (new, None), eq);
    assert_eq!(at_once(&mut w, other), Ok(()), "what will be logged is not there");
    w.ended(1, token, NiFail::OK);
    assert_eq!(at_once(&mut w, other), Err(Error::MdNoUpdate), "now it is");
    assert_eq!(
        update(&mut w, &mut old, other),
        Err(Error::MdNoUpdate),
        "now it holds the event"
    );
    assert_eq!(w.ends[1].kinds(other), [PutEnd]);
    // Operations on the descriptor itself.
    let message = w.ends[0].send(source, &target(1, 7));
    let Verdict::Store { token, .. } = w.ends[1].incoming(0, &message.header, 8) else {
        panic!()
    };
    assert_eq!(update(&mut w, &mut old, other), Err(Error::MdNoUpdate));
    assert_eq!(update(&mut w, &mut old, Handle::EQ_NONE), Err(Error::MdNoUpdate));
    w.ended(1, token, NiFail::OK);
    assert_eq!(update(&mut w, &mut old, other), Ok(()));
    assert_eq!(
        update(&mut w, &mut old, own),
        Err(Error::MdNoUpdate),
        "its own queue may be tested too"
    );
    assert_eq!(
        update(&mut w, &mut old, Handle::EQ_NONE),
        Ok(()),
        "no queue: no test"
    );
}

/// The recipe for MPI receives: however puts and the steps of posting interleave, a message is found either in the
/// posted entry or in the unexpected queue that the poster has drained, never in neither.
#[test]
fn the_atomic_post_recipe_has_no_race() {
    for seed in 0..2000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut w = world(2);
        let (unexpected, expected) = (w.ends[1].queue(), w.ends[1].queue());
        // Unexpected messages: everything else.
        let any = w.ends[1]
            .me_attach(3, ProcessId::ANY, (0, NO_BITS), Unlink::Retain, Position::After)
            .unwrap();
        w.ends[1]
            .md_attach(any, md(1 << 20, OP_PUT, unexpected), None, Unlink::Retain)
            .unwrap();
        let source = w.ends[0]
            .md_bind(md(8, 0, Handle::EQ_NONE), None, Unlink::Retain)
            .unwrap();
        let sent = random.u32(1..4);
        // Headers are handled at some step, their bytes are in place at another.
        let mut to_come: Vec<Outgoing> = (0..sent)
            .map(|n| {
                w.ends[0]
                    .put(source, None, AckReq::NoAck, &target(1, 5), u64::from(n))
                    .unwrap()
            })
            .collect();
        to_come.reverse();
        let mut moving = std::collections::VecDeque::new();
        let network = |w: &mut World,
                       random: &mut fastrand::Rng,
                       to_come: &mut Vec<Outgoing>,
                       moving: &mut std::collections::VecDeque<u64>,
                       all: bool| {
            while all || random.bool() {
                if !to_come.is_empty() && random.bool() {
                    let message = to_come.pop().unwrap();
                    let Verdict::Store { token, .. } = w.ends[1].incoming(0, &message.header, 8) else {
                        panic!()
                    };
                    moving.push_back(token);
                } else if let Some(token) = moving.pop_front() {
                    w.ended(1, token, NiFail::OK);
                } else if to_come.is_empty() {
                    break;
                }
            }
        };
        let mut received: Vec<u64> = Vec::new();
        let mut early = std::collections::VecDeque::new();
        for _ in 0..sent {
            // Post one receive.
            let posted = loop {
                network(&mut w, &mut random, &mut to_come, &mut moving, false);
                for event in w.ends[1].events(unexpected) {
                    if event.kind == PutEnd {
                        early.push_back(event.hdr_data);
                    }
                }
                if let Some(found) = early.pop_front() {
                    received.push(found);
                    break false;
                }
                let me = w.ends[1]
                    .me_insert(any, ProcessId::ANY, (5, EXACT), Unlink::Unlink, Position::Before)
                    .unwrap();
                network(&mut w, &mut random, &mut to_come, &mut moving, false);
                let block = with_threshold(0, md(64, OP_PUT, expected));
                let here = w.ends[1].md_attach(me, block, None, Unlink::Unlink).unwrap();
                network(&mut w, &mut random, &mut to_come, &mut moving, false);
                let block = with_threshold(1, block);
                match w.ends[1].md_update(here, None, Some((block, None)), unexpected) {
                    Ok(()) => break true,
                    Err(Error::MdNoUpdate) => w.ends[1].md_unlink(here).unwrap(),
                    Err(other) => panic!("{other:?}"),
                }
            };
            if posted {
                network(&mut w, &mut random, &mut to_come, &mut moving, true);
                let ends = w.ends[1].events(expected);
                let end = ends
                    .iter()
                    .find(|e| e.kind == PutEnd)
                    .expect("the posted receive is used");
                received.push(end.hdr_data);
            }
        }
        assert_eq!(
            received,
            (0..u64::from(sent)).collect::<Vec<_>>(),
            "in order, seed {seed}"
        );
    }
}

#[test]
fn the_drop_logging_recipe() {
    let mut w = world(2);
    let eq = w.ends[1].queue();
    w.ends[1].post(7, md(64, OP_PUT, Handle::EQ_NONE), Unlink::Retain);
    let last = w.ends[1]
        .me_attach(3, ProcessId::ANY, (0, NO_BITS), Unlink::Retain, Position::After)
        .unwrap();
    let nothing = Md {
        start: 0,
        ..md(0, OP_PUT | TRUNCATE, eq)
    };
    w.ends[1].md_attach(last, nothing, None, Unlink::Retain).unwrap();
    w.put(0, 8, AckReq::NoAck, &target(1, 7));
    w.put(0, 1000, AckReq::NoAck, &target(1, 9));
    let events = w.ends[1].events(eq);
    assert_eq!(events.len(), 2);
    assert_eq!(
        (events[1].match_bits, events[1].rlength, events[1].mlength),
        (9, 1000, 0)
    );
    assert_eq!(w.ends[1].drops().total(), 0);
}

#[test]
fn the_max_size_recipe() {
    let mut w = world(2);
    let eq = w.ends[1].queue();
    let block = Md {
        max_size: 32,
        ..md(100, OP_PUT | MAX_SIZE, eq)
    };
    for n in 0..2 {
        let me = w.ends[1]
            .me_attach(3, ProcessId::ANY, (0, NO_BITS), Unlink::Unlink, Position::After)
            .unwrap();
        let block = Md { user_ptr: n, ..block };
        w.ends[1].md_attach(me, block, None, Unlink::Unlink).unwrap();
    }
    for _ in 0..5 {
        w.put(0, 30, AckReq::NoAck, &target(1, 1));
    }
    let events = w.ends[1].events(eq);
    let told: Vec<_> = events
        .iter()
        .filter(|e| e.kind != PutStart)
        .map(|e| (e.kind, e.md.user_ptr, e.offset))
        .collect();
    assert_eq!(
        told,
        [
            (PutEnd, 0, 0),
            (PutEnd, 0, 30),
            (PutEnd, 0, 60),
            (UNLINK, 0, 60),
            (PutEnd, 1, 0),
            (PutEnd, 1, 30),
        ]
    );
}
