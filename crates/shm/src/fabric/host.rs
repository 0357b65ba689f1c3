//! What this host's kernel lets processes do, for diagnosis. Cost class: *set-up path*.

use std::io;

/// Whether the kernel (and a container's system call filter) knows cross-memory attach at all: reads a word of this
/// process's own memory. Whether one rank may read another is found out between the two, at connect time.
///
/// # Errors
/// What `process_vm_readv` answered.
pub fn cross_memory_available() -> io::Result<()> {
    let from = 0x5eed_u64;
    let mut into = 0_u64;
    let vector = |base: *mut libc::c_void| libc::iovec {
        iov_base: base,
        iov_len: size_of::<u64>(),
    };
    let local = vector((&raw mut into).cast());
    let remote = vector((&raw const from).cast_mut().cast());
    // SAFETY: getpid has no requirements; both vectors name one live, aligned u64 of this process each, and only
    // `into` is written.
    let moved =
        unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    match moved {
        8 if into == from => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        _ => Err(io::Error::other("a short read of this process's own memory")),
    }
}
