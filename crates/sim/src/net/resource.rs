//! What packets pass, one after the other.

use super::PacketId;
use crate::time::{Ps, Rate};
use std::collections::VecDeque;

/// Names a resource of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub u32);

impl ResourceId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a resource is.
#[derive(Clone, Debug)]
pub struct ResourceSpec {
    /// For people: `link 3 to switch`.
    pub name: String,
    /// Bytes that it serves.
    pub rate: Rate,
    /// What each packet takes besides its bytes.
    pub overhead: Ps,
    /// From here to the next resource.
    pub latency: Ps,
    /// Packets that the buffer before it holds, of each lane. `None`: any number.
    pub room: Option<u32>,
    /// Lanes: virtual channels and priorities.
    pub lanes: u8,
    /// Whether lower lanes go first.
    pub priorities: bool,
    /// Lanes of each priority, side by side: virtual channels, among which the age decides.
    pub per_priority: u8,
    /// Whether it begins only when it has the whole packet (store and forward).
    pub whole: bool,
    /// Whether it is a link, on which packets are lost and damaged by chance.
    pub link: bool,
}

impl ResourceSpec {
    /// A link or bus that serves `rate`, with one lane before it of any length.
    pub fn new(name: impl Into<String>, rate: Rate, latency: Ps) -> Self {
        Self {
            name: name.into(),
            rate,
            overhead: Ps::ZERO,
            latency,
            room: None,
            lanes: 1,
            priorities: false,
            per_priority: 1,
            whole: false,
            link: false,
        }
    }

    /// What it does with a packet.
    pub fn service(&self, bytes: u32) -> Ps {
        self.overhead + self.rate.time(u64::from(bytes))
    }
}

/// What a resource has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time in which it served.
    pub busy: Ps,
    /// Time that packets waited before it, summed.
    pub waited: Ps,
    pub packets: u64,
    pub bytes: u64,
    /// Packets that waited before it at once, at most.
    pub longest: u32,
    /// Times that the link itself sent a packet again.
    pub again: u64,
}

impl Usage {
    pub(super) fn note(&mut self, now: Ps, came: Ps, served: Ps, bytes: u32) {
        self.busy += served - now;
        self.waited += now - came;
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}

/// A resource of a network.
pub struct Resource {
    pub spec: ResourceSpec,
    pub usage: Usage,
    pub broken: bool,
    /// Packets before it with the time they came, by lane.
    pub(super) waiting: Vec<VecDeque<(Ps, PacketId)>>,
    /// How many those are.
    pub(super) queued: u32,
    /// Places in the buffers before it, by lane.
    pub(super) places: Vec<Place>,
    /// The packet being served, and its lane.
    pub(super) serving: Option<(PacketId, u8)>,
}

impl Resource {
    pub(super) fn new(spec: ResourceSpec) -> Self {
        Self {
            waiting: (0..spec.lanes).map(|_| VecDeque::new()).collect(),
            places: (0..spec.lanes).map(|_| Place::new(spec.room)).collect(),
            spec,
            usage: Usage::default(),
            queued: 0,
            broken: false,
            serving: None,
        }
    }
}

/// Places for packets, and who waits for one.
pub(super) struct Place {
    free: Option<u32>,
    waiting: Vec<ResourceId>,
}

impl Place {
    pub fn new(free: Option<u32>) -> Self {
        Self {
            free,
            waiting: Vec::new(),
        }
    }

    pub fn free(&self) -> Option<u32> {
        self.free
    }

    pub fn has_room(&self) -> bool {
        self.free != Some(0)
    }

    pub fn take(&mut self) {
        if let Some(free) = &mut self.free {
            *free = free.checked_sub(1).expect("a place was looked for");
        }
    }

    /// `resource` has something that finds no place.
    pub fn note(&mut self, resource: ResourceId) {
        if !self.waiting.contains(&resource) {
            self.waiting.push(resource);
        }
    }

    /// A place more; who waited for one.
    #[must_use]
    pub fn give(&mut self) -> Vec<ResourceId> {
        if let Some(free) = &mut self.free {
            *free += 1;
        }
        std::mem::take(&mut self.waiting)
    }
}
