//! Puts and gets that go on after the call that began them.

use core::ffi::{c_int, c_void};
use std::rc::Rc;
use std::time::Duration;

use farpost_fabric::TransferMemory;
use farpost_node::NodeFabric;
use farpost_rsm::{Code, Request, fail};

use super::export::serve_meanwhile;
use super::library::{Library, Result, imported, opened, there};
use crate::cx::Cx;
use crate::interfaces::Place;
use crate::interfaces::rsm::arg;
use crate::interfaces::rsm::{rsm_memseg_import_handle_t, rsm_request_t};

/// A put or a get of `length` bytes, to be ended by its handle.
///
/// # Safety
/// `data`, if not null, is the library's until the request is over.
unsafe fn start(
    cx: &'static Cx,
    (memseg, offset): (rsm_memseg_import_handle_t, libc::off_t),
    (data, length): (*mut c_void, usize),
    put: bool,
    request: Place<rsm_request_t>,
) -> Result<()> {
    let (library, imported) = imported(cx, memseg)?;
    if data.is_null() {
        return fail!(BAD_ADDR: "the address of the data is null");
    }
    there(request, Code::BAD_ADDR, "request")?;
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    imported.import.check_range(offset, length)?;
    // SAFETY: the caller's promise.
    let memory = unsafe { TransferMemory::lent(data.expose_provenance(), length) };
    let begun = match put {
        true => imported.import.start_put(offset, memory)?,
        false => imported.import.start_get(offset, memory)?,
    };
    let under_way = !begun.is_over();
    request.set(library.requests.borrow_mut().add(Rc::new(begun))?);
    if under_way && !library.asks.replace(true) {
        serve_meanwhile(cx, library);
    }
    Ok(())
}

pub(crate) unsafe fn rsm_memseg_import_start_put(
    cx: &'static Cx,
    a: arg::rsm_memseg_import_start_put,
) -> Result<()> {
    // SAFETY: the interface's contract; a put only reads.
    unsafe {
        start(
            cx,
            (a.memseg, a.offset),
            (a.src_addr.cast_mut(), a.length),
            true,
            a.request,
        )
    }
}

pub(crate) unsafe fn rsm_memseg_import_start_get(
    cx: &'static Cx,
    a: arg::rsm_memseg_import_start_get,
) -> Result<()> {
    // SAFETY: the interface's contract.
    unsafe { start(cx, (a.memseg, a.offset), (a.dst_addr, a.length), false, a.request) }
}

type Found = (&'static Library, Rc<Request<NodeFabric>>);

/// The request of a handle; none for null.
fn find(cx: &'static Cx, request: Place<rsm_request_t>) -> Result<Option<Found>> {
    let Some(handle) = request.get() else {
        return fail!(BAD_ADDR: "request is null");
    };
    if handle.is_null() {
        return Ok(None);
    }
    let found = opened(cx).and_then(|library| {
        let requests = library.requests.borrow();
        requests.get(handle).map(|it| (library, Rc::clone(it)))
    });
    match found {
        Some(found) => Ok(Some(found)),
        None => fail!(BAD_SEG_HNDL: "request holds something else than a request"),
    }
}

/// A request is over: its handle names nothing any more.
fn forget(library: &Library, request: Place<rsm_request_t>) {
    if let Some(handle) = request.get() {
        library.requests.borrow_mut().remove(handle);
    }
    request.set(core::ptr::null_mut());
}

pub(crate) fn rsm_request_test(cx: &'static Cx, a: arg::rsm_request_test) -> Result<()> {
    let Some((library, it)) = find(cx, a.request)? else {
        a.done.set(1);
        return Ok(());
    };
    let result = it.test();
    a.done.set(c_int::from(result.is_some()));
    match result {
        None => Ok(()),
        Some(result) => {
            forget(library, a.request);
            result
        }
    }
}

pub(crate) fn rsm_request_wait(cx: &'static Cx, a: arg::rsm_request_wait) -> Result<()> {
    let Some((library, it)) = find(cx, a.request)? else {
        return Ok(());
    };
    let timeout = u64::try_from(a.timeout).ok().map(Duration::from_millis);
    let result = it.wait(timeout);
    if it.is_over() {
        forget(library, a.request);
    }
    result
}

pub(crate) fn rsm_request_cancel(cx: &'static Cx, a: arg::rsm_request_cancel) -> Result<()> {
    if let Some((library, it)) = find(cx, a.request)? {
        // Somebody may wait for it in another thread.
        it.cancel();
        forget(library, a.request);
    }
    Ok(())
}
