//! Network namespaces for the threads of a harness.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// Network namespaces by their files, such as `/proc/PID/ns/net`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces(Vec<PathBuf>);

impl Namespaces {
    /// Those of a list of paths separated by colons.
    pub fn parse(list: &OsStr) -> Self {
        Self(
            std::env::split_paths(list)
                .filter(|path| !path.as_os_str().is_empty())
                .collect(),
        )
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Move the calling thread to the namespace of endpoint `index`: the namespaces have endpoints in turns. Nothing
    /// where there are none. The thread never returns, so it should be the endpoint's own.
    ///
    /// # Panics
    /// When a file is missing or the system refuses.
    pub fn enter(&self, index: u32) {
        if self.is_empty() {
            return;
        }
        let path = &self.0[index as usize % self.0.len()];
        let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // SAFETY: no memory is involved; the kernel checks that the file is a network namespace.
        let code = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
        assert_eq!(
            code,
            0,
            "entering the network namespace {}: {}",
            path.display(),
            std::io::Error::last_os_error()
        );
    }
}
