//! Info objects (MPI-5.0 chapter 10).

use core::ffi::{CStr, c_char, c_int};

use farpost_mpi::Result;
use farpost_mpi::info::{Environment, Info};

use crate::abi;
use crate::args::{self, InOut, Out, OutString};
use crate::cx::{Cx, InfoRef};

pub(crate) fn mpi_info_create(cx: &Cx, info: Out<usize>) -> Result<()> {
    info.set(cx.objects.new_info(Info::new())?);
    Ok(())
}

/// # Safety
/// `argv` is null or has `argc` strings.
pub(crate) unsafe fn mpi_info_create_env(
    cx: &Cx,
    argc: c_int,
    argv: *mut *mut c_char,
    info: Out<usize>,
) -> Result<()> {
    let argc = if argv.is_null() { 0 } else { argc };
    // SAFETY: the caller's promise.
    let strings = unsafe { args::slice("argv", argv.cast_const(), i64::from(argc)) }?;
    let strings = strings.iter().take_while(|s| !s.is_null());
    // SAFETY: the caller's promise.
    let mut strings = strings.map(|s| unsafe { CStr::from_ptr(*s) }.to_bytes().to_vec());
    let environment = Environment {
        command: strings.next(),
        argv: strings.collect(),
        ..Environment::default()
    };
    info.set(cx.objects.new_info(environment.info())?);
    Ok(())
}

pub(crate) fn mpi_info_delete(_: &Cx, info: &InfoRef, key: &CStr) -> Result<()> {
    info.borrow_mut().delete(key.to_bytes())
}

pub(crate) fn mpi_info_dup(cx: &Cx, info: &InfoRef, newinfo: Out<usize>) -> Result<()> {
    let copy = info.borrow().dup();
    newinfo.set(cx.objects.new_info(copy)?);
    Ok(())
}

pub(crate) fn mpi_info_free(cx: &Cx, info: InOut<usize>) -> Result<()> {
    cx.objects.free_info(info.get())?;
    info.set(abi::MPI_INFO_NULL);
    Ok(())
}

pub(crate) fn mpi_info_get(
    _: &Cx,
    info: &InfoRef,
    key: &CStr,
    valuelen: c_int,
    value: OutString,
    flag: Out<c_int>,
) -> Result<()> {
    args::non_negative("valuelen", i64::from(valuelen), farpost_mpi::ErrorClass::ERR_ARG)?;
    // The length given here does not count the terminator.
    let found = info.borrow().get(key.to_bytes())?.map(<[u8]>::to_vec);
    if let Some(found) = &found {
        let len = found.len().min(valuelen as usize);
        let room = value.bytes("value", len + 1)?;
        room[..len].copy_from_slice(&found[..len]);
        room[len] = 0;
    }
    flag.set(c_int::from(found.is_some()));
    Ok(())
}

pub(crate) fn mpi_info_get_nkeys(_: &Cx, info: &InfoRef, nkeys: Out<c_int>) -> Result<()> {
    nkeys.set(info.borrow().nkeys() as c_int);
    Ok(())
}

pub(crate) fn mpi_info_get_nthkey(_: &Cx, info: &InfoRef, n: c_int, key: OutString) -> Result<()> {
    let info = info.borrow();
    let name = info.nthkey(n)?;
    let room = key.bytes("key", name.len() + 1)?;
    room[..name.len()].copy_from_slice(name);
    room[name.len()] = 0;
    Ok(())
}

pub(crate) fn mpi_info_get_string(
    _: &Cx,
    info: &InfoRef,
    key: &CStr,
    buflen: InOut<c_int>,
    value: OutString,
    flag: Out<c_int>,
) -> Result<()> {
    let room = buflen.get();
    args::non_negative("buflen", i64::from(room), farpost_mpi::ErrorClass::ERR_ARG)?;
    let needed = info
        .borrow()
        .get_string(key.to_bytes(), value.bytes("value", room as usize)?)?;
    if let Some(needed) = needed {
        buflen.set(needed as c_int);
    }
    flag.set(c_int::from(needed.is_some()));
    Ok(())
}

pub(crate) fn mpi_info_get_valuelen(
    _: &Cx,
    info: &InfoRef,
    key: &CStr,
    valuelen: Out<c_int>,
    flag: Out<c_int>,
) -> Result<()> {
    let len = info.borrow().valuelen(key.to_bytes())?;
    if let Some(len) = len {
        valuelen.set(len as c_int);
    }
    flag.set(c_int::from(len.is_some()));
    Ok(())
}

pub(crate) fn mpi_info_set(_: &Cx, info: &InfoRef, key: &CStr, value: &CStr) -> Result<()> {
    info.borrow_mut().set(key.to_bytes(), value.to_bytes())
}
