//! What runs on this host's cores now, and which of them ranks of other jobs are bound to: for choosing cores.
//!
//! A look, not a promise: what starts a moment later is not seen, nor what runs in another process namespace.

use crate::{cores, guardian};
use std::collections::{BTreeMap, BTreeSet};

/// Threads of one process that are looked at.
const THREADS: usize = 64;

/// A line of `/proc/PID/stat`, as far as it is needed.
#[derive(Debug, PartialEq, Eq)]
struct Stat<'a> {
    name: &'a str,
    runs: bool,
    parent: u32,
    threads: usize,
    processor: usize,
}

fn parse(line: &str) -> Option<Stat<'_>> {
    // The name is in parentheses and may hold anything.
    let (before, after) = line.rsplit_once(") ")?;
    let (_, name) = before.split_once(" (")?;
    let field: Vec<&str> = after.split_ascii_whitespace().collect();
    Some(Stat {
        name,
        runs: *field.first()? == "R",
        parent: field.get(1)?.parse().ok()?,
        threads: field.get(17)?.parse().ok()?,
        processor: field.get(36)?.parse().ok()?,
    })
}

/// How much runs on each hardware thread, in processes: each running thread counts for the one it is on, each rank of a
/// job of Farpost's that is bound counts for those it is bound to, running or not.
pub fn load() -> BTreeMap<usize, f64> {
    let mut load: BTreeMap<usize, f64> = BTreeMap::new();
    let own = [std::process::id(), std::os::unix::process::parent_id()];
    let (mut guards, mut others) = (BTreeSet::new(), Vec::new());
    for pid in farpost_job::watch::processes() {
        let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        let Some(stat) = parse(&text) else { continue };
        if own.contains(&pid) {
            continue;
        }
        if stat.name.as_bytes() == guardian::NAME.to_bytes() {
            guards.insert(pid);
            continue;
        }
        let mut on = Vec::new();
        if stat.threads > 1 {
            on.extend(running_threads(pid));
        } else if stat.runs {
            on.push(stat.processor);
        }
        others.push((pid, stat.parent, on));
    }
    let everything =
        cores::parse_list(&std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default());
    for (pid, parent, on) in others {
        let bound = guards.contains(&parent).then(|| cores::allowed_to(pid)).flatten();
        match bound {
            Some(cpus) if !cpus.is_empty() && cpus.len() < everything.len() => {
                let share = 1.0 / cpus.len() as f64;
                cpus.into_iter()
                    .for_each(|cpu| *load.entry(cpu).or_default() += share);
            }
            _ => on
                .into_iter()
                .for_each(|cpu| *load.entry(cpu).or_default() += 1.0),
        }
    }
    load
}

fn running_threads(pid: u32) -> Vec<usize> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let on = |entry: std::fs::DirEntry| {
        let text = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let stat = parse(&text)?;
        stat.runs.then_some(stat.processor)
    };
    tasks.flatten().take(THREADS).filter_map(on).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_confuse() {
        let mut fields = vec!["0"; 50];
        (fields[0], fields[1], fields[17], fields[36]) = ("R", "77", "3", "5");
        let line = format!("123 (a ) b (c)) {}", fields.join(" "));
        let wanted = Stat {
            name: "a ) b (c)",
            runs: true,
            parent: 77,
            threads: 3,
            processor: 5,
        };
        assert_eq!(parse(&line), Some(wanted));
        assert_eq!(parse("123 (x) R 1"), None);
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        let own = parse(&own).unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id());
    }

    #[test]
    fn a_busy_process_is_seen() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let seen = (0..10_000).any(|_| load().values().any(|l| *l >= 1.0));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen);
    }
}
