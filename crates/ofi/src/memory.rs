//! Segments: exported memory, handles that peers name it by, and imports.
//!
//! An importer gets a handle, an index into a table of ours that says whose it is and what it may do; so a message about a
//! segment is checked by one look. A handle is not used twice, so that what is on its way to a withdrawn segment
//! does not end up in another. Peers that are sent a packet are told first of the segments they may import, so that an
//! import after a packet is no round trip.
//!
//! Cost class: lines and puts are *fast path*; export and import are *set-up path*.

use super::Ofi;
use super::core::Inner;
use super::link::{Announced, Link};
use super::read::READ_FROM;
use super::under_way::OfSegment;
use super::wire::{self, Small, control, outcome};
use farpost_fabric::{
    Access, Completion, FabricError, Grant, LINE_BYTES, Line, LocalMemory, Peer, Permission, RailFigures,
    RemoteMemory, Result, SegmentId, Ticket, TransferMemory,
};
use farpost_mapped::Mapping;
use farpost_net::{Far, NetFabric};
use std::rc::Rc;

fn code(permission: Permission) -> u64 {
    match permission {
        Permission::Read => 0,
        Permission::ReadWrite => 1,
    }
}

fn permission(code: u64) -> Option<Permission> {
    match code {
        0 => Some(Permission::Read),
        1 => Some(Permission::ReadWrite),
        _ => None,
    }
}

impl Inner {
    /// Tell `link` of the segments that it may import and has not heard of.
    pub fn announce(&self, link: &Rc<Link>) {
        self.segments.announce(link, |id, granted, len, handle| {
            let words = [u64::from(id), code(granted), len as u64, u64::from(handle)];
            self.control(link, control::ANNOUNCE, 0, &words);
        });
    }

    pub fn on_announce(&self, link: &Rc<Link>, words: &[u64]) -> Option<()> {
        let announced = Announced {
            permission: permission(words[1])?,
            len: usize::try_from(words[2]).ok()?,
            handle: u32::try_from(words[3]).ok()?,
        };
        let id = u32::try_from(words[0]).ok()?;
        link.directory.borrow_mut().insert(id, announced);
        Some(())
    }

    pub fn on_withdraw(&self, link: &Rc<Link>, words: &[u64]) -> Option<()> {
        let id = u32::try_from(words[0]).ok()?;
        link.directory.borrow_mut().remove(&id);
        *link.withdrawals.borrow_mut().entry(id).or_default() += 1;
        Some(())
    }

    pub fn on_import(&self, link: &Rc<Link>, words: &[u64]) -> Option<()> {
        let (number, id, wanted) = (words[0], u32::try_from(words[1]).ok()?, permission(words[2])?);
        let published = self.segments.published();
        let answer = match published.get(&id) {
            None => [number, outcome::NOT_PUBLISHED, 0, 0],
            Some(segment) if !segment.access.admits(link.peer, wanted) => [number, outcome::DENIED, 0, 0],
            Some(segment) => {
                let len = LocalMemory::len(&segment.memory) as u64;
                let handle = self.segments.grant(link, id, &segment.memory, wanted);
                [number, outcome::YES, len, u64::from(handle)]
            }
        };
        drop(published);
        self.control(link, control::IMPORTED, 0, &answer);
        Some(())
    }

    pub fn on_get(&self, link: &Rc<Link>, words: &[u64]) -> Option<()> {
        let (number, handle, offset, len) = (words[0], words[1], words[2], words[3]);
        self.resolve(link)?;
        let entries = self.segments.entries();
        let entry = entries.get(usize::try_from(handle).ok()?)?;
        if !Rc::ptr_eq(&entry.link, link) || len as usize > link.get_limit() {
            return None;
        }
        let answer = |outcome| Small::control(link.token(), self.me.0, control::GOT, 0, &[number, outcome]);
        let Some(memory) = entry.range(offset, len).ok()? else {
            self.send(link, &answer(outcome::NOT_PUBLISHED));
            return Some(());
        };
        let mut bytes = vec![0; len as usize];
        memory.read(offset as usize, &mut bytes);
        self.send_parts(link, &[answer(outcome::YES).bytes(), &bytes]);
        Some(())
    }
}

/// A peer's segment.
#[derive(Clone)]
pub struct FarSegment {
    inner: Rc<Inner>,
    link: Rc<Link>,
    id: SegmentId,
    handle: u32,
    /// How often its withdrawal had been told before it was imported.
    told: u64,
}

/// A segment as imported.
pub type Imported = farpost_net::Imported<FarSegment>;

impl FarSegment {
    /// Before something is put.
    #[inline]
    fn begin_put(&self) -> Result<()> {
        self.inner.check_alive(&self.link)?;
        self.link.unfenced.set(true);
        Ok(())
    }
}

impl FarSegment {
    fn of_segment(&self) -> OfSegment {
        OfSegment {
            link: Rc::clone(&self.link),
            id: self.id,
            handle: self.handle,
        }
    }
}

impl Far for FarSegment {
    fn put(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.begin_put()?;
        if self.inner.resolve(&self.link).is_none() {
            return self.inner.check_alive(&self.link);
        }
        let most = (self.link.message.get() - wire::GATHER_ROOM) & !7;
        let mut at = offset;
        for part in from.chunks(most) {
            let record = Small::record(self.handle, at, part.len());
            self.inner
                .gather(&self.link, self.handle, record.as_record(), part);
            at += part.len();
        }
        Ok(())
    }

    #[inline]
    fn put_word(&self, offset: usize, value: u64) -> Result<()> {
        self.begin_put()?;
        let message = Small::put(self.link.token(), self.handle, offset).with(value);
        self.inner.send(&self.link, &message);
        Ok(())
    }

    fn put_line_ahead(&self, offset: usize, line: &Line) -> Result<()> {
        // The next line takes it along. Whoever reads it is who takes it from the network, and sees it whole.
        self.put(offset, line.map(u64::to_ne_bytes).as_flattened())
    }

    #[inline]
    fn put_line(&self, offset: usize, line: &Line) -> Result<()> {
        self.begin_put()?;
        let number = offset / LINE_BYTES;
        if number < wire::LINES {
            if self.inner.gathers.get() {
                let record = Small::line(0, self.handle, number as u32, line);
                if self.inner.send_with_gathered(&self.link, record.as_record()) {
                    return Ok(());
                }
            }
            let message = Small::line(self.link.token(), self.handle, number as u32, line);
            self.inner.send(&self.link, &message);
        } else {
            let header = Small::put(self.link.token(), self.handle, offset);
            let bytes = line.map(u64::to_ne_bytes);
            self.inner
                .send_parts(&self.link, &[header.bytes(), bytes.as_flattened()]);
        }
        Ok(())
    }

    fn get(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.inner.check_alive(&self.link)?;
        if self.inner.resolve(&self.link).is_none() {
            return self.inner.check_alive(&self.link);
        }
        if to.len() >= READ_FROM {
            // Messages put before may still be on their way.
            self.fence()?;
            if self
                .inner
                .read_segment(&self.link, (self.id, self.handle), offset, to)?
            {
                return Ok(());
            }
        }
        let mut at = offset;
        for part in to.chunks_mut(self.link.get_limit()) {
            let words = [u64::from(self.handle), at as u64, part.len() as u64];
            let answer = self.inner.ask(&self.link, control::GET, &words, "a get")?;
            let bytes = self.inner.answers.bytes.take();
            if answer[1] != outcome::YES {
                return Err(FabricError::not_published(self.link.peer, self.id));
            }
            if bytes.len() != part.len() {
                let what = "the length of an answer to a get";
                return Err(FabricError::corrupt(self.link.peer, what, bytes.len() as u64));
            }
            part.copy_from_slice(&bytes);
            at += part.len();
        }
        Ok(())
    }

    fn fence(&self) -> Result<()> {
        if self.link.unfenced.get() {
            self.inner.ask(&self.link, control::FENCE, &[], "a fence")?;
            self.link.unfenced.set(false);
            return Ok(());
        }
        self.inner.check_alive(&self.link)
    }

    fn start_put(&self, offset: usize, from: &TransferMemory) -> Result<Completion> {
        let segment = self.of_segment();
        // SAFETY: memory is for one transfer at a time, and this one only reads it.
        self.put(offset, unsafe { from.bytes() })?;
        Ok(self.inner.start_fence(&segment, self.told, from))
    }

    fn start_get(&self, offset: usize, to: &TransferMemory) -> Result<Completion> {
        self.inner.check_alive(&self.link)?;
        if to.is_empty() {
            return Ok(Completion::Done);
        }
        if self.inner.resolve(&self.link).is_none() {
            self.inner.check_alive(&self.link)?;
        }
        Ok(self.inner.start_get(&self.of_segment(), offset, to))
    }

    fn poll_started(&self, ticket: Ticket) -> Result<bool> {
        self.inner.poll_started(ticket)
    }

    fn cancel_started(&self, ticket: Ticket) {
        self.inner.cancel_started(ticket);
    }

    /// Messages to a peer arrive in order, and all puts are messages.
    #[inline]
    fn order(&self) -> Result<()> {
        self.inner.check_alive(&self.link)
    }
}

impl NetFabric for Ofi {
    fn strangers_turned_away(&self) -> u64 {
        self.strangers()
    }

    /// One for all peers: which interfaces a provider uses, it does not say.
    fn rail_figures(&self) -> Vec<RailFigures> {
        let inner = &self.0;
        let met = inner.met.borrow();
        let up = met
            .iter()
            .filter(|link| !link.is_dead() && !link.left.get())
            .count();
        let down = met
            .iter()
            .filter(|link| link.is_dead() && !link.left.get())
            .count();
        let (sent, received) = (&inner.endpoint.sent, &inner.endpoint.received);
        vec![RailFigures {
            name: inner.card.provider.clone(),
            up: up as u32,
            down: down as u32,
            sent: sent.count.get(),
            sent_bytes: sent.bytes.get(),
            received: received.count.get(),
            received_bytes: received.bytes.get(),
            reroutes: 0,
        }]
    }
}

impl RemoteMemory for Ofi {
    const MAPPED: bool = false;
    type Export = Mapping;
    type Import = Imported;

    fn export_with(
        &self,
        id: SegmentId,
        len: usize,
        access: Access,
        begin: impl FnOnce(&Mapping),
    ) -> Result<Mapping> {
        if self.0.segments.published().contains_key(&id.0) {
            return Err(FabricError::InUse { id: id.0 });
        }
        let memory = Mapping::private(len, (self.0.me, id))?;
        begin(&memory);
        self.publish(id, &memory, access)?;
        Ok(memory)
    }

    fn gives_back(&self, _peer: Peer) -> bool {
        true
    }

    /// Puts are messages, which only polls of this process write to a segment. But what peers read by `fi_read` is registered: the
    /// provider holds those pages.
    fn give_back(&self, _peer: Peer, memory: &Mapping, range: std::ops::Range<usize>) {
        if !self.0.is_registered(memory) {
            memory.give_back(range);
        }
    }

    fn unpublish(&self, id: SegmentId) -> Result<()> {
        let inner = &self.0;
        let gone = inner.segments.unpublish(id);
        let memory = gone.ok_or(FabricError::not_published(inner.me, id))?;
        inner.forget_segment(&memory);
        let holders = inner.segments.void_all(id);
        inner.tell_withdrawn(&holders, id);
        Ok(())
    }

    fn import(&self, peer: Peer, id: SegmentId, len: usize, permission: Permission) -> Result<Imported> {
        let inner = &self.0;
        inner.check_peer(peer)?;
        let (owner, wanted) = ((peer, id), (permission, len));
        if peer == inner.me {
            let published = inner.segments.published();
            let segment = published.get(&id.0).ok_or(FabricError::not_published(peer, id))?;
            let found = LocalMemory::len(&segment.memory);
            let grant = Grant::new(owner, found, segment.access.of(peer), wanted)?;
            return Ok(Imported::own(segment.memory.clone(), grant));
        }
        let link = Rc::clone(inner.link(peer));
        inner.check_alive(&link)?;
        let told = link.withdrawals(id.0);
        let (handle, found) = inner.reach(&link, id, len, permission)?;
        let grant = Grant::new(owner, found, Some(permission), wanted)?;
        let inner = Rc::clone(inner);
        Ok(Imported::far(
            FarSegment {
                inner,
                link,
                id,
                handle,
                told,
            },
            grant,
        ))
    }

    fn allocate(&self, len: usize) -> Result<Mapping> {
        Mapping::shared(len)
    }

    fn publish(&self, id: SegmentId, memory: &Mapping, access: Access) -> Result<()> {
        let inner = &self.0;
        access.check(inner.size)?;
        inner.segments.publish(id, memory, access)
    }

    fn republish(&self, id: SegmentId, _memory: &Mapping, access: Access) -> Result<()> {
        let inner = &self.0;
        access.check(inner.size)?;
        let holders = inner.segments.republish(id, &access);
        let holders = holders.ok_or(FabricError::not_published(inner.me, id))?;
        inner.tell_withdrawn(&holders, id);
        Ok(())
    }
}

impl Inner {
    /// Tell those who have handles to a segment that it is withdrawn.
    fn tell_withdrawn(&self, holders: &[Rc<Link>], id: SegmentId) {
        for link in holders.iter().filter(|link| !link.is_dead() && !link.left.get()) {
            self.control(link, control::WITHDRAW, 0, &[id.0.into()]);
        }
    }

    /// Handle and length of a peer's segment: as announced, or asked for.
    fn reach(
        &self,
        link: &Rc<Link>,
        id: SegmentId,
        len: usize,
        permission: Permission,
    ) -> Result<(u32, usize)> {
        let (peer, id) = (link.peer, id.0);
        if let Some(known) = link.directory.borrow().get(&id)
            && known.len >= len
            && known.permission == permission
        {
            return Ok((known.handle, known.len));
        }
        let words = [u64::from(id), code(permission), len as u64];
        let answer = self.ask(link, control::IMPORT, &words, "a question for a segment")?;
        let corrupt = |what, value| FabricError::corrupt(peer, what, value);
        match answer[1] {
            outcome::YES => {
                let handle = u32::try_from(answer[3]).map_err(|_| corrupt("a handle", answer[3]))?;
                let found =
                    usize::try_from(answer[2]).map_err(|_| corrupt("a segment's length", answer[2]))?;
                Ok((handle, found))
            }
            outcome::NOT_PUBLISHED => Err(FabricError::NotPublished { peer, id }),
            outcome::DENIED => Err(FabricError::Denied { peer, id }),
            other => Err(corrupt("an answer about a segment", other)),
        }
    }
}
