//! Eager zero-copy payloads whose other end dies while they are under way: another process, a second host to this one, is killed when part of a
//! message has gone from it, or to it.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "processes and threads of a test wait by the host's clock"
)]

#[path = "common/hosts.rs"]
mod hosts;

use farpost_mpi::ErrorClass;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::p2p::Mode;
use farpost_tcp::TcpSettings;
use hosts::{HostsWorld, listen, memory, world};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const HOSTS: [u32; 2] = [0, 1];
/// The longest that goes behind its line, and far more than the buffers of a connection take.
const LEN: usize = 1 << 20;
/// What the other process does.
const PART: &str = "TEST_ZCOPY_PART";
/// A test that waits for longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn settings() -> TcpSettings {
    let mut settings = TcpSettings::default();
    settings.tcp.buffer = 64 << 10;
    settings
}

fn byte(i: usize) -> u8 {
    (i * 7 + (i >> 8)) as u8 | 1
}

fn irecv(world: &HostsWorld, data: &mut [u8], tag: i32) -> usize {
    // SAFETY: what receives into it is waited for, or its process killed, before the data goes.
    let buf = unsafe { RecvBuf::new(data.as_mut_ptr(), data.len() as u64, Datatype::byte()) };
    let other = 1 - world.pid() as i32;
    world.irecv(world.comm_world(), buf, other, tag).unwrap()
}

fn isend(world: &HostsWorld, data: &[u8], tag: i32) -> usize {
    // SAFETY: as above.
    let buf = unsafe { SendBuf::new(data.as_ptr(), data.len() as u64, Datatype::byte()) };
    let other = 1 - world.pid() as i32;
    world
        .isend(world.comm_world(), &buf, other, tag, Mode::Standard)
        .unwrap()
}

/// Both are connected after it.
fn meet(world: &HostsWorld) {
    let (mut got, token) = ([0], [1]);
    let requests = [irecv(world, &mut got, 99), isend(world, &token, 99)];
    for request in requests {
        assert_eq!(world.wait(request).unwrap().error, None);
    }
}

fn hexadecimal(card: &[u8]) -> String {
    card.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hexadecimal(text: &str) -> Vec<u8> {
    let digits = text.trim().as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// The other process: what is known of it comes and goes by its standard streams.
#[test]
#[ignore = "the other process of the tests beside it"]
fn the_other() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let listening = listen(&settings());
    println!("\ncard {}", hexadecimal(listening.card()));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let cards = [from_hexadecimal(&line), listening.card().to_vec()];
    let world = world(listening, 1, &HOSTS, memory(2), &cards);
    meet(&world);
    let data: Vec<u8> = (0..LEN).map(byte).collect();
    if part == "sends" {
        // Nobody here goes on with it: what the connection took is all that leaves.
        isend(&world, &data, 1);
    }
    println!("\nstopped");
    // Until killed; or until the test has ended otherwise.
    let _ = std::io::stdin().read_line(&mut line);
    std::process::exit(0);
}

/// Killed at the end of a test, however that comes.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Our world, connected to another process that does `part` and then nothing any more.
fn with(part: &str) -> (HostsWorld, Other) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "the_other",
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(PART, part)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut input = child.stdin.take().unwrap();
    let other = Other(child);
    let mut heard = |word: &str| {
        let rest = |line: String| line.strip_prefix(word).map(str::to_owned);
        out.by_ref()
            .map_while(Result::ok)
            .find_map(rest)
            .expect("what the other process says")
    };
    let card = from_hexadecimal(&heard("card "));
    let listening = listen(&settings());
    let cards = [listening.card().to_vec(), card];
    writeln!(input, "{}", hexadecimal(&cards[0])).unwrap();
    let world = world(listening, 0, &HOSTS, memory(2), &cards);
    meet(&world);
    heard("stopped");
    // Its standard input stays open until it is killed.
    std::mem::forget(input);
    (world, other)
}

/// Make progress until `done`.
fn until(world: &HostsWorld, what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "waited for: {what}");
        world.progress();
        std::thread::yield_now();
    }
}

/// The end of a request, which comes.
fn end(world: &HostsWorld, request: Result<usize, farpost_mpi::Error>) -> Option<ErrorClass> {
    let request = match request {
        Ok(request) => request,
        Err(error) => return Some(error.class),
    };
    until(world, "the end", || world.test(request).unwrap_or(true));
    match world.wait(request) {
        Ok(status) => status.error.map(|error| error.class),
        Err(error) => Some(error.class),
    }
}

#[test]
fn the_sender_dies() {
    let (world, other) = with("sends");
    let mut got = vec![0; LEN];
    let first: *const u8 = got.as_ptr();
    let request = irecv(&world, &mut got, 1);
    // SAFETY: `got` lives, and only this thread writes to it.
    until(
        &world,
        "the first bytes",
        || unsafe { first.read_volatile() } == byte(0),
    );
    assert!(!world.test(request).unwrap());
    drop(other);
    assert_eq!(end(&world, Ok(request)), Some(ErrorClass::ERR_PROC_ABORTED));
    // What came is right, and it was not all.
    let came = got.iter().position(|byte| *byte == 0).expect("a payload cut off");
    assert!(got[..came].iter().enumerate().all(|(i, got)| *got == byte(i)));
    let mut more = [0];
    let late = world.irecv(world.comm_world(), receive(&mut more), 1, 2);
    assert_eq!(end(&world, late), Some(ErrorClass::ERR_PROC_ABORTED));
}

/// Nobody has asked for it: it was on its way to memory of the fabric.
#[test]
fn the_sender_dies_before_the_receive() {
    let (world, other) = with("sends");
    let comm = world.comm_world();
    until(&world, "the line", || world.iprobe(comm, 1, 1).unwrap().is_some());
    for _ in 0..100 {
        world.progress();
    }
    drop(other);
    let mut got = vec![0; LEN];
    let request = world.irecv(comm, receive(&mut got), 1, 1);
    assert_eq!(end(&world, request), Some(ErrorClass::ERR_PROC_ABORTED));
}

#[test]
fn the_receiver_dies() {
    let (world, other) = with("receives");
    let data: Vec<u8> = (0..LEN).map(byte).collect();
    let request = isend(&world, &data, 1);
    for _ in 0..100 {
        assert!(!world.test(request).unwrap());
    }
    drop(other);
    assert_eq!(end(&world, Ok(request)), Some(ErrorClass::ERR_PROC_ABORTED));
    // The buffer is the program's again, and nothing waits for good.
    drop(data);
    until(&world, "rest", || !world.progress());
}

fn receive(data: &mut [u8]) -> RecvBuf {
    // SAFETY: tests wait for the operation before the data goes.
    unsafe { RecvBuf::new(data.as_mut_ptr(), data.len() as u64, Datatype::byte()) }
}
