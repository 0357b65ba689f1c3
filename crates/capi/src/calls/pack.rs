//! Packing, and what a status says in elements of a datatype (MPI-5.0 sections 3.2.5, 5.1, 5.2, 5.3).

use core::ffi::c_void;

use farpost_mpi::Result;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::{ErrorClass, fail, pack};

use super::arg;
use crate::abi;
use crate::args;
use crate::cx::Cx;

pub(crate) fn mpi_get_address(_: &Cx, a: arg::GetAddress) -> Result<i64> {
    Ok(a.location as i64)
}

/// The position as it is used: from 0 to the size of the pack buffer.
fn start(at: i64, size: i64) -> Result<u64> {
    if (0..=size).contains(&at) {
        return Ok(at as u64);
    }
    fail!(ERR_ARG: "position={at}: the pack buffer has {size} bytes")
}

/// Packs `count` elements at `address` by `pack` into a buffer of `size` bytes, from position `at` on: the position after it.
///
/// # Safety
/// The program's memory is there and does not change during the call.
unsafe fn packed(
    (address, count, datatype): (*const c_void, i64, &Datatype),
    (out, size): (*mut c_void, i64),
    at: i64,
    pack: impl FnOnce(&SendBuf, &mut [u8], &mut u64) -> Result<()>,
) -> Result<i64> {
    let mut at = start(at, size)?;
    args::buffer("inbuf", address, count, datatype)?;
    // SAFETY: the caller's promise.
    let (data, out) = unsafe {
        (
            SendBuf::new(address.cast(), count as u64, datatype.clone()),
            args::slice_mut("outbuf", out.cast::<u8>(), size)?,
        )
    };
    pack(&data, out, &mut at)?;
    Ok(at as i64)
}

/// As [`packed`], the other way.
///
/// # Safety
/// As [`packed`], and nothing else uses the memory during the call.
unsafe fn unpacked(
    (packed, size): (*const c_void, i64),
    at: i64,
    (address, count, datatype): (*mut c_void, i64, &Datatype),
    unpack: impl FnOnce(&[u8], &mut u64, &RecvBuf) -> Result<()>,
) -> Result<i64> {
    let mut at = start(at, size)?;
    // SAFETY: the caller's promise.
    let packed = unsafe { args::slice("inbuf", packed.cast::<u8>(), size) }?;
    args::buffer("outbuf", address, count, datatype)?;
    // SAFETY: the caller's promise.
    let data = unsafe { RecvBuf::new(address.cast(), count as u64, datatype.clone()) };
    unpack(packed, &mut at, &data)?;
    Ok(at as i64)
}

pub(crate) unsafe fn mpi_pack(_: &Cx, a: arg::Pack) -> Result<()> {
    let (data, out) = ((a.inbuf, a.incount, a.datatype), (a.outbuf, a.outsize));
    // SAFETY: by the contract of the C function.
    a.position
        .set(unsafe { packed(data, out, a.position.get(), pack::pack) }?)
}

pub(crate) unsafe fn mpi_unpack(_: &Cx, a: arg::Unpack) -> Result<()> {
    let (from, data) = ((a.inbuf, a.insize), (a.outbuf, a.outcount, a.datatype));
    // SAFETY: by the contract of the C function.
    a.position
        .set(unsafe { unpacked(from, a.position.get(), data, pack::unpack) }?)
}

pub(crate) fn mpi_pack_size(_: &Cx, a: arg::PackSize) -> Result<()> {
    a.size.set(pack::pack_size(a.incount, a.datatype)?)
}

const PACK_BUFFER: &str = "the size of the pack buffer";

pub(crate) unsafe fn mpi_pack_external(_: &Cx, a: arg::PackExternal) -> Result<()> {
    pack::check_datarep(&a.datarep.to_string_lossy())?;
    args::non_negative(PACK_BUFFER, a.outsize, ErrorClass::ERR_ARG)?;
    let (data, out) = ((a.inbuf, a.incount, a.datatype), (a.outbuf, a.outsize));
    // SAFETY: by the contract of the C function.
    a.position
        .set(unsafe { packed(data, out, a.position.get(), pack::pack_external) }?);
    Ok(())
}

pub(crate) unsafe fn mpi_unpack_external(_: &Cx, a: arg::UnpackExternal) -> Result<()> {
    pack::check_datarep(&a.datarep.to_string_lossy())?;
    args::non_negative(PACK_BUFFER, a.insize, ErrorClass::ERR_ARG)?;
    let (from, data) = ((a.inbuf, a.insize), (a.outbuf, a.outcount, a.datatype));
    // SAFETY: by the contract of the C function.
    a.position
        .set(unsafe { unpacked(from, a.position.get(), data, pack::unpack_external) }?);
    Ok(())
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
