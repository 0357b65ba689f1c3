//! A look at the adapters of a machine that runs, for other processes: in memory that they find as a descriptor of the coordinator's.

use crate::core::Core;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// What the memory is called; `/proc/PID/fd` shows it.
const NAME: &str = "farpost-sim-adapters";

/// Counters and registers of an adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterState {
    pub host: u32,
    pub adapter: String,
    /// By name, in the adapter's order.
    pub registers: Vec<(String, u64)>,
}

/// All adapters of a machine at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub machine: String,
    /// Process that launched the ranks.
    pub launcher: u32,
    pub ranks: u32,
    /// Virtual time, picoseconds.
    pub time: u64,
    pub adapters: Vec<AdapterState>,
}

impl Snapshot {
    /// Of now.
    pub fn of(core: &Core, machine: &str, launcher: u32) -> Self {
        let state = |(host, adapter): (crate::net::HostId, &dyn crate::adapter::Adapter)| AdapterState {
            host: host.0,
            adapter: adapter.name().into(),
            registers: adapter.registers(),
        };
        Self {
            machine: machine.into(),
            launcher,
            ranks: core.kernel.procs.size(),
            time: core.kernel.now.0,
            adapters: core.adapters().map(state).collect(),
        }
    }

    /// The last one that process `pid` has [published](Publisher). `None`: it is no coordinator of this user's, or has none yet.
    pub fn published_by(pid: u32) -> Option<Self> {
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let is_it = |path: &Path| {
            let to = std::fs::read_link(path).unwrap_or_default();
            to.to_string_lossy().starts_with(&format!("/memfd:{NAME} "))
        };
        let path = descriptors.flatten().map(|it| it.path()).find(|it| is_it(it))?;
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }
}

/// Where a coordinator's snapshots are found. Each is memory of its own that takes the place of the last one, so that no reader sees half of one.
pub struct Publisher(OwnedFd);

impl Publisher {
    /// The first one.
    ///
    /// # Errors
    /// The system has no memory for it.
    pub fn new(first: &Snapshot) -> io::Result<Self> {
        Ok(Self(written(first)?))
    }

    /// Another one in place of the last.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn publish(&mut self, next: &Snapshot) -> io::Result<()> {
        let next = written(next)?;
        Ok(rustix::io::dup3(
            next.as_fd(),
            &mut self.0,
            rustix::io::DupFlags::CLOEXEC,
        )?)
    }
}

fn written(snapshot: &Snapshot) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(NAME, MemfdFlags::CLOEXEC)?);
    file.write_all(&serde_json::to_vec(snapshot)?)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(time: u64) -> Snapshot {
        Snapshot {
            machine: "a machine".into(),
            launcher: 7,
            ranks: 2,
            time,
            adapters: vec![AdapterState {
                host: 1,
                adapter: "rdma".into(),
                registers: vec![("packets_sent".into(), 3)],
            }],
        }
    }

    #[test]
    fn the_last_one_is_found() {
        let me = std::process::id();
        let mut publisher = Publisher::new(&snapshot(1)).expect("memory");
        assert_eq!(Snapshot::published_by(me), Some(snapshot(1)));
        publisher.publish(&snapshot(2)).expect("memory");
        assert_eq!(Snapshot::published_by(me), Some(snapshot(2)));
        drop(publisher);
        assert_eq!(Snapshot::published_by(me), None);
    }
}
