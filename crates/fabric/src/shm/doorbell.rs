//! Waking a process that sleeps on descriptors (its network's and its own pipe) instead of on a futex.
//!
//! The sleeper raises its flag to [`flag::POLLING`]; who takes the flag down writes a byte to the sleeper's pipe,
//! which it opens through `/proc/<pid>/fd` as it does segments. Cost class: *set-up path*, and system calls.

use super::sleep::woken_by_error;
use super::{Shm, region};
use crate::sync::Ordering;
use crate::{FabricError, Fault, Peer, Wake};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::time::Duration;

/// The pipes of a process: its own, and those of peers it has woken.
#[derive(Default)]
pub struct Doorbell {
    mine: OnceCell<(File, File)>,
    theirs: RefCell<HashMap<u32, Option<File>>>,
}

fn pipe() -> Result<(File, File), FabricError> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptor numbers.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK | libc::O_CLOEXEC) } != 0 {
        return Err(FabricError::os("make a pipe to be woken by"));
    }
    // SAFETY: two descriptors that the kernel just made, owned by nobody else.
    Ok(unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) })
}

impl Shm {
    /// My pipe's reading end; made and published at the first call.
    pub(super) fn own_pipe(&self) -> Result<&File, FabricError> {
        if let Some((read, _)) = self.doorbell.mine.get() {
            return Ok(read);
        }
        let (read, write) = pipe()?;
        let me = &self.process(Peer(self.index)).sleep;
        me.pipe_plus_one
            .store(write.as_raw_fd() as u32 + 1, Ordering::Release);
        Ok(&self.doorbell.mine.get_or_init(|| (read, write)).0)
    }

    /// Write to the pipe of a peer that sleeps on it.
    #[cold]
    pub(super) fn ring_pipe(&self, peer: Peer) {
        let mut theirs = self.doorbell.theirs.borrow_mut();
        let pipe = theirs.entry(peer.0).or_insert_with(|| {
            self.open_pipe(peer)
                .map_err(|error| crate::ErrorStatus::record_fault(self, Fault { peer, error }))
                .ok()
        });
        if let Some(pipe) = pipe {
            // A full pipe wakes as well; a peer that is gone need not be woken.
            let _ = pipe.write(&[1]);
        }
    }

    fn open_pipe(&self, peer: Peer) -> Result<File, FabricError> {
        let process = self.process(peer);
        let pid = process.identity.pid.load(Ordering::Acquire);
        let published = process.sleep.pipe_plus_one.load(Ordering::Acquire);
        let corrupt = |value| FabricError::Corrupt {
            peer,
            what: "the descriptor of its pipe",
            value: u64::from(value),
        };
        if pid == 0 || pid == region::GONE || published == 0 {
            return Err(corrupt(published));
        }
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(format!("/proc/{pid}/fd/{}", published - 1))
            .map_err(|e| FabricError::os_error("open a peer's pipe", &e))?;
        let about = file
            .metadata()
            .map_err(|e| FabricError::os_error("inspect a peer's pipe", &e))?;
        // SAFETY: a plain call without arguments.
        let uid = unsafe { libc::getuid() };
        if !about.file_type().is_fifo() || about.uid() != uid {
            return Err(corrupt(published));
        }
        Ok(file)
    }
}

/// Wait until one of `descriptors` is readable or the time is up.
pub(super) fn wait_readable(descriptors: [RawFd; 2], timeout: Duration) -> Wake {
    let mut polled = descriptors.map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    let limit = libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: `polled` are two valid entries, `limit` a valid timespec; no signal mask is given.
    match unsafe { libc::ppoll(polled.as_mut_ptr(), 2, &raw const limit, std::ptr::null()) } {
        0 => Wake::Timeout,
        1.. => Wake::Rung,
        _ => woken_by_error(),
    }
}

/// Take out what was written to a pipe.
pub(super) fn drain(mut pipe: &File) {
    let mut bytes = [0; 64];
    while matches!(pipe.read(&mut bytes), Ok(n) if n == bytes.len()) {}
}
