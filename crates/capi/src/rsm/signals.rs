//! Signals and the descriptors that stand for segments.

use core::ffi::{c_int, c_short, c_uint, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use farpost_rsm::{Accumulate, Code, fail};

use super::export::serve_meanwhile;
use super::library::{Exported, Imported, Library, Polled, Result, bad_segment, opened, there};
use crate::cx::Cx;
use crate::interfaces::rsm::RSM_SIGPOST_NO_ACCUMULATE;
use crate::interfaces::rsm::arg;

/// Descriptors of segments start here, so that programs with many files of `stdio` keep working.
const FIRST_DESCRIPTOR: c_int = 256;

/// Either end of a connection.
enum Segment {
    Export(Rc<Exported>),
    Import(Rc<Imported>),
}

impl Segment {
    fn polled(&self) -> &Polled {
        match self {
            Segment::Export(exported) => &exported.polled,
            Segment::Import(imported) => &imported.polled,
        }
    }
}

/// Does the same with whichever end it is.
macro_rules! at_end {
    ($segment:expr, |$end:ident| $run:expr) => {
        match &$segment {
            Segment::Export(exported) => {
                let $end = &exported.export;
                $run
            }
            Segment::Import(imported) => {
                let $end = &imported.import;
                $run
            }
        }
    };
}

fn segment(cx: &'static Cx, handle: *mut c_void) -> Result<Segment> {
    let Some(library) = opened(cx) else {
        return bad_segment();
    };
    if let Some(exported) = library.exports.borrow().get(handle) {
        return Ok(Segment::Export(Rc::clone(exported)));
    }
    if let Some(imported) = library.imports.borrow().get(handle) {
        return Ok(Segment::Import(Rc::clone(imported)));
    }
    bad_segment()
}

/// Milliseconds of C: negative for ever.
fn time(timeout: c_int) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

/// Whether signals count, by flags of a post.
pub(super) fn accumulate(flags: c_uint) -> Accumulate {
    if flags & RSM_SIGPOST_NO_ACCUMULATE as c_uint == 0 {
        Accumulate::Yes
    } else {
        Accumulate::No
    }
}

pub(crate) fn rsm_intr_signal_post(cx: &'static Cx, a: arg::rsm_intr_signal_post) -> Result<()> {
    let accumulate = accumulate(a.flags);
    at_end!(segment(cx, a.memseg)?, |end| end.post(accumulate))
}

pub(crate) fn rsm_intr_signal_wait(cx: &'static Cx, a: arg::rsm_intr_signal_wait) -> Result<()> {
    at_end!(segment(cx, a.memseg)?, |end| end.wait(time(a.timeout)))
}

impl Library {
    /// Whether a descriptor stands for some segment.
    pub(super) fn polls(&self) -> bool {
        let held = |polled: &Polled| polled.uses.get() > 0;
        self.exports.borrow().iter().any(|e| held(&e.polled))
            || self.imports.borrow().iter().any(|i| held(&i.polled))
    }

    /// The segment that a descriptor stands for.
    fn of_descriptor(&self, fd: c_int) -> Option<Segment> {
        let has = |polled: &Polled| {
            polled
                .fd
                .borrow()
                .as_ref()
                .is_some_and(|own| own.as_raw_fd() == fd)
        };
        if let Some(exported) = self.exports.borrow().iter().find(|e| has(&e.polled)) {
            return Some(Segment::Export(Rc::clone(exported)));
        }
        let imports = self.imports.borrow();
        let found = imports.iter().find(|i| has(&i.polled));
        found.map(|imported| Segment::Import(Rc::clone(imported)))
    }
}

/// Look at all once. How many are ready, and whether a segment is gone.
fn look(library: &Library, fds: &mut [libc::pollfd]) -> (c_int, bool) {
    let (mut ready, mut gone) = (0, false);
    for entry in fds {
        entry.revents = 0;
        if entry.fd < 0 {
            continue;
        }
        match library.of_descriptor(entry.fd) {
            Some(segment) => match at_end!(segment, |end| end.try_wait()) {
                Ok(true) => {
                    entry.revents = libc::POLLRDNORM;
                    ready += 1;
                }
                Ok(false) => {}
                Err(_) => {
                    entry.revents = libc::POLLHUP;
                    gone = true;
                }
            },
            None => {
                // SAFETY: one entry, writable.
                let found = unsafe { libc::poll(entry, 1, 0) };
                ready += c_int::from(found > 0);
            }
        }
    }
    (ready, gone)
}

pub(crate) unsafe fn rsm_intr_signal_wait_pollfd(
    cx: &'static Cx,
    a: arg::rsm_intr_signal_wait_pollfd,
) -> Result<()> {
    if a.fds.is_null() || a.numfdsp.is_null() {
        return fail!(BAD_ADDR: "fds or numfdsp is null");
    }
    // SAFETY: not null, so the caller vouches for as many entries.
    let fds = unsafe { core::slice::from_raw_parts_mut(a.fds.pointer(), a.nfds as usize) };
    a.numfdsp.set(0);
    let Some(library) = opened(cx) else {
        return bad_segment();
    };
    let found = library.rsm.wait_until(time(a.timeout), || {
        let (ready, gone) = look(library, fds);
        (ready > 0 || gone).then_some(ready)
    });
    match found? {
        0 => fail!(CONN_ABORTED: "a segment was withdrawn, or its owner is gone"),
        ready => {
            a.numfdsp.set(ready);
            Ok(())
        }
    }
}

fn descriptor() -> Result<OwnedFd> {
    // SAFETY: plain calls; the first makes a descriptor that is closed here, the second another that is returned.
    let fd = unsafe {
        let low = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
        if low < 0 {
            -1
        } else {
            let low = OwnedFd::from_raw_fd(low);
            let high = libc::fcntl(low.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
            // Where so many are not allowed, any will do.
            if high < 0 {
                libc::fcntl(low.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3)
            } else {
                high
            }
        }
    };
    if fd < 0 {
        let why = std::io::Error::last_os_error();
        return fail!(INSUFFICIENT_RESOURCES: "making a descriptor: {why}");
    }
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Make a descriptor readable, or not any more.
fn signal_descriptor(fd: c_int, ready: bool) {
    let mut count = 1_u64;
    // SAFETY: eight bytes to be read or written; the descriptor is open as long as anybody calls this, and does not block.
    unsafe {
        match ready {
            true => libc::write(fd, (&raw const count).cast(), 8),
            false => libc::read(fd, (&raw mut count).cast(), 8),
        }
    };
}

pub(crate) fn rsm_memseg_get_pollfd(cx: &'static Cx, a: arg::rsm_memseg_get_pollfd) -> Result<()> {
    let segment = segment(cx, a.memseg)?;
    there(a.pollfd, Code::BAD_ADDR, "pollfd")?;
    let polled = segment.polled();
    if polled.fd.borrow().is_none() {
        let made = descriptor()?;
        let fd = made.as_raw_fd();
        *polled.fd.borrow_mut() = Some(made);
        at_end!(segment, |end| end
            .watch(Some(Box::new(move |ready| signal_descriptor(fd, ready)))));
    }
    polled.uses.set(polled.uses.get() + 1);
    at_end!(segment, |end| end.hold_poll());
    let filled = libc::pollfd {
        fd: polled.fd.borrow().as_ref().map_or(-1, AsRawFd::as_raw_fd),
        // An event descriptor says the first only.
        events: libc::POLLIN | libc::POLLRDNORM as c_short,
        revents: 0,
    };
    a.pollfd.set(filled);
    if let Some(library) = opened(cx) {
        serve_meanwhile(cx, library);
    }
    Ok(())
}

pub(crate) fn rsm_memseg_release_pollfd(cx: &'static Cx, a: arg::rsm_memseg_release_pollfd) -> Result<()> {
    let segment = segment(cx, a.memseg)?;
    let held = at_end!(segment, |end| end.release_poll());
    let polled = segment.polled();
    if held {
        polled.uses.set(polled.uses.get() - 1);
        if polled.uses.get() == 0 {
            at_end!(segment, |end| end.watch(None));
            polled.fd.borrow_mut().take();
            if let Some(library) = opened(cx) {
                serve_meanwhile(cx, library);
            }
        }
    }
    Ok(())
}
