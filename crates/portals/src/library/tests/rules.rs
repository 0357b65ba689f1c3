//! Section 4.2: what becomes of a message that arrives.

use super::*;
use crate::types::option::*;

#[test]
fn rule_1_an_interface_that_is_not_open_and_a_process_that_does_not_exist_are_drops() {
    let mut w = world(2);
    let eq = w.ends[1].queue();
    w.ends[1].post(7, md(64, OP_PUT, eq), Unlink::Retain);
    let source = w.ends[0]
        .md_bind(md(8, 0, Handle::EQ_NONE), None, Unlink::Retain)
        .unwrap();
    let mut message = w.ends[0].send(source, &target(1, 7));
    message.header[3] = 1;
    w.carry(0, message.clone());
    message.header[3] = 0;
    let verdict = w.ends[1].incoming(2, &message.header, 8);
    assert!(matches!(
        verdict,
        Verdict::Drop {
            reason: DropReason::UnknownProcess,
            answer: None
        }
    ));
    assert_eq!(w.dropped(1, DropReason::UnknownProcess), 2);
    assert_eq!(w.ends[1].status(SR_DROP_COUNT), Ok(2));
    assert!(w.ends[1].events(eq).is_empty());
}

#[test]
fn rule_2_an_ack_needs_a_descriptor_that_is_there_and_active_and_has_a_queue() {
    let mut w = world(2);
    w.ends[1].post(7, md(64, OP_PUT, Handle::EQ_NONE), Unlink::Retain);
    let eq = w.ends[0].queue();
    // There and active.
    let source = w.ends[0].md_bind(md(8, 0, eq), None, Unlink::Retain).unwrap();
    let message = w.ends[0]
        .put(source, None, AckReq::Ack, &target(1, 7), 0)
        .unwrap();
    w.carry(0, message);
    assert_eq!(w.ends[0].kinds(eq), [SendStart, SendEnd, Ack]);
    // Gone: the ack finds another descriptor in its place and leaves it alone.
    let message = w.ends[0]
        .put(source, None, AckReq::Ack, &target(1, 7), 0)
        .unwrap();
    assert!(w.ends[0].finished(message.token, NiFail::OK).is_none());
    w.ends[0].md_unlink(source).unwrap();
    let other = w.ends[0].md_bind(md(8, 0, eq), None, Unlink::Retain).unwrap();
    assert_eq!(other.index(), source.index());
    w.carry(0, message);
    assert_eq!(w.ends[0].kinds(eq), [SendStart, SendEnd]);
    assert_eq!(w.dropped(0, DropReason::Answer), 1);
    // Without a queue none is asked for.
    let silent = w.ends[0]
        .md_bind(md(8, 0, Handle::EQ_NONE), None, Unlink::Retain)
        .unwrap();
    let message = w.ends[0]
        .put(silent, None, AckReq::Ack, &target(1, 7), 0)
        .unwrap();
    let header = Header::decode(&message.header, 8).unwrap();
    assert_eq!(header.operation, NO_ANSWER);
    w.carry(0, message);
    assert!(w.at_rest());
}

/// Its queue may have gone since the put: freed, or another descriptor by an update.
#[test]
fn rule_2_an_ack_for_a_descriptor_without_its_queue_is_dropped() {
    for freed in [true, false] {
        let mut w = world(2);
        w.ends[1].post(7, md(64, OP_PUT, Handle::EQ_NONE), Unlink::Retain);
        let eq = w.ends[0].queue();
        let source = w.ends[0]
            .md_bind(with_threshold(3, md(8, 0, eq)), None, Unlink::Retain)
            .unwrap();
        let message = w.ends[0]
            .put(source, None, AckReq::Ack, &target(1, 7), 0)
            .unwrap();
        assert!(w.ends[0].finished(message.token, NiFail::OK).is_none());
        let none = with_threshold(3, md(8, 0, Handle::EQ_NONE));
        if freed {
            w.ends[0].eq_free(eq).unwrap();
        } else {
            w.ends[0]
                .md_update(source, None, Some((none, None)), Handle::EQ_NONE)
                .unwrap();
        }
        w.carry(0, message);
        assert_eq!(w.dropped(0, DropReason::Answer), 1);
        let mut now = none;
        w.ends[0]
            .md_update(source, Some(&mut now), None, Handle::EQ_NONE)
            .unwrap();
        assert_eq!(
            now.threshold,
            if freed { 2 } else { 3 },
            "what could make no event does not count"
        );
        assert!(w.at_rest());
    }
}

#[test]
fn rule_1_a_closed_interface_counts_what_others_sent() {
    let mut w = world(2);
    let source = w.ends[0]
        .md_bind(md(8, 0, Handle::EQ_NONE), None, Unlink::Retain)
        .unwrap();
    let put = w.ends[0].send(source, &target(1, 7));
    let get = w.ends[0].get(source, None, &target(1, 7)).unwrap();
    let end = &mut w.ends[1];
    let refused = end.incoming_while_closed(0, &put.header, 8);
    assert!(matches!(
        refused,
        Verdict::Drop {
            reason: DropReason::UnknownProcess,
            answer: None
        }
    ));
    let Verdict::Drop {
        answer: Some(nothing),
        ..
    } = end.incoming_while_closed(0, &get.header, 0)
    else {
        panic!("who waits is released")
    };
    assert!(matches!(
        end.incoming_while_closed(0, &[7; 3], 0),
        Verdict::Drop { answer: None, .. }
    ));
    // The library's own words are no messages of a program's.
    assert!(matches!(
        end.incoming_while_closed(0, &nothing.header, 0),
        Verdict::Done
    ));
    assert_eq!(end.status(SR_DROP_COUNT), Ok(3));
}

#[test]
fn rule_3_every_descriptor_takes_replies_and_shortens_them() {
    let mut w = world(2);
    w.ends[1].post(7, md(64, OP_GET | TRUNCATE, Handle::EQ_NONE), Unlink::Retain);
    let eq = w.ends[0].queue();
    let into = w.ends[0].md_bind(md(100, 0, eq), None, Unlink::Retain).unwrap();
    let request = w.ends[0].get(into, None, &target(1, 7)).unwrap();
    // Between request and reply the descriptor becomes a shorter one.
    let Verdict::Reply(reply) = w.ends[1].incoming(0, &request.header, 0) else {
        panic!("a reply")
    };
    assert_eq!(reply.body.len(), 64);
    w.ends[0]
        .md_update(into, None, Some((md(20, 0, eq), None)), Handle::EQ_NONE)
        .unwrap();
    w.carry(1, reply);
    w.ended(0, request.token, NiFail::OK);
    let events = w.ends[0].events(eq);
    assert_eq!(events[1].kind, EventKind::ReplyEnd);
    assert_eq!((events[1].rlength, events[1].mlength), (64, 20));
    assert!(w.at_rest());
}

#[test]
fn rule_3_a_reply_for_a_descriptor_that_is_gone_or_inactive_is_dropped() {
    let mut w = world(2);
    w.ends[1].post(7, md(64, OP_GET | MANAGE_REMOTE, Handle::EQ_NONE), Unlink::Retain);
    let eq = w.ends[0].queue();
    for gone in [true, false] {
        let into = w.ends[0].md_bind(md(64, 0, eq), None, Unlink::Retain).unwrap();
        let request = w.ends[0].get(into, None, &target(1, 7)).unwrap();
        if gone {
            w.ends[0].md_unlink(into).unwrap();
        } else {
            let off = with_threshold(0, md(64, 0, eq));
            w.ends[0]
                .md_update(into, None, Some((off, None)), Handle::EQ_NONE)
                .unwrap();
        }
        w.carry(0, request);
    }
    assert_eq!(w.dropped(0, DropReason::Answer), 2);
    assert!(w.ends[0].events(eq).is_empty());
    assert!(w.at_rest());
}

#[test]
fn rule_4_indexes_at_the_end_of_the_tables_and_beyond() {
    // The reference lets an index pass that equals the table's size (section 8).
    let limits = Limits {
        max_pt_index: 3,
        max_ac_index: 1,
        ..Limits::LIBRARY
    };
    let processes = processes(2);
    let mut w = World {
        ends: vec![
            library(0, &processes, None),
            library(1, &processes, Some(&limits)),
        ],
    };
    let eq = w.ends[1].queue();
    w.ends[1].post(7, md(64, OP_PUT, eq), Unlink::Retain);
    for pt_index in [4, 5, 255, 256, u32::MAX] {
        w.put(
            0,
            8,
            AckReq::NoAck,
            &Target {
                pt_index,
                ..target(1, 7)
            },
        );
    }
    assert_eq!(w.dropped(1, DropReason::PtIndex), 5);
    for ac_index in [2, 3, 255, 256 + 1, u32::MAX] {
        w.put(
            0,
            8,
            AckReq::NoAck,
            &Target {
                ac_index,
                ..target(1, 7)
            },
        );
    }
    assert_eq!(w.dropped(1, DropReason::AcIndex), 5);
    w.put(
        0,
        8,
        AckReq::NoAck,
        &Target {
            ac_index: 1,
            ..target(1, 7)
        },
    );
    assert_eq!(w.ends[1].kinds(eq).len(), 2);
    // The portal index is looked at first.
    w.put(
        0,
        8,
        AckReq::NoAck,
        &Target {
            pt_index: 9,
            ac_index: 9,
            ..target(1, 7)
        },
    );
    assert_eq!(w.dropped(1, DropReason::PtIndex), 6);
    assert_eq!(w.ends[1].status(SR_DROP_COUNT), Ok(11));
}

#[test]
fn rule_4_access_is_denied_by_each_field_and_admitted_by_wildcards() {
    let mut w = world(4);
    let eq = w.ends[1].queue();
    w.ends[1].post(7, md(64, OP_PUT, eq), Unlink::Retain);
    let open = AccessEntry {
        id: ProcessId::ANY,
        uid: ANY,
        jid: ANY,
        pt_index: ANY,
    };
    // The initiator is process 2, of node 1, number 0.
    let cases = [
        (AccessEntry { uid: UID + 1, ..open }, Some(DropReason::AccessUid)),
        (
            AccessEntry { pt_index: 4, ..open },
            Some(DropReason::AccessPortal),
        ),
        (AccessEntry { jid: JID + 1, ..open }, Some(DropReason::AccessJid)),
        (
            AccessEntry {
                id: ProcessId::new(0, ANY),
                ..open
            },
            Some(DropReason::AccessNid),
        ),
        (
            AccessEntry {
                id: ProcessId::new(ANY, 1),
                ..open
            },
            Some(DropReason::AccessPid),
        ),
        (AccessEntry { id: id(3), ..open }, Some(DropReason::AccessPid)),
        (
            AccessEntry {
                id: id(2),
                uid: UID,
                jid: JID,
                pt_index: 3,
            },
            None,
        ),
        (open, None),
    ];
    for (n, (entry, reason)) in cases.into_iter().enumerate() {
        let index = n as u32 + 1;
        w.ends[1].ac_entry(index, entry).unwrap();
        let before = w.ends[1].drops().total();
        w.put(
            2,
            8,
            AckReq::Ack,
            &Target {
                ac_index: index,
                ..target(1, 7)
            },
        );
        assert_eq!(
            w.ends[1].kinds(eq).len(),
            if reason.is_none() { 2 } else { 0 },
            "{entry:?}"
        );
        assert_eq!(w.ends[1].drops().total() - before, u64::from(reason.is_some()));
        if let Some(reason) = reason {
            assert!(w.dropped(1, reason) > 0, "{entry:?}");
        }
    }
    assert_eq!(w.ends[1].status(SR_DROP_COUNT), Ok(6));
    assert!(w.at_rest());
}

#[test]
fn rule_5_the_first_entry_that_passes_everything_wins() {
    let mut w = world(4);
    let eq = w.ends[1].queue();
    let end = &mut w.ends[1];
    let mut at = Vec::new();
    let mut attach = |end: &mut Library, id, bits, ignore, md: Option<Md>| {
        let me = end
            .me_attach(3, id, (bits, ignore), Unlink::Retain, Position::After)
            .unwrap();
        at.push(md.map(|md| end.md_attach(me, md, None, Unlink::Retain).unwrap()));
    };
    let good = md(64, OP_PUT | OP_GET, eq);
    attach(end, ProcessId::ANY, 7, EXACT, None); // no descriptor
    attach(end, ProcessId::new(0, ANY), 7, EXACT, Some(good)); // another node
    attach(end, ProcessId::new(ANY, 1), 7, EXACT, Some(good)); // another process
    attach(end, id(3), 7, EXACT, Some(good)); // both
    attach(end, ProcessId::ANY, 0x17, 0x0f, Some(good)); // bits that count differ
    attach(end, ProcessId::ANY, 7, EXACT, Some(with_threshold(0, good))); // inactive
    attach(end, ProcessId::ANY, 7, EXACT, Some(md(64, 0, eq))); // no operation enabled
    attach(end, ProcessId::ANY, 7, EXACT, Some(md(7, OP_PUT | OP_GET, eq))); // too short
    attach(end, id(2), 0xf7, 0xf0, Some(md(64, OP_PUT, eq))); // a put
    attach(end, id(2), 0xf7, 0xf0, Some(md(64, OP_GET, eq))); // a get
    attach(end, ProcessId::ANY, 0, NO_BITS, Some(good)); // anything: a get-put needs both
    w.put(2, 8, AckReq::NoAck, &target(1, 7));
    let into = w.ends[2]
        .md_bind(md(8, 0, Handle::EQ_NONE), None, Unlink::Retain)
        .unwrap();
    let request = w.ends[2].get(into, None, &target(1, 7)).unwrap();
    w.carry(2, request);
    let request = w.ends[2].get_put(into, into, &target(1, 7), 0).unwrap();
    w.carry(2, request);
    let won: Vec<_> = w.ends[1]
        .events(eq)
        .iter()
        .map(|e| (e.kind, Some(e.md_handle)))
        .collect();
    assert_eq!(
        won,
        [
            (PutStart, at[8]),
            (PutEnd, at[8]),
            (GetStart, at[9]),
            (GetEnd, at[9]),
            (GetPutStart, at[10]),
            (GetPutEnd, at[10]),
        ]
    );
    // End of the list: dropped.
    w.put(2, 65, AckReq::NoAck, &target(1, 7));
    assert_eq!(w.dropped(1, DropReason::NoMatch), 1);
    assert!(w.at_rest());
}

#[test]
fn rule_6_offset_and_room() {
    // (options, requested offset, length, local offset before) -> (offset, accepted)
    let huge = u64::MAX;
    for (options, requested, length, expected) in [
        (OP_PUT, 50, 100, Some((0, 100))),
        (OP_PUT, 0, 101, None),
        (OP_PUT | TRUNCATE, 50, 101, Some((0, 100))),
        (OP_PUT | TRUNCATE, 50, huge, Some((0, 100))),
        (OP_PUT | MANAGE_REMOTE, 50, 50, Some((50, 50))),
        (OP_PUT | MANAGE_REMOTE, 50, 51, None),
        (OP_PUT | MANAGE_REMOTE, huge, 1, None),
        (OP_PUT | MANAGE_REMOTE, 1, huge, None),
        (OP_PUT | MANAGE_REMOTE, 100, 0, Some((100, 0))),
        (OP_PUT | MANAGE_REMOTE, 101, 0, None),
        (OP_PUT | MANAGE_REMOTE | TRUNCATE, 60, 50, Some((60, 40))),
        (OP_PUT | MANAGE_REMOTE | TRUNCATE, 100, 50, Some((100, 0))),
        (OP_PUT | MANAGE_REMOTE | TRUNCATE, 101, 50, None),
        (OP_PUT | MANAGE_REMOTE | TRUNCATE, huge, huge, None),
    ] {
        let mut w = world(2);
        let eq = w.ends[1].queue();
        w.ends[1].post(7, md(100, options, eq), Unlink::Retain);
        let header = Header {
            kind: MessageKind::Put,
            pt_index: 3,
            ac_index: 0,
            interface: 0,
            operation: NO_ANSWER,
            match_bits: 7,
            offset: requested,
            data: 0,
        };
        let verdict = w.ends[1].incoming(0, &header.encode(), length);
        let case = format!("options {options:#x}, offset {requested}, length {length}");
        match (verdict, expected) {
            (Verdict::Store { keep, into, .. }, Some((offset, accepted))) => {
                assert_eq!(keep, accepted, "{case}");
                let piece = into.as_one().unwrap();
                if accepted > 0 {
                    assert_eq!(piece.address as u64, 0x1000 + offset, "{case}");
                }
                let event = w.ends[1].events(eq)[0];
                assert_eq!(
                    (event.rlength, event.mlength, event.offset),
                    (length, accepted, offset),
                    "{case}"
                );
            }
            (
                Verdict::Drop {
                    reason: DropReason::NoMatch,
                    ..
                },
                None,
            ) => {}
            (verdict, _) => panic!("{case}: {verdict:?}"),
        }
    }
}

#[test]
fn rule_7_the_local_offset_runs_only_where_it_is_used() {
    for (options, expected) in [(OP_PUT, [0, 8, 16]), (OP_PUT | MANAGE_REMOTE, [5, 5, 5])] {
        let mut w = world(2);
        let eq = w.ends[1].queue();
        w.ends[1].post(7, with_threshold(3, md(24, options, eq)), Unlink::Retain);
        for _ in 0..4 {
            w.put(
                0,
                8,
                AckReq::NoAck,
                &Target {
                    offset: 5,
                    ..target(1, 7)
                },
            );
        }
        let events = w.ends[1].events(eq);
        let ends: Vec<_> = events.iter().filter(|e| e.kind == EventKind::PutEnd).collect();
        assert_eq!(ends.iter().map(|e| e.offset).collect::<Vec<_>>(), expected);
        assert_eq!(ends.iter().map(|e| e.md.threshold).collect::<Vec<_>>(), [2, 1, 0]);
        assert_eq!(w.dropped(1, DropReason::NoMatch), 1);
    }
}

#[test]
fn rule_7_max_size_retires_after_the_operation_that_leaves_too_little() {
    let mut w = world(2);
    let eq = w.ends[1].queue();
    let block = Md {
        max_size: 40,
        ..md(100, OP_PUT | MAX_SIZE, eq)
    };
    w.ends[1].post(7, block, Unlink::Retain);
    w.put(0, 60, AckReq::NoAck, &target(1, 7)); // 40 left: one more fits
    w.put(0, 1, AckReq::NoAck, &target(1, 7)); // 39 left
    w.put(0, 1, AckReq::NoAck, &target(1, 7));
    assert_eq!(w.ends[1].kinds(eq).len(), 4);
    assert_eq!(w.dropped(1, DropReason::NoMatch), 1);
    // It means nothing where the offset is managed remotely: cleared.
    let block = Md {
        max_size: 100,
        ..md(100, OP_PUT | MAX_SIZE | MANAGE_REMOTE, eq)
    };
    w.ends[1].post(8, block, Unlink::Retain);
    w.put(0, 60, AckReq::NoAck, &target(1, 8));
    w.put(0, 60, AckReq::NoAck, &target(1, 8));
    let events = w.ends[1].events(eq);
    assert_eq!(events.len(), 4);
    assert_eq!(events[3].md.options & MAX_SIZE, 0);
}

#[test]
fn rule_8_at_the_start_every_entry_admits_the_same_user_on_any_portal() {
    let identity = |n, uid| Identity {
        id: id(n),
        uid,
        jid: n,
    };
    let processes = Rc::new(Processes::new(vec![
        identity(0, 1),
        identity(1, 1),
        identity(2, 2),
    ]));
    let mut w = World {
        ends: (0..3).map(|n| library(n, &processes, None)).collect(),
    };
    let eq = w.ends[1].queue();
    w.ends[1].post(7, md(64, OP_PUT, eq), Unlink::Retain);
    for ac_index in [0, 1, 63] {
        w.put(
            0,
            8,
            AckReq::NoAck,
            &Target {
                ac_index,
                ..target(1, 7)
            },
        );
        w.put(
            2,
            8,
            AckReq::NoAck,
            &Target {
                ac_index,
                ..target(1, 7)
            },
        );
    }
    assert_eq!(w.ends[1].kinds(eq).len(), 6);
    assert_eq!(w.dropped(1, DropReason::AccessUid), 3);
}

#[test]
fn an_initiator_hears_nothing_of_a_drop_and_keeps_nothing_of_it() {
    let mut w = world(2);
    let eq = w.ends[0].queue();
    let source = w.ends[0].md_bind(md(8, 0, eq), None, Unlink::Retain).unwrap();
    let message = w.ends[0]
        .put(source, None, AckReq::Ack, &target(1, 7), 0)
        .unwrap();
    w.carry(0, message);
    let message = w.ends[0].get(source, None, &target(1, 7)).unwrap();
    w.carry(0, message);
    let message = w.ends[0].get_put(source, source, &target(1, 7), 0).unwrap();
    w.carry(0, message);
    assert_eq!(w.ends[0].kinds(eq), [SendStart, SendEnd, SendStart, SendEnd]);
    assert_eq!(w.dropped(1, DropReason::NoMatch), 3);
    assert!(w.at_rest());
    w.ends[0].md_unlink(source).unwrap();
}
