//! Completing operations (MPI-5.0 sections 3.7, 3.8, 3.9), and what a status says.
//!
//! Requirements of MPI-5.0 sections 3.2.5, 3.7.1, 3.7.3, 3.7.5, 3.7.6.

use core::ffi::c_int;

use farpost_mpi::engine::request::Status;
use farpost_mpi::world::Awaited;
use farpost_mpi::{Error, ErrorClass, Result};

use super::arg;
use crate::abi::{self, MPI_Status};
use crate::args::{Out, OutArray, StatusOut, Statuses};
use crate::cx::Cx;
use crate::objects::no_object;

/// A status as C sees it; its error is the caller's to tell.
#[inline(always)]
pub(crate) fn to_abi(status: &Status) -> MPI_Status {
    let mut out = MPI_Status {
        MPI_SOURCE: status.source,
        MPI_TAG: status.tag,
        MPI_ERROR: abi::MPI_SUCCESS,
        MPI_internal: [0; 5],
    };
    out.set_bytes(status.bytes);
    out.set_cancelled(status.cancelled);
    out
}

/// The status of the one operation a function completes, and its error as the function's.
#[inline(always)]
pub(crate) fn deliver(status: Status, out: StatusOut) -> Result<()> {
    out.set(&to_abi(&status));
    match status.error {
        None => Ok(()),
        Some(error) => Err(*error),
    }
}

pub(crate) fn check(cx: &Cx, name: &str, handle: usize) -> Result<()> {
    if handle == abi::MPI_REQUEST_NULL || cx.world().is_request(handle) {
        return Ok(());
    }
    Err(no_object(name, handle, ErrorClass::ERR_REQUEST))
}

fn check_all(cx: &Cx, requests: &[usize]) -> Result<()> {
    match cx.world().first_not_live(requests, abi::MPI_REQUEST_NULL) {
        None => Ok(()),
        Some(at) => Err(no_object(
            &format!("array_of_requests[{at}]"),
            requests[at],
            ErrorClass::ERR_REQUEST,
        )),
    }
}

/// Whether there is anything to wait for: neither null nor an inactive persistent request.
fn is_active(cx: &Cx, handle: usize) -> bool {
    handle != abi::MPI_REQUEST_NULL && cx.world().is_active(handle)
}

/// Takes the result of a complete request; the handle becomes null unless it is persistent.
#[inline(always)]
fn take(cx: &Cx, request: &mut usize) -> Result<Status> {
    let (status, gone) = cx.world().finish(*request)?;
    if gone {
        *request = abi::MPI_REQUEST_NULL;
    }
    Ok(status)
}

#[inline(always)]
pub(crate) fn mpi_wait(cx: &Cx, a: arg::Wait) -> Result<()> {
    let handle = a.request.get();
    if handle == abi::MPI_REQUEST_NULL {
        a.status.set_with_error(&MPI_Status::EMPTY);
        return Ok(());
    }
    let (done, gone) = cx.world().wait_finish(handle)?;
    if gone {
        a.request.set(abi::MPI_REQUEST_NULL);
    }
    deliver(done, a.status)
}

#[inline(always)]
pub(crate) fn mpi_test(cx: &Cx, a: arg::Test) -> Result<()> {
    let mut handle = a.request.get();
    if handle == abi::MPI_REQUEST_NULL {
        a.flag.set(1);
        a.status.set_with_error(&MPI_Status::EMPTY);
        return Ok(());
    }
    let done = cx.world().test(handle)?;
    cx.world().looked(done);
    a.flag.set(c_int::from(done));
    if !done {
        return Ok(());
    }
    let done = take(cx, &mut handle)?;
    a.request.set(handle);
    deliver(done, a.status)
}

/// The results of complete requests: statuses in order, and MPI_ERR_IN_STATUS when one of them is an error.
struct Several<'a> {
    cx: &'a Cx,
    statuses: Statuses,
    failed: Option<Error>,
    filled: usize,
}

impl<'a> Several<'a> {
    fn new(cx: &'a Cx, statuses: Statuses) -> Self {
        Self {
            cx,
            statuses,
            failed: None,
            filled: 0,
        }
    }

    /// The next status.
    fn put(&mut self, status: Status) {
        let mut out = to_abi(&status);
        if let Some(error) = status.error {
            if self.failed.is_none() {
                // Earlier ones are without an error: now that counts, and the program may look.
                for at in 0..self.filled {
                    self.statuses.at(at).set_error(abi::MPI_SUCCESS);
                }
            }
            out.MPI_ERROR = self.cx.objects.codes.code("", &error);
            self.failed = Some(*error);
        }
        let place = self.statuses.at(self.filled);
        if self.failed.is_some() {
            place.set_with_error(&out)
        } else {
            place.set(&out)
        }
        self.filled += 1;
    }

    fn finish(self) -> Result<()> {
        match self.failed {
            None => Ok(()),
            // Without statuses the sentence is all there is.
            Some(error) => Err(Error::new(ErrorClass::ERR_IN_STATUS, error.message)),
        }
    }
}

/// Gives the results of requests at `places`, one `result` each.
fn give_all(
    cx: &Cx,
    places: impl Iterator<Item = usize>,
    statuses: Statuses,
    mut result: impl FnMut(usize) -> Result<Status>,
) -> Result<()> {
    let mut several = Several::new(cx, statuses);
    for at in places {
        several.put(result(at)?);
    }
    several.finish()
}

fn take_all(cx: &Cx, requests: &mut [usize], statuses: Statuses) -> Result<()> {
    give_all(cx, 0..requests.len(), statuses, |at| match requests[at] {
        abi::MPI_REQUEST_NULL => Ok(Status::EMPTY),
        _ => take(cx, &mut requests[at]),
    })
}

pub(crate) fn mpi_waitall(cx: &Cx, a: arg::Waitall) -> Result<()> {
    let (requests, statuses) = (a.array_of_requests, a.array_of_statuses);
    let world = cx.world();
    let mut left = 0;
    if statuses.is_ignored() {
        // The common case: what is complete goes at once, without its status being looked at.
        loop {
            left += world.discard_complete(&mut requests[left..], abi::MPI_REQUEST_NULL);
            if left == requests.len() {
                return Ok(());
            }
            if !world.progress() {
                break;
            }
        }
    }
    // The handles are looked at when there is time, that is, before anything is waited for.
    check_all(cx, requests)?;
    if statuses.is_ignored() {
        while !world.is_complete(requests[left])? {
            world.wait_for(Awaited::All(&requests[left..]), || {
                world.is_complete(requests[left])
            })?;
            left += world.discard_complete(&mut requests[left..], abi::MPI_REQUEST_NULL);
            if left == requests.len() {
                return Ok(());
            }
        }
    }
    // Requests complete in any order, but all have to: one at a time, those behind complete meanwhile.
    let all = &*requests;
    let mut done = || {
        while let Some(handle) = all.get(left) {
            if *handle != abi::MPI_REQUEST_NULL && !world.is_complete(*handle)? {
                return Ok(false);
            }
            left += 1;
        }
        Ok(true)
    };
    if !done()? {
        world.wait_for(Awaited::All(all), done)?;
    }
    take_all(cx, requests, statuses)
}

pub(crate) fn mpi_testall(cx: &Cx, a: arg::Testall) -> Result<()> {
    let requests = a.array_of_requests;
    check_all(cx, requests)?;
    let done = all_complete(cx, requests)?;
    a.flag.set(c_int::from(done));
    if done {
        take_all(cx, requests, a.array_of_statuses)
    } else {
        Ok(())
    }
}

/// Whether all are complete, after making progress if they were not.
fn all_complete(cx: &Cx, requests: &[usize]) -> Result<bool> {
    for handle in requests {
        if *handle != abi::MPI_REQUEST_NULL && !cx.world().test(*handle)? {
            cx.world().looked(false);
            return Ok(false);
        }
    }
    cx.world().looked(true);
    Ok(true)
}

/// The first complete one of the active requests.
fn first_complete(cx: &Cx, requests: &[usize]) -> Result<Option<usize>> {
    for (at, handle) in requests.iter().enumerate() {
        if is_active(cx, *handle) && cx.world().is_complete(*handle)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// As `first_complete`, after making progress if there was none.
fn first_tested(cx: &Cx, requests: &[usize]) -> Result<Option<usize>> {
    cx.world().looks();
    if let Some(at) = first_complete(cx, requests)? {
        cx.world().looked(true);
        return Ok(Some(at));
    }
    cx.world().progress();
    let found = first_complete(cx, requests)?;
    cx.world().looked(found.is_some());
    Ok(found)
}

/// Waits until one of the active requests is complete: the first.
fn first_awaited(cx: &Cx, requests: &[usize]) -> Result<usize> {
    let mut found = first_complete(cx, requests)?;
    if found.is_none() {
        cx.world().wait_for(Awaited::Any(requests), || {
            found = first_complete(cx, requests)?;
            Ok(found.is_some())
        })?;
    }
    Ok(found.unwrap_or(0))
}

/// Whether there is anything to complete among `requests`.
///
/// # Errors
/// One of them is no request.
fn has_active(cx: &Cx, requests: &[usize]) -> Result<bool> {
    check_all(cx, requests)?;
    Ok(requests.iter().any(|handle| is_active(cx, *handle)))
}

/// The first complete one of the active requests, its place told, and whether there is one if there is a flag for that; without, it
/// is waited for. `None`: all else is told too.
fn any_complete(
    cx: &Cx,
    requests: &[usize],
    indx: Out<c_int>,
    flag: Option<Out<c_int>>,
    status: StatusOut,
) -> Result<Option<usize>> {
    let active = has_active(cx, requests)?;
    let found = match flag {
        _ if !active => None,
        Some(_) => first_tested(cx, requests)?,
        None => Some(first_awaited(cx, requests)?),
    };
    indx.set(found.map_or(abi::MPI_UNDEFINED, |at| at as c_int));
    if let Some(flag) = flag {
        flag.set(c_int::from(!active || found.is_some()));
    }
    if !active {
        status.set_with_error(&MPI_Status::EMPTY);
    }
    Ok(found)
}

pub(crate) fn mpi_waitany(cx: &Cx, a: arg::Waitany) -> Result<()> {
    let requests = a.array_of_requests;
    let found = any_complete(cx, requests, a.indx, None, a.status)?;
    found.map_or(Ok(()), |at| deliver(take(cx, &mut requests[at])?, a.status))
}

pub(crate) fn mpi_testany(cx: &Cx, a: arg::Testany) -> Result<()> {
    let requests = a.array_of_requests;
    let found = any_complete(cx, requests, a.indx, Some(a.flag), a.status)?;
    found.map_or(Ok(()), |at| deliver(take(cx, &mut requests[at])?, a.status))
}

/// Where every complete one of the active requests is; `None`: none is active. `wait`: until there is one.
fn some_complete(cx: &Cx, requests: &[usize], wait: bool) -> Result<Option<Vec<usize>>> {
    if !has_active(cx, requests)? {
        return Ok(None);
    }
    if wait {
        first_awaited(cx, requests)?;
    } else {
        first_tested(cx, requests)?;
    }
    let mut found = Vec::new();
    for (at, request) in requests.iter().enumerate() {
        if is_active(cx, *request) && cx.world().is_complete(*request)? {
            found.push(at);
        }
    }
    Ok(Some(found))
}

/// Gives what `result` says of the requests that are `complete`.
fn give_some(
    cx: &Cx,
    complete: Option<Vec<usize>>,
    (outcount, indices, statuses): (Out<c_int>, OutArray<c_int>, Statuses),
    result: impl FnMut(usize) -> Result<Status>,
) -> Result<()> {
    let Some(complete) = complete else {
        outcount.set(abi::MPI_UNDEFINED);
        return Ok(());
    };
    let list: Vec<c_int> = complete.iter().map(|at| *at as c_int).collect();
    outcount.set(list.len() as c_int);
    indices.fill(&list)?;
    give_all(cx, complete.into_iter(), statuses, result)
}

pub(crate) fn mpi_waitsome(cx: &Cx, a: arg::Waitsome) -> Result<()> {
    let requests = a.array_of_requests;
    let complete = some_complete(cx, requests, true)?;
    let out = (a.outcount, a.array_of_indices, a.array_of_statuses);
    give_some(cx, complete, out, |at| take(cx, &mut requests[at]))
}

pub(crate) fn mpi_testsome(cx: &Cx, a: arg::Testsome) -> Result<()> {
    let requests = a.array_of_requests;
    let complete = some_complete(cx, requests, false)?;
    let out = (a.outcount, a.array_of_indices, a.array_of_statuses);
    give_some(cx, complete, out, |at| take(cx, &mut requests[at]))
}

/// The status of a complete request, which stays.
fn peek(cx: &Cx, handle: usize) -> Result<Status> {
    if handle == abi::MPI_REQUEST_NULL {
        Ok(Status::EMPTY)
    } else {
        cx.world().peek_status(handle)
    }
}

pub(crate) fn mpi_request_get_status(cx: &Cx, a: arg::RequestGetStatus) -> Result<()> {
    check(cx, "request", a.request)?;
    let done = all_complete(cx, &[a.request])?;
    a.flag.set(c_int::from(done));
    if done {
        deliver(peek(cx, a.request)?, a.status)
    } else {
        Ok(())
    }
}

pub(crate) fn mpi_request_get_status_all(cx: &Cx, a: arg::RequestGetStatusAll) -> Result<()> {
    let requests = a.array_of_requests;
    check_all(cx, requests)?;
    let done = all_complete(cx, requests)?;
    a.flag.set(c_int::from(done));
    let places = if done { 0..requests.len() } else { 0..0 };
    give_all(cx, places, a.array_of_statuses, |at| peek(cx, requests[at]))
}

pub(crate) fn mpi_request_get_status_any(cx: &Cx, a: arg::RequestGetStatusAny) -> Result<()> {
    let requests = a.array_of_requests;
    let found = any_complete(cx, requests, a.indx, Some(a.flag), a.status)?;
    found.map_or(Ok(()), |at| deliver(peek(cx, requests[at])?, a.status))
}

pub(crate) fn mpi_request_get_status_some(cx: &Cx, a: arg::RequestGetStatusSome) -> Result<()> {
    let requests = a.array_of_requests;
    let complete = some_complete(cx, requests, false)?;
    let out = (a.outcount, a.array_of_indices, a.array_of_statuses);
    give_some(cx, complete, out, |at| peek(cx, requests[at]))
}

/// A request that has to be one.
fn live(cx: &Cx, handle: usize) -> Result<usize> {
    check(cx, "request", handle)?;
    if handle == abi::MPI_REQUEST_NULL {
        return Err(no_object("request", handle, ErrorClass::ERR_REQUEST));
    }
    Ok(handle)
}

pub(crate) fn mpi_request_free(cx: &Cx, a: arg::RequestFree) -> Result<()> {
    cx.world().free_request(live(cx, a.request)?)
}

pub(crate) fn mpi_cancel(cx: &Cx, a: arg::Cancel) -> Result<()> {
    cx.world().cancel(live(cx, a.request.get())?)
}

pub(crate) fn mpi_start(cx: &Cx, a: arg::Start) -> Result<()> {
    cx.world().start(live(cx, a.request.get())?)
}

pub(crate) fn mpi_startall(cx: &Cx, a: arg::Startall) -> Result<()> {
    for handle in a.array_of_requests {
        cx.world().start(live(cx, *handle)?)?;
    }
    Ok(())
}
