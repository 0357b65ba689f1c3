//! JAM and JAM RPC: the bodies of the C functions.

mod arrival;
mod cilk;
pub(crate) mod functions;

use core::cell::{Cell, RefCell};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::rc::Rc;

use arrival::Arrival;
use farpost_fabric::wait::Pause;
use farpost_jam::cilk::Cilk;
use farpost_jam::pio::TRANSMIT;
use farpost_jam::rdma::{Posted, Transfer};
use farpost_jam::{Jam, JamError};
use farpost_node::NodeFabric;

use crate::cx::{Cx, ProcessCell};
use crate::interfaces::{self, jam as c};
use crate::lock;

/// What JAM keeps for the process.
pub(crate) struct JamState {
    pub(crate) jam: Rc<Jam<NodeFabric>>,
    cilk: Cilk<NodeFabric>,
    /// What happens while the program makes no call.
    arrival: Arrival,
    /// Transfers whose end has not been asked for.
    transfers: RefCell<HashSet<Transfer>>,
    /// Memory that is posted, by address.
    posted: RefCell<Vec<(usize, Posted)>>,
    /// Whether `JAM_finalize` was called.
    closed: Cell<bool>,
}

static STATE: ProcessCell<JamState> = ProcessCell::new();
/// The latest error's sentence.
static SENTENCE: ProcessCell<RefCell<Cow<'static, CStr>>> = ProcessCell::new();

/// An error's code; its sentence is kept.
pub(crate) struct Failed(i32);

pub(crate) type Answer = Result<(), Failed>;

impl interfaces::Answer<i32> for Answer {
    #[inline(always)]
    fn told(self, _: &'static Cx, _: &'static str, _: impl FnOnce() -> String) -> i32 {
        self.map_or_else(|Failed(code)| code, |()| c::JAM_OK)
    }
}

fn sentence(cx: &'static Cx) -> &'static RefCell<Cow<'static, CStr>> {
    SENTENCE.keep(cx, RefCell::new(Cow::Borrowed(c"")))
}

/// There is no room: what programs ask for again and again, so its sentence is made beforehand.
#[cold]
fn again(cx: &'static Cx, why: &'static CStr) -> Failed {
    *sentence(cx).borrow_mut() = Cow::Borrowed(why);
    Failed(c::JAM_AGAIN)
}

/// Remember what went wrong.
#[cold]
fn fail(cx: &'static Cx, code: i32, why: &str) -> Failed {
    let text = CString::new(why.replace('\0', " ")).unwrap_or_default();
    *sentence(cx).borrow_mut() = Cow::Owned(text);
    Failed(code)
}

/// What a body answers that does not succeed.
macro_rules! refuse {
    ($cx:ident, $code:path: $($why:tt)+) => { Err($crate::jam::fail($cx, $code, &format!($($why)+))) };
}
use refuse;

#[cold]
fn failed(cx: &'static Cx, error: &JamError) -> Failed {
    let code = match error {
        JamError::TransmitFull(_) => {
            const { assert!(TRANSMIT == 20) };
            return again(
                cx,
                c"the transmit queue is full: it holds 20 messages (ask the status word before sending)",
            );
        }
        JamError::Length(_) | JamError::TooLong { .. } => c::JAM_ELENGTH,
        JamError::NoSuchPeer { .. } => c::JAM_EPEER,
        JamError::NoSuchProcedure(_) => c::JAM_EPROCEDURE,
        JamError::PeerEnded(_) => c::JAM_EENDED,
        JamError::Region(_) => c::JAM_EINVAL,
        JamError::NotFetched { .. } => c::JAM_EFETCH,
        JamError::Damaged { .. } => c::JAM_ECHECK,
        JamError::Silent { .. } => c::JAM_ESILENT,
        JamError::Fabric(_) => c::JAM_EFABRIC,
    };
    fail(cx, code, &error.to_string())
}

/// Success, or an error of the layer.
#[inline]
fn answer(cx: &'static Cx, result: Result<(), JamError>) -> Answer {
    result.map_err(|error| failed(cx, &error))
}

/// JAM, between `JAM_initialize` and `JAM_finalize`.
#[inline(always)]
fn state(cx: &'static Cx) -> Result<&'static JamState, Failed> {
    match STATE.get(cx) {
        Some(state) if !state.closed.get() => Ok(state),
        _ => Err(fail(
            cx,
            c::JAM_ESTATE,
            "JAM is not open: call JAM_initialize first",
        )),
    }
}

/// After a poll: loops that find nothing are civil, and let other threads in.
#[inline]
fn rest(cx: &'static Cx, state: &JamState, found: bool) {
    crate::roll::polled(cx, found);
    if !found {
        state.arrival.found_nothing();
    }
    if found || !lock::relax(Pause::Yield) {
        state.jam.rest(found);
    }
}
