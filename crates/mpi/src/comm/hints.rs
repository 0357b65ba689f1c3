//! Hints (MPI-5.0 section 7.4.4).

use super::Comm;
use crate::info::Info;

/// The hints that a communicator keeps (MPI-5.0 section 7.4.4): those the standard defines.
const HINTS: &[&str] = &[
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
    "mpi_assert_strict_persistent_collective_ordering",
    "mpi_assert_memory_alloc_kinds",
];

impl Comm {
    /// Those of `info` that mean something here.
    pub fn hints(info: &Info) -> Info {
        let mut kept = Info::new();
        for (key, value) in info.iter() {
            if HINTS.iter().any(|hint| hint.as_bytes() == key) {
                // It was in an info object, so it fits one.
                let _ = kept.set(key, value);
            }
        }
        kept
    }

    /// `MPI_Comm_set_info`: unknown hints are ignored.
    pub fn set_info(&self, info: &Info) {
        let mut mine = self.info.borrow_mut();
        for (key, value) in Self::hints(info).iter() {
            let _ = mine.set(key, value);
        }
    }
}
