//! RSMAPI: remote shared memory as an interface for programs, after Sun's `librsm` (section 2.8 of the paper).
//!
//! | Here | In C |
//! |---|---|
//! | [`Rsm`] | the library in a process |
//! | [`Controller`], [`Rsm::topology`] | `rsm_get_controller`, `rsm_get_interconnect_topology` |
//! | [`Memory`], [`Export`] | `rsm_memseg_export_*` |
//! | [`Import`], [`Barrier`] | `rsm_memseg_import_*` |
//! | [`Export::post`], [`Import::try_wait`] | `rsm_intr_signal_*` |
//! | [`Rsm::take_error_status`] | `rsm_get_error_status` |
//! | [`Rsm::striping`] | `rsm_get_striping` |
//! | [`Rsm::next_fault`], [`Rsm::refused`] | `rsm_next_fault`, `rsm_get_refused` |
//!
//! A node of the interconnect is a process of the job. Knows nothing of MPI; both use one fabric without meeting: packets
//! have a port of their own, and segments of the fabric are from the range that RSMAPI keeps for its library.
//!
//! Cost class: puts and gets in explicit mode are *fast path* where the fabric maps memory; barriers, signals and implicit
//! mode *queued path*; all else is *set-up path*.
//!
//! **Exported memory** is the program's own. Its range is replaced by pages of a memfd with the same contents, which the library maps a second
//! time for itself, so that nothing the program does to its range can hurt the network (`farpost_mapped`). A segment that is withdrawn gets new
//! pages; an importer that mapped the old ones keeps those. Nodes are admitted by the exporter's side of the fabric, users and groups by the
//! importer's library. Errors of puts are found by barriers: a fence, the generation in the directory, and whether the owner lives.
#![forbid(unsafe_code)]

#[macro_use]
mod error;

mod access;
mod barrier;
mod cesr;
mod controller;
mod directory;
mod export;
mod faults;
mod import;
mod names;
mod signal;
mod transfer;
mod wire;

pub use access::ELEMENT_SIZES;
pub use barrier::{Barrier, Mode};
pub use cesr::{Cause, ErrorReport};
pub use controller::{Attributes, Connections, Controller, PAGE, RemoteController, Striping};
pub use error::{Code, Result, RsmError};
pub use export::{Export, Memory};
pub use faults::Refused;
pub use import::Import;
pub use names::{AccessEntry, FIRST_ASSIGNED, Identity, LAST_RESERVED, NodeId, Perm, SegId, segmentid_range};
pub use signal::Accumulate;
pub use transfer::{Local, SG_MAX, Transfer, Vectored};

use cesr::Cesr;
use directory::{DIRECTORY, Directory, Shape};
use export::ExportState;
use farpost_fabric::wait::{Relax, WaitPolicy, WaitTunables};
use farpost_fabric::{Access, Fabric, Peer, Permission};
use faults::Faults;
use import::ImportState;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use wire::Packet;

farpost_tunables::tunables! {
    /// Tunables of RSMAPI.
    pub struct RsmTunables {
        /// Segments that a process can have published through RSMAPI at a time; a fabric may hold fewer.
        segments: "FARPOST_RSM_SEGMENTS" = 64, 1..=4096, "segments";
    }
}

/// Most connections to one segment from one node, and of one process in all (Solaris: `max-segments`).
pub(crate) const CONNECTIONS_MAX: usize = 65535;

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
    pub(crate) shape: Shape,
    /// My directory, exported when the first segment is published.
    directory: RefCell<Option<F::Export>>,
    /// Others' directories.
    directories: RefCell<BTreeMap<Peer, Rc<Directory<F>>>>,
    /// What I have published, by slot.
    published: RefCell<Vec<Option<Weak<ExportState<F>>>>>,
    /// What I am connected to, by connection number.
    connections: RefCell<BTreeMap<u32, Weak<ImportState<F>>>>,
    next_connection: Cell<u32>,
    last_generation: Cell<u64>,
    next_id: Cell<SegId>,
    cesr: RefCell<Cesr>,
    /// Packets that found the queue full.
    outbox: RefCell<Vec<(Peer, Packet)>>,
    faults: Faults,
    policy: WaitPolicy,
    relax: Cell<Option<Relax>>,
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
                shape,
                directory: RefCell::default(),
                directories: RefCell::default(),
                published: RefCell::new(published),
                connections: RefCell::default(),
                next_connection: Cell::new(1),
                last_generation: Cell::new(0),
                next_id: Cell::new(FIRST_ASSIGNED),
                cesr: RefCell::default(),
                outbox: RefCell::default(),
                faults: Faults::default(),
                relax: Cell::new(None),
            }),
        }
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
    ) -> error::Result<T> {
        self.inner.wait(timeout, ready)
    }

    /// Whether signals and words about connections wait for room at their receivers; progress sends them.
    pub fn owes(&self) -> bool {
        !self.inner.outbox.borrow().is_empty()
    }

    /// The oldest error that accesses of this process met and nobody waited for, and how many there were since the last
    /// call. Errors of other processes are never here.
    pub fn take_error_status(&self) -> Option<ErrorReport> {
        self.inner.cesr.borrow_mut().take()
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
    fn directory(&self) -> Result<F::Export> {
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
    fn directory_of(&self, peer: Peer) -> Result<Option<Rc<Directory<F>>>> {
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
    fn suspect(&self, peer: Peer, error: &farpost_fabric::FabricError) {
        if matches!(error, farpost_fabric::FabricError::Corrupt { .. }) {
            self.faults.count(|refused| &mut refused.malformed);
            self.fault(peer, error.clone());
        }
    }

    /// A value of `peer`'s cannot be right.
    #[cold]
    fn fault(&self, peer: Peer, error: farpost_fabric::FabricError) {
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
