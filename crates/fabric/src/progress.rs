//! What a process needs that is looked after by a thread of its own while its others compute.

use std::os::fd::RawFd;
use std::time::Duration;

farpost_tunables::tunables! {
    /// Tunables of the thread that makes progress while the program computes.
    pub struct ProgressTunables {
        /// 1 has a thread of the library serve MPI while the program computes: long messages and collectives get on without a call. Every call then costs some nanoseconds more, and the thread takes a part of a core while messages come. 2: from the first window on, unless its info says no_locks. 0: MPI moves in its calls only.
        mpi: "FARPOST_PROGRESS_THREAD" = 2, 0..=2, "mode";
        /// 1 has the thread serve importers on other hosts as long as a segment of RSMAPI is published that they can reach. 0: they wait until the exporter calls the library.
        rsm: "FARPOST_RSM_PROGRESS" = 1, 0..=1, "switch";
        /// Time without a call after which the thread takes over. Shorter serves sooner; longer disturbs programs that call often less.
        tick_us: "FARPOST_PROGRESS_TICK" = 1000, 50..=1_000_000, "microseconds";
    }
}

/// What a thread waits for that looks after a process while its others are busy elsewhere: one of the descriptors becomes
/// readable, or the time is up. Descriptors of -1 are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArmedWait {
    /// To be waited for.
    pub descriptors: [RawFd; 2],
    /// And no longer than this.
    pub longest: Duration,
}
