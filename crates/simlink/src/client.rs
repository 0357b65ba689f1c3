//! The link of a process of its own: questions to the coordinator, which lets one process run at a time.
//!
//! The process keeps its clock between two questions, and asks about nothing that cannot have changed.

use crate::calls::Calls;
use crate::compute::Meters;
use crate::connection::{Buffers, Connection, WRONG};
use crate::link::{Arrived, Link, OpId};
use crate::shared_clock;
use crate::time::Ps;
use crate::wire::{
    Admitted, Answer, Ask, Bytes, Compute, INLINE, Question, Reply, VERSION, Welcome, faults_of,
    permission_of, route_of, transfer_of, writes,
};
use farpost_fabric::{
    Access, Cost, Counter, Descriptor, Fault, FaultLog, Grant, Peer, Permission, Result, Route, SegmentId,
    TrySend,
};
use farpost_mapped::Mapping;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

/// The link of this process to its coordinator.
pub struct Client {
    connection: Connection,
    me: Peer,
    welcome: Welcome,
    neighbours: u32,
    horizon: Cell<u64>,
    touched: Cell<bool>,
    faulted: Cell<bool>,
    faults: RefCell<FaultLog>,
    dead: RefCell<BTreeSet<u32>>,
    /// Processes that the coordinator says are dead.
    deaths: Cell<u32>,
    left: Cell<bool>,
    buffers: RefCell<Buffers>,
    calls: Calls,
    /// What the program computes between calls; calls end about when the library last had an answer.
    meters: RefCell<Option<Meters>>,
}

/// A peer's segment, by the coordinator's number.
#[derive(Clone, Copy)]
pub struct Handle(u32);

impl Client {
    /// Become process `rank` of `size` of the machine whose coordinator has this socket. Returns when this process runs for the first time.
    ///
    /// # Errors
    /// A sentence: nobody is there, or refuses.
    pub fn connect(name: &str, rank: u32, size: u32) -> Result<Self, String> {
        let connection = Connection::to(name)
            .map_err(|error| format!("reaching the simulation's coordinator at {name}: {error}"))?;
        let mut buffers = Buffers::default();
        let ask = Ask::Hello {
            version: VERSION,
            rank,
            size,
        };
        let first = Question {
            spent: 0,
            polls: 0,
            call: "",
            ask,
        };
        let answer = connection
            .ask(&first, &mut buffers)
            .map_err(|why| format!("the simulation's coordinator at {name}: {why}"))?;
        let welcome = match answer.reply {
            Reply::Welcome(welcome) => *welcome,
            Reply::Failed(error) => return Err(farpost_fabric::FabricError::from(error).to_string()),
            _ => return Err(WRONG.into()),
        };
        if welcome.host_of.len() != size as usize {
            return Err(format!(
                "the simulation's coordinator at {name} has {} processes, this job {size}",
                welcome.host_of.len()
            ));
        }
        shared_clock::begin(Ps(welcome.tick));
        shared_clock::set(answer.clock);
        let meters = match (connection.instructions(), welcome.compute) {
            (Some(count), Compute::Counted(megahertz)) => Some(Meters::shared(count, megahertz)),
            (_, wished) => Meters::new(wished)?,
        };
        let mine = welcome.host_of[rank as usize];
        Ok(Self {
            connection,
            me: Peer(rank),
            neighbours: welcome.host_of.iter().filter(|host| **host == mine).count() as u32,
            welcome,
            horizon: Cell::new(answer.horizon),
            touched: Cell::new(answer.touched),
            faulted: Cell::new(answer.faulted),
            faults: RefCell::default(),
            dead: RefCell::default(),
            deaths: Cell::new(answer.dead),
            left: Cell::new(false),
            buffers: RefCell::new(buffers),
            calls: Calls::default(),
            meters: RefCell::new(meters),
        })
    }

    /// What is known of the machine.
    pub fn machine(&self) -> &Welcome {
        &self.welcome
    }

    /// Whether the coordinator is within this process, as are all others: it has one thread.
    pub fn is_within(&self) -> bool {
        self.connection.is_within()
    }

    /// The program calls a function of an interface. What it did since the last call's end is what it computed; calls take no virtual time outside of
    /// what they ask and charge.
    pub fn enter(&self, name: &'static str) {
        let is_time = self.calls.begin(name);
        let ended = shared_clock::now().0;
        let mut meters = self.meters.borrow_mut();
        let computed = meters.as_mut().map_or(Ps::ZERO, Meters::call_begins);
        let computed = computed.times(self.welcome.slow).0;
        drop(meters);
        if self.welcome.calls {
            self.ask(Ask::Call {
                name,
                ended,
                computed,
            });
        } else {
            self.spend(Ps(computed));
            if is_time {
                self.ask(Ask::Sync);
            }
        }
    }

    fn question<'a>(&self, ask: Ask<'a>) -> Question<'a> {
        let (polls, call) = self.calls.take();
        Question {
            spent: shared_clock::take_spent(),
            polls,
            call,
            ask,
        }
    }

    fn ask(&self, ask: Ask<'_>) -> Reply {
        if self.left.get() && !matches!(ask, Ask::Leave) {
            return self.after_leaving(&ask);
        }
        // That the program calls is no look of the call's own.
        if !matches!(ask, Ask::Call { .. }) {
            self.calls.looks();
        }
        let buffers = &mut *self.buffers.borrow_mut();
        let answer = self.connection.ask(&self.question(ask), buffers);
        self.take(answer)
    }

    /// What another thread asks, which was waiting when the process left the job: nothing happens any more.
    #[cold]
    fn after_leaving(&self, ask: &Ask<'_>) -> Reply {
        match ask {
            Ask::Sync | Ask::Sleep { .. } | Ask::Rest | Ask::Withdraw { .. } => Reply::Done,
            Ask::TrySend { .. } => Reply::Yes(true),
            Ask::Poll { .. } => Reply::Packet(None),
            Ask::Waiting { .. } | Ask::Random => Reply::Number(0),
            Ask::Ended { .. } => Reply::Ended(Some(Ok(()))),
            Ask::TakeFaults => Reply::Faults {
                first: Vec::new(),
                more: 0,
                dead: self.dead.borrow().iter().copied().collect(),
            },
            _ => Reply::Failed(farpost_fabric::FabricError::dead(self.me, "it has left the job").into()),
        }
    }

    /// The machine as the answer says it is now.
    fn take(&self, answer: Result<Answer, String>) -> Reply {
        match answer {
            Ok(answer) => {
                shared_clock::set(answer.clock);
                self.horizon.set(answer.horizon);
                self.touched.set(self.touched.get() | answer.touched);
                self.faulted.set(answer.faulted);
                self.deaths.set(answer.dead);
                if let Some(meters) = &mut *self.meters.borrow_mut() {
                    meters.call_ends();
                }
                answer.reply
            }
            // Without the machine there is no time any more in which anything could be reported to the program.
            Err(why) => {
                eprintln!("farpost: process {}: the simulation has ended: {why}", self.me.0);
                std::process::exit(1)
            }
        }
    }

    /// The program waits outside the library for what only others can bring about: they run until something has happened to this process. `is_over` says, now
    /// and then, that the program is back.
    pub fn rest(&self, is_over: impl Fn() -> bool) {
        if self.touched.replace(false) {
            return;
        }
        let answer = self.connection.rest(self.question(Ask::Rest), is_over);
        self.take(answer);
        // Whoever asked for this looks around now.
        self.touched.set(false);
    }

    /// Real time for which a process may ask nothing before others run on.
    pub fn patience(&self) -> Duration {
        Duration::from_nanos(self.welcome.patience)
    }

    fn done(&self, ask: Ask<'_>) -> Result<()> {
        match self.ask(ask) {
            Reply::Done => Ok(()),
            Reply::Failed(error) => Err(error.into()),
            _ => wrong(),
        }
    }

    fn number(&self, ask: Ask<'_>) -> Result<u64> {
        match self.ask(ask) {
            Reply::Number(number) => Ok(number),
            Reply::Failed(error) => Err(error.into()),
            _ => wrong(),
        }
    }

    fn op(&self, ask: Ask<'_>) -> Result<OpId> {
        self.number(ask).map(|number| OpId(number as usize))
    }

    /// What the coordinator has recorded.
    fn fetch_faults(&self) -> (Vec<Fault>, u64) {
        match self.ask(Ask::TakeFaults) {
            Reply::Faults { first, more, dead } => {
                *self.dead.borrow_mut() = dead.into_iter().collect();
                (faults_of(first), more)
            }
            _ => wrong(),
        }
    }
}

fn wrong() -> ! {
    eprintln!("farpost: {WRONG}");
    std::process::exit(1)
}

/// As long as memory with a file behind it would be; what is too long for a number is left to the system to refuse.
fn whole_pages(len: usize) -> usize {
    const PAGE: usize = 4096;
    let len = len.max(1).checked_next_multiple_of(PAGE);
    len.unwrap_or(usize::MAX & !(PAGE - 1))
}

impl Link for Client {
    /// As other networks' between processes: which one it is, is chosen when the process starts.
    const PACKET_BYTES: usize = farpost_fabric::PACKET_BYTES;
    type Memory = Mapping;
    type Reached = Handle;

    fn me(&self) -> Peer {
        self.me
    }

    fn size(&self) -> u32 {
        self.welcome.host_of.len() as u32
    }

    fn hosts(&self) -> u32 {
        self.welcome.host_of.iter().max().map_or(1, |most| most + 1)
    }

    fn host_of(&self, peer: Peer) -> u32 {
        self.welcome.host_of.get(peer.index()).copied().unwrap_or(0)
    }

    fn rails(&self) -> u32 {
        self.welcome.rails
    }

    fn neighbours(&self) -> u32 {
        self.neighbours
    }

    fn now(&self) -> Ps {
        shared_clock::now()
    }

    fn spend(&self, time: Ps) {
        shared_clock::spend(time);
    }

    fn cost(&self, cost: Cost) -> Ps {
        self.welcome.costs.of(cost)
    }

    fn take_touched(&self) -> bool {
        self.touched.replace(false)
    }

    fn sync(&self) {
        self.calls.looks();
        if self.now().0 >= self.horizon.get() {
            self.ask(Ask::Sync);
        }
    }

    fn sleep(&self, period: Ps, deadline: Ps) {
        let (period, deadline) = (period.0, deadline.0);
        self.ask(Ask::Sleep { period, deadline });
    }

    fn random(&self) -> u64 {
        self.number(Ask::Random).unwrap_or_default()
    }

    fn try_send(&self, peer: Peer, lane: usize, route: Route, bytes: &[u8]) -> TrySend {
        let ask = Ask::TrySend {
            peer: peer.0,
            lane: lane as u8,
            route: route_of(route),
            bytes,
        };
        match self.ask(ask) {
            Reply::Yes(true) => TrySend::Sent,
            Reply::Yes(false) => TrySend::Full,
            _ => wrong(),
        }
    }

    fn poll(&self, lane: usize) -> Option<Arrived> {
        match self.ask(Ask::Poll { lane: lane as u8 }) {
            Reply::Packet(packet) => packet.map(|(from, bytes)| Arrived {
                from: Peer(from),
                bytes,
            }),
            _ => wrong(),
        }
    }

    fn waiting(&self, lane: usize, limit: u32) -> u32 {
        let lane = lane as u8;
        self.number(Ask::Waiting { lane, limit }).unwrap_or_default() as u32
    }

    fn allocate(&self, len: usize) -> Result<Mapping> {
        match self.is_within() {
            // A descriptor and a mapping of the system's for each are too many for thousands of ranks.
            true => Mapping::private(whole_pages(len), (self.me, SegmentId(0))),
            false => Mapping::shared(len),
        }
    }

    fn detach(&self, memory: &Mapping) -> Result<()> {
        memory.renew()
    }

    fn clear(&self, memory: &Mapping, range: std::ops::Range<usize>) {
        memory.give_back(range);
    }

    fn publish(&self, id: SegmentId, memory: &Mapping, access: Access) -> Result<()> {
        self.done(Ask::Publish {
            id: id.0,
            address: memory.address() as u64,
            len: farpost_fabric::LocalMemory::len(memory) as u64,
            access: Admitted::from(&access),
        })
    }

    fn republish(&self, id: SegmentId, access: Access) -> Result<()> {
        let access = Admitted::from(&access);
        self.done(Ask::Republish { id: id.0, access })
    }

    fn unpublish(&self, id: SegmentId) -> Result<()> {
        self.done(Ask::Unpublish { id: id.0 })
    }

    fn import(&self, peer: Peer, id: SegmentId, wanted: (Permission, usize)) -> Result<(Handle, Grant)> {
        let reply = self.ask(Ask::Import {
            peer: peer.0,
            id: id.0,
            writes: writes(wanted.0),
            len: wanted.1 as u64,
        });
        match reply {
            Reply::Imported { handle, len, writes } => {
                let granted = Some(permission_of(writes));
                let grant = Grant::new((peer, id), len as usize, granted, wanted)?;
                Ok((Handle(handle), grant))
            }
            Reply::Failed(error) => Err(error.into()),
            _ => wrong(),
        }
    }

    fn put(&self, to: &Handle, offset: usize, bytes: &[u8], whole: bool) -> Result<()> {
        let bytes = if bytes.len() <= INLINE {
            Bytes::With(bytes)
        } else {
            Bytes::At {
                address: bytes.as_ptr().expose_provenance() as u64,
                len: bytes.len() as u64,
            }
        };
        self.done(Ask::Put {
            to: to.0,
            offset: offset as u64,
            whole,
            bytes,
        })
    }

    fn get(&self, from: &Handle, offset: usize, len: usize) -> Result<OpId> {
        self.op(Ask::Get {
            from: from.0,
            offset: offset as u64,
            len: len as u64,
        })
    }

    fn fence(&self, of: &Handle) -> Result<OpId> {
        self.op(Ask::Fence { of: of.0 })
    }

    fn fenced(&self, of: &Handle) -> Result<()> {
        self.done(Ask::Fenced { of: of.0 })
    }

    fn transfers(&self, peer: Peer) -> bool {
        self.welcome.transfers[usize::from(self.host_of(peer) != self.host_of(self.me))]
    }

    fn expose(&self, peer: Peer, address: usize, len: usize) -> Result<u64> {
        self.number(Ask::Expose {
            peer: peer.0,
            address: address as u64,
            len: len as u64,
        })
    }

    fn withdraw(&self, key: u64) {
        self.ask(Ask::Withdraw { key });
    }

    fn transfer(&self, descriptor: &Descriptor) -> Result<OpId> {
        self.op(transfer_of(descriptor))
    }

    fn ended(&self, op: OpId, into: &mut [u8]) -> Option<Result<()>> {
        let reply = self.ask(Ask::Ended {
            op: op.0 as u64,
            address: into.as_mut_ptr().expose_provenance() as u64,
            len: into.len() as u64,
        });
        match reply {
            Reply::Ended(ended) => ended.map(|result| result.map_err(Into::into)),
            _ => wrong(),
        }
    }

    fn record_fault(&self, fault: Fault) {
        self.faults.borrow_mut().record(fault);
    }

    fn take_faults(&self) -> (Vec<Fault>, u64) {
        let (mut faults, mut more) = self.faults.borrow_mut().take();
        if self.faulted.get() {
            let (others, further) = self.fetch_faults();
            faults.extend(others);
            more += further;
        }
        (faults, more)
    }

    fn faulted(&self) -> bool {
        self.faulted.get() || !self.faults.borrow().is_empty()
    }

    fn is_dead(&self, peer: Peer) -> bool {
        let known = self.dead.borrow().len() as u32;
        if self.deaths.get() != known {
            let (faults, _) = self.fetch_faults();
            for fault in faults {
                self.record_fault(fault);
            }
        }
        self.dead.borrow().contains(&peer.0)
    }

    /// The host's memory of the job has the counters.
    fn count(&self, _about: Peer, _counter: Counter, _amount: u64) {}

    fn counter(&self, _of: Peer, _about: Peer, _counter: Counter) -> u64 {
        0
    }

    fn leave(&self) {
        if !self.left.replace(true) {
            self.ask(Ask::Leave);
        }
    }
}

/// The end of a process of its own.
pub type ProcessEnd = crate::SimFabric<Client>;

impl farpost_net::NetFabric for ProcessEnd {}
