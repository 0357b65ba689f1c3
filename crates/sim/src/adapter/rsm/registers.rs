//! Registers of an NI: status of each process (CESR), and counts.

use farpost_fabric::Peer;
use std::collections::BTreeMap;

/// The status register of a process: errors of its own lines since it last looked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cesr {
    /// The last of them.
    pub error: Option<String>,
    pub errors: u64,
}

#[derive(Default)]
pub(super) struct Registers {
    cesr: BTreeMap<Peer, Cesr>,
    pub trains: u64,
    pub lines: u64,
    pub acks: u64,
    pub resent: u64,
    pub rerouted: u64,
    pub errors: u64,
}

impl Registers {
    pub fn report(&mut self, of: Peer, error: String) {
        self.errors += 1;
        let it = self.cesr.entry(of).or_default();
        it.errors += 1;
        it.error = Some(error);
    }

    pub fn take(&mut self, of: Peer) -> Cesr {
        self.cesr.remove(&of).unwrap_or_default()
    }

    pub fn shown(&self) -> Vec<(String, u64)> {
        [
            ("lines_sent", self.lines),
            ("stripes_sent", self.trains),
            ("acks_sent", self.acks),
            ("stripes_rerouted", self.rerouted),
            ("stripes_resent", self.resent),
            ("errors", self.errors),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}
