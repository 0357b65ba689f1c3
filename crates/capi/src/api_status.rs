//! What of the interface is implemented, for `farpost info --api`.

include!(concat!(env!("OUT_DIR"), "/api_status.rs"));

/// The text of `mpi.h`.
pub static HEADER: &str = include_str!(concat!(env!("OUT_DIR"), "/mpi.h"));
