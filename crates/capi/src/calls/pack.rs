//! Packing, and what a status says in elements of a datatype (MPI-5.0 sections 3.2.5, 5.1, 5.2, 5.3).

use core::ffi::c_void;

use farpost_mpi::Result;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::{ErrorClass, fail, pack};

use super::arg;
use crate::abi::{self};
use crate::args::{self, InOut, InOutCount};
use crate::cx::Cx;

pub(crate) fn mpi_get_address(_: &Cx, a: arg::GetAddress) -> Result<i64> {
    Ok(a.location as i64)
}

/// The buffer to pack from: `count` elements at `address`.
///
/// # Safety
/// The program's memory is there and does not change during the call.
unsafe fn source(name: &str, address: *const c_void, count: i64, datatype: &Datatype) -> Result<SendBuf> {
    args::buffer(name, address, count, datatype)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { SendBuf::new(address.cast(), count as u64, datatype.clone()) })
}

/// As `source`, to unpack to.
///
/// # Safety
/// As `source`, and nothing else uses it during the call.
unsafe fn target(name: &str, address: *mut c_void, count: i64, datatype: &Datatype) -> Result<RecvBuf> {
    args::buffer(name, address, count, datatype)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { RecvBuf::new(address.cast(), count as u64, datatype.clone()) })
}

/// The position as it is used: from 0 to the size of the pack buffer.
fn start(position: InOutCount, size: i64) -> Result<u64> {
    let at = position.get();
    if (0..=size).contains(&at) {
        return Ok(at as u64);
    }
    fail!(ERR_ARG: "position={at}: the pack buffer has {size} bytes")
}

pub(crate) unsafe fn mpi_pack(_: &Cx, a: arg::Pack) -> Result<()> {
    let mut at = start(a.position, a.outsize)?;
    // SAFETY: by the contract of the C function.
    let (data, out) = unsafe {
        (
            source("inbuf", a.inbuf, a.incount, a.datatype)?,
            args::slice_mut("outbuf", a.outbuf.cast::<u8>(), a.outsize)?,
        )
    };
    pack::pack(&data, out, &mut at)?;
    a.position.set(at as i64)
}

pub(crate) unsafe fn mpi_unpack(_: &Cx, a: arg::Unpack) -> Result<()> {
    let mut at = start(a.position, a.insize)?;
    // SAFETY: by the contract of the C function.
    let (packed, data) = unsafe {
        (
            args::slice("inbuf", a.inbuf.cast::<u8>(), a.insize)?,
            target("outbuf", a.outbuf, a.outcount, a.datatype)?,
        )
    };
    pack::unpack(packed, &mut at, &data)?;
    a.position.set(at as i64)
}

pub(crate) fn mpi_pack_size(_: &Cx, a: arg::PackSize) -> Result<()> {
    a.size.set(pack::pack_size(a.incount, a.datatype)?)
}

pub(crate) unsafe fn mpi_pack_external(_: &Cx, a: arg::PackExternal) -> Result<()> {
    pack::check_datarep(&a.datarep.to_string_lossy())?;
    let mut at = external_start(a.position, a.outsize)?;
    // SAFETY: by the contract of the C function.
    let (data, out) = unsafe {
        (
            source("inbuf", a.inbuf, a.incount, a.datatype)?,
            args::slice_mut("outbuf", a.outbuf.cast::<u8>(), a.outsize)?,
        )
    };
    pack::pack_external(&data, out, &mut at)?;
    a.position.set(at as i64);
    Ok(())
}

pub(crate) unsafe fn mpi_unpack_external(_: &Cx, a: arg::UnpackExternal) -> Result<()> {
    pack::check_datarep(&a.datarep.to_string_lossy())?;
    let mut at = external_start(a.position, a.insize)?;
    // SAFETY: by the contract of the C function.
    let (packed, data) = unsafe {
        (
            args::slice("inbuf", a.inbuf.cast::<u8>(), a.insize)?,
            target("outbuf", a.outbuf, a.outcount, a.datatype)?,
        )
    };
    pack::unpack_external(packed, &mut at, &data)?;
    a.position.set(at as i64);
    Ok(())
}

fn external_start(position: InOut<i64>, size: i64) -> Result<u64> {
    args::non_negative("the size of the pack buffer", size, ErrorClass::ERR_ARG)?;
    let at = position.get();
    if (0..=size).contains(&at) {
        return Ok(at as u64);
    }
    fail!(ERR_ARG: "position={at}: the pack buffer has {size} bytes")
}

pub(crate) fn mpi_pack_external_size(_: &Cx, a: arg::PackExternalSize) -> Result<i64> {
    pack::check_datarep(&a.datarep.to_string_lossy())?;
    pack::pack_external_size(a.incount, a.datatype)
}

fn wide(count: Option<u64>) -> i64 {
    count
        .and_then(|c| i64::try_from(c).ok())
        .unwrap_or(abi::MPI_UNDEFINED.into())
}

pub(crate) fn mpi_get_count(_: &Cx, a: arg::GetCount) -> Result<()> {
    a.count
        .set_or_undefined(wide(a.datatype.count_of(a.status.bytes())));
    Ok(())
}

pub(crate) fn mpi_get_elements(_: &Cx, a: arg::GetElements) -> Result<()> {
    a.count
        .set_or_undefined(wide(a.datatype.elements_of(a.status.bytes())));
    Ok(())
}

pub(crate) fn mpi_get_elements_x(_: &Cx, a: arg::GetElementsX) -> Result<i64> {
    Ok(wide(a.datatype.elements_of(a.status.bytes())))
}

pub(crate) fn mpi_status_set_elements(_: &Cx, a: arg::StatusSetElements) -> Result<()> {
    let count = a.count;
    let Some(bytes) = a.datatype.bytes_of_elements(count as u64) else {
        return fail!(
            ERR_COUNT: "count={count}: so many elements of {} take more than 2^63 bytes", a.datatype.describe()
        );
    };
    let mut changed = a.status.get();
    changed.set_bytes(bytes);
    a.status.set(changed);
    Ok(())
}
