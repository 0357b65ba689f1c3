//! Every conformance case on simulated machines: what an adapter has not, it says itself (`Adapter::lacks`).

mod support;

use farpost_fabric::ability::Ability;
use farpost_fabric::conformance::{BoardRef, End, Harness, run_all};
use farpost_fabric::{
    Access, BulkTransfer, Descriptor, Direction, Fabric, FabricError, Peer, Permission, Remote, RemoteMemory,
    Result, SegmentId, Time,
};
use farpost_sim::core::Core;
use farpost_sim::fabric::SimFabric;
use farpost_sim::machine::Machine;
use farpost_sim::ranks;
use std::task::{Context, Waker};

/// So many ranks on each host of a machine.
struct SimHarness<'a> {
    machine: &'a dyn Fn(u32) -> Core,
}

impl Harness for SimHarness<'_> {
    type Fabric = SimFabric;
    const PARALLEL: bool = true;

    fn run(&self, size: u32, role: impl AsyncFn(&End<SimFabric>) + Sync) -> bool {
        let board = BoardRef::shared();
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
        ranks::run((self.machine)(size), body).expect("no rank hangs");
        board.is_skipped()
    }

    /// No simulated machine maps memory or has eager zero-copy. For the rest each pair of processes has its adapter.
    fn lacks(&self, ability: Ability) -> bool {
        let mut core = (self.machine)(4);
        matches!(ability, Ability::Mapping | Ability::ZeroCopy)
            || (1..4).any(|to| core.adapter(Peer(0), Peer(to)).0.lacks().contains(&ability))
    }
}

/// Let all that is on its way arrive.
fn settle(fabric: &SimFabric) {
    fabric.compute(support::ns(100_000_000));
    fabric.with_core(|_| ());
}

/// The machine of that name.
fn machine(name: &str, on_host: u32) -> impl Fn(u32) -> Core {
    let machine = Machine::open(name).expect("it comes with the crate");
    move |size| {
        let placement = farpost_sim::placement(size, on_host);
        farpost_sim::assemble(&machine, size.div_ceil(on_host), &placement, 1).expect("so many hosts")
    }
}

#[test]
fn across_hosts() {
    for seed in 0..3 {
        let machine = |size| support::cluster(size, 1, seed);
        run_all(&SimHarness { machine: &machine }, &[]);
    }
}

#[test]
fn on_one_host_and_two() {
    for on_host in [8, 2] {
        let machine = |size| support::cluster(size, on_host, 1);
        run_all(&SimHarness { machine: &machine }, &[]);
    }
}

#[test]
fn sun_fire_link() {
    for on_host in [1, 2, 8] {
        let machine = machine("sun-fire-link", on_host);
        run_all(&SimHarness { machine: &machine }, &[]);
    }
}

#[test]
fn lanai() {
    let machine = machine("myrinet-fm", 1);
    run_all(&SimHarness { machine: &machine }, &[]);
}

#[test]
fn startx() {
    for on_host in [1, 2] {
        let machine = machine("startx", on_host);
        run_all(&SimHarness { machine: &machine }, &[]);
    }
}

#[test]
fn seastar() {
    let machine = machine("xt3", 1);
    run_all(&SimHarness { machine: &machine }, &[]);
}

/// What rank 0 gets when it asks for what `lacks` says.
fn refused(ability: Ability, fabric: &SimFabric) -> Result<()> {
    let import = || fabric.import(Peer(1), SegmentId(1), 64, Permission::ReadWrite);
    match ability {
        Ability::Put => import()?.put(0, &[1]),
        Ability::Get => import()?.get(0, &mut [0]),
        Ability::Transfer => {
            let mut here = [0_u8; 8];
            let descriptor = Descriptor {
                peer: Peer(1),
                direction: Direction::Get,
                local: here.as_mut_ptr().expose_provenance(),
                remote: 0,
                key: 0,
                len: 8,
            };
            if fabric.can_transfer(Peer(1)) {
                return Ok(());
            }
            // SAFETY: it is refused before any byte moves.
            unsafe { fabric.submit(&descriptor) }.map(|_| ())
        }
        // Of packet queues: who relies on it waits.
        _ => Err(FabricError::unsupported(Peer(1), "a promise", "not asked for")),
    }
}

/// An adapter that lacks something says so, with its name, to whoever asks for it.
#[test]
fn what_is_lacking_is_refused() {
    for (name, called) in [
        ("sun-fire-link", "rsm"),
        ("myrinet-fm", "lanai"),
        ("startx", "startx"),
        ("xt3", "seastar"),
    ] {
        let mut core = machine(name, 1)(2);
        let lacks = core.adapter(Peer(0), Peer(1)).0.lacks();
        assert!(!lacks.is_empty(), "{name}");
        let body = |fabric: SimFabric| {
            let access = Access::Everyone(Permission::ReadWrite);
            if fabric.me() == Peer(1) {
                let _segment = fabric.export(SegmentId(1), 64, access).expect("memory");
                return;
            }
            settle(&fabric);
            for ability in [Ability::Put, Ability::Get, Ability::Transfer] {
                match refused(ability, &fabric) {
                    Err(error @ FabricError::Unsupported { .. }) => {
                        assert!(lacks.contains(&ability), "{name} has {ability:?}: {error}");
                        assert!(error.to_string().contains(called), "{name}: {error}");
                    }
                    other => assert!(!lacks.contains(&ability), "{name} {ability:?}: {other:?}"),
                }
            }
        };
        ranks::run(core, body).expect("no rank hangs");
    }
}
