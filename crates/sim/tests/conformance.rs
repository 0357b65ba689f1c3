//! Every conformance case on a simulated machine.

mod support;

use farpost_fabric::Time;
use farpost_fabric::conformance::{BoardRef, End, Harness, run_all};
use farpost_sim::fabric::SimFabric;
use farpost_sim::ranks;
use std::task::{Context, Waker};

struct SimHarness {
    seed: u64,
    on_host: u32,
}

impl Harness for SimHarness {
    type Fabric = SimFabric;
    const PARALLEL: bool = true;

    fn run(&self, size: u32, role: impl AsyncFn(&End<SimFabric>) + Sync) -> bool {
        let board = BoardRef::shared();
        let core = support::cluster(size, self.on_host, self.seed);
        let body = |fabric| {
            let end = End::new(fabric, board.clone(), settle);
            let whole = async {
                role(&end).await;
                end.barrier().await;
            };
            let mut future = std::pin::pin!(whole);
            let mut context = Context::from_waker(Waker::noop());
            while future.as_mut().poll(&mut context).is_pending() {
                end.fabric.yield_core();
            }
        };
        ranks::run(core, body).expect("no rank hangs");
        board.is_skipped()
    }
}

/// Let all that is on its way arrive.
fn settle(fabric: &SimFabric) {
    fabric.compute(support::ns(1_000_000));
    fabric.with_core(|_| ());
}

const NONE: [&str; 4] = [
    "memory::mapped",
    "memory::common",
    "memory::own_pages",
    "zcopy::follow_their_lines",
];

#[test]
fn across_hosts() {
    for seed in 0..3 {
        run_all(&SimHarness { seed, on_host: 1 }, &NONE);
    }
}

#[test]
fn on_one_host_and_two() {
    run_all(&SimHarness { seed: 1, on_host: 8 }, &NONE);
    run_all(&SimHarness { seed: 1, on_host: 2 }, &NONE);
}
