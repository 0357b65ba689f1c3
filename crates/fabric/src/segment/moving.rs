//! Bytes of simulated processes: of those that are this one, and of those that are processes of their own.

use crate::{Descriptor, Direction, FabricError, Result};
use std::io;

/// Copy within this process, checked by the kernel: an address that the peer got wrong is an error, not a
/// crash.
pub fn move_bytes(d: &Descriptor) -> Result<()> {
    let (mut local, mut remote, mut len) = (d.local, d.remote, d.len);
    while len > 0 {
        let iovec = |at: usize| libc::iovec {
            iov_base: std::ptr::with_exposed_provenance_mut::<libc::c_void>(at),
            iov_len: len,
        };
        let (ours, theirs) = (iovec(local), iovec(remote));
        // SAFETY: the submitter vouched for the local range until the completion, which comes after this;
        // the kernel checks the remote one.
        let moved = unsafe {
            let pid = libc::getpid();
            match d.direction {
                Direction::Get => libc::process_vm_readv(pid, &raw const ours, 1, &raw const theirs, 1, 0),
                Direction::Put => libc::process_vm_writev(pid, &raw const ours, 1, &raw const theirs, 1, 0),
            }
        };
        if moved <= 0 {
            let error = std::io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                Some(libc::EFAULT) => FabricError::corrupt(d.peer, "a buffer address", remote as u64),
                _ => FabricError::os_error("copy between endpoints", &error),
            });
        }
        let moved = moved as usize;
        (local, remote, len) = (local + moved, remote + moved, len - moved);
    }
    Ok(())
}

/// Which way bytes go between this process and another.
#[derive(Clone, Copy)]
enum Way {
    Read,
    Write,
}

/// Copy between this process's bytes at `own` and those of process `pid` at `address`.
///
/// # Safety
/// `own` for `len` bytes is valid, and for [`Way::Read`] writable and otherwise unused.
unsafe fn copy_with(pid: i32, own: *mut u8, address: usize, len: usize, way: Way) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        let ours = libc::iovec {
            // SAFETY: within the range that the caller vouches for.
            iov_base: unsafe { own.add(done) }.cast(),
            iov_len: len - done,
        };
        let theirs = libc::iovec {
            iov_base: std::ptr::without_provenance_mut(address + done),
            iov_len: len - done,
        };
        // SAFETY: the caller vouches for our bytes; the kernel checks the other process's.
        let moved = unsafe {
            match way {
                Way::Read => libc::process_vm_readv(pid, &raw const ours, 1, &raw const theirs, 1, 0),
                Way::Write => libc::process_vm_writev(pid, &raw const ours, 1, &raw const theirs, 1, 0),
            }
        };
        match usize::try_from(moved) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(moved) => done += moved,
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

/// Read the memory of another process.
///
/// # Errors
/// The system's: it has no such memory, has ended, or may not be read.
pub fn read_process(pid: i32, address: usize, to: &mut [u8]) -> io::Result<()> {
    // SAFETY: an exclusive reference.
    unsafe { copy_with(pid, to.as_mut_ptr(), address, to.len(), Way::Read) }
}

/// Write the memory of another process.
///
/// # Errors
/// As [`read_process`].
pub fn write_process(pid: i32, address: usize, from: &[u8]) -> io::Result<()> {
    // SAFETY: bytes that are only read.
    unsafe { copy_with(pid, from.as_ptr().cast_mut(), address, from.len(), Way::Write) }
}
