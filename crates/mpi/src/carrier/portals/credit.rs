//! Credits: how much a sender may have on its way to a receiver that has not looked at it, in bytes of short messages and in
//! messages. So neither buffers nor queues of events overflow, whatever others send.

use super::{CREDITS, Portals};
use farpost_fabric::{Fabric, Peer};
use farpost_portals::AckReq;
use farpost_portals::NetworkInterface;

/// Messages that all others together may have on their way to one process, roughly.
const MESSAGES: u32 = 1024;
/// What a short message takes at least.
const LEAST: u64 = 64;

/// What is known about one peer, in both directions.
pub(super) struct Credit {
    /// What may be sent to it.
    bytes: u32,
    messages: u32,
    /// What it is owed.
    due_bytes: u32,
    due_messages: u32,
}

/// Bytes and messages of each of `peers`, when `unexpected` bytes are there for short messages.
pub(super) fn shares(unexpected: u64, peers: u32) -> (u32, u32) {
    // Of three buffers one is being filled, and what is sent fits the others.
    let bytes = unexpected / 3 / u64::from(peers);
    (bytes.min(1 << 30) as u32, (MESSAGES / peers).clamp(8, 256))
}

/// What a short message of `len` bytes takes.
#[inline(always)]
pub(super) fn cost(len: u64) -> u32 {
    len.max(LEAST) as u32
}

impl Credit {
    pub fn new(bytes: u32, messages: u32) -> Self {
        Self {
            bytes,
            messages,
            due_bytes: 0,
            due_messages: 0,
        }
    }

    /// Whether anything may be sent.
    #[inline(always)]
    pub fn admits(&self) -> bool {
        self.messages > 0
    }

    /// Whether a short message of `len` bytes may be sent, if anything.
    #[inline(always)]
    pub fn admits_short(&self, len: u64) -> bool {
        self.bytes >= cost(len)
    }

    /// A message goes: a short one of `bytes` bytes, or one that is kept.
    #[inline(always)]
    pub fn spend(&mut self, short: Option<u64>) {
        self.messages -= 1;
        if let Some(len) = short {
            self.bytes -= cost(len);
        }
    }
}

impl<F: Fabric> Portals<F> {
    /// A message of `peer` was looked at: its event, and (of a short one of that length) its memory.
    #[inline(always)]
    pub(super) fn owe(&mut self, peer: Peer, message: bool, short: Option<u64>) {
        let credit = &mut self.credit[peer.index()];
        credit.due_messages += u32::from(message);
        credit.due_bytes += short.map_or(0, cost);
        if credit.due_messages >= self.credit_messages / 2 || credit.due_bytes > self.credit_bytes / 2 {
            self.pay(peer);
        }
    }

    /// Let `peer` send more.
    #[cold]
    fn pay(&mut self, peer: Peer) {
        let credit = &mut self.credit[peer.index()];
        let data = u64::from(credit.due_messages) << 32 | u64::from(credit.due_bytes);
        (credit.due_messages, credit.due_bytes) = (0, 0);
        let target = self.target(peer, CREDITS, 0);
        // There is always room for one more operation: those that wait are bounded by the credits themselves.
        let sent = self.ni.put(self.silent, AckReq::NoAck, &target, data);
        debug_assert!(Self::begun(sent), "{sent:?}");
        self.needs_progress = true;
    }

    /// `peer` lets us send more. False: more than it had.
    pub(super) fn paid(&mut self, peer: Peer, data: u64) -> bool {
        let (messages, bytes) = ((data >> 32) as u32, data as u32);
        let Some(credit) = self.credit.get_mut(peer.index()) else {
            return false;
        };
        let (messages, bytes) = (
            credit.messages.saturating_add(messages),
            credit.bytes.saturating_add(bytes),
        );
        if messages > self.credit_messages || bytes > self.credit_bytes {
            return false;
        }
        (credit.messages, credit.bytes) = (messages, bytes);
        true
    }
}
