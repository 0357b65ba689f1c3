//! What the adapter and its host's bus are.

use crate::machine::{Machine, StarTX};
use crate::time::{Ps, Rate};

/// Numbers of the adapter, as in its machine file.
#[derive(Clone, Debug)]
pub struct StarTxParams {
    /// Messages that each of the four queues holds.
    pub queue: u32,
    /// Bytes of the largest message.
    pub message: u32,
    /// Bytes of its header.
    pub header: u32,
    /// Bytes of its check.
    pub check: u32,
    /// Peak of the bus.
    pub pci: Rate,
    /// The processor reads 4 bytes: the status word too.
    pub word_read: Ps,
    /// The processor reads 8 bytes of a message, in the general primitives.
    pub double_load: Ps,
    /// The processor reads 64 bytes at once.
    pub burst_read: Ps,
    /// The processor stores 8 bytes.
    pub double_store: Ps,
    /// The processor stores 64 bytes at once.
    pub burst_store: Ps,
    /// A send besides its stores.
    pub send: Ps,
    /// A receive besides its loads.
    pub receive: Ps,
    /// A receive of a burst besides its read.
    pub receive_burst: Ps,
    /// From the last store to the link.
    pub out: Ps,
    /// From the link to the receive queue.
    pub into: Ps,
    /// Bytes a second between queue and link.
    pub back_end: Rate,
    /// A look at what another process has taken out of the receive queue for this one.
    pub poll: Ps,
    pub interrupt: Ps,
    pub dma: DmaParams,
}

/// The DMA engines on the bus.
#[derive(Clone, Debug)]
pub struct DmaParams {
    /// A call of the driver that starts an engine.
    pub setup: Ps,
    /// Bytes of payload of a packet.
    pub payload: u32,
    /// Bytes that an engine moves at once.
    pub burst: u32,
    /// Bytes that the host's bridge fetches at once.
    pub line: u32,
    /// Request, address and turn-around of a burst.
    pub overhead: Ps,
    /// To the first word of a line from memory; also to write what is posted in the bridge to it.
    pub memory: Ps,
    /// To the first word of a burst that the bridge has.
    pub bridge: Ps,
}

impl StarTxParams {
    /// Those of a machine with such an adapter.
    pub fn of(machine: &Machine, spec: &StarTX) -> Self {
        let rdma = &spec.rdma;
        Self {
            queue: spec.queue_depth.0,
            message: spec.message.0 as u32,
            header: spec.header.0 as u32,
            check: spec.crc_bits.0 / 8,
            pci: spec.pci.value,
            word_read: spec.word_read.value,
            double_load: spec.double_load.value,
            burst_read: spec.burst_read.value,
            double_store: spec.double_store.value,
            burst_store: spec.burst_store.value,
            send: spec.send.value,
            receive: spec.receive.value,
            receive_burst: spec.receive_burst.value,
            out: spec.out.value,
            into: spec.into.value,
            back_end: machine.topology.link().rate.value,
            poll: machine.host.poll.value,
            interrupt: machine.host.interrupt.value,
            dma: DmaParams {
                setup: rdma.setup.value,
                payload: rdma.payload.0 as u32,
                burst: rdma.burst.0 as u32,
                line: rdma.line.0 as u32,
                overhead: rdma.overhead.value,
                memory: rdma.memory.value,
                bridge: rdma.bridge.value,
            },
        }
    }

    /// Messages of which a packet of the fabric consists, and bytes of each on the link but the last, and of that.
    /// `whole`: the packet is such a message, made with header and check by its layer.
    pub(super) fn messages(&self, bytes: usize, whole: bool) -> (u32, u32, u32) {
        let bytes = bytes as u32;
        if whole && bytes <= self.message + self.check {
            return (1, bytes, bytes);
        }
        let payload = self.message - self.header;
        let count = bytes.div_ceil(payload).max(1);
        let last = (bytes - (count - 1) * payload).max(8);
        (count, self.message + self.check, last + self.header + self.check)
    }

    /// Doubles of a message of so many bytes on the link: what the processor stores or loads. The check is the adapter's.
    pub(super) fn doubles(&self, bytes: u32) -> u64 {
        u64::from((bytes - self.check).div_ceil(8))
    }
}
