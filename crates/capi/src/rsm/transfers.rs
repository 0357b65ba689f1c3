//! Put and get, one by one and in lists.
//!
//! Cost class: *fast path* in explicit mode on the host's memory.

use core::ffi::c_void;

use farpost_rsm::{Code, Local, SG_MAX, Transfer, fail};

use super::library::{Imported, LocalMemory, PAGE, Result, bad_segment, controller, imported, opened, there};
use super::signals::accumulate;
use crate::cx::Cx;
use crate::interfaces::Place;
use crate::interfaces::rsm::arg;
use crate::interfaces::rsm::{
    RSM_HANDLE_TYPE, RSM_IMPLICIT_SIGPOST, RSM_VA_TYPE, rsm_iovec_t, rsm_memseg_import_handle_t,
    rsm_scat_gath_t,
};

/// Put or get, and in elements of which size (0: as they come).
#[derive(Clone, Copy)]
enum Direction {
    Put(usize),
    Get(usize),
}

/// A put or a get of `count` elements.
///
/// # Safety
/// `data`, if not null, has that many elements, writable for a get.
#[inline(always)]
unsafe fn access(
    cx: &'static Cx,
    memseg: rsm_memseg_import_handle_t,
    offset: libc::off_t,
    data: *mut c_void,
    count: usize,
    direction: Direction,
) -> Result<()> {
    if memseg.is_null() {
        return bad_segment();
    }
    if data.is_null() {
        return fail!(BAD_ADDR: "the address of the data is null");
    }
    let (Direction::Put(size) | Direction::Get(size)) = direction;
    let size = size.max(1);
    if !data.addr().is_multiple_of(size) {
        return fail!(BAD_MEM_ALIGNMENT: "the data at {data:p} are not aligned to {size}");
    }
    let Some(library) = opened(cx) else {
        return bad_segment();
    };
    let imports = library.imports.borrow();
    let Some(imported) = imports.get(memseg) else {
        return bad_segment();
    };
    let offset = usize::try_from(offset).unwrap_or(usize::MAX & !63);
    // More than there can be: the check of the range says so before anything is touched.
    let len = count
        .checked_mul(size)
        .filter(|len| *len <= imported.import.len());
    let Some(len) = len else {
        return imported.import.check_range(offset, usize::MAX);
    };
    // SAFETY: the caller vouches for the data; `len` bytes are what the elements have.
    unsafe {
        match direction {
            Direction::Put(0) => imported.import.put(offset, bytes(data, len)),
            Direction::Put(size) => imported.import.put_elements(offset, bytes(data, len), size),
            Direction::Get(0) => imported.import.get(offset, bytes_mut(data, len)),
            Direction::Get(size) => imported.import.get_elements(offset, bytes_mut(data, len), size),
        }
    }
}

/// # Safety
/// `data` is readable for `len` bytes.
unsafe fn bytes<'a>(data: *const c_void, len: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(data.cast(), len) }
}

/// # Safety
/// `data` is writable for `len` bytes.
unsafe fn bytes_mut<'a>(data: *mut c_void, len: usize) -> &'a mut [u8] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts_mut(data.cast(), len) }
}

macro_rules! elements {
    ($($put:ident, $get:ident, $ty:ty;)*) => {$(
        pub(crate) unsafe fn $put(cx: &'static Cx, a: arg::$put) -> Result<()> {
            let (data, count) = (a.datap.pointer().cast(), a.rep_cnt as usize);
            // SAFETY: the interface's contract.
            unsafe { access(cx, a.memseg, a.offset, data, count, Direction::Put(size_of::<$ty>())) }
        }

        pub(crate) unsafe fn $get(cx: &'static Cx, a: arg::$get) -> Result<()> {
            let (data, count) = (a.datap.pointer().cast(), a.rep_cnt as usize);
            // SAFETY: the interface's contract.
            unsafe { access(cx, a.memseg, a.offset, data, count, Direction::Get(size_of::<$ty>())) }
        }
    )*};
}

elements! {
    rsm_memseg_import_put8, rsm_memseg_import_get8, u8;
    rsm_memseg_import_put16, rsm_memseg_import_get16, u16;
    rsm_memseg_import_put32, rsm_memseg_import_get32, u32;
    rsm_memseg_import_put64, rsm_memseg_import_get64, u64;
}

pub(crate) unsafe fn rsm_memseg_import_put(cx: &'static Cx, a: arg::rsm_memseg_import_put) -> Result<()> {
    // SAFETY: the interface's contract; a put only reads.
    unsafe {
        access(
            cx,
            a.memseg,
            a.offset,
            a.src_addr.cast_mut(),
            a.length,
            Direction::Put(0),
        )
    }
}

pub(crate) unsafe fn rsm_memseg_import_get(cx: &'static Cx, a: arg::rsm_memseg_import_get) -> Result<()> {
    // SAFETY: the interface's contract.
    unsafe { access(cx, a.memseg, a.offset, a.dst_addr, a.length, Direction::Get(0)) }
}

/// Where the local end of a transfer is.
fn local(cx: &'static Cx, iovec: &rsm_iovec_t) -> Result<usize> {
    let outside = |len| {
        fail!(
            BAD_LENGTH: "{} bytes at {} of local memory of {len}", iovec.transfer_length, iovec.local_offset
        )
    };
    match iovec.io_type {
        RSM_HANDLE_TYPE => {
            // SAFETY: both members of the union are pointers.
            let handle = unsafe { iovec.local.handle };
            let memory = opened(cx).and_then(|library| library.locals.borrow().get(handle).copied());
            let Some(memory) = memory else {
                return fail!(BAD_LOCALMEM_HNDL: "not a handle of local memory");
            };
            let left = memory.len.checked_sub(iovec.local_offset);
            match left {
                Some(left) if iovec.transfer_length <= left => Ok(memory.address + iovec.local_offset),
                _ => outside(memory.len),
            }
        }
        RSM_VA_TYPE => {
            // SAFETY: as above.
            let vaddr = unsafe { iovec.local.vaddr };
            if vaddr.is_null() {
                return fail!(BAD_ADDR: "the address of a transfer is null");
            }
            match vaddr.addr().checked_add(iovec.local_offset) {
                Some(address) if address.checked_add(iovec.transfer_length).is_some() => Ok(address),
                _ => outside(usize::MAX),
            }
        }
        other => fail!(BAD_SGIO: "io_type {other} is neither of the two"),
    }
}

/// # Safety
/// `sg_io`, if not null, is a list as the interface has it.
unsafe fn list(cx: &'static Cx, sg_io: Place<rsm_scat_gath_t>, put: bool) -> Result<()> {
    there(sg_io, Code::BAD_SGIO, "sg_io")?;
    // SAFETY: not null, so the caller vouches for a list.
    let sg = unsafe { &mut *sg_io.pointer() };
    let count = sg.io_request_count as usize;
    sg.io_residual_count = sg.io_request_count;
    if sg.iovec.is_null() || count == 0 || count > SG_MAX {
        return fail!(BAD_SGIO: "{count} transfers: 1 to {SG_MAX} are possible, and iovec is not null");
    }
    let (_, imported) = imported(cx, sg.remote_handle)?;
    // SAFETY: not null, so the caller vouches for the transfers.
    let iovecs = unsafe { core::slice::from_raw_parts(sg.iovec, count) };
    for iovec in iovecs {
        // SAFETY: the caller vouches for the memory of the transfers.
        unsafe { transfer(cx, &imported, iovec, put)? };
        sg.io_residual_count -= 1;
    }
    if sg.flags & RSM_IMPLICIT_SIGPOST as u32 == 0 {
        return Ok(());
    }
    imported.import.post(accumulate(sg.flags))
}

/// # Safety
/// The local end of the transfer is memory of the caller's, writable for a get.
unsafe fn transfer(cx: &'static Cx, imported: &Imported, iovec: &rsm_iovec_t, put: bool) -> Result<()> {
    let address = local(cx, iovec)? as *mut c_void;
    let len = iovec.transfer_length;
    imported.import.check_range(iovec.remote_offset, len)?;
    // SAFETY: the caller's promise.
    let local = unsafe {
        if put {
            Local::From(bytes(address, len))
        } else {
            Local::To(bytes_mut(address, len))
        }
    };
    let offset = iovec.remote_offset;
    imported
        .import
        .transfer(&mut [Transfer { local, offset }], None)
        .result
}

pub(crate) unsafe fn rsm_memseg_import_putv(cx: &'static Cx, a: arg::rsm_memseg_import_putv) -> Result<()> {
    // SAFETY: the interface's contract.
    unsafe { list(cx, a.sg_io, true) }
}

pub(crate) unsafe fn rsm_memseg_import_getv(cx: &'static Cx, a: arg::rsm_memseg_import_getv) -> Result<()> {
    // SAFETY: the interface's contract.
    unsafe { list(cx, a.sg_io, false) }
}

pub(crate) fn rsm_create_localmemory_handle(
    cx: &'static Cx,
    a: arg::rsm_create_localmemory_handle,
) -> Result<()> {
    let (local_vaddr, length) = (a.local_vaddr, a.length);
    let (library, _) = controller(cx, a.controller)?;
    there(a.local_hndl, Code::BAD_LOCALMEM_HNDL, "local_hndl")?;
    if local_vaddr.is_null() || !local_vaddr.addr().is_multiple_of(PAGE) {
        return fail!(BAD_ADDR: "local_vaddr {local_vaddr:p} is not that of a page");
    }
    if length == 0 || local_vaddr.addr().checked_add(length).is_none() {
        return fail!(BAD_LENGTH: "length {length}");
    }
    let memory = LocalMemory {
        address: local_vaddr.addr(),
        len: length,
    };
    a.local_hndl.set(library.locals.borrow_mut().add(memory)?);
    Ok(())
}

pub(crate) fn rsm_free_localmemory_handle(
    cx: &'static Cx,
    a: arg::rsm_free_localmemory_handle,
) -> Result<()> {
    let (library, _) = controller(cx, a.controller)?;
    match library.locals.borrow_mut().remove(a.local_handle) {
        Some(_) => Ok(()),
        None => fail!(BAD_LOCALMEM_HNDL: "not a handle of local memory"),
    }
}
