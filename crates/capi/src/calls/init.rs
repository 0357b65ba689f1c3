//! Initialisation, finalisation, threads, clocks (MPI-5.0 chapters 9 and 11).
//!
//! Requirements of MPI-5.0 section 11.2.1.

use core::ffi::c_int;

use farpost_mpi::{Result, fail};

use super::arg;
use crate::abi;
use crate::cx::Cx;
use crate::lock;
use crate::process::{self, Stage};

pub(crate) fn mpi_init(cx: &'static Cx, _: arg::Init) -> Result<()> {
    process::initialise(cx, abi::MPI_THREAD_SINGLE)
}

pub(crate) fn mpi_init_thread(cx: &'static Cx, a: arg::InitThread) -> Result<c_int> {
    let required = a.required;
    let levels = [
        abi::MPI_THREAD_SINGLE,
        abi::MPI_THREAD_FUNNELED,
        abi::MPI_THREAD_SERIALIZED,
        abi::MPI_THREAD_MULTIPLE,
    ];
    if !levels.contains(&required) {
        return fail!(
            ERR_ARG: "required={required}: allowed are MPI_THREAD_SINGLE, _FUNNELED, _SERIALIZED, _MULTIPLE"
        );
    }
    process::initialise(cx, required)?;
    if required == abi::MPI_THREAD_MULTIPLE {
        // Others may come in from the moment this returns, not before.
        lock::allow_threads();
    }
    Ok(cx.life.provided.get())
}

pub(crate) fn mpi_finalize(cx: &'static Cx) -> Result<()> {
    process::finalise(cx)
}

pub(crate) fn mpi_initialized(cx: &Cx) -> Result<bool> {
    Ok(cx.life.stage.get() != Stage::Before)
}

pub(crate) fn mpi_finalized(cx: &Cx) -> Result<bool> {
    Ok(matches!(cx.life.stage.get(), Stage::After | Stage::Forked))
}

pub(crate) fn mpi_query_thread(cx: &Cx) -> Result<c_int> {
    Ok(cx.life.provided.get())
}

pub(crate) fn mpi_is_thread_main(cx: &Cx) -> Result<bool> {
    Ok(cx.life.is_main_thread())
}

pub(crate) fn mpi_abort(cx: &Cx, a: arg::Abort) -> Result<()> {
    let errorcode = a.errorcode;
    let text = format!("MPI_Abort({}, {errorcode})", crate::cx::comm_name(a.comm));
    process::abort(cx, errorcode, &text)
}

pub(crate) fn mpi_get_processor_name(_: &Cx, a: arg::GetProcessorName) -> Result<()> {
    a.resultlen.set(
        a.name
            .set(&farpost_job::host_name(), abi::MPI_MAX_PROCESSOR_NAME as usize),
    );
    Ok(())
}

fn clock(read: impl Fn(&mut libc::timespec) -> c_int) -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    read(&mut time);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

pub(crate) fn mpi_wtime() -> f64 {
    // SAFETY: the call fills the timespec it is given.
    clock(|time| unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time) })
}

pub(crate) fn mpi_wtick() -> f64 {
    // SAFETY: the call fills the timespec it is given.
    clock(|time| unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, time) })
}
