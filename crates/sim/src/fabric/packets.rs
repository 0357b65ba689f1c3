//! Packet queues.

use super::SimFabric;
use crate::adapter::{Outgoing, Pair};
use farpost_fabric::{PacketQueue, Peer, Port, Priority, Route, TrySend, lane};

impl PacketQueue for SimFabric {
    const ORDERED: bool = true;
    /// Frames of Fast Messages of up to 600 bytes, with their headers.
    const PACKET_BYTES: usize = 664;

    fn try_send(&self, peer: Peer, port: Port, priority: Priority, payload: &[u8]) -> TrySend {
        self.try_send_by(Route::default(), peer, port, priority, payload)
    }

    fn try_send_by(
        &self,
        route: Route,
        peer: Peer,
        port: Port,
        priority: Priority,
        payload: &[u8],
    ) -> TrySend {
        assert!(
            payload.len() <= Self::PACKET_BYTES,
            "a packet holds {} bytes",
            Self::PACKET_BYTES
        );
        assert!(peer.0 < self.size, "{peer} does not exist");
        self.running.sync(self.me);
        let mut core = self.core();
        let (adapter, kernel) = core.adapter(self.me, peer);
        let (time, sent) = adapter.try_send(
            kernel,
            Outgoing {
                pair: Pair {
                    from: self.me,
                    to: peer,
                },
                lane: lane(port, priority),
                route,
                bytes: payload,
            },
        );
        core.spend(self.me, time);
        sent
    }

    fn poll_priority(&self, port: Port, priority: Priority, mut take: impl FnMut(Peer, &[u8])) -> bool {
        self.running.sync(self.me);
        let found = {
            let mut core = self.core();
            let host = core.kernel.procs.host_of(self.me);
            let lane = lane(port, priority);
            let of_host = core.kernel.procs.of(self.me).arrived[lane].front();
            let near = of_host.is_some_and(|packet| core.kernel.procs.host_of(packet.from) == host);
            let (adapter, kernel) = if near { core.local() } else { core.adapter_of(host) };
            let (time, found) = adapter.poll(kernel, self.me, lane);
            core.spend(self.me, time);
            found
        };
        // The borrow has ended: the closure may send.
        match found {
            Some(packet) => {
                take(packet.from, &packet.bytes);
                true
            }
            None => false,
        }
    }

    fn packets_waiting(&self, port: Port, priority: Priority, limit: u32) -> u32 {
        self.running.sync(self.me);
        let mut core = self.core();
        let host = core.kernel.procs.host_of(self.me);
        let (adapter, kernel) = core.adapter_of(host);
        adapter.waiting(kernel, self.me, lane(port, priority), limit as usize) as u32
    }
}
