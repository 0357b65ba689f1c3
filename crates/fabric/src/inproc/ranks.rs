//! Ranks as coroutines of one thread: each is a program with a stack of its own, and calls that wait let others run.
//!
//! Every rank has a clock of its own, which its pauses and what it is charged move. The rank whose clock is behind all others runs next, until it pauses;
//! what is due until then has arrived before. So a rank never misses what came in time, and sees early at most what arrives between two of its pauses.
//! Ranks of equal time run in the order of their numbers, and the seed decides the rest, so a run replays exactly.

use super::state::NetworkState;
use super::{Config, InProc, Network};
use crate::Peer;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;

/// Bytes of a rank's stack. Only what is used takes memory.
const STACK: usize = 1 << 20;

/// So many turns without anything new on its way and without a rank that ends: they wait for each other.
const HANGS: u64 = 2_000_000;

/// What a rank waits for.
#[derive(Clone, Copy)]
enum RankState {
    /// Its turn.
    Ready,
    /// To be rung, or the time given.
    Asleep(u64),
    Ended,
}

struct Rank {
    clock: u64,
    state: RankState,
    /// By which it lets others run; set while its coroutine exists.
    yielder: Option<NonNull<Yielder<(), ()>>>,
}

/// The ranks of a network, and which of them runs.
pub struct Ranks {
    all: Vec<Rank>,
    running: Option<usize>,
}

impl Ranks {
    /// `peer` sleeps and is rung at `now`.
    pub fn rung(&mut self, peer: Peer, now: u64) {
        if let RankState::Asleep(until) = &mut self.all[peer.index()].state {
            *until = now.min(*until);
        }
    }

    /// Who runs next, and when.
    fn next(&self) -> Option<(u64, usize)> {
        let time = |rank: &Rank| match rank.state {
            RankState::Ready => Some(rank.clock),
            RankState::Asleep(until) => Some(until.max(rank.clock)),
            RankState::Ended => None,
        };
        let waiting = self.all.iter().enumerate();
        waiting
            .filter_map(|(index, rank)| Some((time(rank)?, index)))
            .min()
    }
}

/// Run `body` as each of `size` ranks, to the end of all of them; what it gave, by rank.
///
/// # Panics
/// As [`Network::new`], as `body`, and when ranks are left that wait for each other.
pub fn run<T: 'static>(size: u32, seed: u64, config: Config, body: impl Fn(InProc) -> T + 'static) -> Vec<T> {
    let ends = Network::new(size, seed, config);
    let network = ends[0].network().clone();
    let body = Rc::new(body);
    network.0.borrow_mut().ranks = Some(Ranks {
        all: (0..size)
            .map(|_| Rank {
                clock: 0,
                state: RankState::Ready,
                yielder: None,
            })
            .collect(),
        running: None,
    });
    let mut coroutines: Vec<_> = ends
        .into_iter()
        .map(|end| {
            let (body, state) = (Rc::clone(&body), Rc::clone(&network.0));
            let stack = DefaultStack::new(STACK).expect("memory for a stack");
            Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
                let index = end.me.index();
                state.borrow_mut().rank(index).yielder = Some(NonNull::from(yielder));
                let result = body(end);
                let mut state = state.borrow_mut();
                let rank = state.rank(index);
                (rank.yielder, rank.state) = (None, RankState::Ended);
                result
            })
        })
        .collect();
    let mut results: Vec<Option<T>> = (0..size).map(|_| None).collect();
    let (mut left, mut moved, mut turns) = (size, 0, 0);
    loop {
        let next = network.0.borrow_mut().begin_turn();
        let Some(index) = next else { break };
        if let CoroutineResult::Return(result) = coroutines[index].resume(()) {
            results[index] = Some(result);
            left -= 1;
            turns = 0;
        }
        let submitted = network.0.borrow_mut().end_turn();
        turns += 1;
        if submitted != moved {
            (moved, turns) = (submitted, 0);
        }
        assert!(
            turns < HANGS,
            "{left} of {size} ranks wait for each other, with seed {seed}: nothing is on its way"
        );
    }
    results
        .into_iter()
        .map(|it| it.expect("all have ended"))
        .collect()
}

impl NetworkState {
    fn rank(&mut self, index: usize) -> &mut Rank {
        &mut self.ranks.as_mut().expect("ranks are coroutines").all[index]
    }

    /// Let arrive what is due before the next rank runs, and make its time that of the network. None: all have ended.
    fn begin_turn(&mut self) -> Option<usize> {
        let (time, index) = loop {
            let (time, index) = self.ranks.as_ref()?.next()?;
            match self.next_due() {
                Some(due) if due <= time => self.arrive(due),
                _ => break (time, index),
            }
        };
        self.now = time;
        let rank = self.rank(index);
        if let RankState::Asleep(_) = rank.state {
            rank.state = RankState::Ready;
        }
        self.ranks.as_mut()?.running = Some(index);
        Some(index)
    }

    /// The running rank pauses or has ended. What was ever submitted.
    fn end_turn(&mut self) -> u64 {
        let now = self.now;
        if let Some(index) = self.ranks.as_mut().and_then(|ranks| ranks.running.take()) {
            self.rank(index).clock = now;
        }
        self.submitted()
    }
}

/// A rank pauses. Nothing where processes are no coroutines.
pub(super) fn let_others_run(state: &RefCell<NetworkState>) {
    let yielder = {
        let state = state.borrow();
        let ranks = state.ranks.as_ref();
        ranks.and_then(|ranks| ranks.all[ranks.running?].yielder)
    };
    if let Some(yielder) = yielder {
        // SAFETY: it is the running rank's own: `run` notes who runs, and a rank's yielder from the start of its coroutine to its end. All of it
        // belongs to one thread. So this is on the stack of that coroutine, where the yielder is alive.
        unsafe { yielder.as_ref() }.suspend(());
    }
}

/// A rank sleeps until it is rung, or until `deadline`. False: processes are no coroutines.
pub(super) fn sleep(state: &RefCell<NetworkState>, deadline: u64) -> bool {
    {
        let mut state = state.borrow_mut();
        let Some(index) = state.ranks.as_ref().and_then(|ranks| ranks.running) else {
            return false;
        };
        state.rank(index).state = RankState::Asleep(deadline);
    }
    let_others_run(state);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Interrupt, PacketQueue, Port, Priority, Time, TrySend, Wake};
    use std::time::Duration;

    /// Each rank sends its number to the next and waits for that of the one before.
    fn ring(seed: u64) -> Vec<(u8, u64)> {
        run(20, seed, Config::default(), |end| {
            let to = Peer((end.me.0 + 1) % end.size);
            let mine = [end.me.0 as u8];
            while end.try_send(to, Port::Fm, Priority::Low, &mine) != TrySend::Sent {
                end.spin();
            }
            end.wake(to);
            let mut got = None;
            while !end.poll_priority(Port::Fm, Priority::Low, |_, bytes| got = Some(bytes[0])) {
                end.sleep(Duration::from_secs(1), &mut || {
                    end.packets_waiting(Port::Fm, Priority::Low, 1) > 0
                });
            }
            (got.expect("just polled"), end.now().nanos())
        })
    }

    #[test]
    fn calls_that_wait_let_others_run_and_a_seed_replays() {
        for seed in 0..20 {
            let got = ring(seed);
            for (rank, (from, _)) in got.iter().enumerate() {
                assert_eq!(usize::from(*from), (rank + 19) % 20);
            }
            assert_eq!(got, ring(seed));
        }
        assert_ne!(ring(1), ring(2));
    }

    #[test]
    fn each_rank_has_a_clock_of_its_own() {
        let times = run(3, 1, Config::default(), |end| {
            for _ in 0..end.me.0 {
                let wake = end.sleep(Duration::from_millis(5), &mut || false);
                assert_eq!(wake, Wake::Timeout);
            }
            end.now().nanos()
        });
        assert_eq!(times, [0, 5_000_000, 10_000_000]);
    }

    #[test]
    #[should_panic(expected = "wait for each other")]
    fn ranks_that_wait_for_each_other_are_told() {
        run(2, 1, Config::default(), |end| {
            if end.me.0 == 0 {
                loop {
                    end.spin();
                }
            }
        });
    }

    #[test]
    #[should_panic(expected = "rank 1 is wrong")]
    fn a_rank_that_panics_ends_the_run() {
        run(3, 1, Config::default(), |end| match end.me.0 {
            1 => panic!("rank 1 is wrong"),
            _ => loop {
                end.sleep(Duration::from_secs(1), &mut || false);
            },
        });
    }
}
