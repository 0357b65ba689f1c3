//! `MPI_Dims_create` (MPI-5.0 section 8.5.2): a balanced grid for a number of processes.
//!
//! Balanced means: the smallest difference between the largest and the smallest chosen dimension; among
//! those the smallest sum; among those the smallest dimensions first. The search goes over divisors only, tries
//! balanced choices first and gives up a branch as soon as it cannot be better than the best found.

use crate::Result;

/// Fills in the dimensions that are 0, in non-increasing order, so that the product of all is `nnodes`.
/// Dimensions above 0 stay.
///
/// # Errors
/// `MPI_ERR_ARG`: `nnodes` below 1. `MPI_ERR_DIMS`: a negative dimension, or fixed dimensions whose product does not
/// divide `nnodes` (is not `nnodes`, when none is 0). `dims` is then unchanged.
pub fn dims_create(nnodes: i32, dims: &mut [i32]) -> Result<()> {
    if nnodes < 1 {
        return fail!(ERR_ARG: "nnodes={nnodes}: must be at least 1");
    }
    let mut rest = nnodes;
    let mut free = 0;
    for (at, extent) in dims.iter().copied().enumerate() {
        if extent < 0 {
            return fail!(ERR_DIMS: "dims[{at}]={extent}: must be 0 (to be chosen) or above");
        }
        if extent == 0 {
            free += 1;
        } else if rest % extent == 0 {
            rest /= extent;
        } else {
            return fail!(
                ERR_DIMS: "dims={dims:?}: nnodes={nnodes} is not a multiple of the fixed dimensions"
            );
        }
    }
    if free == 0 && rest != 1 {
        return fail!(ERR_DIMS: "dims={dims:?}: the product is not nnodes={nnodes}, and no dimension is 0");
    }
    let chosen = balanced(rest, free);
    for (slot, extent) in dims.iter_mut().filter(|extent| **extent == 0).zip(chosen) {
        *slot = extent;
    }
    Ok(())
}

/// `n` as `k` factors, largest first.
fn balanced(n: i32, k: usize) -> Vec<i32> {
    // A number below 2^31 has at most 30 prime factors; dimensions beyond that are 1.
    let searched = k.min(31);
    if searched == 0 {
        return Vec::new();
    }
    let mut search = Search {
        divisors: divisors(n),
        chosen: Vec::with_capacity(searched),
        best: Vec::new(),
        best_cost: (i32::MAX, i64::MAX),
    };
    search.descend(n, searched);
    search.best.resize(k, 1);
    search.best
}

struct Search {
    /// Of the number to split, increasing.
    divisors: Vec<i32>,
    chosen: Vec<i32>,
    best: Vec<i32>,
    /// (largest - smallest, sum) of `best`.
    best_cost: (i32, i64),
}

impl Search {
    /// Splits `rest` into `left` more factors, none above the last chosen.
    fn descend(&mut self, rest: i32, left: usize) {
        let ceiling = self.chosen.last().copied().unwrap_or(rest);
        if left == 1 {
            if rest <= ceiling {
                self.chosen.push(rest);
                self.judge();
                self.chosen.pop();
            }
            return;
        }
        let first = self.divisors.partition_point(|d| !reaches(*d, left, rest));
        for at in first..self.divisors.len() {
            let factor = self.divisors[at];
            // The smallest factor to come is at most the root of what remains.
            let largest = self.chosen.first().copied().unwrap_or(factor);
            if factor > ceiling || self.hopeless(largest, rest, left) {
                break;
            }
            if rest % factor == 0 {
                self.chosen.push(factor);
                self.descend(rest / factor, left - 1);
                self.chosen.pop();
            }
        }
    }

    /// True when the smallest of `left` factors of `rest` is certainly too far below `largest`.
    fn hopeless(&self, largest: i32, rest: i32, left: usize) -> bool {
        let lowest = i64::from(largest) - i64::from(self.best_cost.0);
        // All `left` factors would have to be at least `lowest`.
        lowest > 1 && reaches(lowest as i32, left, rest) && power(lowest, left) != i64::from(rest)
    }

    fn judge(&mut self) {
        let largest = self.chosen[0];
        let smallest = self.chosen[self.chosen.len() - 1];
        let sum = self.chosen.iter().map(|d| i64::from(*d)).sum();
        // Candidates come with the smallest leading dimensions first, so equals do not replace.
        if (largest - smallest, sum) < self.best_cost {
            self.best_cost = (largest - smallest, sum);
            self.best.clone_from(&self.chosen);
        }
    }
}

/// True when `base` to the power `exponent` is at least `n`.
fn reaches(base: i32, exponent: usize, n: i32) -> bool {
    power(i64::from(base), exponent) >= i64::from(n)
}

/// `base` to the power `exponent`, held at 2^31, which is above every number of processes.
fn power(base: i64, exponent: usize) -> i64 {
    let mut value = 1i64;
    for _ in 0..exponent {
        value *= base;
        if value > i64::from(i32::MAX) {
            return 1 << 31;
        }
    }
    value
}

fn divisors(n: i32) -> Vec<i32> {
    let mut low = Vec::new();
    let mut high = Vec::new();
    let mut d = 1;
    while i64::from(d) * i64::from(d) <= i64::from(n) {
        if n % d == 0 {
            low.push(d);
            if d != n / d {
                high.push(n / d);
            }
        }
        d += 1;
    }
    low.extend(high.into_iter().rev());
    low
}
