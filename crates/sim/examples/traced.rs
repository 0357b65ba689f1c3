//! What one sees of a run: an all-reduce of 64 ranks on a torus of 4 x 4 x 4, after computing for different times.
//! `cargo run --release -p farpost-sim --example traced -- DIR` writes a trace and the network with its load to DIR, and tells the critical path.

#[path = "../tests/support/networks.rs"]
mod networks;

use farpost_fabric::Fabric;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::coll;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::Op;
use farpost_mpi::world::{World, WorldConfig};
use farpost_sim::fabric::SimFabric;
use farpost_sim::time::Ps;
use farpost_sim::{ranks, record, trace};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

const WORDS: usize = 4096;

fn program(end: SimFabric) {
    let me = end.me();
    // Rank 37 has more to compute than the others.
    let computing = Ps::from_nanos(if me.0 == 37 {
        60_000
    } else {
        20_000 + 100 * u64::from(me.0)
    });
    end.with_core(|core| core.compute(me, computing));
    let world = World::new(end, WorldConfig::default());
    let comm = world.comm_world();
    let now = || world.fabric().time();
    let begun = now();
    world
        .fabric()
        .with_core(|core| core.call_begins(me, "MPI_Allreduce", begun));
    let (mine, mut sum) = (vec![i64::from(me.0); WORDS], vec![0i64; WORDS]);
    let word = || Datatype::predefined(0x258).expect("int64_t");
    // SAFETY: the collective is waited for before the data goes.
    let (send, recv) = unsafe {
        (
            SendBuf::new(mine.as_ptr().cast(), WORDS as u64, word()),
            RecvBuf::new(sum.as_mut_ptr().cast(), WORDS as u64, word()),
        )
    };
    let op = Op::predefined(0x21).expect("MPI_SUM");
    let plan = coll::allreduce(&world.site(comm), Some(send.into()), recv.into(), &op).expect("a plan");
    world.run_collective(comm, plan).expect("allreduce");
    let ended = now();
    world.fabric().with_core(|core| core.call_ends(me, ended));
    world.quiesce().expect("quiesce");
    assert!(sum.iter().all(|sum| *sum == 63 * 64 / 2));
}

fn main() -> io::Result<()> {
    let torus = [
        ("dimensions", "4 4 4"),
        ("rings", "[true, true, true]"),
        ("hop", "\"50 ns\""),
    ];
    let mut core = networks::machine(&networks::topology("torus", &torus), 64, 1);
    core.record(record::ENTRIES);
    let (_, core) = ranks::run(core, program).map_err(io::Error::other)?;

    let dir = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".into()));
    let file = |name: &str| File::create(dir.join(name)).map(BufWriter::new);
    let mut json = file("traced.json")?;
    trace::perfetto(&core, &mut json)?;
    json.flush()?;
    let mut svg = file("traced.svg")?;
    trace::network(&core, &mut svg)?;
    svg.flush()?;
    let mut out = io::stdout().lock();
    trace::explain(&core, &mut out)?;
    writeln!(out)?;
    let mut table = Vec::new();
    trace::utilisation(&core, &mut table)?;
    for line in String::from_utf8_lossy(&table).lines().take(12) {
        writeln!(out, "{line}")?;
    }
    writeln!(
        out,
        "\n{} has traced.json (for ui.perfetto.dev) and traced.svg",
        dir.display()
    )
}
