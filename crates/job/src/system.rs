//! What the system knows of this host and lets this process do.

/// Cores this process may use: affinity mask and cgroup quota.
pub fn allowed_cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// Let siblings read and write this process's memory where the Yama security module would forbid it: the
/// launcher and all below it may.
pub(crate) fn allow_attach(launcher: u32) {
    if launcher != 0 && std::path::Path::new("/proc/sys/kernel/yama/ptrace_scope").exists() {
        // SAFETY: takes integers; on failure cross-memory attach is simply not available.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::from(launcher), 0, 0, 0) };
    }
}

pub(crate) fn online_cores() -> u32 {
    // SAFETY: takes an integer.
    let n = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(n).unwrap_or(1).max(1)
}

/// The name of this host.
pub fn host_name() -> String {
    let mut buffer = [0u8; 256];
    // SAFETY: the kernel writes at most 255 bytes; the last stays zero.
    unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), 255) };
    let end = buffer.iter().position(|b| *b == 0).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..end]).into_owned()
}
