//! Strangers, recordings, forgeries and honest peers against the state machines.

mod gate;
mod handshake;
mod hostile;
mod measure;
mod records;

use super::*;

const SECRET: [u8; 32] = [0x5a; 32];
const SIZE: u32 = 8;
const RAILS: u8 = 2;

fn secret() -> Secret {
    Secret::new(&SECRET)
}

fn caller() -> Caller {
    Caller {
        job: [9; 16],
        me: 3,
        peer: 5,
        rail: 1,
        encrypt: false,
        note: 0x1234_5678_9abc_def0,
    }
}

fn listener() -> Listener {
    Listener {
        job: [9; 16],
        me: 5,
        size: SIZE,
        rails: RAILS,
        encrypt: false,
        note: 77,
    }
}

/// What came out at one end.
type End = Result<Box<Session>, Refusal>;

/// Feed one end; what it sends and, if it is at its end, how that is.
fn step(h: &mut Handshake, bytes: &[u8]) -> (Vec<u8>, Option<End>) {
    match h.feed(bytes).1 {
        Progress::NeedMore(n) => {
            assert!(n > 0 && n == h.wants());
            (Vec::new(), None)
        }
        Progress::Send(f) => (f.to_vec(), None),
        Progress::Done { send, session } => (send.to_vec(), Some(Ok(session))),
        Progress::Refused { tell, reason } => (tell.to_vec(), Some(Err(reason))),
    }
}

/// Run a handshake; `meddle` may change message 0, 1 or 2 on its way. An end that has not finished when nothing
/// moves any more finds the connection closed.
fn converse(mut a: Handshake, mut b: Handshake, mut meddle: impl FnMut(usize, &mut Vec<u8>)) -> (End, End) {
    let (mut hello, mut a_end) = step(&mut a, &[]);
    let mut b_end = None;
    let mut answer = Vec::new();
    if a_end.is_none() {
        meddle(0, &mut hello);
        (answer, b_end) = step(&mut b, &hello);
    }
    if !answer.is_empty() {
        meddle(1, &mut answer);
        let (mut confirm, end) = step(&mut a, &answer);
        a_end = end;
        if !confirm.is_empty() && b_end.is_none() {
            meddle(2, &mut confirm);
            b_end = step(&mut b, &confirm).1;
        }
    }
    (
        a_end.unwrap_or_else(|| Err(a.closed())),
        b_end.unwrap_or_else(|| Err(b.closed())),
    )
}

fn ends(c: Caller, l: Listener) -> (Handshake, Handshake) {
    (
        Handshake::initiator(&secret(), c),
        Handshake::responder(&secret(), l),
    )
}

/// A session of each end.
fn sessions(encrypt: bool) -> (Box<Session>, Box<Session>) {
    let (a, b) = ends(Caller { encrypt, ..caller() }, listener());
    let (a, b) = converse(a, b, |_, _| {});
    (a.unwrap(), b.unwrap())
}
