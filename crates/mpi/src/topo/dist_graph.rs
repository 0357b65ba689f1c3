//! Graphs of which every process knows its own edges only (MPI-5.0 sections 8.5.4, 8.5.5).

use crate::{Error, Rank, Result};

/// The edges of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistGraph {
    sources: Box<[Rank]>,
    destinations: Box<[Rank]>,
    /// Of the sources, of the destinations; `None` for an unweighted graph.
    weights: Option<Weights>,
}

/// Of the sources, of the destinations.
type Weights = (Box<[i32]>, Box<[i32]>);

/// The edges one process passes to `MPI_Dist_graph_create`: any part of the graph.
///
/// Creation is collective: every process calls [`EdgeList::new`], the flat lists of [`EdgeList::flat`] are
/// gathered in rank order, and every process calls [`DistGraph::from_gathered`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeList {
    flat: Vec<i32>,
    weighted: bool,
}

impl DistGraph {
    /// `MPI_Dist_graph_create_adjacent` in a communicator of `nprocs` processes. Weights are `None` for
    /// `MPI_UNWEIGHTED` and an empty array for `MPI_WEIGHTS_EMPTY`.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`: a neighbour that is not a rank. `MPI_ERR_ARG`: negative weights, too few of them, or edges in
    /// one direction only that have weights.
    pub fn adjacent(
        nprocs: u32,
        sources: &[Rank],
        source_weights: Option<&[i32]>,
        destinations: &[Rank],
        dest_weights: Option<&[i32]>,
    ) -> Result<Self> {
        check_ranks("sources", nprocs, sources)?;
        check_ranks("destinations", nprocs, destinations)?;
        // A side without edges goes along with the other: its weights argument cannot matter.
        let weighted = match (source_weights, dest_weights) {
            (Some(_), Some(_)) => true,
            (None, None) => false,
            (Some(_), None) if destinations.is_empty() => !sources.is_empty(),
            (None, Some(_)) if sources.is_empty() => !destinations.is_empty(),
            (Some(_), None) if sources.is_empty() => false,
            (None, Some(_)) if destinations.is_empty() => false,
            (Some(_), None) => return Err(half_weighted("destweights", "sourceweights")),
            (None, Some(_)) => return Err(half_weighted("sourceweights", "destweights")),
        };
        let weights = if weighted {
            let of_sources = check_weights("sourceweights", source_weights, sources.len())?;
            let of_dests = check_weights("destweights", dest_weights, destinations.len())?;
            Some((of_sources.into(), of_dests.into()))
        } else {
            None
        };
        Ok(Self {
            sources: sources.into(),
            destinations: destinations.into(),
            weights,
        })
    }

    /// The edges of `rank` out of `edges`, the concatenation in rank order of what every process had in
    /// [`EdgeList::flat`]. Edges keep that order, so that repeated ones pair up between their two ends.
    pub fn from_gathered(rank: Rank, edges: &[i32], weighted: bool) -> Self {
        let side = |own: usize, other: usize| -> (Vec<Rank>, Vec<i32>) {
            edges
                .chunks_exact(3)
                .filter(|edge| edge[own] == rank)
                .map(|edge| (edge[other], edge[2]))
                .unzip()
        };
        let (sources, of_sources) = side(1, 0);
        let (destinations, of_dests) = side(0, 1);
        Self {
            sources: sources.into(),
            destinations: destinations.into(),
            weights: weighted.then(|| (of_sources.into(), of_dests.into())),
        }
    }

    /// Whom edges come from.
    pub fn sources(&self) -> &[Rank] {
        &self.sources
    }

    /// Whom edges lead to.
    pub fn destinations(&self) -> &[Rank] {
        &self.destinations
    }

    /// False for a graph created with `MPI_UNWEIGHTED`.
    pub fn is_weighted(&self) -> bool {
        self.weights.is_some()
    }

    /// The weights of the sources; `None` for an unweighted graph.
    pub fn source_weights(&self) -> Option<&[i32]> {
        self.weights.as_ref().map(|(of_sources, _)| &**of_sources)
    }

    /// The weights of the destinations; `None` for an unweighted graph.
    pub fn dest_weights(&self) -> Option<&[i32]> {
        self.weights.as_ref().map(|(_, of_dests)| &**of_dests)
    }
}

impl EdgeList {
    /// The arguments of `MPI_Dist_graph_create`: `degrees[i]` edges lead from `sources[i]` to the next elements of
    /// `destinations`. Weights are `None` for `MPI_UNWEIGHTED`.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`: not a rank of a communicator of `nprocs` processes. `MPI_ERR_ARG`: a negative degree, negative
    /// weights, fewer destinations or weights than edges.
    pub fn new(
        nprocs: u32,
        sources: &[Rank],
        degrees: &[i32],
        destinations: &[Rank],
        weights: Option<&[i32]>,
    ) -> Result<Self> {
        check_ranks("sources", nprocs, sources)?;
        let count = Self::edge_count(degrees)?;
        let destinations = check_length("destinations", destinations, count)?;
        check_ranks("destinations", nprocs, destinations)?;
        let of_edges = match weights {
            Some(_) => check_weights("weights", weights, count)?,
            None => &[],
        };
        let mut flat = Vec::with_capacity(3 * count);
        let owners = sources
            .iter()
            .zip(degrees)
            .flat_map(|(source, degree)| core::iter::repeat_n(*source, *degree as usize));
        for (at, (source, destination)) in owners.zip(destinations).enumerate() {
            let weight = of_edges.get(at).copied().unwrap_or(1);
            flat.extend([source, *destination, weight]);
        }
        Ok(Self {
            flat,
            weighted: weights.is_some(),
        })
    }

    /// The number of edges `degrees` announces, for whoever must know how long the other arrays are.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: a negative degree.
    pub fn edge_count(degrees: &[i32]) -> Result<usize> {
        let mut count = 0;
        for (at, degree) in degrees.iter().enumerate() {
            let Ok(degree) = usize::try_from(*degree) else {
                return fail!(ERR_ARG: "degrees[{at}]={degree}: must not be negative");
            };
            count += degree;
        }
        Ok(count)
    }

    /// Three numbers per edge: source, destination, weight.
    pub fn flat(&self) -> &[i32] {
        &self.flat
    }

    /// False for `MPI_UNWEIGHTED`.
    pub fn is_weighted(&self) -> bool {
        self.weighted
    }
}

fn check_ranks(name: &str, nprocs: u32, ranks: &[Rank]) -> Result<()> {
    for (at, rank) in ranks.iter().enumerate() {
        if !u32::try_from(*rank).is_ok_and(|rank| rank < nprocs) {
            return fail!(ERR_RANK: "{name}[{at}]={rank}: comm_old has ranks 0 to {}", i64::from(nprocs) - 1);
        }
    }
    Ok(())
}

fn check_length<'a>(name: &str, list: &'a [i32], count: usize) -> Result<&'a [i32]> {
    list.get(..count)
        .ok_or_else(|| error!(ERR_ARG: "{name}: {} elements for {count} edges", list.len()))
}

fn check_weights<'a>(name: &str, weights: Option<&'a [i32]>, count: usize) -> Result<&'a [i32]> {
    let weights = check_length(name, weights.unwrap_or(&[]), count)?;
    match weights.iter().position(|weight| *weight < 0) {
        Some(at) => fail!(ERR_ARG: "{name}[{at}]={}: must not be negative", weights[at]),
        None => Ok(weights),
    }
}

fn half_weighted(without: &str, with: &str) -> Error {
    error!(ERR_ARG: "{without}=MPI_UNWEIGHTED: {with} has weights, and both or neither must")
}
