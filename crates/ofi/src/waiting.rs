//! Sleeping, questions and their answers, and looking after peers that are silent.
//!
//! A process sleeps on one epoll descriptor. In it are the completion queue's, where the provider has one, and a
//! timer, which is set while something needs another try that no completion announces: messages that wait for a
//! connection to be made, or a provider without a descriptor, which is polled with short sleeps.
//!
//! Cost class: *queued path*.

use super::Ofi;
use super::alive::{Found, Probe};
use super::calls::Endpoint;
use super::core::Inner;
use super::library::OfiError;
use super::link::Link;
use farpost_fabric::clock::Clock;
use farpost_fabric::{FabricError, Interrupt, Peer, Time, Wake};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often what needs another try gets it during a sleep.
const RETRY: Duration = Duration::from_millis(1);
/// How often a provider without a descriptor is polled during a sleep.
const POLL: Duration = Duration::from_micros(200);
/// The longest time between two looks at silent peers during a sleep.
const LOOK: Duration = Duration::from_millis(500);

/// What a process sleeps on.
pub struct Waiting {
    epoll: OwnedFd,
    timer: OwnedFd,
    timer_set: std::cell::Cell<bool>,
}

fn owned(fd: RawFd, what: &'static str) -> Result<OwnedFd, OfiError> {
    if fd < 0 {
        let error = std::io::Error::last_os_error();
        return Err(OfiError::Refused(format!("libfabric fabric: {what}: {error}")));
    }
    // SAFETY: just made, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Waiting {
    /// To sleep on `endpoint`'s completions.
    pub fn new(endpoint: &Rc<Endpoint>) -> Result<Self, OfiError> {
        // SAFETY: plain calls that make descriptors.
        let (epoll, timer) = unsafe {
            (
                libc::epoll_create1(libc::EPOLL_CLOEXEC),
                libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK),
            )
        };
        let waiting = Self {
            epoll: owned(epoll, "no descriptor to wait on")?,
            timer: owned(timer, "no timer")?,
            timer_set: std::cell::Cell::new(false),
        };
        for fd in [Some(waiting.timer.as_raw_fd()), endpoint.wait_descriptor()]
            .into_iter()
            .flatten()
        {
            let mut event = libc::epoll_event {
                events: libc::EPOLLIN as u32,
                u64: 0,
            };
            // SAFETY: open descriptors; the event lives until the call returns.
            let code = unsafe {
                libc::epoll_ctl(waiting.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event)
            };
            if code != 0 {
                let error = std::io::Error::last_os_error();
                return Err(OfiError::Refused(format!(
                    "libfabric fabric: {} has a completion queue that cannot be waited on: {error}",
                    endpoint.provider()
                )));
            }
        }
        Ok(waiting)
    }

    /// Make the descriptor readable after `interval`, again and again; zero: not at all.
    fn set_timer(&self, interval: Duration) {
        if interval.is_zero() && !self.timer_set.get() {
            return;
        }
        self.timer_set.set(!interval.is_zero());
        let time = libc::timespec {
            tv_sec: interval.as_secs() as libc::time_t,
            tv_nsec: interval.subsec_nanos().into(),
        };
        let setting = libc::itimerspec {
            it_interval: time,
            it_value: time,
        };
        // SAFETY: an open timer; the setting lives until the call returns.
        unsafe {
            libc::timerfd_settime(
                self.timer.as_raw_fd(),
                0,
                &raw const setting,
                std::ptr::null_mut(),
            )
        };
        if interval.is_zero() {
            self.clear_timer();
        }
    }

    fn clear_timer(&self) {
        let mut ticks = 0u64;
        // SAFETY: eight writable bytes; does not block.
        unsafe { libc::read(self.timer.as_raw_fd(), (&raw mut ticks).cast(), 8) };
    }

    /// Wait until the descriptor is readable or `timeout` is over. True: it is readable.
    fn wait(&self, timeout: Duration) -> bool {
        let mut poll = libc::pollfd {
            fd: self.epoll.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let time = libc::timespec {
            tv_sec: timeout.as_secs().min(1 << 30) as libc::time_t,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: one writable entry; the time lives until the call returns; no signal mask.
        let ready = unsafe { libc::ppoll(&raw mut poll, 1, &raw const time, std::ptr::null()) };
        if ready > 0 && self.timer_set.get() {
            self.clear_timer();
        }
        ready != 0
    }
}

impl Inner {
    /// See to it that the descriptor wakes us. False: there is something to do now.
    pub fn arm(&self) -> bool {
        if self.gathers.get() {
            self.send_gathered();
        }
        if self.endpoint.wait_descriptor().is_none() {
            self.waiting.set_timer(POLL);
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
        self.waiting.set_timer(interval);
        true
    }

    /// Sleep a little, or until something happens.
    pub fn nap(&self) {
        if self.arm() {
            self.waiting.wait(Duration::from_millis(20));
        }
        self.look_at_silent();
    }

    /// Ask `link` and wait for its answer, making progress.
    pub fn ask(
        &self,
        link: &Rc<Link>,
        what: u8,
        words: &[u64],
        name: &'static str,
    ) -> Result<Vec<u64>, FabricError> {
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
            idle += 1;
            if idle > 200 {
                let limit = Duration::from_millis(self.tunables.answer);
                if began.elapsed() > limit {
                    self.answers.awaited.set(0);
                    return Err(FabricError::unsupported(
                        link.peer,
                        name,
                        format!(
                            "it has not answered for {} ms (FARPOST_OFI_ANSWER_TIMEOUT)",
                            self.tunables.answer
                        ),
                    ));
                }
                self.nap();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// An answer came.
    pub fn answered(&self, words: Vec<u64>, bytes: &[u8]) {
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
            self.0.waiting.wait(left);
            self.0.look_at_silent();
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.0.waiting.epoll.as_raw_fd())
    }

    fn arm(&self) -> bool {
        self.0.arm()
    }
}
