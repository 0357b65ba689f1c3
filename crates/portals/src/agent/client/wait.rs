//! Asking the agent, progress, waiting.

use super::{Client, Inner, Side};
use crate::backend::{Waiting, Waits};
use crate::bridge::mailbox::ClientState;
use crate::bridge::record::{Record, Words, Write, error_of};
use crate::error::Error;
use farpost_fabric::wait::Pause;
use farpost_fabric::{Fabric, Wake};
use std::time::Duration;

/// Longest sleep: an agent that ends rings nobody.
const LONG: Duration = Duration::from_millis(20);
/// An agent that has a core answers at once; where processes share few cores, each before it may have its turn.
const AWAKE: Duration = Duration::from_millis(50);

impl<F: Fabric> Client<F> {
    pub(super) fn ask<T: Record>(&self, kind: u8, told: impl Write) -> Result<T, Error> {
        let (code, words) = self.ask_code(kind, told)?;
        if code == 0 {
            Words(&words).read().map_err(|_| Error::Fail)
        } else {
            Err(error_of(code))
        }
    }

    /// Ask the agent, and wait for what it answers: a code and at least one line of words. Answers come in order and do not
    /// say to what: who asks while another thread waits for its answer waits until that is there.
    pub(super) fn ask_code(&self, kind: u8, told: impl Write) -> Result<(u16, Vec<u64>), Error> {
        let turn = || (!self.asking.replace(true)).then_some(());
        self.wait_for_agent(turn).ok_or(Error::Fail)?;
        let answer = self.ask_alone(kind, told);
        self.asking.set(false);
        self.run_handlers();
        answer
    }

    fn ask_alone(&self, kind: u8, told: impl Write) -> Result<(u16, Vec<u64>), Error> {
        {
            let mailbox = &mut self.inner.borrow_mut().mailbox;
            if mailbox.ended {
                return Err(Error::Fail);
            }
            mailbox.command(kind, 0, told);
        }
        let answered = || {
            let mailbox = &mut self.inner.borrow_mut().mailbox;
            match mailbox.next_result() {
                Ok(result) => result,
                Err(_) => {
                    mailbox.ended = true;
                    None
                }
            }
        };
        self.wait_for_agent(answered).ok_or(Error::Fail)
    }

    /// Wait for what the agent does as soon as it has a core: MPI asks in calls that never give the process's time away.
    pub(super) fn wait_for_agent<T>(&self, look: impl FnMut() -> Option<T>) -> Option<T> {
        self.wait_awake(None, AWAKE, look)
    }

    fn take_what_is_there(&self) -> bool {
        let Inner { mailbox, side, .. } = &mut *self.inner.borrow_mut();
        if mailbox.ended {
            return false;
        }
        let mut moved = mailbox.fabric.progress();
        moved |= mailbox.look();
        if mailbox.state() == ClientState::Faulty {
            side.agent_ended(mailbox);
            return true;
        }
        moved |= mailbox.post_waiting();
        if mailbox.leaving {
            // Nothing may follow what it said last.
            return moved;
        }
        moved |= side.take_events(mailbox);
        if let Side::Generic(generic) = side {
            mailbox.settled = generic.settled();
        }
        mailbox.tell(!moved);
        moved
    }
}

impl<F: Fabric> Waiting for Client<F> {
    fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Take what the agent has posted, give it what waits and run handlers.
    fn advance(&self) -> bool {
        let moved = self.take_what_is_there();
        if moved {
            self.waits.needs_progress.set(true);
            self.run_handlers();
        }
        moved
    }

    fn ask_who_has_ended(&self) -> bool {
        let changed = {
            let Inner { mailbox, side, .. } = &mut *self.inner.borrow_mut();
            if mailbox.ended || !mailbox.fabric.has_ended(mailbox.agent) {
                side.tell_of_the_ended(mailbox);
                false
            } else {
                // What it posted before is still taken.
                while side.take_events(mailbox) {}
                side.agent_ended(mailbox);
                self.waits.needs_progress.set(true);
                true
            }
        };
        self.run_handlers();
        changed
    }

    fn rest(&self) {
        if self.turn.is_some() || self.waits.relax.get().is_some_and(|relax| relax(Pause::Yield)) {
            return;
        }
        let mailbox = &self.inner.borrow().mailbox;
        let Waits { idle, policy, .. } = &self.waits;
        idle.nothing(policy, &*mailbox.fabric, || mailbox.is_ready());
    }

    fn passes(&self, pause: Pause) -> bool {
        if let Some(turn) = &self.turn {
            turn();
            return true;
        }
        self.waits.relax.get().is_some_and(|relax| relax(pause))
    }

    fn sleep(&self, left: Option<Duration>) {
        let longest = left.map_or(LONG, |left| left.min(LONG));
        let woken = {
            let mailbox = &self.inner.borrow().mailbox;
            mailbox.fabric.sleep(longest, &mut || mailbox.is_ready())
        };
        if woken == Wake::Timeout {
            self.ask_who_has_ended();
        }
    }

    fn is_over(&self) -> bool {
        self.inner.borrow().mailbox.ended
    }
}
