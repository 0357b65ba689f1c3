//! The exported names, generated from `api/mpi.toml`: `MPI_X`, `PMPI_X`, and their large-count twins.
//!
//! What they rely on is the contract of every C function: pointers are null or point to what the prototype
//! says for as long as the standard asks, which no check here can prove.
#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::missing_safety_doc,
    non_snake_case,
    dead_code,
    unused_imports,
    unused_unsafe,
    unused_variables,
    missing_docs
)]

use core::ffi::{c_char, c_int, c_void};

use farpost_mpi::ErrorClass;

mod beside;
pub(crate) mod seam;

use seam::{On, Phase};

use crate::calls::checking::{Checking, Form};
use crate::check::Check;
use crate::check::made::What;
use crate::cx::Cx;
use crate::names::Fun;
use crate::{abi, args, calls, check, init};

include!(concat!(env!("OUT_DIR"), "/entry.rs"));
