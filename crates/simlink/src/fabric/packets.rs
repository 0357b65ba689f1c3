//! Packet queues.

use super::SimFabric;
use crate::link::Link;
use farpost_fabric::{Fabric, PacketQueue, Peer, Port, Priority, Route, TrySend, lane};

impl<L: Link> PacketQueue for SimFabric<L> {
    const ORDERED: bool = true;
    const PACKET_BYTES: usize = L::PACKET_BYTES;

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
        assert!(peer.0 < self.size(), "{peer} does not exist");
        self.link.try_send(peer, lane(port, priority), route, payload)
    }

    fn poll_priority(&self, port: Port, priority: Priority, mut take: impl FnMut(Peer, &[u8])) -> bool {
        match self.link.poll(lane(port, priority)) {
            Some(packet) => {
                take(packet.from, &packet.bytes);
                true
            }
            None => false,
        }
    }

    fn packets_waiting(&self, port: Port, priority: Priority, limit: u32) -> u32 {
        self.link.waiting(lane(port, priority), limit)
    }
}
