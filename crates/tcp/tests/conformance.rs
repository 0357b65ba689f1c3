//! Every conformance case on the TCP fabric, over loopback.

use farpost_fabric::conformance::{Outcome, run_all, striped};
use farpost_tcp::conformance::TcpThreads;
use farpost_tcp::{TcpSettings, TcpTunables};

#[test]
fn over_loopback() {
    run_all(&TcpThreads::default(), &["memory::mapped", "memory::common"]);
}

#[test]
fn with_small_buffers() {
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
fn over_two_rails() {
    let harness = TcpThreads {
        rails: 2,
        ..TcpThreads::default()
    };
    assert_eq!(striped::puts_and_gets(&harness), Outcome::Held);
    assert_eq!(striped::withdrawn_meanwhile(&harness), Outcome::Held);
    run_all(&harness, &["memory::mapped", "memory::common"]);
}

#[test]
fn encrypted() {
    let mut harness = TcpThreads::default();
    harness.settings.trust.encrypt = 1;
    run_all(&harness, &["memory::mapped", "memory::common"]);
}
