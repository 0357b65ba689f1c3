//! What the bodies get: for each function a structure of its arguments, generated from `api/mpi.toml` and named like the
//! function, `CommSetAttr` for `MPI_Comm_set_attr`. Arguments are checked ([`crate::args`]); objects stand for their handles.
#![allow(dead_code)] // Not every body needs all that the standard passes.

use core::ffi::{CStr, c_char, c_int, c_void};

use farpost_mpi::buffer::{RecvBuf, SendBuf};

use super::blocks::{Each, One, Typed};
use crate::cx::{CommRef, GroupRef, OpRef, SessionRef, TypeRef, WinRef};
use crate::objects::InfoRef;
use crate::{abi, args};

include!(concat!(env!("OUT_DIR"), "/arg.rs"));
