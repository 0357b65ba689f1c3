//! What the process keeps for Fast Messages, and how errors reach the program.

use core::ffi::{CStr, c_int, c_ulong};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::ffi::CString;

use farpost_fabric::Fault;
use farpost_fm::{Fm, FmError, Sending};
use farpost_node::NodeFabric;

use crate::cx::{Cx, ProcessCell};
use crate::interfaces::{self, Answer, fm as api};
use crate::process;

/// The node of this process.
pub(super) type Node = Fm<NodeFabric>;

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
