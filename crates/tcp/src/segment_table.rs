//! Segments: this process's own by handle, and those of peers as they announced them.

use super::close_reason::InvalidField;
use super::control::SegmentNotice;
use super::peer::PeerState;
use crate::link::OFFSET_LIMIT;
use farpost_fabric::{Access, LocalMemory, Peer, Permission, SegmentId};
use farpost_mapped::Mapping;
use std::collections::{BTreeMap, HashMap};

/// Most segments that one peer may announce, or have refused puts to.
const ANNOUNCED_MAX: usize = 1 << 16;

pub struct OwnSegment {
    pub id: SegmentId,
    pub memory: Mapping,
    pub access: Access,
}

#[derive(Clone, Copy)]
pub struct PeerSegment {
    pub handle: u32,
    pub len: u64,
    pub permission: Permission,
}

/// A query about a segment of a peer's, and the answer.
pub struct SegmentQuery {
    pub asked: Peer,
    pub id: u32,
    pub answer: Option<(u32, PeerSegment)>,
}

/// Puts to a peer's segment that the peer refused: in all, and those reported to the caller.
#[derive(Clone, Copy, Default)]
pub struct RefusedPuts {
    puts: u64,
    /// Striped ones, which are not among them: each was told by itself.
    striped: u64,
    reported: u64,
}

#[derive(Default)]
pub struct SegmentTable {
    /// By handle; withdrawn ones are gone.
    pub mine: Vec<Option<OwnSegment>>,
    pub theirs: HashMap<(Peer, SegmentId), PeerSegment>,
    told: HashMap<Peer, usize>,
    pub questions: HashMap<u64, SegmentQuery>,
    /// By peer and handle, for segments that were withdrawn.
    refused: HashMap<Peer, HashMap<u32, RefusedPuts>>,
    /// Puts of peers that were refused here, by peer and handle: in all, and those that the peer was told of.
    refusals: BTreeMap<(Peer, u32), (u64, u64)>,
    pub next_token: u64,
    /// Withdrawn handles and the peers that have yet to say that they know.
    pub withdrawals: HashMap<u32, Vec<Peer>>,
}

pub const ABSENT: u32 = 0;
pub const DENIED: u32 = 1;

fn code(permission: Permission) -> u32 {
    match permission {
        Permission::Read => 2,
        Permission::ReadWrite => 3,
    }
}

impl OwnSegment {
    /// For `peer`; none if it may not reach the segment.
    pub fn notice(&self, handle: usize, peer: Peer, token: u64) -> Option<SegmentNotice> {
        let flag = code(self.access.of(peer)?);
        let len = LocalMemory::len(&self.memory) as u64;
        Some(SegmentNotice {
            id: self.id.0,
            handle: handle as u32,
            flag,
            len,
            token,
        })
    }
}

impl SegmentTable {
    pub fn find(&self, id: SegmentId) -> Option<(usize, &OwnSegment)> {
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
            if let Some(told) = mine.as_ref().and_then(|mine| mine.notice(handle, peer, 0)) {
                remote.notice(&told);
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
        let found = self.find(SegmentId(id));
        let flag = if found.is_some() { DENIED } else { ABSENT };
        let told = found.and_then(|(handle, mine)| mine.notice(handle, peer, token));
        told.unwrap_or(SegmentNotice {
            id,
            handle: 0,
            flag,
            len: 0,
            token,
        })
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

    /// `peer` has refused a striped put to a segment of its.
    pub fn count_refused(&mut self, peer: Peer, handle: u32) {
        let of_peer = self.refused.entry(peer).or_default();
        of_peer.entry(handle).or_default().striped += 1;
    }

    /// The puts to a segment that were refused since the last call.
    pub fn refused_since(&mut self, peer: Peer, handle: u32) -> u64 {
        let of_peer = self.refused.get_mut(&peer);
        match of_peer.and_then(|of_peer| of_peer.get_mut(&handle)) {
            Some(refused) => {
                let all = refused.puts + refused.striped;
                all - std::mem::replace(&mut refused.reported, all)
            }
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
        if let Some(peers) = self.withdrawals.get_mut(&handle) {
            peers.retain(|p| *p != peer);
        }
    }
}

#[cfg(test)]
mod tests;
