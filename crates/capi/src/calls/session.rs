//! Sessions (MPI-5.0 section 11.3). They begin and end with the process's part in its job in `init`; their error handlers are in
//! `errors`, their buffers in `bsend`.
//!
//! Requirements of MPI-5.0 section 11.3.3.

use core::ffi::c_int;

use farpost_mpi::Result;
use farpost_mpi::info::Info;
use farpost_mpi::session::ProcessSet;

use super::arg;
use crate::cx::Cx;

pub(crate) fn mpi_session_get_info(cx: &Cx, a: arg::SessionGetInfo) -> Result<usize> {
    cx.objects.new_info(a.session.info.dup())
}

pub(crate) fn mpi_session_get_num_psets(_: &Cx, _: arg::SessionGetNumPsets) -> Result<c_int> {
    Ok(ProcessSet::count() as c_int)
}

/// The length is told always, with the zero byte at the end; of the name as much as there is room for.
pub(crate) fn mpi_session_get_nth_pset(_: &Cx, a: arg::SessionGetNthPset) -> Result<()> {
    let name = ProcessSet::nth_name(a.n)?;
    let room = usize::try_from(a.pset_len.get()).unwrap_or(0);
    if room > 0 {
        let bytes = a.pset_name.bytes("pset_name", room)?;
        let len = name.len().min(room - 1);
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        bytes[len] = 0;
    }
    a.pset_len.set(name.len() as c_int + 1);
    Ok(())
}

pub(crate) fn mpi_session_get_pset_info(cx: &Cx, a: arg::SessionGetPsetInfo) -> Result<usize> {
    let set = ProcessSet::named(a.pset_name.to_bytes())?;
    let mut info = Info::new();
    let size = cx.world().pset_group(a.session, set).size();
    info.set(b"mpi_size", size.to_string().as_bytes())?;
    cx.objects.new_info(info)
}

pub(crate) fn mpi_group_from_session_pset(cx: &Cx, a: arg::GroupFromSessionPset) -> Result<usize> {
    let set = ProcessSet::named(a.pset_name.to_bytes())?;
    cx.objects.new_group(cx.world().pset_group(a.session, set))
}
