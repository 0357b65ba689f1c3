//! What the network has for each process: packets that have arrived, segments, faults, counters.

use crate::memory::{self, Memory, OwnProcess};
use crate::net::HostId;
use crate::schedule::Schedule;
use crate::time::Ps;
use farpost_fabric::{
    Access, Counter, Descriptor, FabricError, Fault, FaultLog, LANES, Peer, Result, SegmentId,
};
pub use farpost_simlink::{Arrived, OpId};
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};

/// A published segment.
pub struct Published {
    pub segment: Memory,
    pub access: Access,
}

struct Op {
    owner: Peer,
    /// What is moved, where it is a transfer.
    transfer: Option<Descriptor>,
    /// What it gave, once it has ended: bytes of a read.
    ended: Option<Result<Vec<u8>>>,
}

/// Names an import among all of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImportId(pub usize);

/// What is known of an import.
pub struct ImportState {
    pub from: Peer,
    pub to: Peer,
    /// Puts under way.
    pub under_way: u64,
    /// What the next fence reports.
    pub error: Option<FabricError>,
    /// Fences that end when nothing is under way.
    pub fences: Vec<OpId>,
}

/// One process.
pub struct Process {
    pub host: HostId,
    /// Where it is a process of its own and not part of this one.
    pub own: Option<OwnProcess>,
    pub arrived: [VecDeque<Arrived>; LANES],
    /// How it ended, if it did before its time.
    pub dead: Option<String>,
    faults: FaultLog,
    counters: BTreeMap<Peer, [u64; Counter::COUNT]>,
    rung: bool,
    /// Places of each queue that are taken: packets under way to it, or in it.
    taken: [u32; LANES],
    /// Who found a queue full, and which.
    refused: Vec<(usize, Peer)>,
}

/// All processes of the machine.
pub struct Processes {
    pub schedule: Schedule,
    all: Vec<Process>,
    /// Processes of each host.
    on_host: Vec<u32>,
    published: BTreeMap<(Peer, SegmentId), Published>,
    imports: Slab<ImportState>,
    ops: Slab<Op>,
    /// Processes that have ended before their time.
    deaths: u32,
    /// Puts through these imports were lost, and nobody has been told.
    untold: Vec<ImportId>,
}

impl Processes {
    /// One on each host of the list.
    pub fn new(hosts: &[HostId]) -> Self {
        let process = |host: &HostId| Process {
            host: *host,
            own: None,
            arrived: std::array::from_fn(|_| VecDeque::new()),
            dead: None,
            faults: FaultLog::default(),
            counters: BTreeMap::new(),
            rung: false,
            taken: [0; LANES],
            refused: Vec::new(),
        };
        let most = hosts.iter().map(|host| host.index() + 1).max().unwrap_or(0);
        let mut on_host = vec![0; most];
        for host in hosts {
            on_host[host.index()] += 1;
        }
        Self {
            schedule: Schedule::new(hosts.len() as u32),
            all: hosts.iter().map(process).collect(),
            on_host,
            published: BTreeMap::new(),
            imports: Slab::new(),
            ops: Slab::new(),
            deaths: 0,
            untold: Vec::new(),
        }
    }

    pub fn size(&self) -> u32 {
        self.all.len() as u32
    }

    /// Hosts that have processes.
    pub fn hosts(&self) -> u32 {
        self.on_host.len() as u32
    }

    pub fn on_host(&self, host: HostId) -> u32 {
        self.on_host[host.index()]
    }

    pub fn of(&self, peer: Peer) -> &Process {
        &self.all[peer.index()]
    }

    pub fn of_mut(&mut self, peer: Peer) -> &mut Process {
        &mut self.all[peer.index()]
    }

    pub fn host_of(&self, peer: Peer) -> HostId {
        self.all[peer.index()].host
    }

    /// Something that `peer` may wait for happens at `now`.
    pub fn touch(&mut self, peer: Peer, now: Ps) {
        self.schedule.touch(peer.0, now);
    }

    /// `peer` is rung at `now`.
    pub fn ring(&mut self, peer: Peer, now: Ps) {
        self.all[peer.index()].rung = true;
        self.touch(peer, now);
    }

    pub fn take_rung(&mut self, peer: Peer) -> bool {
        std::mem::take(&mut self.all[peer.index()].rung)
    }

    /// Take a place in a queue of `to` for a packet of `from`. False: `room` places are taken; `from` hears of it when one is free.
    pub fn reserve(&mut self, (from, to): (Peer, Peer), lane: usize, room: u32) -> bool {
        let it = &mut self.all[to.index()];
        if it.taken[lane] < room {
            it.taken[lane] += 1;
            return true;
        }
        if !it.refused.contains(&(lane, from)) {
            it.refused.push((lane, from));
        }
        false
    }

    /// A place of a queue of `of` is free again.
    pub fn release(&mut self, of: Peer, lane: usize, now: Ps) {
        let it = &mut self.all[of.index()];
        it.taken[lane] -= 1;
        let refused = std::mem::take(&mut it.refused);
        let (told, kept): (Vec<_>, Vec<_>) = refused.into_iter().partition(|(of, _)| *of == lane);
        it.refused = kept;
        for (_, peer) in told {
            self.touch(peer, now);
        }
    }

    /// Take a packet of a queue whose places are reserved.
    pub fn take_packet(&mut self, of: Peer, lane: usize, now: Ps) -> Option<Arrived> {
        let packet = self.all[of.index()].arrived[lane].pop_front()?;
        self.release(of, lane, now);
        Some(packet)
    }

    /// # Errors
    /// It is dead.
    pub fn check_alive(&self, peer: Peer) -> Result<()> {
        match &self.of(peer).dead {
            Some(why) => Err(FabricError::dead(peer, why.clone())),
            None => Ok(()),
        }
    }

    // Operations.

    /// `owner` begins something that it will ask about.
    pub fn begin(&mut self, owner: Peer) -> OpId {
        OpId(self.ops.insert(Op {
            owner,
            transfer: None,
            ended: None,
        }))
    }

    /// It ends at `now`.
    pub fn finish(&mut self, op: OpId, now: Ps, result: Result<Vec<u8>>) {
        // Whoever gave it up has removed it.
        if let Some(it) = self.ops.get_mut(op.0) {
            it.ended = Some(result);
            let owner = it.owner;
            self.touch(owner, now);
        }
    }

    /// Whether it has ended; then it is forgotten.
    pub fn ended(&mut self, op: OpId) -> Option<Result<Vec<u8>>> {
        let result = self.ops.get_mut(op.0)?.ended.take()?;
        self.ops.remove(op.0);
        Some(result)
    }

    /// `op` is to move this, as its owner sees it.
    pub fn set_transfer(&mut self, op: OpId, descriptor: &Descriptor) {
        if let Some(it) = self.ops.get_mut(op.0) {
            it.transfer = Some(*descriptor);
        }
    }

    /// Carry out the transfer that `op` is, or `descriptor`, of this process, if it is none.
    ///
    /// # Errors
    /// An address that the peer got wrong; a process that has ended.
    pub fn move_bytes(&self, op: OpId, descriptor: &Descriptor) -> Result<Vec<u8>> {
        let of = |peer: Peer| self.of(peer).own.as_ref();
        match self.ops.get(op.0) {
            // Adapters turn descriptors round; the owner's is the one whose addresses are known to be whose.
            Some(Op {
                owner,
                transfer: Some(it),
                ..
            }) => memory::move_bytes(of(*owner), of(it.peer), it)?,
            Some(_) => memory::move_bytes(None, None, descriptor)?,
            None => {}
        }
        Ok(Vec::new())
    }

    /// Nobody asks any more.
    pub fn forget(&mut self, op: OpId) {
        self.ops.try_remove(op.0);
    }

    // Segments.

    pub fn publish(&mut self, owner: Peer, id: SegmentId, segment: &Memory, access: Access) -> Result<()> {
        access.check(self.size())?;
        if self.published.contains_key(&(owner, id)) {
            return Err(FabricError::InUse { id: id.0 });
        }
        let segment = segment.clone();
        self.published.insert((owner, id), Published { segment, access });
        Ok(())
    }

    pub fn republish(&mut self, owner: Peer, id: SegmentId, access: Access) -> Result<()> {
        access.check(self.size())?;
        let published = self.published.get_mut(&(owner, id));
        published.ok_or(FabricError::not_published(owner, id))?.access = access;
        Ok(())
    }

    pub fn unpublish(&mut self, owner: Peer, id: SegmentId) -> Result<()> {
        let gone = self.published.remove(&(owner, id));
        gone.map(|published| published.segment.withdraw())
            .ok_or(FabricError::not_published(owner, id))
    }

    pub fn published(&self, owner: Peer, id: SegmentId) -> Result<&Published> {
        self.published
            .get(&(owner, id))
            .ok_or(FabricError::not_published(owner, id))
    }

    pub fn import(&mut self, from: Peer, to: Peer) -> ImportId {
        ImportId(self.imports.insert(ImportState {
            from,
            to,
            under_way: 0,
            error: None,
            fences: Vec::new(),
        }))
    }

    pub fn import_of(&mut self, import: ImportId) -> &mut ImportState {
        &mut self.imports[import.0]
    }

    /// `op` ends when no put through `import` is under way.
    pub fn fence(&mut self, import: ImportId, op: OpId, now: Ps) {
        let it = &mut self.imports[import.0];
        if it.under_way > 0 {
            it.fences.push(op);
        } else {
            self.finish(op, now, Ok(Vec::new()));
        }
    }

    /// A put through `import` has ended its way; `error`: not well. Fences that waited for it end at `now`.
    pub fn put_ended(&mut self, import: ImportId, now: Ps, error: Option<FabricError>) {
        let it = &mut self.imports[import.0];
        it.under_way -= 1;
        if error.is_some() {
            self.untold.push(import);
        }
        it.error = it.error.take().or(error);
        if it.under_way == 0 {
            for op in std::mem::take(&mut it.fences) {
                self.finish(op, now, Ok(Vec::new()));
            }
        }
    }

    /// Imports through which puts were lost since this was last asked.
    pub fn take_untold(&mut self) -> Vec<ImportId> {
        std::mem::take(&mut self.untold)
    }

    // Status.

    /// `peer` ends before its time; the first reason stays.
    pub fn kill(&mut self, peer: Peer, why: &str) {
        let it = &mut self.all[peer.index()];
        if it.dead.is_none() {
            it.dead = Some(why.into());
            self.deaths += 1;
        }
    }

    /// Processes that have ended before their time.
    pub fn deaths(&self) -> u32 {
        self.deaths
    }

    pub fn record_fault(&mut self, of: Peer, fault: Fault) {
        if fault.peer.0 < self.size() {
            self.count(of, fault.peer, Counter::Faults, 1);
        }
        self.all[of.index()].faults.record(fault);
    }

    pub fn has_faults(&self, of: Peer) -> bool {
        !self.all[of.index()].faults.is_empty()
    }

    pub fn take_faults(&mut self, of: Peer) -> (Vec<Fault>, u64) {
        self.all[of.index()].faults.take()
    }

    pub fn count(&mut self, of: Peer, about: Peer, counter: Counter, amount: u64) {
        let counters = self.all[of.index()].counters.entry(about).or_default();
        counters[counter as usize] = counters[counter as usize].wrapping_add(amount);
    }

    pub fn counter(&self, of: Peer, about: Peer, counter: Counter) -> u64 {
        let counters = self.all[of.index()].counters.get(&about);
        counters.map_or(0, |counters| counters[counter as usize])
    }
}
