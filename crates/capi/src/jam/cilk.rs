//! Work stealing: pieces of work are functions of the program's.
//!
//! Cost class: *queued path*.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use std::rc::Rc;

use farpost_jam::cilk::{Child, Cilk, CilkError};
use farpost_node::NodeFabric;

use super::{Answer, Failed, JamState, fail, failed, refuse, sentence, state};
use crate::cx::Cx;
use crate::interfaces::Place;
use crate::interfaces::jam::{
    JAM_EENDED, JAM_EINVAL, JAM_ELENGTH, JAM_EOVER, JAM_EPROCEDURE, JAM_EWORK, JAM_OK, JAM_RESULT_BYTES,
    JAM_counts, arg,
};

/// Highest number of work.
const MOST: u32 = u16::MAX as u32;

fn number(cx: &'static Cx, call: &str, work: u32) -> Result<u16, Failed> {
    u16::try_from(work).map_err(|_| {
        fail(
            cx,
            JAM_EPROCEDURE,
            &format!("{call}: work={work}: the highest number is {MOST}"),
        )
    })
}

/// The program's bytes.
///
/// # Safety
/// `argument` is null, or points to `size` bytes.
unsafe fn bytes<'a>(
    cx: &'static Cx,
    call: &str,
    argument: *const c_void,
    size: usize,
) -> Result<&'a [u8], Failed> {
    match (argument.is_null(), size) {
        (_, 0) => Ok(&[]),
        (true, _) => refuse!(cx, JAM_EINVAL: "{call}: argument is NULL and size is {size}"),
        // SAFETY: the caller vouches for them.
        (false, _) => Ok(unsafe { core::slice::from_raw_parts(argument.cast(), size) }),
    }
}

pub(crate) fn jam_cilk_register(cx: &'static Cx, a: arg::JAM_cilk_register) -> Answer {
    let state = state(cx)?;
    let work = number(cx, "JAM_cilk_register", a.work)?;
    let Some(function) = a.function else {
        return refuse!(cx, JAM_EINVAL: "JAM_cilk_register: function is NULL");
    };
    let run = move |_: &Cilk<NodeFabric>, argument: &[u8]| {
        let mut result = [MaybeUninit::<u8>::uninit(); JAM_RESULT_BYTES as usize];
        let mut len = result.len();
        let at = argument.as_ptr().cast();
        // SAFETY: the program's function, called as its type says: it writes at most `len` bytes of `result` and says how many.
        let code = unsafe {
            function(
                at,
                argument.len(),
                result.as_mut_ptr().cast(),
                &raw mut len,
                a.context,
            )
        };
        match code {
            JAM_OK if len <= result.len() => {
                // SAFETY: the program says that it has written so many, and there is room for them.
                Ok(unsafe { core::slice::from_raw_parts(result.as_ptr().cast(), len) }.to_vec())
            }
            JAM_OK => Err(CilkError::Work(format!(
                "work {work} says that its result has {len} bytes, of {JAM_RESULT_BYTES}"
            ))),
            JAM_EOVER => Err(CilkError::Over),
            code => Err(CilkError::Work(why(cx, work, code))),
        }
    };
    state.cilk.register(work, Rc::new(run));
    Ok(())
}

/// What work that failed leaves: its code, and what JAM said last if that is why.
fn why(cx: &'static Cx, work: u16, code: c_int) -> String {
    let said = sentence(cx).borrow().to_string_lossy().into_owned();
    match said.strip_prefix("work ") {
        // The failure of a child, handed on.
        Some(_) if code == JAM_EWORK => said,
        _ => format!("work {work} failed with {code}"),
    }
}

fn told(cx: &'static Cx, error: &CilkError) -> Failed {
    let code = match error {
        CilkError::RootEnded(_) => JAM_EENDED,
        CilkError::Over => JAM_EOVER,
        CilkError::NoSuchWork(_) => JAM_EPROCEDURE,
        CilkError::Work(_) => JAM_EWORK,
        CilkError::Jam(error) => return failed(cx, error),
    };
    fail(cx, code, &error.to_string())
}

/// Give the program a result.
///
/// # Safety
/// `result` is null or has `room` bytes.
unsafe fn give(
    cx: &'static Cx,
    call: &str,
    bytes: &[u8],
    (result, room): (*mut c_void, usize),
    length: Place<usize>,
) -> Answer {
    if bytes.len() > room || (result.is_null() && !bytes.is_empty()) {
        return refuse!(cx, JAM_ELENGTH: "{call}: a result of {} bytes, and room for {room} at {result:p}", bytes.len());
    }
    length.set(bytes.len());
    if !bytes.is_empty() {
        // SAFETY: not null, and the caller vouches for as much room.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), result.cast(), bytes.len()) };
    }
    Ok(())
}

pub(crate) unsafe fn jam_cilk_spawn(cx: &'static Cx, a: arg::JAM_cilk_spawn) -> Answer {
    let state = state(cx)?;
    let work = number(cx, "JAM_cilk_spawn", a.work)?;
    if a.child.pointer().is_null() {
        return refuse!(cx, JAM_EINVAL: "JAM_cilk_spawn: child is NULL");
    }
    // SAFETY: the caller vouches for its argument.
    let argument = unsafe { bytes(cx, "JAM_cilk_spawn", a.argument, a.size)? };
    let child = state.cilk.spawn(work, argument);
    a.child.set(child.number());
    Ok(())
}

pub(crate) unsafe fn jam_cilk_sync(cx: &'static Cx, a: arg::JAM_cilk_sync) -> Answer {
    let child = a.child;
    let state = state(cx)?;
    if !state.cilk.is_over() && !state.cilk.has(child) {
        return refuse!(cx, JAM_EINVAL: "JAM_cilk_sync: child={child}: no such child, or its result was taken");
    }
    let result = state.cilk.sync(Child::numbered(child));
    let found = result.map_err(|error| told(cx, &error))?;
    // SAFETY: the caller vouches for the room.
    unsafe { give(cx, "JAM_cilk_sync", &found, (a.result, a.room), a.length) }
}

pub(crate) unsafe fn jam_cilk_run(cx: &'static Cx, a: arg::JAM_cilk_run) -> Answer {
    let state = state(cx)?;
    let work = number(cx, "JAM_cilk_run", a.work)?;
    // SAFETY: the caller vouches for its argument.
    let argument = unsafe { bytes(cx, "JAM_cilk_run", a.argument, a.size)? };
    let result = state.cilk.run(work, argument);
    let found = result.map_err(|error| told(cx, &error))?;
    // SAFETY: the caller vouches for the room.
    unsafe {
        give(
            cx,
            "JAM_cilk_run",
            &found.unwrap_or_default(),
            (a.result, a.room),
            a.length,
        )
    }
}

pub(crate) unsafe fn jam_cilk_counts(cx: &'static Cx, a: arg::JAM_cilk_counts) -> Answer {
    let state: &JamState = state(cx)?;
    let counters = state.cilk.counters();
    a.counts.set(JAM_counts {
        spawned: counters.spawned,
        stolen: counters.stolen,
        refused: counters.refused,
        again: counters.again,
        dropped: counters.dropped,
    });
    Ok(())
}
