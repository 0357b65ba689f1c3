//! Synchronisation of windows (MPI-5.0 section 12.5).

use core::ffi::c_int;

use farpost_mpi::{Result, fail};
use farpost_rma::LockKind;

use super::arg;
use crate::abi;
use crate::cx::Cx;

pub(crate) fn mpi_win_fence(cx: &Cx, a: arg::WinFence) -> Result<()> {
    a.win.fence(cx.world(), a.assert)
}

pub(crate) fn mpi_win_start(cx: &Cx, a: arg::WinStart) -> Result<()> {
    a.win.start(cx.world(), a.group, a.assert)
}

pub(crate) fn mpi_win_complete(cx: &Cx, a: arg::WinComplete) -> Result<()> {
    a.win.complete(cx.world())
}

pub(crate) fn mpi_win_post(cx: &Cx, a: arg::WinPost) -> Result<()> {
    a.win.post(cx.world(), a.group, a.assert)
}

pub(crate) fn mpi_win_wait(cx: &Cx, a: arg::WinWait) -> Result<()> {
    a.win.wait_posted(cx.world())
}

pub(crate) fn mpi_win_test(cx: &Cx, a: arg::WinTest) -> Result<c_int> {
    a.win.test_posted(cx.world()).map(c_int::from)
}

pub(crate) fn mpi_win_lock(cx: &Cx, a: arg::WinLock) -> Result<()> {
    let kind = match a.lock_type {
        abi::MPI_LOCK_EXCLUSIVE => LockKind::Exclusive,
        abi::MPI_LOCK_SHARED => LockKind::Shared,
        other => {
            return fail!(ERR_LOCKTYPE: "lock_type={other}: allowed are MPI_LOCK_EXCLUSIVE and MPI_LOCK_SHARED");
        }
    };
    a.win.lock(cx.world(), kind, a.rank, a.assert)
}

pub(crate) fn mpi_win_unlock(cx: &Cx, a: arg::WinUnlock) -> Result<()> {
    a.win.unlock(cx.world(), a.rank)
}

pub(crate) fn mpi_win_lock_all(cx: &Cx, a: arg::WinLockAll) -> Result<()> {
    a.win.lock_all(cx.world(), a.assert)
}

pub(crate) fn mpi_win_unlock_all(cx: &Cx, a: arg::WinUnlockAll) -> Result<()> {
    a.win.unlock_all(cx.world())
}

pub(crate) fn mpi_win_flush(cx: &Cx, a: arg::WinFlush) -> Result<()> {
    a.win.flush(cx.world(), Some(a.rank), false)
}

pub(crate) fn mpi_win_flush_all(cx: &Cx, a: arg::WinFlushAll) -> Result<()> {
    a.win.flush(cx.world(), None, false)
}

pub(crate) fn mpi_win_flush_local(cx: &Cx, a: arg::WinFlushLocal) -> Result<()> {
    a.win.flush(cx.world(), Some(a.rank), true)
}

pub(crate) fn mpi_win_flush_local_all(cx: &Cx, a: arg::WinFlushLocalAll) -> Result<()> {
    a.win.flush(cx.world(), None, true)
}

pub(crate) fn mpi_win_sync(cx: &Cx, a: arg::WinSync) -> Result<()> {
    a.win.sync(cx.world())
}
