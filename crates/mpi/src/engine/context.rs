//! Matching (MPI-5.0 section 3.5): posted receives and unexpected messages of one context.
//!
//! Cost class: *queued path*. Messages of one source are matched in the order they arrive, which is the
//! order they were sent; a stamp decides between a receive that names its source and one that does not.
//!
//! A search is told how many entries it looked at, for [`Cost::Match`](farpost_fabric::Cost::Match). Where that costs nothing
//! nobody counts them.
//!
//! Requirements of MPI-5.0 sections 3.2.3, 3.2.4, 3.7.4.

use super::by_source::BySource;
use super::envelope::Envelope;
use super::offer::Offer;
use super::queue::Queue;
use crate::Rank;
use farpost_fabric::Peer;
use std::collections::VecDeque;

/// `MPI_ANY_SOURCE`.
pub const ANY_SOURCE: Rank = -1;
/// `MPI_ANY_TAG`.
pub const ANY_TAG: i32 = -2;

/// A receive that waits for its message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Posted {
    pub request: usize,
    pub tag: i32,
    stamp: u64,
}

/// What is held of a message that came before its receive.
pub enum Held {
    /// All of it.
    Data(Box<[u8]>),
    /// Its sender waits for us to fetch it.
    Offered(Offer),
    /// Its bytes follow by themselves, and the fabric has them or waits for them.
    ZeroCopy { total: u64, number: u32 },
    /// With the carrier, which calls it that.
    Carried { number: u32, total: u64 },
    /// Sent by this process to itself and still in the sender's buffer.
    Own { request: usize, total: u64 },
}

/// A message that came before its receive.
pub struct Unexpected {
    pub peer: Peer,
    pub envelope: Envelope,
    pub held: Held,
    /// The sender's request to be told of the match, for synchronous sends.
    pub sync: Option<u64>,
    stamp: u64,
}

/// Memory for a message beside its bytes: its place in a queue, which may be half empty, and what the allocator takes.
const HEADER_COST: u64 = 2 * size_of::<Unexpected>() as u64 + 32;

impl Unexpected {
    pub fn new(peer: Peer, envelope: Envelope, held: Held, sync: Option<u64>) -> Self {
        Self {
            peer,
            envelope,
            held,
            sync,
            stamp: 0,
        }
    }

    /// Bytes of the message.
    pub fn total(&self) -> u64 {
        match &self.held {
            Held::Data(data) => data.len() as u64,
            Held::Offered(Offer { total, .. })
            | Held::ZeroCopy { total, .. }
            | Held::Carried { total, .. }
            | Held::Own { total, .. } => *total,
        }
    }

    /// Bytes of memory that holding it takes beyond what its sender has to keep for it until it is received.
    pub fn cost(&self) -> u64 {
        match (&self.held, self.sync) {
            (Held::Data(data), None) => data.len() as u64 + HEADER_COST,
            (Held::Data(data), Some(_)) => data.len() as u64,
            (Held::ZeroCopy { .. }, _) => HEADER_COST,
            (Held::Offered(_) | Held::Own { .. } | Held::Carried { .. }, _) => 0,
        }
    }
}

impl Posted {
    /// Whether it takes a message with this tag.
    #[inline(always)]
    pub fn takes(&self, tag: i32) -> bool {
        tag_fits(self.tag, tag)
    }
}

#[inline]
fn tag_fits(wanted: i32, tag: i32) -> bool {
    wanted == tag || wanted == ANY_TAG
}

/// The two queues of one context.
#[derive(Default)]
pub struct Context {
    /// Posted receives per source, by rank in the communicator.
    posted: BySource<Queue<Posted>>,
    posted_any: Queue<Posted>,
    posted_count: usize,
    unexpected: BySource<VecDeque<Unexpected>>,
    unexpected_count: usize,
    stamp: u64,
}

impl Context {
    /// No receive posted and no message held: whatever comes next from a source is its next message.
    #[inline]
    pub fn quiet(&self) -> bool {
        self.posted_count | self.unexpected_count == 0
    }

    /// Whether any message is held.
    #[inline]
    pub fn has_unexpected(&self) -> bool {
        self.unexpected_count != 0
    }

    /// Messages held.
    pub fn held(&self) -> usize {
        self.unexpected_count
    }

    /// Whether any receive is posted.
    pub fn has_posted(&self) -> bool {
        self.posted_count != 0
    }

    /// Receives posted.
    pub fn posted(&self) -> usize {
        self.posted_count
    }

    /// A receive is posted with a device that matches by itself.
    #[inline]
    pub fn entered(&mut self) {
        self.posted_count += 1;
    }

    /// It is posted no more.
    #[inline]
    pub fn left(&mut self) {
        self.posted_count = self.posted_count.saturating_sub(1);
    }

    /// Post a receive.
    #[inline(always)]
    pub fn post(&mut self, source: Rank, tag: i32, request: usize) {
        self.stamp += 1;
        let posted = Posted {
            request,
            tag,
            stamp: self.stamp,
        };
        self.posted_count += 1;
        if source == ANY_SOURCE {
            self.posted_any.push(posted);
        } else {
            self.posted.make(source as usize).push(posted);
        }
    }

    /// The posted receives that alone can take the messages of `source`, oldest first, and the count of all posted
    /// ones, which whoever takes one takes one from. `None`: there are none, or others can as well.
    #[inline(always)]
    pub fn posted_for(&mut self, source: u32) -> Option<(&mut Queue<Posted>, &mut usize)> {
        if !self.posted_any.is_empty() {
            return None;
        }
        let queue = self.posted.get_mut(source as usize)?;
        Some((queue, &mut self.posted_count))
    }

    /// The oldest posted receive that takes a message with this envelope.
    #[inline]
    pub fn take_posted(&mut self, source: u32, tag: i32) -> Option<usize> {
        self.search_posted(source, tag, |_| ())
    }

    /// As [`take_posted`](Self::take_posted); `searched` is told how many receives were looked at.
    #[inline]
    pub fn search_posted(&mut self, source: u32, tag: i32, searched: impl FnOnce(usize)) -> Option<usize> {
        if self.posted_count == 0 {
            return None;
        }
        // The usual case: the oldest receive that names the source.
        if self.posted_any.is_empty()
            && let Some(queue) = self.posted.near_mut(source as usize)
            && queue.front().is_some_and(|p| p.takes(tag))
        {
            self.posted_count -= 1;
            searched(1);
            return queue.pop().map(|p| p.request);
        }
        let named = self.posted.get(source as usize).and_then(|queue| {
            queue
                .iter()
                .enumerate()
                .find(|(_, p)| p.takes(tag))
                .map(|(at, p)| (at, p.stamp))
        });
        let any = self
            .posted_any
            .iter()
            .enumerate()
            .find(|(_, p)| p.takes(tag))
            .map(|(at, p)| (at, p.stamp));
        let all = self.posted.get(source as usize).map_or(0, Queue::len);
        let upto = |found: Option<(usize, u64)>, all| found.map_or(all, |(at, _)| at + 1);
        searched(upto(named, all) + upto(any, self.posted_any.len()));
        let (queue, at) = match (named, any) {
            (None, None) => return None,
            (Some((at, stamp)), any) if any.is_none_or(|(_, other)| stamp < other) => {
                (self.posted.get_mut(source as usize)?, at)
            }
            (_, Some((at, _))) => (&mut self.posted_any, at),
            (Some((at, _)), None) => (self.posted.get_mut(source as usize)?, at),
        };
        self.posted_count -= 1;
        queue.remove(at).map(|p| p.request)
    }

    /// Take back a posted receive. False: it was matched already.
    pub fn cancel(&mut self, source: Rank, request: usize) -> bool {
        let queue = if source == ANY_SOURCE {
            &mut self.posted_any
        } else {
            match self.posted.get_mut(source as usize) {
                Some(queue) => queue,
                None => return false,
            }
        };
        let at = queue.iter().position(|p| p.request == request);
        match at {
            Some(at) => {
                queue.remove(at);
                self.posted_count -= 1;
                true
            }
            None => false,
        }
    }

    /// Hold a message.
    pub fn hold(&mut self, mut message: Unexpected) {
        self.stamp += 1;
        message.stamp = self.stamp;
        self.unexpected_count += 1;
        let queue = self.unexpected.make(message.envelope.source as usize);
        if queue.capacity() == 0 {
            // Of each peer one, in most programs; who has more grows.
            queue.reserve_exact(1);
        }
        queue.push_back(message);
    }

    /// Hold a message that is older than all others.
    pub fn hold_first(&mut self, message: Unexpected) {
        self.unexpected_count += 1;
        self.unexpected
            .make(message.envelope.source as usize)
            .push_front(message);
    }

    /// All held messages.
    pub fn unexpected(&self) -> impl Iterator<Item = &Unexpected> {
        self.unexpected.iter().flat_map(|(_, queue)| queue)
    }

    /// Take the held message that `is_it` means, wherever it is.
    pub fn take_back(&mut self, is_it: impl Fn(&Unexpected) -> bool) -> Option<Unexpected> {
        if self.unexpected_count == 0 {
            return None;
        }
        let found = self.unexpected.iter_mut().find_map(|queue| {
            let at = queue.iter().position(&is_it)?;
            queue.remove(at)
        })?;
        self.unexpected_count -= 1;
        Some(found)
    }

    fn find_unexpected(
        &self,
        source: Rank,
        tag: i32,
        searched: impl FnOnce(usize),
    ) -> Option<(usize, usize)> {
        if self.unexpected_count == 0 {
            return None;
        }
        let mut entries = 0;
        let mut first = |queue: &VecDeque<Unexpected>| {
            let at = queue.iter().position(|u| tag_fits(tag, u.envelope.tag));
            entries += at.map_or(queue.len(), |at| at + 1);
            at
        };
        let found = if source != ANY_SOURCE {
            let queue = self.unexpected.get(source as usize)?;
            first(queue).map(|at| (source as usize, at))
        } else {
            self.unexpected
                .iter()
                .filter_map(|(rank, queue)| first(queue).map(|at| (rank, at, queue[at].stamp)))
                .min_by_key(|(_, _, stamp)| *stamp)
                .map(|(rank, at, _)| (rank, at))
        };
        searched(entries);
        found
    }

    /// The first held message that a receive with these arguments would take.
    pub fn peek_unexpected(&self, source: Rank, tag: i32) -> Option<&Unexpected> {
        self.search_unexpected(source, tag, |_| ())
    }

    /// As [`peek_unexpected`](Self::peek_unexpected); `searched` is told how many messages were looked at.
    pub fn search_unexpected(
        &self,
        source: Rank,
        tag: i32,
        searched: impl FnOnce(usize),
    ) -> Option<&Unexpected> {
        self.find_unexpected(source, tag, searched)
            .and_then(|(rank, at)| self.unexpected.get(rank)?.get(at))
    }

    /// Take it.
    pub fn take_unexpected(&mut self, source: Rank, tag: i32) -> Option<Unexpected> {
        self.take_searched(source, tag, |_| ())
    }

    /// Take it; `searched` is told how many messages were looked at.
    pub fn take_searched(
        &mut self,
        source: Rank,
        tag: i32,
        searched: impl FnOnce(usize),
    ) -> Option<Unexpected> {
        let (rank, at) = self.find_unexpected(source, tag, searched)?;
        self.unexpected_count -= 1;
        let queue = self.unexpected.get_mut(rank)?;
        if at == 0 {
            queue.pop_front()
        } else {
            queue.remove(at)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(source: u32, tag: i32) -> Unexpected {
        let envelope = Envelope {
            context: 0,
            source,
            tag,
            class: 0,
            flags: 0,
        };
        Unexpected::new(Peer(source), envelope, Held::Data(Box::new([])), None)
    }

    #[test]
    fn receives_match_in_the_order_they_were_posted() {
        let mut c = Context::default();
        c.post(ANY_SOURCE, 5, 1);
        c.post(2, ANY_TAG, 2);
        c.post(2, 5, 3);
        assert_eq!(c.take_posted(2, 5), Some(1));
        assert_eq!(c.take_posted(2, 5), Some(2));
        assert_eq!(c.take_posted(2, 6), None);
        assert_eq!(c.take_posted(1, 5), None);
        assert_eq!(c.take_posted(2, 5), Some(3));
        assert!(c.quiet());
        c.post(2, 9, 4);
        c.post(ANY_SOURCE, 9, 5);
        assert_eq!(c.take_posted(2, 9), Some(4));
        assert!(c.cancel(ANY_SOURCE, 5));
        assert!(!c.cancel(ANY_SOURCE, 5));
        assert!(c.quiet());
    }

    /// Entries that a search looks at.
    #[test]
    fn a_search_tells_how_many_entries_it_looked_at() {
        let mut c = Context::default();
        let searched = std::cell::Cell::new(0);
        let tell = |n| searched.set(searched.get() + n);
        assert_eq!(c.search_posted(2, 5, tell), None);
        assert_eq!(searched.take(), 0, "nothing is posted");
        for tag in 0..10 {
            c.post(2, tag, tag as usize);
        }
        assert_eq!(c.search_posted(2, 0, tell), Some(0));
        assert_eq!(searched.take(), 1, "the first of them");
        assert_eq!(c.search_posted(2, 8, tell), Some(8));
        assert_eq!(searched.take(), 8, "tags 1 to 8");
        c.post(ANY_SOURCE, 100, 100);
        assert_eq!(c.search_posted(2, 100, tell), Some(100));
        assert_eq!(searched.take(), 9, "eight of the source and the one of any");
        for tag in 0..10 {
            c.hold(message(3, tag));
            c.hold(message(4, tag));
        }
        assert!(c.search_unexpected(3, 4, tell).is_some());
        assert_eq!(searched.take(), 5);
        assert!(c.take_searched(ANY_SOURCE, 4, tell).is_some());
        assert_eq!(searched.take(), 10, "five of each source");
        assert!(c.take_searched(3, 99, tell).is_none());
        assert_eq!(searched.take(), 9, "all of the source");
    }

    #[test]
    fn messages_match_in_the_order_they_came() {
        let mut c = Context::default();
        for (source, tag) in [(3, 1), (1, 2), (3, 2), (1, 1)] {
            c.hold(message(source, tag));
        }
        assert!(c.peek_unexpected(2, ANY_TAG).is_none());
        let got = c.take_unexpected(ANY_SOURCE, 2).unwrap();
        assert_eq!((got.envelope.source, got.envelope.tag), (1, 2));
        let got = c.take_unexpected(ANY_SOURCE, ANY_TAG).unwrap();
        assert_eq!((got.envelope.source, got.envelope.tag), (3, 1));
        assert!(c.take_unexpected(1, 2).is_none());
        assert!(c.take_unexpected(3, 2).is_some());
        assert!(c.take_unexpected(1, 1).is_some());
        assert!(c.quiet());
    }
}
