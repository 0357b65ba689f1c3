//! Sleeping, questions and their answers, and looking after peers that are silent.
//!
//! A process sleeps on one epoll descriptor ([`Poller`](super::poller::Poller)). Its timer is set while something
//! needs another try that no completion announces: messages that wait for a connection to be made, or a provider
//! without a descriptor, which is polled with short sleeps.
//!
//! Cost class: *queued path*.

use super::Ofi;
use super::alive::{Found, Probe};
use super::core::Inner;
use super::link::Link;
use farpost_fabric::clock::Clock;
use farpost_fabric::{FabricError, Interrupt, Peer, Result, Time, Wake};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often what needs another try gets it during a sleep.
const RETRY: Duration = Duration::from_millis(1);
/// How often a provider without a descriptor is polled during a sleep.
const POLL: Duration = Duration::from_micros(200);
/// Looks without anything before a wait sleeps a little.
const SPINS: u32 = 200;
/// The longest time between two looks at silent peers during a sleep.
const LOOK: Duration = Duration::from_millis(500);

impl Inner {
    /// See to it that the descriptor wakes us. False: there is something to do now.
    pub fn arm(&self) -> bool {
        if self.gathers.get() {
            self.send_gathered();
        }
        if self.endpoint.wait_descriptor().is_none() {
            self.poller.set_timer(POLL);
            return true;
        }
        if !self.endpoint.may_wait() {
            return false;
        }
        let looked_after = self.probes() && self.met.borrow().iter().any(|l| !l.left.get() && !l.is_dead());
        if looked_after {
            self.look_at_silent();
        }
        self.look_at_held();
        let interval = match (self.is_blocked(), looked_after || self.held.any()) {
            (true, _) => RETRY,
            (false, true) => LOOK,
            (false, false) => Duration::ZERO,
        };
        self.poller.set_timer(interval);
        true
    }

    /// Sleep a little, or until something happens.
    pub fn nap(&self) {
        if self.arm() {
            self.poller.wait(Duration::from_millis(20));
        }
        self.look_at_silent();
    }

    /// One more look found nothing, after `idle` that did not: spin, and sleep a little after many. True: it has slept.
    pub fn idle(&self, idle: &mut u32) -> bool {
        *idle += 1;
        let sleeps = *idle > SPINS;
        if sleeps {
            self.nap();
        } else {
            std::hint::spin_loop();
        }
        sleeps
    }

    /// Ask `link` and wait for its answer, making progress.
    pub fn ask(&self, link: &Rc<Link>, what: u8, words: &[u64], name: &'static str) -> Result<Vec<u64>> {
        let number = self.answers.next.get() + 1;
        self.answers.next.set(number);
        self.answers.awaited.set(number);
        *self.answers.words.borrow_mut() = None;
        let mut all = [number, 0, 0, 0];
        all[1..=words.len()].copy_from_slice(words);
        self.control(link, what, 0, &all[..=words.len()]);
        let began = Instant::now();
        let mut idle = 0u32;
        loop {
            let moved = self.progress();
            if let Some(words) = self.answers.words.take() {
                self.answers.awaited.set(0);
                return Ok(words);
            }
            self.check_alive(link)?;
            if moved {
                idle = 0;
                continue;
            }
            let limit = Duration::from_millis(self.tunables.answer);
            if self.idle(&mut idle) && began.elapsed() > limit {
                self.answers.awaited.set(0);
                let (ms, why) = (self.tunables.answer, "(FARPOST_OFI_ANSWER_TIMEOUT)");
                let why = format!("it has not answered for {ms} ms {why}");
                return Err(FabricError::unsupported(link.peer, name, why));
            }
        }
    }

    /// An answer came.
    pub fn answered(&self, link: &Rc<Link>, words: Vec<u64>, bytes: &[u8]) {
        if self.answered_started(link, &words, bytes) {
            return;
        }
        // An answer to a question that nobody waits for any more is of no use.
        if words[0] == self.answers.awaited.get() && self.answers.awaited.get() != 0 {
            *self.answers.bytes.borrow_mut() = bytes.to_vec();
            *self.answers.words.borrow_mut() = Some(words);
        }
    }

    /// Whether a peer's address can be tried from outside: it is the port of a TCP listener.
    fn probes(&self) -> bool {
        let core = self.card.provider.split(';').next();
        matches!(core, Some("tcp" | "net"))
    }

    /// Give up those who are silent for long and cannot be reached: soon when something for them is unfinished or
    /// unanswered, later when they merely say nothing.
    pub fn look_at_silent(&self) {
        let now = Instant::now();
        let last = self.looked.replace(Some(now));
        let soon = Duration::from_millis((self.tunables.probe / 4).min(LOOK.as_millis() as u64));
        if !self.probes() || last.is_some_and(|last| now.duration_since(last) < soon) {
            self.looked.set(last);
            return;
        }
        let met = self.met.borrow().clone();
        for link in met.iter().filter(|link| !link.is_dead() && !link.left.get()) {
            if link.heard.replace(false) {
                link.silent_since.set(Some(now));
                *link.probe.borrow_mut() = None;
                continue;
            }
            let Some(since) = link.silent_since.get() else {
                link.silent_since.set(Some(now));
                continue;
            };
            let wanted = link.unanswered.get() || link.busy() || self.bulk.waits_for(link);
            let patience = Duration::from_millis(self.tunables.probe) * if wanted { 1 } else { 10 };
            if now.duration_since(since) >= patience {
                self.probe(link, now);
            }
        }
    }

    fn probe(&self, link: &Rc<Link>, now: Instant) {
        let mut probe = link.probe.borrow_mut();
        let found = match &*probe {
            Some(begun) => begun.look(),
            None => {
                *probe = Probe::begin(self.card.format, &link.card_address.borrow());
                if probe.is_none() {
                    link.silent_since.set(Some(now));
                }
                return;
            }
        };
        let waited = probe
            .as_ref()
            .map_or(Duration::ZERO, |p| now.duration_since(p.began));
        match found {
            Found::Nothing if waited < Duration::from_millis(self.tunables.gone) => {}
            Found::Nothing => {
                drop(probe);
                let why = format!(
                    "its host has not answered for {} ms (FARPOST_OFI_PEER_TIMEOUT)",
                    self.tunables.gone
                );
                self.give_up(link, &why);
            }
            Found::Alive => {
                *probe = None;
                link.silent_since.set(Some(now));
            }
            Found::Gone(why) => {
                drop(probe);
                self.give_up(link, &why);
            }
        }
    }
}

impl Time for Ofi {
    #[inline]
    fn clock(&self) -> &Rc<Clock> {
        &self.0.clock
    }
}

impl Interrupt for Ofi {
    type Bell = Peer;

    fn bell(&self, peer: Peer) -> Peer {
        assert!(peer.0 < self.0.size, "{peer} does not exist");
        peer
    }

    /// Nothing to do: a message makes the sleeper's descriptor readable.
    #[inline(always)]
    fn wake_by(&self, _bell: &Peer) {}

    fn wake(&self, peer: Peer) {
        assert!(peer.0 < self.0.size, "{peer} does not exist");
    }

    fn sleep(&self, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> Wake {
        if ready() {
            return Wake::Ready;
        }
        let until = Instant::now().checked_add(timeout);
        loop {
            if self.0.progress() {
                return Wake::Rung;
            }
            let left = until.map_or(Duration::MAX, |u| u.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Wake::Timeout;
            }
            if !self.0.arm() {
                continue;
            }
            self.0.poller.wait(left);
            self.0.look_at_silent();
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.0.poller.descriptor())
    }

    fn arm(&self) -> bool {
        self.0.arm()
    }
}
