//! Agents and clients in one thread.
#![allow(dead_code)] // Each test uses some of it.

use crate::common::{self, SMALL, pattern};
use farpost_fabric::inproc::{self, InProc, Network};
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{Fabric, Peer};
use farpost_portals::agent::{Agent, AgentTunables, AttachError, Client, Mode, Routes};
use farpost_portals::net::NetTunables;
use farpost_portals::{
    AckReq, AnyInterface, Error, Event, EventKind, Handle, Interface, Md, NetworkInterface, NiFail, Position,
    ProcessId, Processes, Target, Unlink, option,
};
use farpost_shm::{Shm, ShmTunables};
use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::time::Duration;

pub struct Config {
    pub net: NetTunables,
    pub sends: u64,
    pub pendings: u64,
    pub memory: u64,
    pub objects: u64,
    pub patience: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            net: SMALL,
            sends: 8,
            pendings: 8,
            memory: 1 << 20,
            objects: 8 << 20,
            patience: 60_000,
        }
    }
}

impl Config {
    /// So many structures for targets and sources.
    pub fn with_sources(sources: u64) -> Self {
        let mut config = Self::default();
        config.net.sources = sources;
        config
    }

    /// So many pendings of each kind, and structures for two peers.
    pub fn with_pools(size: u64) -> Self {
        let mut config = Self {
            sends: size,
            pendings: size,
            memory: 300 << 10,
            ..Self::default()
        };
        config.net.tx_pendings = size;
        config.net.rx_pendings = size;
        config.net.sources = size;
        config.net.window = size;
        config.net.staging = 1;
        config
    }
}

pub fn inproc(size: u32, seed: u64) -> Vec<Rc<InProc>> {
    Network::new(size, seed, inproc::Config::default())
        .into_iter()
        .map(Rc::new)
        .collect()
}

/// Processes that cannot reach each other's memory.
pub fn inproc_apart(size: u32, seed: u64) -> Vec<Rc<InProc>> {
    let config = inproc::Config {
        bulk: false,
        ..inproc::Config::default()
    };
    let ends = Network::new(size, seed, config);
    ends.into_iter().map(Rc::new).collect()
}

/// The same on shared memory.
pub fn shm_apart(size: u32) -> Vec<Rc<Shm>> {
    let tunables = ShmTunables {
        cma: 0,
        ..ShmTunables::default()
    };
    common::shm(size, &tunables)
}

pub fn shm(size: u32) -> Vec<Rc<Shm>> {
    common::shm(size, &ShmTunables::default())
}

/// Bytes of everybody's window.
const WINDOW: usize = 512 << 10;

struct Member<F: Fabric> {
    mode: Option<Mode>,
    client: AnyInterface<F>,
    /// What others put to and get from, and the queue of that.
    window: RefCell<Vec<u8>>,
    events: Handle,
    absent: Cell<bool>,
}

type Agents<F> = Rc<RefCell<Vec<(u32, Agent<F>)>>>;

pub struct World<F: Fabric> {
    fabrics: Vec<Rc<F>>,
    agents: Agents<F>,
    members: Vec<(u32, Member<F>)>,
    routes: Rc<Routes>,
    processes: Rc<Processes>,
    faults_allowed: Cell<bool>,
}

impl<F: Fabric> Member<F> {
    fn new(client: AnyInterface<F>, mode: Option<Mode>) -> Self {
        let mut member = Self {
            mode,
            client,
            window: RefCell::new(vec![0; WINDOW]),
            events: Handle::EQ_NONE,
            absent: Cell::new(false),
        };
        member.open();
        member
    }

    /// Make what others put to and get from.
    fn open(&mut self) {
        let client = &self.client;
        self.events = client.eq_alloc(1024, None).expect("a queue");
        let me = client
            .me_attach(3, ProcessId::ANY, (0, u64::MAX), Unlink::Retain, Position::After)
            .expect("an entry");
        let options = option::OP_PUT | option::OP_GET | option::MANAGE_REMOTE;
        let md = Md::of(self.window.get_mut(), options, self.events);
        // SAFETY: the window lives as long as the client.
        unsafe { client.md_attach(me, md, None, Unlink::Retain) }.expect("a descriptor");
    }
}

fn attach<F: Fabric + 'static>(
    fabric: Rc<F>,
    mode: Mode,
    routes: &Routes,
    processes: Rc<Processes>,
    agents: &Agents<F>,
) -> Client<F> {
    let (wait, patience) = (WaitTunables::default(), Duration::from_secs(60));
    let turn = Some(turn(agents));
    Client::attach(fabric, mode, routes, &wait, processes, None, patience, turn).expect("attached")
}

thread_local! {
    static IN_AGENT: Cell<bool> = const { Cell::new(false) };
    static TURNS: Cell<u64> = const { Cell::new(0) };
}

/// Turns that agents have had in this thread.
pub fn turns() -> u64 {
    TURNS.get()
}

/// Whether an agent is having its turn in this thread.
pub fn in_agent() -> bool {
    IN_AGENT.try_with(Cell::get).unwrap_or(false)
}

fn step<F: Fabric>(agent: &mut Agent<F>) -> bool {
    TURNS.set(TURNS.get() + 1);
    IN_AGENT.set(true);
    let moved = agent.step();
    IN_AGENT.set(false);
    moved
}

/// Lets agents have a turn.
fn turn<F: Fabric + 'static>(agents: &Agents<F>) -> Rc<dyn Fn()> {
    let agents = Rc::clone(agents);
    Rc::new(move || {
        for (_, agent) in agents.borrow_mut().iter_mut() {
            step(agent);
        }
    })
}

impl<F: Fabric + 'static> World<F> {
    /// Agents with their clients; each client has a window at portal 3.
    pub fn new(
        fabrics: Vec<Rc<F>>,
        config: &Config,
        clients: &[(u32, &[(u32, Mode)])],
        inline: &[u32],
    ) -> Self {
        let size = fabrics.len() as u32;
        let pairs: Vec<(u32, Peer)> = clients
            .iter()
            .flat_map(|(agent, of)| of.iter().map(|(client, _)| (*client, Peer(*agent))))
            .collect();
        let routes = Rc::new(Routes::new(size, &pairs).with_interfaces_beside());
        let processes = Rc::new(Processes::on_one_host(routes.size(), 7, 9));
        let settings = AgentTunables {
            sends: config.sends,
            pendings: config.pendings,
            memory: config.memory,
            objects: config.objects,
            patience: config.patience,
            ..AgentTunables::default()
        };
        let agents: Vec<(u32, Agent<F>)> = clients
            .iter()
            .map(|(number, _)| {
                let fabric = Rc::clone(&fabrics[*number as usize]);
                let agent = Agent::new(
                    fabric,
                    &settings,
                    &config.net,
                    Rc::clone(&routes),
                    Rc::clone(&processes),
                );
                (*number, agent.expect("an agent"))
            })
            .collect();
        let agents: Agents<F> = Rc::new(RefCell::new(agents));
        let mut members = vec![];
        let with_agents = clients
            .iter()
            .flat_map(|(_, of)| of.iter().map(|(number, mode)| (number, Some(mode))));
        for (number, mode) in with_agents.chain(inline.iter().map(|number| (number, None))) {
            let fabric = Rc::clone(&fabrics[*number as usize]);
            let (wait, processes) = (WaitTunables::default(), Rc::clone(&processes));
            let client = match mode {
                Some(mode) => {
                    AnyInterface::Agent(Box::new(attach(fabric, *mode, &routes, processes, &agents)))
                }
                None => {
                    let interface = Interface::new(fabric, &config.net, &wait, processes, None, 0);
                    AnyInterface::Inline(Box::new(
                        interface.expect("opened").with_routes(Rc::clone(&routes)),
                    ))
                }
            };
            members.push((*number, Member::new(client, mode.copied())));
        }
        Self {
            fabrics,
            agents,
            members,
            routes,
            processes,
            faults_allowed: Cell::new(false),
        }
    }

    /// Open the inline interface beside a client's; its number.
    pub fn open_beside(&mut self, client: u32, net: &NetTunables) -> u32 {
        let number = self.routes.number_beside(client).expect("a client");
        let (fabric, processes) = (Rc::clone(self.fabric(client)), Rc::clone(&self.processes));
        let settings = (net, &WaitTunables::default());
        let made = Interface::beside(fabric, settings, processes, None, Rc::clone(&self.routes));
        let made = AnyInterface::Inline(Box::new(made.expect("opened")));
        self.members.push((number, Member::new(made, None)));
        number
    }

    pub fn numbers(&self) -> Vec<u32> {
        self.members.iter().map(|(number, _)| *number).collect()
    }

    fn member(&self, number: u32) -> &Member<F> {
        &self
            .members
            .iter()
            .find(|(n, _)| *n == number)
            .expect("a client")
            .1
    }

    pub fn client(&self, number: u32) -> &AnyInterface<F> {
        &self.member(number).client
    }

    pub fn fabric(&self, number: u32) -> &Rc<F> {
        &self.fabrics[self.routes.process_of(number).index()]
    }

    pub fn agent(&self, number: u32) -> Ref<'_, Agent<F>> {
        Ref::map(self.agents.borrow(), |agents| {
            &agents.iter().find(|(n, _)| *n == number).expect("an agent").1
        })
    }

    pub fn target(&self, number: u32) -> Target {
        Target {
            id: ProcessId::new(0, number),
            pt_index: 3,
            ac_index: 0,
            match_bits: 77,
            offset: 0,
        }
    }

    pub fn queue(&self, number: u32) -> Handle {
        self.client(number).eq_alloc(64, None).expect("a queue")
    }

    /// Memory of so many bytes, and a descriptor of it.
    pub fn descriptor(&self, number: u32, len: usize, eq: Option<Handle>) -> (Vec<u8>, Handle) {
        let mut memory = vec![0; len];
        let md = Md::of(&mut memory, 0, eq.unwrap_or(Handle::EQ_NONE));
        // SAFETY: who asks keeps the memory, which a move does not move.
        let handle = unsafe { self.client(number).md_bind(md, None, Unlink::Retain) };
        (memory, handle.expect("a descriptor"))
    }

    fn member_mut(&mut self, number: u32) -> &mut Member<F> {
        let found = self.members.iter_mut().find(|(n, _)| *n == number);
        &mut found.expect("a client").1
    }

    /// Open a client's interface again that was closed.
    pub fn reopen(&mut self, number: u32) {
        let member = self.member_mut(number);
        let opened = member.client.reopen(None, 0, Duration::from_secs(60));
        opened.expect("attached again");
        member.open();
    }

    /// Let a client go without a word to its neighbours, and another take its place in the same process.
    pub fn replace(&mut self, number: u32) {
        let at = self.members.iter().position(|(n, _)| *n == number);
        let (_, member) = self.members.swap_remove(at.expect("a client"));
        let mode = member.mode.expect("a client of an agent");
        drop(member);
        let fabric = Rc::clone(self.fabric(number));
        let client = attach(
            fabric,
            mode,
            &self.routes,
            Rc::clone(&self.processes),
            &self.agents,
        );
        let client = AnyInterface::Agent(Box::new(client));
        self.members.push((number, Member::new(client, Some(mode))));
    }

    /// This client does nothing any more by itself.
    pub fn without(&self, number: u32) {
        self.member(number).absent.set(true);
    }

    pub fn with(&self, number: u32) {
        self.member(number).absent.set(false);
    }

    pub fn without_agent(&self, number: u32) {
        self.agents.borrow_mut().retain(|(n, _)| *n != number);
    }

    pub fn forget_faults(&mut self) {
        self.faults_allowed.set(true);
    }

    pub fn step(&self) -> bool {
        let mut moved = false;
        for (_, agent) in self.agents.borrow_mut().iter_mut() {
            moved |= step(agent);
        }
        for (_, member) in &self.members {
            if !member.absent.get() {
                moved |= member.client.progress();
            }
        }
        moved
    }

    pub fn steps(&self, count: usize) {
        for _ in 0..count {
            self.step();
        }
    }

    pub fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        for _ in 0..2_000_000 {
            if done() {
                return;
            }
            self.step();
        }
        let agents = self.agents.borrow();
        let state = agents
            .iter()
            .map(|(n, agent)| format!("\n{n}: {:?}", agent.state()));
        panic!("{what} does not come{}", state.collect::<String>());
    }

    /// Wait for an event of a kind, of operations that work.
    pub fn event(&self, number: u32, eq: Handle, kind: EventKind) -> Event {
        let mut found = None;
        self.until(&format!("{kind:?} at {number}"), || {
            match self.client(number).eq_get(eq) {
                Ok(taken) => {
                    assert!(
                        !taken.dropped && taken.event.ni_fail_type == NiFail::OK,
                        "{taken:?}"
                    );
                    if taken.event.kind == kind {
                        found = Some(taken.event);
                    }
                }
                Err(error) => assert_eq!(error, Error::EqEmpty),
            }
            found.is_some()
        });
        found.expect("just found")
    }

    /// The queue of a client's window.
    pub fn events_of(&self, number: u32) -> Handle {
        self.member(number).events
    }

    /// Wait for an event of a client's window.
    pub fn event_of(&self, number: u32, kind: EventKind) -> Event {
        self.event(number, self.member(number).events, kind)
    }

    /// A second client for a process that has one.
    pub fn attach_another(&self, number: u32, patience: Duration) -> Result<Client<F>, AttachError> {
        let (fabric, wait) = (Rc::clone(self.fabric(number)), WaitTunables::default());
        let (processes, turn) = (Rc::clone(&self.processes), Some(turn(&self.agents)));
        Client::attach(
            fabric,
            Mode::Generic,
            &self.routes,
            &wait,
            processes,
            None,
            patience,
            turn,
        )
    }

    /// Throw away what is in a window's queue.
    pub fn drain(&self, number: u32) {
        while self.client(number).eq_get(self.member(number).events).is_ok() {}
    }

    /// Process `from` puts `data` to `to`, gets it back, and exchanges some of it.
    pub fn exchange(&self, from: u32, to: u32, data: &[u8]) {
        let (client, target) = (self.client(from), self.target(to));
        self.drain(to);
        let eq = self.queue(from);
        let (mut memory, md) = self.descriptor(from, data.len(), Some(eq));
        memory.copy_from_slice(data);
        client.put(md, AckReq::Ack, &target, 42).expect("a put");
        let end = self.event(to, self.member(to).events, EventKind::PutEnd);
        assert_eq!(
            (end.mlength, end.hdr_data, end.match_bits),
            (data.len() as u64, 42, 77)
        );
        assert_eq!(end.initiator, ProcessId::new(0, from));
        assert!(
            self.member(to).window.borrow()[..data.len()] == *data,
            "{from} put to {to}"
        );
        self.event(from, eq, EventKind::Ack);
        memory.fill(0xee);
        client.get(md, &target).expect("a get");
        let end = self.event(from, eq, EventKind::ReplyEnd);
        assert_eq!(end.mlength, data.len() as u64);
        assert!(memory == data, "{from} got from {to}");
        let few = data.len().min(64);
        let (mut new, put_md) = self.descriptor(from, few, Some(eq));
        let (old, get_md) = self.descriptor(from, few, Some(eq));
        new.copy_from_slice(&pattern(few as u64, few));
        client.get_put(get_md, put_md, &target, 43).expect("a get-put");
        self.event(from, eq, EventKind::ReplyEnd);
        assert!(old == data[..few], "{from} got from {to} and put");
        self.event(to, self.member(to).events, EventKind::GetPutEnd);
        assert!(self.member(to).window.borrow()[..few] == new[..]);
        for md in [md, put_md, get_md] {
            let mut result = Err(Error::MdInUse);
            self.until("the descriptor's end", || {
                result = client.md_unlink(md);
                result != Err(Error::MdInUse)
            });
            assert_eq!(result, Ok(()));
        }
        client.eq_free(eq).expect("a queue");
    }

    /// Everybody puts `each` messages of several lengths to everybody at once; they begin in order, and all arrive.
    pub fn flood(&self, each: u64) {
        let lengths = [0usize, 8, 128, 129, 3000, 6000];
        let numbers = self.numbers();
        let mut kept = vec![];
        let mut mds = vec![];
        for from in &numbers {
            let of = lengths.map(|len| {
                let (memory, md) = self.descriptor(*from, len, None);
                kept.push(memory);
                md
            });
            mds.push(of);
            self.drain(*from);
        }
        let count = numbers.len();
        let mut next = vec![vec![0u64; count]; count];
        let mut begun = vec![vec![0u64; count]; count];
        let mut ended = 0;
        let wanted = each * (count * count) as u64;
        self.until("all of them", || {
            for from in 0..count {
                for to in 0..count {
                    let number = next[from][to];
                    if number < each && self.client(numbers[from]).is_idle() {
                        let md = mds[from][number as usize % lengths.len()];
                        let put = self.client(numbers[from]).put(
                            md,
                            AckReq::NoAck,
                            &self.target(numbers[to]),
                            number,
                        );
                        assert_eq!(put, Ok(()));
                        next[from][to] += 1;
                    }
                }
            }
            for (to, number) in numbers.iter().enumerate() {
                while let Ok(taken) = self.client(*number).eq_get(self.member(*number).events) {
                    assert!(!taken.dropped);
                    let event = taken.event;
                    let from = numbers
                        .iter()
                        .position(|n| *n == event.initiator.pid)
                        .expect("known");
                    match event.kind {
                        EventKind::PutStart => {
                            assert_eq!(event.hdr_data, begun[from][to], "order");
                            begun[from][to] += 1;
                        }
                        EventKind::PutEnd => {
                            assert_eq!(event.ni_fail_type, NiFail::OK);
                            assert_eq!(
                                event.mlength,
                                lengths[event.hdr_data as usize % lengths.len()] as u64
                            );
                            ended += 1;
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            ended == wanted
        });
    }

    /// Everybody puts to everybody from descriptors that are there, `each` times at once.
    pub fn flood_from(&self, mds: &[Handle], each: usize) {
        let numbers = self.numbers();
        for (from, md) in numbers.iter().zip(mds) {
            for to in &numbers {
                for _ in 0..each {
                    self.until("a turn", || self.client(*from).is_idle());
                    let put = self.client(*from).put(*md, AckReq::NoAck, &self.target(*to), 0);
                    put.expect("a put");
                }
            }
        }
        self.until("rest", || {
            self.agents.borrow().iter().all(|(_, agent)| agent.is_idle())
        });
        numbers.iter().for_each(|number| self.drain(*number));
    }

    /// Nothing is left anywhere.
    pub fn settle(&self) {
        self.until("rest", || {
            self.agents
                .borrow()
                .iter()
                .all(|(_, agent)| agent.is_idle() && agent.pages_used() == 0 && agent.jobs_used() == (0, 0))
        });
        if !self.faults_allowed.get() {
            for fabric in &self.fabrics {
                let (faults, _) = fabric.take_faults();
                assert!(faults.is_empty(), "{faults:?}");
            }
        }
    }
}
