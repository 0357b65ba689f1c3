//! A network interface, *inline*: the library and the network layer in the application's own address space (paper,
//! section 3). Matching is done where a message is found, by whichever call finds it.

mod arriving;
mod calls;
mod moving;
mod progress;

use crate::backend::Waits;
use crate::bridge::Routes;
use crate::error::Error;
use crate::handlers::Handlers;
use crate::library::{Drops, Library, Outgoing, Processes};
use crate::net::{Net, NetTunables};
use crate::owner::Owner;
use crate::swap::Swap;
use crate::types::Limits;
use farpost_fabric::wait::{WaitPolicy, WaitTunables};
use farpost_fabric::{Fabric, Peer};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

pub use crate::library::BESIDE;

/// What calls and the network layer's news change.
struct InterfaceState {
    library: Library,
    /// False between closing and opening again: nothing is accepted (section 4.2, rule 1).
    open: bool,
    /// Messages for which there was no pending, by channel.
    outbox: [VecDeque<Outgoing>; 2],
    /// Memory of get-puts under way.
    swaps: Vec<Swap>,
    /// Those that are over, for their memory.
    spare: Vec<Swap>,
}

/// A network interface on a fabric. Its calls are [`NetworkInterface`](crate::NetworkInterface)'s.
pub struct Interface<F: Fabric> {
    net: Net<F>,
    state: RefCell<InterfaceState>,
    handlers: Handlers,
    /// The outbox holds something.
    waiting: Cell<bool>,
    waits: Waits,
    /// Where some processes are reached by way of agents.
    routes: Option<Rc<Routes>>,
    /// It is beside an agent's: its number is another than its process's, and all of its messages have envelopes.
    beside: bool,
    number: u32,
}

impl<F: Fabric> Interface<F> {
    /// `PtlNIInit`: the program's interface of this process on `fabric`, whose packets of the Portals port are its from now on: there
    /// can be one per process. `processes` says who everybody is; the fabric's numbers are its indexes. `opening` counts the times
    /// that the interface has been opened, so that handles of former times are stale.
    ///
    /// # Errors
    /// [`Error::PidInvalid`]: `processes` does not have this process.
    pub fn new(
        fabric: Rc<F>,
        config: &NetTunables,
        wait: &WaitTunables,
        processes: Rc<Processes>,
        desired: Option<&Limits>,
        opening: u32,
    ) -> Result<Self, Error> {
        Self::of(Owner::Program, fabric, config, wait, processes, desired, opening)
    }

    /// As [`new`](Self::new), of `owner`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of(
        owner: Owner,
        fabric: Rc<F>,
        config: &NetTunables,
        wait: &WaitTunables,
        processes: Rc<Processes>,
        desired: Option<&Limits>,
        opening: u32,
    ) -> Result<Self, Error> {
        let number = fabric.me().0;
        let library = Library::new(0, opening, number, processes, desired)?;
        Ok(Self {
            waits: Waits::new(WaitPolicy::of(wait, &*fabric)),
            net: Net::of(owner, fabric, config),
            state: RefCell::new(InterfaceState {
                library,
                open: true,
                outbox: Default::default(),
                swaps: Vec::new(),
                spare: Vec::new(),
            }),
            handlers: Handlers::default(),
            waiting: Cell::new(false),
            routes: None,
            beside: false,
            number,
        })
    }

    /// The inline interface of a process that has, or may have, another one by way of an agent: as `routes` number it. Handles tell
    /// [which](BESIDE).
    ///
    /// # Errors
    /// [`Error::PidInvalid`]: `routes` or `processes` do not have it.
    pub fn beside(
        fabric: Rc<F>,
        (config, wait): (&NetTunables, &WaitTunables),
        processes: Rc<Processes>,
        desired: Option<&Limits>,
        routes: Rc<Routes>,
    ) -> Result<Self, Error> {
        let number = routes.number_beside(fabric.me().0).ok_or(Error::PidInvalid)?;
        let library = Library::new(BESIDE, 0, number, Rc::clone(&processes), desired)?;
        let mut made = Self::new(fabric, config, wait, processes, None, 0)?.with_routes(routes);
        made.state.get_mut().library = library;
        (made.beside, made.number) = (true, number);
        Ok(made)
    }

    /// Whose interface a number is.
    fn process_of(&self, number: u32) -> Peer {
        (self.routes.as_ref()).map_or(Peer(number), |routes| routes.process_of(number))
    }

    /// In a job where some processes are reached by way of agents: they are told from whom and for whom messages are.
    pub fn with_routes(mut self, routes: Rc<Routes>) -> Self {
        self.routes = Some(routes);
        self
    }

    /// The network layer.
    pub fn net(&self) -> &Net<F> {
        &self.net
    }

    /// The fabric.
    pub fn fabric(&self) -> &Rc<F> {
        self.net.fabric()
    }

    /// `PtlNIInit` again, after [`close`](crate::NetworkInterface::close).
    pub fn reopen(&self, desired: Option<&Limits>, opening: u32) {
        let mut state = self.state.borrow_mut();
        state.library = state.library.anew(desired, opening);
        state.open = true;
    }

    /// What was dropped, by reason.
    pub fn drops(&self) -> Drops {
        self.state.borrow().library.drops().clone()
    }

    #[inline(always)]
    fn run_handlers(&self) {
        if self.state.borrow().library.has_handled() {
            self.show_handlers();
        }
    }

    #[inline(never)]
    fn show_handlers(&self) {
        self.handlers
            .run(|| self.state.borrow_mut().library.next_handled());
    }
}
