//! Requirements of MPI-5.0 sections 6.9.2, 6.9.4, 6.9.5.

#![allow(unsafe_code)]

use super::*;
use crate::ErrorClass;
use crate::datatype::basic::{Class, Repr};
use crate::datatype::{Basic, Types};
use proptest::prelude::*;
use std::cell::RefCell;

fn named(abi: usize) -> Datatype {
    Datatype::predefined(abi).unwrap()
}

/// Applies `op` in both forms, at an odd address, and checks that they agree.
fn reduce<T: Copy>(op: &Op, abi: usize, a: &[T], b: &[T]) -> Vec<T> {
    let ty = named(abi);
    let bytes = std::mem::size_of_val(a);
    assert_eq!(a.len(), b.len());
    let copy = |from: &[T]| {
        let mut to = vec![0u8; bytes + 1];
        // SAFETY: `bytes` bytes of plain numbers.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr().cast(), to.as_mut_ptr().add(1), bytes) };
        to
    };
    let (left, mut right, mut out) = (copy(a), copy(b), vec![0u8; bytes + 1]);
    let count = a.len() as u64;
    // SAFETY: three distinct buffers of `count` elements each.
    unsafe {
        assert!(
            op.combine(
                left[1..].as_ptr(),
                right[1..].as_ptr(),
                out[1..].as_mut_ptr(),
                count,
                &ty
            )
            .unwrap()
        );
        op.apply(left[1..].as_ptr(), right[1..].as_mut_ptr(), count, &ty)
            .unwrap();
    }
    if ty.contiguous_for_test() {
        assert_eq!(right, out, "{op:?} {ty:?}");
    }
    // SAFETY: `count` elements were written.
    (0..a.len())
        .map(|at| unsafe { right.as_ptr().add(1).cast::<T>().add(at).read_unaligned() })
        .collect()
}

impl Datatype {
    /// Pairs have padding, whose bytes mean nothing; long doubles too.
    fn contiguous_for_test(&self) -> bool {
        self.is_contiguous() && !matches!(self.basic().unwrap().info().repr, Repr::F80 | Repr::ComplexF80)
    }
}

#[test]
fn the_standards_table_of_operations_and_types() {
    use Class::*;
    for (op, name) in Predefined::ALL {
        for basic in Basic::all() {
            let class = basic.info().class;
            let integer = matches!(class, CInteger | FortranInteger | MultiLanguage);
            let allowed = match op {
                Predefined::Sum | Predefined::Prod => integer || matches!(class, Floating | Complex),
                Predefined::Min | Predefined::Max => integer || class == Floating,
                Predefined::Band | Predefined::Bor | Predefined::Bxor => integer || class == Byte,
                Predefined::Land | Predefined::Lor | Predefined::Lxor => {
                    matches!(class, CInteger | Logical | MultiLanguage)
                }
                Predefined::Minloc | Predefined::Maxloc => class == Pair,
                Predefined::Replace | Predefined::NoOp => true,
            };
            let verdict = Op::predefined(op as usize)
                .unwrap()
                .valid_for(&Datatype::from_basic(basic));
            assert_eq!(verdict.is_ok(), allowed, "{name} {basic:?}");
            if let Err(error) = verdict {
                assert_eq!(error.class, ErrorClass::ERR_OP);
                assert!(
                    error.message.contains(name) && error.message.contains(basic.info().name),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn derived_types_are_for_user_operations() {
    let two = Datatype::contiguous(2, &named(0x209)).unwrap();
    assert_eq!(Op::SUM.valid_for(&two).unwrap_err().class, ErrorClass::ERR_OP);
    assert!(Op::SUM.valid_for(&named(0x209).dup().unwrap()).is_ok());
    assert!(
        Op::SUM
            .valid_for(&Datatype::resized(&named(0x209), 0, 8).unwrap())
            .is_err()
    );
    let mut types = Types::new();
    let real = types.f90_real(15, 300).unwrap();
    assert!(Op::MAX.valid_for(types.get(real).unwrap()).is_ok());
}

macro_rules! integers {
    ($($test:ident $t:ty, $abi:literal;)*) => {
        proptest! {$(
            #[test]
            fn $test(pairs in prop::collection::vec((any::<$t>(), any::<$t>()), 0..100)) {
                let (a, b): (Vec<$t>, Vec<$t>) = pairs.iter().copied().unzip();
                let check = |abi: usize, f: fn($t, $t) -> $t| {
                    let wanted: Vec<$t> = pairs.iter().map(|(a, b)| f(*a, *b)).collect();
                    assert_eq!(reduce(&Op::predefined(abi).unwrap(), $abi, &a, &b), wanted);
                };
                check(0x21, |a, b| a.wrapping_add(b));
                check(0x22, |a, b| a.min(b));
                check(0x23, |a, b| a.max(b));
                check(0x24, |a, b| a.wrapping_mul(b));
                check(0x28, |a, b| a & b);
                check(0x29, |a, b| a | b);
                check(0x2a, |a, b| a ^ b);
                if named($abi).basic().unwrap().info().class == Class::CInteger {
                    check(0x30, |a, b| (a != 0 && b != 0) as $t);
                    check(0x31, |a, b| (a != 0 || b != 0) as $t);
                    check(0x32, |a, b| ((a != 0) != (b != 0)) as $t);
                }
            }
        )*}
    };
}

integers! {
    signed_char i8, 0x244;
    unsigned_char u8, 0x245;
    short i16, 0x208;
    unsigned_short u16, 0x20c;
    int i32, 0x209;
    unsigned u32, 0x20d;
    long i64, 0x20a;
    unsigned_long u64, 0x20e;
    aint i64, 0x201;
    integer16 i128, 0x2e1;
}

proptest! {
    #[test]
    fn doubles(pairs in prop::collection::vec((-1e9f64..1e9, -1e9f64..1e9), 0..100)) {
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let wanted = |f: fn(f64, f64) -> f64| pairs.iter().map(|(a, b)| f(*a, *b)).collect::<Vec<_>>();
        prop_assert_eq!(reduce(&Op::SUM, 0x214, &a, &b), wanted(|a, b| a + b));
        prop_assert_eq!(reduce(&Op::PROD, 0x214, &a, &b), wanted(|a, b| a * b));
        prop_assert_eq!(reduce(&Op::MIN, 0x214, &a, &b), wanted(f64::min));
        prop_assert_eq!(reduce(&Op::MAX, 0x214, &a, &b), wanted(f64::max));
        let product = reduce(&Op::PROD, 0x216, &pairs, &pairs);
        let squares: Vec<_> = pairs.iter().map(|(a, b)| (a * a - b * b, a * b + a * b)).collect();
        prop_assert_eq!(product, squares);
    }

    /// 80-bit arithmetic on doubles is exact enough to compare: sums of 32-bit integers, and products.
    #[test]
    #[cfg_attr(miri, ignore = "inline assembly")]
    fn long_doubles(a in any::<i32>(), b in any::<i32>()) {
        let extended = |value: i64| -> u128 {
            if value == 0 { return 0; }
            let magnitude = value.unsigned_abs();
            let shift = magnitude.leading_zeros();
            ((value < 0) as u128) << 79 | (16383 + 63 - shift as u128) << 64 | (magnitude << shift) as u128
        };
        let (a, b) = (a as i64, b as i64);
        let low = |values: Vec<u128>| values[0] & ((1 << 80) - 1);
        let run = |op: &Op| low(reduce(op, 0x220, &[extended(a)], &[extended(b)]));
        prop_assert_eq!(run(&Op::SUM), extended(a + b));
        if a != 0 && b != 0 {
            prop_assert_eq!(run(&Op::PROD), extended(a * b));
        }
        prop_assert_eq!(run(&Op::MIN), extended(a.min(b)));
        prop_assert_eq!(run(&Op::MAX), extended(a.max(b)));
        let complex = reduce(&Op::PROD, 0x224, &[[extended(a), extended(b)]], &[[extended(1), extended(1)]]);
        prop_assert_eq!(low(vec![complex[0][0]]), extended(a - b));
        prop_assert_eq!(low(vec![complex[0][1]]), extended(a + b));
    }

    #[test]
    #[cfg_attr(miri, ignore = "inline assembly")]
    fn quads(a in any::<i32>(), b in any::<i32>()) {
        let quad = |value: i64| -> u128 {
            if value == 0 { return 0; }
            let magnitude = value.unsigned_abs() as u128;
            let top = 63 - value.unsigned_abs().leading_zeros() as u128;
            ((value < 0) as u128) << 127 | (16383 + top) << 112 | (magnitude ^ 1 << top) << (112 - top)
        };
        let (a, b) = (a as i64, b as i64);
        let run = |op: &Op| reduce(op, 0x2e2, &[quad(a)], &[quad(b)])[0];
        prop_assert_eq!(run(&Op::SUM), quad(a + b));
        if a != 0 && b != 0 {
            prop_assert_eq!(run(&Op::PROD), quad(a * b));
        }
        prop_assert_eq!(run(&Op::MIN), quad(a.min(b)));
        prop_assert_eq!(run(&Op::MAX), quad(a.max(b)));
    }

    #[test]
    fn locations(pairs in prop::collection::vec((-3i8..3, 0i32..9, -3i8..3, 0i32..9), 1..40)) {
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[repr(C)]
        struct DoubleInt(f64, i32);
        let left: Vec<_> = pairs.iter().map(|p| DoubleInt(p.0 as f64, p.1)).collect();
        let right: Vec<_> = pairs.iter().map(|p| DoubleInt(p.2 as f64, p.3)).collect();
        let run = |abi| reduce(&Op::predefined(abi).unwrap(), 0x229, &left, &right);
        for (at, (low, high)) in run(0x38).into_iter().zip(run(0x39)).enumerate() {
            let (a, b) = (left[at], right[at]);
            let equal = DoubleInt(a.0, a.1.min(b.1));
            let (smaller, larger) = if a.0 < b.0 { (a, b) } else { (b, a) };
            prop_assert_eq!(low, if a.0 == b.0 { equal } else { smaller });
            prop_assert_eq!(high, if a.0 == b.0 { equal } else { larger });
        }
    }
}

#[test]
fn halves_and_fortran_pairs() {
    let (one, two, three) = (0x3c00u16, 0x4000u16, 0x4200u16);
    assert_eq!(reduce(&Op::SUM, 0x2ca, &[one], &[two]), [three]);
    assert_eq!(reduce(&Op::MAX, 0x2ca, &[one], &[two]), [two]);
    assert_eq!(
        reduce(&Op::SUM, 0x2d3, &[[one, two]], &[[two, one]]),
        [[three, three]]
    );
    let minloc = Op::predefined(0x38).unwrap();
    assert_eq!(
        reduce(&minloc, 0x230, &[[1.0f32, 5.0]], &[[1.0, 3.0]]),
        [[1.0, 3.0]]
    );
    assert_eq!(
        reduce(&minloc, 0x231, &[[1.0f64, 5.0]], &[[2.0, 3.0]]),
        [[1.0, 5.0]]
    );
    assert_eq!(reduce(&minloc, 0x232, &[[1i32, 5]], &[[2, 3]]), [[1, 5]]);
    assert_eq!(reduce(&Op::LAND, 0x218, &[-1i32, 0, 2], &[1, 1, 4]), [1, 0, 1]);
}

#[test]
fn replace_and_no_op_work_on_any_type() {
    let column = Datatype::vector(2, 1, 2, &named(0x209)).unwrap();
    let (from, mut to) = ([1i32, 2, 3], [7i32, 8, 9]);
    // SAFETY: three ints each.
    unsafe {
        let no_op = Op::predefined(0x3d).unwrap();
        no_op
            .apply(from.as_ptr().cast(), to.as_mut_ptr().cast(), 1, &column)
            .unwrap();
        assert_eq!(to, [7, 8, 9]);
        let replace = Op::predefined(0x3c).unwrap();
        replace
            .apply(from.as_ptr().cast(), to.as_mut_ptr().cast(), 1, &column)
            .unwrap();
    }
    assert_eq!(to, [1, 8, 3]);
}

#[test]
fn int_functions_are_called_in_pieces() {
    let calls = Rc::new(RefCell::new(vec![]));
    let record = {
        let calls = calls.clone();
        Rc::new(move |_: *const u8, inout: *mut u8, count: u64, _: &Datatype| {
            calls.borrow_mut().push((inout as usize, count));
        })
    };
    let op = Op::user_int(record, false);
    assert!(!op.is_commutative());
    let count = i32::MAX as u64 + 5;
    // SAFETY: the function touches nothing.
    unsafe {
        op.apply(std::ptr::null(), std::ptr::null_mut(), count, &named(0x214))
            .unwrap()
    };
    assert_eq!(
        *calls.borrow(),
        [(0, i32::MAX as u64), (8 * i32::MAX as usize, 5)]
    );
}

#[test]
fn handles_of_operations() {
    let mut ops = Ops::new();
    assert_eq!(ops.get(0x21).unwrap().as_predefined(), Some(Predefined::Sum));
    assert!(ops.get(0x25).is_none());
    assert!(ops.lookup(OP_NULL).unwrap_err().message.contains("MPI_OP_NULL"));
    assert!(ops.free(0x21).unwrap_err().message.contains("MPI_SUM"));
    let handle = ops.insert(Op::user(Rc::new(|_, _, _, _| {}), true)).unwrap();
    assert_eq!(ops.get(handle).unwrap().handle(), handle);
    assert_eq!(ops.from_int(handle as i32), Some(handle));
    assert_eq!(ops.from_int(0x3d), Some(0x3d));
    ops.free(handle).unwrap();
    assert_eq!(ops.free(handle).unwrap_err().class, ErrorClass::ERR_OP);
}
