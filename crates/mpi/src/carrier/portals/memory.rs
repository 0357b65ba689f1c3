//! Descriptors of memory: the only place of the device that hands addresses to Portals.
#![allow(unsafe_code)]

use farpost_fabric::Fabric;
use farpost_portals::{
    AnyInterface, Error as PortalsError, Handle, Iovec, Md, NetworkInterface, THRESHOLD_INFINITE, Unlink,
    option,
};

/// A descriptor for a match entry. The memory is the device's own, or that of a request, which stays as it is until the request
/// completes (`SendBuf::new`, `RecvBuf::new`), and that is not before Portals has logged the end of what was going on in it.
pub fn attach<F: Fabric>(
    ni: &AnyInterface<F>,
    me: Handle,
    md: Md,
    iovec: Iovec,
    unlink: Unlink,
) -> Result<Handle, PortalsError> {
    // SAFETY: as above.
    unsafe { ni.md_attach(me, md, iovec, unlink) }
}

/// A descriptor of its own, of memory as for [`attach`].
pub fn bind<F: Fabric>(ni: &AnyInterface<F>, md: Md, iovec: Iovec) -> Result<Handle, PortalsError> {
    // SAFETY: as for `attach`.
    unsafe { ni.md_bind(md, iovec, Unlink::Retain) }
}

/// A descriptor of all memory: messages are regions of it ([`place_of`]), so that none has to be made for each. It accepts
/// nothing from others.
pub fn bind_all<F: Fabric>(
    ni: &AnyInterface<F>,
    user_ptr: usize,
    eq: Handle,
) -> Result<Handle, PortalsError> {
    let all = Md {
        start: 1,
        length: isize::MAX as u64 - 1,
        threshold: THRESHOLD_INFINITE,
        max_size: 0,
        options: option::EVENT_START_DISABLE,
        user_ptr,
        eq_handle: eq,
    };
    // SAFETY: it takes no part in operations of others, and of ours only puts are begun with it, of regions that are the memory
    // of requests (as for `attach`); nothing else behind it is looked at.
    unsafe { ni.md_bind(all, None, Unlink::Retain) }
}

/// The region of the descriptor of all memory that is `len` bytes at `address`.
#[inline(always)]
pub fn place_of(address: usize, len: usize) -> (u64, u64) {
    if len == 0 {
        (0, 0)
    } else {
        (address as u64 - 1, len as u64)
    }
}

/// Other values for a descriptor, unless `testq` holds an event. False: they are as they were.
#[inline(always)]
pub fn update<F: Fabric>(
    ni: &AnyInterface<F>,
    handle: Handle,
    old: Option<&mut Md>,
    (new, iovec): (Md, Iovec),
    testq: Handle,
) -> Result<bool, PortalsError> {
    // SAFETY: as for `attach`.
    done(unsafe { ni.md_update(handle, old, Some((new, iovec)), testq) })
}

/// The same, unless `eq` holds an event now: messages on their way to it do not count. False: it does.
#[inline(always)]
pub fn update_unless_logged<F: Fabric>(
    ni: &AnyInterface<F>,
    handle: Handle,
    new: (Md, Iovec),
    eq: Handle,
) -> Result<bool, PortalsError> {
    // SAFETY: as for `attach`.
    done(unsafe { ni.md_update_unless_logged(handle, new, eq) })
}

#[inline(always)]
fn done(updated: Result<(), PortalsError>) -> Result<bool, PortalsError> {
    match updated {
        Ok(()) => Ok(true),
        Err(PortalsError::MdNoUpdate) => Ok(false),
        Err(error) => Err(error),
    }
}
