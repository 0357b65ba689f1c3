//! The conformance suites over TCP between network namespaces, which somebody made and joined by networks: `scripts/test-net.sh
//! conformance`. Skips loudly without them ([`Namespaces::of_environment`]).
//!
//! `FARPOST_TEST_RAILS` says how many networks there are (default 1).

use farpost_fabric::conformance::{Harness, run_all};
use farpost_fabric::{PacketQueue, Port, Priority, TrySend};
use farpost_net::conformance::Namespaces;
use farpost_tcp::conformance::TcpThreads;

const RAILS: &str = "FARPOST_TEST_RAILS";
const NOT_SHARED: [&str; 2] = ["memory::mapped", "memory::common"];

fn tcp_threads() -> Option<TcpThreads> {
    Some(TcpThreads {
        namespaces: Namespaces::of_environment()?,
        ..TcpThreads::default()
    })
}

#[test]
fn tcp() {
    if let Some(harness) = tcp_threads() {
        run_all(&harness, &NOT_SHARED);
    }
}

#[test]
fn tcp_encrypted() {
    if let Some(mut harness) = tcp_threads() {
        harness.settings.trust.encrypt = 1;
        run_all(&harness, &NOT_SHARED);
    }
}

/// Every network is used between any two hosts, and no other way.
#[test]
fn tcp_uses_every_rail() {
    let Some(harness) = tcp_threads() else {
        return;
    };
    let rails = std::env::var(RAILS).map_or(1, |text| text.parse().expect(RAILS));
    harness.run(harness.namespaces.len() as u32, async |end| {
        for peer in end.others() {
            assert_eq!(
                end.fabric.try_send(peer, Port::Fm, Priority::High, b"hello"),
                TrySend::Sent
            );
        }
        for peer in end.others() {
            let ways = end.fabric.rail_plan(peer).expect("ways");
            assert_eq!(ways.rails.len(), rails, "{ways:?}");
            end.until("all rails", || {
                let up = end.fabric.rails_up(peer);
                up.len() == rails && up.iter().all(Result::is_ok)
            })
            .await;
        }
        for _ in end.others() {
            end.until("a greeting", || {
                end.fabric
                    .poll_packet(Port::Fm, |_, _, bytes| assert_eq!(bytes, b"hello"))
            })
            .await;
        }
        end.barrier().await;
    });
}
