//! An interface, wherever its library runs: chosen once, when it is opened (paper, section 3.2).

use crate::agent::{Access, AttachError, Client};
use crate::backend::{Backend, Waiting, Waits};
use crate::bridge::{Mode, Record, Request, Update, Write};
use crate::error::Error;
use crate::handlers::Handlers;
use crate::host::Member;
use crate::interface::Interface;
use crate::library::{Library, Outgoing, Processes, Target};
use crate::net::NetTunables;
use crate::network_interface::NetworkInterface;
use crate::owner::Owner;
use crate::types::{AckReq, Event, Handle, Identity, Iovec, Limits, Md, Taken, Unlink};
use farpost_fabric::wait::{Pause, WaitTunables};
use farpost_fabric::{Distance, Fabric, Peer};
use std::rc::Rc;
use std::time::Duration;

/// A network interface, of any kind.
pub enum AnyInterface<F: Fabric> {
    /// Library and network layer in this process.
    Inline(Box<Interface<F>>),
    /// The network layer in an agent, and the library there or here.
    Agent(Box<Client<F>>),
    /// The host's, whose agent has both.
    Host(Box<Member>),
}

macro_rules! both {
    ($self:ident, $it:ident => $call:expr) => {
        match $self {
            AnyInterface::Inline($it) => $call,
            AnyInterface::Agent($it) => $call,
            AnyInterface::Host($it) => $call,
        }
    };
}

/// Methods that are whichever's it is.
macro_rules! forward {
    ($(fn $name:ident $(<$given:ident $(: $bound:ident)?>)? (&self $(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {$(
        #[inline(always)]
        fn $name $(<$given $(: $bound)?>)? (&self $(, $argument: $type)*) -> $result {
            both!(self, it => it.$name($($argument),*))
        }
    )*};
}

impl<F: Fabric> AnyInterface<F> {
    /// `PtlNIInit`: the interface of `owner`, where `access` says; inline if the job has no agents.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn open(
        owner: Owner,
        fabric: Rc<F>,
        access: Option<&Access>,
        (net, wait): (&NetTunables, &WaitTunables),
        processes: Rc<Processes>,
        desired: Option<&Limits>,
    ) -> Result<Self, AttachError> {
        let inline = |fabric, processes| Interface::of(owner, fabric, net, wait, processes, desired, 0);
        let Some(access) = access else {
            return Ok(Self::Inline(Box::new(inline(fabric, processes)?)));
        };
        let routes = access.routes.clone().of(owner);
        let Some(mode) = access.mode else {
            if routes.number_beside(fabric.me().0).is_some() {
                let settings = (net, wait);
                let made = Interface::beside(fabric, settings, processes, desired, Rc::new(routes))?;
                return Ok(Self::Inline(Box::new(made)));
            }
            let made = inline(fabric, processes)?.with_routes(Rc::new(routes));
            return Ok(Self::Inline(Box::new(made)));
        };
        let turn = access.turn.map(|turn| Rc::new(turn) as Rc<dyn Fn()>);
        let patience = access.patience;
        let client = Client::attach(fabric, mode, &routes, wait, processes, desired, patience, turn)?;
        Ok(Self::Agent(Box::new(client)))
    }

    fn agent(&self) -> Option<&Client<F>> {
        match self {
            Self::Agent(it) => Some(it),
            _ => None,
        }
    }

    /// Let messages come, for MPI's interface, whose entries must be there first. Where there is no agent they come when they are looked for.
    pub fn accept(&self) {
        if let Some(it) = self.agent() {
            it.accept();
        }
    }

    /// Whether whoever moves what this process has under way rings it.
    pub fn rings(&self) -> bool {
        self.agent().is_some()
    }

    /// `PtlNIInit` again, after [`close`](NetworkInterface::close): the `opening`th time. With an agent that takes `patience` at most.
    ///
    /// # Errors
    /// [`AttachError`]: of the agent.
    pub fn reopen(
        &self,
        desired: Option<&Limits>,
        opening: u32,
        patience: Duration,
    ) -> Result<(), AttachError> {
        match self {
            AnyInterface::Inline(it) => {
                it.reopen(desired, opening);
                Ok(())
            }
            AnyInterface::Agent(it) => it.reopen(desired, patience),
            // Who has left joins again, as another member.
            AnyInterface::Host(_) => Err(Error::NiInvalid.into()),
        }
    }

    /// Of the host's interface: how long a wait may last without a look around. Others sleep as their fabric does.
    pub fn set_longest_sleep(&self, longest: Duration) {
        if let Self::Host(it) = self {
            it.set_longest_sleep(longest);
        }
    }

    /// Whether events of the host's interface are to be shown to handlers, for which somebody has to ask.
    pub fn has_handlers(&self) -> bool {
        matches!(self, Self::Host(it) if it.has_handlers())
    }

    /// Let the agent have the core, in a call that asks again at once.
    pub fn give_way(&self) {
        if !self.passes(Pause::Yield) {
            self.policy().give_way();
        }
    }

    /// Where matching is done by way of an agent; `None`: there is none, and it is done here.
    pub fn mode(&self) -> Option<Mode> {
        self.agent().map(Client::mode)
    }

    /// Whether an agent does all that is to be done while the process computes: it matches, and reaches the process's memory.
    pub fn is_served(&self) -> bool {
        self.agent()
            .is_some_and(|it| it.mode() == Mode::Accelerated && !it.is_carried())
    }

    /// Whether there was an agent and it has ended, or does not serve this process any longer: nothing will come any more.
    pub fn agent_has_ended(&self) -> bool {
        match self {
            Self::Inline(_) => false,
            Self::Agent(it) => it.has_ended(),
            Self::Host(it) => it.has_ended(),
        }
    }

    /// Before a sleep: tell others what they wait for. An agent does that by itself.
    pub fn flush(&self) {
        if let AnyInterface::Inline(it) = self {
            it.net().flush();
        }
    }
}

impl<F: Fabric> Backend for AnyInterface<F> {
    forward! {
        fn call<T: Record>(&self, here: impl FnOnce(&mut Library) -> Result<T, Error>, command: u8, told: impl Write) -> Result<T, Error>;
        fn release(&self, object: Handle, here: impl Fn(&mut Library) -> Result<(), Error>, command: u8) -> Result<(), Error>;
        fn new_md(&self, me: Option<Handle>, md: Md, iovec: Iovec, unlink: Unlink) -> Result<Handle, Error>;
        fn update(&self, of: (Handle, Handle), old: Option<&mut Md>, new: Option<(Md, Iovec)>, how: Update) -> Result<(), Error>;
        fn begin(&self, prepare: impl FnOnce(&mut Library) -> Result<Outgoing, Error>, request: Request) -> Result<(), Error>;
        fn begin_put(&self, md: Handle, region: Option<(u64, u64)>, ack: AckReq, target: &Target, hdr_data: u64) -> Result<(), Error>;
        fn handlers(&self) -> &Handlers;
        fn queue_made(&self, eq: Handle, count: u32, handled: bool) -> ();
        fn queue_gone(&self, eq: Handle) -> ();
        fn take(&self, eq: Handle) -> Result<Taken, Error>;
        fn take_first(&self, eqs: &[Handle]) -> Option<Result<(usize, Taken), Error>>;
        fn distance(&self, peer: Peer) -> Distance;
    }
}

impl<F: Fabric> Waiting for AnyInterface<F> {
    forward! {
        fn waits(&self) -> &Waits;
        fn advance(&self) -> bool;
        fn ask_who_has_ended(&self) -> bool;
        fn poll(&self) -> bool;
        fn rest(&self) -> ();
        fn glance(&self) -> bool;
        fn passes(&self, pause: Pause) -> bool;
        fn sleep(&self, left: Option<Duration>) -> ();
        fn is_over(&self) -> bool;
    }
}

impl<F: Fabric> NetworkInterface for AnyInterface<F> {
    forward! {
        fn eq_take<R>(&self, eq: Handle, read: impl FnOnce(&Event, bool) -> R) -> Option<R>;
        fn eq_wait_with<R>(&self, eq: Handle, read: impl FnOnce(&Event, bool) -> R) -> Result<R, Error>;
        fn handle(&self) -> Handle;
        fn limits(&self) -> Limits;
        fn identity(&self) -> Identity;
        fn processes(&self) -> Rc<Processes>;
        fn is_idle(&self) -> bool;
        fn progress(&self) -> bool;
        fn look(&self) -> bool;
        fn close(&self, patience: Duration) -> bool;
        fn attend(&self) -> bool;
        fn is_ready(&self) -> bool;
        fn is_clear(&self) -> bool;
        fn eq_get(&self, eq: Handle) -> Result<Taken, Error>;
        fn eq_wait(&self, eq: Handle) -> Result<Taken, Error>;
        fn eq_poll(&self, eqs: &[Handle], timeout: Option<Duration>) -> Result<(usize, Taken), Error>;
    }
}
