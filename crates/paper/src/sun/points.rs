//! Ping-pong, alone and of many pairs (section 4.2), and below MPI.

use super::machine::{self, Mpi, Rank};
use farpost_fabric::{Access, Fabric, LocalMemory, Peer, Permission, Remote, RemoteMemory, SegmentId, Time};
use farpost_sim::adapter::Rsm;
use farpost_sim::fabric::SimFabric;
use farpost_sim::machine::Machine;
use farpost_sim::ranks;

const ROUNDS: u32 = 10;

/// Seconds of a round of this rank's pair.
fn rounds(rank: &Rank, bytes: usize, rounds: u32) -> f64 {
    let pairs = rank.size / 2;
    let (first, other) = (rank.me < pairs, (rank.me + pairs) % rank.size);
    let (sent, mut got) = (vec![1; bytes], vec![0; bytes]);
    let round = |got: &mut [u8]| {
        if first {
            rank.send(&sent, other);
            rank.recv(got, other);
        } else {
            rank.recv(got, other);
            rank.send(&sent, other);
        }
    };
    // Connections are made, and queues grow.
    (0..3).for_each(|_| round(&mut got));
    rank.barrier();
    let begun = rank.now();
    (0..rounds).for_each(|_| round(&mut got));
    (rank.now() - begun).secs() / f64::from(rounds)
}

/// What a ping-pong of pairs gave.
#[derive(Clone, Copy, Debug)]
pub struct PingPong {
    /// Half of a round, of the mean pair, in microseconds.
    pub latency: f64,
    /// Both messages by the round, of all pairs, in 10^6 bytes a second.
    pub bandwidth: f64,
}

fn result(times: &[f64], bytes: usize) -> PingPong {
    let pairs = &times[..times.len() / 2];
    let mean = pairs.iter().sum::<f64>() / pairs.len() as f64;
    PingPong {
        latency: mean / 2.0 * 1e6,
        bandwidth: pairs.iter().map(|time| 2.0 * bytes as f64 / time).sum::<f64>() / 1e6,
    }
}

/// Pairs across so many hosts: one, or two.
pub fn ping_pong(machine: &Machine, (pairs, hosts): (u32, u32), bytes: usize) -> PingPong {
    let count = if bytes > 100_000 { 2 } else { ROUNDS };
    let times = machine::run(machine, (2 * pairs, hosts), |rank| rounds(rank, bytes, count));
    result(&times, bytes)
}

/// One pair on two hosts, with blocks of another size: as long as the message, nothing is pipelined.
pub fn unpipelined(machine: &Machine, bytes: usize) -> PingPong {
    let core = machine::core(machine, &machine::spread(2, 2), 1);
    let mpi = Mpi {
        block: bytes.next_multiple_of(64),
        blocks: 8,
        ..Mpi::default()
    };
    let (times, _) = machine::run_on(core, mpi, |rank| rounds(rank, bytes, 2));
    result(&times, bytes)
}

/// Half a round of lines that processes store themselves and look for in memory, in microseconds.
pub fn block_stores(machine: &Machine) -> f64 {
    let core = machine::core(machine, &machine::spread(2, 2), 1);
    let program = |end: SimFabric| {
        let me = end.me();
        let other = Peer(1 - me.0);
        end.with_core(|core| {
            let host = core.kernel.procs.host_of(me);
            let (adapter, _) = core.adapter_of(host);
            let rsm = adapter
                .as_any()
                .downcast_mut::<Rsm>()
                .expect("the machine's adapter");
            rsm.store_inline(me);
        });
        let id = SegmentId(7);
        let memory = end.allocate(4096).expect("memory");
        end.publish(id, &memory, Access::Everyone(Permission::ReadWrite))
            .expect("publish");
        let remote = loop {
            match end.import(other, id, 4096, Permission::ReadWrite) {
                Ok(remote) => break remote,
                Err(_) => end.yield_core(),
            }
        };
        let poll = machine.host.poll.value;
        let wait = |value: u64| {
            while memory.load(0) != value {
                end.compute(poll);
                end.wait_for_something(end.time() + farpost_sim::time::Ps::from_nanos(1_000_000));
            }
            end.compute(poll);
        };
        let begun = end.time();
        for round in 1..=u64::from(ROUNDS) {
            if me.0 == 0 {
                remote.put_line(0, &[round; 8]).expect("put");
                wait(round);
            } else {
                wait(round);
                remote.put_line(0, &[round; 8]).expect("put");
            }
        }
        let time = (end.time() - begun).secs();
        drop(remote);
        time
    };
    let (times, _) = ranks::run(core, program).expect("no rank hangs");
    times[0] / f64::from(ROUNDS) / 2.0 * 1e6
}
