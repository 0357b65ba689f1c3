//! Communicators with topologies, and exchanges with neighbours.
//!
//! Requirements of MPI-5.0 sections 8.5.1, 8.5.3.

mod common;

use common::{ShmWorld, run};
use farpost_mpi::coll::{self, Block, Blocks, Neighbors};
use farpost_mpi::comm::Comm;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::topo::{DistGraph, EdgeList, Topology};
use farpost_mpi::world::WorldConfig;
use farpost_mpi::{ErrorClass, Rank, Result};
use std::rc::Rc;

fn class<T>(result: Result<T>) -> ErrorClass {
    match result {
        Ok(_) => panic!("an error was due"),
        Err(error) => error.class,
    }
}

/// What each neighbour sent me, when everybody sends (its rank * 16 + number of the block).
fn exchange(world: &ShmWorld, comm: &Rc<Comm>) -> Vec<u8> {
    let around = match &*comm.topology.borrow() {
        Some(topology @ Topology::Cart(_)) => {
            Neighbors::cartesian(&topology.neighbors(comm.rank).unwrap().sources)
        }
        Some(topology) => {
            let list = topology.neighbors(comm.rank).unwrap();
            Neighbors::graph(&list.sources, &list.destinations)
        }
        None => panic!("a topology was due"),
    };
    let mut send: Vec<u8> = (0..around.outdegree() as u8)
        .map(|i| comm.rank as u8 * 16 + i)
        .collect();
    let mut recv = vec![0xee; around.indegree()];
    let block = |data: &mut Vec<u8>| {
        // SAFETY: the data outlives the collective, which is waited for below.
        Blocks::Even(unsafe { Block::new(data.as_mut_ptr(), 1, Datatype::byte()) })
    };
    let plan =
        coll::neighbor_alltoall(&world.site(comm), &around, block(&mut send), block(&mut recv)).unwrap();
    world.run_collective(comm, plan).unwrap();
    recv
}

#[test]
fn grids_are_made_and_cut() {
    for size in 1..=7u32 {
        run(size, WorldConfig::default(), |world| {
            let comm = world.comm_world();
            let dims = [(size as i32 / 2).max(1), if size > 1 { 2 } else { 1 }];
            let inside = (dims[0] * dims[1]) as u32;
            let grid = world.cart_create(comm, &dims, &[true, false]).unwrap();
            assert_eq!(grid.is_some(), world.pid() < inside);
            let Some(grid) = grid else { return };
            assert_eq!(grid.size(), inside);
            let (x, y) = (grid.rank / dims[1], grid.rank % dims[1]);
            let at = |x: i32, y: i32| (x.rem_euclid(dims[0]) * dims[1] + y) as u8 * 16;
            let beyond = |y: i32, block: u8| {
                if (0..dims[1]).contains(&y) {
                    at(x, y) + block
                } else {
                    0xee
                }
            };
            // What comes from below in a dimension was sent upwards there.
            let expected = vec![at(x - 1, y) + 1, at(x + 1, y), beyond(y - 1, 3), beyond(y + 1, 2)];
            assert_eq!(exchange(world, &grid), expected);
            let copy = world.comm_dup(&grid, None).unwrap();
            assert_eq!(exchange(world, &copy), expected);

            let row = world.cart_sub(&grid, &[false, true]).unwrap();
            assert_eq!((row.size() as i32, row.rank), (dims[1], y));
            let column = world.cart_sub(&grid, &[true, false]).unwrap();
            assert_eq!((column.size() as i32, column.rank), (dims[0], x));
            assert_eq!(
                column
                    .topology
                    .borrow()
                    .as_ref()
                    .unwrap()
                    .cart()
                    .unwrap()
                    .periods(),
                [true]
            );
            exchange(world, &column);
            let point = world.cart_sub(&grid, &[false, false]).unwrap();
            assert_eq!(point.size(), 1);
            assert_eq!(
                class(world.cart_create(&grid, &[100], &[true])),
                ErrorClass::ERR_DIMS
            );
            assert_eq!(
                class(world.cart_sub(world.comm_self(), &[])),
                ErrorClass::ERR_TOPOLOGY
            );
        });
    }
}

#[test]
fn a_star_is_a_graph() {
    run(5, WorldConfig::default(), |world| {
        // Node 0 with three leaves; one process is left over.
        let star = world
            .graph_create(world.comm_world(), &[3, 4, 5, 6], &[1, 2, 3, 0, 0, 0])
            .unwrap();
        assert_eq!(star.is_some(), world.pid() < 4);
        let Some(star) = star else { return };
        let got = exchange(world, &star);
        match star.rank {
            0 => assert_eq!(got, [16, 32, 48]),
            leaf => assert_eq!(got, [leaf as u8 - 1]),
        }
        let none = world.graph_create(&star, &[], &[]).unwrap();
        assert!(none.is_none());
    });
}

#[test]
fn rings_of_which_all_know_their_part() {
    for size in [1u32, 2, 3, 6] {
        run(size, WorldConfig::default(), |world| {
            let comm = world.comm_world();
            let (me, n) = (comm.rank, size as Rank);
            let (before, after) = ((me + n - 1) % n, (me + 1) % n);
            let ring = DistGraph::adjacent(size, &[before], None, &[after], None);
            let ring = world.dist_graph_create_adjacent(comm, ring).unwrap();
            assert_eq!(exchange(world, &ring), [before as u8 * 16]);

            // Rank 0 knows all edges of a ring, the others none; then twice with weights.
            let sources: Vec<Rank> = (0..n).collect();
            let ends: Vec<Rank> = sources.iter().map(|rank| (rank + 1) % n).collect();
            let degrees = vec![1; size as usize];
            let weights: Vec<i32> = (0..n).map(|i| 100 + i).collect();
            for weights in [None, Some(&weights[..])] {
                let edges = if me == 0 {
                    EdgeList::new(size, &sources, &degrees, &ends, weights)
                } else {
                    EdgeList::new(size, &[], &[], &[], weights.map(|_| &[][..]))
                };
                let ring = world.dist_graph_create(comm, edges).unwrap();
                assert_eq!(exchange(world, &ring), [before as u8 * 16]);
                let topology = ring.topology.borrow();
                let graph = topology.as_ref().unwrap().dist_graph().unwrap();
                assert_eq!(graph.is_weighted(), weights.is_some());
                if weights.is_some() {
                    assert_eq!(graph.source_weights().unwrap(), [100 + before]);
                }
            }
        });
    }
}

#[test]
fn one_bad_edge_is_no_graph_for_anybody() {
    run(3, WorldConfig::default(), |world| {
        let comm = world.comm_world();
        let bad = if comm.rank == 1 { 9 } else { 0 };
        let expected = if comm.rank == 1 {
            ErrorClass::ERR_RANK
        } else {
            ErrorClass::ERR_ARG
        };
        let graph = DistGraph::adjacent(3, &[bad], None, &[], None);
        assert_eq!(class(world.dist_graph_create_adjacent(comm, graph)), expected);
        let edges = EdgeList::new(3, &[bad], &[1], &[0], None);
        assert_eq!(class(world.dist_graph_create(comm, edges)), expected);
        let weights = (comm.rank == 2).then_some(&[4][..]);
        let edges = EdgeList::new(3, &[0], &[1], &[0], weights);
        assert_eq!(class(world.dist_graph_create(comm, edges)), ErrorClass::ERR_ARG);
    });
}
