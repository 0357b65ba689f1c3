//! Handlers of event queues (section 3.11.6): a thread that runs them, one at a time, in the order of the events, with
//! nothing of the library held. What logs events hands them over and goes on.
//!
//! Cost class: *queued path*.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use farpost_fabric::wait::Pause;
use farpost_portals::{Event, Handler};

use crate::interfaces::portals3::{ptl_eq_handler_t, ptl_event_t};
use crate::lock;

use super::convert::c_event;

/// An event on its way to its handler.
struct Call {
    handler: ptl_eq_handler_t,
    event: ptl_event_t,
}

// SAFETY: the addresses in an event are the program's, which its threads share.
unsafe impl Send for Call {}

#[derive(Default)]
struct Waiting {
    calls: VecDeque<Call>,
    running: bool,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    bell: Condvar,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut waiting = self.waiting();
        loop {
            if waiting.stop {
                return;
            }
            let Some(mut call) = waiting.calls.pop_front() else {
                waiting = self.bell.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            waiting.running = true;
            drop(waiting);
            // SAFETY: the program's function, called as its type says; the event is this frame's alone.
            unsafe { (call.handler)(&raw mut call.event) };
            waiting = self.waiting();
            waiting.running = false;
        }
    }
}

/// The handlers of one interface. Dropping it waits for the one that runs, unless that is who drops it.
#[derive(Default)]
pub(super) struct Handlers {
    thread: RefCell<Option<(Arc<Shared>, ThreadId)>>,
}

impl Handlers {
    /// What gives the events of a queue to `handler`, in the thread that runs handlers.
    ///
    /// # Errors
    /// A sentence: there can be no such thread.
    pub fn of(&self, handler: ptl_eq_handler_t) -> Result<Handler, String> {
        let shared = self.ready()?;
        Ok(Rc::new(move |event: &Event| {
            let event = c_event(event);
            shared.waiting().calls.push_back(Call { handler, event });
            shared.bell.notify_one();
        }))
    }

    fn ready(&self) -> Result<Arc<Shared>, String> {
        if let Some((shared, _)) = &*self.thread.borrow() {
            return Ok(Arc::clone(shared));
        }
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let made = crate::progress::unsignalled(|| {
            let named = std::thread::Builder::new().name("farpost-handler".into());
            named.spawn(move || of_thread.run())
        });
        let handle = made.map_err(|why| format!("making the thread that runs handlers: {why}"))?;
        self.thread
            .replace(Some((Arc::clone(&shared), handle.thread().id())));
        Ok(shared)
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        let Some((shared, thread)) = self.thread.take() else {
            return;
        };
        {
            let mut waiting = shared.waiting();
            waiting.calls.clear();
            waiting.stop = true;
        }
        shared.bell.notify_one();
        if thread == std::thread::current().id() {
            return;
        }
        while shared.waiting().running {
            // It may want in.
            if !lock::relax(Pause::Sleep) {
                crate::real_time::sleep(Duration::from_micros(50));
            }
        }
    }
}
