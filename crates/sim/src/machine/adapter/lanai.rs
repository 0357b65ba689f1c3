//! Myrinet's interface with its LANai processor, on the SBus.
//!
//! The LANai executes `instructions * cycles_per_instruction / clock` for each packet, and sets a channel's DMA up in `channel_setup`.
//! [`adapter::lanai`](crate::adapter::lanai) says what it does.

use crate::machine::Fault;
use crate::machine::quantity::{Bytes, Count, Cycles, Hertz, Quantity, Ratio};
use crate::time::{Ps, Rate};
use serde::Deserialize;

/// The loop that the LANai runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LanaiProgram {
    /// Looks at each source of work in turn.
    Baseline,
    /// Sends or receives as long as there is the same to do.
    Streamed,
}

/// How packets pass the SBus on their way out. In is always DMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LanaiBus {
    /// The processor stores them into the LANai's memory.
    Hybrid,
    /// The processor copies them to memory for DMA, from where the LANai takes them.
    AllDma,
}

/// `[adapter.lanai]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lanai {
    pub program: LanaiProgram,
    pub bus: LanaiBus,
    /// Whether it manages the host's receive queue (FM's buffer management).
    pub manage_buffers: bool,
    /// Whether it interprets each received packet by a `switch()`.
    pub interpret: bool,
    /// All of its own.
    pub memory: Quantity<Bytes>,
    /// Of it that its program takes.
    pub program_size: Quantity<Bytes>,
    pub clock: Quantity<Hertz>,
    pub cycles_per_instruction: Quantity<Ratio>,
    /// Instructions to send a packet in the baseline loop, on average; so are those below. To receive one it takes as much more than the streamed loop.
    pub baseline: Quantity<Ratio>,
    /// Instructions to send a packet in the streamed loop.
    pub streamed: Quantity<Ratio>,
    /// Instructions to receive a packet in the streamed loop.
    pub receive: Quantity<Ratio>,
    /// Instructions for DMA to or from the host: once for each, and in all-DMA once more for each packet that is sent.
    pub host_dma: Quantity<Ratio>,
    /// Instructions more with buffer management, to send and to receive.
    pub buffer_management: Quantity<Ratio>,
    /// Instructions more with `switch()`, to receive.
    pub interpretation: Quantity<Ratio>,
    /// Set-up of DMA to or from the channel.
    pub channel_setup: Quantity<Cycles>,
    /// Set-up of DMA to or from the host's memory.
    pub host_setup: Quantity<Cycles>,
    /// The processor's double-word stores over the SBus.
    pub sbus_pio: Quantity<Rate>,
    /// DMA over the SBus.
    pub sbus_dma: Quantity<Rate>,
    /// The processor reads a status word of the LANai.
    pub status_read: Quantity<Ps>,
    /// From the end of DMA until the host's program sees what it brought. It delays packets, and others follow them.
    pub delivery: Quantity<Ps>,
    /// Payload of a packet at most.
    pub frame: Quantity<Bytes>,
    /// Of a packet, besides what the software gives to the interface.
    pub header: Quantity<Bytes>,
    /// The LANai's memory for packets to send.
    pub send_queue: Quantity<Bytes>,
    /// The LANai's memory for packets received.
    pub receive_queue: Quantity<Bytes>,
    /// Packets that the host's receive queue holds.
    pub host_queue: Quantity<Count>,
    /// Packets that the host keeps for those that were sent back to it.
    pub reject_queue: Quantity<Count>,
    /// Packets that one DMA brings to the host at most.
    pub aggregate: Quantity<Count>,
}

impl Lanai {
    /// Packets that a queue in the LANai's memory holds.
    pub fn slots(&self, queue: Bytes) -> u32 {
        u32::try_from(queue.0 / (self.frame.0 + self.header.0)).unwrap_or(u32::MAX)
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        let needed = self.program_size.0 + self.send_queue.0 + self.receive_queue.0;
        if needed > self.memory.0 {
            return Err(Fault::new(
                self.memory.at,
                format!(
                    "program and queues of adapter.lanai need {needed} bytes, allowed is memory ({})",
                    self.memory.0
                ),
            ));
        }
        for (name, queue) in [
            ("send_queue", &self.send_queue),
            ("receive_queue", &self.receive_queue),
        ] {
            if self.slots(queue.value) == 0 {
                return Err(Fault::new(
                    queue.at,
                    format!(
                        "adapter.lanai.{name} ({} bytes) holds no packet, allowed is at least frame and header ({} bytes)",
                        queue.0,
                        self.frame.0 + self.header.0
                    ),
                ));
            }
        }
        Ok(())
    }
}
