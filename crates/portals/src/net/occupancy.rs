//! What the structures of a network layer take.

use super::receive::Receive;
use super::transmit::{COPIED, Transmit};
use super::tunables::NetTunables;
use farpost_fabric::Fabric;

/// What the structures of a network layer take, by the formula of the paper's section 4.2: *M = S Ssize + sum of Pi Psize*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Structures of peers: targets, one of them for answers only, and sources.
    pub sources: u64,
    /// Bytes of one, on average.
    pub source_bytes: u64,
    /// Transmit pendings of both channels, and bytes of one.
    pub tx_pendings: (u64, u64),
    /// Receive pendings, and bytes of one.
    pub rx_pendings: (u64, u64),
    /// Staging memory and copies of answers, bytes.
    pub staging: u64,
}

impl Occupancy {
    /// With these settings on fabric `F`.
    pub fn of<F: Fabric>(config: &NetTunables) -> Self {
        let ((target, tx), (origin, rx)) = (Transmit::<F>::sizes(), Receive::<F>::sizes());
        Self {
            sources: 2 * config.sources + 1,
            source_bytes: (target + origin) as u64 / 2,
            tx_pendings: (2 * config.tx_pendings, tx as u64),
            rx_pendings: (config.rx_pendings, rx as u64),
            staging: config.staged * config.staging + COPIED as u64,
        }
    }

    /// Bytes of structures, *M*.
    pub fn bytes(&self) -> u64 {
        self.sources * self.source_bytes
            + self.tx_pendings.0 * self.tx_pendings.1
            + self.rx_pendings.0 * self.rx_pendings.1
    }
}
