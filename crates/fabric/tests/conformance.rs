//! Every conformance case on every fabric that lives in one process.
#![cfg(not(loom))]

use farpost_fabric::conformance::{InProcHarness, ShmThreads, TcpThreads, run_all};
use farpost_fabric::inproc::Config;
use farpost_fabric::shm::ShmTunables;
use farpost_fabric::tcp::{TcpSettings, TcpTunables};

#[test]
fn shm_where_senders_pass_the_barrier() {
    // Fewer cores than processes.
    run_all(&ShmThreads::default(), &["tails::follow_their_lines"]);
}

#[test]
fn shm_where_sleepers_pass_the_barrier() {
    let harness = ShmThreads {
        cores: 64,
        ..ShmThreads::default()
    };
    run_all(&harness, &["tails::follow_their_lines"]);
}

#[test]
fn shm_without_cross_memory_attach() {
    let harness = ShmThreads {
        tunables: ShmTunables {
            cma: 0,
            ..ShmTunables::default()
        },
        ..ShmThreads::default()
    };
    let bulk = ["bulk::get_and_put", "bulk::bad_address_is_an_error"];
    run_all(&harness, &[bulk[0], bulk[1], "tails::follow_their_lines"]);
}

#[test]
fn tcp_over_loopback() {
    run_all(&TcpThreads::default(), &["memory::mapped", "memory::common"]);
}

#[test]
fn tcp_with_small_buffers() {
    // Everything fills, and every put of more than a word goes out alone.
    let harness = TcpThreads {
        settings: TcpSettings {
            tcp: TcpTunables {
                direct: 9,
                buffer: 4096,
                packets: 2,
                ..TcpTunables::default()
            },
            ..TcpSettings::default()
        },
        ..TcpThreads::default()
    };
    run_all(&harness, &["memory::mapped", "memory::common"]);
}

#[test]
fn tcp_over_two_rails() {
    let harness = TcpThreads {
        rails: 2,
        ..TcpThreads::default()
    };
    run_all(&harness, &["memory::mapped", "memory::common"]);
}

#[test]
fn tcp_encrypted() {
    let mut harness = TcpThreads::default();
    harness.settings.trust.encrypt = 1;
    run_all(&harness, &["memory::mapped", "memory::common"]);
}

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
                "tails::follow_their_lines",
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
            "tails::follow_their_lines",
        ];
        run_all(&harness(&patient), &skipped);
        run_all(
            &harness(&eager),
            &[
                "memory::mapped",
                "memory::common",
                "memory::own_pages",
                "tails::follow_their_lines",
            ],
        );
    }
}
