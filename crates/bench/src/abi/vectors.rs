//! Collectives with a count for each rank. All counts are alike here: what is measured is what the form costs.

use super::{BYTE, DOUBLE, Mpi, Result, SUM, WORLD, count, read, written};
use std::ffi::c_int;

/// Counts and displacements of blocks that follow each other.
pub struct Parts {
    counts: Vec<c_int>,
    places: Vec<c_int>,
}

impl Parts {
    /// A block of `each` elements for each of `ranks`.
    pub fn new(ranks: usize, each: usize) -> Self {
        Self {
            counts: vec![count(each); ranks],
            places: (0..ranks).map(|rank| count(rank * each)).collect(),
        }
    }

    fn each(&self) -> usize {
        self.counts.first().map_or(0, |each| *each as usize)
    }

    fn total(&self) -> usize {
        self.each() * self.counts.len()
    }

    fn check(&self, mpi: &Mpi) {
        assert_eq!(self.counts.len(), mpi.size());
    }
}

impl Mpi {
    /// `MPI_Gatherv` to rank 0.
    pub fn gatherv(&self, one: &[u8], all: &mut [u8], parts: &Parts) -> Result<()> {
        parts.check(self);
        assert!(one.len() == parts.each() && all.len() == parts.total());
        let ((from, n), (to, _)) = (read(one), written(all));
        let (counts, places) = (parts.counts.as_ptr(), parts.places.as_ptr());
        // SAFETY: both slices have what counts and displacements say, which there are as many of as ranks; all outlive the call.
        self.check("MPI_Gatherv", unsafe {
            (self.f.gatherv)(from, n, BYTE, to, counts, places, BYTE, 0, WORLD)
        })
    }

    /// `MPI_Scatterv` from rank 0.
    pub fn scatterv(&self, all: &[u8], one: &mut [u8], parts: &Parts) -> Result<()> {
        parts.check(self);
        assert!(one.len() == parts.each() && all.len() == parts.total());
        let ((from, _), (to, n)) = (read(all), written(one));
        let (counts, places) = (parts.counts.as_ptr(), parts.places.as_ptr());
        // SAFETY: as for `gatherv`.
        self.check("MPI_Scatterv", unsafe {
            (self.f.scatterv)(from, counts, places, BYTE, to, n, BYTE, 0, WORLD)
        })
    }

    /// `MPI_Allgatherv`.
    pub fn allgatherv(&self, one: &[u8], all: &mut [u8], parts: &Parts) -> Result<()> {
        parts.check(self);
        assert!(one.len() == parts.each() && all.len() == parts.total());
        let ((from, n), (to, _)) = (read(one), written(all));
        let (counts, places) = (parts.counts.as_ptr(), parts.places.as_ptr());
        // SAFETY: as for `gatherv`.
        self.check("MPI_Allgatherv", unsafe {
            (self.f.allgatherv)(from, n, BYTE, to, counts, places, BYTE, WORLD)
        })
    }

    /// `MPI_Alltoallv`.
    pub fn alltoallv(&self, out: &[u8], into: &mut [u8], parts: &Parts) -> Result<()> {
        parts.check(self);
        assert!(out.len() == parts.total() && into.len() == parts.total());
        let (from, to) = (read(out).0, written(into).0);
        let (counts, places) = (parts.counts.as_ptr(), parts.places.as_ptr());
        // SAFETY: as for `gatherv`.
        self.check("MPI_Alltoallv", unsafe {
            (self.f.alltoallv)(from, counts, places, BYTE, to, counts, places, BYTE, WORLD)
        })
    }

    /// `MPI_Reduce_scatter` with `MPI_SUM`.
    pub fn reduce_scatter(&self, input: &[f64], output: &mut [f64], parts: &Parts) -> Result<()> {
        parts.check(self);
        assert!(input.len() == parts.total() && output.len() == parts.each());
        let (from, to) = (read(input).0, written(output).0);
        // SAFETY: `input` has as many doubles as all counts together, `output` as many as this rank's; both outlive the call.
        self.check("MPI_Reduce_scatter", unsafe {
            (self.f.reduce_scatter)(from, to, parts.counts.as_ptr(), DOUBLE, SUM, WORLD)
        })
    }
}
