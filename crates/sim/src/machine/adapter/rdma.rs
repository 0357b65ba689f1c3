//! A generic interface of today for remote memory access.
//!
//! The processor rings a doorbell; the interface fetches the descriptor (not for what is inline) and the data by DMA, sends packets of
//! `packet + header` bytes, and writes the data and a completion on the other side.

use crate::machine::Fault;
use crate::machine::quantity::{Bytes, Count, Quantity};
use crate::time::{Ps, Rate};
use serde::Deserialize;

/// `[adapter.rdma]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rdma {
    /// What the processor gives to an operation and its doorbell.
    pub doorbell: Quantity<Ps>,
    /// Read of host memory by the interface: a round trip on its bus.
    pub fetch: Quantity<Ps>,
    /// Write to host memory by the interface.
    pub write: Quantity<Ps>,
    /// What the interface gives to each packet, either side.
    pub process: Quantity<Ps>,
    /// Of the bus, each direction.
    pub dma: Quantity<Rate>,
    /// Payload of a packet at most.
    pub packet: Quantity<Bytes>,
    /// Of a packet, besides its payload.
    pub header: Quantity<Bytes>,
    /// Data that goes with the doorbell at most.
    pub inline: Quantity<Bytes>,
    /// Operations that a send queue holds.
    pub queue_depth: Quantity<Count>,
}

impl Rdma {
    pub(super) fn check(&self) -> Result<(), Fault> {
        if self.inline.0 > self.packet.0 {
            return Err(Fault::new(
                self.inline.at,
                format!(
                    "adapter.rdma.inline ({} bytes) is more than packet ({} bytes), allowed is at most that",
                    self.inline.0, self.packet.0
                ),
            ));
        }
        Ok(())
    }
}
