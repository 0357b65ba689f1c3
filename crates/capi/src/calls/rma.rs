//! One-sided operations (MPI-5.0 section 12.3).

use core::ffi::c_void;

use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::op::Predefined;
use farpost_mpi::{Result, fail};
use farpost_rma::{Place, What};

use super::arg;
use crate::abi;
use crate::args;
use crate::cx::{Cx, OpRef, TypeRef, WinRef};

/// Whether there is a target: without one buffers mean nothing.
fn somebody(rank: i32) -> bool {
    rank != abi::MPI_PROC_NULL
}

/// Elements of the origin's memory.
type Elements<'a, P> = (P, i64, &'a TypeRef);

/// A buffer of the origin's that is read.
fn read(name: &str, (address, count, ty): Elements<'_, *const c_void>, there: bool) -> Result<SendBuf> {
    if there {
        args::buffer(name, address, count, ty)?;
    }
    // SAFETY: the program keeps it until the operation is complete, by the standard.
    Ok(unsafe { SendBuf::new(address.cast(), count as u64, ty.clone()) })
}

/// A buffer of the origin's that is written.
fn written(name: &str, (address, count, ty): Elements<'_, *mut c_void>, there: bool) -> Result<RecvBuf> {
    if there {
        args::buffer(name, address, count, ty)?;
    }
    // SAFETY: as above.
    Ok(unsafe { RecvBuf::new(address.cast(), count as u64, ty.clone()) })
}

/// Elements of the target's memory.
fn place(rank: i32, disp: i64, count: i64, datatype: &TypeRef) -> Place<'_> {
    Place {
        rank,
        disp,
        count: count as u64,
        datatype,
    }
}

/// Start an operation: its request, where there is to be one.
fn operate(cx: &Cx, win: &WinRef, what: What, place: &Place<'_>, by_request: bool) -> Result<usize> {
    let request = win.operate(cx.world(), what, place, by_request)?;
    Ok(request.unwrap_or(abi::MPI_REQUEST_NULL))
}

/// Whether an operation reads the origin's data.
fn reads(op: &OpRef) -> bool {
    op.as_predefined() != Some(Predefined::NoOp)
}

fn put(
    cx: &Cx,
    win: &WinRef,
    from: Elements<'_, *const c_void>,
    place: &Place<'_>,
    by_request: bool,
) -> Result<usize> {
    let what = What::Put(read("origin_addr", from, somebody(place.rank))?);
    operate(cx, win, what, place, by_request)
}

pub(crate) fn mpi_put(cx: &Cx, a: arg::Put) -> Result<()> {
    let origin = (a.origin_addr, a.origin_count, a.origin_datatype);
    let place = place(a.target_rank, a.target_disp, a.target_count, a.target_datatype);
    put(cx, a.win, origin, &place, false).map(drop)
}

pub(crate) fn mpi_rput(cx: &Cx, a: arg::Rput) -> Result<usize> {
    let origin = (a.origin_addr, a.origin_count, a.origin_datatype);
    let place = place(a.target_rank, a.target_disp, a.target_count, a.target_datatype);
    put(cx, a.win, origin, &place, true)
}

fn get(
    cx: &Cx,
    win: &WinRef,
    to: Elements<'_, *mut c_void>,
    place: &Place<'_>,
    by_request: bool,
) -> Result<usize> {
    let what = What::Get(written("origin_addr", to, somebody(place.rank))?);
    operate(cx, win, what, place, by_request)
}

pub(crate) fn mpi_get(cx: &Cx, a: arg::Get) -> Result<()> {
    let origin = (a.origin_addr, a.origin_count, a.origin_datatype);
    let place = place(a.target_rank, a.target_disp, a.target_count, a.target_datatype);
    get(cx, a.win, origin, &place, false).map(drop)
}

pub(crate) fn mpi_rget(cx: &Cx, a: arg::Rget) -> Result<usize> {
    let origin = (a.origin_addr, a.origin_count, a.origin_datatype);
    let place = place(a.target_rank, a.target_disp, a.target_count, a.target_datatype);
    get(cx, a.win, origin, &place, true)
}

fn accumulate(
    cx: &Cx,
    win: &WinRef,
    from: Elements<'_, *const c_void>,
    op: &OpRef,
    place: &Place<'_>,
    by_request: bool,
) -> Result<usize> {
    let from = read("origin_addr", from, somebody(place.rank))?;
    operate(cx, win, What::Accumulate(from, op.clone()), place, by_request)
}

pub(crate) fn mpi_accumulate(cx: &Cx, a: arg::Accumulate) -> Result<()> {
    let origin = (a.origin_addr, a.origin_count, a.origin_datatype);
    let place = place(a.target_rank, a.target_disp, a.target_count, a.target_datatype);
    accumulate(cx, a.win, origin, a.op, &place, false).map(drop)
}

pub(crate) fn mpi_raccumulate(cx: &Cx, a: arg::Raccumulate) -> Result<usize> {
    let origin = (a.origin_addr, a.origin_count, a.origin_datatype);
    let place = place(a.target_rank, a.target_disp, a.target_count, a.target_datatype);
    accumulate(cx, a.win, origin, a.op, &place, true)
}

fn get_accumulate(
    cx: &Cx,
    win: &WinRef,
    from: Elements<'_, *const c_void>,
    to: Elements<'_, *mut c_void>,
    op: &OpRef,
    place: &Place<'_>,
    by_request: bool,
) -> Result<usize> {
    let there = somebody(place.rank);
    let from = reads(op).then(|| read("origin_addr", from, there));
    let to = written("result_addr", to, there)?;
    let what = What::Fetch(from.transpose()?, to, op.clone());
    operate(cx, win, what, place, by_request)
}

pub(crate) fn mpi_get_accumulate(cx: &Cx, a: arg::GetAccumulate) -> Result<()> {
    let origin = (a.origin_addr, a.origin_count, a.origin_datatype);
    let place = place(a.target_rank, a.target_disp, a.target_count, a.target_datatype);
    get_accumulate(
        cx,
        a.win,
        origin,
        (a.result_addr, a.result_count, a.result_datatype),
        a.op,
        &place,
        false,
    )
    .map(drop)
}

pub(crate) fn mpi_rget_accumulate(cx: &Cx, a: arg::RgetAccumulate) -> Result<usize> {
    let origin = (a.origin_addr, a.origin_count, a.origin_datatype);
    let place = place(a.target_rank, a.target_disp, a.target_count, a.target_datatype);
    get_accumulate(
        cx,
        a.win,
        origin,
        (a.result_addr, a.result_count, a.result_datatype),
        a.op,
        &place,
        true,
    )
}

/// One element of a predefined datatype.
fn one<'a>(rank: i32, disp: i64, datatype: &'a TypeRef) -> Result<Place<'a>> {
    if !datatype.is_predefined() {
        return fail!(ERR_TYPE: "datatype={}: a predefined datatype is needed", datatype.describe());
    }
    Ok(place(rank, disp, 1, datatype))
}

pub(crate) fn mpi_fetch_and_op(cx: &Cx, a: arg::FetchAndOp) -> Result<()> {
    let there = somebody(a.target_rank);
    let place = one(a.target_rank, a.target_disp, a.datatype)?;
    let from = reads(a.op).then(|| read("origin_addr", (a.origin_addr, 1, a.datatype), there));
    let to = written("result_addr", (a.result_addr, 1, a.datatype), there)?;
    let what = What::Fetch(from.transpose()?, to, a.op.clone());
    operate(cx, a.win, what, &place, false).map(drop)
}

pub(crate) fn mpi_compare_and_swap(cx: &Cx, a: arg::CompareAndSwap) -> Result<()> {
    let there = somebody(a.target_rank);
    let place = one(a.target_rank, a.target_disp, a.datatype)?;
    let new = read("origin_addr", (a.origin_addr, 1, a.datatype), there)?;
    let compare = read("compare_addr", (a.compare_addr, 1, a.datatype), there)?;
    let to = written("result_addr", (a.result_addr, 1, a.datatype), there)?;
    operate(cx, a.win, What::CompareAndSwap(new, compare, to), &place, false).map(drop)
}
