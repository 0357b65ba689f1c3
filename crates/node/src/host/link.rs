//! A process's connection to its host's agent.

use super::HostRefusal;
use super::socket::{address, peer, receive, send, socket};
use crate::node::{Node, NodeFabric};
use crate::place::OWNER;
use crate::settings::this_library;
use farpost_fabric::Time;
use farpost_fabric::wait::{WaitPolicy, WaitTunables};
use farpost_job::Origin;
use farpost_portals::host::{Link, Member};
use farpost_portals::{AnyInterface, Error, Limits};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SocketFlags, connect};
use rustix::process::geteuid;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// A connection. The first question takes descriptors along.
struct Socket {
    socket: OwnedFd,
    beside: RefCell<Vec<OwnedFd>>,
    agent: i32,
    /// How long it may take for an answer before that is said, and as long again before it is given up.
    patience: Duration,
    say: fn(&str),
    /// It has been given up.
    silent: Rc<Cell<bool>>,
}

/// Whether a process is stopped, by a signal or a debugger.
fn is_stopped(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it may have anything in it.
    let state = status
        .rsplit(')')
        .next()
        .and_then(|rest| rest.trim_start().chars().next());
    matches!(state, Some('T' | 't'))
}

/// What is wrong with an agent that does not answer.
fn silence(agent: i32, patience: Duration) -> String {
    let stopped = if is_stopped(agent) { ": it is stopped" } else { "" };
    format!(
        "this host's Portals agent, process {agent}, has not answered for {:.0} s{stopped}",
        patience.as_secs_f64()
    )
}

impl Link for Socket {
    fn ask(&self, request: &[u64]) -> Option<Vec<u64>> {
        let beside = self.beside.take();
        let shown: Vec<_> = beside.iter().map(AsFd::as_fd).collect();
        send(&self.socket, request, &shown).ok()?;
        let mut said = false;
        loop {
            match receive(&self.socket) {
                Ok(Some((words, _))) => return Some(words),
                Err(Errno::AGAIN) if !said => {
                    said = true;
                    (self.say)(&silence(self.agent, self.patience));
                }
                Err(Errno::AGAIN) => {
                    (self.say)(&format!(
                        "{}: it is given up",
                        silence(self.agent, 2 * self.patience)
                    ));
                    self.silent.set(true);
                    return None;
                }
                _ => return None,
            }
        }
    }
}

fn failed(why: impl Into<String>) -> HostRefusal {
    HostRefusal::new(Error::Fail, why)
}

impl Node {
    /// An interface of this host, with this pid or any (`PTL_PID_ANY`). What has to be said while it is used is said by `say`.
    ///
    /// # Errors
    /// A code and a sentence: there is no agent, or it refuses.
    pub fn portals_host(
        &self,
        pid: u32,
        limits: Option<&Limits>,
        say: fn(&str),
    ) -> Result<AnyInterface<NodeFabric>, HostRefusal> {
        if self.is_simulated() {
            return Err(failed(
                "a simulated machine's hosts have no Portals agents of their own",
            ));
        }
        let own = geteuid().as_raw();
        let owner = match std::env::var(OWNER) {
            Ok(value) if !value.is_empty() => value
                .parse()
                .map_err(|_| failed(format!("{OWNER}={value}: the number of a user is wanted")))?,
            _ => own,
        };
        let deadline = Instant::now() + self.settings.start_timeout();
        loop {
            let link = self.link(owner, own, deadline, say)?;
            let (agent, patience, silent) = (link.agent, link.patience, Rc::clone(&link.silent));
            // Every look asks the agent: what it has to say comes by the question that waits.
            let wait = WaitTunables {
                spin_us: 0,
                yields: 0,
            };
            let policy = WaitPolicy::new(&wait, 1, 1, Rc::clone(self.fabric.clock()));
            match Member::join(Box::new(link), pid, limits, policy) {
                Ok(member) => return Ok(AnyInterface::Host(Box::new(member))),
                Err(_) if silent.get() => return Err(failed(silence(agent, 2 * patience))),
                // It was about to end.
                Err(refusal) if refusal.ended && Instant::now() < deadline => {}
                Err(refusal) => return Err(refusal),
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn link(&self, owner: u32, own: u32, deadline: Instant, say: fn(&str)) -> Result<Socket, HostRefusal> {
        let fault = |what: &str, error: &dyn std::fmt::Display| failed(format!("{what}: {error}"));
        let at = address(owner).map_err(|e| fault("the address of this host's Portals agent", &e))?;
        let mut started = false;
        let socket = loop {
            let socket = socket(SocketFlags::empty()).map_err(|e| fault("making a socket", &e))?;
            match connect(&socket, &at) {
                Ok(()) => break socket,
                Err(Errno::CONNREFUSED | Errno::AGAIN) if started && Instant::now() < deadline => {
                    std::thread::sleep(PAUSE);
                }
                Err(Errno::CONNREFUSED) if owner == own && self.job.origin() == Origin::Alone && !started => {
                    start().map_err(failed)?;
                    started = true;
                }
                Err(Errno::CONNREFUSED) => {
                    return Err(failed(format!(
                        "user {owner} has no Portals agent on this host: start the service first, a program without mpiexec, or an \
                         agent by hand (farpost portals-host)"
                    )));
                }
                Err(Errno::AGAIN) if Instant::now() < deadline => std::thread::sleep(PAUSE),
                Err(error) => return Err(fault("reaching this host's Portals agent", &error)),
            }
        };
        let agent = peer(&socket).map_err(|e| fault("asking whose this host's Portals agent is", &e))?;
        let uid = agent.uid.as_raw();
        if uid != owner && uid != 0 {
            return Err(failed(format!(
                "user {uid} holds the address of user {owner}'s Portals agent on this host: it gets to see nothing of this process"
            )));
        }
        let patience = Duration::from_millis(self.settings.portals_agent.host_patience);
        set_socket_timeout(&socket, Timeout::Recv, Some(patience))
            .map_err(|e| fault("setting a socket's patience", &e))?;
        let memory = File::options().read(true).write(true).open("/proc/self/mem");
        let memory =
            memory.map_err(|e| fault("opening this process's memory for its agent, /proc/self/mem", &e))?;
        let job = self.job.host_memory().fd.try_clone_to_owned();
        let job = job.map_err(|e| fault("showing the job to this host's Portals agent", &e))?;
        Ok(Socket {
            socket,
            beside: RefCell::new(vec![memory.into(), job]),
            agent: agent.pid.as_raw_nonzero().get(),
            patience,
            say,
            silent: Rc::default(),
        })
    }
}

/// Start an agent that ends by itself, and wait until it is there.
fn start() -> Result<(), String> {
    let program = farpost().ok_or(
        "this host has no Portals agent, and there is no farpost to start one, beside this library or in the PATH: start one by hand (farpost \
         portals-host)",
    )?;
    let ended = Command::new(&program)
        .args(["portals-host", "--start"])
        .stdin(Stdio::null())
        .output();
    match ended {
        Ok(ended) if ended.status.success() => Ok(()),
        Ok(ended) => Err(format!(
            "starting this host's Portals agent, {}: {}",
            program.display(),
            String::from_utf8_lossy(&ended.stderr).trim_end()
        )),
        // The program wants to hear of no child: whether there is an agent now is seen when it is asked.
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(()),
        Err(error) => Err(format!(
            "starting this host's Portals agent, {}: {error}",
            program.display()
        )),
    }
}

/// The program beside this library: of an installation, or where Cargo builds.
fn farpost() -> Option<PathBuf> {
    let library = this_library().and_then(|file| file.canonicalize().ok());
    let folder = library.as_deref().and_then(std::path::Path::parent);
    let beside = folder.map(|folder| [folder.join("../bin"), folder.into(), folder.join("..")]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = beside.into_iter().flatten().chain(std::env::split_paths(&path));
    places
        .map(|place| place.join("farpost"))
        .find(|file| file.is_file())
}

/// Start an agent apart from this process, which ends by itself when it is not used any more.
///
/// # Errors
/// A sentence: it could not be started. That there is one already is none.
pub fn start_host_agent() -> Result<(), String> {
    let failed = |error: std::io::Error| format!("starting this host's Portals agent: {error}");
    let own = std::env::current_exe().map_err(failed)?;
    let mut child = Command::new(own)
        .args(["portals-host", "--while-used"])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let mut said = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut said).map_err(failed)?;
    }
    match said.trim_end() {
        "ready" => Ok(()),
        "" => Err("this host's Portals agent ended at once".into()),
        why if why.contains("already") => Ok(()),
        why => Err(why.into()),
    }
}
