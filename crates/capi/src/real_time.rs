//! The system's own time, in a simulated program too whose clocks and sleeps another library stands in for (`farpost sim --virtual-clock`): what threads of a
//! process wait for of each other takes none of the machine's time, and ends.

use std::time::Duration;

fn spec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos() as libc::c_long,
    }
}

/// Since some time before the process began.
pub(crate) fn now() -> Duration {
    let mut time = spec(Duration::ZERO);
    // SAFETY: a plain system call with room for its answer.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Let this time pass, or less where a signal comes.
pub(crate) fn sleep(time: Duration) {
    let (time, left) = (spec(time), core::ptr::null_mut::<libc::timespec>());
    // SAFETY: a plain system call with a time that lives until it returns.
    unsafe {
        libc::syscall(
            libc::SYS_clock_nanosleep,
            libc::CLOCK_MONOTONIC,
            0,
            &raw const time,
            left,
        )
    };
}
