//! The agent: structures and loop. Network first, then the hosts (paper, section 4.3).

use super::mailbox::{AGENT_BYTES, Control, LINES, QUEUE_AT, Reader, State, Title, Writer};
use super::moves;
use super::structures::{Arena, Room, Slab};
use super::words::{Bad, Pen, Piece, SMALL, event};
use super::{AgentTunables, Routes, agent_segment, envelope};
use crate::error::Error;
use crate::library::{HEADER_BYTES, Library, NO_TOKEN, Outgoing, Processes};
use crate::net::{Channel, Departure, Net, NetTunables, Occupancy, Outcome, Placement, RxId};
use crate::types::{Handle, Limits, NiFail};
use farpost_fabric::{
    Access, Direction, Fabric, FabricError, Fault, LocalMemory, Peer, Permission, Port, Priority, Remote,
    Ticket,
};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Bytes of one move before others have their turn.
const CHUNK: usize = 256 << 10;
/// Turns between two looks at the clock: a power of two.
const CLOCK: u64 = 256;
/// Time between two questions who has ended.
const ASK: Duration = Duration::from_millis(50);
/// Longest sleep: processes that end ring nobody.
const LONG: Duration = Duration::from_millis(50);

/// What has happened to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientFigures {
    /// It is being served.
    pub open: bool,
    /// It wrote what cannot be.
    pub faulty: bool,
    /// It takes no events: what comes for it is dropped.
    pub wedged: bool,
    /// Its process has ended.
    pub ended: bool,
    /// Messages for it that were dropped because of one of these, or because it is not open.
    pub dropped: u64,
    /// Messages for it that were refused for want of room, and came again.
    pub refused: u64,
}

/// What an agent's structures take: the formula of section 4.2, with the clients' pendings as further pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentOccupancy {
    /// The network layer's.
    pub net: Occupancy,
    /// Clients.
    pub clients: u64,
    /// Pendings of one: what it sends, of both channels, and what it is shown. And bytes of one.
    pub pendings: (u64, u64),
    /// Mailbox memory of one client, both sides, bytes.
    pub mailbox: u64,
    /// Memory for bodies, bytes: three times the setting.
    pub memory: u64,
}

impl AgentOccupancy {
    /// With these settings on fabric `F`.
    pub fn of<F: Fabric>(config: &AgentTunables, net: &NetTunables, clients: u64) -> Self {
        Self {
            net: Occupancy::of::<F>(net),
            clients,
            pendings: (
                2 * config.sends + config.pendings,
                (size_of::<Item>() + size_of::<Job>()) as u64,
            ),
            mailbox: (AGENT_BYTES + super::mailbox::CLIENT_BYTES) as u64,
            memory: 3 * config.memory,
        }
    }

    /// *M* = *S Ssize* + sum of *Pi Psize*, bytes. Mailboxes and memory for bodies are beside it.
    pub fn bytes(&self) -> u64 {
        self.net.bytes() + self.clients * self.pendings.0 * self.pendings.1
    }
}

/// Bytes being moved between the arena and a client.
pub(super) struct Move {
    pub pieces: Vec<Piece>,
    pub direction: Direction,
    /// Which arena.
    pub arena: usize,
    pub room: Room,
    /// Where in the room.
    pub at: usize,
    pub len: usize,
    pub done: usize,
    pub under_way: Option<(Ticket, usize)>,
}

impl Move {
    /// `len` bytes of a room of an arena, from `at` on.
    pub fn new(
        pieces: Vec<Piece>,
        direction: Direction,
        (arena, room, at): (usize, Room, usize),
        len: usize,
    ) -> Self {
        Self {
            pieces,
            direction,
            arena,
            room,
            at,
            len,
            done: 0,
            under_way: None,
        }
    }

    /// Go on. True: all has moved.
    fn advance<F: Fabric>(
        &mut self,
        fabric: &F,
        client: Peer,
        arenas: &[Arena; 3],
    ) -> Result<bool, FabricError> {
        let mut now = 0;
        loop {
            if let Some((ticket, len)) = self.under_way.take() {
                match fabric.poll_transfer(ticket) {
                    Ok(true) => self.done += len,
                    Ok(false) => {
                        self.under_way = Some((ticket, len));
                        return Ok(false);
                    }
                    Err(error) => return Err(error),
                }
            }
            if self.done >= self.len {
                return Ok(true);
            }
            if now >= CHUNK {
                return Ok(false);
            }
            let mut before = 0;
            let piece = self.pieces.iter().find_map(|piece| {
                let skip = self.done - before;
                if (skip as u64) < piece.len {
                    Some((piece, skip))
                } else {
                    before += piece.len as usize;
                    None
                }
            });
            let Some((piece, skip)) = piece else {
                return Ok(true);
            };
            let len = (piece.len as usize - skip).min(self.len - self.done).min(CHUNK);
            let local = arenas[self.arena].memory(self.room, self.at + self.done, len);
            let Some(local) = local.as_one() else {
                return Ok(true);
            };
            let far = (piece.position + skip as u64, piece.key);
            match moves::transfer(fabric, (client, self.direction), local, far)? {
                farpost_fabric::Completion::Done => self.done += len,
                farpost_fabric::Completion::Pending(ticket) => self.under_way = Some((ticket, len)),
            }
            now += len;
        }
    }
}

/// What is under way. `client` is an index, `era` says which of its lives is meant.
pub(super) enum Job {
    /// The network layer still reads this.
    Leaving(usize, Room),
    /// The body of the message at the head of a client's list is being fetched.
    Fetch { client: usize, channel: usize, mv: Move },
    /// A body arrives, then goes to the client.
    Deposit {
        client: usize,
        era: u32,
        token: u64,
        /// The pending of a generic client.
        pending: Option<u16>,
        mv: Move,
    },
    /// A get-put: its bytes arrive, then what was there is fetched, then they are put in its place.
    Swap {
        client: usize,
        era: u32,
        token: u64,
        mv: Move,
    },
}

/// Where a message's body is.
pub(super) enum BodyAt {
    Small([u8; SMALL], u8),
    Away(Vec<Piece>),
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

/// A place for a message that a generic client is shown: this is the lower half.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lower {
    Free,
    Shown(RxId),
    Receiving,
}

/// An order to receive that waits for memory.
pub(super) struct Order {
    pub pending: u16,
    pub token: u64,
    pub keep: u64,
    pub pieces: Vec<Piece>,
}

/// A client's objects, where the agent keeps them.
pub(super) struct Objects {
    pub library: Library,
    /// Descriptors and the memory they describe.
    pub exposed: Vec<(Handle, Vec<Piece>)>,
    /// Queues, and how many of their events have been forwarded.
    pub queues: Vec<(Handle, u64)>,
    pub dirty: bool,
    /// Get-puts whose bytes are here, in order; the first is being exchanged.
    pub swaps: VecDeque<u64>,
}

pub(super) enum Side {
    Generic {
        lower: Box<[Lower]>,
        orders: VecDeque<Order>,
    },
    Accelerated(Box<Objects>),
}

/// What there is while a client is served.
pub(super) struct Open<F: Fabric> {
    pub events: Writer<F::Import>,
    pub results: Writer<F::Import>,
    pub side: Side,
    /// Since when messages for it have been refused.
    pub refusing: Option<Instant>,
    /// Something was posted since it was rung.
    pub ring: bool,
}

pub(super) struct Entry<F: Fabric> {
    pub number: u32,
    pub memory: F::Export,
    pub commands: Reader<<F::Export as LocalMemory>::Lines>,
    pub import: Option<F::Import>,
    pub open: Option<Open<F>>,
    /// Answers for it while it is not open.
    pub closed: Library,
    pub era: u32,
    pub items: [VecDeque<Item>; 2],
    /// Messages it gave, by channel.
    pub given: [u64; 2],
    pub control: Control,
    pub told: Control,
    pub figures: ClientFigures,
}

impl<F: Fabric> Entry<F> {
    pub fn peer(&self) -> Peer {
        Peer(self.number)
    }
}

pub(super) struct Core<F: Fabric> {
    pub fabric: Rc<F>,
    pub routes: Rc<Routes>,
    pub processes: Rc<Processes>,
    pub config: AgentTunables,
    /// Memory for answers and for requests on their way out, and for what arrives: who waits for one of them never
    /// waits for another, or processes could wait for each other in a circle.
    pub arenas: [Arena; 3],
    pub jobs: Slab<Job>,
    /// Jobs with bytes to be moved.
    pub moving: Vec<u64>,
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

/// An agent. One thread runs it: [`step`](Self::step) in a loop of its own, or [`run`](Self::run).
pub struct Agent<F: Fabric> {
    net: Net<F>,
    core: Core<F>,
    turns: u64,
    asked: Instant,
    impatient: bool,
}

impl<F: Fabric> Agent<F> {
    /// The agent of those processes that `routes` sends by way of this one. Everything it needs is made here; its clients can
    /// attach from now on.
    ///
    /// # Errors
    /// [`FabricError`]: memory for the mailboxes cannot be had.
    ///
    /// # Panics
    /// When `processes` does not have a client.
    pub fn new(
        fabric: Rc<F>,
        config: &AgentTunables,
        net: &NetTunables,
        routes: Rc<Routes>,
        processes: Rc<Processes>,
    ) -> Result<Self, FabricError> {
        let me = fabric.me();
        let mut index = vec![NOBODY; routes.size() as usize];
        let mut clients = Vec::new();
        let nothing = Limits {
            max_mes: 0,
            max_mds: 0,
            max_eqs: 0,
            max_ac_index: 0,
            max_pt_index: 0,
            max_md_iovecs: 0,
            max_me_list: 0,
            max_getput_md: 0,
        };
        for number in routes.clients_of(me) {
            let access = Access::Only(vec![(Peer(number), Permission::ReadWrite)]);
            let memory = fabric.export(agent_segment(number), AGENT_BYTES, access)?;
            let closed = Library::new(0, 0, number, Rc::clone(&processes), Some(&nothing));
            index[number as usize] = clients.len() as u32;
            let items = || VecDeque::with_capacity(config.sends as usize + super::arrive::ANSWERS);
            clients.push(Entry {
                number,
                commands: Reader::new(&memory, QUEUE_AT, LINES),
                memory,
                import: None,
                open: None,
                closed: closed.expect("a client that is one of the processes"),
                era: 0,
                items: [items(), items()],
                given: [0; 2],
                control: Control {
                    sends: config.sends,
                    ..Control::default()
                },
                told: Control::default(),
                figures: ClientFigures::default(),
            });
        }
        let jobs = 2 * net.tx_pendings + net.rx_pendings + 4 * clients.len() as u64;
        Ok(Self {
            core: Core {
                routes,
                processes,
                config: config.clone(),
                arenas: std::array::from_fn(|_| Arena::new(config.memory as usize)),
                jobs: Slab::new(jobs as usize),
                moving: Vec::with_capacity(jobs as usize),
                clients,
                index,
                placements: Vec::new(),
                words: Vec::new(),
                pen: Pen::default(),
                fabric: Rc::clone(&fabric),
            },
            impatient: net.resend == 0,
            net: Net::new(fabric, net),
            turns: 0,
            asked: Instant::now(),
        })
    }

    /// The network layer.
    pub fn net(&self) -> &Net<F> {
        &self.net
    }

    /// What has happened to a client. None: it is not one of this agent's.
    pub fn client(&self, number: u32) -> Option<ClientFigures> {
        let at = self.core.find(number)?;
        Some(self.core.clients[at].figures)
    }

    /// Lines of a client's commands that have been taken, modulo 2^32; 0 of whom is no client.
    pub fn commands_taken(&self, number: u32) -> u32 {
        self.core
            .find(number)
            .map_or(0, |at| self.core.clients[at].commands.taken())
    }

    /// What waits where, for people.
    pub fn state(&self) -> String {
        let client = |c: &Entry<F>| {
            let waiting = c.items.each_ref().map(VecDeque::len);
            format!("client {}: {waiting:?} waiting, {:?}", c.number, c.figures)
        };
        let clients: Vec<String> = self.core.clients.iter().map(client).collect();
        format!(
            "{:?}; {} jobs moving; {:?}",
            clients,
            self.core.moving.len(),
            self.net.figures()
        )
    }

    /// Pages of the memory for bodies that are in use.
    pub fn pages_used(&self) -> usize {
        self.core.arenas.iter().map(Arena::pages_used).sum()
    }

    /// Whether nothing is under way, as far as the agent knows.
    pub fn is_idle(&self) -> bool {
        self.core.jobs.is_empty()
            && self
                .core
                .clients
                .iter()
                .all(|c| c.items.iter().all(VecDeque::is_empty))
            && self.net.is_idle()
    }

    /// One turn. True: something happened.
    pub fn step(&mut self) -> bool {
        self.turns += 1;
        let core = &mut self.core;
        let mut moved = self.net.progress(core);
        for at in 0..core.clients.len() {
            moved |= core.serve(at);
        }
        moved |= core.advance();
        for at in 0..core.clients.len() {
            moved |= core.receive_orders(at);
        }
        for (id, placement) in core.placements.drain(..) {
            self.net.place(id, placement);
            moved = true;
        }
        for at in 0..core.clients.len() {
            for channel in [Channel::Answer, Channel::Request] {
                moved |= core.transmit(&self.net, at, channel);
            }
            moved |= core.forward(at);
            core.tell(at);
        }
        if self.turns.is_multiple_of(CLOCK) {
            self.ask_who_has_ended();
        }
        moved
    }

    /// Serve until `stop` says so. Sleeps when there is nothing to do.
    pub fn run(&mut self, mut stop: impl FnMut() -> bool) {
        let mut idle = 0u32;
        while !stop() {
            if self.step() {
                idle = 0;
                continue;
            }
            idle += 1;
            if idle < 200 {
                std::hint::spin_loop();
            } else if idle < 400 || !self.is_idle() {
                std::thread::yield_now();
            } else {
                self.net.flush();
                let core = &self.core;
                core.fabric.sleep(LONG, &mut || core.is_ready());
                self.ask_who_has_ended();
            }
        }
    }

    fn ask_who_has_ended(&mut self) {
        let now = Instant::now();
        if !self.impatient && now.duration_since(self.asked) < ASK {
            return;
        }
        self.asked = now;
        let core = &mut self.core;
        for at in 0..core.clients.len() {
            if !core.clients[at].figures.ended && core.fabric.has_ended(core.clients[at].peer()) {
                // What it asked before is still done.
                core.clients[at].figures.ended = true;
                core.clear(at);
            }
            core.tell_of_the_ended(at);
        }
    }
}

impl<F: Fabric> Core<F> {
    pub fn find(&self, number: u32) -> Option<usize> {
        let at = *self.index.get(number as usize)?;
        (at != NOBODY).then_some(at as usize)
    }

    fn is_ready(&self) -> bool {
        self.fabric.progress();
        self.clients.iter().any(|c| c.commands.waits())
            || Priority::ALL
                .iter()
                .any(|p| self.fabric.packets_waiting(Port::Portals, *p, 1) > 0)
    }

    /// A client wrote what cannot be: it is not served any more.
    #[cold]
    pub fn fault(&mut self, at: usize, bad: Bad) {
        let peer = self.clients[at].peer();
        self.fabric.record_fault(Fault {
            peer,
            error: FabricError::Corrupt {
                peer,
                what: bad.what,
                value: bad.value,
            },
        });
        self.clients[at].figures.faulty = true;
        self.clear(at);
        self.set_state(at, State::Faulty);
    }

    pub fn set_state(&mut self, at: usize, state: State) {
        self.clients[at].control.state = state as u64;
        self.clients[at].figures.open = state == State::Open;
    }

    /// Forget all that a client has here.
    #[cold]
    pub fn clear(&mut self, at: usize) {
        let entry = &mut self.clients[at];
        entry.era += 1;
        entry.figures.open = false;
        entry.figures.wedged = false;
        for (items, arena) in entry.items.iter_mut().zip(&mut self.arenas) {
            for item in items.drain(..) {
                if let BodyAt::Here(room) = item.body {
                    arena.give_back(room);
                }
            }
        }
        if let Some(open) = entry.open.take()
            && let Side::Generic { lower, .. } = open.side
        {
            for lower in lower {
                if let Lower::Shown(id) = lower {
                    self.placements.push((id, Placement::Discard));
                }
            }
        }
        // What the network layer is still writing ends when it has ended.
        let (moving, jobs, arenas, fabric) =
            (&mut self.moving, &mut self.jobs, &mut self.arenas, &self.fabric);
        let mut over: Vec<u64> = jobs.names(|job| matches!(job, Job::Swap { client, mv, .. } if *client == at && mv.direction == Direction::Get));
        moving.retain(|name| {
            let its = match jobs.get(*name) {
                Some(Job::Fetch { client, .. } | Job::Deposit { client, .. } | Job::Swap { client, .. }) => {
                    *client == at
                }
                _ => false,
            };
            if its && !over.contains(name) {
                over.push(*name);
            }
            !its
        });
        for name in over {
            if let Some(Job::Fetch { mv, .. } | Job::Deposit { mv, .. } | Job::Swap { mv, .. }) =
                jobs.remove(name)
            {
                if let Some((ticket, _)) = mv.under_way {
                    fabric.cancel_transfer(ticket);
                }
                arenas[mv.arena].give_back(mv.room);
            }
        }
    }

    /// Post an event. False: the queue is full.
    pub fn post(&mut self, at: usize, title: Title, words: &[u64]) -> bool {
        let Some(open) = &mut self.clients[at].open else {
            return false;
        };
        let posted = open.events.put(title, words).unwrap_or(false);
        open.ring |= posted;
        posted
    }

    /// Post what a generic client always has room for, unless it lies about what it has taken.
    pub fn post_outcome(&mut self, at: usize, kind: u8, token: u64, outcome: NiFail) {
        let words = [token, u64::from(outcome.0)];
        if self.clients[at].open.is_some() && !self.post(at, Title { kind, aux: 0 }, &words) {
            self.fault(
                at,
                Bad {
                    what: "the number of events taken",
                    value: token,
                },
            );
        }
    }

    /// The memory of a message's body is free again, or what was to be stored is.
    pub fn finished(&mut self, at: usize, token: u64, outcome: NiFail) {
        if token == NO_TOKEN {
            return;
        }
        match self.clients[at].open.as_mut().map(|open| &mut open.side) {
            Some(Side::Generic { .. }) => self.post_outcome(at, event::SENT, token, outcome),
            Some(Side::Accelerated(objects)) => {
                if let Some(answer) = objects.library.finished(token, outcome) {
                    self.push(at, Channel::Answer, answer, false);
                }
            }
            None => {}
        }
    }

    /// A message of an accelerated client's, or an answer in the name of one that is not open.
    pub fn push(&mut self, at: usize, channel: Channel, message: Outgoing, counted: bool) {
        let body = if message.body.is_empty() {
            BodyAt::Small([0; SMALL], 0)
        } else {
            match &self.clients[at].open {
                Some(Open {
                    side: Side::Accelerated(objects),
                    ..
                }) => objects
                    .pieces_of(&message.body)
                    .map_or(BodyAt::Lost, BodyAt::Away),
                _ => BodyAt::Lost,
            }
        };
        self.clients[at].items[channel as usize].push_back(Item {
            to: message.to,
            header: message.header,
            len: message.body.len() as u64,
            body,
            token: message.token,
            counted,
        });
    }

    /// Send what is at the head of a client's list, for as long as there are pendings.
    fn transmit(&mut self, net: &Net<F>, at: usize, channel: Channel) -> bool {
        let mut moved = false;
        let number = self.clients[at].number;
        while let Some(item) = self.clients[at].items[channel as usize].front_mut() {
            let len = item.len as usize;
            match &mut item.body {
                BodyAt::Moving => break,
                BodyAt::Away(pieces) => {
                    if !self.arenas[channel as usize].could_hold(item.len) {
                        item.body = BodyAt::Lost;
                        continue;
                    }
                    if self.jobs.is_full() {
                        break;
                    }
                    let Some(room) = self.arenas[channel as usize].take(item.len) else {
                        break;
                    };
                    let mv = Move::new(
                        std::mem::take(pieces),
                        Direction::Get,
                        (channel as usize, room, 0),
                        len,
                    );
                    item.body = BodyAt::Moving;
                    let job = Job::Fetch {
                        client: at,
                        channel: channel as usize,
                        mv,
                    };
                    if let Some(name) = self.jobs.insert(job) {
                        self.moving.push(name);
                        self.advance_one(name);
                    }
                    moved = true;
                    continue;
                }
                BodyAt::Small(bytes, used) if *used > 0 => {
                    let Some(room) = self.arenas[channel as usize].take(u64::from(*used)) else {
                        break;
                    };
                    let len = usize::from(*used);
                    moves::store(&self.arenas[channel as usize].memory(room, 0, len), &bytes[..len]);
                    item.body = BodyAt::Here(room);
                }
                _ => {}
            }
            let outcome = match item.body {
                BodyAt::Lost => NiFail::FAIL,
                BodyAt::Here(room) => {
                    let body = self.arenas[channel as usize].memory(room, 0, len);
                    // Made before: the message may wait in the network layer.
                    let Some(name) = self.jobs.insert(Job::Leaving(channel as usize, room)) else {
                        break;
                    };
                    match send(net, &self.routes, number, channel, item, &body, name) {
                        None => {
                            self.jobs.remove(name);
                            break;
                        }
                        Some(Departure::Waits) => {}
                        Some(Departure::Gone) => {
                            self.jobs.remove(name);
                            self.arenas[channel as usize].give_back(room);
                        }
                    }
                    NiFail::OK
                }
                _ => {
                    if send(
                        net,
                        &self.routes,
                        number,
                        channel,
                        item,
                        &Default::default(),
                        NO_TOKEN,
                    )
                    .is_none()
                    {
                        break;
                    }
                    NiFail::OK
                }
            };
            moved = true;
            let entry = &mut self.clients[at];
            if let Some(item) = entry.items[channel as usize].pop_front() {
                entry.control.sent[channel as usize] += u64::from(item.counted);
                self.finished(at, item.token, outcome);
            }
        }
        moved
    }

    /// Move bytes. True: some have moved.
    fn advance(&mut self) -> bool {
        let mut moved = false;
        for name in self.moving.clone() {
            moved |= self.advance_one(name);
        }
        moved
    }

    pub fn advance_one(&mut self, name: u64) -> bool {
        let Core {
            fabric,
            jobs,
            arenas,
            clients,
            ..
        } = self;
        let (client, mv) = match jobs.get(name) {
            Some(
                Job::Fetch { client, mv, .. }
                | Job::Deposit { client, mv, .. }
                | Job::Swap { client, mv, .. },
            ) => (*client, mv),
            _ => return false,
        };
        let before = mv.done;
        let outcome = match mv.advance(&**fabric, clients[client].peer(), arenas) {
            Ok(false) => return mv.done > before,
            Ok(true) => NiFail::OK,
            Err(_) => NiFail::FAIL,
        };
        self.moving.retain(|other| *other != name);
        self.moved(name, outcome);
        true
    }

    /// All bytes of a job have moved, or cannot.
    fn moved(&mut self, name: u64, outcome: NiFail) {
        if matches!(self.jobs.get(name), Some(Job::Swap { .. })) {
            return self.swap_moved(name, outcome);
        }
        match self.jobs.remove(name) {
            Some(Job::Fetch {
                client, channel, mv, ..
            }) => {
                let Some(item) = self.clients[client].items[channel].front_mut() else {
                    return;
                };
                if outcome == NiFail::OK {
                    item.body = BodyAt::Here(mv.room);
                    // The program's memory is free already.
                    let token = std::mem::replace(&mut item.token, NO_TOKEN);
                    self.finished(client, token, NiFail::OK);
                } else {
                    item.body = BodyAt::Lost;
                    self.arenas[mv.arena].give_back(mv.room);
                }
            }
            Some(Job::Deposit {
                client,
                token,
                pending,
                mv,
                ..
            }) => {
                self.arenas[mv.arena].give_back(mv.room);
                self.stored(client, token, pending, outcome);
            }
            _ => {}
        }
    }

    /// A body is where it belongs, or will never be.
    pub fn stored(&mut self, at: usize, token: u64, pending: Option<u16>, outcome: NiFail) {
        match (self.clients[at].open.as_mut().map(|o| &mut o.side), pending) {
            (Some(Side::Generic { lower, .. }), Some(pending)) => {
                lower[usize::from(pending)] = Lower::Free;
                self.post_outcome(at, event::DEPOSITED, token, outcome);
            }
            _ => self.finished(at, token, outcome),
        }
    }

    /// Tell a client how far it has been served, and ring it.
    fn tell(&mut self, at: usize) {
        let entry = &mut self.clients[at];
        entry.control.taken = u64::from(entry.commands.taken());
        if entry.control != entry.told
            && let Some(import) = &entry.import
        {
            // The same line again: what was put before must not come later.
            let _ = import
                .order()
                .and_then(|()| import.put_line(0, &entry.control.line()));
            entry.told = entry.control;
            self.fabric.wake(Peer(self.clients[at].number));
        }
        if let Some(open) = &mut self.clients[at].open
            && std::mem::take(&mut open.ring)
        {
            self.fabric.wake(Peer(self.clients[at].number));
        }
    }

    /// What accelerated clients wait for from processes that have ended, or whose agents have, will not come.
    #[cold]
    fn tell_of_the_ended(&mut self, at: usize) {
        let awaited = match &self.clients[at].open {
            Some(Open {
                side: Side::Accelerated(objects),
                ..
            }) => objects.library.awaited(),
            _ => return,
        };
        for number in awaited {
            let via = self.routes.via(number).unwrap_or(Peer(number));
            let ended = |peer: Peer| peer != self.fabric.me() && self.fabric.has_ended(peer);
            if ended(Peer(number)) || ended(via) {
                if let Some(Open {
                    side: Side::Accelerated(objects),
                    ..
                }) = &mut self.clients[at].open
                {
                    objects.library.peer_ended(number);
                }
                self.collect(at);
            }
        }
    }
}

fn send<F: Fabric>(
    net: &Net<F>,
    routes: &Routes,
    from: u32,
    channel: Channel,
    item: &Item,
    body: &crate::memory::Segments,
    token: u64,
) -> Option<Departure> {
    let via = routes.via(item.to)?;
    let header = envelope(&item.header, item.to, from);
    net.send(via, channel, &header, body, token).ok()
}

/// A network layer's word for how it went.
pub(super) fn fail_of(outcome: Outcome) -> NiFail {
    match outcome {
        Outcome::Done => NiFail::OK,
        Outcome::PeerEnded => NiFail::UNDELIVERABLE,
        Outcome::Failed => NiFail::FAIL,
    }
}

/// The code of an error, for a result.
pub(super) fn code_of<T>(result: &Result<T, Error>) -> u16 {
    result.as_ref().err().map_or(0, |error| error.code() as u16)
}
