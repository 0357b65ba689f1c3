//! The endpoint of a process, and its parts.

mod bulk;
mod core_placement;
mod doorbell;
mod flag;
mod host;
mod packets;
mod process_handles;
mod region;
mod ring;
mod segments;
mod sleep;
#[cfg(test)]
mod tests;
mod watch;

pub use host::cross_memory_available;
pub use sleep::{futex_wait, futex_wake};
pub use watch::Watch;

use farpost_fabric::clock::Clock;
use farpost_fabric::sync::Ordering;
use farpost_fabric::wait::Host;
use farpost_fabric::{
    Counter, Counters, Distance, End, ErrorStatus, Fabric, FabricError, Fault, FaultLog, Interrupt, Peer,
    Permission, RailFigures, Register, Result, Time, Topology, Wake,
};
use farpost_mapped::{Mapping, sealed_memory};
use std::cell::RefCell;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::time::Duration;

farpost_tunables::tunables! {
    /// Tunables of the shared-memory fabric.
    pub struct ShmTunables {
        /// Let the kernel copy between processes (cross-memory attach): one copy instead of two for large messages. 0 keeps it off.
        cma: "FARPOST_SHM_CMA" = 1, 0..=1, "switch";
        /// Segments from this size on ask for huge pages; smaller ones would waste memory.
        huge_from: "FARPOST_SHM_HUGE_FROM" = 4 << 20, 0..=1 << 40, "bytes";
        /// Copies for other cores from this size on use non-temporal stores while cached ones are slow, as between dies. Shorter ones gain nothing by it.
        stream_min: "FARPOST_SHM_STREAM_MIN" = 2048, 0..=1 << 40, "bytes";
    }
}

/// What a process needs to attach: the region as its launcher passed it.
pub struct ShmConfig {
    /// The shared file.
    pub file: OwnedFd,
    /// Where the region starts in it: a multiple of the page size.
    pub offset: u64,
    /// Bytes of it; at least [`region_bytes`].
    pub len: u64,
    /// Which process of the region this is.
    pub index: u32,
    /// How many there are. They need not all be here: what is never touched costs nothing.
    pub size: u32,
    /// How many of them are on this host.
    pub processes: u32,
    /// Cores of this host that the job's processes may use.
    pub cores: u32,
    /// Tunables.
    pub tunables: ShmTunables,
}

/// Bytes of region needed by `size` processes.
pub const fn region_bytes(size: u32) -> usize {
    region::bytes(size)
}

/// Device and inode.
fn file_identity(file: &OwnedFd) -> Result<(u64, u64)> {
    let about = file
        .try_clone()
        .and_then(|copy| File::from(copy).metadata())
        .map_err(|e| FabricError::os_error("inspect shared memory", &e))?;
    Ok((about.dev(), about.ino()))
}

/// A peer's sleep word, looked up once.
pub struct ShmBell {
    asleep: farpost_mapped::Word32,
    peer: Peer,
}

/// The shared-memory fabric of one process.
pub struct Shm {
    region: Mapping,
    /// Bytes from one process to the next.
    stride: usize,
    index: u32,
    size: u32,
    processes: u32,
    cores: u32,
    tunables: ShmTunables,
    sleeper: sleep::Sleeper,
    packets: packets::Packets,
    segments: segments::Segments,
    bulk: bulk::Bulk,
    faults: RefCell<FaultLog>,
    doorbell: doorbell::Doorbell,
    handles: process_handles::ProcessHandles,
    end_report: Option<EndReport>,
    placement: Rc<core_placement::CorePlacement>,
    clock: Rc<Clock>,
}

/// Jobs of more processes than this on a host do not move processes apart.
const NEIGHBOURS: u32 = 256;

impl Shm {
    /// Show what this process's rails carry.
    pub fn show_rails(&self, rails: &[RailFigures]) {
        let shown = &region::registers(&self.region, self.index, self.size).rails;
        for (place, rail) in shown.iter().zip(rails) {
            for (word, value) in place.iter().zip(rail.words()) {
                word.store(value, Ordering::Relaxed);
            }
        }
    }
}

/// The host's monotonic clock, nanoseconds.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A peer's process, as the shared region and the kernel show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerProcess {
    /// It lives, or has not attached yet.
    Alive,
    /// It has left the job.
    Left,
    /// It has ended; its wait status where the kernel tells.
    Ended(Option<i32>),
}

/// What the launcher reports of a peer's end. `None`: the peer lives, or the report is about to come.
pub type EndReport = Box<dyn Fn(Peer, PeerProcess) -> Option<End>>;

impl Shm {
    /// Attach to the region.
    pub fn attach(config: ShmConfig) -> Result<Self> {
        use std::os::fd::AsFd;
        let ShmConfig {
            file,
            offset,
            len,
            index,
            size,
            processes,
            cores,
            tunables,
        } = config;
        farpost_mapped::stream_from(tunables.stream_min);
        let needed = region_bytes(size);
        assert!(size <= ring::SENDERS, "a job of {size} processes is too large");
        if index >= size || len < needed as u64 {
            return Err(FabricError::OutOfRange {
                offset: region::process_offset(index, size),
                end: needed,
                len: len as usize,
            });
        }
        let region = Mapping::new(file.as_fd(), offset, needed, Permission::ReadWrite)?;
        // SAFETY: the header has only atomic fields.
        let header: &region::Header = unsafe { region.table(0) };
        let claim = |found: Result<u64, u64>, wanted: u64, what| match found {
            Err(found) if found != wanted => Err(FabricError::corrupt(Peer(0), what, found)),
            _ => Ok(()),
        };
        // The first to attach writes, the others compare.
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let magic = header.magic.compare_exchange(0, region::MAGIC, order.0, order.1);
        claim(magic, region::MAGIC, "the region's magic")?;
        let found = header.size.compare_exchange(0, size, order.0, order.1);
        let found = found.map(u64::from).map_err(u64::from);
        claim(found, u64::from(size), "the region's number of processes")?;
        let about = file_identity(&file)?;
        let barrier = if processes > cores {
            sleep::Barrier::Sender
        } else {
            sleep::Barrier::Sleeper
        };
        // Entries of other hosts' processes are not touched: where there are some, no process moves.
        let neighbours = if size == processes && processes <= cores.min(NEIGHBOURS) {
            size
        } else {
            0
        };
        let place = std::mem::offset_of!(region::Process, place);
        let words = (0..neighbours).map(|i| region.keep_word32(region::process_offset(i, size) + place));
        let clock = Rc::new(Clock::new());
        let placement =
            core_placement::CorePlacement::new(words.collect(), index as usize, Rc::clone(&clock));
        let shm = Self {
            bulk: bulk::Bulk::new(index, size, tunables.cma != 0, (about, offset)),
            region,
            stride: region::stride(size),
            index,
            size,
            processes,
            cores,
            tunables,
            sleeper: sleep::Sleeper::new(barrier),
            packets: packets::Packets::default(),
            segments: segments::Segments::default(),
            faults: RefCell::default(),
            doorbell: doorbell::Doorbell::default(),
            handles: process_handles::ProcessHandles::default(),
            end_report: None,
            placement: Rc::new(placement),
            clock,
        };
        let identity = &shm.process(Peer(index)).identity;
        shm.bulk.publish_probe(identity);
        // SAFETY: plain calls without arguments.
        let (pid, uid) = unsafe { (libc::getpid(), libc::getuid()) };
        identity.uid.store(uid, Ordering::Relaxed);
        identity.started.store(
            process_handles::started(pid as u32).unwrap_or(0),
            Ordering::Relaxed,
        );
        identity.pid.store(pid as u32, Ordering::Release);
        Ok(shm)
    }

    /// With a source that knows how peers ended.
    #[must_use]
    pub fn with_end_report(mut self, word: EndReport) -> Self {
        self.end_report = Some(word);
        self
    }

    /// Leave the job: peers see that this process needs nothing more of them.
    pub fn leave(&self) {
        self.process(Peer(self.index))
            .identity
            .left
            .store(1, Ordering::Release);
    }

    /// Who `peer` is.
    fn life(&self, peer: Peer) -> process_handles::ProcessId {
        let identity = &self.process(peer).identity;
        let pid = identity.pid.load(Ordering::Acquire);
        process_handles::ProcessId {
            pid,
            started: identity.started.load(Ordering::Relaxed),
        }
    }

    /// The error of a call that found the process of `peer` ended. How it ended others know: they may need a moment to say so.
    #[cold]
    fn dead(&self, peer: Peer) -> FabricError {
        const MOMENTS: u32 = 200;
        for _ in 0..MOMENTS {
            if let Some(End { why, .. }) = self.end_of(peer) {
                return FabricError::dead(peer, why);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        FabricError::dead(peer, "its process has ended")
    }

    /// Whether the process has ended, and how where the kernel tells; `None`: not yet, or it has not attached yet.
    fn ended(&self, peer: Peer) -> Option<Option<i32>> {
        match self.life(peer) {
            process_handles::ProcessId { pid: 0, .. } => None,
            process_handles::ProcessId {
                pid: region::GONE, ..
            } => Some(None),
            life => self.handles.ended(peer, life),
        }
    }

    /// A fabric of one process, with nobody to talk to but itself.
    pub fn alone(tunables: ShmTunables) -> Result<Self> {
        let len = region_bytes(1);
        Self::attach(ShmConfig {
            file: sealed_memory(c"farpost-alone", len)?,
            offset: 0,
            len: len as u64,
            index: 0,
            size: 1,
            processes: 1,
            cores: 1,
            tunables,
        })
    }

    #[inline]
    fn process(&self, peer: Peer) -> &region::Process {
        assert!(peer.0 < self.size, "{peer} does not exist");
        // SAFETY: only atomic fields.
        unsafe { self.region.table(region::PAGE + peer.index() * self.stride) }
    }

    /// Wake a peer whose flag was seen raised.
    #[cold]
    fn ring(&self, peer: Peer) {
        let sleep = &self.process(peer).sleep;
        let flag = &sleep.asleep;
        let up = flag::claim(flag);
        if up != 0 {
            sleep.rung_at.store(now(), Ordering::Relaxed);
        }
        match up {
            0 => {}
            flag::POLLING => self.ring_pipe(peer),
            _ => futex_wake(flag),
        }
    }

    /// What a sleep since `slept` tells about wake-ups here.
    fn learn(&self, slept: u64, wake: Wake) {
        let cost = self.placement.wake_cost();
        match wake {
            Wake::Rung => {
                let me = self.process(Peer(self.index));
                cost.rung(slept, me.sleep.rung_at.load(Ordering::Relaxed), now());
            }
            Wake::Timeout => cost.slept_long(),
            Wake::Ready | Wake::Interrupted => {}
        }
    }

    /// As [`Interrupt::sleep`], also ended by `descriptor` becoming readable. `ready` has the last word before.
    pub fn sleep_with(&self, descriptor: RawFd, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> Wake {
        let Ok(pipe) = self.own_pipe() else {
            // Without a pipe nobody of this host can ring: do not sleep long.
            std::thread::sleep(timeout.min(Duration::from_micros(500)));
            return Wake::Timeout;
        };
        let Some(timeout) = self.before_sleep(timeout) else {
            return Wake::Rung;
        };
        let flag = &self.process(Peer(self.index)).sleep.asleep;
        let slept = now();
        let wake = self
            .sleeper
            .sleep_by(flag, flag::POLLING, timeout, ready, |timeout| {
                doorbell::wait_readable([pipe.as_raw_fd(), descriptor], timeout)
            });
        self.learn(slept, wake);
        doorbell::drain(pipe);
        wake
    }

    /// Raise my flag for a thread that will wait beside the others of this process, without being in any call: who wakes
    /// this process writes to the pipe that is returned. `ready` is asked once more after that. None: there is something.
    ///
    /// A call that sleeps takes the flag down again, so that the thread has to be told when calls were made.
    pub fn arm_wait(&self, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> Option<(RawFd, Duration)> {
        let timeout = self.before_sleep(timeout)?;
        let Ok(pipe) = self.own_pipe() else {
            // Without a pipe nobody of this host can ring: not for long.
            return (!ready()).then_some((-1, timeout.min(Duration::from_micros(500))));
        };
        let pipe = pipe.as_raw_fd();
        let flag = &self.process(Peer(self.index)).sleep.asleep;
        let timeout = self.sleeper.raise(flag, flag::POLLING, timeout);
        if ready() {
            self.disarm_wait();
            return None;
        }
        Some((pipe, timeout))
    }

    /// Nobody is to write to the pipe any more.
    pub fn disarm_wait(&self) {
        flag::lower(&self.process(Peer(self.index)).sleep.asleep);
        if let Ok(pipe) = self.own_pipe() {
            doorbell::drain(pipe);
        }
    }

    fn check_peer(&self, peer: Peer) -> Result<()> {
        peer.check(self.size)
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        // SAFETY: a plain call without arguments.
        let pid = unsafe { libc::getpid() } as u32;
        let me = self.process(Peer(self.index));
        // A child that forked off inherits the value, but is not the process.
        if me.identity.pid.load(Ordering::Relaxed) == pid {
            self.bulk.withdraw();
            for entry in &me.segments {
                entry.shown.hide();
            }
            me.identity.pid.store(region::GONE, Ordering::Release);
        }
    }
}

impl Time for Shm {
    #[inline]
    fn clock(&self) -> &Rc<Clock> {
        &self.clock
    }
}

impl Interrupt for Shm {
    type Bell = ShmBell;

    fn bell(&self, peer: Peer) -> ShmBell {
        assert!(peer.0 < self.size, "{peer} does not exist");
        let asleep = std::mem::offset_of!(region::Process, sleep);
        let at = region::process_offset(peer.0, self.size) + asleep;
        ShmBell {
            asleep: self.region.keep_word32(at),
            peer,
        }
    }

    #[inline(always)]
    fn wake_by(&self, bell: &ShmBell) {
        self.sleeper.wake(bell.asleep.get(), || self.ring(bell.peer));
    }

    #[inline]
    fn wake(&self, peer: Peer) {
        let flag = &self.process(peer).sleep.asleep;
        self.sleeper.wake(flag, || self.ring(peer));
    }

    fn sleep(&self, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> Wake {
        let Some(timeout) = self.before_sleep(timeout) else {
            return Wake::Rung;
        };
        let flag = &self.process(Peer(self.index)).sleep.asleep;
        let slept = now();
        let wake = self.sleeper.sleep(flag, timeout, ready);
        self.learn(slept, wake);
        wake
    }

    fn host(&self) -> Option<Rc<dyn Host>> {
        Some(Rc::clone(&self.placement) as Rc<dyn Host>)
    }

    fn rings(&self) -> u64 {
        self.sleeper.rings()
    }
}

impl ErrorStatus for Shm {
    fn record_fault(&self, fault: Fault) {
        if fault.peer.0 < self.size {
            self.count(fault.peer, Counter::Faults, 1);
        }
        self.faults.borrow_mut().record(fault);
    }

    fn take_faults(&self) -> (Vec<Fault>, u64) {
        self.faults.borrow_mut().take()
    }

    fn has_ended(&self, peer: Peer) -> bool {
        if peer.0 >= self.size {
            return false;
        }
        match self.life(peer).pid {
            // It has not attached and may have ended before it could.
            0 => self
                .end_report
                .as_ref()
                .is_some_and(|word| word(peer, PeerProcess::Alive).is_some()),
            _ => self.ended(peer).is_some(),
        }
    }

    fn end_of(&self, peer: Peer) -> Option<End> {
        if peer.0 >= self.size {
            return None;
        }
        let identity = &self.process(peer).identity;
        let left = identity.left.load(Ordering::Acquire) != 0;
        let seen = if left || identity.pid.load(Ordering::Acquire) == region::GONE {
            PeerProcess::Left
        } else {
            self.ended(peer).map_or(PeerProcess::Alive, PeerProcess::Ended)
        };
        match (&self.end_report, seen) {
            (Some(word), _) => word(peer, seen),
            (None, PeerProcess::Alive) => None,
            (None, PeerProcess::Left) => Some(End {
                why: format!("{peer} has left the job"),
                in_order: true,
            }),
            (None, PeerProcess::Ended(_)) => Some(End {
                why: format!("the process of {peer} has ended"),
                in_order: false,
            }),
        }
    }
}

impl Counters for Shm {
    #[inline]
    fn count(&self, peer: Peer, counter: Counter, amount: u64) {
        assert!(peer.0 < self.size);
        let cell = region::counter(&self.region, self.index, peer.0, self.size, counter);
        // This process is the only writer, so load and store do.
        cell.store(
            cell.load(Ordering::Relaxed).wrapping_add(amount),
            Ordering::Relaxed,
        );
    }

    fn counter(&self, of: Peer, peer: Peer, counter: Counter) -> u64 {
        assert!(of.0 < self.size && peer.0 < self.size);
        region::counter(&self.region, of.0, peer.0, self.size, counter).load(Ordering::Relaxed)
    }

    fn set_register(&self, of: Peer, register: Register, value: u64) {
        assert!(of.0 < self.size);
        let registers = region::registers(&self.region, of.0, self.size);
        registers.registers[register as usize].store(value, Ordering::Relaxed);
    }

    fn register(&self, of: Peer, register: Register) -> u64 {
        assert!(of.0 < self.size);
        let registers = region::registers(&self.region, of.0, self.size);
        registers.registers[register as usize].load(Ordering::Relaxed)
    }
}

impl Topology for Shm {
    fn hosts(&self) -> u32 {
        1
    }

    fn host_of(&self, _peer: Peer) -> u32 {
        0
    }

    fn distance(&self, peer: Peer) -> Distance {
        if peer.0 == self.index {
            Distance::Same
        } else {
            Distance::Host
        }
    }

    fn rails(&self, _peer: Peer) -> u32 {
        1
    }

    fn cores_and_processes(&self) -> (u32, u32) {
        (self.cores, self.processes)
    }
}

impl Fabric for Shm {
    #[inline]
    fn me(&self) -> Peer {
        Peer(self.index)
    }

    #[inline]
    fn size(&self) -> u32 {
        self.size
    }

    fn name(&self) -> &'static str {
        "shm"
    }
}
