//! Environment: versions, addresses, stages, threads, clocks (MPI-5.0 chapters 9, 11 and 20).
//!
//! Requirements of MPI-5.0 sections 9.1.1, 9.6, 11.2.1.

use core::ffi::c_int;

use farpost_mpi::info::Info;
use farpost_mpi::{Error, Result, error, fail};
use farpost_simlink::shared_clock;

use super::arg;
use crate::abi;
use crate::args::{self};
use crate::cx::{Cx, comm_name};
use crate::process::{Stage, WorldModel};

pub(crate) fn mpi_get_version(_: &Cx) -> Result<(c_int, c_int)> {
    Ok((abi::MPI_VERSION, abi::MPI_SUBVERSION))
}

pub(crate) fn mpi_abi_get_version(_: &Cx) -> Result<(c_int, c_int)> {
    Ok((abi::MPI_ABI_VERSION, abi::MPI_ABI_SUBVERSION))
}

pub(crate) fn mpi_get_library_version(_: &Cx, a: arg::GetLibraryVersion) -> Result<()> {
    const TEXT: &str = concat!(
        "Farpost ",
        env!("CARGO_PKG_VERSION"),
        ", MPI 5.0, standard ABI 1.0"
    );
    a.resultlen
        .set(a.version.set(TEXT, abi::MPI_MAX_LIBRARY_VERSION_STRING as usize));
    Ok(())
}

pub(crate) fn mpi_aint_add(base: i64, disp: i64) -> i64 {
    base.wrapping_add(disp)
}

pub(crate) fn mpi_aint_diff(addr1: i64, addr2: i64) -> i64 {
    addr1.wrapping_sub(addr2)
}

pub(crate) fn mpi_pcontrol(_: &Cx, _: arg::Pcontrol) -> Result<()> {
    Ok(())
}

/// Sizes of the types whose size the ABI leaves open.
pub(crate) fn mpi_abi_get_info(cx: &Cx) -> Result<usize> {
    let mut sizes = Info::new();
    for (key, bytes) in [
        ("mpi_aint_size", size_of::<isize>()),
        ("mpi_count_size", size_of::<i64>()),
        ("mpi_offset_size", size_of::<i64>()),
    ] {
        sizes.set(key.as_bytes(), bytes.to_string().as_bytes())?;
    }
    cx.objects.new_info(sizes)
}

/// Nothing is known of a Fortran compiler until somebody says so.
pub(crate) fn mpi_abi_get_fortran_info(cx: &Cx) -> Result<usize> {
    let known = cx.objects.fortran_info.borrow().as_ref().map(Info::dup);
    Ok(match known {
        Some(known) => cx.objects.new_info(known)?,
        None => abi::MPI_INFO_NULL,
    })
}

fn set_twice(what: &str) -> Error {
    error!(ERR_ABI: "{what}: set before, and can be set once only")
}

pub(crate) fn mpi_abi_set_fortran_info(cx: &Cx, a: arg::AbiSetFortranInfo) -> Result<()> {
    let info = a.info;
    let mut known = cx.objects.fortran_info.borrow_mut();
    if known.is_some() {
        return Err(set_twice("info"));
    }
    *known = info.map(|info| info.borrow().dup());
    Ok(())
}

/// Bytes of a Fortran LOGICAL, which compilers have in these sizes.
fn logical_bytes(size: c_int) -> Result<usize> {
    match size {
        1 | 2 | 4 | 8 | 16 => Ok(size as usize),
        _ => fail!(ERR_ARG: "logical_size={size}: a LOGICAL has 1, 2, 4, 8 or 16 bytes"),
    }
}

pub(crate) unsafe fn mpi_abi_set_fortran_booleans(cx: &Cx, a: arg::AbiSetFortranBooleans) -> Result<()> {
    let bytes = logical_bytes(a.logical_size)? as i64;
    // SAFETY: each has `logical_size` bytes, by the contract of the C function.
    let (on, off) = unsafe {
        (
            args::slice("logical_true", a.logical_true.cast::<u8>(), bytes)?,
            args::slice("logical_false", a.logical_false.cast::<u8>(), bytes)?,
        )
    };
    let mut known = cx.objects.fortran_booleans.borrow_mut();
    if known.is_some() {
        return Err(set_twice("the Fortran booleans"));
    }
    *known = Some((on.to_vec(), off.to_vec()));
    Ok(())
}

pub(crate) unsafe fn mpi_abi_get_fortran_booleans(cx: &Cx, a: arg::AbiGetFortranBooleans) -> Result<()> {
    let bytes = logical_bytes(a.logical_size)?;
    let known = cx.objects.fortran_booleans.borrow();
    let known = known.as_ref().filter(|(on, _)| on.len() == bytes);
    if let Some((on, off)) = known {
        // SAFETY: each has room for `logical_size` bytes, by the contract of the C function.
        unsafe {
            args::slice_mut("logical_true", a.logical_true.cast::<u8>(), bytes as i64)?.copy_from_slice(on);
            args::slice_mut("logical_false", a.logical_false.cast::<u8>(), bytes as i64)?
                .copy_from_slice(off);
        }
    }
    a.is_set.set(c_int::from(known.is_some()));
    Ok(())
}

pub(crate) fn mpi_initialized(cx: &Cx) -> Result<bool> {
    Ok(cx.life.world_model.get() != WorldModel::Before)
}

pub(crate) fn mpi_finalized(cx: &Cx) -> Result<bool> {
    Ok(cx.life.world_model.get() == WorldModel::Finalised || cx.life.stage.get() == Stage::Forked)
}

pub(crate) fn mpi_query_thread(cx: &Cx) -> Result<c_int> {
    Ok(cx.life.provided.get())
}

pub(crate) fn mpi_is_thread_main(cx: &Cx) -> Result<bool> {
    Ok(cx.life.is_main_thread())
}

pub(crate) fn mpi_abort(cx: &Cx, a: arg::Abort) -> Result<()> {
    let errorcode = a.errorcode;
    cx.abort(
        errorcode,
        &format!("MPI_Abort({}, {errorcode})", comm_name(a.comm)),
    )
}

pub(crate) fn mpi_get_processor_name(cx: &Cx, a: arg::GetProcessorName) -> Result<()> {
    let simulated = cx.node.get().and_then(|node| node.simulated_host());
    let name = simulated.unwrap_or_else(farpost_job::host_name);
    a.resultlen
        .set(a.name.set(&name, abi::MPI_MAX_PROCESSOR_NAME as usize));
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
    if let Some(time) = shared_clock::look() {
        return time.secs();
    }
    // SAFETY: the call fills the timespec it is given.
    clock(|time| unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time) })
}

pub(crate) fn mpi_wtick() -> f64 {
    if let Some(tick) = shared_clock::tick() {
        return tick.secs();
    }
    // SAFETY: the call fills the timespec it is given.
    clock(|time| unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, time) })
}
