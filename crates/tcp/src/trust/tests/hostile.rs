use super::*;
use crate::trust::wire::{ANSWER_BYTES, CONFIRM_BYTES, HELLO_BYTES, MAGIC};
use proptest::prelude::*;

#[test]
fn a_silent_connection_is_only_late_or_closed() {
    let mut b = Handshake::responder(&secret(), listener());
    assert!(matches!(b.feed(&[]).1, Progress::NeedMore(_)));
    assert!(!b.is_known());
    assert_eq!(b.closed(), Refusal::Incomplete(HandshakeStage::Silent));
    assert_eq!(b.late(), Refusal::TooSlow(HandshakeStage::Silent));
}

#[test]
fn another_protocol_shows_at_its_first_byte() {
    let mut b = Handshake::responder(&secret(), listener());
    let (tell, end) = step(&mut b, b"G");
    assert!(tell.is_empty());
    assert_eq!(
        end.unwrap().unwrap_err(),
        Refusal::NotFarpost(*b"G\0\0\0\0\0\0\0")
    );
}

#[test]
fn a_recorded_handshake_is_refused() {
    let (mut a, mut b) = ends(caller(), listener());
    let hello = step(&mut a, &[]).0;
    let answer = step(&mut b, &hello).0;
    let confirm = step(&mut a, &answer).0;
    assert!(step(&mut b, &confirm).1.unwrap().is_ok());

    // To the one who listens.
    let mut again = Handshake::responder(&secret(), listener());
    let fresh = step(&mut again, &hello).0;
    assert!(again.is_known() && fresh != answer);
    assert_eq!(again.late(), Refusal::TooSlow(HandshakeStage::Confirm));
    let end = step(&mut again, &confirm).1.unwrap();
    assert_eq!(end.unwrap_err(), Refusal::Replay);

    // To the one who connects.
    let mut again = Handshake::initiator(&secret(), caller());
    assert_ne!(step(&mut again, &[]).0, hello);
    let end = step(&mut again, &answer).1.unwrap();
    assert_eq!(end.unwrap_err(), Refusal::WrongSecret);
}

#[test]
fn a_handshake_sent_back_to_its_maker_is_refused() {
    let (mut a, mut b) = ends(caller(), listener());
    let hello = step(&mut a, &[]).0;
    assert!(step(&mut a, &hello).1.unwrap().is_err());
    // The maker's own listener does not take it either.
    let own = Listener {
        me: caller().me,
        ..listener()
    };
    let mut own = Handshake::responder(&secret(), own);
    assert!(step(&mut own, &hello).1.unwrap().is_err());
    let answer = step(&mut b, &hello).0;
    assert!(matches!(step(&mut b, &answer).1, Some(Err(Refusal::Replay))));
}

#[test]
fn every_flipped_bit_of_every_message_is_noticed() {
    for (which, len) in [(0, HELLO_BYTES), (1, ANSWER_BYTES), (2, CONFIRM_BYTES)] {
        for byte in 0..len {
            let bit = 1u8 << (byte % 8);
            let (a, b) = ends(caller(), listener());
            let (a, b) = converse(a, b, |at, m| {
                if at == which {
                    assert_eq!(m.len(), len);
                    m[byte] ^= bit;
                }
            });
            assert!(b.is_err(), "message {which}, byte {byte}");
            // Who connects is through before its last message arrives; no other way is it good there.
            assert_eq!(a.is_ok(), which == 2, "message {which}, byte {byte}");
        }
    }
}

#[test]
fn a_truncated_handshake_never_ends_well() {
    for (which, len) in [(0, HELLO_BYTES), (1, ANSWER_BYTES), (2, CONFIRM_BYTES)] {
        for keep in 0..len {
            let (a, b) = ends(caller(), listener());
            let (a, b) = converse(a, b, |at, m| {
                if at == which {
                    m.truncate(keep);
                }
            });
            assert!(matches!(b, Err(Refusal::Incomplete(_))));
            assert_eq!(a.is_ok(), which == 2);
        }
    }
}

#[test]
fn after_its_end_a_handshake_only_repeats_itself() {
    let mut b = Handshake::responder(&secret(), listener());
    step(&mut b, b"malformed");
    assert_eq!(b.wants(), 0);
    for _ in 0..3 {
        assert!(matches!(
            b.feed(b"more").1,
            Progress::Refused {
                reason: Refusal::NotFarpost(_),
                ..
            }
        ));
    }
}

/// Feed bytes in the given pieces; true if it came to a session.
fn feed_all(h: &mut Handshake, bytes: &[u8], piece: usize) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        let end = (at + piece).min(bytes.len());
        let (used, progress) = h.feed(&bytes[at..end]);
        assert!(used <= end - at && h.wants() <= wire::LONGEST);
        match progress {
            Progress::Done { .. } => return true,
            Progress::Refused { .. } => return false,
            Progress::Send(f) => assert!(f.len() <= wire::LONGEST),
            Progress::NeedMore(n) => assert!(n > 0 && used == end - at),
        }
        at += used.max(1);
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn random_bytes_at_every_stage(
        stage in 0..6usize,
        noise in proptest::collection::vec(any::<u8>(), 0..400),
        piece in 1..200usize,
    ) {
        let (mut a, mut b) = ends(caller(), listener());
        let hello = step(&mut a, &[]).0;
        let led_by = |lead: &[u8]| [lead, &noise].concat();
        let through = match stage {
            0 => feed_all(&mut b, &noise, piece),
            1 => feed_all(&mut b, &led_by(&MAGIC), piece),
            2 => feed_all(&mut b, &led_by(&hello[..wire::OPENING_BYTES]), piece),
            3 => feed_all(&mut b, &led_by(&hello), piece),
            4 => feed_all(&mut a, &noise, piece),
            _ => {
                let answer = step(&mut b, &hello).0;
                feed_all(&mut a, &led_by(&answer[..wire::OPENING_BYTES]), piece)
            }
        };
        prop_assert!(!through);
    }

    #[test]
    fn only_the_right_secret_gets_through(theirs in any::<[u8; 32]>(), same in any::<bool>()) {
        let key = if same { SECRET } else { theirs };
        let a = Handshake::initiator(&Secret::new(&key), caller());
        let b = Handshake::responder(&secret(), listener());
        let (a, b) = converse(a, b, |_, _| {});
        prop_assert_eq!(a.is_ok(), key == SECRET);
        prop_assert_eq!(b.is_ok(), key == SECRET);
    }
}
