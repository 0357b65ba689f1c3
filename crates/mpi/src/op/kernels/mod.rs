//! The loops behind the predefined operations.
//!
//! Each is an operation on a machine type, compiled twice: for the baseline processor and for AVX2. Loads
//! and stores are unaligned, so that any user buffer will do; the compiler vectorises them.
//!
//! Requirements of MPI-5.0 sections 6.9.2, 6.9.4.
#![allow(unsafe_code)]

mod number;
mod quad;
mod x87;

use super::Predefined;
use crate::datatype::basic::{Basic, Class, Repr};
use number::{Complex, F16, Less, Number, Pair};
use quad::Quad;
use x87::X87;

/// `(inp, inout, n)`: `inout[i] = inp[i] op inout[i]`.
///
/// Unsafe to call: both hold `n` elements, do not overlap, and the second is writable.
type Two = unsafe fn(*const u8, *mut u8, usize);
/// `(a, b, out, n)`: `out[i] = a[i] op b[i]`.
type Three = unsafe fn(*const u8, *const u8, *mut u8, usize);

/// An operation on a type.
#[derive(Clone, Copy)]
pub(super) struct Kernel {
    pub two: Two,
    pub three: Three,
}

/// An operation on two values.
trait Combine<T> {
    fn combine(a: T, b: T) -> T;
}

macro_rules! operations {
    ($($name:ident<$t:ident: $bound:path>($a:ident, $b:ident) $body:expr;)*) => {$(
        struct $name;
        impl<$t: $bound> Combine<$t> for $name {
            #[inline(always)]
            fn combine($a: $t, $b: $t) -> $t {
                $body
            }
        }
    )*};
}

/// Integers taken as bits.
trait Bits: Copy {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn truth(self) -> bool;
    fn from_truth(truth: bool) -> Self;
}

macro_rules! bits {
    ($($t:ty)*) => {$(
        impl Bits for $t {
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline(always)]
            fn truth(self) -> bool {
                self != 0
            }
            #[inline(always)]
            fn from_truth(truth: bool) -> Self {
                truth as $t
            }
        }
    )*};
}
bits!(u8 u16 u32 u64 u128);

operations! {
    Sum<T: Number>(a, b) a.plus(b);
    Prod<T: Number>(a, b) a.times(b);
    Min<T: Less>(a, b) if a.less(b) { a } else { b };
    Max<T: Less>(a, b) if b.less(a) { a } else { b };
    Band<T: Bits>(a, b) a.and(b);
    Bor<T: Bits>(a, b) a.or(b);
    Bxor<T: Bits>(a, b) a.xor(b);
    Land<T: Bits>(a, b) T::from_truth(a.truth() & b.truth());
    Lor<T: Bits>(a, b) T::from_truth(a.truth() | b.truth());
    Lxor<T: Bits>(a, b) T::from_truth(a.truth() ^ b.truth());
}

struct Minloc;
struct Maxloc;

impl<V: Less, I: Less> Combine<Pair<V, I>> for Minloc {
    #[inline(always)]
    fn combine(a: Pair<V, I>, b: Pair<V, I>) -> Pair<V, I> {
        let first = a.value.less(b.value) || !b.value.less(a.value) && a.index.less(b.index);
        if first { a } else { b }
    }
}

impl<V: Less, I: Less> Combine<Pair<V, I>> for Maxloc {
    #[inline(always)]
    fn combine(a: Pair<V, I>, b: Pair<V, I>) -> Pair<V, I> {
        let first = b.value.less(a.value) || !a.value.less(b.value) && a.index.less(b.index);
        if first { a } else { b }
    }
}

#[inline(always)]
unsafe fn two_loop<T: Copy, F: Combine<T>>(inp: *const u8, inout: *mut u8, n: usize) {
    let (inp, inout) = (inp.cast::<T>(), inout.cast::<T>());
    for at in 0..n {
        // SAFETY: `at < n`, and the caller of a `Two` vouches for `n` elements on both sides.
        unsafe {
            let place = inout.add(at);
            place.write_unaligned(F::combine(inp.add(at).read_unaligned(), place.read_unaligned()));
        }
    }
}

#[inline(always)]
unsafe fn three_loop<T: Copy, F: Combine<T>>(a: *const u8, b: *const u8, out: *mut u8, n: usize) {
    let (a, b, out) = (a.cast::<T>(), b.cast::<T>(), out.cast::<T>());
    for at in 0..n {
        // SAFETY: `at < n`, and the caller of a `Three` vouches for `n` elements on all sides.
        unsafe {
            out.add(at)
                .write_unaligned(F::combine(a.add(at).read_unaligned(), b.add(at).read_unaligned()))
        };
    }
}

unsafe fn two<T: Copy, F: Combine<T>>(inp: *const u8, inout: *mut u8, n: usize) {
    // SAFETY: the same contract.
    unsafe { two_loop::<T, F>(inp, inout, n) }
}

unsafe fn three<T: Copy, F: Combine<T>>(a: *const u8, b: *const u8, out: *mut u8, n: usize) {
    // SAFETY: the same contract.
    unsafe { three_loop::<T, F>(a, b, out, n) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn two_avx2<T: Copy, F: Combine<T>>(inp: *const u8, inout: *mut u8, n: usize) {
    // SAFETY: the same contract.
    unsafe { two_loop::<T, F>(inp, inout, n) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn three_avx2<T: Copy, F: Combine<T>>(a: *const u8, b: *const u8, out: *mut u8, n: usize) {
    // SAFETY: the same contract.
    unsafe { three_loop::<T, F>(a, b, out, n) }
}

/// For types that vectorise.
#[inline]
fn wide<T: Copy, F: Combine<T>>() -> Option<Kernel> {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        return Some(Kernel {
            two: two_avx2::<T, F>,
            three: three_avx2::<T, F>,
        });
    }
    plain::<T, F>()
}

#[inline]
fn plain<T: Copy, F: Combine<T>>() -> Option<Kernel> {
    Some(Kernel {
        two: two::<T, F>,
        three: three::<T, F>,
    })
}

/// Calls `$make::<type, $op>()` for the unsigned type of this many bytes.
macro_rules! by_size {
    ($make:ident, $size:expr, $op:ty) => {
        match $size {
            1 => $make::<u8, $op>(),
            2 => $make::<u16, $op>(),
            4 => $make::<u32, $op>(),
            8 => $make::<u64, $op>(),
            16 => $make::<u128, $op>(),
            _ => None,
        }
    };
}

macro_rules! by_signed_size {
    ($size:expr, $op:ty) => {
        match $size {
            1 => wide::<i8, $op>(),
            2 => wide::<i16, $op>(),
            4 => wide::<i32, $op>(),
            8 => wide::<i64, $op>(),
            16 => wide::<i128, $op>(),
            _ => None,
        }
    };
}

macro_rules! by_real {
    ($repr:expr, $op:ty) => {
        match $repr {
            Repr::F16 => plain::<F16, $op>(),
            Repr::F32 => wide::<f32, $op>(),
            Repr::F64 => wide::<f64, $op>(),
            Repr::F80 => plain::<X87, $op>(),
            Repr::F128 => plain::<Quad, $op>(),
            _ => None,
        }
    };
}

macro_rules! by_complex {
    ($repr:expr, $op:ty) => {
        match $repr {
            Repr::ComplexF16 => plain::<Complex<F16>, $op>(),
            Repr::ComplexF32 => wide::<Complex<f32>, $op>(),
            Repr::ComplexF64 => wide::<Complex<f64>, $op>(),
            Repr::ComplexF80 => plain::<Complex<X87>, $op>(),
            Repr::ComplexF128 => plain::<Complex<Quad>, $op>(),
            _ => None,
        }
    };
}

/// The loop for a value, `None` where the standard does not define the operation.
pub(super) fn of_value(op: Predefined, basic: Basic) -> Option<Kernel> {
    use Predefined as P;
    let info = basic.info();
    let (repr, size) = (info.repr, info.size);
    match info.class {
        Class::CInteger | Class::FortranInteger | Class::MultiLanguage => {
            let signed = matches!(repr, Repr::Int(_));
            // Addresses, offsets and counts are C integers by another name; every library takes them.
            let logical = info.class != Class::FortranInteger;
            match op {
                P::Sum => by_size!(wide, size, Sum),
                P::Prod => by_size!(wide, size, Prod),
                P::Min if signed => by_signed_size!(size, Min),
                P::Max if signed => by_signed_size!(size, Max),
                P::Min => by_size!(wide, size, Min),
                P::Max => by_size!(wide, size, Max),
                P::Band => by_size!(wide, size, Band),
                P::Bor => by_size!(wide, size, Bor),
                P::Bxor => by_size!(wide, size, Bxor),
                P::Land if logical => by_size!(wide, size, Land),
                P::Lor if logical => by_size!(wide, size, Lor),
                P::Lxor if logical => by_size!(wide, size, Lxor),
                _ => None,
            }
        }
        Class::Floating => match op {
            P::Sum => by_real!(repr, Sum),
            P::Prod => by_real!(repr, Prod),
            P::Min => by_real!(repr, Min),
            P::Max => by_real!(repr, Max),
            _ => None,
        },
        Class::Complex => match op {
            P::Sum => by_complex!(repr, Sum),
            P::Prod => by_complex!(repr, Prod),
            _ => None,
        },
        Class::Logical => match op {
            P::Land => by_size!(wide, size, Land),
            P::Lor => by_size!(wide, size, Lor),
            P::Lxor => by_size!(wide, size, Lxor),
            _ => None,
        },
        Class::Byte => match op {
            P::Band => wide::<u8, Band>(),
            P::Bor => wide::<u8, Bor>(),
            P::Bxor => wide::<u8, Bxor>(),
            _ => None,
        },
        Class::Character | Class::Packed | Class::Pair => None,
    }
}

/// The loop for pairs of these machine types when they lie as the datatype says.
fn pair<V: Less, I: Less>(op: Predefined, at: u64, extent: i64) -> Option<Kernel> {
    if core::mem::offset_of!(Pair<V, I>, index) as u64 != at
        || core::mem::size_of::<Pair<V, I>>() as i64 != extent
    {
        return None;
    }
    match op {
        Predefined::Minloc => plain::<Pair<V, I>, Minloc>(),
        Predefined::Maxloc => plain::<Pair<V, I>, Maxloc>(),
        _ => None,
    }
}

/// The loop for a pair, `at` bytes from value to index. Only the named pairs exist.
pub(super) fn of_pair(op: Predefined, value: Basic, index: Basic, at: u64, extent: i64) -> Option<Kernel> {
    match (value.info().repr, index.info().repr) {
        (Repr::Int(2), Repr::Int(4)) => pair::<i16, i32>(op, at, extent),
        (Repr::Int(4), Repr::Int(4)) => pair::<i32, i32>(op, at, extent),
        (Repr::Int(8), Repr::Int(4)) => pair::<i64, i32>(op, at, extent),
        (Repr::F32, Repr::Int(4)) => pair::<f32, i32>(op, at, extent),
        (Repr::F64, Repr::Int(4)) => pair::<f64, i32>(op, at, extent),
        (Repr::F80, Repr::Int(4)) => pair::<X87, i32>(op, at, extent),
        (Repr::F128, Repr::Int(4)) => pair::<Quad, i32>(op, at, extent),
        // The Fortran pairs keep the index in the type of the value.
        (Repr::F32, Repr::F32) => pair::<f32, f32>(op, at, extent),
        (Repr::F64, Repr::F64) => pair::<f64, f64>(op, at, extent),
        _ => None,
    }
}
