//! Ping-pong: a message to and fro between the first rank and the last, in its plain and NetPIPE forms (they differ in
//! their sizes). With `bidirectional`, both send at once and wait for both.

use super::{Plan, Point, fill, trials, verify};
use crate::abi::{BenchError, Mpi, Result};

const TAG: i32 = 11;

/// Measure every size of the plan; `done` hears of each point as it is finished (on rank 0).
pub fn run(mpi: &Mpi, plan: &Plan, mut done: impl FnMut(&Point)) -> Result<Vec<Point>> {
    BenchError::check_ranks("ping-pong", "2 ranks", mpi.size(), mpi.size() >= 2)?;
    let last = mpi.size() - 1;
    let peer = match mpi.rank() {
        0 => Some(last),
        rank if rank == last => Some(0),
        _ => None, // looks on: it takes part in agreeing on repetitions only
    };
    let largest = plan.sizes.iter().copied().max().unwrap_or(0);
    // Written once here, so that no page is touched for the first time inside a timed loop.
    let (mut out, mut into) = (vec![1u8; largest], vec![1u8; largest]);
    let mut points = Vec::with_capacity(plan.sizes.len());
    for (i, &bytes) in plan.sizes.iter().enumerate() {
        let (out, into) = (&mut out[..bytes], std::cell::RefCell::new(&mut into[..bytes]));
        fill(out, i + mpi.rank());
        let (repetitions, time) = trials(
            mpi,
            plan,
            false,
            || {
                into.borrow_mut().fill(0);
                Ok(())
            },
            |n| match peer {
                Some(peer) => exchange(mpi, peer, plan.bidirectional, out, &mut into.borrow_mut(), n),
                None => Ok(()),
            },
        )?;
        if let Some(peer) = peer {
            let what = format!("{bytes}-byte ping-pong from rank {peer}");
            verify(&into.borrow(), i + peer, &what)?;
        }
        let (per, moved) = if plan.bidirectional {
            (1.0, 2 * bytes)
        } else {
            (0.5, bytes)
        };
        let point = plan.point("", bytes, (repetitions, time.scaled(per)), moved);
        done(&point);
        points.push(point);
    }
    Ok(points)
}

/// `n` round trips (or `n` simultaneous exchanges).
fn exchange(mpi: &Mpi, peer: usize, both: bool, out: &[u8], into: &mut [u8], n: u64) -> Result<()> {
    let piece = out.len().max(1);
    for _ in 0..n {
        if both {
            mpi.window(peer, TAG, (out, piece), (into, piece))?;
        } else if mpi.rank() == 0 {
            mpi.send(out, peer, TAG)?;
            mpi.recv(into, peer, TAG)?;
        } else {
            mpi.recv(into, peer, TAG)?;
            mpi.send(out, peer, TAG)?;
        }
    }
    Ok(())
}
