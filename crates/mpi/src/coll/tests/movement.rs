//! Collectives that move data within a group.
//!
//! Requirements of MPI-5.0 sections 6.3, 6.5, 6.6.

use super::data::{Layout, Mem, room, spread, value};
use super::net::Rng;
use super::{Comm, SIZES, tight};
use crate::coll::*;

/// Run `one` for every number of ranks and every algorithm, with a seed of its own.
fn every(algorithms: u64, one: impl Fn(usize, u64, u64)) {
    for p in SIZES {
        for algorithm in 0..=algorithms {
            for seed in 0..3 {
                one(p, algorithm, 1000 * p as u64 + 10 * algorithm + seed);
            }
        }
    }
}

fn counts_of(rng: &mut Rng, p: usize) -> Vec<usize> {
    (0..p).map(|_| [0, 1, 2, 7, 30][rng.below(5)]).collect()
}

#[test]
fn barrier_completes_and_nobody_leaves_early() {
    for p in SIZES {
        for seed in 0..5 {
            let comm = Comm::intra(p, seed);
            let (tuning, pool) = (Tuning::default(), Pool::new(0));
            let plan = |r| barrier(&comm.site(0, r, &tuning, &pool)).unwrap();
            let mut mems: Vec<Vec<Mem>> = (0..p).map(|_| Vec::new()).collect();
            comm.run((0..p).map(plan).collect(), &mut mems, |_| {}, |_| {});
            // One rank stays away: nobody can finish.
            let absent = seed as usize % p;
            let net = super::Net::new(comm.sizes, seed);
            let mut rest: Vec<_> = (0..p).map(|r| Schedule::new(plan(r), 1)).collect();
            for _ in 0..100 {
                for r in (0..p).filter(|&r| r != absent) {
                    let done = rest[r].advance(&super::Port::new(&net, 0, r)).unwrap();
                    assert!(!done, "rank {r} of {p} left before rank {absent} came");
                }
                net.step();
            }
        }
    }
}

#[test]
fn bcast_brings_the_roots_data() {
    every(3, |p, algorithm, seed| {
        let mut rng = Rng::new(seed);
        let tuning = Tuning {
            bcast: algorithm,
            ..tight(seed)
        };
        let pool = Pool::new(1 << 20);
        let comm = Comm::intra(p, seed);
        let (n, root) = ([0, 1, 3, 64, 257][rng.below(5)], rng.below(p));
        let mut mems: Vec<Vec<Mem>> = (0..p)
            .map(|_| vec![Mem::new(Layout::pick(&mut rng), n)])
            .collect();
        let plans = (0..p)
            .map(|r| {
                bcast(
                    &comm.site(0, r, &tuning, &pool),
                    mems[r][0].all(),
                    Root::Rank(root),
                )
                .unwrap()
            })
            .collect();
        comm.run(
            plans,
            &mut mems,
            |mems| {
                mems.iter_mut().for_each(|m| m[0].clear());
                mems[root][0].fill(|i| value(0, root, i));
            },
            |mems| {
                for r in 0..p {
                    for i in 0..n {
                        assert_eq!(
                            mems[r][0].get(i),
                            value(0, root, i),
                            "rank {r} of {p}, element {i}"
                        );
                    }
                }
            },
        );
    });
}

#[test]
fn gather_collects_in_rank_order() {
    every(2, |p, algorithm, seed| {
        let mut rng = Rng::new(seed);
        let tuning = Tuning {
            gather: algorithm,
            ..tight(seed)
        };
        let pool = Pool::new(1 << 20);
        let comm = Comm::intra(p, seed);
        let (n, root, in_place) = ([0, 1, 3, 20][rng.below(4)], rng.below(p), rng.below(2) == 0);
        let mut mems: Vec<Vec<Mem>> = (0..p)
            .map(|_| {
                vec![
                    Mem::new(Layout::pick(&mut rng), n),
                    Mem::new(Layout::pick(&mut rng), n * p),
                ]
            })
            .collect();
        let plans = (0..p)
            .map(|r| {
                let send = (r != root || !in_place).then(|| mems[r][0].all());
                let recv = if r == root {
                    mems[r][1].block(0, n)
                } else {
                    Block::none()
                };
                gather(&comm.site(0, r, &tuning, &pool), send, recv, Root::Rank(root)).unwrap()
            })
            .collect();
        comm.run(
            plans,
            &mut mems,
            |mems| {
                for (r, m) in mems.iter_mut().enumerate() {
                    m[0].fill(|i| value(0, r, i));
                    m[1].clear();
                }
                for i in 0..n {
                    mems[root][1].set(root * n + i, value(0, root, i));
                }
            },
            |mems| {
                for r in 0..p {
                    for i in 0..n {
                        assert_eq!(mems[root][1].get(r * n + i), value(0, r, i), "block {r} of {p}");
                    }
                }
            },
        );
    });
}

#[test]
fn gatherv_and_scatterv_use_each_ranks_place_and_size() {
    every(1, |p, scattering, seed| {
        let mut rng = Rng::new(seed);
        let tuning = tight(seed);
        let pool = Pool::new(1 << 20);
        let comm = Comm::intra(p, seed);
        let (root, in_place) = (rng.below(p), rng.below(2) == 0);
        let counts = counts_of(&mut rng, p);
        let displs = spread(&counts);
        let mut mems: Vec<Vec<Mem>> = (0..p)
            .map(|r| {
                let (one, all) = (Layout::pick(&mut rng), Layout::pick(&mut rng));
                vec![Mem::new(one, counts[r]), Mem::new(all, room(&counts))]
            })
            .collect();
        let plans = (0..p)
            .map(|r| {
                let one = (r != root || !in_place).then(|| mems[r][0].all());
                let all = if r == root {
                    mems[r][1].blocks(&counts)
                } else {
                    Blocks::Each(Vec::new())
                };
                let site = comm.site(0, r, &tuning, &pool);
                if scattering == 1 {
                    scatterv(&site, all, one, Root::Rank(root)).unwrap()
                } else {
                    gatherv(&site, one, all, Root::Rank(root)).unwrap()
                }
            })
            .collect();
        comm.run(
            plans,
            &mut mems,
            |mems| {
                for (r, m) in mems.iter_mut().enumerate() {
                    m[0].fill(|i| if scattering == 1 { 0 } else { value(0, r, i) });
                    m[1].clear();
                }
                for r in (0..p).filter(|&r| scattering == 1 || r == root) {
                    for i in 0..counts[r] {
                        mems[root][1].set(displs[r] + i, value(0, r, i));
                    }
                }
            },
            |mems| {
                for r in 0..p {
                    for i in 0..counts[r] {
                        assert_eq!(mems[root][1].get(displs[r] + i), value(0, r, i));
                        if r != root || !in_place {
                            assert_eq!(mems[r][0].get(i), value(0, r, i));
                        }
                    }
                }
            },
        );
    });
}

#[test]
fn scatter_hands_out_in_rank_order() {
    every(2, |p, algorithm, seed| {
        let mut rng = Rng::new(seed);
        let tuning = Tuning {
            scatter: algorithm,
            ..tight(seed)
        };
        let pool = Pool::new(1 << 20);
        let comm = Comm::intra(p, seed);
        let (n, root, in_place) = ([0, 1, 3, 20][rng.below(4)], rng.below(p), rng.below(2) == 0);
        let mut mems: Vec<Vec<Mem>> = (0..p)
            .map(|_| {
                vec![
                    Mem::new(Layout::pick(&mut rng), n * p),
                    Mem::new(Layout::pick(&mut rng), n),
                ]
            })
            .collect();
        let plans = (0..p)
            .map(|r| {
                let send = if r == root {
                    mems[r][0].block(0, n)
                } else {
                    Block::none()
                };
                let recv = (r != root || !in_place).then(|| mems[r][1].all());
                scatter(&comm.site(0, r, &tuning, &pool), send, recv, Root::Rank(root)).unwrap()
            })
            .collect();
        comm.run(
            plans,
            &mut mems,
            |mems| {
                mems.iter_mut().for_each(|m| m[1].clear());
                mems[root][0].fill(|i| value(0, root, i));
            },
            |mems| {
                for r in (0..p).filter(|&r| r != root || !in_place) {
                    for i in 0..n {
                        assert_eq!(mems[r][1].get(i), value(0, root, r * n + i), "rank {r} of {p}");
                    }
                }
            },
        );
    });
}

#[test]
fn allgather_and_allgatherv_collect_everywhere() {
    every(3, |p, algorithm, seed| {
        let mut rng = Rng::new(seed);
        let tuning = Tuning {
            allgather: algorithm,
            ..tight(seed)
        };
        let pool = Pool::new(1 << 20);
        let comm = Comm::intra(p, seed);
        let (even, in_place) = (rng.below(2) == 0, rng.below(2) == 0);
        let n = [0, 1, 3, 20][rng.below(4)];
        let counts = if even { vec![n; p] } else { counts_of(&mut rng, p) };
        let displs = if even {
            (0..p).map(|r| r * n).collect()
        } else {
            spread(&counts)
        };
        let mut mems: Vec<Vec<Mem>> = (0..p)
            .map(|r| {
                let (one, all) = (Layout::pick(&mut rng), Layout::pick(&mut rng));
                vec![Mem::new(one, counts[r]), Mem::new(all, room(&counts))]
            })
            .collect();
        let plans = (0..p)
            .map(|r| {
                let send = (!in_place).then(|| mems[r][0].all());
                let site = comm.site(0, r, &tuning, &pool);
                if even {
                    allgather(&site, send, mems[r][1].block(0, n)).unwrap()
                } else {
                    allgatherv(&site, send, mems[r][1].blocks(&counts)).unwrap()
                }
            })
            .collect();
        comm.run(
            plans,
            &mut mems,
            |mems| {
                for (r, m) in mems.iter_mut().enumerate() {
                    m[0].fill(|i| value(0, r, i));
                    m[1].clear();
                    for i in (0..counts[r]).filter(|_| in_place) {
                        m[1].set(displs[r] + i, value(0, r, i));
                    }
                }
            },
            |mems| {
                for m in mems {
                    for r in 0..p {
                        for i in 0..counts[r] {
                            assert_eq!(m[1].get(displs[r] + i), value(0, r, i), "block {r} of {p}");
                        }
                    }
                }
            },
        );
    });
}

#[test]
fn alltoall_transposes_blocks() {
    every(2, |p, algorithm, seed| {
        let mut rng = Rng::new(seed);
        let tuning = Tuning {
            alltoall: algorithm,
            ..tight(seed)
        };
        let pool = Pool::new(1 << 20);
        let comm = Comm::intra(p, seed);
        let (n, in_place) = ([0, 1, 3, 10][rng.below(4)], rng.below(2) == 0);
        let mut mems: Vec<Vec<Mem>> = (0..p)
            .map(|_| (0..2).map(|_| Mem::new(Layout::pick(&mut rng), n * p)).collect())
            .collect();
        let plans = (0..p)
            .map(|r| {
                let send = (!in_place).then(|| mems[r][0].block(0, n));
                alltoall(&comm.site(0, r, &tuning, &pool), send, mems[r][1].block(0, n)).unwrap()
            })
            .collect();
        comm.run(
            plans,
            &mut mems,
            |mems| {
                for (r, m) in mems.iter_mut().enumerate() {
                    m[0].fill(|i| value(0, r, i));
                    m[1].clear();
                    if in_place {
                        m[1].fill(|i| value(0, r, i));
                    }
                }
            },
            |mems| {
                for r in 0..p {
                    for i in 0..n * p {
                        let (from, at) = (i / n, i % n);
                        assert_eq!(mems[r][1].get(i), value(0, from, r * n + at), "rank {r} of {p}");
                    }
                }
            },
        );
    });
}

#[test]
fn alltoallv_and_w_move_blocks_of_any_size_and_type() {
    every(1, |p, each_type, seed| {
        let mut rng = Rng::new(seed);
        let tuning = tight(seed);
        let pool = Pool::new(1 << 20);
        let comm = Comm::intra(p, seed);
        let in_place = rng.below(2) == 0;
        // counts[s][d]: elements from s to d. In place both directions are alike.
        let mut counts: Vec<Vec<usize>> = (0..p).map(|_| counts_of(&mut rng, p)).collect();
        if in_place {
            for s in 0..p {
                for d in 0..s {
                    counts[s][d] = counts[d][s];
                }
            }
        }
        let from = |r: usize| counts.iter().map(|c| c[r]).collect::<Vec<_>>();
        let mut mems: Vec<Vec<Mem>> = (0..p)
            .map(|r| {
                let (out, inn) = (Layout::pick(&mut rng), Layout::pick(&mut rng));
                vec![Mem::new(out, room(&counts[r])), Mem::new(inn, room(&from(r)))]
            })
            .collect();
        let plans = (0..p)
            .map(|r| {
                let mut send = mems[r][0].blocks(&counts[r]);
                let mut recv = mems[r][1].blocks(&from(r));
                if each_type == 1 {
                    // The same through a datatype for each block, as MPI_Alltoallw has it.
                    for blocks in [&mut send, &mut recv] {
                        *blocks = Blocks::Each((0..p).map(|i| whole(&blocks.get(i))).collect());
                    }
                }
                let send = (!in_place).then_some(send);
                alltoallv(&comm.site(0, r, &tuning, &pool), send, recv).unwrap()
            })
            .collect();
        comm.run(
            plans,
            &mut mems,
            |mems| {
                for (r, m) in mems.iter_mut().enumerate() {
                    m.iter_mut().for_each(Mem::clear);
                    let displs = spread(&counts[r]);
                    for d in 0..p {
                        for i in 0..counts[r][d] {
                            m[usize::from(in_place)].set(displs[d] + i, value(d, r, i));
                        }
                    }
                }
            },
            |mems| {
                for r in 0..p {
                    let displs = spread(&from(r));
                    for s in 0..p {
                        for i in 0..counts[s][r] {
                            assert_eq!(mems[r][1].get(displs[s] + i), value(r, s, i), "{s} to {r} of {p}");
                        }
                    }
                }
            },
        );
    });
}

/// The block as one element of a datatype that holds all of it.
fn whole(block: &Block) -> Block {
    use crate::datatype::Datatype;
    let ty = Datatype::contiguous(block.count() as i64, block.datatype()).unwrap();
    ty.commit();
    block.of_type(1, ty)
}
