//! Segments: this process's own by handle, and those of peers as they announced them.
//!
//! A process tells every peer it is connected to which segments that peer may reach, and under which handle; a
//! handle is never used twice. So an import usually finds what it needs here, and asks the peer only when not.

use super::apply::ControlCode;
use super::peer::PeerState;
use super::state::TcpState;
use super::{Core, Tcp};
use crate::link::OFFSET_LIMIT;
use farpost_fabric::{
    Access, FabricError, Grant, LINE_BYTES, Line, LocalMemory, Peer, Permission, Remote, RemoteMemory,
    SegmentId,
};
use farpost_mapped::Mapping;
use farpost_net::NetFabric;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Segments are whole pages.
const PAGE: usize = 4096;

/// Most segments that one peer may announce, or have refused puts to.
const ANNOUNCED_MAX: usize = 1 << 16;

/// Longest wait for peers to hear that a segment is withdrawn. One that computes meanwhile hears it later, and
/// what it puts until then is refused.
const WITHDRAWAL: Duration = Duration::from_secs(1);

struct OwnSegment {
    id: SegmentId,
    memory: Mapping,
    access: Access,
}

#[derive(Clone, Copy)]
struct PeerSegment {
    handle: u32,
    len: u64,
    permission: Permission,
}

/// A query about a segment of a peer's, and the answer.
struct SegmentQuery {
    asked: Peer,
    id: u32,
    answer: Option<(u32, PeerSegment)>,
}

/// Puts to a peer's segment that the peer refused: in all, and those reported to the caller.
#[derive(Clone, Copy, Default)]
struct RefusedPuts {
    puts: u64,
    reported: u64,
}

/// A frame that announces a segment or answers a query, with the query's token (0: an announcement).
pub struct SegmentNotice {
    pub id: u32,
    handle: u32,
    flag: u32,
    len: u64,
    token: u64,
}

impl SegmentNotice {
    /// Words of it besides the number of the segment.
    pub const WORDS: usize = 3;

    pub fn encode(&self) -> [u64; Self::WORDS] {
        [
            u64::from(self.handle) | u64::from(self.flag) << 32,
            self.len,
            self.token,
        ]
    }

    pub fn decode(id: u32, words: &[u64]) -> Self {
        Self {
            id,
            handle: words[0] as u32,
            flag: (words[0] >> 32) as u32,
            len: words[1],
            token: words[2],
        }
    }

    fn of(handle: usize, mine: &OwnSegment, permission: Permission, token: u64) -> Self {
        Self {
            id: mine.id.0,
            handle: handle as u32,
            flag: code(permission),
            len: LocalMemory::len(&mine.memory) as u64,
            token,
        }
    }
}

#[derive(Default)]
pub struct SegmentTable {
    /// By handle; withdrawn ones are gone.
    mine: Vec<Option<OwnSegment>>,
    theirs: HashMap<(Peer, SegmentId), PeerSegment>,
    told: HashMap<Peer, usize>,
    questions: HashMap<u64, SegmentQuery>,
    /// By peer and handle, for segments that were withdrawn.
    refused: HashMap<Peer, HashMap<u32, RefusedPuts>>,
    /// Puts of peers that were refused here, by peer and handle: in all, and those that the peer was told of.
    refusals: BTreeMap<(Peer, u32), (u64, u64)>,
    next_token: u64,
    /// Withdrawn handles and the peers that have yet to say that they know.
    withdrawals: Vec<(u32, Vec<Peer>)>,
}

/// What was expected of a field, and its value.
type InvalidField = (&'static str, u64);

const ABSENT: u32 = 0;
const DENIED: u32 = 1;

fn code(permission: Permission) -> u32 {
    match permission {
        Permission::Read => 2,
        Permission::ReadWrite => 3,
    }
}

impl SegmentTable {
    fn find(&self, id: SegmentId) -> Option<(usize, &OwnSegment)> {
        let mine = self.mine.iter().enumerate();
        mine.filter_map(|(handle, mine)| Some((handle, mine.as_ref()?)))
            .find(|(_, mine)| mine.id == id)
    }

    /// Whether a peer has announced a segment.
    #[cfg(test)]
    pub fn knows(&self, peer: Peer, id: SegmentId) -> bool {
        self.theirs.contains_key(&(peer, id))
    }

    /// Announce to `peer` all segments that it may reach.
    pub fn announce_all(&self, peer: Peer, remote: &mut PeerState) {
        for (handle, mine) in self.mine.iter().enumerate() {
            if let Some(mine) = mine
                && let Some(permission) = mine.access.of(peer)
            {
                let told = SegmentNotice::of(handle, mine, permission, 0);
                remote.control(ControlCode::Segment, told.id, &told.encode());
            }
        }
    }

    /// The range that `peer` wants to reach. None: the segment was withdrawn.
    #[inline]
    pub fn reach(
        &self,
        peer: Peer,
        handle: u32,
        offset: u64,
        len: usize,
        permission: Permission,
    ) -> Result<Option<(&Mapping, usize)>, InvalidField> {
        let mine = match self.mine.get(handle as usize) {
            Some(Some(mine)) => mine,
            Some(None) => return Ok(None),
            None => return Err(("a segment's handle", u64::from(handle))),
        };
        if !mine.access.admits(peer, permission) {
            return Err(("a segment that it may reach so", u64::from(mine.id.0)));
        }
        let limit = LocalMemory::len(&mine.memory);
        match usize::try_from(offset) {
            Ok(offset) if offset <= limit && len <= limit - offset => Ok(Some((&mine.memory, offset))),
            _ => Err(("an offset inside the segment", offset)),
        }
    }

    /// The answer to a question of `peer`'s.
    pub fn answer(&self, peer: Peer, id: u32, token: u64) -> SegmentNotice {
        let no = |flag| SegmentNotice {
            id,
            handle: 0,
            flag,
            len: 0,
            token,
        };
        match self.find(SegmentId(id)) {
            None => no(ABSENT),
            Some((handle, mine)) => match mine.access.of(peer) {
                None => no(DENIED),
                Some(permission) => SegmentNotice::of(handle, mine, permission, token),
            },
        }
    }

    /// A peer announces a segment, or answers a query.
    pub fn on_notice(&mut self, peer: Peer, told: &SegmentNotice) -> Result<(), InvalidField> {
        let permission = match told.flag {
            ABSENT | DENIED | 2 => Permission::Read,
            3 => Permission::ReadWrite,
            other => return Err(("a segment's access", u64::from(other))),
        };
        if told.len >= OFFSET_LIMIT {
            return Err(("a segment's size", told.len));
        }
        let theirs = PeerSegment {
            handle: told.handle,
            len: told.len,
            permission,
        };
        if told.token != 0 {
            let question = self.questions.get_mut(&told.token);
            let question = question.filter(|q| q.asked == peer && q.answer.is_none());
            let question = question.ok_or(("an answer to a question", told.token))?;
            if question.id != told.id {
                return Err(("the segment that was asked for", u64::from(told.id)));
            }
            question.answer = Some((told.flag, theirs));
        }
        if told.flag > DENIED && self.theirs.insert((peer, SegmentId(told.id)), theirs).is_none() {
            let count = self.told.entry(peer).or_default();
            *count += 1;
            if *count > ANNOUNCED_MAX {
                return Err(("a reasonable number of segments", *count as u64));
            }
        }
        Ok(())
    }

    /// A put of `peer`'s goes to a segment that was withdrawn.
    pub fn refuse(&mut self, peer: Peer, handle: u32) {
        self.refusals.entry((peer, handle)).or_default().0 += 1;
    }

    /// Refused puts that `peer` was not told of yet: handle, and how many in all.
    pub fn refusals_of(&mut self, peer: Peer) -> Vec<(u32, u64)> {
        let of_peer = self.refusals.range_mut((peer, 0)..=(peer, u32::MAX));
        let news = of_peer.filter(|(_, (all, told))| all != told);
        let tell = |(&(_, handle), counts): (&(Peer, u32), &mut (u64, u64))| {
            counts.1 = counts.0;
            (handle, counts.0)
        };
        news.map(tell).collect()
    }

    /// `peer` has refused so many puts to a segment of its, in all.
    pub fn refused(&mut self, peer: Peer, handle: u32, puts: u64) -> Result<(), InvalidField> {
        let bad = Err(("the number of puts that it refused", puts));
        // What others have refused is not held against it.
        let of_peer = self.refused.entry(peer).or_default();
        let room = of_peer.len() < ANNOUNCED_MAX || of_peer.contains_key(&handle);
        let refused = of_peer.get(&handle).copied().unwrap_or_default();
        if puts <= refused.puts || !room {
            return bad;
        }
        of_peer.insert(handle, RefusedPuts { puts, ..refused });
        Ok(())
    }

    /// The puts to a segment that were refused since the last call.
    fn refused_since(&mut self, peer: Peer, handle: u32) -> u64 {
        let of_peer = self.refused.get_mut(&peer);
        match of_peer.and_then(|of_peer| of_peer.get_mut(&handle)) {
            Some(refused) => refused.puts - std::mem::replace(&mut refused.reported, refused.puts),
            None => 0,
        }
    }

    /// A peer has withdrawn a segment.
    pub fn forget(&mut self, peer: Peer, handle: u32) {
        let before = self.theirs.len();
        self.theirs
            .retain(|(of, _), theirs| *of != peer || theirs.handle != handle);
        if let Some(told) = self.told.get_mut(&peer) {
            *told -= before - self.theirs.len();
        }
    }

    /// A peer knows that a segment is withdrawn.
    pub fn forgotten(&mut self, peer: Peer, handle: u32) {
        for (of, peers) in &mut self.withdrawals {
            if *of == handle {
                peers.retain(|p| *p != peer);
            }
        }
    }
}

impl TcpState {
    fn check_export(&self, id: SegmentId, access: &Access) -> Result<(), FabricError> {
        if self.segments.find(id).is_some() {
            return Err(FabricError::InUse { id: id.0 });
        }
        access.check(self.size)
    }

    /// Frames have room for offsets up to a limit.
    fn check_size(&self, len: usize) -> Result<(), FabricError> {
        if len as u64 >= OFFSET_LIMIT && len != usize::MAX {
            return Err(FabricError::unsupported(
                self.me,
                "a segment of so many bytes",
                format!("{len} bytes are wanted, and less than {OFFSET_LIMIT} are possible"),
            ));
        }
        Ok(())
    }

    /// Add a segment and announce it to connected peers.
    fn publish(&mut self, mine: OwnSegment) {
        let handle = self.segments.mine.len();
        for peer in (0..self.size).map(Peer) {
            if let Some(remote) = &mut self.peers[peer.index()]
                && remote.is_active()
                && let Some(permission) = mine.access.of(peer)
            {
                let told = SegmentNotice::of(handle, &mine, permission, 0);
                remote.control(ControlCode::Segment, told.id, &told.encode());
                self.schedule_send(peer);
            }
        }
        self.segments.mine.push(Some(mine));
    }

    /// Withdraw a segment and tell the peers that may reach it. Its handle.
    fn retract(&mut self, id: SegmentId) -> Result<u32, FabricError> {
        let gone = FabricError::not_published(self.me, id);
        let Some((handle, _)) = self.segments.find(id) else {
            return Err(gone);
        };
        let mine = self.segments.mine[handle].take().ok_or(gone)?;
        let mut peers = Vec::new();
        for peer in (0..self.size).map(Peer) {
            if let Some(remote) = &mut self.peers[peer.index()]
                && remote.is_active()
                && mine.access.of(peer).is_some()
            {
                remote.control(ControlCode::Forget, handle as u32, &[]);
                self.schedule_send(peer);
                peers.push(peer);
            }
        }
        self.segments.withdrawals.push((handle as u32, peers));
        self.stop_serving_segment(handle as u32);
        Ok(handle as u32)
    }

    /// Send a query about a segment; its token.
    fn ask(&mut self, peer: Peer, id: SegmentId) -> Result<u64, FabricError> {
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
    fn republish(&mut self, id: SegmentId, access: Access) -> Result<(), FabricError> {
        access.check(self.size)?;
        let Some((handle, _)) = self.segments.find(id) else {
            return Err(FabricError::not_published(self.me, id));
        };
        let Some(mine) = &mut self.segments.mine[handle] else {
            return Ok(());
        };
        let before = std::mem::replace(&mut mine.access, access);
        for peer in (0..self.size).map(Peer) {
            let mine = self.segments.mine[handle].as_ref();
            if let (Some(remote), Some(mine)) = (&mut self.peers[peer.index()], mine)
                && remote.is_active()
                && before.of(peer) != mine.access.of(peer)
            {
                match mine.access.of(peer) {
                    Some(permission) => {
                        let told = SegmentNotice::of(handle, mine, permission, 0);
                        remote.control(ControlCode::Segment, told.id, &told.encode());
                    }
                    None => remote.control(ControlCode::Forget, handle as u32, &[]),
                }
                self.schedule_send(peer);
            }
        }
        Ok(())
    }
}

/// Whose memory an imported segment is.
#[derive(Clone)]
enum Location {
    Local(Mapping),
    Remote { core: Rc<Core>, peer: Peer, handle: u32 },
}

/// A segment that was imported.
#[derive(Clone)]
pub struct Imported {
    at: Location,
    grant: Grant,
}

impl Imported {
    #[inline(always)]
    fn put_line_by(
        &self,
        offset: usize,
        line: &Line,
        how: impl FnOnce(&mut TcpState, Peer, u32, usize, &Line) -> Result<(), FabricError>,
    ) -> Result<(), FabricError> {
        self.grant.check_write(offset, LINE_BYTES)?;
        assert!(
            offset.is_multiple_of(LINE_BYTES),
            "offset {offset} of a line is not aligned"
        );
        match &self.at {
            Location::Local(memory) => {
                memory.store_line(offset, line);
                Ok(())
            }
            Location::Remote { core, peer, handle } => {
                how(&mut core.state.borrow_mut(), *peer, *handle, offset, line)
            }
        }
    }
}

impl Remote for Imported {
    fn len(&self) -> usize {
        self.grant.len
    }

    fn put(&self, offset: usize, from: &[u8]) -> Result<(), FabricError> {
        self.grant.check_write(offset, from.len())?;
        match &self.at {
            Location::Local(memory) => {
                memory.write(offset, from);
                Ok(())
            }
            Location::Remote { core, peer, handle } => {
                core.state.borrow_mut().put(*peer, *handle, offset, from)
            }
        }
    }

    fn put_word(&self, offset: usize, value: u64) -> Result<(), FabricError> {
        self.grant.check_write(offset, 8)?;
        assert!(
            offset.is_multiple_of(8),
            "offset {offset} of a word is not aligned"
        );
        match &self.at {
            Location::Local(memory) => {
                memory.store(offset, value);
                Ok(())
            }
            Location::Remote { core, peer, handle } => {
                core.state.borrow_mut().put_word(*peer, *handle, offset, value)
            }
        }
    }

    #[inline]
    fn put_line(&self, offset: usize, line: &Line) -> Result<(), FabricError> {
        self.put_line_by(offset, line, TcpState::put_line)
    }

    #[inline]
    fn put_line_ahead(&self, offset: usize, line: &Line) -> Result<(), FabricError> {
        self.put_line_by(offset, line, TcpState::put_line_ahead)
    }

    fn get(&self, offset: usize, to: &mut [u8]) -> Result<(), FabricError> {
        self.grant.check(offset, to.len())?;
        match &self.at {
            Location::Local(memory) => {
                memory.read(offset, to);
                Ok(())
            }
            Location::Remote { core, peer, handle } => core.get(*peer, *handle, offset, to),
        }
    }

    fn fence(&self) -> Result<(), FabricError> {
        match &self.at {
            Location::Local(_) => Ok(()),
            Location::Remote { core, peer, handle } => core.fence(*peer, *handle),
        }
    }

    #[inline]
    fn order(&self) -> Result<(), FabricError> {
        // One stream per peer, which keeps its order.
        Ok(())
    }
}

impl Core {
    /// Everything put to `peer` has arrived, or what became of what was put to the segment of that handle.
    fn fence(&self, peer: Peer, handle: u32) -> Result<(), FabricError> {
        let mut wanted = None;
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
            if remote.fenced < wanted {
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
    ) -> Result<Mapping, FabricError> {
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

    fn unpublish(&self, id: SegmentId) -> Result<(), FabricError> {
        let handle = self.core.state.borrow_mut().retract(id)?;
        let started = Instant::now();
        self.core.wait(|state| {
            let states = &state.peers;
            let waiting = state
                .segments
                .withdrawals
                .iter_mut()
                .find(|(of, _)| *of == handle);
            let heard = waiting.is_none_or(|(_, peers)| {
                peers.retain(|peer| {
                    states[peer.index()]
                        .as_ref()
                        .is_some_and(|remote| remote.is_active())
                });
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
        let wanted = (permission, len);
        let theirs = {
            let state = &mut *self.core.state.borrow_mut();
            state.check_peer(peer)?;
            if peer == state.me {
                let gone = FabricError::NotPublished { peer, id: id.0 };
                let (_, mine) = state.segments.find(id).ok_or(gone)?;
                let len = LocalMemory::len(&mine.memory);
                let grant = Grant::new((peer, id), len, mine.access.of(peer), wanted)?;
                let at = Location::Local(mine.memory.clone());
                return Ok(Imported { at, grant });
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
        let at = Location::Remote {
            core: Rc::clone(&self.core),
            peer,
            handle: theirs.handle,
        };
        Ok(Imported { at, grant })
    }

    fn allocate(&self, len: usize) -> Result<Mapping, FabricError> {
        Mapping::shared(len)
    }

    fn publish(&self, id: SegmentId, memory: &Mapping, access: Access) -> Result<(), FabricError> {
        let state = &mut *self.core.state.borrow_mut();
        state.check_export(id, &access)?;
        state.check_size(LocalMemory::len(memory))?;
        let memory = memory.clone();
        state.publish(OwnSegment { id, memory, access });
        Ok(())
    }

    fn republish(&self, id: SegmentId, _memory: &Mapping, access: Access) -> Result<(), FabricError> {
        self.core.state.borrow_mut().republish(id, access)
    }

    fn mapped(_import: &Imported) -> Option<&Mapping> {
        None
    }
}

impl NetFabric for Tcp {
    fn strangers_turned_away(&self) -> u64 {
        self.strangers().all_refused()
    }
}

impl Core {
    /// Ask the peer about a segment.
    fn ask(&self, peer: Peer, id: SegmentId) -> Result<PeerSegment, FabricError> {
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

#[cfg(test)]
mod tests;

#[cfg(fuzzing)]
pub mod fuzzing;
