//! The engine: requests, matching and progress over one fabric, for a [carrier](Carrier) that stands above it, as all that is not the
//! same for every message does: long messages, point-to-point calls.
//!
//! Cost classes: what delivers a message at hand is *fast path*; everything that touches queues here is *queued path*.

mod blocks;
pub(crate) mod bulk;
mod by_source;
pub(crate) mod carrier;
pub mod context;
pub(crate) mod deliver;
pub mod envelope;
pub(crate) mod grant;
pub(crate) mod lost;
pub(crate) mod offer;
mod queue;
pub mod request;
mod self_send;
mod unexpected;
pub(crate) mod wire;

use crate::group::Group;
use crate::handle::{HandleKind, HandleTable};
use crate::{Error, Result};
pub use carrier::Carrier;
use carrier::Limits;
use context::{Context, Unexpected};
use envelope::{CONTEXT_MASK, Envelope};
use farpost_channel::Postboxes;
use farpost_fabric::{ByPeer, End, Fabric, FabricError, Fault, Line, Moment, Peer, PeerFlags};
use grant::Grants;
use request::{Operation, RecvState, Request, Send, Status};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

farpost_tunables::tunables! {
    /// Tunables of the message engine.
    pub struct EngineTunables {
        /// Messages up to this size are sent at once, through blocks; longer ones wait for their receive and then move in one copy where the system permits.
        eager_max: "FARPOST_EAGER_MAX" = 32 << 10, 0..=1 << 20, "bytes";
        /// The same for messages to other hosts; longer ones go straight from memory to memory. `farpost tune` measures where that pays.
        eager_far: "FARPOST_EAGER_FAR" = 32 << 10, 0..=1 << 20, "bytes";
        /// Longer messages to other hosts go through blocks, and shorter ones in postboxes alone, a line for every 56 bytes. More than the default pays where a fence costs as much as many lines.
        run_far: "FARPOST_RUN_FAR" = 264, 264..=2000, "bytes";
        /// Messages to other hosts longer than this go from the user's memory to the network behind their line, without blocks and without asking first, where the network can do that (tcp).
        zcopy_min: "FARPOST_ZCOPY_MIN" = 4096, 264..=1 << 30, "bytes";
        /// The longest message that goes so: what the receiver does not wait for takes memory there.
        zcopy_max: "FARPOST_ZCOPY_MAX" = 1 << 20, 0..=1 << 30, "bytes";
        /// Memory of a process for messages that came before their receives. Beyond it senders of which more than 1 MiB of them (or this, if it is less) is held keep their messages until they are received. 0: an eighth of the memory of the host, or of that which its control group may use, divided by the ranks there.
        unexpected_bytes: "FARPOST_UNEXPECTED_BYTES" = 0, 0..=1 << 40, "bytes";
        /// The smallest piece that sender and receiver claim when both copy a long message.
        chunk_min: "FARPOST_CHUNK_MIN" = 32 << 10, 4096..=1 << 30, "bytes";
        /// The largest piece that sender and receiver claim when both copy a long message.
        chunk_max: "FARPOST_CHUNK_MAX" = 256 << 10, 4096..=1 << 30, "bytes";
        /// Long messages: 1 lets the sender copy along with the receiver, 0 leaves it to the receiver.
        both_copy: "FARPOST_BOTH_COPY" = 1, 0..=1, "switch";
    }
}

/// Handle of every send that was complete when it was started. Never in the table, so that starting and
/// completing such a send costs nothing.
pub const SENT: usize = ((HandleKind::Request as usize) << 27) | 0x3f_ffff;

/// Of so many rounds of progress (less one) in which nothing moved one reads the clock, to ask now and then who has ended.
const LOOKS_PER_CLOCK: u32 = 63;

/// What waits to be posted to one peer.
#[derive(Default)]
pub(crate) struct Outgoing {
    /// Answers; they may overtake messages.
    pub control: VecDeque<Line>,
    /// Messages, in order.
    pub sends: VecDeque<usize>,
    /// Long messages that go through blocks.
    pub streams: VecDeque<usize>,
}

impl Outgoing {
    pub fn is_empty(&self) -> bool {
        self.control.is_empty() && self.sends.is_empty() && self.streams.is_empty()
    }
}

/// A context and what the engine keeps about it.
pub(crate) struct ContextEntry {
    pub id: u64,
    pub queues: Context,
    /// Who the ranks are, once the communicator exists here. A faster peer may send before that.
    pub members: Option<Group>,
    /// The program does not know its communicator.
    pub hidden: bool,
}

/// What an engine is made of.
pub struct Parts<F: Fabric, C> {
    pub fabric: Rc<F>,
    pub post: Postboxes<F>,
    pub tunables: EngineTunables,
    pub carrier: C,
    pub limits: Limits,
    /// For each peer, that what goes to it goes by postboxes.
    pub by_postbox: PeerFlags,
}

/// Requests, matching and progress of one process, whose messages move by a carrier.
pub struct Engine<F: Fabric, C> {
    pub(crate) post: Postboxes<F>,
    pub(crate) carrier: C,
    pub(crate) limits: Limits,
    pub(crate) fabric: Rc<F>,
    pub(crate) me: Peer,
    pub(crate) tunables: EngineTunables,
    pub(crate) requests: HandleTable<Request>,
    pub(crate) contexts: Vec<ContextEntry>,
    context_index: BTreeMap<u64, usize>,
    pub(crate) last_context: (u64, usize),
    free_contexts: Vec<usize>,
    pub(crate) outgoing: ByPeer<Outgoing>,
    /// Peers with something in `outgoing`.
    pub(crate) busy: Vec<Peer>,
    /// For each peer, whether it is in `busy`.
    pub(crate) is_busy: PeerFlags,
    /// For each peer, that what goes to it goes by postboxes, and that memory which both see may be used beside them; and whether
    /// that is so of all.
    pub(crate) by_postbox: PeerFlags,
    pub(crate) by_postbox_all: bool,
    /// Memory that unexpected messages of each peer take, and those of all.
    unexpected_cost: ByPeer<u64>,
    unexpected_total: u64,
    /// Peers whose messages are held back, and for each peer whether it is one of them.
    held_back: Vec<Peer>,
    pub(crate) is_held_back: PeerFlags,
    /// Sends whose receivers have yet to fetch them, though the program need not wait for it.
    pub(crate) promised: usize,
    /// Sends whose receivers may open a rendezvous slot.
    pub(crate) offered: Vec<usize>,
    /// Receives that copy from a peer.
    pub(crate) copying: Vec<usize>,
    pub(crate) grants: Grants,
    pub(crate) free_slots: Option<Vec<u32>>,
    /// Receives that the fabric fills.
    pub(crate) fetching: Vec<usize>,
    /// Sends whose bytes the fabric may still need, and receives whose bytes follow by themselves.
    pub(crate) zcopy: Vec<usize>,
    pub(crate) landing: Vec<usize>,
    /// Peers that the fabric has given up or that have ended, and how.
    pub(crate) lost: BTreeMap<u32, End>,
    /// Lost peers that receives from any source, in these contexts, no longer fail for.
    pub(crate) pardoned: BTreeSet<(u64, u32)>,
    /// A message has come on the context [`FAILURES`](envelope::FAILURES), which was not open.
    pub(crate) called_on: bool,
    /// When it was asked last who has ended.
    asked: Moment,
    pub(crate) rounds: u32,
    /// What is under way moves without anybody ringing.
    pub(crate) unrung: bool,
    /// Polls for something that a sender is just writing.
    pub(crate) patience: u32,
    /// Faults that belong to no request.
    pub(crate) faults: Vec<Fault>,
    /// Context of the last receive that failed: whose error handler hears of it.
    pub(crate) failed: Option<usize>,
}

impl<F: Fabric, C: Carrier<F>> Engine<F, C> {
    /// An engine of `parts`.
    pub fn new(parts: Parts<F, C>) -> Self {
        let Parts {
            fabric,
            mut post,
            tunables,
            carrier,
            limits,
            by_postbox,
        } = parts;
        let size = fabric.size() as usize;
        let (cores, processes) = fabric.cores_and_processes();
        let patience = if processes <= cores { 4096 } else { 4 };
        let me = fabric.me();
        post.set_all_open(&by_postbox);
        post.set_open(me, false);
        Self {
            post,
            asked: fabric.now(),
            limits,
            carrier,
            me,
            fabric,
            tunables,
            requests: HandleTable::new(HandleKind::Request),
            contexts: Vec::new(),
            context_index: BTreeMap::new(),
            last_context: (u64::MAX, 0),
            free_contexts: Vec::new(),
            outgoing: ByPeer::new(size),
            busy: Vec::new(),
            is_busy: PeerFlags::new(size, false),
            by_postbox_all: by_postbox.all(),
            by_postbox,
            unexpected_cost: ByPeer::new(size),
            unexpected_total: 0,
            held_back: Vec::new(),
            is_held_back: PeerFlags::new(size, false),
            promised: 0,
            offered: Vec::new(),
            copying: Vec::new(),
            grants: Default::default(),
            free_slots: None,
            fetching: Vec::new(),
            zcopy: Vec::new(),
            landing: Vec::new(),
            lost: BTreeMap::new(),
            pardoned: BTreeSet::new(),
            called_on: false,
            rounds: 0,
            unrung: false,
            patience,
            faults: Vec::new(),
            failed: None,
        }
    }

    /// Index of the context `id`, which is made if it is new.
    #[inline]
    pub fn context(&mut self, id: u64) -> usize {
        if self.last_context.0 == id {
            return self.last_context.1;
        }
        self.context_slow(id)
    }

    fn context_slow(&mut self, id: u64) -> usize {
        let index = match self.context_index.get(&id) {
            Some(index) => *index,
            None => {
                self.called_on |= id == envelope::FAILURES;
                let entry = ContextEntry {
                    id,
                    queues: Context::default(),
                    members: None,
                    hidden: false,
                };
                let index = match self.free_contexts.pop() {
                    Some(index) => {
                        self.contexts[index] = entry;
                        index
                    }
                    None => {
                        self.contexts.push(entry);
                        self.contexts.len() - 1
                    }
                };
                self.context_index.insert(id, index);
                index
            }
        };
        self.last_context = (id, index);
        index
    }

    /// Whether a context of this number is in use here.
    pub fn has_context(&self, id: u64) -> bool {
        self.context_index.contains_key(&id)
    }

    /// Tell the engine who the ranks of context `id` are; its index.
    pub fn open_context(&mut self, id: u64, members: Group) -> usize {
        let index = self.context(id);
        self.contexts[index].members = Some(members);
        index
    }

    /// The communicator is gone: forget the context, with the messages nobody received.
    pub fn close_context(&mut self, id: u64) {
        if !self.pardoned.is_empty() {
            self.pardoned.retain(|(context, _)| *context != id);
        }
        if let Some(index) = self.context_index.remove(&id) {
            let all = (context::ANY_SOURCE, context::ANY_TAG);
            while let Some(message) = self.contexts[index].queues.take_unexpected(all.0, all.1) {
                self.drop_held(message);
            }
            self.contexts[index] = ContextEntry {
                id: u64::MAX,
                queues: Context::default(),
                members: None,
                hidden: false,
            };
            self.free_contexts.push(index);
            self.last_context = (u64::MAX, 0);
        }
    }

    /// Nobody will receive a message that is held.
    fn drop_held(&mut self, message: Unexpected) {
        match message.held {
            context::Held::ZeroCopy { total, number } => {
                self.fabric.drop_zcopy(message.peer, number, total as usize);
            }
            context::Held::Carried { number, .. } => {
                C::take_held(self, message.peer, &message.envelope, number, None);
            }
            _ => {}
        }
        self.discharge(message.peer, message.cost());
    }

    /// Mark a request complete; one that was detached goes.
    pub(crate) fn complete(&mut self, handle: usize, finish: impl FnOnce(&mut Status)) {
        let Some(request) = self.requests.get_mut(handle) else {
            return;
        };
        finish(&mut request.status);
        request.complete = true;
        if request.status.error.is_some()
            && let Operation::Recv(recv) = &request.operation
        {
            self.failed = Some(recv.context);
        }
        if let Operation::Send(send) = &request.operation {
            self.promised -= usize::from(send.is_promise() && send.peer != self.me);
        }
        request.operation = Operation::Idle;
        if request.detached {
            self.requests.remove(handle);
        }
    }

    /// A request ends with an error.
    pub(crate) fn fail(&mut self, handle: usize, error: Error) {
        self.complete(handle, |status| status.error = Some(Box::new(error)));
    }

    /// A peer sent what cannot be right: a fault that belongs to no request.
    #[cold]
    pub(crate) fn note_corrupt(&mut self, peer: Peer, what: &'static str, value: u64) {
        let error = FabricError::Corrupt { peer, what, value };
        self.faults.push(Fault { peer, error });
    }

    /// Whether there is something that only calls of ours move along.
    pub fn has_duties(&self) -> bool {
        !self.busy.is_empty() || C::has_duties(self)
    }

    /// Longest message that is sent to `peer` without being asked for.
    #[inline(always)]
    pub(crate) fn eager_max(&self, peer: Peer) -> u64 {
        if self.fabric.maps(peer) {
            self.tunables.eager_max
        } else {
            self.tunables.eager_far
        }
    }

    /// As [`progress`](Self::progress), leaving nothing for a later round: before sleeping.
    pub fn progress_all(&mut self) -> bool {
        self.rounds = 7;
        self.progress()
    }

    /// Let everything move that can. True: something moved.
    #[inline]
    pub fn progress(&mut self) -> bool {
        self.rounds = self.rounds.wrapping_add(1);
        let moved = C::progress(self);
        if !moved && self.rounds & LOOKS_PER_CLOCK == 0 {
            return self.look_for_ended();
        }
        moved
    }

    /// Move along everything that waits for room.
    pub(crate) fn push_outgoing(&mut self) -> bool {
        let mut moved = false;
        for index in (0..self.busy.len()).rev() {
            let peer = self.busy[index];
            moved |= C::push(self, peer);
            if self.post.is_dead(peer) {
                self.fail_peer(peer);
            } else {
                self.retire_if_empty(peer);
            }
        }
        moved
    }

    /// A peer broke the protocol: its queue is closed, everything that waits for it fails.
    #[cold]
    #[inline(never)]
    pub(crate) fn fail_sender(&mut self, peer: Peer, what: &'static str, value: u64) {
        self.post
            .fail_sender(peer, FabricError::Corrupt { peer, what, value });
        self.fail_peer(peer);
    }

    /// A send waits its turn behind those to the same peer: its request.
    pub(crate) fn enqueue(&mut self, send: Send) -> Result<usize> {
        let peer = send.peer;
        let request = Request::new(Operation::Send(Box::new(send)));
        let handle = self.requests.insert(request)?;
        self.engage(peer);
        self.outgoing[peer.index()].sends.push_back(handle);
        Ok(handle)
    }

    /// Something is about to wait for room at `peer`.
    pub(crate) fn engage(&mut self, peer: Peer) {
        self.post.set_open(peer, false);
        if !self.is_busy.set(peer, true) {
            self.busy.push(peer);
        }
    }

    /// Forget a peer for which nothing waits any more.
    pub(crate) fn retire_if_empty(&mut self, peer: Peer) {
        if self.is_busy.get(peer) && self.outgoing[peer.index()].is_empty() {
            self.is_busy.set(peer, false);
            let open = self.by_postbox.get(peer) && peer != self.me;
            self.post.set_open(peer, open);
            self.busy.retain(|busy| *busy != peer);
        }
    }

    /// Take a request out of every list that names it.
    pub(crate) fn detach_from_queues(&mut self, handle: usize) {
        if let Some(recv) = self.requests.recv(handle)
            && let RecvState::Copying {
                grant: Some(slot), ..
            } = recv.state
        {
            self.grants.take_back(slot);
        }
        self.offered.retain(|h| *h != handle);
        self.copying.retain(|h| *h != handle);
        self.fetching.retain(|h| *h != handle);
        self.zcopy.retain(|h| *h != handle);
        self.landing.retain(|h| *h != handle);
        if let Some(recv) = self.requests.recv(handle) {
            let (context, source) = (recv.context, recv.source);
            self.contexts[context].queues.cancel(source, handle);
        }
    }

    /// Faults that no request reported, to be told at the next opportunity.
    pub fn take_faults(&mut self) -> Vec<Fault> {
        let (faults, _) = self.fabric.take_faults();
        self.faults.extend(faults);
        std::mem::take(&mut self.faults)
    }

    /// Idle moment: pay owed acks, publish counters, look for garbage in the queues.
    pub(crate) fn idle(&mut self) {
        self.unrung = C::rest(self);
        self.look_for_ended();
    }

    /// The envelope of a message from `source` in `context`.
    #[inline]
    pub(crate) fn envelope(context: u64, source: u32, tag: i32, class: u8, flags: u8) -> Envelope {
        debug_assert!(context <= CONTEXT_MASK);
        Envelope {
            context,
            source,
            tag,
            class,
            flags,
        }
    }

    /// The request behind a handle.
    pub fn request(&self, handle: usize) -> Result<&Request> {
        self.requests
            .get(handle)
            .ok_or_else(|| error!(ERR_REQUEST: "request={handle:#x}: not a live request"))
    }

    /// Take the result of a complete request and free it.
    pub fn reap(&mut self, handle: usize) -> Option<Status> {
        let request = self.requests.get_mut(handle)?;
        if !request.complete {
            return None;
        }
        let status = std::mem::replace(&mut request.status, Status::EMPTY);
        self.requests.discard(handle);
        Some(status)
    }
}
