//! The tool information interface (MPI-5.0 chapter 15): control variables, performance variables in sessions, categories. What the
//! variables are, and what becomes of handles; values come from whoever calls.
//!
//! Lists never change while a process runs: an index, once told, stays (sections 15.3.6, 15.3.7). Errors are the `MPI_T_ERR` classes,
//! and no error handler hears of them (section 15.3.10).
//!
//! Requirements of MPI-5.0 sections 15.3.4, 15.3.5, 15.3.6, 15.3.7, 15.3.9.
//!
//! Cost class: *set-up path*.

mod control;
mod measure;
mod session;

pub use control::{Control, Scope};
pub use measure::{Class, Measure, What};
pub use session::{Handle, Target};

use crate::Result;
use farpost_tunables::Tunable;
use session::Named;

/// What one value of a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// `MPI_UNSIGNED_LONG`.
    Number,
    /// `MPI_DOUBLE`, of which the caller gives and takes the bits.
    Fraction,
    /// `MPI_INT`, one of an [`Enumeration`] of this index.
    Choice(usize),
    /// `MPI_CHAR`, with the terminator.
    Text,
}

/// Named values (MPI-5.0 section 15.3.5): the index is the value.
pub struct Enumeration {
    pub name: &'static str,
    pub items: &'static [&'static str],
}

pub const SWITCH: usize = 0;
pub const DEVICE: usize = 1;
pub const STAGE: usize = 2;

/// All enumerations.
pub const ENUMERATIONS: [Enumeration; 3] = [
    Enumeration {
        name: "switch",
        items: &["off", "on"],
    },
    Enumeration {
        name: "device",
        items: &["postbox", "fm", "jam", "portals"],
    },
    Enumeration {
        name: "stage",
        items: &["before MPI_Init", "initialised", "finalised"],
    },
];

/// What belongs together (section 15.3.9): indices.
#[derive(Default)]
pub struct Category {
    pub name: String,
    pub text: String,
    pub controls: Vec<usize>,
    pub measures: Vec<usize>,
    pub categories: Vec<usize>,
}

/// The interface, as one process has it.
pub struct Tools {
    /// Initialised so often, and not finalised.
    users: u32,
    pub controls: Vec<Control>,
    pub measures: Vec<Measure>,
    /// The first has all others.
    pub categories: Vec<Category>,
    control_handles: Named<usize>,
    sessions: Named<()>,
    handles: Named<Handle>,
}

impl Tools {
    /// With the tunables of layers, each under its layer's name, and the scope of each.
    pub fn new(
        layers: &[(&'static str, &'static [Tunable])],
        scope: impl Fn(&str, &'static Tunable) -> Scope,
    ) -> Self {
        let mut tools = Self {
            users: 0,
            controls: Vec::new(),
            measures: measure::all(),
            categories: vec![Category {
                name: "farpost".into(),
                text: "everything".into(),
                ..Category::default()
            }],
            control_handles: Named::default(),
            sessions: Named::default(),
            handles: Named::default(),
        };
        for (layer, table) in layers {
            for tunable in *table {
                let place = tools.controls.len();
                tools.category(layer).controls.push(place);
                tools.controls.push(Control::of(tunable, scope(layer, tunable)));
            }
        }
        for control in control::others() {
            let place = tools.controls.len();
            tools.category("library").controls.push(place);
            tools.controls.push(control);
        }
        for at in 0..tools.measures.len() {
            let of = tools.measures[at].category;
            tools.category(of).measures.push(at);
        }
        tools
    }

    /// The category of that name, which is made if it is new.
    fn category(&mut self, name: &str) -> &mut Category {
        let at = self.categories.iter().position(|category| category.name == name);
        let at = at.unwrap_or_else(|| {
            let at = self.categories.len();
            self.categories[0].categories.push(at);
            self.categories.push(Category {
                name: name.into(),
                text: format!("variables of {name}"),
                ..Category::default()
            });
            at
        });
        &mut self.categories[at]
    }

    /// `MPI_T_init_thread`.
    pub fn begin(&mut self) {
        self.users += 1;
    }

    /// `MPI_T_finalize`. With the last, all handles and sessions go.
    ///
    /// # Errors
    /// `MPI_T_ERR_NOT_INITIALIZED`.
    pub fn end(&mut self) -> Result<()> {
        self.begun()?;
        self.users -= 1;
        if self.users == 0 {
            self.control_handles.clear();
            self.sessions.clear();
            self.handles.clear();
        }
        Ok(())
    }

    /// Whether the interface may be used.
    ///
    /// # Errors
    /// `MPI_T_ERR_NOT_INITIALIZED`.
    pub fn begun(&self) -> Result<()> {
        if self.users > 0 {
            return Ok(());
        }
        fail!(T_ERR_NOT_INITIALIZED: "called before MPI_T_init_thread, or after MPI_T_finalize")
    }

    /// An element of a list by the program's index.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_INDEX`.
    pub fn at<T>(list: &[T], index: i32) -> Result<&T> {
        let found = usize::try_from(index).ok().and_then(|index| list.get(index));
        found.ok_or_else(|| error!(T_ERR_INVALID_INDEX: "index={index}: there are {}", list.len()))
    }

    /// The index of what has a name.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_NAME`.
    pub fn named<T>(list: &[T], is: impl Fn(&T) -> bool) -> Result<i32> {
        match list.iter().position(is) {
            Some(at) => Ok(at as i32),
            None => fail!(T_ERR_INVALID_NAME: "nothing has this name"),
        }
    }

    /// `MPI_T_cvar_handle_alloc`.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_INDEX`.
    pub fn open_control(&mut self, index: i32) -> Result<usize> {
        Self::at(&self.controls, index)?;
        Ok(self.control_handles.add(index as usize))
    }

    /// `MPI_T_cvar_handle_free`.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_HANDLE`.
    pub fn close_control(&mut self, handle: usize) -> Result<()> {
        self.control_handles
            .remove(handle)
            .map(drop)
            .ok_or_else(no_handle)
    }

    /// The variable behind a handle.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_HANDLE`.
    pub fn control(&self, handle: usize) -> Result<&Control> {
        let index = self.control_handles.get(handle).ok_or_else(no_handle)?;
        Ok(&self.controls[*index])
    }
}

#[cold]
fn no_handle() -> crate::Error {
    error!(T_ERR_INVALID_HANDLE: "not a handle of this interface, or freed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorClass;
    use crate::engine::EngineTunables;
    use std::collections::BTreeSet;

    fn tools() -> Tools {
        let mut tools = Tools::new(&[("mpi: engine", EngineTunables::TABLE)], |_, _| Scope::Local);
        tools.begin();
        tools
    }

    #[test]
    fn names_are_unique_and_everything_is_in_a_category() {
        let tools = tools();
        let names: BTreeSet<_> = tools.controls.iter().map(|control| control.name).collect();
        assert_eq!(names.len(), tools.controls.len());
        let names: BTreeSet<_> = tools.measures.iter().map(|measure| measure.name).collect();
        assert_eq!(names.len(), tools.measures.len());
        let controls: usize = tools
            .categories
            .iter()
            .map(|category| category.controls.len())
            .sum();
        let measures: usize = tools
            .categories
            .iter()
            .map(|category| category.measures.len())
            .sum();
        assert_eq!((controls, measures), (tools.controls.len(), tools.measures.len()));
        assert_eq!(tools.categories[0].categories.len() + 1, tools.categories.len());
    }

    #[test]
    fn handles_end_with_the_last_user() {
        let mut tools = tools();
        tools.begin();
        let handle = tools.open_control(0).unwrap();
        tools.end().unwrap();
        assert!(tools.control(handle).is_ok());
        tools.end().unwrap();
        assert_eq!(tools.end().unwrap_err().class, ErrorClass::T_ERR_NOT_INITIALIZED);
        tools.begin();
        assert_eq!(
            tools.control(handle).map(drop).unwrap_err().class,
            ErrorClass::T_ERR_INVALID_HANDLE
        );
        assert_eq!(
            tools.open_control(-1).unwrap_err().class,
            ErrorClass::T_ERR_INVALID_INDEX
        );
    }

    #[test]
    fn counters_begin_at_nothing_in_each_session_and_stop() {
        let mut tools = tools();
        let index = Tools::named(&tools.measures, |measure| measure.name == "bytes_sent").unwrap();
        let sessions = [tools.open_session(), tools.open_session()];
        let now = |value: u64| move |_: What, peers: &[u32]| Some(vec![value; peers.len()]);
        let one = tools.open(sessions[0], index, vec![1, 2], &now(100)).unwrap();
        let two = tools.open(sessions[1], index, vec![1, 2], &now(100)).unwrap();
        let read = |tools: &Tools, session, handle, value| tools.read(session, handle, &now(value)).unwrap();
        assert_eq!(read(&tools, sessions[0], one, 150), [0, 0], "not started");
        tools.start(sessions[0], Target::One(one), &now(150)).unwrap();
        assert_eq!(read(&tools, sessions[0], one, 170), [20, 20]);
        assert_eq!(read(&tools, sessions[1], two, 170), [0, 0], "sessions are apart");
        tools.stop(sessions[0], Target::One(one), &now(180)).unwrap();
        assert_eq!(read(&tools, sessions[0], one, 500), [30, 30]);
        tools.start(sessions[0], Target::All, &now(500)).unwrap();
        assert_eq!(read(&tools, sessions[0], one, 501), [31, 31]);
        tools.reset(sessions[0], Target::All, &now(501)).unwrap();
        assert_eq!(read(&tools, sessions[0], one, 503), [2, 2]);
        tools.write(sessions[0], one, &[7, 8], &now(503)).unwrap();
        assert_eq!(read(&tools, sessions[0], one, 504), [8, 9]);
        assert_eq!(
            tools.read(sessions[1], one, &now(1)).unwrap_err().class,
            ErrorClass::T_ERR_INVALID_HANDLE,
            "of another session"
        );
        tools.close_session(sessions[0]).unwrap();
        assert_eq!(
            tools.read(sessions[0], one, &now(1)).unwrap_err().class,
            ErrorClass::T_ERR_INVALID_SESSION
        );
    }

    #[test]
    fn levels_are_neither_started_nor_written() {
        let mut tools = tools();
        let index = Tools::named(&tools.measures, |measure| measure.name == "unexpected_messages").unwrap();
        let session = tools.open_session();
        let now = |_: What, _: &[u32]| Some(vec![5]);
        let handle = tools.open(session, index, Vec::new(), &now).unwrap();
        assert_eq!(tools.read(session, handle, &now).unwrap(), [5]);
        let class = |result: crate::Result<()>| result.unwrap_err().class;
        let one = Target::One(handle);
        assert_eq!(
            class(tools.start(session, one, &now)),
            ErrorClass::T_ERR_PVAR_NO_STARTSTOP
        );
        assert_eq!(
            class(tools.stop(session, one, &now)),
            ErrorClass::T_ERR_PVAR_NO_STARTSTOP
        );
        assert_eq!(
            class(tools.reset(session, one, &now)),
            ErrorClass::T_ERR_PVAR_NO_WRITE
        );
        assert_eq!(
            class(tools.write(session, handle, &[1], &now)),
            ErrorClass::T_ERR_PVAR_NO_WRITE
        );
        tools.start(session, Target::All, &now).unwrap();
        tools.reset(session, Target::All, &now).unwrap();
        // What cannot be asked for any more stays as it was last seen.
        assert_eq!(tools.read(session, handle, &|_, _| None).unwrap(), [5]);
    }
}
