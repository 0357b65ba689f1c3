//! The network layer between two processes of one host, each on a core of its own: one-way time and bandwidth by size,
//! beside the time of the bare cache line. `net_pair ways` also tries the ways of moving a body one by one; `net_pair SIZE`
//! measures that one alone; `net_pair pieces` measures bodies from and to memory in pieces.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "an example measures, by the host's clock"
)]

use farpost_fabric::conformance::{End, Harness};
use farpost_fabric::{Fabric, LocalMemory, Peer, RemoteMemory};
use farpost_portals::net::{
    Channel, Departure, Net, NetTunables, Occupancy, Outcome, Placement, RxId, Upper,
};
use farpost_portals::{Segment, Segments};
use farpost_shm::Shm;
use farpost_shm::conformance::ShmProcesses;
use std::rc::Rc;
use std::time::Instant;

const HEADER: [u8; 40] = [7; 40];

/// Keeps every body in one buffer.
struct Sink {
    buffer: Vec<u8>,
    /// Bytes of the pieces that bodies are in; 0: they are in one.
    piece: usize,
    came: u64,
    sent: u64,
}

impl Upper for Sink {
    #[inline]
    fn arrived(&mut self, _: RxId, _: Peer, _: &[u8], length: u64, inline: Option<&[u8]>) -> Placement {
        if let Some(bytes) = inline {
            self.buffer[..bytes.len()].copy_from_slice(bytes);
            self.came += 1;
            return Placement::Done;
        }
        let base = self.buffer.as_mut_ptr().expose_provenance();
        let into = cut(base, length as usize, self.piece);
        Placement::Keep {
            token: 0,
            bytes: length,
            into,
        }
    }

    fn deposited(&mut self, _: u64, outcome: Outcome) {
        assert_eq!(outcome, Outcome::Done);
        self.came += 1;
    }

    fn sent(&mut self, _: u64, outcome: Outcome) {
        assert_eq!(outcome, Outcome::Done);
        self.sent += 1;
    }
}

/// Memory of so many bytes: in one, or in pieces with a line between any two.
fn cut(base: usize, len: usize, piece: usize) -> Segments {
    if piece == 0 {
        return Segments::one(base, len);
    }
    let one = |i| Segment {
        address: base + i * (piece + 64),
        len: piece,
    };
    Segments::many((0..len / piece).map(one).collect())
}

fn pin(core: u32) {
    // SAFETY: a set of processors is plain data, zero included, and lives during the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core as usize, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

/// The time of `rounds` round trips, halved, in nanoseconds; the best of several.
fn best(rounds: u32, mut round: impl FnMut()) -> f64 {
    let mut times = vec![];
    for _ in 0..7 {
        let start = Instant::now();
        for _ in 0..rounds {
            round();
        }
        times.push(start.elapsed().as_nanos() as f64 / f64::from(rounds) / 2.0);
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A word to and fro.
fn floor(end: &End<Shm>, at: usize) -> f64 {
    let mine = end.fabric.common(end.fabric.me()).expect("common memory");
    let theirs = end.fabric.common(end.next()).expect("common memory");
    let first = end.me() == 0;
    let mut number = 0;
    best(20_000, || {
        number += 1;
        if first {
            mine.store(at, number);
        }
        while theirs.load(at) != number {
            std::hint::spin_loop();
        }
        if !first {
            mine.store(at, number);
        }
    })
}

fn pingpong(end: &End<Shm>, net: &Net<Shm>, sink: &mut Sink, from: &[u8]) -> f64 {
    let (to, first) = (end.next(), end.me() == 0);
    let body = cut(from.as_ptr().expose_provenance(), from.len(), sink.piece);
    let rounds = (200_000_000 / (from.len() + 3000)).clamp(6, 20_000) as u32;
    let (mut came, mut waits) = (sink.came, sink.sent);
    let mut send = |sink: &mut Sink| {
        loop {
            match net.send(to, Channel::Request, &HEADER, &body, 0) {
                Ok(Departure::Gone) => break,
                Ok(Departure::Waits) => {
                    waits += 1;
                    break;
                }
                Err(_) => {
                    net.progress(sink);
                }
            }
        }
        while sink.sent < waits {
            net.progress(sink);
        }
    };
    best(rounds, || {
        if first {
            send(sink);
        }
        came += 1;
        while sink.came < came {
            net.progress(sink);
        }
        if !first {
            send(sink);
        }
    })
}

/// Messages in a row, with an answer at the end: nanoseconds a message.
fn stream(end: &End<Shm>, net: &Net<Shm>, sink: &mut Sink, from: &[u8]) -> f64 {
    let (to, first) = (end.next(), end.me() == 0);
    let body = |len| Segments::one(from.as_ptr().expose_provenance(), len);
    let count = (100_000_000 / (from.len() + 3000)).clamp(16, 20_000) as u64;
    let (mut came, mut waits) = (sink.came, sink.sent);
    let mut send = |sink: &mut Sink, len| loop {
        match net.send(to, Channel::Request, &HEADER, &body(len), 0) {
            Ok(departure) => break waits += u64::from(departure == Departure::Waits),
            Err(_) => {
                net.progress(sink);
            }
        }
    };
    2.0 / count as f64
        * best(1, || {
            if first {
                (0..count).for_each(|_| send(sink, from.len()));
            }
            came += if first { 1 } else { count };
            while sink.came < came {
                net.progress(sink);
            }
            if !first {
                send(sink, 0);
            }
        })
}

fn table(end: &End<Shm>, net: &Net<Shm>, sink: &mut Sink, (title, only): (&str, Option<usize>)) {
    let first = end.me() == 0;
    let bare = floor(end, 1024);
    if first {
        println!("{title}: cache line {bare:.0} ns");
    }
    let bytes = vec![1; 8 << 20];
    let mut rows = vec![];
    for size in [0, 8, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768]
        .into_iter()
        .chain((16..24).map(|shift| 1 << shift))
        .filter(|size| only.is_none_or(|only| *size == only))
    {
        let time = pingpong(end, net, sink, &bytes[..size]);
        let each = stream(end, net, sink, &bytes[..size]);
        rows.push((
            size,
            time,
            size as f64 / time * 1000.0,
            size as f64 / each * 1000.0,
        ));
    }
    if first {
        println!("one way by ping-pong; bandwidth by ping-pong and of a stream");
        for (size, time, rate, stream) in rows {
            println!(
                "{size:>9} bytes {time:>10.0} ns {:>6.2} floors {rate:>9.0} MB/s {stream:>9.0} MB/s",
                time / bare
            );
        }
        println!("{:?}", net.figures());
    }
}

/// Bodies of so many pieces of so many bytes, ping-pong.
fn pieces(end: &End<Shm>, net: &Net<Shm>, sink: &mut Sink) {
    let bytes = vec![1; 8 << 20];
    for (count, piece) in [(16, 1024), (256, 256), (64, 4096), (256, 4096), (256, 16384)] {
        for cut in [piece, 0] {
            sink.piece = cut;
            let time = pingpong(end, net, sink, &bytes[..count * piece]);
            if end.me() == 0 {
                let rate = (count * piece) as f64 / time * 1000.0;
                let how = if cut == 0 { "in one" } else { "in pieces" };
                println!("{count:>4} x {piece:>6} bytes {how:>9} {time:>10.0} ns {rate:>9.0} MB/s");
            }
        }
    }
    sink.piece = 0;
}

fn main() {
    let word = std::env::args().nth(1).unwrap_or_default();
    let (ways, scattered, only) = (word == "ways", word == "pieces", word.parse::<usize>().ok());
    println!("{:?}", Occupancy::of::<Shm>(&NetTunables::default()));
    let run = |title: &str, config: NetTunables| {
        let processes = ShmProcesses {
            cores: 2,
            ..Default::default()
        };
        processes.run(2, async |end| {
            pin(end.me());
            let net = Net::new(Rc::clone(&end.fabric), &config);
            end.barrier().await;
            let mut sink = Sink {
                buffer: vec![1; 8 << 20],
                piece: 0,
                came: 0,
                sent: 0,
            };
            if scattered {
                pieces(end, &net, &mut sink);
            } else {
                table(end, &net, &mut sink, (title, only));
            }
            for _ in 0..10_000 {
                net.progress(&mut sink);
            }
        });
    };
    run("as set", NetTunables::default());
    if ways {
        let only = |staged| NetTunables {
            staged,
            ..NetTunables::default()
        };
        run("staged", only(1 << 20));
        run("fetched", only(0));
    }
}
