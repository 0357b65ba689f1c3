//! What a communicator says of itself (MPI-5.0 sections 7.4.1, 7.6.1, 7.8).

use core::ffi::{CStr, c_int};

use farpost_mpi::{Error, ErrorClass, Result};

use crate::abi;
use crate::args::{Out, OutString};
use crate::cx::{CommRef, Cx};

#[inline(always)]
pub(crate) fn mpi_comm_rank(_: &Cx, comm: &CommRef, rank: Out<c_int>) -> Result<()> {
    rank.set(comm.rank);
    Ok(())
}

#[inline(always)]
pub(crate) fn mpi_comm_size(_: &Cx, comm: &CommRef, size: Out<c_int>) -> Result<()> {
    size.set(comm.size() as c_int);
    Ok(())
}

pub(crate) fn mpi_comm_test_inter(_: &Cx, comm: &CommRef, flag: Out<c_int>) -> Result<()> {
    flag.set(c_int::from(comm.is_inter()));
    Ok(())
}

#[cold]
fn intra(comm: &CommRef) -> Error {
    let name = crate::cx::comm_name(comm);
    Error::new(
        ErrorClass::ERR_COMM,
        format!("comm={name}: an intracommunicator has no remote group"),
    )
}

pub(crate) fn mpi_comm_remote_size(_: &Cx, comm: &CommRef, size: Out<c_int>) -> Result<()> {
    size.set(comm.remote.as_ref().ok_or_else(|| intra(comm))?.size() as c_int);
    Ok(())
}

pub(crate) fn mpi_comm_group(cx: &Cx, comm: &CommRef, group: Out<usize>) -> Result<()> {
    group.set(cx.objects.new_group(comm.local.clone())?);
    Ok(())
}

pub(crate) fn mpi_comm_remote_group(cx: &Cx, comm: &CommRef, group: Out<usize>) -> Result<()> {
    group.set(
        cx.objects
            .new_group(comm.remote.clone().ok_or_else(|| intra(comm))?)?,
    );
    Ok(())
}

pub(crate) fn mpi_comm_compare(_: &Cx, comm1: &CommRef, comm2: &CommRef, result: Out<c_int>) -> Result<()> {
    result.set(comm1.compare(comm2) as c_int);
    Ok(())
}

pub(crate) fn mpi_comm_set_name(_: &Cx, comm: &CommRef, name: &CStr) -> Result<()> {
    *comm.name.borrow_mut() = super::object_name("comm_name", name)?.into_bytes();
    Ok(())
}

pub(crate) fn mpi_comm_get_name(
    _: &Cx,
    comm: Option<CommRef>,
    name: OutString,
    resultlen: Out<c_int>,
) -> Result<()> {
    let text = match comm {
        Some(comm) => String::from_utf8_lossy(&comm.name.borrow()).into_owned(),
        None => "MPI_COMM_NULL".to_owned(),
    };
    resultlen.set(name.set(&text, abi::MPI_MAX_OBJECT_NAME as usize));
    Ok(())
}

pub(crate) fn mpi_comm_get_info(cx: &Cx, comm: &CommRef, info_used: Out<usize>) -> Result<()> {
    let hints = comm.info.borrow().dup();
    info_used.set(cx.objects.new_info(hints)?);
    Ok(())
}
