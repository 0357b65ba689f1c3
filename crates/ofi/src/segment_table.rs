//! Segments of this process, and the handles that peers name them by (see `memory.rs`).
//!
//! Cost class: [`Segments::deliver`] is *fast path*.

use super::link::Link;
use super::wire::Parsed;
use farpost_fabric::{Access, FabricError, LINE_BYTES, Line, LocalMemory, Permission, Result, SegmentId};
use farpost_mapped::Mapping;
use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a handle stands for.
pub struct Entry {
    pub link: Rc<Link>,
    id: u32,
    /// None: withdrawn.
    memory: Option<Mapping>,
    writable: bool,
}

/// What a value that cannot be right was, and the value.
pub type Wrong = (&'static str, u64);

impl Entry {
    /// A line or bytes arrived.
    #[inline]
    fn apply(&self, message: &Parsed<'_>) -> Result<(), Wrong> {
        match message {
            Parsed::Line { number, line, .. } => self.put_line(*number, line),
            Parsed::Put { offset, bytes, .. } => self.put(*offset, bytes),
            Parsed::Gather { .. } | Parsed::Control { .. } => Ok(()),
        }
    }

    /// A line arrived.
    #[inline]
    fn put_line(&self, number: u32, line: &Line) -> Result<(), Wrong> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let offset = number as usize * LINE_BYTES;
        if !self.writable || offset + LINE_BYTES > LocalMemory::len(memory) {
            return Err(("the number of a line it may write", u64::from(number)));
        }
        memory.store_line(offset, line);
        Ok(())
    }

    /// Bytes arrived. A word is stored whole.
    #[inline]
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<(), Wrong> {
        let Some(memory) = &self.memory else { return Ok(()) };
        self.check(memory, offset, bytes.len() as u64)?;
        if !self.writable {
            return Err(("a put to memory that it may only read", offset));
        }
        let offset = offset as usize;
        match bytes.try_into() {
            Ok(word) if offset.is_multiple_of(8) => memory.store(offset, u64::from_ne_bytes(word)),
            _ => memory.write(offset, bytes),
        }
        Ok(())
    }

    /// Its memory, if `offset` and `len` lie in it. None: withdrawn.
    pub fn range(&self, offset: u64, len: u64) -> Result<Option<&Mapping>, Wrong> {
        if let Some(memory) = &self.memory {
            self.check(memory, offset, len)?;
        }
        Ok(self.memory.as_ref())
    }

    fn check(&self, memory: &Mapping, offset: u64, len: u64) -> Result<(), Wrong> {
        let limit = LocalMemory::len(memory) as u64;
        if offset > limit || len > limit - offset {
            return Err(("an offset in a segment", offset));
        }
        Ok(())
    }
}

/// A segment of ours.
pub struct Published {
    pub memory: Mapping,
    pub access: Access,
}

/// All segments of ours.
#[derive(Default)]
pub struct Segments {
    entries: RefCell<Vec<Entry>>,
    published: RefCell<BTreeMap<u32, Published>>,
    /// Identifiers in the order in which they were published, for telling peers.
    log: RefCell<Vec<u32>>,
}

impl Segments {
    /// What handles stand for.
    #[inline]
    pub fn entries(&self) -> Ref<'_, Vec<Entry>> {
        self.entries.borrow()
    }

    /// Do what a message says of segments, if `admit` takes it as the next one of its sender's. False: it is about no segment of ours.
    #[inline]
    pub fn deliver(
        &self,
        message: Parsed<'_>,
        admit: impl FnOnce(&Rc<Link>) -> bool,
        mut blame: impl FnMut(&Link, Wrong),
    ) -> bool {
        let (Parsed::Line { handle, .. } | Parsed::Put { handle, .. } | Parsed::Gather { handle, .. }) =
            message
        else {
            return false;
        };
        let entries = self.entries.borrow();
        let Some(entry) = entries.get(handle as usize) else {
            return false;
        };
        if !admit(&entry.link) {
            return true;
        }
        let Parsed::Gather { mut records, .. } = message else {
            if let Err(wrong) = entry.apply(&message) {
                blame(&entry.link, wrong);
            }
            return true;
        };
        let link = &entry.link;
        while let Some(record) = records.next() {
            let (Parsed::Line { handle, .. } | Parsed::Put { handle, .. }) = record else {
                return true;
            };
            let Some(entry) = entries.get(handle as usize).filter(|e| Rc::ptr_eq(&e.link, link)) else {
                blame(link, ("the handle of a segment", handle.into()));
                return true;
            };
            if let Err(wrong) = entry.apply(&record) {
                blame(link, wrong);
            }
        }
        if !records.is_empty() {
            blame(link, ("the end of a message", 0));
        }
        true
    }

    /// A handle for `link` to a segment.
    pub fn grant(&self, link: &Rc<Link>, id: u32, memory: &Mapping, permission: Permission) -> u32 {
        let mut entries = self.entries.borrow_mut();
        let writable = permission == Permission::ReadWrite;
        // A peer that imports again gets what it has.
        let same = |e: &Entry| {
            e.id == id && e.writable == writable && e.memory.is_some() && Rc::ptr_eq(&e.link, link)
        };
        if let Some(at) = entries.iter().rposition(same) {
            return at as u32;
        }
        entries.push(Entry {
            link: Rc::clone(link),
            id,
            memory: Some(memory.clone()),
            writable,
        });
        entries.len() as u32 - 1
    }

    /// Segments of ours, by identifier.
    pub fn published(&self) -> Ref<'_, BTreeMap<u32, Published>> {
        self.published.borrow()
    }

    /// Publish memory as a segment.
    pub fn publish(&self, id: SegmentId, memory: &Mapping, access: Access) -> Result<()> {
        let mut published = self.published.borrow_mut();
        if published.contains_key(&id.0) {
            return Err(FabricError::InUse { id: id.0 });
        }
        let memory = memory.clone();
        published.insert(id.0, Published { memory, access });
        self.log.borrow_mut().push(id.0);
        Ok(())
    }

    /// Take a segment back: its memory. None: there is none.
    pub fn unpublish(&self, id: SegmentId) -> Option<Mapping> {
        let gone = self.published.borrow_mut().remove(&id.0);
        gone.map(|segment| segment.memory)
    }

    /// Make all handles to a segment void: who had them.
    pub fn void_all(&self, id: SegmentId) -> Vec<Rc<Link>> {
        let mut holders = Vec::new();
        for entry in self.entries.borrow_mut().iter_mut().filter(|e| e.id == id.0) {
            if entry.memory.take().is_some() {
                holders.push(Rc::clone(&entry.link));
            }
        }
        holders
    }

    /// Give a segment another access: those who have handles and were told something else. What they were told is not so any more: handles
    /// that say more are void, and the next import asks. None: there is no such segment.
    pub fn republish(&self, id: SegmentId, access: &Access) -> Option<Vec<Rc<Link>>> {
        let before = {
            let mut published = self.published.borrow_mut();
            let segment = published.get_mut(&id.0)?;
            std::mem::replace(&mut segment.access, access.clone())
        };
        let void = |entry: &Entry| {
            let may = if entry.writable {
                Permission::ReadWrite
            } else {
                Permission::Read
            };
            !access.admits(entry.link.peer, may)
        };
        let mut holders = Vec::new();
        for entry in self.entries.borrow_mut().iter_mut() {
            if entry.id == id.0
                && entry.memory.is_some()
                && access.of(entry.link.peer) != before.of(entry.link.peer)
            {
                if void(entry) {
                    entry.memory = None;
                }
                holders.push(Rc::clone(&entry.link));
            }
        }
        Some(holders)
    }

    /// `tell` of the segments that `link` may import and has not heard of: identifier, permission, length and handle.
    pub fn announce(&self, link: &Rc<Link>, mut tell: impl FnMut(u32, Permission, usize, u32)) {
        let log = self.log.borrow();
        if link.told_segments.get() == log.len() {
            return;
        }
        let published = self.published.borrow();
        for id in &log[link.told_segments.get()..] {
            let Some(segment) = published.get(id) else {
                continue;
            };
            let Some(granted) = segment.access.of(link.peer) else {
                continue;
            };
            let handle = self.grant(link, *id, &segment.memory, granted);
            tell(*id, granted, LocalMemory::len(&segment.memory), handle);
        }
        link.told_segments.set(log.len());
    }
}
