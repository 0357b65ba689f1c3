//! The job: which processes exist, how to reach them, a key-value exchange, a fence. Knows no fabric and no MPI.
//!
//! A process finds its job in one of these ways, tried in this order:
//!
//! 1. Farpost's launcher left a memory file open ([`JOB_FD`]) that holds everything.
//! 2. A PMI-1 or PMI-2 server (MPICH's Hydra, Slurm and others) is on the other end of an inherited descriptor, `PMI_FD`,
//!    or of a connection to `PMI_PORT`.
//! 3. A PMIx server (PRRTE, Slurm) is told of by `PMIX_NAMESPACE` and `PMIX_RANK`; its library is loaded.
//! 4. None: a job of one, unless there is evidence of a launcher that started several; that is an error.
//!
//! In 2 and 3 the ranks of each host make a memory file of the same form among themselves, and ranks of several hosts exchange
//! what they publish through the launcher's key-value store. Joining costs one fence of the launcher's, and every step has
//! a deadline.
//!
//! Cost class: set-up path. Nothing here is called per message.
//!
//! **Joining** has two steps, [`Job::begin`] and [`Opening::finish`]. Between them a fabric publishes its addresses; the second costs one fence of the
//! launcher's. Afterwards what a rank published is fetched when it is first asked for. Every step has a deadline (`FARPOST_START_TIMEOUT`).
//!
//! **Hosts.** Which ranks share a host is the launcher's word (`PMI_process_mapping` and its like); it is checked against boot, name and namespaces
//! before memory is shared. Without that word these decide; also where Slurm placed ranks by a list of hosts, since its PMI-2 then says of each
//! rank that it is alone.
//!
//! **Job memory.** Farpost's launcher makes one memfd and leaves it open in every rank. Under other launchers the lowest rank of each host makes one
//! of the same form and publishes where it is; the other ranks of the host open it through `/proc/<pid>/fd`. It has room for all ranks of the job.
//! The job's secret is drawn with it and travels in the launcher's exchange only.

mod card;
mod channel;
mod deadline;
mod end;
mod error;
mod foreign;
mod futex;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod hosts;
pub mod kvs;
pub mod layout;
pub mod lifeline;
mod map;
mod meet;
mod memory;
mod opening;
mod peer_fd;
mod roles;
mod secret;
mod stdio;
pub mod watch;

pub use channel::pmix::PMIX_LIBRARY;
pub use deadline::JobTunables;
pub use end::{End, signal_name};
pub use error::JobError;
pub use memory::{JobMemory, NewJob, Placement, RankState, WakeUp};
pub use opening::{Opening, abandon};
pub use peer_fd::close_on_exec;
pub use roles::Roles;
pub use secret::{SECRET_FD, SECRET_FILE, Secret};

use channel::Channel;
use hosts::HostMap;
use rustix::process::{PTracer, Pid, set_ptracer};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Variable: the descriptor of the job memory.
pub const JOB_FD: &str = "FARPOST_JOB_FD";
/// Variable: launcher process, its descriptor of the job memory, and the job's nonce, for processes that were
/// started by something that closed the inherited descriptor.
pub const JOB_ID: &str = "FARPOST_JOB_ID";
/// Variable: the rank.
pub const RANK: &str = "FARPOST_RANK";
/// Variable: the number of ranks (for scripts; the job memory is what counts).
pub const SIZE: &str = "FARPOST_SIZE";
/// Variable: what the processes are for, where some are no ranks of the program ([`Roles`]).
pub const PROCESSES: &str = "FARPOST_PROCESSES";
/// Variable: which mpiexec has handed the job to another launcher, by the name of its own job memory, so that it finds those ranks on its
/// host that are not below it.
pub const HANDED_BY: &str = "FARPOST_HANDED_BY";
/// All variables the launcher sets that begin with `FARPOST_`. None of them is a tunable.
pub const VARIABLES: &[&str] = &[
    JOB_FD,
    JOB_ID,
    RANK,
    SIZE,
    PROCESSES,
    HANDED_BY,
    SECRET_FD,
    SECRET_FILE,
    PMIX_LIBRARY,
];

/// A shared memory region for the fabric, zero-filled at the start of the job and sparse: pages cost nothing until touched.
#[derive(Clone, Copy, Debug)]
pub struct HostMemory<'a> {
    /// The memory file; all ranks on the host have it open.
    pub fd: BorrowedFd<'a>,
    /// Where the region begins in the file, in bytes; a multiple of 64 KiB.
    pub region_offset: u64,
    /// Bytes in the region: 1 MiB, and 1 MiB per process of the job.
    pub region_len: u64,
    /// This process, by its number in the job.
    pub local_index: u32,
    /// Processes of the job, services included, on this host or not: the region has room for all of them.
    pub ranks: u32,
}

/// How a process became part of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Started by Farpost's mpiexec.
    Launcher,
    /// Started by a launcher that serves PMI-1.
    Pmi1,
    /// Started by a launcher that serves PMI-2.
    Pmi2,
    /// Started by a launcher that serves PMIx.
    Pmix,
    /// Started on its own.
    Alone,
}

/// Longest time that a process whose part is over stays for ranks of its host that have not joined yet.
const LATECOMERS: Duration = Duration::from_secs(10);

/// How long ranks that are ready and have cores of their own look for the others before they sleep: to be woken takes as long.
const READY_SPIN: Duration = Duration::from_micros(300);

/// A process's place in its job.
pub struct Job {
    memory: JobMemory,
    rank: u32,
    origin: Origin,
    universe: u32,
    roles: Roles,
    hosts: HostMap,
    secret: Secret,
    channel: Option<Mutex<Box<dyn Channel>>>,
    /// Whether leave was taken of the launcher behind the channel.
    parted: AtomicBool,
    limit: Duration,
    /// The process that joined.
    of: u32,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Job {{ rank: {}, size: {}, origin: {:?} }}",
            self.rank,
            self.size(),
            self.origin
        )
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // Unless the process has taken leave, its end must be the job's: see `abandon`.
        if let Some(channel) = self
            .channel
            .take()
            .filter(|_| !self.parted.load(Ordering::Relaxed))
        {
            if self.of != std::process::id() {
                // A forked child's copy: what it would say to the launcher, its parent would be taken for.
                return std::mem::forget(channel);
            }
            opening::give_up(channel.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

fn number<T: std::str::FromStr>(name: &'static str, value: &str, allowed: &str) -> Result<T, JobError> {
    value.parse().map_err(|_| JobError::Variable {
        name,
        value: value.into(),
        allowed: allowed.into(),
    })
}

/// Cores this process may use: affinity mask and cgroup quota.
pub fn allowed_cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

impl Job {
    /// Find the job this process belongs to and join it: [`begin`](Self::begin) and [`finish`](Opening::finish) in one.
    /// `env` looks up a variable.
    ///
    /// # Errors
    /// Those of the two.
    pub fn attach(env: &impl Fn(&str) -> Option<String>) -> Result<Job, JobError> {
        Self::begin(env)?.finish()
    }

    /// Find the job this process belongs to, as far as that is possible without the other ranks. `env` looks up a
    /// variable.
    ///
    /// # Errors
    /// The variables or the job memory are damaged, the rank is already taken, the launcher misbehaves or does not
    /// answer in time, or a launcher that Farpost does not speak with started several processes.
    pub fn begin(env: &impl Fn(&str) -> Option<String>) -> Result<Opening, JobError> {
        Opening::begin(env)
    }

    /// This process's rank in the job; of a service its number, which is above all ranks.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks in the job: processes of the program.
    pub fn size(&self) -> u32 {
        self.processes() - self.services()
    }

    /// Processes of the job: its ranks, and after them its services. Whatever takes a rank takes their numbers too.
    pub fn processes(&self) -> u32 {
        self.memory.layout().ranks
    }

    /// Processes that serve the program and are no ranks of it: numbers [`size`](Self::size) to
    /// [`processes`](Self::processes).
    pub fn services(&self) -> u32 {
        self.roles.services()
    }

    /// What the processes are for.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// Ranks the job could have (`MPI_UNIVERSE_SIZE`).
    pub fn universe_size(&self) -> u32 {
        self.universe
    }

    /// Which application of an MPMD job this rank runs (`MPI_APPNUM`), from 0.
    pub fn appnum(&self) -> u32 {
        self.memory.appnum(self.rank)
    }

    /// Hosts the job runs on.
    pub fn hosts(&self) -> u32 {
        self.hosts.hosts()
    }

    /// The host of each process. Hosts are numbered in the order of their lowest ranks, from 0.
    pub fn host_map(&self) -> &[u32] {
        self.hosts.host_of()
    }

    /// The host of rank `of`.
    ///
    /// # Panics
    /// If the job has no such rank.
    pub fn host_of(&self, of: u32) -> u32 {
        self.hosts.host_of()[of as usize]
    }

    /// The name of the host of rank `of`.
    ///
    /// # Errors
    /// The launcher's key-value exchange fails.
    ///
    /// # Panics
    /// If the job has no such rank.
    pub fn host_name_of(&self, of: u32) -> Result<String, JobError> {
        match &self.channel {
            Some(channel) if !self.is_local(of) => {
                opening::host_name_from(lock(channel).as_mut(), self.hosts.lowest_beside(of))
            }
            _ => Ok(host_name()),
        }
    }

    /// The ranks on this host, ascending.
    pub fn local_ranks(&self) -> Vec<u32> {
        let mut beside = self.hosts.beside(self.rank);
        beside.retain(|rank| *rank < self.size());
        beside
    }

    /// Whether rank `of` is on this host.
    ///
    /// # Panics
    /// If the job has no such rank.
    pub fn is_local(&self, of: u32) -> bool {
        self.host_of(of) == self.host_of(self.rank)
    }

    /// A secret of the job's processes, random and the same for all.
    pub fn secret(&self) -> Secret {
        self.secret
    }

    /// How this process became part of the job.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The process that is rank `of`; 0 while there is none, `None` for ranks of other hosts.
    ///
    /// # Panics
    /// If the job has no such rank.
    pub fn pid(&self, of: u32) -> Option<u32> {
        self.is_local(of).then(|| self.memory.pid(of))
    }

    /// This host's memory of the job.
    pub fn memory(&self) -> &JobMemory {
        &self.memory
    }

    /// State of rank `of`; `None` for ranks of other hosts, whose state is not known here.
    ///
    /// # Panics
    /// If the job has no such rank.
    pub fn state(&self, of: u32) -> Option<RankState> {
        self.is_local(of).then(|| self.memory.state(of))
    }

    /// How the process of rank `of` ended, if the launcher has said so: Farpost's does, of ranks of this host.
    ///
    /// # Panics
    /// If the job has no such rank.
    pub fn ended(&self, of: u32) -> Option<End> {
        self.is_local(of).then(|| self.memory.ended(of)).flatten()
    }

    /// Ranks and cores of this host: what the waiting code needs to know. The same for all ranks of a host.
    pub fn placement(&self) -> Placement {
        let mut placement = self.memory.placement();
        if self.origin != Origin::Launcher {
            placement.ranks_on_host = self.hosts.count_beside(self.rank);
            if placement.bound {
                placement.allowed_cores = placement.allowed_cores.min(placement.ranks_on_host);
            }
        }
        placement
    }

    /// The region all ranks on this host share. It has room for every rank of the job, so that ranks keep their
    /// numbers; the entries of other hosts' ranks stay untouched and cost nothing.
    pub fn host_memory(&self) -> HostMemory<'_> {
        let layout = self.memory.layout();
        HostMemory {
            fd: self.memory.fd(),
            region_offset: layout.region as u64,
            region_len: layout.region_len as u64,
            local_index: self.rank,
            ranks: layout.ranks,
        }
    }

    /// The launcher's key-value exchange, where the job's memory does not reach all ranks.
    fn exchange(&self) -> Option<MutexGuard<'_, Box<dyn Channel>>> {
        let channel = self.channel.as_ref().filter(|_| self.hosts() > 1);
        channel.map(lock)
    }

    /// Publish a value under a key, once per key. Others see it after the next [`fence`](Self::fence).
    ///
    /// # Errors
    /// Key longer than [`kvs::KEY_MAX`] bytes (fewer where a launcher says so), value longer than [`kvs::VALUE_MAX`], this
    /// rank's 64 KiB are full, or the launcher does not take it.
    pub fn put(&self, key: &str, value: &[u8]) -> Result<(), JobError> {
        match self.exchange() {
            Some(mut channel) => channel.put(self.rank, key, value),
            None => kvs::put(&self.memory, self.rank, key, value),
        }
    }

    /// The value of a key, from the lowest rank that put one. Asks one rank after the other.
    ///
    /// # Errors
    /// Those of [`get_from`](Self::get_from).
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, JobError> {
        for rank in 0..self.size() {
            if let Some(value) = self.get_from(rank, key)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// The value rank `of` put under a key while it joined, or before the last [`fence`](Self::fence). Waits for
    /// a rank that has not joined yet.
    ///
    /// # Errors
    /// The rank has damaged its log or does not join in time, or the launcher's exchange fails.
    ///
    /// # Panics
    /// If the job has no such rank.
    pub fn get_from(&self, of: u32, key: &str) -> Result<Option<Vec<u8>>, JobError> {
        assert!(of < self.processes(), "the job has no rank {of}");
        match self.exchange() {
            Some(mut channel) => channel.get(of, key),
            None => {
                self.memory.published(of, self.limit)?;
                kvs::get_from(&self.memory, of, key)
            }
        }
    }

    /// Wait for all ranks, services not among them; what each put before is visible to all after.
    ///
    /// # Errors
    /// Another rank aborted the job, or the fence's counters are damaged, or the launcher fails. A launcher that is not
    /// Farpost's has fences of all processes only: there is none in a job on several hosts that has services.
    pub fn fence(&self) -> Result<(), JobError> {
        match self.exchange() {
            Some(_) if self.services() > 0 => Err(JobError::Fence(format!(
                "the launcher would wait for the job's {} service processes, which take part in no fence",
                self.services()
            ))),
            Some(mut channel) => channel.fence(),
            None => self.memory.fence(self.size()),
        }
    }

    /// This rank is ready for messages: wait until all of its host are, `limit` at most, so that none of them counts the time in
    /// which others were still being started as that of its first messages. A rank that comes later is waited for no longer.
    /// Who was woken by the last one learns what that costs here.
    pub fn ready(&self, limit: Duration) -> Option<WakeUp> {
        let Placement {
            ranks_on_host,
            allowed_cores,
            ..
        } = self.placement();
        let spin = if ranks_on_host <= allowed_cores {
            READY_SPIN
        } else {
            Duration::ZERO
        };
        self.memory.ready(ranks_on_host, spin, limit)
    }

    /// Record how far this rank has come, for the launcher. `Finalised` also takes leave of a launcher that is not Farpost's.
    pub fn set_state(&self, state: RankState) {
        if state == RankState::Finalised {
            self.stay_for_latecomers();
        }
        self.memory.set_state(self.rank, state);
        if state == RankState::Finalised {
            self.part();
        }
    }

    /// Under launchers other than Farpost's the memory of a host is reached through one of its processes, which must not
    /// end before the others of the host have it. A rank that ends on the way is the launcher's affair: not for long.
    fn stay_for_latecomers(&self) {
        if self.channel.is_none() {
            return;
        }
        let until = Instant::now() + self.limit.min(LATECOMERS);
        let late = |rank: u32| self.state(rank) == Some(RankState::Waiting);
        while (0..self.processes()).any(late) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// This process takes part in the job: its end counts as a failure until it has called `functions`, as the launcher
    /// will say. Replaces what was said before.
    pub fn leaves_by(&self, functions: &str) {
        self.memory.set_leaves_by(self.rank, functions);
        self.set_state(RankState::Initialised);
    }

    /// Take leave of a launcher that is not Farpost's; the process ends, and what its exit code means is not changed.
    pub fn part(&self) {
        if let Some(channel) = &self.channel
            && !self.parted.swap(true, Ordering::Relaxed)
        {
            // The program is done with the job: a launcher that is gone by now cannot spoil its end.
            let _ = lock(channel).finalize();
        }
    }

    /// This process may end whenever and however it likes, and stays in the job until then.
    pub fn may_end(&self) {
        self.memory.set_state(self.rank, RankState::Finalised);
    }

    /// End the whole job: tell the launcher why, write out what C's stdio holds, and exit. The launcher's exit
    /// code is `code` in 8 bits, or 1 where those are zero and `code` is not.
    pub fn abort(&self, code: i32, message: &str) -> ! {
        self.memory.set_abort(self.rank, code, message);
        let status = exit_status(code);
        if self.origin != Origin::Launcher {
            let of = if self.rank >= self.size() {
                format!("service {}: ", self.rank - self.size())
            } else if self.size() > 1 {
                format!("rank {}: ", self.rank)
            } else {
                String::new()
            };
            let colon = if message.is_empty() { "" } else { ": " };
            // In one piece: others may be writing to the same place.
            let line = format!("farpost: {of}aborted with code {code}{colon}{message}\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
            if self.channel.is_some() {
                // A launcher that is told may kill this process and its own forwarder before the line is out.
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        // SAFETY: signal and alarm take integers; fflush(NULL) may wait for a lock that another thread holds on
        // a stream, for which the alarm ends the process within a second; _exit does not return.
        unsafe {
            libc::signal(libc::SIGALRM, libc::SIG_DFL);
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGALRM);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
            libc::alarm(1);
            libc::fflush(std::ptr::null_mut());
            if self.channel.is_some() {
                stdio::drain();
            }
            if let Some(Ok(mut channel)) = self.channel.as_ref().map(Mutex::try_lock) {
                let _ = channel.abort(status, message);
            }
            libc::_exit(status)
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The 8 bits of an abort code that a process can exit with; a code that is not zero stays so.
pub fn exit_status(code: i32) -> i32 {
    match code & 0xff {
        0 if code != 0 => 1,
        low => low,
    }
}

/// Let siblings read and write this process's memory where the Yama security module would forbid it: the
/// launcher and all below it may.
fn allow_attach(launcher: u32) {
    if let Some(launcher) = Pid::from_raw(launcher as i32)
        && std::path::Path::new("/proc/sys/kernel/yama/ptrace_scope").exists()
    {
        // On failure cross-memory attach is simply not available.
        let _ = set_ptracer(PTracer::ProcessID(launcher));
    }
}

fn online_cores() -> u32 {
    // SAFETY: takes an integer.
    let n = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(n).unwrap_or(1).max(1)
}

/// The name of this host.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
