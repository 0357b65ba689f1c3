//! Collectives: all to all of 92 processes (figure 7) and table 2.
//!
//! Bandwidth is what the paper calls the throughput of the root, or of any process of an all to all: `(P - 1) block / time` of gathers, scatters and all to all, the vector by the time
//! of broadcasts, reductions and scans, `(P - 1) block / time` of all gathers. The paper does not say it for each, nor how large its messages were: here a megabyte of what is
//! divided by the time.

use super::machine::{self, Rank, byte};
use super::row;
use crate::{Class, Expected, Origin, Results, Row, Unit};
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::coll::{self, Blocks, Plan, Root};
use farpost_mpi::op::Op;
use farpost_sim::machine::Machine;
use farpost_sim::time::Ps;

/// What is divided by the time.
const BYTES: usize = 1 << 20;

fn sent(bytes: &[u8], count: usize) -> SendBuf {
    machine::send_buf(&bytes[..count])
}

fn got(bytes: &mut [u8], count: usize) -> RecvBuf {
    machine::recv_buf(&mut bytes[..count])
}

/// 10^6 bytes a second of `bytes`, from the first rank's start to the last one's end.
fn rate(machine: &Machine, job: (u32, u32), bytes: usize, program: impl Fn(&Rank) -> Plan) -> f64 {
    let times = machine::run(machine, job, |rank| {
        let once = || {
            let plan = program(rank);
            rank.world
                .run_collective(rank.comm(), plan)
                .expect("a collective");
        };
        once();
        rank.barrier();
        let begun = rank.now();
        once();
        (begun, rank.now())
    });
    let begun = times.iter().map(|time| time.0).min().unwrap_or(Ps::ZERO);
    let ended = times.iter().map(|time| time.1).max().unwrap_or(Ps::ZERO);
    bytes as f64 / (ended - begun).secs() / 1e6
}

/// All to all with blocks of so many bytes: of each process.
pub fn all_to_all(machine: &Machine, job: (u32, u32), block: usize) -> f64 {
    let all = job.0 as usize * block;
    rate(machine, job, all - block, |rank| {
        let (from, to) = (leak(all), leak(all));
        let plan = coll::alltoall(
            &rank.world.site(rank.comm()),
            Some(sent(from, block).into()),
            got(to, block).into(),
        );
        plan.expect("a plan")
    })
}

/// Memory of the program's, which lives as long as it.
fn leak(bytes: usize) -> &'static mut [u8] {
    Box::leak(vec![0; bytes].into_boxed_slice())
}

/// The collectives of table 2 with what one node and two reached.
const TABLE: [(&str, f64, f64); 13] = [
    ("Gather", 627.0, 626.0),
    ("Gatherv", 718.0, 718.0),
    ("Scatter", 738.0, 760.0),
    ("Scatterv", 784.0, 810.0),
    ("Bcast", 183.0, 182.0),
    ("Allgather", 151.0, 156.0),
    ("Allgatherv", 171.0, 179.0),
    ("Alltoall", 280.0, 295.0),
    ("Alltoallv", 325.0, 324.0),
    ("Reduce", 41.0, 40.0),
    ("Reduce_scatter", 41.0, 42.0),
    ("Allreduce", 34.0, 33.0),
    ("Scan", 87.0, 95.0),
];

fn plan(name: &str, rank: &Rank, block: usize) -> Plan {
    let (from, to) = (leak(16 * block), leak(16 * block));
    let all = from.len();
    let (site, root) = (rank.world.site(rank.comm()), Root::Rank(0));
    let op = Op::predefined(0x29).expect("MPI_BOR, which bytes have");
    let counts = |block: usize| (0..16).map(move |_| block as u64);
    let offsets = |block: usize| (0..16).map(move |place| (place * block) as i64);
    let each = |bytes: SendBuf| Blocks::v(&bytes.into(), counts(block), offsets(block));
    let room = |bytes: RecvBuf| Blocks::v(&bytes.into(), counts(block), offsets(block));
    let plan = match name {
        "Gather" => coll::gather(&site, Some(sent(from, block).into()), got(to, block).into(), root),
        "Gatherv" => coll::gatherv(&site, Some(sent(from, block).into()), room(got(to, block)), root),
        "Scatter" => coll::scatter(&site, sent(from, block).into(), Some(got(to, block).into()), root),
        "Scatterv" => coll::scatterv(&site, each(sent(from, block)), Some(got(to, block).into()), root),
        "Bcast" => coll::bcast(&site, got(to, all).into(), root),
        "Allgather" => coll::allgather(&site, Some(sent(from, block).into()), got(to, block).into()),
        "Allgatherv" => coll::allgatherv(&site, Some(sent(from, block).into()), room(got(to, block))),
        "Alltoall" => coll::alltoall(&site, Some(sent(from, block).into()), got(to, block).into()),
        "Alltoallv" => coll::alltoallv(&site, Some(each(sent(from, block))), room(got(to, block))),
        "Reduce" => coll::reduce(
            &site,
            Some(sent(from, all).into()),
            got(to, all).into(),
            &op,
            root,
        ),
        "Reduce_scatter" => coll::reduce_scatter(
            &site,
            Some(sent(from, all).into()),
            got(to, block).into(),
            &counts(block).collect::<Vec<_>>(),
            &op,
        ),
        "Allreduce" => coll::allreduce(&site, Some(sent(from, all).into()), got(to, all).into(), &op),
        _ => coll::scan(&site, Some(sent(from, all).into()), got(to, all).into(), &op),
    };
    debug_assert_eq!(byte().size(), 1);
    plan.expect("a plan")
}

/// All of it.
pub fn rows(machine: &Machine, results: &mut Results) {
    use Origin::Predicted;
    use Unit::{Megabytes, Plain};
    let each = all_to_all(machine, (92, 4), 24 << 10);
    results.rows.push(row(
        "S11",
        "all to all of 92 processes on 4 nodes, each process",
        Class::Absolute,
        Predicted,
        Megabytes,
        Expected::Value(85.0),
        each,
    ));
    let block = BYTES / 16;
    for (name, on, off) in TABLE {
        let bytes = match name {
            "Bcast" | "Reduce" | "Reduce_scatter" | "Allreduce" | "Scan" => BYTES,
            _ => 15 * block,
        };
        let [one, two] =
            [1, 2].map(|hosts| rate(machine, (16, hosts), bytes, |rank| plan(name, rank, block)));
        let row = |of: &str, what: &str, class, unit, expected, simulated| Row {
            id: format!("S13.{name}.{of}"),
            ..row(
                "",
                &format!("{name}, {what}"),
                class,
                Predicted,
                unit,
                expected,
                simulated,
            )
        };
        let value = Expected::Value;
        results.rows.extend([
            row(
                "on",
                "16 processes on one node",
                Class::Absolute,
                Megabytes,
                value(on),
                one,
            ),
            row(
                "off",
                "16 processes on two nodes",
                Class::Absolute,
                Megabytes,
                value(off),
                two,
            ),
            Row {
                null_model: Some(1.0),
                ..row(
                    "ratio",
                    "two nodes by one",
                    Class::Ratio,
                    Plain,
                    value(off / on),
                    two / one,
                )
            },
        ]);
    }
}
