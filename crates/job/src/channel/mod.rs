//! What a launcher offers its processes: their place in the job, a key-value exchange, a fence. One module a
//! protocol.

/// [`broken`] with its sentence, formatted as by [`format!`].
macro_rules! broken {
    ($speaks:expr, $($sentence:tt)+) => { $crate::channel::broken($speaks, format!($($sentence)+)) };
}

pub(crate) mod pmi1;
pub(crate) mod pmi2;
pub(crate) mod pmix;
pub(crate) mod port;
pub(crate) mod text;
pub(crate) mod wire;

use crate::error::JobError;
use crate::hosts::HostMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a launcher told a process about its job, and the way to ask for more.
pub(crate) struct Launched {
    pub rank: u32,
    pub size: u32,
    /// Which application of an MPMD job this process runs.
    pub appnum: u32,
    /// Ranks the job could have.
    pub universe: u32,
    /// Who is on which host, where the launcher says so.
    pub hosts: Option<HostMap>,
    pub channel: Box<dyn Channel>,
}

/// A launcher's key-value exchange. A key is put once by a rank; values are bytes.
pub(crate) trait Channel: Send {
    /// Publish a value of this rank, for others to see after the next fence.
    fn put(&mut self, rank: u32, key: &str, value: &[u8]) -> Result<(), JobError>;

    /// Wait for all ranks.
    fn fence(&mut self) -> Result<(), JobError>;

    /// What rank `of` put before the last fence.
    fn get(&mut self, of: u32, key: &str) -> Result<Option<Vec<u8>>, JobError>;

    /// Take leave: this process's end no longer ends the job.
    fn finalize(&mut self) -> Result<(), JobError>;

    /// Ask the launcher to end the job. It answers by doing so.
    fn abort(&mut self, status: i32, message: &str) -> Result<(), JobError>;
}

/// The error of a launcher that said something its protocol does not have.
pub(crate) fn broken(speaks: &'static str, what: impl Into<String>) -> JobError {
    JobError::Launcher {
        speaks,
        what: what.into(),
    }
}

/// A channel that several threads may come to at once.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
