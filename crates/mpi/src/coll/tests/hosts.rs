//! What goes between hosts, counted: a broadcast crosses to each host once, whoever is the root and wherever ranks are.

use super::data::{Layout, Mem, value};
use super::net::{Net, Port, Rng};
use super::{Comm, Placing, tight};
use crate::coll::*;
use crate::datatype::Datatype;
use crate::op::Op;

/// Hosts and ranks on each.
const SHAPES: [(usize, usize); 4] = [(2, 1), (2, 2), (4, 2), (3, 5)];

/// Bytes: short, around where messages are cut, and long.
const SIZES: [usize; 6] = [1, 48, 4 << 10, 128 << 10, (128 << 10) + 1, 1 << 20];

/// Messages and bytes from host to host, by the pair of hosts.
fn crossings(net: &Net, hosts: &Hosts) -> Vec<(usize, usize, u64)> {
    let far = |&(from, to, bytes): &(usize, usize, u64)| {
        let (from, to) = (hosts.host_of(from), hosts.host_of(to));
        (from != to).then_some((from, to, bytes))
    };
    net.sent().iter().filter_map(far).collect()
}

/// Run `plans`, see who sent what, and that nothing but `mems` changed.
fn run(comm: Comm, plans: Vec<Plan>) -> Net {
    let mut schedules: Vec<_> = plans.into_iter().map(|plan| Schedule::new(plan, 7)).collect();
    let net = Net::new(comm.sizes, comm.seed);
    let ports = comm.ports().map(|(g, r)| Port::new(&net, g, r)).collect();
    net.run(&mut schedules, ports);
    net
}

#[test]
fn a_broadcast_crosses_to_each_host_once() {
    for (hosts, each) in SHAPES {
        let p = hosts * each;
        for placing in [Placing::Rows(each), Placing::Dealt(hosts)] {
            for bytes in SIZES {
                for root in [0, p / 2, p - 1] {
                    one_broadcast(p, hosts, placing, bytes, root);
                }
            }
        }
    }
}

fn one_broadcast(p: usize, hosts: usize, placing: Placing, bytes: usize, root: usize) {
    let comm = Comm::intra(p, 77 + root as u64).on(placing);
    let map = comm.hosts(0).expect("several hosts");
    assert_eq!(map.count(), hosts);
    let (tuning, pool) = (Tuning::default(), Pool::new(1 << 20));
    let mut rng = Rng::new(bytes as u64);
    let mut mems = vec![vec![0xeeu8; bytes]; p];
    mems[root].fill_with(|| rng.next() as u8);
    let expected = mems[root].clone();
    let plans = mems.iter_mut().enumerate().map(|(rank, mem)| {
        let site = comm.site(0, rank, &tuning, &pool);
        // SAFETY: the vectors outlive the schedules, and nobody looks at them before those are over.
        let block = unsafe { Block::new(mem.as_mut_ptr(), bytes as u64, Datatype::byte()) };
        bcast(&site, block, Root::Rank(root)).unwrap()
    });
    let net = run(comm, plans.collect());
    assert!(mems.iter().all(|mem| *mem == expected));
    let far = crossings(&net, &map);
    let what = format!("{bytes} bytes from {root} of {p} on {hosts} hosts, {placing:?}: {far:?}");
    let total: u64 = far.iter().map(|(_, _, bytes)| bytes).sum();
    assert_eq!(total, (bytes * (hosts - 1)) as u64, "{what}");
    // Each host but the root's hears it once, from one rank.
    for host in 0..hosts {
        let heard: u64 = far.iter().filter(|far| far.1 == host).map(|far| far.2).sum();
        let expected = if host == map.host_of(root) { 0 } else { bytes };
        assert_eq!(heard, expected as u64, "{what}");
    }
    let pieces = bytes.div_ceil(tuning.pipeline as usize);
    assert_eq!(far.len(), pieces * (hosts - 1), "{what}");
    // Long ones overlap: what is passed on is not the whole.
    assert!(bytes <= tuning.pipeline as usize || pieces > 1, "{what}");
    // Nobody within a host hears anything twice either.
    let all: u64 = net.sent().iter().map(|(_, _, bytes)| bytes).sum();
    assert_eq!(all, (bytes * (p - 1)) as u64, "{what}");
}

#[test]
fn reductions_cross_between_hosts_once_per_host() {
    for (hosts, each) in SHAPES.into_iter().filter(|(_, each)| *each > 1) {
        let p = hosts * each;
        for placing in [Placing::Rows(each), Placing::Dealt(hosts)] {
            for n in [8, 4 << 10, 20 << 10] {
                for root in [0, p - 1] {
                    one_reduction(p, hosts, placing, n, root);
                }
            }
        }
    }
}

fn one_reduction(p: usize, hosts: usize, placing: Placing, n: usize, root: usize) {
    let comm = Comm::intra(p, 78 + root as u64).on(placing);
    let map = comm.hosts(0).expect("several hosts");
    let pool = Pool::new(1 << 20);
    let tuning = Tuning {
        reduce_hosts_min: 0,
        ..Tuning::default()
    };
    let mut mems: Vec<[Mem; 2]> = (0..p)
        .map(|_| [Mem::new(Layout::Plain, n), Mem::new(Layout::Plain, n)])
        .collect();
    let expected = |i: usize| (0..p).fold(0u64, |sum, rank| sum.wrapping_add(value(0, rank, i)));
    for everywhere in [false, true] {
        for (rank, [from, to]) in mems.iter_mut().enumerate() {
            from.fill(|i| value(0, rank, i));
            to.clear();
        }
        let plans = mems.iter_mut().enumerate().map(|(rank, [from, to])| {
            let site = comm.site(0, rank, &tuning, &pool);
            let (from, to) = (Some(from.all()), to.all());
            if everywhere {
                allreduce(&site, from, to, &Op::SUM).unwrap()
            } else {
                reduce(&site, from, to, &Op::SUM, Root::Rank(root)).unwrap()
            }
        });
        let net = run(comm, plans.collect());
        for (rank, [_, to]) in mems.iter().enumerate() {
            if everywhere || rank == root {
                assert!((0..n).all(|i| to.get(i) == expected(i)), "at rank {rank} of {p}");
            }
        }
        let far = crossings(&net, &map);
        let what = format!("{n} words to {root} of {p} on {hosts} hosts, {placing:?}, {everywhere}: {far:?}");
        // One rank of each host speaks with the others.
        let mut speakers: Vec<usize> = net
            .sent()
            .iter()
            .filter(|(from, to, _)| map.host_of(*from) != map.host_of(*to))
            .map(|(from, _, _)| *from)
            .collect();
        speakers.sort_unstable();
        speakers.dedup();
        assert!(speakers.len() <= hosts, "{what}");
        // What flat algorithms send is as many times more as a host has ranks.
        let total: u64 = far.iter().map(|(_, _, bytes)| bytes).sum();
        let vector = (n * 8) as u64;
        let most = if everywhere {
            2 * hosts - 1
        } else {
            2 * (hosts - 1)
        } as u64;
        let most = if everywhere && n * 8 <= tuning.allreduce_doubling_max as usize {
            hosts as u64 * u64::from(hosts.next_power_of_two().ilog2() + 1)
        } else {
            most
        };
        assert!(total <= vector * most, "{what}");
    }
}

/// Everything that is reduced or spread, on ranks placed by chance, in pieces of few bytes.
#[test]
fn places_of_ranks_do_not_matter_to_results() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let p = 2 + rng.below(16);
        let comm = Comm::intra(p, seed).on(Placing::Chance(2 + rng.below(4)));
        let (tuning, pool) = (tight(seed), Pool::new(1 << 20));
        let tuning = Tuning {
            bcast_chain_min: [0, 1 << 20][rng.below(2)],
            ..tuning
        };
        let layout = Layout::pick(&mut rng);
        let (n, root) = ([1, 3, 40, 200][rng.below(4)], rng.below(p));
        let mut mems: Vec<Mem> = (0..p).map(|_| Mem::new(layout, n)).collect();
        mems.iter_mut().for_each(Mem::clear);
        mems[root].fill(|i| value(0, root, i));
        let plans = mems.iter_mut().enumerate().map(|(rank, mem)| {
            let site = comm.site(0, rank, &tuning, &pool);
            bcast(&site, mem.all(), Root::Rank(root)).unwrap()
        });
        run(comm, plans.collect());
        for mem in &mems {
            assert!((0..n).all(|i| mem.get(i) == value(0, root, i)), "seed {seed}");
            mem.check_gaps();
        }
    }
}

#[test]
fn hosts_are_numbered_by_their_lowest_ranks() {
    assert_eq!(Hosts::of([4, 4, 4]), None);
    assert_eq!(Hosts::of([]), None);
    let hosts = Hosts::of([9, 2, 9, 2, 2, 7]).unwrap();
    assert_eq!((hosts.count(), hosts.most(), hosts.in_order()), (3, 3, false));
    assert_eq!(*hosts.ranks(0), [0, 2]);
    assert_eq!(*hosts.ranks(1), [1, 3, 4]);
    assert_eq!(hosts.host_of(5), 2);
    assert!(Hosts::of([9, 9, 2, 7, 7]).unwrap().in_order());
}

#[test]
fn ranks_in_blocks_are_as_if_they_were_listed() {
    for (places, each) in [
        (&[3, 3, 5, 5, 8][..], 2),
        (&[0, 1, 2, 3][..], 1),
        (&[1, 1, 1, 7][..], 3),
    ] {
        let hosts = Hosts::of(places.iter().copied()).unwrap();
        assert_eq!((hosts.most(), hosts.in_order()), (each, true));
        let mut all = Vec::new();
        for host in 0..hosts.count() {
            let ranks = hosts.ranks(host);
            assert!(ranks.iter().all(|rank| hosts.host_of(*rank) == host));
            assert!(ranks.iter().all(|rank| places[*rank] == places[ranks[0]]));
            all.extend_from_slice(&ranks);
        }
        assert_eq!(all, (0..places.len()).collect::<Vec<_>>());
        assert_eq!(hosts.lowest_ranks().count(), hosts.count());
    }
    // The first host has fewer than the second, or a place comes again: no blocks.
    let hosts = Hosts::of([1, 2, 2]).unwrap();
    assert_eq!(
        (hosts.count(), hosts.most(), &*hosts.ranks(1)),
        (2, 2, &[1, 2][..])
    );
    assert_eq!(Hosts::of([1, 2, 1]).unwrap().count(), 2);
}
