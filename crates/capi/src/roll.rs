//! What a process says of its waits: which function the program has called last, and the [`Teller`] by which the layers below write
//! down what they wait for.
//!
//! Cost class: *fast path* for noting the function (one store), set-up path for the rest.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use farpost_fabric::wait::Pause;
use farpost_job::Origin;
use farpost_node::Node;
use farpost_rollcall::teller::Polls;
use farpost_rollcall::{Communicator, Noted, Record, Slot, Teller, WaitKind, Want};

use crate::cx::{self, Cx, ProcessCell};
use crate::interfaces;
use crate::lock;
use crate::names::NAMES;

/// The function that the program has called last, as [`name`] knows it. Written and read inside the library.
static CURRENT: AtomicU32 = AtomicU32::new(0);
/// In the numbers of functions of the interfaces beside MPI; the bits above 16 say which.
const BESIDE: u32 = 1 << 31;

/// The function and the process that a call of an interface beside MPI waits for, if it has said so.
static PARTNER: AtomicU64 = AtomicU64::new(0);
/// A call of theirs has slept.
static SLEPT: AtomicBool = AtomicBool::new(false);

static TELLER: ProcessCell<Teller> = ProcessCell::new();
static BESIDES: ProcessCell<Besides> = ProcessCell::new();

/// Waits and polls of the interfaces beside MPI.
#[derive(Default)]
struct Besides {
    wait: RefCell<Option<Noted<'static>>>,
    polls: Polls,
}

/// The program has called this function of MPI.
#[inline(always)]
pub(crate) fn called(function: u16) {
    CURRENT.store(u32::from(function), Ordering::Relaxed);
}

/// The program has called this function of an interface beside MPI.
#[inline(always)]
pub(crate) fn called_beside(interface: u16, function: u16) {
    let number = BESIDE | u32::from(interface) << 16 | u32::from(function);
    CURRENT.store(number, Ordering::Relaxed);
}

/// The function that the program has called waits for process `peer`, if it waits.
#[inline(always)]
pub(crate) fn partner(peer: u32) {
    let function = CURRENT.load(Ordering::Relaxed);
    PARTNER.store(u64::from(function) << 32 | u64::from(peer), Ordering::Relaxed);
}

/// What such a call waits for, as far as it has said.
pub(crate) fn describe(record: &mut Record) {
    let (partner, function) = (PARTNER.load(Ordering::Relaxed), CURRENT.load(Ordering::Relaxed));
    if (partner >> 32) as u32 == function {
        record.wants.push(Want {
            kind: WaitKind::Other,
            peer: Some(partner as u32),
            rank: partner as u32,
            tag: None,
            bytes: 0,
            communicator: Communicator::default(),
        });
    }
}

/// As [`lock::relax`], for the interfaces beside MPI, whose waits are told here.
pub(crate) fn relax(pause: Pause) -> bool {
    if pause == Pause::Sleep {
        sleeps();
    }
    lock::relax(pause)
}

#[cold]
fn sleeps() {
    let cx = cx::process();
    let besides = BESIDES.keep(cx, Besides::default());
    // A handler of the program's that waits inside a wait is told in its place.
    if let Ok(mut wait) = besides.wait.try_borrow_mut() {
        SLEPT.store(true, Ordering::Relaxed);
        wait.get_or_insert_with(|| Noted::begin(teller(cx)))
            .sleeps(describe);
    }
}

/// A function of an interface beside MPI is about to return: what it waited for is there, or it gives up.
#[inline(always)]
pub(crate) fn leaves() {
    if SLEPT.load(Ordering::Relaxed) {
        awake();
    }
}

#[cold]
#[inline(never)]
fn awake() {
    SLEPT.store(false, Ordering::Relaxed);
    let besides = BESIDES.get(cx::process());
    if let Some(Ok(mut wait)) = besides.map(|besides| besides.wait.try_borrow_mut()) {
        *wait = None;
    }
}

/// A poll of an interface beside MPI is about to return.
#[inline(always)]
pub(crate) fn polled(cx: &'static Cx, found: bool) {
    polled_in(cx, found, |_| {});
}

/// As [`polled`]; `add` says more of one that has found nothing.
#[inline(always)]
pub(crate) fn polled_in(cx: &'static Cx, found: bool, add: impl FnOnce(&mut Record)) {
    let Some(besides) = BESIDES.get(cx) else {
        return first_poll(cx);
    };
    if found {
        besides.polls.found(teller(cx));
    } else {
        besides.polls.nothing(teller(cx), add);
    }
}

#[cold]
#[inline(never)]
fn first_poll(cx: &'static Cx) {
    BESIDES.keep(cx, Besides::default());
}

/// While the program's own function runs inside ours, it may call others: afterwards ours is the one again.
pub(crate) fn outside<T>(run: impl FnOnce() -> T) -> T {
    let outer = CURRENT.load(Ordering::Relaxed);
    let value = run();
    CURRENT.store(outer, Ordering::Relaxed);
    value
}

fn name(number: u32) -> &'static str {
    let known = if number & BESIDE == 0 {
        NAMES.get(number as usize)
    } else {
        let interface = interfaces::NAMES.get((number >> 16 & 0x7fff) as usize);
        interface.and_then(|names| names.get((number & 0xffff) as usize))
    };
    known.copied().unwrap_or("a function of no name")
}

/// The process has joined its job: from now on waits that last are told.
pub(crate) fn begin(cx: &'static Cx, node: &'static Node) {
    let memory = node.job.memory();
    let hang_after = node.settings.roll.hang_after;
    memory.set_hang_after(hang_after as u32);
    let slot = Slot::new(memory.notice(node.job.rank()));
    let teller = TELLER.keep(cx, Teller::new(slot, &CURRENT, name));
    if node.job.origin() != Origin::Launcher && node.job.size() > 1 && node.job.rank() < node.job.size() {
        teller.set_chore(Some(look_after));
    }
}

/// Where Farpost's launcher does not watch the ranks, those that wait do.
fn look_after(now: u64) -> bool {
    match cx::process().node.get() {
        Some(node) => node.roll.tick(&node.job, &*node.fabric, now),
        None => false,
    }
}

/// Who tells.
#[inline]
pub(crate) fn teller(cx: &Cx) -> Option<&'static Teller> {
    TELLER.get(cx)
}
