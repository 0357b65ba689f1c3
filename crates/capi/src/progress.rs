//! A thread of the library's that makes progress while the program computes and calls nothing.
//!
//! It is there as long as an interface wants it ([`start`], [`stop`]) and holds no core. While the program calls the
//! library, it looks once a tick at a count of calls, no more. During a longer call it sleeps until told that a call has
//! left, for who waits inside makes progress by itself, and with what JAM's calls have left behind. When no call was made for a tick, it comes in as the guest
//! ([`lock`]), moves what can move, arms the process's bell as a sleeper does, goes out, and sleeps on what a sleeper on
//! descriptors sleeps on. From then on the first call that leaves tells it, since such a call may have taken the bell's flag
//! down or begun something; it steps aside then, and as soon as somebody wants in.
//!
//! What is done for an interface is its [`Step`], inside the library, in this thread.
//!
//! Cost class: *queued path*; set-up for starting and stopping.
//!
//! Which interfaces want it: RSMAPI while a segment is published that other hosts may reach, MPI from its first window on or with `FARPOST_PROGRESS_THREAD=1`, and Portals
//! while an interface is open (with an agent: where the job has a network, or from the first handler on), Fast Messages, and JAM while a receive region is armed or
//! arrivals are to be told, and from the first call on that leaves something behind. It runs no handlers of theirs, which run in the caller's thread by their papers' rule: of Fast Messages it plays the interface's processor,
//! which fills the host receive queue, and JAM's network traffic it moves. What moves MPI may call the
//! program's reduction functions, in this thread.
//!
//! On a simulated machine nothing passes while the program computes. There the thread comes in when the program waits in the system, for a descriptor or
//! a thread ([`silence`]), or has not called for as long as the machine's patience, and lets other processes run until something happens to this one.
//!
//! A sender pays a system call each time this thread falls asleep, not for each message. Where what rings cannot be moved by this thread, it falls
//! asleep again after a tick (`FARPOST_PROGRESS_TICK`) at the earliest. It blocks all signals, is outside while the program forks, and is joined
//! before the process leaves its job, at exit and when the library is unloaded.

use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use farpost_fabric::ArmedWait;

use crate::cx::{self, Cx, Guard, ProcessCell};
use crate::lock;
use crate::real_time;

mod silence;

use silence::Silence;

/// Who wants the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// MPI, when asked for.
    Mpi = 0,
    /// RSMAPI, while importers may be served.
    Rsm = 1,
    /// Portals, while an interface is open.
    Portals = 2,
    /// JAM, while a receive region is armed or the program wants to be told of arrivals, and once a call has left something behind.
    Jam = 3,
    /// Fast Messages, from beginning to end: the host receive queue takes in what arrives.
    Fm = 4,
}

const REASONS: usize = 5;

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// Something moved: look again.
    Moved,
    /// Nothing is to be done until somebody rings or the network brings something.
    Nothing,
    /// Nothing moved, and what is waited for rings nobody: look again after this.
    After(Duration),
}

/// What the thread does for an interface: move what can move, without blocking. It runs inside the library, and nothing of
/// it is borrowed then.
pub(crate) type Step = fn(&'static Cx) -> Served;

/// Looks in a row that find nothing before the thread sleeps.
const LOOKS: u32 = 16;
/// Longest sleep: everything that matters rings, but for a peer that ends.
const LONGEST: Duration = Duration::from_secs(1);
/// Longest time that the end of the thread is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between the thread and the others.
struct Shared {
    /// An event descriptor: the thread is to look around.
    bell: RawFd,
    stop: AtomicBool,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: made by `start`, and nobody else's.
        unsafe { libc::close(self.bell) };
    }
}

impl Shared {
    fn ring(&self) {
        lock::ring(self.bell);
    }

    fn drain(&self) {
        let mut count = 0_u64;
        // SAFETY: eight bytes to be written to; the descriptor does not block.
        unsafe { libc::read(self.bell, (&raw mut count).cast(), 8) };
    }
}

/// What the thread is to do.
#[derive(Default)]
struct Wanted {
    steps: [Cell<Option<Step>>; REASONS],
    /// Whether processes of this host have something to say to the thread.
    near: Cell<bool>,
    running: RefCell<Option<(Arc<Shared>, JoinHandle<()>)>>,
}

static WANTED: ProcessCell<Wanted> = ProcessCell::new();

/// The process that the thread belongs to, 0 before the first; a child that forked off has no thread.
static OF: AtomicU32 = AtomicU32::new(0);
/// Forks under way, during which the thread may not be inside, and whether it is.
static FORKS: AtomicU32 = AtomicU32::new(0);
static INSIDE: AtomicBool = AtomicBool::new(false);

fn pid() -> u32 {
    std::process::id()
}

/// What moves MPI while the program computes.
pub(crate) fn serve_mpi(cx: &'static Cx) -> Served {
    match cx.world().serve() {
        (true, _) => Served::Moved,
        (false, longest) => Served::After(longest),
    }
}

/// From now on the thread runs `step` whenever the program is silent; what was started already is given the new step.
/// `near`: not only the network but processes of this host have something to say, which then ring the thread.
///
/// # Errors
/// A sentence: the thread cannot be made. Then everything moves in calls only.
pub(crate) fn start(cx: &'static Cx, reason: Reason, near: bool, step: Step) -> Result<(), String> {
    let wanted = WANTED.keep(cx, Wanted::default());
    if OF.load(Ordering::Relaxed) != 0 && OF.load(Ordering::Relaxed) != pid() {
        // A child that forked off: what its parent has open is not its own.
        return Ok(());
    }
    wanted.steps[reason as usize].set(Some(step));
    if reason == Reason::Jam {
        lock::set_chore(chore);
    }
    wanted.near.set(wanted.near.get() || near);
    if wanted.running.borrow().is_some() {
        return Ok(());
    }
    let Some(node) = cx.node.get().filter(|node| node.permits_threads()) else {
        return Ok(());
    };
    let tick = Duration::from_micros(node.settings.progress.tick_us);
    let silence = node.simulated().map(|link| Silence::new(link.patience()));
    let failed = |what: &str, why: std::io::Error| {
        format!(
            "starting the thread that makes progress while the program computes: {what}: {why}; without it, everything \
             moves in calls only (FARPOST_PROGRESS_THREAD and FARPOST_RSM_PROGRESS turn it off)"
        )
    };
    // SAFETY: a plain call that makes a descriptor.
    let bell = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if bell < 0 {
        return Err(failed("making a descriptor", std::io::Error::last_os_error()));
    }
    let shared = Arc::new(Shared {
        bell,
        stop: AtomicBool::new(false),
    });
    // From here on this call is counted, so that the thread stays outside until it has left.
    lock::count_in();
    before_the_first();
    let of_thread = Arc::clone(&shared);
    let made = unsignalled(|| {
        std::thread::Builder::new()
            .name("farpost-progress".into())
            .spawn(move || run(&of_thread, tick, silence))
    });
    let handle = made.map_err(|why| failed("making the thread", why))?;
    lock::set_bell(bell);
    *wanted.running.borrow_mut() = Some((shared, handle));
    Ok(())
}

/// The thread does nothing for this interface any more; with the last one it ends, before this returns.
pub(crate) fn stop(cx: &'static Cx, reason: Reason) {
    let Some(wanted) = WANTED.get(cx) else { return };
    wanted.steps[reason as usize].set(None);
    if wanted.steps.iter().all(|step| step.get().is_none()) {
        wanted.near.set(false);
        end(wanted);
    }
}

/// Turns of a [`chore`], so that the wait that does it is not kept.
const TURNS: u32 = 16;

/// A call of another interface waits: what JAM's have left behind goes out all the same.
fn chore() -> Option<Duration> {
    let cx = cx::process();
    let step = WANTED.get(cx)?.steps[Reason::Jam as usize].get()?;
    for _ in 0..TURNS {
        match step(cx) {
            Served::Moved => {}
            Served::Nothing => return None,
            Served::After(limit) => return Some(limit),
        }
    }
    None
}

/// The process ends.
pub(crate) fn stop_all(cx: &'static Cx) {
    let Some(wanted) = WANTED.get(cx) else { return };
    wanted.steps.iter().for_each(|step| step.set(None));
    end(wanted);
}

/// End the thread. It never waits for the library, so this may be called inside.
fn end(wanted: &Wanted) {
    let Some((shared, handle)) = wanted.running.take() else {
        return;
    };
    lock::set_bell(-1);
    lock::unwatch();
    if OF.load(Ordering::Relaxed) != pid() {
        // A child that forked off: the thread stayed with its parent, and so did its descriptor.
        std::mem::forget((shared, handle));
        return;
    }
    shared.stop.store(true, Ordering::SeqCst);
    shared.ring();
    if handle.thread().id() == std::thread::current().id() {
        // A step calls what closes an interface: the thread ends when it comes back.
        return;
    }
    let until = real_time::now() + PATIENCE;
    while !handle.is_finished() {
        if real_time::now() > until {
            return;
        }
        real_time::sleep(Duration::from_micros(50));
    }
    // What ended it has said so itself.
    let _ = handle.join();
}

/// Signals are the program's threads' affair.
pub(crate) fn unsignalled<T>(make: impl FnOnce() -> T) -> T {
    // SAFETY: sets of signals, for which zero is a value, filled before they are used.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let made = make();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        made
    }
}

/// While the program forks, the thread is outside, so that the child does not find the library taken by a thread that it
/// does not have.
fn before_the_first() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        OF.store(pid(), Ordering::SeqCst);
        // SAFETY: the functions stay as long as the library.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    });
}

extern "C" fn before_fork() {
    FORKS.fetch_add(1, Ordering::SeqCst);
    let until = real_time::now() + PATIENCE;
    while INSIDE.load(Ordering::SeqCst) && !lock::is_inside() && real_time::now() < until {
        real_time::sleep(Duration::from_micros(50));
    }
}

extern "C" fn after_fork() {
    FORKS.fetch_sub(1, Ordering::SeqCst);
}

extern "C" fn in_child() {
    lock::set_bell(-1);
    lock::unwatch();
    after_fork();
}

// ---- the thread ----

/// The thread inside the library, until dropped.
struct Visit {
    guest: Option<lock::Guest>,
}

impl Visit {
    /// None: somebody is inside.
    fn begin() -> Option<Visit> {
        INSIDE.store(true, Ordering::SeqCst);
        let guest = if FORKS.load(Ordering::SeqCst) == 0 {
            lock::enter_as_guest()
        } else {
            None
        };
        if guest.is_none() {
            INSIDE.store(false, Ordering::SeqCst);
        }
        guest.map(|guest| Visit { guest: Some(guest) })
    }

    fn is_wanted(&self) -> bool {
        FORKS.load(Ordering::SeqCst) != 0 || self.guest.as_ref().is_some_and(lock::Guest::is_wanted)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.guest = None;
        INSIDE.store(false, Ordering::SeqCst);
    }
}

/// Wait for the descriptors, -1 being none. Whether one is readable.
fn wait(descriptors: [RawFd; 3], longest: Duration) -> bool {
    let mut polled = descriptors.map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    let limit = libc::timespec {
        tv_sec: longest.as_secs() as libc::time_t,
        tv_nsec: longest.subsec_nanos() as libc::c_long,
    };
    // SAFETY: three valid entries, a valid time, no signal mask.
    unsafe { libc::ppoll(polled.as_mut_ptr(), 3, &raw const limit, std::ptr::null()) > 0 }
}

fn run(shared: &Shared, tick: Duration, mut silence: Option<Silence>) {
    let mut calls = lock::calls();
    let mut longest = tick;
    loop {
        wait([shared.bell, -1, -1], longest);
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        longest = tick;
        let now = lock::calls();
        if now != calls {
            // The program calls often enough.
            calls = now;
            shared.drain();
            if let Some(silence) = &mut silence {
                silence.is_over();
            }
            continue;
        }
        shared.drain();
        if lock::is_busy() {
            // A call longer than a tick: who waits inside makes progress by itself.
            lock::watch();
            if lock::is_busy() && lock::calls() == calls {
                longest = LONGEST;
            }
            continue;
        }
        match &mut silence {
            None => serve(shared, tick),
            Some(silence) => {
                if silence.lasts() {
                    serve_simulated(shared, tick, silence);
                }
            }
        }
        // Whatever it was that ended this, the program is given a tick to call again.
        shared.drain();
        calls = lock::calls();
    }
}

/// The program is silent: do what it would do in a call, again and again, until it is back.
fn serve(shared: &Shared, tick: Duration) {
    let mut woken = false;
    while let Some(visit) = Visit::begin() {
        let cx = cx::process();
        let guard = Guard("the thread that makes progress while the program computes");
        let near = WANTED.get(cx).is_some_and(|wanted| wanted.near.get());
        if woken && let Some(node) = cx.node.get() {
            node.fabric.disarm_wait(near);
        }
        let armed = look(cx, shared, &visit, near);
        core::mem::forget(guard);
        // Whoever comes in from here on tells us when he leaves.
        lock::watch();
        let calls = lock::calls();
        drop(visit);
        let Some((armed, moved)) = armed else { return };
        // Woken for nothing: not more often than once a tick.
        if woken && !moved && wait([shared.bell, -1, -1], tick) {
            return;
        }
        let back = || shared.stop.load(Ordering::SeqCst) || lock::calls() != calls || lock::is_busy();
        if back() {
            return;
        }
        let [pipe, network] = armed.descriptors;
        woken = wait([shared.bell, pipe, network], armed.longest);
        if back() {
            return;
        }
    }
}

/// The same on a simulated machine: others run, and this process has its turn when something happens to it.
fn serve_simulated(shared: &Shared, tick: Duration, silence: &mut Silence) {
    loop {
        let Some(visit) = Visit::begin() else { return };
        let cx = cx::process();
        let guard = Guard("the thread that makes progress while the program waits");
        let over = || visit.is_wanted() || shared.stop.load(Ordering::SeqCst);
        let wanted = WANTED.get(cx);
        let mut moved = false;
        if let (Some(wanted), Some(link)) = (wanted, cx.node.get().and_then(|node| node.simulated())) {
            while !over() && steps(cx, wanted).0 {
                moved = true;
            }
            if !moved && !over() {
                link.rest(over);
            }
        }
        core::mem::forget(guard);
        // Whoever comes in from here on tells us when he leaves.
        lock::watch();
        let calls = lock::calls();
        drop(visit);
        // The program may have been told of something: it has a while to call.
        let back = || shared.stop.load(Ordering::SeqCst) || lock::calls() != calls || lock::is_busy();
        if back() || moved && (wait([shared.bell, -1, -1], tick) || back() || !silence.lasts()) {
            return;
        }
    }
}

/// Look until nothing moves, then arm the bell. None: somebody wants in, or the thread is to end. Else what to wait for,
/// and whether anything had moved.
fn look(cx: &'static Cx, shared: &Shared, visit: &Visit, near: bool) -> Option<(ArmedWait, bool)> {
    let wanted = WANTED.get(cx)?;
    let fabric = &cx.node.get()?.fabric;
    let (mut any, mut empty) = (false, 0);
    loop {
        if visit.is_wanted() || shared.stop.load(Ordering::SeqCst) {
            return None;
        }
        let (moved, longest) = steps(cx, wanted);
        if moved {
            (any, empty) = (true, 0);
            continue;
        }
        empty += 1;
        if empty < LOOKS {
            continue;
        }
        match fabric.arm_wait(near, longest, &mut || steps(cx, wanted).0) {
            Some(armed) => return Some((armed, any)),
            None => (any, empty) = (true, 0),
        }
    }
}

/// Everything once: whether something moved, and how long one may sleep otherwise.
fn steps(cx: &'static Cx, wanted: &Wanted) -> (bool, Duration) {
    let (mut moved, mut longest) = (false, LONGEST);
    for step in wanted.steps.iter().filter_map(Cell::get) {
        match step(cx) {
            Served::Moved => moved = true,
            Served::Nothing => {}
            Served::After(limit) => longest = longest.min(limit),
        }
    }
    (moved, longest)
}
