//! The C library's random numbers, of which each rank has its own.

use crate::generators::Random;
use crate::rank::running;
use libc::{c_double, c_int, c_long, c_uint};

/// Of the running rank, or of the process where none runs.
fn with_random<T>(body: impl FnOnce(&mut Random) -> T) -> T {
    thread_local!(static BESIDE: std::cell::RefCell<Box<Random>> = std::cell::RefCell::default());
    match running() {
        Some(rank) => body(&mut rank.random.borrow_mut()),
        None => BESIDE.with_borrow_mut(|random| body(random)),
    }
}

/// See `random(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn random() -> c_long {
    with_random(Random::draw).into()
}

/// See `random(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn srandom(seed: c_uint) {
    with_random(|random| random.seed(seed));
}

/// See `rand(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn rand() -> c_int {
    with_random(Random::draw)
}

/// See `rand(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn srand(seed: c_uint) {
    srandom(seed);
}

/// See `drand48(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn srand48(seed: c_long) {
    with_random(|random| random.seed_48(seed));
}

/// See `drand48(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn drand48() -> c_double {
    with_random(Random::real_48)
}

/// See `drand48(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn lrand48() -> c_long {
    with_random(|random| random.integer_48(false))
}

/// See `drand48(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn mrand48() -> c_long {
    with_random(|random| random.integer_48(true))
}
