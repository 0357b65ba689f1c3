//! Environment: versions, addresses (MPI-5.0 chapters 9 and 20).

use core::ffi::c_int;

use farpost_mpi::Result;

use crate::abi;
use crate::args::{Out, OutString};
use crate::cx::Cx;

pub(crate) fn mpi_get_version(_: &Cx, version: Out<c_int>, subversion: Out<c_int>) -> Result<()> {
    version.set(abi::MPI_VERSION);
    subversion.set(abi::MPI_SUBVERSION);
    Ok(())
}

pub(crate) fn mpi_abi_get_version(_: &Cx, major: Out<c_int>, minor: Out<c_int>) -> Result<()> {
    major.set(abi::MPI_ABI_VERSION);
    minor.set(abi::MPI_ABI_SUBVERSION);
    Ok(())
}

pub(crate) fn mpi_get_library_version(_: &Cx, version: OutString, resultlen: Out<c_int>) -> Result<()> {
    const TEXT: &str = concat!(
        "Farpost ",
        env!("CARGO_PKG_VERSION"),
        ", MPI 5.0, standard ABI 1.0"
    );
    resultlen.set(version.set(TEXT, abi::MPI_MAX_LIBRARY_VERSION_STRING as usize));
    Ok(())
}

pub(crate) fn mpi_aint_add(base: i64, disp: i64) -> i64 {
    base.wrapping_add(disp)
}

pub(crate) fn mpi_aint_diff(addr1: i64, addr2: i64) -> i64 {
    addr1.wrapping_sub(addr2)
}

pub(crate) fn mpi_pcontrol(_: &Cx, _level: c_int) -> Result<()> {
    Ok(())
}
