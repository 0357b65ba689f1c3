//! Handle values of dynamic objects and the tables they live in, which are [slots](farpost_fabric::slots) named by handles.
//!
//! A handle *is* the value the C program holds, so a table must recognise any value a program may
//! invent: stale, null or garbage. Layout of a handle, from bit 0: 22 bits slot index, 5 bits low
//! generation, 4 bits kind, one zero bit, 32 bits high generation. The low half is a positive `i32`
//! that is unique among live objects (`MPI_Type_toint` and its kin); values below 0x1000 stay free for
//! the ABI's predefined handles.
//!
//! Cost class: look-up is fast path (mask, bounds check, compare); insert and remove are O(1).

use crate::errors::Result;
use farpost_fabric::slots::{SlotName, Slots};

const INDEX_BITS: u32 = 22;
const GEN_LOW_BITS: u32 = 5;
const KIND_SHIFT: u32 = INDEX_BITS + GEN_LOW_BITS;
const INDEX_MASK: usize = (1 << INDEX_BITS) - 1;
const LOW_MASK: usize = 0x7fff_ffff;
/// Set in the name of a slot that is free; zero in every handle given out.
const EMPTY: usize = 1 << 31;

/// What a handle refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HandleKind {
    Comm = 1,
    Group = 2,
    Datatype = 3,
    Op = 4,
    Request = 5,
    Info = 6,
    Errhandler = 7,
    Message = 8,
    Win = 9,
    File = 10,
    Session = 11,
}

impl HandleKind {
    const ALL: [HandleKind; 11] = [
        HandleKind::Comm,
        HandleKind::Group,
        HandleKind::Datatype,
        HandleKind::Op,
        HandleKind::Request,
        HandleKind::Info,
        HandleKind::Errhandler,
        HandleKind::Message,
        HandleKind::Win,
        HandleKind::File,
        HandleKind::Session,
    ];

    /// The kind a dynamic handle claims to be of; `None` for predefined values and garbage.
    pub fn of(handle: usize) -> Option<HandleKind> {
        if handle & EMPTY != 0 {
            return None;
        }
        let number = (handle & LOW_MASK) >> KIND_SHIFT;
        Self::ALL.get(number.wrapping_sub(1)).copied()
    }
}

/// A handle as the name of one use of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
struct HandleName(usize);

impl SlotName for HandleName {
    #[inline(always)]
    fn index(self) -> usize {
        self.0 & (INDEX_MASK | EMPTY)
    }

    /// One generation on; wraps after 2^37.
    #[inline(always)]
    fn freed(self) -> Self {
        const GEN_LOW_ONE: usize = 1 << INDEX_BITS;
        const GEN_LOW_MASK: usize = ((1 << GEN_LOW_BITS) - 1) << INDEX_BITS;
        let next = if self.0 & GEN_LOW_MASK != GEN_LOW_MASK {
            self.0 + GEN_LOW_ONE
        } else {
            (self.0 & !GEN_LOW_MASK).wrapping_add(1 << 32)
        };
        Self(next | EMPTY)
    }

    #[inline(always)]
    fn taken(self) -> Self {
        Self(self.0 & !EMPTY)
    }

    #[inline(always)]
    fn is_free(self) -> bool {
        self.0 & EMPTY != 0
    }
}

/// Objects of one kind by handle. A freed handle is not given out again before 2^37 reuses of its slot.
pub struct HandleTable<T> {
    kind: HandleKind,
    slots: Slots<HandleName, T>,
}

impl<T> HandleTable<T> {
    /// An empty table; allocates at the first insert.
    pub const fn new(kind: HandleKind) -> Self {
        Self {
            kind,
            slots: Slots::new(),
        }
    }

    /// Stores `value` and returns its handle.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when 2^22 objects of this kind are alive.
    #[inline]
    pub fn insert(&mut self, value: T) -> Result<usize> {
        self.insert_with(|_| value)
    }

    /// As [`HandleTable::insert`] for values that know their own handle.
    #[inline(always)]
    pub fn insert_with(&mut self, make: impl FnOnce(usize) -> T) -> Result<usize> {
        let (handle, place) = self.claim()?;
        *place = Some(make(handle));
        Ok(handle)
    }

    /// A live handle and the place for its value, which the caller fills: it may hold the remains of a discarded
    /// one, and making that new where it is saves moving a value.
    #[inline(always)]
    pub fn claim(&mut self) -> Result<(usize, &mut Option<T>)> {
        let kind = self.kind;
        let (name, place) = self.slots.take(|index| first(kind, index))?;
        Ok((name.0, place))
    }

    /// As [`HandleTable::remove`], leaving the value's remains for [`HandleTable::claim`]. False: the handle is not
    /// live.
    #[inline]
    pub fn discard(&mut self, handle: usize) -> bool {
        self.discard_if(handle, |_| true)
    }

    /// As [`HandleTable::discard`], if the value is as wanted. False: it is not, or the handle is not live.
    #[inline(always)]
    pub fn discard_if(&mut self, handle: usize, wanted: impl FnOnce(&T) -> bool) -> bool {
        self.slots.leave_if(HandleName(handle), wanted)
    }

    /// The value of a live handle; `None` for anything else.
    #[inline]
    pub fn get(&self, handle: usize) -> Option<&T> {
        self.slots.get(HandleName(handle))
    }

    /// The value of a live handle, to be changed.
    #[inline]
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut T> {
        self.slots.get_mut(HandleName(handle))
    }

    /// Takes the value out; the handle is dead from now on.
    #[inline]
    pub fn remove(&mut self, handle: usize) -> Option<T> {
        self.slots.remove(HandleName(handle))
    }

    /// The live handle whose low half is `int` (the inverse of `handle as i32`).
    #[inline]
    pub fn from_int(&self, int: i32) -> Option<usize> {
        let low = usize::try_from(int).ok()?;
        let HandleName(handle) = self.slots.name_at(low & INDEX_MASK)?;
        (handle & LOW_MASK == low).then_some(handle)
    }

    /// Number of live objects.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no object is alive.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Live handles and their values, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.slots.iter().map(|(name, value)| (name.0, value))
    }
}

/// The first handle of a slot.
#[cold]
fn first(kind: HandleKind, index: usize) -> Result<HandleName> {
    if index > INDEX_MASK {
        return fail!(ERR_NO_MEM: "{kind:?}: {index} objects are alive, the most a process can hold; free some");
    }
    Ok(HandleName(index | (kind as usize) << KIND_SHIFT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorClass;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn a_handle_is_a_positive_int_of_its_kind() {
        let mut table = HandleTable::new(HandleKind::Session);
        let handle = table.insert("a").unwrap();
        assert!(handle as i32 > 0xfff);
        assert_eq!(HandleKind::of(handle), Some(HandleKind::Session));
        assert_eq!(table.from_int(handle as i32), Some(handle));
        assert_eq!(table.from_int(-1), None);
        assert_eq!(HandleKind::of(0x209), None);
        assert_eq!(HandleKind::of(usize::MAX), None);
    }

    #[test]
    fn a_freed_handle_stays_dead_while_its_slot_lives_on() {
        let mut table = HandleTable::new(HandleKind::Request);
        let mut seen = HashSet::new();
        for round in 0..200 {
            let handle = table.insert(round).unwrap();
            assert!(seen.insert(handle), "{handle:#x} came back");
            assert_eq!(table.remove(handle), Some(round));
            assert_eq!(table.remove(handle), None);
            for old in &seen {
                assert_eq!(table.get(*old), None);
                assert_eq!(table.get(*old | EMPTY), None);
            }
        }
        assert!(table.is_empty());
    }

    #[test]
    fn the_table_says_when_it_is_full() {
        let mut table = HandleTable::new(HandleKind::Info);
        for _ in 0..=INDEX_MASK {
            table.insert(()).unwrap();
        }
        assert_eq!(table.insert(()).unwrap_err().class, ErrorClass::ERR_NO_MEM);
    }

    proptest! {
        #[test]
        fn behaves_as_a_map(steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..300)) {
            let mut table = HandleTable::new(HandleKind::Comm);
            let mut model: HashMap<usize, usize> = HashMap::new();
            let mut ints = HashSet::new();
            for (number, (add, which)) in steps.into_iter().enumerate() {
                if add || model.is_empty() {
                    let handle = table.insert(number).unwrap();
                    prop_assert!(model.insert(handle, number).is_none());
                } else {
                    let mut keys: Vec<_> = model.keys().copied().collect();
                    keys.sort_unstable();
                    let handle = keys[which.index(keys.len())];
                    prop_assert_eq!(table.remove(handle), model.remove(&handle));
                }
                ints.clear();
                for (handle, value) in &model {
                    prop_assert_eq!(table.get(*handle), Some(value));
                    prop_assert_eq!(table.from_int(*handle as i32), Some(*handle));
                    prop_assert!(ints.insert(*handle as i32));
                }
                prop_assert_eq!(table.len(), model.len());
            }
        }

        #[test]
        fn garbage_is_never_live(garbage in any::<usize>()) {
            let mut table = HandleTable::new(HandleKind::Win);
            let handle = table.insert(()).unwrap();
            prop_assert_eq!(table.get(garbage).is_some(), garbage == handle);
        }
    }
}
