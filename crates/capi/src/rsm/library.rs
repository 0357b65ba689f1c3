//! What the interface keeps for the process.

use core::ffi::{c_char, c_int, c_void};
use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use farpost_mapped::Window;
use farpost_node::{Credentials, Interface, NodeFabric};
use farpost_rsm::{
    Barrier, Code, Controller, Export, Identity, Import, Memory, Request, Rsm, RsmError, fail,
};

use super::handles::{HandleKind, HandleTable};
use crate::cx::{Cx, ProcessCell};
use crate::interfaces::{Answer, Place};
use crate::node;
use crate::process;
use crate::roll;

pub(super) type Result<T> = farpost_rsm::Result<T>;

/// An open controller.
pub(super) struct OpenController {
    pub(super) controller: Controller,
    pub(super) references: u32,
}

/// A descriptor that stands for a segment.
#[derive(Default)]
pub(super) struct Polled {
    pub(super) fd: RefCell<Option<OwnedFd>>,
    pub(super) uses: Cell<u32>,
}

/// A segment of this process.
pub(super) struct Exported {
    pub(super) export: Export<NodeFabric>,
    pub(super) may_rebind: bool,
    /// Process that made it.
    pub(super) creator: u32,
    pub(super) polled: Polled,
}

/// A connection.
pub(super) struct Imported {
    pub(super) import: Import<NodeFabric>,
    pub(super) window: RefCell<Option<Window>>,
    pub(super) polled: Polled,
}

/// Memory of the program's that segments are made of.
pub(super) struct Adopted {
    pub(super) address: usize,
    pub(super) len: usize,
    pub(super) memory: Memory<NodeFabric>,
    pub(super) segments: u32,
}

/// Memory for lists of transfers.
#[derive(Clone, Copy)]
pub(super) struct LocalMemory {
    pub(super) address: usize,
    pub(super) len: usize,
}

pub(super) struct Library {
    pub(super) rsm: Rsm<NodeFabric>,
    pub(super) controllers: RefCell<HandleTable<OpenController>>,
    pub(super) exports: RefCell<HandleTable<Rc<Exported>>>,
    pub(super) imports: RefCell<HandleTable<Rc<Imported>>>,
    pub(super) barriers: RefCell<HandleTable<(*mut c_void, Barrier)>>,
    pub(super) locals: RefCell<HandleTable<LocalMemory>>,
    pub(super) requests: RefCell<HandleTable<Rc<Request<NodeFabric>>>>,
    /// Requests were under way: the network is moved while the program computes, as long as there are connections.
    pub(super) asks: Cell<bool>,
    pub(super) adopted: RefCell<Vec<Adopted>>,
}

static LIBRARY: ProcessCell<Library> = ProcessCell::new();
static MESSAGE: ProcessCell<RefCell<CString>> = ProcessCell::new();

/// A length or an address must be that of whole pages.
pub(super) const PAGE: usize = farpost_rsm::PAGE;

/// The library, if a controller or the topology was asked for before.
#[inline(always)]
pub(super) fn opened(cx: &'static Cx) -> Option<&'static Library> {
    LIBRARY.get(cx)
}

/// The library; joins the job if nobody has.
pub(super) fn open(cx: &'static Cx) -> Result<&'static Library> {
    if let Some(library) = LIBRARY.get(cx) {
        return Ok(library);
    }
    let node = node::open(cx, Interface::Rsm).map_err(|why| {
        // A return value alone would leave people in the dark.
        eprintln!("farpost: RSMAPI: {why}");
        RsmError::new(Code::INSUFFICIENT_RESOURCES, why)
    })?;
    let rsm = Rsm::new(
        Rc::clone(&node.fabric),
        identity(),
        &node.settings.rsm,
        &node.settings.wait,
    );
    rsm.set_relax(Some(roll::relax));
    let job = Rc::clone(&node.job);
    rsm.set_vouched(move |peer| {
        let Credentials { uid, gid, groups } = farpost_node::credentials(&job, peer.0)?;
        Some(Identity { uid, gid, groups })
    });
    let library = Library {
        rsm,
        controllers: RefCell::new(HandleTable::new(HandleKind::Controller)),
        exports: RefCell::new(HandleTable::new(HandleKind::Export)),
        imports: RefCell::new(HandleTable::new(HandleKind::Import)),
        barriers: RefCell::new(HandleTable::new(HandleKind::Barrier)),
        locals: RefCell::new(HandleTable::new(HandleKind::Local)),
        requests: RefCell::new(HandleTable::new(HandleKind::Request)),
        asks: Cell::new(false),
        adopted: RefCell::default(),
    };
    node::at_end(cx, end);
    Ok(LIBRARY.keep(cx, library))
}

/// The process ends: what peers did wrong and nobody asked for is said.
fn end(cx: &'static Cx) {
    let Some(library) = opened(cx) else { return };
    // Their memory is the program's, which ends.
    drop(library.requests.replace(HandleTable::new(HandleKind::Request)));
    while let Some(fault) = library.rsm.next_fault() {
        process::say(&format!(
            "rsm: node {}: a fault that nobody asked for: {}",
            library.rsm.node(),
            fault.error
        ));
    }
}

/// Who this process is to access lists.
fn identity() -> Identity {
    let mut groups = vec![0; 1024];
    // SAFETY: plain calls; the third writes at most as many groups as there is room for.
    let (uid, gid, count) = unsafe {
        let count = libc::getgroups(groups.len() as c_int, groups.as_mut_ptr());
        (libc::geteuid(), libc::getegid(), count)
    };
    groups.truncate(count.max(0) as usize);
    Identity { uid, gid, groups }
}

/// What C is told: the code, and by `rsm_error_message` the sentence.
impl Answer<c_int> for Result<()> {
    #[inline(always)]
    fn told(self, cx: &'static Cx, _: &'static str, _: impl FnOnce() -> String) -> c_int {
        match self {
            Ok(()) => 0,
            Err(error) => told(cx, &error),
        }
    }
}

#[cold]
#[inline(never)]
fn told(cx: &'static Cx, error: &RsmError) -> c_int {
    let text = format!("{}: {}", error.code.name(), error.message);
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    *MESSAGE.keep(cx, RefCell::default()).borrow_mut() = text;
    error.code as c_int
}

pub(super) fn message(cx: &'static Cx) -> *const c_char {
    match MESSAGE.get(cx) {
        Some(text) => text.borrow().as_ptr(),
        None => c"".as_ptr(),
    }
}

#[cold]
pub(super) fn fail<T>(code: Code, message: impl Into<String>) -> Result<T> {
    Err(RsmError::new(code, message))
}

/// A pointer that may not be null.
#[inline(always)]
pub(super) fn there<T>(place: Place<T>, code: Code, name: &str) -> Result<()> {
    if place.is_null() {
        return fail(code, format!("{name} is null"));
    }
    Ok(())
}

#[cold]
pub(super) fn bad_segment<T>() -> Result<T> {
    fail!(BAD_SEG_HNDL: "memseg is not a handle of such a segment")
}

/// The controller of a handle.
pub(super) fn controller(cx: &'static Cx, handle: *mut c_void) -> Result<(&'static Library, Controller)> {
    let found = opened(cx).and_then(|library| {
        let controllers = library.controllers.borrow();
        controllers.get(handle).map(|open| (library, open.controller))
    });
    match found {
        Some(found) => Ok(found),
        None => fail!(BAD_CTLR_HNDL: "controller is not a handle of an open controller"),
    }
}

/// The segment of a handle.
pub(super) fn exported(cx: &'static Cx, handle: *mut c_void) -> Result<(&'static Library, Rc<Exported>)> {
    let found = opened(cx).and_then(|library| {
        let exports = library.exports.borrow();
        exports.get(handle).map(|export| (library, Rc::clone(export)))
    });
    let Some((library, export)) = found else {
        return bad_segment();
    };
    if export.creator != std::process::id() {
        return fail!(NOT_CREATOR: "only the process that created a segment may change it");
    }
    Ok((library, export))
}

/// The connection of a handle.
pub(super) fn imported(cx: &'static Cx, handle: *mut c_void) -> Result<(&'static Library, Rc<Imported>)> {
    let found = opened(cx).and_then(|library| {
        let imports = library.imports.borrow();
        imports.get(handle).map(|import| (library, Rc::clone(import)))
    });
    match found {
        Some(found) => Ok(found),
        None => bad_segment(),
    }
}
