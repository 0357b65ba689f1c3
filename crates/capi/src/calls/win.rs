//! Making, freeing and asking windows (MPI-5.0 section 12.2).

use core::ffi::c_void;

use farpost_mpi::info::Info;
use farpost_mpi::{Result, fail};
use farpost_rma::{Flavor, New, Windows};

use super::{arg, object_name};
use crate::abi;
use crate::cx::{CommRef, Cx, WinRef};
use crate::objects::InfoRef;
use crate::progress::{self, Reason};

/// Make a window; the first one has the library's thread serve the process while the program computes.
fn make(cx: &'static Cx, comm: &CommRef, info: Option<InfoRef>, new: New) -> Result<WinRef> {
    let world = cx.world();
    let windows = cx.windows.get_or_init(|| Windows::new(world));
    let info = info.map(|info| info.borrow().dup());
    let win = windows.make(world, comm, info.as_ref(), new)?;
    let locks = info.as_ref().and_then(|info| info.get_str("no_locks")) != Some("true");
    if locks
        && !win.is_direct()
        && comm.size() > 1
        && cx
            .node
            .get()
            .is_some_and(|node| node.settings.progress.mpi == 2 && !node.is_simulated())
    {
        // Without the thread, targets serve in their calls.
        let _ = progress::start(cx, Reason::Mpi, true, progress::serve_mpi);
    }
    Ok(win)
}

fn pointer(address: usize) -> *mut c_void {
    core::ptr::with_exposed_provenance_mut(address)
}

pub(crate) fn mpi_win_create(cx: &'static Cx, a: arg::WinCreate) -> Result<usize> {
    if a.base.is_null() && a.size > 0 {
        return fail!(ERR_ARG: "base=NULL: {} bytes need memory", a.size);
    }
    let new = New {
        flavor: Flavor::Create,
        base: a.base.expose_provenance(),
        size: a.size,
        unit: a.disp_unit,
    };
    Ok(make(cx, a.comm, a.info, new)?.handle.get())
}

pub(crate) fn mpi_win_allocate(cx: &'static Cx, a: arg::WinAllocate) -> Result<(*mut c_void, usize)> {
    let new = New {
        flavor: Flavor::Allocate,
        base: 0,
        size: a.size,
        unit: a.disp_unit,
    };
    let win = make(cx, a.comm, a.info, new)?;
    Ok((pointer(win.base), win.handle.get()))
}

pub(crate) fn mpi_win_allocate_shared(
    cx: &'static Cx,
    a: arg::WinAllocateShared,
) -> Result<(*mut c_void, usize)> {
    let new = New {
        flavor: Flavor::Shared,
        base: 0,
        size: a.size,
        unit: a.disp_unit,
    };
    let win = make(cx, a.comm, a.info, new)?;
    Ok((pointer(win.base), win.handle.get()))
}

pub(crate) fn mpi_win_create_dynamic(cx: &'static Cx, a: arg::WinCreateDynamic) -> Result<usize> {
    let new = New {
        flavor: Flavor::Dynamic,
        base: 0,
        size: 0,
        unit: 1,
    };
    Ok(make(cx, a.comm, a.info, new)?.handle.get())
}

pub(crate) fn mpi_win_shared_query(_: &Cx, a: arg::WinSharedQuery) -> Result<()> {
    let found = a.win.query(a.rank)?;
    a.size.set(found.size);
    a.disp_unit.set(found.unit)?;
    a.baseptr.set(pointer(found.base));
    Ok(())
}

pub(crate) fn mpi_win_attach(_: &Cx, a: arg::WinAttach) -> Result<()> {
    a.win.attach(a.base.expose_provenance(), a.size)
}

pub(crate) fn mpi_win_detach(_: &Cx, a: arg::WinDetach) -> Result<()> {
    a.win.detach(a.base.expose_provenance())
}

pub(crate) fn mpi_win_free(cx: &Cx, a: arg::WinFree) -> Result<()> {
    let win = cx.win("win", a.win)?;
    match cx.windows.get() {
        Some(windows) => windows.free(cx.world(), &win),
        None => Ok(()),
    }
}

pub(crate) fn mpi_win_get_group(cx: &Cx, a: arg::WinGetGroup) -> Result<usize> {
    cx.objects.new_group(a.win.comm.local.clone())
}

pub(crate) fn mpi_win_get_info(cx: &Cx, a: arg::WinGetInfo) -> Result<usize> {
    cx.objects.new_info(a.win.get_info())
}

pub(crate) fn mpi_win_set_info(_: &Cx, a: arg::WinSetInfo) -> Result<()> {
    let none = Info::new();
    match &a.info {
        Some(info) => a.win.set_info(&info.borrow()),
        None => a.win.set_info(&none),
    }
    Ok(())
}

pub(crate) fn mpi_win_set_name(_: &Cx, a: arg::WinSetName) -> Result<()> {
    let name = object_name("win_name", a.win_name)?;
    a.win.name.replace(name.into_bytes());
    Ok(())
}

pub(crate) fn mpi_win_get_name(_: &Cx, a: arg::WinGetName) -> Result<()> {
    let name = match &a.win {
        Some(win) => String::from_utf8_lossy(&win.name.borrow()).into_owned(),
        None => "MPI_WIN_NULL".into(),
    };
    a.resultlen
        .set(a.win_name.set(&name, abi::MPI_MAX_OBJECT_NAME as usize));
    Ok(())
}
