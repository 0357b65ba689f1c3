//! What a process sleeps on: an epoll descriptor with the completion queue's in it, where the provider has one, and a timer.

use super::calls::Endpoint;
use super::library::OfiError;
use farpost_net::poll::{Alarm, Poll};
use std::cell::Cell;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

/// No sleep is longer.
const LONGEST: Duration = Duration::from_secs(1 << 30);

/// What a process sleeps on.
pub struct Poller {
    poll: Poll,
    timer: Alarm,
    timer_set: Cell<bool>,
}

impl Poller {
    /// To sleep on `endpoint`'s completions.
    pub fn new(endpoint: &Rc<Endpoint>) -> Result<Self, OfiError> {
        let failed = |what: &str, error| OfiError::Refused(format!("libfabric fabric: {what}: {error}"));
        let poll = Poll::new().map_err(|error| failed("no descriptor to wait on", error))?;
        let timer = Alarm::new().map_err(|error| failed("no timer", error))?;
        for fd in [timer.descriptor()].into_iter().chain(endpoint.wait_descriptor()) {
            poll.add(fd, libc::EPOLLIN as u32, 0).map_err(|error| {
                let what = "has a completion queue that cannot be waited on";
                failed(&format!("{} {what}", endpoint.provider()), error)
            })?;
        }
        Ok(Self {
            poll,
            timer,
            timer_set: Cell::new(false),
        })
    }

    /// Make the descriptor readable after `interval`, again and again; zero: not at all.
    pub fn set_timer(&self, interval: Duration) {
        if !interval.is_zero() {
            self.timer.set(interval, interval);
        } else if self.timer_set.get() {
            self.timer.stop();
        }
        self.timer_set.set(!interval.is_zero());
    }

    /// Wait until the descriptor is readable or `timeout` is over.
    pub fn wait(&self, timeout: Duration) {
        if self.poll.sleep(timeout.min(LONGEST)) && self.timer_set.get() {
            self.timer.quiet();
        }
    }

    /// Readable when there is something to look at.
    pub fn descriptor(&self) -> RawFd {
        self.poll.descriptor()
    }
}
