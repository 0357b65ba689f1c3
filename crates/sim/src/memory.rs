//! Memory that processes have published: of this process, or of a process of its own.

use farpost_fabric::segment::{Segment, move_bytes as move_within, read_process, write_process};
use farpost_fabric::{Descriptor, Direction, FabricError, LocalMemory, Result};
use std::cell::Cell;
use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::rc::Rc;

/// Where the memory of a rank is that shares its addresses with others of one process: kept elsewhere while another one has them.
pub trait Displaced: Debug {
    /// Where the byte at `address` is now, and how many of `len`, at least one, lie together from there on.
    fn find(&self, address: usize, len: usize) -> (usize, usize);
}

/// A process that is not a part of this program: a process of the system's, or a rank in one.
#[derive(Clone, Debug)]
pub struct OwnProcess {
    pid: i32,
    displaced: Option<Rc<dyn Displaced>>,
}

impl OwnProcess {
    /// Process `pid`, as the kernel says.
    pub fn new(pid: i32) -> Self {
        let displaced = None;
        Self { pid, displaced }
    }

    /// A rank in process `pid`, some memory of which is where `displaced` says.
    pub fn within(pid: i32, displaced: Rc<dyn Displaced>) -> Self {
        let displaced = Some(displaced);
        Self { pid, displaced }
    }

    /// `len` bytes from `address` on, in parts that lie together.
    fn parts(
        &self,
        address: usize,
        len: usize,
        mut each: impl FnMut(usize, Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(displaced) = &self.displaced else {
            return each(address, 0..len);
        };
        let mut done = 0;
        while done < len {
            let (now, together) = displaced.find(address.wrapping_add(done), len - done);
            let end = done + together.clamp(1, len - done);
            each(now, done..end)?;
            done = end;
        }
        Ok(())
    }

    /// Read its memory.
    ///
    /// # Errors
    /// It has ended, or has nothing there.
    pub fn read(&self, address: usize, to: &mut [u8]) -> io::Result<()> {
        self.parts(address, to.len(), |now, part| {
            read_process(self.pid, now, &mut to[part])
        })
    }

    /// Write its memory.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write(&self, address: usize, from: &[u8]) -> io::Result<()> {
        self.parts(address, from.len(), |now, part| {
            write_process(self.pid, now, &from[part])
        })
    }
}

/// Memory of another process.
#[derive(Debug)]
struct Place {
    process: OwnProcess,
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
            process: process.clone(),
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
                let _ = place.process.write(place.address + offset, bytes);
            }
            Bytes::There(_) => {}
        }
    }

    /// Read it; zeroes where nobody has it any more.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        match &self.0 {
            Bytes::Here(segment) => LocalMemory::read(segment, offset, to),
            Bytes::There(place) => {
                if !place.holds(offset, to.len()) || place.process.read(place.address + offset, to).is_err() {
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
pub(crate) fn move_bytes(
    owner: Option<&OwnProcess>,
    peer: Option<&OwnProcess>,
    d: &Descriptor,
) -> Result<()> {
    let (Some(owner), Some(peer)) = (owner, peer) else {
        return move_within(d);
    };
    let (local, remote) = ((owner, d.local), (peer, d.remote));
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
        from.0
            .read(from.1 + done, &mut part[..here])
            .map_err(|e| failed(&e))?;
        to.0.write(to.1 + done, &part[..here]).map_err(|e| failed(&e))?;
        done += here;
    }
    Ok(())
}
