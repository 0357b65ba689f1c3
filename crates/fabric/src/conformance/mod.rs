//! One conformance suite per fabric trait, written once and run on every fabric.
//!
//! A case is a role: an async function that every endpoint of a small job runs, told apart by
//! [`Fabric::me`]. A [`Harness`] makes the endpoints and runs the roles: in threads, in processes, or in one
//! thread that a seed schedules. What a fabric cannot do is skipped, and the [`Outcome`] says so; the caller
//! states which cases it expects to be skipped, so that none disappears silently.
//!
//! ```
//! use farpost_fabric::conformance::{self, InProcHarness};
//! let harness = InProcHarness::new(7);
//! let skipped = ["memory::mapped", "memory::common", "memory::own_pages", "zcopy::follow_their_lines"];
//! conformance::run_all(&harness, &skipped);
//! ```

mod bulk;
mod children;
mod harness;
mod interrupt;
mod memory;
mod packets;
mod processes;
mod status;
pub mod striped;
mod zcopy;

pub use children::{child, kill, reap};
pub use harness::{Board, BoardRef, End, Harness, InProcHarness, PATIENCE, block_on};
pub use processes::{fork_all, shared};

use crate::ability::Ability;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// What became of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran and held.
    Held,
    /// The fabric cannot do it, for this reason.
    Skipped(&'static str),
}

/// What a fabric must have for a case: without it the case is left out.
fn needs(case: &str) -> &'static [Ability] {
    use Ability::{Bounds, Get, Mapping, Ports, Priorities, Put, Transfer, ZeroCopy};
    match case {
        "memory::mapped" | "memory::common" | "memory::own_pages" => &[Mapping],
        "memory::fence_orders"
        | "memory::publishing"
        | "memory::errors_are_of_one_segment"
        | "memory::both_directions_at_once"
        | "memory::everyone_to_everyone"
        | "interrupt::no_wake_is_lost" => &[Put],
        "memory::found_written" => &[Get],
        // One process's own.
        "memory::own_segment" | "memory::lines_as_a_queue" => &[],
        _ if case.starts_with("memory::") => &[Put, Get],
        "bulk::get_and_put" | "bulk::bad_address_is_an_error" => &[Transfer],
        "zcopy::follow_their_lines" => &[ZeroCopy],
        "packets::full_is_said" => &[Bounds],
        "packets::high_passes_low" => &[Bounds, Priorities],
        "packets::ports_are_apart" => &[Bounds, Ports, Priorities],
        _ => &[],
    }
}

/// A case: its name and how to run it.
pub type Case<H> = (&'static str, fn(&H) -> Outcome);

macro_rules! cases {
    ($($module:ident :: $case:ident),* $(,)?) => {
        /// Every case for harness `H`.
        pub fn cases<H: Harness>() -> Vec<Case<H>> {
            vec![$((concat!(stringify!($module), "::", stringify!($case)), $module::$case::<H>)),*]
        }
    };
}

cases! {
    memory::put_fence_get,
    memory::fence_orders,
    memory::lines_arrive_whole,
    memory::bounds,
    memory::permissions,
    memory::publishing,
    memory::found_written,
    memory::errors_are_of_one_segment,
    memory::both_directions_at_once,
    memory::everyone_to_everyone,
    memory::long_gets,
    memory::own_segment,
    memory::lines_as_a_queue,
    memory::mapped,
    memory::common,
    memory::publishing_again,
    memory::lines_and_elements,
    memory::own_pages,
    packets::once_in_order,
    packets::routes_keep_their_order,
    packets::full_is_said,
    packets::high_passes_low,
    packets::ports_are_apart,
    packets::to_oneself,
    packets::misuse_panics,
    bulk::get_and_put,
    bulk::bad_address_is_an_error,
    bulk::impossible_is_refused,
    bulk::pieces,
    zcopy::follow_their_lines,
    interrupt::ready_is_asked_first,
    interrupt::timeout,
    interrupt::no_wake_is_lost,
    interrupt::packets_and_wake,
    status::faults,
    status::counters,
    status::topology,
}

/// Run every case that the fabric is able to do ([`Harness::lacks`]), and check that exactly those named in `skipped` were skipped of these.
///
/// # Panics
/// When a case fails, or the skipped ones differ.
pub fn run_all<H: Harness>(harness: &H, skipped: &[&str]) {
    for (name, case) in cases::<H>() {
        if let Some(lacking) = needs(name).iter().find(|need| harness.lacks(**need)) {
            eprintln!("{name}: left out for want of {lacking:?}");
            continue;
        }
        match case(harness) {
            Outcome::Held => assert!(
                !skipped.contains(&name),
                "{name} ran, but was expected to be skipped"
            ),
            Outcome::Skipped(why) => {
                eprintln!("{name}: skipped, {why}");
                assert!(skipped.contains(&name), "{name} was skipped: {why}");
            }
        }
    }
}

impl Outcome {
    /// Of a case that its ends may skip, for `reason`.
    fn unless_skipped(skipped: bool, reason: &'static str) -> Self {
        if skipped {
            Outcome::Skipped(reason)
        } else {
            Outcome::Held
        }
    }
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Whether `action` panics; says nothing about it.
fn panics<R>(action: impl FnOnce() -> R) -> bool {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    QUIET.set(true);
    let panicked = catch_unwind(AssertUnwindSafe(action)).is_err();
    QUIET.set(false);
    panicked
}

/// Bytes that differ from place to place and from `key` to `key`.
fn pattern(key: u64, len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(key);
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}
