//! Messages that come without their bodies: matched in their turn, and whoever waits for them hears of it.

use super::*;
use crate::types::option::*;

/// Make what has been begun one whose body is lost, and say so at its sender.
fn lose(w: &mut World, at: u32, message: &Outgoing) -> Outgoing {
    let mut lost = message.clone();
    assert!(lose_body(&mut lost.header, message.body.len() as u64));
    (lost.body, lost.token) = (Segments::default(), NO_TOKEN);
    let again = lost.header;
    assert!(lose_body(&mut lost.header, 77) && lost.header == again);
    assert!(
        w.ends[at as usize]
            .finished(message.token, NiFail::FAIL)
            .is_none()
    );
    lost
}

#[test]
fn a_header_is_matched_as_the_put_that_it_stands_for() {
    let mut w = world(2);
    let eq = w.ends[1].queue();
    w.ends[1].post(7, md(100, OP_PUT, eq), Unlink::Retain);
    w.ends[1].post(7, md(64, OP_PUT | TRUNCATE, eq), Unlink::Retain);
    for (length, room) in [(0, 100), (100, 100), (101, 64), (1 << 40, 64)] {
        let header = w.ends[0].put_header(length, &target(1, 7), 5).expect("a header");
        assert!(header.body.is_empty());
        w.carry(0, header);
        let events = w.ends[1].events(eq);
        let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [PutStart, PutEnd]);
        for event in events {
            assert_eq!((event.rlength, event.mlength, event.md.length), (length, 0, room));
            assert_eq!((event.hdr_data, event.ni_fail_type), (5, NiFail::OK));
        }
    }
    let nobody = w.ends[0].put_header(4, &target(1, 8), 5).expect("a header");
    w.carry(0, nobody);
    assert_eq!(w.dropped(1, DropReason::NoMatch), 1);
    assert_eq!(
        w.ends[0].put_header(1 << 63, &target(1, 7), 0).err(),
        Some(Error::MdIllegal)
    );
    assert!(w.at_rest());
}

#[test]
fn a_put_whose_body_is_lost_fails_at_both_ends_in_its_turn() {
    let mut w = world(2);
    let (a, b) = (w.ends[0].queue(), w.ends[1].queue());
    w.ends[1].post(7, with_threshold(1, md(100, OP_PUT, b)), Unlink::Retain);
    let source = w.ends[0].md_bind(md(40, 0, a), None, Unlink::Retain).unwrap();
    for ack in [AckReq::NoAck, AckReq::Ack] {
        let put = w.ends[0].put(source, None, ack, &target(1, 7), 5).unwrap();
        let lost = lose(&mut w, 0, &put);
        w.carry(0, lost);
        let here = w.ends[0].events(a);
        assert_eq!(here.len(), 2, "an acknowledgement is not waited for");
        assert_eq!((here[1].kind, here[1].ni_fail_type), (SendEnd, NiFail::FAIL));
        let there = w.ends[1].events(b);
        if ack == AckReq::NoAck {
            assert_eq!((there[1].kind, there[1].ni_fail_type), (PutEnd, NiFail::FAIL));
            assert_eq!((there[1].rlength, there[1].mlength), (40, 0));
        } else {
            assert!(there.is_empty(), "the entry had one operation");
        }
    }
    assert!(w.at_rest());
}

#[test]
fn a_reply_whose_body_is_lost_ends_the_get() {
    let mut w = world(2);
    let (a, b) = (w.ends[0].queue(), w.ends[1].queue());
    w.ends[1].post(7, md(64, OP_GET, b), Unlink::Retain);
    let into = w.ends[0].md_bind(md(64, 0, a), None, Unlink::Retain).unwrap();
    let get = w.ends[0].get(into, None, &target(1, 7)).unwrap();
    let Verdict::Reply(reply) = w.ends[1].incoming(0, &get.header, 0) else {
        panic!("a get is replied to");
    };
    w.ended(0, get.token, NiFail::OK);
    let lost = lose(&mut w, 1, &reply);
    w.carry(1, lost);
    let here = w.ends[0].events(a);
    assert_eq!((here[1].kind, here[1].ni_fail_type), (ReplyEnd, NiFail::FAIL));
    assert_eq!(here[1].mlength, 0);
    let there = w.ends[1].events(b);
    assert_eq!((there[1].kind, there[1].ni_fail_type), (GetEnd, NiFail::FAIL));
    w.ends[0].md_unlink(into).expect("nothing is in progress");
    assert!(w.at_rest());
}

#[test]
fn only_puts_and_replies_can_lose_their_bodies() {
    let w = world(2);
    for kind in [
        MessageKind::Ack,
        MessageKind::Get,
        MessageKind::GetPut,
        MessageKind::Nothing,
        MessageKind::PutHeader,
    ] {
        let mut header = w.ends[0].put_header(0, &target(1, 7), 0).unwrap().header;
        header[0] = kind as u8;
        let before = header;
        assert!(!lose_body(&mut header, 5) && header == before, "{kind:?}");
    }
}
