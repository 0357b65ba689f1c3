//! Tables of objects: places that are used again, each with a generation, so that a stale name finds nothing. Fast path:
//! a look-up is a bound, a load and a compare.

use crate::types::{Handle, HandleKind};

/// What a program has a handle of.
pub(super) trait Named {
    const KIND: HandleKind;
    fn handle(&self) -> Handle;
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Generations have 31 bits: a token has a use for the other one.
const GENERATION: u32 = u32::MAX >> 1;

/// Far apart as tokens, and odd, so that handles, which have fewer bits, differ as well.
const GENERATIONS_OF_AN_OPENING: u32 = (1 << 20) + 1;

/// A table of at most `limit` values.
pub(super) struct ObjectTable<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    limit: u32,
    /// Where generations begin.
    first: u32,
}

/// A place and its generation: names a value exactly, where a handle repeats after [`Handle::GENERATIONS`] uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub index: u32,
    pub generation: u32,
}

impl Key {
    /// As one number, for the network layer and the wire.
    #[inline]
    pub fn token(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    #[inline]
    pub fn of_token(token: u64) -> Self {
        Self {
            index: token as u32,
            generation: (token >> 32) as u32,
        }
    }
}

impl<T> ObjectTable<T> {
    /// Bytes of a place, and of its number among those that are free.
    pub const PLACE: usize = size_of::<Slot<T>>() + size_of::<u32>();

    pub fn new(limit: u32) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            limit,
            first: 0,
        }
    }

    /// Where a new table's generations begin: for opening `opening` of an interface behind what those before it had.
    pub fn begin_at(&mut self, opening: u32) {
        self.first = opening.wrapping_mul(GENERATIONS_OF_AN_OPENING) & GENERATION;
    }

    /// The same table without values and with another limit: what names its values now is stale.
    pub fn emptied(&self, limit: u32) -> Self {
        let after =
            |slot: &Slot<T>| slot.generation.wrapping_add(u32::from(slot.value.is_some())) & GENERATION;
        let kept = self.slots.len().min(limit as usize);
        let slots: Vec<Slot<T>> = self.slots[..kept]
            .iter()
            .map(|slot| Slot {
                generation: after(slot),
                value: None,
            })
            .collect();
        // Places that come into use again later begin behind everything that they had.
        let beyond = self.slots[kept..].iter().map(after).max().unwrap_or(0);
        let free = (0..kept as u32).rev().collect();
        Self {
            slots,
            free,
            limit,
            first: self.first.max(beyond),
        }
    }

    /// Room for `places` before memory is asked for again.
    pub fn reserve(&mut self, places: u32) {
        let places = places.min(self.limit) as usize;
        self.slots.reserve(places);
        self.free.reserve(places);
    }

    /// Values in it.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether another one fits.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() || (self.slots.len() as u64) < u64::from(self.limit)
    }

    /// Put a value in; `make` is told its name. None: the table is full.
    #[inline(always)]
    pub fn insert(&mut self, make: impl FnOnce(Key) -> T) -> Option<Key> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                if !self.has_room() {
                    return None;
                }
                self.slots.push(Slot {
                    generation: self.first,
                    value: None,
                });
                self.slots.len() as u32 - 1
            }
        };
        let slot = &mut self.slots[index as usize];
        let key = Key {
            index,
            generation: slot.generation,
        };
        slot.value = Some(make(key));
        Some(key)
    }

    /// Take the value of a place out.
    #[inline]
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let slot = self.slots.get_mut(index as usize)?;
        let value = slot.value.take()?;
        slot.generation = (slot.generation + 1) & GENERATION;
        self.free.push(index);
        Some(value)
    }

    /// Let the value of a place go.
    #[inline]
    pub fn discard(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize)
            && slot.value.is_some()
        {
            slot.value = None;
            slot.generation = (slot.generation + 1) & GENERATION;
            self.free.push(index);
        }
    }

    /// The value in a place.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.slots.get(index as usize)?.value.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.value.as_mut()
    }

    /// The value of exactly this name.
    #[inline]
    pub fn exact(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        (slot.generation == key.generation)
            .then_some(slot.value.as_mut())
            .flatten()
    }

    /// The name of a place's present value.
    #[inline]
    pub fn key(&self, index: u32) -> Key {
        Key {
            index,
            generation: self.slots[index as usize].generation,
        }
    }

    /// All values with their names.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let key = Key {
                index: index as u32,
                generation: slot.generation,
            };
            slot.value.as_ref().map(|value| (key, value))
        })
    }
}

impl<T: Named> ObjectTable<T> {
    /// The handle that goes with a name.
    #[inline]
    pub fn handle(interface: u8, key: Key) -> Handle {
        Handle::new(T::KIND, interface, key.index as u16, key.generation)
    }

    /// The place that a handle names. None: stale, forged, or of another kind or interface.
    #[inline]
    pub fn find(&self, handle: Handle) -> Option<u32> {
        let index = u32::from(handle.index());
        let value = self.get(index)?;
        (value.handle() == handle).then_some(index)
    }

    /// The value that a handle names.
    #[inline]
    pub fn named(&mut self, handle: Handle) -> Option<&mut T> {
        let value = self.get_mut(u32::from(handle.index()))?;
        (value.handle() == handle).then_some(value)
    }
}
