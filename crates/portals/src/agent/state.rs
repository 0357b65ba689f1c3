//! What an agent knows of its clients and their messages. All of it is made by [`Agent::new`](super::Agent::new).

use super::figures::ClientFigures;
use super::moves::Move;
use super::objects::Objects;
use super::pieces::{Pieces, Store};
use super::structures::{Arena, Room, Slab};
use super::tunables::{AgentTunables, Sizes};
use crate::bridge::mailbox::{Control, Reader, SLOTS, Title, Writer};
use crate::bridge::record::{Pen, SMALL};
use crate::bridge::{Mode, Routes};
use crate::library::HEADER_BYTES;
use crate::net::{Placement, RxId};
use farpost_fabric::{Fabric, LocalMemory, Moment, Peer, RemoteMemory};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

type LinesOf<F> = <<F as RemoteMemory>::Export as LocalMemory>::Lines;

/// What is under way.
pub(super) enum Job {
    /// The network layer still reads this.
    Leaving(usize, Room),
    /// Bytes arrive, or are moved from or to a client.
    Moving(Moving),
}

/// Bytes of a client's. `client` is an index, `era` says which of its lives is meant.
pub(super) struct Moving {
    pub client: usize,
    pub era: u32,
    pub mv: Move,
    pub purpose: Purpose,
}

/// What bytes are moved for.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// The body of the message at the head of this list of the client's is being fetched.
    Fetch(usize),
    /// A body arrives, then goes to the client: its token, and the pending of a generic client.
    Deposit(u64, Option<u16>),
    /// A get-put: its bytes arrive, then what was there is fetched, then they are put in its place.
    Swap(u64),
}

impl Job {
    /// The bytes to be moved.
    pub fn moving(&mut self) -> Option<&mut Moving> {
        match self {
            Job::Leaving(..) => None,
            Job::Moving(moving) => Some(moving),
        }
    }
}

/// Where a message's body is.
pub(super) enum BodyAt {
    Small([u8; SMALL], u8),
    Away(Pieces),
    /// On its way here.
    Moving,
    Here(Room),
    /// Cannot be had.
    Lost,
}

/// A message of a client's to be sent.
pub(super) struct Item {
    pub to: u32,
    pub header: [u8; HEADER_BYTES],
    pub len: u64,
    pub body: BodyAt,
    pub token: u64,
    /// The client counts it.
    pub counted: bool,
}

/// A place for a message that a generic client is shown: the lower half of a pending, which the client never sees. The upper
/// half, header and length, is in the event that shows it, in the client's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lower {
    Free,
    Shown(RxId),
    Receiving,
    /// The client did not say for too long where it goes: it is lost.
    Lost,
}

/// An order to receive that waits for memory.
pub(super) struct Order {
    pub pending: u16,
    pub token: u64,
    pub keep: u64,
    pub pieces: Pieces,
}

/// Since when a client has not moved on, and how far it was then.
#[derive(Clone, Copy)]
pub(super) struct Standstill {
    since: Moment,
    at: (u32, u64),
}

impl Standstill {
    /// A client is `now` as far as `at`: how long it has been so. None: it has moved on, and how far is noted.
    pub fn lasts(noted: &mut Option<Self>, now: Moment, at: (u32, u64)) -> Option<Duration> {
        let here = Self { since: now, at };
        let before = noted.get_or_insert(here);
        if before.at == at {
            return Some(now - before.since);
        }
        *before = here;
        None
    }
}

/// A client's end of the queues.
pub(super) struct Link<F: Fabric> {
    pub import: F::Import,
    pub events: Writer<F::Import>,
    pub results: Writer<F::Import>,
}

pub(super) struct Entry<F: Fabric> {
    pub number: u32,
    pub memory: F::Export,
    pub commands: Reader<LinesOf<F>>,
    pub link: Option<Link<F>>,
    /// Messages for it are looked at, and dropped while it is not open; of MPI's client not before it says so.
    pub accepts: bool,
    /// None: it is not open.
    pub mode: Option<Mode>,
    /// Which of its openings this is or will be.
    pub era: u32,
    pub items: [VecDeque<Item>; 2],
    /// Messages it gave, by channel.
    pub given: [u64; 2],
    pub control: Control,
    pub told: Control,
    /// Something was posted since it was rung.
    pub ring: bool,
    /// While it refuses: events taken, and requests dealt with.
    pub refusing: Option<Standstill>,
    /// While it leaves messages unanswered: events and commands taken.
    pub silent: Option<Standstill>,
    /// Requests that a generic client was shown, and those that it has dealt with.
    pub shown: u64,
    pub settled: u64,
    /// Of a generic client.
    pub lower: Box<[Lower]>,
    pub orders: VecDeque<Order>,
    /// Of an accelerated client; it also answers in the name of one that is not open.
    pub objects: Objects,
    /// It has begun so much whose events its handlers are to see that the next operation waits.
    pub held: bool,
    /// Bodies go through windows: the jobs for which they are in use.
    pub carried: bool,
    pub windows: [Option<u64>; SLOTS],
    /// It does not move bytes that it is to move; its own messages wait until it does.
    pub stalled: bool,
    pub figures: ClientFigures,
}

impl<F: Fabric> Entry<F> {
    pub fn peer(&self) -> Peer {
        Peer(self.number)
    }

    /// Post an event. False: the queue is full.
    #[inline]
    pub fn post(&mut self, title: Title, words: &[u64]) -> bool {
        let link = self.link.as_mut();
        let posted = link.is_some_and(|link| link.events.put(title, words).unwrap_or(false));
        self.ring |= posted;
        self.figures.events += u64::from(posted);
        posted
    }

    /// What it asks is not looked at, now or for good.
    pub fn is_waived(&self) -> bool {
        self.held || self.figures.faulty || self.figures.ended
    }
}

pub(super) struct Core<F: Fabric> {
    pub fabric: Rc<F>,
    pub routes: Rc<Routes>,
    pub config: AgentTunables,
    pub sizes: Sizes,
    /// Memory for answers and for requests on their way out, and for what arrives: who waits for one of them never
    /// waits for another, or processes could wait for each other in a circle.
    pub arenas: [Arena; 3],
    pub jobs: Slab<Job>,
    pub lists: Rc<Store>,
    /// Jobs with bytes to be moved.
    pub movements: Vec<u64>,
    pub clients: Vec<Entry<F>>,
    /// By number, [`NOBODY`] for others.
    pub index: Vec<u32>,
    /// For the network layer, after its progress.
    pub placements: Vec<(RxId, Placement)>,
    pub words: Vec<u64>,
    pub pen: Pen,
}

/// The arena of what arrives; those of what leaves are numbered like channels.
pub(super) const ARRIVALS: usize = 2;

pub(super) const NOBODY: u32 = u32::MAX;

impl<F: Fabric> Core<F> {
    /// The bytes that a job moves.
    pub fn moving(&mut self, name: u64) -> Option<&mut Moving> {
        self.jobs.get(name)?.moving()
    }

    /// The end of a job that moves bytes.
    pub fn remove_moving(&mut self, name: u64) -> Option<Moving> {
        self.moving(name)?;
        match self.jobs.remove(name)? {
            Job::Leaving(..) => None,
            Job::Moving(moving) => Some(moving),
        }
    }

    #[inline]
    pub fn find(&self, number: u32) -> Option<usize> {
        let at = *self.index.get(number as usize)?;
        (at != NOBODY).then_some(at as usize)
    }
}
