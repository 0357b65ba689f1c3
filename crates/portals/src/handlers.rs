//! Handlers of event queues (section 3.11.2).

use crate::types::{Event, Handle};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Runs for every event of a queue, after it was logged. It may call anything.
pub type Handler = Rc<dyn Fn(&Event)>;

/// Those of an interface.
#[derive(Default)]
pub struct Handlers {
    of: RefCell<Vec<(Handle, Handler)>>,
    /// They run: those of events that come meanwhile have their turn afterwards.
    run: Cell<bool>,
}

impl Handlers {
    pub fn add(&self, eq: Handle, handler: Handler) {
        self.of.borrow_mut().push((eq, handler));
    }

    pub fn remove(&self, eq: Handle) {
        self.of.borrow_mut().retain(|(of, _)| *of != eq);
    }

    pub fn clear(&self) {
        self.of.borrow_mut().clear();
    }

    /// Show them the events that `next` gives. They may call anything.
    pub fn run(&self, mut next: impl FnMut() -> Option<(Handle, Event)>) {
        if self.run.replace(true) {
            return;
        }
        while let Some((eq, event)) = next() {
            let handlers = self.of.borrow();
            let handler = handlers.iter().find(|(of, _)| *of == eq);
            let handler = handler.map(|(_, handler)| Rc::clone(handler));
            drop(handlers);
            if let Some(handler) = handler {
                handler(&event);
            }
        }
        self.run.set(false);
    }
}
