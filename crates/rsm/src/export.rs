//! The exporter's side: create, publish, withdraw, republish, destroy.

use crate::directory::{self, Entry, segment_id};
use crate::error::{Code, Result, RsmError};
use crate::names::{AccessEntry, Controller, Perm, SegId, check_chosen};
use crate::state::{Export, ExportState, Importers, Memory, Published, Rsm, Signals, User};
use farpost_fabric::{Access, Fabric, FabricError, LocalMemory, Peer, Permission};
use std::cell::RefCell;
use std::rc::Rc;

impl<F: Fabric> Rsm<F> {
    /// `len` zeroed bytes that segments can be made of.
    ///
    /// # Errors
    /// `INSUFFICIENT_MEM`.
    pub fn memory(&self, len: usize) -> Result<Memory<F>> {
        let export = self
            .inner
            .fabric
            .allocate(len)
            .map_err(|e| RsmError::fabric("making memory for a segment", &e))?;
        Ok(Memory {
            export,
            shown: Rc::default(),
        })
    }

    /// A segment of `len` bytes on `controller` (`rsm_memseg_export_create`), of `memory`. Where it will be published
    /// without a list, everybody is offered `mask`.
    ///
    /// # Errors
    /// `BAD_LENGTH`: nothing, more than the memory has, or more than the controller can.
    pub fn export(
        &self,
        controller: Controller,
        memory: &Memory<F>,
        len: usize,
        mask: Perm,
    ) -> Result<Export<F>> {
        let most = self.attributes(controller).max_export_segment_size;
        let limit = memory.export.len();
        if len == 0 || len > limit || most != 0 && len > most {
            return fail!(
                BAD_LENGTH: "a segment of {len} bytes: the memory has {limit}, the controller allows {most} (0: any)"
            );
        }
        Ok(Export {
            state: Rc::new(ExportState {
                inner: Rc::clone(&self.inner),
                memory: RefCell::new(memory.clone()),
                len,
                controller,
                mask,
                published: RefCell::new(None),
                importers: RefCell::default(),
                signals: Signals::default(),
            }),
        })
    }
}

/// What is granted, as the owner's bits, in the fabric's terms.
fn fabric_permission(granted: Perm) -> Option<Permission> {
    if granted.allows(Perm::WRITE) {
        Some(Permission::ReadWrite)
    } else if granted.allows(Perm::READ) {
        Some(Permission::Read)
    } else {
        None
    }
}

impl<F: Fabric> ExportState<F> {
    /// The access list as checked.
    fn check_list(&self, entries: &[AccessEntry]) -> Result<Option<Vec<(Peer, Perm)>>> {
        let size = self.inner.fabric.size();
        let mut list: Vec<(Peer, Perm)> = Vec::with_capacity(entries.len());
        for entry in entries {
            let about = format!(
                "access entry for node {} with permissions 0{:o}",
                entry.node, entry.permission.0
            );
            if entry.node >= size {
                return fail!(BAD_ACL: "{about}: there are nodes 0 to {}", size - 1);
            }
            if entry.permission.0 & !0o777 != 0 {
                return fail!(BAD_PERMS: "{about}: permissions are three octal digits");
            }
            if list.iter().any(|(peer, _)| peer.0 == entry.node) {
                return fail!(BAD_ACL: "{about}: the node is listed already");
            }
            list.push((Peer(entry.node), entry.permission));
        }
        Ok((!list.is_empty()).then_some(list))
    }

    /// What `peer`, which is offered `perm`, may do: as its user, where somebody vouches for that; where nobody does, as any user might,
    /// and the importer's own side decides between those.
    pub(crate) fn granted(&self, peer: Peer, perm: Perm) -> Perm {
        let inner = &self.inner;
        if perm.is_same_for_all() {
            return perm.of_anybody();
        }
        match inner.user_of(peer) {
            User::OwnWord => perm.of_anybody(),
            User::Vouched(user) => perm.of_user((inner.identity.uid, inner.identity.gid), &user),
            User::Unknown => Perm::NONE,
        }
    }

    /// What the fabric is told: nodes that the controller reaches, with what their users may do.
    fn access(&self, list: Option<&[(Peer, Perm)]>, connected: &Importers) -> Access {
        let rsm = Rsm {
            inner: Rc::clone(&self.inner),
        };
        let reached = |peer: Peer| rsm.reaches(self.controller, peer.0);
        let size = self.inner.fabric.size();
        let offered: Vec<(Peer, Perm)> = match list {
            Some(list) => list.to_vec(),
            None => (0..size).map(|peer| (Peer(peer), self.mask)).collect(),
        };
        let mut access: Vec<(Peer, Permission)> = Vec::new();
        let offered = offered
            .into_iter()
            .filter(|(peer, _)| reached(*peer))
            .map(|(peer, perm)| (peer, self.granted(peer, perm)));
        let connected = connected.iter().map(|importer| (importer.peer, importer.perm));
        for (peer, granted) in offered.chain(connected) {
            if let (true, Some(permission)) = (reached(peer), fabric_permission(granted)) {
                match access.iter_mut().find(|(known, _)| *known == peer) {
                    None => access.push((peer, permission)),
                    Some((_, known)) if permission == Permission::ReadWrite => *known = permission,
                    Some(_) => {}
                }
            }
        }
        match access.first() {
            Some(&(_, first)) if access.len() == size as usize && access.iter().all(|(_, p)| *p == first) => {
                Access::Everyone(first)
            }
            _ => Access::Only(access),
        }
    }

    fn enter(&self, published: &Published) -> Result<()> {
        let entry = Entry {
            id: published.id,
            controller: self.controller.code(),
            generation: published.generation,
            len: self.len,
            owner: (self.inner.identity.uid, self.inner.identity.gid),
            everybody: published.list.is_none().then_some(self.mask),
        };
        let list = published.list.as_deref().unwrap_or_default();
        directory::enter(
            &self.inner.directory()?,
            self.inner.shape,
            published.slot,
            &entry,
            list,
        );
        Ok(())
    }

    fn unpublish(&self) -> Result<()> {
        // Who has said that it is connected is told that it is not.
        self.inner.progress();
        let Some(published) = self.published.borrow_mut().take() else {
            return Err(not_published("withdrawing a segment"));
        };
        let fabric = &self.inner.fabric;
        let withdrawn = fabric.unpublish(segment_id(published.slot));
        // Whoever maps the memory keeps pages of its own, before anybody is told. Not while another segment shows the
        // same.
        let memory = self.memory.borrow();
        memory.shown.set(memory.shown.get() - 1);
        let detached = if memory.shown.get() == 0 {
            fabric.detach(&memory.export)
        } else {
            Ok(())
        };
        if let Ok(directory) = self.inner.directory() {
            directory::leave(&directory, published.slot);
        }
        self.inner.published.borrow_mut()[published.slot] = None;
        let importers = self.importers.take();
        for importer in importers.iter() {
            self.inner.abort(importer, published.slot, published.generation);
        }
        for peer in importers.peers() {
            self.inner.push_out(peer);
        }
        detached.map_err(|e| RsmError::fabric("taking a segment's memory back from its importers", &e))?;
        withdrawn.map_err(|e| RsmError::fabric("withdrawing a segment", &e))
    }
}

fn not_published(what: &str) -> RsmError {
    error!(SEG_NOT_PUBLISHED: "{what}: it is not published")
}

impl<F: Fabric> Export<F> {
    /// The memory of the segment, which importers may be reading and writing.
    pub fn memory(&self) -> Memory<F> {
        self.state.memory.borrow().clone()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.state.len
    }

    /// Segments have at least a byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The controller it is on.
    pub fn controller(&self) -> Controller {
        self.state.controller
    }

    /// The identifier it is published under.
    pub fn id(&self) -> Option<SegId> {
        self.state.published.borrow().as_ref().map(|p| p.id)
    }

    /// Nodes that are connected, as far as they have said so.
    pub fn importers(&self) -> Vec<u32> {
        self.state.inner.progress();
        self.state.importers.borrow().iter().map(|i| i.peer.0).collect()
    }

    /// Publish under `id`, or one that the system assigns for 0, to `entries`, or to everybody when there are none
    /// (`rsm_memseg_export_publish`). The identifier.
    ///
    /// # Errors
    /// In this order: `BAD_ACL`, `BAD_PERMS`: an entry is no node, doubled, or has bits that do not exist;
    /// `SEG_ALREADY_PUBLISHED`; `RESERVED_SEGID`; `SEGID_IN_USE`; `INSUFFICIENT_RESOURCES`.
    pub fn publish(&self, id: SegId, entries: &[AccessEntry]) -> Result<SegId> {
        let state = &*self.state;
        let inner = &state.inner;
        let list = state.check_list(entries)?;
        if let Some(published) = &*state.published.borrow() {
            return fail!(SEG_ALREADY_PUBLISHED: "the segment is published already, as {:#x}", published.id);
        }
        check_chosen(id)?;
        let taken = |id: SegId| {
            let all = inner.published.borrow();
            all.iter()
                .filter_map(|slot| slot.as_ref()?.upgrade())
                .any(|other| other.published.borrow().as_ref().is_some_and(|p| p.id == id))
        };
        if id != 0 && taken(id) {
            return fail!(SEGID_IN_USE: "segment {id:#x} is published by this process already");
        }
        let Some(slot) = inner.published.borrow().iter().position(Option::is_none) else {
            return fail!(
                INSUFFICIENT_RESOURCES: "{} segments are published already (FARPOST_RSM_SEGMENTS)", inner.shape.slots
            );
        };
        let id = if id == 0 {
            let mut next = inner.next_id.get();
            while next != 0 && taken(next) {
                next = next.wrapping_add(1);
            }
            if next == 0 {
                return fail!(INSUFFICIENT_RESOURCES: "all identifiers of the system's have been assigned");
            }
            inner.next_id.set(next.wrapping_add(1));
            next
        } else {
            id
        };
        inner.directory()?;
        inner.last_generation.set(inner.last_generation.get() + 1);
        let published = Published {
            slot,
            id,
            generation: inner.last_generation.get(),
            list,
        };
        let memory = state.memory.borrow().clone();
        let access = state.access(published.list.as_deref(), &Importers::default());
        inner
            .fabric
            .publish(segment_id(slot), &memory.export, access)
            .map_err(|e| RsmError::fabric("publishing a segment", &e))?;
        state.enter(&published)?;
        memory.shown.set(memory.shown.get() + 1);
        inner.published.borrow_mut()[slot] = Some(Rc::downgrade(&self.state));
        *state.published.borrow_mut() = Some(published);
        Ok(id)
    }

    /// Withdraw the segment; importers are disconnected without being asked (`rsm_memseg_export_unpublish`).
    ///
    /// # Errors
    /// `SEG_NOT_PUBLISHED`.
    pub fn unpublish(&self) -> Result<()> {
        self.state.unpublish()
    }

    /// Another access list (`rsm_memseg_export_republish`). It decides about later connections; those that are, keep
    /// their rights.
    ///
    /// # Errors
    /// `BAD_ACL`, `BAD_PERMS`, `SEG_NOT_PUBLISHED`.
    pub fn republish(&self, entries: &[AccessEntry]) -> Result<()> {
        let state = &*self.state;
        let list = state.check_list(entries)?;
        state.inner.progress();
        let mut published = state.published.borrow_mut();
        let Some(published) = &mut *published else {
            return Err(not_published("changing the access list of a segment"));
        };
        published.list = list;
        let access = state.access(published.list.as_deref(), &state.importers.borrow());
        state.enter(published)?;
        let again = state.inner.fabric.republish(
            segment_id(published.slot),
            &state.memory.borrow().export,
            access.clone(),
        );
        match again {
            // Nobody was on the list before, so that the fabric had nothing to publish.
            Err(FabricError::NotPublished { .. }) => {
                state
                    .inner
                    .fabric
                    .publish(segment_id(published.slot), &state.memory.borrow().export, access)
            }
            again => again,
        }
        .map_err(|e| RsmError::fabric("changing the access list of a segment", &e))
    }

    /// Withdraw it if it is published, and forget it (`rsm_memseg_export_destroy`).
    ///
    /// # Errors
    /// `POLLFD_IN_USE`: then it stays.
    pub fn destroy(&self) -> Result<()> {
        self.state.signals.check_unpolled()?;
        match self.state.unpublish() {
            Err(error) if error.code == Code::SEG_NOT_PUBLISHED => Ok(()),
            other => other,
        }
    }
}

impl<F: Fabric> Drop for ExportState<F> {
    fn drop(&mut self) {
        if self.published.borrow().is_some() {
            // Nobody is there to hear of an error.
            let _ = self.unpublish();
        }
    }
}
