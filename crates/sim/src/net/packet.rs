//! A packet on its way.

use super::{HostId, ResourceId};
use crate::record::{Mark, Travel};
use crate::time::Ps;
use std::rc::Rc;

/// Names a packet under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(pub(super) usize);

/// A resource on a path, and which of its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    pub resource: ResourceId,
    pub lane: u8,
}

/// What a packet passes, in order. At least one resource.
pub type Path = Rc<[Hop]>;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Arrived,
    /// Before or in this resource.
    Lost(ResourceId),
}

/// A packet with its load.
#[derive(Debug)]
pub struct Packet<L> {
    pub from: HostId,
    pub to: HostId,
    /// On the wire, headers included.
    pub bytes: u32,
    /// Of the destination's buffer: 0 the high priority's.
    pub lane: u8,
    pub path: Path,
    /// When it began, for arbitration by age.
    pub since: Ps,
    /// It has been changed on its way.
    pub damaged: bool,
    pub load: L,
    /// Of which message, for people.
    pub mark: Mark,
    /// Its number in a recording.
    pub(super) travel: u32,
    pub(super) at: usize,
    /// A link was cut under it.
    pub(super) cut: Option<ResourceId>,
    /// Times that the link before which it waits sends it again.
    pub(super) again: u32,
    /// When the last byte is before the next resource.
    pub(super) tail_in: Ps,
}

impl<L> Packet<L> {
    /// `bytes` from host to host along `path`, beginning at `now`; the last of them comes from the sender at `tail`.
    pub fn new(
        (from, to): (HostId, HostId),
        bytes: u32,
        lane: u8,
        path: Path,
        (now, tail): (Ps, Ps),
        load: L,
    ) -> Self {
        assert!(!path.is_empty(), "a path has a resource");
        Self {
            from,
            to,
            bytes,
            lane,
            path,
            since: now,
            damaged: false,
            load,
            mark: Mark::NONE,
            travel: Travel::NONE,
            at: 0,
            cut: None,
            again: 0,
            tail_in: tail,
        }
    }

    pub(super) fn hop(&self) -> Hop {
        self.path[self.at]
    }
}
