//! What happens while the program makes no call: receive regions fill, a descriptor becomes readable, a function of the program's is
//! called, and what calls have left behind goes out. The library's own thread (`progress`) sees to it, and runs no procedure. For what is left
//! behind it is there from the first time on.
//!
//! A descriptor and an interrupt are told once, then not again before the program has looked and found nothing, or everything was taken.
//!
//! Cost class: *queued path*; set-up for beginning and ending it.

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use farpost_fabric::wait::Pause;
use farpost_jam::region::{ALIGNMENT, Armed, LONGEST};
use farpost_jam::{Region, Tended};

use super::functions::c_message;
use super::{Answer, JamState, STATE, again, fail, failed, refuse, rest, state};
use crate::cx::{self, Cx};
use crate::interfaces::jam::{JAM_EFABRIC, JAM_EINVAL, JAM_VI_END, JAM_VI_LONGEST, arg};
use crate::lock;
use crate::process;
use crate::progress::{self, Reason, Served};

const _: () = assert!(JAM_VI_LONGEST as usize == LONGEST && JAM_VI_END as u32 == farpost_jam::region::END);

type Function = unsafe extern "C" fn(*mut c_void);

/// What the program wants to be told by.
#[derive(Default)]
pub(super) struct Arrival {
    /// Regions that were armed and not given back, by address.
    regions: RefCell<Vec<(usize, Armed)>>,
    descriptor: RefCell<Option<OwnedFd>>,
    interrupt: RefCell<Option<Interrupt>>,
    /// Whether what comes next is to be told.
    quiet: Cell<bool>,
    /// A call has left something behind before.
    leftover: Cell<bool>,
}

/// Time between two looks at what waits for room elsewhere, which nobody announces.
const AGAIN: Duration = Duration::from_millis(1);

impl Arrival {
    /// A call of the program's has looked and found nothing.
    #[inline(always)]
    pub fn found_nothing(&self) {
        self.quiet.set(true);
    }

    fn is_wanted(&self) -> bool {
        self.leftover.get()
            || !self.regions.borrow().is_empty()
            || self.descriptor.borrow().is_some()
            || self.interrupt.borrow().is_some()
    }

    fn tell(&self) {
        if let Some(descriptor) = &*self.descriptor.borrow() {
            lock::ring(descriptor.as_raw_fd());
        }
        if let Some(interrupt) = &*self.interrupt.borrow() {
            interrupt.ring();
        }
    }
}

/// What the library's own thread does while the program computes.
fn watch(cx: &'static Cx) -> Served {
    let Some(state) = STATE.get(cx).filter(|state| !state.closed.get()) else {
        return Served::Nothing;
    };
    let tended = state.jam.tend();
    let filled = state.jam.deposit();
    if !filled && !state.jam.is_ready() {
        state.arrival.quiet.set(true);
    } else if state.arrival.quiet.replace(false) {
        state.arrival.tell();
    }
    match tended {
        _ if filled => Served::Moved,
        Tended::Moved => Served::Moved,
        Tended::Waits => Served::After(AGAIN),
        Tended::Nothing => Served::Nothing,
    }
}

/// A call leaves something behind: later ones see to it, or the thread while the program makes none.
pub(super) fn left_over() {
    let cx = cx::process();
    let Some(state) = STATE.get(cx).filter(|state| !state.closed.get()) else {
        return;
    };
    if !state.arrival.leftover.replace(true)
        && let Err(why) = begin(cx)
    {
        process::say(&format!("JAM: {why}"));
    }
}

fn begin(cx: &'static Cx) -> Result<(), String> {
    progress::start(cx, Reason::Jam, true, watch)
}

fn end(cx: &'static Cx, state: &JamState) {
    if !state.arrival.is_wanted() {
        progress::stop(cx, Reason::Jam);
    }
}

/// Of `JAM_finalize`: nothing is told any more, and regions are the program's.
pub(super) fn end_all(cx: &'static Cx, state: &JamState) {
    let arrival = &state.arrival;
    for (_, armed) in arrival.regions.take() {
        state.jam.disarm(armed);
    }
    arrival.descriptor.take();
    drop(arrival.interrupt.take());
    arrival.leftover.set(false);
    end(cx, state);
}

// Receive regions.

pub(crate) fn jam_vi_arm(cx: &'static Cx, a: arg::JAM_vi_arm) -> Answer {
    let (region, size) = (a.region, a.size);
    let state = state(cx)?;
    if region.is_null() || !region.addr().is_multiple_of(ALIGNMENT) || size < LONGEST {
        return refuse!(
            cx, JAM_EINVAL: "JAM_vi_arm: region={region:p}, size={size}: a region begins at a multiple of {ALIGNMENT} and has at least {LONGEST} bytes"
        );
    }
    // SAFETY: the caller leaves the memory to JAM, and only reads it, until it is disarmed, told to be exhausted, or JAM is closed.
    let memory = unsafe { Region::lent(region.cast(), size) };
    let armed = state.jam.arm(memory).map_err(|error| failed(cx, &error))?;
    state.arrival.regions.borrow_mut().push((region.addr(), armed));
    if let Err(why) = begin(cx) {
        // It still fills in calls.
        process::say(&format!("JAM_vi_arm: {why}"));
    }
    Ok(())
}

pub(crate) unsafe fn jam_vi_receive(cx: &'static Cx, a: arg::JAM_vi_receive) -> c_int {
    let message = a.message.pointer();
    let Ok(state) = state(cx) else {
        return 0;
    };
    if message.is_null() {
        fail(cx, JAM_EINVAL, "JAM_vi_receive: message is NULL");
        return 0;
    }
    state.jam.begin();
    let taken = state.jam.take_deposited();
    rest(cx, state, taken.is_some());
    let Some(taken) = taken else { return 0 };
    a.message.set(c_message(&taken));
    1
}

pub(crate) fn jam_vi_exhausted(cx: &'static Cx) -> *mut c_void {
    let Ok(state) = state(cx) else {
        return core::ptr::null_mut();
    };
    let Some((armed, _)) = state.jam.exhausted() else {
        return core::ptr::null_mut();
    };
    forget(cx, state, armed)
}

/// The address of a region that is armed no more.
fn forget(cx: &'static Cx, state: &JamState, armed: Armed) -> *mut c_void {
    let mut address = 0;
    state.arrival.regions.borrow_mut().retain(|region| {
        if region.1 == armed {
            address = region.0;
        }
        region.1 != armed
    });
    end(cx, state);
    core::ptr::with_exposed_provenance_mut(address)
}

pub(crate) unsafe fn jam_vi_disarm(cx: &'static Cx, a: arg::JAM_vi_disarm) -> Answer {
    let region = a.region;
    let state = state(cx)?;
    let address = region.addr();
    let armed = (state.arrival.regions.borrow().iter())
        .find(|region| region.0 == address)
        .map(|region| region.1);
    let Some((armed, (_, filled))) = armed.and_then(|armed| Some((armed, state.jam.disarm(armed)?))) else {
        return refuse!(cx, JAM_EINVAL: "JAM_vi_disarm: region={region:p}: it is not armed");
    };
    forget(cx, state, armed);
    a.filled.set(filled);
    Ok(())
}

// The descriptor.

fn event_descriptor() -> std::io::Result<OwnedFd> {
    // SAFETY: a plain call that makes a descriptor, which is nobody else's.
    unsafe {
        let fd = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

pub(crate) fn jam_descriptor(cx: &'static Cx) -> c_int {
    let Ok(state) = state(cx) else {
        return -1;
    };
    let mut descriptor = state.arrival.descriptor.borrow_mut();
    if descriptor.is_none() {
        let made = event_descriptor().map_err(|why| format!("making a descriptor: {why}"));
        match made.and_then(|made| begin(cx).map(|()| made)) {
            Ok(made) => *descriptor = Some(made),
            Err(why) => {
                fail(cx, JAM_EFABRIC, &format!("JAM_descriptor: {why}"));
                return -1;
            }
        }
        state.arrival.quiet.set(true);
    }
    descriptor.as_ref().map_or(-1, AsRawFd::as_raw_fd)
}

pub(crate) fn jam_arm(cx: &'static Cx) -> Answer {
    let state = state(cx)?;
    let descriptor = state.arrival.descriptor.borrow();
    let Some(descriptor) = &*descriptor else {
        return refuse!(cx, JAM_EINVAL: "JAM_arm: there is no descriptor: call JAM_descriptor first");
    };
    let mut count = 0_u64;
    // SAFETY: eight bytes to be written to; the descriptor does not block.
    unsafe { libc::read(descriptor.as_raw_fd(), (&raw mut count).cast(), 8) };
    state.arrival.quiet.set(true);
    if state.jam.deposit() || state.jam.is_ready() {
        return Err(again(cx, c"JAM_arm: something has come: look before waiting"));
    }
    Ok(())
}

// Interrupts.

#[derive(Default)]
struct Rung {
    rung: bool,
    running: bool,
    stop: bool,
}

struct Shared {
    state: Mutex<Rung>,
    bell: Condvar,
    function: Function,
    context: *mut c_void,
}

// SAFETY: the context is the program's, which passes it to whichever thread the interrupt runs in.
unsafe impl Send for Shared {}
// SAFETY: as above; all else is behind a lock.
unsafe impl Sync for Shared {}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Rung> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.state();
        loop {
            if state.stop {
                return;
            }
            if !state.rung {
                state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            (state.rung, state.running) = (false, true);
            drop(state);
            // SAFETY: the program's function, called as its type says, with nothing of the library held.
            unsafe { (self.function)(self.context) };
            state = self.state();
            state.running = false;
        }
    }
}

/// The program's function and the thread that runs it. Dropping it waits until it runs no more, unless that is who drops it.
struct Interrupt {
    shared: Arc<Shared>,
    thread: ThreadId,
}

impl Interrupt {
    fn new(function: Function, context: *mut c_void) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            bell: Condvar::new(),
            function,
            context,
        });
        let of_thread = Arc::clone(&shared);
        let handle = progress::unsignalled(|| {
            std::thread::Builder::new()
                .name("farpost-interrupt".into())
                .spawn(move || of_thread.run())
        })?;
        let thread = handle.thread().id();
        Ok(Self { shared, thread })
    }

    fn ring(&self) {
        self.shared.state().rung = true;
        self.shared.bell.notify_one();
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.bell.notify_one();
        if self.thread == std::thread::current().id() {
            return;
        }
        while self.shared.state().running {
            // It may want in.
            if !lock::relax(Pause::Sleep) {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }
}

pub(crate) fn jam_interrupt(cx: &'static Cx, a: arg::JAM_interrupt) -> Answer {
    let state = state(cx)?;
    let before = state.arrival.interrupt.take();
    drop(before);
    let Some(function) = a.function else {
        end(cx, state);
        return Ok(());
    };
    let made = Interrupt::new(function, a.context).map_err(|why| format!("making a thread: {why}"));
    match made.and_then(|made| begin(cx).map(|()| made)) {
        Ok(made) => {
            state.arrival.interrupt.replace(Some(made));
            state.arrival.quiet.set(true);
            Ok(())
        }
        Err(why) => refuse!(cx, JAM_EFABRIC: "JAM_interrupt: {why}"),
    }
}
