//! Section 5: events, what they hold, and their order.

use super::*;
use crate::types::option::*;
use std::collections::VecDeque;

#[test]
fn put_with_ack() {
    let mut w = world(2);
    let (a, b) = (w.ends[0].queue(), w.ends[1].queue());
    let (_, there) = w.ends[1].post(7, md(64, OP_PUT | MANAGE_REMOTE | TRUNCATE, b), Unlink::Retain);
    let source = w.ends[0]
        .md_bind(with_threshold(2, md(40, 0, a)), None, Unlink::Retain)
        .unwrap();
    let to = Target {
        offset: 60,
        ..target(1, 7)
    };
    let message = w.ends[0]
        .put(source, Some((8, 32)), AckReq::Ack, &to, 99)
        .unwrap();
    assert_eq!(
        message.body.as_one().map(|s| (s.address, s.len)),
        Some((0x1008, 32))
    );
    w.carry(0, message);
    let here = w.ends[0].events(a);
    assert_eq!(
        here.iter().map(|e| e.kind).collect::<Vec<_>>(),
        [SendStart, SendEnd, Ack]
    );
    for event in &here[..2] {
        assert_eq!((event.initiator, event.uid, event.jid), (id(0), UID, JID));
        assert_eq!((event.pt_index, event.match_bits, event.hdr_data), (3, 7, 99));
        assert_eq!((event.rlength, event.mlength, event.offset), (32, 32, 60));
        assert_eq!((event.md_handle, event.ni_fail_type), (source, NiFail::OK));
        assert_eq!(event.md.threshold, 1, "the values after the operation");
        assert_eq!((event.md.user_ptr, event.md.length), (0xabc, 40));
    }
    assert_eq!(here[0].link, here[1].link);
    assert_eq!((here[0].sequence, here[1].sequence, here[2].sequence), (0, 1, 2));
    let ack = here[2];
    assert_eq!((ack.initiator, ack.pt_index, ack.match_bits), (id(1), ANY, 7));
    assert_eq!((ack.rlength, ack.mlength, ack.offset), (32, 4, 60));
    assert_eq!(ack.md.threshold, 0);
    let there_events = w.ends[1].events(b);
    assert_eq!(
        there_events.iter().map(|e| e.kind).collect::<Vec<_>>(),
        [PutStart, PutEnd]
    );
    for event in &there_events {
        assert_eq!((event.initiator, event.uid, event.jid), (id(0), UID, JID));
        assert_eq!((event.pt_index, event.match_bits, event.hdr_data), (3, 7, 99));
        assert_eq!((event.rlength, event.mlength, event.offset), (32, 4, 60));
        assert_eq!(event.md_handle, there);
    }
    assert_eq!(there_events[0].link, there_events[1].link);
}

#[test]
fn get_of_a_region() {
    let mut w = world(2);
    let (a, b) = (w.ends[0].queue(), w.ends[1].queue());
    let (_, there) = w.ends[1].post(7, md(64, OP_GET, b), Unlink::Retain);
    let into = w.ends[0]
        .md_bind(with_threshold(1, md(40, 0, a)), None, Unlink::Retain)
        .unwrap();
    let request = w.ends[0].get(into, Some((10, 20)), &target(1, 7)).unwrap();
    assert!(w.ends[0].events(a).is_empty(), "sending the request is no event");
    let Verdict::Reply(reply) = w.ends[1].incoming(0, &request.header, 0) else {
        panic!("a reply")
    };
    assert_eq!(
        w.ends[1].kinds(b),
        [GetStart],
        "END comes when the reply has been sent"
    );
    assert_eq!(
        reply.body.as_one().map(|s| (s.address, s.len)),
        Some((0x1000, 20))
    );
    let verdict = w.ends[0].incoming(1, &reply.header, 20);
    let Verdict::Store {
        token,
        keep: 20,
        into: place,
    } = verdict
    else {
        panic!("a place")
    };
    assert_eq!(place.as_one().map(|s| (s.address, s.len)), Some((0x100a, 20)));
    let start = w.ends[0].events(a);
    w.ended(0, token, NiFail::OK);
    w.ended(1, reply.token, NiFail::OK);
    let end = w.ends[0].events(a);
    assert_eq!((start[0].kind, end[0].kind), (ReplyStart, ReplyEnd));
    assert_eq!(start[0].link, end[0].link);
    assert_eq!(
        (end[0].initiator, end[0].pt_index, end[0].match_bits),
        (id(1), ANY, 0)
    );
    assert_eq!((end[0].rlength, end[0].mlength, end[0].offset), (20, 20, 10));
    assert_eq!(
        (end[0].hdr_data, end[0].md_handle, end[0].md.threshold),
        (0, into, 0)
    );
    let got = w.ends[1].events(b);
    assert_eq!((got[0].kind, got[0].md_handle), (GetEnd, there));
    assert_eq!(
        (got[0].initiator, got[0].match_bits, got[0].hdr_data),
        (id(0), 7, 0)
    );
    assert_eq!((got[0].rlength, got[0].mlength, got[0].offset), (20, 20, 0));
    w.ended(0, request.token, NiFail::OK);
    assert!(w.at_rest());
}

#[test]
fn get_put() {
    let mut w = world(2);
    let (a, b, c) = (w.ends[0].queue(), w.ends[1].queue(), w.ends[0].queue());
    w.ends[1].post(7, md(64, OP_PUT | OP_GET, b), Unlink::Retain);
    let get = w.ends[0]
        .md_bind(with_threshold(1, md(16, 0, a)), None, Unlink::Unlink)
        .unwrap();
    let put = w.ends[0]
        .md_bind(with_threshold(1, md(16, 0, c)), None, Unlink::Unlink)
        .unwrap();
    let message = w.ends[0].get_put(get, put, &target(1, 7), 42).unwrap();
    w.carry(0, message);
    assert_eq!(w.ends[0].kinds(c), [SendStart, SendEnd, UNLINK]);
    assert_eq!(w.ends[0].kinds(a), [ReplyStart, ReplyEnd, UNLINK]);
    let events = w.ends[1].events(b);
    assert_eq!(
        events.iter().map(|e| e.kind).collect::<Vec<_>>(),
        [GetPutStart, GetPutEnd]
    );
    // The header carries hdr_data and the reference does not deliver it: we do.
    assert_eq!(
        (events[0].hdr_data, events[0].mlength, events[0].rlength),
        (42, 16, 16)
    );
    assert!(w.at_rest());
}

#[test]
fn unlink_comes_after_end_and_links_to_it() {
    let mut w = world(2);
    let eq = w.ends[1].queue();
    w.ends[1].post(7, with_threshold(2, md(64, OP_PUT, eq)), Unlink::Unlink);
    w.put(0, 8, AckReq::NoAck, &target(1, 7));
    w.put(0, 8, AckReq::NoAck, &target(1, 7));
    let events = w.ends[1].events(eq);
    assert_eq!(
        events.iter().map(|e| e.kind).collect::<Vec<_>>(),
        [PutStart, PutEnd, PutStart, PutEnd, UNLINK]
    );
    assert_eq!(events[4].link, events[3].sequence);
    assert_eq!(
        (events[4].initiator, events[4].match_bits),
        (id(0), 7),
        "as the event that caused it"
    );
}

#[test]
fn event_masks() {
    let both = EVENT_START_DISABLE | EVENT_END_DISABLE;
    for (mask, here, there) in [
        (
            0,
            &[SendStart, SendEnd, Ack, UNLINK][..],
            &[PutStart, PutEnd, UNLINK][..],
        ),
        (EVENT_START_DISABLE, &[SendEnd, Ack, UNLINK], &[PutEnd, UNLINK]),
        (EVENT_END_DISABLE, &[SendStart, Ack, UNLINK], &[PutStart, UNLINK]),
        // Only both together suppress the ACK, which still counts in the threshold.
        (both, &[UNLINK], &[UNLINK]),
    ] {
        let mut w = world(2);
        let (a, b) = (w.ends[0].queue(), w.ends[1].queue());
        w.ends[1].post(7, with_threshold(1, md(64, OP_PUT | mask, b)), Unlink::Unlink);
        let source = with_threshold(2, md(8, mask, a));
        let source = w.ends[0].md_bind(source, None, Unlink::Unlink).unwrap();
        let message = w.ends[0]
            .put(source, None, AckReq::Ack, &target(1, 7), 0)
            .unwrap();
        w.carry(0, message);
        assert_eq!(w.ends[0].kinds(a), here);
        assert_eq!(w.ends[1].kinds(b), there);
        assert!(w.at_rest());
    }
}

#[test]
fn no_ack_where_it_is_disabled_or_delivery_failed() {
    let mut w = world(2);
    let eq = w.ends[0].queue();
    w.ends[1].post(7, md(64, OP_PUT | ACK_DISABLE, Handle::EQ_NONE), Unlink::Retain);
    let b = w.ends[1].queue();
    w.ends[1].post(8, md(64, OP_PUT, b), Unlink::Retain);
    let source = w.ends[0].md_bind(md(8, 0, eq), None, Unlink::Retain).unwrap();
    let message = w.ends[0]
        .put(source, None, AckReq::Ack, &target(1, 7), 0)
        .unwrap();
    w.carry(0, message);
    assert_eq!(w.ends[0].kinds(eq), [SendStart, SendEnd]);
    let message = w.ends[0]
        .put(source, None, AckReq::Ack, &target(1, 8), 0)
        .unwrap();
    let Verdict::Store { token, .. } = w.ends[1].incoming(0, &message.header, 8) else {
        panic!("a place")
    };
    w.ended(1, token, NiFail::FAIL);
    w.ended(0, message.token, NiFail::OK);
    assert_eq!(w.ends[0].kinds(eq), [SendStart, SendEnd]);
    let failed = w.ends[1].events(b);
    assert_eq!((failed[1].kind, failed[1].ni_fail_type), (PutEnd, NiFail::FAIL));
    assert!(w.at_rest());
}

#[test]
fn an_ack_that_overtakes_the_end_of_its_send_waits_for_it() {
    let mut w = world(2);
    let eq = w.ends[0].queue();
    w.ends[1].post(7, md(64, OP_PUT, Handle::EQ_NONE), Unlink::Retain);
    let source = w.ends[0]
        .md_bind(with_threshold(2, md(8, 0, eq)), None, Unlink::Unlink)
        .unwrap();
    let message = w.ends[0]
        .put(source, None, AckReq::Ack, &target(1, 7), 0)
        .unwrap();
    let Verdict::Store { token, .. } = w.ends[1].incoming(0, &message.header, 8) else {
        panic!("a place")
    };
    w.ended(1, token, NiFail::OK);
    assert_eq!(w.ends[0].kinds(eq), [SendStart]);
    assert_eq!(
        w.ends[0].md_unlink(source),
        Err(Error::MdInUse),
        "the memory may still be read"
    );
    w.ended(0, message.token, NiFail::OK);
    assert_eq!(w.ends[0].kinds(eq), [SendEnd, Ack, UNLINK]);
    assert!(w.at_rest());
}

#[test]
fn starts_are_in_the_order_of_the_sends_and_ends_are_in_any() {
    let mut w = world(2);
    let (a, b) = (w.ends[0].queue(), w.ends[1].queue());
    w.ends[1].post(0, md(64, OP_PUT, b), Unlink::Retain);
    w.ends[1].post(1, md(64, OP_PUT, b), Unlink::Retain);
    let source = w.ends[0].md_bind(md(8, 0, a), None, Unlink::Retain).unwrap();
    let x = w.ends[0].send(source, &target(1, 0));
    let y = w.ends[0].send(source, &target(1, 1));
    let Verdict::Store { token: x_token, .. } = w.ends[1].incoming(0, &x.header, 8) else {
        panic!()
    };
    let Verdict::Store { token: y_token, .. } = w.ends[1].incoming(0, &y.header, 8) else {
        panic!()
    };
    w.ended(1, y_token, NiFail::OK);
    w.ended(1, x_token, NiFail::OK);
    w.ended(0, y.token, NiFail::OK);
    w.ended(0, x.token, NiFail::OK);
    let bits = |events: Vec<Event>| events.iter().map(|e| (e.kind, e.match_bits)).collect::<Vec<_>>();
    assert_eq!(
        bits(w.ends[0].events(a)),
        [(SendStart, 0), (SendStart, 1), (SendEnd, 1), (SendEnd, 0)]
    );
    let there = w.ends[1].events(b);
    assert_eq!((there[0].link, there[1].link), (there[3].link, there[2].link));
    assert_ne!(there[0].link, there[1].link);
    assert_eq!(
        bits(there),
        [(PutStart, 0), (PutStart, 1), (PutEnd, 1), (PutEnd, 0)]
    );
}

#[test]
fn a_full_queue_loses_the_oldest_and_says_so_once() {
    let mut w = world(2);
    // One slot is rounded up to two, as the reference does.
    for (asked, holds) in [(1, 2), (2, 2), (3, 4), (4, 4), (100, 128)] {
        let eq = w.ends[1].eq_alloc(asked, false).unwrap().unwrap();
        let (me, _) = w.ends[1].post(
            7,
            md(8, OP_PUT | TRUNCATE | EVENT_START_DISABLE, eq),
            Unlink::Retain,
        );
        for _ in 0..holds {
            w.put(0, 8, AckReq::NoAck, &target(1, 7));
        }
        for n in 0..holds {
            let taken = w.ends[1].eq_get(eq).unwrap();
            assert_eq!((taken.dropped, taken.event.sequence), (false, n));
        }
        for _ in 0..holds + 5 {
            w.put(0, 8, AckReq::NoAck, &target(1, 7));
        }
        for n in 0..holds {
            let taken = w.ends[1].eq_get(eq).unwrap();
            // Section 12, 2: the event that comes with it is a good one.
            assert_eq!((taken.dropped, taken.event.sequence), (n == 0, holds + 5 + n));
        }
        assert_eq!(w.ends[1].eq_get(eq), Err(Error::EqEmpty));
        w.ends[1].me_unlink(me).unwrap();
    }
    assert_eq!(
        w.ends[1].drops().total(),
        0,
        "room in a queue is never a reason to reject a message"
    );
}

#[test]
fn a_queue_that_is_empty_begins_again_in_its_first_place() {
    let mut w = world(2);
    let eq = w.ends[1].eq_alloc(4, false).unwrap().unwrap();
    w.ends[1].post(
        7,
        md(8, OP_PUT | TRUNCATE | EVENT_START_DISABLE, eq),
        Unlink::Retain,
    );
    let mut places = std::collections::HashSet::new();
    for n in 0..10 {
        w.put(0, 8, AckReq::NoAck, &target(1, 7));
        let (event, _) = w.ends[1].eq_take(eq).unwrap();
        assert_eq!(event.sequence, n);
        places.insert(std::ptr::from_ref(event).addr());
    }
    assert_eq!(places.len(), 1);
    // From wherever it began, it keeps order and loses the oldest.
    let (mut next, mut kept, mut lost) = (10, VecDeque::new(), false);
    for step in 0..500 {
        for _ in 0..step * 7 % 5 {
            w.put(0, 8, AckReq::NoAck, &target(1, 7));
            kept.push_back(next);
            next += 1;
            if kept.len() > 4 {
                kept.pop_front();
                lost = true;
            }
        }
        for _ in 0..step * 3 % 4 {
            let taken = w.ends[1].eq_get(eq).map(|t| (t.event.sequence, t.dropped));
            let wanted = kept.pop_front().map(|n| (n, std::mem::take(&mut lost)));
            assert_eq!(taken, wanted.ok_or(Error::EqEmpty), "step {step}");
        }
    }
}

#[test]
fn handlers_see_every_event_even_those_that_a_queue_loses() {
    let mut w = world(2);
    let eq = w.ends[1].eq_alloc(2, true).unwrap().unwrap();
    w.ends[1].post(7, md(8, OP_PUT | TRUNCATE, eq), Unlink::Retain);
    for _ in 0..3 {
        w.put(0, 8, AckReq::NoAck, &target(1, 7));
    }
    let mut seen = Vec::new();
    while let Some((queue, event)) = w.ends[1].next_handled() {
        assert_eq!(queue, eq);
        seen.push((event.kind, event.sequence));
    }
    let pairs = [
        (PutStart, 0),
        (PutEnd, 1),
        (PutStart, 2),
        (PutEnd, 3),
        (PutStart, 4),
        (PutEnd, 5),
    ];
    assert_eq!(seen, pairs);
    assert!(w.ends[1].eq_get(eq).unwrap().dropped);
}

#[test]
fn every_started_operation_ends_when_the_network_fails() {
    let mut w = world(2);
    let eq = w.ends[0].queue();
    let one = w.ends[0].md_bind(md(8, 0, eq), None, Unlink::Retain).unwrap();
    let fail = |w: &mut World| {
        w.ends[0]
            .events(eq)
            .iter()
            .map(|e| (e.kind, e.ni_fail_type.0))
            .collect::<Vec<_>>()
    };
    // What did not leave.
    let put = w.ends[0].put(one, None, AckReq::Ack, &target(1, 7), 0).unwrap();
    w.ended(0, put.token, NiFail::UNDELIVERABLE);
    assert_eq!(fail(&mut w), [(SendStart, 0), (SendEnd, 1)]);
    let get = w.ends[0].get(one, None, &target(1, 7)).unwrap();
    w.ended(0, get.token, NiFail::UNDELIVERABLE);
    assert_eq!(fail(&mut w), [(ReplyStart, 0), (ReplyEnd, 1)]);
    let swap = w.ends[0].get_put(one, one, &target(1, 7), 0).unwrap();
    w.ended(0, swap.token, NiFail::UNDELIVERABLE);
    assert_eq!(
        fail(&mut w),
        [(SendStart, 0), (SendEnd, 1), (ReplyStart, 0), (ReplyEnd, 1)]
    );
    assert!(w.at_rest());
    // What left and is not answered, since the target ends.
    let put = w.ends[0].put(one, None, AckReq::Ack, &target(1, 7), 0).unwrap();
    let get = w.ends[0].get(one, None, &target(1, 7)).unwrap();
    let swap = w.ends[0].get_put(one, one, &target(1, 7), 0).unwrap();
    for message in [put, get, swap] {
        w.ended(0, message.token, NiFail::OK);
    }
    assert_eq!(fail(&mut w).len(), 4);
    w.ends[0].peer_ended(0);
    assert!(fail(&mut w).is_empty(), "another process");
    w.ends[0].peer_ended(1);
    let mut ended = fail(&mut w);
    ended.sort();
    assert_eq!(
        ended,
        [
            (ReplyStart, 0),
            (ReplyStart, 0),
            (ReplyEnd, 1),
            (ReplyEnd, 1),
            (Ack, 1)
        ]
    );
    assert!(w.at_rest());
    // At a target: what was being stored, sent or swapped.
    let b = w.ends[1].queue();
    w.ends[1].post(7, md(64, OP_PUT | OP_GET, b), Unlink::Retain);
    let put = w.ends[0].send(one, &target(1, 7));
    let get = w.ends[0].get(one, None, &target(1, 7)).unwrap();
    let swap = w.ends[0].get_put(one, one, &target(1, 7), 0).unwrap();
    for message in [&put, &get, &swap] {
        let token = match w.ends[1].incoming(0, &message.header, message.body.len() as u64) {
            Verdict::Store { token, .. } | Verdict::Swap { token, .. } => token,
            Verdict::Reply(reply) => reply.token,
            other => panic!("{other:?}"),
        };
        let _ = w.ends[1].finished(token, NiFail::UNDELIVERABLE);
        assert!(w.ends[1].finished(token, NiFail::OK).is_none(), "it has ended");
    }
    let ended: Vec<_> = w.ends[1]
        .events(b)
        .iter()
        .map(|e| (e.kind, e.ni_fail_type.0))
        .collect();
    let pairs = [
        (PutStart, 0),
        (PutEnd, 1),
        (GetStart, 0),
        (GetEnd, 1),
        (GetPutStart, 0),
        (GetPutEnd, 1),
    ];
    assert_eq!(ended, pairs);
    assert_eq!(w.ends[1].operations(), 0);
}
