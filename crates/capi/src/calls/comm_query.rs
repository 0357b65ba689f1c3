//! What a communicator says of itself (MPI-5.0 sections 7.4.1, 7.6.1, 7.8).

use core::ffi::c_int;

use farpost_mpi::{Error, Result, error};

use super::arg;
use crate::abi;
use crate::cx::{CommRef, Cx};

#[inline(always)]
pub(crate) fn mpi_comm_rank(_: &Cx, a: arg::CommRank) -> Result<c_int> {
    Ok(a.comm.rank)
}

#[inline(always)]
pub(crate) fn mpi_comm_size(_: &Cx, a: arg::CommSize) -> Result<c_int> {
    Ok(a.comm.size() as c_int)
}

pub(crate) fn mpi_comm_test_inter(_: &Cx, a: arg::CommTestInter) -> Result<bool> {
    Ok(a.comm.is_inter())
}

#[cold]
fn intra(comm: &CommRef) -> Error {
    let name = crate::cx::comm_name(comm);
    error!(ERR_COMM: "comm={name}: an intracommunicator has no remote group")
}

pub(crate) fn mpi_comm_remote_size(_: &Cx, a: arg::CommRemoteSize) -> Result<c_int> {
    Ok(a.comm.remote.as_ref().ok_or_else(|| intra(a.comm))?.size() as c_int)
}

pub(crate) fn mpi_comm_group(cx: &Cx, a: arg::CommGroup) -> Result<usize> {
    cx.objects.new_group(a.comm.local.clone())
}

pub(crate) fn mpi_comm_remote_group(cx: &Cx, a: arg::CommRemoteGroup) -> Result<usize> {
    cx.objects
        .new_group(a.comm.remote.clone().ok_or_else(|| intra(a.comm))?)
}

pub(crate) fn mpi_comm_compare(_: &Cx, a: arg::CommCompare) -> Result<c_int> {
    Ok(a.comm1.compare(a.comm2) as c_int)
}

pub(crate) fn mpi_comm_set_name(_: &Cx, a: arg::CommSetName) -> Result<()> {
    *a.comm.name.borrow_mut() = super::object_name("comm_name", a.comm_name)?.into_bytes();
    Ok(())
}

pub(crate) fn mpi_comm_get_name(_: &Cx, a: arg::CommGetName) -> Result<()> {
    let comm = a.comm;
    let text = match comm {
        Some(comm) => String::from_utf8_lossy(&comm.name.borrow()).into_owned(),
        None => "MPI_COMM_NULL".to_owned(),
    };
    a.resultlen
        .set(a.comm_name.set(&text, abi::MPI_MAX_OBJECT_NAME as usize));
    Ok(())
}

pub(crate) fn mpi_comm_get_info(cx: &Cx, a: arg::CommGetInfo) -> Result<usize> {
    let hints = a.comm.info.borrow().dup();
    cx.objects.new_info(hints)
}
