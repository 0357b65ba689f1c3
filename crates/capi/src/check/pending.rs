//! Operations under way: which memory they use and what is compared when they are over.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};

use farpost_mpi::engine::request::Status;

use super::areas::Area;
use super::header::Expected;
use super::ledger::Joined;
use super::report::ReportKind;
use super::{Call, Check};
use crate::cx::Cx;

/// An operation of the program's.
pub(crate) struct Operation {
    call: Call,
    areas: Vec<Area>,
    expected: Option<Expected>,
    /// Of a collective: which call.
    joined: Option<Joined>,
}

impl Operation {
    /// It is a collective.
    pub(crate) fn of(mut self, joined: Joined) -> Self {
        self.joined = Some(joined);
        self
    }
}

/// An operation that is, or can be, under way.
pub(crate) struct Begun {
    operation: Operation,
    /// Checksums of what is read, while it is under way.
    sums: Vec<Option<u64>>,
    /// Its places in the map by address.
    places: Vec<Place>,
}

/// Memory of an operation under way.
#[derive(Clone)]
struct Used {
    area: Area,
    call: Call,
}

/// A place of memory under way: written or not, logarithm of its length, address, number.
type Place = (bool, u32, usize, u64);

#[derive(Default)]
pub(crate) struct BuffersUnderWay {
    by_handle: RefCell<HashMap<usize, Begun>>,
    /// In the order of places, so that what may meet a piece of memory lies together for each length.
    by_place: RefCell<BTreeMap<Place, Used>>,
    next: Cell<u64>,
    /// Lengths there have been, a bit for each logarithm.
    lengths: Cell<u64>,
}

impl BuffersUnderWay {
    fn add(&self, used: Used) -> Option<Place> {
        let (low, high) = used.area.bounds()?;
        let place = (used.area.write, (high - low).max(1).ilog2(), low, self.next.get());
        self.next.set(place.3 + 1);
        self.lengths.set(self.lengths.get() | 1 << place.1);
        self.by_place.borrow_mut().insert(place, used);
        Some(place)
    }

    fn remove(&self, places: &mut Vec<Place>) {
        let mut by_place = self.by_place.borrow_mut();
        for place in places.drain(..) {
            by_place.remove(&place);
        }
    }

    /// Memory under way that may not be used together with `area`, and the first byte in common. What is read may be read
    /// by others.
    fn conflict(&self, area: &Area) -> Option<(Used, usize)> {
        let (low, high) = area.bounds()?;
        let by_place = self.by_place.borrow();
        let ways: &[bool] = if area.write { &[false, true] } else { &[true] };
        for write in ways {
            for class in (0..usize::BITS).filter(|class| self.lengths.get() >> class & 1 == 1) {
                // The longest of this class end before.
                let from = low.saturating_sub((1 << class) - 1 + (1 << class));
                let near = by_place.range((*write, class, from, 0)..(*write, class, high, 0));
                for (_, used) in near {
                    if let Some(byte) = used.area.overlap(area) {
                        return Some((used.clone(), byte));
                    }
                }
            }
        }
        None
    }
}

impl Check {
    /// An operation begins to use memory: tells what overlaps. Its places, where others see them.
    fn occupy(&self, cx: &Cx, call: Call, areas: &[Area]) -> Vec<Place> {
        let mut places = Vec::new();
        for area in areas {
            if area.write
                && let Some(byte) = area.overlaps_itself()
            {
                let text = format!(
                    "the receive buffer of {} has the byte at {byte:#x} twice: its datatype or displacements overlap themselves",
                    self.call_text(call)
                );
                self.find(cx, ReportKind::Overlap, &text);
            }
            if let Some((used, byte)) = self.pending.conflict(area) {
                let (mine, theirs) = (self.call_text(call), self.call_text(used.call));
                let text = if call == used.call {
                    let what = if used.area.write && area.write {
                        "written twice"
                    } else {
                        "both read and written"
                    };
                    format!("two buffers of {mine} overlap: the byte at {byte:#x} is {what}")
                } else {
                    let what = match (used.area.write, area.write) {
                        (true, true) => "both write",
                        (true, false) => "the first writes and the second reads",
                        _ => "the first reads and the second writes",
                    };
                    format!(
                        "{theirs} is not complete, and {mine} uses a part of the same buffer: {what} the byte at {byte:#x}"
                    )
                };
                self.find(cx, ReportKind::Overlap, &text);
            }
            let area = area.clone();
            places.extend(self.pending.add(Used { area, call }));
        }
        places
    }

    /// A call uses memory until it returns.
    pub(crate) fn during(&self, cx: &Cx, call: Call, areas: &[Area]) -> During<'_> {
        During {
            check: self,
            places: self.occupy(cx, call, areas),
        }
    }

    /// An operation that the program calls for.
    pub(crate) fn operation(&self, call: Call, areas: Vec<Area>, expected: Option<Expected>) -> Operation {
        Operation {
            call,
            areas,
            expected,
            joined: None,
        }
    }

    /// An operation is about to be under way.
    pub(crate) fn begin(&self, cx: &Cx, operation: Operation) -> Begun {
        let places = self.occupy(cx, operation.call, &operation.areas);
        let sums = operation
            .areas
            .iter()
            .map(|area| (!area.write).then(|| area.sum()));
        Begun {
            sums: sums.collect(),
            places,
            operation,
        }
    }

    /// It is under way and has a request, or none: it could not be started.
    pub(crate) fn begun(&self, mut begun: Begun, handle: Option<usize>) {
        match handle {
            Some(handle) => {
                self.pending.by_handle.borrow_mut().insert(handle, begun);
            }
            None => self.pending.remove(&mut begun.places),
        }
    }

    /// A persistent request was made.
    pub(crate) fn persistent(&self, handle: usize, operation: Operation) {
        let known = Begun {
            operation,
            sums: Vec::new(),
            places: Vec::new(),
        };
        self.pending.by_handle.borrow_mut().insert(handle, known);
    }

    /// A [persistent](Self::persistent) request is started.
    pub(crate) fn starting(&self, cx: &Cx, handle: usize) {
        let (call, areas) = match self.pending.by_handle.borrow().get(&handle) {
            Some(Begun {
                operation, places, ..
            }) if places.is_empty() => (operation.call, operation.areas.clone()),
            _ => return,
        };
        let places = self.occupy(cx, call, &areas);
        let sums = areas.iter().map(|area| (!area.write).then(|| area.sum()));
        if let Some(known) = self.pending.by_handle.borrow_mut().get_mut(&handle) {
            known.sums = sums.collect();
            known.places = places;
        }
    }

    /// Forget a request, or that it is under way.
    pub(crate) fn forget(&self, handle: usize, persistent: bool) {
        let mut by_handle = self.pending.by_handle.borrow_mut();
        if let Some(known) = by_handle.get_mut(&handle) {
            self.pending.remove(&mut known.places);
            known.sums.clear();
            if !persistent {
                by_handle.remove(&handle);
            }
        }
    }

    /// The program learns that a request is complete. `stays`: it asked without completing it.
    pub(crate) fn completed(
        &self,
        cx: &'static Cx,
        handle: usize,
        status: &mut Status,
        gone: bool,
        stays: bool,
    ) {
        let (changed, expected, joined) = {
            let mut by_handle = self.pending.by_handle.borrow_mut();
            let Some(known) = by_handle.get_mut(&handle) else {
                return;
            };
            self.pending.remove(&mut known.places);
            let sums = std::mem::take(&mut known.sums);
            let whole = status.error.is_none() && !status.cancelled;
            let areas = known.operation.areas.iter().zip(sums);
            let mut changed =
                areas.filter_map(|(area, sum)| (whole && sum? != area.sum()).then_some(area.bytes()));
            let changed = changed.next().map(|bytes| (known.operation.call, bytes));
            let expected = known.operation.expected.clone();
            let joined = known.operation.joined;
            if gone && !stays {
                by_handle.remove(&handle);
            }
            (changed, expected, joined)
        };
        if let Some((call, bytes)) = changed {
            let text = format!(
                "the program changed the send buffer of {bytes} bytes of {} before the operation was complete, as {} told",
                self.call_text(call),
                self.call_text(self.call_here(super::call()))
            );
            self.find(cx, ReportKind::Changed, &text);
        }
        if let Some(expected) = expected {
            self.received(cx, &expected, status);
        }
        if let (Some(joined), Some(error)) = (joined, &status.error) {
            self.explain(cx, joined, error);
        }
    }
}

/// Memory that a call uses, until dropped.
pub(crate) struct During<'a> {
    check: &'a Check,
    places: Vec<Place>,
}

impl Drop for During<'_> {
    fn drop(&mut self) {
        self.check.pending.remove(&mut self.places);
    }
}
