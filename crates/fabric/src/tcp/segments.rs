//! Segments: mine by handle, others' as they were told.
//!
//! A process tells every peer it is connected to which segments that peer may reach, and under which handle; a
//! handle is never used twice. So an import usually finds what it needs here, and asks the peer only when not.

use super::output::Output;
use super::state::State;
use super::wire::{Head, Kind, Wanted};
use super::{Core, Tcp};
use crate::net::NetFabric;
use crate::shm::Mapping;
use crate::{
    Access, FabricError, LINE_BYTES, Line, LocalMemory, Peer, Permission, Remote, RemoteMemory, SegmentId,
};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Segments are whole pages.
const PAGE: usize = 4096;

/// Most segments that one peer may tell of.
const TOLD_MAX: usize = 1 << 16;

/// Longest wait for peers to hear that a segment is withdrawn. One that computes meanwhile hears it later, and
/// what it puts until then is refused.
const WITHDRAWAL: Duration = Duration::from_secs(1);

struct Mine {
    id: SegmentId,
    memory: Mapping,
    access: Access,
}

#[derive(Clone, Copy)]
struct Theirs {
    handle: u64,
    len: u64,
    permission: Permission,
}

/// A question about a segment of a peer's.
enum Answer {
    Awaited,
    Here(u8, Theirs),
}

#[derive(Default)]
pub struct Table {
    /// By handle; withdrawn ones are gone.
    mine: Vec<Option<Mine>>,
    theirs: HashMap<(Peer, SegmentId), Theirs>,
    told: HashMap<Peer, usize>,
    answers: HashMap<u64, Answer>,
    next_token: u64,
    /// Withdrawn handles and the peers that have yet to say that they know.
    withdrawals: Vec<(u64, Vec<Peer>)>,
}

/// What cannot be right, and its value.
type Bad = (&'static str, u64);

const ABSENT: u8 = 0;
const DENIED: u8 = 1;

fn code(permission: Permission) -> u8 {
    match permission {
        Permission::Read => 2,
        Permission::ReadWrite => 3,
    }
}

fn head(handle: usize, mine: &Mine, flag: u8) -> Head {
    Head::new(Kind::Segment, u64::from(mine.id.0), handle as u64)
        .with(Wanted::BYTES)
        .flagged(flag)
}

impl Table {
    fn find(&self, id: SegmentId) -> Option<(usize, &Mine)> {
        let mine = self.mine.iter().enumerate();
        mine.filter_map(|(handle, mine)| Some((handle, mine.as_ref()?)))
            .find(|(_, mine)| mine.id == id)
    }

    /// Tell `peer` of all that it may reach.
    pub fn announce_all(&self, peer: Peer, out: &mut Output) {
        for (handle, mine) in self.mine.iter().enumerate() {
            if let Some(mine) = mine
                && let Some(permission) = mine.access.of(peer)
            {
                let wanted = Wanted {
                    token: 0,
                    len: LocalMemory::len(&mine.memory) as u64,
                };
                out.frame(head(handle, mine, code(permission)), &wanted.encode());
            }
        }
    }

    /// The range that `peer` wants to reach. None: the segment was withdrawn.
    #[inline]
    pub fn reach(
        &self,
        peer: Peer,
        handle: u64,
        offset: u64,
        len: usize,
        permission: Permission,
    ) -> Result<Option<(&Mapping, usize)>, Bad> {
        let mine = match self.mine.get(handle as usize) {
            Some(Some(mine)) => mine,
            Some(None) => return Ok(None),
            None => return Err(("a segment's handle", handle)),
        };
        let granted = mine.access.of(peer);
        if granted.is_none() || granted == Some(Permission::Read) && permission == Permission::ReadWrite {
            return Err(("a segment that it may reach so", u64::from(mine.id.0)));
        }
        let limit = LocalMemory::len(&mine.memory);
        match usize::try_from(offset) {
            Ok(offset) if offset <= limit && len <= limit - offset => Ok(Some((&mine.memory, offset))),
            _ => Err(("an offset inside the segment", offset)),
        }
    }

    /// The answer to a question of `peer`'s.
    pub fn answer(&self, peer: Peer, question: &Head) -> (Head, Wanted) {
        let found = u32::try_from(question.id)
            .ok()
            .and_then(|id| self.find(SegmentId(id)));
        let mut wanted = Wanted {
            token: question.at,
            len: 0,
        };
        let answer = match found {
            None => Head::new(Kind::Segment, question.id, 0)
                .with(Wanted::BYTES)
                .flagged(ABSENT),
            Some((handle, mine)) => match mine.access.of(peer) {
                None => Head::new(Kind::Segment, question.id, 0)
                    .with(Wanted::BYTES)
                    .flagged(DENIED),
                Some(permission) => {
                    wanted.len = LocalMemory::len(&mine.memory) as u64;
                    head(handle, mine, code(permission))
                }
            },
        };
        (answer, wanted)
    }

    /// A peer has told us of a segment, or answered.
    pub fn told(&mut self, peer: Peer, head: &Head, wanted: Wanted) -> Result<(), Bad> {
        let id = u32::try_from(head.id).map_err(|_| ("a segment's number", head.id))?;
        let permission = match head.flag {
            ABSENT | DENIED | 2 => Permission::Read,
            3 => Permission::ReadWrite,
            other => return Err(("a segment's access", u64::from(other))),
        };
        if usize::try_from(wanted.len).is_err() {
            return Err(("a segment's size", wanted.len));
        }
        let theirs = Theirs {
            handle: head.at,
            len: wanted.len,
            permission,
        };
        if wanted.token != 0 {
            let answer = self.answers.get_mut(&wanted.token);
            let answer = answer.ok_or(("an answer to a question", wanted.token))?;
            *answer = Answer::Here(head.flag, theirs);
        }
        if head.flag > DENIED && self.theirs.insert((peer, SegmentId(id)), theirs).is_none() {
            let told = self.told.entry(peer).or_default();
            *told += 1;
            if *told > TOLD_MAX {
                return Err(("a reasonable number of segments", *told as u64));
            }
        }
        Ok(())
    }

    /// A peer has withdrawn a segment.
    pub fn forget(&mut self, peer: Peer, handle: u64) {
        let before = self.theirs.len();
        self.theirs
            .retain(|(of, _), theirs| *of != peer || theirs.handle != handle);
        if let Some(told) = self.told.get_mut(&peer) {
            *told -= before - self.theirs.len();
        }
    }

    /// A peer knows that a segment is withdrawn.
    pub fn forgotten(&mut self, peer: Peer, handle: u64) {
        for (of, peers) in &mut self.withdrawals {
            if *of == handle {
                peers.retain(|p| *p != peer);
            }
        }
    }
}

impl State {
    fn check_export(&self, id: SegmentId, access: &Access) -> Result<(), FabricError> {
        if self.segments.find(id).is_some() {
            return Err(FabricError::InUse { id: id.0 });
        }
        match access {
            Access::Only(list) => list.iter().try_for_each(|(peer, _)| self.check_peer(*peer)),
            Access::Everyone(_) => Ok(()),
        }
    }

    /// A new segment: those who are connected are told.
    fn publish(&mut self, mine: Mine) {
        let handle = self.segments.mine.len();
        for peer in (0..self.size).map(Peer) {
            if let Some(other) = &mut self.others[peer.index()]
                && other.is_there()
                && let Some(permission) = mine.access.of(peer)
            {
                let wanted = Wanted {
                    token: 0,
                    len: LocalMemory::len(&mine.memory) as u64,
                };
                let head = head(handle, &mine, code(permission));
                other.out.frame(head, &wanted.encode());
                self.list(peer);
            }
        }
        self.segments.mine.push(Some(mine));
    }

    /// Send bytes of a segment of ours as the answer to a get.
    pub fn send_segment(&mut self, peer: Peer, token: u64, memory: &Mapping, offset: usize, len: usize) {
        let mut bytes = vec![0; len.min(super::bulk::PIECE)];
        let mut done = 0;
        while done < len {
            let part = &mut bytes[..(len - done).min(super::bulk::PIECE)];
            memory.read(offset + done, part);
            self.say(
                peer,
                Head::new(Kind::Piece, token, done as u64).with(part.len()),
                part,
            );
            done += part.len();
        }
    }
}

/// Where an imported segment is.
#[derive(Clone)]
enum Where {
    Home(Mapping),
    Far { core: Rc<Core>, peer: Peer, handle: u64 },
}

/// A segment that was imported.
#[derive(Clone)]
pub struct Imported {
    at: Where,
    owner: (Peer, SegmentId),
    len: usize,
    permission: Permission,
}

impl Imported {
    #[inline]
    fn check(&self, offset: usize, len: usize) -> Result<(), FabricError> {
        if offset > self.len || len > self.len - offset {
            return Err(FabricError::OutOfRange {
                offset,
                end: offset.saturating_add(len),
                len: self.len,
            });
        }
        Ok(())
    }

    #[inline]
    fn check_write(&self, offset: usize, len: usize) -> Result<(), FabricError> {
        self.check(offset, len)?;
        if self.permission == Permission::Read {
            return Err(FabricError::Denied {
                peer: self.owner.0,
                id: self.owner.1.0,
            });
        }
        Ok(())
    }
}

impl Remote for Imported {
    fn len(&self) -> usize {
        self.len
    }

    fn put(&self, offset: usize, from: &[u8]) -> Result<(), FabricError> {
        self.check_write(offset, from.len())?;
        match &self.at {
            Where::Home(memory) => {
                memory.write(offset, from);
                Ok(())
            }
            Where::Far { core, peer, handle } => core.state.borrow_mut().put(*peer, *handle, offset, from),
        }
    }

    fn put_word(&self, offset: usize, value: u64) -> Result<(), FabricError> {
        self.check_write(offset, 8)?;
        assert!(
            offset.is_multiple_of(8),
            "offset {offset} of a word is not aligned"
        );
        match &self.at {
            Where::Home(memory) => {
                memory.store(offset, value);
                Ok(())
            }
            Where::Far { core, peer, handle } => {
                core.state.borrow_mut().put_word(*peer, *handle, offset, value)
            }
        }
    }

    #[inline]
    fn put_line(&self, offset: usize, line: &Line) -> Result<(), FabricError> {
        self.check_write(offset, LINE_BYTES)?;
        assert!(
            offset.is_multiple_of(LINE_BYTES),
            "offset {offset} of a line is not aligned"
        );
        match &self.at {
            Where::Home(memory) => {
                memory.store_line(offset, line);
                Ok(())
            }
            Where::Far { core, peer, handle } => {
                core.state.borrow_mut().put_line(*peer, *handle, offset, line)
            }
        }
    }

    fn get(&self, offset: usize, to: &mut [u8]) -> Result<(), FabricError> {
        self.check(offset, to.len())?;
        match &self.at {
            Where::Home(memory) => {
                memory.read(offset, to);
                Ok(())
            }
            Where::Far { core, peer, handle } => core.get(*peer, *handle, offset, to, self.owner.1),
        }
    }

    fn fence(&self) -> Result<(), FabricError> {
        match &self.at {
            Where::Home(_) => Ok(()),
            Where::Far { core, peer, .. } => core.fence(*peer),
        }
    }

    #[inline]
    fn order(&self) -> Result<(), FabricError> {
        // One stream per peer, which keeps its order.
        Ok(())
    }
}

impl Core {
    /// Everything put to `peer` has arrived, or what became of it.
    fn fence(&self, peer: Peer) -> Result<(), FabricError> {
        let mut wanted = None;
        self.wait(|state| {
            let other = state.other(peer)?;
            if other.unfenced {
                other.unfenced = false;
                other.fences += 1;
                other.out.frame(Head::new(Kind::Fence, other.fences, 0), &[]);
                state.list(peer);
            }
            let other = state.other(peer)?;
            let wanted = *wanted.get_or_insert(other.fences);
            if other.fenced < wanted {
                return Ok(None);
            }
            let news = other.refused - other.refused_told;
            other.refused_told = other.refused;
            if news > 0 {
                let why = format!("{news} times to a segment that was withdrawn");
                return Err(FabricError::PutFailed { peer, why });
            }
            Ok(Some(()))
        })
    }

    fn get(
        &self,
        peer: Peer,
        handle: u64,
        offset: usize,
        to: &mut [u8],
        id: SegmentId,
    ) -> Result<(), FabricError> {
        if to.is_empty() {
            return Ok(());
        }
        let token = {
            let mut state = self.state.borrow_mut();
            state.other(peer)?;
            let token = state.transfers.begin_get(peer, to.as_mut_ptr(), to.len());
            let wanted = Wanted {
                token,
                len: to.len() as u64,
            };
            let head = Head::new(Kind::Get, handle, offset as u64).with(Wanted::BYTES);
            state.say(peer, head, &wanted.encode());
            token
        };
        self.wait(|state| match state.transfers.poll(token) {
            Ok(false) => Ok(None),
            Ok(true) => Ok(Some(())),
            Err(super::bulk::Failed::Refused(_)) => Err(FabricError::NotPublished { peer, id: id.0 }),
            Err(super::bulk::Failed::Gone(peer)) => Err(state.gone(peer)),
        })
    }
}

impl RemoteMemory for Tcp {
    const MAPPED: bool = false;
    type Export = Mapping;
    type Import = Imported;

    fn export(&self, id: SegmentId, len: usize, access: Access) -> Result<Mapping, FabricError> {
        let state = &mut *self.core.state.borrow_mut();
        state.check_export(id, &access)?;
        // Rounding up past the end of the address space leaves a size that the system refuses.
        let len = len.max(1).checked_next_multiple_of(PAGE).unwrap_or(usize::MAX);
        let memory = Mapping::private(len, (state.me, id))?;
        if len as u64 >= state.tunables.huge_from {
            memory.prefer_huge_pages();
        }
        state.publish(Mine {
            id,
            memory: memory.clone(),
            access,
        });
        Ok(memory)
    }

    fn unpublish(&self, id: SegmentId) -> Result<(), FabricError> {
        let handle = {
            let state = &mut *self.core.state.borrow_mut();
            let Some((handle, _)) = state.segments.find(id) else {
                return Err(FabricError::NotPublished {
                    peer: state.me,
                    id: id.0,
                });
            };
            let Some(mine) = state.segments.mine[handle].take() else {
                return Ok(());
            };
            let mut peers = Vec::new();
            for peer in (0..state.size).map(Peer) {
                if let Some(other) = &mut state.others[peer.index()]
                    && other.is_there()
                    && mine.access.of(peer).is_some()
                {
                    other.out.frame(Head::new(Kind::Forget, handle as u64, 0), &[]);
                    state.list(peer);
                    peers.push(peer);
                }
            }
            state.segments.withdrawals.push((handle as u64, peers));
            handle as u64
        };
        let started = Instant::now();
        self.core.wait(|state| {
            let others = &state.others;
            let waiting = state
                .segments
                .withdrawals
                .iter_mut()
                .find(|(of, _)| *of == handle);
            let heard = waiting.is_none_or(|(_, peers)| {
                peers.retain(|peer| others[peer.index()].as_ref().is_some_and(|other| other.is_up()));
                peers.is_empty()
            });
            if heard || started.elapsed() > WITHDRAWAL {
                state.segments.withdrawals.retain(|(of, _)| *of != handle);
                return Ok(Some(()));
            }
            Ok(None)
        })
    }

    fn import(
        &self,
        peer: Peer,
        id: SegmentId,
        len: usize,
        permission: Permission,
    ) -> Result<Imported, FabricError> {
        let (theirs, memory) = {
            let state = &mut *self.core.state.borrow_mut();
            state.check_peer(peer)?;
            if peer == state.me {
                let gone = FabricError::NotPublished { peer, id: id.0 };
                let (handle, mine) = state.segments.find(id).ok_or(gone)?;
                let theirs = mine.access.of(peer).map(|permission| Theirs {
                    handle: handle as u64,
                    len: LocalMemory::len(&mine.memory) as u64,
                    permission,
                });
                (theirs, Some(mine.memory.clone()))
            } else {
                // Who is gone has no segments.
                state.other(peer)?;
                (state.segments.theirs.get(&(peer, id)).copied(), None)
            }
        };
        let denied = FabricError::Denied { peer, id: id.0 };
        let theirs = match theirs {
            Some(theirs) => theirs,
            None if memory.is_some() => return Err(denied),
            None => self.core.ask(peer, id)?,
        };
        if theirs.permission == Permission::Read && permission == Permission::ReadWrite {
            return Err(denied);
        }
        if len as u64 > theirs.len {
            return Err(FabricError::OutOfRange {
                offset: 0,
                end: len,
                len: theirs.len as usize,
            });
        }
        let at = match memory {
            Some(memory) => Where::Home(memory),
            None => Where::Far {
                core: Rc::clone(&self.core),
                peer,
                handle: theirs.handle,
            },
        };
        Ok(Imported {
            at,
            owner: (peer, id),
            len: theirs.len as usize,
            permission,
        })
    }

    fn mapped(_import: &Imported) -> Option<&Mapping> {
        None
    }
}

impl NetFabric for Tcp {
    fn publish(&self, id: SegmentId, memory: &Mapping, access: Access) -> Result<(), FabricError> {
        let state = &mut *self.core.state.borrow_mut();
        state.check_export(id, &access)?;
        let memory = memory.clone();
        state.publish(Mine { id, memory, access });
        Ok(())
    }
}

impl Core {
    /// Ask the peer about a segment.
    fn ask(&self, peer: Peer, id: SegmentId) -> Result<Theirs, FabricError> {
        let token = {
            let state = &mut *self.state.borrow_mut();
            state.other(peer)?;
            state.segments.next_token += 1;
            let token = state.segments.next_token;
            state.segments.answers.insert(token, Answer::Awaited);
            state.say(peer, Head::new(Kind::Find, u64::from(id.0), token), &[]);
            token
        };
        let answer = self.wait(|state| {
            if let Some(Answer::Here(flag, theirs)) = state.segments.answers.get(&token) {
                return Ok(Some((*flag, *theirs)));
            }
            state.other(peer)?;
            Ok(None)
        });
        self.state.borrow_mut().segments.answers.remove(&token);
        match answer? {
            (ABSENT, _) => Err(FabricError::NotPublished { peer, id: id.0 }),
            (DENIED, _) => Err(FabricError::Denied { peer, id: id.0 }),
            (_, theirs) => Ok(theirs),
        }
    }
}
