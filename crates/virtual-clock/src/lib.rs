//! Stands in for the system's clocks and sleeps in programs that `farpost sim --virtual-clock` runs: they show, and take, virtual time. Loaded before the
//! program (`LD_PRELOAD`).
//!
//! Until the program joins its job its time stands at the start, but for what looks at the clock take. Processor-time clocks are the system's.

use farpost_simlink::shared_clock::Words;
use farpost_simlink::time::Ps;
use libc::{c_int, c_long, c_uint, clockid_t, time_t, timespec, timeval, useconds_t};

/// What a look takes until the machine says it: 25 ns.
const TICK: u64 = 25_000;

/// The calendar's time at the start: 1 January 2000, 0:00 UTC.
const EPOCH: i64 = 946_684_800;

/// The clock of this process. The library that joins the job finds it by its name.
#[unsafe(no_mangle)]
pub static farpost_virtual_clock: Words = Words::new(TICK);

fn parts(now: Ps, since: i64) -> (time_t, c_long) {
    let nanos = now.nanos();
    let seconds = since + (nanos / 1_000_000_000) as i64;
    (seconds, (nanos % 1_000_000_000) as c_long)
}

/// Whether a clock shows the time that passes, and where it starts.
fn start(clock: clockid_t) -> Option<i64> {
    match clock {
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_BOOTTIME => Some(0),
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => Some(EPOCH),
        _ => None,
    }
}

/// See `clock_gettime(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    let Some(since) = start(clock) else {
        // SAFETY: the caller's promise is the same.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int };
    };
    let (tv_sec, tv_nsec) = parts(farpost_virtual_clock.look(), since);
    if !time.is_null() {
        // SAFETY: the caller has room there.
        unsafe { time.write(timespec { tv_sec, tv_nsec }) };
    }
    0
}

/// See `gettimeofday(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut timeval, _zone: *mut libc::c_void) -> c_int {
    let (tv_sec, nanos) = parts(farpost_virtual_clock.look(), EPOCH);
    if !time.is_null() {
        let tv_usec = nanos / 1_000;
        // SAFETY: the caller has room there.
        unsafe { time.write(timeval { tv_sec, tv_usec }) };
    }
    0
}

/// See `time(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(time: *mut time_t) -> time_t {
    let (seconds, _) = parts(farpost_virtual_clock.look(), EPOCH);
    if !time.is_null() {
        // SAFETY: the caller has room there.
        unsafe { time.write(seconds) };
    }
    seconds
}

fn fail(error: c_int) -> c_int {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() = error };
    -1
}

fn span(time: &timespec) -> Option<Ps> {
    let (seconds, nanos) = (
        u64::try_from(time.tv_sec).ok()?,
        u64::try_from(time.tv_nsec).ok()?,
    );
    (nanos < 1_000_000_000)
        .then(|| Ps::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos)))
}

/// See `nanosleep(2)`. Nothing interrupts it.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanosleep(time: *const timespec, _left: *mut timespec) -> c_int {
    // SAFETY: the caller's.
    match unsafe { time.as_ref() }.map(span) {
        Some(Some(time)) => {
            farpost_virtual_clock.spend(time);
            0
        }
        Some(None) => fail(libc::EINVAL),
        None => fail(libc::EFAULT),
    }
}

/// See `clock_nanosleep(2)`. Nothing interrupts it.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
) -> c_int {
    let Some(since) = start(clock) else {
        // SAFETY: the caller's promise is the same.
        let failed = unsafe { libc::syscall(libc::SYS_clock_nanosleep, clock, flags, time, left) } != 0;
        if !failed {
            return 0;
        }
        // SAFETY: this thread's own.
        return unsafe { *libc::__errno_location() };
    };
    // SAFETY: the caller's.
    let Some(time) = (unsafe { time.as_ref() }) else {
        return libc::EFAULT;
    };
    if flags & libc::TIMER_ABSTIME == 0 {
        return match span(time) {
            Some(time) => {
                farpost_virtual_clock.spend(time);
                0
            }
            None => libc::EINVAL,
        };
    }
    let tv_sec = time.tv_sec - since;
    let until = span(&timespec { tv_sec, ..*time });
    farpost_virtual_clock.spend(until.unwrap_or(Ps::ZERO) - farpost_virtual_clock.now());
    0
}

/// See `usleep(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn usleep(micros: useconds_t) -> c_int {
    farpost_virtual_clock.spend(Ps::from_nanos(u64::from(micros) * 1_000));
    0
}

/// See `sleep(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn sleep(seconds: c_uint) -> c_uint {
    farpost_virtual_clock.spend(Ps::from_nanos(u64::from(seconds) * 1_000_000_000));
    0
}
