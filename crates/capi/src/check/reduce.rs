//! Reductions of a checked program.

use farpost_mpi::coll::Block;
use farpost_mpi::op::Op;

use super::coll::{Described, area};
use super::ledger::{Flow, op_number};
use crate::calls::forms::Reduction;
use crate::cx::CommRef;

/// A reduction. `send`: `None` for MPI_IN_PLACE.
pub(super) fn reduction(
    comm: &CommRef,
    of: &Reduction,
    send: Option<Block>,
    recv: &Block,
    op: &Op,
) -> Described {
    let mut described = Described::default();
    let (brings, keeps) = match of {
        Reduction::Rooted(role) => {
            described.said.root = Some(role.argument);
            (role.other, role.at_root)
        }
        // Rank 0 receives nothing.
        Reduction::Exscan => (true, comm.rank > 0),
        _ => (true, true),
    };
    if !brings && !keeps {
        // A neighbour of the root of an intercommunicator says nothing.
        return described;
    }
    let total = match of {
        Reduction::ScatterBlock => recv.count().saturating_mul(u64::from(comm.size())),
        Reduction::Scatter(counts) => counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count)),
        _ => recv.count(),
    };
    let in_place = send.is_none();
    let send = send.filter(|_| brings);
    if let Some(send) = &send {
        described.areas.push(area(send, false));
    }
    let all = recv.with_count(total);
    if keeps {
        described
            .areas
            .push(area(if in_place { &all } else { recv }, true));
    }
    let vector = send.as_ref().unwrap_or(&all);
    let said = &mut described.said;
    said.op = Some(op_number(op));
    said.uniform = Some(vector.datatype().signature().repeated(vector.count()));
    // Groups of different sizes bring blocks of different sizes.
    said.by_side = matches!(of, Reduction::ScatterBlock | Reduction::Scatter(_));
    if let (Reduction::Scatter(counts), false) = (of, comm.is_inter()) {
        // What each means a rank to keep is what that rank means to keep.
        let one = recv.datatype().signature();
        said.sends = Flow::Each(counts.iter().map(|count| one.repeated(*count)).collect());
        said.recvs = Flow::Same(one.repeated(recv.count()));
    }
    described
}
