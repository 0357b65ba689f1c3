//! RSMAPI with an end per process: by the host's memory, and over libfabric, over loopback or between the network namespaces
//! that `FARPOST_TEST_NAMESPACES` names (`scripts/test-net.sh conformance`). Not run by the standard test harness, whose
//! threads would not survive the forks.

#[cfg(not(loom))]
mod roles;

#[cfg(loom)]
fn main() {}

#[cfg(not(loom))]
fn main() {
    use farpost_net::conformance::Namespaces;
    use farpost_ofi::conformance::{OfiProcesses, OfiThreads};
    use farpost_shm::conformance::ShmProcesses;

    let namespaces = Namespaces::parse(&std::env::var_os("FARPOST_TEST_NAMESPACES").unwrap_or_default());
    let like = if namespaces.is_empty() {
        for name in roles::NAMES {
            roles::play(&ShmProcesses::default(), name);
        }
        println!("a host's memory: {} roles", roles::NAMES.len());
        OfiThreads::over_loopback("tcp", None)
    } else {
        OfiThreads::between(namespaces, "tcp", None)
    };
    let libfabric = OfiProcesses { like };
    if libfabric.is_there() {
        for name in roles::NAMES {
            roles::play(&libfabric, name);
        }
        println!("libfabric: {} roles", roles::NAMES.len());
    }
}
