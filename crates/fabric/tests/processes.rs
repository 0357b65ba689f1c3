//! Every conformance case on the shared-memory fabric with an endpoint per process: segments pass through
//! `/proc/<pid>/fd`, and bulk transfers between address spaces. Not run by the standard test harness, whose
//! threads would not survive the forks.

use farpost_fabric::BulkTransfer;
use farpost_fabric::conformance::{Harness, ShmProcesses, run_all};
use farpost_fabric::shm::ShmTunables;

fn main() {
    let with = |cores, cma| ShmProcesses {
        cores,
        tunables: ShmTunables {
            cma,
            ..ShmTunables::default()
        },
    };
    // Yama or a sandbox may forbid brothers to read each other.
    let forbidden = with(0, 1).run(2, async |end| {
        end.barrier().await;
        if !end.fabric.can_transfer(end.next()) {
            end.skip();
        }
        end.barrier().await;
    });
    let bulk = ["bulk::get_and_put", "bulk::bad_address_is_an_error"];
    let skipped: &[&str] = if forbidden { &bulk } else { &[] };
    // More processes than cores, or not: the sender or the sleeper passes the barrier.
    run_all(&with(0, 1), skipped);
    run_all(&with(64, 1), skipped);
    run_all(&with(0, 0), &bulk);
    println!("an endpoint per process: all cases hold");
}
