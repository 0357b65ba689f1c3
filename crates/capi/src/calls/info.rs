//! Info objects (MPI-5.0 chapter 10).

use core::ffi::{CStr, c_int};

use farpost_mpi::Result;
use farpost_mpi::info::{Environment, Info};

use super::arg;
use crate::args::{self};
use crate::cx::Cx;

pub(crate) fn mpi_info_create(cx: &Cx) -> Result<usize> {
    cx.objects.new_info(Info::new())
}

/// # Safety
/// `argv` is null or has `argc` strings.
pub(crate) unsafe fn mpi_info_create_env(cx: &Cx, a: arg::InfoCreateEnv) -> Result<usize> {
    let argc = if a.argv.is_null() { 0 } else { a.argc };
    // SAFETY: the caller's promise.
    let strings = unsafe { args::slice("argv", a.argv.cast_const(), i64::from(argc)) }?;
    let strings = strings.iter().take_while(|s| !s.is_null());
    // SAFETY: the caller's promise.
    let mut strings = strings.map(|s| unsafe { CStr::from_ptr(*s) }.to_bytes().to_vec());
    let environment = Environment {
        command: strings.next(),
        argv: strings.collect(),
        ..Environment::default()
    };
    cx.objects.new_info(environment.info())
}

pub(crate) fn mpi_info_delete(_: &Cx, a: arg::InfoDelete) -> Result<()> {
    a.info.borrow_mut().delete(a.key.to_bytes())
}

pub(crate) fn mpi_info_dup(cx: &Cx, a: arg::InfoDup) -> Result<usize> {
    let copy = a.info.borrow().dup();
    cx.objects.new_info(copy)
}

pub(crate) fn mpi_info_free(cx: &Cx, a: arg::InfoFree) -> Result<()> {
    cx.objects.free_info(a.info)
}

pub(crate) fn mpi_info_get(_: &Cx, a: arg::InfoGet) -> Result<()> {
    args::non_negative(
        "valuelen",
        i64::from(a.valuelen),
        farpost_mpi::ErrorClass::ERR_ARG,
    )?;
    // The length given here does not count the terminator.
    let found = a.info.borrow().get(a.key.to_bytes())?.map(<[u8]>::to_vec);
    if let Some(found) = &found {
        let len = found.len().min(a.valuelen as usize);
        let room = a.value.bytes("value", len + 1)?;
        room[..len].copy_from_slice(&found[..len]);
        room[len] = 0;
    }
    a.flag.set(c_int::from(found.is_some()));
    Ok(())
}

pub(crate) fn mpi_info_get_nkeys(_: &Cx, a: arg::InfoGetNkeys) -> Result<c_int> {
    Ok(a.info.borrow().nkeys() as c_int)
}

pub(crate) fn mpi_info_get_nthkey(_: &Cx, a: arg::InfoGetNthkey) -> Result<()> {
    let info = a.info.borrow();
    let name = info.nthkey(a.n)?;
    let room = a.key.bytes("key", name.len() + 1)?;
    room[..name.len()].copy_from_slice(name);
    room[name.len()] = 0;
    Ok(())
}

pub(crate) fn mpi_info_get_string(_: &Cx, a: arg::InfoGetString) -> Result<()> {
    let room = a.buflen.get();
    args::non_negative("buflen", i64::from(room), farpost_mpi::ErrorClass::ERR_ARG)?;
    let needed = a
        .info
        .borrow()
        .get_string(a.key.to_bytes(), a.value.bytes("value", room as usize)?)?;
    if let Some(needed) = needed {
        a.buflen.set(needed as c_int);
    }
    a.flag.set(c_int::from(needed.is_some()));
    Ok(())
}

pub(crate) fn mpi_info_get_valuelen(_: &Cx, a: arg::InfoGetValuelen) -> Result<Option<c_int>> {
    let len = a.info.borrow().valuelen(a.key.to_bytes())?;
    Ok(len.map(|len| len as c_int))
}

pub(crate) fn mpi_info_set(_: &Cx, a: arg::InfoSet) -> Result<()> {
    a.info.borrow_mut().set(a.key.to_bytes(), a.value.to_bytes())
}
