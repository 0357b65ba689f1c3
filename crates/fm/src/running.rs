//! Which handlers run, and what they say when they return.

use std::cell::Cell;

/// What a handler says when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// On with the next message.
    Continue,
    /// Let the extraction return.
    Quit,
}

/// Which handlers run.
#[derive(Default)]
pub(crate) struct Running {
    depth: Cell<u32>,
    /// Those that run on a stack of their own: at most one of a thread, and its innermost.
    apart: Cell<u32>,
}

impl Running {
    /// Whether handlers may run now: not from one that runs on a stack of its own, and not too deep.
    #[inline(always)]
    pub fn may_extract(&self, deepest: u32) -> bool {
        self.apart.get() == 0 && self.depth.get() < deepest
    }

    /// Whether a handler runs.
    pub fn inside(&self) -> bool {
        self.depth.get() > 0
    }

    #[inline(always)]
    pub fn enter(&self, apart: bool) -> Entered<'_> {
        self.depth.set(self.depth.get() + 1);
        self.apart.set(self.apart.get() + u32::from(apart));
        Entered(self, apart)
    }
}

/// A handler runs until this is dropped, by a panic too.
pub struct Entered<'a>(&'a Running, bool);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.depth.set(self.0.depth.get() - 1);
        self.0.apart.set(self.0.apart.get() - u32::from(self.1));
    }
}
