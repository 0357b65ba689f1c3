//! The hand-written bodies of the entry points, a file a chapter of the standard.
//!
//! A body is a `pub(crate) fn mpi_x` at the start of a line; the build script finds it by that, and a function
//! without one raises `MPI_ERR_UNSUPPORTED_OPERATION`. It gets its arguments, checked, in a structure of [`arg`]: a
//! buffer with its count and datatype is one of them, and of a handle that it frees the entry point makes null. Where all results are
//! single values, the body returns them (an `Option` where a flag says whether there is one), and the entry point stores them; others
//! are stored by the body. A body that returns a [`forms::Collective`] is that of the blocking, the nonblocking and the persistent
//! function.

pub(crate) mod arg;
pub(crate) mod attr;
pub(crate) mod blocks;
pub(crate) mod bsend;
pub(crate) mod checking;
pub(crate) mod coll;
pub(crate) mod comm;
pub(crate) mod comm_query;
pub(crate) mod datatype;
pub(crate) mod env;
pub(crate) mod errors;
pub(crate) mod forms;
pub(crate) mod grequest;
pub(crate) mod group;
pub(crate) mod handles;
pub(crate) mod info;
pub(crate) mod memory;
pub(crate) mod op;
pub(crate) mod p2p;
pub(crate) mod pack;
pub(crate) mod partitioned;
pub(crate) mod reduce;
pub(crate) mod request;
pub(crate) mod rma;
pub(crate) mod session;
pub(crate) mod status;
pub(crate) mod tools;
pub(crate) mod tools_events;
pub(crate) mod topo;
pub(crate) mod topo_create;
pub(crate) mod win;
pub(crate) mod win_sync;

use core::ffi::CStr;

use farpost_mpi::{Result, fail};

use crate::abi;

/// The name of an object as the program gives it.
///
/// # Errors
/// `MPI_ERR_ARG`: longer than MPI_MAX_OBJECT_NAME.
pub(crate) fn object_name(argument: &str, name: &CStr) -> Result<String> {
    let room = abi::MPI_MAX_OBJECT_NAME as usize - 1;
    let len = name.to_bytes().len();
    if len > room {
        return fail!(ERR_ARG: "{argument} has {len} bytes: names have at most {room}");
    }
    Ok(name.to_string_lossy().into_owned())
}
