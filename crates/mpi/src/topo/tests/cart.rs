//! Requirements of MPI-5.0 sections 8.5.6, 8.5.7.

use super::*;
use crate::ErrorClass;
use proptest::prelude::*;

fn grid() -> impl Strategy<Value = Cart> {
    proptest::collection::vec((1i32..5, any::<bool>()), 0..5).prop_map(|shape| {
        let (dims, periods): (Vec<i32>, Vec<bool>) = shape.into_iter().unzip();
        Cart::new(1000, &dims, &periods).unwrap()
    })
}

fn ranks(cart: &Cart) -> core::ops::Range<i32> {
    0..cart.size() as i32
}

proptest! {
    #[test]
    fn rank_and_coords_are_inverse(cart in grid(), turns in -3i32..4) {
        let mut before: Option<Vec<i32>> = None;
        for rank in ranks(&cart) {
            let coords = cart.coords(rank).unwrap();
            prop_assert_eq!(cart.rank(&coords).unwrap(), rank);
            // Row-major: ranks in order are coordinates in lexicographic order.
            prop_assert!(before.is_none_or(|b| b < coords));
            let wound: Vec<i32> = coords
                .iter()
                .zip(cart.dims())
                .zip(cart.periods())
                .map(|((c, d), p)| if *p { c + turns * d } else { *c })
                .collect();
            prop_assert_eq!(cart.rank(&wound).unwrap(), rank);
            before = Some(coords);
        }
        for rank in [-1, cart.size() as i32] {
            prop_assert_eq!(class(cart.coords(rank)), ErrorClass::ERR_RANK);
            prop_assert_eq!(cart.map(rank), None);
        }
    }

    #[test]
    fn shift_moves_one_coordinate(cart in grid(), disp in prop_oneof![-9i32..10, any::<i32>()]) {
        for rank in ranks(&cart) {
            for direction in 0..cart.ndims() {
                let moved = |by: i64| {
                    let mut coords: Vec<i64> = cart.coords(rank).unwrap().into_iter().map(i64::from).collect();
                    let extent = i64::from(cart.dims()[direction]);
                    coords[direction] += by;
                    if cart.periods()[direction] {
                        coords[direction] = coords[direction].rem_euclid(extent);
                    }
                    let coords: Vec<i32> = coords.into_iter().map(|c| c.clamp(-1, 1 << 30) as i32).collect();
                    cart.rank(&coords).unwrap_or(PROC_NULL)
                };
                let disp64 = i64::from(disp);
                let expected = (moved(-disp64), moved(disp64));
                prop_assert_eq!(cart.shift(rank, direction as i32, disp).unwrap(), expected);
            }
        }
    }

    /// Colour and rank of a sub-grid put every process in its place: same colour exactly when the dropped
    /// coordinates agree, and the rank is that of the remaining coordinates.
    #[test]
    fn sub_grids_partition(cart in grid(), bits in any::<[bool; 5]>()) {
        let remain = &bits[..cart.ndims()];
        let part = |coords: &[i32], keep: bool| -> Vec<i32> {
            coords.iter().zip(remain).filter(|(_, r)| **r == keep).map(|(c, _)| *c).collect()
        };
        let mut colors = std::collections::HashMap::new();
        for rank in ranks(&cart) {
            let sub = cart.sub(rank, remain).unwrap();
            let coords = cart.coords(rank).unwrap();
            prop_assert_eq!(sub.cart.coords(sub.rank).unwrap(), part(&coords, true));
            prop_assert_eq!(sub.cart.dims(), &part(cart.dims(), true)[..]);
            let dropped = colors.entry(sub.color).or_insert_with(|| part(&coords, false)).clone();
            prop_assert_eq!(dropped, part(&coords, false));
            prop_assert!((0..(cart.size() / sub.cart.size()) as i32).contains(&sub.color));
        }
        let grids = cart.size() / cart.sub(0, remain).unwrap().cart.size();
        prop_assert_eq!(colors.len() as u32, grids);
    }

    /// Every block sent is received exactly once, by the process it was for, from the opposite side.
    #[test]
    fn neighbour_lanes_pair_up(cart in grid()) {
        let topology = Topology::Cart(cart.clone());
        for rank in ranks(&cart) {
            let mine = topology.neighbors(rank).unwrap();
            prop_assert_eq!(&mine.sources, &mine.destinations);
            for (side, peer) in mine.destinations.iter().enumerate() {
                let (below, above) = cart.shift(rank, side as i32 / 2, 1).unwrap();
                prop_assert_eq!(*peer, if side % 2 == 0 { below } else { above });
                if *peer == PROC_NULL {
                    continue;
                }
                let theirs = topology.neighbors(*peer).unwrap();
                let matching: Vec<usize> = (0..theirs.sources.len())
                    .filter(|i| theirs.sources[*i] == rank && theirs.recv_lanes[*i] == mine.send_lanes[side])
                    .collect();
                prop_assert_eq!(matching, [side ^ 1]);
            }
        }
    }
}

#[test]
fn bad_grids_are_refused() {
    let grid = |nprocs, dims: &[i32]| Cart::new(nprocs, dims, &vec![false; dims.len()]);
    assert_eq!(class(grid(4, &[5])), ErrorClass::ERR_DIMS);
    assert_eq!(class(grid(4, &[2, 0])), ErrorClass::ERR_DIMS);
    assert_eq!(class(grid(4, &[2, -2])), ErrorClass::ERR_DIMS);
    assert_eq!(
        class(grid(4, &[i32::MAX, i32::MAX, i32::MAX])),
        ErrorClass::ERR_DIMS
    );
    assert_eq!(grid(4, &[3]).unwrap().map(3), None);
    assert_eq!(
        grid(4, &[5]).unwrap_err().message,
        "dims[0]=5: the grid [5] has more processes than the 4 of comm_old"
    );
    let line = grid(4, &[4]).unwrap();
    assert_eq!(class(line.rank(&[4])), ErrorClass::ERR_ARG);
    assert_eq!(class(line.rank(&[])), ErrorClass::ERR_ARG);
    assert_eq!(class(line.shift(0, 1, 1)), ErrorClass::ERR_DIMS);
    assert_eq!(class(line.shift(0, -1, 1)), ErrorClass::ERR_DIMS);
    assert_eq!(class(line.shift(4, 0, 1)), ErrorClass::ERR_RANK);
    assert_eq!(class(line.coords_into(0, &mut [])), ErrorClass::ERR_ARG);
    assert_eq!(class(line.sub(0, &[])), ErrorClass::ERR_ARG);
    assert_eq!(line.shift(0, 0, 0).unwrap(), (0, 0));
}

#[test]
fn a_grid_without_dimensions_is_one_process() {
    let point = Cart::new(4, &[], &[]).unwrap();
    assert_eq!((point.size(), point.ndims()), (1, 0));
    assert_eq!(point.rank(&[]).unwrap(), 0);
    assert_eq!(point.map(0), Some(0));
    assert_eq!(point.map(1), None);
    assert!(Topology::Cart(point).neighbors(0).unwrap().sources.is_empty());
}
