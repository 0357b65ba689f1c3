//! What hosts cost: their processors, memory and devices, and the code of the layers.

use super::Fault;
use super::quantity::{Bytes, Count, Hertz, Quantity};
use crate::time::{Ps, Rate};
use serde::Deserialize;

/// A host and how many of them there are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Hosts of the machine.
    pub hosts: Quantity<Count>,
    /// Processors of each.
    pub processors: Quantity<Count>,
    /// Of a processor.
    pub clock: Quantity<Hertz>,
    /// How fast a processor copies, by what it copies: caches first, memory last.
    pub copy: Vec<CopyLevel>,
    /// How fast a processor combines bytes with as many others, as reductions do. Without it that costs nothing.
    pub reduce: Option<Quantity<Rate>>,
    /// A look at memory that something may have arrived in, and nothing has.
    #[serde(default)]
    pub poll: Quantity<Ps>,
    /// Into the kernel and back.
    #[serde(default)]
    pub trap: Quantity<Ps>,
    /// From a device's signal to the end of the handler's own work.
    #[serde(default)]
    pub interrupt: Quantity<Ps>,
    /// Another process or thread on the processor.
    #[serde(default)]
    pub context: Quantity<Ps>,
    /// Each entry that matching looks at.
    #[serde(default)]
    pub match_entry: Quantity<Ps>,
    /// Store of a word to a device, which nobody waits for.
    #[serde(default)]
    pub device_store: Quantity<Ps>,
    /// Load of a word from a device.
    #[serde(default)]
    pub device_load: Quantity<Ps>,
}

/// Up to this size copies are so fast. The last level has no size.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyLevel {
    pub up_to: Option<Quantity<Bytes>>,
    pub rate: Quantity<Rate>,
}

impl Host {
    /// What a copy of `bytes` takes: bytes / rate of the first level that holds them.
    pub fn copy_time(&self, bytes: u64) -> Ps {
        let holds = |level: &&CopyLevel| level.up_to.as_ref().is_none_or(|up_to| bytes <= up_to.0);
        let level = self.copy.iter().find(holds);
        level.map_or(Ps::ZERO, |level| level.rate.time(bytes))
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        let Some((last, levels)) = self.copy.split_last() else {
            return Err(Fault::new(
                self.hosts.at,
                "host.copy is empty, allowed is at least one { rate }",
            ));
        };
        if let Some(up_to) = &last.up_to {
            return Err(Fault::new(
                up_to.at,
                format!(
                    "the last of host.copy has up_to ({} bytes), allowed is a rate for all larger copies",
                    up_to.0
                ),
            ));
        }
        let mut least = 0;
        for level in levels {
            let Some(up_to) = &level.up_to else {
                return Err(Fault::new(
                    level.rate.at,
                    "host.copy has no up_to before its last level, allowed is that only there",
                ));
            };
            if up_to.0 <= least {
                return Err(Fault::new(
                    up_to.at,
                    format!(
                        "up_to of host.copy falls from {least} to {} bytes, allowed are sizes that rise",
                        up_to.0
                    ),
                ));
            }
            least = up_to.0;
        }
        Ok(())
    }
}

/// What the layers' code costs a processor, each operation, without what [`Host`] and the adapter charge for. What a file leaves out costs nothing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Software {
    pub mpi_send: Quantity<Ps>,
    pub mpi_receive: Quantity<Ps>,
    pub rsm_put: Quantity<Ps>,
    pub fm_send: Quantity<Ps>,
    pub fm_extract: Quantity<Ps>,
    pub jam_send: Quantity<Ps>,
    pub jam_receive: Quantity<Ps>,
    pub jam_rpc_call: Quantity<Ps>,
    pub jam_rpc_serve: Quantity<Ps>,
    pub portals_call: Quantity<Ps>,
    pub portals_receive: Quantity<Ps>,
    pub portals_event: Quantity<Ps>,
}

/// Between processes of one host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// From a store to where another processor sees it.
    pub latency: Quantity<Ps>,
    /// One copy from process to process.
    pub rate: Quantity<Rate>,
    /// What all processors of a host copy together, where that is known to limit them.
    pub backplane: Option<Quantity<Rate>>,
}
