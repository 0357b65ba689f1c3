//! Sun Fire Link's interfaces: links that fail, and whose error that is.

use farpost_fabric::{Access, Fabric, LocalMemory, Peer, Permission, Remote, RemoteMemory, SegmentId, Time};
use farpost_sim::adapter::{Adapter, Kernel, Local, LocalParams, Rsm, RsmParams};
use farpost_sim::core::Core;
use farpost_sim::costs::Costs;
use farpost_sim::fabric::SimFabric;
use farpost_sim::machine::{AdapterSpec, Machine};
use farpost_sim::net::{HostId, Network, ResourceId};
use farpost_sim::process::Processes;
use farpost_sim::time::Ps;
use farpost_sim::{ranks, topology};

const ID: SegmentId = SegmentId(3);
const LEN: usize = 64 << 10;

/// Ranks 0 and 1 on one host, 2 on another.
fn core(resend: bool) -> Core {
    let machine = Machine::open("sun-fire-link").expect("it is there");
    let AdapterSpec::Rsm(rsm) = &machine.adapter else {
        panic!("another adapter")
    };
    let mut params = RsmParams::of(rsm, &machine.host, &machine.software);
    params.resend = resend;
    let mut net = Network::new(2, &[None, None], 1);
    let topology = topology::build(&machine.topology, 2, &mut net).expect("two hosts");
    let hosts = [0, 0, 1].map(HostId);
    let mut kernel = Kernel::new(net, topology, Processes::new(&hosts), 1);
    let adapters = Rsm::of_hosts(&params, &mut kernel, 2)
        .into_iter()
        .map(|adapter| Box::new(adapter) as Box<dyn Adapter>)
        .collect();
    let local = Local::new(LocalParams::default(), Costs::default(), 2);
    Core::new(kernel, adapters, local, Costs::default())
}

/// Links of the first host, by rail.
fn links(core: &Core) -> Vec<ResourceId> {
    let all = core.kernel.net.resources();
    let of_host = all.filter(|(_, it)| it.spec.name.starts_with("link of host 0 to"));
    of_host.map(|(id, _)| id).collect()
}

fn errors(end: &SimFabric) -> u64 {
    let me = end.me();
    end.with_core(|core| {
        let host = core.kernel.procs.host_of(me);
        let (adapter, _) = core.adapter_of(host);
        let rsm = adapter.as_any().downcast_mut::<Rsm>().expect("an RSM controller");
        rsm.take_cesr(me).errors
    })
}

/// Rank 0 puts while a link is cut. What its fence said, errors of ranks 0 and 1, and whether all arrived at the end.
fn cut(resend: bool) -> (Result<(), String>, u64, u64, bool, u64) {
    let (results, mut core) = ranks::run(core(resend), |end| match end.me().0 {
        2 => {
            let memory = end.allocate(LEN).expect("memory");
            end.publish(ID, &memory, Access::Everyone(Permission::ReadWrite))
                .expect("publish");
            end.compute(Ps::from_nanos(5_000_000));
            end.with_core(|_| ());
            let mut bytes = vec![0; LEN];
            memory.read(0, &mut bytes);
            (Ok(()), 0, bytes.iter().all(|byte| *byte == 7))
        }
        me => {
            end.compute(Ps::from_nanos(10_000));
            end.yield_core();
            let remote = end
                .import(Peer(2), ID, LEN, Permission::ReadWrite)
                .expect("import");
            if me == 1 {
                // Its own line, long after.
                end.compute(Ps::from_nanos(1_000_000));
                remote.put(0, &[7; 64]).expect("put");
                remote.fence().expect("the others work");
                return (Ok(()), errors(&end), true);
            }
            remote.put(0, &[7; LEN]).expect("put");
            end.with_core(|core| {
                // That of the last stripe, which has not come to it.
                let link = links(core)[3];
                core.kernel.set_broken(link, true);
            });
            let fence = remote.fence().map_err(|error| error.to_string());
            let told = errors(&end);
            if fence.is_err() {
                remote.put(0, &[7; LEN]).expect("put");
                remote.fence().expect("the other links carry it");
            }
            (fence, told, true)
        }
    })
    .expect("no rank hangs");
    let (adapter, _) = core.adapter_of(HostId(0));
    let registers = adapter.registers();
    let resent = registers.iter().find(|(name, _)| name == "stripes_resent");
    let resent = resent.expect("a register").1;
    (
        results[0].0.clone(),
        results[0].1,
        results[1].1,
        results[2].2,
        resent,
    )
}

#[test]
fn a_lost_put_is_an_error_of_its_process_alone_and_another_try_heals_it() {
    let (fence, mine, other, whole, _) = cut(false);
    let said = fence.expect_err("a link was cut under it");
    assert!(said.contains("link of host 0"), "{said}");
    assert!(mine > 0);
    assert_eq!(other, 0);
    assert!(whole);
}

#[test]
fn software_that_stores_again_hides_the_failure() {
    let (fence, _, other, whole, resent) = cut(true);
    assert!(resent > 0, "something was lost");
    assert_eq!(fence, Ok(()));
    assert_eq!(other, 0);
    assert!(whole);
}
