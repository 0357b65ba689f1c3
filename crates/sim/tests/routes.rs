//! The route of a packet reaches the network: a random one spreads over a fat tree's ways up, a fixed one keeps to its own.

#[path = "support/machines.rs"]
mod machines;

use farpost_fabric::{Fabric, PacketQueue, Peer, Port, Priority, Route, TrySend};
use farpost_sim::fabric::SimFabric;
use farpost_sim::time::Ps;
use farpost_sim::{assemble, placement, ranks};
use machines::with_rdma;

/// Packets that each of the links up from the first router has carried, when 64 are sent by `route` to the farthest host; the numbers in the order of arrival.
fn carried(route: Route) -> (Vec<u64>, Vec<u8>) {
    let machine = with_rdma("startx").expect("parts that fit");
    let size = machine.topology.ports();
    let core = assemble(&machine, size, &placement(size, 1), 1).expect("so many ports");
    let last = Peer(size - 1);
    let body = |end: SimFabric| {
        let mut got = Vec::new();
        if end.me() == Peer(0) {
            for number in 0..64u8 {
                let payload = vec![number; 8 + usize::from(number) % 3 * 80];
                while end.try_send_by(route, last, Port::Jam, Priority::Low, &payload) == TrySend::Full {
                    end.compute(Ps::from_nanos(100));
                }
            }
        } else if end.me() == last {
            while got.len() < 64 {
                let found = end.poll_priority(Port::Jam, Priority::Low, |_, bytes| got.push(bytes[0]));
                if !found {
                    end.compute(Ps::from_nanos(100));
                }
            }
        }
        got
    };
    let (got, core) = ranks::run(core, body).expect("no rank hangs");
    let up = |name: &str| name.starts_with("up link") && name.ends_with("of router 0 of level 0");
    let all = core.kernel.net.resources();
    let links = all.filter(|(_, resource)| up(&resource.spec.name));
    (
        links.map(|(_, resource)| resource.usage.packets).collect(),
        got[last.index()].clone(),
    )
}

#[test]
fn random_routes_spread_and_fixed_ones_do_not() {
    let (links, mut got) = carried(Route::Random);
    assert!(
        links.len() > 1 && links.iter().all(|packets| *packets > 64 / 8),
        "{links:?}"
    );
    assert_eq!(links.iter().sum::<u64>(), 64);
    got.sort_unstable();
    assert!(got.into_iter().eq(0..64), "each of them once");
    let mut taken = Vec::new();
    for number in 0..2 {
        let (links, got) = carried(Route::Fixed(number));
        let used: Vec<usize> = (0..links.len()).filter(|link| links[*link] > 0).collect();
        assert_eq!(used.len(), 1, "{links:?}");
        assert!(got.into_iter().eq(0..64), "in order");
        taken.extend(used);
    }
    assert_ne!(taken[0], taken[1], "another number is another way");
}
