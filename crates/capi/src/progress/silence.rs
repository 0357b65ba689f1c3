//! Whether the program, which makes no call, waits for what others bring about.
//!
//! On a simulated machine a process that computes has its turn until it calls, and so has one that sleeps for a time, so that runs can be repeated. One that waits in the
//! system for a descriptor, another process or a thread would wait for ever.
//!
//! Cost class: *queued path*.

use crate::real_time;
use std::time::Duration;

/// What the threads of this process do, as the library's own thread sees it now and then.
pub(super) struct Silence {
    patience: Duration,
    since: Option<Duration>,
    /// Looks in a row at which all threads waited.
    waits: u32,
    /// It has been longer than the patience: from then on a moment is enough.
    long: bool,
}

/// So many looks, a tick apart, make a wait.
const LOOKS: u32 = 2;
/// The machine's coordinator says first that its patience has ended.
const LATER: Duration = Duration::from_millis(200);
/// Without a call, where the patience has ended once.
const MOMENT: Duration = Duration::from_millis(20);

impl Silence {
    pub fn new(patience: Duration) -> Self {
        Self {
            patience,
            since: None,
            waits: 0,
            long: false,
        }
    }

    /// The program calls.
    pub fn is_over(&mut self) {
        (self.since, self.waits) = (None, 0);
    }

    /// To be asked a tick after the program's last call, and after each further tick. True: others may run.
    pub fn lasts(&mut self) -> bool {
        let now = real_time::now();
        let for_now = now - *self.since.get_or_insert(now);
        self.long |= for_now > self.patience + LATER;
        if self.long && for_now > MOMENT {
            return true;
        }
        self.waits = if all_wait() { self.waits + 1 } else { 0 };
        self.waits > LOOKS
    }
}

/// Calls of the system in which a thread sleeps for a time.
const SLEEPS: [i64; 2] = [libc::SYS_nanosleep, libc::SYS_clock_nanosleep];

/// Whether each other thread of this process waits in the system, and not for a time to pass.
fn all_wait() -> bool {
    // SAFETY: asks for this thread's number.
    let me = unsafe { libc::gettid() };
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return false;
    };
    tasks.flatten().all(|task| {
        let name = task.file_name();
        if name.to_str().is_some_and(|name| name == me.to_string()) {
            return true;
        }
        // The number of the call it is in, or that it runs. Where the system does not tell, whoever sleeps waits.
        match std::fs::read_to_string(task.path().join("syscall")) {
            Ok(text) => match text.split_whitespace().next().map(str::parse) {
                Some(Ok(call)) => !SLEEPS.contains(&call),
                _ => false,
            },
            Err(_) => std::fs::read_to_string(task.path().join("stat")).is_ok_and(|stat| {
                stat.rsplit_once(')')
                    .is_some_and(|(_, rest)| rest.starts_with(" S"))
            }),
        }
    })
}
