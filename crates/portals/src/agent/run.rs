//! The agent's loop: network first, then the hosts (paper, section 4.3).

use super::figures::ClientFigures;
use super::objects::{NOTHING, Objects};
use super::pieces::Store;
use super::state::{Core, Entry, Lower, NOBODY};
use super::structures::{Arena, Slab};
use super::tunables::{AgentTunables, Sizes};
use crate::bridge::Routes;
use crate::bridge::mailbox::{AGENT_BYTES, Control, Door, LINES, QUEUE_AT, Reader, SLOTS};
use crate::bridge::record::Pen;
use crate::library::{Library, Processes};
use crate::net::{Channel, Net, NetTunables};
use crate::owner::Owner;
use farpost_channel::records::RECORD;
use farpost_fabric::wait::{Backoff, Pause, WaitPolicy, WaitTunables};
use farpost_fabric::{Access, Fabric, FabricError, Moment, Peer, Permission};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// Turns between two looks at the clock: a power of two.
const CLOCK: u64 = 256;
/// Time between two questions who has ended.
const ASK: Duration = Duration::from_millis(50);
/// Longest sleep: processes that end ring nobody.
const LONG: Duration = Duration::from_millis(50);
/// Longest sleep while something is under way that rings nobody when it moves.
const SHORT: Duration = Duration::from_millis(1);

/// An agent. One thread runs it: [`step`](Self::step) in a loop of its own, or [`run`](Self::run).
pub struct Agent<F: Fabric> {
    net: Net<F>,
    core: Core<F>,
    turns: u64,
    asked: Moment,
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
        let (me, owner) = (fabric.me(), routes.owner());
        let mut index = vec![NOBODY; routes.size() as usize];
        let sizes = Sizes::of(config, net, routes.clients_of(me).count() as u64);
        let mut clients = Vec::with_capacity(sizes.clients);
        for number in routes.clients_of(me) {
            let access = Access::Only(vec![(Peer(number), Permission::ReadWrite)]);
            let memory = fabric.export(routes.agent_segment(number), AGENT_BYTES, access)?;
            let closed = Library::new(0, 0, number, Rc::clone(&processes), Some(&NOTHING));
            let closed = closed.expect("a client that is one of the processes");
            index[number as usize] = clients.len() as u32;
            let items = || VecDeque::with_capacity(sizes.items);
            let control = Control {
                sends: config.sends,
                ..Control::default()
            };
            clients.push(Entry {
                number,
                commands: Reader::new(&memory, QUEUE_AT, LINES),
                memory,
                link: None,
                accepts: owner == Owner::Program,
                mode: None,
                era: 0,
                items: [items(), items()],
                given: [0; 2],
                control,
                told: control,
                ring: false,
                refusing: None,
                silent: None,
                shown: 0,
                settled: 0,
                lower: vec![Lower::Free; sizes.pendings].into(),
                orders: VecDeque::with_capacity(sizes.pendings),
                objects: Objects::new(closed, sizes.jobs, config.objects),
                held: false,
                carried: false,
                windows: [None; SLOTS],
                stalled: false,
                figures: ClientFigures::default(),
            });
        }
        let core = Core {
            routes,
            config: config.clone(),
            sizes,
            arenas: std::array::from_fn(|_| Arena::new(config.memory as usize)),
            jobs: Slab::new(sizes.jobs),
            lists: Store::new(sizes.lists),
            movements: Vec::with_capacity(sizes.jobs),
            clients,
            index,
            placements: Vec::with_capacity(sizes.placements),
            words: Vec::with_capacity(RECORD),
            pen: Pen(Vec::with_capacity(RECORD)),
            fabric: Rc::clone(&fabric),
        };
        for at in 0..sizes.clients {
            core.set_door(at, Door::Free(0, 0));
        }
        Ok(Self {
            core,
            asked: fabric.now(),
            impatient: net.resend == 0,
            net: Net::of(owner, fabric, net),
            turns: 0,
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
            self.core.movements.len(),
            self.net.figures()
        )
    }

    /// Messages with bytes under way, and lists of segments in use.
    pub fn jobs_used(&self) -> (usize, usize) {
        (self.core.jobs.len(), self.core.lists.taken())
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
                .all(|c| !c.held && c.items.iter().all(VecDeque::is_empty))
            && self.net.is_idle()
    }

    /// One turn. True: something happened.
    pub fn step(&mut self) -> bool {
        self.turns += 1;
        let core = &mut self.core;
        let mut moved = self.net.progress(core);
        for at in 0..core.clients.len() {
            core.hear(at);
            moved |= core.serve(at);
        }
        if !core.movements.is_empty() {
            moved |= core.advance();
        }
        for at in 0..core.clients.len() {
            moved |= core.receive_orders(at);
        }
        while let Some((id, placement)) = core.placements.pop() {
            self.net.place(id, placement);
            moved = true;
        }
        let mut sent = false;
        for at in 0..core.clients.len() {
            for channel in [Channel::Answer, Channel::Request] {
                sent |= core.transmit(&self.net, at, channel);
            }
        }
        // What clients send each other is there already.
        if sent {
            self.net.progress(core);
        }
        moved |= sent;
        for at in 0..core.clients.len() {
            moved |= core.forward(at);
            core.tell(at);
        }
        if self.turns.is_multiple_of(CLOCK) {
            self.ask_who_has_ended();
        }
        moved
    }

    /// Serve until `stop` says so. Sleeps when there is nothing to do.
    pub fn run(&mut self, stop: impl FnMut() -> bool) {
        Self::run_all(std::slice::from_mut(self), stop);
    }

    /// The same of several agents of one process, each for interfaces of another owner.
    pub fn run_all(agents: &mut [Self], mut stop: impl FnMut() -> bool) {
        let Some(first) = agents.first() else { return };
        let fabric = Rc::clone(&first.core.fabric);
        // Where others need its core, looking again finds nothing before they have had it.
        let (cores, processes) = fabric.cores_and_processes();
        let policy = WaitPolicy::new(
            &WaitTunables::default(),
            cores,
            processes,
            Rc::clone(fabric.clock()),
        );
        let mut backoff = Backoff::default();
        while !stop() {
            if agents.iter_mut().fold(false, |moved, agent| agent.step() | moved) {
                backoff.reset();
                continue;
            }
            match backoff.pause(&policy) {
                Pause::Spin => policy.spin_once(),
                Pause::Yield => policy.give_way(),
                Pause::Sleep => {
                    agents.iter().for_each(|agent| agent.net.flush());
                    let idle = agents.iter().all(Self::is_idle);
                    let ready = |agent: &Self| agent.core.is_ready() || agent.net.has_arrived();
                    fabric.sleep(if idle { LONG } else { SHORT }, &mut || agents.iter().any(ready));
                    agents.iter_mut().for_each(Self::ask_who_has_ended);
                }
            }
        }
    }

    fn ask_who_has_ended(&mut self) {
        let now = self.core.fabric.now();
        if !self.impatient && now - self.asked < ASK {
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
            core.give_up_moves(at);
            core.give_up_shown(at);
        }
    }
}

impl<F: Fabric> Core<F> {
    fn is_ready(&self) -> bool {
        self.fabric.progress();
        self.clients.iter().any(|c| c.commands.waits() && !c.is_waived())
    }
}
