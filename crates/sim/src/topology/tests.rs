mod deadlock;

use super::*;
use crate::net::{Fate, NetEvent, Packet, Path, ResourceSpec};
use crate::queue::EventQueue;
use crate::time::{Ps, Rate};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// `topology.KIND` with what its numbers are, and its links'.
fn spec(kind: &str, numbers: &[(&str, &str)], link: &[(&str, &str)]) -> TopologySpec {
    let number = |value: &str| format!("{{ value = {value}, assumed = \"a test\" }}");
    let key = |(key, value): &(&str, &str)| match *key {
        "rings" => format!("{key} = {value}\n"),
        "dimensions" => {
            let all: Vec<_> = value.split(' ').map(number).collect();
            format!("{key} = [{}]\n", all.join(", "))
        }
        _ => format!("{key} = {}\n", number(value)),
    };
    let keys = |all: &[(&str, &str)]| all.iter().map(key).collect::<String>();
    let text = format!("[{kind}]\n{}[{kind}.link]\n{}", keys(numbers), keys(link));
    toml::from_str(&text).unwrap_or_else(|error| panic!("{text}{error}"))
}

/// The way of this number.
fn fixed(number: u32) -> By {
    By::from(Route::Fixed(number as u8))
}

/// The one that this random number says.
fn random(number: u32) -> By {
    let route = Route::Random;
    By { route, number }
}

/// 1 byte a nanosecond and no latency.
const TIGHT: &[(&str, &str)] = &[("rate", "\"1 GB/s\""), ("buffer", "1")];
const TIGHT_BOTH: &[(&str, &str)] = &[
    ("rate", "\"1 GB/s\""),
    ("buffer", "1"),
    ("both", "\"1.6 GB/s\""),
    ("priorities", "2"),
];
const TWO: &[(&str, &str)] = &[("rate", "\"1 GB/s\""), ("buffer", "2"), ("priorities", "2")];
const HOP: (&str, &str) = ("hop", "\"100 ns\"");

fn torus(dimensions: &str, rings: &str, link: &[(&str, &str)]) -> TopologySpec {
    spec(
        "torus",
        &[("dimensions", dimensions), ("rings", rings), HOP],
        link,
    )
}

fn fat_tree(radix: &str, levels: &str, link: &[(&str, &str)]) -> TopologySpec {
    spec("fat_tree", &[("radix", radix), ("levels", levels), HOP], link)
}

/// One of each kind and more, with as many hosts as they have ports.
fn all(link: &[(&str, &str)]) -> Vec<TopologySpec> {
    let without_both: Vec<_> = link.iter().copied().filter(|(key, _)| *key != "both").collect();
    vec![
        spec("point", &[("rails", "2")], link),
        spec("crossbar", &[("rails", "4"), ("ports", "8"), HOP], link),
        spec("switch", &[("ports", "8"), HOP], link),
        fat_tree("4", "3", &without_both),
        fat_tree("8", "2", &without_both),
        torus("4 3 5", "[true, true, true]", &without_both),
        torus("3 4 6", "[false, false, true]", &without_both),
        torus("9 1 1", "[true, true, true]", &without_both),
        torus("2 2 2", "[true, true, true]", &without_both),
    ]
}

#[derive(Clone, Copy)]
enum Event {
    Net(NetEvent),
    /// A host has taken a packet of this lane.
    Taken(HostId, u8),
}

impl From<NetEvent> for Event {
    fn from(event: NetEvent) -> Self {
        Self::Net(event)
    }
}

/// A topology whose hosts send numbers, and what has arrived when.
struct Trial {
    net: Network<u32>,
    topology: Box<dyn Topology>,
    queue: EventQueue<Event>,
    /// What hosts hand packets to, by host: of any length and speed.
    inputs: Vec<ResourceId>,
    broken: BTreeSet<ResourceId>,
    arrived: Vec<(u32, Ps)>,
    lost: usize,
}

impl Trial {
    /// `room` of hosts for packets, of each lane.
    fn new(spec: &TopologySpec, hosts: u32, room: Option<u32>) -> Self {
        let mut net = Network::new(hosts, &[room, room], 1);
        let topology = build(spec, hosts, &mut net).expect("enough ports");
        let mut input = |host| {
            let lanes = 2;
            let name = format!("input of host {host}");
            let spec = ResourceSpec::new(name, Rate::INFINITE, Ps::ZERO);
            net.add(ResourceSpec { lanes, ..spec })
        };
        let inputs = (0..hosts).map(&mut input).collect();
        Self {
            net,
            topology,
            queue: EventQueue::default(),
            inputs,
            broken: BTreeSet::new(),
            arrived: Vec::new(),
            lost: 0,
        }
    }

    fn path(&self, from: u32, to: u32, rail: u32, route: By) -> Option<Vec<Hop>> {
        let port = |host| Port {
            host: HostId(host),
            rail,
        };
        let mut path = Vec::new();
        let broken = |resource| self.broken.contains(&resource);
        let found = self
            .topology
            .path((port(from), port(to)), 0, route, &broken, &mut path);
        found.then_some(path)
    }

    fn names(&self, path: &[Hop]) -> Vec<String> {
        let name = |hop: &Hop| self.net.resource(hop.resource).spec.name.clone();
        path.iter().map(name).collect()
    }

    fn find(&self, name: &str) -> ResourceId {
        let mut all = self.net.resources();
        let found = all.find(|(_, resource)| resource.spec.name == name);
        found.unwrap_or_else(|| panic!("no {name}")).0
    }

    fn send(&mut self, load: u32, (from, to, rail): (u32, u32, u32), lane: u8, route: By, bytes: u32) {
        let port = |host| Port {
            host: HostId(host),
            rail,
        };
        let mut path = vec![Hop {
            resource: self.inputs[from as usize],
            lane,
        }];
        let broken = |resource| self.broken.contains(&resource);
        assert!(
            self.topology
                .path((port(from), port(to)), lane, route, &broken, &mut path)
        );
        let (path, ends): (Path, _) = (path.into(), (HostId(from), HostId(to)));
        let packet = Packet::new(ends, bytes, lane, path, (Ps::ZERO, Ps::ZERO), load);
        self.net.send(&mut self.queue, Ps::ZERO, packet);
    }

    fn run(&mut self) {
        while let Some((now, event)) = self.queue.pop() {
            match event {
                Event::Net(event) => match self.net.handle(&mut self.queue, now, event) {
                    Some((packet, Fate::Arrived)) => {
                        self.arrived.push((packet.load, now));
                        let taken = Event::Taken(packet.to, packet.lane);
                        self.queue.at(now + Ps::from_nanos(50), taken);
                    }
                    Some((_, Fate::Lost(_))) => self.lost += 1,
                    None => {}
                },
                Event::Taken(host, lane) => self.net.release(&mut self.queue, now, host, lane),
            }
        }
    }

    fn last(&self) -> Ps {
        self.arrived.last().expect("something has arrived").1
    }
}

#[test]
fn every_pair_is_connected_on_every_rail() {
    for spec in all(TIGHT_BOTH) {
        let hosts = spec.ports();
        let it = Trial::new(&spec, hosts, None);
        assert_eq!(it.topology.rails(), spec.rails());
        let pairs = (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to)));
        for (from, to) in pairs {
            for rail in 0..spec.rails() {
                let path = it.path(from, to, rail, fixed(rail)).expect("connected");
                assert_eq!(path.is_empty(), from == to, "{from} {to}");
                let once: BTreeSet<_> = path.iter().map(|hop| hop.resource).collect();
                assert_eq!(once.len(), path.len(), "{:?}", it.names(&path));
            }
            assert_eq!(it.path(from, to, spec.rails(), fixed(0)).is_some(), from == to);
        }
    }
}

#[test]
fn more_hosts_than_ports_are_refused() {
    for spec in all(TIGHT) {
        let mut net: Network<()> = Network::new(1, &[None], 1);
        for hosts in [0, spec.ports() + 1] {
            let error = build(&spec, hosts, &mut net).map(|_| ()).expect_err("refused");
            let ports = spec.ports();
            assert_eq!(
                error,
                format!(
                    "{hosts} hosts on topology.{}, allowed are 1 to {ports}",
                    spec.kind()
                )
            );
        }
    }
}

#[test]
fn links_have_names_for_people() {
    let name = |spec: &TopologySpec, to| {
        let it = Trial::new(spec, spec.ports(), None);
        it.names(&it.path(0, to, 0, fixed(1)).expect("connected"))
    };
    let [point, crossbar, switch, tree, _, torus, ..] = &all(TIGHT_BOTH)[..] else {
        panic!("one of each")
    };
    assert_eq!(
        name(point, 2),
        [
            "both directions of the link of host 0, rail 0 and host 2, rail 0",
            "link of host 0, rail 0 to host 2, rail 0"
        ]
    );
    assert_eq!(
        name(crossbar, 2),
        [
            "both directions of the link of host 0 and switch 0",
            "link of host 0 to switch 0",
            "both directions of the link of host 2 and switch 0",
            "link of switch 0 to host 2"
        ]
    );
    assert_eq!(name(switch, 7)[3], "link of the switch to host 7");
    assert_eq!(
        name(tree, 3),
        [
            "link of host 0 to router 0 of level 0",
            "up link 0 of router 0 of level 0",
            "down link 1 of router 0 of level 1",
            "link of router 1 of level 0 to host 3"
        ]
    );
    assert_eq!(
        name(torus, 15),
        ["x- link of node (0,0,0)", "z+ link of node (3,0,0)"]
    );
}

proptest! {
    /// A path is as long as the ways in each dimension together, and each link begins where the one before ends.
    #[test]
    fn paths_in_tori_are_the_shortest(
        size in prop::array::uniform3(1u32..7),
        rings in prop::array::uniform3(any::<bool>()),
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
    ) {
        let [x, y, z] = size;
        let it = Trial::new(&torus(&format!("{x} {y} {z}"), &format!("{rings:?}"), TIGHT), x * y * z, None);
        let nodes = (x * y * z) as usize;
        let (from, to) = (from.index(nodes) as u32, to.index(nodes) as u32);
        let place = |node: u32| [node % x, node / x % y, node / x / y];
        let path = it.path(from, to, 0, fixed(0)).expect("connected");
        let length: u32 = (0..3).map(|d| {
            let apart = place(from)[d].abs_diff(place(to)[d]);
            if rings[d] { apart.min(size[d] - apart) } else { apart }
        }).sum();
        prop_assert_eq!(path.len() as u32, length);
        let mut at = place(from);
        let mut last = 0;
        for name in it.names(&path) {
            prop_assert_eq!(&name[2..], &format!(" link of node ({},{},{})", at[0], at[1], at[2])[..]);
            let dimension = "xyz".find(&name[..1]).expect("a dimension");
            prop_assert!(dimension >= last, "dimensions in order");
            last = dimension;
            let n = size[dimension];
            at[dimension] = (at[dimension] + if &name[1..2] == "+" { 1 } else { n - 1 }) % n;
        }
        prop_assert_eq!(at, place(to));
    }

    /// Whatever link of a ring is broken, there is the other way round.
    #[test]
    fn a_broken_link_of_a_ring_is_passed_by(link in 0usize..5 * 4 * 3 * 6, from in 0u32..60, to in 0u32..60) {
        let mut it = Trial::new(&torus("5 4 3", "[true, true, true]", TIGHT), 60, None);
        it.broken.insert(it.net.resources().nth(link).expect("six of each node").0);
        let path = it.path(from, to, 0, fixed(0)).expect("another way");
        prop_assert!(path.iter().all(|hop| !it.broken.contains(&hop.resource)));
    }
}

#[test]
fn a_broken_link_of_a_line_or_a_switch_cuts_off() {
    let mut it = Trial::new(&torus("4 1 1", "[false, true, true]", TIGHT), 4, None);
    it.broken.insert(it.find("x+ link of node (1,0,0)"));
    assert_eq!(it.path(0, 2, 0, fixed(0)), None);
    assert!(it.path(2, 0, 0, fixed(0)).is_some(), "the other direction works");
    let mut it = Trial::new(&all(TIGHT)[1], 8, None);
    it.broken.insert(it.find("link of switch 2 to host 3"));
    for rail in 0..4 {
        assert_eq!(it.path(0, 3, rail, fixed(0)).is_some(), rail != 2);
        assert!(it.path(3, 0, rail, fixed(0)).is_some());
    }
}

/// Of every pair and choice: up and down as often as their numbers say, and every link leads to one router only.
#[test]
fn paths_in_fat_trees_are_the_shortest_and_fit_together() {
    for (radix, levels) in [(4u32, 4u32), (6, 3), (8, 2), (4, 1)] {
        let spec = fat_tree(&radix.to_string(), &levels.to_string(), TIGHT);
        let (k, hosts) = (radix / 2, spec.ports());
        assert_eq!(hosts, k.pow(levels));
        let it = Trial::new(&spec, hosts, None);
        let mut leads_to: BTreeMap<String, String> = BTreeMap::new();
        let pairs = (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to)));
        for (from, to) in pairs.filter(|(from, to)| from != to) {
            let turn = (0..)
                .find(|m| from / k.pow(m + 1) == to / k.pow(m + 1))
                .expect("the top");
            let mut paths = BTreeSet::new();
            for choice in 0..k.pow(turn) {
                let random = it.path(from, to, 0, random(choice)).expect("connected");
                let fixed = it.path(from, to, 0, fixed(choice)).expect("connected");
                assert_eq!((random.len(), fixed.len()), (2 + 2 * turn as usize, random.len()));
                let names = it.names(&random);
                assert!(names[0].starts_with(&format!("link of host {from} to router")));
                assert!(names[names.len() - 1].ends_with(&format!("of level 0 to host {to}")));
                let router = |name: &str| {
                    let begin = name.find("router").expect("a router");
                    name[begin..].split(" to ").next().expect("a name").to_string()
                };
                for both in names.windows(2) {
                    let next = router(&both[1]);
                    let known = leads_to.entry(both[0].clone()).or_insert_with(|| next.clone());
                    assert_eq!(*known, next, "{}", both[0]);
                }
                assert_eq!(router(&names[0]), router(&names[1]));
                paths.insert(names);
            }
            assert_eq!(paths.len() as u32, k.pow(turn), "random routes spread over all");
        }
        // No router has more than k links down and k up.
        let mut into: BTreeMap<&String, u32> = BTreeMap::new();
        leads_to
            .values()
            .for_each(|router| *into.entry(router).or_default() += 1);
        assert!(into.values().all(|links| *links <= 2 * k), "{into:?}");
        assert!(into.len() as u32 <= levels * k.pow(levels - 1));
    }
}

#[test]
fn broken_links_of_a_fat_tree_are_passed_by_while_there_are_others() {
    let mut it = Trial::new(&fat_tree("4", "3", TIGHT), 8, None);
    for up in 0..2 {
        for route in [fixed(up), random(up)] {
            assert!(it.path(0, 7, 0, route).is_some());
        }
        it.broken
            .insert(it.find(&format!("up link {up} of router 0 of level 0")));
    }
    assert_eq!(it.path(0, 7, 0, fixed(0)), None);
    assert!(it.path(0, 1, 0, fixed(0)).is_some(), "below");
    assert!(it.path(7, 0, 0, fixed(0)).is_some());
}

/// Packets of all sizes on one fixed route through a busy network arrive as they were sent; on random ones they overtake.
#[test]
fn fixed_routes_keep_order_and_random_ones_do_not() {
    let order = |spread: bool| {
        let mut it = Trial::new(&fat_tree("4", "3", TIGHT), 8, Some(1));
        let mut chance = fastrand::Rng::with_seed(3);
        for load in 0..100 {
            let route = if spread { random(chance.u32(..)) } else { fixed(2) };
            it.send(load, (0, 7, 0), 0, route, chance.u32(8..200));
            let (from, to) = (1 + load % 3, 4 + load % 3);
            it.send(1000, (from, to, 0), 0, random(chance.u32(..)), 150);
        }
        it.run();
        let order = it
            .arrived
            .iter()
            .map(|(load, _)| *load)
            .filter(|load| *load < 1000);
        let order: Vec<u32> = order.collect();
        assert_eq!(order.len(), 100);
        order
    };
    assert!(order(false).is_sorted());
    assert!(!order(true).is_sorted());
    for spec in all(TIGHT) {
        let hosts = spec.ports();
        let mut it = Trial::new(&spec, hosts, Some(1));
        let mut chance = fastrand::Rng::with_seed(4);
        for load in 0..50 {
            it.send(load, (0, hosts - 1, 0), 0, fixed(5), chance.u32(8..200));
            it.send(1000, (chance.u32(1..hosts), 0, 0), 0, fixed(0), 100);
        }
        it.run();
        let order = it
            .arrived
            .iter()
            .map(|(load, _)| load)
            .filter(|load| **load < 1000);
        assert!(order.is_sorted(), "{}", spec.kind());
    }
}

/// When the last of 100 packets of 1000 bytes of each flow arrives.
fn time(spec: &TopologySpec, flows: &[(u32, u32, u32, u32)]) -> f64 {
    let mut it = Trial::new(spec, spec.ports(), None);
    for load in 0..100 {
        for &(from, to, rail, route) in flows {
            it.send(load, (from, to, rail), 0, fixed(route), 1000);
        }
    }
    it.run();
    it.last().micros()
}

#[test]
fn flows_over_one_link_share_it_and_over_others_do_not() {
    let close = |is: f64, should: f64| assert!((is / should - 1.0).abs() < 0.03, "{is} {should}");
    let specs = all(TWO);
    let [point, crossbar, switch, tree, _, torus, ..] = &specs[..] else {
        panic!("one of each")
    };
    // One rail and two, two senders to one host and to two.
    for (spec, apart, shared) in [
        (point, [(0, 1, 0, 0), (0, 1, 1, 0)], [(0, 1, 0, 0), (0, 1, 0, 0)]),
        (
            crossbar,
            [(0, 1, 0, 0), (2, 1, 1, 0)],
            [(0, 1, 0, 0), (2, 1, 0, 0)],
        ),
        (switch, [(0, 1, 0, 0), (2, 3, 0, 0)], [(0, 1, 0, 0), (2, 1, 0, 0)]),
        // Up from the same router: to the same one above, and to both.
        (tree, [(0, 4, 0, 0), (1, 6, 0, 1)], [(0, 4, 0, 0), (1, 6, 0, 0)]),
        // x+ of (1,0,0) is on both ways, or on one.
        (torus, [(0, 1, 0, 0), (1, 2, 0, 0)], [(0, 2, 0, 0), (1, 2, 0, 0)]),
    ] {
        let alone = time(spec, &apart[..1]);
        close(time(spec, &apart), alone);
        close(time(spec, &shared), 2.0 * alone);
    }
}

#[test]
fn both_directions_share_what_they_share() {
    // 100 kB at 1 GB/s; twice that at 1.6 GB/s.
    let more =
        |&(key, value): &(&'static str, &'static str)| (key, if key == "buffer" { "2" } else { value });
    let link: Vec<_> = TIGHT_BOTH.iter().map(more).collect();
    for spec in &all(&link)[..3] {
        let one = time(spec, &[(0, 1, 0, 0)]);
        let both = time(spec, &[(0, 1, 0, 0), (1, 0, 0, 0)]);
        assert!((one / 100.0 - 1.0).abs() < 0.03, "{one}");
        assert!((both / 125.0 - 1.0).abs() < 0.03, "{both}");
    }
}

#[test]
fn the_high_priority_passes_the_low_one_in_the_tree() {
    let mut it = Trial::new(&fat_tree("4", "2", TWO), 4, None);
    for load in 0..20 {
        it.send(load, (0, 3, 0), 1, fixed(0), 100);
        it.send(100 + load, (1, 3, 0), 0, fixed(0), 100);
    }
    it.run();
    let last_of = |high: bool| {
        it.arrived
            .iter()
            .rposition(|(load, _)| (*load >= 100) == high)
            .expect("arrived")
    };
    assert!(
        last_of(true) < 25,
        "a few low packets were under way: {:?}",
        it.arrived
    );
    assert_eq!(last_of(false), 39);
}

/// The machines' networks: what one packet takes.
#[test]
fn latencies_are_those_of_the_papers() {
    let one = |name: &str, to: u32, bytes: u32| {
        let machine = crate::machine::Machine::open(name).expect("one of ours");
        let mut it = Trial::new(&machine.topology, machine.host.hosts.0, None);
        it.send(1, (0, to, 0), 0, fixed(0), bytes);
        it.run();
        let cables = machine.topology.link().latency.value * 2;
        let hop = match &machine.topology {
            TopologySpec::Point(_) => Ps::ZERO,
            TopologySpec::Crossbar(spec) => spec.hop.value,
            TopologySpec::Switch(spec) => spec.hop.value,
            TopologySpec::FatTree(spec) => spec.hop.value,
            TopologySpec::Torus(spec) => spec.hop.value,
        };
        (it.last() - cables, hop)
    };
    assert_eq!(one("myrinet-fm", 5, 128).0, Ps::from_nanos(550 + 1600));
    assert_eq!(one("startx", 3, 64).0, Ps::from_nanos(2 * 150 + 400));
    assert_eq!(one("startx", 1, 64).0, Ps::from_nanos(400), "no router above");
    let (time, hop) = one("sun-fire-link", 7, 64);
    assert_eq!(time, hop + Ps::from_nanos(64));
    // 27 x 16 x 24, rings in z only: as far as it gets is 26 + 15 + 12 hops.
    let farthest = 26 + 27 * (15 + 16 * 12);
    let (time, hop) = one("xt3", farthest, 0);
    assert_eq!(time, hop * 53);
    assert!(
        time <= Ps::from_nanos(3000),
        "5 us to the farthest and 2 us to the nearest"
    );
    assert_eq!(one("xt3", 27 * 16 * 23, 0), (hop, hop), "round the ring");
    let (time, hop) = one("cluster-100g", 1023, 0);
    assert_eq!(time, hop * 2);
}

#[test]
fn a_part_of_a_torus_has_the_links_that_its_hosts_use() {
    let spec = torus("27 16 24", "[false, false, true]", TIGHT);
    let links = |hosts| Trial::new(&spec, hosts, None).net.resources().count() as u32 - hosts;
    assert_eq!(links(2), 2 * 26);
    assert_eq!(links(28), 2 * (26 * 16 + 27 * 15));
    assert_eq!(
        links(27 * 16 * 24),
        2 * (26 * 16 * 24 + 27 * 15 * 24 + 27 * 16 * 24)
    );
}

#[test]
fn the_links_that_are_drawn_are_those_that_packets_pass() {
    for spec in all(TIGHT_BOTH) {
        let hosts = spec.ports().min(60);
        let mut net = Network::<()>::new(hosts, &[None], 1);
        let topology = build(&spec, hosts, &mut net).expect("so many hosts");
        assert_ne!(topology.shape(), Shape::Unknown);
        let links: BTreeMap<ResourceId, (Node, Node)> = topology
            .links()
            .iter()
            .map(|link| (link.resource, (link.from, link.to)))
            .collect();
        for (from, to) in (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to))) {
            let [from, to] = [from, to].map(HostId);
            let mut path = Vec::new();
            let ends = [from, to].map(|host| Port { host, rail: 0 });
            assert!(topology.path((ends[0], ends[1]), 0, fixed(0), &|_| false, &mut path));
            // Resources that both directions share are no links.
            let way = path.iter().filter_map(|hop| links.get(&hop.resource));
            let last = way.fold(Node::Host(from), |at, (begin, end)| {
                assert_eq!(*begin, at, "{spec:?}");
                *end
            });
            assert_eq!(last, Node::Host(to), "{spec:?}");
        }
    }
}
