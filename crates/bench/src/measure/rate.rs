//! Message rate: each rank of the first half keeps a window of messages in flight to its partner in the second half, which
//! answers every window with one byte. With `bidirectional`, both sides keep a window and no answer is needed.

use super::{Plan, Point, fill, trials, verify};
use crate::abi::{BenchError, Mpi, Result};
use std::cell::RefCell;

const DATA: i32 = 21;
const ANSWER: i32 = 22;

/// Measure every size of the plan. Times are per message of all pairs together: their inverse is the job's rate.
pub fn run(mpi: &Mpi, plan: &Plan, mut done: impl FnMut(&Point)) -> Result<Vec<Point>> {
    let ranks = mpi.size();
    BenchError::check_ranks(
        "rate",
        "an even number of ranks",
        ranks,
        ranks >= 2 && ranks % 2 == 0,
    )?;
    let pairs = ranks / 2;
    let sender = mpi.rank() < pairs;
    let peer = if sender {
        mpi.rank() + pairs
    } else {
        mpi.rank() - pairs
    };
    let both = plan.bidirectional;
    let largest = plan.sizes.iter().copied().max().unwrap_or(1) * plan.window;
    let (mut out, mut into) = (vec![1u8; largest], vec![1u8; largest]);
    let mut points = Vec::with_capacity(plan.sizes.len());
    for (i, &bytes) in plan.sizes.iter().enumerate() {
        if bytes == 0 {
            return Err(BenchError::Usage("rate: message sizes start at 1 byte".into()));
        }
        let out = &mut out[..bytes * plan.window];
        let into = RefCell::new(&mut into[..bytes * plan.window]);
        fill(out, i + mpi.rank());
        let (repetitions, time) = trials(
            mpi,
            plan,
            true,
            || {
                into.borrow_mut().fill(0);
                Ok(())
            },
            |n| {
                let mut answer = [0u8];
                let into = &mut **into.borrow_mut();
                for _ in 0..n {
                    if both {
                        mpi.window(peer, DATA, (out, bytes), (into, bytes))?;
                    } else if sender {
                        mpi.window(peer, DATA, (out, bytes), (&mut [], bytes))?;
                        mpi.recv(&mut answer, peer, ANSWER)?;
                    } else {
                        mpi.window(peer, DATA, (&[], bytes), (into, bytes))?;
                        mpi.send(&answer, peer, ANSWER)?;
                    }
                }
                Ok(())
            },
        )?;
        if both || !sender {
            let what = format!("window of {bytes}-byte messages from rank {peer}");
            verify(&into.borrow(), i + peer, &what)?;
        }
        let per = 1.0 / (plan.window * pairs * if both { 2 } else { 1 }) as f64;
        let point = plan.point("", bytes, (repetitions, time.scaled(per)), bytes);
        done(&point);
        points.push(point);
    }
    Ok(points)
}
