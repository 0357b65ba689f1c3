//! Collectives that reduce within a group.
//!
//! Requirements of MPI-5.0 sections 6.9.1, 6.9.6, 6.10.2, 6.11.1, 6.11.2.

use super::data::{Layout, Mem, value};
use super::net::Rng;
use super::{Comm, SIZES, tight};
use crate::coll::*;
use crate::op::Op;

/// An operation with the layout it is made for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) layout: Layout,
    pub(super) ordered: bool,
}

pub(super) const CASES: [Case; 4] = [
    Case {
        layout: Layout::Plain,
        ordered: false,
    },
    Case {
        layout: Layout::Plain,
        ordered: true,
    },
    Case {
        layout: Layout::Gaps,
        ordered: true,
    },
    Case {
        layout: Layout::Before,
        ordered: false,
    },
];

/// `x -> a x + b` with a in the low and b in the high half of a word: composing is associative, but does not
/// commute.
fn compose(x: u64, y: u64) -> u64 {
    let (a, b, c, d) = (x as u32, (x >> 32) as u32, y as u32, (y >> 32) as u32);
    u64::from(a.wrapping_mul(c)) | u64::from(a.wrapping_mul(d).wrapping_add(b)) << 32
}

impl Case {
    pub(super) fn op(self) -> Op {
        super::data::op(self.layout, self.ordered, compose)
    }

    /// The reduction of element `i` of `ranks`, in this order.
    pub(super) fn expect(self, group: usize, ranks: std::ops::Range<usize>, i: usize) -> u64 {
        ranks
            .map(|r| value(group, r, i))
            .reduce(|x, y| {
                if self.ordered {
                    compose(x, y)
                } else {
                    x.wrapping_add(y)
                }
            })
            .expect("at least one rank")
    }
}

struct Setting {
    p: usize,
    case: Case,
    n: usize,
    in_place: bool,
    comm: Comm,
    tuning: Tuning,
    pool: Pool,
}

fn every(algorithms: u64, set: impl Fn(&mut Tuning, u64), one: impl Fn(&Setting, &mut Rng)) {
    for p in SIZES {
        for algorithm in 0..=algorithms {
            for (k, case) in CASES.into_iter().enumerate() {
                for in_place in [false, true] {
                    let seed = 10_000 * p as u64 + 100 * algorithm + 2 * k as u64 + u64::from(in_place);
                    let mut rng = Rng::new(seed);
                    let mut tuning = tight(seed);
                    set(&mut tuning, algorithm);
                    let n = [0, 1, 2, 5, 17, 40, 200][rng.below(7)];
                    let setting = Setting {
                        p,
                        case,
                        n,
                        in_place,
                        comm: Comm::intra(p, seed),
                        tuning,
                        pool: Pool::new(1 << 20),
                    };
                    one(&setting, &mut rng);
                }
            }
        }
    }
}

impl Setting {
    fn site(&self, rank: usize) -> Site<'_> {
        self.comm.site(0, rank, &self.tuning, &self.pool)
    }

    /// For every rank an input and an output of `n` elements.
    fn mems(&self, n: usize) -> Vec<Vec<Mem>> {
        (0..self.p)
            .map(|_| (0..2).map(|_| Mem::new(self.case.layout, n)).collect())
            .collect()
    }

    /// Inputs, in the output where it is used in place.
    fn fill(&self, mems: &mut [Vec<Mem>], in_place_at: impl Fn(usize) -> bool) {
        for (r, m) in mems.iter_mut().enumerate() {
            m[1].clear();
            let at = usize::from(in_place_at(r));
            m[at].fill(|i| value(0, r, i));
        }
    }
}

#[test]
fn allreduce_gives_everybody_the_same() {
    let set = |t: &mut Tuning, a| t.allreduce = a;
    every(4, set, |s, _| {
        let mut mems = s.mems(s.n);
        let op = s.case.op();
        let plans = (0..s.p)
            .map(|r| {
                let send = (!s.in_place).then(|| mems[r][0].all());
                allreduce(&s.site(r), send, mems[r][1].all(), &op).unwrap()
            })
            .collect();
        s.comm.run(
            plans,
            &mut mems,
            |mems| s.fill(mems, |_| s.in_place),
            |mems| {
                for r in 0..s.p {
                    for i in 0..s.n {
                        let expected = s.case.expect(0, 0..s.p, i);
                        assert_eq!(mems[r][1].get(i), expected, "rank {r} of {}, {:?}", s.p, s.case);
                    }
                }
            },
        );
    });
}

#[test]
fn reduce_gives_the_root_the_result() {
    let set = |t: &mut Tuning, a| t.reduce = a;
    every(2, set, |s, rng| {
        let root = rng.below(s.p);
        let mut mems = s.mems(s.n);
        let op = s.case.op();
        let plans = (0..s.p)
            .map(|r| {
                let send = (r != root || !s.in_place).then(|| mems[r][0].all());
                let recv = if r == root {
                    mems[r][1].all()
                } else {
                    Block::none()
                };
                reduce(&s.site(r), send, recv, &op, Root::Rank(root)).unwrap()
            })
            .collect();
        s.comm.run(
            plans,
            &mut mems,
            |mems| s.fill(mems, |r| s.in_place && r == root),
            |mems| {
                for i in 0..s.n {
                    let expected = s.case.expect(0, 0..s.p, i);
                    assert_eq!(
                        mems[root][1].get(i),
                        expected,
                        "root {root} of {}, {:?}",
                        s.p,
                        s.case
                    );
                }
                for r in (0..s.p).filter(|&r| r != root) {
                    (0..s.n).for_each(|i| assert_eq!(mems[r][0].get(i), value(0, r, i), "input of {r}"));
                }
            },
        );
    });
}

#[test]
fn reduce_scatter_gives_each_rank_its_part() {
    let set = |t: &mut Tuning, a| t.reduce_scatter = a;
    every(2, set, |s, rng| {
        let even = rng.below(2) == 0;
        let each = s.n.min(20);
        let counts: Vec<u64> = (0..s.p)
            .map(|_| {
                if even {
                    each as u64
                } else {
                    [0, 1, 4, 30][rng.below(4)]
                }
            })
            .collect();
        let total = counts.iter().sum::<u64>() as usize;
        let mut mems = s.mems(total);
        let op = s.case.op();
        let plans = (0..s.p)
            .map(|r| {
                let send = (!s.in_place).then(|| mems[r][0].all());
                let recv = mems[r][1].block(0, counts[r] as usize);
                if even {
                    reduce_scatter_block(&s.site(r), send, recv, &op).unwrap()
                } else {
                    reduce_scatter(&s.site(r), send, recv, &counts, &op).unwrap()
                }
            })
            .collect();
        s.comm.run(
            plans,
            &mut mems,
            |mems| s.fill(mems, |_| s.in_place),
            |mems| {
                let mut at = 0;
                for r in 0..s.p {
                    for i in 0..counts[r] as usize {
                        let expected = s.case.expect(0, 0..s.p, at + i);
                        assert_eq!(mems[r][1].get(i), expected, "rank {r} of {}, {:?}", s.p, s.case);
                    }
                    if s.in_place {
                        // The rest of the vector stays.
                        for i in counts[r] as usize..total {
                            assert_eq!(
                                mems[r][1].get(i),
                                value(0, r, i),
                                "rank {r} of {}, {:?}",
                                s.p,
                                s.case
                            );
                        }
                    }
                    at += counts[r] as usize;
                }
            },
        );
    });
}

#[test]
fn scan_and_exscan_reduce_what_is_below() {
    let set = |t: &mut Tuning, a| t.scan = a;
    for exclusive in [false, true] {
        every(2, set, |s, _| {
            let mut mems = s.mems(s.n);
            let op = s.case.op();
            let plans = (0..s.p)
                .map(|r| {
                    let send = (!s.in_place).then(|| mems[r][0].all());
                    let build = if exclusive { exscan } else { scan };
                    build(&s.site(r), send, mems[r][1].all(), &op).unwrap()
                })
                .collect();
            s.comm.run(
                plans,
                &mut mems,
                |mems| s.fill(mems, |_| s.in_place),
                |mems| {
                    for r in 0..s.p {
                        let ranks = 0..if exclusive { r } else { r + 1 };
                        for i in 0..s.n {
                            let expected = match (ranks.is_empty(), s.in_place) {
                                (false, _) => s.case.expect(0, ranks.clone(), i),
                                (true, true) => value(0, r, i),
                                (true, false) => 0xdead_0000 + i as u64,
                            };
                            assert_eq!(mems[r][1].get(i), expected, "rank {r} of {}, {:?}", s.p, s.case);
                        }
                    }
                },
            );
        });
    }
}
