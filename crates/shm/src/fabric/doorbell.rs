//! Waking a process that sleeps on descriptors (its network's and its own pipe) instead of on a futex.
//!
//! The sleeper raises its flag to [`flag::POLLING`]; who takes the flag down writes a byte to the sleeper's pipe,
//! which it opens through `/proc/<pid>/fd` as it does segments. Cost class: *set-up path*, and system calls.

use super::{Shm, flag, region};
use farpost_fabric::sync::Ordering;
use farpost_fabric::{FabricError, Fault, Peer, Result, Wake};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::time::Duration;

/// A sleep is no longer than this while somebody could not be rung: then it is tried again.
const AGAIN: Duration = Duration::from_millis(1);

/// The pipes of a process: its own, and those of peers it has woken.
#[derive(Default)]
pub struct Doorbell {
    mine: OnceCell<(File, File)>,
    theirs: RefCell<HashMap<u32, Pipe>>,
    /// Those who are [`Pipe::Later`].
    unrung: Cell<u32>,
    /// What opening a pipe fails with, for tests.
    #[cfg(test)]
    fails: Cell<i32>,
}

/// A peer's pipe.
enum Pipe {
    Open(File),
    /// The system refused, for want of descriptors or memory: to be tried again. The peer sleeps on.
    Later,
    /// What the peer published is no pipe of its.
    Wrong,
}

impl Shm {
    /// My pipe's reading end; made and published at the first call.
    pub(super) fn own_pipe(&self) -> Result<&File> {
        if let Some((read, _)) = self.doorbell.mine.get() {
            return Ok(read);
        }
        let flags = PipeFlags::NONBLOCK | PipeFlags::CLOEXEC;
        let (read, write) = rustix::pipe::pipe_with(flags)
            .map_err(|error| FabricError::os_error("make a pipe to be woken by", &error.into()))?;
        let me = &self.process(Peer(self.index)).sleep;
        me.pipe.show(write.as_raw_fd() as u32);
        Ok(&self.doorbell.mine.get_or_init(|| (read.into(), write.into())).0)
    }

    /// Write to the pipe of a peer that sleeps on it.
    #[cold]
    pub(super) fn ring_pipe(&self, peer: Peer) {
        let mut theirs = self.doorbell.theirs.borrow_mut();
        let before = theirs.remove(&peer.0);
        let again = matches!(before, Some(Pipe::Later));
        let pipe = match before {
            Some(Pipe::Later) | None => self.open_pipe(peer).map_or_else(
                |error| {
                    let later = matches!(&error, FabricError::Os { errno, .. } if passes(*errno));
                    if !again {
                        farpost_fabric::ErrorStatus::record_fault(self, Fault { peer, error });
                    }
                    if later { Pipe::Later } else { Pipe::Wrong }
                },
                Pipe::Open,
            ),
            Some(known) => known,
        };
        let later = matches!(pipe, Pipe::Later);
        match &pipe {
            Pipe::Open(file) => {
                // A full pipe wakes as well; a peer that is gone need not be woken.
                let mut file = file;
                let _ = file.write(&[1]);
            }
            // It sleeps on: the flag says so to all who send to it, this process among them. Where it has awoken by itself
            // meanwhile, somebody rings once too often.
            Pipe::Later => flag::unclaim(&self.process(peer).sleep.asleep, flag::POLLING),
            Pipe::Wrong => {}
        }
        theirs.insert(peer.0, pipe);
        let unrung = &self.doorbell.unrung;
        unrung.set(unrung.get() + u32::from(later) - u32::from(again));
    }

    /// Ring those who could not be rung, before this process sleeps itself: for how long it may, of `limit`.
    #[inline]
    pub(super) fn ring_again(&self, limit: Duration) -> Duration {
        if self.doorbell.unrung.get() == 0 {
            return limit;
        }
        self.ring_unrung();
        if self.doorbell.unrung.get() == 0 {
            limit
        } else {
            limit.min(AGAIN)
        }
    }

    #[cold]
    fn ring_unrung(&self) {
        let theirs = self.doorbell.theirs.borrow();
        let later = |(peer, pipe): (&u32, &Pipe)| matches!(pipe, Pipe::Later).then_some(Peer(*peer));
        let peers: Vec<Peer> = theirs.iter().filter_map(later).collect();
        drop(theirs);
        for peer in peers {
            match flag::claim(&self.process(peer).sleep.asleep) {
                // It is awake, or another has rung: nothing is owed any more.
                0 => {
                    self.doorbell.theirs.borrow_mut().remove(&peer.0);
                    self.doorbell.unrung.set(self.doorbell.unrung.get() - 1);
                }
                flag::POLLING => self.ring_pipe(peer),
                _ => super::futex_wake(&self.process(peer).sleep.asleep),
            }
        }
    }

    /// The pipe of `peer`, if it was rung by it.
    #[cfg(test)]
    pub(super) fn opened(&self, peer: Peer) -> Option<std::os::fd::RawFd> {
        match self.doorbell.theirs.borrow().get(&peer.0) {
            Some(Pipe::Open(file)) => Some(std::os::fd::AsRawFd::as_raw_fd(file)),
            _ => None,
        }
    }

    #[cfg(test)]
    pub(super) fn fail_to_open(&self, errno: i32) {
        self.doorbell.fails.set(errno);
    }

    fn open_pipe(&self, peer: Peer) -> Result<File> {
        let process = self.process(peer);
        let pid = process.identity.pid.load(Ordering::Acquire);
        let corrupt = |value| FabricError::corrupt(peer, "the descriptor of its pipe", value);
        let published = match process.sleep.pipe.view() {
            Some(view) if pid != 0 && pid != region::GONE => view.key(),
            _ => return Err(corrupt(0)),
        };
        #[cfg(test)]
        if self.doorbell.fails.get() != 0 {
            let error = std::io::Error::from_raw_os_error(self.doorbell.fails.get());
            return Err(FabricError::os_error("open a peer's pipe", &error));
        }
        // To be read as well: in a pipe that has lost its only reader, the peer, a ring would end this process by SIGPIPE.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(format!("/proc/{pid}/fd/{published}"))
            .map_err(|e| FabricError::os_error("open a peer's pipe", &e))?;
        let about = file
            .metadata()
            .map_err(|e| FabricError::os_error("inspect a peer's pipe", &e))?;
        // SAFETY: a plain call without arguments.
        let uid = unsafe { libc::getuid() };
        // Nothing says which pipe it must be: the number may be another process's by now, and its pipes are not ours.
        if super::process_handles::has_ended(self.life(peer)) {
            return Err(self.dead(peer));
        }
        if !about.file_type().is_fifo() || about.uid() != uid {
            return Err(corrupt(published));
        }
        Ok(file)
    }
}

/// Whether what the system refuses with this error it may grant later.
fn passes(errno: i32) -> bool {
    matches!(
        errno,
        libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN | libc::EINTR
    )
}

/// Wait until one of `descriptors` is readable or the time is up.
pub(super) fn wait_readable(descriptors: [RawFd; 2], timeout: Duration) -> Wake {
    // SAFETY: a pipe of this fabric's and a descriptor of the caller's, open while the call lasts.
    let open = descriptors.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
    let mut polled = open.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    match poll(&mut polled, Timespec::try_from(timeout).ok().as_ref()) {
        Ok(0) => Wake::Timeout,
        Err(Errno::INTR) => Wake::Interrupted,
        _ => Wake::Rung,
    }
}

/// Take out what was written to a pipe.
pub(super) fn drain(mut pipe: &File) {
    let mut bytes = [0; 64];
    while matches!(pipe.read(&mut bytes), Ok(n) if n == bytes.len()) {}
}
