//! The interfaces beside MPI: types and constants generated from `api/*.toml`, and what their bodies have in common.
//!
//! An entry point `FM_send` ([`entry::beside`](crate::entry)) calls `crate::fm::functions::fm_send` with the [`Cx`] and a structure of the C arguments,
//! `fm::arg::FM_send`, and turns what it returns into what C gets ([`Answer`]). What the C caller vouches for is the contract
//! in the interface's reference page: pointers are null or point to what the prototype says.
#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::missing_safety_doc,
    non_snake_case,
    non_camel_case_types,
    non_upper_case_globals,
    dead_code,
    unused_imports,
    unused_unsafe,
    missing_docs
)]

use core::cell::UnsafeCell;

use crate::cx::Cx;

/// Data that programs read by name.
#[repr(transparent)]
pub struct Exported<T>(UnsafeCell<T>);

// SAFETY: written from inside the library, which one thread is at a time; what a program reads meanwhile is its affair,
// as with any variable of C's.
unsafe impl<T> Sync for Exported<T> {}

impl<T: Copy> Exported<T> {
    const fn new() -> Self {
        // SAFETY: exported variables are numbers and pointers, for which zero is a value.
        Self(UnsafeCell::new(unsafe { core::mem::zeroed() }))
    }

    /// Its value from now on.
    pub(crate) fn set(&self, _inside: &Cx, value: T) {
        // SAFETY: one thread is inside. Volatile, because the program's copy of the variable may be the one that counts.
        unsafe { self.0.get().write_volatile(value) }
    }

    /// Its value.
    pub(crate) fn get(&self, _inside: &Cx) -> T {
        // SAFETY: as in `set`.
        unsafe { self.0.get().read_volatile() }
    }
}

/// Where a value of the program's is, or where one goes that it gets; may be null.
#[repr(transparent)]
pub struct Place<T>(*mut T);

impl<T> Clone for Place<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

impl<T> Place<T> {
    /// # Safety
    /// Null, or a `T` that is the library's for the call.
    #[inline(always)]
    pub(crate) unsafe fn new(at: *mut T) -> Self {
        Self(at)
    }

    #[inline(always)]
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// For what is more than one value, or is used where it lies.
    #[inline(always)]
    pub(crate) fn pointer(self) -> *mut T {
        self.0
    }

    /// Stores a value, where one is wanted.
    #[inline(always)]
    pub(crate) fn set(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, and the promise of `new`.
            unsafe { self.0.write(value) }
        }
    }

    /// The value, if there is one.
    #[inline(always)]
    pub(crate) fn get(self) -> Option<T>
    where
        T: Copy,
    {
        // SAFETY: not null, and the promise of `new`.
        (!self.0.is_null()).then(|| unsafe { self.0.read() })
    }
}

/// What a body returns, as C is told it: of `R` itself, or of a result, whose error is kept as a sentence.
pub(crate) trait Answer<R> {
    /// The value or the code of the error. `function` was called with `arguments`.
    fn told(self, cx: &'static Cx, function: &'static str, arguments: impl FnOnce() -> String) -> R;
}

impl<R> Answer<R> for R {
    #[inline(always)]
    fn told(self, _: &'static Cx, _: &'static str, _: impl FnOnce() -> String) -> R {
        self
    }
}

/// Why a call does not succeed: a code, and a sentence unless the code says everything.
pub(crate) struct Failure<C> {
    pub(crate) code: C,
    pub(crate) why: String,
}

impl<C> Failure<C> {
    #[cold]
    pub(crate) fn new(code: C, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { code, why }
    }
}

/// The answer of a body that does not succeed: a code and what `format!` makes of the rest.
macro_rules! refuse {
    ($code:path: $($why:tt)+) => { Err($crate::interfaces::Failure::new($code, format!($($why)+))) };
}
pub(crate) use refuse;

/// Copies as much of a sentence as fits, in whole characters, ended by 0.
///
/// # Safety
/// `to` is null or points to `size` writable bytes.
pub(crate) unsafe fn tell(sentence: &str, to: *mut core::ffi::c_char, size: usize) {
    if to.is_null() || size == 0 {
        return;
    }
    let mut len = sentence.len().min(size - 1);
    while !sentence.is_char_boundary(len) {
        len -= 1;
    }
    // SAFETY: the caller vouches for `size` bytes, and `len` is below that.
    unsafe {
        to.copy_from_nonoverlapping(sentence.as_ptr().cast(), len);
        to.add(len).write(0);
    }
}

include!(concat!(env!("OUT_DIR"), "/interfaces.rs"));

#[cfg(test)]
mod tests {
    #[test]
    fn a_sentence_is_cut_between_characters() {
        for (size, wanted) in [(1, ""), (2, "a"), (4, "a"), (5, "a\u{20ac}"), (9, "a\u{20ac}b")] {
            let mut to = [0x7f_u8; 10];
            // SAFETY: `to` has more bytes than that.
            unsafe { super::tell("a\u{20ac}b", to.as_mut_ptr().cast(), size) };
            let told = std::ffi::CStr::from_bytes_until_nul(&to).unwrap();
            assert_eq!(told.to_str(), Ok(wanted), "{size}");
            assert!(to[size..].iter().all(|byte| *byte == 0x7f), "{size}");
        }
    }
}
