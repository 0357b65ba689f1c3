//! The postbox protocol: queues of 64-byte postboxes, one line each, and blocks for what is longer.
//!
//! Cost class: [`Postboxes::post`] and [`Postboxes::peek`] are *fast path*: no system call, no heap, no lock,
//! no dynamic call, one shared line written per postbox. Everything in `connect` is *set-up path*.
//!
//! The low 32 bits of a postbox's first word are its sequence number, counted from 1 per queue; they are
//! written last. The rest is the caller's. A postbox is taken when the receiver's count of consumed
//! postboxes (the ack) passes it; with it the blocks that were posted along are free again.
//!
//! With the count goes a word of the receiver's: [`HOLD_BACK`]. All room that the sender gets to know of after the
//! receiver has said so comes with it, so that what comes unasked from then on is at most one queue of postboxes.

mod audit;
mod blocks;
mod ends;
mod receive;
mod send;

use crate::area::Layout;
use crate::control::{Lack, PendingConnection, Service};
use crate::pool::Pool;
use farpost_fabric::{ByPeer, Fabric, Peer, PeerFlags};
use std::rc::Rc;

pub(crate) use ends::{AckLine, Outlet, Rx, Tx};

/// How many postboxes ahead lines are fetched: enough to hide the way between two cores in a burst.
pub(crate) const AHEAD: u32 = 6;

/// In the upper half of an ack: the receiver wants no more messages that it has to keep until somebody asks for them.
const HOLD_BACK: u32 = 1;

/// There as well: the queue [has grown](crate::grow).
pub(crate) const GROWN: u32 = 2;

/// All postbox connections of one process.
pub struct Postboxes<F: Fabric> {
    pub(crate) fabric: Rc<F>,
    pub(crate) service: Service,
    pub(crate) layout: Layout,
    pub(crate) tx: ByPeer<Option<Box<Tx<F>>>>,
    pub(crate) rx: ByPeer<Option<Box<Rx<F>>>>,
    pub(crate) senders: Vec<Peer>,
    /// Senders whose queues [rest](crate::rest): not among the others meanwhile.
    pub(crate) resting: Vec<Peer>,
    /// For each peer, whether messages may go to it [at once](crate::lane), as far as its user knows.
    pub(crate) open: PeerFlags,
    pub(crate) pools: ByPeer<Option<Box<Pool>>>,
    pub(crate) connecting: Vec<PendingConnection>,
    /// Connections that wait for descriptors or memory.
    pub(crate) lacks: Vec<Lack>,
    pub(crate) own_area: Option<F::Export>,
    pub(crate) own_acks: Option<F::Export>,
}

impl<F: Fabric> Postboxes<F> {
    /// No connections yet; they are made at the first message.
    pub fn new(fabric: Rc<F>, tunables: &crate::ChannelTunables) -> Self {
        let service = Service::postboxes(fabric.size());
        Self::of_service(fabric, service, tunables)
    }

    /// As [`new`](Self::new), for one of several users of channels in this process.
    pub fn of_service(fabric: Rc<F>, service: Service, tunables: &crate::ChannelTunables) -> Self {
        farpost_fabric::fits::<F>();
        let size = service.processes;
        Self {
            service,
            layout: Layout::new(tunables, size),
            tx: ByPeer::new(size as usize),
            rx: ByPeer::new(size as usize),
            senders: Vec::new(),
            resting: Vec::new(),
            open: PeerFlags::new(size as usize, true),
            pools: ByPeer::new(size as usize),
            connecting: Vec::new(),
            lacks: Vec::new(),
            own_area: None,
            own_acks: None,
            fabric,
        }
    }

    /// The fabric below.
    pub fn fabric(&self) -> &Rc<F> {
        &self.fabric
    }

    /// Bytes in a block.
    pub fn block_bytes(&self) -> usize {
        self.layout.block as usize
    }

    /// Bytes in blocks that can be posted to one peer at once, sooner or later, whatever is under way and
    /// whatever acks are owed.
    pub fn bytes_at_once(&self) -> u64 {
        u64::from(self.layout.slots.min(self.layout.blocks) / 2) * u64::from(self.layout.block)
    }

    /// Postboxes in a queue.
    pub fn slots(&self) -> u32 {
        self.layout.slots
    }

    /// Those who have opened a queue to us, and have not said that it rests.
    #[inline]
    pub fn senders(&self) -> &[Peer] {
        &self.senders
    }

    /// Whether `peer` has opened a queue to us.
    pub fn has_sender(&self, peer: Peer) -> bool {
        self.rx[peer.index()].is_some()
    }
}
