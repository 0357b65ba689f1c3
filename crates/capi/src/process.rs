//! The process's life: its stages, and lines for people.

use core::ffi::c_int;
use std::cell::{Cell, OnceCell};

use farpost_mpi::attr::CommAttributes;

use crate::abi;

/// Where the process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Before,
    Active,
    /// As `Active`, in a program that is checked.
    Checked,
    /// As `Active`, in a program that is simulated, whose machine hears of every call.
    Simulated,
    After,
    /// In a child that the process forked while it was active.
    Forked,
}

/// How far the program has come with the world model: MPI_Init to MPI_Finalize (MPI-5.0 section 11.2). Sessions are apart from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorldModel {
    Before,
    Initialised,
    Finalised,
}

impl Stage {
    /// Between MPI_Init and MPI_Finalize, or with a session open.
    pub(crate) fn is_active(self) -> bool {
        matches!(self, Self::Active | Self::Checked | Self::Simulated)
    }
}

/// What the process knows of itself.
pub(crate) struct Life {
    pub(crate) stage: Cell<Stage>,
    pub(crate) world_model: Cell<WorldModel>,
    pub(crate) provided: Cell<c_int>,
    main_thread: Cell<Option<std::thread::ThreadId>>,
    /// The program has set the error handler of MPI_COMM_WORLD, of MPI_COMM_SELF.
    errhandlers_set: Cell<(bool, bool)>,
    /// Values of the predefined attributes; C gets their addresses.
    pub(crate) attributes: OnceCell<Box<CommAttributes>>,
}

impl Life {
    pub(crate) const fn new() -> Self {
        Self {
            stage: Cell::new(Stage::Before),
            world_model: Cell::new(WorldModel::Before),
            provided: Cell::new(abi::MPI_THREAD_SINGLE),
            main_thread: Cell::new(None),
            errhandlers_set: Cell::new((false, false)),
            attributes: OnceCell::new(),
        }
    }

    /// This thread initialises the world model.
    pub(crate) fn begin(&self) {
        self.world_model.set(WorldModel::Initialised);
        self.main_thread.set(Some(std::thread::current().id()));
    }

    /// The program sets the error handler of a communicator.
    pub(crate) fn note_errhandler(&self, comm: usize) {
        let (world, own) = self.errhandlers_set.get();
        let (world, own) = (
            world || comm == abi::MPI_COMM_WORLD,
            own || comm == abi::MPI_COMM_SELF,
        );
        self.errhandlers_set.set((world, own));
    }

    /// Whether errors that belong to no object go to MPI_COMM_WORLD's handler. By MPI-5.0 section 9.3 they go to
    /// MPI_COMM_SELF's, since MPI-4.0; programs written before set MPI_COMM_WORLD's alone and mean these, too.
    pub(crate) fn world_hears_all(&self) -> bool {
        self.errhandlers_set.get() == (true, false)
    }

    /// Whether this is the thread that initialised.
    pub(crate) fn is_main_thread(&self) -> bool {
        self.main_thread.get() == Some(std::thread::current().id())
    }
}

/// A line for people, in one piece however many processes write to the same place.
pub(crate) fn say(message: &str) {
    use std::io::Write;
    let line = format!("farpost: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
