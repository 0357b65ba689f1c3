//! Starting, completing and freeing requests of a checked program.

use farpost_mpi::Result;
use farpost_mpi::engine::request::Status;
use farpost_mpi::world::Watch;

use super::Check;
use super::made::What;
use crate::calls;
use crate::calls::arg;
use crate::cx::{self, Cx};
use crate::names::Fun;

/// Sees all results.
pub(crate) struct Results;

impl Watch for Results {
    fn finished(&self, handle: usize, status: &mut Status, gone: bool) {
        let cx = cx::process();
        if let Some(check) = super::of(cx) {
            check.completed(cx, handle, status, gone, false);
            if gone {
                check.gone(What::Request, super::call(), handle);
            }
        }
    }

    fn peeked(&self, handle: usize, status: &mut Status) {
        let cx = cx::process();
        if let Some(check) = super::of(cx) {
            check.completed(cx, handle, status, false, true);
        }
    }
}

// These two leave a dead handle to the world, which does not know who completed it.

pub(crate) fn mpi_wait(cx: &Cx, _: &Check, _: Fun, a: arg::Wait) -> Result<()> {
    calls::request::check(cx, "request", a.request.get())?;
    calls::request::mpi_wait(cx, a)
}

pub(crate) fn mpi_test(cx: &Cx, _: &Check, _: Fun, a: arg::Test) -> Result<()> {
    calls::request::check(cx, "request", a.request.get())?;
    calls::request::mpi_test(cx, a)
}

pub(crate) fn mpi_start(cx: &Cx, check: &Check, _: Fun, a: arg::Start) -> Result<()> {
    let handle = a.request.get();
    check.starting(cx, handle);
    calls::request::mpi_start(cx, a).inspect_err(|_| check.forget(handle, true))
}

pub(crate) fn mpi_startall(cx: &Cx, check: &Check, _: Fun, a: arg::Startall) -> Result<()> {
    for handle in a.array_of_requests.iter() {
        check.starting(cx, *handle);
    }
    calls::request::mpi_startall(cx, a)
}

pub(crate) fn mpi_request_free(cx: &Cx, check: &Check, _: Fun, a: arg::RequestFree) -> Result<()> {
    let handle = a.request;
    calls::request::mpi_request_free(cx, a)?;
    check.forget(handle, false);
    Ok(())
}
