//! A member: the interface of a host as its process sees it.

use super::{PIDS, QUEUES, VERSION, Welcome, question};
use crate::backend::{Backend, Waiting, Waits};
use crate::bridge::Request;
use crate::bridge::record::{
    Halves, MAX_PIECES, Pen, Piece, Record, Update, Words, Write, command, error_of,
};
use crate::error::Error;
use crate::handlers::Handlers;
use crate::host::Refusal;
use crate::library::{Library, Outgoing, Processes, memory_of};
use crate::network_interface::NetworkInterface;
use crate::types::{Event, Handle, Identity, Iovec, Limits, Md, ProcessId, Taken, Unlink};
use farpost_fabric::wait::{Pause, WaitPolicy};
use farpost_fabric::{Distance, Peer};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Longest time that a question is not answered for.
const LONG: Duration = Duration::from_millis(50);
/// Looks that found nothing before the next one waits, and how long.
const LOOKS: u32 = 64;
const SHORT: Duration = Duration::from_millis(1);

/// The way to the agent.
pub trait Link {
    /// Ask, and wait for the answer. `None`: the agent has ended.
    fn ask(&self, request: &[u64]) -> Option<Vec<u64>>;
}

/// A member of a host's interface.
pub struct Member {
    link: Box<dyn Link>,
    welcome: Welcome,
    processes: Rc<Processes>,
    handlers: Handlers,
    /// Queues with handlers.
    handled: RefCell<Vec<Handle>>,
    /// The agent has ended.
    alone: Cell<bool>,
    closed: Cell<bool>,
    empty: Cell<u32>,
    longest: Cell<Duration>,
    waits: Waits,
}

/// Words of a record.
fn words_of(kind: u64, told: impl Write) -> Vec<u64> {
    let mut pen = Pen::default();
    pen.begin((kind, told));
    pen.0
}

impl Member {
    /// `PtlNIInit`: join with this pid, or any (`PTL_PID_ANY`).
    ///
    /// # Errors
    /// The agent's refusal, or it does not answer as one.
    pub fn join(
        link: Box<dyn Link>,
        pid: u32,
        desired: Option<&Limits>,
        policy: WaitPolicy,
    ) -> Result<Self, Refusal> {
        let limits = *desired.unwrap_or(&Limits::LIBRARY);
        let failed = |why: &str| Refusal::new(Error::Fail, why);
        let answer = link.ask(&words_of(question::JOIN, (VERSION, pid, limits)));
        let answer = answer.ok_or_else(|| Refusal {
            ended: true,
            ..failed("this host's Portals agent ended the conversation")
        })?;
        let strange = |_| failed("this host's Portals agent answers what it was not asked");
        let mut words = Words(&answer);
        let code = words.next().map_err(strange)?;
        if code != 0 {
            let why = text(words).unwrap_or_else(|| "this host's Portals agent refused".into());
            return Err(Refusal::new(error_of(code as u16), why));
        }
        let told: (ProcessId, Halves<u32, u32>, Limits, Handle) = words.read().map_err(strange)?;
        let (id, Halves(uid, jid), limits, handle) = told;
        let identity = Identity { id, uid, jid };
        Ok(Self {
            link,
            welcome: Welcome {
                identity,
                limits,
                handle,
            },
            // Who has which number is the agent's knowledge; that there are such numbers is everybody's.
            processes: Rc::new(Processes::on_one_host(PIDS, uid, jid)),
            handlers: Handlers::default(),
            handled: RefCell::default(),
            alone: Cell::new(false),
            closed: Cell::new(false),
            empty: Cell::new(0),
            longest: Cell::new(LONG),
            waits: Waits::new(policy),
        })
    }

    /// Whether the agent has ended: nothing will come any more.
    pub fn has_ended(&self) -> bool {
        self.alone.get()
    }

    /// How long a wait may last without a look around.
    pub fn set_longest_sleep(&self, longest: Duration) {
        self.longest.set(longest);
    }

    /// Whether a queue has a handler.
    pub fn has_handlers(&self) -> bool {
        !self.handled.borrow().is_empty()
    }

    /// Ask the agent: a code and words.
    fn told(&self, kind: u64, what: impl Write) -> Result<(u16, Vec<u64>), Error> {
        if self.closed.get() {
            return Err(Error::NiInvalid);
        }
        if self.alone.get() {
            return Err(Error::Fail);
        }
        let answer = self.link.ask(&words_of(kind, what));
        let Some((code, words)) = answer.as_deref().and_then(<[u64]>::split_first) else {
            self.alone.set(true);
            return Err(Error::Fail);
        };
        Ok((*code as u16, words.to_vec()))
    }

    fn ask<T: Record>(&self, kind: u64, what: impl Write) -> Result<T, Error> {
        let (code, words) = self.told(kind, what)?;
        match code {
            0 => Words(&words).read().map_err(|_| Error::Fail),
            code => Err(error_of(code)),
        }
    }

    /// The oldest event of the first of these queues that holds one, and which that is.
    fn oldest(&self, eqs: &[Handle]) -> Result<(usize, Taken), Error> {
        let (which, dropped, event): (usize, bool, Event) = self.ask(question::TAKE, Handles(eqs))?;
        Ok((which, Taken { event, dropped }))
    }

    /// Let the agent say when something happens, within `time`.
    fn wait(&self, time: Duration) {
        let _ = self.told(question::WAIT, time.as_millis().max(1) as u64);
    }

    /// Handlers see what has happened. True: something has.
    fn show_handlers(&self) -> bool {
        let mut any = false;
        while self.has_handlers() {
            let Ok((0, words)) = self.told(question::HANDLED, ()) else {
                break;
            };
            let mut words = Words(&words);
            let count: usize = words.read().unwrap_or(0);
            let events: Vec<(Handle, Event)> = (0..count).map_while(|_| words.read().ok()).collect();
            if events.is_empty() {
                break;
            }
            any = true;
            let mut events = events.into_iter();
            self.handlers.run(|| events.next());
        }
        any
    }

    fn leave(&self) {
        if !self.closed.get() {
            // When it has answered it does not reach for this process's memory any more.
            let _ = self.told(question::LEAVE, ());
            self.closed.set(true);
            self.handlers.clear();
        }
    }
}

/// A sentence that follows.
fn text(mut words: Words) -> Option<String> {
    let len = words.at_most("the length of a sentence", 4096).ok()? as usize;
    let mut bytes = vec![0; len];
    words.bytes(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Their number, and each.
struct Handles<'a>(&'a [Handle]);

impl Write for Handles<'_> {
    fn write(&self, pen: &mut Pen) {
        self.0.len().write(pen);
        self.0.iter().for_each(|handle| handle.write(pen));
    }
}

/// The segments of a descriptor, for the agent.
fn pieces(md: &Md, iovec: &Iovec) -> Result<Vec<Piece>, Error> {
    let list = iovec.as_ref().filter(|list| list.len() <= MAX_PIECES);
    memory_of(md, list.cloned()).ok_or(Error::MdIllegal)?;
    let piece = |address: usize, len: usize| Piece {
        address: address as u64,
        len: len as u64,
        position: address as u64,
        key: 0,
    };
    let list = list.map(|list| list.iter().map(|segment| piece(segment.address, segment.len)));
    Ok(list.into_iter().flatten().collect())
}

impl Backend for Member {
    fn call<T: Record>(
        &self,
        _: impl FnOnce(&mut Library) -> Result<T, Error>,
        command: u8,
        told: impl Write,
    ) -> Result<T, Error> {
        self.ask(command.into(), told)
    }

    fn release(
        &self,
        object: Handle,
        _: impl Fn(&mut Library) -> Result<(), Error>,
        command: u8,
    ) -> Result<(), Error> {
        self.ask(command.into(), object)
    }

    fn new_md(&self, me: Option<Handle>, md: Md, iovec: Iovec, unlink: Unlink) -> Result<Handle, Error> {
        let pieces = pieces(&md, &iovec)?;
        let kind = match me {
            Some(_) => command::MD_ATTACH,
            None => command::MD_BIND,
        };
        let told = (me.unwrap_or(Handle::NONE), unlink, md, &pieces[..]);
        self.ask(kind.into(), told)
    }

    fn update(
        &self,
        (md, testq): (Handle, Handle),
        old: Option<&mut Md>,
        new: Option<(Md, Iovec)>,
        how: Update,
    ) -> Result<(), Error> {
        let (values, iovec) = new.unwrap_or((Md::BLANK, None));
        let shown = pieces(&values, &iovec);
        let (shown, illegal, how) = match shown {
            Ok(shown) => (shown, None, how),
            // What it has is told all the same.
            Err(error) => (Vec::new(), Some(error), Update::Read),
        };
        let told = (md, testq, 0u64, how, values, &shown[..]);
        let (code, words) = self.told(command::MD_UPDATE.into(), told)?;
        let known = code == 0 || error_of(code) == Error::MdNoUpdate;
        if let (Some(old), Ok(values), true) = (old, Words(&words).read(), known) {
            *old = values;
        }
        match (code, illegal) {
            (0, None) => Ok(()),
            (0, Some(error)) => Err(error),
            (code, _) => Err(error_of(code)),
        }
    }

    fn begin(
        &self,
        _: impl FnOnce(&mut Library) -> Result<Outgoing, Error>,
        request: Request,
    ) -> Result<(), Error> {
        let Request {
            kind,
            md,
            get_md,
            region,
            ack,
            target,
            hdr_data,
        } = request;
        let told = (
            Halves(md, get_md),
            Halves(ack, region.is_some()),
            region.unwrap_or((0, 0)),
            target,
            hdr_data,
        );
        self.ask(kind.into(), told)
    }

    fn handlers(&self) -> &Handlers {
        &self.handlers
    }

    fn queue_made(&self, eq: Handle, _: u32, handled: bool) {
        if handled {
            self.handled.borrow_mut().push(eq);
        }
    }

    fn queue_gone(&self, eq: Handle) {
        self.handled.borrow_mut().retain(|queue| *queue != eq);
    }

    fn take(&self, eq: Handle) -> Result<Taken, Error> {
        if self.closed.get() {
            return Err(Error::EqInvalid);
        }
        self.oldest(&[eq]).map(|(_, taken)| taken)
    }

    fn take_first(&self, eqs: &[Handle]) -> Option<Result<(usize, Taken), Error>> {
        for (part, eqs) in eqs.chunks(QUEUES).enumerate() {
            match self.oldest(eqs) {
                Err(Error::EqEmpty) => {}
                taken => return Some(taken.map(|(which, taken)| (part * QUEUES + which, taken))),
            }
        }
        None
    }

    fn distance(&self, peer: Peer) -> Distance {
        if peer.0 == self.welcome.identity.id.pid {
            Distance::Same
        } else {
            Distance::Host
        }
    }
}

impl Waiting for Member {
    fn waits(&self) -> &Waits {
        &self.waits
    }

    /// The agent moves everything; handlers are run here.
    fn advance(&self) -> bool {
        self.show_handlers()
    }

    /// The agent is asked in every look.
    fn ask_who_has_ended(&self) -> bool {
        false
    }

    fn rest(&self) {
        let empty = self.empty.get() + 1;
        self.empty.set(empty);
        if empty >= LOOKS && !self.passes(Pause::Sleep) {
            self.wait(SHORT);
        }
    }

    fn found(&self) {
        self.empty.set(0);
    }

    fn sleep(&self, left: Option<Duration>) {
        let longest = self.longest.get();
        self.wait(left.map_or(longest, |left| left.min(longest)));
    }

    fn is_over(&self) -> bool {
        self.alone.get()
    }
}

impl NetworkInterface for Member {
    fn handle(&self) -> Handle {
        self.welcome.handle
    }

    fn limits(&self) -> Limits {
        self.welcome.limits
    }

    fn identity(&self) -> Identity {
        self.welcome.identity
    }

    fn processes(&self) -> Rc<Processes> {
        Rc::clone(&self.processes)
    }

    /// Nothing is under way between two calls.
    fn is_idle(&self) -> bool {
        true
    }

    fn progress(&self) -> bool {
        self.advance()
    }

    fn is_clear(&self) -> bool {
        true
    }

    fn close(&self, _: Duration) -> bool {
        self.leave();
        true
    }

    fn eq_take<R>(&self, eq: Handle, read: impl FnOnce(&Event, bool) -> R) -> Option<R> {
        let taken = self.take(eq).ok()?;
        Some(read(&taken.event, taken.dropped))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
    }
}
