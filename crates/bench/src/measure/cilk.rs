//! Work stealing in the manner of distributed Cilk over JAM's remote procedures (the StarT-X paper, section 6.2): the n queens problem and
//! Fibonacci numbers, by one process without any spawn and by all of the job, and how many pieces were stolen. Every result is checked.

use crate::abi::{Mpi, Result};
use crate::link::Cilk;
use std::ffi::c_int;
use std::time::Instant;

/// The numbers of the pieces of work.
const QUEENS: u32 = 1;
const FIBONACCI: u32 = 2;
/// `JAM_ELENGTH`.
const LENGTH: c_int = 5;
/// Smaller Fibonacci numbers are not worth a spawn.
const CUTOFF: u32 = 17;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Ways to place so many queens on a board of so many rows, of which the first so many are spawned.
    Queens(u32, u32),
    /// A Fibonacci number.
    Fibonacci(u32),
}

/// One computation by all processes.
#[derive(Clone, Copy, Debug)]
pub struct Computation {
    /// Seconds by one process without spawns, and by all, at rank 0.
    pub alone: f64,
    pub together: f64,
    /// In all processes: pieces spawned, those of others, requests that found nothing.
    pub spawned: u64,
    pub stolen: u64,
    pub refused: u64,
}

/// Columns and diagonals taken, and all columns.
type Board = [u32; 4];

/// Each way to place a queen in the next row.
fn placed([columns, left, right, all]: Board) -> impl Iterator<Item = Board> {
    let mut free = all & !(columns | left | right);
    std::iter::from_fn(move || {
        let place = free & free.wrapping_neg();
        free &= free.wrapping_sub(1);
        (place != 0).then_some([columns | place, (left | place) << 1, (right | place) >> 1, all])
    })
}

fn queens(board: Board) -> u64 {
    if board[0] == board[3] {
        return 1;
    }
    placed(board).map(queens).sum()
}

fn fibonacci(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    fibonacci(n - 1) + fibonacci(n - 2)
}

/// A board and how many rows are spawned.
fn all_queens(cilk: &Cilk, argument: &[u32]) -> std::result::Result<u64, c_int> {
    let &[columns, left, right, all, depth] = argument else {
        return Err(LENGTH);
    };
    let board = [columns, left, right, all];
    if depth == 0 || columns == all {
        return Ok(queens(board));
    }
    let mut children = Vec::new();
    for [columns, left, right, all] in placed(board) {
        children.push(cilk.spawn(QUEENS, &[columns, left, right, all, depth - 1])?);
    }
    // The youngest first: the oldest are left to thieves.
    children.into_iter().rev().map(|child| cilk.sync(child)).sum()
}

fn any_fibonacci(cilk: &Cilk, argument: &[u32]) -> std::result::Result<u64, c_int> {
    let &[n] = argument else { return Err(LENGTH) };
    if n < CUTOFF {
        return Ok(fibonacci(n));
    }
    let child = cilk.spawn(FIBONACCI, &[n - 1])?;
    let second = any_fibonacci(cilk, &[n - 2])?;
    Ok(cilk.sync(child)? + second)
}

/// Join, with the pieces of all problems.
pub fn open() -> Result<&'static Cilk> {
    Cilk::open(&[(QUEENS, all_queens), (FIBONACCI, any_fibonacci)])
}

impl Problem {
    /// For tables.
    pub fn title(self) -> String {
        match self {
            Problem::Queens(n, _) => format!("{n} queens"),
            Problem::Fibonacci(n) => format!("fib({n})"),
        }
    }

    fn alone(self) -> u64 {
        match self {
            Problem::Queens(n, _) => queens([0, 0, 0, (1 << n) - 1]),
            Problem::Fibonacci(n) => fibonacci(n),
        }
    }

    fn together(self, cilk: &Cilk) -> Result<u64> {
        match self {
            Problem::Queens(n, depth) => cilk.run(QUEENS, &[0, 0, 0, (1 << n) - 1, depth]),
            Problem::Fibonacci(n) => cilk.run(FIBONACCI, &[n]),
        }
    }
}

/// Compute it once by one process and once by all, and compare.
pub fn run(mpi: &Mpi, cilk: &Cilk, problem: Problem) -> Result<Computation> {
    let (mut alone, mut right) = (0.0, 0);
    mpi.barrier()?;
    if mpi.rank() == 0 {
        let start = Instant::now();
        right = std::hint::black_box(problem).alone();
        alone = start.elapsed().as_secs_f64();
    }
    mpi.barrier()?;
    let before = cilk.counts()?;
    let start = Instant::now();
    let found = problem.together(cilk)?;
    let together = start.elapsed().as_secs_f64();
    if mpi.rank() == 0 && found != right {
        return Err(usage!(
            "{}: {found} by all processes, {right} by one",
            problem.title()
        ));
    }
    let after = cilk.counts()?;
    let mine = [
        after.spawned - before.spawned,
        after.stolen - before.stolen,
        after.refused - before.refused,
    ];
    let mut all = [0.0; 3];
    mpi.allreduce(&mine.map(|count| count as f64), &mut all)?;
    let [spawned, stolen, refused] = all.map(|count| count as u64);
    Ok(Computation {
        alone,
        together,
        spawned,
        stolen,
        refused,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_the_known_ones() {
        let ways: Vec<u64> = (4..=9).map(|n| Problem::Queens(n, 2).alone()).collect();
        assert_eq!(ways, [2, 10, 4, 40, 92, 352]);
        assert_eq!(Problem::Fibonacci(20).alone(), 6765);
        assert_eq!(placed([0, 0, 0, 0xff]).count(), 8);
    }
}
