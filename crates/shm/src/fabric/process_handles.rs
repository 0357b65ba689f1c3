//! Whether processes live: a pidfd for each process that was asked about, which becomes readable when it ends.
//!
//! A process is known by its number and by when it started: the kernel gives numbers out again.
//!
//! Cost class: *queued path*: a system call that only looks.

use farpost_fabric::Peer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};
use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};

/// Most pidfds kept open; the state of further processes is read from /proc.
const HANDLES_MAX: usize = 64;

/// A process: its number, and when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId {
    pub pid: u32,
    /// As [`born`] has it; 0: not known.
    pub started: u64,
}

impl ProcessId {
    fn number(self) -> Option<Pid> {
        Pid::from_raw(self.pid as libc::pid_t).filter(|_| self.pid <= i32::MAX as u32)
    }
}

/// Descriptors of processes (pidfd_open(2)), with the life each was opened for.
#[derive(Default)]
pub struct ProcessHandles(RefCell<HashMap<Peer, (ProcessId, OwnedFd)>>);

impl ProcessHandles {
    /// Whether the process `life`, which is `peer`, has ended, and how (a wait status) where the kernel tells.
    pub fn ended(&self, peer: Peer, life: ProcessId) -> Option<Option<i32>> {
        let mut known = self.0.borrow_mut();
        if known.get(&peer).is_none_or(|(of, _)| *of != life) {
            if known.len() >= HANDLES_MAX && !known.contains_key(&peer) {
                return has_ended(life).then_some(None);
            }
            let Some(fd) = life
                .number()
                .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            else {
                return has_ended(life).then_some(None);
            };
            // Read /proc once more: if the process still lives, the descriptor is its and of no later one.
            if has_ended(life) {
                return Some(None);
            }
            known.insert(peer, (life, fd));
        }
        let (_, fd) = &known[&peer];
        is_over(fd).then(|| status(fd))
    }
}

/// The process of a descriptor has ended.
fn is_over(fd: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|over| over > 0)
}

/// How the process of a descriptor has ended, a wait status: told by newer kernels (6.15), of processes that have been
/// waited for.
fn status(fd: &OwnedFd) -> Option<i32> {
    /// `struct pidfd_info`, as long as it has to be.
    #[repr(C)]
    struct Info {
        mask: u64,
        before: [u32; 13],
        exit_code: i32,
    }
    const { assert!(size_of::<Info>() == 64) };
    /// `PIDFD_INFO_EXIT`.
    const EXIT: u64 = 1 << 3;
    /// `PIDFD_GET_INFO`: `_IOWR(0xff, 11, struct pidfd_info)`.
    const GET_INFO: libc::c_ulong = 0xc040_ff0b;
    let mut info = Info {
        mask: EXIT,
        before: [0; 13],
        exit_code: 0,
    };
    // SAFETY: the number says how long `info` is; the kernel writes no more.
    let told = unsafe { libc::ioctl(fd.as_raw_fd(), GET_INFO as _, &raw mut info) };
    (told == 0 && info.mask & EXIT != 0).then_some(info.exit_code)
}

/// When a process started, in the kernel's count since the host did; `None`: it is gone, or cannot be asked.
pub fn started(pid: u32) -> Option<u64> {
    read(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?).map(|(_, started)| started)
}

/// Whether a process is gone, or dead and not yet waited for.
pub fn has_ended(life: ProcessId) -> bool {
    match std::fs::read_to_string(format!("/proc/{}/stat", life.pid)) {
        Ok(stat) => match read(&stat) {
            Some((dead, started)) => dead || life.started != 0 && started != life.started,
            None => false,
        },
        // ESRCH: it went while we were reading.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => true,
        // No descriptors left, say: then by a call that needs none.
        Err(_) => life
            .number()
            .is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH)),
    }
}

/// What the text of /proc/<pid>/stat says: whether the process has ended, and when it started. One whose first thread
/// has ended shows as a zombie too, while its other threads go on.
fn read(stat: &str) -> Option<(bool, u64)> {
    // The fields follow the name, which is in parentheses and may contain any: the state, 17 later the number of
    // threads, and 2 later the start (proc(5)).
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().take(20).collect();
    let [state, .., threads, _, started] = fields[..] else {
        return None;
    };
    let dead = ["Z", "X"].contains(&state) && ["0", "1"].contains(&threads);
    Some((dead, started.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(pid: u32) -> ProcessId {
        ProcessId {
            pid,
            started: started(pid).unwrap(),
        }
    }

    #[test]
    fn the_end_of_a_process_is_seen() {
        let lives = ProcessHandles::default();
        let me = life(std::process::id());
        let ended = |peer, life| lives.ended(Peer(peer), life);
        assert!(ended(0, me).is_none() && ended(0, me).is_none());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let its = life(child.id());
        assert!(ended(1, its).is_none());
        child.kill().unwrap();
        // Dead before it is waited for.
        while ended(1, its).is_none() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        // How it ended is told from some version of the kernel on, and then rightly.
        assert!(
            matches!(ended(1, its), Some(None | Some(9))),
            "{:?}",
            ended(1, its)
        );
        assert!(ended(2, its).is_some());
        assert!(ended(1, me).is_none());
    }

    #[test]
    fn a_number_used_again_is_another_process() {
        let lives = ProcessHandles::default();
        let me = life(std::process::id());
        let before = ProcessId {
            started: me.started - 1,
            ..me
        };
        assert_eq!(lives.ended(Peer(0), before), Some(None));
        assert!(has_ended(before) && !has_ended(me));
        assert!(lives.ended(Peer(0), me).is_none());
        // Who could not say when it started is known by its number alone.
        assert!(!has_ended(ProcessId { started: 0, ..me }));
    }

    #[test]
    fn who_has_ended() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let its = ProcessId {
            pid: child.id(),
            started: 0,
        };
        // Not waited for: it may be dead or not, and is afterwards.
        has_ended(its);
        child.wait().unwrap();
        assert!(has_ended(its));
        let stat = |state, threads| {
            format!("7 (a) b (c) {state} 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 {threads} 0 5 0 0\n")
        };
        for state in ["R", "S", "D", "T", "t", "I"] {
            assert_eq!(read(&stat(state, 1)), Some((false, 5)), "{state}");
        }
        assert_eq!(read(&stat("Z", 1)), Some((true, 5)));
        assert_eq!(read(&stat("X", 0)), Some((true, 5)));
        // The first thread has ended, two others go on.
        assert_eq!(read(&stat("Z", 3)), Some((false, 5)));
        assert_eq!(read(""), None);
    }
}
