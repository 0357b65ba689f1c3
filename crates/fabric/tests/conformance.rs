//! Every conformance case on the in-process fabric.
#![cfg(not(loom))]

use farpost_fabric::conformance::{InProcHarness, run_all};
use farpost_fabric::inproc::Config;

#[test]
fn inproc_over_many_seeds() {
    for seed in 0..40 {
        eprintln!("seed {seed}");
        run_all(
            &InProcHarness::new(seed),
            &[
                "memory::mapped",
                "memory::common",
                "memory::own_pages",
                "zcopy::follow_their_lines",
            ],
        );
    }
}

#[test]
fn inproc_at_its_extremes() {
    let patient = Config {
        queue_packets: 1,
        full_every: 2,
        longest_delay: 400,
        largest_piece: 1,
        rails: 4,
        bulk: false,
        ..Config::default()
    };
    let eager = Config {
        queue_packets: 1000,
        full_every: 0,
        longest_delay: 0,
        largest_piece: 1 << 20,
        cores: 8,
        ..Config::default()
    };
    for seed in 0..3 {
        let harness = |config: &Config| InProcHarness {
            seed,
            config: config.clone(),
        };
        let skipped = [
            "memory::mapped",
            "memory::common",
            "memory::own_pages",
            "bulk::get_and_put",
            "bulk::bad_address_is_an_error",
            "zcopy::follow_their_lines",
        ];
        run_all(&harness(&patient), &skipped);
        run_all(
            &harness(&eager),
            &[
                "memory::mapped",
                "memory::common",
                "memory::own_pages",
                "zcopy::follow_their_lines",
            ],
        );
    }
}
