//! Requirements of MPI-5.0 sections 8.5.4, 8.5.5.

use super::*;
use crate::ErrorClass;
use proptest::prelude::*;

proptest! {
    #[test]
    fn graph_neighbours_are_slices(lists in proptest::collection::vec(proptest::collection::vec(0usize..100, 0..5), 1..8)) {
        let nodes = lists.len();
        let lists: Vec<Vec<i32>> =
            lists.into_iter().map(|l| l.into_iter().map(|n| (n % nodes) as i32).collect()).collect();
        let mut index = Vec::new();
        let mut edges = Vec::new();
        for list in &lists {
            edges.extend(list);
            index.push(edges.len() as i32);
        }
        let graph = Graph::new(nodes as u32 + 1, &index, &edges).unwrap();
        prop_assert_eq!((graph.nnodes(), graph.nedges()), (nodes, edges.len()));
        for (rank, list) in lists.iter().enumerate() {
            prop_assert_eq!(graph.neighbors(rank as i32).unwrap(), &list[..]);
            let both = Topology::Graph(graph.clone()).neighbors(rank as i32).unwrap();
            prop_assert_eq!(&both.sources, list);
            prop_assert_eq!(&both.destinations, list);
        }
        prop_assert_eq!(class(graph.neighbors(nodes as i32)), ErrorClass::ERR_RANK);
        prop_assert_eq!(graph.map(nodes as i32), None);
    }

    /// Any process may pass any edge; both ends of every edge learn of it, with its weight, and repeated
    /// edges stand in the same order at both ends.
    #[test]
    fn general_creation(
        passed in proptest::collection::vec(
            proptest::collection::vec((0i32..5, proptest::collection::vec((0i32..5, 0i32..9), 0..4)), 0..3),
            5,
        ),
        weighted in any::<bool>(),
    ) {
        let mut gathered = Vec::new();
        let mut model = Vec::new();
        for process in &passed {
            let sources: Vec<i32> = process.iter().map(|(s, _)| *s).collect();
            let degrees: Vec<i32> = process.iter().map(|(_, d)| d.len() as i32).collect();
            let (dests, weights): (Vec<i32>, Vec<i32>) = process.iter().flat_map(|(_, d)| d.clone()).unzip();
            let given = weighted.then_some(&weights[..]);
            let list = EdgeList::new(5, &sources, &degrees, &dests, given).unwrap();
            prop_assert_eq!(list.is_weighted(), weighted);
            gathered.extend(list.flat());
            for (source, edges) in process {
                model.extend(edges.iter().map(|(dest, weight)| (*source, *dest, *weight)));
            }
        }
        for rank in 0..5 {
            let graph = DistGraph::from_gathered(rank, &gathered, weighted);
            let ins: Vec<_> = model.iter().filter(|e| e.1 == rank).collect();
            let outs: Vec<_> = model.iter().filter(|e| e.0 == rank).collect();
            prop_assert_eq!(graph.sources(), ins.iter().map(|e| e.0).collect::<Vec<_>>());
            prop_assert_eq!(graph.destinations(), outs.iter().map(|e| e.1).collect::<Vec<_>>());
            let weights = |list: &[&(i32, i32, i32)]| list.iter().map(|e| e.2).collect::<Vec<_>>();
            prop_assert_eq!(graph.source_weights().map(<[i32]>::to_vec), weighted.then(|| weights(&ins)));
            prop_assert_eq!(graph.dest_weights().map(<[i32]>::to_vec), weighted.then(|| weights(&outs)));
        }
    }
}

#[test]
fn bad_graphs_are_refused() {
    assert_eq!(class(Graph::new(2, &[1, 2, 3], &[0, 0, 0])), ErrorClass::ERR_ARG);
    assert_eq!(class(Graph::new(3, &[2, 1], &[0, 0])), ErrorClass::ERR_ARG);
    assert_eq!(class(Graph::new(3, &[-1], &[])), ErrorClass::ERR_ARG);
    assert_eq!(class(Graph::new(3, &[1, 3], &[0, 1])), ErrorClass::ERR_ARG);
    let error = Graph::new(3, &[1, 2], &[0, 2]).unwrap_err();
    assert_eq!(error.class, ErrorClass::ERR_ARG);
    assert_eq!(error.message, "edges[1]=2: the graph has nodes 0 to 1");
    assert_eq!(Graph::new(3, &[], &[]).unwrap().map(0), None);
}

#[test]
fn adjacent_weights() {
    let make = |s: &[i32], sw, d: &[i32], dw| DistGraph::adjacent(3, s, sw, d, dw);
    let graph = make(&[0, 1], Some(&[5, 6]), &[2], Some(&[7])).unwrap();
    assert_eq!(graph.source_weights(), Some(&[5, 6][..]));
    assert_eq!(graph.dest_weights(), Some(&[7][..]));
    assert!(!make(&[0, 1], None, &[], None).unwrap().is_weighted());
    assert!(!make(&[0, 1], None, &[], Some(&[])).unwrap().is_weighted());
    assert!(!make(&[], Some(&[]), &[1], None).unwrap().is_weighted());
    assert!(make(&[], Some(&[]), &[], Some(&[])).unwrap().is_weighted());
    assert!(make(&[0], Some(&[1]), &[], None).unwrap().is_weighted());
    assert_eq!(class(make(&[0], Some(&[1]), &[1], None)), ErrorClass::ERR_ARG);
    assert_eq!(class(make(&[0], None, &[1], Some(&[1]))), ErrorClass::ERR_ARG);
    assert_eq!(
        class(make(&[0], Some(&[-1]), &[], Some(&[]))),
        ErrorClass::ERR_ARG
    );
    assert_eq!(class(make(&[0], Some(&[]), &[], Some(&[]))), ErrorClass::ERR_ARG);
    assert_eq!(class(make(&[3], None, &[], None)), ErrorClass::ERR_RANK);
    assert_eq!(class(make(&[], None, &[PROC_NULL], None)), ErrorClass::ERR_RANK);
}

#[test]
fn bad_edge_lists_are_refused() {
    assert_eq!(
        class(EdgeList::new(2, &[2], &[0], &[], None)),
        ErrorClass::ERR_RANK
    );
    assert_eq!(
        class(EdgeList::new(2, &[0], &[1], &[2], None)),
        ErrorClass::ERR_RANK
    );
    assert_eq!(
        class(EdgeList::new(2, &[0], &[-1], &[], None)),
        ErrorClass::ERR_ARG
    );
    assert_eq!(
        class(EdgeList::new(2, &[0], &[2], &[1], None)),
        ErrorClass::ERR_ARG
    );
    assert_eq!(
        class(EdgeList::new(2, &[0], &[1], &[1], Some(&[]))),
        ErrorClass::ERR_ARG
    );
    assert_eq!(
        class(EdgeList::new(2, &[0], &[1], &[1], Some(&[-1]))),
        ErrorClass::ERR_ARG
    );
}

#[test]
fn the_wrong_kind_is_named() {
    let topology = Topology::Graph(Graph::new(1, &[0], &[]).unwrap());
    assert_eq!(topology.status(), 212);
    assert!(topology.graph().is_ok());
    assert_eq!(class(topology.dist_graph()), ErrorClass::ERR_TOPOLOGY);
    assert_eq!(
        topology.cart().unwrap_err().message,
        "comm has a graph topology; this call needs a Cartesian topology"
    );
}
