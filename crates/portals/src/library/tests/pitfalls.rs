//! Section 12: the checklist, one test each where nothing else tests it.

use super::*;
use crate::memory::Segment;
use crate::types::option::*;

/// 1. Put with ack: threshold 2. With 1 the descriptor is inactive when the ack comes, and the ack is lost.
#[test]
fn an_ack_counts() {
    for (threshold, acks) in [(1, 0), (2, 1)] {
        let mut w = world(2);
        w.ends[1].post(7, md(64, OP_PUT, Handle::EQ_NONE), Unlink::Retain);
        let eq = w.ends[0].queue();
        let source = with_threshold(threshold, md(8, 0, eq));
        let source = w.ends[0].md_bind(source, None, Unlink::Retain).unwrap();
        let message = w.ends[0]
            .put(source, None, AckReq::Ack, &target(1, 7), 0)
            .unwrap();
        w.carry(0, message);
        let kinds = w.ends[0].kinds(eq);
        assert_eq!(kinds.iter().filter(|k| **k == Ack).count(), acks);
        assert_eq!(w.dropped(0, DropReason::Answer), 1 - acks as u64);
        assert!(w.at_rest());
    }
}

/// 3. A descriptor that truncates matches without room too, and its threshold counts.
#[test]
fn a_full_truncating_descriptor_still_matches() {
    let mut w = world(2);
    let eq = w.ends[1].queue();
    w.ends[1].post(7, with_threshold(3, md(8, OP_PUT | TRUNCATE, eq)), Unlink::Retain);
    w.ends[1].post(7, md(64, OP_PUT, eq), Unlink::Retain);
    for _ in 0..3 {
        w.put(0, 8, AckReq::NoAck, &target(1, 7));
    }
    let ends: Vec<_> = w.ends[1]
        .events(eq)
        .into_iter()
        .filter(|e| e.kind == PutEnd)
        .collect();
    assert_eq!(
        ends.iter().map(|e| (e.mlength, e.offset)).collect::<Vec<_>>(),
        [(8, 0), (0, 8), (0, 8)]
    );
    assert_eq!(ends[2].md.threshold, 0);
    // Retired with MAX_SIZE it lets the next one have them.
    let mut w = world(2);
    let eq = w.ends[1].queue();
    let block = Md {
        max_size: 1,
        ..md(8, OP_PUT | TRUNCATE | MAX_SIZE, eq)
    };
    w.ends[1].post(7, block, Unlink::Retain);
    w.ends[1].post(
        7,
        Md {
            user_ptr: 2,
            ..md(64, OP_PUT, eq)
        },
        Unlink::Retain,
    );
    w.put(0, 8, AckReq::NoAck, &target(1, 7));
    w.put(0, 8, AckReq::NoAck, &target(1, 7));
    let events = w.ends[1].events(eq);
    assert_eq!((events[3].md.user_ptr, events[3].mlength), (2, 8));
}

/// 4. Explicit unlink makes no event.
#[test]
fn an_explicit_unlink_is_silent() {
    let mut w = world(1);
    let eq = w.ends[0].queue();
    let (_, here) = w.ends[0].post(7, md(8, OP_PUT, eq), Unlink::Unlink);
    w.ends[0].md_unlink(here).unwrap();
    let (me, _) = w.ends[0].post(7, md(8, OP_PUT, eq), Unlink::Unlink);
    w.ends[0].me_unlink(me).unwrap();
    assert!(w.ends[0].events(eq).is_empty());
}

/// 9. The initiator chooses the entry, and who it is comes from the trusted layer, not from the header.
#[test]
fn a_header_cannot_say_who_sent_it() {
    let mut w = world(4);
    let eq = w.ends[1].queue();
    let me = w.ends[1]
        .me_attach(3, id(2), (7, EXACT), Unlink::Retain, Position::After)
        .unwrap();
    w.ends[1]
        .md_attach(me, md(64, OP_PUT, eq), None, Unlink::Retain)
        .unwrap();
    let source = w.ends[2]
        .md_bind(md(8, 0, Handle::EQ_NONE), None, Unlink::Retain)
        .unwrap();
    let message = w.ends[2].send(source, &target(1, 7));
    // The same bytes, from somebody else.
    let stolen = w.ends[1].incoming(3, &message.header, 8);
    assert!(matches!(
        stolen,
        Verdict::Drop {
            reason: DropReason::NoMatch,
            ..
        }
    ));
    w.carry(2, message);
    assert_eq!(w.ends[1].events(eq)[0].initiator, id(2));
}

/// An answer is taken from the process that was asked only, and once.
#[test]
fn answers_of_strangers_are_dropped() {
    let mut w = world(4);
    let eq = w.ends[0].queue();
    let into = w.ends[0].md_bind(md(64, 0, eq), None, Unlink::Retain).unwrap();
    w.ends[1].post(7, md(64, OP_GET, Handle::EQ_NONE), Unlink::Retain);
    let request = w.ends[0].get(into, None, &target(1, 7)).unwrap();
    let Verdict::Reply(reply) = w.ends[1].incoming(0, &request.header, 0) else {
        panic!("a reply")
    };
    let dropped = |verdict| {
        matches!(
            verdict,
            Verdict::Drop {
                reason: DropReason::Answer,
                answer: None
            }
        )
    };
    assert!(
        dropped(w.ends[0].incoming(2, &reply.header, 64)),
        "not from whom was asked"
    );
    let ack = Header {
        kind: MessageKind::Ack,
        offset: 0,
        ..Header::decode(&reply.header, 64).unwrap()
    };
    assert!(
        dropped(w.ends[0].incoming(1, &ack.encode(), 0)),
        "not what was asked"
    );
    w.carry(1, reply.clone());
    assert!(dropped(w.ends[0].incoming(1, &reply.header, 64)), "twice");
    for operation in [
        0,
        1,
        1 << 32,
        1 << 63,
        u64::from(u32::MAX),
        NO_ANSWER - 1,
        NO_ANSWER,
    ] {
        let forged = Header {
            operation,
            ..Header::decode(&reply.header, 64).unwrap()
        };
        assert!(
            dropped(w.ends[0].incoming(1, &forged.encode(), 64)),
            "{operation:#x}"
        );
    }
    assert_eq!(w.ends[0].kinds(eq), [ReplyStart, ReplyEnd]);
    // An ack that says more was stored than was sent.
    let message = w.ends[0].put(into, None, AckReq::Ack, &target(1, 7), 0).unwrap();
    let operation = Header::decode(&message.header, 64).unwrap().operation;
    let boast = Header {
        operation,
        data: 65,
        ..ack
    };
    assert!(dropped(w.ends[0].incoming(1, &boast.encode(), 0)));
}

/// 10. An entry that stays without a descriptor is passed over, but counts in the list's length.
#[test]
fn an_empty_entry_counts() {
    let processes = processes(1);
    let limits = Limits {
        max_me_list: 2,
        ..Limits::LIBRARY
    };
    let mut end = library(0, &processes, Some(&limits));
    let me = end
        .me_attach(3, ProcessId::ANY, (7, EXACT), Unlink::Retain, Position::After)
        .unwrap();
    end.me_attach(3, ProcessId::ANY, (7, EXACT), Unlink::Retain, Position::After)
        .unwrap();
    let more = end.me_attach(3, ProcessId::ANY, (7, EXACT), Unlink::Retain, Position::Before);
    assert_eq!(more, Err(Error::MeListTooLong));
    let more = end.me_insert(me, ProcessId::ANY, (7, EXACT), Unlink::Retain, Position::Before);
    assert_eq!(more, Err(Error::MeListTooLong));
    end.me_attach(4, ProcessId::ANY, (7, EXACT), Unlink::Retain, Position::After)
        .unwrap();
    end.me_unlink(me).unwrap();
    end.me_attach(3, ProcessId::ANY, (7, EXACT), Unlink::Retain, Position::After)
        .unwrap();
}

/// 11. With IOVEC `length` counts segments; a message runs through them.
#[test]
fn segments() {
    let mut w = world(2);
    let list = [
        Segment {
            address: 0x1000,
            len: 5,
        },
        Segment { address: 0, len: 0 },
        Segment {
            address: 0x2000,
            len: 10,
        },
    ];
    let eq = w.ends[1].queue();
    let me = w.ends[1]
        .me_attach(3, ProcessId::ANY, (7, EXACT), Unlink::Retain, Position::After)
        .unwrap();
    let values = md(3, OP_PUT | IOVEC, eq);
    w.ends[1]
        .md_attach(me, values, Some(list.into()), Unlink::Retain)
        .unwrap();
    let source = w.ends[0].md_bind(values, Some(list.into()), Unlink::Retain);
    assert_eq!(source, Err(Error::EqInvalid), "the queue is another process's");
    let values = md(3, IOVEC, Handle::EQ_NONE);
    let source = w.ends[0]
        .md_bind(values, Some(list.into()), Unlink::Retain)
        .unwrap();
    let message = w.ends[0]
        .put(source, Some((3, 9)), AckReq::NoAck, &target(1, 7), 0)
        .unwrap();
    let pieces = |s: &Segments| s.pieces().map(|p| (p.address, p.len)).collect::<Vec<_>>();
    assert_eq!(pieces(&message.body), [(0x1003, 2), (0x2000, 7)]);
    let Verdict::Store { into, token, .. } = w.ends[1].incoming(0, &message.header, 9) else {
        panic!()
    };
    assert_eq!(pieces(&into), [(0x1000, 5), (0x2000, 4)]);
    w.ended(1, token, NiFail::OK);
    let message = w.ends[0]
        .put(source, Some((0, 6)), AckReq::NoAck, &target(1, 7), 0)
        .unwrap();
    let Verdict::Store { into, .. } = w.ends[1].incoming(0, &message.header, 6) else {
        panic!()
    };
    assert_eq!(pieces(&into), [(0x2004, 6)], "the local offset counts bytes");
    assert_eq!(w.ends[1].events(eq)[2].offset, 9);
    assert_eq!(
        w.ends[0]
            .put(source, Some((10, 6)), AckReq::NoAck, &target(1, 7), 0)
            .unwrap_err(),
        Error::MdIllegal
    );
}

/// 12. What is in flight keeps its descriptor and entry; afterwards they can go.
#[test]
fn unlink_while_an_operation_is_in_flight() {
    let mut w = world(2);
    let (me, here) = w.ends[1].post(7, md(64, OP_PUT | OP_GET, Handle::EQ_NONE), Unlink::Retain);
    let source = w.ends[0]
        .md_bind(md(8, 0, Handle::EQ_NONE), None, Unlink::Retain)
        .unwrap();
    let put = w.ends[0].send(source, &target(1, 7));
    let get = w.ends[0].get(source, None, &target(1, 7)).unwrap();
    let swap = w.ends[0].get_put(source, source, &target(1, 7), 0).unwrap();
    let mut replies = Vec::new();
    for message in [&put, &get, &swap] {
        assert_eq!(w.ends[0].md_unlink(source), Err(Error::MdInUse));
        let reply = match w.ends[1].incoming(0, &message.header, message.body.len() as u64) {
            Verdict::Store { token, .. } => {
                assert_eq!(w.ends[1].md_unlink(here), Err(Error::MdInUse));
                assert_eq!(w.ends[1].me_unlink(me), Err(Error::MeInUse));
                w.ended(1, token, NiFail::OK);
                None
            }
            Verdict::Reply(reply) => Some(reply),
            Verdict::Swap { token, .. } => {
                assert_eq!(w.ends[1].me_unlink(me), Err(Error::MeInUse));
                w.ends[1].swapped(token, Segments::one(0x9000, 8))
            }
            other => panic!("{other:?}"),
        };
        if let Some(reply) = reply {
            assert_eq!(w.ends[1].md_unlink(here), Err(Error::MdInUse));
            w.ended(1, reply.token, NiFail::OK);
            replies.push(reply);
        }
    }
    w.ends[1].me_unlink(me).unwrap();
    for message in [&put, &get, &swap] {
        w.ended(0, message.token, NiFail::OK);
    }
    // A reply that is being stored is in flight too; a get that waits for one is not.
    for reply in replies {
        let Verdict::Store { token, .. } = w.ends[0].incoming(1, &reply.header, 8) else {
            panic!()
        };
        assert_eq!(w.ends[0].md_unlink(source), Err(Error::MdInUse));
        w.ended(0, token, NiFail::OK);
    }
    w.ends[0].md_unlink(source).unwrap();
    assert!(w.at_rest());
}
