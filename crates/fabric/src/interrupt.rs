//! Interrupts: ring a peer; sleep until rung or until a deadline.

use crate::host::Host;
use crate::{Peer, Time};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// `ready` said so before sleeping.
    Ready,
    /// Somebody rang (or the system woke us for no reason: look again).
    Rung,
    /// The time is up.
    Timeout,
    /// A handler of signals of the program's has run meanwhile, where the fabric can tell.
    Interrupted,
}

/// Ringing and sleeping, which is the longest of the pauses in [`Time`].
pub trait Interrupt: Time {
    /// What is needed to ring one peer, looked up once.
    type Bell;
    /// The bell of `peer`.
    fn bell(&self, peer: Peer) -> Self::Bell;
    /// As [`wake`](Interrupt::wake), by the peer's bell: for the fast path.
    fn wake_by(&self, bell: &Self::Bell);
    /// Wake `peer` if it sleeps. To be called after something was made visible to it; cheap when it is
    /// awake. An interrupt does not overtake what its sender put to the same peer before.
    fn wake(&self, peer: Peer);
    /// Sleep until rung, at most `timeout`. `ready` is asked once more after everybody can see that we are
    /// about to sleep, so that nothing that arrived in between is slept over.
    fn sleep(&self, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> Wake;
    /// Changes when a peer of this host was sent something, where others need this process's core and the fabric knows.
    #[inline]
    fn rings(&self) -> u64 {
        0
    }
    /// What is known of the host, where other processes of the job may be on it.
    fn host(&self) -> Option<Rc<dyn Host>> {
        None
    }
    /// A descriptor that becomes readable when rung or when [`progress`](crate::Fabric::progress) has something to
    /// do, for other event loops, where the fabric has one. Before waiting for it, [`arm`](Interrupt::arm).
    fn descriptor(&self) -> Option<RawFd> {
        None
    }
    /// To be called before waiting for the [`descriptor`](Interrupt::descriptor). False: do not wait, there is
    /// something to do now.
    fn arm(&self) -> bool {
        true
    }
}
