//! What is kept about a peer: its address, tokens, what waits to be sent, packets' credits, segments announced,
//! counters. Made when the peer is first met, so that a process of a large job keeps little about those it never
//! talks to.

use super::operations::Operation;
use super::token;
use farpost_fabric::{Counter, LANES, Peer, Permission};
use farpost_net::SECRET_BYTES;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ptr::NonNull;
use std::time::Instant;

/// A segment that a peer lets us import, as it told us.
#[derive(Clone, Copy, Debug)]
pub struct Announced {
    pub permission: Permission,
    pub len: usize,
    pub handle: u32,
}

/// Credits of packets of one port and priority.
#[derive(Default)]
pub struct Credits {
    /// Packets sent to the peer.
    pub sent: Cell<u32>,
    /// Of these, those that it has said to be consumed.
    pub returned: Cell<u32>,
    /// The peer's packets that came.
    pub arrived: Cell<u32>,
    /// The peer's packets consumed here.
    pub consumed: Cell<u32>,
    /// Of these, those that it was told of.
    pub told: Cell<u32>,
}

/// A peer.
#[derive(Default)]
pub struct Link {
    pub peer: Peer,
    /// libfabric's handle of its address, once it was looked up.
    pub address: Cell<Option<u64>>,
    /// The address itself, as on its card.
    pub card_address: RefCell<Vec<u8>>,
    /// The address is known, nothing waits, the peer lives: a message may go right away.
    pub direct: Cell<bool>,
    /// [`Self::address`], for when `direct` is set.
    pub fast_address: Cell<u64>,
    /// Of the next message to it.
    pub next_out: Cell<u64>,
    /// Of the next message from it.
    pub next_in: Cell<u64>,
    /// Its messages that came before those they follow, by token.
    pub held: RefCell<BTreeMap<u64, Box<[u8]>>>,
    /// Since when the one that they wait for has not come.
    pub held_since: Cell<Option<Instant>>,
    /// Bytes of the largest message to it.
    pub message: Cell<usize>,
    /// Messages that wait for room, oldest first.
    pub backlog: RefCell<VecDeque<NonNull<Operation>>>,
    /// Operations to it that the provider has.
    pub under_way: Cell<u32>,
    /// Since when there has been no sign of life, as far as anybody looked.
    pub silent_since: Cell<Option<Instant>>,
    /// Something came from it since this was last looked at.
    pub heard: Cell<bool>,
    /// Something was sent to it and nothing has come from it since.
    pub unanswered: Cell<bool>,
    /// Why it is given up.
    pub dead: RefCell<Option<String>>,
    /// It has ended in good order.
    pub left: Cell<bool>,
    /// Something was put since the last fence.
    pub unfenced: Cell<bool>,
    /// Per port and priority.
    pub credits: [Credits; LANES],
    /// How much of our log of segments it was told.
    pub told_segments: Cell<usize>,
    /// What it lets us import, by segment.
    pub directory: RefCell<BTreeMap<u32, Announced>>,
    /// How often each segment of its was said to be withdrawn, or offered differently.
    pub withdrawals: RefCell<BTreeMap<u32, u64>>,
    /// Where a new connection proves that it can be reached.
    pub probe: RefCell<Option<super::alive::Probe>>,
    pub counters: [Cell<u64>; Counter::COUNT],
}

impl Link {
    /// Of `peer`, as seen by `me`.
    pub fn new(me: Peer, peer: Peer, secret: &[u8; SECRET_BYTES]) -> Self {
        Self {
            peer,
            next_out: Cell::new(token::first(secret, me, peer)),
            next_in: Cell::new(token::first(secret, peer, me)),
            ..Self::default()
        }
    }

    /// The token of the next message to the peer. Every token taken must be sent, in order.
    #[inline]
    pub fn token(&self) -> u64 {
        let token = self.next_out.get();
        self.next_out.set(token.wrapping_add(1));
        self.unanswered.set(true);
        token
    }

    /// Count.
    #[inline]
    pub fn count(&self, counter: Counter, amount: u64) {
        let cell = &self.counters[counter as usize];
        cell.set(cell.get().wrapping_add(amount));
    }

    /// How often it said that segment `id` was withdrawn, or is offered differently.
    pub fn withdrawals(&self, id: u32) -> u64 {
        self.withdrawals.borrow().get(&id).copied().unwrap_or(0)
    }

    /// Bytes in one answer to a get.
    pub fn get_limit(&self) -> usize {
        self.message.get().saturating_sub(64)
    }

    /// Whether it is given up.
    pub fn is_dead(&self) -> bool {
        self.dead.borrow().is_some()
    }

    /// Whether anything to it is unfinished.
    pub fn busy(&self) -> bool {
        self.under_way.get() > 0 || !self.backlog.borrow().is_empty()
    }
}
