//! What the tool information interface shows and sets of a world.
//!
//! Requirements of MPI-5.0 sections 15.3.6, 15.3.7.

use super::World;
use crate::comm::ContextLane;
use crate::engine::envelope::LANE_BITS;
use crate::engine::request::{Operation, Request};
use crate::tools::What;
use farpost_fabric::{Fabric, Peer};

/// Tunables that may change while messages are under way: what a process does by itself, and its peers cope with anyway.
const CHANGEABLE: [&str; 4] = [
    "FARPOST_EAGER_MAX",
    "FARPOST_CHUNK_MIN",
    "FARPOST_CHUNK_MAX",
    "FARPOST_BOTH_COPY",
];

impl<F: Fabric> World<F> {
    /// A tunable as it is in force.
    pub fn tunable(&self, name: &str) -> Option<u64> {
        let engine = self.engine.borrow();
        engine.tunables.get(name).or_else(|| self.tuning.get(name))
    }

    /// Whether a tunable may be set while messages are under way.
    pub fn is_changeable(name: &str) -> bool {
        CHANGEABLE.contains(&name)
    }

    /// Set a tunable from now on. False: it is none that may change.
    pub fn set_tunable(&self, name: &str, value: u64) -> bool {
        let engine = &mut self.engine.borrow_mut();
        Self::is_changeable(name) && engine.tunables.set(name, &value.to_string()) == Ok(true)
    }

    /// Performance variables: one value, or one for each of `peers`.
    pub fn measure(&self, what: What, peers: &[u32]) -> Option<Vec<u64>> {
        // Counters are shown when a process is idle.
        self.settle();
        let engine = self.engine.borrow();
        // What collectives, windows and the checks of a program send and wait for are not the program's.
        let is_of_messages = |id: u64| id & ((1 << LANE_BITS) - 1) == ContextLane::Messages as u64;
        let contexts = engine.contexts.iter();
        let programs = contexts.filter(|entry| is_of_messages(entry.id) && !entry.hidden);
        // Beside those in which what is more than a message goes on: collectives.
        let is_single = |request: &Request| match &request.operation {
            Operation::Send(send) => is_of_messages(send.envelope.context),
            Operation::Recv(recv) => is_of_messages(engine.contexts[recv.context].id),
            Operation::Idle => true,
        };
        let share = || {
            let bound = engine.tunables.unexpected_bytes.max(1);
            (engine.kept_bytes() as f64 / bound as f64).clamp(0.0, 1.0)
        };
        let value = match what {
            What::UnexpectedMessages => programs.map(|entry| entry.queues.held() as u64).sum(),
            What::UnexpectedBytes => engine.kept_bytes(),
            What::UnexpectedShare => share().to_bits(),
            What::PostedReceives => programs.map(|entry| entry.queues.posted() as u64).sum(),
            What::Requests => {
                let all = engine.requests.iter();
                let single = all.filter(|(_, request)| is_single(request)).count();
                let services = self.services.borrow();
                let own = services.iter().flat_map(|service| service.requests());
                let own = own.filter(|handle| engine.requests.get(*handle).is_some());
                single.saturating_sub(own.count()) as u64
            }
            What::Communicators => 2 + self.comms.borrow().len() as u64,
            What::Peer(counter) => {
                let me = engine.fabric.me();
                let of = |peer: &u32| engine.fabric.counter(me, Peer(*peer), counter);
                return Some(peers.iter().map(of).collect());
            }
            What::Stage | What::Register(_) => return None,
        };
        Some(vec![value])
    }
}
