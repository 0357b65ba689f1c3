//! The worked example of docs/simulation.md: its machine is read and run, and gives what the text says.

use farpost_fabric::{Fabric, PacketQueue, Peer, Port, Priority, TrySend};
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use farpost_sim::assemble;
use farpost_sim::core::Core;
use farpost_sim::fabric::SimFabric;
use farpost_sim::machine::Machine;
use farpost_sim::net::HostId;
use farpost_sim::ranks;
use farpost_sim::time::Ps;

const TEXT: &str = include_str!("../../../docs/simulation.md");

fn machine() -> Machine {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/my-cluster.toml");
    Machine::open(file).unwrap_or_else(|error| panic!("{error}"))
}

/// A process on each of so many hosts.
fn hosts(machine: &Machine, count: u32) -> Core {
    let all: Vec<HostId> = (0..count).map(HostId).collect();
    assemble(machine, count, &all, 1).expect("so many hosts")
}

/// When the last of the packets of so many bytes that all others send to process 0 has been seen there.
fn packets(machine: &Machine, processes: u32, bytes: usize) -> Ps {
    let (times, _) = ranks::run(hosts(machine, processes), move |fabric: SimFabric| {
        let (port, priority) = (Port::Fm, Priority::Low);
        if fabric.me() != Peer(0) {
            let sent = fabric.try_send(Peer(0), port, priority, &vec![7; bytes]);
            assert_eq!(sent, TrySend::Sent);
            return Ps::ZERO;
        }
        let mut left = processes - 1;
        while left > 0 {
            if fabric.poll_priority(port, priority, |_, _| {}) {
                left -= 1;
            } else {
                fabric.wait_for_something(fabric.time() + Ps::from_nanos(1_000_000));
            }
        }
        fabric.time()
    })
    .expect("no rank hangs");
    times[0]
}

/// Half of a round trip of messages of 8 bytes.
fn mpi(machine: &Machine) -> Ps {
    const TRIPS: u64 = 10;
    let (times, _) = ranks::run(hosts(machine, 2), |fabric: SimFabric| {
        let me = fabric.me().0;
        let world = World::new(fabric, WorldConfig::default());
        let byte = || Datatype::predefined(0x247).expect("a byte");
        let (sent, mut got) = ([1u8; 8], [0u8; 8]);
        let mut begun = Ps::ZERO;
        for trip in 0..=TRIPS {
            if trip == 1 {
                begun = world.fabric().time();
            }
            for sender in [0, 1] {
                let (comm, other) = (world.comm_world(), 1 - me as i32);
                // SAFETY: both buffers live until the calls have returned.
                let (send, recv) = unsafe {
                    (
                        SendBuf::new(sent.as_ptr().cast(), 8, byte()),
                        RecvBuf::new(got.as_mut_ptr().cast(), 8, byte()),
                    )
                };
                if me == sender {
                    world.send(comm, &send, other, 7, Mode::Standard).expect("send");
                } else {
                    world.recv(comm, recv, other, 7).expect("receive");
                }
            }
        }
        let time = world.fabric().time() - begun;
        world.quiesce().expect("quiesce");
        world.drain_to_peers(|_| false).expect("drain");
        time
    })
    .expect("no rank hangs");
    Ps(times[0].0 / (2 * TRIPS))
}

#[test]
fn the_example_gives_what_the_text_says() {
    let machine = machine();
    let says = |number: &str| assert!(TEXT.contains(number), "docs/simulation.md does not say {number}");
    // 400 + 50, then 20 + 300 and 20, and 624 bytes at 3.125 GB/s; then 200 + 50.
    let arrives: f64 = 450.0 + 340.0 + 624.0 / 3.125 + 250.0;
    says(&format!("{arrives:.2} ns"));
    let (seen, both, mpi) = (
        packets(&machine, 2, 600),
        packets(&machine, 3, 600),
        mpi(&machine),
    );
    println!("one packet {seen}, the second of two {both}, MPI {mpi}");
    let late = seen.0 as f64 / 1e3 - arrives;
    assert!(
        (0.0..=20.0).contains(&late),
        "after {late} ns, with polls of 10 ns"
    );
    says(&format!("{:.0} ns", seen.0 as f64 / 1e3));
    // Two senders share the link to the receiver: a packet waits for the other.
    says(&format!("{:.0} ns", both.0 as f64 / 1e3));
    let waits = (both - seen).0 as f64 / 1e3 - 624.0 / 3.125;
    assert!(waits.abs() < 25.0, "{waits} ns besides the other packet's");
    says(&format!("{:.0} ns one way", mpi.0 as f64 / 1e3));
}

/// Up to `inline` bytes the processor stores with the descriptor, in lines of 64; of one more the interface reads from memory.
#[test]
fn what_is_inline_is_not_fetched() {
    let machine = machine();
    let seen = [8, 220, 221].map(|bytes| packets(&machine, 2, bytes).0 as f64 / 1e3);
    // The descriptor's 36 bytes and 8 are a line, and 220 three lines more, of 100 ns.
    let lines = seen[1] - seen[0] - 212.0 / 3.125;
    assert!((lines - 300.0).abs() <= 10.0, "{seen:?}");
    let fetched = seen[2] - seen[1] - 1.0 / 3.125;
    assert!((fetched - (400.0 - 300.0)).abs() <= 10.0, "{seen:?}");
}

/// An operation that needs no fetch begins behind one before it that does.
#[test]
fn what_was_posted_first_arrives_first() {
    let (order, _) = ranks::run(hosts(&machine(), 2), |fabric: SimFabric| {
        let (port, priority) = (Port::Fm, Priority::Low);
        if fabric.me() == Peer(1) {
            for bytes in [600, 8] {
                let sent = fabric.try_send(Peer(0), port, priority, &vec![7; bytes]);
                assert_eq!(sent, TrySend::Sent);
            }
            return Vec::new();
        }
        let mut order = Vec::new();
        while order.len() < 2 {
            if !fabric.poll_priority(port, priority, |_, bytes| order.push(bytes.len())) {
                fabric.wait_for_something(fabric.time() + Ps::from_nanos(1_000_000));
            }
        }
        order
    })
    .expect("no rank hangs");
    assert_eq!(order[0], [600, 8]);
}

/// A number that is wrong is told in one line, as the text shows it.
#[test]
fn what_is_wrong_with_a_machine_is_one_line_of_the_text() {
    let text = include_str!("../../../docs/my-cluster.toml").replace("\"25 Gbit/s\"", "\"25 Gbit\"");
    let error = Machine::parse("my-cluster.toml", &text).expect_err("no rate").0;
    assert!(TEXT.contains(&error), "docs/simulation.md does not say {error}");
}
