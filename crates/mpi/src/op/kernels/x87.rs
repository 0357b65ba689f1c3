//! C `long double` on x86-64: the 80-bit format, computed by the x87 unit itself.

use super::number::{Less, Number, Real};

/// An 80-bit value in the 16 bytes it has in memory; the last six mean nothing.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(super) struct X87([u8; 16]);

#[cfg(target_arch = "x86_64")]
macro_rules! instruction {
    ($a:expr, $b:expr, $name:literal) => {{
        let (a, b) = ($a, $b);
        let mut out = X87([0; 16]);
        // SAFETY: reads ten bytes of two live values, writes ten bytes of a third; the register stack is as
        // deep after as before, and all of it is declared as changed.
        unsafe {
            core::arch::asm!(
                "fld tbyte ptr [{a}]",
                "fld tbyte ptr [{b}]",
                $name,
                "fstp tbyte ptr [{out}]",
                a = in(reg) &a,
                b = in(reg) &b,
                out = in(reg) &mut out,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        out
    }};
}

#[cfg(target_arch = "x86_64")]
impl Number for X87 {
    #[inline]
    fn plus(self, other: Self) -> Self {
        instruction!(self, other, "faddp st(1), st")
    }
    #[inline]
    fn times(self, other: Self) -> Self {
        instruction!(self, other, "fmulp st(1), st")
    }
}

#[cfg(target_arch = "x86_64")]
impl Real for X87 {
    #[inline]
    fn minus(self, other: Self) -> Self {
        instruction!(self, other, "fsubp st(1), st")
    }
}

#[cfg(target_arch = "x86_64")]
impl Less for X87 {
    #[inline]
    fn less(self, other: Self) -> bool {
        let above: u8;
        // SAFETY: reads ten bytes of two live values; the register stack is as deep after as before, and all
        // of it is declared as changed.
        unsafe {
            core::arch::asm!(
                "fld tbyte ptr [{a}]",
                "fld tbyte ptr [{b}]",
                "fucomip st, st(1)",
                "seta {above}",
                "fstp st(0)",
                a = in(reg) &self,
                b = in(reg) &other,
                above = out(reg_byte) above,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack, readonly),
            );
        }
        above != 0
    }
}

/// No other processor has the format, and no datatype there uses it.
#[cfg(not(target_arch = "x86_64"))]
mod absent {
    use super::*;

    impl Number for X87 {
        fn plus(self, _: Self) -> Self {
            self
        }
        fn times(self, _: Self) -> Self {
            self
        }
    }

    impl Real for X87 {
        fn minus(self, _: Self) -> Self {
            self
        }
    }

    impl Less for X87 {
        fn less(self, _: Self) -> bool {
            false
        }
    }
}
