//! What work costs the processor of a host.

use crate::time::{Ps, Rate};
use farpost_fabric::{Cost, Work};
use strum::EnumCount;

/// Costs of a host's processor and its software.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Costs {
    /// Copies of so many bytes at most, and how fast they are; the last one is for all that are longer.
    pub copy: Vec<(u64, Rate)>,
    /// To begin a copy.
    pub copy_start: Ps,
    /// How fast bytes are combined with as many others.
    pub reduce: Rate,
    /// A look at a queue.
    pub poll: Ps,
    /// A word stored to the adapter, as a layer charges it.
    pub store: Ps,
    /// An entry of a list looked at.
    pub entry: Ps,
    /// A call of the operating system.
    pub trap: Ps,
    /// What layers do once for each operation.
    pub work: [Ps; Work::COUNT],
}

impl Default for Costs {
    /// Nothing costs anything.
    fn default() -> Self {
        Self {
            copy: Vec::new(),
            copy_start: Ps::ZERO,
            reduce: Rate::INFINITE,
            poll: Ps::ZERO,
            store: Ps::ZERO,
            entry: Ps::ZERO,
            trap: Ps::ZERO,
            work: [Ps::ZERO; Work::COUNT],
        }
    }
}

impl Costs {
    /// A copy of `bytes`: at the rate of the first level of the memory that they fit into.
    pub fn copy(&self, bytes: u64) -> Ps {
        let level = self.copy.iter().find(|(most, _)| bytes <= *most);
        let rate = level
            .or(self.copy.last())
            .map_or(Rate::INFINITE, |(_, rate)| *rate);
        self.copy_start + rate.time(bytes)
    }

    /// Those of a processor that takes so many times as long.
    pub fn slower(&self, factor: f64) -> Self {
        Self {
            copy: self
                .copy
                .iter()
                .map(|(most, rate)| (*most, Rate(rate.0 / factor)))
                .collect(),
            copy_start: self.copy_start.times(factor),
            reduce: Rate(self.reduce.0 / factor),
            poll: self.poll.times(factor),
            store: self.store.times(factor),
            entry: self.entry.times(factor),
            trap: self.trap.times(factor),
            work: self.work.map(|time| time.times(factor)),
        }
    }

    /// What `cost` takes.
    pub fn of(&self, cost: Cost) -> Ps {
        match cost {
            Cost::Copy(bytes) => self.copy(bytes as u64),
            Cost::Reduce(bytes) => self.reduce.time(bytes as u64),
            Cost::Poll => self.poll,
            Cost::Store(words) => self.store * words as u64,
            Cost::Match(entries) => self.entry * entries as u64,
            Cost::Trap => self.trap,
            Cost::Work(work) => self.work[work as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_as_fast_as_the_level_it_fits_into() {
        let costs = Costs {
            copy: vec![(1000, Rate(1e9)), (100_000, Rate(5e8))],
            ..Costs::default()
        };
        let nanos: Vec<u64> = [1000, 1001, 100_000, 1_000_000]
            .map(|bytes| costs.of(Cost::Copy(bytes)).nanos())
            .into();
        assert_eq!(nanos, [1000, 2002, 200_000, 2_000_000]);
    }
}
