//! The agent of a host: one thread, one loop. It ends when it is told to (any signal), or when nobody has been there for a while.

use super::socket::{address, peer, receive, send, socket};
use farpost_portals::host::{Candidate, Hub, Memory, Refusal, question};
use farpost_portals::{ANY, Error};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, bind, listen};
use rustix::process::{PidfdFlags, Resource, Rlimit, geteuid, getrlimit, pidfd_open, setrlimit, setsid};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{Duration, Instant};

/// How long an agent that was started for somebody waits for the first member, and after the last one.
const FIRST: Duration = Duration::from_secs(10);
const LAST: Duration = Duration::from_secs(1);
/// Connections of whom nothing has been heard yet, at most.
const STRANGERS: usize = 64;
/// Memory for a member's objects, bytes.
const OBJECTS: u64 = 64 << 20;
/// Longest time that an answer is kept back, milliseconds.
const LONGEST_WAIT: u64 = 1000;
/// Descriptors: three for each member, and some.
const DESCRIPTORS: u64 = 4096;
/// As the kernel numbers the file system of processes.
const PROC: i64 = 0x9fa0;

/// What an agent does.
#[derive(Clone, Debug, Default)]
pub struct HostAgent {
    /// Users whose processes may come beside its own user's.
    pub allowed: Vec<u32>,
    /// It was started for a program, and is to end when it is not used any more.
    pub while_used: bool,
}

/// A process's memory, by its own descriptor of it: whatever becomes of the process and its number, this is its memory or none.
struct Shown(File);

impl Memory for Shown {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        self.0.read_exact_at(into, address).is_ok()
    }

    fn write(&self, address: u64, bytes: &[u8]) -> bool {
        self.0.write_all_at(bytes, address).is_ok()
    }
}

/// What has been opened, as the kernel calls it.
fn name(of: &OwnedFd) -> String {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", of.as_raw_fd()));
    link.map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}

/// A process's memory, if that is what it has shown. Another file could keep the agent waiting.
fn memory(shown: OwnedFd) -> Option<Shown> {
    let system = rustix::fs::fstatfs(&shown).ok()?;
    (system.f_type as i64 == PROC && name(&shown).ends_with("/mem")).then(|| Shown(shown.into()))
}

/// A job, by its memory, if that is what was shown.
fn job(shown: OwnedFd) -> Option<(u64, u64)> {
    let known = name(&shown).starts_with("/memfd:");
    let about = File::from(shown).metadata().ok().filter(|_| known)?;
    Some((about.dev(), about.ino()))
}

struct Connection {
    socket: OwnedFd,
    uid: u32,
    process: u32,
    /// Ready when the process has ended, though a child of it may hold the socket.
    ended: Option<OwnedFd>,
    /// As a member.
    pid: Option<u32>,
    /// An answer is kept back until then.
    waits: Option<Instant>,
}

struct Agent {
    options: HostAgent,
    owner: u32,
    listener: OwnedFd,
    connections: Vec<Connection>,
    hub: Hub<Shown>,
}

/// Be the agent of this host for this user; `ready` is called when processes can come.
///
/// # Errors
/// A sentence: there is one already, or there can be none.
pub fn host_agent(options: HostAgent, ready: impl FnOnce()) -> Result<(), String> {
    let owner = geteuid().as_raw();
    if options.while_used {
        detach();
    }
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit
        .maximum
        .map_or(DESCRIPTORS, |most| most.min(DESCRIPTORS))
        .max(limit.current.unwrap_or(DESCRIPTORS));
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(wanted),
            maximum: limit.maximum,
        },
    );
    let failed = |error: Errno| match error {
        Errno::ADDRINUSE => format!("user {owner} has a Portals agent on this host already"),
        other => format!("making the socket of this host's Portals agent: {other}"),
    };
    let listener = socket(SocketFlags::NONBLOCK).map_err(failed)?;
    bind(&listener, &address(owner).map_err(failed)?).map_err(failed)?;
    listen(&listener, 128).map_err(failed)?;
    ready();
    let mut agent = Agent {
        options,
        owner,
        listener,
        connections: Vec::new(),
        hub: Hub::new(OBJECTS),
    };
    let mut until = Instant::now() + FIRST;
    loop {
        if !agent.connections.is_empty() {
            until = Instant::now() + LAST;
        } else if agent.options.while_used && Instant::now() >= until {
            return Ok(());
        }
        agent.turn(until)?;
    }
}

/// Have nothing in common with whoever started it.
fn detach() {
    let _ = setsid();
    // SAFETY: takes integers. Nothing of this process has been opened yet: these are descriptors that the starting program left open, and
    // would keep pipes of its own from ending.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

impl Agent {
    /// Wait for something, and deal with it.
    fn turn(&mut self, until: Instant) -> Result<(), String> {
        let now = Instant::now();
        let deadlines = self.connections.iter().filter_map(|it| it.waits);
        let deadlines =
            deadlines.chain((self.options.while_used && self.connections.is_empty()).then_some(until));
        let timeout = deadlines.min().map(|at| at.saturating_duration_since(now));
        let (mut ready, comes) = self.poll(timeout)?;
        // From the end: what is put out moves nobody that has yet to be looked at.
        ready.reverse();
        for (at, asks) in ready {
            if !(asks && self.serve(at)) {
                self.put_out(at);
            }
        }
        self.answer_late();
        if comes {
            self.admit();
        }
        Ok(())
    }

    /// Connections for which something is to be done, by their place: whether they ask, or have ended; and whether somebody comes.
    fn poll(&self, timeout: Option<Duration>) -> Result<(Vec<(usize, bool)>, bool), String> {
        let mut polled = vec![PollFd::new(&self.listener, PollFlags::IN)];
        let mut places = vec![(usize::MAX, false)];
        for (at, it) in self.connections.iter().enumerate() {
            polled.push(PollFd::new(&it.socket, PollFlags::IN));
            places.push((at, true));
            if let Some(ended) = &it.ended {
                polled.push(PollFd::new(ended, PollFlags::IN));
                places.push((at, false));
            }
        }
        // Rounded up, so that no deadline is looked for in a loop.
        let timeout = timeout.and_then(|time| Timespec::try_from(time + Duration::from_millis(1)).ok());
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                return Err(format!(
                    "waiting for clients of this host's Portals agent: {error}"
                ));
            }
        }
        let mut ready: Vec<(usize, bool)> = Vec::new();
        let mut comes = false;
        for (fd, (at, socket)) in polled.iter().zip(places) {
            if fd.revents().is_empty() {
                continue;
            }
            match ready.last_mut() {
                _ if at == usize::MAX => comes = true,
                // It has ended: what it asked last matters to nobody.
                Some((last, asks)) if *last == at => *asks = false,
                _ => ready.push((at, socket)),
            }
        }
        Ok((ready, comes))
    }

    /// Take in who comes.
    fn admit(&mut self) {
        while let Ok(socket) = accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            let Ok(peer) = peer(&socket) else { continue };
            let unheard = self.connections.iter().filter(|it| it.pid.is_none()).count();
            if unheard >= STRANGERS
                && let Some(at) = self.connections.iter().position(|it| it.pid.is_none())
            {
                self.put_out(at);
            }
            self.connections.push(Connection {
                socket,
                uid: peer.uid.as_raw(),
                process: peer.pid.as_raw_nonzero().get() as u32,
                ended: pidfd_open(peer.pid, PidfdFlags::empty()).ok(),
                pid: None,
                waits: None,
            });
        }
    }

    /// Do what a connection asks. False: it has ended, or asks what cannot be asked.
    fn serve(&mut self, at: usize) -> bool {
        let it = &mut self.connections[at];
        let (words, beside) = match receive(&it.socket) {
            Ok(Some(message)) => message,
            Err(Errno::AGAIN) => return true,
            _ => return false,
        };
        let Some(pid) = it.pid else {
            let answer = self.join(at, &words, beside);
            let told = answer
                .as_ref()
                .map_or_else(|refusal| refusal.words(), Clone::clone);
            return send(&self.connections[at].socket, &told, &[]).is_ok() && answer.is_ok();
        };
        match words[..] {
            [question::LEAVE, ..] => {
                self.hub.leave(pid);
                let it = &mut self.connections[at];
                it.pid = None;
                let _ = send(&it.socket, &[0], &[]);
                false
            }
            [question::WAIT, time, ..] => {
                if self.hub.has_news(pid) {
                    return send(&it.socket, &[0], &[]).is_ok();
                }
                it.waits = Some(Instant::now() + Duration::from_millis(time.min(LONGEST_WAIT)));
                true
            }
            _ => match self.hub.ask(pid, &words) {
                Ok(told) => send(&it.socket, &told, &[]).is_ok(),
                Err(_) => false,
            },
        }
    }

    /// Somebody asks to join: what it is told.
    fn join(&mut self, at: usize, words: &[u64], beside: Vec<OwnedFd>) -> Result<Vec<u64>, Refusal> {
        let failed = |why: String| Refusal::new(Error::Fail, why);
        let it = &self.connections[at];
        if it.uid != self.owner && !self.options.allowed.contains(&it.uid) {
            return Err(failed(format!(
                "user {} may not use the Portals agent of user {} on this host: start it with farpost portals-host --allow {}",
                it.uid, self.owner, it.uid
            )));
        }
        let mut beside = beside.into_iter();
        let shown = beside.next().and_then(memory);
        let job = beside.next().and_then(job);
        let wants = Candidate::read(words, (it.uid, it.process, job));
        let wants = wants.map_err(|bad| {
            failed(format!(
                "this host's Portals agent does not know {} {}: is it of another version of Farpost?",
                bad.what, bad.value
            ))
        })?;
        let shown = shown.ok_or_else(|| {
            failed("the process has not shown its memory to this host's Portals agent".into())
        })?;
        let welcome = self.hub.join(&wants, shown)?;
        self.connections[at].pid = Some(welcome.identity.id.pid);
        Ok(welcome.words())
    }

    /// Answers that were kept back, of those to whom something has happened or whose time is over.
    fn answer_late(&mut self) {
        let rung = self.hub.rung();
        let now = Instant::now();
        for at in (0..self.connections.len()).rev() {
            let it = &mut self.connections[at];
            let Some(waits) = it.waits else { continue };
            let pid = it.pid.unwrap_or(ANY);
            if now < waits && !rung.contains(&pid) {
                continue;
            }
            it.waits = None;
            self.hub.has_news(pid);
            if send(&it.socket, &[0], &[]).is_err() {
                self.put_out(at);
            }
        }
    }

    fn put_out(&mut self, at: usize) {
        let gone = self.connections.swap_remove(at);
        if let Some(pid) = gone.pid {
            self.hub.leave(pid);
        }
    }
}
