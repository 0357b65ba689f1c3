//! What a client links: the operations of an interface, done by way of an agent.
//!
//! | File | What |
//! |---|---|
//! | `attach` | beginning and end |
//! | `calls`, `start` | the calls; how an operation begins |
//! | `post` | the client's end of its mailbox |
//! | `generic`, `accelerated` | objects that the client keeps ([`Mode::Generic`]), and those that the agent does |
//! | `wait` | asking the agent, progress, waiting |

mod accelerated;
mod attach;
mod calls;
mod generic;
mod post;
mod start;
mod wait;

pub use attach::AttachError;

use crate::backend::Waits;
use crate::bridge::{Mode, Routes, command};
use crate::handlers::Handlers;
use crate::library::Processes;
use crate::types::{Handle, Identity, Limits};
use accelerated::AcceleratedObjects;
use farpost_fabric::{Fabric, Peer, SegmentId};
use generic::GenericObjects;
use post::Mailbox;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

enum Side {
    Generic(Box<GenericObjects>),
    Accelerated(AcceleratedObjects),
}

struct Inner<F: Fabric> {
    mailbox: Mailbox<F>,
    side: Side,
    limits: Limits,
    handle: Handle,
}

/// A network interface by way of an agent. Its calls are [`NetworkInterface`](crate::NetworkInterface)'s. When the agent has ended,
/// what was under way ends with events where the objects are here ([`Mode::Generic`]), events that have come can be taken, and all
/// else answers [`Error::Fail`](crate::Error::Fail).
pub struct Client<F: Fabric> {
    mode: Mode,
    me: Identity,
    processes: Rc<Processes>,
    agent: Peer,
    /// The agent's for this client, and its own.
    segments: (SegmentId, SegmentId),
    routes: Rc<Routes>,
    inner: RefCell<Inner<F>>,
    handlers: Handlers,
    /// Somebody waits for an answer of the agent's.
    asking: Cell<bool>,
    waits: Waits,
    turn: Option<Rc<dyn Fn()>>,
}

impl<F: Fabric> Client<F> {
    /// Where matching is done.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether the interface is closed, the agent has ended, or it has refused to serve this process any longer.
    pub fn has_ended(&self) -> bool {
        self.inner.borrow().mailbox.ended
    }

    /// Let the agent look at messages for this process: the entries are there. The program's interface does so from the beginning.
    pub fn accept(&self) {
        let mailbox = &mut self.inner.borrow_mut().mailbox;
        if !mailbox.ended {
            mailbox.command(command::ACCEPT, 0, ());
        }
    }

    /// Whether bodies go through memory of the agent's because it cannot reach this process's.
    pub fn is_carried(&self) -> bool {
        self.inner.borrow().mailbox.is_carried()
    }

    /// Show handlers the events that have been logged since they were shown any. They may call anything.
    #[inline]
    fn run_handlers(&self) {
        let handled = match &self.inner.borrow().side {
            Side::Generic(generic) => generic.library.has_handled(),
            Side::Accelerated(accelerated) => !accelerated.handled.is_empty(),
        };
        // A handler may ask the agent, which has to wait for the answer that is waited for.
        if handled && !self.asking.get() {
            self.handlers.run(|| match &mut self.inner.borrow_mut().side {
                Side::Generic(generic) => generic.library.next_handled(),
                Side::Accelerated(accelerated) => accelerated.handled.pop_front(),
            });
        }
    }
}
