//! What a network layer has done.

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Messages sent.
    pub sent: u64,
    /// Bytes of their bodies.
    pub sent_bytes: u64,
    /// Messages that came.
    pub received: u64,
    /// Bytes of their bodies.
    pub received_bytes: u64,
    /// Packets of nothing but acknowledgements sent.
    pub acks: u64,
    /// Refusals sent.
    pub refusals: u64,
    /// Times that no receive pending was free.
    pub exhausted: u64,
    /// Packets sent again.
    pub resent: u64,
    /// Times that nothing was heard for long.
    pub timeouts: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Packets that came before one that was missing.
    pub gaps: u64,
    /// Packets of connections that are over.
    pub stale: u64,
    /// Packets and bodies whose CRC was wrong.
    pub mismatches: u64,
    /// Bodies that could not be fetched.
    pub failed: u64,
    /// Packets that cannot be right.
    pub faults: u64,
}
