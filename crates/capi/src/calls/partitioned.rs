//! Partitioned communication.
//!
//! Requirements of MPI-5.0 sections 4.2.1, 4.2.2, 4.2.3.

use core::ffi::c_int;
use core::ops::Range;
use core::slice::from_ref;

use farpost_mpi::{ErrorClass, Result, fail};

use super::arg;
use super::p2p::{incoming, outgoing};
use crate::abi;
use crate::args;
use crate::cx::{Cx, TypeRef};
use crate::objects::no_object;

/// Elements of all partitions.
fn elements(buf: *const core::ffi::c_void, partitions: c_int, count: i64, datatype: &TypeRef) -> Result<i64> {
    args::non_negative("partitions", i64::from(partitions), ErrorClass::ERR_ARG)?;
    args::non_negative("count", count, ErrorClass::ERR_COUNT)?;
    let Some(all) = count.checked_mul(i64::from(partitions)) else {
        return fail!(ERR_COUNT: "count={count}: {partitions} partitions of as many elements are more than 2^63-1");
    };
    args::buffer("buf", buf.cast(), all, datatype)?;
    Ok(all)
}

pub(crate) fn mpi_psend_init(cx: &Cx, a: arg::PsendInit) -> Result<usize> {
    let all = elements(a.buf, a.partitions, a.count, a.datatype)?;
    // SAFETY: the program keeps the buffer, and each partition as it is from when it is ready, until the operation completes.
    let buf = unsafe { outgoing(a.buf, all, a.datatype.clone()) };
    cx.world()
        .psend_init(a.comm, buf, a.partitions.cast_unsigned(), a.dest, a.tag)
}

pub(crate) fn mpi_precv_init(cx: &Cx, a: arg::PrecvInit) -> Result<usize> {
    let all = elements(a.buf, a.partitions, a.count, a.datatype)?;
    // SAFETY: the program leaves the buffer alone while the operation is active, but for partitions that have arrived.
    let buf = unsafe { incoming(a.buf, all, a.datatype.clone()) };
    cx.world()
        .precv_init(a.comm, buf, a.partitions.cast_unsigned(), a.dest, a.tag)
}

fn partition(name: &str, value: c_int) -> Result<u32> {
    args::non_negative(name, i64::from(value), ErrorClass::ERR_ARG)?;
    Ok(value.cast_unsigned())
}

fn ready(cx: &Cx, request: usize, runs: &[Range<u32>]) -> Result<()> {
    if request == abi::MPI_REQUEST_NULL {
        return Err(no_object("request", request, ErrorClass::ERR_REQUEST));
    }
    cx.world().pready(request, runs)
}

pub(crate) fn mpi_pready(cx: &Cx, a: arg::Pready) -> Result<()> {
    let partition = partition("partition", a.partition)?;
    ready(cx, a.request, from_ref(&(partition..partition + 1)))
}

pub(crate) fn mpi_pready_range(cx: &Cx, a: arg::PreadyRange) -> Result<()> {
    let low = partition("partition_low", a.partition_low)?;
    let high = partition("partition_high", a.partition_high)?;
    if low > high {
        return fail!(ERR_ARG: "partition_low={low}: must not be above partition_high={high}");
    }
    ready(cx, a.request, from_ref(&(low..high + 1)))
}

pub(crate) fn mpi_pready_list(cx: &Cx, a: arg::PreadyList) -> Result<()> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for (at, value) in a.array_of_partitions.iter().enumerate() {
        args::non_negative(
            &format!("array_of_partitions[{at}]"),
            i64::from(*value),
            ErrorClass::ERR_ARG,
        )?;
        let next = value.cast_unsigned();
        match runs.last_mut() {
            Some(last) if last.end == next => last.end = next + 1,
            _ => runs.push(next..next + 1),
        }
    }
    ready(cx, a.request, &runs)
}

pub(crate) fn mpi_parrived(cx: &Cx, a: arg::Parrived) -> Result<bool> {
    if a.request == abi::MPI_REQUEST_NULL {
        return Ok(true);
    }
    cx.world()
        .parrived(a.request, partition("partition", a.partition)?)
}
