//! Communicators as the generator knows them.

use crate::program::PROC_NULL;
use std::collections::{BTreeMap, HashMap};

/// Neighbours of each rank, in order.
#[derive(Clone, Debug)]
pub struct Topo {
    pub sources: Vec<Vec<i32>>,
    pub destinations: Vec<Vec<i32>>,
    /// Of a grid: its dimensions, and which of them close in a circle.
    pub grid: Option<(Vec<i32>, Vec<bool>)>,
}

#[derive(Clone, Debug)]
pub struct Comm {
    pub id: usize,
    /// Ranks of the job, one group or two.
    pub groups: Vec<Vec<usize>>,
    /// Which thread of a rank makes its collective calls here.
    pub owner: HashMap<usize, usize>,
    /// From which place it is there, and after which it is not used.
    pub from: u32,
    pub last: u32,
    /// Who receives with `MPI_ANY_TAG` here: ranks that did. A receive of any tag has its receiver's messages on a communicator to itself.
    pub wild: Option<Vec<usize>>,
    pub next_tag: i32,
    pub topo: Option<Topo>,
}

impl Comm {
    pub fn is_inter(&self) -> bool {
        self.groups.len() == 2
    }

    /// Every member: its side, rank there, and rank of the job.
    pub fn members(&self) -> Vec<(usize, usize, usize)> {
        let side = |s: usize| {
            self.groups[s]
                .iter()
                .enumerate()
                .map(move |(i, world)| (s, i, *world))
        };
        (0..self.groups.len()).flat_map(side).collect()
    }

    /// The side whose ranks `side` sends to and receives from.
    pub fn other(&self, side: usize) -> usize {
        if self.is_inter() { 1 - side } else { side }
    }

    /// A tag that nobody has used here. Some are small, some large.
    pub fn tag(&mut self) -> i32 {
        self.next_tag += 1;
        if self.next_tag % 3 == 0 {
            32_000 - self.next_tag
        } else {
            self.next_tag
        }
    }
}

/// The neighbours of a grid (MPI-5.0 section 8.6): of each dimension the one before, the one behind.
pub fn grid(dims: &[i32], periods: &[bool]) -> Topo {
    let size: i32 = dims.iter().product();
    let neighbours = |rank: i32| {
        let mut all = Vec::new();
        let mut stride = size;
        for (dim, period) in dims.iter().zip(periods) {
            stride /= dim;
            let at = rank / stride % dim;
            for to in [at - 1, at + 1] {
                let inside = (0..*dim).contains(&to);
                all.push(match (inside, period) {
                    (false, false) => PROC_NULL,
                    _ => rank + (to.rem_euclid(*dim) - at) * stride,
                });
            }
        }
        all
    };
    let all: Vec<Vec<i32>> = (0..size).map(neighbours).collect();
    Topo {
        sources: all.clone(),
        destinations: all,
        grid: Some((dims.to_vec(), periods.to_vec())),
    }
}

/// Which ranks of a grid `MPI_Cart_sub` puts together (MPI-5.0 section 8.5.7), each list in the order of their new ranks: those with
/// the same coordinates in the dimensions that do not remain, by the coordinates in those that do.
pub fn sub_grids(dims: &[i32], remain: &[bool]) -> Vec<Vec<i32>> {
    let size: i32 = dims.iter().product();
    let mut parts: BTreeMap<Vec<i32>, Vec<i32>> = BTreeMap::new();
    for rank in 0..size {
        let mut stride = size;
        let gone = dims.iter().zip(remain).filter_map(|(dim, remains)| {
            stride /= dim;
            (!remains).then_some(rank / stride % dim)
        });
        // Ranks ascend by all coordinates, so also by those that remain.
        parts.entry(gone.collect()).or_default().push(rank);
    }
    parts.into_values().collect()
}
