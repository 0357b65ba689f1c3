//! Sun Fire Link's interface (NI) with its RSM controller.
//!
//! A processor moves the data itself, a 64-byte line at a time: `store` for each line put, `load` for each line got besides the round trip. Each NI's
//! port to the host's interconnect carries `host_port` in both directions together. A line is seen at `store + out + wire + in`.
//! A barrier reads a word back that was written behind the data: a round trip and `barrier`, then `cesr` to look at the process's status.

use crate::machine::quantity::{Bytes, Count, Quantity};
use crate::machine::{Fault, TopologySpec};
use crate::time::{Ps, Rate};
use serde::Deserialize;

/// `[adapter.rsm]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rsm {
    /// Interfaces of a host.
    pub nis: Quantity<Count>,
    /// Of each interface.
    pub links_per_ni: Quantity<Count>,
    /// Between an interface and the host's interconnect, both directions together.
    pub host_port: Quantity<Rate>,
    /// What is stored and loaded at once.
    pub line: Quantity<Bytes>,
    /// What each line takes of the host's port besides its data: a link's rate is that of data.
    pub header: Option<Quantity<Bytes>>,
    /// What the acknowledgement of a line takes of the link the other way.
    pub ack: Quantity<Bytes>,
    /// Bytes that go over one link before it is the next one's turn.
    pub stripe: Quantity<Bytes>,
    /// Block store of a line: what the processor gives to it.
    pub store: Quantity<Ps>,
    /// Block load of a line, besides its round trip.
    pub load: Quantity<Ps>,
    /// Lines stored and not yet sent that a processor may have.
    pub stores_under_way: Quantity<Count>,
    /// From the host's interconnect to the link.
    pub out: Quantity<Ps>,
    /// From the link to the host's memory.
    #[serde(rename = "in")]
    pub into: Quantity<Ps>,
    /// Of a barrier, besides its round trip.
    pub barrier: Quantity<Ps>,
    /// Look at the status register of the process (CESR).
    pub cesr: Quantity<Ps>,
    /// Packets of interrupts that wait for a process.
    pub interrupts: Quantity<Count>,
    /// How remote interrupts are tried again.
    pub retry: Retry,
}

/// A remote interrupt that finds no place is tried again: after `spin` first, then after `sleep`, until `least_time` is over and there were
/// `least_tries`; then it has failed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    pub spin: Quantity<Ps>,
    pub sleep: Quantity<Ps>,
    pub least_time: Quantity<Ps>,
    pub least_tries: Quantity<Count>,
}

impl Rsm {
    pub(super) fn check(&self, topology: &TopologySpec, hosts: u32) -> Result<(), Fault> {
        let links = u64::from(self.nis.0) * u64::from(self.links_per_ni.0);
        let (needed, why) = match topology {
            TopologySpec::Point(spec) => {
                let others = u64::from(hosts.saturating_sub(1).max(1));
                (u64::from(spec.rails.0) * others, "rails to each other host")
            }
            _ => (u64::from(topology.rails()), "rails"),
        };
        if needed > links {
            return Err(Fault::new(
                self.links_per_ni.at,
                format!(
                    "topology.{} has {} {why}, more links than adapter.rsm.nis ({}) times links_per_ni ({}): allowed are {links}",
                    topology.kind(),
                    topology.rails(),
                    self.nis.0,
                    self.links_per_ni.0
                ),
            ));
        }
        if self.retry.spin.value > self.retry.sleep.value {
            return Err(Fault::new(
                self.retry.spin.at,
                format!(
                    "adapter.rsm.retry.spin ({}) is more than sleep ({}), allowed is at most that",
                    self.retry.spin.value, self.retry.sleep.value
                ),
            ));
        }
        Ok(())
    }
}
