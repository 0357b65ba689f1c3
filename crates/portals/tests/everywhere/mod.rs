//! Interfaces on both fabrics, with several seeds and pools.

use super::common::SMALL;
use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_portals::net::NetTunables;
use farpost_shm::conformance::shm_ends;
use farpost_shm::{Shm, ShmTunables};

/// Lengths of bodies that go each way.
pub const LENGTHS: [usize; 9] = [0, 1, 8, 57, 100, 130, 3000, 9000, 70_000];

pub fn small() -> NetTunables {
    NetTunables {
        tx_pendings: 8,
        rx_pendings: 8,
        check: 2,
        ..SMALL
    }
}

/// Of everything one.
pub fn tiny() -> NetTunables {
    NetTunables {
        sources: 1,
        tx_pendings: 1,
        rx_pendings: 1,
        window: 1,
        staging: 1,
        ..small()
    }
}

pub fn inproc(size: u32, seed: u64) -> Vec<InProc> {
    Network::new(
        size,
        seed,
        Config {
            bulk: seed.is_multiple_of(2),
            ..Config::default()
        },
    )
}

pub fn shm(size: u32) -> Vec<Shm> {
    shm_ends(size, &ShmTunables::default())
}

/// A test on both fabrics, with several seeds and pools.
macro_rules! everywhere {
    ($($name:ident($size:literal);)*) => { $(mod $name {
        #[test]
        fn inproc() {
            for seed in 0..6 {
                let config = if seed % 3 == 2 { super::everywhere::tiny() } else { super::everywhere::small() };
                super::$name(&super::interfaces(super::everywhere::inproc($size, seed), &config));
            }
        }

        #[test]
        fn shm() {
            super::$name(&super::interfaces(super::everywhere::shm($size), &super::NetTunables::default()));
            super::$name(&super::interfaces(super::everywhere::shm($size), &super::everywhere::small()));
        }
    })* };
}
