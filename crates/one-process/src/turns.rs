//! A rank, as it is known to the coordinator: the program on a stack of its own, which asks the machine and waits for its turn.

use crate::ends;
use crate::floating::Environment;
use crate::host::Host;
use crate::rank::{Rank, Stop, set_running};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use farpost_job::End;
use farpost_sim::coordinator::{Connection, OtherThreads, Said};
use farpost_sim::memory::{Displaced, OwnProcess};
use farpost_sim::stack::RankStack;
use libc::c_char;
use std::rc::Rc;
use std::time::Duration;

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// The coordinator's end of a rank.
pub struct Turns {
    host: &'static Host,
    rank: &'static Rank,
    environment: *mut *mut c_char,
    floating: Environment,
    coroutine: Option<Coroutine<(), Stop, (), RankStack>>,
}

impl Turns {
    /// Of a rank that has not begun.
    pub fn new(host: &'static Host, number: u32, stack: RankStack) -> Self {
        let rank = Rank::new(number, stack.guard());
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), Stop>, ()| {
            rank.begin(yielder);
            let (argc, argv) = host.surroundings.arguments();
            // SAFETY: strings that live as long as the process, and variables that this rank finds as they were at the start.
            let code = unsafe { host.program.begin(argc, argv, environ) };
            ends::end_rank(rank, code)
        });
        Self {
            host,
            rank,
            environment: std::ptr::null_mut(),
            floating: Environment::now(),
            coroutine: Some(coroutine),
        }
    }

    /// The rank runs until it stops.
    fn turn(&mut self) -> Stop {
        let Some(coroutine) = &mut self.coroutine else {
            return Stop::Ended(0);
        };
        let (host, rank) = (self.host, self.rank);
        if !coroutine.started() {
            match host.surroundings.environment(rank.number, &host.memory) {
                Ok(environment) => self.environment = environment,
                Err(why) => {
                    eprintln!("farpost sim: {why}");
                    self.finish(End::Exit(1));
                    return Stop::Ended(1);
                }
            }
        }
        host.segments.borrow_mut().enter(rank.number);
        // SAFETY: the C library's variable (or the program's in its place), of a process with one thread.
        unsafe { environ = self.environment };
        set_running(Some(rank));
        let floating = self.floating.exchange();
        let stop = match coroutine.resume(()) {
            CoroutineResult::Yield(stop) => stop,
            CoroutineResult::Return(()) => Stop::Ended(0),
        };
        self.floating = floating.exchange();
        set_running(None);
        // SAFETY: as above.
        self.environment = unsafe { environ };
        if let Stop::Ended(code) = stop {
            self.finish(End::Exit(code & 0xff));
        }
        stop
    }

    /// The rank does not run any more.
    fn stop_for_ever(&mut self) {
        if let Some(mut coroutine) = self.coroutine.take() {
            // SAFETY: what is left on the stack is the program's and what it has called, which a process that ends leaves as it is too. Nobody comes back.
            unsafe { coroutine.force_reset() };
        }
    }

    /// The rank has ended.
    fn finish(&mut self, end: End) {
        self.stop_for_ever();
        self.host.ended(self.rank.number, end);
    }
}

/// A rank that the coordinator has turned away is left where it stands.
impl Drop for Turns {
    fn drop(&mut self) {
        self.stop_for_ever();
    }
}

impl Connection for Turns {
    fn hear(&mut self, _: Duration) -> Said {
        match self.turn() {
            Stop::Asked => Said::Something(self.rank.question.take()),
            Stop::Ended(_) => Said::Gone,
        }
    }

    fn tell(&mut self, bytes: &[u8]) -> bool {
        if self.coroutine.is_none() {
            return false;
        }
        let mut answer = self.rank.answer.borrow_mut();
        answer.clear();
        answer.extend_from_slice(bytes);
        true
    }

    fn process(&self) -> OwnProcess {
        let pid = std::process::id() as i32;
        let (host, rank) = (self.host, self.rank.number);
        OwnProcess::within(pid, Rc::new(Variables { host, rank }))
    }

    fn state(&self) -> &'static str {
        "stands still"
    }

    fn threads(&self) -> OtherThreads {
        OtherThreads::None
    }

    fn kill(&mut self) {
        self.finish(End::Signal(libc::SIGKILL));
    }

    fn let_go(mut self: Box<Self>) {
        // It asks nothing any more; if it does all the same, there is nobody.
        while let Stop::Asked = self.turn() {
            self.rank.answer.borrow_mut().clear();
        }
    }
}

/// Where a rank's variables are.
struct Variables {
    host: &'static Host,
    rank: u32,
}

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "variables of rank {}", self.rank)
    }
}

impl Displaced for Variables {
    fn find(&self, address: usize, len: usize) -> (usize, usize) {
        self.host.segments.borrow().find_of(self.rank, address, len)
    }
}
