//! Intercommunicator forms.
//!
//! Requirements of MPI-5.0 section 6.2.3.

use super::data::{Layout, Mem, room, spread, value};
use super::net::Rng;
use super::reductions::{CASES, Case};
use super::{Comm, Placing, tight};
use crate::coll::*;

/// Sizes of the two groups.
const GROUPS: [[usize; 2]; 9] = [
    [1, 1],
    [1, 2],
    [2, 1],
    [3, 2],
    [2, 5],
    [4, 4],
    [7, 3],
    [1, 9],
    [16, 5],
];

fn every(seeds: u64, one: impl Fn(Comm, &mut Rng, &Tuning, &Pool)) {
    for (g, sizes) in GROUPS.into_iter().enumerate() {
        for seed in 0..seeds {
            let seed = 100 * g as u64 + seed;
            let placing = Placing::pick(&mut Rng::new(seed ^ 0x9105));
            let comm = Comm { sizes, seed, placing };
            one(comm, &mut Rng::new(seed), &tight(seed), &Pool::new(1 << 20));
        }
    }
}

/// Index of a port in the list of all.
fn index(comm: Comm, group: usize, rank: usize) -> usize {
    group * comm.sizes[0] + rank
}

/// The root argument at (group, rank) when `root` of group `home` is the root.
fn root_at(home: usize, root: usize, group: usize, rank: usize) -> Root {
    match (group == home, rank == root) {
        (false, _) => Root::Rank(root),
        (true, true) => Root::Me,
        (true, false) => Root::Idle,
    }
}

#[test]
fn barrier_completes() {
    every(5, |comm, _, tuning, pool| {
        let plans = comm
            .ports()
            .map(|(g, r)| barrier(&comm.site(g, r, tuning, pool)).unwrap())
            .collect();
        let mut mems: Vec<Vec<Mem>> = comm.ports().map(|_| Vec::new()).collect();
        comm.run(plans, &mut mems, |_| {}, |_| {});
    });
}

#[test]
fn barrier_waits_for_the_other_group() {
    every(5, |comm, _, tuning, pool| {
        let absent = (1, comm.sizes[1] - 1);
        let net = super::Net::new(comm.sizes, comm.seed);
        let mut group: Vec<_> = comm
            .ports()
            .map(|(g, r)| Schedule::new(barrier(&comm.site(g, r, tuning, pool)).unwrap(), 1))
            .collect();
        for _ in 0..100 {
            for (i, (g, r)) in comm.ports().enumerate().filter(|(_, port)| *port != absent) {
                let done = group[i].advance(&super::Port::new(&net, g, r)).unwrap();
                assert!(!done || g == 1, "rank {r} left before rank {absent:?} came");
            }
            net.step();
        }
    });
}

#[test]
fn rooted_collectives_cross_from_and_to_the_root() {
    every(12, |comm, rng, tuning, pool| {
        let home = rng.below(2);
        let (there, q) = (1 - home, comm.sizes[1 - home]);
        let root = rng.below(comm.sizes[home]);
        let kind = comm.seed % 3;
        let counts: Vec<usize> = match rng.below(2) {
            _ if kind == 0 => vec![[0, 1, 20][rng.below(3)]; q],
            0 => vec![3; q],
            _ => (0..q).map(|_| [0, 1, 5][rng.below(3)]).collect(),
        };
        let even = kind > 0 && counts.iter().all(|c| *c == 3);
        let displs = if even {
            (0..q).map(|r| 3 * r).collect()
        } else {
            spread(&counts)
        };
        // Memory 0: one rank's block; 1: the root's blocks.
        let mut mems: Vec<Vec<Mem>> = comm
            .ports()
            .map(|(g, r)| {
                let n = if g == there { counts[r] } else { counts[0] };
                vec![
                    Mem::new(Layout::pick(rng), n),
                    Mem::new(Layout::pick(rng), room(&counts)),
                ]
            })
            .collect();
        let plans = comm
            .ports()
            .map(|(g, r)| {
                let m = &mut mems[index(comm, g, r)];
                let at = root_at(home, root, g, r);
                let site = comm.site(g, r, tuning, pool);
                let all = match (at, even) {
                    (Root::Me, true) => Blocks::Even(m[1].block(0, 3)),
                    (Root::Me, false) => m[1].blocks(&counts),
                    _ => Blocks::Each(Vec::new()),
                };
                match kind {
                    0 => bcast(&site, m[0].all(), at),
                    1 => gatherv(&site, Some(m[0].all()), all, at),
                    _ => scatterv(&site, all, Some(m[0].all()), at),
                }
                .unwrap()
            })
            .collect();
        let top = index(comm, home, root);
        comm.run(
            plans,
            &mut mems,
            |mems| {
                for m in mems.iter_mut().flatten() {
                    m.clear();
                }
                match kind {
                    0 => mems[top][0].fill(|i| value(home, root, i)),
                    1 => (0..q).for_each(|r| mems[index(comm, there, r)][0].fill(|i| value(there, r, i))),
                    _ => {
                        for r in 0..q {
                            for i in 0..counts[r] {
                                mems[top][1].set(displs[r] + i, value(there, r, i));
                            }
                        }
                    }
                }
            },
            |mems| {
                for r in 0..q {
                    for i in 0..counts[r] {
                        let got = match kind {
                            1 => mems[top][1].get(displs[r] + i),
                            _ => mems[index(comm, there, r)][0].get(i),
                        };
                        let expected = if kind == 0 {
                            value(home, root, i)
                        } else {
                            value(there, r, i)
                        };
                        assert_eq!(got, expected, "kind {kind}, rank {r} of {:?}", comm.sizes);
                    }
                }
            },
        );
    });
}

#[test]
fn allgather_and_alltoall_cross_in_both_directions() {
    every(12, |comm, rng, tuning, pool| {
        let gather = rng.below(2) == 0;
        // counts[g][s][d]: elements from rank s of group g to rank d of the other one.
        let mut counts: Vec<Vec<Vec<usize>>> = (0..2)
            .map(|g| {
                (0..comm.sizes[g])
                    .map(|_| (0..comm.sizes[1 - g]).map(|_| [0, 1, 6][rng.below(3)]).collect())
                    .collect()
            })
            .collect();
        if gather {
            counts.iter_mut().flatten().for_each(|c| {
                let n = c[0];
                c.fill(n);
            });
        }
        let to_me = |g: usize, r: usize| counts[1 - g].iter().map(|c| c[r]).collect::<Vec<_>>();
        let mut mems: Vec<Vec<Mem>> = comm
            .ports()
            .map(|(g, r)| {
                let (out, inn) = (Layout::pick(rng), Layout::pick(rng));
                let n = if gather {
                    counts[g][r][0]
                } else {
                    room(&counts[g][r])
                };
                vec![Mem::new(out, n), Mem::new(inn, room(&to_me(g, r)))]
            })
            .collect();
        let plans = comm
            .ports()
            .map(|(g, r)| {
                let m = &mut mems[index(comm, g, r)];
                let site = comm.site(g, r, tuning, pool);
                let recv = m[1].blocks(&to_me(g, r));
                if gather {
                    allgatherv(&site, Some(m[0].all()), recv).unwrap()
                } else {
                    alltoallv(&site, Some(m[0].blocks(&counts[g][r])), recv).unwrap()
                }
            })
            .collect();
        comm.run(
            plans,
            &mut mems,
            |mems| {
                for (g, r) in comm.ports() {
                    let m = &mut mems[index(comm, g, r)];
                    m.iter_mut().for_each(Mem::clear);
                    if gather {
                        m[0].fill(|i| value(g, r, i));
                        continue;
                    }
                    let displs = spread(&counts[g][r]);
                    for d in 0..comm.sizes[1 - g] {
                        (0..counts[g][r][d]).for_each(|i| m[0].set(displs[d] + i, value(g, r * 32 + d, i)));
                    }
                }
            },
            |mems| {
                for (g, r) in comm.ports() {
                    let displs = spread(&to_me(g, r));
                    for s in 0..comm.sizes[1 - g] {
                        for i in 0..counts[1 - g][s][r] {
                            let from = if gather { s } else { s * 32 + r };
                            let got = mems[index(comm, g, r)][1].get(displs[s] + i);
                            assert_eq!(got, value(1 - g, from, i), "{s} to {r} of {:?}", comm.sizes);
                        }
                    }
                }
            },
        );
    });
}

#[test]
fn reductions_give_each_group_the_others_result() {
    every(16, |comm, rng, tuning, pool| {
        let case = CASES[comm.seed as usize % 4];
        let scatter = comm.seed / 4 % 2 == 1;
        let n = if scatter { 60 } else { [0, 1, 33][rng.below(3)] };
        // Parts for each group, sixty elements in sum.
        let counts = comm.sizes.map(|p| {
            let mut counts = vec![(60 / p) as u64; p];
            counts[0] += (60 % p) as u64;
            if p > 2 {
                counts[2] += counts[1];
                counts[1] = 0;
            }
            counts
        });
        let mut mems: Vec<Vec<Mem>> = comm
            .ports()
            .map(|_| (0..2).map(|_| Mem::new(case.layout, n)).collect())
            .collect();
        let op = case.op();
        let plans = comm
            .ports()
            .map(|(g, r)| {
                let m = &mut mems[index(comm, g, r)];
                let site = comm.site(g, r, tuning, pool);
                let send = Some(m[0].all());
                if scatter {
                    let recv = m[1].block(0, counts[g][r] as usize);
                    reduce_scatter(&site, send, recv, &counts[g], &op).unwrap()
                } else {
                    allreduce(&site, send, m[1].all(), &op).unwrap()
                }
            })
            .collect();
        comm.run(
            plans,
            &mut mems,
            |mems| fill(comm, mems),
            |mems| {
                for (g, r) in comm.ports() {
                    let (first, len) = if scatter {
                        let first = counts[g][..r].iter().sum::<u64>() as usize;
                        (first, counts[g][r] as usize)
                    } else {
                        (0, n)
                    };
                    for i in 0..len {
                        let expected = case.expect(1 - g, 0..comm.sizes[1 - g], first + i);
                        let got = mems[index(comm, g, r)][1].get(i);
                        assert_eq!(
                            got, expected,
                            "rank {r} of group {g} of {:?}, {case:?}",
                            comm.sizes
                        );
                    }
                }
            },
        );
    });
}

fn fill(comm: Comm, mems: &mut [Vec<Mem>]) {
    for (g, r) in comm.ports() {
        let m = &mut mems[index(comm, g, r)];
        m[0].fill(|i| value(g, r, i));
        m[1].clear();
    }
}

#[test]
fn reduce_gives_the_root_the_other_groups_result() {
    every(8, |comm, rng, tuning, pool| {
        let case: Case = CASES[comm.seed as usize % 4];
        let tuning = Tuning {
            reduce: 1 + comm.seed / 4 % 2,
            ..tuning.clone()
        };
        let home = rng.below(2);
        let root = rng.below(comm.sizes[home]);
        let n = [1, 33][rng.below(2)];
        let mut mems: Vec<Vec<Mem>> = comm
            .ports()
            .map(|_| (0..2).map(|_| Mem::new(case.layout, n)).collect())
            .collect();
        let op = case.op();
        let plans = comm
            .ports()
            .map(|(g, r)| {
                let m = &mut mems[index(comm, g, r)];
                let at = root_at(home, root, g, r);
                let recv = if at == Root::Me { m[1].all() } else { Block::none() };
                let send = if g == home { Block::none() } else { m[0].all() };
                reduce(&comm.site(g, r, &tuning, pool), Some(send), recv, &op, at).unwrap()
            })
            .collect();
        comm.run(
            plans,
            &mut mems,
            |mems| fill(comm, mems),
            |mems| {
                for i in 0..n {
                    let expected = case.expect(1 - home, 0..comm.sizes[1 - home], i);
                    let got = mems[index(comm, home, root)][1].get(i);
                    assert_eq!(
                        got, expected,
                        "root {root} of group {home} of {:?}, {case:?}",
                        comm.sizes
                    );
                }
            },
        );
    });
}
