//! Joining a job, in two steps: what the launcher says at once, then one fence and what the others say.

use crate::card::{self, Card, Cards, Identity, Pass};
use crate::channel::broken;
use crate::channel::wire::Wire;
use crate::channel::{Launched, pmi1, pmi2, pmix, port};
use crate::deadline::JobTunables;
use crate::error::JobError;
use crate::hosts::HostMap;
use crate::job::{Job, Origin};
use crate::layout::MAX_RANKS;
use crate::leaving::give_up;
use crate::memory::{JobMemory, NewJob};
use crate::roles::Roles;
use crate::system::{allow_attach, allowed_cores, online_cores};
use crate::variables::{JOB_FD, JOB_ID, PROCESSES, RANK, number};
use crate::{foreign, kvs, peer_fd, secret, stdio};
use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// A process that knows its place in the job and has not met the others yet. What it [puts](Self::put) now they
/// can [get](Job::get_from) once all have [finished](Self::finish); nothing else needs another fence.
pub struct Opening {
    rank: u32,
    /// Processes of the job.
    size: u32,
    roles: Roles,
    /// Taken by `finish`.
    place: Option<Place>,
    tunables: JobTunables,
    secret: Option<secret::Secret>,
}

enum Place {
    /// The job's memory is there already.
    Memory(JobMemory, Origin),
    /// The launcher's channel is open; the memory is made or found while finishing. What is put is kept for the
    /// memory in case that all ranks are on one host.
    Launched(Launched, Origin, Vec<(String, Vec<u8>)>),
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(Place::Launched(launched, ..)) = self.place.take() {
            give_up(launched.channel);
        }
    }
}

impl std::fmt::Debug for Opening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Opening {{ rank: {}, size: {} }}", self.rank, self.size)
    }
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
}

impl Opening {
    fn begin(env: &impl Fn(&str) -> Option<String>) -> Result<Opening, JobError> {
        let tunables = JobTunables::read(env)?;
        let secret = secret::given(env)?;
        let (rank, size, mut place) = if let Some(fd) = env(JOB_FD) {
            let (memory, rank) = launcher_memory(env, &fd)?;
            (
                rank,
                memory.layout().ranks,
                Place::Memory(memory, Origin::Launcher),
            )
        } else if let Some(fd) = env("PMI_FD") {
            pmi(env, &fd, &tunables)?
        } else if let Some(at) = env(port::PORT) {
            pmi_over_tcp(env, &at, &tunables)?
        } else if env("PMIX_RANK").is_some() || env("PMIX_NAMESPACE").is_some() {
            pmix_or_alone(env, &tunables)?
        } else {
            foreign::check(env)?;
            alone()?
        };
        let roles = match &place {
            Place::Memory(_, Origin::Alone) => Roles::default(),
            _ => Roles::told(env, size)?,
        };
        if let Place::Memory(memory, _) = &place
            && memory.services() != roles.services()
        {
            return Err(JobError::variable(
                PROCESSES,
                env(PROCESSES).unwrap_or_default(),
                format!(
                    "mpiexec started {} service processes beside the ranks; something between mpiexec and the program changed it",
                    memory.services()
                ),
            ));
        }
        // Services are on the ranks' hosts, and Hydra takes a host that comes again in its list for another one.
        if let Place::Launched(launched, Origin::Pmi1, _) = &mut place
            && roles.services() > 0
        {
            launched.hosts = None;
        }
        Ok(Opening {
            rank,
            size,
            roles,
            place: Some(place),
            tunables,
            secret,
        })
    }

    fn place(&self) -> &Place {
        self.place
            .as_ref()
            .expect("only finish takes it, and ends this value")
    }

    /// This process's rank in the job.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Processes of the job: ranks and services.
    pub fn processes(&self) -> u32 {
        self.size
    }

    /// Ranks in the job.
    pub fn size(&self) -> u32 {
        self.size - self.roles.services()
    }

    /// What the processes are for.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// Which application of an MPMD job this rank runs, from 0.
    pub fn appnum(&self) -> u32 {
        match self.place() {
            Place::Memory(memory, _) => memory.appnum(self.rank),
            Place::Launched(launched, ..) => launched.appnum,
        }
    }

    /// The host of each rank, where the launcher said so; else it is known after [`finish`](Self::finish).
    pub fn hosts_known(&self) -> Option<Vec<u32>> {
        match self.place() {
            Place::Memory(..) => Some(vec![0; self.size as usize]),
            Place::Launched(launched, ..) => launched.hosts.as_ref().map(|h| h.host_of().to_vec()),
        }
    }

    /// Whether ranks are, or may be, on another host.
    pub fn may_span_hosts(&self) -> bool {
        match self.place() {
            Place::Memory(..) => false,
            Place::Launched(launched, ..) => {
                launched.size > 1 && launched.hosts.as_ref().is_none_or(|h| h.hosts() > 1)
            }
        }
    }

    /// Publish a value under a key, once per key.
    ///
    /// # Errors
    /// The key or the value is too long ([`kvs::VALUE_MAX`]), or the launcher does not take it.
    pub fn put(&mut self, key: &str, value: &[u8]) -> Result<(), JobError> {
        let spans = self.may_span_hosts();
        match self
            .place
            .as_mut()
            .expect("only finish takes it, and ends this value")
        {
            Place::Memory(memory, _) => kvs::put(memory, self.rank, key, value),
            Place::Launched(launched, _, held) => {
                held.push((key.to_owned(), value.to_vec()));
                if spans {
                    launched.channel.put(self.rank, key, value)?;
                }
                Ok(())
            }
        }
    }

    /// Meet the other ranks: one fence where a launcher other than Farpost's started them, none else.
    ///
    /// # Errors
    /// The launcher misbehaves or a deadline passes, the ranks run different versions of Farpost, or ranks of one host
    /// cannot reach each other's memory.
    pub fn finish(mut self) -> Result<Job, JobError> {
        let (rank, size, given, limit) = (self.rank, self.size, self.secret, self.tunables.limit());
        let place = self.place.take();
        let services = self.roles.services();
        let (memory, origin, hosts, secret, universe, channel) =
            match place.expect("only this takes it, and ends this value") {
                Place::Memory(memory, origin) => {
                    let secret = memory.secret();
                    (
                        memory,
                        origin,
                        HostMap::single(size),
                        secret,
                        size - services,
                        None,
                    )
                }
                Place::Launched(mut launched, origin, held) => {
                    let appnum = launched.appnum;
                    let (memory, hosts, secret) = match meet(&mut launched, services, given) {
                        Ok(all) => all,
                        Err(error) => {
                            // The other ranks would wait for this one until their deadline; but a launcher that is told
                            // at once may kill this process before it has said why.
                            give_up(launched.channel);
                            return Err(error);
                        }
                    };
                    memory.claim(rank)?;
                    memory.started(rank, std::process::id(), appnum);
                    if hosts.hosts() == 1 {
                        for (key, value) in held {
                            kvs::put(&memory, rank, &key, &value)?;
                        }
                    }
                    allow_attach(std::os::unix::process::parent_id());
                    stdio::buffer_by_line();
                    let universe = launched.universe.saturating_sub(services).max(1);
                    let channel = Some(Mutex::new(launched.channel));
                    (memory, origin, hosts, secret, universe, channel)
                }
            };
        memory.publish(rank);
        Ok(Job {
            parted: AtomicBool::new(false),
            of: std::process::id(),
            memory,
            rank,
            origin,
            hosts,
            secret,
            universe,
            roles: std::mem::take(&mut self.roles),
            channel,
            limit,
        })
    }
}

/// The fence, the host's memory, who is where, and the secret.
fn meet(
    launched: &mut Launched,
    services: u32,
    given: Option<secret::Secret>,
) -> Result<(JobMemory, HostMap, secret::Secret), JobError> {
    let (rank, size) = (launched.rank, launched.size);
    if size == 1 {
        let memory = host_memory(1, 0)?;
        let secret = memory.secret();
        return Ok((memory, HostMap::single(1), secret));
    }
    let own = Identity::own();
    let told = launched.hosts.take();
    let mut made = None;
    // Where the launcher does not say who is where, any rank may turn out to be the lowest of its host.
    if told.as_ref().is_none_or(|h| h.lowest_beside(rank) == rank) {
        let memory = host_memory(size, services)?;
        let pass = match given {
            _ if rank != 0 || told.as_ref().is_some_and(|h| h.hosts() == 1) => Pass::No,
            Some(secret) => Pass::Given(secret::fingerprint(&secret)),
            None => Pass::Here(memory.secret()),
        };
        let card = Card {
            identity: own.clone(),
            memory: memory.id(),
            pass,
        };
        launched.channel.put(rank, card::KEY, &card.write())?;
        made = Some(memory);
    }
    launched.channel.fence()?;
    let mut cards = Cards::new(launched.channel.as_mut());
    let hosts = match told {
        Some(hosts) => hosts,
        None => {
            let identities: Result<Vec<Identity>, JobError> =
                (0..size).map(|of| Ok(cards.get(of)?.identity)).collect();
            HostMap::of(identities?)
        }
    };
    let lowest = hosts.lowest_beside(rank);
    let memory = match made.filter(|_| lowest == rank) {
        Some(memory) => memory,
        None => {
            let card = cards.get(lowest)?;
            if let Some(why) = own.differs(&card.identity) {
                return Err(JobError::NotOneHost {
                    rank,
                    here: own.name,
                    with: lowest,
                    there: card.identity.name,
                    why,
                });
            }
            let id = JobId::parse(&card.memory)?;
            JobMemory::open(peer_fd::open(id.launcher, id.fd)?, Some(id.nonce))?
        }
    };
    if memory.layout().ranks != size {
        return Err(JobError::Memory(format!(
            "it is for {} ranks, the launcher says {size}",
            memory.layout().ranks
        )));
    }
    let secret = if hosts.hosts() == 1 {
        memory.secret()
    } else if rank == 0 {
        given.unwrap_or(memory.secret())
    } else {
        match (cards.get(0)?.pass, given) {
            (Pass::Here(secret), _) => secret,
            (Pass::Given(of_root), Some(secret)) => {
                if of_root != secret::fingerprint(&secret) {
                    return Err(JobError::Kvs(format!(
                        "rank {rank} on host {} and rank 0 were given different secrets; what {} names must hold the same \
                         on every host",
                        own.name,
                        secret::SECRET_FILE
                    )));
                }
                secret
            }
            (Pass::Given(_), None) => {
                return Err(JobError::Kvs(format!(
                    "rank 0 was given the job's secret by its launcher, rank {rank} was not; {} must be set for all ranks or for none",
                    secret::SECRET_FILE
                )));
            }
            (Pass::No, _) => {
                return Err(JobError::Kvs(
                    "rank 0 takes the job to be on one host and published no secret, its launcher told this rank otherwise".into(),
                ));
            }
        }
    };
    Ok((memory, hosts, secret))
}

/// A memory for the ranks of this host, made by one of them. How many they are may not be known yet: of a bound rank
/// the header has all cores online, which `Job::placement` limits to the number of ranks.
fn host_memory(size: u32, services: u32) -> Result<JobMemory, JobError> {
    let cores = allowed_cores();
    let bound = cores == 1 && size > 1;
    JobMemory::create(&NewJob {
        size,
        services,
        launcher: std::process::id(),
        allowed_cores: if bound { online_cores() } else { cores },
        bound,
    })
}

fn alone() -> Result<(u32, u32, Place), JobError> {
    let memory = JobMemory::create(&NewJob {
        size: 1,
        services: 0,
        launcher: 0,
        allowed_cores: allowed_cores(),
        bound: false,
    })?;
    memory.claim(0)?;
    memory.started(0, std::process::id(), 0);
    Ok((0, 1, Place::Memory(memory, Origin::Alone)))
}

fn pmi(
    env: &impl Fn(&str) -> Option<String>,
    fd: &str,
    tunables: &JobTunables,
) -> Result<(u32, u32, Place), JobError> {
    let raw: i32 = number("PMI_FD", fd, "must be the descriptor of a PMI server")?;
    let place = |name, what: &str| {
        let text = env(name).ok_or_else(|| {
            JobError::variable(
                name,
                "",
                "is not set, though PMI_FD is; both come from the launcher",
            )
        })?;
        number(
            name,
            &text,
            &format!("must be {what}, as the launcher that set PMI_FD says it"),
        )
    };
    let (size, rank): (u32, u32) = (
        place("PMI_SIZE", "the number of ranks")?,
        place("PMI_RANK", "a rank")?,
    );
    if size > MAX_RANKS {
        return Err(JobError::variable(
            "PMI_SIZE",
            size.to_string(),
            format!("a job has 1 to {MAX_RANKS} ranks"),
        ));
    }
    if size == 0 || rank >= size {
        return Err(JobError::variable(
            "PMI_RANK",
            rank.to_string(),
            format!("PMI_SIZE={size} has no such rank"),
        ));
    }
    if raw <= 2 || !peer_fd::close_on_exec(raw) {
        return if size == 1 {
            alone()
        } else {
            Err(JobError::variable(
                "PMI_FD",
                fd,
                "no such descriptor is open; something between the launcher and the program closed it",
            ))
        };
    }
    // SAFETY: the launcher left this descriptor open for the PMI client in this process, which is us.
    let wire = Wire::new(unsafe { File::from_raw_fd(raw) }, tunables.limit(), "PMI");
    speak(env, wire, rank, size, tunables)
}

/// As [`pmi`], where the launcher serves at a port.
fn pmi_over_tcp(
    env: &impl Fn(&str) -> Option<String>,
    at: &str,
    tunables: &JobTunables,
) -> Result<(u32, u32, Place), JobError> {
    let (wire, rank, size) = port::connect(env, at, tunables.limit())?;
    if size > MAX_RANKS || rank >= size {
        return Err(broken(
            "PMI-1",
            format!("says that this is rank {rank} of {size}; a job has 1 to {MAX_RANKS} ranks"),
        ));
    }
    speak(env, wire, rank, size, tunables)
}

/// Join over a connection to a PMI server.
fn speak(
    env: &impl Fn(&str) -> Option<String>,
    wire: Wire,
    rank: u32,
    size: u32,
    tunables: &JobTunables,
) -> Result<(u32, u32, Place), JobError> {
    let jobid = env("PMI_JOBID");
    // Launchers that serve PMI-2 first of all, as Slurm does, name the job.
    let second = match tunables.pmi_version {
        0 => jobid.is_some(),
        version => version == 2,
    };
    let (mut launched, origin) = if second {
        (pmi2::join(wire, rank, size, jobid.as_deref())?, Origin::Pmi2)
    } else {
        (pmi1::join(wire, rank, size)?, Origin::Pmi1)
    };
    // Slurm's plug-in cannot put a list of hosts into PMI's words, and says that every rank is alone.
    let arbitrary = env("SLURM_DISTRIBUTION").is_some_and(|how| how.starts_with("arbitrary"));
    if arbitrary && launched.hosts.as_ref().is_some_and(|h| h.hosts() == size) {
        launched.hosts = None;
    }
    Ok((rank, size, Place::Launched(launched, origin, Vec::new())))
}

fn pmix_or_alone(
    env: &impl Fn(&str) -> Option<String>,
    tunables: &JobTunables,
) -> Result<(u32, u32, Place), JobError> {
    match pmix::join(env, tunables.limit()) {
        Ok(launched) => Ok((
            launched.rank,
            launched.size,
            Place::Launched(launched, Origin::Pmix, Vec::new()),
        )),
        // Half of what a launcher says leaves open how many processes there are.
        Err(error @ JobError::Variable { .. }) => Err(error),
        // A single process does not need its launcher.
        Err(_) if foreign::check(env).is_ok() => alone(),
        Err(error) => Err(error),
    }
}

/// The memory Farpost's launcher left open, and the rank.
fn launcher_memory(env: &impl Fn(&str) -> Option<String>, fd: &str) -> Result<(JobMemory, u32), JobError> {
    let raw: i32 = number(JOB_FD, fd, "must be the descriptor mpiexec left open")?;
    let rank_text = env(RANK).unwrap_or_default();
    let rank: u32 = number(RANK, &rank_text, "must be a rank, as mpiexec sets it")?;
    let id = env(JOB_ID).map(|text| JobId::parse(&text)).transpose()?;
    let nonce = id.as_ref().map(|i| i.nonce);
    let inherited = open_inherited(raw, nonce);
    let mut memory = match (inherited, &id) {
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
        return Err(JobError::variable(
            RANK,
            rank_text,
            format!("the job has ranks 0 to {}", size - 1),
        ));
    }
    memory.claim(rank)?;
    memory.hold_lifeline();
    allow_attach(memory.launcher());
    stdio::buffer_by_line();
    Ok((memory, rank))
}

/// Open the memory the launcher left at descriptor `raw`, and make that descriptor ours. A descriptor that
/// turns out to be something else is left alone.
fn open_inherited(raw: i32, nonce: Option<[u64; 2]>) -> Result<JobMemory, JobError> {
    let copy = peer_fd::inherited(raw, raw.max(3)).ok_or_else(|| {
        JobError::variable(
            JOB_FD,
            raw.to_string(),
            "no such descriptor is open; something between mpiexec and the program closed it",
        )
    })?;
    let memory = JobMemory::open(copy, nonce)?;
    // Programs this rank starts are not this rank.
    // SAFETY: it is the job memory the launcher left open for us to own; nothing else here knows it.
    drop(unsafe { OwnedFd::from_raw_fd(raw) });
    Ok(memory)
}

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
        parse().ok_or_else(|| {
            JobError::variable(
                JOB_ID,
                text,
                "must be 'process.descriptor.nonce', as mpiexec sets it",
            )
        })
    }
}
