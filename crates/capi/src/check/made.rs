//! What the program made, by handle: where, and where it was freed.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};

use super::{Call, Check};
use crate::cx;
use crate::names::Fun;

/// Below this are the handles of the ABI.
const DYNAMIC: usize = 0x1000;
/// Freed handles that are remembered.
const REMEMBERED: usize = 4096;

/// Kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum What {
    Request,
    Comm,
    Group,
    Datatype,
    Op,
    Errhandler,
    Info,
    Keyval,
    Message,
}

#[derive(Default)]
pub(crate) struct Made {
    live: RefCell<HashMap<(What, usize), Call>>,
    freed: RefCell<Freed>,
}

/// The latest that were freed.
#[derive(Default)]
struct Freed {
    order: VecDeque<(What, usize)>,
    calls: HashMap<(What, usize), Call>,
}

impl Check {
    /// A function gave out a handle.
    pub(crate) fn made(&self, what: What, fun: Fun, handle: usize) {
        // Predefined ones are nobody's to free.
        if what != What::Keyval && handle < DYNAMIC {
            return;
        }
        let call = self.call_here(fun);
        self.made.live.borrow_mut().insert((what, handle), call);
    }

    /// A handle is dead.
    pub(crate) fn gone(&self, what: What, fun: Fun, handle: usize) {
        if self.made.live.borrow_mut().remove(&(what, handle)).is_none() {
            return;
        }
        let call = self.call_here(fun);
        let Freed { order, calls } = &mut *self.made.freed.borrow_mut();
        if calls.insert((what, handle), call).is_none() {
            order.push_back((what, handle));
        }
        if order.len() > REMEMBERED
            && let Some(oldest) = order.pop_front()
        {
            calls.remove(&oldest);
        }
    }

    /// Where a live handle was made.
    pub(crate) fn maker(&self, what: What, handle: usize) -> Option<Call> {
        self.made.live.borrow().get(&(what, handle)).copied()
    }

    /// Live handles of a kind.
    pub(crate) fn live(&self, what: What) -> Vec<usize> {
        let live = self.made.live.borrow();
        let mut list: Vec<usize> = live.keys().filter(|key| key.0 == what).map(|key| key.1).collect();
        list.sort_unstable();
        list
    }

    /// What became of a handle that is dead.
    fn end_of(&self, handle: usize) -> Option<String> {
        let freed = self.made.freed.borrow();
        // No two kinds have a handle in common, but for attribute keys, which are asked for by number.
        let mut calls = freed.calls.iter();
        let (_, call) = calls.find(|((what, h), _)| *h == handle && *what != What::Keyval)?;
        Some(self.call_text(*call))
    }
}

/// For an error about a handle that is dead: who completed or freed it, if that is known.
pub(super) fn history(handle: usize) -> String {
    let ended = super::of(cx::process()).and_then(|check| check.end_of(handle));
    ended.map_or_else(String::new, |call| {
        format!("; it was completed or freed by {call}")
    })
}
