//! The guardian: starts the ranks, brings their output, watches them, and sees to it that none of them or of what
//! they started outlives the job. It is a process of its own, in a group of its own, so that whatever kills the
//! front process leaves it to clean up, and the other way round.

use crate::plan::Plan;
use crate::plumbing::Plumbing;
use crate::report::{End, Failure, judge, judge_engine};
use crate::roll::Roll;
use crate::spawn::{self, REPORT_LEN};
use crate::widen::Widener;
use crate::{descendants, signals};
use farpost_job::RankState;
use farpost_job::lifeline::Lifeline;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::{ioctl_fionbio, read};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper, setpgid, wait,
};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// From asking the ranks to end to killing them.
const GRACE: Duration = Duration::from_millis(500);
/// The same for another launcher, which has to end ranks elsewhere first.
const ENGINE_GRACE: Duration = Duration::from_secs(5);
/// The same when the user is impatient.
const IMPATIENCE: Duration = Duration::from_secs(1);
/// Time between two looks whether ranks have joined a job of which others have ended outside.
const LOOK_OUTSIDE: Duration = Duration::from_millis(100);
/// Long enough to wait at once.
const A_DAY: Duration = Duration::from_secs(86_400);
/// mpiexec's exit code when `--timeout` ended the job.
pub const TIMEOUT_CODE: i32 = 124;

/// The guardian's name among processes.
pub const NAME: &std::ffi::CStr = c"farpost-guard";

const CONTROL: u64 = 0;
const CHILDREN: u64 = 1;

/// A rank's process or, after all ranks', a service's.
pub(crate) struct Rank {
    /// `None`: it could not be started.
    pub(crate) pid: Option<Pid>,
    pub(crate) end: Option<End>,
}

pub(crate) struct Guardian<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) io: Plumbing,
    pub(crate) ranks: Vec<Rank>,
    pub(crate) by_pid: HashMap<Pid, u32>,
    errors: OwnedFd,
    start_errors: HashMap<u32, (String, i32)>,
    pub(crate) first: Option<Failure>,
    pub(crate) roll: Roll,
    /// Ranks that have ended well without having joined the job.
    outside: Vec<u32>,
    /// When to kill what has not ended by then.
    kill_at: Option<Instant>,
    killed: bool,
    timeout_at: Option<Instant>,
    widener: Option<Widener>,
}

/// Run the job; the result is mpiexec's exit code. `control` brings signals from the front process, and ends
/// when that dies.
pub fn run(plan: &Plan, control: &OwnedFd, lifeline: &Lifeline) -> i32 {
    let _ = rustix::thread::set_name(NAME);
    let _ = set_child_subreaper(Some(getpid()));
    // Out of the group that a shell or a terminal sends signals to.
    let _ = setpgid(None, None);
    for signal in signals::FORWARDED
        .iter()
        .chain(&[Signal::TTIN, Signal::TTOU, Signal::PIPE])
    {
        if *signal != Signal::CONT {
            signals::ignore(*signal);
        }
    }
    signals::block(libc::SIG_SETMASK, &[Signal::CHILD]);
    match Guardian::new(plan, control) {
        Ok((mut guardian, errors, children)) => {
            let code = guardian.job(errors, control, &children, lifeline);
            descendants::kill_all();
            // A job whose output is lost has not succeeded.
            if guardian.io.finish(control) {
                code
            } else {
                code.max(1)
            }
        }
        Err(e) => {
            eprintln!("mpiexec: cannot watch the ranks: {e}");
            1
        }
    }
}

impl<'a> Guardian<'a> {
    fn new(plan: &'a Plan, control: &OwnedFd) -> std::io::Result<(Self, OwnedFd, OwnedFd)> {
        let (errors, errors_in) = pipe_with(PipeFlags::CLOEXEC)?;
        ioctl_fionbio(&errors, true)?;
        let io = Plumbing::new(plan.options.marks)?;
        let children = signals::descriptor(&[Signal::CHILD])?;
        for (fd, token) in [(control, CONTROL), (&children, CHILDREN)] {
            epoll::add(&io.epoll, fd, EventData::new_u64(token), EventFlags::IN)?;
        }
        let guardian = Guardian {
            plan,
            io,
            ranks: Vec::with_capacity(plan.job.app_of.len()),
            by_pid: HashMap::new(),
            errors,
            start_errors: HashMap::new(),
            first: None,
            outside: Vec::new(),
            roll: Roll::new(plan.job.engine.is_none()),
            kill_at: None,
            killed: false,
            timeout_at: plan.options.timeout.map(|t| Instant::now() + t),
            widener: Widener::new(
                plan.job.bound_by_default,
                &plan.job.cpus,
                &crate::cores::allowed(),
            ),
        };
        Ok((guardian, errors_in, children))
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.io.say(text);
    }

    fn job(&mut self, errors: OwnedFd, control: &OwnedFd, children: &OwnedFd, lifeline: &Lifeline) -> i32 {
        self.start_all(errors, lifeline);
        let mut ready = Vec::with_capacity(64);
        while self.ranks.iter().any(|r| r.end.is_none()) {
            if self.ranks[..self.plan.job.ranks()]
                .iter()
                .all(|r| r.end.is_some())
            {
                // The services have nobody left to serve.
                self.end_ranks();
            }
            self.io.watch_sinks();
            let _ = epoll::wait(
                &self.io.epoll,
                spare_capacity(&mut ready),
                self.next_deadline().as_ref(),
            );
            for event in ready.drain(..) {
                match event.data.u64() {
                    CONTROL => {
                        if !self.control(control) {
                            // The front process is gone; nobody is left to report to.
                            if self.plan.job.engine.is_some() {
                                self.end_ranks();
                                let _ = epoll::delete(&self.io.epoll, control);
                                continue;
                            }
                            descendants::kill_all();
                            return 1;
                        }
                    }
                    CHILDREN => {
                        while signals::next(children).is_some() {}
                        self.reap();
                    }
                    other => self.io.ready(other),
                }
            }
            self.deadlines();
        }
        self.first.as_ref().map_or(0, |f| f.code)
    }

    /// What the front process wants. `false`: it is gone.
    fn control(&mut self, control: &OwnedFd) -> bool {
        let mut bytes = [0; 64];
        match read(control, &mut bytes) {
            Ok(0) => return false,
            Ok(n) => {
                for byte in &bytes[..n] {
                    match *byte {
                        signals::KILL_NOW if self.plan.job.engine.is_some() => {
                            self.end_ranks();
                            self.kill_at = Some(Instant::now() + IMPATIENCE);
                        }
                        signals::KILL_NOW => self.kill_all(),
                        number => match Signal::from_named_raw(number.into()) {
                            Some(signal) if self.plan.options.waits_signal == Some(signal) => {
                                self.tell_roll();
                            }
                            Some(signal) => {
                                if signals::ENDING.contains(&signal) {
                                    self.keep_roll();
                                }
                                // Services end when the ranks have.
                                self.signal_ranks(signal, self.plan.job.ranks());
                            }
                            None => {}
                        },
                    }
                }
            }
            Err(_) => {}
        }
        true
    }

    /// Tell the first `count` processes.
    fn signal_ranks(&self, signal: Signal, count: usize) {
        let running = self.ranks.iter().take(count).filter(|r| r.end.is_none());
        for pid in running.filter_map(|r| r.pid) {
            // The rank may have left the group it was given. Another launcher tells its own helpers itself.
            if self.plan.job.engine.is_some() || kill_process_group(pid, signal).is_err() {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Ask the ranks to end; kill them a little later.
    fn end_ranks(&mut self) {
        if self.kill_at.is_none() {
            self.signal_ranks(Signal::TERM, usize::MAX);
            self.signal_ranks(Signal::CONT, usize::MAX);
            let grace = self.plan.job.engine.map_or(GRACE, |_| ENGINE_GRACE);
            self.kill_at = Some(Instant::now() + grace);
        }
    }

    fn kill_all(&mut self) {
        self.signal_ranks(Signal::KILL, usize::MAX);
        for pid in descendants::list() {
            let _ = kill_process(pid, Signal::KILL);
        }
        self.killed = true;
        self.kill_at = None;
    }

    fn reap(&mut self) {
        let mut failures = Vec::new();
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let Some(rank) = self.by_pid.remove(&pid) else {
                continue;
            };
            let status = status.as_raw();
            let end = End::of(status);
            self.ranks[rank as usize].end = Some(end);
            // Who waits for it learns how it ended.
            self.plan.memory.set_ended(rank, status);
            if self.plan.options.verbose {
                let who = match self.plan.job.engine {
                    None if !self.plan.job.is_service(rank) => format!("rank {rank}"),
                    _ => self.plan.job.name(rank),
                };
                self.say(&format!("{who} {end}"));
            }
            if self.first.as_ref().is_none_or(|f| !f.ends_job) {
                failures.extend(self.judge(rank, end));
            }
        }
        // A rank that has aborted but not ended yet is the cause of what others do about it.
        if !failures.is_empty() {
            let memory = &self.plan.memory;
            let aborting = (0..self.ranks.len() as u32)
                .filter(|r| self.ranks[*r as usize].end.is_none() && memory.state(*r) == RankState::Aborted);
            failures.extend(
                aborting
                    .filter_map(|r| judge(r, End::Exit(1), RankState::Aborted, || memory.abort_reason(r))),
            );
            failures.sort_by_key(|f: &Failure| f.weight);
            // Where the others go on, each failure is one of its own.
            failures.truncate(if self.plan.options.go_on { usize::MAX } else { 1 });
            for failure in failures {
                self.fail(failure);
            }
        }
    }

    fn judge(&mut self, rank: u32, end: End) -> Option<Failure> {
        if end == End::Exit(127) {
            let mut report = [0; REPORT_LEN];
            while let Ok(REPORT_LEN) = read(&self.errors, &mut report) {
                let (rank, what, code) = spawn::read_report(&report);
                self.start_errors.insert(rank, (what, code));
            }
            if let Some((what, code)) = self.start_errors.remove(&rank) {
                return Some(Failure {
                    rank,
                    what,
                    code,
                    ends_job: true,
                    weight: 0,
                });
            }
        }
        if self.plan.job.engine.is_some() {
            return judge_engine(end);
        }
        let memory = &self.plan.memory;
        let state = memory.state(rank);
        let busy = self.ranks[..self.plan.job.ranks()]
            .iter()
            .any(|r| r.end.is_none());
        // One that was not there yet leaves its clients waiting.
        if self.plan.job.is_service(rank) && (!busy || state == RankState::Finalised) {
            if busy {
                self.service_ended(rank, end);
            }
            return None;
        }
        if end == End::Exit(0) && matches!(state, RankState::Waiting | RankState::Started) {
            // All is well unless others have joined, or will.
            self.outside.push(rank);
        }
        let mut failure = judge(rank, end, state, || memory.abort_reason(rank))?;
        // Who aborts asks for the end of all.
        failure.ends_job &= !self.plan.options.go_on || state == RankState::Aborted;
        Some(failure)
    }

    /// Ranks that have joined the job cannot come to an end with others that never will.
    fn look_outside(&mut self) {
        let memory = &self.plan.memory;
        let ranks = self.plan.job.ranks() as u32;
        let waits = |rank: &u32| {
            self.ranks[*rank as usize].end.is_none() && memory.state(*rank) == RankState::Initialised
        };
        if self.outside.is_empty() || self.kill_at.is_some() || self.killed {
            return;
        }
        let Some(inside) = (0..ranks).find(waits) else {
            return;
        };
        let outside = std::mem::take(&mut self.outside);
        let more = match outside.len() - 1 {
            0 => String::new(),
            1 => ", as did another rank".into(),
            more => format!(", as did {more} other ranks"),
        };
        self.fail(Failure {
            rank: outside[0],
            what: format!(
                "exited with code 0 without having called MPI_Init (or its like), which rank {inside} has{more}"
            ),
            code: 1,
            ends_job: !self.plan.options.go_on,
            weight: 2,
        });
    }

    /// A service that was there has ended: those that it served are told, and what they make of it is their affair.
    fn service_ended(&mut self, number: u32, end: End) {
        if self.kill_at.is_some() || end == End::Exit(0) || self.plan.options.quiet {
            return;
        }
        self.io.drain_rank(number);
        let name = self.plan.job.name(number);
        self.say(&format!(
            "{name} {end}; its clients are told, and the job goes on"
        ));
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        // What the rank has said comes before what is said about it.
        self.io.drain_rank(failure.rank);
        let ranks = self.ranks.iter().take(self.plan.job.ranks());
        let others = ranks.filter(|r| r.end.is_none()).count();
        let end = if failure.ends_job && others > 0 {
            "; ending the others"
        } else {
            ""
        };
        // Of failures that let the job go on, one is told; of a launcher's, those that it cannot tell itself.
        let told =
            self.plan.options.quiet || !failure.ends_job && self.first.is_some() && !self.plan.options.go_on;
        if let Some(engine) = self.plan.job.engine {
            if !failure.what.is_empty() {
                self.say(&format!("{engine} {}", failure.what));
            }
        } else if !told {
            let name = self.plan.job.name(failure.rank);
            self.say(&format!("{name} {}{end}", failure.what));
            if failure.ends_job && (others > 0 || self.roll.is_kept()) {
                self.tell_roll_at_end();
            }
        }
        let ends_job = failure.ends_job;
        // The first failure decides, unless it was one that lets the job go on.
        if self.first.is_none() {
            self.first = Some(failure);
        } else if let Some(first) = &mut self.first {
            first.ends_job |= ends_job;
        }
        if ends_job {
            self.end_ranks();
        }
    }

    fn next_deadline(&self) -> Option<Timespec> {
        let next = self
            .io
            .next_deadline()
            .into_iter()
            .chain(self.kill_at)
            .chain(self.timeout_at)
            .chain((!self.outside.is_empty()).then(|| Instant::now() + LOOK_OUTSIDE))
            .chain(self.roll.next)
            .chain(self.widener.as_ref().and_then(Widener::next))
            .min();
        let left = next?.saturating_duration_since(Instant::now());
        Timespec::try_from(left.min(A_DAY) + Duration::from_millis(1)).ok()
    }

    fn deadlines(&mut self) {
        let now = Instant::now();
        if let Some(widener) = &mut self.widener {
            widener.look(now, |rank| self.plan.memory.pid(rank));
        }
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill_all();
        }
        if self.first.as_ref().is_some_and(|f| f.ends_job) {
            // The job is ending already.
            self.timeout_at = None;
        }
        if self.timeout_at.is_some_and(|at| at <= now) {
            self.timeout_at = None;
            let limit = self.plan.options.timeout.unwrap_or_default();
            self.say(&format!(
                "the job did not end within {} s (--timeout); ending it",
                limit.as_secs_f64()
            ));
            self.tell_roll_at_end();
            let what = String::new();
            self.first = Some(Failure {
                rank: 0,
                what,
                code: TIMEOUT_CODE,
                ends_job: true,
                weight: 0,
            });
            self.end_ranks();
        }
        self.look_outside();
        self.watch_roll(now);
        self.io.show_partial_lines(now);
    }
}
