//! Ending every process below this one, however deep, and whatever group or session it is in. Works because this
//! process adopts orphans: whoever is started below it stays below it.

use farpost_job::watch::processes;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Processes below this one, from the process table.
pub fn list() -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in processes() {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some(parent) = parent_in(&stat) {
            children.entry(parent).or_default().push(pid as i32);
        }
    }
    let mut all = Vec::new();
    let mut next = vec![std::process::id() as i32];
    while let Some(pid) = next.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        all.extend(below.iter().copied().filter_map(Pid::from_raw));
        next.extend(below);
    }
    all
}

/// The parent in a line of `/proc/N/stat`: the second word after the name, which may hold anything but ends
/// with the last parenthesis.
fn parent_in(stat: &[u8]) -> Option<i32> {
    let end = stat.iter().rposition(|b| *b == b')')?;
    let text = std::str::from_utf8(&stat[end + 1..]).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Kill all processes below this one and wait until they are gone; for a few seconds at most, since a process
/// stuck in a device cannot be killed.
pub fn kill_all() {
    let give_up = Instant::now() + Duration::from_secs(3);
    loop {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // There are no children.
                Err(_) => return,
            }
        }
        if Instant::now() > give_up {
            return;
        }
        for pid in list() {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_confuse() {
        assert_eq!(parent_in(b"12 (a) R 7) S 34 12 12 0"), Some(34));
        assert_eq!(parent_in(b"12 (a"), None);
        assert_eq!(parent_in(b""), None);
    }

    #[test]
    fn own_children_are_found() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        assert!(list().contains(&Pid::from_child(&child)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
