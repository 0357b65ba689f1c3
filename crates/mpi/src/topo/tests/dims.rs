//! Requirements of MPI-5.0 section 8.5.2.

use super::*;
use crate::ErrorClass;
use proptest::prelude::*;

/// All ways to write `n` as `k` non-increasing factors, by trial of every number.
fn factorings(n: i32, k: usize, ceiling: i32) -> Vec<Vec<i32>> {
    if k == 1 {
        return if n <= ceiling { vec![vec![n]] } else { Vec::new() };
    }
    let mut all = Vec::new();
    for factor in 1..=n.min(ceiling) {
        if n % factor == 0 {
            for mut rest in factorings(n / factor, k - 1, factor) {
                rest.insert(0, factor);
                all.push(rest);
            }
        }
    }
    all
}

#[test]
fn balanced_as_can_be_up_to_1000() {
    for n in 1..=1000 {
        for k in 1..=4 {
            let mut dims = vec![0; k];
            dims_create(n, &mut dims).unwrap();
            let best = factorings(n, k, n)
                .into_iter()
                .min_by_key(|f| (f[0] - f[k - 1], f.iter().sum::<i32>(), f.clone()))
                .unwrap();
            assert_eq!(dims, best, "{n} processes in {k} dimensions");
        }
    }
}

#[test]
fn known_grids() {
    let grid = |n, k| {
        let mut dims = vec![0; k];
        dims_create(n, &mut dims).unwrap();
        dims
    };
    assert_eq!(grid(6, 2), [3, 2]);
    assert_eq!(grid(7, 3), [7, 1, 1]);
    assert_eq!(grid(16, 3), [4, 2, 2]);
    assert_eq!(grid(1 << 30, 30), [2; 30]);
    assert_eq!(grid(i32::MAX, 2), [i32::MAX, 1]);
    assert_eq!(grid(1, 40), [1; 40]);
    assert_eq!(grid(1_000_000, 3), [100, 100, 100]);
}

/// Numbers with the most divisors, in every number of dimensions: the search must come to an end.
#[test]
fn highly_composite_numbers() {
    for n in [720_720, 735_134_400, 2_095_133_040, (1 << 20) * 1009, 1 << 30] {
        for k in 1..40 {
            let mut dims = vec![0; k];
            dims_create(n, &mut dims).unwrap();
            assert_eq!(dims.iter().map(|d| i64::from(*d)).product::<i64>(), i64::from(n));
            assert!(dims.is_sorted_by(|a, b| a >= b), "{dims:?}");
        }
    }
}

proptest! {
    #[test]
    fn fixed_dimensions_stay(n in 1i32..400, dims in proptest::collection::vec(-1i32..7, 0..5)) {
        let mut filled = dims.clone();
        let result = dims_create(n, &mut filled);
        let fixed: i32 = dims.iter().filter(|d| **d != 0).product();
        let free = dims.iter().filter(|d| **d == 0).count();
        let possible = dims.iter().all(|d| *d >= 0) && n % fixed == 0 && (free > 0 || fixed == n);
        if !possible {
            prop_assert_eq!(class(result), ErrorClass::ERR_DIMS);
            prop_assert_eq!(filled, dims);
            return Ok(());
        }
        prop_assert!(result.is_ok());
        prop_assert_eq!(filled.iter().product::<i32>(), n);
        let chosen: Vec<i32> = (0..dims.len()).filter(|i| dims[*i] == 0).map(|i| filled[i]).collect();
        let mut alone = vec![0; free];
        dims_create(n / fixed, &mut alone).ok();
        prop_assert_eq!(chosen, alone);
        for (before, after) in dims.iter().zip(&filled) {
            prop_assert!(*before == 0 || before == after);
        }
    }
}

#[test]
fn messages_name_the_numbers() {
    let text = |n, dims: &mut [i32]| dims_create(n, dims).unwrap_err().message;
    assert_eq!(
        text(6, &mut [4, 0]),
        "dims=[4, 0]: nnodes=6 is not a multiple of the fixed dimensions"
    );
    assert_eq!(
        text(6, &mut [3]),
        "dims=[3]: the product is not nnodes=6, and no dimension is 0"
    );
    assert_eq!(class(dims_create(0, &mut [0])), ErrorClass::ERR_ARG);
}
