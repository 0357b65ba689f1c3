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
        MessageKind::PutHeader,
        MessageKind::LostPut,
        MessageKind::LostReply,
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
    for kind in 9..=255 {
        unknown[0] = kind;
        assert!(Header::decode(&unknown, 0).is_err());
    }
}

/// Headers with fields at their extremes, genuine ones with a bit or a field changed, answers for operations that exist, and
/// plain noise: each gets a verdict, memory that is named lies within the descriptor, the counts add up, and nothing stays
/// when the peers have ended.
#[test]
fn hostile_headers() {
    const LENGTHS: [u64; 7] = [0, 1, 64, 65, 100, 101, u64::MAX];
    let mut kinds = [0; 5];
    for seed in seeds(100) {
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
        let own = end.md_bind(md(60, 0, eq), None, Unlink::Retain).unwrap();
        let (mut dropped, mut genuine, mut outstanding) = (0, Vec::new(), Vec::new());
        for _ in 0..500 {
            // Something waits for answers, and some of it has left.
            if random.u32(0..4) == 0 {
                let to = target(random.u32(1..3), 0);
                let message = match random.u32(0..3) {
                    0 => end.put(own, None, AckReq::Ack, &to, 0),
                    1 => end.get(own, None, &to),
                    _ => end.get_put(own, own, &to, 0),
                };
                let message = message.expect("an operation");
                outstanding.push(message.token);
                genuine.push(message.header);
            }
            if random.bool() && !outstanding.is_empty() {
                let token = outstanding.swap_remove(random.usize(0..outstanding.len()));
                assert!(end.finished(token, NiFail(random.u32(0..3))).is_none());
            }
            let mut bytes = random_header(&mut random).encode().to_vec();
            match random.u32(0..6) {
                0 => bytes.iter_mut().for_each(|b| *b = random.u8(..)),
                1 => bytes.truncate(random.usize(0..HEADER_BYTES)),
                // Operations that exist.
                2 | 3 if !genuine.is_empty() => {
                    let latest = genuine.len().saturating_sub(20);
                    let of = genuine[random.usize(latest..genuine.len())];
                    bytes[4..12].copy_from_slice(&of[4..12]);
                    // As what answers them, most often.
                    if random.bool() {
                        let kind = [
                            MessageKind::Ack,
                            MessageKind::Reply,
                            MessageKind::LostReply,
                            MessageKind::Nothing,
                        ][random.usize(0..4)];
                        let data = if kind == MessageKind::Ack {
                            random.u64(0..200)
                        } else {
                            0
                        };
                        bytes = Header {
                            kind,
                            pt_index: 0,
                            ac_index: 0,
                            interface: 0,
                            operation: u64::from_le_bytes(bytes[4..12].try_into().unwrap()),
                            match_bits: 0,
                            offset: 0,
                            data,
                        }
                        .encode()
                        .to_vec();
                    }
                }
                4 if !genuine.is_empty() => {
                    bytes = genuine[random.usize(0..genuine.len())].to_vec();
                    let at = random.usize(0..8 * HEADER_BYTES);
                    bytes[at / 8] ^= 1 << (at % 8);
                }
                _ => {}
            }
            // Most messages have a body that goes with their kind, so that much gets through.
            let bodyless = bytes.first().is_some_and(|kind| [0, 2, 5].contains(kind));
            let length = match random.u32(0..4) {
                0 => LENGTHS[random.usize(0..LENGTHS.len())],
                _ if bodyless => 0,
                _ => random.u64(0..70),
            };
            let within = |segments: &Segments| {
                for piece in segments.pieces() {
                    assert!(piece.address >= base && piece.address + piece.len <= base + 100);
                }
            };
            let before = end.drops().total();
            match end.incoming([0, 1, 1, 1, 1, 2, 2, 3][random.usize(0..8)], &bytes, length) {
                Verdict::Drop { answer, .. } => {
                    dropped += 1;
                    kinds[0] += 1;
                    assert!(answer.is_none_or(|a| a.to < 3 && a.body.is_empty() && a.token == NO_TOKEN));
                }
                Verdict::Done => kinds[1] += 1,
                Verdict::Store { token, keep, into } => {
                    kinds[2] += 1;
                    assert_eq!(keep, into.len() as u64);
                    assert!(keep <= length);
                    within(&into);
                    let _ = end.finished(token, NiFail(random.u32(0..3)));
                }
                Verdict::Reply(reply) => {
                    kinds[3] += 1;
                    within(&reply.body);
                    let _ = end.finished(reply.token, NiFail::OK);
                }
                Verdict::Swap { token, keep, with } => {
                    kinds[4] += 1;
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
            // An acknowledgement that was held back until its put had left may be dropped then.
            assert!(end.drops().total() - before <= 1);
            let noise = random.u64(..);
            assert!(outstanding.contains(&noise) || end.finished(noise, NiFail::OK).is_none());
            while end.eq_get(eq).is_ok() {}
        }
        assert_eq!(end.status(SR_DROP_COUNT), Ok(dropped));
        for token in outstanding {
            let _ = end.finished(token, NiFail::OK);
        }
        for peer in 0..3 {
            end.peer_ended(peer);
        }
        assert_eq!(end.operations(), 0, "seed {seed}");
        assert_eq!(end.md_unlink(own), Ok(()), "seed {seed}");
    }
    assert!(kinds.iter().all(|count| *count > 500), "{kinds:?}");
}

/// While the interface is not open everything is dropped and counted but the library's own word, whatever the header.
#[test]
fn hostile_headers_while_closed() {
    for seed in seeds(20) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut w = world(2);
        let mut own = 0;
        for n in 0..500 {
            let mut bytes = random_header(&mut random).encode().to_vec();
            if random.u32(0..4) == 0 {
                bytes.truncate(random.usize(0..HEADER_BYTES));
            }
            let length = [0, 1, u64::MAX][random.usize(0..3)];
            let nothing = Header::decode(&bytes, length).is_ok_and(|h| h.kind == MessageKind::Nothing);
            own += u64::from(nothing);
            let verdict = w.ends[0].incoming_while_closed(1, &bytes, length);
            assert_eq!(matches!(verdict, Verdict::Done), nothing);
            assert_eq!(w.ends[0].drops().total(), n + 1 - own);
        }
        assert_eq!(w.ends[0].operations(), 0);
    }
}
