//! The job memory: one anonymous, sealed memory file that all processes of a job on a host have open.

use crate::deadline::Step;
use crate::end::End;
use crate::error::JobError;
use crate::layout::{self, HEADER_LEN, Layout, MAGIC, VERSION, header, rank};
use crate::map::Map;
use crate::secret::{self, Secret};
use crate::{futex, meet};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

/// How far a rank has come. Written by the launcher (`Started`) and by the rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u32)]
pub enum RankState {
    /// No process yet.
    Waiting,
    /// The launcher has started a process, which may or may not be an MPI program.
    Started,
    /// The process has called `MPI_Init` (or its like) and not yet finalised.
    Initialised,
    /// The process has finalised; it may end whenever and however it likes.
    Finalised,
    /// The process asked for the job to be ended.
    Aborted,
}

/// What the launcher decided about cores; the fabric derives its spin budget from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Ranks of the job on this host.
    pub ranks_on_host: u32,
    /// Cores the ranks may use together (affinity mask and cgroup quota).
    pub allowed_cores: u32,
    /// Each rank is bound to cores of its own.
    pub bound: bool,
}

/// A sleep that another process ended: when it began, when the other came, and when this process ran again; nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeUp {
    pub slept: u64,
    pub rung: u64,
    pub awake: u64,
}

/// Number that a person cannot guess and no other job has.
pub(crate) type Nonce = [u64; 2];

/// What a new job memory says about its job.
#[derive(Clone, Copy, Debug)]
pub struct NewJob {
    /// Ranks and services, 1 to [`layout::MAX_RANKS`].
    pub size: u32,
    /// How many of them, the last, are services.
    pub services: u32,
    /// The launcher's process; 0 for none.
    pub launcher: u32,
    /// Cores the ranks may use together.
    pub allowed_cores: u32,
    /// Each rank is bound to cores of its own.
    pub bound: bool,
}

/// The job memory, created by a launcher or opened by a rank.
pub struct JobMemory {
    fd: OwnedFd,
    map: Map,
    layout: Layout,
    pub(crate) lifeline: Option<OwnedFd>,
}

fn memfd(total: usize) -> Result<OwnedFd, JobError> {
    let create = |more| {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | more;
        rustix::fs::memfd_create(c"farpost-job", flags)
    };
    // The memory can never be executed (Linux 6.3; older kernels refuse the flag).
    let fd = match create(MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => create(MemfdFlags::empty()),
        made => made,
    };
    let fd = fd.map_err(JobError::of("creating the job memory"))?;
    rustix::fs::ftruncate(&fd, total as u64)
        .map_err(JobError::of(format!("sizing the job memory to {total} bytes")))?;
    rustix::fs::fcntl_add_seals(&fd, FIXED_SIZE | SealFlags::SEAL)
        .map_err(JobError::of("sealing the job memory"))?;
    Ok(fd)
}

/// Seals that keep the file as long as it is.
const FIXED_SIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Fowler-Noll-Vo over the fixed part of the header: finds damage, not malice.
fn checksum(map: &Map) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    for byte in map.read(0, header::CHECKSUM) {
        sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    sum
}

fn wrong(field: &'static str, found: impl ToString, expected: String) -> Result<(), JobError> {
    let found = found.to_string();
    Err(JobError::Header {
        field,
        found,
        expected,
    })
}

fn must_be(field: &'static str, found: u64, expected: u64) -> Result<(), JobError> {
    if found == expected {
        return Ok(());
    }
    wrong(field, found, expected.to_string())
}

fn in_range(field: &'static str, found: u32, min: u32, max: u32) -> Result<(), JobError> {
    if (min..=max).contains(&found) {
        return Ok(());
    }
    wrong(field, found, format!("{min} to {max}"))
}

impl JobMemory {
    fn of(fd: OwnedFd, map: Map, layout: Layout) -> Self {
        let lifeline = None;
        JobMemory {
            fd,
            map,
            layout,
            lifeline,
        }
    }

    /// Make the memory of a new job.
    pub fn create(job: &NewJob) -> Result<JobMemory, JobError> {
        let layout = Layout::for_ranks(job.size).ok_or_else(|| {
            JobError::Memory(format!(
                "{} ranks; a job has 1 to {} ranks",
                job.size,
                layout::MAX_RANKS
            ))
        })?;
        let fd = memfd(layout.total)?;
        let map = Map::new(fd.as_fd(), layout.region)?;
        let nonce = [secret::draw("nonce")?, secret::draw("nonce")?].map(u64::from_ne_bytes);
        let u32s = [
            (header::VERSION, VERSION),
            (header::HEADER_LEN, HEADER_LEN as u32),
            (header::SIZE, job.size),
            (header::UID, geteuid().as_raw()),
            (header::LAUNCHER, job.launcher),
            (header::ALLOWED_CORES, job.allowed_cores.max(1)),
            (header::BOUND, job.bound.into()),
            (header::UNIVERSE, job.size),
            (header::SERVICES, job.services),
            (header::RANK_STRIDE, layout::RANK_STRIDE as u32),
            (header::KVS_LOG_LEN, layout::KVS_LOG_LEN as u32),
        ];
        u32s.iter().for_each(|(at, v)| map.u32(*at).store(*v, Relaxed));
        let u64s = [
            (header::TOTAL, layout.total as u64),
            (header::NONCE, nonce[0]),
            (header::NONCE_2, nonce[1]),
            (header::RANK_TABLE, layout.rank_table as u64),
            (header::KVS, layout.kvs as u64),
            (header::REGION, layout.region as u64),
            (header::REGION_LEN, layout.region_len as u64),
            (header::MAGIC, MAGIC),
        ];
        u64s.iter().for_each(|(at, v)| map.u64(*at).store(*v, Relaxed));
        map.write(header::SECRET, &secret::draw::<32>("secret")?);
        map.u64(header::CHECKSUM).store(checksum(&map), Release);
        Ok(Self::of(fd, map, layout))
    }

    /// Open a job memory another process made. Checks the file (owner, length, seals) before mapping it,
    /// then every field of the header, then the `nonce` if one is expected.
    pub(crate) fn open(fd: OwnedFd, nonce: Option<Nonce>) -> Result<JobMemory, JobError> {
        let stat = rustix::fs::fstat(&fd).map_err(JobError::of("looking at the job memory"))?;
        let uid = geteuid().as_raw();
        if stat.st_uid != uid {
            return Err(JobError::Memory(format!(
                "it belongs to user {}, this is user {uid}",
                stat.st_uid
            )));
        }
        if !rustix::fs::fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(FIXED_SIZE)) {
            return Err(JobError::Memory("it is not a memory file of fixed size".into()));
        }
        let len = usize::try_from(stat.st_size).unwrap_or(0);
        if len < HEADER_LEN {
            return Err(JobError::Memory(format!(
                "it is {len} bytes long, shorter than its header"
            )));
        }
        let first = Map::new(fd.as_fd(), HEADER_LEN)?;
        let layout = validate(&first, len, uid, nonce)?;
        let map = Map::new(fd.as_fd(), layout.region)?;
        Ok(Self::of(fd, map, layout))
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The descriptor of the memory file.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Move the descriptor to a number of at least `min`, out of the way of scripts that pick small ones.
    /// Where the limit on open files forbids it, the number stays.
    pub fn move_fd_above(&mut self, min: i32) {
        if let Ok(moved) = rustix::io::fcntl_dupfd_cloexec(&self.fd, min) {
            self.fd = moved;
        }
    }

    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    pub(crate) fn nonce(&self) -> Nonce {
        [
            self.map.u64(header::NONCE).load(Relaxed),
            self.map.u64(header::NONCE_2).load(Relaxed),
        ]
    }

    /// The job's secret, drawn when this memory was made.
    pub(crate) fn secret(&self) -> Secret {
        let mut secret = [0; 32];
        secret.copy_from_slice(&self.map.read(header::SECRET, 32));
        secret
    }

    /// The value of `FARPOST_JOB_ID` for processes of this job: launcher, its descriptor, nonce.
    pub fn id(&self) -> String {
        let [a, b] = self.nonce();
        format!("{}.{}.{a:016x}{b:016x}", self.launcher(), self.fd.as_raw_fd())
    }

    /// How many of the ranks, the last, are services.
    pub fn services(&self) -> u32 {
        self.map.u32(header::SERVICES).load(Relaxed)
    }

    /// The launcher's process; 0 for none.
    pub fn launcher(&self) -> u32 {
        self.map.u32(header::LAUNCHER).load(Relaxed)
    }

    /// Ranks and cores.
    pub fn placement(&self) -> Placement {
        Placement {
            ranks_on_host: self.layout.ranks,
            allowed_cores: self.map.u32(header::ALLOWED_CORES).load(Relaxed).max(1),
            bound: self.map.u32(header::BOUND).load(Relaxed) == 1,
        }
    }

    fn entry(&self, of: u32, field: usize) -> usize {
        self.layout.rank_entry(of) + field
    }

    /// A word of a rank's entry.
    fn of_rank(&self, of: u32, field: usize) -> &AtomicU32 {
        self.map.u32(self.entry(of, field))
    }

    /// State of a rank. A value that is none of the states counts as `Started`: the rank spoilt its entry.
    pub fn state(&self, of: u32) -> RankState {
        let raw = self.of_rank(of, rank::STATE).load(Acquire);
        RankState::from_repr(raw).unwrap_or(RankState::Started)
    }

    /// Set the state of a rank.
    pub fn set_state(&self, of: u32, state: RankState) {
        self.of_rank(of, rank::STATE).store(state as u32, Release);
    }

    /// Launcher: a process has been started for the rank. Keeps the state if the process was quicker.
    pub fn started(&self, of: u32, pid: u32, appnum: u32) {
        self.of_rank(of, rank::PID).store(pid, Relaxed);
        self.of_rank(of, rank::APPNUM).store(appnum, Relaxed);
        let state = self.of_rank(of, rank::STATE);
        let _ = state.compare_exchange(
            RankState::Waiting as u32,
            RankState::Started as u32,
            AcqRel,
            Acquire,
        );
    }

    /// Launcher: where its lifeline is.
    pub(crate) fn set_lifeline(&self, fd: i32, inode: u64) {
        self.map.u64(header::LIFELINE_INODE).store(inode, Relaxed);
        self.map.u32(header::LIFELINE).store(fd as u32 + 1, Release);
    }

    /// The launcher's lifeline: descriptor and inode.
    pub(crate) fn lifeline(&self) -> Option<(i32, u64)> {
        let fd = self.map.u32(header::LIFELINE).load(Acquire).checked_sub(1)?;
        let inode = self.map.u64(header::LIFELINE_INODE).load(Relaxed);
        Some((i32::try_from(fd).ok()?, inode))
    }

    /// Launcher: the process of the rank has ended, with this wait status.
    pub fn set_ended(&self, of: u32, status: i32) {
        self.of_rank(of, rank::ENDED)
            .store(status as u32 & 0xffff | rank::ENDED_SET, Release);
    }

    /// How the process of a rank ended, if the launcher has said so.
    pub fn ended(&self, of: u32) -> Option<End> {
        let word = self.of_rank(of, rank::ENDED).load(Acquire);
        (word & rank::ENDED_SET != 0).then(|| End::of((word & !rank::ENDED_SET) as i32))
    }

    /// Launcher: record the application number before the process exists.
    pub fn set_appnum(&self, of: u32, appnum: u32) {
        self.of_rank(of, rank::APPNUM).store(appnum, Relaxed);
    }

    /// Which application of an MPMD job the rank runs.
    pub fn appnum(&self, of: u32) -> u32 {
        self.of_rank(of, rank::APPNUM).load(Relaxed)
    }

    /// The process that is the rank: the one that attached, else the one that was started; 0 for none.
    pub fn pid(&self, of: u32) -> u32 {
        match self.of_rank(of, rank::OWNER).load(Acquire) {
            0 => self.of_rank(of, rank::PID).load(Relaxed),
            owner => owner,
        }
    }

    /// Become a rank; each rank is one process for the life of the job.
    pub(crate) fn claim(&self, of: u32) -> Result<(), JobError> {
        let me = std::process::id();
        match self
            .of_rank(of, rank::OWNER)
            .compare_exchange(0, me, AcqRel, Acquire)
        {
            Ok(_) => Ok(()),
            Err(owner) if owner == me => Ok(()),
            Err(owner) => Err(JobError::RankTaken { rank: of, owner }),
        }
    }

    /// Where the rank shows what it waits for, and others look. Its form is not this crate's affair.
    pub fn notice(&self, of: u32) -> &[std::sync::atomic::AtomicU64] {
        self.map.words(self.layout.notice(of), layout::NOTICE_LEN / 8)
    }

    /// A rank says after how many seconds without progress the job is to say what its ranks wait for.
    pub fn set_hang_after(&self, seconds: u32) {
        let word = self.map.u32(header::HANG_AFTER);
        word.store(seconds.saturating_add(1), Relaxed);
    }

    /// What a rank has said of that.
    pub fn hang_after(&self) -> Option<u32> {
        self.map.u32(header::HANG_AFTER).load(Relaxed).checked_sub(1)
    }

    /// Launcher: ask for the roll-call of a job on several hosts, which its ranks print; a number for [`roll_given`](Self::roll_given).
    pub fn ask_roll(&self) -> u32 {
        self.map
            .u32(header::ROLL_ASKED)
            .fetch_add(1, AcqRel)
            .wrapping_add(1)
    }

    /// How often it was asked for.
    pub fn roll_asked(&self) -> u32 {
        self.map.u32(header::ROLL_ASKED).load(Acquire)
    }

    /// How often it was given: as often as this number says.
    pub fn roll_given(&self) -> u32 {
        self.map.u32(header::ROLL_GIVEN).load(Acquire)
    }

    /// It was given for the request of this number.
    pub fn give_roll(&self, number: u32) {
        self.map.u32(header::ROLL_GIVEN).store(number, Release);
    }

    /// What the rank puts while it joins is in its log.
    pub(crate) fn publish(&self, of: u32) {
        let word = self.of_rank(of, rank::PUBLISHED);
        word.store(1, Release);
        futex::wake_all(word);
    }

    /// Whether the rank has put what it puts while it joins.
    pub(crate) fn has_published(&self, of: u32) -> bool {
        self.of_rank(of, rank::PUBLISHED).load(Acquire) == 1
    }

    /// Wait until the rank has put what it puts while it joins.
    pub(crate) fn published(&self, of: u32, limit: Duration) -> Result<(), JobError> {
        let word = self.of_rank(of, rank::PUBLISHED);
        if word.load(Acquire) == 1 {
            return Ok(());
        }
        let step = Step::begin(format!("rank {of} to join the job"), limit);
        while word.load(Acquire) != 1 {
            if self.map.u32(header::ABORTED).load(Acquire) != 0 {
                return Err(JobError::Fence("another rank aborted the job".into()));
            }
            let left = step.left()?;
            futex::wait(word, 0, left.min(Duration::from_secs(1)));
        }
        Ok(())
    }

    /// A sentence about a rank: why it ends the job, or what it has to call before it may end.
    fn set_message(&self, of: u32, message: &str) {
        let mut len = message.len().min(rank::MESSAGE_MAX);
        while !message.is_char_boundary(len) {
            len -= 1;
        }
        self.map
            .write(self.entry(of, rank::MESSAGE), &message.as_bytes()[..len]);
        self.of_rank(of, rank::MESSAGE_LEN).store(len as u32, Relaxed);
    }

    /// Record what the rank must call before it may end, for the launcher's report.
    pub(crate) fn set_leaves_by(&self, of: u32, functions: &str) {
        self.set_message(of, functions);
    }

    /// Record why a rank ends the job.
    pub fn set_abort(&self, of: u32, code: i32, message: &str) {
        self.set_message(of, message);
        self.of_rank(of, rank::CODE).store(code as u32, Relaxed);
        self.set_state(of, RankState::Aborted);
        self.map.u32(header::ABORTED).fetch_add(1, AcqRel);
        self.meeting().abort();
        meet::let_go(self.map.u32(header::READY));
    }

    /// Code and message of a rank in state `Aborted`, one line, printable; in state `Initialised` what it must call before it
    /// ends.
    pub fn abort_reason(&self, of: u32) -> (i32, String) {
        let code = self.of_rank(of, rank::CODE).load(Relaxed) as i32;
        let len = self.of_rank(of, rank::MESSAGE_LEN).load(Relaxed) as usize;
        let bytes = self
            .map
            .read(self.entry(of, rank::MESSAGE), len.min(rank::MESSAGE_MAX));
        let text = String::from_utf8_lossy(&bytes);
        let line: String = text
            .trim()
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        (code, line)
    }

    /// This rank is ready for messages: wait until `ranks` are, or for `limit`; spin for so long before a sleep. Nothing follows from
    /// it but that the first messages find their receivers. Who slept to the end learns what it costs to be woken here.
    pub(crate) fn ready(&self, ranks: u32, spin: Duration, limit: Duration) -> Option<WakeUp> {
        let at = self.map.u64(header::READY_AT);
        let mut slept = None;
        let last = || at.store(futex::nanos(), Release);
        let sleeps = || slept = Some(futex::nanos());
        let met = meet::ready(self.map.u32(header::READY), ranks, (spin, limit), last, sleeps);
        slept.filter(|_| met).map(|slept| WakeUp {
            slept,
            rung: at.load(Acquire),
            awake: futex::nanos(),
        })
    }

    fn meeting(&self) -> meet::Fence<'_, AtomicU32> {
        meet::Fence {
            arrived: self.map.u32(header::FENCE_ARRIVED),
            done: self.map.u32(header::FENCE_DONE),
        }
    }

    /// Wait until every one of the first `size` ranks has called this as often as this one.
    pub(crate) fn fence(&self, size: u32) -> Result<(), JobError> {
        self.meeting().pass(size)
    }
}

/// Check every field of a header; the layout follows from the number of ranks alone.
fn validate(map: &Map, len: usize, uid: u32, nonce: Option<Nonce>) -> Result<Layout, JobError> {
    let word = |at| map.u32(at).load(Acquire);
    let long = |at| map.u64(at).load(Acquire);
    must_be("magic", long(header::MAGIC), MAGIC)?;
    must_be("version", word(header::VERSION).into(), VERSION.into())?;
    must_be(
        "header length",
        word(header::HEADER_LEN).into(),
        HEADER_LEN as u64,
    )?;
    let size = word(header::SIZE);
    in_range("number of ranks", size, 1, layout::MAX_RANKS)?;
    let expected = Layout::for_ranks(size).expect("just checked");
    must_be("length of the file", len as u64, expected.total as u64)?;
    must_be("total length", long(header::TOTAL), expected.total as u64)?;
    must_be("user", word(header::UID).into(), uid.into())?;
    must_be(
        "offset of the rank table",
        long(header::RANK_TABLE),
        expected.rank_table as u64,
    )?;
    must_be(
        "length of a rank's entry",
        word(header::RANK_STRIDE).into(),
        layout::RANK_STRIDE as u64,
    )?;
    must_be(
        "length of a key-value log",
        word(header::KVS_LOG_LEN).into(),
        layout::KVS_LOG_LEN as u64,
    )?;
    must_be(
        "offset of the key-value logs",
        long(header::KVS),
        expected.kvs as u64,
    )?;
    must_be(
        "offset of the region",
        long(header::REGION),
        expected.region as u64,
    )?;
    must_be(
        "length of the region",
        long(header::REGION_LEN),
        expected.region_len as u64,
    )?;
    in_range("allowed cores", word(header::ALLOWED_CORES), 1, 1 << 20)?;
    in_range("bound flag", word(header::BOUND), 0, 1)?;
    must_be("universe size", word(header::UNIVERSE).into(), size.into())?;
    in_range("number of services", word(header::SERVICES), 0, size - 1)?;
    in_range("launcher process", word(header::LAUNCHER), 0, 1 << 22)?;
    must_be("checksum", long(header::CHECKSUM), checksum(map))?;
    if let Some(nonce) = nonce {
        must_be("nonce", long(header::NONCE), nonce[0])?;
        must_be("nonce", long(header::NONCE_2), nonce[1])?;
    }
    Ok(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(size: u32) -> JobMemory {
        JobMemory::create(&NewJob {
            size,
            services: 0,
            launcher: 7,
            allowed_cores: 2,
            bound: false,
        })
        .unwrap()
    }

    fn reopen(m: &JobMemory) -> Result<JobMemory, JobError> {
        JobMemory::open(m.fd().try_clone_to_owned().unwrap(), Some(m.nonce()))
    }

    #[test]
    fn every_bit_of_the_header_is_checked() {
        let m = memory(3);
        assert!(reopen(&m).is_ok());
        let good = m.map.read(0, HEADER_LEN);
        for bit in 0..(header::CHECKSUM + 8) * 8 {
            let byte = bit / 8;
            m.map.write(byte, &[good[byte] ^ 1 << (bit % 8)]);
            match reopen(&m).map(|_| ()) {
                Err(JobError::Header { .. }) => {}
                other => panic!("bit {bit}: {other:?}"),
            }
            m.map.write(byte, &good[byte..=byte]);
        }
        assert!(reopen(&m).is_ok());
    }

    #[test]
    fn damage_is_named() {
        let fields = [
            (header::MAGIC, "magic"),
            (header::VERSION, "version"),
            (header::SIZE, "number of ranks"),
            (header::UID, "user"),
            (header::TOTAL, "total length"),
            (header::RANK_TABLE, "offset of the rank table"),
            (header::KVS, "offset of the key-value logs"),
            (header::REGION, "offset of the region"),
            (header::REGION_LEN, "length of the region"),
            (header::ALLOWED_CORES, "allowed cores"),
            (header::BOUND, "bound flag"),
            (header::CHECKSUM, "checksum"),
        ];
        for (at, name) in fields {
            let m = memory(2);
            m.map.write(at, &[0xee, 0xee, 0xee, 0xee]);
            let text = reopen(&m).map(|_| ()).unwrap_err().to_string();
            assert!(text.contains(name), "{name}: {text}");
        }
    }

    #[test]
    fn other_files_are_refused() {
        let pipe = std::io::pipe().unwrap().0;
        assert!(JobMemory::open(pipe.into(), None).is_err());
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(JobMemory::open(null.into(), None).is_err());
        let fd = rustix::fs::memfd_create(c"unsealed", MemfdFlags::CLOEXEC).unwrap();
        assert!(JobMemory::open(fd, None).is_err());
    }

    #[test]
    fn an_abort_reason_is_one_bounded_line() {
        let m = memory(2);
        m.set_abort(1, -5, &format!("bad\nthing {}", "é".repeat(400)));
        assert_eq!(m.state(1), RankState::Aborted);
        let (code, text) = m.abort_reason(1);
        assert_eq!(code, -5);
        assert!(text.starts_with("bad thing é") && text.len() <= rank::MESSAGE_MAX);
        m.map.u32(m.entry(1, rank::MESSAGE_LEN)).store(u32::MAX, Relaxed);
        assert!(m.abort_reason(1).1.len() <= 2 * rank::MESSAGE_MAX);
    }

    #[test]
    fn a_rank_is_claimed_once() {
        let m = memory(2);
        m.claim(0).unwrap();
        m.claim(0).unwrap();
        m.map.u32(m.entry(1, rank::OWNER)).store(1, Relaxed);
        assert!(matches!(
            m.claim(1),
            Err(JobError::RankTaken { rank: 1, owner: 1 })
        ));
    }

    #[test]
    fn ranks_that_are_ready_wait_for_the_others_and_no_longer() {
        let m = memory(3);
        let long = Duration::from_secs(60);
        let sleeper = reopen(&m).unwrap();
        let sleeper = std::thread::spawn(move || sleeper.ready(3, Duration::ZERO, long));
        // Nobody else comes in time.
        assert_eq!(m.ready(3, Duration::ZERO, Duration::from_millis(5)), None);
        assert_eq!(m.ready(3, Duration::ZERO, long), None, "the last");
        // When it did not sleep it has nothing to tell.
        if let Some(wake) = sleeper.join().unwrap() {
            assert!(wake.slept > 0 && wake.awake >= wake.slept, "{wake:?}");
        }
        // An abort lets go.
        let m = memory(2);
        m.set_abort(1, 1, "why");
        assert_eq!(m.ready(2, Duration::ZERO, long), None);
    }

    #[test]
    fn fences_let_all_through_together() {
        let m = std::sync::Arc::new(memory(4));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let m = reopen(&m).unwrap();
                std::thread::spawn(move || (0..200).for_each(|_| m.fence(4).unwrap()))
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(m.map.u32(header::FENCE_DONE).load(Acquire), 200 * meet::ROUND);
    }

    #[test]
    fn an_abort_lets_go_who_waits_in_a_fence_or_is_ready() {
        let m = memory(3);
        let waiting: Vec<_> = [false, true]
            .map(|fence| {
                let m = reopen(&m).unwrap();
                std::thread::spawn(move || {
                    let began = std::time::Instant::now();
                    if fence {
                        let why = m.fence(3).unwrap_err().to_string();
                        assert!(why.contains("aborted"), "{why}");
                    } else {
                        m.ready(3, Duration::ZERO, Duration::from_secs(600));
                    }
                    began.elapsed()
                })
            })
            .into();
        std::thread::sleep(Duration::from_millis(20));
        m.set_abort(2, 1, "no more");
        for thread in waiting {
            assert!(thread.join().unwrap() < Duration::from_secs(300));
        }
        // Who comes later waits no more.
        assert!(m.fence(3).is_err());
        m.ready(3, Duration::ZERO, Duration::from_secs(600));
        assert_eq!(m.map.u32(header::ABORTED).load(Acquire), 1);
    }
}
