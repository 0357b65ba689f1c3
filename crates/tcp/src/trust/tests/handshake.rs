use super::*;
use crate::trust::wire::{ANSWER_BYTES, CONFIRM_BYTES, HELLO_BYTES, KIND_HELLO, OPENING_BYTES, Opening};

fn refused(c: Caller, l: Listener) -> (Refusal, Refusal) {
    let (a, b) = ends(c, l);
    let (a, b) = converse(a, b, |_, _| {});
    (a.unwrap_err(), b.unwrap_err())
}

#[test]
fn two_members_of_a_job_agree() {
    let (a, b) = sessions(false);
    assert_eq!((a.initiator, a.responder, a.rail, a.note), (3, 5, 1, 77));
    assert_eq!(
        (b.initiator, b.responder, b.rail, b.note),
        (3, 5, 1, 0x1234_5678_9abc_def0)
    );
    assert_eq!(
        a.send_check.of(4, &[7; HEADER_CODED]),
        b.receive_check.of(4, &[7; HEADER_CODED])
    );
    assert_eq!(
        a.receive_check.of(4, &[7; HEADER_CODED]),
        b.send_check.of(4, &[7; HEADER_CODED])
    );
    assert!(a.records.is_none() && b.records.is_none());
}

#[test]
fn keys_are_of_one_connection_and_one_direction() {
    let (a, _) = sessions(false);
    let (b, _) = sessions(false);
    let of = |c: &HeaderCheck| c.of(0, &[7; HEADER_CODED]);
    let all = [
        of(&a.send_check),
        of(&a.receive_check),
        of(&b.send_check),
        of(&b.receive_check),
    ];
    for (i, x) in all.iter().enumerate() {
        assert!(!all[..i].contains(x));
    }
}

#[test]
fn a_header_check_sees_number_and_every_bit() {
    let check = sessions(false).0.send_check;
    let header: [u8; HEADER_CODED] = core::array::from_fn(|i| i as u8);
    let right = check.of(1, &header);
    assert_ne!(right, check.of(2, &header));
    for bit in 0..HEADER_CODED * 8 {
        let mut other = header;
        other[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(right, check.of(1, &other), "bit {bit}");
    }
}

#[test]
fn either_side_turns_encryption_on() {
    for (x, y) in [(false, false), (true, false), (false, true), (true, true)] {
        let (a, b) = ends(
            Caller {
                encrypt: x,
                ..caller()
            },
            Listener {
                encrypt: y,
                ..listener()
            },
        );
        let (a, b) = converse(a, b, |_, _| {});
        assert_eq!(a.unwrap().records.is_some(), x || y);
        assert_eq!(b.unwrap().records.is_some(), x || y);
    }
}

#[test]
fn messages_come_in_pieces_of_any_size() {
    let (mut a, mut b) = ends(caller(), listener());
    let hello = step(&mut a, &[]).0;
    assert_eq!(hello.len(), HELLO_BYTES);
    let mut answer = Vec::new();
    for byte in hello {
        assert!(answer.is_empty());
        answer = step(&mut b, &[byte]).0;
    }
    assert_eq!(answer.len(), ANSWER_BYTES);
    let (mut confirm, mut done) = (Vec::new(), None);
    for byte in answer {
        assert!(done.is_none());
        (confirm, done) = step(&mut a, &[byte]);
    }
    assert!(done.unwrap().is_ok());
    assert_eq!(confirm.len(), CONFIRM_BYTES);
}

#[test]
fn bytes_after_the_handshake_are_left_alone() {
    let (mut a, mut b) = ends(caller(), listener());
    let hello = step(&mut a, &[]).0;
    let answer = step(&mut b, &hello).0;
    let mut confirm = step(&mut a, &answer).0;
    confirm.extend_from_slice(b"the first frame");
    let (used, progress) = b.feed(&confirm);
    assert_eq!(used, CONFIRM_BYTES);
    assert!(matches!(progress, Progress::Done { .. }));
}

#[test]
fn a_wrong_secret_is_refused_without_an_answer() {
    let a = Handshake::initiator(&Secret::new(&[1; 32]), caller());
    let b = Handshake::responder(&secret(), listener());
    let (a, b) = converse(a, b, |which, _| {
        assert_eq!(which, 0, "nothing is sent to a stranger")
    });
    assert_eq!(b.unwrap_err(), Refusal::WrongSecret);
    let told = a.unwrap_err();
    assert_eq!(told, Refusal::Incomplete(HandshakeStage::Answer));
    assert!(told.to_string().contains("secret"), "{told}");
}

#[test]
fn another_job_with_the_same_secret_is_refused() {
    let both = refused(
        caller(),
        Listener {
            job: [8; 16],
            ..listener()
        },
    );
    assert_eq!(both, (Refusal::OtherJob, Refusal::OtherJob));
}

#[test]
fn a_call_for_somebody_else_is_refused() {
    let wrong = Refusal::NotForThisRank { asked: 5, here: 6 };
    assert_eq!(
        refused(caller(), Listener { me: 6, ..listener() }),
        (wrong, wrong)
    );
    // Ranks exchanged: who listens is who is said to call.
    let swapped = Caller {
        me: 5,
        peer: 3,
        ..caller()
    };
    let wrong = Refusal::NotForThisRank { asked: 3, here: 5 };
    assert_eq!(refused(swapped, listener()), (wrong, wrong));
}

#[test]
fn a_rank_or_a_rail_that_is_not_there_is_refused() {
    for said in [SIZE, u32::MAX, 5] {
        let wrong = Refusal::NoSuchRank { said, size: SIZE };
        assert_eq!(
            refused(Caller { me: said, ..caller() }, listener()),
            (wrong, wrong)
        );
    }
    let wrong = Refusal::NoSuchRail {
        asked: 2,
        rails: RAILS,
    };
    assert_eq!(
        refused(Caller { rail: 2, ..caller() }, listener()),
        (wrong, wrong)
    );
}

/// The hello of a version to come: the same opening, the rest unknown.
fn later_version(right_secret: bool) -> (Vec<u8>, Version) {
    let version = Version {
        major: 7,
        minor: 1,
        patch: 2,
    };
    let opening = Opening {
        version,
        kind: KIND_HELLO,
        random: [3; 16],
    };
    let key = if right_secret {
        secret()
    } else {
        Secret::new(&[1; 32])
    };
    let mut hello = opening.encode(&key.code, &[]).to_vec();
    hello.resize(HELLO_BYTES, 0xee);
    (hello, version)
}

#[test]
fn another_version_is_named_to_both_sides() {
    let (hello, theirs) = later_version(true);
    let mut b = Handshake::responder(&secret(), listener());
    let (tell, end) = step(&mut b, &hello);
    let reason = end.unwrap().unwrap_err();
    assert_eq!(
        reason,
        Refusal::OtherVersion {
            theirs,
            ours: Version::OURS
        }
    );
    let text = reason.to_string();
    assert!(
        text.contains("7.1.2") && text.contains(env!("CARGO_PKG_VERSION")),
        "{text}"
    );
    // What the newer side gets: the same opening, under a key that both have.
    let about = &hello[..OPENING_BYTES];
    let got = Opening::decode(tell[..].try_into().unwrap(), &secret().code, about).unwrap();
    assert_eq!(got.version, Version::OURS);

    // And the other way round: the answer of a newer version to this one's hello.
    let mut a = Handshake::initiator(&secret(), caller());
    let hello = step(&mut a, &[]).0;
    let newer = Opening {
        version: theirs,
        kind: wire::KIND_REFUSED + Reason::OtherVersion as u16,
        random: [0; 16],
    };
    let answer = newer.encode(&secret().code, &hello[..OPENING_BYTES]);
    let end = step(&mut a, &answer).1.unwrap().unwrap_err();
    assert_eq!(end, reason);
}

#[test]
fn a_version_is_told_to_nobody_without_the_secret() {
    let (hello, _) = later_version(false);
    let mut b = Handshake::responder(&secret(), listener());
    let (tell, end) = step(&mut b, &hello);
    assert!(tell.is_empty());
    assert_eq!(end.unwrap().unwrap_err(), Refusal::WrongSecret);
}

#[test]
fn every_reason_has_a_sentence_and_a_place() {
    for (at, reason) in Reason::ALL.iter().enumerate() {
        assert_eq!(*reason as usize, at);
        assert!(!reason.label().is_empty());
    }
    let text = Refusal::NotFarpost(*b"GET / HT").to_string();
    assert_eq!(text, "not a Farpost handshake (it begins with \"GET / HT\")");
}

#[test]
fn a_waiting_connection_costs_little() {
    let bytes = size_of::<Handshake>();
    assert!(bytes <= 512, "{bytes} bytes per waiting connection");
}
