//! Segments and imports.

use super::sparse::SparseBytes;
use super::state::{ImportId, Published, line_bytes};
use super::{InProc, Network};
use crate::{
    Access, FabricError, Grant, LINE_BYTES, Line, LocalMemory, Peer, Permission, Remote, RemoteMemory,
    Result, SegmentId, assert_aligned,
};
use std::cell::RefCell;
use std::rc::Rc;

type Bytes = Rc<RefCell<SparseBytes>>;

/// Memory of one endpoint. Clones are the same memory, also after a [`detach`](RemoteMemory::detach).
#[derive(Clone)]
pub struct Segment(Rc<RefCell<Bytes>>);

impl Segment {
    fn new(len: usize) -> Self {
        Self::of(Rc::new(RefCell::new(SparseBytes::new(len))))
    }

    fn of(bytes: Bytes) -> Self {
        Self(Rc::new(RefCell::new(bytes)))
    }

    /// The bytes as they are mapped now.
    fn bytes(&self) -> Bytes {
        Rc::clone(&self.0.borrow())
    }

    /// As an importer sees it: what it sees now, whatever the owner does later.
    fn as_imported(&self) -> Self {
        Self::of(self.bytes())
    }

    /// Other bytes with the same contents; imports keep the old ones.
    fn detach(&self) {
        let copy = self.bytes().borrow().clone();
        *self.0.borrow_mut() = Rc::new(RefCell::new(copy));
    }

    /// Bytes of it that have memory: what was written and not [given back](RemoteMemory::give_back).
    pub fn memory(&self) -> usize {
        self.0.borrow().borrow().memory()
    }

    /// Bytes from the network.
    pub(super) fn arrive(&self, offset: usize, bytes: &[u8]) {
        self.0.borrow().borrow_mut().write(offset, bytes);
    }

    fn words<const N: usize>(&self, offset: usize) -> [u64; N] {
        assert_aligned(offset, 8 * N);
        let mut words = [[0; 8]; N];
        self.0.borrow().borrow().read(offset, words.as_flattened_mut());
        words.map(u64::from_ne_bytes)
    }
}

impl LocalMemory for Segment {
    type Lines = crate::PlainLines<Segment>;

    fn lines(&self, offset: usize, count: u32) -> Self::Lines {
        crate::PlainLines::new(self.clone(), offset, count)
    }

    fn len(&self) -> usize {
        self.0.borrow().borrow().len()
    }

    fn load(&self, offset: usize) -> u64 {
        self.words::<1>(offset)[0]
    }

    fn store(&self, offset: usize, value: u64) {
        assert_aligned(offset, 8);
        self.arrive(offset, &value.to_ne_bytes());
    }

    fn fetch_add(&self, offset: usize, amount: u64) -> u64 {
        let before = self.load(offset);
        self.store(offset, before.wrapping_add(amount));
        before
    }

    fn load_line(&self, offset: usize) -> Line {
        self.words::<8>(offset)
    }

    fn store_line(&self, offset: usize, line: &Line) {
        assert_aligned(offset, LINE_BYTES);
        self.arrive(offset, &line_bytes(line));
    }

    fn read(&self, offset: usize, to: &mut [u8]) {
        self.0.borrow().borrow().read(offset, to);
    }

    fn write(&self, offset: usize, from: &[u8]) {
        self.arrive(offset, from);
    }
}

/// A peer's segment, reached through the network.
#[derive(Clone)]
pub struct Imported {
    network: Network,
    /// Sender, owner and number of this import.
    route: (Peer, Peer, ImportId),
    grant: Grant,
    segment: Segment,
}

impl Imported {
    fn send(&self, offset: usize, bytes: &[u8], whole: bool) -> Result<()> {
        self.grant.check_write(offset, bytes.len())?;
        let mut state = self.network.0.borrow_mut();
        state.put(self.route, &self.segment, offset, bytes, whole);
        state.drift();
        Ok(())
    }
}

impl Remote for Imported {
    fn len(&self) -> usize {
        self.segment.len()
    }

    fn put(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.send(offset, from, false)
    }

    fn put_word(&self, offset: usize, value: u64) -> Result<()> {
        assert_aligned(offset, 8);
        self.send(offset, &value.to_ne_bytes(), true)
    }

    fn put_line(&self, offset: usize, line: &Line) -> Result<()> {
        assert_aligned(offset, LINE_BYTES);
        self.send(offset, &line_bytes(line), true)
    }

    fn get(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.grant.check(offset, to.len())?;
        let mut at = 0;
        while at < to.len() {
            {
                let mut state = self.network.0.borrow_mut();
                state.check_alive(self.route.1)?;
                state.drift();
            }
            // Up to the next multiple of eight, so that words are never torn.
            let len = (8 - (offset + at) % 8).min(to.len() - at);
            self.segment.read(offset + at, &mut to[at..at + len]);
            at += len;
        }
        self.network.0.borrow().check_alive(self.route.1)
    }

    fn fence(&self) -> Result<()> {
        let (_, to, import) = self.route;
        self.network.0.borrow_mut().fence(to, import)
    }
}

impl RemoteMemory for InProc {
    const MAPPED: bool = false;
    type Export = Segment;
    type Import = Imported;

    fn allocate(&self, len: usize) -> Result<Segment> {
        Ok(Segment::new(len))
    }

    fn publish(&self, id: SegmentId, memory: &Segment, access: Access) -> Result<()> {
        access.check(self.size)?;
        let mut state = self.network.0.borrow_mut();
        if state.published.contains_key(&(self.me, id)) {
            return Err(FabricError::InUse { id: id.0 });
        }
        let published = Published {
            segment: memory.clone(),
            access,
        };
        state.published.insert((self.me, id), published);
        Ok(())
    }

    fn republish(&self, id: SegmentId, _memory: &Segment, access: Access) -> Result<()> {
        access.check(self.size)?;
        let mut state = self.network.0.borrow_mut();
        let published = state.published.get_mut(&(self.me, id));
        let published = published.ok_or(FabricError::not_published(self.me, id))?;
        published.access = access;
        Ok(())
    }

    /// Imports of the past see memory of their own from now on.
    fn detach(&self, memory: &Segment) -> Result<()> {
        memory.detach();
        Ok(())
    }

    fn gives_back(&self, _peer: Peer) -> bool {
        true
    }

    /// All bytes at once, not whole pages: who needs one of them notices.
    fn give_back(&self, _peer: Peer, memory: &Segment, range: std::ops::Range<usize>) {
        memory.0.borrow().borrow_mut().clear(range);
    }

    fn unpublish(&self, id: SegmentId) -> Result<()> {
        let mut state = self.network.0.borrow_mut();
        let gone = state.published.remove(&(self.me, id));
        gone.map(|_| ()).ok_or(FabricError::not_published(self.me, id))
    }

    fn import(&self, peer: Peer, id: SegmentId, len: usize, permission: Permission) -> Result<Imported> {
        self.check_peer(peer)?;
        let mut state = self.network.0.borrow_mut();
        state.drift();
        state.check_alive(peer)?;
        let published = state
            .published
            .get(&(peer, id))
            .ok_or(FabricError::NotPublished { peer, id: id.0 })?;
        let segment = published.segment.as_imported();
        let granted = published.access.of(self.me);
        let grant = Grant::new((peer, id), segment.len(), granted, (permission, len))?;
        Ok(Imported {
            network: self.network.clone(),
            route: (self.me, peer, state.new_import()),
            grant,
            segment,
        })
    }
}
