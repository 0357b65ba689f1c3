//! The PCI bus of a host: the processor's accesses and both DMA engines share it.
//!
//! An engine moves `burst` bytes at once. Each burst takes `overhead + bytes / pci`. A read waits for its first word besides: `memory` where the bridge has to fetch a
//! line, `bridge` where it has it. A read that follows a write pushes what the bridge has posted to memory first and finds no fetched line any more (PCI 2.1, 3.2.5:
//! reads push writes), which is why an exchange moves less than one direction alone. Engines that both have work alternate, burst by burst.

use super::params::DmaParams;
use crate::time::{Ps, Rate};

pub(super) struct Bus {
    free: Ps,
    /// An engine has it until then. The processor's own stores are posted in the bridge, and wait there.
    engine: Ps,
    /// Bursts written since the last read.
    written: u64,
    /// Time that it was taken.
    pub busy: Ps,
}

impl Bus {
    pub fn new() -> Self {
        Self {
            free: Ps::ZERO,
            engine: Ps::ZERO,
            written: 0,
            busy: Ps::ZERO,
        }
    }

    fn take(&mut self, now: Ps, time: Ps) -> Ps {
        self.free = self.free.max(now) + time;
        self.busy += time;
        self.free
    }

    /// An engine reads `bytes` of memory; when it has.
    pub fn read(&mut self, now: Ps, bytes: u32, pci: Rate, dma: &DmaParams) -> Ps {
        let bursts = u64::from(bytes.div_ceil(dma.burst));
        let lines = u64::from(bytes.div_ceil(dma.line));
        let pushed = bursts.min(std::mem::take(&mut self.written));
        let fetches = (lines + pushed).min(bursts);
        let time = dma.overhead * bursts
            + dma.memory * (fetches + pushed)
            + dma.bridge * (bursts - fetches)
            + pci.time(u64::from(bytes));
        self.engine = self.take(now, time);
        self.engine
    }

    /// An engine writes `bytes` to memory; when it has.
    pub fn write(&mut self, now: Ps, bytes: u32, pci: Rate, dma: &DmaParams) -> Ps {
        let bursts = u64::from(bytes.div_ceil(dma.burst));
        self.written += bursts;
        self.engine = self.take(now, dma.overhead * bursts + pci.time(u64::from(bytes)));
        self.engine
    }

    /// The processor takes the bus for so long; what it waits for it: a burst of an engine at most.
    pub fn access(&mut self, now: Ps, time: Ps, pci: Rate, dma: &DmaParams) -> Ps {
        let burst = dma.overhead + dma.memory + pci.time(u64::from(dma.burst));
        let wait = (self.engine - now).min(burst);
        self.take(now, time);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dma() -> DmaParams {
        DmaParams {
            setup: Ps::ZERO,
            payload: 88,
            burst: 32,
            line: 64,
            overhead: Ps::from_nanos(90),
            memory: Ps::from_nanos(300),
            bridge: Ps::from_nanos(90),
        }
    }

    #[test]
    fn a_line_is_fetched_once_and_again_after_a_write() {
        let (dma, pci, mut bus) = (dma(), Rate(1e9), Bus::new());
        assert_eq!(
            bus.read(Ps::ZERO, 64, pci, &dma),
            Ps::from_nanos(180 + 300 + 90 + 64)
        );
        let free = bus.write(Ps::from_nanos(1000), 64, pci, &dma);
        assert_eq!(free, Ps::from_nanos(1000 + 180 + 64));
        let after = bus.read(free, 64, pci, &dma) - free;
        assert_eq!(after, Ps::from_nanos(180 + 2 * 300 + 2 * 300 + 64));
    }

    #[test]
    fn the_processor_waits_for_a_burst_at_most() {
        let (dma, pci, mut bus) = (dma(), Rate(1e9), Bus::new());
        assert_eq!(bus.access(Ps::ZERO, Ps(5), pci, &dma), Ps::ZERO);
        bus.write(Ps(5), 32_000, pci, &dma);
        assert_eq!(bus.access(Ps(5), Ps(5), pci, &dma), Ps::from_nanos(90 + 300 + 32));
    }
}
