//! `farpost doctor`: what on this host makes jobs fast, slow or impossible, and what to do about it.

use crate::output;
use std::fmt::Write;
use std::fs;
use std::process::ExitCode;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// As it should be.
    Ok,
    /// Works, and costs time.
    Slow,
    /// Does not work.
    Bad,
}

/// One line of the report.
struct Finding {
    verdict: Verdict,
    what: &'static str,
    told: String,
}

fn ok(what: &'static str, told: impl Into<String>) -> Finding {
    let (verdict, told) = (Verdict::Ok, told.into());
    Finding { verdict, what, told }
}

fn slow(what: &'static str, told: impl Into<String>) -> Finding {
    let verdict = Verdict::Slow;
    Finding {
        verdict,
        ..ok(what, told)
    }
}

fn bad(what: &'static str, told: impl Into<String>) -> Finding {
    let verdict = Verdict::Bad;
    Finding {
        verdict,
        ..ok(what, told)
    }
}

/// Exit code 0 if nothing is bad.
pub fn run() -> ExitCode {
    let findings = [
        cores(),
        memfd(),
        membarrier(),
        cross_memory(),
        huge_pages(),
        open_files(),
        processes(),
        locked_memory(),
        network(),
        library(),
        libfabric(),
        launcher(),
    ];
    let mut text = String::new();
    for f in &findings {
        let word = match f.verdict {
            Verdict::Ok => "ok  ",
            Verdict::Slow => "slow",
            Verdict::Bad => "bad ",
        };
        let _ = writeln!(text, "{word}  {:<20} {}", f.what, f.told);
    }
    output::out(&text);
    let bad = findings.iter().any(|f| f.verdict == Verdict::Bad);
    if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|t| t.trim().to_owned())
}

/// Processors' worth of time the control group allows, if it limits them: (of which file, cores).
fn quota() -> Option<f64> {
    let own = read("/proc/self/cgroup").unwrap_or_default();
    let v2 = own
        .lines()
        .find_map(|l| l.strip_prefix("0::"))
        .unwrap_or("/")
        .trim_end_matches('/')
        .to_owned();
    let unified = [
        format!("/sys/fs/cgroup{v2}/cpu.max"),
        "/sys/fs/cgroup/cpu.max".into(),
    ];
    let v2 = unified.iter().filter_map(|p| parse_cpu_max(&read(p)?)).next();
    v2.or_else(|| {
        let number = |name: &str| read(&format!("/sys/fs/cgroup/cpu/{name}"))?.parse::<f64>().ok();
        let (quota, period) = (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?);
        (quota > 0.0 && period > 0.0).then(|| quota / period)
    })
}

fn parse_cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| quota / period)
}

/// What libfabric has for messages between hosts. Absent is no fault: only adapters with remote memory need it.
fn libfabric() -> Finding {
    use farpost_ofi::{OfiError, OfiOptions, Verdict as Use, adapter, survey};
    const WHAT: &str = "libfabric";
    let adapter = adapter();
    match survey(&OfiOptions::from_environment()) {
        Err(OfiError::Absent { .. }) if adapter.is_none() => {
            ok(WHAT, "not installed; no adapter here would need it")
        }
        Err(error) => {
            let needed = adapter.map_or(String::new(), |a| {
                format!(" (adapter {a} is not used without it)")
            });
            slow(WHAT, format!("{error}{needed}"))
        }
        Ok(providers) => {
            let used = providers.iter().find(|p| p.verdict == Use::Chosen);
            let rest = "the others: farpost info --fabrics";
            match used {
                Some(p) => {
                    let told = format!("{} on {}; {rest}", p.name, p.domain);
                    ok(WHAT, told)
                }
                None => slow(WHAT, format!("no provider fits; {rest}")),
            }
        }
    }
}

fn cores() -> Finding {
    // Counts the affinity mask and the quota; the quota is read again to be able to name it.
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let limit = quota().map_or(String::new(), |q| format!(", control group quota {q:.1} cores"));
    let told = format!("{allowed} allowed{limit}");
    match allowed {
        1 => slow(
            "cores",
            format!("{told}; ranks take turns: allow more cores (taskset, cpuset, --cpus)"),
        ),
        _ => ok(
            "cores",
            format!("{told}; up to {allowed} ranks run without taking turns"),
        ),
    }
}

/// Interfaces for messages between hosts, with what the environment says about them.
fn network() -> Finding {
    use farpost_net::interfaces::{Choice, Class, INTERFACE_VARIABLE, PORTS_VARIABLE, PortRange, interfaces};
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let chosen = || {
        PortRange::parse(&variable(PORTS_VARIABLE)).map_err(|e| e.to_string())?;
        let choice = Choice::parse(&variable(INTERFACE_VARIABLE)).map_err(|e| e.to_string())?;
        let all = interfaces().map_err(|e| format!("listing them: {e}"))?;
        choice.apply(&all).map_err(|e| e.to_string())
    };
    match chosen() {
        Ok(c) if c.interfaces.iter().all(|i| i.class == Class::Loopback) => {
            ok("network", format!("{}: jobs on this host only", c.sentence()))
        }
        Ok(c) => ok("network", c.sentence()),
        Err(why) => bad("network", why),
    }
}

fn memfd() -> Finding {
    match rustix::fs::memfd_create("farpost-doctor", rustix::fs::MemfdFlags::CLOEXEC) {
        Ok(_) => ok("memfd", "memory shared by a job's ranks can be made"),
        Err(e) => bad(
            "memfd",
            format!("memfd_create: {e}; allow it in the container's seccomp profile"),
        ),
    }
}

fn membarrier() -> Finding {
    // The kind the shared-memory fabric uses: a process about to sleep pays, senders do not.
    if rustix::thread::membarrier_query().contains_command(rustix::thread::MembarrierCommand::GlobalExpedited)
    {
        return ok("membarrier", "senders need no fence");
    }
    let told = "not offered: every message pays a fence; Linux 4.16 or later, and seccomp profiles that allow it, have it";
    slow("membarrier", told)
}

fn cross_memory() -> Finding {
    if let Err(e) = farpost_shm::cross_memory_available() {
        let told = format!(
            "process_vm_readv: {e}; very long messages take two copies; allow it in the container's seccomp profile"
        );
        return slow("cross-memory attach", told);
    }
    let scope = read("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_else(|| "0".into());
    match scope.as_str() {
        "0" => ok(
            "cross-memory attach",
            "no Yama restriction; very long messages can move in one copy",
        ),
        "1" => ok(
            "cross-memory attach",
            "Yama ptrace_scope 1: works where ranks permit each other, else two copies",
        ),
        other => slow(
            "cross-memory attach",
            format!(
                "Yama ptrace_scope {other}: very long messages take two copies; sysctl kernel.yama.ptrace_scope=1"
            ),
        ),
    }
}

fn huge_pages() -> Finding {
    let chosen = |text: String| text.split('[').nth(1)?.split(']').next().map(str::to_owned);
    let shmem = read("/sys/kernel/mm/transparent_hugepage/shmem_enabled").and_then(chosen);
    match shmem.as_deref() {
        Some("never" | "deny") => slow(
            "huge pages",
            "shared memory uses small pages; echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled",
        ),
        Some(mode) => ok("huge pages", format!("shared memory may use them ({mode})")),
        None => slow(
            "huge pages",
            "this kernel has no huge pages for shared memory; long messages touch more page tables",
        ),
    }
}

fn limit(which: rustix::process::Resource) -> Option<u64> {
    rustix::process::getrlimit(which).current
}

fn open_files() -> Finding {
    match limit(rustix::process::Resource::Nofile) {
        Some(n) if n < 256 => bad(
            "open files",
            format!("limit {n}; a job of many ranks needs more: ulimit -n 1024"),
        ),
        Some(n) => ok("open files", format!("limit {n}")),
        None => ok("open files", "unlimited"),
    }
}

fn processes() -> Finding {
    match limit(rustix::process::Resource::Nproc) {
        Some(n) if n < 128 => bad(
            "processes",
            format!("limit {n}; ulimit -u 1024 allows larger jobs"),
        ),
        Some(n) => ok("processes", format!("limit {n}")),
        None => ok("processes", "unlimited"),
    }
}

fn locked_memory() -> Finding {
    // Nothing is locked on the shm fabric: this tells only whether a network adapter could be used later.
    let told = match limit(rustix::process::Resource::Memlock) {
        Some(n) => format!("limit {} KiB; enough, shared memory is not locked", n / 1024),
        None => "unlimited".into(),
    };
    ok("locked memory", told)
}

fn library() -> Finding {
    let path = farpost_bench::abi::find_library();
    if path.exists() {
        ok("library", path.display().to_string())
    } else {
        bad(
            "library",
            "libmpi_abi.so.1 is neither in ../lib beside farpost nor in LD_LIBRARY_PATH; run make install",
        )
    }
}

fn launcher() -> Finding {
    match farpost_bench::launch::mpiexec() {
        Ok(path) => ok("launcher", path.display().to_string()),
        Err(e) => bad("launcher", format!("{e}; run make install")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_read_in_cores() {
        assert_eq!(parse_cpu_max("150000 100000"), Some(1.5));
        assert_eq!(parse_cpu_max("max 100000"), None);
        assert_eq!(parse_cpu_max(""), None);
    }
}
