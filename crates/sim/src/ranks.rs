//! Ranks as coroutines of one thread: each is a program with a stack of its own, and calls that wait let others run.

use crate::core::Core;
use crate::fabric::{SimFabric, Within};
use crate::running::{Running, Yield};
use crate::stack::{BYTES, RankStack, stacks};
use crate::time::Ps;
use corosensei::{Coroutine, CoroutineResult};
use farpost_fabric::Peer;
use std::ptr::NonNull;
use std::rc::Rc;

/// Turns in a row in which nothing happened.
#[derive(Default)]
pub(crate) struct Idle {
    turns: u64,
    /// And in which no program called anything.
    silent: u64,
    made: u64,
    /// When something last happened.
    since: Ps,
}

impl Idle {
    /// A turn of `rank` has ended, in which its program has called anew or not. True: so many in a row have ended in sleep without an event and without a
    /// call that ranks wait for each other. Programs that call may stop by themselves.
    pub fn count(&mut self, core: &Core, rank: u32, calls: bool) -> bool {
        let events = core.kernel.queue.made();
        let moved = events != self.made || !core.kernel.procs.schedule.is_asleep(rank);
        self.turns = if moved { 0 } else { self.turns + 1 };
        self.silent = if moved || calls { 0 } else { self.silent + 1 };
        self.made = events;
        if moved || calls {
            self.since = core.kernel.now;
        }
        self.silent > HANGS + 100 * u64::from(core.kernel.procs.size())
    }

    /// So many turns have passed without an event that only what is outside of the machine can help, if there is anything.
    pub fn is_long(&self, core: &Core) -> bool {
        self.turns > 4 * u64::from(core.kernel.procs.size())
    }

    /// The error of it.
    pub fn hang(&self, core: &Core) -> RunError {
        RunError::Hang {
            time: self.since,
            left: core.kernel.procs.schedule.left().collect(),
        }
    }
}

/// So many turns without an event and without a rank that ends: ranks wait for each other.
const HANGS: u64 = 100_000;

/// A rank's program.
type Program<'a, T> = Box<dyn FnOnce(&Yield) -> T + 'a>;

/// Why ranks did not come to their end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("from {time} of virtual time on {} ranks wait for each other, and nothing is on its way; the first are {:?}", left.len(), &left[..left.len().min(8)])]
    Hang { time: Ps, left: Vec<u32> },
    #[error(
        "no stacks for {ranks} ranks: {error} (vm.max_map_count bounds their guards where the system is older than Linux 6.13)"
    )]
    Stack { ranks: u32, error: std::io::Error },
}

/// Run `body` as each rank of a machine, to the end of all of them; what it gave, by rank, and the machine.
///
/// # Errors
/// Ranks wait for each other for ever, or there is no memory for their stacks.
///
/// # Panics
/// As `body`.
pub fn run<T: 'static>(core: Core, body: impl Fn(SimFabric) -> T) -> Result<(Vec<T>, Core), RunError> {
    let (results, core) = run_with_deaths(core, body)?;
    let all = results.into_iter().map(|it| it.expect("all have ended"));
    Ok((all.collect(), core))
}

/// As [`run`], where hosts may die: ranks of those give nothing.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As `body`.
pub fn run_with_deaths<T: 'static>(
    core: Core,
    body: impl Fn(SimFabric) -> T,
) -> Result<(Vec<Option<T>>, Core), RunError> {
    let size = core.kernel.procs.size();
    let running = Rc::new(Running::new(core));
    let mut coroutines = Vec::new();
    let no_stack = |error| RunError::Stack { ranks: size, error };
    for (rank, stack) in (0..size).zip(stacks(size as usize, BYTES).map_err(no_stack)?) {
        let stack: RankStack = stack.map_err(no_stack)?;
        let (body, running) = (&body, Rc::clone(&running));
        let whole: Program<'_, T> = Box::new(move |yielder| {
            running.set_yielder(rank, Some(NonNull::from(yielder)));
            let result = body(SimFabric::new(Within::new(Rc::clone(&running), Peer(rank))));
            running.set_yielder(rank, None);
            result
        });
        // SAFETY: only the lifetime changes. The coroutines are this function's, which drops them (and so unwinds what has not ended) before
        // it returns, also in a panic; `body` lives longer.
        let whole: Program<'static, T> = unsafe { std::mem::transmute(whole) };
        coroutines.push(Some(Coroutine::with_stack(stack, move |yielder: &Yield, ()| {
            whole(yielder)
        })));
    }
    let mut results: Vec<Option<T>> = (0..size).map(|_| None).collect();
    let mut idle = Idle::default();
    let next = || running.core.borrow_mut().next_rank();
    while let Some(rank) = next() {
        if running.is_struck(Peer(rank)) {
            running.set_yielder(rank, None);
            coroutines[rank as usize] = None;
            running.core.borrow_mut().kernel.procs.schedule.end();
            continue;
        }
        let coroutine = coroutines[rank as usize].as_mut().expect("it has not ended");
        if let CoroutineResult::Return(result) = coroutine.resume(()) {
            results[rank as usize] = Some(result);
            // Its stack is free.
            coroutines[rank as usize] = None;
            running.core.borrow_mut().kernel.procs.schedule.end();
        }
        let core = running.core.borrow();
        if idle.count(&core, rank, false) {
            return Err(idle.hang(&core));
        }
    }
    drop(coroutines);
    let running = Rc::into_inner(running);
    let core = running.expect("no rank keeps its fabric").core.into_inner();
    Ok((results, core))
}
