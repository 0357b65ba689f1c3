//! The libfabric fabric over loopback, with the providers and libraries that are there. Skips loudly without
//! the library.
#![cfg(not(loom))]

use farpost_fabric::conformance::{OfiThreads, SharedBook, run_all};
use std::path::PathBuf;

/// The system's library, and those named in `FARPOST_TEST_OFI_LIBRARIES` (paths separated by colons).
fn libraries() -> Vec<Option<PathBuf>> {
    let more = std::env::var_os("FARPOST_TEST_OFI_LIBRARIES").unwrap_or_default();
    let more = std::env::split_paths(&more).filter(|p| !p.as_os_str().is_empty());
    std::iter::once(None).chain(more.map(Some)).collect()
}

/// Run `test` with every library that has `provider`.
fn with_each(provider: &str, test: impl Fn(&OfiThreads)) {
    let mut some = false;
    for library in libraries() {
        let name = library
            .as_ref()
            .map_or("the system's libfabric".into(), |p| p.display().to_string());
        let harness = OfiThreads::over_loopback(provider, library);
        match harness.endpoint((0, 1), &SharedBook::default()) {
            Ok(_) => {
                eprintln!("{provider} of {name}");
                some = true;
                test(&harness);
            }
            Err(error) => eprintln!("SKIPPED: {provider} of {name}: {error}"),
        }
    }
    if !some {
        eprintln!("SKIPPED: nothing was tested with provider {provider}: install libfabric1");
    }
}

const NOT_SHARED: [&str; 2] = ["memory::mapped", "memory::common"];

#[test]
fn tcp() {
    with_each("tcp", |harness| run_all(harness, &NOT_SHARED));
}

#[test]
fn tcp_with_the_rxm_layer() {
    with_each("tcp;ofi_rxm", |harness| run_all(harness, &NOT_SHARED));
}

/// The provider that became `tcp` in later versions.
#[test]
fn net() {
    with_each("net", |harness| run_all(harness, &NOT_SHARED));
}
