//! Sessions (MPI-5.0 section 11.3): what they are. A world has them (`world/sessions.rs`).
//!
//! A session is known by its handle, and what is derived from it carries that: groups ([`Group::session`]), and communicators by their
//! local groups.
//!
//! Cost class: set-up path.
//!
//! Requirements of MPI-5.0 section 11.3.2.
//!
//! [`Group::session`]: crate::group::Group::session

#[cfg(test)]
mod tests;

use crate::Result;
use crate::comm::Attached;
use crate::errhandler::ErrorHandler;
use crate::info::Info;
use std::cell::{Cell, RefCell};

/// The process sets that every process has: all of the job, itself, and those of its host.
const PSETS: [&str; 3] = ["mpi://WORLD", "mpi://SELF", "farpost://HOST"];

/// A process set that a session offers, by its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessSet {
    World,
    Own,
    Host,
}

impl ProcessSet {
    const ALL: [Self; 3] = [Self::World, Self::Own, Self::Host];

    /// How many there are.
    pub fn count() -> usize {
        PSETS.len()
    }

    /// The name of the `n`th.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: there are fewer.
    pub fn nth_name(n: i32) -> Result<&'static str> {
        let name = usize::try_from(n).ok().and_then(|n| PSETS.get(n));
        name.copied()
            .ok_or_else(|| error!(ERR_ARG: "n={n}: there are process sets 0 to {}", PSETS.len() - 1))
    }

    /// The one of this name, in letters of any case.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: there is none.
    pub fn named(name: &[u8]) -> Result<Self> {
        let mut all = PSETS.iter().zip(Self::ALL);
        let found = all.find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
        found.map(|(_, set)| set).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            error!(ERR_ARG: "pset_name=\"{name}\": there is no such process set; there are {}", PSETS.join(", "))
        })
    }
}

/// A session.
pub struct Session {
    /// ABI handle; 0 until it has one.
    pub handle: Cell<usize>,
    pub errhandler: RefCell<ErrorHandler>,
    /// What is in force: `MPI_Session_get_info`.
    pub info: Info,
    /// Buffer for buffered sends on communicators derived from it.
    pub buffer: RefCell<Option<Attached>>,
}

impl Session {
    /// A session that has no handle yet.
    pub fn new(errhandler: ErrorHandler, info: Info) -> Self {
        Self {
            handle: Cell::new(0),
            errhandler: RefCell::new(errhandler),
            info,
            buffer: RefCell::new(None),
        }
    }
}

/// Objects of one call must be of one session, or all of none (MPI-5.0 section 11.3).
///
/// # Errors
/// `MPI_ERR_SESSION`: they are not.
pub fn need_same(arguments: [&str; 2], sessions: [usize; 2]) -> Result<()> {
    let [one, other] = sessions;
    if one == other {
        return Ok(());
    }
    let of = |session: usize| match session {
        0 => "of no session".to_owned(),
        session => format!("of session {session:#x}"),
    };
    let [first, second] = arguments;
    fail!(
        ERR_SESSION: "{first} is {}, {second} {}: objects of different sessions cannot be used together",
        of(one),
        of(other)
    )
}
