//! Initialisation, finalisation, threads, clocks (MPI-5.0 chapters 9 and 11).
//!
//! Requirements of MPI-5.0 section 11.2.1.

use core::ffi::{c_char, c_int};

use farpost_mpi::{Error, ErrorClass, Result};

use crate::abi;
use crate::args::{Out, OutString};
use crate::cx::{CommRef, Cx};
use crate::lock;
use crate::process::{self, Stage};

pub(crate) fn mpi_init(cx: &'static Cx, _argc: *mut c_int, _argv: *mut *mut *mut c_char) -> Result<()> {
    process::initialise(cx, abi::MPI_THREAD_SINGLE)
}

pub(crate) fn mpi_init_thread(
    cx: &'static Cx,
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: Out<c_int>,
) -> Result<()> {
    let levels = [
        abi::MPI_THREAD_SINGLE,
        abi::MPI_THREAD_FUNNELED,
        abi::MPI_THREAD_SERIALIZED,
        abi::MPI_THREAD_MULTIPLE,
    ];
    if !levels.contains(&required) {
        let text =
            format!("required={required}: allowed are MPI_THREAD_SINGLE, _FUNNELED, _SERIALIZED, _MULTIPLE");
        return Err(Error::new(ErrorClass::ERR_ARG, text));
    }
    process::initialise(cx, required)?;
    provided.set(cx.life.provided.get());
    if required == abi::MPI_THREAD_MULTIPLE {
        // Others may come in from the moment this returns, not before.
        lock::allow_threads();
    }
    Ok(())
}

pub(crate) fn mpi_finalize(cx: &'static Cx) -> Result<()> {
    process::finalise(cx)
}

pub(crate) fn mpi_initialized(cx: &Cx, flag: Out<c_int>) -> Result<()> {
    flag.set(c_int::from(cx.life.stage.get() != Stage::Before));
    Ok(())
}

pub(crate) fn mpi_finalized(cx: &Cx, flag: Out<c_int>) -> Result<()> {
    flag.set(c_int::from(matches!(
        cx.life.stage.get(),
        Stage::After | Stage::Forked
    )));
    Ok(())
}

pub(crate) fn mpi_query_thread(cx: &Cx, provided: Out<c_int>) -> Result<()> {
    provided.set(cx.life.provided.get());
    Ok(())
}

pub(crate) fn mpi_is_thread_main(cx: &Cx, flag: Out<c_int>) -> Result<()> {
    flag.set(c_int::from(cx.life.is_main_thread()));
    Ok(())
}

pub(crate) fn mpi_abort(cx: &Cx, comm: &CommRef, errorcode: c_int) -> Result<()> {
    let text = format!("MPI_Abort({}, {errorcode})", crate::cx::comm_name(comm));
    process::abort(cx, errorcode, &text)
}

pub(crate) fn mpi_get_processor_name(_: &Cx, name: OutString, resultlen: Out<c_int>) -> Result<()> {
    resultlen.set(name.set(&farpost_job::host_name(), abi::MPI_MAX_PROCESSOR_NAME as usize));
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
