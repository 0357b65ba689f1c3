//! The C interface from data. `api/mpi.toml`, `api/kinds.toml` and `api/constants.toml` describe every function
//! and constant of the MPI-5.0 C ABI once; this crate turns them into the header (`header`), the exported entry
//! points with their argument checks (`entry`), the constants in Rust (`abi`) and the reference page
//! (`reference`). `interface` does the same for the interfaces beside MPI, one table each. Run by `capi`'s build script, and by hand as `farpost-apigen`.
//!
//! The standard ABI has 662 functions: 647 return an `int`, 15 do not (`MPI_Wtime`, `MPI_Wtick`, `MPI_Aint_add`, `MPI_Aint_diff` and the eleven `_fromint`
//! conversions). With `PMPI_` that is 1,324 exported names. Names that MPI-3.0 removed are a table (`api/mpi1.toml`): inline functions in `mpi.h`, and
//! exported ones for old binaries. Handles that a failed call was to give are null; the generated entry points see to that before the error
//! handler is called.
#![forbid(unsafe_code)]

#[macro_use]
mod lines;

pub mod abi;
pub mod bodies;
pub mod checks;
pub mod entry;
mod fortran;
pub mod header;
pub mod interface;
pub mod model;
pub mod mpi1;
pub mod reference;

pub use bodies::Bodies;
pub use interface::Interface;
pub use model::Api;
pub use mpi1::Mpi1;

/// `(name, implemented)` of every exported `MPI_` name, as the source of a Rust constant `FUNCTIONS`.
/// For programs that list what is there without linking the library.
pub fn status_source(api: &Api, bodies: &Bodies) -> String {
    let mut out = String::from(
        "/// Every function of the MPI C ABI with whether this library implements it.\npub static FUNCTIONS: &[(&str, bool)] = &[\n",
    );
    for (name, function, _) in api.listed() {
        out.push_str(&format!("    ({name:?}, {}),\n", bodies.has(function)));
    }
    out.push_str("];\n");
    out
}
