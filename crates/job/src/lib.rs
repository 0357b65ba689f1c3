//! The job: which processes exist, how to reach them, a key-value exchange, a fence. Knows no fabric and no MPI.
//!
//! A process finds its job in one of three ways, tried in this order:
//!
//! 1. Farpost's launcher left a memory file open ([`JOB_FD`]) that holds everything.
//! 2. A PMI-1 server (MPICH's Hydra and others) is on the other end of an inherited descriptor; the ranks make
//!    a memory file of the same form among themselves.
//! 3. Neither: a job of one, unless there is evidence of a launcher that started several; that is an error.
//!
//! Cost class: set-up path. Nothing here is called per message.

mod error;
mod foreign;
mod futex;
pub mod kvs;
pub mod layout;
mod map;
mod memory;
mod peer_fd;
mod pmi1;
mod stdio;
pub mod watch;

pub use error::JobError;
pub use memory::{JobMemory, NewJob, Placement, RankState};

use pmi1::Pmi1;
use std::fs::File;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// Variable: the descriptor of the job memory.
pub const JOB_FD: &str = "FARPOST_JOB_FD";
/// Variable: launcher process, its descriptor of the job memory, and the job's nonce, for processes that were
/// started by something that closed the inherited descriptor.
pub const JOB_ID: &str = "FARPOST_JOB_ID";
/// Variable: the rank.
pub const RANK: &str = "FARPOST_RANK";
/// Variable: the number of ranks (for scripts; the job memory is what counts).
pub const SIZE: &str = "FARPOST_SIZE";
/// All variables the launcher sets that begin with `FARPOST_`. None of them is a tunable.
pub const VARIABLES: &[&str] = &[JOB_FD, JOB_ID, RANK, SIZE];

/// A shared memory region for the fabric, zero-filled at the start of the job and sparse: pages cost nothing until touched.
#[derive(Clone, Copy, Debug)]
pub struct HostMemory<'a> {
    /// The memory file; all ranks on the host have it open.
    pub fd: BorrowedFd<'a>,
    /// Where the region begins in the file, in bytes; a multiple of 64 KiB.
    pub region_offset: u64,
    /// Bytes in the region: 1 MiB, and 1 MiB per rank on the host.
    pub region_len: u64,
    /// This rank's index among the ranks on the host.
    pub local_index: u32,
    /// Ranks on the host.
    pub local_count: u32,
}

/// How a process became part of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Started by Farpost's mpiexec.
    Launcher,
    /// Started by a launcher that serves PMI-1.
    Pmi1,
    /// Started on its own.
    Alone,
}

/// A process's place in its job.
pub struct Job {
    memory: JobMemory,
    rank: u32,
    origin: Origin,
    pmi: Option<Mutex<Pmi1>>,
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
    /// Find the job this process belongs to. `env` looks up a variable.
    ///
    /// # Errors
    /// The variables or the job memory are damaged, the rank is already taken, the PMI-1 server misbehaves, the
    /// ranks are on several hosts, or a launcher that Farpost does not speak with started several processes.
    pub fn attach(env: &impl Fn(&str) -> Option<String>) -> Result<Job, JobError> {
        if let Some(fd) = env(JOB_FD) {
            return Self::attach_launcher(env, &fd);
        }
        if let (Some(fd), Some(rank), Some(size)) = (env("PMI_FD"), env("PMI_RANK"), env("PMI_SIZE")) {
            return Self::attach_pmi1(&fd, &rank, &size);
        }
        foreign::check(env)?;
        Self::alone()
    }

    fn attach_launcher(env: &impl Fn(&str) -> Option<String>, fd: &str) -> Result<Job, JobError> {
        let raw: i32 = number(JOB_FD, fd, "must be the descriptor mpiexec left open")?;
        let rank_text = env(RANK).unwrap_or_default();
        let rank: u32 = number(RANK, &rank_text, "must be a rank, as mpiexec sets it")?;
        let id = env(JOB_ID).map(|text| JobId::parse(&text)).transpose()?;
        let nonce = id.as_ref().map(|i| i.nonce);
        let inherited = Self::open_inherited(raw, nonce);
        let memory = match (inherited, &id) {
            (Ok(memory), _) => memory,
            (Err(error), None) => return Err(error),
            // Something in between closed or reused the descriptor; the launcher still has it.
            (Err(error), Some(id)) => match peer_fd::open(id.launcher, id.fd) {
                Ok(fd) => JobMemory::open(fd, nonce)?,
                Err(_) => return Err(error),
            },
        };
        let size = memory.layout().ranks;
        if rank >= size {
            return Err(JobError::Variable {
                name: RANK,
                value: rank_text,
                allowed: format!("the job has ranks 0 to {}", size - 1),
            });
        }
        memory.claim(rank)?;
        allow_attach(memory.launcher());
        stdio::buffer_by_line();
        Ok(Job {
            memory,
            rank,
            origin: Origin::Launcher,
            pmi: None,
        })
    }

    /// Open the memory the launcher left at descriptor `raw`, and make that descriptor ours. A descriptor that
    /// turns out to be something else is left alone.
    fn open_inherited(raw: i32, nonce: Option<[u64; 2]>) -> Result<JobMemory, JobError> {
        // SAFETY: duplicates a descriptor number; any number may be tried.
        let copy = unsafe { libc::fcntl(raw, libc::F_DUPFD_CLOEXEC, raw.max(3)) };
        if copy < 0 {
            return Err(JobError::Variable {
                name: JOB_FD,
                value: raw.to_string(),
                allowed: "no such descriptor is open; something between mpiexec and the program closed it"
                    .into(),
            });
        }
        // SAFETY: the kernel just returned it, nobody else owns it.
        let memory = JobMemory::open(unsafe { OwnedFd::from_raw_fd(copy) }, nonce)?;
        // Programs this rank starts are not this rank.
        // SAFETY: it is the job memory the launcher left open for us to own; nothing else here knows it.
        drop(unsafe { OwnedFd::from_raw_fd(raw) });
        Ok(memory)
    }

    fn attach_pmi1(fd: &str, rank: &str, size: &str) -> Result<Job, JobError> {
        let raw: i32 = number("PMI_FD", fd, "must be the descriptor of a PMI-1 server")?;
        let size: u32 = number("PMI_SIZE", size, "must be the number of ranks")?;
        let rank: u32 = number("PMI_RANK", rank, "must be a rank")?;
        if size == 0 || rank >= size {
            return Err(JobError::Variable {
                name: "PMI_RANK",
                value: rank.to_string(),
                allowed: format!("PMI_SIZE={size} has no such rank"),
            });
        }
        // SAFETY: asks about a descriptor number; any number may be asked about.
        if raw <= 2 || unsafe { libc::fcntl(raw, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
            return if size == 1 {
                Self::alone()
            } else {
                Err(JobError::Variable {
                    name: "PMI_FD",
                    value: fd.into(),
                    allowed:
                        "no such descriptor is open; something between the launcher and the program closed it"
                            .into(),
                })
            };
        }
        // SAFETY: the launcher left this descriptor open for the PMI client in this process, which is us.
        let mut pmi = Pmi1::init(unsafe { File::from_raw_fd(raw) })?;
        let appnum = pmi.appnum()?;
        let shared = if rank == 0 {
            Self::host_pmi1(&mut pmi, size)
        } else {
            Self::join_pmi1(&mut pmi, rank)
        };
        let memory = match shared {
            Ok(memory) => memory,
            Err(error) => {
                // The other ranks would wait for this one forever.
                let _ = pmi.abort(1);
                return Err(error);
            }
        };
        memory.claim(rank)?;
        memory.started(rank, std::process::id(), appnum);
        // SAFETY: no arguments, cannot fail.
        allow_attach(unsafe { libc::getppid() } as u32);
        stdio::buffer_by_line();
        let job = Job {
            memory,
            rank,
            origin: Origin::Pmi1,
            pmi: Some(Mutex::new(pmi)),
        };
        Ok(job)
    }

    /// Rank 0 under PMI-1: make the job memory and say where it is.
    fn host_pmi1(pmi: &mut Pmi1, size: u32) -> Result<JobMemory, JobError> {
        let cores = allowed_cores();
        let bound = cores == 1 && size > 1;
        let allowed_cores = if bound { online_cores().min(size) } else { cores };
        let memory = JobMemory::create(&NewJob {
            size,
            launcher: std::process::id(),
            allowed_cores,
            bound,
        })?;
        let (boot, name) = host_identity();
        pmi.put(PMI_KEY, &format!("{}/{boot}/{name}", memory.id()))?;
        pmi.barrier()?;
        Ok(memory)
    }

    /// Other ranks under PMI-1: open rank 0's memory.
    fn join_pmi1(pmi: &mut Pmi1, rank: u32) -> Result<JobMemory, JobError> {
        pmi.barrier()?;
        let card = pmi.get(PMI_KEY)?;
        let parts: Vec<&str> = card.split('/').collect();
        let &[id, boot, name] = parts.as_slice() else {
            return Err(JobError::Pmi(format!(
                "rank 0 published '{card}', which does not describe a job memory"
            )));
        };
        let id = JobId::parse(id)?;
        let (own_boot, own_name) = host_identity();
        if boot != own_boot || name != own_name {
            return Err(JobError::SeveralHosts {
                rank,
                here: own_name,
                there: name.into(),
            });
        }
        JobMemory::open(peer_fd::open(id.launcher, id.fd)?, Some(id.nonce))
    }

    fn alone() -> Result<Job, JobError> {
        let memory = JobMemory::create(&NewJob {
            size: 1,
            launcher: 0,
            allowed_cores: allowed_cores(),
            bound: false,
        })?;
        memory.claim(0)?;
        memory.started(0, std::process::id(), 0);
        Ok(Job {
            memory,
            rank: 0,
            origin: Origin::Alone,
            pmi: None,
        })
    }

    /// This process's rank in the job.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks in the job.
    pub fn size(&self) -> u32 {
        self.memory.layout().ranks
    }

    /// Ranks the job could have (`MPI_UNIVERSE_SIZE`).
    pub fn universe_size(&self) -> u32 {
        self.size()
    }

    /// Which application of an MPMD job this rank runs (`MPI_APPNUM`), from 0.
    pub fn appnum(&self) -> u32 {
        self.memory.appnum(self.rank)
    }

    /// The ranks on this host, ascending.
    pub fn local_ranks(&self) -> Vec<u32> {
        (0..self.size()).collect()
    }

    /// How this process became part of the job.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The process that is rank `of`; 0 while there is none.
    ///
    /// # Panics
    /// If the job has no such rank.
    pub fn pid(&self, of: u32) -> u32 {
        self.memory.pid(of)
    }

    /// State of rank `of`, as far as it is known here.
    ///
    /// # Panics
    /// If the job has no such rank.
    pub fn state(&self, of: u32) -> RankState {
        self.memory.state(of)
    }

    /// Ranks and cores: what the waiting code needs to know.
    pub fn placement(&self) -> Placement {
        self.memory.placement()
    }

    /// The region all ranks on this host share.
    pub fn host_memory(&self) -> HostMemory<'_> {
        let layout = self.memory.layout();
        HostMemory {
            fd: self.memory.fd(),
            region_offset: layout.region as u64,
            region_len: layout.region_len as u64,
            local_index: self.rank,
            local_count: layout.ranks,
        }
    }

    /// Publish a value under a key. Others see it after the next [`fence`](Self::fence).
    ///
    /// # Errors
    /// Key longer than [`kvs::KEY_MAX`] bytes, value longer than [`kvs::VALUE_MAX`], or this rank's 64 KiB are full.
    pub fn put(&self, key: &str, value: &[u8]) -> Result<(), JobError> {
        kvs::put(&self.memory, self.rank, key, value)
    }

    /// The value of a key, from the lowest rank that put one.
    ///
    /// # Errors
    /// A rank has damaged its log.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, JobError> {
        kvs::get(&self.memory, key)
    }

    /// The value rank `of` put under a key.
    ///
    /// # Errors
    /// The rank has damaged its log.
    ///
    /// # Panics
    /// If the job has no such rank.
    pub fn get_from(&self, of: u32, key: &str) -> Result<Option<Vec<u8>>, JobError> {
        kvs::get_from(&self.memory, of, key)
    }

    /// Wait for all ranks; what each put before is visible to all after.
    ///
    /// # Errors
    /// Another rank aborted the job, or the fence's counters are damaged.
    pub fn fence(&self) -> Result<(), JobError> {
        self.memory.fence()
    }

    /// Record how far this rank has come, for the launcher. `Finalised` also takes leave of a PMI-1 server.
    pub fn set_state(&self, state: RankState) {
        self.memory.set_state(self.rank, state);
        if let (RankState::Finalised, Some(pmi)) = (state, &self.pmi) {
            // The program is done with the job: a launcher that is gone by now cannot spoil its end.
            let _ = pmi.lock().unwrap_or_else(PoisonError::into_inner).finalize();
        }
    }

    /// End the whole job: tell the launcher why, write out what C's stdio holds, and exit. The launcher's exit
    /// code is `code` in 8 bits, or 1 where those are zero and `code` is not.
    pub fn abort(&self, code: i32, message: &str) -> ! {
        self.memory.set_abort(self.rank, code, message);
        let status = exit_status(code);
        if self.origin != Origin::Launcher {
            let of = if self.size() > 1 {
                format!("rank {}: ", self.rank)
            } else {
                String::new()
            };
            let colon = if message.is_empty() { "" } else { ": " };
            // In one piece: others may be writing to the same place.
            let line = format!("farpost: {of}aborted with code {code}{colon}{message}\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
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
            if let Some(Ok(mut pmi)) = self.pmi.as_ref().map(Mutex::try_lock) {
                let _ = pmi.abort(status);
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

/// Key under which rank 0 publishes where the job memory is.
const PMI_KEY: &str = "farpost-job";

/// Where a job memory is and how to know it: `launcher.fd.nonce`.
struct JobId {
    launcher: u32,
    fd: u32,
    nonce: [u64; 2],
}

impl JobId {
    fn parse(text: &str) -> Result<JobId, JobError> {
        let parse = || {
            let mut parts = text.split('.');
            let (launcher, fd, hex) = (parts.next()?, parts.next()?, parts.next()?);
            if parts.next().is_some() || hex.len() != 32 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            let half = |s: &str| u64::from_str_radix(s, 16).ok();
            Some(JobId {
                launcher: launcher.parse().ok()?,
                fd: fd.parse().ok()?,
                nonce: [half(&hex[..16])?, half(&hex[16..])?],
            })
        };
        parse().ok_or_else(|| JobError::Variable {
            name: JOB_ID,
            value: text.into(),
            allowed: "must be 'process.descriptor.nonce', as mpiexec sets it".into(),
        })
    }
}

/// Let siblings read and write this process's memory where the Yama security module would forbid it: the
/// launcher and all below it may.
fn allow_attach(launcher: u32) {
    if launcher != 0 && std::path::Path::new("/proc/sys/kernel/yama/ptrace_scope").exists() {
        // SAFETY: takes integers; on failure cross-memory attach is simply not available.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::from(launcher), 0, 0, 0) };
    }
}

fn online_cores() -> u32 {
    // SAFETY: takes an integer.
    let n = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(n).unwrap_or(1).max(1)
}

/// What tells hosts apart (an identity drawn at boot) and what people call this one.
fn host_identity() -> (String, String) {
    let clean = |s: &str| -> String {
        s.trim()
            .chars()
            .map(|c| {
                if c.is_ascii_graphic() && c != '/' && c != '=' {
                    c
                } else {
                    '_'
                }
            })
            .collect()
    };
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let name = clean(&host_name());
    let boot = clean(&boot);
    (
        if boot.is_empty() { "unknown".into() } else { boot },
        if name.is_empty() { "unknown".into() } else { name },
    )
}

/// The name of this host.
pub fn host_name() -> String {
    let mut buffer = [0u8; 256];
    // SAFETY: the kernel writes at most 255 bytes; the last stays zero.
    unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), 255) };
    let end = buffer.iter().position(|b| *b == 0).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..end]).into_owned()
}

#[cfg(test)]
mod tests;
