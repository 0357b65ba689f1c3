//! What a process asks of the machine, carried out at its time: what it costs the process is spent, the rest goes on by events.

use crate::adapter::{Get, Outgoing, Pair, Put};
use crate::core::Core;
use crate::memory::Memory;
use crate::process::{Arrived, ImportId, OpId};
use farpost_fabric::{Descriptor, Grant, Peer, Permission, Result, Route, SegmentId, TrySend};

/// A segment of a peer's, as its importer has it.
#[derive(Clone)]
pub(crate) struct Reached {
    pub pair: Pair,
    import: ImportId,
    segment: Memory,
}

impl Core {
    pub(crate) fn try_send(&mut self, pair: Pair, lane: usize, route: Route, bytes: &[u8]) -> TrySend {
        let (adapter, kernel) = self.adapter(pair.from, pair.to);
        let packet = Outgoing {
            pair,
            lane,
            route,
            bytes,
        };
        let (time, sent) = adapter.try_send(kernel, packet);
        self.charge(pair.from, time);
        sent
    }

    pub(crate) fn poll(&mut self, me: Peer, lane: usize) -> Option<Arrived> {
        let host = self.kernel.procs.host_of(me);
        let first = self.kernel.procs.of(me).arrived[lane].front();
        let near = first.is_some_and(|packet| self.kernel.procs.host_of(packet.from) == host);
        let (adapter, kernel) = if near { self.local() } else { self.adapter_of(host) };
        let (time, found) = adapter.poll(kernel, me, lane);
        self.charge(me, time);
        found
    }

    pub(crate) fn waiting(&mut self, me: Peer, lane: usize, limit: u32) -> u32 {
        let host = self.kernel.procs.host_of(me);
        let (adapter, kernel) = self.adapter_of(host);
        adapter.waiting(kernel, me, lane, limit as usize) as u32
    }

    pub(crate) fn import(
        &mut self,
        pair: Pair,
        id: SegmentId,
        wanted: (Permission, usize),
    ) -> Result<(Reached, Grant)> {
        self.kernel.procs.check_alive(pair.to)?;
        let published = self.kernel.procs.published(pair.to, id)?;
        let segment = published.segment.as_imported();
        let granted = published.access.of(pair.from);
        let grant = Grant::new((pair.to, id), segment.len(), granted, wanted)?;
        let import = self.kernel.procs.import(pair.from, pair.to);
        let reached = Reached {
            pair,
            import,
            segment,
        };
        Ok((reached, grant))
    }

    /// A process that has ended is found by a fence.
    pub(crate) fn keeps_order(&mut self, to: &Reached, line: bool) -> bool {
        let (adapter, kernel) = self.adapter(to.pair.from, to.pair.to);
        adapter.keeps_order(kernel, line) && kernel.procs.check_alive(to.pair.to).is_ok()
    }

    pub(crate) fn put(&mut self, to: &Reached, offset: usize, bytes: &[u8], whole: bool) -> Result<()> {
        let (adapter, kernel) = self.adapter(to.pair.from, to.pair.to);
        let put = Put {
            pair: to.pair,
            import: to.import,
            segment: &to.segment,
            offset,
            bytes,
            whole,
        };
        let time = adapter.put(kernel, put)?;
        self.charge(to.pair.from, time);
        Ok(())
    }

    pub(crate) fn get(&mut self, from: &Reached, offset: usize, len: usize) -> Result<OpId> {
        self.kernel.procs.check_alive(from.pair.to)?;
        let (adapter, kernel) = self.adapter(from.pair.from, from.pair.to);
        let get = Get {
            pair: from.pair,
            segment: &from.segment,
            offset,
            len,
        };
        let (time, op) = adapter.get(kernel, get)?;
        self.charge(from.pair.from, time);
        Ok(op)
    }

    pub(crate) fn fence(&mut self, of: &Reached) -> Result<OpId> {
        let (adapter, kernel) = self.adapter(of.pair.from, of.pair.to);
        let (time, op) = adapter.fence(kernel, of.pair, of.import)?;
        self.charge(of.pair.from, time);
        Ok(op)
    }

    pub(crate) fn fenced(&mut self, of: &Reached) -> Result<()> {
        self.kernel.procs.check_alive(of.pair.to)?;
        let error = self.kernel.procs.import_of(of.import).error.take();
        error.map_or(Ok(()), Err)
    }

    pub(crate) fn transfers(&mut self, pair: Pair) -> bool {
        self.adapter(pair.from, pair.to).0.transfers()
    }

    pub(crate) fn expose(&mut self, pair: Pair, address: usize, len: usize) -> u64 {
        let (adapter, kernel) = self.adapter(pair.from, pair.to);
        adapter.expose(kernel, pair, address, len)
    }

    pub(crate) fn withdraw(&mut self, me: Peer, key: u64) {
        let host = self.kernel.procs.host_of(me);
        let (adapter, kernel) = self.adapter_of(host);
        adapter.withdraw(kernel, key);
    }

    pub(crate) fn transfer(&mut self, me: Peer, descriptor: &Descriptor) -> Result<OpId> {
        self.kernel.procs.check_alive(descriptor.peer)?;
        let (adapter, kernel) = self.adapter(me, descriptor.peer);
        let (time, op) = adapter.transfer(kernel, me, descriptor)?;
        kernel.procs.set_transfer(op, descriptor);
        self.charge(me, time);
        Ok(op)
    }
}
