//! The front process: what the user started. It makes the guardian, forwards signals and what is typed to it, and
//! cleans up should the guardian die.

use crate::guardian;
use crate::options::{Options, Stdin};
use crate::plan::{Plan, PlannedJob};
use crate::refusal::Refusal;
use crate::signals::{FORWARDED, KILL_NOW};
use crate::{descendants, report, sys};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Copies what comes in on standard input to pipes. Used at terminals, which only a process in the foreground
/// may read, and to give every rank a copy.
pub struct Pump {
    /// Writing ends, and how much of the buffer each has taken.
    pub targets: Vec<(OwnedFd, usize)>,
    buffer: Vec<u8>,
    /// A regular file is always ready.
    terminal: bool,
}

/// Start the job, and return mpiexec's exit code when it has ended.
///
/// # Errors
/// The system does not let us.
pub fn launch(options: Options, job: PlannedJob) -> Result<i32, Refusal> {
    let size = job.app_of.len() as u32;
    let mut memory = farpost_job::JobMemory::create(&farpost_job::NewJob {
        size,
        services: job.roles.services(),
        launcher: std::process::id(),
        allowed_cores: farpost_job::allowed_cores(),
        bound: job.own_cores,
    })
    .map_err(|e| Refusal::system(e.to_string()))?;
    // Out of the way of scripts that open files by small numbers.
    memory.move_fd_above(200);
    let ranks = size - job.roles.services();
    let (pump, mut stdin) = inputs(options.stdin, ranks)
        .map_err(|e| refusal!(system: "cannot make the pipes for standard input: {e}"))?;
    stdin.resize_with(size as usize, || None);
    // What was ignored when we were started (by nohup, or a shell's '&') stays so, for us and for the ranks.
    let ours = [libc::SIGTTIN, libc::SIGTTOU];
    let default_signals: Vec<i32> = FORWARDED
        .iter()
        .chain(&ours)
        .copied()
        .filter(|s| !sys::is_ignored(*s))
        .chain([libc::SIGPIPE])
        .collect();
    let mask = sys::block(&[]);
    let plan = Plan {
        options,
        job,
        memory,
        stdin,
        mask,
        default_signals,
    };
    run(plan, pump)
}

/// Who reads what: the pump, if one is needed, and each rank's reading end.
fn inputs(stdin: Stdin, ranks: u32) -> std::io::Result<(Option<Pump>, Vec<Option<OwnedFd>>)> {
    let terminal = sys::is_terminal(0);
    let mut readers: Vec<Option<OwnedFd>> = (0..ranks).map(|_| None).collect();
    let mut targets = Vec::new();
    for rank in 0..ranks {
        let wanted = match stdin {
            Stdin::All => true,
            Stdin::Rank(r) => r == rank && terminal,
            Stdin::Nobody => false,
        };
        if wanted {
            let (reader, writer) = sys::pipe()?;
            sys::set_nonblocking(&writer)?;
            readers[rank as usize] = Some(reader);
            targets.push((writer, 0));
        }
    }
    let pump = (!targets.is_empty()).then_some(Pump {
        targets,
        buffer: Vec::new(),
        terminal,
    });
    Ok((pump, readers))
}

impl Pump {
    /// Everything read so far has been passed on.
    fn wants_input(&self) -> bool {
        self.targets.iter().all(|t| t.1 == self.buffer.len())
    }

    fn pass_on(&mut self) {
        let buffer = &self.buffer;
        self.targets.retain_mut(|(fd, done)| {
            while *done < buffer.len() {
                match sys::write(fd.as_raw_fd(), &buffer[*done..]) {
                    Ok(n) => *done += n,
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(_) => return false, // the rank has closed its input
                }
            }
            true
        });
    }

    fn fill(&mut self) {
        self.buffer.resize(64 << 10, 0);
        match sys::read(0, &mut self.buffer) {
            Ok(n) if n > 0 => {
                self.buffer.truncate(n);
                self.targets.iter_mut().for_each(|t| t.1 = 0);
                self.pass_on();
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                self.buffer.clear();
                self.targets.iter_mut().for_each(|t| t.1 = 0);
            }
            // The end, or nothing readable: the ranks see the end.
            _ => self.targets.clear(),
        }
    }
}

/// Run the job and return mpiexec's exit code.
fn run(plan: Plan, mut pump: Option<Pump>) -> Result<i32, Refusal> {
    sys::adopt_orphans();
    let (control, commands) = sys::pipe().map_err(|e| refusal!(system: "cannot make a pipe: {e}"))?;
    // Held by this process and its guardian alone, until they end.
    let lifeline = farpost_job::lifeline::Lifeline::of(&plan.memory);
    let lifeline = lifeline.map_err(|e| Refusal::system(e.to_string()))?;
    let watched: Vec<i32> = plan
        .default_signals
        .iter()
        .copied()
        .filter(|s| FORWARDED.contains(s))
        // Asked for, it counts also where it was ignored, as SIGHUP is by nohup.
        .filter(|s| Some(*s) != plan.options.waits_signal)
        .chain(plan.options.waits_signal)
        .collect();
    let mut handled = watched;
    handled.push(libc::SIGCHLD);
    sys::block(&handled);
    let signals = sys::signal_fd(&handled).map_err(|e| refusal!(system: "cannot watch signals: {e}"))?;
    // SAFETY: this program has no other threads that could hold a lock; the child runs the guardian and exits.
    let guardian = match unsafe { libc::fork() } {
        -1 => {
            let why = std::io::Error::last_os_error();
            return refuse!(system: "cannot start its guardian: {why}");
        }
        0 => {
            drop((commands, signals, pump));
            let code = guardian::run(&plan, &control, &lifeline);
            std::process::exit(code);
        }
        pid => pid,
    };
    drop(control);
    let (verbose, waits_signal) = (plan.options.verbose, plan.options.waits_signal);
    // Held until the end: ranks whose descriptor was closed on the way find the job memory here.
    let _memory = plan.memory;
    drop(plan.stdin);
    sys::ignore(libc::SIGPIPE);
    if verbose {
        eprintln!("mpiexec: process {} watches the ranks", guardian);
    }
    Ok(watch(guardian, &commands, &signals, &mut pump, waits_signal))
}

fn watch(
    guardian: i32,
    commands: &OwnedFd,
    signals: &OwnedFd,
    pump: &mut Option<Pump>,
    waits_signal: Option<i32>,
) -> i32 {
    let mut endings = 0;
    let mut kill_guardian_at: Option<Instant> = None;
    loop {
        let timeout = wait_for_something(signals, pump, kill_guardian_at);
        while let Some(signal) = sys::next_signal(signals) {
            let mut byte = signal as u8;
            if Some(signal) == waits_signal {
                let _ = sys::write(commands.as_raw_fd(), &[byte]);
                continue;
            }
            match signal {
                libc::SIGCHLD => {
                    if let Some(code) = guardian_ended(guardian) {
                        return code;
                    }
                    continue;
                }
                libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT => {
                    endings += 1;
                    if endings > 1 {
                        byte = KILL_NOW;
                        kill_guardian_at.get_or_insert(Instant::now() + Duration::from_secs(2));
                    }
                }
                _ => {}
            }
            let _ = sys::write(commands.as_raw_fd(), &[byte]);
            if signal == libc::SIGTSTP {
                // Stop as well, so that the shell takes over; SIGCONT will be forwarded.
                sys::kill(std::process::id() as i32, libc::SIGSTOP);
            }
        }
        if timeout && kill_guardian_at.is_some_and(|at| at <= Instant::now()) {
            // It is stuck, perhaps writing to somebody who does not read.
            sys::kill(guardian, libc::SIGKILL);
            kill_guardian_at = None;
        }
    }
}

/// Wait for a signal, moving input meanwhile. `true`: a deadline may have passed.
fn wait_for_something(signals: &OwnedFd, pump: &mut Option<Pump>, deadline: Option<Instant>) -> bool {
    if pump.as_ref().is_some_and(|p| p.targets.is_empty()) {
        *pump = None;
    }
    let mut fds = vec![sys::poll_fd(signals.as_raw_fd(), libc::POLLIN)];
    let mut timeout = deadline.map_or(-1, |at| {
        at.saturating_duration_since(Instant::now()).as_millis() as i32 + 1
    });
    let mut reading = false;
    if let Some(pump) = pump {
        if pump.wants_input() {
            reading = !pump.terminal || sys::in_foreground(0);
            if reading {
                fds.push(sys::poll_fd(0, libc::POLLIN));
            } else {
                timeout = if timeout < 0 { 300 } else { timeout.min(300) };
            }
        } else {
            let behind = pump.targets.iter().filter(|t| t.1 < pump.buffer.len());
            fds.extend(behind.map(|t| sys::poll_fd(t.0.as_raw_fd(), libc::POLLOUT)));
        }
        // Ranks that have closed their input show as errors without being asked for.
    }
    sys::poll(&mut fds, timeout);
    if let Some(pump) = pump
        && fds[1..].iter().any(|f| f.revents != 0)
    {
        if reading {
            pump.fill();
        } else {
            pump.pass_on();
        }
    }
    deadline.is_some()
}

/// Has the guardian ended? Then everything else has to, and this is mpiexec's exit code.
fn guardian_ended(guardian: i32) -> Option<i32> {
    let mut code = None;
    let mut take = |pid: i32, status: i32| {
        if pid == guardian {
            code = Some(if libc::WIFSIGNALED(status) {
                let signal = libc::WTERMSIG(status);
                eprintln!(
                    "mpiexec: its guardian process was killed by {}; ended all ranks",
                    report::signal_name(signal)
                );
                128 + signal
            } else {
                libc::WEXITSTATUS(status)
            });
        }
    };
    while let sys::Waited::Child(pid, status) = sys::wait_any() {
        take(pid, status);
    }
    if code.is_some() {
        descendants::kill_all();
    }
    code
}
