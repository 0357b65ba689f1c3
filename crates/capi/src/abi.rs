//! The constants, `MPI_Status` and the callback types of the ABI, generated from `api/constants.toml`.
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
}
