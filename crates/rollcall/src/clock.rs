//! Clocks of the host, of this process, and of waiting for a processor.

/// Nanoseconds of the clock that all processes of a host share.
pub fn now() -> u64 {
    nanoseconds(rustix::time::ClockId::Monotonic)
}

/// Nanoseconds of processor time that all threads of this process have used.
pub(crate) fn used() -> u64 {
    nanoseconds(rustix::time::ClockId::ProcessCPUTime)
}

/// Nanoseconds for which this thread could have run and had no processor (proc(5), schedstat); 0 where the kernel does not count them.
pub(crate) fn waited_for_processor() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let field = text.split_ascii_whitespace().nth(1);
    field.and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

fn nanoseconds(clock: rustix::time::ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
