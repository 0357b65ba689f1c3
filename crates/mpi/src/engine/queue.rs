//! A first-in-first-out queue of small values.
//!
//! Cost class: fast path but for growing and for taking from the middle. `VecDeque` does the same; its `push_back`
//! takes the value through memory and is not inlined, which costs a receive more than posting it does.

/// The queue: a ring whose size is a power of two.
pub struct Queue<T> {
    ring: Box<[T]>,
    /// Running numbers; a value lies at its number modulo the size.
    head: usize,
    tail: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            ring: Box::default(),
            head: 0,
            tail: 0,
        }
    }
}

impl<T: Copy + Default> Queue<T> {
    /// How many values there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head)
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.tail == self.head
    }

    #[inline(always)]
    fn place(&self, number: usize) -> usize {
        number & self.ring.len().wrapping_sub(1)
    }

    /// Put a value at the end.
    #[inline(always)]
    pub fn push(&mut self, value: T) {
        if self.len() == self.ring.len() {
            self.grow();
        }
        let place = self.place(self.tail);
        self.ring[place] = value;
        self.tail = self.tail.wrapping_add(1);
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        // There is one for each peer, and most hold a value or two at a time.
        let size = (2 * self.ring.len()).max(4);
        let mut ring: Vec<T> = self.iter().collect();
        let len = ring.len();
        ring.resize(size, T::default());
        self.ring = ring.into_boxed_slice();
        (self.head, self.tail) = (0, len);
    }

    /// The value that was put in first.
    #[inline(always)]
    pub fn front(&self) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        self.ring.get(self.place(self.head))
    }

    /// Take the value that was put in first, if there is one.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        let value = *self.front()?;
        self.head = self.head.wrapping_add(1);
        Some(value)
    }

    /// All values, the first first.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        (0..self.len()).map(|at| self.ring[self.place(self.head.wrapping_add(at))])
    }

    /// Take the value at place `at` from the front, if there is one.
    pub fn remove(&mut self, at: usize) -> Option<T> {
        if at >= self.len() {
            return None;
        }
        let value = self.ring[self.place(self.head.wrapping_add(at))];
        // Those before it move up: values are taken from near the front.
        for number in (0..at).rev() {
            let from = self.place(self.head.wrapping_add(number));
            let to = self.place(self.head.wrapping_add(number + 1));
            self.ring[to] = self.ring[from];
        }
        self.head = self.head.wrapping_add(1);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn behaves_as_a_deque(steps in prop::collection::vec((0..4, 0..40usize), 1..400)) {
            let mut queue = Queue::default();
            let mut model = VecDeque::new();
            for (number, (what, at)) in steps.into_iter().enumerate() {
                match what {
                    0 | 1 => {
                        queue.push(number);
                        model.push_back(number);
                    }
                    2 => prop_assert_eq!(queue.pop(), model.pop_front()),
                    _ => prop_assert_eq!(queue.remove(at), model.remove(at)),
                }
                prop_assert_eq!(queue.len(), model.len());
                prop_assert_eq!(queue.is_empty(), model.is_empty());
                prop_assert_eq!(queue.front(), model.front());
                prop_assert!(queue.iter().eq(model.iter().copied()));
            }
        }
    }
}
