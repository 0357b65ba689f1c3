//! The constants, `MPI_Status` and the callback types of the ABI, generated from `api/constants.toml`.
//!
//! Requirements of MPI-5.0 section 20.2.
#![allow(non_camel_case_types, non_snake_case, dead_code, missing_docs)]

use core::ffi::{c_int, c_void};

// Callback types name themselves through this module.
use crate::abi;

include!(concat!(env!("OUT_DIR"), "/abi.rs"));

impl MPI_Status {
    /// The status of an operation that moved nothing (MPI-5.0 section 3.7.3).
    pub const EMPTY: MPI_Status = MPI_Status {
        MPI_SOURCE: MPI_ANY_SOURCE,
        MPI_TAG: MPI_ANY_TAG,
        MPI_ERROR: MPI_SUCCESS,
        MPI_internal: [0; 5],
    };

    /// Bytes the operation moved.
    pub fn bytes(&self) -> u64 {
        let [low, high, ..] = self.MPI_internal;
        u64::from(low as u32) | u64::from(high as u32) << 32
    }

    /// Notes the bytes the operation moved.
    pub fn set_bytes(&mut self, bytes: u64) {
        self.MPI_internal[0] = bytes as c_int;
        self.MPI_internal[1] = (bytes >> 32) as c_int;
    }

    /// Whether the operation was cancelled.
    pub fn cancelled(&self) -> bool {
        self.MPI_internal[2] != 0
    }

    /// Notes whether the operation was cancelled.
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.MPI_internal[2] = c_int::from(cancelled);
    }
}
