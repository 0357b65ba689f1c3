//! Settings of the network layer.

use super::transmit::TransmitPolicy;

farpost_tunables::tunables! {
    /// Tunables of the Portals network layer.
    pub struct NetTunables {
        /// Structures for targets, and as many for sources. With fewer than there are peers, peers take turns. Those whose memory is mapped have their own.
        sources: "FARPOST_PORTALS_SOURCES" = 1024, 1..=16384, "structures";
        /// Messages of a process that may be on their way, of each channel. More hide a longer way, fewer stay in the cache.
        tx_pendings: "FARPOST_PORTALS_TX_PENDINGS" = 128, 1..=16384, "messages";
        /// Messages to a process that may be arriving at once. When they run out, senders are asked to come back.
        rx_pendings: "FARPOST_PORTALS_RX_PENDINGS" = 1274, 1..=32768, "messages";
        /// Packets to one process that may be unacknowledged, of each channel; where memory is mapped, four lines each. A receiver acknowledges a quarter of it at a time.
        window: "FARPOST_PORTALS_WINDOW" = 32, 1..=1024, "packets";
        /// Longest body that goes through staging memory where both sides map it. Two copies cost more than one system call beyond some length.
        staged: "FARPOST_PORTALS_STAGED" = 8 << 10, 0..=1 << 20, "bytes";
        /// Bodies that staging memory holds at a time. With fewer than transmit pendings, streams of short bodies are fetched in part, which costs a system call each.
        staging: "FARPOST_PORTALS_STAGING" = 128, 1..=1024, "bodies";
        /// Bytes that a receiver fetches in one system call on shared memory, before it looks after other messages.
        chunk: "FARPOST_PORTALS_CHUNK" = 256 << 10, 4 << 10..=1 << 30, "bytes";
        /// Bodies on shared memory from which on both sides copy. Below, one of them does it sooner alone.
        shared: "FARPOST_PORTALS_SHARED" = 512 << 10, 4 << 10..=1 << 40, "bytes";
        /// Time without an acknowledgement after which packets are sent again. Only what was lost needs it; it doubles with each time.
        resend: "FARPOST_PORTALS_RESEND" = 100, 0..=60_000, "milliseconds";
        /// How messages to several processes take turns: 0 fair, a queue for each process; 1 one FIFO for all, as on the SeaStar, where who takes nothing holds up what is for others.
        transmit: "FARPOST_PORTALS_TRANSMIT" = 0, 0..=1, "policy";
        /// Which messages carry a CRC-32: 0 none, 1 those that cross a wire, 2 all.
        check: "FARPOST_PORTALS_CHECK" = 1, 0..=2, "routes";
    }
}

impl NetTunables {
    /// How messages to several processes take turns.
    pub fn transmit_policy(&self) -> TransmitPolicy {
        TransmitPolicy::from_repr(self.transmit).unwrap_or_default()
    }
}
