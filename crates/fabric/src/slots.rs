//! Slots that are used again, each use under a name of its own, so that a stale, forged or invented name finds nothing. The names are what the owner hands
//! out: C programs hold some, others travel.
//!
//! Cost class: *fast path*: a look-up is a mask, a bound and a compare; taking and giving back a slot are O(1). A slot that is made is set-up path.

/// The name of one use of a slot.
pub trait SlotName: Copy + PartialEq {
    /// Which slot. Of a name with the mark it is so large that there is none: nobody finds what was left in a free slot.
    fn index(self) -> usize;
    /// The name of the slot's next use, with a mark that the slot is free.
    fn freed(self) -> Self;
    /// The same use without the mark.
    fn taken(self) -> Self;
    /// Whether it has the mark.
    fn is_free(self) -> bool;
}

/// A slot in bits 0..31 and its generation in bits 32..63. The others are zero in names that are given out, and bit 63 in all: who passes them on
/// has a use for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

impl Key {
    /// Generations before a name is used again.
    pub const GENERATIONS: u32 = 1 << 31;
    const FREE: u64 = 1 << 31;
    const GENERATION: u64 = ((1 << 31) - 1) << 32;

    /// Generations wrap.
    #[inline]
    pub const fn new(index: u32, generation: u32) -> Self {
        debug_assert!((index as u64) < Self::FREE);
        Self(index as u64 | (generation as u64) << 32 & Self::GENERATION)
    }

    /// Of a number, whatever it is.
    #[inline]
    pub const fn of(number: u64) -> Self {
        Self(number)
    }

    /// As a number.
    #[inline]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Which slot.
    #[inline]
    pub const fn slot(self) -> u32 {
        self.0 as u32
    }

    /// Which use of it.
    #[inline]
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl SlotName for Key {
    #[inline(always)]
    fn index(self) -> usize {
        self.slot() as usize
    }

    #[inline(always)]
    fn freed(self) -> Self {
        let generation = self.0.wrapping_add(1 << 32) & Self::GENERATION;
        Self(generation | self.0 & (Self::FREE - 1) | Self::FREE)
    }

    #[inline(always)]
    fn taken(self) -> Self {
        Self(self.0 & !Self::FREE)
    }

    #[inline(always)]
    fn is_free(self) -> bool {
        self.0 & Self::FREE != 0
    }
}

struct Slot<N, T> {
    /// Of its present use, or of the next one, marked as free.
    name: N,
    /// In a free slot what was left there, or nothing.
    value: Option<T>,
}

/// Values by name.
pub struct Slots<N, T> {
    slots: Vec<Slot<N, T>>,
    /// Last freed on top: a warm slot is used again first.
    free: Vec<u32>,
}

impl<N: SlotName, T> Slots<N, T> {
    /// Bytes of a slot, and of its number among those that are free.
    pub const SLOT_BYTES: usize = size_of::<Slot<N, T>>() + size_of::<u32>();

    /// No slots.
    pub const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// One slot for each of `names`, which are those of their first uses, in the order of their indexes from 0.
    pub fn of(names: impl IntoIterator<Item = N>) -> Self {
        let mut all = Self::new();
        for name in names {
            all.make(name);
        }
        all.free = (0..all.slots.len() as u32).rev().collect();
        all
    }

    fn make(&mut self, name: N) {
        debug_assert!(name.index() == self.slots.len() && !name.is_free());
        self.slots.push(Slot { name, value: None });
    }

    /// Room for so many slots before memory is asked for again.
    pub fn reserve(&mut self, slots: usize) {
        self.slots.reserve(slots);
        self.free.reserve(slots);
    }

    /// Slots, free ones among them.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Slots in use.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether none is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether one is free.
    #[inline(always)]
    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Take a slot: its name and the place for its value, which the caller fills. What was left there may be in it, and making that new
    /// where it is saves moving a value. Where none is free, one is made: `first` names its first use by its index.
    ///
    /// # Errors
    /// Those of `first`.
    #[inline(always)]
    pub fn take<E>(&mut self, first: impl FnOnce(usize) -> Result<N, E>) -> Result<(N, &mut Option<T>), E> {
        let index = match self.free.pop() {
            Some(index) => index as usize,
            None => {
                let index = self.slots.len();
                self.make(first(index)?);
                index
            }
        };
        let slot = &mut self.slots[index];
        slot.name = slot.name.taken();
        Ok((slot.name, &mut slot.value))
    }

    /// The value of that name.
    #[inline(always)]
    pub fn get(&self, name: N) -> Option<&T> {
        let slot = self.slots.get(name.index())?;
        if slot.name != name {
            return None;
        }
        slot.value.as_ref()
    }

    /// As [`get`](Self::get), to be changed.
    #[inline(always)]
    pub fn get_mut(&mut self, name: N) -> Option<&mut T> {
        let slot = self.slots.get_mut(name.index())?;
        if slot.name != name {
            return None;
        }
        slot.value.as_mut()
    }

    /// Take the value of that name out; the slot is free.
    #[inline(always)]
    pub fn remove(&mut self, name: N) -> Option<T> {
        let slot = self.slots.get_mut(name.index())?;
        if slot.name != name {
            return None;
        }
        let value = slot.value.take()?;
        slot.name = name.freed();
        self.free.push(name.index() as u32);
        Some(value)
    }

    /// Free the slot of that name if its value is as wanted, and leave the value there. False: it is not, or there is none of that name.
    #[inline(always)]
    pub fn leave_if(&mut self, name: N, wanted: impl FnOnce(&T) -> bool) -> bool {
        match self.slots.get_mut(name.index()) {
            Some(slot) if slot.name == name && slot.value.as_ref().is_some_and(wanted) => {
                slot.name = name.freed();
                self.free.push(name.index() as u32);
                true
            }
            _ => false,
        }
    }

    /// The value in a slot, whatever its name: for those who leave nothing in free ones.
    #[inline(always)]
    pub fn at(&self, index: usize) -> Option<&T> {
        self.slots.get(index)?.value.as_ref()
    }

    /// As [`at`](Self::at), to be changed.
    #[inline(always)]
    pub fn at_mut(&mut self, index: usize) -> Option<&mut T> {
        self.slots.get_mut(index)?.value.as_mut()
    }

    /// As [`remove`](Self::remove), whatever its name.
    #[inline(always)]
    pub fn remove_at(&mut self, index: usize) -> Option<T> {
        let slot = self.slots.get_mut(index)?;
        let value = slot.value.take()?;
        slot.name = slot.name.freed();
        self.free.push(index as u32);
        Some(value)
    }

    /// As [`remove_at`](Self::remove_at), without moving the value.
    #[inline(always)]
    pub fn drop_at(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index)
            && slot.value.is_some()
        {
            slot.value = None;
            slot.name = slot.name.freed();
            self.free.push(index as u32);
        }
    }

    /// The name of a slot that is in use.
    ///
    /// # Panics
    /// There is no such slot.
    #[inline(always)]
    pub fn name(&self, index: usize) -> N {
        self.slots[index].name
    }

    /// The name of a slot, if there is one and it is in use.
    #[inline(always)]
    pub fn name_at(&self, index: usize) -> Option<N> {
        let name = self.slots.get(index)?.name;
        (!name.is_free()).then_some(name)
    }

    /// The names of the next uses of all slots.
    pub fn next_names(&self) -> impl Iterator<Item = N> {
        self.slots.iter().map(|Slot { name, .. }| {
            let next = if name.is_free() { *name } else { name.freed() };
            next.taken()
        })
    }

    /// Names and values, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (N, &T)> {
        self.slots
            .iter()
            .filter(|slot| !slot.name.is_free())
            .filter_map(|slot| Some((slot.name, slot.value.as_ref()?)))
    }
}

impl<N: SlotName, T> Default for Slots<N, T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn first(index: usize) -> Result<Key, ()> {
        (index < 3)
            .then(|| Key::new(index as u32, Key::GENERATIONS - 2))
            .ok_or(())
    }

    fn insert(slots: &mut Slots<Key, u32>, value: u32) -> Option<Key> {
        let (name, place) = slots.take(first).ok()?;
        *place = Some(value);
        Some(name)
    }

    #[test]
    fn a_name_finds_its_value_until_the_slot_is_given_back() {
        let mut slots = Slots::new();
        let names: Vec<_> = (0..3).filter_map(|value| insert(&mut slots, value)).collect();
        assert_eq!((names.len(), insert(&mut slots, 3), slots.len()), (3, None, 3));
        assert_eq!(slots.remove(names[1]), Some(1));
        assert_eq!(slots.remove(names[1]), None);
        assert_eq!((slots.get(names[1]), slots.at(1)), (None, None));
        // Generations wrap, and no name comes back meanwhile.
        let mut seen = vec![names[1]];
        for value in 0..5 {
            let name = insert(&mut slots, value).expect("a free slot");
            assert!(name.slot() == 1 && !seen.contains(&name) && name.number() >> 63 == 0);
            assert_eq!((slots.get(name), slots.name_at(1)), (Some(&value), Some(name)));
            seen.push(name);
            assert!(slots.leave_if(name, |left| *left == value) && !slots.leave_if(name, |_| true));
            let stale = |name: &Key| slots.get(*name).is_none() && slots.get(name.freed()).is_none();
            assert!(seen.iter().all(stale), "what is left is found by no name");
            assert_eq!(slots.name_at(1), None);
        }
        assert_eq!(slots.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn slots_made_anew_go_on_with_the_names_of_the_old_ones() {
        let mut slots = Slots::new();
        let (kept, gone) = (insert(&mut slots, 0).unwrap(), insert(&mut slots, 1).unwrap());
        slots.drop_at(1);
        let next: Vec<_> = slots.next_names().collect();
        assert_eq!(next, [kept.freed().taken(), gone.freed().taken()]);
        let mut again = Slots::of(next.iter().copied());
        assert_eq!((again.slots(), again.len()), (2, 0));
        assert_eq!(insert(&mut again, 7), Some(next[0]), "the first slot first");
    }
}
