//! Cartesian grids: row-major, the last dimension fastest (MPI-5.0 sections 8.5.1, 8.5.6 to 8.5.8).
//!
//! Requirements of MPI-5.0 section 8.5.7.

use super::{Neighbors, PROC_NULL, rank_error};
use crate::{Error, Rank, Result};

/// A grid of processes. With no dimensions it is one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cart {
    dims: Box<[i32]>,
    periods: Box<[bool]>,
    /// Product of `dims`; at least 1.
    size: u32,
}

/// The lower-dimensional grid `MPI_Cart_sub` gives one process, and how to split for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubGrid {
    /// The grid of the new communicator.
    pub cart: Cart,
    /// Same in all processes of one new communicator, different between them: 0 to the number of grids - 1.
    pub color: i32,
    /// Rank in the new communicator.
    pub rank: Rank,
}

impl Cart {
    /// A grid of `dims` in a communicator of `nprocs` processes; those left over are not in it.
    ///
    /// # Errors
    /// `MPI_ERR_DIMS`: a dimension below 1, or more processes than there are.
    pub fn new(nprocs: u32, dims: &[i32], periods: &[bool]) -> Result<Self> {
        debug_assert_eq!(dims.len(), periods.len());
        let mut size = 1u64;
        for (at, extent) in dims.iter().enumerate() {
            let complain = |what: String| fail!(ERR_DIMS: "dims[{at}]={extent}: {what}");
            if *extent < 1 {
                return complain("every dimension has at least one process".into());
            }
            size *= *extent as u64;
            if size > u64::from(nprocs) {
                return complain(format!(
                    "the grid {dims:?} has more processes than the {nprocs} of comm_old"
                ));
            }
        }
        if size > u64::from(nprocs) {
            return fail!(ERR_DIMS: "comm_old has no processes");
        }
        Ok(Self {
            dims: dims.into(),
            periods: periods.into(),
            size: size as u32,
        })
    }

    /// Number of dimensions, `MPI_Cartdim_get`.
    pub fn ndims(&self) -> usize {
        self.dims.len()
    }

    /// Processes per dimension.
    pub fn dims(&self) -> &[i32] {
        &self.dims
    }

    /// Which dimensions wrap around.
    pub fn periods(&self) -> &[bool] {
        &self.periods
    }

    /// Number of processes in the grid.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// `MPI_Cart_map` without reordering: the rank itself when it is in the grid, else `None`
    /// (`MPI_UNDEFINED`).
    pub fn map(&self, rank: Rank) -> Option<Rank> {
        u32::try_from(rank).is_ok_and(|r| r < self.size).then_some(rank)
    }

    /// `MPI_Cart_rank`: coordinates of periodic dimensions may be any number.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: a coordinate outside a dimension that does not wrap, or fewer than `ndims` of them.
    pub fn rank(&self, coords: &[i32]) -> Result<Rank> {
        if coords.len() < self.ndims() {
            return Err(self.too_short("coords", coords.len()));
        }
        let mut rank = 0;
        for (at, ((extent, periodic), coord)) in self.dims.iter().zip(&self.periods).zip(coords).enumerate() {
            let inside = match coord {
                c if (0..*extent).contains(c) => *c,
                c if *periodic => c.rem_euclid(*extent),
                c => {
                    return fail!(
                        ERR_ARG: "coords[{at}]={c}: the dimension is not periodic and has coordinates 0 to {}",
                        extent - 1
                    );
                }
            };
            rank = rank * extent + inside;
        }
        Ok(rank)
    }

    /// `MPI_Cart_coords`: fills the first `ndims` elements of `coords`.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`: `rank` is not in the grid. `MPI_ERR_ARG`: `coords` is shorter than `ndims`.
    pub fn coords_into(&self, rank: Rank, coords: &mut [i32]) -> Result<()> {
        let mut rest = self
            .map(rank)
            .ok_or_else(|| rank_error("rank", rank, self.size as usize))?;
        if coords.len() < self.ndims() {
            return Err(self.too_short("maxdims", coords.len()));
        }
        for (extent, coord) in self.dims.iter().zip(coords).rev() {
            *coord = rest % extent;
            rest /= extent;
        }
        Ok(())
    }

    /// As [`Cart::coords_into`], as a new array.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`: `rank` is not in the grid.
    pub fn coords(&self, rank: Rank) -> Result<Vec<i32>> {
        let mut coords = vec![0; self.ndims()];
        self.coords_into(rank, &mut coords)?;
        Ok(coords)
    }

    /// `MPI_Cart_shift` for `rank`: (source, destination), `MPI_PROC_NULL` beyond an edge.
    ///
    /// # Errors
    /// `MPI_ERR_DIMS`: no such direction. `MPI_ERR_RANK`: `rank` is not in the grid.
    pub fn shift(&self, rank: Rank, direction: i32, disp: i32) -> Result<(Rank, Rank)> {
        let at = usize::try_from(direction).ok().filter(|at| *at < self.ndims());
        let Some(at) = at else {
            let has = match self.ndims() {
                0 => "the grid has no dimensions".to_string(),
                n => format!("the grid has directions 0 to {}", n - 1),
            };
            return fail!(ERR_DIMS: "direction={direction}: {has}");
        };
        if self.map(rank).is_none() {
            return Err(rank_error("rank", rank, self.size as usize));
        }
        let disp = i64::from(disp);
        Ok((self.moved(rank, at, -disp), self.moved(rank, at, disp)))
    }

    /// The process `disp` steps from `rank` along dimension `at`.
    fn moved(&self, rank: Rank, at: usize, disp: i64) -> Rank {
        let stride: i32 = self.dims[at + 1..].iter().product();
        let extent = self.dims[at];
        let coord = rank / stride % extent;
        let mut target = i64::from(coord) + disp;
        if self.periods[at] {
            target = target.rem_euclid(i64::from(extent));
        }
        if !(0..i64::from(extent)).contains(&target) {
            return PROC_NULL;
        }
        rank + (target as i32 - coord) * stride
    }

    /// `MPI_Cart_sub` for `rank`: keeps the dimensions where `remain` is true.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`: `rank` is not in the grid. `MPI_ERR_ARG`: `remain` is shorter than `ndims`.
    pub fn sub(&self, rank: Rank, remain: &[bool]) -> Result<SubGrid> {
        if remain.len() < self.ndims() {
            return Err(self.too_short("remain_dims", remain.len()));
        }
        let coords = self.coords(rank)?;
        let (mut color, mut new_rank) = (0, 0);
        let (mut dims, mut periods) = (Vec::new(), Vec::new());
        for (at, coord) in coords.into_iter().enumerate() {
            let extent = self.dims[at];
            if remain[at] {
                new_rank = new_rank * extent + coord;
                dims.push(extent);
                periods.push(self.periods[at]);
            } else {
                color = color * extent + coord;
            }
        }
        let size = dims.iter().product::<i32>() as u32;
        let cart = Self {
            dims: dims.into(),
            periods: periods.into(),
            size,
        };
        Ok(SubGrid {
            cart,
            color,
            rank: new_rank,
        })
    }

    /// For each dimension the process in the negative, then in the positive direction.
    pub(super) fn neighbors(&self, rank: Rank) -> Result<Neighbors> {
        let mut list = Vec::with_capacity(2 * self.ndims());
        for direction in 0..self.ndims() as i32 {
            let (below, above) = self.shift(rank, direction, 1)?;
            list.extend([below, above]);
        }
        let sides = 0..list.len() as u32;
        Ok(Neighbors {
            sources: list.clone(),
            destinations: list,
            // What I send downwards, my lower neighbour receives from above.
            recv_lanes: sides.clone().map(|side| side ^ 1).collect(),
            send_lanes: sides.collect(),
        })
    }

    fn too_short(&self, name: &str, len: usize) -> Error {
        error!(ERR_ARG: "{name}: {len} elements for a grid of {} dimensions", self.ndims())
    }
}
