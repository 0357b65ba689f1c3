//! Handles: what C holds in the place of a pointer.

use core::ffi::c_void;

use farpost_rsm::{Result, fail};

/// What a handle names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HandleKind {
    Controller = 1,
    Export = 2,
    Import = 3,
    Local = 4,
    Barrier = 5,
}

/// A handle taken apart: 4 bits of kind, 28 of place, the rest how often the place was used before.
const KIND_BITS: u32 = 4;
const PLACE_BITS: u32 = 28;

/// Things of one kind by handle.
pub(super) struct HandleTable<T> {
    kind: HandleKind,
    places: Vec<(usize, Option<T>)>,
    free: Vec<usize>,
}

impl<T> HandleTable<T> {
    pub(super) const fn new(kind: HandleKind) -> Self {
        Self {
            kind,
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    fn handle(&self, place: usize) -> *mut c_void {
        let used = self.places[place].0;
        (used << (KIND_BITS + PLACE_BITS) | place << KIND_BITS | self.kind as usize) as *mut c_void
    }

    /// Keep `value`, unless there are too many.
    pub(super) fn add(&mut self, value: T) -> Result<*mut c_void> {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.places.len() >> PLACE_BITS == 0 => {
                self.places.push((0, None));
                self.places.len() - 1
            }
            None => {
                return fail!(INSUFFICIENT_RESOURCES: "there are too many handles of the kind {:?}", self.kind);
            }
        };
        self.places[place].1 = Some(value);
        Ok(self.handle(place))
    }

    #[inline(always)]
    fn place(&self, handle: *mut c_void) -> Option<usize> {
        let place = handle as usize >> KIND_BITS & ((1 << PLACE_BITS) - 1);
        (place < self.places.len() && self.handle(place) == handle).then_some(place)
    }

    #[inline(always)]
    pub(super) fn get(&self, handle: *mut c_void) -> Option<&T> {
        self.places[self.place(handle)?].1.as_ref()
    }

    pub(super) fn get_mut(&mut self, handle: *mut c_void) -> Option<&mut T> {
        let place = self.place(handle)?;
        self.places[place].1.as_mut()
    }

    pub(super) fn remove(&mut self, handle: *mut c_void) -> Option<T> {
        let place = self.place(handle)?;
        let value = self.places[place].1.take()?;
        self.places[place].0 += 1;
        self.free.push(place);
        Some(value)
    }

    /// The handle of the first for which `wanted` holds.
    pub(super) fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<*mut c_void> {
        let place = self
            .places
            .iter()
            .position(|(_, value)| value.as_ref().is_some_and(&wanted))?;
        Some(self.handle(place))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|(_, value)| value.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_handle_finds_nothing() {
        let mut table = HandleTable::new(HandleKind::Export);
        let (one, two) = (table.add(1).unwrap(), table.add(2).unwrap());
        assert_eq!((table.get(one), table.get(two)), (Some(&1), Some(&2)));
        assert_eq!(table.remove(one), Some(1));
        assert!(table.get(one).is_none() && table.remove(one).is_none());
        let three = table.add(3).unwrap();
        assert!(three != one && table.get(one).is_none() && table.get(three) == Some(&3));
        for wrong in [
            0,
            1,
            2,
            0x12,
            0x52,
            usize::MAX,
            one as usize + 1,
            two as usize - 1,
        ] {
            let wrong = wrong as *mut c_void;
            assert!(
                wrong == two || wrong == three || table.get(wrong).is_none(),
                "{wrong:?}"
            );
        }
    }
}
