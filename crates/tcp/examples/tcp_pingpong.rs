//! What the TCP fabric costs beside plain sockets: half a round trip of a line, and streams of bulk data.
//!
//! Two processes, on two hosts or in two network namespaces, which share a directory:
//!
//! ```sh
//! tcp_pingpong 0 DIRECTORY 10.0.0.1 10.0.0.2 &    # rank, where cards lie, own address, the other's
//! tcp_pingpong 1 DIRECTORY 10.0.0.2 10.0.0.1
//! ```

use farpost_fabric::{
    Access, BulkTransfer, Completion, Descriptor, Direction, Fabric, FabricError, LocalMemory, Peer,
    Permission, Remote, RemoteMemory, SegmentId,
};
use farpost_net::interfaces::Choice;
use farpost_net::{AddressBook, NetConfig};
use farpost_tcp::{Listening, Tcp, TcpSettings};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PORT: u16 = 45_999;
const ROUNDS: u32 = 50_000;
const AREA: usize = 8 << 20;

/// Cards as files of a directory.
struct Cards(PathBuf);

impl AddressBook for Cards {
    fn card(&self, peer: Peer) -> Result<Vec<u8>, String> {
        let path = self.0.join(peer.0.to_string());
        let started = Instant::now();
        loop {
            match std::fs::read(&path) {
                Ok(card) if !card.is_empty() => return Ok(card),
                _ if started.elapsed() < Duration::from_secs(10) => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                _ => return Err(format!("no card in {}", path.display())),
            }
        }
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// All of `bytes`, spinning.
fn push(socket: &mut TcpStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(e) => panic!("{e}"),
        }
    }
}

fn pull(socket: &mut TcpStream, mut bytes: &mut [u8]) {
    while !bytes.is_empty() {
        match socket.read(bytes) {
            Ok(0) => panic!("the other side has closed"),
            Ok(came) => bytes = &mut bytes[came..],
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(e) => panic!("{e}"),
        }
    }
}

/// Plain sockets.
fn raw(me: u32, mine: IpAddr, theirs: IpAddr, sizes: &[usize]) {
    let mut socket = if me == 0 {
        let listener = TcpListener::bind((mine, PORT)).expect("listen");
        listener.accept().expect("accept").0
    } else {
        loop {
            match TcpStream::connect((theirs, PORT)) {
                Ok(socket) => break socket,
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    };
    socket.set_nodelay(true).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut times = Vec::new();
    for bytes in [8, 64, 64 << 10, 1 << 20] {
        let mut message = vec![1; bytes];
        let rounds = if bytes > 64 { 2000 } else { ROUNDS };
        for _ in 0..rounds {
            let started = Instant::now();
            if me == 0 {
                push(&mut socket, &message);
                pull(&mut socket, &mut message);
            } else {
                pull(&mut socket, &mut message);
                push(&mut socket, &message);
            }
            times.push(started.elapsed().as_secs_f64() / 2.0);
        }
        if me == 0 {
            println!(
                "raw   {bytes:8} bytes {:8.2} us",
                median(std::mem::take(&mut times)) * 1e6
            );
        }
    }
    for &bytes in sizes {
        let mut message = vec![2; bytes];
        let count = ((256 << 20) / bytes).min(4000);
        for _ in 0..5 {
            let started = Instant::now();
            for _ in 0..count {
                if me == 0 {
                    push(&mut socket, &message);
                } else {
                    pull(&mut socket, &mut message);
                }
            }
            if me == 0 {
                pull(&mut socket, &mut [0]);
            } else {
                push(&mut socket, &[0]);
            }
            times.push((count * bytes) as f64 / started.elapsed().as_secs_f64());
        }
        if me == 0 {
            println!(
                "raw   {bytes:8} bytes {:8.1} MB/s",
                median(std::mem::take(&mut times)) / 1e6
            );
        }
    }
}

/// One end of the fabric.
struct End {
    tcp: Tcp,
    area: <Tcp as RemoteMemory>::Export,
    theirs: <Tcp as RemoteMemory>::Import,
    turn: u64,
}

impl End {
    fn send(&mut self, bytes: u64) {
        let line = [self.turn + 1, bytes, 3, 4, 0, 0, 0, 0];
        self.theirs.put_line(0, &line).expect("a put");
    }

    fn receive(&mut self) -> u64 {
        self.turn += 1;
        while self.area.load(0) != self.turn {
            self.tcp.progress();
        }
        self.area.load(8)
    }
}

fn fabric(me: u32, mine: IpAddr, directory: PathBuf, sizes: &[usize]) {
    let net = NetConfig {
        me: Peer(me),
        size: 2,
        host_of: [0, 1].into(),
        cores: 1,
        processes: 1,
        secret: [9; 32],
        book: Box::new(Cards(directory.clone())),
    };
    let mut settings = TcpSettings {
        choice: Choice::parse(&mine.to_string()).expect("an address"),
        ..TcpSettings::default()
    };
    for (name, value) in std::env::vars().filter(|(name, _)| name.starts_with("FARPOST_")) {
        assert_eq!(settings.set(&name, &value), Ok(true), "{name}={value}");
    }
    let listening = Listening::open(settings).expect("listen");
    let own_card = listening.card().to_vec();
    let tcp = listening.start(net).expect("an endpoint");
    let peer = Peer(1 - me);
    let everyone = Access::Everyone(Permission::ReadWrite);
    let area = tcp.export(SegmentId(1), AREA, everyone).expect("export");
    let card = directory.join(format!("{me}.new"));
    std::fs::write(&card, own_card).expect("write the card");
    std::fs::rename(card, directory.join(me.to_string())).expect("publish the card");
    let theirs = loop {
        match tcp.import(peer, SegmentId(1), AREA, Permission::ReadWrite) {
            Ok(theirs) => break theirs,
            Err(FabricError::NotPublished { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    let mut end = End {
        tcp,
        area,
        theirs,
        turn: 0,
    };
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        if me == 0 {
            end.send(8);
            end.receive();
        } else {
            end.receive();
            end.turn -= 1;
            end.send(8);
            end.turn += 1;
        }
        times.push(started.elapsed().as_secs_f64() / 2.0);
    }
    if me == 0 {
        println!(
            "line  {:8} bytes {:8.2} us",
            64,
            median(std::mem::take(&mut times)) * 1e6
        );
    }
    // Eager: a put and a line that tells of it, there and back.
    let bytes: Vec<u8> = vec![5; 1 << 20];
    for size in [256, 1024, 4096, 16 << 10, 32 << 10] {
        for _ in 0..2000 {
            let started = Instant::now();
            if me == 0 {
                end.theirs.put(4096, &bytes[..size]).expect("a put");
                end.send(8);
                end.receive();
            } else {
                end.receive();
                end.theirs.put(4096, &bytes[..size]).expect("a put");
                end.turn -= 1;
                end.send(8);
                end.turn += 1;
            }
            times.push(started.elapsed().as_secs_f64() / 2.0);
        }
        if me == 0 {
            println!(
                "eager {size:8} bytes {:8.2} us",
                median(std::mem::take(&mut times)) * 1e6
            );
        }
    }
    // Rendezvous: a line offers, the other gets, there and back.
    for size in [64 << 10, 1 << 20] {
        let mut memory = vec![me as u8; size];
        let address = memory.as_mut_ptr().expose_provenance();
        // SAFETY: alive until withdrawn.
        let own = unsafe { end.tcp.expose(peer, address, size, false) }.expect("expose");
        let get = |tcp: &Tcp, key| {
            let descriptor = Descriptor {
                peer,
                direction: Direction::Get,
                local: address,
                remote: 0,
                key,
                len: size,
            };
            // SAFETY: the memory outlives the transfer, and what is in it does not matter.
            if let Completion::Pending(ticket) = unsafe { tcp.submit(&descriptor) }.expect("submit") {
                while !tcp.poll_transfer(ticket).expect("transfer") {}
            }
        };
        for _ in 0..2000 {
            let started = Instant::now();
            if me == 0 {
                end.send(own);
                let key = end.receive();
                get(&end.tcp, key);
            } else {
                let key = end.receive();
                get(&end.tcp, key);
                end.turn -= 1;
                end.send(own);
                end.turn += 1;
            }
            times.push(started.elapsed().as_secs_f64() / 2.0);
        }
        if me == 0 {
            end.send(0);
            end.turn += 1;
        } else {
            end.receive();
        }
        end.tcp.withdraw(own);
        if me == 0 {
            println!(
                "rdv   {size:8} bytes {:8.2} us",
                median(std::mem::take(&mut times)) * 1e6
            );
        }
    }
    for &size in sizes {
        let mut memory = vec![me as u8; size];
        let address = memory.as_mut_ptr().expose_provenance();
        let count = ((256 << 20) / size).min(4000);
        // SAFETY: alive until withdrawn.
        let key = unsafe { end.tcp.expose(peer, address, size, false) }.expect("expose");
        for _ in 0..5 {
            if me == 1 {
                end.send(key);
                end.receive();
                continue;
            }
            let key = end.receive();
            let started = Instant::now();
            let mut under_way = std::collections::VecDeque::new();
            for _ in 0..count {
                let descriptor = Descriptor {
                    peer,
                    direction: Direction::Get,
                    local: address,
                    remote: 0,
                    key,
                    len: size,
                };
                // SAFETY: the memory outlives the transfers, and what is in it does not matter.
                match unsafe { end.tcp.submit(&descriptor) }.expect("submit") {
                    Completion::Done => {}
                    Completion::Pending(ticket) => under_way.push_back(ticket),
                }
                while under_way.len() >= 4 {
                    if end.tcp.poll_transfer(under_way[0]).expect("transfer") {
                        under_way.pop_front();
                    }
                }
            }
            for ticket in under_way {
                while !end.tcp.poll_transfer(ticket).expect("transfer") {}
            }
            times.push((count * size) as f64 / started.elapsed().as_secs_f64());
            end.turn -= 1;
            end.send(0);
            end.turn += 1;
        }
        end.tcp.withdraw(key);
        if me == 0 {
            assert!(std::hint::black_box(&memory).iter().all(|b| *b == 1));
            println!(
                "bulk  {size:8} bytes {:8.1} MB/s",
                median(std::mem::take(&mut times)) / 1e6
            );
        }
    }
    end.tcp.close(Duration::from_secs(1));
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = || {
        arguments
            .next()
            .expect("arguments: rank directory own-address other-address")
    };
    let me = next().parse().expect("a rank");
    let directory = PathBuf::from(next());
    let mine = next().parse().expect("an address");
    let theirs = next().parse().expect("an address");
    // Sizes of the streams; one of 0 for none.
    let mut sizes: Vec<usize> = arguments.map(|a| a.parse().expect("a size")).collect();
    if sizes.is_empty() {
        sizes = vec![64 << 10, 1 << 20, 4 << 20];
    }
    sizes.retain(|size| *size > 0);
    raw(me, mine, theirs, &sizes);
    fabric(me, mine, directory, &sizes);
}
