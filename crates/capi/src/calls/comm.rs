//! Making and freeing communicators (MPI-5.0 sections 7.4.2 to 7.4.4, 7.6.2, 11.10.4).

use core::ffi::CStr;
use std::rc::Rc;

use farpost_mpi::comm::{Comm, RESOURCE_KEY, SHARED_MEMORY, SplitType};
use farpost_mpi::errhandler::{ErrorHandler, HandlerKind};
use farpost_mpi::group::Group;
use farpost_mpi::{Result, fail};

use super::arg;
use crate::abi;
use crate::cx::Cx;

/// The handle of what was made, `MPI_COMM_NULL` for nothing.
pub(super) fn put(new: Option<Rc<Comm>>) -> usize {
    new.map_or(abi::MPI_COMM_NULL, |new| new.handle.get())
}

pub(crate) fn mpi_comm_dup(cx: &Cx, a: arg::CommDup) -> Result<usize> {
    Ok(put(Some(cx.world().comm_dup(a.comm, None)?)))
}

pub(crate) fn mpi_comm_dup_with_info(cx: &Cx, a: arg::CommDupWithInfo) -> Result<usize> {
    let hints = a.info.map(|info| info.borrow().clone());
    Ok(put(Some(cx.world().comm_dup(a.comm, hints.as_ref())?)))
}

pub(crate) fn mpi_comm_idup(cx: &Cx, a: arg::CommIdup) -> Result<(usize, usize)> {
    cx.world().comm_idup(a.comm, None)
}

pub(crate) fn mpi_comm_idup_with_info(cx: &Cx, a: arg::CommIdupWithInfo) -> Result<(usize, usize)> {
    let hints = a.info.map(|info| info.borrow().clone());
    cx.world().comm_idup(a.comm, hints.as_ref())
}

pub(crate) fn mpi_comm_split(cx: &Cx, a: arg::CommSplit) -> Result<usize> {
    Ok(put(cx.world().comm_split(a.comm, a.color, a.key)?))
}

pub(crate) fn mpi_comm_split_type(cx: &Cx, a: arg::CommSplitType) -> Result<usize> {
    let kind = SplitType::from_abi(a.split_type)?;
    let hints = a.info.as_ref().map(|info| info.borrow().clone());
    let new = cx.world().comm_split_type(a.comm, kind, a.key, hints.as_ref())?;
    if let (Some(info), Some(_), Some(SplitType::HwUnguided)) = (a.info, &new, kind) {
        // The program is told what the split was by.
        info.borrow_mut()
            .set(RESOURCE_KEY.as_bytes(), SHARED_MEMORY.as_bytes())?;
    }
    Ok(put(new))
}

pub(crate) fn mpi_comm_create(cx: &Cx, a: arg::CommCreate) -> Result<usize> {
    Ok(put(cx.world().comm_create(a.comm, a.group)?))
}

pub(crate) fn mpi_comm_create_group(cx: &Cx, a: arg::CommCreateGroup) -> Result<usize> {
    Ok(put(cx.world().comm_create_group(a.comm, a.group, a.tag)?))
}

pub(crate) fn mpi_comm_free(cx: &Cx, a: arg::CommFree) -> Result<()> {
    cx.world().comm_free(&cx.comm("comm", a.comm)?)
}

pub(crate) fn mpi_comm_disconnect(cx: &Cx, a: arg::CommDisconnect) -> Result<()> {
    cx.world().comm_disconnect(&cx.comm("comm", a.comm)?)
}

pub(crate) fn mpi_comm_set_info(_: &Cx, a: arg::CommSetInfo) -> Result<()> {
    if let Some(info) = a.info {
        a.comm.set_info(&info.borrow());
    }
    Ok(())
}

/// Nobody starts processes yet, so nobody has a parent.
pub(crate) fn mpi_comm_get_parent(_: &Cx) -> Result<usize> {
    Ok(abi::MPI_COMM_NULL)
}

pub(crate) fn mpi_intercomm_create(cx: &Cx, a: arg::IntercommCreate) -> Result<usize> {
    let world = cx.world();
    let new = world.intercomm_create(
        a.local_comm,
        a.local_leader,
        a.peer_comm.as_ref(),
        a.remote_leader,
        a.tag,
    )?;
    Ok(put(Some(new)))
}

/// The error handler of a new communicator.
fn handler(cx: &Cx, errhandler: usize) -> Result<ErrorHandler> {
    let handler = cx.objects.errhandler("errhandler", errhandler)?;
    handler.check_kind(HandlerKind::Comm)?;
    Ok(handler)
}

/// The string that tells calls of several threads apart.
fn string_tag(tag: &CStr) -> Result<&[u8]> {
    let (tag, room) = (tag.to_bytes(), abi::MPI_MAX_STRINGTAG_LEN as usize - 1);
    if tag.len() > room {
        return fail!(ERR_ARG: "stringtag has {} bytes: it may have {room} (MPI_MAX_STRINGTAG_LEN with its end)", tag.len());
    }
    Ok(tag)
}

/// A group whose session has been finalised has nobody to speak to.
fn need_session(cx: &Cx, argument: &str, group: &Group) -> Result<()> {
    let session = group.session();
    if group.is_empty() || session == 0 || cx.world().session(session).is_some() {
        return Ok(());
    }
    fail!(ERR_SESSION: "{argument}: it is of session {session:#x}, which was finalised")
}

pub(crate) fn mpi_comm_create_from_group(cx: &Cx, a: arg::CommCreateFromGroup) -> Result<usize> {
    let handler = handler(cx, a.errhandler)?;
    let tag = string_tag(a.stringtag)?;
    need_session(cx, "group", a.group)?;
    let new = cx.world().comm_create_from_group(a.group, tag)?;
    if let Some(new) = &new {
        new.errhandler.replace(handler);
    }
    Ok(put(new))
}

pub(crate) fn mpi_intercomm_create_from_groups(cx: &Cx, a: arg::IntercommCreateFromGroups) -> Result<usize> {
    let handler = handler(cx, a.errhandler)?;
    let tag = string_tag(a.stringtag)?;
    if a.local_group.is_empty() && a.remote_group.is_empty() {
        return Ok(abi::MPI_COMM_NULL);
    }
    need_session(cx, "local_group", a.local_group)?;
    need_session(cx, "remote_group", a.remote_group)?;
    let new = cx.world().intercomm_create_from_groups(
        a.local_group,
        a.local_leader,
        a.remote_group,
        a.remote_leader,
        tag,
    )?;
    new.errhandler.replace(handler);
    Ok(put(Some(new)))
}

pub(crate) fn mpi_intercomm_merge(cx: &Cx, a: arg::IntercommMerge) -> Result<usize> {
    Ok(put(Some(cx.world().intercomm_merge(a.intercomm, a.high)?)))
}
