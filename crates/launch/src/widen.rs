//! A rank that was bound without being asked, and has more threads than its domain has hardware threads, is given back all
//! that the job may use: no program is squeezed.

use crate::cores::cpu_set;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::time::{Duration, Instant};

/// Time between two looks: short at first, since programs start their threads early.
const EVERY: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// Looks after the ranks of a job.
pub struct Widener {
    /// For each rank its hardware threads; empty: not bound, or not any more.
    domains: Vec<usize>,
    all: CpuSet,
    every: Duration,
    next: Option<Instant>,
}

impl Widener {
    /// For ranks bound to `cpus` out of `allowed`; where nothing is to be done, it does nothing.
    pub fn new(by_default: bool, cpus: &[Vec<usize>], allowed: &[usize]) -> Option<Widener> {
        let domains: Vec<usize> = cpus.iter().map(Vec::len).collect();
        let all = cpu_set(allowed)?;
        (by_default && domains.iter().any(|d| *d > 0)).then(|| Widener {
            domains,
            all,
            every: EVERY[0],
            next: Some(Instant::now() + EVERY[0]),
        })
    }

    /// When to look again.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Look, if it is time. `pid` tells the process of a rank, 0 for none.
    pub fn look(&mut self, now: Instant, pid: impl Fn(u32) -> u32) {
        if self.next.is_none_or(|at| now < at) {
            return;
        }
        for rank in 0..self.domains.len() {
            let (width, pid) = (self.domains[rank], pid(rank as u32));
            if width > 0 && pid != 0 && threads(pid) > width {
                widen(pid, &self.all);
                self.domains[rank] = 0;
            }
        }
        self.every = (self.every * 2).min(EVERY[1]);
        self.next = self.domains.iter().any(|d| *d > 0).then(|| now + self.every);
    }
}

/// Threads of a process: the links of its directory of tasks, without two. One system call, however many there are.
fn threads(pid: u32) -> usize {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(format!("/proc/{pid}/task")).map_or(0, |m| m.nlink().saturating_sub(2) as usize)
}

/// Let all threads of a process run on `cpus`. Threads inherit from who makes them; those made meanwhile by one that was
/// not yet told are found in another turn.
fn widen(pid: u32, cpus: &CpuSet) {
    for _ in 0..3 {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
            return;
        };
        for task in tasks.flatten() {
            if let Some(tid) = task.file_name().to_str().and_then(|n| n.parse().ok()) {
                // A thread that has ended is an error, which says nothing.
                let _ = sched_setaffinity(Pid::from_raw(tid), cpus);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::allowed;

    #[test]
    fn a_process_with_more_threads_than_its_domain_gets_everything() {
        let all = allowed();
        if all.len() < 2 {
            return;
        }
        let one = cpu_set(&all[..1]).unwrap();
        let (ready, told) = std::sync::mpsc::channel();
        let (quit, end) = std::sync::mpsc::channel::<()>();
        // Of this process only the new thread is bound; the widener looks at the whole process.
        let thread = std::thread::spawn(move || {
            sched_setaffinity(None, &one).unwrap();
            let bound = allowed();
            ready.send(()).unwrap();
            let _ = end.recv();
            (bound, allowed())
        });
        told.recv().unwrap();
        let me = std::process::id();
        assert!(threads(me) >= 2);
        let mut widener = Widener::new(true, &[vec![all[0]]], &all).unwrap();
        let now = Instant::now();
        widener.look(now, |_| me);
        assert!(widener.next().is_some(), "not yet");
        widener.look(now + EVERY[0] * 2, |_| me);
        assert!(widener.next().is_none(), "nothing is left to look after");
        drop(quit);
        let (before, after) = thread.join().unwrap();
        assert_eq!((before, after), (all[..1].to_vec(), all));
        assert!(Widener::new(false, &[vec![0]], &[0, 1]).is_none());
    }
}
