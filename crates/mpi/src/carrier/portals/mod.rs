//! MPI over Portals 3.3: matching is done by Portals and not by MPI (facts file, section 9; the MPI example of the document).
//!
//! ```text
//! portal MESSAGES, match list:
//!     posted receives, oldest first           one descriptor each, threshold 1, TRUNCATE; as many as `FARPOST_PORTALS_POSTED`
//!     a mark without a descriptor             receives are inserted before it
//!     managed buffers                         short messages that nobody waits for: MAX_SIZE, UNLINK
//!     the rest                                kept messages that nobody waits for: header only
//! portal KEPT:     long and synchronous messages at their senders, to be fetched, by the sender's name for them
//! portal CREDITS:  how much of what was sent has been looked at; what a sender would have back
//! portal NOTICES:  messages that receivers have done with, for each queue of events that senders have room in
//! ```
//!
//! A *short* message is a put from the user's memory (up to 128 bytes: from a copy) and over when it has left. A *kept* one is a put
//! of all bytes as well, with an acknowledgement asked for; its sender also makes it available. If a receive waits for it, the bytes
//! go straight to the user's memory and the acknowledgement ends the send. If none does, only the header is noted, and the
//! receive that takes it gets the bytes from the sender, which ends the send. Synchronous messages are kept ones of any length.
//!
//! By way of an agent all bytes pass through its memory. Of what is too long for that only the header is put, and the rest is fetched in
//! parts ([`parts`]).
//!
//! What came before its receive is listed in the order of its START events, which is that in which it was sent, and a receive looks
//! there first. Then it is inserted with threshold 0 and set to 1 by an update that fails when a message has come meanwhile.
//!
//! An interface has 65,536 match entries and as many descriptors. What finds none does without or waits: later receives are matched
//! here with what came and no entry took, later messages are announced ([`questions`]), later fetches begin when others have ended.
//! Each has a share of its own (`DeviceTunables`; together less than all), so that none waits for another.
//!
//! Memory for short messages is bounded: each sender has *credits*, in bytes and in messages, which come back in zero-length
//! puts. Without bytes a message is kept by its sender, without messages it waits there.
//!
//! The interface is one of its own, with packets, channels and a place at the agent beside those of the C interface, which a program
//! may have as well. Matching is done in this process, or by way of its host's agent, as `FARPOST_PORTALS` says; where that agent, or
//! a peer's, ends, the peers behind it are lost.

/// What the carrier of `engine` keeps, which is Portals.
macro_rules! portals {
    ($engine:expr $(, $otherwise:expr)?) => {
        match &mut $engine.carrier {
            Chosen::Portals(portals) => portals,
            _ => return $($otherwise)?,
        }
    };
}

mod agents;
mod bits;
mod carry;
mod credit;
mod direct;
mod events;
mod exposed;
mod fetch;
mod managed;
mod memory;
mod parts;
mod posted;
mod questions;
mod receive;
mod send;

pub use bits::{Layout, MOST_RANKS};
pub(crate) use carry::ByPortals;
use direct::Begun;

use super::{Chosen, DeviceConfig};
use crate::Error;
use crate::engine::carrier::Limits;
use agents::Agents;
use credit::Credit;
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{Fabric, Peer};
use farpost_portals::net::NetTunables;
use farpost_portals::{
    AnyInterface, Error as PortalsError, Event, EventKind, Handle, Md, NetworkInterface, NiFail, Owner,
    Position, ProcessId, Processes, THRESHOLD_INFINITE, Target, Unlink, field, option,
};
use managed::Managed;
use parts::Parts;
use posted::Posted;
use questions::Want;
use send::Sends;
use std::collections::VecDeque;
use std::rc::Rc;

/// Portal indexes.
const MESSAGES: u32 = 0;
const KEPT_HERE: u32 = 1;
const CREDITS: u32 = 2;
const NOTICES: u32 = 3;

/// Most pendings that there may be.
const MOST_PENDINGS: u64 = 16384;

/// What `user_ptr` of a descriptor says of it, in its lowest bits; above them a number.
mod user {
    pub const POSTED: usize = 0;
    pub const MEMORY: usize = 1;
    pub const BOUNCE: usize = 2;
    pub const KEPT: usize = 3;
    pub const FETCH: usize = 4;
    pub const BUFFER: usize = 5;
    pub const REST: usize = 6;
    pub const NOTICE: usize = 7;
    pub const BITS: u32 = 3;

    pub const fn of(kind: usize, number: usize) -> usize {
        number << BITS | kind
    }
}

/// Sizes of the queues of events that operations of ours announce: the next one is made when those before are full of
/// what may come.
const QUEUES: [u32; 8] = [
    512,
    8 << 10,
    128 << 10,
    1 << 20,
    1 << 20,
    1 << 20,
    1 << 20,
    1 << 20,
];

/// Events of a queue that an agent keeps.
const MOST_OF_AGENT: u32 = 1 << 16;

/// A queue, with the descriptor of all memory that logs to it.
struct Queue {
    eq: Handle,
    memory: Handle,
    room: u32,
    reserved: u32,
}

/// What of an event is looked at.
#[derive(Clone, Copy)]
struct Seen {
    kind: EventKind,
    from: Peer,
    bits: u64,
    rlength: u64,
    mlength: u64,
    offset: u64,
    data: u64,
    link: u32,
    user: usize,
    fail: NiFail,
}

impl Seen {
    #[inline(always)]
    fn of(event: &Event, _dropped: bool) -> Self {
        Self {
            kind: event.kind,
            // The number of a process is its rank, on whatever node.
            from: Peer(event.initiator.pid),
            bits: event.match_bits,
            rlength: field(&event.rlength),
            mlength: field(&event.mlength),
            offset: event.offset,
            data: event.hdr_data,
            link: field(&event.link),
            user: event.md.user_ptr,
            fail: field(&event.ni_fail_type),
        }
    }

    fn number(&self) -> usize {
        self.user >> user::BITS
    }
}

/// The device of one process.
pub(crate) struct Portals<F: Fabric> {
    /// Whom copies are charged to.
    fabric: Rc<F>,
    ni: AnyInterface<F>,
    layout: Layout,
    ids: Box<[ProcessId]>,
    queues: Vec<Queue>,
    /// What nobody waited for.
    unexpected: Handle,
    returned: Handle,
    /// Nothing, without events: for credits.
    silent: Handle,
    posted: Posted,
    sends: Sends,
    /// Which messages go in parts.
    parts: Parts,
    managed: Managed,
    credit: Box<[Credit]>,
    /// What each peer was asked.
    asked: Box<[questions::Asked]>,
    /// What a peer begins with.
    credit_bytes: u32,
    credit_messages: u32,
    fetches: Vec<Option<fetch::Fetch>>,
    fetching: usize,
    most_fetching: usize,
    /// Receives whose message can be fetched when another fetch has ended.
    later: VecDeque<Want>,
    /// Match entries that had an operation in progress when they were to go.
    leftovers: Vec<Handle>,
    /// Announced messages that receives want.
    wants: Vec<Want>,
    /// Announced messages that peers want.
    wanted: Vec<(Peer, u64)>,
    /// What came of a receive without a request.
    direct: Option<Seen>,
    /// Receives without a request that have become long ones.
    begun: Vec<Begun>,
    /// Something may have been logged since the queues were looked at.
    needs_progress: bool,
    /// Where the job has agents.
    agents: Option<Agents>,
}

/// A descriptor that logs to `eq` and never runs out.
fn descriptor(start: usize, length: u64, options: u32, user_ptr: usize, eq: Handle) -> Md {
    Md {
        start,
        length,
        threshold: THRESHOLD_INFINITE,
        max_size: 0,
        options: options | option::EVENT_START_DISABLE,
        user_ptr,
        eq_handle: eq,
    }
}

/// An error of the layer that only a mistake here or a lack of memory can cause.
#[cold]
fn refused(what: &str, error: PortalsError) -> Error {
    if error == PortalsError::Fail {
        return error!(ERR_PROC_ABORTED: "{what} by Portals failed: other processes cannot be reached, this host's Portals agent has ended");
    }
    let hint = match error {
        PortalsError::NoSpace | PortalsError::MeListTooLong => ": too many are outstanding at once",
        _ => "",
    };
    error!(ERR_OTHER: "{what} by Portals failed: {error}{hint}")
}

impl<F: Fabric> Portals<F> {
    /// The device on `fabric`.
    pub fn new(fabric: &Rc<F>, config: &DeviceConfig, wait: &WaitTunables, short_max: u64) -> Self {
        let size = fabric.size();
        assert!(
            size <= MOST_RANKS,
            "FARPOST_DEVICE=portals carries jobs of at most {MOST_RANKS} ranks, this one has {size}"
        );
        let ids: Box<[ProcessId]> = (0..size)
            .map(|rank| ProcessId::new(fabric.host_of(Peer(rank)), rank))
            .collect();
        let processes = Rc::new(Processes::by_rank(ids.iter().map(|id| id.nid)));
        // One for each other process, and some to spare: who takes nothing then holds up nobody else.
        let net = NetTunables {
            tx_pendings: config
                .portals
                .tx_pendings
                .max(u64::from(4 * size).min(MOST_PENDINGS)),
            ..config.portals.clone()
        };
        let agents = config.agents.as_ref();
        let ni = AnyInterface::open(
            Owner::Mpi,
            Rc::clone(fabric),
            agents,
            (&net, wait),
            processes,
            None,
        )
        .unwrap_or_else(|error| panic!("setting up MPI over Portals: {error}"));
        let parts = Parts::new(agents, fabric.me());
        let agents = agents.map(|access| Agents::new(&access.routes, &**fabric));
        Self::on((fabric, ni), ids, config, (short_max, parts, agents)).unwrap_or_else(|error| {
            panic!("setting up MPI over Portals: {error}");
        })
    }

    fn on(
        (fabric, ni): (&Rc<F>, AnyInterface<F>),
        ids: Box<[ProcessId]>,
        config: &DeviceConfig,
        (short_max, parts, agents): (u64, Parts, Option<Agents>),
    ) -> Result<Self, PortalsError> {
        let size = ids.len() as u32;
        let (bytes, messages) = credit::shares(config.tunables.portals_unexpected, size);
        // START and END of each message that may come unseen, and UNLINK of the buffers.
        let unseen = 2 * u64::from(messages) * u64::from(size) + 64;
        let most = if ni.rings() { MOST_OF_AGENT } else { 1 << 20 };
        let unexpected = ni.eq_alloc(unseen.min(u64::from(most)) as u32, None)?;
        // Who has credits out has at most a few returns of them unseen.
        let returned = ni.eq_alloc((8 * size).clamp(16, 1 << 20), None)?;
        let silent = descriptor(0, 0, option::EVENT_END_DISABLE, 0, Handle::EQ_NONE);
        let silent = memory::bind(&ni, silent, None)?;
        let any = (0, u64::MAX);
        let me = ni.me_attach(CREDITS, ProcessId::ANY, any, Unlink::Retain, Position::After)?;
        let nothing = option::OP_PUT | option::TRUNCATE | option::ACK_DISABLE;
        memory::attach(
            &ni,
            me,
            descriptor(0, 0, nothing, 0, returned),
            None,
            Unlink::Retain,
        )?;
        // A mark without a descriptor takes nothing.
        let mark = ni.me_attach(MESSAGES, ProcessId::ANY, any, Unlink::Retain, Position::After)?;
        let rest = ni.me_attach(
            MESSAGES,
            ProcessId::ANY,
            (bits::KEPT, !bits::KEPT),
            Unlink::Retain,
            Position::After,
        )?;
        let unkept = descriptor(0, 0, nothing, user::REST, unexpected);
        memory::attach(&ni, rest, unkept, None, Unlink::Retain)?;
        let short_max = short_max.min(u64::from(bytes)).min(parts.whole);
        let managed = Managed::new(
            &ni,
            rest,
            unexpected,
            config.tunables.portals_unexpected,
            short_max,
        )?;
        let first = Self::queue(&ni, 0)?;
        let exposed = (config.tunables.portals_exposed, config.tunables.portals_fetches);
        let sends = Sends::new(&ni, first.eq, short_max, exposed)?;
        let mut queues = vec![first];
        queues[0].reserved += sends.bounced();
        ni.accept();
        Ok(Self {
            layout: Layout::new(size),
            queues,
            unexpected,
            returned,
            silent,
            posted: Posted::new(mark, config.tunables.portals_posted),
            sends,
            parts,
            managed,
            credit: (0..size).map(|_| Credit::new(bytes, messages)).collect(),
            asked: (0..size).map(|_| questions::Asked::default()).collect(),
            credit_bytes: bytes,
            credit_messages: messages,
            fetches: Vec::new(),
            fetching: 0,
            most_fetching: config.tunables.portals_fetches as usize,
            later: VecDeque::new(),
            leftovers: Vec::new(),
            wants: Vec::new(),
            wanted: Vec::new(),
            direct: None,
            begun: Vec::new(),
            needs_progress: false,
            agents,
            ids,
            ni,
            fabric: Rc::clone(fabric),
        })
    }

    fn queue(ni: &AnyInterface<F>, nth: usize) -> Result<Queue, PortalsError> {
        let most = if ni.rings() { MOST_OF_AGENT } else { u32::MAX };
        let room = (*QUEUES.get(nth).ok_or(PortalsError::NoSpace)?).min(most);
        let eq = ni.eq_alloc(room, None)?;
        let (any, which) = (ProcessId::ANY, (nth as u64, 0));
        let me = ni.me_attach(NOTICES, any, which, Unlink::Retain, Position::After)?;
        let nothing = option::OP_PUT | option::TRUNCATE | option::ACK_DISABLE;
        let md = descriptor(0, 0, nothing, user::of(user::NOTICE, 0), eq);
        memory::attach(ni, me, md, None, Unlink::Retain)?;
        Ok(Queue {
            eq,
            memory: memory::bind_all(ni, user::MEMORY, eq)?,
            room,
            reserved: 0,
        })
    }

    /// A queue with room for `events` more, whichever come.
    #[inline]
    fn reserve(&mut self, events: u32) -> Result<u8, PortalsError> {
        let first = &mut self.queues[0];
        if first.reserved + events <= first.room {
            first.reserved += events;
            return Ok(0);
        }
        self.reserve_more(events)
    }

    #[cold]
    fn reserve_more(&mut self, events: u32) -> Result<u8, PortalsError> {
        let found = self.queues.iter().position(|q| q.reserved + events <= q.room);
        let at = match found {
            Some(at) => at,
            None => {
                let new = Self::queue(&self.ni, self.queues.len())?;
                self.queues.push(new);
                self.queues.len() - 1
            }
        };
        self.queues[at].reserved += events;
        Ok(at as u8)
    }

    #[inline(always)]
    fn release(&mut self, queue: u8, events: u32) {
        self.queues[usize::from(queue)].reserved -= events;
    }

    /// An agent interrupts a generic process for each message, and asks one whose memory it cannot reach to move bytes: until it has done so,
    /// messages of others wait behind.
    pub fn serves_agent(&self) -> bool {
        self.ni.mode().is_some() && !self.ni.is_served()
    }

    /// What match bits tell apart.
    pub fn limits(&self) -> Limits {
        Limits {
            tag_ub: self.layout.tag_ub(),
            count_bits: self.layout.count_bits(),
        }
    }

    #[inline(always)]
    fn target(&self, peer: Peer, pt_index: u32, match_bits: u64) -> Target {
        Target {
            id: self.ids[peer.index()],
            pt_index,
            ac_index: 0,
            match_bits,
            offset: 0,
        }
    }

    /// Whether only calls of ours let something move along that was begun.
    pub fn has_duties(&self) -> bool {
        let begun = self.sends.under_way() > 0 || self.awaits_fetches() || self.managed.awaited() > 0;
        // What an agent has not done when it ends will not be done.
        begun && !self.ni.agent_has_ended()
    }

    /// Before a sleep. True: nothing rings when what is under way moves.
    pub fn rest(&mut self) -> bool {
        self.ni.flush();
        if self.ni.attend() {
            self.needs_progress = true;
        }
        if let Some(agents) = &mut self.agents {
            agents.look_soon();
        }
        !self.ni.is_idle() && !self.ni.rings()
    }

    /// Whether an operation of ours was begun, or was not for want of an agent: that is noticed by itself.
    fn begun(done: Result<(), PortalsError>) -> bool {
        matches!(done, Ok(()) | Err(PortalsError::Fail))
    }

    /// Release a match entry and its descriptor, now or when nothing of it is in progress.
    fn unlink(&mut self, me: Handle) {
        if self.ni.me_unlink(me) == Err(PortalsError::MeInUse) {
            self.leftovers.push(me);
            self.needs_progress = true;
        }
    }

    #[cold]
    fn unlink_leftovers(&mut self) {
        let ni = &self.ni;
        self.leftovers
            .retain(|me| ni.me_unlink(*me) == Err(PortalsError::MeInUse));
    }
}

impl<F: Fabric> Chosen<F> {
    fn portals(&self) -> Option<&Portals<F>> {
        match self {
            Chosen::Portals(portals) => Some(portals),
            _ => None,
        }
    }

    fn portals_mut(&mut self) -> Option<&mut Portals<F>> {
        match self {
            Chosen::Portals(portals) => Some(portals),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::DeviceTunables;
    use farpost_portals::Limits;

    /// Posted receives have up to a quarter more entries than may be active; what is exposed for others and what is fetched have
    /// a share of the same size each.
    #[test]
    fn the_shares_of_an_interface_leave_something() {
        let most = |name| {
            let found = DeviceTunables::TABLE.iter().find(|tunable| tunable.name == name);
            found.expect("a tunable").max
        };
        let posted = most("FARPOST_PORTALS_POSTED");
        let all = most("FARPOST_PORTALS_EXPOSED") + posted + posted / 4 + 2 * most("FARPOST_PORTALS_FETCHES");
        assert!(all + 1024 <= Limits::LIBRARY.max_mes as u64, "{all} entries");
        assert!(all + 1024 <= Limits::LIBRARY.max_mds as u64, "{all} descriptors");
        assert!(
            all + 1024 <= Limits::LIBRARY.max_me_list as u64,
            "{all} entries of a list"
        );
    }
}
