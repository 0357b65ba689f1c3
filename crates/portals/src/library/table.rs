//! Tables of objects. A name ([`Key`]) means one use of a slot exactly, where a handle repeats after [`Handle::GENERATIONS`] uses. Fast path:
//! a look-up is a bound, a load and a compare.

use crate::error::Error;
use crate::types::{Handle, HandleKind};
pub(super) use farpost_fabric::slots::Key;
use farpost_fabric::slots::Slots;

/// What a program has a handle of.
pub(super) trait Named {
    const KIND: HandleKind;
    fn handle(&self) -> Handle;
}

/// Far apart as numbers of keys, and odd, so that handles, which have fewer bits, differ as well.
const GENERATIONS_OF_AN_OPENING: u32 = (1 << 20) + 1;

/// A table of at most `limit` values.
pub(super) struct ObjectTable<T> {
    slots: Slots<Key, T>,
    limit: u32,
    /// Where generations begin.
    first: u32,
}

impl<T> ObjectTable<T> {
    /// Bytes of a place, and of its number among those that are free.
    pub const PLACE: usize = Slots::<Key, T>::SLOT_BYTES;

    pub fn new(limit: u32) -> Self {
        Self {
            slots: Slots::new(),
            limit,
            first: 0,
        }
    }

    /// Where a new table's generations begin: for opening `opening` of an interface behind what those before it had.
    pub fn begin_at(&mut self, opening: u32) {
        self.first = Key::new(0, opening.wrapping_mul(GENERATIONS_OF_AN_OPENING)).generation();
    }

    /// The same table without values and with another limit: what names its values now is stale.
    pub fn emptied(&self, limit: u32) -> Self {
        let kept = self.slots.next_names().take(limit as usize);
        // Places that come into use again later begin behind everything that they had.
        let beyond = self.slots.next_names().skip(limit as usize);
        let beyond = beyond.map(Key::generation).max().unwrap_or(0);
        Self {
            slots: Slots::of(kept),
            limit,
            first: self.first.max(beyond),
        }
    }

    /// Room for `places` before memory is asked for again.
    pub fn reserve(&mut self, places: u32) {
        self.slots.reserve(places.min(self.limit) as usize);
    }

    /// Values in it.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether another one fits.
    pub fn has_room(&self) -> bool {
        self.slots.has_free() || (self.slots.slots() as u64) < u64::from(self.limit)
    }

    /// Put a value in; `make` is told its name. None: the table is full.
    #[inline(always)]
    pub fn insert(&mut self, make: impl FnOnce(Key) -> T) -> Option<Key> {
        let first = |index: usize| {
            let key = Key::new(index as u32, self.first);
            (index < self.limit as usize).then_some(key).ok_or(())
        };
        let (key, place) = self.slots.take(first).ok()?;
        *place = Some(make(key));
        Some(key)
    }

    /// Take the value of a place out.
    #[inline]
    pub fn remove(&mut self, index: u32) -> Option<T> {
        self.slots.remove_at(index as usize)
    }

    /// Let the value of a place go.
    #[inline]
    pub fn discard(&mut self, index: u32) {
        self.slots.drop_at(index as usize);
    }

    /// The value in a place.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.slots.at(index as usize)
    }

    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.at_mut(index as usize)
    }

    /// The value of exactly this name.
    #[inline]
    pub fn exact(&mut self, key: Key) -> Option<&mut T> {
        self.slots.get_mut(key)
    }

    /// The name of a place's present value.
    #[inline]
    pub fn key(&self, index: u32) -> Key {
        self.slots.name(index as usize)
    }

    /// All values with their names.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter()
    }
}

impl<T: Named> ObjectTable<T> {
    /// The handle that goes with a name.
    #[inline]
    fn handle(interface: u8, key: Key) -> Handle {
        Handle::new(T::KIND, interface, key.slot() as u16, key.generation())
    }

    /// The place that a handle names. None: stale, forged, or of another kind or interface.
    #[inline]
    pub fn find(&self, handle: Handle) -> Option<u32> {
        let index = u32::from(handle.index());
        let value = self.get(index)?;
        (value.handle() == handle).then_some(index)
    }

    /// Put a value in; `make` is told its handle. Its place, and the handle.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: the table is full.
    #[inline]
    pub fn enter(&mut self, interface: u8, make: impl FnOnce(Handle) -> T) -> Result<(u32, Handle), Error> {
        let handle = |key| Self::handle(interface, key);
        let key = self.insert(|key| make(handle(key))).ok_or(Error::NoSpace)?;
        Ok((key.slot(), handle(key)))
    }

    /// The value that a handle names, to be looked at.
    #[inline]
    pub fn seen(&self, handle: Handle) -> Option<&T> {
        self.get(self.find(handle)?)
    }

    /// The value that a handle names.
    #[inline]
    pub fn named(&mut self, handle: Handle) -> Option<&mut T> {
        let value = self.get_mut(u32::from(handle.index()))?;
        (value.handle() == handle).then_some(value)
    }
}
