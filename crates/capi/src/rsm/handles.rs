//! Handles: what C holds in the place of a pointer.

use core::ffi::c_void;

use farpost_fabric::slots::{Key, Slots};
use farpost_rsm::{Result, fail};

/// What a handle names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HandleKind {
    Controller = 1,
    Export = 2,
    Import = 3,
    Local = 4,
    Barrier = 5,
    Request = 6,
}

/// A handle: 4 bits of kind, 28 of place, the rest how often the place was used before.
const KIND_BITS: u32 = 4;
const PLACE_BITS: u32 = 28;
const USED: u64 = !0 << (KIND_BITS + PLACE_BITS);

/// Things of one kind by handle.
pub(super) struct HandleTable<T> {
    kind: HandleKind,
    slots: Slots<Key, T>,
}

impl<T> HandleTable<T> {
    pub(super) const fn new(kind: HandleKind) -> Self {
        let slots = Slots::new();
        Self { kind, slots }
    }

    fn handle(&self, key: Key) -> *mut c_void {
        (key.number() & USED | u64::from(key.slot()) << KIND_BITS | self.kind as u64) as *mut c_void
    }

    #[inline(always)]
    fn key(&self, handle: *mut c_void) -> Option<Key> {
        let number = handle as u64;
        let place = number >> KIND_BITS & ((1 << PLACE_BITS) - 1);
        let of_kind = number & ((1 << KIND_BITS) - 1) == self.kind as u64;
        of_kind.then_some(Key::of(number & USED | place))
    }

    /// Keep `value`, unless there are too many.
    pub(super) fn add(&mut self, value: T) -> Result<*mut c_void> {
        let (key, place) = self.slots.take(|index| match index >> PLACE_BITS {
            0 => Ok(Key::new(index as u32, 0)),
            _ => fail!(INSUFFICIENT_RESOURCES: "there are too many handles of the kind {:?}", self.kind),
        })?;
        *place = Some(value);
        Ok(self.handle(key))
    }

    #[inline(always)]
    pub(super) fn get(&self, handle: *mut c_void) -> Option<&T> {
        self.slots.get(self.key(handle)?)
    }

    pub(super) fn get_mut(&mut self, handle: *mut c_void) -> Option<&mut T> {
        self.slots.get_mut(self.key(handle)?)
    }

    pub(super) fn remove(&mut self, handle: *mut c_void) -> Option<T> {
        self.slots.remove(self.key(handle)?)
    }

    /// The handle of the first for which `wanted` holds.
    pub(super) fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<*mut c_void> {
        let (key, _) = self.slots.iter().find(|(_, value)| wanted(value))?;
        Some(self.handle(key))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().map(|(_, value)| value)
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
