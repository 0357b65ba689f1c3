//! Channels of jobs that this process is no part of: their launcher may still be asked to end them.

use crate::channel::{Channel, lock};
use crate::stdio;
use std::sync::Mutex;

/// The channel of a job that this process failed to join.
static ABANDONED: Mutex<Option<Box<dyn Channel>>> = Mutex::new(None);

/// Keep the channel of a job that this process will not be part of.
pub(crate) fn give_up(channel: Box<dyn Channel>) {
    *lock(&ABANDONED) = Some(channel);
}

/// When a process that began to join a job cannot be part of it, and has said why: ask the launcher, if there is one, to end the job. The
/// process should end then, too.
pub fn abandon(status: i32) {
    if let Some(mut channel) = lock(&ABANDONED).take() {
        stdio::drain();
        let _ = channel.abort(status, "a rank could not join the job");
    }
}
