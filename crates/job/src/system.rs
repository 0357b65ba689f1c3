//! What the system knows of this host and lets this process do.

use rustix::process::{PTracer, Pid, set_ptracer};

/// Cores this process may use: affinity mask and cgroup quota.
pub fn allowed_cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// Let siblings read and write this process's memory where the Yama security module would forbid it: the
/// launcher and all below it may.
pub(crate) fn allow_attach(launcher: u32) {
    if let Some(launcher) = Pid::from_raw(launcher as i32)
        && std::path::Path::new("/proc/sys/kernel/yama/ptrace_scope").exists()
    {
        // On failure cross-memory attach is simply not available.
        let _ = set_ptracer(PTracer::ProcessID(launcher));
    }
}

pub(crate) fn online_cores() -> u32 {
    // SAFETY: takes an integer.
    let n = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(n).unwrap_or(1).max(1)
}

/// The name of this host.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
