//! Arguments as they come from C: checked once, then safe to use in the bodies.
//!
//! Every `unsafe fn new` here has one invariant, the contract of the C function: a pointer that is not null
//! points to as many values as the standard says, for the duration of the call.
//!
//! Requirements of MPI-5.0 sections 3.2.3, 3.2.6, 5.1.12, 9.3.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::marker::PhantomData;

use farpost_mpi::datatype::Datatype;
use farpost_mpi::{Error, ErrorClass, Result, error, fail};

use crate::abi::{self, MPI_Status};
use crate::cx::{self, CommRef};

/// Largest tag (`MPI_TAG_UB`).
pub(crate) const TAG_UB: c_int = c_int::MAX;

#[cold]
#[inline(never)]
fn null(name: &str) -> Error {
    error!(ERR_ARG: "{name}=NULL: an address is needed")
}

/// A count or length.
#[inline(always)]
pub(crate) fn non_negative(name: &str, value: i64, class: ErrorClass) -> Result<()> {
    if value < 0 {
        Err(negative(name, value, class))
    } else {
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn negative(name: &str, value: i64, class: ErrorClass) -> Error {
    Error::new(class, format!("{name}={value}: must not be negative"))
}

/// A tag to send with.
#[inline(always)]
pub(crate) fn tag(name: &str, value: c_int) -> Result<()> {
    if value < 0 {
        Err(bad_tag(name, value, ""))
    } else {
        Ok(())
    }
}

/// A tag to receive with.
#[inline(always)]
pub(crate) fn tag_or_any(name: &str, value: c_int) -> Result<()> {
    if value < 0 && value != abi::MPI_ANY_TAG {
        Err(bad_tag(name, value, ", or MPI_ANY_TAG"))
    } else {
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn bad_tag(name: &str, value: c_int, also: &str) -> Error {
    error!(ERR_TAG: "{name}={value}: tags are 0 to {TAG_UB} (MPI_TAG_UB){also}")
}

/// A rank to send to.
#[inline(always)]
pub(crate) fn dest(name: &str, value: c_int, comm: &CommRef) -> Result<()> {
    if (value as u32) < cx::peers(comm) as u32 || value == abi::MPI_PROC_NULL {
        Ok(())
    } else {
        Err(bad_rank(name, value, comm, ", and MPI_PROC_NULL"))
    }
}

/// A rank to receive from.
#[inline(always)]
pub(crate) fn source(name: &str, value: c_int, comm: &CommRef) -> Result<()> {
    if (value as u32) < cx::peers(comm) as u32 || value == abi::MPI_ANY_SOURCE || value == abi::MPI_PROC_NULL
    {
        Ok(())
    } else {
        Err(bad_rank(name, value, comm, ", MPI_ANY_SOURCE and MPI_PROC_NULL"))
    }
}

#[cold]
#[inline(never)]
fn bad_rank(name: &str, value: c_int, comm: &CommRef, also: &str) -> Error {
    let (of, last) = (cx::comm_name(comm), cx::peers(comm) - 1);
    error!(ERR_RANK: "{name}={value}: {of} has ranks 0 to {last}{also}")
}

/// The root of a collective: a rank; on an intercommunicator a remote rank, `MPI_ROOT` or `MPI_PROC_NULL`.
#[inline(always)]
pub(crate) fn root(name: &str, value: c_int, comm: &CommRef) -> Result<()> {
    if (value as u32) < cx::peers(comm) as u32 {
        Ok(())
    } else {
        unusual_root(name, value, comm)
    }
}

#[cold]
#[inline(never)]
fn unusual_root(name: &str, value: c_int, comm: &CommRef) -> Result<()> {
    let inter = comm.is_inter();
    if inter && (value == abi::MPI_ROOT || value == abi::MPI_PROC_NULL) {
        return Ok(());
    }
    let also = if inter { ", MPI_ROOT and MPI_PROC_NULL" } else { "" };
    let (of, last) = (cx::comm_name(comm), cx::peers(comm) - 1);
    fail!(ERR_ROOT: "{name}={value}: {of} has ranks 0 to {last}{also}")
}

/// A message buffer. Null is an address like any other for datatypes that carry absolute addresses
/// (`MPI_BOTTOM`), and for those that touch no byte.
#[inline(always)]
pub(crate) fn buffer(name: &str, address: *const c_void, count: i64, datatype: &Datatype) -> Result<()> {
    // One comparison for null and for the constants that are no addresses.
    if (address as usize) <= abi::MPI_BUFFER_AUTOMATIC && count > 0 {
        no_buffer(name, address as usize, count, datatype)
    } else {
        Ok(())
    }
}

/// As `buffer`, where MPI_IN_PLACE is allowed.
#[inline(always)]
pub(crate) fn buffer_or_in_place(
    name: &str,
    address: *const c_void,
    count: i64,
    datatype: &Datatype,
) -> Result<()> {
    if address as usize == abi::MPI_IN_PLACE {
        Ok(())
    } else {
        buffer(name, address, count, datatype)
    }
}

#[cold]
#[inline(never)]
fn no_buffer(name: &str, address: usize, count: i64, datatype: &Datatype) -> Result<()> {
    let size = datatype.size();
    // Elements may lie at absolute addresses, and no program has data in the lowest page.
    if size == 0 || !(0..4096).contains(&datatype.true_lb()) {
        return Ok(());
    }
    let given = match address {
        abi::MPI_IN_PLACE => "MPI_IN_PLACE: not allowed here;",
        abi::MPI_BUFFER_AUTOMATIC => "MPI_BUFFER_AUTOMATIC: not a message buffer;",
        _ => "NULL:",
    };
    fail!(ERR_BUFFER: "{name}={given} {count} elements of {size} bytes need memory")
}

/// The datatype of a transfer that does not take place.
#[cold]
pub(crate) fn no_type() -> Datatype {
    Datatype::byte()
}

/// Two buffers of one call that have memory in common.
#[cold]
#[inline(never)]
pub(crate) fn overlap(one: &str, other: &str, instead: &str) -> Error {
    error!(ERR_BUFFER: "{one} and {other} overlap, which they may not{instead}")
}

/// Refuses the same memory for what is read and what is written, `count` elements of `datatype` both.
#[inline(always)]
pub(crate) fn apart(
    (one, read): (&str, *const c_void),
    (other, written): (&str, *const c_void),
    count: i64,
    datatype: &Datatype,
    instead: &str,
) -> Result<()> {
    if read == written && count > 0 && datatype.size() > 0 {
        Err(overlap(one, other, instead))
    } else {
        Ok(())
    }
}

/// A handle that a failed call was to give: null.
#[cold]
pub(crate) unsafe fn give_null(address: *mut usize, null: usize) {
    if !address.is_null() {
        // SAFETY: not null, and the caller of the C function gave room for a handle.
        unsafe { address.write(null) }
    }
}

/// As `give_null`, `len` handles.
#[cold]
pub(crate) unsafe fn give_nulls(address: *mut usize, len: i64, null: usize) {
    for at in 0..len.max(0) as usize {
        // SAFETY: the caller of the C function gave room for `len` handles, or null.
        unsafe { give_null(address.wrapping_add(at), null) };
        if address.is_null() {
            return;
        }
    }
}

/// Where a result goes. Copyable and never read, so two results may share memory as C allows.
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// What was stored.
    ///
    /// # Safety
    /// `set` has been called, on this or a copy.
    pub(crate) unsafe fn stored(self) -> T
    where
        T: Copy,
    {
        // SAFETY: not null (checked by `out`), and a T by the caller's promise.
        unsafe { self.0.read() }
    }

    /// Stores the result.
    #[inline(always)]
    pub(crate) fn set(self, value: T) {
        // SAFETY: not null (checked by `out`), and the caller of the C function gave room for a T.
        unsafe { self.0.write(value) }
    }
}

/// A result that must be wanted.
#[inline(always)]
pub(crate) unsafe fn out<T>(name: &'static str, address: *mut T) -> Result<Out<T>> {
    not_null(name, address.cast_const().cast())?;
    Ok(Out(address))
}

/// A result that there may be none of, which a flag says.
pub(crate) fn give_if_any<T>(result: Out<T>, flag: Out<c_int>, value: Option<T>) {
    flag.set(c_int::from(value.is_some()));
    if let Some(value) = value {
        result.set(value);
    }
}

/// A value that is read and replaced.
#[derive(Clone, Copy)]
pub(crate) struct InOut<T>(*mut T);

impl<T: Copy> InOut<T> {
    /// The value.
    #[inline(always)]
    pub(crate) fn get(self) -> T {
        // SAFETY: not null (checked by `inout`), and the caller of the C function keeps a T there.
        unsafe { self.0.read() }
    }

    /// Replaces it.
    #[inline(always)]
    pub(crate) fn set(self, value: T) {
        // SAFETY: as in `get`.
        unsafe { self.0.write(value) }
    }
}

/// A value that is read and replaced; must be there.
#[inline(always)]
pub(crate) unsafe fn inout<T>(name: &'static str, address: *mut T) -> Result<InOut<T>> {
    not_null(name, address.cast_const().cast())?;
    Ok(InOut(address))
}

/// The handle at an address, 0 (no handle at all) when there is none.
#[inline(always)]
pub(crate) unsafe fn peek(address: *mut usize) -> usize {
    // SAFETY: null or, by the contract of the C function, a handle.
    unsafe { if address.is_null() { 0 } else { address.read() } }
}

#[inline(always)]
pub(crate) fn not_null(name: &'static str, address: *const c_void) -> Result<()> {
    if address.is_null() {
        Err(null(name))
    } else {
        Ok(())
    }
}

/// An array that is read. Null will do for no elements.
#[inline(always)]
pub(crate) unsafe fn slice<'a, T>(name: &'static str, address: *const T, len: i64) -> Result<&'a [T]> {
    if len <= 0 {
        return Ok(&[]);
    }
    not_null(name, address.cast())?;
    // SAFETY: not null; the caller of the C function keeps `len` values there.
    Ok(unsafe { core::slice::from_raw_parts(address, len as usize) })
}

/// An array that is read and changed.
#[inline(always)]
pub(crate) unsafe fn slice_mut<'a, T>(name: &'static str, address: *mut T, len: i64) -> Result<&'a mut [T]> {
    if len <= 0 {
        return Ok(&mut []);
    }
    not_null(name, address.cast_const().cast())?;
    // SAFETY: not null; the caller of the C function keeps `len` values there that nobody else uses now.
    Ok(unsafe { core::slice::from_raw_parts_mut(address, len as usize) })
}

/// An array of results with a known length.
pub(crate) unsafe fn out_slice<T>(name: &'static str, address: *mut T, len: i64) -> Result<OutArray<T>> {
    if len > 0 {
        not_null(name, address.cast_const().cast())?;
    }
    Ok(OutArray { name, address })
}

/// An array of results.
#[derive(Clone, Copy)]
pub(crate) struct OutArray<T> {
    name: &'static str,
    address: *mut T,
}

impl<T: Copy> OutArray<T> {
    pub(crate) unsafe fn new(name: &'static str, address: *mut T) -> Self {
        Self { name, address }
    }

    /// Stores `values` from the first element on.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a null array and at least one value.
    pub(crate) fn fill(self, values: &[T]) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        not_null(self.name, self.address.cast())?;
        // SAFETY: not null; the bodies store at most as many values as the standard says fit.
        unsafe {
            self.address
                .copy_from_nonoverlapping(values.as_ptr(), values.len())
        };
        Ok(())
    }
}

/// An array whose length something else tells (the size of the group, the role of the process).
#[derive(Clone, Copy)]
pub(crate) struct Array<'a, T> {
    name: &'static str,
    address: *const T,
    call: PhantomData<&'a T>,
}

impl<'a, T> Array<'a, T> {
    pub(crate) unsafe fn new(name: &'static str, address: *const T) -> Self {
        Self {
            name,
            address,
            call: PhantomData,
        }
    }

    /// The first `len` elements; `len` is what the standard says for this argument.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a null array and `len` above zero.
    pub(crate) fn get(self, len: usize) -> Result<&'a [T]> {
        // SAFETY: the invariant of `new`.
        unsafe { slice(self.name, self.address, len as i64) }
    }
}

/// An array of counts or displacements: `int`, or wide in the large-count twin.
#[derive(Clone, Copy)]
pub(crate) struct Counts<'a> {
    name: &'static str,
    address: *const c_void,
    large: bool,
    call: PhantomData<&'a i64>,
}

impl Counts<'_> {
    pub(crate) unsafe fn new(name: &'static str, address: *const c_void, large: bool) -> Self {
        Self {
            name,
            address,
            large,
            call: PhantomData,
        }
    }

    /// The first `len` values, `len` being what the standard says for this argument.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a null array and `len` above zero.
    pub(crate) fn get(self, len: usize) -> Result<Vec<i64>> {
        if self.large {
            // SAFETY: the invariant of `new`.
            Ok(unsafe { slice(self.name, self.address.cast::<i64>(), len as i64) }?.to_vec())
        } else {
            // SAFETY: the invariant of `new`.
            let values = unsafe { slice(self.name, self.address.cast::<c_int>(), len as i64) }?;
            Ok(values.iter().map(|v| i64::from(*v)).collect())
        }
    }

    /// As `get`, of counts.
    ///
    /// # Errors
    /// Also `MPI_ERR_COUNT` for a negative one.
    pub(crate) fn counts(self, len: usize) -> Result<Vec<i64>> {
        let values = self.get(len)?;
        match values.iter().position(|v| *v < 0) {
            None => Ok(values),
            Some(at) => fail!(ERR_COUNT: "{}[{at}]={}: must not be negative", self.name, values[at]),
        }
    }
}

/// An integer result: `int`, or wide in the large-count twin.
#[derive(Clone, Copy)]
pub(crate) struct OutCount {
    name: &'static str,
    address: *mut c_void,
    large: bool,
}

impl OutCount {
    pub(crate) unsafe fn new(name: &'static str, address: *mut c_void, large: bool) -> Self {
        Self { name, address, large }
    }

    fn put(self, value: i64) -> bool {
        if self.large {
            // SAFETY: not null (checked by the entry point), and room for an MPI_Count.
            unsafe { self.address.cast::<i64>().write(value) };
        } else {
            let Ok(value) = c_int::try_from(value) else {
                return false;
            };
            // SAFETY: not null (checked by the entry point), and room for an int.
            unsafe { self.address.cast::<c_int>().write(value) };
        }
        true
    }

    /// Stores a value.
    ///
    /// # Errors
    /// `MPI_ERR_VALUE_TOO_LARGE` when an `int` cannot hold it.
    pub(crate) fn set(self, value: i64) -> Result<()> {
        if self.put(value) {
            return Ok(());
        }
        let name = self.name;
        fail!(ERR_VALUE_TOO_LARGE: "{name} is {value}, more than an int holds: call the large-count twin (_c)")
    }

    /// Stores a value, `MPI_UNDEFINED` when an `int` cannot hold it.
    pub(crate) fn set_or_undefined(self, value: i64) {
        if !self.put(value) {
            self.put(i64::from(abi::MPI_UNDEFINED));
        }
    }
}

/// An integer that is read and replaced: `int`, or wide in the large-count twin.
#[derive(Clone, Copy)]
pub(crate) struct InOutCount(OutCount);

impl InOutCount {
    pub(crate) unsafe fn new(name: &'static str, address: *mut c_void, large: bool) -> Self {
        Self(OutCount { name, address, large })
    }

    /// The value.
    pub(crate) fn get(self) -> i64 {
        if self.0.large {
            // SAFETY: not null (checked by the entry point); the program keeps an MPI_Count there.
            unsafe { self.0.address.cast::<i64>().read() }
        } else {
            // SAFETY: not null (checked by the entry point); the program keeps an int there.
            i64::from(unsafe { self.0.address.cast::<c_int>().read() })
        }
    }

    /// Replaces it.
    ///
    /// # Errors
    /// `MPI_ERR_VALUE_TOO_LARGE` when an `int` cannot hold it.
    pub(crate) fn set(self, value: i64) -> Result<()> {
        self.0.set(value)
    }
}

/// An array of integer results, `int` or wide in the large-count twin.
#[derive(Clone, Copy)]
pub(crate) struct OutCounts(OutCount);

impl OutCounts {
    pub(crate) unsafe fn new(name: &'static str, address: *mut c_void, large: bool) -> Self {
        Self(OutCount { name, address, large })
    }

    /// Stores `values` from the first element on.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a null array and at least one value, `MPI_ERR_VALUE_TOO_LARGE` when an `int` cannot
    /// hold one.
    pub(crate) fn fill(self, values: &[i64]) -> Result<()> {
        let OutCount { name, address, large } = self.0;
        if !values.is_empty() {
            not_null(name, address)?;
        }
        let width = if large {
            size_of::<i64>()
        } else {
            size_of::<c_int>()
        };
        for (at, value) in values.iter().enumerate() {
            OutCount {
                name,
                address: address.wrapping_byte_add(at * width),
                large,
            }
            .set(*value)?;
        }
        Ok(())
    }
}

/// A function of the program's that comes in two widths.
#[derive(Clone, Copy)]
pub(crate) struct Callback {
    /// Where it is.
    pub(crate) address: usize,
    /// Whether it takes an `MPI_Count`.
    pub(crate) large: bool,
}

/// A string argument.
pub(crate) unsafe fn string<'a>(name: &'static str, address: *const c_char) -> Result<&'a CStr> {
    not_null(name, address.cast())?;
    // SAFETY: not null; the caller of the C function keeps a terminated string there.
    Ok(unsafe { CStr::from_ptr(address) })
}

/// Where a string result goes.
#[derive(Clone, Copy)]
pub(crate) struct OutString(*mut c_char);

pub(crate) unsafe fn out_string(name: &'static str, address: *mut c_char) -> Result<OutString> {
    not_null(name, address.cast_const().cast())?;
    Ok(OutString(address))
}

/// A string result that may be null when there is no room to fill.
pub(crate) unsafe fn out_string_or_null(_: &'static str, address: *mut c_char) -> Result<OutString> {
    Ok(OutString(address))
}

impl OutString {
    /// The `room` bytes there, for bodies that fill them byte by byte.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a null address and `room` above zero.
    pub(crate) fn bytes<'a>(self, name: &'static str, room: usize) -> Result<&'a mut [u8]> {
        // SAFETY: null or `room` bytes, by the contract of the C function.
        unsafe { slice_mut(name, self.0.cast::<u8>(), room as i64) }
    }

    /// Stores as much of `text` as `room` bytes hold with the terminator, cut at a character, and returns the
    /// length stored. `room` is what the standard or the program says for this argument.
    pub(crate) fn set(self, text: &str, room: usize) -> c_int {
        if room == 0 {
            return 0;
        }
        let mut len = text.len().min(room - 1);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        // SAFETY: not null (checked by `out_string`), and `room` bytes there.
        unsafe {
            self.0.copy_from_nonoverlapping(text.as_ptr().cast(), len);
            self.0.add(len).write(0);
        }
        len as c_int
    }
}

/// A status the program gives.
pub(crate) unsafe fn status<'a>(name: &'static str, address: *const MPI_Status) -> Result<&'a MPI_Status> {
    if address.is_null() {
        return fail!(ERR_ARG: "{name}=MPI_STATUS_IGNORE: there is nothing to read in it");
    }
    // SAFETY: not null; the caller of the C function keeps a status there.
    Ok(unsafe { &*address })
}

/// Where a status goes, or `MPI_STATUS_IGNORE`.
#[derive(Clone, Copy)]
pub(crate) struct StatusOut(*mut MPI_Status);

impl StatusOut {
    #[inline(always)]
    pub(crate) unsafe fn new(address: *mut MPI_Status) -> Self {
        Self(address)
    }

    /// Stores the status but for `MPI_ERROR`, which only functions with several statuses touch (MPI-5.0
    /// section 3.2.5).
    #[inline(always)]
    pub(crate) fn set(self, status: &MPI_Status) {
        if !self.0.is_null() {
            // SAFETY: not null, and the caller of the C function gave room for a status.
            unsafe {
                (*self.0).MPI_SOURCE = status.MPI_SOURCE;
                (*self.0).MPI_TAG = status.MPI_TAG;
                (*self.0).MPI_internal = status.MPI_internal;
            }
        }
    }

    /// Stores all of the status.
    #[inline(always)]
    pub(crate) fn set_with_error(self, status: &MPI_Status) {
        if !self.0.is_null() {
            // SAFETY: not null, and the caller of the C function gave room for a status.
            unsafe { self.0.write(*status) }
        }
    }

    /// Stores `MPI_ERROR` only.
    pub(crate) fn set_error(self, code: c_int) {
        if !self.0.is_null() {
            // SAFETY: not null, and the caller of the C function gave room for a status.
            unsafe { (*self.0).MPI_ERROR = code }
        }
    }
}

/// Where the statuses of several operations go, or `MPI_STATUSES_IGNORE`.
#[derive(Clone, Copy)]
pub(crate) struct Statuses(*mut MPI_Status);

impl Statuses {
    #[inline(always)]
    pub(crate) unsafe fn new(address: *mut MPI_Status) -> Self {
        Self(address)
    }

    /// Whether the program wants none.
    #[inline(always)]
    pub(crate) fn is_ignored(&self) -> bool {
        self.0.is_null()
    }

    /// Place `at`, below the number of requests.
    pub(crate) fn at(self, at: usize) -> StatusOut {
        StatusOut(if self.0.is_null() {
            self.0
        } else {
            self.0.wrapping_add(at)
        })
    }
}
