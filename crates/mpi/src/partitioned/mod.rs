//! Partitioned communication (MPI-5.0 chapter 4): one message whose parts the sender gives away when they are ready, and whose
//! parts the receiver sees when they have arrived. A world starts and completes the requests (`world/partitioned.rs`).
//!
//! A send tells its receiver at once that it exists ([`Hello`]); the receiver joins it to the first receive with the same
//! communicator, source and tag that has none ([`meeting`]), so that partitioned operations match in the order in which they were
//! made, and never with other messages. From then on the sender's *runs*, neighbouring partitions that became ready together,
//! follow as messages with a tag of this pair ([`send`], [`recv`]): first a frame that says where in the data the run is, with
//! short runs in the frame itself, long ones behind it from the program's memory to the program's memory. The receiver posts a
//! receive for a frame only after it was started, and no more of them than its round has bytes, so a sender that is a round ahead
//! overwrites nothing. All of it goes by a context of its own over whatever carries messages.
//!
//! Whom do the waits wait for? A sender holds runs back only while messages of its own are on their way, which the receiver takes
//! in every call, once it was started; a receiver waits for nobody but its sender. What is held back meanwhile goes as longer runs.
//!
//! Cost class: *queued path*.

mod meeting;
mod recv;
mod room;
mod send;

pub(crate) use room::Room;

pub(crate) use meeting::Hello;
use meeting::Meeting;
use recv::Receiving;
use send::Sending;

use crate::buffer::{RecvBuf, SendBuf};
use crate::carrier::Engine;
use crate::comm::{Comm, ContextLane};
use crate::engine::envelope::{COUNT_BITS, Envelope, LANE_BITS};
use crate::engine::request::{Mode, Payload};
use crate::group::Group;
use crate::{Rank, Result};
use farpost_fabric::{Fabric, Peer};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

/// How many contexts process 0 has handed out before this one, which is everybody's for partitioned messages: no communicator has it.
pub(crate) const CONTEXT_COUNT: u64 = 3;
const CONTEXT: u64 = (CONTEXT_COUNT & ((1 << COUNT_BITS) - 1)) << LANE_BITS | ContextLane::Messages as u64;

/// Tag of the messages by which sends say that they exist; higher ones are of pairs.
const HELLO_TAG: i32 = 0;

/// A partitioned send or receive: what a persistent request of one stands for.
pub struct Channel {
    pub(crate) comm: Rc<Comm>,
    /// The rank at the other end; `MPI_PROC_NULL`: there is none.
    pub(crate) rank: Rank,
    pub(crate) tag: i32,
    partitions: u32,
    side: RefCell<Side>,
}

enum Side {
    Send(Sending),
    Receive(Receiving),
}

/// What has become of a started channel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Nothing,
    Moved,
    /// Its request is complete.
    Over,
}

impl Channel {
    /// Partitions at this end.
    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    /// Whether it sends.
    pub fn sends(&self) -> bool {
        matches!(*self.side.borrow(), Side::Send(_))
    }

    /// Bytes of all partitions.
    pub(crate) fn bytes(&self) -> u64 {
        match &*self.side.borrow() {
            Side::Send(sending) => sending.bytes(),
            Side::Receive(receiving) => receiving.bytes(),
        }
    }

    /// Whether it waits for the program: partitions are missing that are to be sent.
    pub(crate) fn waits_for_program(&self) -> bool {
        matches!(&*self.side.borrow(), Side::Send(sending) if sending.lacks_partitions())
    }

    /// Whether a partition has arrived, of a receive that is started.
    pub(crate) fn has_arrived(&self, partition: u32) -> bool {
        matches!(&*self.side.borrow(), Side::Receive(receiving) if receiving.has_arrived(partition))
    }
}

/// Everything partitioned of one process.
#[derive(Default)]
pub(crate) struct Operations {
    /// The engine's index of the context, once it is open.
    slot: Option<usize>,
    /// Sends so far: each has a number.
    sends: u64,
    /// Tags of sends that live.
    tags: BTreeSet<i32>,
    /// By process: sends that it has told of, and receives that wait for one.
    meetings: BTreeMap<u32, Meeting>,
    /// Started and not complete.
    active: Vec<Rc<Channel>>,
    /// Memory that messages of a channel that failed may still come to.
    kept: Vec<room::Room>,
}

/// The envelope of a partitioned message from here.
fn envelope(me: Peer, tag: i32) -> Envelope {
    Envelope {
        context: CONTEXT,
        source: me.0,
        tag,
        class: 0,
        flags: 0,
    }
}

impl Operations {
    /// Whether anything is started that is not complete.
    pub(crate) fn is_idle(&self) -> bool {
        self.active.is_empty()
    }

    fn slot<F: Fabric>(&mut self, engine: &mut Engine<F>) -> usize {
        let everyone = || Group::all(engine.fabric.size());
        if let Some(slot) = self.slot {
            return slot;
        }
        let everyone = everyone();
        *self.slot.insert(engine.open_context(CONTEXT, everyone))
    }

    /// A tag that no send of this process has, the longest unused one: what was sent with it before has been received.
    fn new_tag(&mut self, tag_ub: i32) -> Result<i32> {
        let tags = u64::from(tag_ub.unsigned_abs());
        for _ in 0..=self.tags.len() {
            let tag = 1 + (self.sends % tags) as i32;
            self.sends += 1;
            if self.tags.insert(tag) {
                return Ok(tag);
            }
        }
        fail!(ERR_NO_MEM: "{} partitioned sends are alive, the most a process can have; free some", self.tags.len())
    }

    /// Make a send of `partitions` of as many elements each, all of which `buf` holds.
    pub(crate) fn send_init<F: Fabric>(
        &mut self,
        engine: &mut Engine<F>,
        comm: &Rc<Comm>,
        (buf, partitions): (SendBuf, u32),
        dest: Rank,
        tag: i32,
    ) -> Result<Rc<Channel>> {
        let to = match comm.peer(dest) {
            None => None,
            Some(peer) => {
                self.slot(engine);
                let pair = self.new_tag(engine.limits.tag_ub)?;
                let hello = Hello {
                    context: comm.context,
                    tag,
                    pair,
                    serial: self.sends,
                    total: buf.bytes(),
                };
                let payload = Payload::Owned(hello.to_bytes());
                let told = engine.isend(peer, envelope(engine.me, HELLO_TAG), payload, Mode::Standard);
                let told = told.inspect_err(|_| _ = self.tags.remove(&pair))?;
                if let Some(request) = told.and_then(|handle| engine.requests.get_mut(handle)) {
                    request.detached = true;
                }
                Some((peer, pair, hello.serial))
            }
        };
        Ok(Rc::new(Channel {
            comm: Rc::clone(comm),
            rank: dest,
            tag,
            partitions,
            side: RefCell::new(Side::Send(Sending::new(buf, partitions, to))),
        }))
    }

    /// Make a receive into `buf`, which holds all partitions.
    pub(crate) fn recv_init(
        &mut self,
        comm: &Rc<Comm>,
        (buf, partitions): (RecvBuf, u32),
        source: Rank,
        tag: i32,
    ) -> Rc<Channel> {
        let peer = comm.peer(source);
        let channel = Rc::new(Channel {
            comm: Rc::clone(comm),
            rank: source,
            tag,
            partitions,
            side: RefCell::new(Side::Receive(Receiving::new(buf, partitions, peer))),
        });
        if let Some(peer) = peer {
            self.meetings.entry(peer.0).or_default().expect(&channel);
        }
        channel
    }

    /// Start a channel; `request` completes when it does.
    pub(crate) fn start<F: Fabric>(
        &mut self,
        engine: &mut Engine<F>,
        channel: &Rc<Channel>,
        request: usize,
    ) -> Result<()> {
        match &mut *channel.side.borrow_mut() {
            Side::Send(sending) => sending.start(request)?,
            Side::Receive(receiving) => receiving.start(request)?,
        }
        if self.step(engine, channel) != Step::Over {
            self.active.push(Rc::clone(channel));
        }
        Ok(())
    }

    /// Partitions are ready, of a send that is started.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: one was before; then none is from this call.
    pub(crate) fn ready<F: Fabric>(
        &mut self,
        engine: &mut Engine<F>,
        channel: &Rc<Channel>,
        runs: &[Range<u32>],
    ) -> Result<()> {
        if let Side::Send(sending) = &mut *channel.side.borrow_mut() {
            sending.ready(runs)?;
        }
        if self.step(engine, channel) == Step::Over {
            self.active.retain(|other| !Rc::ptr_eq(other, channel));
        }
        Ok(())
    }

    /// Let everything move that can. True: something moved.
    pub(crate) fn advance<F: Fabric>(&mut self, engine: &mut Engine<F>) -> bool {
        let (mut moved, mut at) = (false, 0);
        while let Some(channel) = self.active.get(at).cloned() {
            match self.step(engine, &channel) {
                Step::Nothing => at += 1,
                Step::Moved => (moved, at) = (true, at + 1),
                Step::Over => {
                    moved = true;
                    self.active.remove(at);
                }
            }
        }
        moved
    }

    fn step<F: Fabric>(&mut self, engine: &mut Engine<F>, channel: &Rc<Channel>) -> Step {
        let slot = match channel.rank {
            rank if rank < 0 => 0,
            _ => self.slot(engine),
        };
        let unmatched = match &*channel.side.borrow() {
            Side::Receive(receiving) => receiving.unmatched(),
            Side::Send(_) => None,
        };
        if let Some(peer) = unmatched {
            let found = self.meetings.entry(peer.0).or_default().look(engine, slot, peer);
            if let (Err(error), Side::Receive(receiving)) = (found, &mut *channel.side.borrow_mut()) {
                receiving.fail(engine, error, &mut self.kept);
            }
        }
        let (step, request, error, status) = match &mut *channel.side.borrow_mut() {
            Side::Send(sending) => {
                let step = sending.step(engine);
                (
                    step,
                    sending.request,
                    sending.error.take_if(|_| step == Step::Over),
                    None,
                )
            }
            Side::Receive(receiving) => {
                let step = receiving.step(engine, slot, &mut self.kept);
                let error = receiving.error.clone().filter(|_| step == Step::Over);
                (step, receiving.request, error, receiving.received())
            }
        };
        if step == Step::Over {
            if error.is_some() {
                engine.failed = Some(channel.comm.slots[0]);
            }
            engine.complete(request, |result| {
                if let Some(bytes) = status {
                    result.set(channel.rank, channel.tag, bytes);
                }
                result.error = error.map(Box::new);
            });
        }
        step
    }

    /// The program has freed the request of a channel, which goes on if it is started.
    pub(crate) fn forget(&mut self, channel: &Channel) {
        if let Side::Send(sending) = &*channel.side.borrow()
            && let Some(pair) = sending.pair()
        {
            self.tags.remove(&pair);
        }
    }
}
