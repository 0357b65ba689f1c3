//! Packing, and what a status says in elements of a datatype (MPI-5.0 sections 3.2.5, 5.1, 5.2, 5.3).

use core::ffi::{CStr, c_void};

use farpost_mpi::Result;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::{self, Datatype};
use farpost_mpi::{Error, ErrorClass};

use crate::abi::{self, MPI_Status};
use crate::args::{self, InOut, InOutCount, Out, OutCount};
use crate::cx::{CommRef, Cx, TypeRef};

pub(crate) fn mpi_get_address(_: &Cx, location: *const c_void, address: Out<i64>) -> Result<()> {
    address.set(location as i64);
    Ok(())
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
    Err(Error::new(
        ErrorClass::ERR_ARG,
        format!("position={at}: the pack buffer has {size} bytes"),
    ))
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_pack(
    _: &Cx,
    inbuf: *const c_void,
    incount: i64,
    datatype: &TypeRef,
    outbuf: *mut c_void,
    outsize: i64,
    position: InOutCount,
    _comm: &CommRef,
) -> Result<()> {
    let mut at = start(position, outsize)?;
    // SAFETY: by the contract of the C function.
    let (data, out) = unsafe {
        (
            source("inbuf", inbuf, incount, datatype)?,
            args::slice_mut("outbuf", outbuf.cast::<u8>(), outsize)?,
        )
    };
    datatype::pack(&data, out, &mut at)?;
    position.set(at as i64)
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_unpack(
    _: &Cx,
    inbuf: *const c_void,
    insize: i64,
    position: InOutCount,
    outbuf: *mut c_void,
    outcount: i64,
    datatype: &TypeRef,
    _comm: &CommRef,
) -> Result<()> {
    let mut at = start(position, insize)?;
    // SAFETY: by the contract of the C function.
    let (packed, data) = unsafe {
        (
            args::slice("inbuf", inbuf.cast::<u8>(), insize)?,
            target("outbuf", outbuf, outcount, datatype)?,
        )
    };
    datatype::unpack(packed, &mut at, &data)?;
    position.set(at as i64)
}

pub(crate) fn mpi_pack_size(
    _: &Cx,
    incount: i64,
    datatype: &TypeRef,
    _comm: &CommRef,
    size: OutCount,
) -> Result<()> {
    size.set(datatype::pack_size(incount, datatype)?)
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_pack_external(
    _: &Cx,
    datarep: &CStr,
    inbuf: *const c_void,
    incount: i64,
    datatype: &TypeRef,
    outbuf: *mut c_void,
    outsize: i64,
    position: InOut<i64>,
) -> Result<()> {
    datatype::check_datarep(&datarep.to_string_lossy())?;
    let mut at = external_start(position, outsize)?;
    // SAFETY: by the contract of the C function.
    let (data, out) = unsafe {
        (
            source("inbuf", inbuf, incount, datatype)?,
            args::slice_mut("outbuf", outbuf.cast::<u8>(), outsize)?,
        )
    };
    datatype::pack_external(&data, out, &mut at)?;
    position.set(at as i64);
    Ok(())
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_unpack_external(
    _: &Cx,
    datarep: &CStr,
    inbuf: *const c_void,
    insize: i64,
    position: InOut<i64>,
    outbuf: *mut c_void,
    outcount: i64,
    datatype: &TypeRef,
) -> Result<()> {
    datatype::check_datarep(&datarep.to_string_lossy())?;
    let mut at = external_start(position, insize)?;
    // SAFETY: by the contract of the C function.
    let (packed, data) = unsafe {
        (
            args::slice("inbuf", inbuf.cast::<u8>(), insize)?,
            target("outbuf", outbuf, outcount, datatype)?,
        )
    };
    datatype::unpack_external(packed, &mut at, &data)?;
    position.set(at as i64);
    Ok(())
}

fn external_start(position: InOut<i64>, size: i64) -> Result<u64> {
    args::non_negative("the size of the pack buffer", size, ErrorClass::ERR_ARG)?;
    let at = position.get();
    if (0..=size).contains(&at) {
        return Ok(at as u64);
    }
    Err(Error::new(
        ErrorClass::ERR_ARG,
        format!("position={at}: the pack buffer has {size} bytes"),
    ))
}

pub(crate) fn mpi_pack_external_size(
    _: &Cx,
    datarep: &CStr,
    incount: i64,
    datatype: &TypeRef,
    size: Out<i64>,
) -> Result<()> {
    datatype::check_datarep(&datarep.to_string_lossy())?;
    size.set(datatype::pack_external_size(incount, datatype)?);
    Ok(())
}

fn wide(count: Option<u64>) -> i64 {
    count
        .and_then(|c| i64::try_from(c).ok())
        .unwrap_or(abi::MPI_UNDEFINED.into())
}

pub(crate) fn mpi_get_count(_: &Cx, status: &MPI_Status, datatype: &TypeRef, count: OutCount) -> Result<()> {
    count.set_or_undefined(wide(datatype.count_of(status.bytes())));
    Ok(())
}

pub(crate) fn mpi_get_elements(
    _: &Cx,
    status: &MPI_Status,
    datatype: &TypeRef,
    count: OutCount,
) -> Result<()> {
    count.set_or_undefined(wide(datatype.elements_of(status.bytes())));
    Ok(())
}

pub(crate) fn mpi_get_elements_x(
    _: &Cx,
    status: &MPI_Status,
    datatype: &TypeRef,
    count: Out<i64>,
) -> Result<()> {
    count.set(wide(datatype.elements_of(status.bytes())));
    Ok(())
}

fn set_elements(status: InOut<MPI_Status>, datatype: &TypeRef, count: i64) -> Result<()> {
    let Some(bytes) = datatype.bytes_of_elements(count as u64) else {
        return Err(Error::new(
            ErrorClass::ERR_COUNT,
            format!(
                "count={count}: so many elements of {} take more than 2^63 bytes",
                datatype.describe()
            ),
        ));
    };
    let mut changed = status.get();
    changed.set_bytes(bytes);
    status.set(changed);
    Ok(())
}

pub(crate) fn mpi_status_set_elements(
    _: &Cx,
    status: InOut<MPI_Status>,
    datatype: &TypeRef,
    count: i64,
) -> Result<()> {
    set_elements(status, datatype, count)
}

pub(crate) fn mpi_status_set_elements_x(
    _: &Cx,
    status: InOut<MPI_Status>,
    datatype: &TypeRef,
    count: i64,
) -> Result<()> {
    set_elements(status, datatype, count)
}
