//! The library of a process, and its segments and connections, which refer to each other. What can be done with them is
//! in the modules above: `export`, `import`, `access`, `barrier`, `signal`.

use crate::RsmTunables;
use crate::cesr::{Cause, Cesr, ErrorReport};
use crate::directory::{self, DIRECTORY, Directory, Shape};
use crate::error::{Code, Result, RsmError};
use crate::faults::{Faults, Refused};
use crate::names::{Controller, FIRST_ASSIGNED, Identity, NodeId, Perm, SegId};
use crate::wire::Packet;
use farpost_fabric::wait::{Relax, WaitPolicy, WaitTunables};
use farpost_fabric::{Access, Fabric, Peer, Permission, Register, RemoteMemory, Ticket, TransferMemory};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};

/// Most connections to one segment from one node, and of one process in all (Solaris: `max-segments`).
pub(crate) const CONNECTIONS_MAX: usize = 65535;

/// Says who the user of a process is.
pub(crate) type Vouches = Rc<dyn Fn(Peer) -> Option<Identity>>;

/// What is known of the user of a process.
pub(crate) enum User {
    /// Nobody here says who it is.
    OwnWord,
    /// This one.
    Vouched(Rc<Identity>),
    /// Who should say so does not know.
    Unknown,
}

/// The library in a process. Clones are the same.
pub struct Rsm<F: Fabric> {
    pub(crate) inner: Rc<Inner<F>>,
}

impl<F: Fabric> Clone for Rsm<F> {
    fn clone(&self) -> Self {
        Self {
            inner: Rc::clone(&self.inner),
        }
    }
}

/// What all handles of a process share.
pub(crate) struct Inner<F: Fabric> {
    pub(crate) fabric: Rc<F>,
    pub(crate) identity: Identity,
    /// Who vouches for the users of peers, and those that are known.
    pub(crate) vouches: RefCell<Option<Vouches>>,
    pub(crate) users: RefCell<BTreeMap<Peer, Rc<Identity>>>,
    pub(crate) shape: Shape,
    /// My directory, exported when the first segment is published.
    pub(crate) directory: RefCell<Option<F::Export>>,
    /// Others' directories.
    pub(crate) directories: RefCell<BTreeMap<Peer, Rc<Directory<F>>>>,
    /// What I have published, by slot.
    pub(crate) published: RefCell<Vec<Option<Weak<ExportState<F>>>>>,
    /// What I am connected to, by connection number.
    pub(crate) connections: RefCell<BTreeMap<u32, Weak<ImportState<F>>>>,
    pub(crate) next_connection: Cell<u32>,
    /// Puts and gets under way.
    pub(crate) requests: Cell<usize>,
    pub(crate) last_generation: Cell<u64>,
    pub(crate) next_id: Cell<SegId>,
    pub(crate) cesr: RefCell<Cesr>,
    /// Packets that found the queue full, by peer in order; none without any.
    pub(crate) outbox: RefCell<BTreeMap<Peer, VecDeque<Packet>>>,
    pub(crate) faults: Faults,
    pub(crate) policy: WaitPolicy,
    pub(crate) relax: Cell<Option<Relax>>,
}

impl<F: Fabric> Rsm<F> {
    /// RSMAPI on `fabric`, for a process of that `identity`, which waits as `wait` says.
    pub fn new(fabric: Rc<F>, identity: Identity, tunables: &RsmTunables, wait: &WaitTunables) -> Self {
        let shape = Shape {
            slots: (tunables.segments as usize).min(directory::SLOTS_MAX),
            nodes: fabric.size() as usize,
        };
        let published = (0..shape.slots).map(|_| None).collect();
        Self {
            inner: Rc::new(Inner {
                policy: WaitPolicy::of(wait, &*fabric),
                fabric,
                identity,
                vouches: RefCell::default(),
                users: RefCell::default(),
                shape,
                directory: RefCell::default(),
                directories: RefCell::default(),
                published: RefCell::new(published),
                connections: RefCell::default(),
                next_connection: Cell::new(1),
                requests: Cell::new(0),
                last_generation: Cell::new(0),
                next_id: Cell::new(FIRST_ASSIGNED),
                cesr: RefCell::default(),
                outbox: RefCell::default(),
                faults: Faults::default(),
                relax: Cell::new(None),
            }),
        }
    }

    /// Who the users of other processes are, by the word of somebody whom they cannot make say something else: the access of each to what
    /// is published from now on is decided here, and not by what its library takes it for. Of a process for whom there is no such word
    /// (`None`) nothing is granted that not all users have.
    pub fn set_vouched(&self, vouches: impl Fn(Peer) -> Option<Identity> + 'static) {
        *self.inner.vouches.borrow_mut() = Some(Rc::new(vouches));
        self.inner.users.borrow_mut().clear();
    }

    /// The fabric.
    pub fn fabric(&self) -> &Rc<F> {
        &self.inner.fabric
    }

    /// Called between the polls of whatever waits: where several threads take turns, to let another one in.
    pub fn set_relax(&self, relax: Option<Relax>) {
        self.inner.relax.set(relax);
    }

    /// Move along what only calls move: take in connections and signals, send what found no room. True: something
    /// happened.
    pub fn progress(&self) -> bool {
        self.inner.progress()
    }

    /// Wait until `ready` answers, with progress between; without `timeout`, for ever. For those
    /// who wait for several segments; `ready` is asked often, and a while after nothing has moved.
    ///
    /// # Errors
    /// `TIMEOUT`; `INTERRUPTED`: a handler of the program's has run while this process slept.
    pub fn wait_until<T>(
        &self,
        timeout: Option<std::time::Duration>,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        self.inner.wait(timeout, ready)
    }

    /// Puts and gets of this process that are under way, as far as anybody has looked.
    pub fn under_way(&self) -> usize {
        self.inner.requests.get()
    }

    /// Whether signals and words about connections wait for room at their receivers; progress sends them.
    pub fn owes(&self) -> bool {
        !self.inner.outbox.borrow().is_empty()
    }

    /// The oldest error that accesses of this process met and nobody waited for, and how many there were since the last
    /// call. Errors of other processes are never here.
    pub fn take_error_status(&self) -> Option<ErrorReport> {
        let report = self.inner.cesr.borrow_mut().take();
        self.inner
            .fabric
            .set_register(self.inner.fabric.me(), Register::RsmCesr, 0);
        report
    }

    /// The oldest fault of a peer not told yet: a signal or a connection of one that this process's tables do not have, a
    /// packet or a directory that cannot be. It names the peer and the value. What is refused is dropped, and what comes
    /// after it arrives. What has arrived is taken in by [`progress`](Self::progress).
    pub fn next_fault(&self) -> Option<farpost_fabric::Fault> {
        self.inner.faults.next()
    }

    /// What was refused so far.
    pub fn refused(&self) -> Refused {
        self.inner.faults.refused()
    }
}

impl<F: Fabric> Inner<F> {
    /// My directory, from the first use on for everybody to read.
    pub(crate) fn directory(&self) -> Result<F::Export> {
        if let Some(memory) = &*self.directory.borrow() {
            return Ok(memory.clone());
        }
        let readers = Access::Everyone(Permission::Read);
        let memory = self
            .fabric
            .export_with(DIRECTORY, self.shape.bytes(), readers, |memory| {
                directory::begin(memory, self.shape);
            })
            .map_err(|e| RsmError::fabric("making the directory of segments", &e))?;
        *self.directory.borrow_mut() = Some(memory.clone());
        Ok(memory)
    }

    /// The directory of `peer`; none: it has never published anything.
    pub(crate) fn directory_of(&self, peer: Peer) -> Result<Option<Rc<Directory<F>>>> {
        if let Some(known) = self.directories.borrow().get(&peer) {
            return Ok(Some(Rc::clone(known)));
        }
        match Directory::open(&*self.fabric, peer, self.shape.nodes) {
            Ok(directory) => {
                let directory = Rc::new(directory);
                self.directories.borrow_mut().insert(peer, Rc::clone(&directory));
                Ok(Some(directory))
            }
            Err(farpost_fabric::FabricError::NotPublished { .. }) => Ok(None),
            Err(error) => {
                self.suspect(peer, &error);
                Err(RsmError::fabric("looking for the segments of a node", &error))
            }
        }
    }

    /// What was read from `peer`'s memory may be its fault.
    #[cold]
    pub(crate) fn suspect(&self, peer: Peer, error: &farpost_fabric::FabricError) {
        if matches!(error, farpost_fabric::FabricError::Corrupt { .. }) {
            self.refuse(|refused| &mut refused.malformed);
            self.fault(peer, error.clone());
        }
    }

    /// Count a refusal, for who asks and for who watches.
    #[cold]
    pub(crate) fn refuse(&self, one: impl FnOnce(&mut Refused) -> &mut u64) {
        self.faults.count(one);
        let refused = self.faults.refused();
        let me = self.fabric.me();
        for (register, value) in [
            (Register::RsmControllers, refused.controllers),
            (Register::RsmSegments, refused.segments),
            (Register::RsmDenied, refused.denied),
            (Register::RsmRanges, refused.ranges),
            (Register::RsmStrangers, refused.strangers),
            (Register::RsmMalformed, refused.malformed),
            (Register::RsmLate, refused.late),
        ] {
            self.fabric.set_register(me, register, value);
        }
    }

    /// Keep an error in the status of this process.
    #[cold]
    pub(crate) fn record_error(&self, cause: Cause, about: (NodeId, SegId), message: String) {
        let mut cesr = self.cesr.borrow_mut();
        cesr.record(cause, about, message);
        let me = self.fabric.me();
        self.fabric.add_register(me, Register::RsmErrors, 1);
        self.fabric.set_register(me, Register::RsmCesr, cesr.code());
    }

    /// A value of `peer`'s cannot be right.
    #[cold]
    pub(crate) fn fault(&self, peer: Peer, error: farpost_fabric::FabricError) {
        self.faults
            .record(&*self.fabric, farpost_fabric::Fault { peer, error });
    }
}

impl<F: Fabric> Drop for Inner<F> {
    fn drop(&mut self) {
        if self.directory.borrow().is_some() {
            // It was published here and by nobody else withdrawn.
            let _ = self.fabric.unpublish(DIRECTORY);
        }
    }
}

/// Who opens and closes barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// The program; puts and gets report errors of their arguments only.
    Explicit = 0,
    /// Every put and get is in a barrier of its own, and reports what became of it.
    #[default]
    Implicit = 1,
}

/// Events of one segment, and who polls for them.
#[derive(Default)]
pub(crate) struct Signals {
    pending: Cell<u32>,
    pollers: Cell<u32>,
    /// No more can come: whoever waits is to look.
    over: Cell<bool>,
    /// Told whether there is something to look at, each time that changes.
    watcher: RefCell<Option<Watcher>>,
}

/// Is told whether a wait for a segment's signals would end at once.
pub type Watcher = Box<dyn Fn(bool)>;

impl Signals {
    /// From now on `watcher` is told, beginning with how it is now.
    pub(crate) fn watch(&self, watcher: Option<Watcher>) {
        *self.watcher.borrow_mut() = watcher;
        self.tell();
    }

    fn tell(&self) {
        if let Some(watcher) = &*self.watcher.borrow() {
            watcher(self.pending.get() > 0 || self.over.get());
        }
    }

    pub(crate) fn end(&self) {
        self.over.set(true);
        self.tell();
    }

    pub(crate) fn add(&self, packet: &Packet) {
        if packet.single && self.pending.get() > 0 {
            return;
        }
        let count = if packet.single { 1 } else { packet.count };
        self.pending.set(self.pending.get().saturating_add(count));
        self.tell();
    }

    pub(crate) fn take(&self) -> bool {
        let pending = self.pending.get();
        self.pending.set(pending.saturating_sub(1));
        if pending == 1 {
            self.tell();
        }
        pending > 0
    }

    /// Somebody polls: the segment stays until as many [`release`](Self::release)s.
    pub(crate) fn hold(&self) {
        self.pollers.set(self.pollers.get() + 1);
    }

    /// The end of one [`hold`](Self::hold). False: there was none.
    pub(crate) fn release(&self) -> bool {
        let held = self.pollers.get();
        self.pollers.set(held.saturating_sub(1));
        held > 0
    }

    pub(crate) fn check_unpolled(&self) -> Result<()> {
        if self.pollers.get() > 0 {
            return Err(RsmError::of(Code::POLLFD_IN_USE));
        }
        Ok(())
    }
}

/// Memory that segments can be made of. Clones are the same memory.
pub struct Memory<F: RemoteMemory> {
    pub(crate) export: F::Export,
    /// Segments that show it now.
    pub(crate) shown: Rc<Cell<u32>>,
}

impl<F: RemoteMemory> Clone for Memory<F> {
    fn clone(&self) -> Self {
        Self {
            export: self.export.clone(),
            shown: Rc::clone(&self.shown),
        }
    }
}

impl<F: RemoteMemory> Memory<F> {
    /// The fabric's memory.
    pub fn local(&self) -> &F::Export {
        &self.export
    }

    /// Whether the two are the same memory.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.shown, &other.shown)
    }
}

impl<F: Fabric> Inner<F> {
    /// The user of a process.
    pub(crate) fn user_of(&self, peer: Peer) -> User {
        let Some(vouches) = self.vouches.borrow().clone() else {
            return User::OwnWord;
        };
        if peer == self.fabric.me() {
            return User::Vouched(Rc::new(self.identity.clone()));
        }
        if let Some(known) = self.users.borrow().get(&peer) {
            return User::Vouched(Rc::clone(known));
        }
        // Without a borrow: it may wait until the process has joined.
        match vouches(peer).map(Rc::new) {
            None => User::Unknown,
            Some(user) => {
                self.users.borrow_mut().insert(peer, Rc::clone(&user));
                User::Vouched(user)
            }
        }
    }
}

/// An importer, as the exporter's table has it: who may interrupt this segment, and whom it interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Importer {
    pub peer: Peer,
    pub connection: u32,
    pub perm: Perm,
}

/// The importers of a segment: what each may do, by node and by its number for the connection. There may be tens of thousands.
#[derive(Default)]
pub(crate) struct Importers(BTreeMap<Peer, BTreeMap<u32, Perm>>);

impl Importers {
    pub(crate) fn has(&self, peer: Peer, connection: u32) -> bool {
        self.0.get(&peer).is_some_and(|of| of.contains_key(&connection))
    }

    /// Connections of one node.
    pub(crate) fn count(&self, peer: Peer) -> usize {
        self.0.get(&peer).map_or(0, BTreeMap::len)
    }

    pub(crate) fn add(&mut self, importer: Importer) {
        let of = self.0.entry(importer.peer).or_default();
        of.insert(importer.connection, importer.perm);
    }

    pub(crate) fn remove(&mut self, peer: Peer, connection: u32) {
        if let Some(of) = self.0.get_mut(&peer) {
            of.remove(&connection);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Importer> {
        self.0.iter().flat_map(|(&peer, of)| {
            of.iter().map(move |(&connection, &perm)| Importer {
                peer,
                connection,
                perm,
            })
        })
    }

    /// Those with a connection.
    pub(crate) fn peers(&self) -> impl Iterator<Item = Peer> {
        let some = self.0.iter().filter(|(_, of)| !of.is_empty());
        some.map(|(&peer, _)| peer)
    }
}

/// A segment while it is published.
pub(crate) struct Published {
    pub slot: usize,
    pub id: SegId,
    pub generation: u64,
    /// Who may connect; none: everybody.
    pub list: Option<Vec<(Peer, Perm)>>,
}

pub(crate) struct ExportState<F: Fabric> {
    pub(crate) inner: Rc<Inner<F>>,
    pub(crate) memory: RefCell<Memory<F>>,
    pub(crate) len: usize,
    pub(crate) controller: Controller,
    /// Offered where there is no list.
    pub(crate) mask: Perm,
    pub(crate) published: RefCell<Option<Published>>,
    pub(crate) importers: RefCell<Importers>,
    pub(crate) signals: Signals,
}

/// A segment of this process. Dropped, it is destroyed.
pub struct Export<F: Fabric> {
    pub(crate) state: Rc<ExportState<F>>,
}

pub(crate) struct ImportState<F: Fabric> {
    pub(crate) inner: Rc<Inner<F>>,
    pub(crate) peer: Peer,
    pub(crate) id: SegId,
    pub(crate) slot: usize,
    pub(crate) generation: u64,
    pub(crate) connection: u32,
    pub(crate) directory: Rc<Directory<F>>,
    /// None where nothing is permitted.
    pub(crate) memory: Option<F::Import>,
    pub(crate) perm: Perm,
    pub(crate) len: usize,
    pub(crate) mode: Cell<Mode>,
    /// Barriers that are initialised and not destroyed.
    pub(crate) barriers: Cell<u32>,
    /// Accesses that failed after their call had returned, or that nobody was told of.
    pub(crate) errors: Cell<u64>,
    /// Changes of the route to the owner before the access under way, in implicit mode.
    pub(crate) reroutes: Cell<u64>,
    /// Accesses in explicit mode that no barrier has answered for yet.
    pub(crate) open: Cell<bool>,
    /// The exporter is known to have withdrawn the segment, or to be gone: which of the two.
    pub(crate) aborted: RefCell<Option<String>>,
    pub(crate) connected: Cell<bool>,
    /// The program maps the segment.
    pub(crate) mapped: Cell<bool>,
    /// The rails that it was told to use, a bit each; 0: all.
    pub(crate) rails: Cell<u32>,
    /// Puts and gets under way, and some that were.
    pub(crate) requests: RefCell<Vec<Weak<RequestState<F>>>>,
    pub(crate) signals: Signals,
}

/// A put or a get that goes on after its call.
pub(crate) struct RequestState<F: Fabric> {
    pub(crate) import: Rc<ImportState<F>>,
    pub(crate) put: bool,
    /// As long as it is under way.
    pub(crate) ticket: Cell<Option<Ticket>>,
    pub(crate) memory: RefCell<Option<TransferMemory>>,
    pub(crate) result: RefCell<Option<Result<()>>>,
}

/// A connection to a segment of another node (or of this one). Dropped, it is disconnected.
pub struct Import<F: Fabric> {
    pub(crate) state: Rc<ImportState<F>>,
}
