//! Settings of an agent, and how many there are of everything.

use crate::net::NetTunables;

farpost_tunables::tunables! {
    /// Tunables of the agent.
    pub struct AgentTunables {
        /// Messages of a client that may wait in the agent, of each channel.
        sends: "FARPOST_PORTALS_AGENT_SENDS" = 32, 1..=128, "messages";
        /// Messages without their bodies that a generic client may have been shown and not have received.
        pendings: "FARPOST_PORTALS_AGENT_PENDINGS" = 64, 1..=128, "messages";
        /// Memory for bodies on their way through the agent, of answers, of requests, and of what arrives; also the longest body of a program's Portals message. MPI gets what is longer than a quarter of it in parts. Only what is used is ever touched.
        memory: "FARPOST_PORTALS_AGENT_MEMORY" = 64 << 20, 4096..=1 << 36, "bytes";
        /// Memory that the match entries, descriptors and queues of an accelerated client may take in its agent. Who wants more is told that there is no space.
        objects: "FARPOST_PORTALS_AGENT_OBJECTS" = 64 << 20, 4096..=1 << 36, "bytes";
        /// Time for which a client that takes no events holds up those who send to it. Then what comes for it is dropped.
        patience: "FARPOST_PORTALS_AGENT_PATIENCE" = 2000, 0..=600_000, "milliseconds";
        /// Time for which an agent of the host (`PTL_IFACE_HOST`) may leave a question unanswered before that is said; after as long again calls fail. It answers within a second, if only that nothing has come.
        host_patience: "FARPOST_PORTALS_HOST_PATIENCE" = 10_000, 1500..=3_600_000, "milliseconds";
    }
}

/// Answers for one client that may wait for a pending before requests to it are refused: they come again. Also the requests
/// that a generic client may have been shown and not have dealt with.
pub(super) const ANSWERS: usize = 64;
/// Answers that may be added while one message is dealt with, and ends of operations that were accepted before.
const MORE_ANSWERS: usize = 64;

/// How many of everything there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub clients: usize,
    /// Messages of a client, of each channel.
    pub items: usize,
    /// Messages that a generic client may have been shown.
    pub pendings: usize,
    pub jobs: usize,
    /// Lists of pieces.
    pub lists: usize,
    pub placements: usize,
}

impl Sizes {
    pub fn of(config: &AgentTunables, net: &NetTunables, clients: u64) -> Self {
        let (sends, pendings, clients) = (config.sends as usize, config.pendings as usize, clients as usize);
        let items = sends + ANSWERS + MORE_ANSWERS;
        let jobs = (2 * net.tx_pendings + net.rx_pendings) as usize + 4 * clients;
        Self {
            clients,
            items,
            pendings,
            jobs,
            lists: clients * (2 * items + pendings) + jobs,
            placements: net.rx_pendings as usize + clients * pendings,
        }
    }
}
