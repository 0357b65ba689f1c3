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

unsafe extern "C" {
    // Declared without arguments: Rust has no stable type that is passed as binary128 is.
    fn __addtf3();
    fn __subtf3();
    fn __multf3();
}

#[cfg(target_arch = "aarch64")]
use core::arch::aarch64::uint8x16_t as Register;
#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::__m128i as Register;

/// Calls one of the routines above.
#[inline]
fn call(a: Quad, b: Quad, routine: unsafe extern "C" fn()) -> Quad {
    // SAFETY: 16 bytes of plain bits each.
    let (mut a, b) = unsafe {
        (
            core::mem::transmute::<u128, Register>(a.0),
            core::mem::transmute::<u128, Register>(b.0),
        )
    };
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the routine takes two binary128 in xmm0 and xmm1 and returns one in xmm0 (System V ABI);
    // everything it may change is declared.
    unsafe {
        core::arch::asm!(
            "call {routine}",
            routine = in(reg) routine,
            inout("xmm0") a,
            inout("xmm1") b => _,
            clobber_abi("C"),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the routine takes two binary128 in v0 and v1 and returns one in v0 (AAPCS64); everything it
    // may change is declared.
    unsafe {
        core::arch::asm!(
            "blr {routine}",
            routine = in(reg) routine,
            inout("v0") a,
            inout("v1") b => _,
            clobber_abi("C"),
        );
    }
    // SAFETY: 16 bytes of plain bits.
    Quad(unsafe { core::mem::transmute::<Register, u128>(a) })
}

impl Number for Quad {
    #[inline]
    fn plus(self, other: Self) -> Self {
        call(self, other, __addtf3)
    }
    #[inline]
    fn times(self, other: Self) -> Self {
        call(self, other, __multf3)
    }
}

impl Real for Quad {
    #[inline]
    fn minus(self, other: Self) -> Self {
        call(self, other, __subtf3)
    }
}
