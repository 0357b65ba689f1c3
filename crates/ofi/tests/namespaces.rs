//! The conformance suites over libfabric between network namespaces, which somebody made and joined by networks: `scripts/test-net.sh
//! conformance`. Skips loudly without them ([`Namespaces::of_environment`]).
//!
//! `FARPOST_TEST_OFI_LIBRARIES` names libraries besides the system's.

use farpost_fabric::conformance::run_all;
use farpost_net::conformance::{Namespaces, SharedBook};
use farpost_ofi::conformance::OfiThreads;
use std::path::PathBuf;

const NOT_SHARED: [&str; 2] = ["memory::mapped", "memory::common"];

fn ofi(provider: &str) {
    let Some(namespaces) = Namespaces::of_environment() else {
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
                    &[NOT_SHARED[0], NOT_SHARED[1], "zcopy::follow_their_lines"],
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
