//! What tests on the in-process fabric share.

use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::wait::WaitTunables;
use farpost_jam::{Jam, JamTunables};
use std::rc::Rc;

/// A network on which everything that has room is taken at once.
pub fn roomy(packets: usize) -> Config {
    Config {
        full_every: 0,
        queue_packets: packets,
        ..Config::default()
    }
}

pub fn jams(size: u32, seed: u64, config: Config, tunables: &JamTunables) -> Vec<Jam<InProc>> {
    Network::new(size, seed, config)
        .into_iter()
        .map(|end| Jam::new(Rc::new(end), tunables, &WaitTunables::default()))
        .collect()
}

/// All poll, and one thing arrives.
pub fn step(jams: &[Jam<InProc>]) {
    for jam in jams {
        jam.poll();
    }
    jams[0].fabric().network().step();
}

/// Step until `done`, at most so long that only a hang takes longer.
pub fn until(jams: &[Jam<InProc>], mut done: impl FnMut() -> bool) {
    for _ in 0..200_000 {
        if done() {
            return;
        }
        step(jams);
    }
    panic!("nothing moves any more");
}
