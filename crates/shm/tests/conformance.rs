//! Every conformance case on the shared-memory fabric, with an endpoint per thread.

use farpost_fabric::conformance::run_all;
use farpost_shm::ShmTunables;
use farpost_shm::conformance::ShmThreads;

#[test]
fn where_senders_pass_the_barrier() {
    // Fewer cores than processes.
    run_all(&ShmThreads::default(), &["zcopy::follow_their_lines"]);
}

#[test]
fn where_sleepers_pass_the_barrier() {
    let harness = ShmThreads {
        cores: 64,
        ..ShmThreads::default()
    };
    run_all(&harness, &["zcopy::follow_their_lines"]);
}

#[test]
fn without_cross_memory_attach() {
    let harness = ShmThreads {
        tunables: ShmTunables {
            cma: 0,
            ..ShmTunables::default()
        },
        ..ShmThreads::default()
    };
    let bulk = ["bulk::get_and_put", "bulk::bad_address_is_an_error"];
    run_all(&harness, &[bulk[0], bulk[1], "zcopy::follow_their_lines"]);
}
