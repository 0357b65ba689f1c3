//! Names of codes and events, and the latest error's sentence.

use core::ffi::{CStr, c_char, c_int};
use std::cell::RefCell;
use std::ffi::CString;

use crate::cx::Cx;
use crate::interfaces::portals3::{self as c, arg};

thread_local! {
    /// The sentence of this thread's latest error: another thread's must not take it away while it is read.
    static SENTENCE: RefCell<CString> = RefCell::default();
}

/// Remember what went wrong; its code.
#[cold]
pub(super) fn fail(code: c_int, why: &str) -> c_int {
    let text = CString::new(why.replace('\0', " ")).unwrap_or_default();
    SENTENCE.with(|sentence| sentence.replace(text));
    code
}

pub(crate) fn ptlerrormessage(_: &'static Cx) -> *const c_char {
    SENTENCE.with(|sentence| sentence.borrow().as_ptr())
}

/// The name among `names` whose value is `value`.
fn named(names: &[(i64, &'static CStr)], value: i64, else_: &'static CStr) -> *const c_char {
    let found = names.iter().find(|(known, _)| *known == value);
    found.map_or(else_, |(_, name)| name).as_ptr()
}

macro_rules! names {
    ($($name:ident)*) => { &[$((c::$name as i64, {
        const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => unreachable!(),
        };
        NAME
    })),*] };
}

pub(crate) fn ptlerrorstr(_: &'static Cx, a: arg::PtlErrorStr) -> *const c_char {
    let names = names!(
        PTL_OK PTL_AC_INDEX_INVALID PTL_EQ_DROPPED PTL_EQ_EMPTY PTL_EQ_INVALID PTL_FAIL PTL_HANDLE_INVALID
        PTL_IFACE_INVALID PTL_MD_ILLEGAL PTL_MD_INVALID PTL_MD_IN_USE PTL_MD_NO_UPDATE PTL_ME_INVALID PTL_ME_IN_USE
        PTL_ME_LIST_TOO_LONG PTL_NI_INVALID PTL_NO_INIT PTL_NO_SPACE PTL_PID_INVALID PTL_PROCESS_INVALID PTL_PT_FULL
        PTL_PT_INDEX_INVALID PTL_SEGV PTL_SR_INDEX_INVALID PTL_IFACE_DUP PTL_PID_INUSE
    );
    named(names, a.code.into(), c"PTL_UNKNOWN_ERROR")
}

pub(crate) fn ptleventkindstr(_: &'static Cx, a: arg::PtlEventKindStr) -> *const c_char {
    let names = names!(
        PTL_EVENT_GET_START PTL_EVENT_GET_END PTL_EVENT_PUT_START PTL_EVENT_PUT_END PTL_EVENT_GETPUT_START
        PTL_EVENT_GETPUT_END PTL_EVENT_REPLY_START PTL_EVENT_REPLY_END PTL_EVENT_SEND_START PTL_EVENT_SEND_END
        PTL_EVENT_ACK PTL_EVENT_UNLINK
    );
    named(names, a.kind.into(), c"unknown event")
}

pub(crate) fn ptlnifailstr(_: &'static Cx, a: arg::PtlNIFailStr) -> *const c_char {
    let names = names!(PTL_NI_OK PTL_NI_UNDELIVERABLE PTL_NI_FAIL);
    named(names, a.ni_fail_type.into(), c"unknown failure")
}
