//! Fields of a status (MPI-5.0 sections 3.2.5, 13.3).

use core::ffi::c_int;

use farpost_mpi::Result;

use super::arg;
use crate::abi::MPI_Status;
use crate::args::InOut;
use crate::cx::Cx;

pub(crate) fn mpi_status_get_source(_: &Cx, a: arg::StatusGetSource) -> Result<c_int> {
    Ok(a.status.MPI_SOURCE)
}

pub(crate) fn mpi_status_get_tag(_: &Cx, a: arg::StatusGetTag) -> Result<c_int> {
    Ok(a.status.MPI_TAG)
}

pub(crate) fn mpi_status_get_error(_: &Cx, a: arg::StatusGetError) -> Result<c_int> {
    Ok(a.status.MPI_ERROR)
}

pub(crate) fn mpi_test_cancelled(_: &Cx, a: arg::TestCancelled) -> Result<bool> {
    Ok(a.status.cancelled())
}

fn change(status: InOut<MPI_Status>, change: impl FnOnce(&mut MPI_Status)) -> Result<()> {
    let mut changed = status.get();
    change(&mut changed);
    status.set(changed);
    Ok(())
}

pub(crate) fn mpi_status_set_source(_: &Cx, a: arg::StatusSetSource) -> Result<()> {
    change(a.status, |s| s.MPI_SOURCE = a.source)
}

pub(crate) fn mpi_status_set_tag(_: &Cx, a: arg::StatusSetTag) -> Result<()> {
    change(a.status, |s| s.MPI_TAG = a.tag)
}

pub(crate) fn mpi_status_set_error(_: &Cx, a: arg::StatusSetError) -> Result<()> {
    change(a.status, |s| s.MPI_ERROR = a.error)
}

pub(crate) fn mpi_status_set_cancelled(_: &Cx, a: arg::StatusSetCancelled) -> Result<()> {
    change(a.status, |s| s.set_cancelled(a.flag))
}
