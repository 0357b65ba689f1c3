//! Sockets to processes.

use crate::memory::OwnProcess;
use farpost_simlink::wire::LONGEST;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen,
    recv, send, socket_with,
};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How a process and the coordinator speak: one question and one answer at a time.
pub trait Connection {
    /// What the process says within `wait`, or however long it takes where it runs only meanwhile.
    fn hear(&mut self, wait: Duration) -> Said;
    /// The answer to its question. False: it is gone.
    fn tell(&mut self, bytes: &[u8]) -> bool;
    /// By which its memory is reached.
    fn process(&self) -> OwnProcess;
    /// What it does, in a word for people.
    fn state(&self) -> &'static str;
    /// What the program's threads do beside the one that speaks, without those of the library.
    fn threads(&self) -> OtherThreads;
    /// It ends, as one whose host has died.
    fn kill(&mut self);
    /// It has left the machine, and does the rest on its own.
    fn let_go(self: Box<Self>);
}

/// Where processes reach the coordinator. Nothing of it is in the file system.
pub struct Listener {
    socket: OwnedFd,
    name: String,
}

/// A connection to a process.
pub(super) struct Socket {
    socket: OwnedFd,
    /// As the kernel says.
    pid: i32,
    buffer: Vec<u8>,
}

/// What a process has said.
pub enum Said {
    Something(Vec<u8>),
    Nothing,
    Gone,
}

/// Whether there is something to read within `wait`.
fn readable(socket: &OwnedFd, wait: Duration) -> Result<bool, Errno> {
    let time = Timespec {
        tv_sec: wait.as_secs() as _,
        tv_nsec: wait.subsec_nanos().into(),
    };
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&time)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Listener {
    /// Under a name that nobody else has.
    ///
    /// # Errors
    /// A sentence.
    pub fn new() -> Result<Self, String> {
        let refused = |error: Errno| format!("opening the coordinator's socket: {error}");
        let name = format!("farpost-sim-{}-{:016x}", std::process::id(), fastrand::u64(..));
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(refused)?;
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None).map_err(refused)?;
        bind(&socket, &address).map_err(refused)?;
        listen(&socket, 4096).map_err(refused)?;
        Ok(Self { socket, name })
    }

    /// What processes find in [`SOCKET`](farpost_simlink::wire::SOCKET).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next process of this user's, if one comes within `wait`.
    pub(super) fn accept(&self, wait: Duration) -> Result<Option<Socket>, String> {
        let failed = |error: Errno| format!("waiting for processes: {error}");
        if !readable(&self.socket, wait).map_err(failed)? {
            return Ok(None);
        }
        let socket = match accept_with(&self.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::INTR | Errno::AGAIN | Errno::CONNABORTED) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let who = socket_peercred(&socket).map_err(failed)?;
        // Everybody may connect to an abstract name.
        if who.uid != rustix::process::geteuid() {
            return Ok(None);
        }
        Ok(Some(Socket {
            socket,
            pid: who.pid.as_raw_nonzero().get(),
            buffer: vec![0; LONGEST],
        }))
    }
}

/// What threads of a program do that do not speak to the coordinator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OtherThreads {
    None,
    /// Whatever they wait for, it may be over some day.
    Wait,
    Compute,
}

/// The letter of a thread's state in its line of `/proc`.
fn state_of(stat: &str) -> Option<char> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.trim_start().chars().next()
}

impl OtherThreads {
    /// From the lines of all threads of a process; its own waits for the coordinator.
    fn of(stats: &[String]) -> Self {
        let of_program = |stat: &&String| {
            let name = stat.split_once('(').map(|(_, rest)| rest);
            name.is_some_and(|name| !name.starts_with("farpost-"))
        };
        let threads: Vec<&String> = stats.iter().filter(of_program).collect();
        let computes = |stat: &&String| matches!(state_of(stat), Some('R' | 'D'));
        match threads.len() {
            0 | 1 => Self::None,
            _ if threads.iter().any(computes) => Self::Compute,
            _ => Self::Wait,
        }
    }
}

impl Connection for Socket {
    fn hear(&mut self, wait: Duration) -> Said {
        // A datagram that is there needs no poll.
        match recv(&self.socket, &mut self.buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Said::Gone,
            Ok((len, _)) => return Said::Something(self.buffer[..len].to_vec()),
            Err(Errno::AGAIN | Errno::INTR) if !wait.is_zero() => {}
            Err(Errno::AGAIN | Errno::INTR) => return Said::Nothing,
            Err(_) => return Said::Gone,
        }
        match readable(&self.socket, wait) {
            Ok(true) => self.hear(Duration::ZERO),
            Ok(false) => Said::Nothing,
            Err(_) => Said::Gone,
        }
    }

    fn tell(&mut self, bytes: &[u8]) -> bool {
        loop {
            match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(_) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    fn process(&self) -> OwnProcess {
        OwnProcess::new(self.pid)
    }

    fn let_go(self: Box<Self>) {}

    fn threads(&self) -> OtherThreads {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{}/task", self.pid)) else {
            return OtherThreads::None;
        };
        let stat = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("stat")).ok();
        let stats: Vec<String> = tasks.filter_map(|task| stat(task.ok()?)).collect();
        OtherThreads::of(&stats)
    }

    fn kill(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid) {
            // It may have ended by itself.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    fn state(&self) -> &'static str {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        match state_of(&stat) {
            Some('R') => "computes",
            Some('S' | 'D' | 'I') => "sleeps",
            Some('T' | 't') => "is stopped",
            _ => "has ended",
        }
    }
}

/// Programs started from now on have everything at the same addresses in every run.
///
/// # Errors
/// The system refuses (some containers).
pub fn without_randomisation() -> std::io::Result<()> {
    // SAFETY: two plain system calls: the flags of this process, and the same with one more.
    let set = unsafe {
        let now = libc::personality(0xffff_ffff);
        libc::personality(now as libc::c_ulong | libc::ADDR_NO_RANDOMIZE as libc::c_ulong)
    };
    if set < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_program_count_and_those_of_the_library_do_not() {
        let all =
            |lines: &[&str]| OtherThreads::of(&lines.iter().map(ToString::to_string).collect::<Vec<_>>());
        let program = "7 (a) b(c) S 1 7";
        assert_eq!(all(&[program]), OtherThreads::None);
        assert_eq!(all(&[program, "8 (farpost-rest) R 1 7"]), OtherThreads::None);
        assert_eq!(all(&[program, "9 (a) b(c) S 1 7"]), OtherThreads::Wait);
        assert_eq!(all(&[program, "9 (a) b(c) R 1 7"]), OtherThreads::Compute);
        assert_eq!(
            all(&[program, "9 (a) b(c) Z 1 7", "8 (R) D 1 7"]),
            OtherThreads::Compute
        );
        assert_eq!(all(&[]), OtherThreads::None);
    }
}
