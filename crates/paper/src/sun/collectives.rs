//! Collectives: all to all of 92 processes (figure 7) and table 2.
//!
//! Farpost's algorithms where nothing is known of Sun's, else those of [`trees`]. Bandwidth is what the paper calls the throughput of the root, or of any process of an all to all: `(P - 1) block / time` of gathers, scatters and all to all, the vector by the time
//! of broadcasts, reductions and scans, `(P - 1) block / time` of all gathers. The paper does not say it for each, nor how large its messages were: here a megabyte of what is
//! divided by the time.

use super::machine::{self, Rank, recv_buf, send_buf};
use super::{row, trees};
use crate::{Class, Expected, Origin, Row, Unit};
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::coll::{self, Blocks, Root};
use farpost_mpi::op::Op;
use farpost_sim::machine::Machine;
use farpost_sim::time::Ps;

/// What is divided by the time.
const BYTES: usize = 1 << 20;

/// A block that makes connections.
const SHORT_BLOCK: usize = 4096;

/// 10^6 bytes a second of `bytes`, from the first rank's start to the last one's end.
fn rate(machine: &Machine, job: (u32, u32), bytes: usize, program: impl Fn(&Rank)) -> f64 {
    rate_after(machine, job, bytes, |rank, _| program(rank))
}

/// As [`rate`], of a program that runs a first time before.
fn rate_after(machine: &Machine, job: (u32, u32), bytes: usize, program: impl Fn(&Rank, bool)) -> f64 {
    let times = machine::run(machine, job, |rank| {
        program(rank, true);
        rank.barrier();
        let begun = rank.now();
        program(rank, false);
        (begun, rank.now())
    });
    let begun = times.iter().map(|time| time.0).min().unwrap_or(Ps::ZERO);
    let ended = times.iter().map(|time| time.1).max().unwrap_or(Ps::ZERO);
    bytes as f64 / (ended - begun).secs() / 1e6
}

/// All to all with blocks of so many bytes: of each process.
pub fn all_to_all(machine: &Machine, job: (u32, u32), block: usize) -> f64 {
    let bytes = (job.0 as usize - 1) * block;
    // Shorter blocks make the connections too.
    let before = block.min(SHORT_BLOCK);
    rate_after(machine, job, bytes, |rank, first| {
        run("Alltoall", rank, if first { before } else { block });
    })
}

/// One of these for figure 7, with messages of so many bytes: of the root, or of each process.
pub fn rooted(machine: &Machine, job: (u32, u32), name: &str, bytes: usize) -> f64 {
    let others = job.0 as usize - 1;
    let vector = matches!(name, "Bcast" | "Reduce");
    let divided = if vector { bytes } else { others * bytes };
    rate(machine, job, divided, |rank| {
        if vector {
            composed(name, rank, &mut vec![0; bytes]);
        } else {
            run(name, rank, bytes);
        }
    })
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

/// Run one of these, with blocks of so many bytes for each process, or a vector of as many blocks as processes.
fn run(name: &str, rank: &Rank, block: usize) {
    let ranks = rank.size;
    let (mut from, mut to) = (vec![0; ranks * block], vec![0; ranks * block]);
    let (site, root) = (rank.world.site(rank.comm()), Root::Rank(0));
    let op = Op::predefined(0x29).expect("MPI_BOR, which bytes have");
    let counts = || (0..ranks).map(move |_| block as u64);
    let offsets = || (0..ranks).map(move |place| (place * block) as i64);
    let each = |bytes: SendBuf| Blocks::v(&bytes.into(), counts(), offsets());
    let room = |bytes: RecvBuf| Blocks::v(&bytes.into(), counts(), offsets());
    let (own, whole) = (send_buf(&from[..block]), send_buf(&from));
    let (part, into) = (recv_buf(&mut to[..block]), recv_buf(&mut to));
    let plan = match name {
        "Gather" | "Allgather" => coll::gather(&site, Some(own.into()), part.into(), root),
        "Gatherv" | "Allgatherv" => coll::gatherv(&site, Some(own.into()), room(part), root),
        "Scatter" => coll::scatter(&site, own.into(), Some(part.into()), root),
        "Scatterv" | "Reduce_scatter" => coll::scatterv(&site, each(own), Some(part.into()), root),
        "Alltoall" => coll::alltoall(&site, Some(own.into()), part.into()),
        "Alltoallv" => coll::alltoallv(&site, Some(each(own)), room(part)),
        "Scan" => coll::scan(&site, Some(whole.into()), into.into(), &op),
        _ => return composed(name, rank, &mut from),
    };
    let plan = plan.expect("a plan");
    if name == "Reduce_scatter" {
        trees::reduce(rank, &mut from);
    }
    rank.collective(plan);
    if name.starts_with("Allgather") {
        trees::bcast(rank, &mut to);
    }
}

/// Reduction and broadcast, or one of them.
fn composed(name: &str, rank: &Rank, vector: &mut [u8]) {
    if name != "Bcast" {
        trees::reduce(rank, vector);
    }
    if name != "Reduce" {
        trees::bcast(rank, vector);
    }
}

/// All of it.
pub fn rows(machine: &Machine, all_to_all: f64, rows: &mut Vec<Row>) {
    use Origin::Predicted;
    use Unit::{Megabytes, Plain};
    rows.push(row(
        "S11",
        "all to all of 92 processes on 4 nodes, each process",
        Class::Absolute,
        Predicted,
        Megabytes,
        Expected::Value(85.0),
        all_to_all,
    ));
    let block = BYTES / 16;
    for (name, on, off) in TABLE {
        let bytes = match name {
            "Bcast" | "Reduce" | "Reduce_scatter" | "Allreduce" | "Scan" => 16 * block,
            _ => 15 * block,
        };
        let [one, two] = [1, 2].map(|hosts| rate(machine, (16, hosts), bytes, |rank| run(name, rank, block)));
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
        rows.extend([
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
