//! Headers: everything from a peer is input.

use super::*;
use crate::types::option::*;

fn random_header(random: &mut fastrand::Rng) -> Header {
    let kinds = [
        MessageKind::Ack,
        MessageKind::Put,
        MessageKind::Get,
        MessageKind::Reply,
        MessageKind::GetPut,
        MessageKind::Nothing,
    ];
    let word = |random: &mut fastrand::Rng| match random.u32(0..6) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX - 1,
        3 => 1 << random.u32(0..64),
        4 => random.u64(0..100),
        _ => random.u64(..),
    };
    Header {
        kind: *random.choice(kinds.iter()).unwrap(),
        pt_index: *random.choice([0, 3, 3, 3, 63, 64, 255].iter()).unwrap(),
        ac_index: *random.choice([0, 0, 0, 63, 64, 255].iter()).unwrap(),
        interface: *random.choice([0, 0, 0, 1, 255].iter()).unwrap(),
        operation: word(random),
        match_bits: word(random),
        offset: word(random),
        data: word(random),
    }
}

#[test]
fn a_header_is_what_was_written() {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..10_000 {
        let header = random_header(&mut random);
        match Header::decode(&header.encode(), 0) {
            Ok(read) => {
                assert_eq!(read, header);
                good += 1;
            }
            Err(reason) => {
                assert_eq!(reason, DropReason::Malformed);
                bad += 1;
            }
        }
    }
    assert!(good > 1000 && bad > 1000);
}

#[test]
fn what_no_library_writes_is_refused() {
    let put = Header {
        kind: MessageKind::Put,
        pt_index: 3,
        ac_index: 0,
        interface: 0,
        operation: 1,
        match_bits: 0,
        offset: 0,
        data: 0,
    };
    let malformed = |header: Header, length| Header::decode(&header.encode(), length).is_err();
    let answer = |kind| Header {
        kind,
        pt_index: 0,
        ..put
    };
    assert!(
        malformed(
            Header {
                kind: MessageKind::Get,
                ..put
            },
            1
        ),
        "a get has no body"
    );
    for kind in [MessageKind::Get, MessageKind::GetPut] {
        assert!(
            malformed(
                Header {
                    kind,
                    operation: NO_ANSWER,
                    ..put
                },
                0
            ),
            "they are answered"
        );
    }
    for kind in [MessageKind::Ack, MessageKind::Reply, MessageKind::Nothing] {
        assert!(!malformed(answer(kind), 0));
        assert!(malformed(
            Header {
                pt_index: 1,
                ..answer(kind)
            },
            0
        ));
        assert!(malformed(
            Header {
                ac_index: 1,
                ..answer(kind)
            },
            0
        ));
        assert!(malformed(
            Header {
                match_bits: 1,
                ..answer(kind)
            },
            0
        ));
    }
    assert!(malformed(answer(MessageKind::Ack), 1));
    assert!(malformed(answer(MessageKind::Nothing), 1));
    assert!(malformed(
        Header {
            data: 1,
            ..answer(MessageKind::Nothing)
        },
        0
    ));
    assert!(malformed(
        Header {
            data: 1,
            ..answer(MessageKind::Reply)
        },
        0
    ));
    let bytes = put.encode();
    for len in 0..HEADER_BYTES {
        assert!(Header::decode(&bytes[..len], 0).is_err());
    }
    assert!(Header::decode(&[&bytes[..], &[0]].concat(), 0).is_err());
    let mut unknown = bytes;
    for kind in 6..=255 {
        unknown[0] = kind;
        assert!(Header::decode(&unknown, 0).is_err());
    }
}

/// Headers with fields at their extremes, and plain noise: each gets a verdict, memory that is named lies within the
/// descriptor, and the counts add up.
#[test]
fn hostile_headers() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut w = world(3);
        let end = &mut w.ends[0];
        let eq = end.queue();
        let base = 0x1000;
        for options in [
            OP_PUT | OP_GET,
            OP_PUT | OP_GET | MANAGE_REMOTE,
            OP_PUT | OP_GET | MANAGE_REMOTE | TRUNCATE,
        ] {
            let me = end
                .me_attach(3, id(1), (0, NO_BITS), Unlink::Retain, Position::After)
                .unwrap();
            end.md_attach(me, md(100, options, eq), None, Unlink::Retain)
                .unwrap();
        }
        let own = end.md_bind(md(100, 0, eq), None, Unlink::Retain).unwrap();
        let mut dropped = 0;
        for _ in 0..500 {
            // Something waits for answers.
            if random.u32(0..4) == 0 {
                let _ = end.put(own, None, AckReq::Ack, &target(1, 0), 0);
                let _ = end.get(own, None, &target(1, 0));
            }
            let mut bytes = random_header(&mut random).encode().to_vec();
            match random.u32(0..4) {
                0 => bytes.iter_mut().for_each(|b| *b = random.u8(..)),
                1 => bytes.truncate(random.usize(0..HEADER_BYTES)),
                // Operations that exist.
                2 => bytes[4..12].copy_from_slice(&random.u64(0..8).to_le_bytes()),
                _ => {}
            }
            let length = *random.choice([0, 1, 64, 65, 100, 101, u64::MAX].iter()).unwrap();
            let within = |segments: &Segments| {
                for piece in segments.pieces() {
                    assert!(piece.address >= base && piece.address + piece.len <= base + 100);
                }
            };
            let before = end.drops().total();
            match end.incoming(random.u32(0..4), &bytes, length) {
                Verdict::Drop { answer, .. } => {
                    dropped += 1;
                    assert!(answer.is_none_or(|a| a.to < 3 && a.body.is_empty() && a.token == NO_TOKEN));
                }
                Verdict::Done => {}
                Verdict::Store { token, keep, into } => {
                    assert_eq!(keep, into.len() as u64);
                    assert!(keep <= length);
                    within(&into);
                    let _ = end.finished(token, NiFail(random.u32(0..3)));
                }
                Verdict::Reply(reply) => {
                    within(&reply.body);
                    let _ = end.finished(reply.token, NiFail::OK);
                }
                Verdict::Swap { token, keep, with } => {
                    assert!(keep <= 64 && keep == with.len() as u64);
                    within(&with);
                    if random.bool() {
                        let reply = end.swapped(token, Segments::one(0x9000, keep as usize)).unwrap();
                        let _ = end.finished(reply.token, NiFail::OK);
                    } else {
                        let _ = end.finished(token, NiFail::FAIL);
                    }
                }
            }
            assert!(end.drops().total() - before <= 1);
            assert!(end.finished(random.u64(..), NiFail::OK).is_none());
            while end.eq_get(eq).is_ok() {}
        }
        assert_eq!(end.status(SR_DROP_COUNT), Ok(dropped));
    }
}
