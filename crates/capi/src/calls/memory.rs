//! Memory for the program (MPI-5.0 section 9.2).
//!
//! Requirements of MPI-5.0 section 5.1.5.

use core::ffi::c_void;

use farpost_mpi::{Result, fail};

use super::arg;
use crate::cx::Cx;
use crate::objects::InfoRef;

/// Alignment of what is handed out: a cache line, which suits every type and keeps blocks apart.
const ALIGNMENT: usize = 64;

pub(crate) fn mpi_alloc_mem(_: &Cx, a: arg::AllocMem) -> Result<*mut c_void> {
    let (size, info) = (a.size, a.info);
    let alignment = match &info {
        Some(info) => wanted_alignment(info)?,
        None => ALIGNMENT,
    };
    let mut address = core::ptr::null_mut();
    // SAFETY: `address` takes the result; the alignment is a power of two and a multiple of a pointer's size.
    let failed = unsafe { libc::posix_memalign(&mut address, alignment, (size as usize).max(1)) } != 0;
    if failed {
        return fail!(ERR_NO_MEM: "size={size}: the system has not that many bytes for this process");
    }
    Ok(address)
}

/// The info key `mpi_minimum_memory_alignment`, where it asks for more than is usual.
fn wanted_alignment(info: &InfoRef) -> Result<usize> {
    const KEY: &str = "mpi_minimum_memory_alignment";
    let info = info.borrow();
    let Some(text) = info.get_str(KEY) else {
        return Ok(ALIGNMENT);
    };
    match text.trim().parse::<usize>() {
        Ok(bytes) if bytes.is_power_of_two() && bytes <= 1 << 30 => Ok(bytes.max(ALIGNMENT)),
        _ => fail!(ERR_INFO_VALUE: "info key {KEY}={text}: powers of two up to 2^30 are allowed"),
    }
}

pub(crate) unsafe fn mpi_free_mem(_: &Cx, a: arg::FreeMem) -> Result<()> {
    // SAFETY: null or from MPI_Alloc_mem and freed once, by the contract of the C function.
    unsafe { libc::free(a.base) };
    Ok(())
}
