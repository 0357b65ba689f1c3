//! A window, and what is asked of it.
//!
//! Requirements of MPI-5.0 sections 12.2, 7.7.3.

use crate::epoch::Epochs;
use crate::flight::{Flight, Slot};
use crate::lines::Lines;
use crate::lock::Lock;
use crate::memory::{Area, Given};
use crate::peer::{Peer, PendingReply};
use crate::served::Served;
use farpost_fabric::{Fabric, SegmentId};
use farpost_mpi::attr::AttrSet;
use farpost_mpi::comm::Comm;
use farpost_mpi::errhandler::ErrorHandler;
use farpost_mpi::info::Info;
use farpost_mpi::{Error, Result, fail};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// `MPI_WIN_UNIFIED`.
pub const MODEL_UNIFIED: i32 = 321;
/// `MPI_PROC_NULL`.
pub const PROC_NULL: i32 = -3;

/// How a window was made. The number is the ABI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Flavor {
    Create = 311,
    Allocate = 312,
    Dynamic = 313,
    Shared = 314,
}

/// A window to be made.
#[derive(Clone, Copy, Debug)]
pub struct New {
    pub flavor: Flavor,
    /// The program's memory.
    pub base: usize,
    pub size: i64,
    pub unit: i64,
}

/// What attributes point to.
#[repr(C)]
#[derive(Debug)]
pub struct WinCells {
    pub size: i64,
    pub unit: i32,
    pub flavor: i32,
    pub model: i32,
}

/// What `MPI_Win_shared_query` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    pub size: i64,
    pub unit: i64,
    pub base: usize,
}

pub(crate) struct Member {
    pub size: i64,
    pub unit: i64,
    /// From the start of shared memory.
    pub at: i64,
}

/// Memory of all members.
pub(crate) struct Shared<F: Fabric> {
    /// Where the members' lines begin, and how many members there are.
    pub control: usize,
    pub size: usize,
    pub base: usize,
    /// Who has it, and which it is; kept while it is mapped.
    pub own: Option<(F::Export, SegmentId)>,
    pub _import: Option<F::Import>,
}

/// A window.
pub struct Win<F: Fabric> {
    pub handle: Cell<usize>,
    /// Of its own.
    pub comm: Rc<Comm>,
    pub name: RefCell<Vec<u8>>,
    pub errhandler: RefCell<ErrorHandler>,
    pub attrs: AttrSet,
    pub info: RefCell<Info>,
    pub flavor: Flavor,
    pub base: usize,
    pub cells: Box<WinCells>,
    pub(crate) area: Area,
    pub(crate) members: Vec<Member>,
    pub(crate) shared: Option<Shared<F>>,
    pub(crate) _given: Option<Given>,
    pub(crate) epochs: RefCell<Epochs>,
    pub(crate) lock: RefCell<Lock>,
    pub(crate) peers: RefCell<BTreeMap<i32, Peer>>,
    pub(crate) served: RefCell<BTreeMap<i32, Served>>,
    pub(crate) pending: RefCell<BTreeMap<u64, PendingReply>>,
    pub(crate) posts: RefCell<BTreeMap<i32, u64>>,
    pub(crate) completes: RefCell<BTreeMap<i32, u64>>,
    pub(crate) slots: RefCell<VecDeque<Slot>>,
    pub(crate) flights: RefCell<Vec<Flight>>,
    pub(crate) failed: RefCell<Option<Error>>,
    /// A member is no more: no message of others is waited for.
    pub(crate) lost: RefCell<Option<Error>>,
    pub(crate) remote_error: Cell<i32>,
    pub(crate) next_id: Cell<u64>,
}

/// The hints that a window keeps, with what holds without them (MPI-5.0 section 12.2.1).
const HINTS: &[(&str, Option<&str>)] = &[
    ("no_locks", Some("false")),
    ("accumulate_ordering", Some("rar,raw,war,waw")),
    ("accumulate_ops", Some("same_op_no_op")),
    ("mpi_accumulate_granularity", Some("0")),
    ("same_size", Some("false")),
    ("same_disp_unit", Some("false")),
    ("alloc_shared_noncontig", Some("false")),
    ("mpi_minimum_memory_alignment", None),
    ("mpi_assert_memory_alloc_kinds", None),
];

impl<F: Fabric> Shared<F> {
    /// The lines of a member.
    #[allow(unsafe_code)]
    pub(crate) fn lines(&self, rank: i32) -> Lines {
        // SAFETY: zeroed when the memory was made, with lines for every member, and mapped as long as this is.
        unsafe { Lines::at(self.control + Lines::bytes(self.size) * rank as usize, self.size) }
    }
}

impl<F: Fabric> Win<F> {
    /// Whether its operations wait for no target.
    pub fn is_direct(&self) -> bool {
        self.shared.is_some()
    }

    pub(crate) fn with_peer<T>(&self, rank: i32, then: impl FnOnce(&mut Peer) -> T) -> T {
        then(self.peers.borrow_mut().entry(rank).or_default())
    }

    pub(crate) fn new_id(&self) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        id
    }

    /// An operation failed at its target: said at the next synchronisation.
    pub(crate) fn note_remote(&self, class: i32) {
        if class != 0 {
            self.remote_error.set(class);
        }
    }

    /// # Errors
    /// Why the window can do nothing more.
    pub(crate) fn check(&self) -> Result<()> {
        self.failed
            .borrow()
            .as_ref()
            .map_or(Ok(()), |error| Err(error.clone()))
    }

    /// `MPI_Win_set_info`: unknown hints are ignored.
    pub fn set_info(&self, info: &Info) {
        let mut mine = self.info.borrow_mut();
        for (key, value) in info.iter() {
            if HINTS.iter().any(|(hint, _)| hint.as_bytes() == key) {
                let _ = mine.set(key, value);
            }
        }
    }

    /// `MPI_Win_get_info`.
    pub fn get_info(&self) -> Info {
        let (mine, mut all) = (self.info.borrow(), Info::new());
        for (key, usual) in HINTS {
            if let Some(value) = mine.get_str(key).or(*usual) {
                let _ = all.set(key.as_bytes(), value.as_bytes());
            }
        }
        all
    }

    /// `MPI_Win_shared_query`; `rank` may be `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR`: a dynamic window. `MPI_ERR_RANK`.
    pub fn query(&self, rank: i32) -> Result<Query> {
        self.target("rank", rank)?;
        if self.flavor == Flavor::Dynamic {
            return fail!(ERR_RMA_FLAVOR: "win: a dynamic window has no memory that could be asked for");
        }
        let lowest = || self.members.iter().position(|member| member.size > 0);
        let asked = usize::try_from(rank).ok().or_else(lowest);
        let nothing = Query {
            size: 0,
            unit: 0,
            base: 0,
        };
        let Some(at) = asked else { return Ok(nothing) };
        let member = &self.members[at];
        let base = match &self.shared {
            Some(shared) => shared.base.wrapping_add(member.at as usize),
            None if at == self.comm.rank as usize => self.base,
            // Not to be reached by loads and stores.
            None => {
                return Ok(Query {
                    unit: member.unit,
                    ..nothing
                });
            }
        };
        Ok(Query {
            size: member.size,
            unit: member.unit,
            base,
        })
    }

    /// `MPI_Win_attach`.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR`: no dynamic window. `MPI_ERR_RMA_ATTACH`: memory that is attached already.
    pub fn attach(&self, base: usize, size: i64) -> Result<()> {
        let Area::Dynamic(regions) = &self.area else {
            return fail!(ERR_RMA_FLAVOR: "win: memory is attached to windows of MPI_Win_create_dynamic only");
        };
        let mut regions = regions.borrow_mut();
        let end = base.saturating_add(size as usize);
        let overlaps = |(at, len): (&usize, &usize)| *at < end && base < at + len || *at == base;
        if regions.iter().any(overlaps) {
            return fail!(ERR_RMA_ATTACH: "base={base:#x}, size={size}: some of it is attached already");
        }
        regions.insert(base, size as usize);
        Ok(())
    }

    /// `MPI_Win_detach`.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR`: no dynamic window. `MPI_ERR_RMA_ATTACH`: memory that is not attached.
    pub fn detach(&self, base: usize) -> Result<()> {
        let Area::Dynamic(regions) = &self.area else {
            return fail!(ERR_RMA_FLAVOR: "win: memory is detached from windows of MPI_Win_create_dynamic only");
        };
        match regions.borrow_mut().remove(&base) {
            Some(_) => Ok(()),
            None => fail!(ERR_RMA_ATTACH: "base={base:#x}: no memory that is attached begins there"),
        }
    }
}
