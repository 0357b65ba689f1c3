//! The importer's side: connect and disconnect.

use crate::cesr::Cause;
use crate::controller::PAGE;
use crate::directory::{Entry, segment_id};
use crate::error::{Code, Result, RsmError};
use crate::names::{Controller, NodeId, Perm, SegId};
use crate::state::{CONNECTIONS_MAX, Import, ImportState, Inner, Mode, Rsm, Signals};
use crate::wire::{Packet, PacketKind};
use farpost_fabric::{Fabric, FabricError, Peer, Permission, Remote};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Attempts to connect to a segment that changes meanwhile.
const ATTEMPTS: usize = 100;

/// Why an attempt came to nothing.
enum Attempt {
    /// The segment changed meanwhile.
    Again,
    No(RsmError),
}

impl<F: Fabric> Rsm<F> {
    /// Connect through `controller` to segment `id` of `node`, to use it with `perm` (`rsm_memseg_import_connect`).
    ///
    /// # Errors
    /// `PERM_DENIED`: bits that do not exist, or more than the exporter offers to this user; `REMOTE_NODE_UNREACHABLE`:
    /// the controller is not connected to such a node, or the node is gone; `SEG_NOT_PUBLISHED`;
    /// `SEG_NOT_PUBLISHED_TO_NODE`; `INSUFFICIENT_RESOURCES`.
    pub fn connect(&self, controller: Controller, node: NodeId, id: SegId, perm: Perm) -> Result<Import<F>> {
        let connected = self.try_connect(controller, node, id, perm);
        connected.inspect_err(|error| {
            if matches!(
                error.code,
                Code::SEG_NOT_PUBLISHED | Code::SEG_NOT_PUBLISHED_TO_NODE
            ) {
                self.inner.refuse(|refused| &mut refused.segments);
            }
            if error.code == Code::PERM_DENIED {
                self.inner.refuse(|refused| &mut refused.denied);
            }
        })
    }

    fn try_connect(&self, controller: Controller, node: NodeId, id: SegId, perm: Perm) -> Result<Import<F>> {
        if !Perm::RDWR.allows(perm) {
            return fail!(
                PERM_DENIED: "permissions 0{:o}: only 0{:o} and 0{:o} exist here", perm.0, 0o400, 0o200
            );
        }
        if !self.reaches(controller, node) {
            self.inner.refuse(|refused| &mut refused.controllers);
            let name = self.controller_name(controller);
            return fail!(
                REMOTE_NODE_UNREACHABLE: "controller {name} is not connected to node {node} (there are nodes 0 to {})",
                self.nodes() - 1
            );
        }
        let inner = &self.inner;
        if inner.connections.borrow().len() >= CONNECTIONS_MAX {
            return fail!(INSUFFICIENT_RESOURCES: "this process has {CONNECTIONS_MAX} connections already");
        }
        inner.progress();
        let peer = Peer(node);
        for _ in 0..ATTEMPTS {
            match inner.attempt(controller, peer, id, perm) {
                Ok(state) => {
                    let connection = state.connection;
                    let state = Rc::new(state);
                    inner
                        .connections
                        .borrow_mut()
                        .insert(connection, Rc::downgrade(&state));
                    inner.deliver(peer, state.packet(PacketKind::Connect, perm.0));
                    return Ok(Import { state });
                }
                Err(Attempt::Again) => {
                    inner.progress();
                }
                Err(Attempt::No(error)) => return Err(error),
            }
        }
        Err(not_published(peer, id))
    }
}

fn not_published(peer: Peer, id: SegId) -> RsmError {
    error!(SEG_NOT_PUBLISHED: "node {} has not published segment {id:#x}", peer.0)
}

impl<F: Fabric> Inner<F> {
    fn attempt(
        self: &Rc<Self>,
        controller: Controller,
        peer: Peer,
        id: SegId,
        perm: Perm,
    ) -> std::result::Result<ImportState<F>, Attempt> {
        let failed = |what: &'static str| {
            move |error: FabricError| {
                self.suspect(peer, &error);
                Attempt::No(RsmError::fabric(what, &error))
            }
        };
        let read = "looking for the segments of a node";
        let directory = self.directory_of(peer).map_err(Attempt::No)?;
        let directory = directory.ok_or_else(|| Attempt::No(not_published(peer, id)))?;
        if self.fabric.has_ended(peer) {
            let error = FabricError::PeerDead {
                peer,
                why: "its process has ended".into(),
            };
            return Err(Attempt::No(RsmError::fabric("connecting to a segment", &error)));
        }
        let found = directory.find(id).map_err(failed(read))?;
        let Some((slot, entry)) = found.filter(|(_, entry)| meets(controller, entry)) else {
            return Err(Attempt::No(not_published(peer, id)));
        };
        let offered = match entry.everybody {
            Some(perm) => Some(perm),
            None => directory.listed(slot, self.fabric.me()).map_err(failed(read))?,
        };
        if directory.entry(slot).map_err(failed(read))? != Some(entry) {
            return Err(Attempt::Again);
        }
        let Some(offered) = offered else {
            let me = self.fabric.me().0;
            return Err(Attempt::No(error!(
                SEG_NOT_PUBLISHED_TO_NODE: "segment {id:#x} of node {} is not published to node {me}", peer.0
            )));
        };
        let granted = offered.of_user(entry.owner, &self.identity);
        if !granted.allows(perm) {
            return Err(Attempt::No(error!(
                PERM_DENIED: "segment {id:#x} of node {} is offered with 0{:o}, which is 0{:o} to this user; 0{:o} was asked for",
                peer.0, offered.0, granted.0, perm.0
            )));
        }
        let permission = match perm {
            Perm::NONE => None,
            Perm::READ => Some(Permission::Read),
            _ => Some(Permission::ReadWrite),
        };
        let memory = match permission {
            None => None,
            Some(permission) => match self.fabric.import(peer, segment_id(slot), entry.len, permission) {
                Ok(memory) => {
                    // Section 2.3: what goes to one segment is striped over all links.
                    memory.stripe(u32::MAX);
                    Some(memory)
                }
                // Withdrawn or offered anew just now: the directory will say so.
                Err(FabricError::NotPublished { .. }) => return Err(Attempt::Again),
                Err(error) => return Err(failed("connecting to a segment")(error)),
            },
        };
        if directory.generation(slot).map_err(failed(read))? != entry.generation {
            return Err(Attempt::Again);
        }
        let connection = self.next_connection.get();
        self.next_connection.set(connection.wrapping_add(1).max(1));
        Ok(ImportState {
            inner: Rc::clone(self),
            peer,
            id,
            slot,
            generation: entry.generation,
            connection,
            directory,
            memory,
            perm,
            len: entry.len,
            mode: Cell::new(Mode::Implicit),
            barriers: Cell::new(0),
            errors: Cell::new(0),
            reroutes: Cell::new(self.fabric.reroutes(peer)),
            open: Cell::new(false),
            aborted: RefCell::default(),
            connected: Cell::new(true),
            mapped: Cell::new(false),
            rails: Cell::new(0),
            requests: RefCell::default(),
            signals: Signals::default(),
        })
    }
}

/// Whether a segment on the exporter's controller is reached through ours: the same, or any two rails.
fn meets(controller: Controller, entry: &Entry) -> bool {
    match controller {
        Controller::Rail(_) => entry.controller >= Controller::Rail(0).code(),
        other => entry.controller == other.code(),
    }
}

impl<F: Fabric> ImportState<F> {
    /// Whether it was not disconnected.
    #[inline]
    pub(crate) fn check_handle(&self) -> Result<()> {
        if self.connected.get() {
            return Ok(());
        }
        fail!(BAD_SEG_HNDL: "the segment is disconnected")
    }

    /// Whether the exporter is known to have taken the segment away.
    #[inline]
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.borrow().is_some()
    }

    /// Remember that the exporter has taken the segment away, and why.
    #[cold]
    pub(crate) fn abort(&self, why: &str) {
        if self.is_aborted() {
            return;
        }
        *self.aborted.borrow_mut() = Some(why.into());
        // Whatever was under way is part of this error.
        self.open.set(false);
        self.signals.end();
        self.record(Cause::TranslationViolation, why);
    }

    /// Accesses found the segment gone that had been gone before: lost like those that met it first, and told like them.
    #[cold]
    pub(crate) fn lost_again(&self) {
        let why = match &*self.aborted.borrow() {
            Some(why) => format!("what was put or got since is lost: {why}"),
            None => return,
        };
        self.record(Cause::TranslationViolation, &why);
    }

    /// An error that the status of this process keeps.
    #[cold]
    pub(crate) fn record(&self, cause: Cause, what: &str) {
        let message = format!("segment {:#x} of node {}: {what}", self.id, self.peer.0);
        let about = (self.peer.0, self.id);
        self.inner.record_error(cause, about, message);
    }

    /// Whether the segment is published as it was when this connection was made, and its owner is there. Asks the
    /// exporter's memory.
    pub(crate) fn check_connected(&self) -> Result<()> {
        if !self.is_aborted() {
            match self.directory.generation(self.slot) {
                Ok(now) if now == self.generation => {
                    if self.inner.fabric.has_ended(self.peer) {
                        self.abort("its process has ended");
                    }
                }
                Ok(_) => self.abort("it was withdrawn"),
                Err(error) => self.abort(&error.to_string()),
            }
        }
        match &*self.aborted.borrow() {
            None => Ok(()),
            Some(why) => fail!(
                CONN_ABORTED: "segment {:#x} of node {}: {why}; disconnect, and connect again", self.id, self.peer.0
            ),
        }
    }

    fn disconnect(&self) {
        if !self.connected.replace(false) {
            return;
        }
        self.end_requests();
        self.inner.connections.borrow_mut().remove(&self.connection);
        if !self.is_aborted() {
            self.inner
                .deliver(self.peer, self.packet(PacketKind::Disconnect, 0));
        }
    }

    /// Something to say to the exporter about this connection.
    pub(crate) fn packet(&self, kind: PacketKind, count: u32) -> Packet {
        Packet {
            kind,
            single: false,
            slot: self.slot as u32,
            generation: self.generation,
            connection: self.connection,
            count,
        }
    }
}

impl<F: Fabric> Import<F> {
    /// Bytes.
    pub fn len(&self) -> usize {
        self.state.len
    }

    /// Segments have at least a byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The exporting node.
    pub fn node(&self) -> NodeId {
        self.state.peer.0
    }

    /// Which publication of the segment this is a connection to.
    pub fn generation(&self) -> u64 {
        self.state.generation
    }

    /// What this connection may do.
    pub fn permission(&self) -> Perm {
        self.state.perm
    }

    /// The segment as plain memory, to be mapped with `perm` (`rsm_memseg_import_map`), where its fabric maps: what
    /// the program does with it from now on is between it and the processor. Ended by [`unmap`](Self::unmap).
    ///
    /// # Errors
    /// In this order: `SEG_ALREADY_MAPPED`; `BAD_PERMS`: bits that do not exist; `BAD_LENGTH`: nothing, or past the end;
    /// `BAD_MEM_ALIGNMENT`: the offset is not that of a page; `SEG_NOT_CONNECTED`; `PERM_DENIED`: more than the
    /// connection may; `CONN_ABORTED`; `MAP_FAILED`: the fabric does not map.
    pub fn map(&self, offset: usize, len: usize, perm: Perm) -> Result<&F::Export> {
        let state = &*self.state;
        if state.mapped.get() {
            return fail!(SEG_ALREADY_MAPPED: "the segment is mapped already: unmap it first");
        }
        if !Perm::RDWR.allows(perm) {
            return fail!(BAD_PERMS: "permissions 0{:o} do not exist", perm.0);
        }
        if len == 0 || offset > state.len || len > state.len - offset {
            return fail!(BAD_LENGTH: "{len} bytes from {offset} on: the segment has {}", state.len);
        }
        if !offset.is_multiple_of(PAGE) {
            return fail!(BAD_MEM_ALIGNMENT: "offset {offset} is not that of a page");
        }
        if !state.connected.get() {
            return fail!(SEG_NOT_CONNECTED: "the segment is disconnected");
        }
        if !state.perm.allows(perm) {
            return fail!(PERM_DENIED: "the connection may 0{:o}; 0{:o} was asked for", state.perm.0, perm.0);
        }
        state.check_connected()?;
        match state.memory.as_ref().and_then(F::mapped) {
            Some(memory) => {
                state.mapped.set(true);
                Ok(memory)
            }
            None => fail!(
                MAP_FAILED: "memory of other hosts cannot be mapped: put and get (attr_direct_access_sizes is 0)"
            ),
        }
    }

    /// The end of the mapping (`rsm_memseg_import_unmap`).
    ///
    /// # Errors
    /// `SEG_NOT_MAPPED`.
    pub fn unmap(&self) -> Result<()> {
        if !self.state.mapped.replace(false) {
            return Err(RsmError::of(Code::SEG_NOT_MAPPED));
        }
        Ok(())
    }

    /// Disconnect (`rsm_memseg_import_disconnect`). Puts and gets under way are given up.
    ///
    /// # Errors
    /// `SEG_STILL_MAPPED`, `POLLFD_IN_USE`: then it stays connected; `SEG_NOT_CONNECTED`: it was not.
    pub fn disconnect(&self) -> Result<()> {
        if self.state.mapped.get() {
            return Err(RsmError::of(Code::SEG_STILL_MAPPED));
        }
        self.state.signals.check_unpolled()?;
        if !self.state.connected.get() {
            return Err(RsmError::of(Code::SEG_NOT_CONNECTED));
        }
        self.state.disconnect();
        Ok(())
    }

    /// Whether the segment is still there, as far as that can be known without asking anybody.
    pub fn is_aborted(&self) -> bool {
        self.state.inner.progress();
        self.state.is_aborted()
    }
}

impl<F: Fabric> Drop for ImportState<F> {
    fn drop(&mut self) {
        self.disconnect();
    }
}

/// Bytes of the segment as imported, for those who need no checks twice.
pub(crate) fn memory<F: Fabric>(state: &ImportState<F>) -> Option<&F::Import> {
    debug_assert!(
        state
            .memory
            .as_ref()
            .is_none_or(|memory| memory.len() >= state.len)
    );
    state.memory.as_ref()
}
