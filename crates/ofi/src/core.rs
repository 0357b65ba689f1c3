//! The endpoint's state; sending, and what happens with what arrives.
//!
//! Cost class: [`Inner::send`] of a small message and [`Inner::progress`] with nothing to do are *fast path*: one call
//! of libfabric each, no allocation.

use super::calls::{Attributes, Completions, Endpoint, FailedOperation, Offered};
use super::card::Card;
use super::held::{self, Held};
use super::library::{Library, OfiError};
use super::link::Link;
use super::operations::{Operation, OperationKind, Pool};
use super::packet_queues::Packets;
use super::poller::Poller;
use super::readers::Readers;
use super::segment_table::Segments;
use super::transfers::Bulk;
use super::under_way::StartedTransfers;
use super::wire::{self, Small, control};
use super::{OfiOptions, OfiTunables, ffi, survey};
use farpost_fabric::clock::Clock;
use farpost_fabric::{Counter, FabricError, Fault, FaultLog, Peer, Result};
use farpost_net::{AddressBook, NetConfig};
use std::cell::{Cell, OnceCell, RefCell};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::Instant;

/// How many completions are taken at once.
const BATCH: usize = 16;
/// Buffers of small messages: what a provider may not inject.
const SMALL: usize = 192;
/// No message limit may be less: a line with its header, a packet, and room for some bytes of a put.
const SMALLEST_MESSAGE: usize = 512;
/// After so many polls without anything the clock is looked at.
const IDLE_POLLS: u32 = 1024;
/// The same while something waits for room.
const BLOCKED_POLLS: u32 = 32;

/// The libfabric fabric of one process.
pub struct Ofi(pub(super) Rc<Inner>);

/// Which peers something waits for.
type Waiters = RefCell<Vec<Rc<Link>>>;

/// What imports share with the fabric.
pub struct Inner {
    pub me: Peer,
    pub size: u32,
    pub host_of: Rc<[u32]>,
    pub cores: u32,
    pub processes: u32,
    pub clock: Rc<Clock>,
    pub tunables: OfiTunables,
    pub endpoint: Rc<Endpoint>,
    pub card: Card,
    secret: [u8; farpost_net::SECRET_BYTES],
    book: Box<dyn AddressBook>,
    links: Vec<OnceCell<Rc<Link>>>,
    /// Links with a backlog.
    blocked: Waiters,
    /// Links that have ever been sent anything, for looking after them.
    pub met: Waiters,
    /// Puts not sent yet, of one peer at a time: they go out with a line, with the next other message, or with
    /// progress.
    pub gathering: RefCell<Option<(Rc<Link>, NonNull<Operation>)>>,
    pub gathers: Cell<bool>,
    inject_max: usize,
    /// Messages of a peer complete in the order in which it sent them: a gap is a loss.
    pub in_order: bool,
    /// Messages that have overtaken others.
    pub held: Held,
    small: Pool,
    large: Pool,
    receives: Pool,
    /// Buffers that the provider did not take back yet.
    unposted: RefCell<Vec<NonNull<Operation>>>,
    /// Buffers in all.
    receive_count: usize,
    pub segments: Segments,
    pub readers: Readers,
    pub packets: Packets,
    pub bulk: Bulk,
    pub poller: Poller,
    pub answers: Answers,
    pub started: StartedTransfers,
    faults: RefCell<FaultLog>,
    pub faulted: Cell<bool>,
    /// Messages that did not prove to come from the job.
    pub strangers: Cell<u64>,
    pub idle_polls: Cell<u32>,
    /// When silent peers were last looked at.
    pub looked: Cell<Option<Instant>>,
}

/// The one question that is open, and its answer.
#[derive(Default)]
pub struct Answers {
    pub next: Cell<u64>,
    pub awaited: Cell<u64>,
    pub words: RefCell<Option<Vec<u64>>>,
    pub bytes: RefCell<Vec<u8>>,
}

/// An endpoint that others can find, of a process that does not yet know who they are: first this, then its card is
/// published, then the job is joined.
pub struct Listening {
    endpoint: Rc<Endpoint>,
    card: Card,
    bytes: Vec<u8>,
    tunables: OfiTunables,
}

impl Listening {
    /// Load the library, choose a provider, open an endpoint.
    ///
    /// # Errors
    /// No library, too old a one, no provider that fits, or the provider refuses.
    pub fn open(options: &OfiOptions, tunables: OfiTunables) -> Result<Self, OfiError> {
        let library = Library::load(options.library.as_deref())?;
        let choice = survey::choose(library, options)?;
        let Some(info) = choice.info else {
            return Err(OfiError::NoProvider {
                why: survey::nothing(library, options, &choice.reports),
            });
        };
        let attr = Attributes::of(info.iter().next().expect("a description was chosen"));
        let (transmit, receive) = (attr.tx.size, attr.rx.size);
        // Some say the largest number where they have no limit.
        let completions = transmit.saturating_add(receive).clamp(256, 1 << 16);
        let endpoint = Rc::new(Endpoint::open(
            library,
            info,
            completions,
            tunables.register != 0,
        )?);
        let wanted = (tunables.message as usize + wire::GATHER_ROOM).next_multiple_of(64);
        let message = wanted.min(endpoint.attr.ep.max_msg_size & !63);
        if message < SMALLEST_MESSAGE {
            return Err(OfiError::Refused(format!(
                "libfabric provider {}: its messages have at most {} bytes, and Farpost needs {SMALLEST_MESSAGE}; name another one with \
                 FARPOST_OFI_PROVIDER",
                endpoint.provider(),
                endpoint.attr.ep.max_msg_size
            )));
        }
        let card = Card {
            provider: endpoint.provider(),
            format: endpoint.info().addr_format,
            message: message as u32,
            address: endpoint.address()?,
        };
        Ok(Self {
            bytes: card.encode(),
            endpoint,
            card,
            tunables,
        })
    }

    /// What to publish, so that others find this process.
    pub fn card(&self) -> &[u8] {
        &self.bytes
    }

    /// The provider in use.
    pub fn provider(&self) -> &str {
        &self.card.provider
    }

    /// Become an endpoint of the job. Others are looked up in the configuration's book when they are first
    /// needed.
    ///
    /// # Errors
    /// The job does not have this process, or the system refuses.
    pub fn start(self, config: NetConfig) -> Result<Ofi, OfiError> {
        let Self {
            endpoint,
            card,
            tunables,
            ..
        } = self;
        if config.me.0 >= config.size || config.host_of.len() != config.size as usize {
            return Err(OfiError::Refused(format!(
                "{} is not one of {} processes on {} known hosts",
                config.me,
                config.size,
                config.host_of.len()
            )));
        }
        let receives = (tunables.receives as usize).min(endpoint.attr.rx.size.max(4));
        let message = card.message as usize;
        // Without an order among messages the last one to be out says nothing of what was injected before it.
        let ordered = endpoint.attr.tx.msg_order & ffi::FI_ORDER_SAS != 0;
        let inject_max = if ordered { endpoint.attr.tx.inject_size } else { 0 };
        let in_order = ordered && held::completes_in_order(&card.provider, message);
        let inner = Inner {
            me: config.me,
            size: config.size,
            host_of: config.host_of,
            cores: config.cores,
            processes: config.processes,
            clock: Rc::default(),
            poller: Poller::new(&endpoint)?,
            card,
            secret: config.secret,
            book: config.book,
            links: (0..config.size).map(|_| OnceCell::new()).collect(),
            blocked: RefCell::default(),
            met: RefCell::default(),
            gathering: RefCell::new(None),
            gathers: Cell::new(false),
            inject_max,
            in_order,
            held: Held::default(),
            small: Pool::new(&endpoint, SMALL, 64),
            large: Pool::new(&endpoint, message, 16),
            receives: Pool::new(&endpoint, message, receives),
            unposted: RefCell::default(),
            receive_count: receives,
            segments: Segments::default(),
            readers: Readers::default(),
            packets: Packets::new(tunables.packets as u32),
            bulk: Bulk::new(&endpoint),
            answers: Answers::default(),
            started: StartedTransfers::default(),
            faults: RefCell::default(),
            faulted: Cell::new(false),
            strangers: Cell::new(0),
            idle_polls: Cell::new(0),
            looked: Cell::new(None),
            tunables,
            endpoint,
        };
        for _ in 0..receives {
            let operation = inner.receives.take(OperationKind::Receive, inner.me);
            inner.unposted.borrow_mut().push(operation);
        }
        inner.post_receives();
        Ok(Ofi(Rc::new(inner)))
    }
}

impl Ofi {
    /// The provider in use.
    pub fn provider(&self) -> &str {
        &self.0.card.provider
    }

    /// Messages that did not prove to come from this job, and were dropped.
    pub fn strangers(&self) -> u64 {
        self.0.strangers.get()
    }
}

impl Inner {
    /// What is kept about a peer.
    #[inline]
    pub fn link(&self, peer: Peer) -> &Rc<Link> {
        assert!(peer.0 < self.size, "{peer} does not exist");
        self.links[peer.index()].get_or_init(|| Rc::new(Link::new(self.me, peer, &self.secret)))
    }

    /// As [`link`](Self::link), if anything is kept.
    pub fn known(&self, peer: Peer) -> Option<&Rc<Link>> {
        self.links.get(peer.index())?.get()
    }

    pub fn check_peer(&self, peer: Peer) -> Result<()> {
        peer.check(self.size)
    }

    /// Why nothing can be sent to the peer, if so.
    #[inline]
    pub fn check_alive(&self, link: &Link) -> Result<()> {
        if link.direct.get() {
            return Ok(());
        }
        match &*link.dead.borrow() {
            Some(why) => Err(FabricError::dead(link.peer, why.clone())),
            None => Ok(()),
        }
    }

    // Sending.

    /// Send a small message, built for the token given. What the provider does not take now goes out later.
    #[inline]
    pub fn send(&self, link: &Rc<Link>, message: &Small) {
        let bytes = message.bytes();
        if link.direct.get() && bytes.len() <= self.inject_max && !self.gathers.get() {
            match self.endpoint.inject(bytes, link.fast_address.get()) {
                Offered::Taken => return,
                Offered::Again => {}
                Offered::Failed(code) => return self.refused(link, code),
            }
        }
        self.send_parts(link, &[bytes]);
    }

    /// Send a control message.
    pub fn control(&self, link: &Rc<Link>, what: u8, argument: u16, words: &[u64]) {
        self.send(
            link,
            &Small::control(link.token(), self.me.0, what, argument, words),
        );
    }

    /// Send a message given in parts.
    pub fn send_parts(&self, link: &Rc<Link>, parts: &[&[u8]]) {
        if self.gathers.get() {
            self.send_gathered();
        }
        if link.is_dead() {
            return;
        }
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let pool = if len <= SMALL { &self.small } else { &self.large };
        let operation = pool.take(OperationKind::Send, link.peer);
        // SAFETY: operations live as long as their pool; this one is ours.
        let it = unsafe { operation.as_ref() };
        it.fill(parts);
        self.hand_over(link, operation);
    }

    /// Give a filled operation to the provider, or keep it until it is taken.
    fn hand_over(&self, link: &Rc<Link>, operation: NonNull<Operation>) {
        if link.direct.get() {
            // SAFETY: operations live as long as their pool.
            match self.offer(link, unsafe { operation.as_ref() }, link.fast_address.get()) {
                Offered::Taken => return,
                Offered::Again => {}
                Offered::Failed(code) => {
                    self.give(operation);
                    return self.refused(link, code);
                }
            }
        }
        self.enqueue(link, operation);
    }

    /// Keep a put until more comes, after what is kept already. `record` is its header. The peer's address is known.
    pub fn gather(&self, link: &Rc<Link>, handle: u32, record: &[u8], bytes: &[u8]) {
        for _ in 0..2 {
            let kept = self.gathering.borrow();
            if let Some((to, operation)) = &*kept
                && Rc::ptr_eq(to, link)
            {
                // SAFETY: operations live as long as their pool.
                if unsafe { operation.as_ref() }.append([record, bytes], link.message.get()) {
                    return;
                }
            }
            drop(kept);
            self.send_gathered();
            let operation = self.large.take(OperationKind::Send, link.peer);
            // SAFETY: as above.
            let it = unsafe { operation.as_ref() };
            it.fill(&[Small::gather(link.token(), handle).bytes()]);
            *self.gathering.borrow_mut() = Some((Rc::clone(link), operation));
            self.gathers.set(true);
        }
        unreachable!("a put that fits no message");
    }

    /// A line behind the puts kept for `link`, and all of it on its way. False: nothing is kept for it, or it does not
    /// fit.
    #[inline]
    pub fn send_with_gathered(&self, link: &Rc<Link>, record: &[u8]) -> bool {
        let kept = self.gathering.borrow();
        let fits = matches!(&*kept, Some((to, operation)) if Rc::ptr_eq(to, link)
            // SAFETY: as in `gather`.
            && unsafe { operation.as_ref() }.append([record, &[]], link.message.get()));
        drop(kept);
        if fits {
            self.send_gathered();
        }
        fits
    }

    /// Send what is kept.
    pub fn send_gathered(&self) {
        self.gathers.set(false);
        let kept = self.gathering.borrow_mut().take();
        if let Some((link, operation)) = kept {
            if link.is_dead() {
                self.give(operation);
            } else {
                self.hand_over(&link, operation);
            }
        }
    }

    #[inline]
    fn offer(&self, link: &Link, it: &Operation, address: u64) -> Offered {
        // SAFETY: the operation's buffer and context stay as they are until its completion: it is neither in a pool
        // nor written to.
        let offered = unsafe { self.endpoint.send(it.filled(), it.desc(), address, it.context()) };
        if offered == Offered::Taken {
            link.under_way.set(link.under_way.get() + 1);
        }
        offered
    }

    fn give(&self, operation: NonNull<Operation>) {
        // SAFETY: as in `send_parts`.
        let (_, capacity) = unsafe { operation.as_ref() }.room();
        if capacity <= SMALL {
            &self.small
        } else {
            &self.large
        }
        .give(operation);
    }

    #[cold]
    fn enqueue(&self, link: &Rc<Link>, operation: NonNull<Operation>) {
        link.backlog.borrow_mut().push_back(operation);
        link.direct.set(false);
        let mut blocked = self.blocked.borrow_mut();
        if !blocked.iter().any(|l| Rc::ptr_eq(l, link)) {
            blocked.push(Rc::clone(link));
        }
        drop(blocked);
        self.flush(link);
    }

    /// libfabric's handle of the peer's address; looks it up. None: the peer is given up.
    pub fn resolve(&self, link: &Rc<Link>) -> Option<u64> {
        if let Some(address) = link.address.get() {
            return Some(address);
        }
        if link.is_dead() {
            return None;
        }
        let found = self.book.card(link.peer).and_then(|bytes| {
            let card = Card::decode(&bytes, link.peer, &self.card)?;
            let address = self.endpoint.insert(&card.address).map_err(|why| {
                format!(
                    "libfabric's provider {} refuses its address: {why}",
                    self.card.provider
                )
            })?;
            Ok((card, address))
        });
        match found {
            Ok((card, address)) => {
                link.message.set(card.message.min(self.card.message) as usize);
                link.address.set(Some(address));
                link.fast_address.set(address);
                self.met.borrow_mut().push(Rc::clone(link));
                *link.card_address.borrow_mut() = card.address;
                Some(address)
            }
            Err(why) => {
                self.give_up(link, &why);
                None
            }
        }
    }

    /// Offer what waits for `link`. True: nothing waits any more.
    pub fn flush(&self, link: &Rc<Link>) -> bool {
        let Some(address) = self.resolve(link) else {
            return true;
        };
        loop {
            let next = link.backlog.borrow().front().copied();
            let Some(operation) = next else {
                link.direct.set(!link.is_dead());
                return true;
            };
            // SAFETY: operations live as long as their pool; this one is in the backlog only.
            let it = unsafe { operation.as_ref() };
            match self.offer(link, it, address) {
                Offered::Taken => {
                    link.backlog.borrow_mut().pop_front();
                }
                Offered::Again => return false,
                Offered::Failed(code) => {
                    self.refused(link, code);
                    return true;
                }
            }
        }
    }

    /// Offer all that waits. True: something went out.
    #[cold]
    fn flush_all(&self) -> bool {
        let mut some = false;
        let blocked = std::mem::take(&mut *self.blocked.borrow_mut());
        for link in blocked {
            let before = link.backlog.borrow().len();
            if !self.flush(&link) {
                self.blocked.borrow_mut().push(Rc::clone(&link));
            }
            some |= link.backlog.borrow().len() != before;
        }
        some
    }

    /// Whether anything waits for room.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        !self.blocked.borrow().is_empty() || self.bulk.is_blocked() || self.is_starved()
    }

    /// Whether most buffers for messages wait to be offered again.
    #[inline]
    fn is_starved(&self) -> bool {
        self.unposted.borrow().len() * 2 > self.receive_count
    }

    #[cold]
    fn refused(&self, link: &Rc<Link>, code: i32) {
        let why = self.endpoint.library().explain(code);
        self.give_up(
            link,
            &format!("{} refuses to send to it: {why}", self.card.provider),
        );
    }

    /// The peer is gone, or its messages are lost, which comes to the same.
    #[cold]
    pub fn give_up(&self, link: &Rc<Link>, why: &str) {
        link.direct.set(false);
        if link.is_dead() {
            return;
        }
        *link.dead.borrow_mut() = Some(why.to_owned());
        for operation in link.backlog.borrow_mut().drain(..) {
            self.give(operation);
        }
        *link.probe.borrow_mut() = None;
        link.held.borrow_mut().clear();
        self.forget_reader(link);
        self.bulk.peer_died(link, why);
        let (peer, error) = (link.peer, FabricError::dead(link.peer, why));
        self.record_fault(Fault { peer, error });
        self.faulted.set(true);
    }

    pub fn record_fault(&self, fault: Fault) {
        if fault.peer.0 < self.size {
            self.link(fault.peer).count(Counter::Faults, 1);
        }
        self.faults.borrow_mut().record(fault);
    }

    pub fn take_faults(&self) -> (Vec<Fault>, u64) {
        self.faulted.set(false);
        self.faults.borrow_mut().take()
    }

    // Progress.

    /// Take completions, apply what arrived, send what waits. True: something happened.
    #[inline]
    pub fn progress(&self) -> bool {
        if self.gathers.get() {
            self.send_gathered();
        }
        let mut entries = [const { MaybeUninit::uninit() }; BATCH];
        match self.endpoint.completions(&mut entries) {
            Completions::Some(count) => {
                for entry in &entries[..count] {
                    // SAFETY: the provider has written the first `count`.
                    self.completed(unsafe { entry.assume_init_ref() });
                }
                self.idle_polls.set(1);
                if self.is_blocked() {
                    self.unblock();
                }
                true
            }
            Completions::None => {
                let idle = self.idle_polls.get() + 1;
                self.idle_polls.set(idle);
                if self.is_blocked() {
                    return self.unblock();
                }
                if idle >= IDLE_POLLS {
                    self.look_after();
                }
                false
            }
            Completions::Error => {
                self.failed();
                true
            }
            Completions::Broken(code) => {
                let why = self.endpoint.library().explain(code);
                self.all_lost(&format!(
                    "the completion queue of {} broke: {why}",
                    self.card.provider
                ));
                false
            }
        }
    }

    #[cold]
    fn unblock(&self) -> bool {
        // Who cannot send may be polling seldom: the clock is looked at more often.
        if self.idle_polls.get().is_multiple_of(BLOCKED_POLLS) {
            self.look_after();
        }
        let was_starved = self.is_starved();
        if was_starved {
            self.post_receives();
        }
        self.flush_all() | self.bulk.flush(&self.endpoint) | (was_starved && !self.is_starved())
    }

    /// Look after those who are silent, now and then.
    #[cold]
    fn look_after(&self) {
        self.idle_polls.set(1);
        self.post_receives();
        self.look_at_silent();
        self.look_at_held();
    }

    #[inline]
    fn completed(&self, entry: &ffi::CqMsgEntry) {
        let Some(operation) = NonNull::new(entry.op_context.cast::<Operation>()) else {
            return;
        };
        // SAFETY: contexts are addresses of operations in our pools, which live as long as the endpoint.
        let it = unsafe { operation.as_ref() };
        match it.kind.get() {
            OperationKind::Receive => {
                // SAFETY: received: the provider is done with it until it is posted again, below.
                let bytes = unsafe { it.received(entry.len) };
                self.endpoint.received.add(bytes.len());
                self.arrived(bytes);
                self.post(operation);
            }
            OperationKind::Send => {
                let link = self.link(it.peer.get());
                link.under_way.set(link.under_way.get().saturating_sub(1));
                self.give(operation);
            }
            OperationKind::Bulk => self.bulk.completed(&self.card.provider, operation, None),
        }
    }

    /// Offer a buffer to the provider.
    #[inline]
    fn post(&self, operation: NonNull<Operation>) {
        // SAFETY: as in `completed`.
        let it = unsafe { operation.as_ref() };
        // SAFETY: the buffer and the context are left alone until the completion.
        match unsafe { self.endpoint.receive(it.room(), it.desc(), it.context()) } {
            Offered::Taken => {}
            Offered::Again | Offered::Failed(_) => self.unposted.borrow_mut().push(operation),
        }
    }

    fn post_receives(&self) {
        // The borrow ends before the loop, which may put some back.
        let unposted = self.unposted.take();
        for operation in unposted {
            self.post(operation);
        }
    }

    /// An operation failed.
    #[cold]
    fn failed(&self) {
        let Some(FailedOperation { context, error, why }) = self.endpoint.take_error() else {
            return;
        };
        let Some(operation) = NonNull::new(context.cast::<Operation>()) else {
            // Something injected, and nobody says to whom: whoever is gone will fail with this.
            let met = self.met.borrow().clone();
            for link in met.iter().filter(|l| !l.is_dead() && !l.left.get()) {
                let nothing = Small::control(link.token(), self.me.0, control::NOTHING, 0, &[]);
                self.send_parts(link, &[nothing.bytes()]);
            }
            return;
        };
        // SAFETY: as in `completed`.
        let it = unsafe { operation.as_ref() };
        match it.kind.get() {
            OperationKind::Receive => {
                // Too long for the buffer, or the provider gave the buffer back: it does no harm.
                if error != libc::ECANCELED {
                    self.post(operation);
                }
            }
            OperationKind::Send => {
                let link = Rc::clone(self.link(it.peer.get()));
                link.under_way.set(link.under_way.get().saturating_sub(1));
                self.give(operation);
                if !link.left.get() {
                    self.give_up(
                        &link,
                        &format!("{} could not deliver to it: {why}", self.card.provider),
                    );
                }
            }
            OperationKind::Bulk => self
                .bulk
                .completed(&self.card.provider, operation, Some((error, why))),
        }
    }

    fn all_lost(&self, why: &str) {
        let met = self.met.borrow().clone();
        for link in &met {
            self.give_up(link, why);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Registrations may be bound to the endpoint.
        self.bulk.withdraw_all();
        // SAFETY: nobody else has this any more, and what follows only frees memory.
        unsafe { self.endpoint.close() };
    }
}
