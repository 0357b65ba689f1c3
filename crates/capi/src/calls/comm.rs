//! Making and freeing communicators (MPI-5.0 sections 7.4.2 to 7.4.4, 7.6.2, 11.10.4).

use core::ffi::{CStr, c_int};
use std::rc::Rc;

use farpost_mpi::Result;
use farpost_mpi::comm::{Comm, RESOURCE_KEY, SHARED_MEMORY, SplitType};
use farpost_mpi::errhandler::{ErrorHandler, HandlerKind};

use crate::abi;
use crate::args::{InOut, Out};
use crate::cx::{CommRef, Cx, GroupRef, InfoRef};

/// The handle of what was made, `MPI_COMM_NULL` for nothing.
pub(super) fn put(newcomm: Out<usize>, new: Option<Rc<Comm>>) {
    newcomm.set(new.map_or(abi::MPI_COMM_NULL, |new| new.handle.get()));
}

pub(crate) fn mpi_comm_dup(cx: &Cx, comm: &CommRef, newcomm: Out<usize>) -> Result<()> {
    put(newcomm, Some(cx.world().comm_dup(comm, None)?));
    Ok(())
}

pub(crate) fn mpi_comm_dup_with_info(
    cx: &Cx,
    comm: &CommRef,
    info: Option<InfoRef>,
    newcomm: Out<usize>,
) -> Result<()> {
    let hints = info.map(|info| info.borrow().clone());
    put(newcomm, Some(cx.world().comm_dup(comm, hints.as_ref())?));
    Ok(())
}

pub(crate) fn mpi_comm_idup(cx: &Cx, comm: &CommRef, newcomm: Out<usize>, request: Out<usize>) -> Result<()> {
    mpi_comm_idup_with_info(cx, comm, None, newcomm, request)
}

pub(crate) fn mpi_comm_idup_with_info(
    cx: &Cx,
    comm: &CommRef,
    info: Option<InfoRef>,
    newcomm: Out<usize>,
    request: Out<usize>,
) -> Result<()> {
    let hints = info.map(|info| info.borrow().clone());
    let (new, under_way) = cx.world().comm_idup(comm, hints.as_ref())?;
    newcomm.set(new);
    request.set(under_way);
    Ok(())
}

pub(crate) fn mpi_comm_split(
    cx: &Cx,
    comm: &CommRef,
    color: c_int,
    key: c_int,
    newcomm: Out<usize>,
) -> Result<()> {
    put(newcomm, cx.world().comm_split(comm, color, key)?);
    Ok(())
}

pub(crate) fn mpi_comm_split_type(
    cx: &Cx,
    comm: &CommRef,
    split_type: c_int,
    key: c_int,
    info: Option<InfoRef>,
    newcomm: Out<usize>,
) -> Result<()> {
    let kind = SplitType::from_abi(split_type)?;
    let hints = info.as_ref().map(|info| info.borrow().clone());
    let new = cx.world().comm_split_type(comm, kind, key, hints.as_ref())?;
    if let (Some(info), Some(_), Some(SplitType::HwUnguided)) = (info, &new, kind) {
        // The program is told what the split was by.
        info.borrow_mut()
            .set(RESOURCE_KEY.as_bytes(), SHARED_MEMORY.as_bytes())?;
    }
    put(newcomm, new);
    Ok(())
}

pub(crate) fn mpi_comm_create(cx: &Cx, comm: &CommRef, group: &GroupRef, newcomm: Out<usize>) -> Result<()> {
    put(newcomm, cx.world().comm_create(comm, group)?);
    Ok(())
}

pub(crate) fn mpi_comm_create_group(
    cx: &Cx,
    comm: &CommRef,
    group: &GroupRef,
    tag: c_int,
    newcomm: Out<usize>,
) -> Result<()> {
    put(newcomm, cx.world().comm_create_group(comm, group, tag)?);
    Ok(())
}

pub(crate) fn mpi_comm_free(cx: &Cx, comm: InOut<usize>) -> Result<()> {
    let object = cx.comm("comm", comm.get())?;
    cx.world().comm_free(&object)?;
    comm.set(abi::MPI_COMM_NULL);
    Ok(())
}

pub(crate) fn mpi_comm_disconnect(cx: &Cx, comm: InOut<usize>) -> Result<()> {
    let object = cx.comm("comm", comm.get())?;
    cx.world().comm_disconnect(&object)?;
    comm.set(abi::MPI_COMM_NULL);
    Ok(())
}

pub(crate) fn mpi_comm_set_info(_: &Cx, comm: &CommRef, info: Option<InfoRef>) -> Result<()> {
    if let Some(info) = info {
        comm.set_info(&info.borrow());
    }
    Ok(())
}

/// Nobody starts processes yet, so nobody has a parent.
pub(crate) fn mpi_comm_get_parent(_: &Cx, parent: Out<usize>) -> Result<()> {
    parent.set(abi::MPI_COMM_NULL);
    Ok(())
}

pub(crate) fn mpi_intercomm_create(
    cx: &Cx,
    local_comm: &CommRef,
    local_leader: c_int,
    peer_comm: Option<CommRef>,
    remote_leader: c_int,
    tag: c_int,
    newintercomm: Out<usize>,
) -> Result<()> {
    let world = cx.world();
    let new = world.intercomm_create(local_comm, local_leader, peer_comm.as_ref(), remote_leader, tag)?;
    put(newintercomm, Some(new));
    Ok(())
}

/// The error handler of a new communicator.
fn handler(cx: &Cx, errhandler: usize) -> Result<ErrorHandler> {
    let handler = cx.objects.errhandler("errhandler", errhandler)?;
    handler.check_kind(HandlerKind::Comm)?;
    Ok(handler)
}

pub(crate) fn mpi_comm_create_from_group(
    cx: &Cx,
    group: &GroupRef,
    stringtag: &CStr,
    _info: Option<InfoRef>,
    errhandler: usize,
    newcomm: Out<usize>,
) -> Result<()> {
    let handler = handler(cx, errhandler)?;
    let new = cx.world().comm_create_from_group(group, stringtag.to_bytes())?;
    if let Some(new) = &new {
        new.errhandler.replace(handler);
    }
    put(newcomm, new);
    Ok(())
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) fn mpi_intercomm_create_from_groups(
    cx: &Cx,
    local_group: &GroupRef,
    local_leader: c_int,
    remote_group: &GroupRef,
    remote_leader: c_int,
    stringtag: &CStr,
    _info: Option<InfoRef>,
    errhandler: usize,
    newintercomm: Out<usize>,
) -> Result<()> {
    let handler = handler(cx, errhandler)?;
    let tag = stringtag.to_bytes();
    let new = cx.world().intercomm_create_from_groups(
        local_group,
        local_leader,
        remote_group,
        remote_leader,
        tag,
    )?;
    new.errhandler.replace(handler);
    put(newintercomm, Some(new));
    Ok(())
}

pub(crate) fn mpi_intercomm_merge(
    cx: &Cx,
    intercomm: &CommRef,
    high: bool,
    newintracomm: Out<usize>,
) -> Result<()> {
    put(newintracomm, Some(cx.world().intercomm_merge(intercomm, high)?));
    Ok(())
}
