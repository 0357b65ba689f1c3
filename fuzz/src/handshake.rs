//! The handshake, from both sides, and the records that follow it, with whatever a stranger or somebody in between makes of them.
//!
//! Script: a byte whose lowest bits say what is done, then changes: place (2 bytes), what is combined with the byte there.

use crate::input::{Input, Script};
use farpost_tcp::trust::{Caller, Handshake, Listener, Progress, RECORD_OVERHEAD, Secret, Session};

fn sides(encrypt: bool) -> (Handshake, Handshake) {
    let secret = Secret::new(&[7; 32]);
    let caller = Caller {
        job: [1; 16],
        me: 1,
        peer: 0,
        rail: 0,
        encrypt,
        note: 5,
    };
    let listener = Listener {
        job: [1; 16],
        me: 0,
        size: 2,
        rails: 1,
        encrypt: false,
        note: 6,
    };
    (
        Handshake::initiator(&secret, caller),
        Handshake::responder(&secret, listener),
    )
}

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let how = input.u8();
    match how & 3 {
        0 => stranger(input, how & 4 != 0),
        1 => in_between(&mut input, how & 4 != 0),
        _ => records(&mut input),
    }
}

/// Anything at all, in pieces, to who listens or to who has called.
fn stranger(mut input: Input<'_>, to_the_caller: bool) {
    let (mut caller, mut listener) = sides(false);
    let side = if to_the_caller {
        assert!(matches!(caller.feed(&[]).1, Progress::Send(_)));
        &mut caller
    } else {
        &mut listener
    };
    while !input.0.is_empty() {
        let piece = input.counted();
        let (used, progress) = side.feed(piece);
        assert!(used <= piece.len());
        match progress {
            Progress::NeedMore(more) => assert!(more > 0 && more <= 136 && more == side.wants()),
            Progress::Send(_) | Progress::Done { .. } => panic!("a stranger was let in"),
            Progress::Refused { tell, .. } => {
                assert!(to_the_caller || tell.is_empty(), "strangers are told nothing");
                return;
            }
        }
    }
    let _ = (side.closed().to_string(), side.late().to_string());
}

/// Two sides and somebody who changes what they send: no side believes what was changed.
fn in_between(input: &mut Input<'_>, encrypt: bool) {
    let (mut caller, mut listener) = sides(encrypt);
    let (mut changed, mut done) = (false, 0);
    let mut flight = match caller.feed(&[]).1 {
        Progress::Send(flight) => flight.to_vec(),
        other => panic!("{other:?}"),
    };
    let mut to_listener = true;
    for _ in 0..4 {
        let honest = flight.clone();
        for _ in 0..input.u8() % 4 {
            let (at, with) = (usize::from(input.u16()), input.u8());
            let at = at % flight.len();
            flight[at] ^= with;
        }
        changed |= flight != honest;
        let side = if to_listener { &mut listener } else { &mut caller };
        // In two pieces.
        let cut = usize::from(input.u8()).min(flight.len());
        let (used, mut progress) = side.feed(&flight[..cut]);
        if used == cut && matches!(progress, Progress::NeedMore(_)) {
            progress = side.feed(&flight[cut..]).1;
        }
        flight = match progress {
            Progress::Send(send) => send.to_vec(),
            Progress::Done { send, session } => {
                assert!(!changed, "what was changed was believed");
                assert_eq!((session.initiator, session.responder, session.rail), (1, 0, 0));
                assert_eq!(session.records.is_some(), encrypt);
                done += 1;
                send.to_vec()
            }
            Progress::NeedMore(_) => {
                assert!(changed, "an honest message was too short");
                return;
            }
            Progress::Refused { tell, reason } => {
                assert!(changed, "{reason}");
                tell.to_vec()
            }
        };
        if flight.is_empty() {
            break;
        }
        to_listener = !to_listener;
    }
    assert!(changed || done == 2, "an honest handshake fails");
}

fn sessions() -> (Session, Session) {
    let (mut caller, mut listener) = sides(true);
    let Progress::Send(hello) = caller.feed(&[]).1 else {
        panic!("no hello")
    };
    let Progress::Send(answer) = listener.feed(&hello).1 else {
        panic!("no answer")
    };
    let Progress::Done { send, session: one } = caller.feed(&answer).1 else {
        panic!("no end")
    };
    let Progress::Done { session: two, .. } = listener.feed(&send).1 else {
        panic!("no end")
    };
    (*one, *two)
}

/// Records: only what was sealed opens, as the next one and as it was.
fn records(input: &mut Input<'_>) {
    let (one, two) = sessions();
    let (mut sealer, _) = one.records.expect("encrypted");
    let (_, mut opener) = two.records.expect("encrypted");
    while let Some(what) = input.step() {
        let text = input.counted();
        if text.is_empty() {
            continue;
        }
        if what & 1 == 0 {
            let mut forged = text.to_vec();
            match opener.record_len(&forged) {
                Ok(Some(len)) if len <= forged.len() => {
                    assert!(opener.open(&mut forged[..len]).is_err(), "a forgery opens");
                    return;
                }
                Ok(_) => continue,
                Err(_) => return,
            }
        }
        let mut record = vec![0; text.len() + RECORD_OVERHEAD];
        record[4..4 + text.len()].copy_from_slice(text);
        sealer.seal_in_place(&mut record);
        if what & 2 != 0 {
            let (at, with) = (usize::from(input.u16()) % record.len(), input.u8());
            record[at] ^= with;
            if with != 0 {
                assert!(
                    opener.open(&mut record).is_err(),
                    "a record that was altered opens"
                );
                return;
            }
        }
        assert_eq!(opener.record_len(&record), Ok(Some(record.len())));
        assert_eq!(opener.open(&mut record).expect("an honest record"), text);
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let (mut caller, mut listener) = sides(false);
    let Progress::Send(hello) = caller.feed(&[]).1 else {
        panic!("no hello")
    };
    let Progress::Send(answer) = listener.feed(&hello).1 else {
        panic!("no answer")
    };
    // A recording: from another secret's job it proves nothing.
    let other = Secret::new(&[8; 32]);
    let mut stranger = Handshake::initiator(
        &other,
        Caller {
            job: [1; 16],
            me: 1,
            peer: 0,
            rail: 0,
            encrypt: false,
            note: 5,
        },
    );
    let Progress::Send(foreign) = stranger.feed(&[]).1 else {
        panic!("no hello")
    };
    vec![
        Script::default().u8(0).counted(&foreign).0,
        Script::default().u8(4).counted(&answer[..100]).0,
        Script::default().u8(0).counted(b"GET / HTTP/1.1\r\n\r\n").0,
        Script::default().u8(1).u8(0).u8(136).u8(0).u8(112).u8(0).u8(16).0,
        Script::default().u8(5).u8(0).u8(48).u8(0).u8(48).u8(0).u8(8).0,
        Script::default().u8(1).u8(1).u16(60).u8(1).u8(48).0,
        Script::default()
            .u8(2)
            .u8(1)
            .counted(b"some text")
            .u8(1)
            .counted(b"x")
            .0,
        Script::default().u8(2).u8(3).counted(b"some text").u16(9).u8(1).0,
        Script::default()
            .u8(2)
            .u8(0)
            .counted(&[
                4, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ])
            .0,
    ]
}
