//! What sits between a host and its links, as data: a file each.

mod lanai;
mod rdma;
mod rsm;
mod seastar;
mod startx;

pub use lanai::{Lanai, LanaiBus, LanaiProgram};
pub use rdma::Rdma;
pub use rsm::{Retry, Rsm};
pub use seastar::{Exhaustion, SeaStar, SeaStarMode};
pub use startx::{StarTX, StarTXRdma};

use super::Fault;
use super::topology::TopologySpec;
use serde::Deserialize;

/// `[adapter.KIND]`
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AdapterSpec {
    Rsm(Rsm),
    Lanai(Lanai),
    StarTX(StarTX),
    SeaStar(SeaStar),
    Rdma(Rdma),
}

impl AdapterSpec {
    /// As in a file.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rsm(_) => "rsm",
            Self::Lanai(_) => "lanai",
            Self::StarTX(_) => "startx",
            Self::SeaStar(_) => "seastar",
            Self::Rdma(_) => "rdma",
        }
    }

    pub(super) fn check(&self, topology: &TopologySpec, hosts: u32) -> Result<(), Fault> {
        match self {
            Self::Rsm(rsm) => rsm.check(topology, hosts),
            Self::Lanai(lanai) => lanai.check(),
            Self::StarTX(startx) => startx.check(topology),
            Self::SeaStar(seastar) => seastar.check(),
            Self::Rdma(rdma) => rdma.check(),
        }
    }
}
