//! The TCP fabric with strangers at its door: the job goes on, they are dropped and counted, and they cost nothing that
//! grows.

use farpost_fabric::{ErrorStatus, Fabric, PacketQueue, Peer, Port, Priority, TrySend};
use farpost_net::AddressBook;
use farpost_net::conformance::SharedBook;
use farpost_net::interfaces::Card;
use farpost_tcp::Tcp;
use farpost_tcp::conformance::TcpThreads;
use farpost_tcp::trust::{Caller, Handshake, Progress, Reason, Secret};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Where `peer` listens.
fn address(book: &SharedBook, peer: u32) -> SocketAddr {
    let card = book.card(Peer(peer)).expect("a card");
    // Format, Farpost's version with its length, the interfaces.
    let at = 2 + usize::from(card[1]);
    let (card, _) = Card::decode(&card[at..]).expect("interfaces");
    let first = &card.interfaces[0];
    SocketAddr::new(first.addresses[0].ip, first.port)
}

/// One test at a time: one of them counts the descriptors of the process.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Open descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc").count()
}

struct Job {
    ends: [Tcp; 2],
    book: SharedBook,
    /// Packets sent by each end, and taken by the other.
    sent: [u64; 2],
    taken: [u64; 2],
}

impl Job {
    fn new(harness: &TcpThreads) -> Self {
        let book = SharedBook::default();
        let ends = [0, 1].map(|index| harness.endpoint((index, 2), &book));
        Job {
            ends,
            book,
            sent: [0; 2],
            taken: [0; 2],
        }
    }

    /// Both ends look at their sockets and take what came, which must be what was sent, in order.
    fn turn(&mut self) {
        for (at, end) in self.ends.iter().enumerate() {
            end.progress();
            let taken = &mut self.taken[1 - at];
            while end.poll_packet(Port::Fm, |from, _, bytes| {
                assert_eq!(from, Peer(1 - at as u32));
                assert_eq!(bytes, taken.to_le_bytes(), "packet {taken}");
                *taken += 1;
            }) {}
            let (faults, more) = end.take_faults();
            assert!(faults.is_empty() && more == 0, "{faults:?}");
        }
    }

    /// Packets go both ways.
    fn talks(&mut self) {
        let until = [self.sent[0] + 20, self.sent[1] + 20];
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.taken != until {
            assert!(Instant::now() < deadline, "packets do not come through");
            for (at, end) in self.ends.iter().enumerate() {
                let to = Peer(1 - at as u32);
                if self.sent[at] < until[at]
                    && end.try_send(to, Port::Fm, Priority::Low, &self.sent[at].to_le_bytes())
                        == TrySend::Sent
                {
                    self.sent[at] += 1;
                }
            }
            self.turn();
        }
    }

    /// Turns until the door of end 1 has refused so many for that reason.
    fn refuses(&mut self, reason: Reason, count: u64) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.ends[1].strangers().refused[reason as usize] < count {
            let tally = self.ends[1].strangers();
            assert!(Instant::now() < deadline, "{reason:?}: {}", tally.sentence());
            self.turn();
        }
    }
}

fn hello(secret: [u8; 32]) -> Vec<u8> {
    let caller = Caller {
        job: [0; 16],
        me: 0,
        peer: 1,
        rail: 0,
        encrypt: false,
        note: 0,
    };
    match Handshake::initiator(&Secret::new(&secret), caller).feed(&[]).1 {
        Progress::Send(flight) => flight.to_vec(),
        other => panic!("{other:?}"),
    }
}

fn quick_door() -> TcpThreads {
    let mut harness = TcpThreads::default();
    // Strangers that say nothing have a tenth of a second here, not two: tests do not wait.
    harness.settings.trust.patience = 100;
    harness
}

#[test]
fn strangers_of_all_kinds_are_counted_and_the_job_goes_on() {
    let _alone = alone();
    let mut job = Job::new(&quick_door());
    let door = address(&job.book, 1);
    let connect = || TcpStream::connect(door).expect("the port is open");

    // Before the job's own first message.
    let silent = connect();
    connect().write_all(b"SSH-2.0-nobody\r\n").unwrap();
    job.refuses(Reason::NotFarpost, 1);
    job.talks();
    job.refuses(Reason::TooSlow, 1);
    drop(silent);

    connect().write_all(&hello([1; 32])).unwrap();
    job.refuses(Reason::WrongSecret, 1);
    job.talks();

    // Somebody who has a recording of a member's first message, and makes up the last.
    let mut replay = connect();
    replay.set_nonblocking(true).unwrap();
    replay.write_all(&hello([7; 32])).unwrap();
    let mut answer = [0u8; 256];
    while replay.read(&mut answer).is_err() {
        job.turn();
    }
    replay.write_all(&[0; 64]).unwrap();
    job.refuses(Reason::Replay, 1);
    job.talks();

    drop(connect());
    job.refuses(Reason::Incomplete, 1);
    job.talks();
    let tally = job.ends[1].strangers();
    assert_eq!(tally.all_refused(), 5, "{}", tally.sentence());
    assert!(tally.passed <= 1);
}

#[test]
fn a_flood_at_the_door_does_not_keep_the_job_from_meeting() {
    let _alone = alone();
    let mut job = Job::new(&quick_door());
    let doors = [address(&job.book, 0), address(&job.book, 1)];
    let before = descriptors();
    let mut flood = Vec::new();
    for n in 0..400u32 {
        let mut stream = TcpStream::connect(doors[n as usize % 2]).expect("the port is open");
        let _ = match n % 4 {
            0 => Ok(()),
            1 => stream.write_all(&hello([7; 32])[..100]),
            2 => stream.write_all(&hello([7; 32])),
            _ => stream.write_all(&n.to_le_bytes()),
        };
        flood.push(stream);
    }
    // The job's first message of all comes after them, through the same queues.
    for _ in 0..5 {
        job.talks();
    }
    // What they cost: places at the gates, and the job's one connection.
    let cost = descriptors() - before - flood.len();
    assert!(cost <= 2 * 64 + 8, "{cost} descriptors");
    drop(flood);
    job.refuses(Reason::NotFarpost, 50);
    job.talks();
}

#[test]
fn bytes_into_an_encrypted_job_change_nothing() {
    let _alone = alone();
    let mut harness = quick_door();
    harness.settings.trust.encrypt = 1;
    let mut job = Job::new(&harness);
    job.talks();
    let door = address(&job.book, 1);
    for n in 0..20u8 {
        let mut stream = TcpStream::connect(door).unwrap();
        let _ = stream.write_all(&[n; 5000]);
        job.talks();
    }
    job.refuses(Reason::NotFarpost, 20);
}
