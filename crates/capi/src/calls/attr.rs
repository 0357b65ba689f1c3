//! Attribute keys, and the attributes of datatypes (MPI-5.0 section 7.7).
//!
//! Requirements of MPI-5.0 section 7.7.4.

use core::ffi::{c_int, c_void};
use std::rc::Rc;

use farpost_mpi::Result;
use farpost_mpi::attr::{CommKey, CopyFn, DeleteFn, ObjectKind, WinKey};

use super::arg;
use crate::abi::{self, MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function};
use crate::cx::Cx;
use crate::roll::outside;

/// The predefined copy functions have these addresses in the ABI.
const NULL_FN: usize = abi::MPI_COMM_NULL_COPY_FN;
const DUP_FN: usize = abi::MPI_COMM_DUP_FN;

/// The program's copy function. Those for communicators, datatypes and windows differ in the handle's type
/// only, and handles are pointers all.
fn copy_fn(address: usize, extra_state: *mut c_void) -> CopyFn {
    match address {
        NULL_FN => CopyFn::Null,
        DUP_FN => CopyFn::Dup,
        _ => {
            // SAFETY: the program gave a function of this type, by the prototype.
            let call = unsafe { core::mem::transmute::<usize, MPI_Comm_copy_attr_function>(address) };
            CopyFn::User(Rc::new(move |handle, keyval, value| {
                let (mut new, mut flag) = (0usize, 0);
                // SAFETY: the arguments are what the standard says; the new value is a pointer's worth.
                let code = outside(|| unsafe {
                    call(
                        handle,
                        keyval,
                        extra_state,
                        value as *mut c_void,
                        (&raw mut new).cast(),
                        &mut flag,
                    )
                });
                if code == abi::MPI_SUCCESS {
                    Ok((flag != 0).then_some(new))
                } else {
                    Err(code)
                }
            }))
        }
    }
}

fn delete_fn(address: usize, extra_state: *mut c_void) -> DeleteFn {
    if address == abi::MPI_COMM_NULL_DELETE_FN {
        return DeleteFn::Null;
    }
    // SAFETY: the program gave a function of this type, by the prototype.
    let call = unsafe { core::mem::transmute::<usize, MPI_Comm_delete_attr_function>(address) };
    DeleteFn::User(Rc::new(move |handle, keyval, value| {
        // SAFETY: the arguments are what the standard says.
        match outside(|| unsafe { call(handle, keyval, value as *mut c_void, extra_state) }) {
            abi::MPI_SUCCESS => Ok(()),
            code => Err(code),
        }
    }))
}

fn create(cx: &Cx, kind: ObjectKind, copy: usize, delete: usize, extra_state: *mut c_void) -> Result<c_int> {
    let (copy, delete) = (copy_fn(copy, extra_state), delete_fn(delete, extra_state));
    cx.objects.keyvals.create(kind, copy, delete)
}

pub(crate) fn mpi_comm_create_keyval(cx: &Cx, a: arg::CommCreateKeyval) -> Result<c_int> {
    let (copy, delete) = (a.comm_copy_attr_fn, a.comm_delete_attr_fn);
    create(cx, ObjectKind::Comm, copy, delete, a.extra_state)
}

pub(crate) fn mpi_type_create_keyval(cx: &Cx, a: arg::TypeCreateKeyval) -> Result<c_int> {
    let (copy, delete) = (a.type_copy_attr_fn, a.type_delete_attr_fn);
    create(cx, ObjectKind::Type, copy, delete, a.extra_state)
}

pub(crate) fn mpi_win_create_keyval(cx: &Cx, a: arg::WinCreateKeyval) -> Result<c_int> {
    let (copy, delete) = (a.win_copy_attr_fn, a.win_delete_attr_fn);
    create(cx, ObjectKind::Win, copy, delete, a.extra_state)
}

pub(crate) fn mpi_comm_free_keyval(cx: &Cx, a: arg::CommFreeKeyval) -> Result<()> {
    cx.objects.keyvals.free(ObjectKind::Comm, a.comm_keyval)
}

pub(crate) fn mpi_type_free_keyval(cx: &Cx, a: arg::TypeFreeKeyval) -> Result<()> {
    cx.objects.keyvals.free(ObjectKind::Type, a.type_keyval)
}

pub(crate) fn mpi_win_free_keyval(cx: &Cx, a: arg::WinFreeKeyval) -> Result<()> {
    cx.objects.keyvals.free(ObjectKind::Win, a.win_keyval)
}

pub(crate) fn mpi_type_set_attr(cx: &Cx, a: arg::TypeSetAttr) -> Result<()> {
    let keyval = cx.objects.keyvals.find(ObjectKind::Type, a.type_keyval)?;
    a.datatype
        .attributes()
        .set(a.datatype.handle(), &keyval, a.attribute_val as usize)
}

pub(crate) fn mpi_type_get_attr(cx: &Cx, a: arg::TypeGetAttr) -> Result<Option<*mut c_void>> {
    let keyval = cx.objects.keyvals.find(ObjectKind::Type, a.type_keyval)?;
    let found = a.datatype.attributes().get(&keyval);
    Ok(found.map(|found| found as *mut c_void))
}

pub(crate) fn mpi_type_delete_attr(cx: &Cx, a: arg::TypeDeleteAttr) -> Result<()> {
    let keyval = cx.objects.keyvals.find(ObjectKind::Type, a.type_keyval)?;
    a.datatype.attributes().delete(a.datatype.handle(), &keyval)
}

pub(crate) fn mpi_type_dup(cx: &Cx, a: arg::TypeDup) -> Result<usize> {
    let new = a.oldtype.dup()?;
    a.oldtype
        .attributes()
        .copy_into(a.oldtype.handle(), new.attributes())?;
    cx.objects.types.borrow_mut().insert(new)
}

pub(crate) fn mpi_type_free(cx: &Cx, a: arg::TypeFree) -> Result<()> {
    let object = cx.datatype("datatype", a.datatype)?;
    if !object.is_predefined() {
        object.attributes().delete_all(a.datatype)?;
    }
    cx.objects.types.borrow_mut().free(a.datatype).map(drop)
}

pub(crate) fn mpi_comm_set_attr(cx: &Cx, a: arg::CommSetAttr) -> Result<()> {
    let keyval = cx.objects.keyvals.find(ObjectKind::Comm, a.comm_keyval)?;
    a.comm
        .attrs
        .set(a.comm.handle.get(), &keyval, a.attribute_val as usize)
}

/// The value of a predefined key is the address of an int, that of another what the program stored.
pub(crate) fn mpi_comm_get_attr(cx: &Cx, a: arg::CommGetAttr) -> Result<Option<*mut c_void>> {
    let Some(key) = CommKey::of(a.comm_keyval) else {
        let keyval = cx.objects.keyvals.find(ObjectKind::Comm, a.comm_keyval)?;
        return Ok(a.comm.attrs.get(&keyval).map(|found| found as *mut c_void));
    };
    if let CommKey::LastUsedCode = key {
        cx.attributes().set(key, Some(cx.objects.codes.last_used()));
    }
    Ok(cx.attributes().cell(key).map(|cell| cell.as_ptr().cast()))
}

pub(crate) fn mpi_comm_delete_attr(cx: &Cx, a: arg::CommDeleteAttr) -> Result<()> {
    let keyval = cx.objects.keyvals.find(ObjectKind::Comm, a.comm_keyval)?;
    a.comm.attrs.delete(a.comm.handle.get(), &keyval)
}

pub(crate) fn mpi_win_set_attr(cx: &Cx, a: arg::WinSetAttr) -> Result<()> {
    let keyval = cx.objects.keyvals.find(ObjectKind::Win, a.win_keyval)?;
    a.win
        .attrs
        .set(a.win.handle.get(), &keyval, a.attribute_val as usize)
}

/// The value of MPI_WIN_BASE is the base itself, that of another predefined key the address of a number.
pub(crate) fn mpi_win_get_attr(cx: &Cx, a: arg::WinGetAttr) -> Result<Option<*mut c_void>> {
    let cells = &a.win.cells;
    let address: *const c_void = match WinKey::of(a.win_keyval) {
        Some(WinKey::Base) => core::ptr::with_exposed_provenance(a.win.base),
        Some(WinKey::Size) => (&raw const cells.size).cast(),
        Some(WinKey::DispUnit) => (&raw const cells.unit).cast(),
        Some(WinKey::CreateFlavor) => (&raw const cells.flavor).cast(),
        Some(WinKey::Model) => (&raw const cells.model).cast(),
        None => {
            let keyval = cx.objects.keyvals.find(ObjectKind::Win, a.win_keyval)?;
            return Ok(a.win.attrs.get(&keyval).map(|found| found as *mut c_void));
        }
    };
    Ok(Some(address.cast_mut()))
}

pub(crate) fn mpi_win_delete_attr(cx: &Cx, a: arg::WinDeleteAttr) -> Result<()> {
    let keyval = cx.objects.keyvals.find(ObjectKind::Win, a.win_keyval)?;
    a.win.attrs.delete(a.win.handle.get(), &keyval)
}
