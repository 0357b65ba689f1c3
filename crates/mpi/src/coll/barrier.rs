//! `MPI_Barrier` (MPI-5.0 section 6.3).
//!
//! Requirements of MPI-5.0 section 6.12.

use super::plan::{Builder, Lane, Plan};
use super::{Site, bcast};
use crate::Result;

/// Build `MPI_Barrier`. On an intercommunicator a rank leaves when all of the other group have entered.
pub fn barrier(site: &Site<'_>) -> Result<Plan> {
    let mut b = site.builder();
    dissemination(&mut b);
    if site.inter() {
        b.round();
        if b.rank == 0 {
            b.await_signal(Lane::Remote, 0);
            b.signal(Lane::Remote, 0);
        }
        b.round();
        let (parent, children) = bcast::tree(b.rank, b.size);
        if let Some(parent) = parent {
            b.await_signal(Lane::Local, parent);
            b.round();
        }
        for child in children {
            b.signal(Lane::Local, child);
        }
    }
    Ok(b.finish())
}

/// In round k everyone tells the rank 2^k further on: after log2 rounds everyone has heard of all.
fn dissemination(b: &mut Builder) {
    let mut distance = 1;
    while distance < b.size {
        b.await_signal(Lane::Local, (b.rank + b.size - distance) % b.size);
        b.signal(Lane::Local, (b.rank + distance) % b.size);
        b.round();
        distance *= 2;
    }
}
