//! The fabric as the engine sees it: with the postbox device the fabric itself, else one whose puts to some or all peers
//! travel as messages of a layer.
//!
//! Cost class: *fast path*; with the postbox device a branch at most.

mod bulk;
mod exports;
mod fm;
mod gets;
mod jam;
mod outbox;

use super::{Device, DeviceConfig};
use exports::Exports;
use farpost_fabric::clock::Clock;
use farpost_fabric::{
    Access, Cost, Counter, Counters, Distance, End, ErrorStatus, Fabric, FabricError, Fault, Interrupt,
    LINE_BYTES, Line, PacketQueue, Peer, Permission, Port, Priority, Remote, RemoteMemory, SegmentId, Time,
    Topology, TrySend, Wake,
};
use fm::ByFm;
use jam::ByJam;
use outbox::{Layer, Outbox};
use std::hint::black_box;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

/// Room in a queue is not announced by a ring.
const UNRUNG_SLEEP: Duration = Duration::from_millis(1);

/// What became of a message offered.
type Offered = Result<bool, FabricError>;

/// A fabric, and the device on it.
pub struct Carried<F: Fabric + 'static> {
    inner: Rc<F>,
    way: Option<Way<F>>,
}

/// The way of messages.
struct Way<F: Fabric + 'static> {
    outbox: Rc<Outbox<F>>,
    exports: Rc<Exports<<F as RemoteMemory>::Export>>,
    /// Which peers it is the way to.
    to: Box<[bool]>,
}

/// A peer's segment.
pub enum Import<F: Fabric + 'static> {
    /// In the fabric's memory.
    Plain(F::Import),
    /// By messages.
    Carried(Far<F>),
}

/// A segment that is written to by messages.
pub struct Far<F: Fabric + 'static> {
    outbox: Rc<Outbox<F>>,
    peer: Peer,
    id: u32,
    len: usize,
}

/// How a peer is rung.
pub enum Bell<B> {
    /// By the fabric.
    Plain(B),
    /// Messages ring by themselves.
    Carried,
}

impl<F: Fabric + 'static> Clone for Import<F> {
    fn clone(&self) -> Self {
        match self {
            Import::Plain(import) => Import::Plain(import.clone()),
            Import::Carried(far) => Import::Carried(Far {
                outbox: Rc::clone(&far.outbox),
                ..*far
            }),
        }
    }
}

impl<F: Fabric + 'static> Carried<F> {
    /// The device that `config` names, on `fabric`.
    pub fn new(fabric: Rc<F>, config: &DeviceConfig) -> Self {
        let (me, size) = (fabric.me(), fabric.size());
        let near = |peer| fabric.maps(peer) && config.tunables.jam_local != 0;
        let to: Box<[bool]> = match config.device {
            // Portals stands beside the fabric and not before it.
            Device::Postbox | Device::Portals => Box::default(),
            Device::Fm => vec![true; size as usize].into(),
            Device::Jam => (0..size).map(|peer| !near(Peer(peer))).collect(),
        };
        if !to.contains(&true) {
            return Self {
                inner: fabric,
                way: None,
            };
        }
        debug_assert!(to.len() > me.index());
        let exports = Rc::new(Exports::new(size));
        let layer = match config.device {
            Device::Jam => Layer::Jam(ByJam::new(Rc::clone(&fabric), Rc::clone(&exports))),
            _ => Layer::Fm(ByFm::new(Rc::clone(&fabric), &config.fm, Rc::clone(&exports))),
        };
        Self {
            inner: fabric,
            way: Some(Way {
                outbox: Rc::new(Outbox::new(layer, size)),
                exports,
                to,
            }),
        }
    }

    /// The fabric below.
    pub fn inner(&self) -> &Rc<F> {
        &self.inner
    }

    /// Whether the fabric itself is the way to `peer`.
    #[inline(always)]
    fn is_plain(&self, peer: Peer) -> bool {
        self.way(peer).is_none()
    }

    /// Block transfers by messages, where all peers are reached by such.
    fn gets(&self) -> Option<&gets::Gets> {
        match &self.way.as_ref()?.outbox.layer {
            Layer::Fm(fm) => Some(&fm.gets),
            Layer::Jam(_) => None,
        }
    }

    /// The way of messages, if it is the way to `peer`.
    #[inline(always)]
    fn way(&self, peer: Peer) -> Option<&Way<F>> {
        let way = self.way.as_ref()?;
        way.to.get(peer.index()).copied().unwrap_or(false).then_some(way)
    }

    /// Let everything leave this process that was put, but for peers that are `gone`; at most for `patience`. True: it
    /// has.
    pub fn flush(&self, patience: Duration, gone: impl Fn(Peer) -> bool) -> bool {
        let Some(way) = &self.way else { return true };
        let until = self.now() + patience;
        way.outbox.layer.rest();
        loop {
            way.outbox.progress();
            if !way.outbox.has_unsent() {
                return true;
            }
            for peer in (0..self.size()).map(Peer).filter(|peer| way.to[peer.index()]) {
                if gone(peer) || self.inner.has_ended(peer) {
                    way.outbox.lose(peer);
                }
            }
            if self.now() > until {
                return false;
            }
            way.outbox.layer.rest();
            self.inner.sleep(UNRUNG_SLEEP, &mut || way.outbox.progress());
        }
    }
}

impl<F: Fabric + 'static> Far<F> {
    #[inline(always)]
    fn put(&self, offset: usize, bytes: &[u8]) -> Result<(), FabricError> {
        let len = self.len;
        if offset > len || bytes.len() > len - offset {
            let end = offset.saturating_add(bytes.len());
            return Err(FabricError::OutOfRange { offset, end, len });
        }
        self.outbox.put(self.peer, self.id, offset, bytes)
    }

    #[cold]
    fn unreadable(&self) -> FabricError {
        FabricError::Unsupported {
            peer: self.peer,
            what: "reading its memory",
            why: "messages only write".into(),
        }
    }
}

impl<F: Fabric + 'static> Remote for Import<F> {
    fn len(&self) -> usize {
        match self {
            Import::Plain(import) => import.len(),
            Import::Carried(far) => far.len,
        }
    }

    fn put(&self, offset: usize, from: &[u8]) -> Result<(), FabricError> {
        match self {
            Import::Plain(import) => import.put(offset, from),
            Import::Carried(far) => far.put(offset, from),
        }
    }

    fn put_word(&self, offset: usize, value: u64) -> Result<(), FabricError> {
        match self {
            Import::Plain(import) => import.put_word(offset, value),
            Import::Carried(far) => far.put(offset, &value.to_le_bytes()),
        }
    }

    fn put_line(&self, offset: usize, line: &Line) -> Result<(), FabricError> {
        self.put_line_words(offset, line, line.len())
    }

    fn put_line_ahead(&self, offset: usize, line: &Line) -> Result<(), FabricError> {
        match self {
            Import::Plain(import) => import.put_line_ahead(offset, line),
            Import::Carried(_) => self.put_line(offset, line),
        }
    }

    #[inline(always)]
    fn put_line_words(&self, offset: usize, line: &Line, words: usize) -> Result<(), FabricError> {
        match self {
            Import::Plain(import) => import.put_line_words(offset, line, words),
            Import::Carried(far) => {
                let mut bytes = [[0; 8]; LINE_BYTES / 8];
                for (to, word) in bytes.iter_mut().zip(&line[..words]) {
                    // Each by itself, as in `farpost_fabric::copy_words`: the line was written a moment ago.
                    *to = black_box(*word).to_le_bytes();
                }
                far.put(offset, &bytes.as_flattened()[..8 * words])
            }
        }
    }

    fn put_lines(&self, offset: usize, from: &[u8]) -> Result<(), FabricError> {
        match self {
            Import::Plain(import) => import.put_lines(offset, from),
            Import::Carried(far) => far.put(offset, from),
        }
    }

    fn put_elements(&self, offset: usize, from: &[u8], size: usize) -> Result<(), FabricError> {
        match self {
            Import::Plain(import) => import.put_elements(offset, from, size),
            Import::Carried(far) => far.put(offset, from),
        }
    }

    fn get(&self, offset: usize, to: &mut [u8]) -> Result<(), FabricError> {
        match self {
            Import::Plain(import) => import.get(offset, to),
            Import::Carried(far) => Err(far.unreadable()),
        }
    }

    fn get_elements(&self, offset: usize, to: &mut [u8], size: usize) -> Result<(), FabricError> {
        match self {
            Import::Plain(import) => import.get_elements(offset, to, size),
            Import::Carried(far) => Err(far.unreadable()),
        }
    }

    fn fence(&self) -> Result<(), FabricError> {
        match self {
            Import::Plain(import) => import.fence(),
            Import::Carried(far) => Err(FabricError::Unsupported {
                peer: far.peer,
                what: "waiting for puts to arrive",
                why: "messages are not answered".into(),
            }),
        }
    }

    /// Messages keep the order of puts.
    fn order(&self) -> Result<(), FabricError> {
        match self {
            Import::Plain(import) => import.order(),
            Import::Carried(far) => far.outbox.check(far.peer),
        }
    }
}

impl<F: Fabric + 'static> Way<F> {
    /// The part of an access list that is about peers to whom this is the way, and the other part.
    fn split(&self, access: &Access) -> (Option<Access>, Option<Access>) {
        match access {
            Access::Everyone(_) => {
                let all = |kind: bool| self.to.contains(&kind).then(|| access.clone());
                (all(true), all(false))
            }
            Access::Only(list) => {
                let those = |kind: bool| {
                    let part: Vec<_> = list
                        .iter()
                        .filter(|(peer, _)| self.goes_to(*peer) == kind)
                        .copied()
                        .collect();
                    (!part.is_empty()).then_some(Access::Only(part))
                };
                (those(true), those(false))
            }
        }
    }

    fn goes_to(&self, peer: Peer) -> bool {
        self.to.get(peer.index()).copied().unwrap_or(false)
    }
}

impl<F: Fabric + 'static> RemoteMemory for Carried<F> {
    const MAPPED: bool = false;
    type Export = F::Export;
    type Import = Import<F>;

    #[inline(always)]
    fn maps(&self, peer: Peer) -> bool {
        self.way(peer).is_none() && self.inner.maps(peer)
    }

    fn export_with(
        &self,
        id: SegmentId,
        len: usize,
        access: Access,
        begin: impl FnOnce(&F::Export),
    ) -> Result<F::Export, FabricError> {
        let id = own_segment(id);
        let Some(way) = &self.way else {
            return self.inner.export_with(id, len, access, begin);
        };
        if way.exports.has(id) {
            return Err(FabricError::InUse { id: id.0 });
        }
        let memory = match way.split(&access) {
            (None, _) => return self.inner.export_with(id, len, access, begin),
            (_, Some(plain)) => self.inner.export_with(id, len, plain, begin)?,
            (_, None) => {
                let memory = self.inner.allocate(len)?;
                begin(&memory);
                memory
            }
        };
        way.exports.set(id, memory.clone(), access);
        Ok(memory)
    }

    fn allocate(&self, len: usize) -> Result<F::Export, FabricError> {
        self.inner.allocate(len)
    }

    fn publish(&self, id: SegmentId, memory: &F::Export, access: Access) -> Result<(), FabricError> {
        let Some(way) = &self.way else {
            return self.inner.publish(id, memory, access);
        };
        if way.exports.has(id) {
            return Err(FabricError::InUse { id: id.0 });
        }
        let (carried, plain) = way.split(&access);
        if let Some(plain) = plain {
            self.inner.publish(id, memory, plain)?;
        }
        if carried.is_some() {
            way.exports.set(id, memory.clone(), access);
        }
        Ok(())
    }

    fn republish(&self, id: SegmentId, memory: &F::Export, access: Access) -> Result<(), FabricError> {
        if self.way.is_none() {
            return self.inner.republish(id, memory, access);
        }
        self.unpublish(id)?;
        self.publish(id, memory, access)
    }

    fn detach(&self, memory: &F::Export) -> Result<(), FabricError> {
        self.inner.detach(memory)
    }

    fn gives_back(&self, peer: Peer) -> bool {
        self.way.is_none() && self.inner.gives_back(peer)
    }

    fn give_back(&self, peer: Peer, memory: &F::Export, range: std::ops::Range<usize>) {
        self.inner.give_back(peer, memory, range);
    }

    fn unpublish(&self, id: SegmentId) -> Result<(), FabricError> {
        let carried = self.way.as_ref().is_some_and(|way| way.exports.remove(id));
        match self.inner.unpublish(id) {
            Err(FabricError::NotPublished { .. }) if carried => Ok(()),
            other => other,
        }
    }

    fn import(
        &self,
        peer: Peer,
        id: SegmentId,
        len: usize,
        permission: Permission,
    ) -> Result<Import<F>, FabricError> {
        let id = own_segment(id);
        match self.way(peer) {
            None => self.inner.import(peer, id, len, permission).map(Import::Plain),
            // Whether it is there the peer knows, which refuses what it has not published.
            Some(way) => Ok(Import::Carried(Far {
                outbox: Rc::clone(&way.outbox),
                peer,
                id: id.0,
                len: len.min(u32::MAX as usize),
            })),
        }
    }

    fn common(&self, peer: Peer) -> Option<F::Export> {
        match self.way(peer) {
            None => self.inner.common(peer),
            Some(_) => None,
        }
    }

    #[inline]
    fn mapped(import: &Import<F>) -> Option<&F::Export> {
        match import {
            Import::Plain(import) => F::mapped(import),
            Import::Carried(_) => None,
        }
    }
}

/// Above the fabric the Portals port is MPI's own interface, beside the program's.
#[inline(always)]
const fn own_port(port: Port) -> Port {
    match port {
        Port::Portals => Port::Device,
        other => other,
    }
}

/// Segments of MPI's own Portals interface, beside those of the program's.
#[inline(always)]
const fn own_segment(id: SegmentId) -> SegmentId {
    match id.0 >> 8 {
        0x7b_0000 => SegmentId(id.0 | 0x80),
        _ => id,
    }
}

impl<F: Fabric + 'static> PacketQueue for Carried<F> {
    const ORDERED: bool = F::ORDERED;

    #[inline]
    fn try_send(&self, peer: Peer, port: Port, priority: Priority, payload: &[u8]) -> TrySend {
        self.inner.try_send(peer, own_port(port), priority, payload)
    }

    #[inline]
    fn poll_priority(&self, port: Port, priority: Priority, take: impl FnMut(Peer, &[u8])) -> bool {
        self.inner.poll_priority(own_port(port), priority, take)
    }

    fn packets_waiting(&self, port: Port, priority: Priority, limit: u32) -> u32 {
        self.inner.packets_waiting(own_port(port), priority, limit)
    }
}

impl<F: Fabric + 'static> Time for Carried<F> {
    #[inline]
    fn clock(&self) -> &Rc<Clock> {
        self.inner.clock()
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }

    #[inline(always)]
    fn charge(&self, cost: Cost) {
        self.inner.charge(cost);
    }
}

impl<F: Fabric + 'static> Interrupt for Carried<F> {
    type Bell = Bell<F::Bell>;

    fn bell(&self, peer: Peer) -> Self::Bell {
        match self.way(peer) {
            None => Bell::Plain(self.inner.bell(peer)),
            Some(_) => Bell::Carried,
        }
    }

    #[inline(always)]
    fn wake_by(&self, bell: &Self::Bell) {
        if let Bell::Plain(bell) = bell {
            self.inner.wake_by(bell);
        }
    }

    #[inline]
    fn wake(&self, peer: Peer) {
        self.inner.wake(peer);
    }

    fn sleep(&self, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> Wake {
        let Some(way) = &self.way else {
            return self.inner.sleep(timeout, ready);
        };
        way.outbox.layer.rest();
        let timeout = if way.outbox.has_unsent() {
            timeout.min(UNRUNG_SLEEP)
        } else {
            timeout
        };
        self.inner.sleep(timeout, ready)
    }

    fn rings(&self) -> u64 {
        self.inner.rings()
    }

    fn host(&self) -> Option<Rc<dyn farpost_fabric::wait::Host>> {
        self.inner.host()
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.inner.descriptor()
    }

    fn arm(&self) -> bool {
        self.inner.arm()
    }
}

impl<F: Fabric + 'static> ErrorStatus for Carried<F> {
    fn record_fault(&self, fault: Fault) {
        self.inner.record_fault(fault);
    }

    fn take_faults(&self) -> (Vec<Fault>, u64) {
        let (mut faults, mut more) = self.inner.take_faults();
        if let Some(way) = &self.way {
            let (layers, and) = way.outbox.layer.take_faults();
            faults.extend(layers);
            more += and;
            for fault in &faults {
                if matches!(fault.error, FabricError::PeerDead { .. }) && way.goes_to(fault.peer) {
                    way.outbox.lose(fault.peer);
                }
            }
        }
        (faults, more)
    }

    fn has_ended(&self, peer: Peer) -> bool {
        self.inner.has_ended(peer)
    }

    fn end_of(&self, peer: Peer) -> Option<End> {
        self.inner.end_of(peer)
    }

    fn is_gone(&self, peer: Peer) -> bool {
        self.inner.is_gone(peer)
    }

    #[inline(always)]
    fn faulted(&self) -> bool {
        self.inner.faulted()
    }
}

impl<F: Fabric + 'static> Counters for Carried<F> {
    #[inline]
    fn count(&self, peer: Peer, counter: Counter, amount: u64) {
        self.inner.count(peer, counter, amount);
    }

    fn counter(&self, of: Peer, peer: Peer, counter: Counter) -> u64 {
        self.inner.counter(of, peer, counter)
    }
}

impl<F: Fabric + 'static> Topology for Carried<F> {
    fn hosts(&self) -> u32 {
        self.inner.hosts()
    }

    fn host_of(&self, peer: Peer) -> u32 {
        self.inner.host_of(peer)
    }

    fn distance(&self, peer: Peer) -> Distance {
        self.inner.distance(peer)
    }

    fn rails(&self, peer: Peer) -> u32 {
        self.inner.rails(peer)
    }

    fn rail_works(&self, peer: Peer, rail: u32) -> bool {
        self.inner.rail_works(peer, rail)
    }

    fn cores_and_processes(&self) -> (u32, u32) {
        self.inner.cores_and_processes()
    }
}

impl<F: Fabric + 'static> Fabric for Carried<F> {
    #[inline]
    fn me(&self) -> Peer {
        self.inner.me()
    }

    #[inline]
    fn size(&self) -> u32 {
        self.inner.size()
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    #[inline(always)]
    fn progress(&self) -> bool {
        match &self.way {
            None => self.inner.progress(),
            Some(way) => way.outbox.progress(),
        }
    }

    fn close(&self, patience: Duration) {
        self.flush(patience, |_| false);
        self.inner.close(patience);
    }
}
