//! Multiplication of matrices as in the StarT-X paper (section 6.3, Table 2): C = A B of single precision, square, columns
//! distributed over the ranks, with MPI_Bcast as the only primitive: the owner of a panel of A's columns broadcasts it, and all
//! multiply it with their part of B.
//!
//! The elements are small integers, so that every sum is exact, and the result is checked: C x = A (B x) for a random x.

use crate::abi::{Mpi, Result};
use std::time::Instant;

/// Columns of A broadcast at a time.
const PANEL: usize = 64;
/// Elements are whole numbers from -LIMIT to LIMIT, which sum exactly in single precision up to 2^24 / LIMIT^2 of them.
const LIMIT: i64 = 4;
/// The largest matrix whose sums are exact.
pub const LARGEST: usize = 1 << 20;

/// What one multiplication took.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// Rows and columns.
    pub n: usize,
    /// Seconds, of the slowest rank.
    pub seconds: f64,
    /// Seconds of these in broadcasts, of the rank with the most.
    pub broadcast: f64,
}

impl Product {
    /// Floating-point operations per second.
    pub fn rate(&self) -> f64 {
        2.0 * (self.n as f64).powi(3) / self.seconds
    }
}

/// The columns of a rank.
fn columns(n: usize, ranks: usize, rank: usize) -> std::ops::Range<usize> {
    rank * n / ranks..(rank + 1) * n / ranks
}

/// A whole number of place `(row, column)` in matrix `which`.
fn element(which: u64, row: usize, column: usize) -> f32 {
    let mut x = which ^ ((row as u64) << 32) ^ column as u64;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    (x % (2 * LIMIT as u64 + 1)) as f32 - LIMIT as f32
}

/// Columns of a matrix, one after the other.
fn fill(which: u64, n: usize, columns: std::ops::Range<usize>) -> Vec<f32> {
    columns
        .flat_map(|c| (0..n).map(move |r| element(which, r, c)))
        .collect()
}

/// C += A's panel times the rows of B that belong to it. `panel` has `width` columns from column `first` on.
fn multiply(n: usize, panel: &[f32], first: usize, b: &[f32], c: &mut [f32]) {
    let width = panel.len() / n;
    // Blocks of rows that stay in the cache while all columns of B pass.
    const ROWS: usize = 256;
    for top in (0..n).step_by(ROWS) {
        let rows = top..(top + ROWS).min(n);
        for (b, c) in b.chunks_exact(n).zip(c.chunks_exact_mut(n)) {
            let c = &mut c[rows.clone()];
            let mut k = 0;
            while k + 4 <= width {
                let column = |k: usize| &panel[k * n..][rows.clone()];
                let (a0, a1, a2, a3) = (column(k), column(k + 1), column(k + 2), column(k + 3));
                let [b0, b1, b2, b3] = [0, 1, 2, 3].map(|i| b[first + k + i]);
                for ((((c, a0), a1), a2), a3) in c.iter_mut().zip(a0).zip(a1).zip(a2).zip(a3) {
                    *c += a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3;
                }
                k += 4;
            }
            for k in k..width {
                let factor = b[first + k];
                for (c, a) in c.iter_mut().zip(&panel[k * n..][rows.clone()]) {
                    *c += a * factor;
                }
            }
        }
    }
}

fn bytes_of(values: &mut [f32]) -> &mut [u8] {
    // SAFETY: four bytes for each number, any of which are valid, borrowed mutably.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), 4 * values.len()) }
}

/// Multiply matrices of `n` rows and columns on all ranks, and check the result.
pub fn run(mpi: &Mpi, n: usize) -> Result<Product> {
    let (ranks, rank) = (mpi.size(), mpi.rank());
    let mine = columns(n, ranks, rank);
    let a = fill(1, n, mine.clone());
    let b = fill(2, n, mine.clone());
    let mut c = vec![0f32; n * mine.len()];
    let mut panel = vec![0f32; n * PANEL];
    mpi.barrier()?;
    let start = Instant::now();
    let mut broadcast = 0.0;
    for owner in 0..ranks {
        let theirs = columns(n, ranks, owner);
        let mut first = theirs.start;
        while first < theirs.end {
            let width = PANEL.min(theirs.end - first);
            let panel = &mut panel[..n * width];
            if owner == rank {
                panel.copy_from_slice(&a[(first - mine.start) * n..][..n * width]);
            }
            let began = Instant::now();
            mpi.bcast(bytes_of(panel), owner)?;
            broadcast += began.elapsed().as_secs_f64();
            multiply(n, panel, first, &b, &mut c);
            first += width;
        }
    }
    let seconds = mpi.max(start.elapsed().as_secs_f64())?;
    let broadcast = mpi.max(broadcast)?;
    check(mpi, n, [(&a, "A"), (&b, "B"), (&c, "C")])?;
    Ok(Product {
        n,
        seconds,
        broadcast,
    })
}

/// C x = A (B x), with all numbers whole and below 2^53.
fn check(mpi: &Mpi, n: usize, [a, b, c]: [(&[f32], &str); 3]) -> Result<()> {
    let mine = columns(n, mpi.size(), mpi.rank());
    let x: Vec<f64> = (0..n)
        .map(|i| f64::from(element(3, i, 0)) + f64::from(element(4, i, 0)) * 9.0)
        .collect();
    let times = |(matrix, _): (&[f32], &str), x: &[f64]| {
        let mut part = vec![0f64; n];
        for (column, x) in matrix.chunks_exact(n).zip(&x[mine.clone()]) {
            part.iter_mut()
                .zip(column)
                .for_each(|(sum, value)| *sum += f64::from(*value) * x);
        }
        let mut all = vec![0f64; n];
        mpi.allreduce(&part, &mut all).map(|()| all)
    };
    let got = times(c, &x)?;
    let want = times(a, &times(b, &x)?)?;
    match got.iter().zip(&want).position(|(g, w)| g != w) {
        None => Ok(()),
        Some(row) => Err(usage!(
            "the product of matrices of {n} x {n} is wrong: row {row} times a vector is {} and should be {}",
            got[row],
            want[row]
        )),
    }
}

/// The layout as the paper writes it: ranks on each host, `8+8+8`.
pub fn layout(mpi: &Mpi) -> Result<String> {
    let mut name = [0u8; 64];
    let host = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    let len = host.len().min(64);
    name[..len].copy_from_slice(&host[..len]);
    let mut all = vec![0u8; 64 * mpi.size()];
    mpi.allgather(&name, &mut all)?;
    let mut hosts: Vec<(&[u8], usize)> = Vec::new();
    for name in all.chunks_exact(64) {
        match hosts.iter_mut().find(|h| h.0 == name) {
            Some(host) => host.1 += 1,
            None => hosts.push((name, 1)),
        }
    }
    let counts: Vec<String> = hosts.iter().map(|h| h.1.to_string()).collect();
    Ok(counts.join("+"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_cover_everything_once() {
        for (n, ranks) in [(10, 3), (2, 4), (64, 8)] {
            let all: Vec<usize> = (0..ranks).flat_map(|r| columns(n, ranks, r)).collect();
            assert_eq!(all, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn panels_multiply_like_the_definition() {
        let n = 300;
        let (a, b) = (fill(1, n, 0..n), fill(2, n, 0..7));
        let mut c = vec![0f32; n * 7];
        for first in (0..n).step_by(PANEL) {
            let width = PANEL.min(n - first);
            multiply(n, &a[first * n..][..width * n], first, &b, &mut c);
        }
        for (row, column) in [(0, 0), (299, 6), (17, 3), (256, 1)] {
            let sum: f32 = (0..n).map(|k| a[k * n + row] * b[column * n + k]).sum();
            assert_eq!(c[column * n + row], sum);
        }
        assert!(a.contains(&4.0) && a.contains(&-4.0) && a.iter().all(|v| v.abs() <= 4.0));
    }
}
