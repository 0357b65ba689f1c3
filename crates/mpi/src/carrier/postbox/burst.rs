//! Bursts of short messages: many receives are posted, many messages come.
//!
//! Cost class: fast path. Requests are made where they stay and postboxes are read where they lie; nothing is moved
//! through the stack, where 16 bytes loaded after two stores of 8 cost more than everything else here.
//!
//! A burst takes up to 16 short messages in a row, each into the buffer of the oldest receive of its source, and acknowledges them together. The
//! first message that is unusual in any way ends the burst and is received in the ordinary way.

use crate::Rank;
use crate::carrier::Engine;
use crate::engine::request::{Operation, Request};
use crate::engine::wire::{self, FIRST_BYTES, FIRST_WORD};
use farpost_fabric::{Cost, Fabric, Peer};

/// How many postboxes ahead lines are fetched: enough to hide the way between two cores.
const AHEAD: u32 = 8;
/// The most messages taken in before the sender hears of the room they leave.
const BURST: u32 = 16;

impl<F: Fabric> Engine<F> {
    /// Take in messages of `peer` that have come as long as they are short, meet the oldest receive of their source
    /// and nothing is unusual about them. False: the next one is none of these.
    pub(crate) fn take_burst(&mut self, peer: Peer) -> bool {
        let Some(waiting) = self.post.waiting(peer) else {
            return false;
        };
        let Some(mut first) = waiting.first(0) else {
            return false;
        };
        let (context_id, context) = self.last_context;
        let Some(entry) = self.contexts.get_mut(context) else {
            return false;
        };
        let source = (waiting.word(0, 1) >> 32) as u32;
        if entry.members.as_ref().and_then(|group| group.pid(source as Rank)) != Some(peer.0) {
            return false;
        }
        let Some((posted, posted_count)) = entry.queues.posted_for(source) else {
            return false;
        };
        let expected = posted.len() as u32;
        for ahead in 1..AHEAD.min(expected) {
            waiting.prefetch(ahead);
        }
        let (mut taken, mut bytes) = (0, 0);
        loop {
            let len = wire::inline_bytes_of(first);
            let (second, third) = (waiting.word(taken, 1), waiting.word(taken, 2));
            if taken + AHEAD < expected {
                waiting.prefetch(taken + AHEAD);
            }
            if wire::kind_of(first) != wire::KIND_SHORT
                || len > FIRST_BYTES
                || (second >> 32) as u32 != source
                || wire::without_class(third) != context_id
            {
                break;
            }
            let (tag, class) = (second as u32 as i32, wire::class_of(third));
            let Some(next) = posted.front().filter(|next| next.takes(tag)) else {
                break;
            };
            self.fabric.charge(Cost::Match(1));
            let Some(Request {
                operation: Operation::Recv(recv),
                complete,
                detached: false,
                status,
            }) = self.requests.get_mut(next.request)
            else {
                break;
            };
            if (class != recv.buf.sig() && class != 0 && recv.buf.sig() != 0)
                || !recv
                    .buf
                    .put_short(len, |index| waiting.word(taken, FIRST_WORD + index))
            {
                break;
            }
            self.fabric.charge(Cost::Copy(len));
            status.set(source as Rank, tag, len as u64);
            *complete = true;
            posted.pop();
            *posted_count -= 1;
            taken += 1;
            bytes += len as u64;
            if taken == BURST {
                break;
            }
            match waiting.first(taken) {
                Some(word) => first = word,
                None => break,
            }
        }
        if taken > 0 {
            self.post.consume_burst(peer, taken, bytes);
        }
        taken > 0
    }
}
