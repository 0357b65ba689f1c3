//! Neighbourhood collectives.
//!
//! Requirements of MPI-5.0 section 8.6.

use super::Comm;
use super::data::{Layout, Mem, value};
use super::net::Rng;
use crate::coll::*;

const NONE: i32 = -3;

/// Run `MPI_Neighbor_alltoall` (or allgather) over `graph[r]`; `expect(r, i)` is (rank, block) that arrives in
/// block i.
fn run(
    graph: &[Neighbors],
    seed: u64,
    gather: bool,
    expect: impl Fn(usize, usize) -> Option<(usize, usize)>,
) {
    let (p, n) = (graph.len(), 3);
    let mut rng = Rng::new(seed);
    let (tuning, pool) = (super::tight(seed), Pool::new(0));
    let comm = Comm::intra(p, seed);
    let mut mems: Vec<Vec<Mem>> = graph
        .iter()
        .map(|g| {
            let (out, inn) = (Layout::pick(&mut rng), Layout::pick(&mut rng));
            vec![
                Mem::new(out, n * g.outdegree().max(1)),
                Mem::new(inn, n * g.indegree()),
            ]
        })
        .collect();
    let plans = (0..p)
        .map(|r| {
            let site = comm.site(0, r, &tuning, &pool);
            let (send, recv) = (
                mems[r][0].block(0, n),
                Blocks::Even(mems[r][1].block(0, 0).with_count(n as u64)),
            );
            if gather {
                neighbor_allgather(&site, &graph[r], send, recv).unwrap()
            } else {
                neighbor_alltoall(&site, &graph[r], Blocks::Even(send), recv).unwrap()
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
            }
        },
        |mems| {
            for r in 0..p {
                for i in 0..graph[r].indegree() * n {
                    let expected = match expect(r, i / n) {
                        Some((from, block)) => value(0, from, block * n + i % n),
                        None => 0xdead_0000 + i as u64,
                    };
                    assert_eq!(mems[r][1].get(i), expected, "rank {r} of {p}, element {i}");
                }
            }
        },
    );
}

#[test]
fn a_ring_of_any_size_tells_below_from_above() {
    for p in 1..=5usize {
        for periodic in [false, true] {
            let at = |r: i64| match r {
                _ if periodic => r.rem_euclid(p as i64) as i32,
                _ if r < 0 || r >= p as i64 => NONE,
                _ => r as i32,
            };
            let graph: Vec<_> = (0..p as i64)
                .map(|r| Neighbors::cartesian(&[at(r - 1), at(r + 1)]))
                .collect();
            for seed in 0..10 {
                let from = |r: usize, i: usize| at(r as i64 + 2 * i as i64 - 1);
                let known = |rank: i32| (rank >= 0).then_some(rank as usize);
                // What comes from below was sent upwards: block 1.
                run(&graph, seed, false, |r, i| known(from(r, i)).map(|f| (f, 1 - i)));
                run(&graph, seed, true, |r, i| known(from(r, i)).map(|f| (f, 0)));
            }
        }
    }
}

#[test]
fn edges_between_the_same_ranks_keep_their_order() {
    // Rank 0 sends three times to 1 and once to itself; 1 and 2 send to 0.
    let graph = [
        Neighbors::graph(&[2, 0, 1], &[1, 0, 1, 1]),
        Neighbors::graph(&[0, 0, 0], &[0]),
        Neighbors::graph(&[], &[0]),
    ];
    let expected: [&[(usize, usize)]; 3] = [&[(2, 0), (0, 1), (1, 0)], &[(0, 0), (0, 2), (0, 3)], &[]];
    for seed in 0..20 {
        run(&graph, seed, false, |r, i| Some(expected[r][i]));
        run(&graph, seed, true, |r, i| Some((expected[r][i].0, 0)));
    }
}
