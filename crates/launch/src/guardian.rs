//! The guardian: starts the ranks, brings their output, watches them, and sees to it that none of them or of what
//! they started outlives the job. It is a process of its own, in a group of its own, so that whatever kills the
//! front process leaves it to clean up, and the other way round.

use crate::options::{Files, Options};
use crate::plumbing::Plumbing;
use crate::report::{End, Failure, judge, judge_engine};
use crate::roll::Roll;
use crate::spawn::{self, REPORT_LEN, Start, Strings};
use crate::sys::{self, Waited};
use crate::widen::Widener;
use crate::{agents, descendants};
use farpost_job::lifeline::Lifeline;
use farpost_job::{JobMemory, RankState, Roles};
use std::collections::HashMap;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// From asking the ranks to end to killing them.
const GRACE: Duration = Duration::from_millis(500);
/// The same for another launcher, which has to end ranks elsewhere first.
const ENGINE_GRACE: Duration = Duration::from_secs(5);
/// The same when the user is impatient.
const IMPATIENCE: Duration = Duration::from_secs(1);
/// Time between two looks whether ranks have joined a job of which others have ended outside.
const LOOK_OUTSIDE: Duration = Duration::from_millis(100);
/// mpiexec's exit code when `--timeout` ended the job.
pub const TIMEOUT_CODE: i32 = 124;
/// On the control pipe: kill everything now. Other bytes are signals to forward.
pub const KILL_NOW: u8 = 0xff;

/// The guardian's name among processes.
pub const NAME: &std::ffi::CStr = c"farpost-guard";

const CONTROL: u64 = 0;
const CHILDREN: u64 = 1;

/// A program of the job, ready to be started.
pub struct PreparedApp {
    pub file: CString,
    pub args: Strings,
    pub shell_args: Strings,
    /// Variables that are the same for all its ranks.
    pub variables: Vec<CString>,
    pub directory: Option<CString>,
}

/// Everything the guardian needs; prepared by the front process.
pub struct Plan {
    pub options: Options,
    pub apps: Vec<PreparedApp>,
    /// For each rank, and after them each service, which app.
    pub app_of: Vec<u32>,
    /// How many of them are services, and what the ranks are.
    pub roles: Roles,
    pub memory: JobMemory,
    /// For each rank, the hardware threads it is bound to; empty: all.
    pub cpus: Vec<Vec<usize>>,
    /// Each rank has cores of its own.
    pub own_cores: bool,
    /// Nobody asked for that.
    pub bound_by_default: bool,
    pub host: String,
    /// The only "rank" is another launcher, of this name.
    pub engine: Option<&'static str>,
    /// Standard input of each rank; `None`: mpiexec's own.
    pub stdin: Vec<Option<OwnedFd>>,
    /// Signals blocked when mpiexec was started.
    pub mask: libc::sigset_t,
    /// Signals that are to have their default effect in the ranks.
    pub default_signals: Vec<i32>,
}

impl Plan {
    /// How many of the processes are ranks of the program; the others are services.
    pub(crate) fn ranks(&self) -> usize {
        self.app_of.len() - self.roles.services() as usize
    }

    fn is_service(&self, number: u32) -> bool {
        number as usize >= self.ranks()
    }

    /// A process, for people.
    fn name(&self, number: u32) -> String {
        match self.engine {
            Some(engine) => engine.to_owned(),
            None if self.is_service(number) => format!("{} on host {}", agents::NAME, self.host),
            None => format!("rank {number} on host {}", self.host),
        }
    }
}

/// A rank's process or, after all ranks', a service's.
pub(crate) struct Rank {
    pid: i32,
    pub(crate) end: Option<End>,
}

pub(crate) struct Guardian<'a> {
    pub(crate) plan: &'a Plan,
    io: Plumbing,
    pub(crate) ranks: Vec<Rank>,
    by_pid: HashMap<i32, u32>,
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
    sys::set_name(NAME);
    sys::adopt_orphans();
    // SAFETY: takes integers. Out of the group that a shell or a terminal sends signals to.
    unsafe { libc::setpgid(0, 0) };
    for signal in crate::front::FORWARDED
        .iter()
        .chain(&[libc::SIGTTIN, libc::SIGTTOU, libc::SIGPIPE])
    {
        if *signal != libc::SIGCONT {
            sys::ignore(*signal);
        }
    }
    sys::set_mask(&sys::signal_set(&[libc::SIGCHLD]));
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
        let (errors, errors_in) = sys::pipe()?;
        sys::set_nonblocking(&errors)?;
        let io = Plumbing::new(plan.options.marks)?;
        let children = sys::signal_fd(&[libc::SIGCHLD])?;
        io.epoll.add(control.as_fd(), libc::EPOLLIN, CONTROL)?;
        io.epoll.add(children.as_fd(), libc::EPOLLIN, CHILDREN)?;
        let guardian = Guardian {
            plan,
            io,
            ranks: Vec::with_capacity(plan.app_of.len()),
            by_pid: HashMap::new(),
            errors,
            start_errors: HashMap::new(),
            first: None,
            outside: Vec::new(),
            roll: Roll::new(plan),
            kill_at: None,
            killed: false,
            timeout_at: plan.options.timeout.map(|t| Instant::now() + t),
            widener: Widener::new(plan.bound_by_default, &plan.cpus, &crate::cores::allowed()),
        };
        Ok((guardian, errors_in, children))
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.io.say(text);
    }

    fn job(&mut self, errors: OwnedFd, control: &OwnedFd, children: &OwnedFd, lifeline: &Lifeline) -> i32 {
        self.start_all(errors, lifeline);
        let mut ready = Vec::new();
        while self.ranks.iter().any(|r| r.end.is_none()) {
            if self.ranks[..self.plan.ranks()].iter().all(|r| r.end.is_some()) {
                // The services have nobody left to serve.
                self.end_ranks();
            }
            self.io.watch_sinks();
            self.io.epoll.wait(self.next_deadline(), &mut ready);
            for token in ready.drain(..) {
                match token {
                    CONTROL => {
                        if !self.control(control) {
                            // The front process is gone; nobody is left to report to.
                            if self.plan.engine.is_some() {
                                self.end_ranks();
                                self.io.epoll.remove(control.as_fd());
                                continue;
                            }
                            descendants::kill_all();
                            return 1;
                        }
                    }
                    CHILDREN => {
                        while sys::next_signal(children).is_some() {}
                        self.reap();
                    }
                    other => self.io.ready(other),
                }
            }
            self.deadlines();
        }
        self.first.as_ref().map_or(0, |f| f.code)
    }

    fn start_all(&mut self, errors: OwnedFd, lifeline: &Lifeline) {
        let lifeline = lifeline.path();
        let plan = self.plan;
        let file_limit = sys::raise_file_limit();
        let null = File::open("/dev/null").ok();
        let size = plan.app_of.len() as u32;
        // Another launcher's ranks have a job memory of their own; no descriptor has this number.
        let job_fd = plan.engine.map_or(plan.memory.fd().as_raw_fd(), |_| -1);
        let job_id = plan.memory.id();
        let mut files: HashMap<PathBuf, OwnedFd> = HashMap::new();
        for rank in 0..size {
            let number = plan.app_of[rank as usize];
            let app = &plan.apps[number as usize];
            plan.memory.set_appnum(rank, number);
            let mut variables = app.variables.clone();
            if plan.engine.is_none() {
                let ranks = plan.ranks() as u32;
                for (name, value) in crate::environment::for_rank(rank, ranks, job_fd, &job_id) {
                    variables.push(crate::environment::c_pair(name.as_ref(), value.as_ref()));
                }
                if plan.roles.services() > 0 {
                    let roles = plan.roles.to_string();
                    variables.push(crate::environment::c_pair(
                        farpost_job::PROCESSES.as_ref(),
                        roles.as_ref(),
                    ));
                }
            } else {
                let name = farpost_job::HANDED_BY.as_ref();
                variables.push(crate::environment::c_pair(name, job_id.as_ref()));
            }
            let mut writers: Vec<OwnedFd> = Vec::new();
            let stdio = match self.outputs(rank, &mut files, &mut writers) {
                Ok([out, err]) => {
                    let input = plan.stdin[rank as usize].as_ref().map(AsRawFd::as_raw_fd);
                    let input = input
                        .or((!self.reads_directly(rank))
                            .then_some(null.as_ref().map_or(0, |n| n.as_raw_fd())));
                    [input, out, err]
                }
                Err(text) => return self.cannot_start(rank, size, text),
            };
            let cpus = crate::cpu_set(&plan.cpus[rank as usize]);
            let env = Strings::new(variables);
            let started = spawn::start(&Start {
                rank,
                file: &app.file,
                args: &app.args,
                shell_args: &app.shell_args,
                env: &env,
                directory: app.directory.as_deref(),
                stdio,
                job_fd,
                lifeline: &lifeline,
                cpus: cpus.as_ref(),
                session: plan.own_cores,
                errors: errors.as_raw_fd(),
                default_signals: &plan.default_signals,
                mask: &plan.mask,
                file_limit: file_limit.as_ref(),
            });
            match started {
                Ok(pid) => {
                    plan.memory.started(rank, pid as u32, number);
                    self.by_pid.insert(pid, rank);
                    self.ranks.push(Rank { pid, end: None });
                    if plan.options.verbose {
                        let file = app.file.to_string_lossy().into_owned();
                        self.say(&match plan.engine {
                            Some(engine) => format!("{engine} is process {pid}"),
                            None => format!("{} is process {pid}: {file}", plan.name(rank)),
                        });
                    }
                }
                Err(e) => return self.cannot_start(rank, size, format!("could not start a process: {e}")),
            }
        }
    }

    /// Rank `rank` reads mpiexec's own standard input.
    fn reads_directly(&self, rank: u32) -> bool {
        matches!(self.plan.options.stdin, crate::options::Stdin::Rank(r) if r == rank)
            && self.plan.stdin[rank as usize].is_none()
    }

    fn cannot_start(&mut self, rank: u32, size: u32, text: String) {
        for _ in self.ranks.len()..size as usize {
            self.ranks.push(Rank {
                pid: 0,
                end: Some(End::Exit(0)),
            });
        }
        self.fail(Failure {
            rank,
            what: text,
            code: 1,
            ends_job: true,
            weight: 0,
        });
    }

    /// Where descriptors 1 and 2 of a rank go; `None`: mpiexec's own. Reading ends become streams, writing ends
    /// are left in `writers` until the process is started.
    fn outputs(
        &mut self,
        rank: u32,
        files: &mut HashMap<PathBuf, OwnedFd>,
        writers: &mut Vec<OwnedFd>,
    ) -> Result<[Option<RawFd>; 2], String> {
        let options = &self.plan.options;
        let service = self.plan.is_service(rank).then_some("portals agent");
        let mut targets = [None, None];
        match options.files.as_ref().filter(|_| service.is_none()) {
            Some(Files::Directory(directory)) => {
                let directory = directory.join(format!("rank.{rank}"));
                std::fs::create_dir_all(&directory)
                    .map_err(|e| format!("could not make directory {}: {e}", directory.display()))?;
                targets = [Some(directory.join("stdout")), Some(directory.join("stderr"))];
            }
            Some(Files::Patterns(out, err)) => {
                let name = |p: &std::ffi::OsString| crate::expand_pattern(p, rank, &self.plan.host);
                targets = [out.as_ref().map(name), err.as_ref().map(name)];
            }
            None => {}
        }
        // A job of one writes where mpiexec would: no copy, and a terminal stays one.
        let direct = self.plan.ranks() == 1 && options.marks.none() && service.is_none();
        let mut fds = [None, None];
        for (i, target) in targets.into_iter().enumerate() {
            if i == 1 && options.merge {
                fds[1] = Some(fds[0].unwrap_or(1));
                continue;
            }
            if let Some(path) = target {
                if !files.contains_key(&path) {
                    let file = OpenOptions::new()
                        .create(true)
                        .write(true)
                        .truncate(true)
                        .open(&path)
                        .and_then(|_| OpenOptions::new().append(true).open(&path));
                    let file = file.map_err(|e| format!("could not open {}: {e}", path.display()))?;
                    files.insert(path.clone(), file.into());
                }
                fds[i] = Some(files[&path].as_raw_fd());
            } else if !direct {
                let writer = self
                    .io
                    .open(rank, i, service)
                    .map_err(|e| format!("could not make a pipe for its output: {e}"))?;
                fds[i] = Some(writer.as_raw_fd());
                writers.push(writer);
            }
        }
        Ok(fds)
    }

    /// What the front process wants. `false`: it is gone.
    fn control(&mut self, control: &OwnedFd) -> bool {
        let mut bytes = [0; 64];
        match sys::read(control.as_raw_fd(), &mut bytes) {
            Ok(0) => return false,
            Ok(n) => {
                for byte in &bytes[..n] {
                    match *byte {
                        KILL_NOW if self.plan.engine.is_some() => {
                            self.end_ranks();
                            self.kill_at = Some(Instant::now() + IMPATIENCE);
                        }
                        KILL_NOW => self.kill_all(),
                        signal if self.plan.options.waits_signal == Some(i32::from(signal)) => {
                            self.tell_roll();
                        }
                        // Services end when the ranks have.
                        signal => {
                            if crate::front::ENDING.contains(&i32::from(signal)) {
                                self.keep_roll();
                            }
                            self.signal_ranks(i32::from(signal), self.plan.ranks());
                        }
                    }
                }
            }
            Err(_) => {}
        }
        true
    }

    /// Tell the first `count` processes.
    fn signal_ranks(&self, signal: i32, count: usize) {
        for rank in self.ranks.iter().take(count).filter(|r| r.end.is_none()) {
            // The rank may have left the group it was given. Another launcher tells its own helpers itself.
            if self.plan.engine.is_some() || !sys::kill(-rank.pid, signal) {
                sys::kill(rank.pid, signal);
            }
        }
    }

    /// Ask the ranks to end; kill them a little later.
    fn end_ranks(&mut self) {
        if self.kill_at.is_none() {
            self.signal_ranks(libc::SIGTERM, usize::MAX);
            self.signal_ranks(libc::SIGCONT, usize::MAX);
            let grace = self.plan.engine.map_or(GRACE, |_| ENGINE_GRACE);
            self.kill_at = Some(Instant::now() + grace);
        }
    }

    fn kill_all(&mut self) {
        self.signal_ranks(libc::SIGKILL, usize::MAX);
        for pid in descendants::list() {
            sys::kill(pid, libc::SIGKILL);
        }
        self.killed = true;
        self.kill_at = None;
    }

    fn reap(&mut self) {
        let mut failures = Vec::new();
        while let Waited::Child(pid, status) = sys::wait_any() {
            let Some(rank) = self.by_pid.remove(&pid) else {
                continue;
            };
            let end = End::of(status);
            self.ranks[rank as usize].end = Some(end);
            // Who waits for it learns how it ended.
            self.plan.memory.set_ended(rank, status);
            if self.plan.options.verbose {
                let who = match self.plan.engine {
                    None if !self.plan.is_service(rank) => format!("rank {rank}"),
                    _ => self.plan.name(rank),
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
            while let Ok(REPORT_LEN) = sys::read(self.errors.as_raw_fd(), &mut report) {
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
        if self.plan.engine.is_some() {
            return judge_engine(end);
        }
        let memory = &self.plan.memory;
        let state = memory.state(rank);
        let busy = self.ranks[..self.plan.ranks()].iter().any(|r| r.end.is_none());
        // One that was not there yet leaves its clients waiting.
        if self.plan.is_service(rank) && (!busy || state == RankState::Finalised) {
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
        let ranks = self.plan.ranks() as u32;
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
        let name = self.plan.name(number);
        self.say(&format!(
            "{name} {end}; its clients are told, and the job goes on"
        ));
    }

    fn fail(&mut self, failure: Failure) {
        // What the rank has said comes before what is said about it.
        self.io.drain_rank(failure.rank);
        let ranks = self.ranks.iter().take(self.plan.ranks());
        let others = ranks.filter(|r| r.end.is_none()).count();
        let end = if failure.ends_job && others > 0 {
            "; ending the others"
        } else {
            ""
        };
        // Of failures that let the job go on, one is told; of a launcher's, those that it cannot tell itself.
        let told =
            self.plan.options.quiet || !failure.ends_job && self.first.is_some() && !self.plan.options.go_on;
        if let Some(engine) = self.plan.engine {
            if !failure.what.is_empty() {
                self.say(&format!("{engine} {}", failure.what));
            }
        } else if !told {
            let name = self.plan.name(failure.rank);
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

    fn next_deadline(&self) -> i32 {
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
        // A day is long enough to wait at once.
        let millis = |at: Instant| {
            at.saturating_duration_since(Instant::now())
                .as_millis()
                .min(86_400_000)
        };
        next.map_or(-1, |at| millis(at) as i32 + 1)
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
