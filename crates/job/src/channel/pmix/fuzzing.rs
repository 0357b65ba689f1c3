//! A PMIx library that answers what a fuzz target's input says.
//!
//! Cost class: tests only.

use super::abi::{self, ByteObject, Data, Info, Library, OpCallback, Proc, Value, ValueCallback};
use super::join_by;
use crate::error::JobError;
use core::ffi::{c_char, c_int, c_void};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

/// One answer: what the library says of a call that may be refused, and what a callback brings.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What the call returns, and the status of the callback.
    pub status: (i32, i32),
    /// The kind of the value (`PMIX_STRING`, ...), or none.
    pub kind: Option<u16>,
    /// Text, bytes, or the number in its first four bytes.
    pub bytes: Vec<u8>,
}

static ANSWERS: Mutex<VecDeque<Answer>> = Mutex::new(VecDeque::new());

fn next() -> Answer {
    let end = Answer {
        status: (abi::ERR_NOT_FOUND, abi::ERR_NOT_FOUND),
        kind: None,
        bytes: Vec::new(),
    };
    let mut answers = ANSWERS.lock().unwrap_or_else(|error| error.into_inner());
    answers.pop_front().unwrap_or(end)
}

unsafe extern "C" fn init(own: *mut Proc, _: *const Info, _: usize) -> c_int {
    let answer = next();
    // SAFETY: the caller's, to be written.
    unsafe {
        (*own).nspace = abi::chars(b"job");
        (*own).rank = if answer.kind.is_none() { RANK } else { RANK + 1 };
    }
    answer.status.0
}

unsafe extern "C" fn finalize(_: *const Info, _: usize) -> c_int {
    next().status.0
}

unsafe extern "C" fn abort(_: c_int, _: *const c_char, _: *const Proc, _: usize) -> c_int {
    next().status.0
}

unsafe extern "C" fn put(_: u8, _: *const c_char, _: *mut Value) -> c_int {
    next().status.0
}

unsafe extern "C" fn commit() -> c_int {
    next().status.0
}

unsafe extern "C" fn fence(
    _: *const Proc,
    _: usize,
    _: *const Info,
    _: usize,
    done: OpCallback,
    share: *mut c_void,
) -> c_int {
    let answer = next();
    if answer.status.0 == abi::SUCCESS {
        // SAFETY: the share that was passed for this one callback.
        unsafe { done(answer.status.1, share) };
    }
    answer.status.0
}

unsafe extern "C" fn get(
    _: *const Proc,
    _: *const c_char,
    _: *const Info,
    _: usize,
    done: ValueCallback,
    share: *mut c_void,
) -> c_int {
    let Answer {
        status,
        kind,
        mut bytes,
    } = next();
    if status.0 != abi::SUCCESS {
        return status.0;
    }
    let number = bytes
        .iter()
        .take(4)
        .fold(0, |number, byte| number << 8 | u32::from(*byte));
    let mut value = kind.map(|kind| Value {
        kind,
        data: match kind {
            abi::STRING => {
                bytes.push(0);
                Data {
                    string: bytes.as_mut_ptr().cast(),
                }
            }
            abi::BYTE_OBJECT => Data {
                bo: ByteObject {
                    bytes: bytes.as_mut_ptr().cast(),
                    size: bytes.len(),
                },
            },
            _ => Data { uint32: number },
        },
    });
    let at = value.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: the share of this one callback, and a value that lives until it returns.
    unsafe { done(status.1, at, share) };
    status.0
}

unsafe extern "C" fn error_string(_: c_int) -> *const c_char {
    c"an error".as_ptr()
}

unsafe extern "C" fn version() -> *const c_char {
    c"OpenPMIx 4.2.2".as_ptr()
}

/// The target is this rank of the job.
const RANK: u32 = 0;
/// What the conversation asks for.
const KEYS: [&str; 2] = ["host", "card"];

/// Rank 0 of 4 joins, puts a value, meets the others and gets two, with these answers; what it got.
///
/// # Errors
/// The library does not keep to the standard, or refuses.
pub fn talk(answers: Vec<Answer>) -> Result<Vec<u8>, JobError> {
    *ANSWERS.lock().unwrap_or_else(|error| error.into_inner()) = answers.into();
    let library = Library {
        init,
        finalize,
        abort,
        put,
        commit,
        fence_nb: fence,
        get_nb: get,
        error_string,
        version,
    };
    let mut launched = join_by(library, RANK, "job", Duration::from_secs(20))?;
    assert!(launched.size > launched.rank);
    if let Some(hosts) = &launched.hosts {
        assert_eq!(hosts.host_of().len(), launched.size as usize);
        assert!(hosts.host_of().iter().all(|host| *host < hosts.hosts()));
    }
    let channel = &mut launched.channel;
    channel.put(launched.rank, KEYS[0], b"a value")?;
    channel.fence()?;
    let mut all = Vec::new();
    for key in KEYS {
        all.extend(channel.get(1, key)?.unwrap_or_default());
    }
    channel.finalize()?;
    Ok(all)
}
