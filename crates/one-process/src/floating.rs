//! The processor's floating-point environment: how it rounds, what it traps, what has happened. Changing stacks leaves it as it is.

use libc::c_int;

/// See `fenv_t`; no system's is longer.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Environment([u8; 64]);

#[link(name = "m")]
unsafe extern "C" {
    fn fegetenv(to: *mut Environment) -> c_int;
    fn fesetenv(from: *const Environment) -> c_int;
}

impl Environment {
    /// What it is now.
    pub fn now() -> Self {
        let mut now = Self([0; 64]);
        // SAFETY: room for it.
        unsafe { fegetenv(&mut now) };
        now
    }

    /// From now on it is this one; what it was.
    pub fn exchange(&self) -> Self {
        let before = Self::now();
        // SAFETY: one that `now` has filled.
        unsafe { fesetenv(self) };
        before
    }
}

#[cfg(test)]
mod tests {
    use super::Environment;
    use std::hint::black_box;

    #[test]
    fn rounding_changes_with_it() {
        unsafe extern "C" {
            fn fesetround(direction: i32) -> i32;
        }
        let third = || black_box(1.0_f64) / black_box(3.0);
        let usual = Environment::now();
        let (mut up, mut down) = (0.0, 0.0);
        // The directions have other numbers on other processors; one of these two rounds up.
        for direction in [0x800, 0x40_0000] {
            // SAFETY: takes a number, and refuses what is none.
            unsafe { fesetround(direction) };
            let theirs = usual.exchange();
            down = third();
            theirs.exchange();
            up = f64::max(up, third());
            usual.exchange();
        }
        assert!(up > down);
        assert_eq!(third(), down);
    }
}
