//! Packets that pass resources: links, switches and buses, each with a service time, queues and arbitration.
//!
//! A *resource* serves one packet at a time, for `overhead + bytes / rate`. What follows after `latency` is the next resource of the packet's path, or its
//! destination. Before a resource is a buffer of so many packets for each of its *lanes* (virtual channels, priorities); a packet begins to leave a
//! resource only when there is a place for it in the next buffer, and gives its own place back when its tail has left: virtual cut-through with credits
//! (Abts, "The Cray XT4 and Seastar 3-D Torus Interconnect"; the wormhole switches of Myrinet and Arctic's differ in what a blocked packet holds, by less than a packet).
//! Destinations have places too, which whoever takes packets there gives back.
//!
//! Arbitration: a lower priority number (lane / lanes of each priority) goes first if the resource has priorities; beside that the packet that is longest under way
//! (age-based, as in the SeaStar). Nothing here draws a random number but faults.

mod packet;
mod resource;

pub use packet::{Fate, Hop, Packet, PacketId, Path};
pub use resource::{Resource, ResourceId, ResourceSpec, Usage};

use crate::queue::EventQueue;
use crate::record::Recorder;
use crate::time::Ps;
use resource::Place;
use slab::Slab;

/// A host of the machine: what an adapter sits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

impl HostId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What happens in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetEvent {
    /// A packet's head is before its next resource.
    Head(PacketId),
    /// A resource has served its packet.
    Served(ResourceId),
    /// A packet's tail is at its destination.
    Tail(PacketId),
    /// A packet waited before a resource that has failed.
    Cut(PacketId),
}

/// Chances of harm, each of a packet on each link that it passes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// To be lost.
    pub loss: f64,
    /// To arrive damaged.
    pub damage: f64,
}

/// Packets that met harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Harm {
    pub lost: u64,
    pub damaged: u64,
    /// Sent again by the link that had harmed them.
    pub again: u64,
}

/// Times that a link with [retries](Network::set_link_retries) sends a packet again before it gives up.
const MOST_AGAIN: u32 = 16;

/// All resources, and the packets among them. `L` is what packets carry.
pub struct Network<L> {
    resources: Vec<Resource>,
    packets: Slab<Packet<L>>,
    /// Room at destinations, by host and lane.
    sinks: Vec<Vec<Place>>,
    faults: Faults,
    link_retries: bool,
    harm: Harm,
    chance: fastrand::Rng,
    recorder: Recorder,
}

impl<L> Network<L> {
    /// Without resources; `lanes` of every host take so many packets each (`None`: any number).
    pub fn new(hosts: u32, lanes: &[Option<u32>], seed: u64) -> Self {
        let sink = || lanes.iter().map(|room| Place::new(*room)).collect();
        Self {
            resources: Vec::new(),
            packets: Slab::new(),
            sinks: (0..hosts).map(|_| sink()).collect(),
            faults: Faults::default(),
            link_retries: false,
            harm: Harm::default(),
            chance: fastrand::Rng::with_seed(seed),
            recorder: Recorder::default(),
        }
    }

    /// From now on services are written down.
    pub fn record(&mut self, recorder: &Recorder) {
        self.recorder = recorder.clone();
    }

    /// The number of a packet in a recording.
    pub fn travel(&self, id: PacketId) -> u32 {
        self.packets[id.0].travel
    }

    /// One more resource.
    pub fn add(&mut self, spec: ResourceSpec) -> ResourceId {
        let id = ResourceId(u32::try_from(self.resources.len()).expect("fewer resources"));
        self.resources.push(Resource::new(spec));
        id
    }

    /// The resource is a link: [faults](Self::set_faults) happen on it.
    pub fn is_link(&mut self, id: ResourceId) {
        self.resources[id.index()].spec.link = true;
    }

    /// To look at: what it is and what it has done.
    pub fn resource(&self, id: ResourceId) -> &Resource {
        &self.resources[id.index()]
    }

    /// All of them, in the order in which they were added.
    pub fn resources(&self) -> impl Iterator<Item = (ResourceId, &Resource)> {
        (0..).map(ResourceId).zip(&self.resources)
    }

    /// From now on packets meet these chances.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Links check packets themselves, and send again what was harmed.
    pub fn set_link_retries(&mut self) {
        self.link_retries = true;
    }

    /// What has met harm so far.
    pub fn harm(&self) -> Harm {
        self.harm
    }

    /// A resource fails: what comes to it is lost; or it works again.
    pub fn set_broken(&mut self, id: ResourceId, broken: bool) {
        self.resources[id.index()].broken = broken;
    }

    /// A resource fails at `now`: what is in it and before it, and what comes to it, is lost.
    pub fn cut<E: From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, now: Ps, id: ResourceId) {
        let resource = &mut self.resources[id.index()];
        resource.broken = true;
        resource.queued = 0;
        let waiting = resource.waiting.iter_mut().flat_map(std::mem::take);
        for (_, packet) in waiting {
            queue.at(now, NetEvent::Cut(packet).into());
        }
        if let Some((packet, _)) = resource.serving
            && let Some(packet) = self.packets.get_mut(packet.0)
        {
            packet.cut = Some(id);
        }
    }

    /// Packets under way.
    pub fn under_way(&self) -> usize {
        self.packets.len()
    }

    /// Bytes that wait before a resource, without what it serves.
    pub fn bytes_waiting(&self, id: ResourceId) -> u64 {
        let waiting = self.resources[id.index()].waiting.iter().flatten();
        waiting
            .map(|(_, packet)| u64::from(self.packets[packet.0].bytes))
            .sum()
    }

    /// Whether a packet could begin at `first` now.
    pub fn has_room(&self, first: Hop) -> bool {
        self.resources[first.resource.index()].places[first.lane as usize].has_room()
    }

    /// Places left before `first`. `None`: any number.
    pub fn room(&self, first: Hop) -> Option<u32> {
        self.resources[first.resource.index()].places[first.lane as usize].free()
    }

    /// A packet begins its way at `now`: its first bytes are before the first resource of its path. Whoever sends looks first whether there
    /// is [room](Self::has_room), or makes that buffer without bounds.
    pub fn send<E: From<NetEvent>>(
        &mut self,
        queue: &mut EventQueue<E>,
        now: Ps,
        mut packet: Packet<L>,
    ) -> PacketId {
        let first = packet.path[0];
        let hosts = (packet.from.0, packet.to.0);
        packet.travel = self.recorder.travels(packet.mark, hosts, packet.bytes, now);
        self.resources[first.resource.index()].places[first.lane as usize].take();
        let id = PacketId(self.packets.insert(packet));
        queue.at(now, NetEvent::Head(id).into());
        id
    }

    /// A place of a destination's buffer is free again: whoever got a packet of that lane says so when it has taken it.
    pub fn release<E: From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, now: Ps, host: HostId, lane: u8) {
        let waiting = self.sinks[host.index()][lane as usize].give();
        self.retry(queue, now, waiting);
    }

    /// Something has happened; a packet that has ended its way.
    pub fn handle<E: From<NetEvent>>(
        &mut self,
        queue: &mut EventQueue<E>,
        now: Ps,
        event: NetEvent,
    ) -> Option<(Packet<L>, Fate)> {
        match event {
            NetEvent::Head(id) => {
                let hop = self.packets[id.0].hop();
                if let Some(cut) = self.packets[id.0].cut {
                    return self.lose(queue, now, id, hop, cut);
                }
                let resource = &self.resources[hop.resource.index()];
                if resource.broken || resource.spec.link && self.is_lost(id) {
                    return self.lose(queue, now, id, hop, hop.resource);
                }
                let resource = &mut self.resources[hop.resource.index()];
                resource.waiting[hop.lane as usize].push_back((now, id));
                resource.queued += 1;
                self.start(queue, now, hop.resource);
                let resource = &mut self.resources[hop.resource.index()];
                resource.usage.longest = resource.usage.longest.max(resource.queued);
                None
            }
            NetEvent::Served(id) => {
                let resource = &mut self.resources[id.index()];
                let (_, lane) = resource.serving.take().expect("a resource that serves");
                let waiting = resource.places[lane as usize].give();
                self.retry(queue, now, waiting);
                self.start(queue, now, id);
                None
            }
            NetEvent::Tail(id) => {
                let packet = self.packets.remove(id.0);
                let Some(cut) = packet.cut else {
                    self.harm.damaged += u64::from(packet.damaged);
                    return Some((packet, Fate::Arrived));
                };
                self.harm.lost += 1;
                self.release(queue, now, packet.to, packet.lane);
                Some((packet, Fate::Lost(cut)))
            }
            NetEvent::Cut(id) => {
                let hop = self.packets[id.0].hop();
                self.lose(queue, now, id, hop, hop.resource)
            }
        }
    }

    fn lose<E: From<NetEvent>>(
        &mut self,
        queue: &mut EventQueue<E>,
        now: Ps,
        id: PacketId,
        hop: Hop,
        at: ResourceId,
    ) -> Option<(Packet<L>, Fate)> {
        self.harm.lost += 1;
        let packet = self.packets.remove(id.0);
        let waiting = self.resources[hop.resource.index()].places[hop.lane as usize].give();
        self.retry(queue, now, waiting);
        Some((packet, Fate::Lost(at)))
    }

    /// Chance decides what becomes of a packet on a link. True: it is lost.
    fn is_lost(&mut self, id: PacketId) -> bool {
        let Faults { loss, damage } = self.faults;
        let mut happens = |chance: f64| chance > 0.0 && self.chance.f64() < chance;
        if !self.link_retries {
            let lost = happens(loss);
            self.packets[id.0].damaged |= !lost && happens(damage);
            return lost;
        }
        let mut again = 0;
        while again <= MOST_AGAIN && (happens(loss) || happens(damage)) {
            again += 1;
        }
        if again > MOST_AGAIN {
            return true;
        }
        self.packets[id.0].again = again;
        self.harm.again += u64::from(again);
        false
    }

    /// Resources that waited for a place look again.
    fn retry<E: From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, now: Ps, waiting: Vec<ResourceId>) {
        for resource in waiting {
            self.start(queue, now, resource);
        }
    }

    /// Serve the next packet, if the resource is free and there is one that has room ahead.
    fn start<E: From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, now: Ps, id: ResourceId) {
        if self.resources[id.index()].serving.is_some() {
            return;
        }
        let Some(lane) = self.choose(id) else { return };
        let resource = &mut self.resources[id.index()];
        let (came, packet) = resource.waiting[lane].pop_front().expect("chosen");
        let it = &mut self.packets[packet.0];
        // Bytes that come slower than this resource serves keep it until the last has come.
        let mut served = (now + resource.spec.service(it.bytes)).max(it.tail_in);
        let repeated = it.again > 0;
        if repeated {
            // Each time the other end says so, and all of it comes again.
            let again = u64::from(std::mem::take(&mut it.again));
            served += (resource.spec.latency * 2 + resource.spec.service(it.bytes)) * again;
            resource.usage.again += again;
        }
        resource.serving = Some((packet, lane as u8));
        resource.queued -= 1;
        resource.usage.note(now, came, served, it.bytes);
        self.recorder.serves(it.travel, id.0, came, (now, served));
        let latency = resource.spec.latency;
        let begun = if repeated { served } else { now };
        it.tail_in = served + latency;
        it.at += 1;
        match it.path.get(it.at) {
            Some(next) => {
                self.resources[next.resource.index()].places[next.lane as usize].take();
                let whole = self.resources[next.resource.index()].spec.whole;
                let head = if whole { it.tail_in } else { begun + latency };
                queue.at(head, NetEvent::Head(packet).into());
            }
            None => {
                self.sinks[it.to.index()][it.lane as usize].take();
                queue.at(it.tail_in, NetEvent::Tail(packet).into());
            }
        }
        queue.at(served, NetEvent::Served(id).into());
    }

    /// The lane whose first packet goes next. Those that find no place ahead are noted there.
    fn choose(&mut self, id: ResourceId) -> Option<usize> {
        let resource = &self.resources[id.index()];
        let (priorities, lanes) = (resource.spec.priorities, resource.waiting.len());
        let per_priority = u64::from(resource.spec.per_priority);
        let mut best: Option<((u64, Ps, PacketId), usize)> = None;
        for lane in 0..lanes {
            let Some(&(_, packet)) = self.resources[id.index()].waiting[lane].front() else {
                continue;
            };
            let it = &self.packets[packet.0];
            let place = match it.path.get(it.at + 1) {
                Some(next) => &mut self.resources[next.resource.index()].places[next.lane as usize],
                None => &mut self.sinks[it.to.index()][it.lane as usize],
            };
            if !place.has_room() {
                place.note(id);
                continue;
            }
            let rank = if priorities { lane as u64 / per_priority } else { 0 };
            let key = (rank, it.since, packet);
            if best.is_none_or(|(least, _)| key < least) {
                best = Some((key, lane));
            }
        }
        best.map(|(_, lane)| lane)
    }
}

#[cfg(test)]
mod tests;
