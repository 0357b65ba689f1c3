//! What the process keeps for Fast Messages, and how errors reach the program.

use core::ffi::{CStr, c_int, c_ulong};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::ffi::CString;

use farpost_fabric::{Fault, Moment};
use farpost_fm::{Fm, FmError, Sending};
use farpost_node::NodeFabric;
use farpost_rollcall::Record;

use crate::cx::{Cx, ProcessCell};
use crate::interfaces::{self, Answer, fm as api};
use crate::process;

/// The node of this process.
pub(super) type Node = Fm<NodeFabric>;

/// In place of a handler's number: none runs.
const NO_HANDLER: u32 = u32::MAX;

pub(super) static STATE: ProcessCell<FmState> = ProcessCell::new();

/// See the [module](self).
pub(super) struct FmState {
    fm: OnceCell<Node>,
    open: Cell<bool>,
    pub quiet: Cell<bool>,
    pub max_handlers: Cell<u32>,
    error: RefCell<CString>,
    faults: RefCell<VecDeque<Fault>>,
    /// The message that is being sent in pieces; its address is the program's handle.
    pub sending: RefCell<Option<Sending<NodeFabric>>>,
    /// Handles of messages whose handlers run or wait.
    pub receiving: RefCell<Vec<usize>>,
    /// The handler that runs.
    handling: Cell<u32>,
    /// Since when it is told again and again that it can begin no message.
    refused_since: Cell<Option<Moment>>,
}

/// The state, made when first asked for.
pub(super) fn state(cx: &'static Cx) -> &'static FmState {
    STATE.get(cx).unwrap_or_else(|| {
        let state = FmState {
            fm: OnceCell::new(),
            open: Cell::new(false),
            quiet: Cell::new(false),
            max_handlers: Cell::new(1024),
            error: RefCell::default(),
            faults: RefCell::default(),
            sending: RefCell::new(None),
            receiving: RefCell::default(),
            handling: Cell::new(NO_HANDLER),
            refused_since: Cell::new(None),
        };
        STATE.keep(cx, state)
    })
}

pub(crate) type Failure = interfaces::Failure<c_int>;

impl From<FmError> for Failure {
    fn from(error: FmError) -> Self {
        let code = match &error {
            FmError::NoSuchNode { .. } => api::FM_EDEST,
            FmError::TooLong { .. }
            | FmError::MoreThanAnnounced { .. }
            | FmError::AnnouncedTooMuch { .. }
            | FmError::PastEnd { .. } => api::FM_ESIZE,
            FmError::NoSuchHandler { .. } | FmError::NoHandlerLeft { .. } => api::FM_EHANDLER,
            FmError::Lost { .. } | FmError::BrokenOff { .. } => api::FM_ELOST,
            FmError::Stuck { .. } => api::FM_ESTUCK,
            FmError::FrameSize { .. } | FmError::Unordered { .. } => api::FM_EARG,
        };
        Self::new(code, error.to_string())
    }
}

/// `FM_OK`, or the code of a failure, whose sentence is kept and, unless that is unwanted, said.
impl Answer<c_int> for Result<(), Failure> {
    #[inline(always)]
    fn told(self, cx: &'static Cx, function: &'static str, arguments: impl FnOnce() -> String) -> c_int {
        self.map(|()| api::FM_OK).told(cx, function, arguments)
    }
}

impl Answer<c_int> for Result<c_int, Failure> {
    #[inline(always)]
    fn told(self, cx: &'static Cx, function: &'static str, _: impl FnOnce() -> String) -> c_int {
        match self {
            Ok(number) => number,
            Err(failure) => state(cx).fail(function, failure),
        }
    }
}

impl FmState {
    /// The node, while FM is initialised.
    #[inline(always)]
    pub fn node(&self) -> Result<&Node, Failure> {
        match self.fm.get() {
            Some(fm) if self.open.get() => Ok(fm),
            _ => Err(self.closed()),
        }
    }

    #[cold]
    fn closed(&self) -> Failure {
        let sentence = match self.fm.get() {
            None => "Fast Messages are not initialised: call FM_initialize first",
            Some(_) => "Fast Messages are finalised: call FM_initialize before",
        };
        Failure::new(api::FM_EINIT, sentence)
    }

    /// Handler `number` runs from now on: which one ran, for [`handled`](Self::handled).
    #[inline(always)]
    pub fn handles(&self, number: u32) -> u32 {
        self.refused_since.set(None);
        self.handling.replace(number)
    }

    /// It runs no more, and `outer` does again: which one it was.
    #[inline(always)]
    pub fn handled(&self, outer: u32) -> u32 {
        self.handling.replace(outer)
    }

    /// Which handler runs.
    pub fn handler(&self) -> Option<u32> {
        Some(self.handling.get()).filter(|number| *number != NO_HANDLER)
    }

    /// For others to read: in which handler the function is called.
    pub fn tell_handler(&self, record: &mut Record) {
        if let Some(number) = self.handler() {
            record.function.push_str(&format!(" in handler {number}"));
        }
    }

    /// The handler that runs can begin no message, `now`. Since when, if it has been told before.
    pub fn refused(&self, now: Moment) -> Option<Moment> {
        let since = self.refused_since.get();
        self.refused_since.set(since.or(Some(now)));
        since
    }

    /// It has begun one, or has been told why it cannot: from the beginning.
    pub fn not_refused(&self) {
        self.refused_since.set(None);
    }

    pub fn was_opened(&self) -> bool {
        self.fm.get().is_some()
    }

    /// Open, with the node that `make` makes the first time.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn open(&self, make: impl FnOnce() -> Result<Node, FmError>) -> Result<(), FmError> {
        if self.fm.get().is_none() {
            let node = make()?;
            self.fm.get_or_init(|| node);
        }
        self.open.set(true);
        Ok(())
    }

    pub fn close(&self) {
        self.open.set(false);
    }

    /// Keep and say the sentence of a failure: its code.
    #[cold]
    pub fn fail(&self, function: &str, failure: Failure) -> c_int {
        let sentence = format!("{function}: {}", failure.why);
        if !self.quiet.get() {
            process::say(&sentence);
        }
        self.error.replace(CString::new(sentence).unwrap_or_default());
        failure.code
    }

    /// The number of a handler, or what C gets in its place.
    pub fn registered(&self, function: &str, id: Result<u32, Failure>) -> c_ulong {
        id.unwrap_or_else(|failure| {
            self.fail(function, failure);
            api::FM_ANY_ID
        })
        .into()
    }

    /// No failure.
    pub fn clear_error(&self) {
        self.error.replace(CString::default());
    }

    /// The latest sentence. Its bytes stay until the next failure.
    pub fn error(&self) -> *const core::ffi::c_char {
        let error = self.error.borrow();
        let sentence: &CStr = &error;
        sentence.as_ptr()
    }

    /// The oldest fault that nobody has been told of.
    pub fn next_fault(&self, fm: &Node) -> Option<Fault> {
        let mut faults = self.faults.borrow_mut();
        faults.extend(fm.take_faults().0);
        faults.pop_front()
    }
}
