//! What strikes a run and has struck it. [`crate::faults`] carries it out.

use crate::net::{HostId, ResourceId};
use crate::time::Ps;
use std::collections::{BTreeMap, BTreeSet};

/// In this time whoever checks asks about a lost put. Who does not is told then.
pub(crate) const ASKED: Ps = Ps(10_000_000_000);

#[derive(Clone, Debug)]
pub(crate) enum Strike {
    Cut(Vec<ResourceId>),
    Mend(Vec<ResourceId>),
    Dead(HostId),
}

/// What strikes a run.
#[derive(Default)]
pub(crate) struct Strikes {
    /// By number, each with the host that it is told of.
    pub all: Vec<(u32, Strike)>,
    /// How many faults a link is broken by.
    pub broken: BTreeMap<ResourceId, u32>,
    pub dead: BTreeSet<HostId>,
}

impl Strikes {
    /// For traces: the host, and a name.
    pub fn told(&self, number: usize) -> (u32, &'static str) {
        let (host, strike) = &self.all[number];
        let what = match strike {
            Strike::Cut(_) => "link_cut",
            Strike::Mend(_) => "link_returned",
            Strike::Dead(_) => "host_dead",
        };
        (*host, what)
    }
}
