//! What the tool information interface shows and sets of a world.
//!
//! Requirements of MPI-5.0 sections 15.3.6, 15.3.7.

use super::World;
use crate::comm::ContextLane;
use crate::engine::ContextEntry;
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
        let is_programs = |entry: &ContextEntry| {
            entry.id & ((1 << LANE_BITS) - 1) == ContextLane::Messages as u64 && !entry.hidden
        };
        let programs = engine.contexts.iter().filter(|entry| is_programs(entry));
        let is_asked = |request: &Request| match &request.operation {
            Operation::Send(send) => engine.context_of(send.envelope.context).is_some_and(is_programs),
            Operation::Recv(recv) => is_programs(&engine.contexts[recv.context]),
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
                let requests = engine.requests.iter();
                requests.filter(|(_, request)| is_asked(request)).count() as u64
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
