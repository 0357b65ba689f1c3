//! An all-reduce of many ranks on a simulated machine, and what it takes: `cargo run --release -p farpost-sim --example many_ranks -- 10000`.

#[path = "../tests/support/mod.rs"]
mod support;

use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::coll;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::Op;
use farpost_mpi::world::{World, WorldConfig};
use farpost_sim::ranks;

fn main() {
    let size: u32 = std::env::args().nth(1).and_then(|it| it.parse().ok()).unwrap_or(1000);
    let start = std::time::Instant::now();
    let (sums, core) = ranks::run(support::cluster(size, 1, 1), |end| {
        let me = i64::from(farpost_fabric::Fabric::me(&end).0);
        let world = World::new(end, WorldConfig::default());
        let comm = world.comm_world();
        let word = || Datatype::predefined(0x258).expect("int64_t");
        let (mine, mut sum) = ([me], [0i64]);
        // SAFETY: the collective is waited for before the data goes.
        let (send, recv) = unsafe {
            (
                SendBuf::new(mine.as_ptr().cast(), 1, word()),
                RecvBuf::new(sum.as_mut_ptr().cast(), 1, word()),
            )
        };
        let op = Op::predefined(0x21).expect("MPI_SUM");
        let plan = coll::allreduce(&world.site(comm), Some(send.into()), recv.into(), &op).expect("a plan");
        world.run_collective(comm, plan).expect("allreduce");
        world.quiesce().expect("quiesce");
        sum[0]
    })
    .expect("no rank hangs");
    let all = i64::from(size) * i64::from(size - 1) / 2;
    assert!(sums.iter().all(|sum| *sum == all));
    println!(
        "{size} ranks: {:.1} s, virtual {}, {} events",
        start.elapsed().as_secs_f64(),
        core.kernel.now,
        core.kernel.queue.made()
    );
}
