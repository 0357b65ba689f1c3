//! The StarT-X NIU on PCI.
//!
//! Single-beat access: a message of `n` words costs `send + n/2 * double_store`, and to receive `receive + n/2 * double_load` besides the status read.
//! Burst access moves 64 bytes at once: `burst_store`, and `receive_burst + burst_read` besides the status read. A status read (`word_read`) tells exact counts and is spread over the messages it tells of.

use crate::machine::quantity::{Bytes, Count, Quantity};
use crate::machine::{Fault, TopologySpec};
use crate::time::{Ps, Rate};
use serde::Deserialize;

/// `[adapter.startx]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StarTX {
    /// Messages that each of the four queues holds.
    pub queue_depth: Quantity<Count>,
    /// Largest message, header included.
    pub message: Quantity<Bytes>,
    /// Two words of it.
    pub header: Quantity<Bytes>,
    /// Smallest payload.
    pub least_payload: Quantity<Bytes>,
    /// Bits of a message's check.
    pub crc_bits: Quantity<Count>,
    /// Peak of the bus.
    pub pci: Quantity<Rate>,
    /// The processor reads 4 bytes: the status word too.
    pub word_read: Quantity<Ps>,
    /// The processor reads 8 bytes of a message, in the general primitives.
    pub double_load: Quantity<Ps>,
    /// The processor reads `burst` bytes at once.
    pub burst_read: Quantity<Ps>,
    /// What one burst moves.
    pub burst: Quantity<Bytes>,
    /// The processor stores 8 bytes.
    pub double_store: Quantity<Ps>,
    /// The processor stores `burst` bytes at once.
    pub burst_store: Quantity<Ps>,
    /// A send by single beats besides its stores.
    pub send: Quantity<Ps>,
    /// A receive by single beats besides its loads.
    pub receive: Quantity<Ps>,
    /// A receive by bursts besides its reads and the status word.
    pub receive_burst: Quantity<Ps>,
    /// From the last store to the link.
    pub out: Quantity<Ps>,
    /// From the link to the receive queue.
    #[serde(rename = "in")]
    pub into: Quantity<Ps>,
    pub rdma: StarTXRdma,
}

/// The engine that moves memory to memory, for one owner at a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StarTXRdma {
    /// Start of a transfer by the driver, at each end.
    pub setup: Quantity<Ps>,
    /// Payload of its packets.
    pub payload: Quantity<Bytes>,
    /// What the bus does of it at either end, set-up of bursts included.
    pub rate: Quantity<Rate>,
    /// After such a time without progress the owner loses it.
    pub owner_timeout: Quantity<Ps>,
}

impl StarTX {
    pub(super) fn check(&self, topology: &TopologySpec) -> Result<(), Fault> {
        let payload = self.message.0.saturating_sub(self.header.0);
        if self.least_payload.0 > payload {
            return Err(Fault::new(
                self.least_payload.at,
                format!(
                    "adapter.startx.least_payload ({} bytes) is more than message minus header ({payload} bytes), allowed is at most that",
                    self.least_payload.0
                ),
            ));
        }
        if self.rdma.payload.0 > payload {
            return Err(Fault::new(
                self.rdma.payload.at,
                format!(
                    "adapter.startx.rdma.payload ({} bytes) is more than message minus header ({payload} bytes), allowed is at most that",
                    self.rdma.payload.0
                ),
            ));
        }
        if self.rdma.rate.0 > self.pci.0 {
            return Err(Fault::new(
                self.rdma.rate.at,
                format!(
                    "adapter.startx.rdma.rate ({} B/s) is more than pci ({} B/s), allowed is at most that",
                    self.rdma.rate.0, self.pci.0
                ),
            ));
        }
        if topology.link().priorities() != 2 {
            return Err(Fault::new(
                self.queue_depth.at,
                format!(
                    "adapter.startx needs two priorities, topology.{} has 1 (link.priorities): allowed is 2",
                    topology.kind()
                ),
            ));
        }
        Ok(())
    }
}
