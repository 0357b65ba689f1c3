//! A process's place in its job.

use crate::card::host_name_from;
use crate::channel::{Channel, lock};
use crate::end::End;
use crate::error::JobError;
use crate::hosts::HostMap;
use crate::leaving::give_up;
use crate::memory::{JobMemory, Placement, RankState, WakeUp};
use crate::roles::Roles;
use crate::secret::Secret;
use crate::system::host_name;
use crate::{kvs, stdio};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
    pub(crate) memory: JobMemory,
    pub(crate) rank: u32,
    pub(crate) origin: Origin,
    pub(crate) universe: u32,
    pub(crate) roles: Roles,
    pub(crate) hosts: HostMap,
    pub(crate) secret: Secret,
    pub(crate) channel: Option<Mutex<Box<dyn Channel>>>,
    /// Whether leave was taken of the launcher behind the channel.
    pub(crate) parted: AtomicBool,
    pub(crate) limit: Duration,
    /// The process that joined.
    pub(crate) of: u32,
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
            give_up(channel.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Job {
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
                host_name_from(lock(channel).as_mut(), self.hosts.lowest_beside(of))
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

    /// As [`get_from`](Self::get_from), of a rank that has joined: otherwise `None`, at once.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn get_from_joined(&self, of: u32, key: &str) -> Result<Option<Option<Vec<u8>>>, JobError> {
        assert!(of < self.processes(), "the job has no rank {of}");
        match self.exchange() {
            Some(mut channel) => channel.get(of, key).map(Some),
            None if !self.memory.has_published(of) => Ok(None),
            None => kvs::get_from(&self.memory, of, key).map(Some),
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

/// The 8 bits of an abort code that a process can exit with; a code that is not zero stays so.
pub fn exit_status(code: i32) -> i32 {
    match code & 0xff {
        0 if code != 0 => 1,
        low => low,
    }
}
