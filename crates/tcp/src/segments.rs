//! Exporting and importing segments.
//!
//! A process tells every peer it is connected to which segments that peer may reach, and under which handle; a
//! handle is never used twice. So an import usually finds what it needs here, and asks the peer only when not.

use super::control::{ControlCode, SegmentNotice};
use super::peer::{PeerState, PeerStatus};
use super::segment_table::{ABSENT, DENIED, OwnSegment, PeerSegment, SegmentQuery};
use super::state::TcpState;
use super::{Core, Tcp};
use crate::link::{ALL_RAILS, OFFSET_LIMIT};
use farpost_fabric::{
    Access, Completion, FabricError, Grant, Line, LocalMemory, Peer, Permission, RailFigures, RemoteMemory,
    Result, SegmentId, Ticket, TransferMemory,
};
use farpost_mapped::Mapping;
use farpost_net::{Far, NetFabric};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Keys with this bit are segments, by their handle. Of those that are sent in a request for bytes, the bits between say by which rails
/// they shall come; none: by any.
pub const SEGMENT_KEY: u64 = 1 << 63;

/// The rails that a key of a segment names.
pub fn rails_of_key(key: u64) -> u32 {
    match (key >> 32) as u32 & !(1 << 31) {
        0 => ALL_RAILS,
        some => some,
    }
}

/// Segments are whole pages.
const PAGE: usize = 4096;

/// Longest wait for peers to hear that a segment is withdrawn. One that computes meanwhile hears it later, and
/// what it puts until then is refused.
const WITHDRAWAL: Duration = Duration::from_secs(1);

impl TcpState {
    fn check_export(&self, id: SegmentId, access: &Access) -> Result<()> {
        if self.segments.find(id).is_some() {
            return Err(FabricError::InUse { id: id.0 });
        }
        access.check(self.size)
    }

    /// Frames have room for offsets up to a limit.
    fn check_size(&self, len: usize) -> Result<()> {
        if len as u64 >= OFFSET_LIMIT && len != usize::MAX {
            return Err(FabricError::unsupported(
                self.me,
                "a segment of so many bytes",
                format!("{len} bytes are wanted, and less than {OFFSET_LIMIT} are possible"),
            ));
        }
        Ok(())
    }

    /// Tell connected peers what is new about the segment of that handle, where `news` has something for them: how they may reach it now,
    /// or that they may not. Those who were told.
    fn tell(&mut self, handle: usize, news: impl Fn(Peer) -> Option<Option<SegmentNotice>>) -> Vec<Peer> {
        let mut told = Vec::new();
        for peer in (0..self.size).map(Peer) {
            if let Some(remote) = self.peers.at(peer)
                && remote.is_active()
                && let Some(news) = news(peer)
            {
                match news {
                    Some(notice) => remote.notice(&notice),
                    None => remote.control(ControlCode::Forget, handle as u32, &[]),
                }
                self.schedule_send(peer);
                told.push(peer);
            }
        }
        told
    }

    /// Add a segment and announce it to connected peers.
    fn publish(&mut self, mine: OwnSegment) {
        let handle = self.segments.mine.len();
        self.tell(handle, |peer| Some(Some(mine.notice(handle, peer, 0)?)));
        self.segments.mine.push(Some(mine));
    }

    /// Withdraw a segment and tell the peers that may reach it. Its handle.
    fn retract(&mut self, id: SegmentId) -> Result<u32> {
        let found = self.segments.find(id).map(|(handle, _)| handle);
        let handle = found.ok_or(FabricError::not_published(self.me, id))?;
        let mine = self.segments.mine[handle].take();
        let peers = self.tell(handle, |peer| mine.as_ref()?.access.of(peer).map(|_| None));
        self.segments.withdrawals.insert(handle as u32, peers);
        self.stop_serving_segment(handle as u32);
        Ok(handle as u32)
    }

    /// Send a query about a segment; its token.
    fn ask(&mut self, peer: Peer, id: SegmentId) -> Result<u64> {
        self.peer_state(peer)?;
        self.segments.next_token += 1;
        let token = self.segments.next_token;
        let question = SegmentQuery {
            asked: peer,
            id: id.0,
            answer: None,
        };
        self.segments.questions.insert(token, question);
        self.control(peer, ControlCode::Find, id.0, &[token]);
        Ok(token)
    }

    /// Replace a segment's access list and tell connected peers whose access changed.
    fn republish(&mut self, id: SegmentId, access: Access) -> Result<()> {
        access.check(self.size)?;
        let found = self.segments.find(id).map(|(handle, _)| handle);
        let handle = found.ok_or(FabricError::not_published(self.me, id))?;
        let Some(mut mine) = self.segments.mine[handle].take() else {
            return Ok(());
        };
        let before = std::mem::replace(&mut mine.access, access);
        self.tell(handle, |peer| {
            let changed = before.of(peer) != mine.access.of(peer);
            changed.then(|| mine.notice(handle, peer, 0))
        });
        self.segments.mine[handle] = Some(mine);
        Ok(())
    }
}

/// A peer's segment.
#[derive(Clone)]
pub struct FarSegment {
    core: Rc<Core>,
    peer: Peer,
    handle: u32,
    /// The rails that long puts and gets are striped over, a bit each; 0: puts are not striped, and gets are over all.
    rails: Cell<u32>,
}

/// A segment that was imported.
pub type Imported = farpost_net::Imported<FarSegment>;

impl Far for FarSegment {
    fn put(&self, offset: usize, from: &[u8]) -> Result<()> {
        let rails = self.rails.get();
        if rails != 0 {
            return (self.core).put_over((self.peer, rails), self.handle, offset, from);
        }
        self.core
            .state
            .borrow_mut()
            .put(self.peer, self.handle, offset, from)
    }

    fn put_word(&self, offset: usize, value: u64) -> Result<()> {
        self.core
            .state
            .borrow_mut()
            .put_word(self.peer, self.handle, offset, value)
    }

    #[inline]
    fn put_line(&self, offset: usize, line: &Line) -> Result<()> {
        self.core
            .state
            .borrow_mut()
            .put_line(self.peer, self.handle, offset, line)
    }

    #[inline]
    fn put_line_ahead(&self, offset: usize, line: &Line) -> Result<()> {
        self.core
            .state
            .borrow_mut()
            .put_line_ahead(self.peer, self.handle, offset, line)
    }

    fn get(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        if self.rails.get() != 0 {
            self.core.order_striped(self.peer)?;
        }
        self.core
            .get((self.peer, self.rails.get()), self.handle, offset, to)
    }

    fn fence(&self) -> Result<()> {
        self.core.fence(self.peer, self.handle)
    }

    #[inline]
    fn order(&self) -> Result<()> {
        // One stream per peer, which keeps its order, but for what is striped.
        match self.rails.get() {
            0 => Ok(()),
            _ => self.core.order_striped(self.peer),
        }
    }

    fn stripe(&self, rails: u32) {
        self.rails.set(rails);
    }

    fn start_put(&self, offset: usize, from: &TransferMemory) -> Result<Completion> {
        let to = (self.peer, self.rails.get());
        self.core.start_put(to, self.handle, offset, from)
    }

    fn start_get(&self, offset: usize, to: &TransferMemory) -> Result<Completion> {
        let from = (self.peer, self.rails.get());
        self.core.start_get(from, self.handle, offset, to)
    }

    fn poll_started(&self, ticket: Ticket) -> Result<bool> {
        self.core.poll_started(ticket)
    }

    fn cancel_started(&self, ticket: Ticket) {
        self.core.cancel_started(ticket);
    }
}

impl Core {
    /// Everything put to `peer` has arrived, or what became of what was put to the segment of that handle.
    fn fence(&self, peer: Peer, handle: u32) -> Result<()> {
        let mut wanted = None;
        let until = self.state.borrow().transfers.next_token;
        self.wait(|state| {
            let remote = state.peer_state(peer)?;
            if remote.unfenced {
                remote.unfenced = false;
                remote.fences += 1;
                let number = remote.fences;
                remote.control(ControlCode::Fence, 0, &[number]);
                state.schedule_send(peer);
            }
            let remote = state.peer_state(peer)?;
            let wanted = *wanted.get_or_insert(remote.fences);
            if remote.fenced < wanted || !state.has_striped(peer, until) {
                return Ok(None);
            }
            let news = state.segments.refused_since(peer, handle);
            if news > 0 {
                let why = format!("{news} times to a segment that was withdrawn");
                return Err(FabricError::put_failed(peer, why));
            }
            Ok(Some(()))
        })
    }
}

impl RemoteMemory for Tcp {
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
        let state = &mut *self.core.state.borrow_mut();
        state.check_export(id, &access)?;
        // Rounding up past the end of the address space leaves a size that the system refuses.
        let len = len.max(1).checked_next_multiple_of(PAGE).unwrap_or(usize::MAX);
        state.check_size(len)?;
        let memory = Mapping::private(len, (state.me, id))?;
        if len as u64 >= state.settings.tcp.huge_from {
            memory.prefer_huge_pages();
        }
        begin(&memory);
        state.publish(OwnSegment {
            id,
            memory: memory.clone(),
            access,
        });
        Ok(memory)
    }

    fn gives_back(&self, _peer: Peer) -> bool {
        true
    }

    /// Only polls of this process write what peers put.
    fn give_back(&self, _peer: Peer, memory: &Mapping, range: std::ops::Range<usize>) {
        memory.give_back(range);
    }

    fn unpublish(&self, id: SegmentId) -> Result<()> {
        let handle = self.core.state.borrow_mut().retract(id)?;
        let started = Instant::now();
        self.core.wait(|state| {
            let active = |peer: &Peer| state.peers.get(*peer).is_some_and(PeerState::is_active);
            let waiting = state.segments.withdrawals.get_mut(&handle);
            let heard = waiting.is_none_or(|peers| {
                peers.retain(active);
                peers.is_empty()
            });
            if heard || started.elapsed() > WITHDRAWAL {
                state.segments.withdrawals.remove(&handle);
                return Ok(Some(()));
            }
            Ok(None)
        })
    }

    fn import(&self, peer: Peer, id: SegmentId, len: usize, permission: Permission) -> Result<Imported> {
        let wanted = (permission, len);
        let theirs = {
            let state = &mut *self.core.state.borrow_mut();
            state.check_peer(peer)?;
            if peer == state.me {
                let (_, mine) = (state.segments.find(id)).ok_or(FabricError::not_published(peer, id))?;
                let len = LocalMemory::len(&mine.memory);
                let grant = Grant::new((peer, id), len, mine.access.of(peer), wanted)?;
                return Ok(Imported::own(mine.memory.clone(), grant));
            }
            // A peer that is gone has no segments.
            state.peer_state(peer)?;
            state.segments.theirs.get(&(peer, id)).copied()
        };
        let theirs = match theirs {
            Some(theirs) => theirs,
            None => self.core.ask(peer, id)?,
        };
        let grant = Grant::new((peer, id), theirs.len as usize, Some(theirs.permission), wanted)?;
        let (core, handle) = (Rc::clone(&self.core), theirs.handle);
        let segment = FarSegment {
            core,
            peer,
            handle,
            rails: Cell::new(0),
        };
        Ok(Imported::far(segment, grant))
    }

    fn allocate(&self, len: usize) -> Result<Mapping> {
        Mapping::shared(len)
    }

    fn publish(&self, id: SegmentId, memory: &Mapping, access: Access) -> Result<()> {
        let state = &mut *self.core.state.borrow_mut();
        state.check_export(id, &access)?;
        state.check_size(LocalMemory::len(memory))?;
        let memory = memory.clone();
        state.publish(OwnSegment { id, memory, access });
        Ok(())
    }

    fn republish(&self, id: SegmentId, _memory: &Mapping, access: Access) -> Result<()> {
        self.core.state.borrow_mut().republish(id, access)
    }
}

impl NetFabric for Tcp {
    fn strangers_turned_away(&self) -> u64 {
        self.strangers().all_refused()
    }

    fn rail_figures(&self) -> Vec<RailFigures> {
        let state = self.core.state.borrow();
        let mut all: Vec<RailFigures> = Vec::new();
        for remote in state.peers.iter() {
            let active = remote.status == PeerStatus::Active;
            for (at, rail) in remote.rails.iter().enumerate() {
                let name = rail.candidates.first().map_or("?", |of| of.interface.as_str());
                let figures = remote.link.rail_figures(at, active);
                match all.iter_mut().find(|of| of.name == name) {
                    Some(of) => of.add(&figures),
                    None => all.push(RailFigures {
                        name: name.to_owned(),
                        ..figures
                    }),
                }
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

impl Core {
    /// Ask the peer about a segment.
    fn ask(&self, peer: Peer, id: SegmentId) -> Result<PeerSegment> {
        let token = self.state.borrow_mut().ask(peer, id)?;
        let answer = self.wait(|state| {
            let question = state.segments.questions.get(&token);
            if let Some(answer) = question.and_then(|question| question.answer) {
                return Ok(Some(answer));
            }
            state.peer_state(peer)?;
            Ok(None)
        });
        self.state.borrow_mut().segments.questions.remove(&token);
        match answer? {
            (ABSENT, _) => Err(FabricError::NotPublished { peer, id: id.0 }),
            (DENIED, _) => Err(FabricError::Denied { peer, id: id.0 }),
            (_, theirs) => Ok(theirs),
        }
    }
}

#[cfg(fuzzing)]
pub mod fuzzing;
