//! Agents that end, and the peers that were reached by way of them.
//!
//! Cost class: *set-up path*; between two looks progress that finds nothing counts.

use crate::carrier::{Chosen, Engine};
use farpost_fabric::{End, Fabric, Moment, Peer};
use farpost_portals::agent::Routes;
use std::time::Duration;

/// Rounds in which nothing moved between two looks at the clock: a power of two.
const ROUNDS: u32 = 64;
/// Time between two questions which agents have ended.
const ASK: Duration = Duration::from_millis(50);

/// The agents of a job.
pub(super) struct Agents {
    /// Of each rank, where it has one.
    of: Box<[Option<Peer>]>,
    /// All of them that have not ended.
    alive: Vec<Peer>,
    rounds: u32,
    asked: Moment,
}

impl Agents {
    pub fn new<F: Fabric>(routes: &Routes, fabric: &F) -> Self {
        let of = (0..fabric.size()).map(|rank| routes.via(rank).filter(|via| via.0 != rank));
        let of: Box<[Option<Peer>]> = of.collect();
        let mut alive: Vec<Peer> = of.iter().flatten().copied().collect();
        alive.sort_unstable();
        alive.dedup();
        Self {
            of,
            alive,
            rounds: 0,
            asked: fabric.now(),
        }
    }

    /// Why `peer` cannot be reached any more, if an agent on the way from `me` has ended.
    pub fn end_of<F: Fabric>(&self, fabric: &F, me: Peer, peer: Peer) -> Option<End> {
        [me, peer].into_iter().find_map(|whose| {
            let end = fabric.end_of(self.of[whose.index()]?)?;
            Some(unreachable(peer, whose == me, &end))
        })
    }

    /// Before a sleep, after which rounds are few.
    pub fn look_soon(&mut self) {
        self.rounds = ROUNDS - 1;
    }

    /// Agents that have ended since the last question, now and then.
    fn ended<F: Fabric>(&mut self, fabric: &F) -> Vec<(Peer, End)> {
        self.rounds = self.rounds.wrapping_add(1);
        if !self.rounds.is_multiple_of(ROUNDS) {
            return Vec::new();
        }
        let now = fabric.now();
        if now - self.asked < ASK {
            return Vec::new();
        }
        self.asked = now;
        let ended = self.alive.iter();
        let ended: Vec<_> = ended
            .filter_map(|agent| Some((*agent, fabric.end_of(*agent)?)))
            .collect();
        self.alive
            .retain(|agent| ended.iter().all(|(gone, _)| gone != agent));
        ended
    }
}

/// Why `peer` cannot be reached when an agent, this process's `own` or the peer's, has ended so.
fn unreachable(peer: Peer, own: bool, end: &End) -> End {
    let whose = if own { "this host's" } else { "its" };
    End {
        why: format!(
            "{peer} cannot be reached: {whose} Portals agent has ended ({})",
            end.why
        ),
        in_order: end.in_order,
    }
}

impl<F: Fabric> Engine<F> {
    /// Fail what waits for peers that were reached by way of an agent that has ended; all peers, if it is this process's. True: one has.
    #[inline]
    pub(super) fn lose_behind_agents(&mut self) -> bool {
        let portals = portals!(self, false);
        let Some(agents) = &mut portals.agents else {
            return false;
        };
        let ended = agents.ended(&*self.fabric);
        if ended.is_empty() {
            return false;
        }
        let of = agents.of.clone();
        // What came before still counts.
        while self.progress_portals() {}
        for (agent, end) in ended {
            let own = of[self.me.index()] == Some(agent);
            for (peer, _) in (0..)
                .map(Peer)
                .zip(&of)
                .filter(|(_, via)| own || **via == Some(agent))
            {
                self.lose(peer, unreachable(peer, own, &end));
            }
        }
        true
    }
}
