//! Values of a thread by key. A process has some 1,000 keys, and each rank makes its own: they are numbers of that rank's, beyond the system's.

use crate::rank::{Rank, running};
use crate::stand_ins::next_as;
use libc::{c_int, c_uint, c_void};

/// The first key of each rank's.
const FIRST: c_uint = 1 << 16;

type AtEnd = Option<unsafe extern "C" fn(*mut c_void)>;

/// The running rank and the place of one of its keys, if it is one.
fn place(key: c_uint) -> Option<(&'static Rank, usize)> {
    Some((running()?, key.checked_sub(FIRST)? as usize))
}

/// See `pthread_key_create(3)`. A rank's thread ends with the rank, as a process does, which calls no destructors of keys.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_key_create(key: *mut c_uint, at_end: AtEnd) -> c_int {
    if let Some(rank) = running() {
        let mut values = rank.values.borrow_mut();
        // SAFETY: the caller's room for a key.
        unsafe { key.write(FIRST + values.len() as c_uint) };
        values.push(std::ptr::null());
        return 0;
    }
    // SAFETY: the C library's function of this name has this type, and is given what was given here.
    unsafe {
        let real = next_as::<unsafe extern "C" fn(*mut c_uint, AtEnd) -> c_int>(c"pthread_key_create");
        real.map_or(libc::EAGAIN, |real| real(key, at_end))
    }
}

/// See `pthread_key_create(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_key_delete(key: c_uint) -> c_int {
    if place(key).is_some() {
        return 0;
    }
    // SAFETY: as above.
    unsafe {
        let real = next_as::<unsafe extern "C" fn(c_uint) -> c_int>(c"pthread_key_delete");
        real.map_or(libc::EINVAL, |real| real(key))
    }
}

/// See `pthread_getspecific(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getspecific(key: c_uint) -> *mut c_void {
    if let Some((rank, place)) = place(key) {
        let values = rank.values.borrow();
        return values.get(place).copied().unwrap_or(std::ptr::null()).cast_mut();
    }
    // SAFETY: as above.
    unsafe {
        let real = next_as::<unsafe extern "C" fn(c_uint) -> *mut c_void>(c"pthread_getspecific");
        real.map_or(std::ptr::null_mut(), |real| real(key))
    }
}

/// See `pthread_getspecific(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setspecific(key: c_uint, value: *const c_void) -> c_int {
    if let Some((rank, place)) = place(key) {
        return match rank.values.borrow_mut().get_mut(place) {
            Some(there) => {
                *there = value;
                0
            }
            None => libc::EINVAL,
        };
    }
    // SAFETY: as above.
    unsafe {
        let real = next_as::<unsafe extern "C" fn(c_uint, *const c_void) -> c_int>(c"pthread_setspecific");
        real.map_or(libc::EINVAL, |real| real(key, value))
    }
}
