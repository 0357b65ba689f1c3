//! The C library's generators of random numbers, as values.

use libc::{c_char, c_double, c_int, c_long, c_uint};

/// Generators of the C library as a process finds them.
#[repr(C)]
pub struct Random {
    /// `struct random_data`, and the state that the C library begins with.
    data: [u64; 6],
    state: [u64; 16],
    /// `struct drand48_data`.
    by_48: [u64; 3],
}

unsafe extern "C" {
    fn initstate_r(seed: c_uint, state: *mut c_char, len: usize, data: *mut [u64; 6]) -> c_int;
    fn srandom_r(seed: c_uint, data: *mut [u64; 6]) -> c_int;
    fn random_r(data: *mut [u64; 6], result: *mut i32) -> c_int;
    fn srand48_r(seed: c_long, data: *mut [u64; 3]) -> c_int;
    fn drand48_r(data: *mut [u64; 3], result: *mut c_double) -> c_int;
    fn lrand48_r(data: *mut [u64; 3], result: *mut c_long) -> c_int;
    fn mrand48_r(data: *mut [u64; 3], result: *mut c_long) -> c_int;
}

impl Default for Box<Random> {
    fn default() -> Self {
        let mut random = Box::new(Random {
            data: [0; 6],
            state: [0; 16],
            by_48: [0; 3],
        });
        // SAFETY: structures of the C library's sizes, zeroed as it wants them, in a box, which stays where it is.
        unsafe { initstate_r(1, random.state.as_mut_ptr().cast(), 128, &mut random.data) };
        random
    }
}

impl Random {
    /// See `srandom(3)`.
    pub fn seed(&mut self, seed: c_uint) {
        // SAFETY: a generator that was begun.
        unsafe { srandom_r(seed, &mut self.data) };
    }

    /// See `random(3)`.
    pub fn draw(&mut self) -> i32 {
        let mut result = 0;
        // SAFETY: as above, and room for a number.
        unsafe { random_r(&mut self.data, &mut result) };
        result
    }

    /// See `srand48(3)`.
    pub fn seed_48(&mut self, seed: c_long) {
        // SAFETY: a generator, zeroed or begun.
        unsafe { srand48_r(seed, &mut self.by_48) };
    }

    /// See `drand48(3)`.
    pub fn real_48(&mut self) -> c_double {
        let mut result = 0.0;
        // SAFETY: as above, and room for a number.
        unsafe { drand48_r(&mut self.by_48, &mut result) };
        result
    }

    /// See `lrand48(3)`, or where it is signed `mrand48(3)`.
    pub fn integer_48(&mut self, signed: bool) -> c_long {
        let by = if signed { mrand48_r } else { lrand48_r };
        let mut result = 0;
        // SAFETY: as above.
        unsafe { by(&mut self.by_48, &mut result) };
        result
    }
}
