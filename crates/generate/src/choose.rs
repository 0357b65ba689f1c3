//! The choice of events.

use crate::events::{Gen, Limits, Plan};
use crate::{gen_coll, gen_comm, gen_more, gen_p2p};

/// The program of a seed.
pub fn generate(seed: u64, limits: Limits) -> Plan {
    let mut g = Gen::new(seed, limits);
    gen_comm::world(&mut g);
    for _ in 0..g.rng.u32(0..5) {
        gen_comm::make(&mut g, 0);
    }
    let events = g.rng.u32(4..=limits.events.max(5));
    let mut base = 1;
    while (g.plan.events.len() as u32) < events + 5 {
        // Several events may share a base, where their calls come in the order of events.
        base += g.rng.u32(0..3);
        match g.rng.u32(0..100) {
            0..42 => gen_p2p::group(&mut g, base),
            42..46 => gen_more::flood(&mut g, base),
            46..52 => gen_more::ring(&mut g, base),
            52..58 => gen_more::repeated(&mut g, base),
            58..63 => gen_more::cancelled(&mut g, base),
            63..65 => gen_more::nobody(&mut g, base),
            65..68 => gen_more::late(&mut g, base),
            68..88 => gen_coll::one(&mut g, base),
            88..93 => gen_coll::persistent(&mut g, base),
            _ if g.plan.threads == 1 => gen_comm::make(&mut g, base),
            _ => gen_coll::one(&mut g, base),
        }
    }
    gen_comm::free_all(&mut g);
    g.plan.comms = g.comms.len();
    g.plan
}
