//! The gate and the handshake on real sockets: whatever strangers do, members of the job get in, strangers are dropped
//! and counted, and no more connections wait than there are places.

use farpost_tcp::trust::{
    Admission, Caller, Gate, GateSlot, Handshake, Limits, Listener, Progress, Reason, Refusal, Secret,
    Session,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const PLACES: usize = 16;

fn caller(me: u32) -> Caller {
    Caller {
        job: [0; 16],
        me,
        peer: 0,
        rail: 0,
        encrypt: false,
        note: 0,
    }
}

/// A listener with its gate, as a fabric has it, stepped by hand; its clock is the test's.
struct Door {
    listener: TcpListener,
    secret: Secret,
    gate: Gate,
    waiting: Vec<Option<(GateSlot, TcpStream, Handshake)>>,
    sessions: Vec<Session>,
    now: Instant,
}

impl Door {
    fn new(secret: &Secret) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let limits = Limits {
            places: PLACES,
            patience: Duration::from_secs(2),
            known_patience: Duration::from_secs(60),
        };
        Door {
            listener,
            secret: secret.clone(),
            gate: Gate::new(limits),
            waiting: (0..PLACES).map(|_| None).collect(),
            sessions: Vec::new(),
            now: Instant::now(),
        }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    fn turn(&mut self) {
        while self.gate.room(self.now).is_ok()
            && let Ok((stream, from)) = self.listener.accept()
        {
            stream.set_nonblocking(true).unwrap();
            if let Admission::Wait { place, .. } = self.gate.admit(self.now, from.ip()) {
                let listener = Listener {
                    job: [0; 16],
                    me: 0,
                    size: 100,
                    rails: 1,
                    encrypt: false,
                    note: 0,
                };
                let handshake = Handshake::responder(&self.secret, listener);
                // Who waited there before is closed by this.
                self.waiting[place.index()] = Some((place, stream, handshake));
            }
        }
        for slot in &mut self.waiting {
            if let Some((place, stream, handshake)) = slot
                && let Some(end) = serve(stream, handshake)
            {
                match end {
                    Ok(session) => {
                        self.gate.passed(*place);
                        self.sessions.push(*session);
                    }
                    Err(why) => self.gate.refused(*place, self.now, &why),
                }
                *slot = None;
            } else if let Some((place, _, handshake)) = slot
                && handshake.is_known()
            {
                let known = self.gate.known(*place, self.now, handshake.hello());
                if let Err(why) = known {
                    self.gate.refused(*place, self.now, &why);
                    *slot = None;
                }
            }
        }
        while let Some(place) = self.gate.overdue(self.now) {
            let (_, _, handshake) = self.waiting[place.index()].take().unwrap();
            self.gate.refused(place, self.now, &handshake.late());
        }
        assert!(self.gate.waiting() <= PLACES);
        assert_eq!(self.waiting.iter().flatten().count(), self.gate.waiting());
    }

    /// Turns until `done`; time at the door stands still.
    fn until(&mut self, mut done: impl FnMut(&Door) -> bool) {
        for _ in 0..20_000 {
            self.turn();
            if done(self) {
                return;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        panic!("never happened; {}", self.gate.tally().sentence());
    }

    fn refused(&self, reason: Reason) -> u64 {
        self.gate.tally().refused[reason as usize]
    }

    /// A member of the job gets in now.
    fn welcomes(&mut self, rank: u32) {
        let before = self.sessions.len();
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut handshake = Handshake::initiator(&self.secret, caller(rank));
        let mut end = serve(&mut stream, &mut handshake);
        self.until(|door| {
            if end.is_none() {
                end = serve(&mut stream, &mut handshake);
            }
            door.sessions.len() > before
        });
        let session = end.unwrap().unwrap();
        assert_eq!(session.initiator, rank);
        assert_eq!(self.sessions[before].initiator, rank);
    }
}

/// Read and answer what there is.
fn serve(stream: &mut TcpStream, handshake: &mut Handshake) -> Option<Result<Box<Session>, Refusal>> {
    let mut buffer = [0u8; 256];
    loop {
        let wants = handshake.wants();
        let n = match if wants == 0 {
            Ok(0)
        } else {
            stream.read(&mut buffer[..wants])
        } {
            Ok(0) if wants > 0 => return Some(Err(handshake.closed())),
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return None,
            Err(_) => return Some(Err(handshake.closed())),
        };
        match handshake.feed(&buffer[..n]).1 {
            Progress::NeedMore(_) => {}
            // So few bytes always fit a socket's empty buffer.
            Progress::Send(flight) => stream.write_all(&flight).unwrap(),
            Progress::Done { send, session } => {
                stream.write_all(&send).unwrap();
                return Some(Ok(session));
            }
            Progress::Refused { tell, reason } => {
                let _ = stream.write_all(&tell);
                return Some(Err(reason));
            }
        }
    }
}

/// Everything a fresh connection is told, until it is closed, by a door that goes on turning.
fn told(door: &mut Door, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(door.address()).unwrap();
    let _ = stream.write_all(bytes);
    stream.set_nonblocking(true).unwrap();
    let (mut all, mut buffer) = (Vec::new(), [0u8; 256]);
    door.until(|_| match stream.read(&mut buffer) {
        Ok(0) => true,
        Ok(n) => {
            all.extend_from_slice(&buffer[..n]);
            false
        }
        Err(e) => e.kind() != ErrorKind::WouldBlock,
    });
    all
}

fn secret() -> Secret {
    Secret::new(&[42; 32])
}

#[test]
fn a_port_scanner_is_dropped_when_its_time_is_over() {
    let mut door = Door::new(&secret());
    let scanners: Vec<_> = (0..5)
        .map(|_| TcpStream::connect(door.address()).unwrap())
        .collect();
    door.until(|d| d.gate.waiting() == 5);
    // One looks and leaves.
    drop(scanners.into_iter().next_back());
    door.until(|d| d.refused(Reason::Incomplete) > 0);
    door.welcomes(7);
    door.now += Duration::from_secs(2);
    door.turn();
    assert_eq!(door.gate.waiting(), 0);
    assert_eq!(
        door.refused(Reason::TooSlow) + door.refused(Reason::Incomplete),
        5
    );
}

#[test]
fn other_protocols_and_wrong_secrets_are_told_nothing() {
    let mut door = Door::new(&secret());
    assert_eq!(told(&mut door, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), b"");
    assert_eq!(told(&mut door, &[0xf7; 400]), b"");
    assert_eq!(door.refused(Reason::NotFarpost), 2);
    let mut other = Handshake::initiator(&Secret::new(&[1; 32]), caller(3));
    let Progress::Send(hello) = other.feed(&[]).1 else {
        panic!("no hello");
    };
    assert_eq!(told(&mut door, &hello), b"");
    assert_eq!(door.refused(Reason::WrongSecret), 1);
    door.welcomes(3);
}

#[test]
fn a_recording_of_a_whole_handshake_gets_nobody_in() {
    let mut door = Door::new(&secret());
    // A member calls; somebody on the wire keeps what it sent.
    let mut stream = TcpStream::connect(door.address()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut member = Handshake::initiator(&door.secret, caller(9));
    let Progress::Send(hello) = member.feed(&[]).1 else {
        panic!("no hello");
    };
    let mut tape = hello.to_vec();
    stream.write_all(&hello).unwrap();
    let mut buffer = [0u8; 256];
    door.until(|d| {
        if let Ok(n) = stream.read(&mut buffer[..member.wants()])
            && let Progress::Done { send, .. } = member.feed(&buffer[..n]).1
        {
            tape.extend_from_slice(&send);
            stream.write_all(&send).unwrap();
        }
        d.sessions.len() == 1
    });
    for _ in 0..3 {
        told(&mut door, &tape);
    }
    assert_eq!(door.sessions.len(), 1);
    assert_eq!(door.refused(Reason::Replay), 3);
    door.welcomes(9);
}

/// The first message alone, again and again, and then silence: it looks like a member that computes.
#[test]
fn a_recorded_first_message_holds_no_place() {
    let mut door = Door::new(&secret());
    let mut member = Handshake::initiator(&door.secret, caller(9));
    let Progress::Send(hello) = member.feed(&[]).1 else {
        panic!("no hello");
    };
    // The member itself may take its time.
    let mut stream = TcpStream::connect(door.address()).unwrap();
    stream.write_all(&hello).unwrap();
    door.until(|d| d.gate.waiting() == 1 && d.waiting.iter().flatten().any(|(_, _, h)| h.is_known()));
    let players: Vec<_> = (0..3 * PLACES)
        .map(|n| {
            let mut player = TcpStream::connect(door.address()).unwrap();
            player.write_all(&hello).unwrap();
            door.until(|d| d.refused(Reason::Replay) == n as u64 + 1);
            player
        })
        .collect();
    assert_eq!(door.gate.waiting(), 1);
    drop(players);
    door.welcomes(8);
}

#[test]
fn a_flood_of_half_open_connections_keeps_nobody_out() {
    let mut door = Door::new(&secret());
    let mut flood = Vec::new();
    for round in 0..20 {
        // Some say nothing, some begin well and stop, some send malformed data.
        for n in 0..PLACES {
            let mut stream = TcpStream::connect(door.address()).unwrap();
            let _ = match n % 3 {
                0 => Ok(()),
                1 => stream.write_all(b"\xf7Farp"),
                _ => stream.write_all(&[round as u8; 64]),
            };
            flood.push(stream);
        }
        door.turn();
        // Long enough for a place to be given away.
        door.now += Duration::from_millis(200);
    }
    door.now += Duration::from_millis(200);
    // The flood stands in the kernel's queue before the member: it is worked off, at the pace of the gate.
    let before = door.sessions.len();
    let mut stream = TcpStream::connect(door.address()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut member = Handshake::initiator(&door.secret, caller(11));
    let mut end = None;
    for _ in 0..20_000 {
        door.turn();
        if end.is_none() {
            end = serve(&mut stream, &mut member);
        }
        if door.sessions.len() > before {
            break;
        }
        door.now += Duration::from_millis(10);
        std::thread::sleep(Duration::from_micros(50));
    }
    assert_eq!(end.expect("an end").expect("a session").initiator, 11);
    assert_eq!(door.sessions[before].initiator, 11);
    let tally = door.gate.tally();
    assert!(
        tally.all_refused() >= (20 * PLACES - PLACES) as u64,
        "{}",
        tally.sentence()
    );
    assert_eq!(
        tally.came,
        tally.passed + tally.all_refused() + door.gate.waiting() as u64
    );
}

#[test]
fn who_is_refused_for_a_reason_is_told_it() {
    let mut door = Door::new(&secret());
    let mut stream = TcpStream::connect(door.address()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let wrong = Caller { peer: 5, ..caller(1) };
    let mut member = Handshake::initiator(&door.secret, wrong);
    let mut end = None;
    door.until(|_| {
        end = serve(&mut stream, &mut member);
        end.is_some()
    });
    assert_eq!(
        end.unwrap().unwrap_err(),
        Refusal::NotForThisRank { asked: 5, here: 0 }
    );
}
