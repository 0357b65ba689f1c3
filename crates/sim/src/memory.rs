//! Memory that processes have published: of this process, or of a process of its own.

use farpost_fabric::segment::{Segment, move_bytes as move_within, read_process, write_process};
use farpost_fabric::{Descriptor, Direction, FabricError, LocalMemory, Result};
use std::cell::Cell;
use std::io;
use std::rc::Rc;

/// A process that is not a part of this one.
#[derive(Clone, Debug)]
pub struct OwnProcess {
    pid: i32,
}

impl OwnProcess {
    /// Process `pid`, as the kernel says.
    pub fn new(pid: i32) -> Self {
        Self { pid }
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.pid
    }
}

/// Memory of another process.
#[derive(Debug)]
struct Place {
    pid: i32,
    address: usize,
    len: usize,
    /// Nobody may use it any more: the process may have it for something else.
    withdrawn: Cell<bool>,
}

/// A segment's bytes.
#[derive(Clone, Debug)]
pub struct Memory(Bytes);

#[derive(Clone, Debug)]
enum Bytes {
    Here(Segment),
    There(Rc<Place>),
}

impl From<&Segment> for Memory {
    fn from(segment: &Segment) -> Self {
        Self(Bytes::Here(segment.clone()))
    }
}

impl Memory {
    /// Of another process.
    pub fn there(process: &OwnProcess, address: usize, len: usize) -> Self {
        Self(Bytes::There(Rc::new(Place {
            pid: process.pid,
            address,
            len,
            withdrawn: Cell::new(false),
        })))
    }

    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match &self.0 {
            Bytes::Here(segment) => segment.len(),
            Bytes::There(place) => place.len,
        }
    }

    /// As an importer sees it: what it sees now, whatever the owner does later.
    pub fn as_imported(&self) -> Self {
        match &self.0 {
            Bytes::Here(segment) => Self(Bytes::Here(segment.as_imported())),
            Bytes::There(_) => self.clone(),
        }
    }

    /// What comes from now on is dropped, where the process is not this one.
    pub fn withdraw(&self) {
        if let Bytes::There(place) = &self.0 {
            place.withdrawn.set(true);
        }
    }

    /// Bytes from the network. Where nobody has the memory any more they are dropped.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        match &self.0 {
            Bytes::Here(segment) => LocalMemory::write(segment, offset, bytes),
            Bytes::There(place) if place.holds(offset, bytes.len()) => {
                // Whoever waits for a process that has ended is told by others.
                let _ = write_process(place.pid, place.address + offset, bytes);
            }
            Bytes::There(_) => {}
        }
    }

    /// Read it; zeroes where nobody has it any more.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        match &self.0 {
            Bytes::Here(segment) => LocalMemory::read(segment, offset, to),
            Bytes::There(place) => {
                if !place.holds(offset, to.len())
                    || read_process(place.pid, place.address + offset, to).is_err()
                {
                    to.fill(0);
                }
            }
        }
    }
}

impl Place {
    fn holds(&self, offset: usize, len: usize) -> bool {
        !self.withdrawn.get() && offset <= self.len && len <= self.len - offset
    }
}

/// Bytes that are moved at a time between two processes.
const PART: usize = 1 << 20;

/// Carry out a transfer of a process, between it and its peer. `None`: it is a part of this one.
///
/// # Errors
/// An address that the peer got wrong; a process that has ended.
pub(crate) fn move_bytes(owner: Option<i32>, peer: Option<i32>, d: &Descriptor) -> Result<()> {
    let (Some(owner), Some(pid)) = (owner, peer) else {
        return move_within(d);
    };
    let (local, remote) = ((owner, d.local), (pid, d.remote));
    let (from, to) = match d.direction {
        Direction::Get => (remote, local),
        Direction::Put => (local, remote),
    };
    let failed = |error: &io::Error| match error.raw_os_error() {
        Some(libc::EFAULT) => FabricError::corrupt(d.peer, "a buffer address", d.remote as u64),
        Some(libc::ESRCH) => FabricError::dead(d.peer, "its process has ended"),
        _ => FabricError::os_error("copy between processes", error),
    };
    let mut part = vec![0; d.len.min(PART)];
    let mut done = 0;
    while done < d.len {
        let here = part.len().min(d.len - done);
        read_process(from.0, from.1 + done, &mut part[..here]).map_err(|e| failed(&e))?;
        write_process(to.0, to.1 + done, &part[..here]).map_err(|e| failed(&e))?;
        done += here;
    }
    Ok(())
}
