//! Ping-pong of one line on the libfabric fabric, next to libfabric's own `fi_pingpong` with the same library and
//! provider, in turns.
//!
//! ```text
//! cargo run --release -p farpost-ofi --example ofi_pingpong -- [PROVIDER] [ROUNDS]
//! ```
//!
//! As root it makes two network namespaces joined by a veth pair (`ofidev0-PID`, `ofidev1-PID`) and removes them
//! at its end; else it runs over loopback. Rank 0 is pinned to the first core, rank 1 to the second.

use farpost_fabric::{Access, Fabric, Lines, LocalMemory, Peer, Permission, Remote, RemoteMemory, SegmentId};
use farpost_net::{AddressBook, NetConfig};
use farpost_ofi::{Listening, OfiOptions, OfiTunables};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Cards in files.
struct Directory(PathBuf);

impl AddressBook for Directory {
    fn card(&self, peer: Peer) -> Result<Vec<u8>, String> {
        let file = self.0.join(peer.0.to_string());
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(10) {
            if let Ok(card) = std::fs::read(&file) {
                return Ok(card);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(format!("{peer} wrote no card to {}", file.display()))
    }
}

/// One end. Prints half of the median round trip in microseconds.
fn end(rank: u32, directory: &Path, source: &str, provider: &str, rounds: u32) {
    let net = NetConfig {
        me: Peer(rank),
        size: 2,
        host_of: [0, 1].into(),
        cores: 1,
        processes: 1,
        secret: [1; 32],
        book: Box::new(Directory(directory.to_owned())),
    };
    let options = OfiOptions {
        provider: Some(provider.into()),
        source: Some(source.into()),
        loopback: true,
        ..OfiOptions::from_environment()
    };
    let listening = Listening::open(&options, OfiTunables::default()).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1);
    });
    let card = directory.join(rank.to_string());
    std::fs::write(card.with_extension("new"), listening.card()).expect("a card");
    let ofi = listening.start(net).expect("an endpoint");
    let everyone = Access::Everyone(Permission::ReadWrite);
    let mine = ofi.export(SegmentId(1), 4096, everyone).expect("a segment");
    std::fs::rename(card.with_extension("new"), &card).expect("a card");
    let other = Peer(1 - rank);
    let theirs = ofi
        .import(other, SegmentId(1), 4096, Permission::ReadWrite)
        .expect("the other's segment");
    let lines = mine.lines(0, 64);
    let wait = |number: u32| {
        while lines.first(number) != u64::from(number) + 1 {
            ofi.progress();
        }
    };
    let post = |number: u32| {
        let line = [u64::from(number) + 1, 7, 0, 0, 0, 0, 0, 0];
        theirs.put_line(number as usize % 64 * 64, &line).expect("a line");
    };
    let mut times = Vec::with_capacity(rounds as usize);
    for number in 0..rounds {
        if rank == 0 {
            let began = Instant::now();
            post(number);
            wait(number);
            times.push(began.elapsed());
        } else {
            wait(number);
            post(number);
        }
    }
    ofi.close(Duration::from_secs(2));
    if rank == 0 {
        times.drain(..times.len() / 10);
        let total: Duration = times.iter().sum();
        let mean = total.as_secs_f64() * 1e6 / 2.0 / times.len() as f64;
        times.sort();
        let median = times[times.len() / 2].as_secs_f64() * 1e6 / 2.0;
        println!("{median:.2} {mean:.2}");
    }
}

fn run(command: &str) -> bool {
    let status = Command::new("sh")
        .args(["-c", command])
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|s| s.success())
}

/// Where the two ends run: what to put before a command, and the address there.
struct Places {
    before: [Vec<String>; 2],
    address: [String; 2],
    undo: Option<String>,
}

impl Places {
    fn make() -> Self {
        let id = std::process::id();
        let (a, b) = (format!("ofidev0-{id}"), format!("ofidev1-{id}"));
        // Interface names have at most 15 characters.
        let (va, vb) = (format!("of0-{id}"), format!("of1-{id}"));
        let setup = format!(
            "ip netns add {a} && ip netns add {b} && ip link add {va} type veth peer name {vb} && \
             ip link set {va} netns {a} && ip link set {vb} netns {b} && \
             ip -n {a} addr add 10.77.1.1/24 dev {va} && ip -n {b} addr add 10.77.1.2/24 dev {vb} && \
             ip -n {a} link set {va} up && ip -n {b} link set {vb} up && \
             ip -n {a} link set lo up && ip -n {b} link set lo up"
        );
        let undo = format!("ip netns del {a}; ip netns del {b}");
        if run(&setup) {
            let enter = |ns: String| {
                ["ip", "netns", "exec"]
                    .map(String::from)
                    .into_iter()
                    .chain([ns])
                    .collect()
            };
            return Self {
                before: [enter(a), enter(b)],
                address: ["10.77.1.1".into(), "10.77.1.2".into()],
                undo: Some(undo),
            };
        }
        run(&undo);
        Self {
            before: [vec![], vec![]],
            address: ["127.0.0.1".into(), "127.0.0.1".into()],
            undo: None,
        }
    }

    fn start(&self, end: usize, arguments: &[&str], out: Stdio) -> Child {
        let core = (end % std::thread::available_parallelism().map_or(1, usize::from)).to_string();
        let mut all: Vec<&str> = self.before[end].iter().map(String::as_str).collect();
        all.extend(["taskset", "-c", &core]);
        all.extend(arguments);
        Command::new(all[0])
            .args(&all[1..])
            .stdout(out)
            .spawn()
            .expect("a process")
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        if let Some(undo) = &self.undo {
            run(undo);
        }
    }
}

fn output(child: Child) -> String {
    let output = child.wait_with_output().expect("its output");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, rank, directory, source, provider, rounds] = arguments.as_slice()
        && let (Ok(rank), Ok(rounds)) = (rank.parse(), rounds.parse())
    {
        return end(rank, Path::new(directory), source, provider, rounds);
    }
    let provider = arguments.get(1).map_or("tcp", String::as_str);
    let rounds = arguments.get(2).map_or("20000", String::as_str);
    let places = Places::make();
    println!(
        "8 bytes one way, provider {provider}, {} (us)",
        if places.undo.is_some() {
            "two namespaces"
        } else {
            "loopback"
        }
    );
    let program = std::env::current_exe().expect("this program");
    let program = program.to_string_lossy();
    for round in 0..3 {
        let directory = std::env::temp_dir().join(format!("ofi-pingpong-{}-{round}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let place = directory.to_string_lossy().into_owned();
        let ours = |end: usize, out| {
            let rank = end.to_string();
            let whole = [&*program, &rank, &place, &places.address[end], provider, rounds];
            places.start(end, &whole, out)
        };
        let mut one = ours(1, Stdio::null());
        let zero = output(ours(0, Stdio::piped()));
        let _ = one.wait();
        let _ = std::fs::remove_dir_all(&directory);
        println!("  farpost ofi: median and mean {}", zero.trim());

        let theirs = [
            "fi_pingpong",
            "-e",
            "rdm",
            "-p",
            provider,
            "-I",
            rounds,
            "-S",
            "8",
        ];
        let mut server = places.start(1, &theirs, Stdio::null());
        std::thread::sleep(Duration::from_millis(500));
        let mut whole = theirs.to_vec();
        whole.push(&places.address[1]);
        let text = output(places.start(0, &whole, Stdio::piped()));
        let _ = server.kill();
        let _ = server.wait();
        let line = text.lines().last().unwrap_or("no output");
        println!(
            "  fi_pingpong: usec/xfer {}",
            line.split_whitespace().nth(6).unwrap_or(line)
        );
    }
}
