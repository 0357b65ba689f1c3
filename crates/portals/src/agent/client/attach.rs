//! Beginning and end of a client.

use super::post::Mailbox;
use super::{AcceleratedObjects, Client, GenericObjects, Inner, Side};
use crate::backend::{Waiting, Waits};
use crate::bridge::mailbox::{ClientState, Door};
use crate::bridge::record::{VERSION, command};
use crate::bridge::{Mode, Routes};
use crate::error::Error;
use crate::handlers::Handlers;
use crate::library::{Library, Processes};
use crate::network_interface::NetworkInterface;
use crate::types::Limits;
use farpost_fabric::wait::{Backoff, Pause, WaitPolicy, WaitTunables};
use farpost_fabric::{Fabric, FabricError, Moment, Peer, SegmentId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Why there is no interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The job has no agent for this process.
    #[error("{0} has no Portals agent: choose the inline interface, or start agents with the job")]
    NoAgent(Peer),
    /// The agent's process is gone.
    #[error("{0}, this host's Portals agent, has ended")]
    AgentEnded(Peer),
    /// The agent does not answer.
    #[error("{0}, this host's Portals agent, does not answer: is it running?")]
    Silent(Peer),
    /// This process has an interface by way of the agent already.
    #[error("{0}, this host's Portals agent, serves an interface of this process already: close that first")]
    InUse(Peer),
    /// The agent refused.
    #[error("{0}, this host's Portals agent, refused: is it of another version of Farpost?")]
    Refused(Peer),
    /// There is no interface at all.
    #[error(transparent)]
    Interface(#[from] Error),
    /// The fabric failed.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

/// Waits for an agent, within a time.
struct Patience<'a, F: Fabric> {
    fabric: &'a F,
    agent: Peer,
    deadline: Moment,
    policy: &'a WaitPolicy,
    turn: Option<&'a dyn Fn()>,
    backoff: Backoff,
}

impl<F: Fabric> Patience<'_, F> {
    /// Let time pass.
    fn pass(&mut self, late: AttachError) -> Result<(), AttachError> {
        if self.fabric.has_ended(self.agent) {
            return Err(AttachError::AgentEnded(self.agent));
        }
        if self.policy.now() > self.deadline {
            return Err(late);
        }
        self.fabric.progress();
        match (self.turn, self.backoff.pause(self.policy)) {
            (Some(turn), _) => turn(),
            (_, Pause::Sleep) => {
                self.fabric.sleep(Duration::from_millis(1), &mut || false);
            }
            _ => self.policy.give_way(),
        }
        Ok(())
    }

    /// A mailbox that the agent serves, and the limits as it was told of them.
    fn enter(
        &mut self,
        fabric: &Rc<F>,
        mode: Mode,
        limits: &Limits,
        routes: &Rc<Routes>,
        (inlet, own): (SegmentId, SegmentId),
    ) -> Result<Mailbox<F>, AttachError> {
        let agent = self.agent;
        let import = loop {
            match Mailbox::import(&**fabric, agent, inlet) {
                Ok(import) => break import,
                Err(FabricError::NotPublished { .. }) => self.pass(AttachError::Silent(agent))?,
                Err(FabricError::PeerDead { .. }) => return Err(AttachError::AgentEnded(agent)),
                Err(error) => return Err(error.into()),
            }
        };
        let door = loop {
            match Door::read(&import)? {
                Some(Door::Free(opening, taken)) => break (opening, taken),
                Some(Door::InUse) => self.pass(AttachError::InUse(agent))?,
                Some(Door::Shut) => return Err(AttachError::Refused(agent)),
                None => self.pass(AttachError::Silent(agent))?,
            }
        };
        // Both sides probe each other, so that neither finds out in the middle of something.
        let _ = fabric.can_transfer(agent);
        let mut mailbox = Mailbox::new(Rc::clone(fabric), Rc::clone(routes), (agent, own), import, door)?;
        mailbox.command(command::HELLO, mode as u16, (VERSION, limits, door.0));
        loop {
            mailbox.look();
            match mailbox.state() {
                ClientState::Open => break,
                ClientState::Carried => {
                    mailbox.carry();
                    break;
                }
                ClientState::Faulty | ClientState::Closed => return Err(AttachError::Refused(agent)),
                ClientState::Unknown => self.pass(AttachError::Silent(agent))?,
            }
        }
        Ok(mailbox)
    }
}

impl<F: Fabric> Client<F> {
    /// `PtlNIInit` by way of the agent that `routes` names. Waits for it, for `patience` at most. A process has one client at a
    /// time; when that is closed or gone it may attach again. `turn`, for tests and for processes that are agents themselves, is
    /// called instead of letting time pass.
    ///
    /// # Errors
    /// [`AttachError`].
    #[allow(clippy::too_many_arguments)]
    pub fn attach(
        fabric: Rc<F>,
        mode: Mode,
        routes: &Routes,
        wait: &WaitTunables,
        processes: Rc<Processes>,
        desired: Option<&Limits>,
        patience: Duration,
        turn: Option<Rc<dyn Fn()>>,
    ) -> Result<Self, AttachError> {
        let number = fabric.me().0;
        let nobody = AttachError::NoAgent(fabric.me());
        let agent = routes
            .via(number)
            .filter(|via| via.0 != number)
            .ok_or(nobody.clone())?;
        // The library decides about limits as the agent's will.
        let library = |opening| Library::new(0, opening, number, Rc::clone(&processes), desired);
        let limits = *library(0).map_err(|_| nobody.clone())?.limits();
        let policy = match mode {
            Mode::Accelerated => WaitPolicy::of(wait, &*fabric),
            // Interrupts tell it what arrives.
            Mode::Generic => {
                let wait = WaitTunables {
                    spin_us: 0,
                    yields: 0,
                };
                WaitPolicy::of(&wait, &*fabric)
            }
        };
        let mut entrance = Patience {
            fabric: &*fabric,
            agent,
            deadline: fabric.now() + patience,
            policy: &WaitPolicy::of(wait, &*fabric),
            turn: turn.as_deref(),
            backoff: Backoff::default(),
        };
        let segments = (routes.agent_segment(number), routes.client_segment());
        let routes = Rc::new(routes.clone());
        let mailbox = entrance.enter(&fabric, mode, &limits, &routes, segments)?;
        let library = library(mailbox.opening).map_err(|_| nobody)?;
        Ok(Self {
            mode,
            me: library.identity(),
            agent,
            segments,
            routes,
            inner: RefCell::new(Inner {
                limits,
                handle: library.handle(),
                mailbox,
                side: match mode {
                    Mode::Generic => Side::Generic(Box::new(GenericObjects::new(library))),
                    Mode::Accelerated => Side::Accelerated(AcceleratedObjects::default()),
                },
            }),
            processes,
            handlers: Handlers::default(),
            asking: Cell::new(false),
            waits: Waits::new(policy),
            turn,
        })
    }

    /// Let what is under way leave, for `patience` at most, then take leave of the agent. True: nothing was under way.
    pub(super) fn take_leave(&self, patience: Duration) -> bool {
        let deadline = Some(self.policy().now() + patience);
        let idle = self.wait_until(deadline, || self.is_idle().then_some(()));
        {
            let mailbox = &mut self.inner.borrow_mut().mailbox;
            if !mailbox.ended {
                mailbox.command(command::BYE, 0, ());
                mailbox.leaving = true;
            }
        }
        // When it says so it does not reach for this process's memory any more.
        let closed = || (self.inner.borrow().mailbox.state() == ClientState::Closed).then_some(());
        let gone = self.wait_until(deadline, closed);
        self.inner.borrow_mut().mailbox.ended = true;
        self.handlers.clear();
        idle.is_some() && gone.is_some()
    }

    /// `PtlNIInit` again, after [`close`](crate::NetworkInterface::close): within `patience`. Handles of before are stale.
    ///
    /// # Errors
    /// [`AttachError`]; the interface stays closed.
    pub fn reopen(&self, desired: Option<&Limits>, patience: Duration) -> Result<(), AttachError> {
        let fabric = Rc::clone(&self.inner.borrow().mailbox.fabric);
        let refused = AttachError::NoAgent(fabric.me());
        let asked = Library::new(0, 0, fabric.me().0, Rc::clone(&self.processes), desired);
        let limits = *asked.map_err(|_| refused.clone())?.limits();
        let mut entrance = Patience {
            fabric: &*fabric,
            agent: self.agent,
            deadline: fabric.now() + patience,
            policy: self.policy(),
            turn: self.turn.as_deref(),
            backoff: Backoff::default(),
        };
        let mailbox = entrance.enter(&fabric, self.mode, &limits, &self.routes, self.segments)?;
        let inner = &mut *self.inner.borrow_mut();
        let opening = mailbox.opening;
        let fresh = Library::new(0, opening, fabric.me().0, Rc::clone(&self.processes), desired);
        inner.handle = fresh.map_err(|_| refused)?.handle();
        inner.limits = limits;
        inner.side = match &inner.side {
            Side::Generic(generic) => Side::Generic(Box::new(GenericObjects::new(
                generic.library.anew(desired, opening),
            ))),
            Side::Accelerated(_) => Side::Accelerated(AcceleratedObjects::default()),
        };
        inner.mailbox = mailbox;
        Ok(())
    }
}

impl<F: Fabric> Drop for Client<F> {
    /// Who goes without closing takes leave all the same; nothing is waited for.
    fn drop(&mut self) {
        let mailbox = &mut self.inner.borrow_mut().mailbox;
        if !mailbox.ended {
            mailbox.command(command::BYE, 0, ());
            mailbox.ended = true;
        }
    }
}
