//! The messages of a channel to one process in the order of their calls: those that have gone and are kept, then those that wait.
//!
//! Cost class: fast path.

use super::table::NONE;

/// The messages that queues link, by number.
pub trait Chain {
    /// Packets of a message, header packet included.
    fn packets(&self, number: u16) -> u32;
    fn next(&self, number: u16) -> u16;
    fn set_next(&mut self, number: u16, next: u16);
}

/// Messages to one process.
pub struct MessageQueue {
    head: u16,
    tail: u16,
    /// How many.
    count: u16,
    /// The message of which a packet goes next, and which packet. `NONE`: everything has gone.
    cursor: (u16, u32),
}

impl MessageQueue {
    pub const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        count: 0,
        cursor: (NONE, 0),
    };

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    #[inline(always)]
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The oldest message, or `NONE`.
    #[inline(always)]
    pub fn head(&self) -> u16 {
        self.head
    }

    /// Whether anything waits to go.
    #[inline(always)]
    pub fn has_waiting(&self) -> bool {
        self.cursor.0 != NONE
    }

    /// The packet that goes next: its message, and which packet of it.
    #[inline(always)]
    pub fn waiting(&self) -> Option<(u16, u32)> {
        self.has_waiting().then_some(self.cursor)
    }

    /// Add a message that waits. True: nothing waits before it.
    #[inline(always)]
    pub fn push(&mut self, chain: &mut impl Chain, number: u16) -> bool {
        self.push_gone(chain, number);
        let first = !self.has_waiting();
        if first {
            self.cursor = (number, 0);
        }
        first
    }

    /// Add a message that has gone. Nothing waits.
    #[inline(always)]
    pub fn push_gone(&mut self, chain: &mut impl Chain, number: u16) {
        if self.tail == NONE {
            self.head = number;
        } else {
            chain.set_next(self.tail, number);
        }
        self.tail = number;
        self.count += 1;
    }

    /// The packet that was next has gone. True: with it all of its message has.
    #[inline(always)]
    pub fn advance(&mut self, chain: &impl Chain) -> bool {
        let (message, packet) = self.cursor;
        let whole = packet + 1 >= chain.packets(message);
        self.cursor = if whole {
            (chain.next(message), 0)
        } else {
            (message, packet + 1)
        };
        whole
    }

    /// The oldest message is over: its number.
    #[inline(always)]
    pub fn pop(&mut self, chain: &impl Chain) -> u16 {
        let number = self.head;
        self.head = chain.next(number);
        self.count -= 1;
        if self.head == NONE {
            self.tail = NONE;
        }
        number
    }

    /// A message that has gone whole is over, though `before` it, unless that is `NONE`, is kept.
    pub fn remove_gone(&mut self, chain: &mut impl Chain, before: u16, number: u16) {
        let next = chain.next(number);
        match before {
            NONE => self.head = next,
            before => chain.set_next(before, next),
        }
        if self.tail == number {
            self.tail = before;
        }
        self.count -= 1;
    }

    /// Go next from a packet of the oldest message on, or from the one that is `skip` packets behind it.
    pub fn go_from(&mut self, chain: &impl Chain, packet: u32, skip: u32) {
        let (mut message, mut packet, mut skip) = (self.head, packet, skip);
        while skip > 0 {
            let left = chain.packets(message) - packet;
            if skip < left {
                packet += skip;
                break;
            }
            skip -= left;
            (message, packet) = (chain.next(message), 0);
        }
        self.cursor = (message, packet);
    }

    /// The message whose header packet is `skip` packets behind that of the oldest one.
    pub fn begins_at(&self, chain: &impl Chain, skip: u32) -> Option<u16> {
        let (mut message, mut skip) = (self.head, skip);
        while skip > 0 {
            skip = skip.checked_sub(chain.packets(message))?;
            message = chain.next(message);
        }
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Messages(Vec<(u32, u16)>);

    impl Chain for Messages {
        fn packets(&self, number: u16) -> u32 {
            self.0[usize::from(number)].0
        }

        fn next(&self, number: u16) -> u16 {
            self.0[usize::from(number)].1
        }

        fn set_next(&mut self, number: u16, next: u16) {
            self.0[usize::from(number)].1 = next;
        }
    }

    #[test]
    fn packets_go_in_order_and_again_from_any_place() {
        let mut messages = Messages([1, 3, 2].map(|packets| (packets, NONE)).to_vec());
        let mut queue = MessageQueue::EMPTY;
        assert!(queue.push(&mut messages, 0));
        assert!(!queue.push(&mut messages, 1) && !queue.push(&mut messages, 2));
        let order = [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)];
        for from in 0..order.len() {
            queue.go_from(&messages, 0, from as u32);
            for expected in &order[from..] {
                assert_eq!(queue.waiting(), Some(*expected));
                queue.advance(&messages);
            }
            assert!(!queue.has_waiting());
        }
        assert_eq!(
            [0, 1, 2, 4].map(|skip| queue.begins_at(&messages, skip)),
            [Some(0), Some(1), None, Some(2)]
        );
        assert_eq!((queue.pop(&messages), queue.head(), queue.count()), (0, 1, 2));
        queue.remove_gone(&mut messages, 1, 2);
        assert_eq!(
            (queue.pop(&messages), queue.is_empty(), queue.count()),
            (1, true, 0)
        );
        assert!(queue.push(&mut messages, 0), "usable again");
    }
}
