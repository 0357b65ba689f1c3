//! The SeaStar of the Cray XT3.
//!
//! The firmware gives `command`, `transmit`, `header_in` and `completion` cycles to each of these; DMA moves `dma` each direction. The structures of the
//! firmware are in its SRAM: `image + sources * source_size + pools * pendings * pending_size`, which must be there.

use crate::machine::Fault;
use crate::machine::quantity::{Bytes, Count, Cycles, Hertz, Quantity};
use crate::time::{Ps, Rate};
use serde::Deserialize;

/// Who matches messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeaStarMode {
    /// The host, by interrupts.
    Generic,
    /// The firmware, without.
    Accelerated,
}

/// What happens when the firmware has no structure left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exhaustion {
    /// The node stops, as in 2005.
    Panic,
    /// The message is refused and sent again with all that follow it.
    GoBackN,
}

/// `[adapter.seastar]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeaStar {
    pub mode: SeaStarMode,
    pub exhaustion: Exhaustion,
    pub sram: Quantity<Bytes>,
    /// The firmware itself.
    pub image: Quantity<Bytes>,
    /// Structures for nodes that messages come from.
    pub sources: Quantity<Count>,
    pub source_size: Quantity<Bytes>,
    /// Structures for messages under way, of each pool.
    pub pendings: Quantity<Count>,
    pub pending_size: Quantity<Bytes>,
    /// Pools: processes with structures of their own.
    pub pools: Quantity<Count>,
    /// Of the PowerPC.
    pub clock: Quantity<Hertz>,
    /// Take a command out of the mailbox.
    pub command: Quantity<Cycles>,
    /// Begin to transmit a message.
    pub transmit: Quantity<Cycles>,
    /// Take in the header of a message.
    pub header_in: Quantity<Cycles>,
    /// End a message, either side.
    pub completion: Quantity<Cycles>,
    /// Match an entry, in accelerated mode.
    pub match_entry: Quantity<Cycles>,
    /// Commands that a mailbox holds.
    pub mailbox: Quantity<Count>,
    /// The DMA engines, each direction.
    pub dma: Quantity<Rate>,
    /// HyperTransport's payload, each direction.
    pub hypertransport: Quantity<Rate>,
    /// From the host's memory to the chip or back, each access.
    pub hypertransport_latency: Quantity<Ps>,
    /// Of the network.
    pub packet: Quantity<Bytes>,
    /// Data in the packet of the header.
    pub inline: Quantity<Bytes>,
    /// Wait before what was refused is sent again.
    pub resend: Quantity<Ps>,
}

impl SeaStar {
    /// What of the SRAM is taken.
    pub fn sram_used(&self) -> u64 {
        let sources = u64::from(self.sources.0) * self.source_size.0;
        let pendings = u64::from(self.pools.0) * u64::from(self.pendings.0);
        self.image.0 + sources + pendings.saturating_mul(self.pending_size.0)
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        if self.sram_used() > self.sram.0 {
            return Err(Fault::new(
                self.sram.at,
                format!(
                    "image, sources and pendings of adapter.seastar need {} bytes, allowed is sram ({})",
                    self.sram_used(),
                    self.sram.0
                ),
            ));
        }
        if self.inline.0 >= self.packet.0 {
            return Err(Fault::new(
                self.inline.at,
                format!(
                    "adapter.seastar.inline ({} bytes) leaves no header in a packet ({} bytes), allowed is less",
                    self.inline.0, self.packet.0
                ),
            ));
        }
        if self.dma.0 > self.hypertransport.0 {
            return Err(Fault::new(
                self.dma.at,
                format!(
                    "adapter.seastar.dma ({} B/s) is more than hypertransport ({} B/s), allowed is at most that",
                    self.dma.0, self.hypertransport.0
                ),
            ));
        }
        Ok(())
    }
}
