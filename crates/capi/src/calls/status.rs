//! Fields of a status (MPI-5.0 sections 3.2.5, 13.3).

use core::ffi::c_int;

use farpost_mpi::Result;

use crate::abi::MPI_Status;
use crate::args::{InOut, Out};
use crate::cx::Cx;

pub(crate) fn mpi_status_get_source(_: &Cx, status: &MPI_Status, source: Out<c_int>) -> Result<()> {
    source.set(status.MPI_SOURCE);
    Ok(())
}

pub(crate) fn mpi_status_get_tag(_: &Cx, status: &MPI_Status, tag: Out<c_int>) -> Result<()> {
    tag.set(status.MPI_TAG);
    Ok(())
}

pub(crate) fn mpi_status_get_error(_: &Cx, status: &MPI_Status, error: Out<c_int>) -> Result<()> {
    error.set(status.MPI_ERROR);
    Ok(())
}

pub(crate) fn mpi_test_cancelled(_: &Cx, status: &MPI_Status, flag: Out<c_int>) -> Result<()> {
    flag.set(c_int::from(status.cancelled()));
    Ok(())
}

fn change(status: InOut<MPI_Status>, change: impl FnOnce(&mut MPI_Status)) -> Result<()> {
    let mut changed = status.get();
    change(&mut changed);
    status.set(changed);
    Ok(())
}

pub(crate) fn mpi_status_set_source(_: &Cx, status: InOut<MPI_Status>, source: c_int) -> Result<()> {
    change(status, |s| s.MPI_SOURCE = source)
}

pub(crate) fn mpi_status_set_tag(_: &Cx, status: InOut<MPI_Status>, tag: c_int) -> Result<()> {
    change(status, |s| s.MPI_TAG = tag)
}

pub(crate) fn mpi_status_set_error(_: &Cx, status: InOut<MPI_Status>, error: c_int) -> Result<()> {
    change(status, |s| s.MPI_ERROR = error)
}

pub(crate) fn mpi_status_set_cancelled(_: &Cx, status: InOut<MPI_Status>, flag: bool) -> Result<()> {
    change(status, |s| s.set_cancelled(flag))
}
