//! The conformance suites between network namespaces, which somebody made and joined by networks: `scripts/test-net.sh
//! conformance`. Skips loudly without them.
//!
//! `FARPOST_TEST_NAMESPACES` names their files, separated by colons; `FARPOST_TEST_RAILS` says how many networks there
//! are (default 1); `FARPOST_TEST_OFI_LIBRARIES` names libraries besides the system's libfabric.
#![cfg(not(loom))]

use farpost_fabric::conformance::{Harness, Namespaces, OfiThreads, SharedBook, TcpThreads, run_all};
use farpost_fabric::{PacketQueue, Port, Priority, TrySend};
use std::path::PathBuf;

const NAMESPACES: &str = "FARPOST_TEST_NAMESPACES";
const RAILS: &str = "FARPOST_TEST_RAILS";
const NOT_SHARED: [&str; 2] = ["memory::mapped", "memory::common"];

/// The namespaces, if somebody made some.
fn namespaces() -> Option<Namespaces> {
    let found = Namespaces::parse(&std::env::var_os(NAMESPACES).unwrap_or_default());
    if found.is_empty() {
        farpost_testing::not_here(&format!(
            "{NAMESPACES} names no network namespaces; scripts/test-net.sh conformance makes some and runs this"
        ));
        return None;
    }
    Some(found)
}

fn tcp_threads() -> Option<TcpThreads> {
    Some(TcpThreads {
        namespaces: namespaces()?,
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
            let ways = end.fabric.ways(peer).expect("ways");
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

fn ofi(provider: &str) {
    let Some(namespaces) = namespaces() else {
        return;
    };
    let more = std::env::var_os("FARPOST_TEST_OFI_LIBRARIES").unwrap_or_default();
    let more = std::env::split_paths(&more).filter(|path| !path.as_os_str().is_empty());
    for library in std::iter::once(None).chain(more.map(Some)) {
        let name = library
            .as_ref()
            .map_or("the system's libfabric".into(), |p: &PathBuf| {
                p.display().to_string()
            });
        let harness = OfiThreads::between(namespaces.clone(), provider, library);
        let opened = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                harness.namespaces.enter(0);
                harness.endpoint((0, 1), &SharedBook::default()).map(|_| ())
            });
            thread.join().expect("a thread that opens an endpoint")
        });
        match opened {
            Ok(()) => {
                eprintln!("{provider} of {name}");
                run_all(
                    &harness,
                    &[NOT_SHARED[0], NOT_SHARED[1], "tails::follow_their_lines"],
                );
            }
            Err(error) => farpost_testing::not_here(&format!("{provider} of {name}: {error}")),
        }
    }
}

#[test]
fn ofi_tcp() {
    ofi("tcp");
}

#[test]
fn ofi_tcp_with_the_rxm_layer() {
    ofi("tcp;ofi_rxm");
}
