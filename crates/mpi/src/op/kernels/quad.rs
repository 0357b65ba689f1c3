//! IEEE binary128 (`REAL*16`), by the compiler's run-time routines.

use super::number::{Less, Number, Real};

/// A binary128 as bits.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(super) struct Quad(u128);

impl Less for Quad {
    #[inline]
    fn less(self, other: Self) -> bool {
        const MAGNITUDE: u128 = u128::MAX >> 1;
        const INFINITY: u128 = 0x7fff << 112;
        let nan = |quad: Quad| quad.0 & MAGNITUDE > INFINITY;
        if nan(self) || nan(other) || (self.0 | other.0) & MAGNITUDE == 0 {
            return false;
        }
        // As integers, after turning negative numbers around.
        let key = |quad: Quad| {
            let magnitude = (quad.0 & MAGNITUDE) as i128;
            if quad.0 >> 127 == 1 { -magnitude } else { magnitude }
        };
        key(self) < key(other)
    }
}

#[cfg(target_arch = "x86_64")]
mod routines {
    use super::Quad;
    use core::arch::x86_64::__m128i;

    unsafe extern "C" {
        // Declared without arguments: Rust has no stable type that is passed as binary128 is.
        fn __addtf3();
        fn __subtf3();
        fn __multf3();
    }

    macro_rules! call {
        ($a:expr, $b:expr, $routine:ident) => {{
            // SAFETY: both are 16 bytes of plain bits.
            let (mut a, b): (__m128i, __m128i) =
                unsafe { (core::mem::transmute($a.0), core::mem::transmute($b.0)) };
            // SAFETY: the routine takes two binary128 in xmm0 and xmm1 and returns one in xmm0 (System V ABI);
            // everything it may change is declared.
            unsafe {
                core::arch::asm!(
                    "call {routine}",
                    routine = sym $routine,
                    inout("xmm0") a,
                    inout("xmm1") b => _,
                    clobber_abi("C"),
                );
            }
            // SAFETY: 16 bytes of plain bits.
            Quad(unsafe { core::mem::transmute::<__m128i, u128>(a) })
        }};
    }

    pub fn add(a: Quad, b: Quad) -> Quad {
        call!(a, b, __addtf3)
    }

    pub fn sub(a: Quad, b: Quad) -> Quad {
        call!(a, b, __subtf3)
    }

    pub fn mul(a: Quad, b: Quad) -> Quad {
        call!(a, b, __multf3)
    }
}

#[cfg(target_arch = "aarch64")]
mod routines {
    use super::Quad;
    use core::arch::aarch64::uint8x16_t;

    unsafe extern "C" {
        // Declared without arguments: Rust has no stable type that is passed as binary128 is.
        fn __addtf3();
        fn __subtf3();
        fn __multf3();
    }

    macro_rules! call {
        ($a:expr, $b:expr, $routine:ident) => {{
            // SAFETY: both are 16 bytes of plain bits.
            let (mut a, b): (uint8x16_t, uint8x16_t) =
                unsafe { (core::mem::transmute($a.0), core::mem::transmute($b.0)) };
            // SAFETY: the routine takes two binary128 in v0 and v1 and returns one in v0 (AAPCS64); everything it
            // may change is declared.
            unsafe {
                core::arch::asm!(
                    "bl {routine}",
                    routine = sym $routine,
                    inout("v0") a,
                    inout("v1") b => _,
                    clobber_abi("C"),
                );
            }
            // SAFETY: 16 bytes of plain bits.
            Quad(unsafe { core::mem::transmute::<uint8x16_t, u128>(a) })
        }};
    }

    pub fn add(a: Quad, b: Quad) -> Quad {
        call!(a, b, __addtf3)
    }

    pub fn sub(a: Quad, b: Quad) -> Quad {
        call!(a, b, __subtf3)
    }

    pub fn mul(a: Quad, b: Quad) -> Quad {
        call!(a, b, __multf3)
    }
}

impl Number for Quad {
    #[inline]
    fn plus(self, other: Self) -> Self {
        routines::add(self, other)
    }
    #[inline]
    fn times(self, other: Self) -> Self {
        routines::mul(self, other)
    }
}

impl Real for Quad {
    #[inline]
    fn minus(self, other: Self) -> Self {
        routines::sub(self, other)
    }
}
