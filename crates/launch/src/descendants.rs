//! Ending every process below this one, however deep, and whatever group or session it is in. Works because this
//! process adopts orphans: whoever is started below it stays below it.

use crate::sys::{self, Waited};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Processes below this one, from the process table.
pub fn list() -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    let Ok(table) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    for entry in table.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read(entry.path().join("stat")) else {
            continue;
        };
        if let Some(parent) = parent_in(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut all = Vec::new();
    let mut next = vec![std::process::id() as i32];
    while let Some(pid) = next.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        all.extend(&below);
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
            match sys::wait_any() {
                Waited::Child(..) => {}
                Waited::NotYet => break,
                Waited::None => return,
            }
        }
        if Instant::now() > give_up {
            return;
        }
        for pid in list() {
            sys::kill(pid, libc::SIGKILL);
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
        assert!(list().contains(&(child.id() as i32)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
