//! The front process: what the user started. It makes the guardian, forwards signals and what is typed to it, and
//! cleans up should the guardian die.

use crate::guardian;
use crate::options::{Options, Stdin};
use crate::plan::{Plan, PlannedJob};
use crate::refusal::Refusal;
use crate::report::{End, signal_name};
use crate::signals::{self, ENDING, FORWARDED, KILL_NOW};
use crate::{descendants, spawn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, getpgrp, getpid, kill_process, set_child_subreaper, wait};
use rustix::stdio::stdin;
use rustix::termios::tcgetpgrp;
use std::io::{Error, IsTerminal};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Time between two looks whether this process has come to the foreground.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

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
    let ours = [Signal::TTIN, Signal::TTOU];
    let default_signals: Vec<Signal> = FORWARDED
        .iter()
        .chain(&ours)
        .copied()
        .filter(|s| !signals::is_ignored(*s))
        .chain([Signal::PIPE])
        .collect();
    let mask = signals::block(libc::SIG_BLOCK, &[]);
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
    let terminal = rustix::stdio::stdin().is_terminal();
    let mut readers: Vec<Option<OwnedFd>> = (0..ranks).map(|_| None).collect();
    let mut targets = Vec::new();
    for rank in 0..ranks {
        let wanted = match stdin {
            Stdin::All => true,
            Stdin::Rank(r) => r == rank && terminal,
            Stdin::Nobody => false,
        };
        if wanted {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
            ioctl_fionbio(&writer, true)?;
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
                match write(&*fd, &buffer[*done..]) {
                    Ok(n) => *done += n,
                    Err(Errno::AGAIN) => break,
                    Err(_) => return false, // the rank has closed its input
                }
            }
            true
        });
    }

    fn fill(&mut self) {
        self.buffer.resize(64 << 10, 0);
        match read(stdin(), &mut self.buffer) {
            Ok(n) if n > 0 => {
                self.buffer.truncate(n);
                self.targets.iter_mut().for_each(|t| t.1 = 0);
                self.pass_on();
            }
            Err(Errno::AGAIN) => {
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
    let _ = set_child_subreaper(Some(getpid()));
    let (control, commands) = pipe_with(PipeFlags::CLOEXEC)
        .map_err(|e| refusal!(system: "cannot make a pipe: {}", Error::from(e)))?;
    // Held by this process and its guardian alone, until they end.
    let lifeline = farpost_job::lifeline::Lifeline::of(&plan.memory);
    let lifeline = lifeline.map_err(|e| Refusal::system(e.to_string()))?;
    let mut handled: Vec<Signal> = plan
        .default_signals
        .iter()
        .copied()
        .filter(|s| FORWARDED.contains(s))
        // Asked for, it counts also where it was ignored, as SIGHUP is by nohup.
        .filter(|s| Some(*s) != plan.options.waits_signal)
        .chain(plan.options.waits_signal)
        .collect();
    handled.push(Signal::CHILD);
    signals::block(libc::SIG_BLOCK, &handled);
    let signals = signals::descriptor(&handled).map_err(|e| refusal!(system: "cannot watch signals: {e}"))?;
    // SAFETY: this program has no other threads that could hold a lock; the child runs the guardian and exits.
    let guardian = unsafe { spawn::fork() };
    let guardian = guardian.map_err(|e| refusal!(system: "cannot start its guardian: {e}"))?;
    let Some(guardian) = guardian else {
        drop((commands, signals, pump));
        let code = guardian::run(&plan, &control, &lifeline);
        std::process::exit(code);
    };
    drop(control);
    let (verbose, waits_signal) = (plan.options.verbose, plan.options.waits_signal);
    // Held until the end: ranks whose descriptor was closed on the way find the job memory here.
    let _memory = plan.memory;
    drop(plan.stdin);
    signals::ignore(Signal::PIPE);
    if verbose {
        eprintln!("mpiexec: process {} watches the ranks", guardian);
    }
    Ok(watch(guardian, &commands, &signals, &mut pump, waits_signal))
}

fn watch(
    guardian: Pid,
    commands: &OwnedFd,
    signals: &OwnedFd,
    pump: &mut Option<Pump>,
    waits_signal: Option<Signal>,
) -> i32 {
    let mut endings = 0;
    let mut kill_guardian_at: Option<Instant> = None;
    loop {
        let timeout = wait_for_something(signals, pump, kill_guardian_at);
        while let Some(signal) = signals::next(signals) {
            let mut byte = signal.as_raw() as u8;
            if Some(signal) == waits_signal {
                let _ = write(commands, &[byte]);
                continue;
            }
            match signal {
                Signal::CHILD => {
                    if let Some(code) = guardian_ended(guardian) {
                        return code;
                    }
                    continue;
                }
                _ if ENDING.contains(&signal) => {
                    endings += 1;
                    if endings > 1 {
                        byte = KILL_NOW;
                        kill_guardian_at.get_or_insert(Instant::now() + Duration::from_secs(2));
                    }
                }
                _ => {}
            }
            let _ = write(commands, &[byte]);
            if signal == Signal::TSTP {
                // Stop as well, so that the shell takes over; SIGCONT will be forwarded.
                let _ = kill_process(getpid(), Signal::STOP);
            }
        }
        if timeout && kill_guardian_at.is_some_and(|at| at <= Instant::now()) {
            // It is stuck, perhaps writing to somebody who does not read.
            let _ = kill_process(guardian, Signal::KILL);
            kill_guardian_at = None;
        }
    }
}

/// Wait for a signal, moving input meanwhile. `true`: a deadline may have passed.
fn wait_for_something(signals: &OwnedFd, pump: &mut Option<Pump>, deadline: Option<Instant>) -> bool {
    if pump.as_ref().is_some_and(|p| p.targets.is_empty()) {
        *pump = None;
    }
    let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
    let mut timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
    let mut reading = false;
    if let Some(pump) = pump {
        if pump.wants_input() {
            reading = !pump.terminal || tcgetpgrp(stdin()) == Ok(getpgrp());
            if reading {
                fds.push(PollFd::from_borrowed_fd(stdin(), PollFlags::IN));
            } else {
                timeout = Some(timeout.map_or(LOOK_AGAIN, |t| t.min(LOOK_AGAIN)));
            }
        } else {
            let behind = pump.targets.iter().filter(|t| t.1 < pump.buffer.len());
            fds.extend(behind.map(|t| PollFd::new(&t.0, PollFlags::OUT)));
        }
        // Ranks that have closed their input show as errors without being asked for.
    }
    let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
    let _ = poll(&mut fds, timeout.as_ref());
    let moves = fds[1..].iter().any(|f| !f.revents().is_empty());
    if let Some(pump) = pump
        && moves
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
fn guardian_ended(guardian: Pid) -> Option<i32> {
    let mut code = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == guardian {
            code = Some(match End::of(status.as_raw()) {
                End::Exit(code) => code,
                End::Signal(signal) => {
                    eprintln!(
                        "mpiexec: its guardian process was killed by {}; ended all ranks",
                        signal_name(signal)
                    );
                    128 + signal
                }
            });
        }
    }
    if code.is_some() {
        descendants::kill_all();
    }
    code
}
