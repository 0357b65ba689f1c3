//! Conformance cases of packets and block transfers on StarT-X, across its SMPs.

mod support;

use farpost_fabric::Time;
use farpost_fabric::conformance::{BoardRef, End, Harness, run_all};
use farpost_sim::adapter::{Adapter, Kernel, Local, LocalParams, StarTx, StarTxParams};
use farpost_sim::core::Core;
use farpost_sim::fabric::SimFabric;
use farpost_sim::machine::{AdapterSpec, Machine};
use farpost_sim::net::{HostId, Network};
use farpost_sim::process::Processes;
use farpost_sim::{ranks, topology};
use std::task::{Context, Waker};

fn core(ranks: u32, per_host: u32) -> Core {
    let machine = Machine::open("startx").expect("it comes with Farpost");
    let AdapterSpec::StarTX(spec) = &machine.adapter else {
        panic!("StarT-X");
    };
    let params = StarTxParams::of(&machine, spec);
    let mut net = Network::new(4, &[Some(params.queue); 2], 1);
    let topology = topology::build(&machine.topology, 4, &mut net).expect("four hosts");
    let hosts: Vec<_> = (0..ranks).map(|rank| HostId(rank / per_host)).collect();
    let mut kernel = Kernel::new(net, topology, Processes::new(&hosts), 1);
    let adapters = StarTx::of_hosts(&params, &mut kernel, 4);
    let adapters = adapters
        .into_iter()
        .map(|it| Box::new(it) as Box<dyn Adapter>)
        .collect();
    let local = Local::new(LocalParams::default(), support::costs(), 4);
    Core::new(kernel, adapters, local, support::costs())
}

struct OnStarTx;

impl Harness for OnStarTx {
    type Fabric = SimFabric;
    const PARALLEL: bool = true;

    fn run(&self, size: u32, role: impl AsyncFn(&End<SimFabric>) + Sync) -> bool {
        let board = BoardRef::shared();
        let body = |fabric: SimFabric| {
            let settle = |fabric: &SimFabric| {
                fabric.compute(support::ns(5_000_000));
                fabric.with_core(|_| ());
            };
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
        ranks::run(core(size, size.div_ceil(4)), body).expect("no rank hangs");
        board.is_skipped()
    }
}

#[test]
fn across_hosts() {
    run_all(&OnStarTx, &[]);
}
