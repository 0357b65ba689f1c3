//! What the calls of a [`NetworkInterface`](crate::NetworkInterface) are made of, where these differ by who does them.

use crate::bridge::{Record, Request, Update, Write};
use crate::error::Error;
use crate::handlers::Handlers;
use crate::library::{Library, Outgoing, Target};
use crate::types::{AckReq, Handle, Iovec, Md, Taken, Unlink};
use farpost_fabric::wait::{Backoff, Idle, Pause, Relax, WaitPolicy};
use farpost_fabric::{Distance, Moment, Peer};
use std::cell::Cell;
use std::time::Duration;

/// Glances before each poll of a call that waits.
const GLANCES: u32 = 32;
/// Calls that find nothing between two looks at the clock: a power of two.
const CLOCK: u32 = 1024;

/// How an interface does what is asked of it. Nobody outside this crate can name it, so there are no other interfaces.
pub trait Backend: Waiting {
    /// A call about objects, done `here` by the library of this process; or an agent's answer to `command`, with what it is told.
    fn call<T: Record>(
        &self,
        here: impl FnOnce(&mut Library) -> Result<T, Error>,
        command: u8,
        told: impl Write,
    ) -> Result<T, Error>;

    /// A [`call`](Self::call) that releases `object`. While that is in use it fails, having made progress: who repeats it is not to wait
    /// for itself.
    fn release(
        &self,
        object: Handle,
        here: impl Fn(&mut Library) -> Result<(), Error>,
        command: u8,
    ) -> Result<(), Error>;

    /// A descriptor, of a match entry or of its own.
    fn new_md(&self, me: Option<Handle>, md: Md, iovec: Iovec, unlink: Unlink) -> Result<Handle, Error>;

    /// Change a descriptor, or say what it has.
    fn update(
        &self,
        of: (Handle, Handle),
        old: Option<&mut Md>,
        new: Option<(Md, Iovec)>,
        how: Update,
    ) -> Result<(), Error>;

    /// Begin an operation: as the library prepares it, or as an agent is asked for it.
    fn begin(
        &self,
        prepare: impl FnOnce(&mut Library) -> Result<Outgoing, Error>,
        request: Request,
    ) -> Result<(), Error>;

    /// Begin a put.
    #[inline(always)]
    fn begin_put(
        &self,
        md: Handle,
        region: Option<(u64, u64)>,
        ack: AckReq,
        target: &Target,
        hdr_data: u64,
    ) -> Result<(), Error> {
        self.begin(
            |library| library.prepare_put(md, region, ack, target, hdr_data),
            Request::put(md, region, ack, target, hdr_data),
        )
    }

    /// Handlers of event queues.
    fn handlers(&self) -> &Handlers;

    /// A queue has been made, for `count` events.
    fn queue_made(&self, _eq: Handle, _count: u32, _handled: bool) {}

    /// A queue is gone.
    fn queue_gone(&self, _eq: Handle) {}

    /// The oldest event of a queue, without a look at what has arrived.
    fn take(&self, eq: Handle) -> Result<Taken, Error>;

    /// The oldest event of the first of these queues that holds one; `None`: all are empty.
    fn take_first(&self, eqs: &[Handle]) -> Option<Result<(usize, Taken), Error>>;

    /// How far a process is.
    fn distance(&self, peer: Peer) -> Distance;
}

/// How an interface waits, and since when.
pub struct Waits {
    pub policy: WaitPolicy,
    pub idle: Idle,
    /// Something has moved since the program last called `progress`.
    pub needs_progress: Cell<bool>,
    pub relax: Cell<Option<Relax>>,
    /// Calls in a row that found nothing.
    empty: Cell<u32>,
    /// When it was asked last who has ended.
    pub asked: Cell<Moment>,
}

impl Waits {
    pub fn new(policy: WaitPolicy) -> Self {
        Self {
            asked: Cell::new(policy.now()),
            policy,
            idle: Idle::default(),
            needs_progress: Cell::new(false),
            relax: Cell::new(None),
            empty: Cell::new(0),
        }
    }

    /// Whether so much time has passed since it was asked last who has ended; it is asked now, then.
    pub fn may_ask(&self, pause: Duration) -> bool {
        let now = self.policy.now();
        let may = now - self.asked.get() >= pause;
        if may {
            self.asked.set(now);
        }
        may
    }
}

/// What a call does that has found nothing.
pub trait Waiting {
    fn waits(&self) -> &Waits;

    /// Move what can be moved, within whatever call: what did move is news to the next
    /// [`progress`](crate::NetworkInterface::progress) as well. True: something did.
    fn advance(&self) -> bool;

    /// Look who has ended. True: something happened.
    fn ask_who_has_ended(&self) -> bool;

    /// As [`advance`](Self::advance), and now and then a look who has ended.
    #[inline]
    fn advance_or_ask(&self) -> bool {
        let empty = &self.waits().empty;
        if self.advance() {
            empty.set(0);
            return true;
        }
        empty.set(empty.get().wrapping_add(1));
        empty.get().is_multiple_of(CLOCK) && self.ask_who_has_ended()
    }

    /// Progress, and now and then a look who has ended. True: something happened.
    #[inline]
    fn poll(&self) -> bool {
        let waits = self.waits();
        waits.idle.begin(&waits.policy);
        self.advance_or_ask()
    }

    /// A call that does not block found nothing.
    fn rest(&self);

    /// A call that does not block found something.
    #[inline(always)]
    fn found(&self) {
        self.waits().idle.found();
    }

    /// What is quicker than a poll and may be done instead of one, between two of them. True: something has come.
    fn glance(&self) -> bool {
        false
    }

    /// How this process waits.
    #[inline(always)]
    fn policy(&self) -> &WaitPolicy {
        &self.waits().policy
    }

    /// Before a pause: whether somebody else let time pass.
    #[inline]
    fn passes(&self, pause: Pause) -> bool {
        self.waits().relax.get().is_some_and(|relax| relax(pause))
    }

    /// Sleep until something comes, as long as `left` at most; and see who has ended.
    fn sleep(&self, left: Option<Duration>);

    /// Whether nothing will come any more.
    fn is_over(&self) -> bool {
        false
    }

    /// Make progress until `look` finds something. `None`: the deadline has passed, or the agent has ended.
    #[inline]
    fn wait_until<T>(&self, deadline: Option<Moment>, look: impl FnMut() -> Option<T>) -> Option<T> {
        self.wait_awake(deadline, Duration::ZERO, look)
    }

    /// As [`wait_until`](Self::wait_until), awake for so long. What a call that is not to block asks of somebody who answers at once takes
    /// no longer than it takes that one to get a core; who sleeps gives away more.
    fn wait_awake<T>(
        &self,
        deadline: Option<Moment>,
        awake: Duration,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let mut backoff = Backoff::default();
        let mut sleeps_from = None;
        loop {
            if let Some(found) = look() {
                return Some(found);
            }
            if (0..GLANCES).any(|_| self.glance()) || self.poll() {
                backoff.reset();
                continue;
            }
            if self.is_over() {
                return look();
            }
            let left = deadline.map(|deadline| deadline - self.policy().now());
            if left == Some(Duration::ZERO) {
                return look();
            }
            let mut pause = backoff.pause(self.policy());
            if pause == Pause::Sleep && !awake.is_zero() {
                let now = self.policy().now();
                if now < *sleeps_from.get_or_insert(now + awake) {
                    pause = Pause::Yield;
                }
            }
            if self.passes(pause) {
                continue;
            }
            match pause {
                Pause::Spin => self.policy().spin_once(),
                Pause::Yield => self.policy().give_way(),
                Pause::Sleep => self.sleep(left),
            }
        }
    }
}
