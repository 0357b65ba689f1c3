//! What the layer above sees of the network layer, and is asked by it.

use crate::memory::Segments;
use farpost_fabric::Peer;

/// Longest header, bytes. With 40 or fewer, a body of 8 bytes travels in the same line of shared memory.
pub const HEADER_BYTES: usize = 48;

/// What kind of message: each kind has pendings and an order of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Replies and acknowledgements. Who receives one never has to send in order to deal with it.
    Answer = 0,
    /// Everything else.
    Request = 1,
}

/// No transmit pending, or no structure for another target: call [`progress`](super::Net::progress) and try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many messages are on their way: make progress and send again")]
pub struct NoPending;

/// When the memory of a message's body may be used again.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Now. [`Upper::sent`] is not called.
    Gone,
    /// When [`Upper::sent`] is called.
    Waits,
}

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Done,
    /// The other process has ended.
    PeerEnded,
    /// Memory could not be read or written, or the peer does not keep to the protocol.
    Failed,
}

/// Names a receive pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RxId(u32);

impl RxId {
    #[inline(always)]
    pub(super) fn new(number: u16, generation: u16) -> Self {
        Self(u32::from(generation) << 16 | u32::from(number))
    }

    pub(super) fn parts(self) -> (u16, u16) {
        (self.0 as u16, (self.0 >> 16) as u16)
    }

    /// Its place among the pendings, below `FARPOST_PORTALS_RX_PENDINGS`.
    pub fn index(self) -> usize {
        usize::from(self.0 as u16)
    }
}

/// Where a body goes.
#[derive(Clone, Debug)]
pub enum Placement {
    /// Nothing is left to do: the body was taken where it lay, or there is none.
    Done,
    /// The body is not wanted.
    Discard,
    /// The first `bytes` of it go to `into`, the rest is not wanted; then [`Upper::deposited`] is called with `token`.
    Keep {
        /// The upper layer's name for it.
        token: u64,
        /// Bytes wanted. More than the body or the memory has are not stored.
        bytes: u64,
        /// Where to. The memory is nobody else's until `deposited`.
        into: Segments,
    },
    /// Somebody else decides, with [`place`](super::Net::place). Messages of the same source behind it may arrive before.
    Later,
    /// Not now: the message is refused, and comes again. Nothing may have been noted about it, nor anything sent to its sender from
    /// within the call.
    Refuse,
}

impl Placement {
    /// Of a body that nobody wants, which has come with its header or not.
    #[inline(always)]
    pub fn unwanted(has_come: bool) -> Self {
        if has_come { Self::Done } else { Self::Discard }
    }
}

/// The layer above, while [`progress`](super::Net::progress) runs. It may send from inside, but not make progress.
pub trait Upper {
    /// Bytes of the header of a message for [`arrived_at_once`](Self::arrived_at_once); with 0 there is none.
    const AT_ONCE: usize = 0;

    /// A header has come, once for each message and in the order that `from` sent those of its channel. `length` is the
    /// body's; `inline` is the body if it has come whole.
    fn arrived(
        &mut self,
        pending: RxId,
        from: Peer,
        header: &[u8],
        length: u64,
        inline: Option<&[u8]>,
    ) -> Placement;
    /// As [`arrived`](Self::arrived), of a message that has come whole and is over when this returns true: nothing is answered to it, and
    /// nothing may be sent from within. False, and nothing has been noted about it: `arrived` is called for it. The header has
    /// [`AT_ONCE`](Self::AT_ONCE) bytes, the body so many. Of both, which lie behind each other, `word` gives the words; each may be
    /// another one when it is asked for again. Fast path.
    #[inline(always)]
    fn arrived_at_once(&mut self, from: Peer, body: usize, word: impl Fn(usize) -> u64) -> bool {
        let _ = (from, body, word);
        false
    }
    /// As [`arrived`](Self::arrived), of a body that can be had at once: `fetch` moves its first bytes to memory, from there on. False, and
    /// nothing has been noted about the message: `arrived` is called for it.
    fn arrived_near(
        &mut self,
        from: Peer,
        header: &[u8],
        length: u64,
        fetch: impl FnOnce(&Segments, u64, u64),
    ) -> bool {
        let _ = (from, header, length, fetch);
        false
    }
    /// What was to be kept is in its place, or never will be.
    fn deposited(&mut self, token: u64, outcome: Outcome);
    /// The memory of a body may be used again.
    fn sent(&mut self, token: u64, outcome: Outcome);
}
