//! Portals interfaces of a process, and its host's agent.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use farpost_fabric::{ErrorStatus, Peer};
use farpost_job::RankState;
use farpost_portals::agent::{Access, Agent, AgentTunables, Routes};
use farpost_portals::host::Refusal;
use farpost_portals::library::Processes;
use farpost_portals::{ANY, AnyInterface, Error, Owner};

use crate::node::{FAREWELL, Node, NodeFabric};
use crate::place::{PORTALS, PortalsPlace};
use crate::portals::{MOST_PID, memory_of_agents, processes, routes, wait_for_choice};

/// Memory in its agent for the match entries, descriptors and queues that MPI's own limits let it have, bytes.
const OBJECTS_OF_MPI: u64 = 1 << 30;
/// Patience with MPI, which takes everything when its program calls it again, milliseconds.
const FOR_EVER: u64 = 1 << 40;
/// How long an agent waits for the last that is under way, once nobody of its host is left.
const LAST: Duration = Duration::from_secs(2);
/// Turns of an agent's loop between two looks who has ended. Asleep, a turn takes 50 ms.
const TURNS: u32 = 8;
/// Time between two such looks.
const LOOKS: Duration = Duration::from_millis(20);

impl Node {
    /// A Portals interface on this process's fabric, where [`PORTALS`] says. To be made once; it is closed and opened again.
    ///
    /// # Errors
    /// As [`portals_at`](Self::portals_at).
    pub fn portals(
        &self,
        limits: Option<&farpost_portals::Limits>,
    ) -> Result<AnyInterface<NodeFabric>, String> {
        let place = self.settings.portals_place;
        self.portals_at(place, &format!("{PORTALS}={}", place.name()), limits)
    }

    /// A Portals interface at `place`, which the program chose by saying `asked`.
    ///
    /// # Errors
    /// A sentence: who the others are cannot be learnt, or the agent cannot be had.
    pub fn portals_at(
        &self,
        place: PortalsPlace,
        asked: &str,
        limits: Option<&farpost_portals::Limits>,
    ) -> Result<AnyInterface<NodeFabric>, String> {
        let access = self.portals_access(Owner::Program, place, asked)?;
        let made = AnyInterface::open(
            Owner::Program,
            Rc::clone(&self.fabric),
            access.as_ref(),
            (&self.settings.portals, &self.settings.wait),
            self.portals_processes()?,
            limits,
        );
        made.map_err(|error| format!("{asked}: {error}"))
    }

    /// Who everybody is for Portals.
    ///
    /// # Errors
    /// A sentence: what another host's process published cannot be had.
    pub fn portals_processes(&self) -> Result<Rc<Processes>, String> {
        if let Some(known) = self.portals_processes.get() {
            return Ok(Rc::clone(known));
        }
        let routes = routes(&self.job)?;
        let beside = routes.as_ref().map_or(&[][..], Routes::beside);
        let made = Rc::new(processes(&self.job, self.nodes(), beside)?);
        Ok(Rc::clone(self.portals_processes.get_or_init(|| made)))
    }

    /// The number, among those of [`portals_processes`](Self::portals_processes), of the inline interface that `rank` may have beside
    /// an agent's; `None`: mpiexec has not started it for one, and its inline interface is its only one, with its own number.
    ///
    /// # Errors
    /// A sentence: its host has no agent.
    pub fn portals_beside(&self, rank: u32) -> Result<Option<u32>, String> {
        Ok(routes(&self.job)?.and_then(|routes| routes.number_beside(rank)))
    }

    /// Whether this process's interface `number` can have `pid` on its node. Waits until those before it there have joined, which may have
    /// chosen the same.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn portals_numbered(&self, number: u32, pid: u32) -> Result<(), Refusal> {
        let failed = |why| Refusal::new(Error::Fail, why);
        let processes = self.portals_processes().map_err(failed)?;
        let known = (0..processes.len() as u32).filter_map(|other| processes.given(other));
        let Some(own) = processes.given(number) else {
            return Err(failed("this process is none of its job".into()));
        };
        let given = known.filter(|other| other.id.nid == own.id.nid).count() as u32;
        let refused = |code, why: String| Err(Refusal::new(code, format!("pid={pid}: {why}")));
        if pid == ANY || pid == own.id.pid {
            return Ok(());
        }
        if pid == 0 || pid > MOST_PID {
            return refused(
                Error::PidInvalid,
                format!("allowed are 1 to {MOST_PID}; PTL_PID_ANY always fits"),
            );
        }
        if pid <= given {
            let why = format!(
                "the {given} interfaces of this node were given 1 to {given}, this one {}",
                own.id.pid
            );
            return refused(Error::PidInUse, why);
        }
        if self.portals_choice.is_none_or(|choice| choice.pid != pid) {
            let why = "a process chooses its pid in the call that joins its job, for the interface which that opens: PtlNIInit before \
                       MPI_Init and whatever else joins, and before any other PtlNIInit";
            return refused(Error::PidInvalid, why.into());
        }
        // The agents choose nothing.
        let before =
            (0..self.job.size().min(number)).filter(|rank| self.nodes()[*rank as usize] == own.id.nid);
        for rank in before {
            wait_for_choice(&self.job, rank).map_err(failed)?;
        }
        match processes.identity(number) {
            Some(is) if is.id.pid == pid => Ok(()),
            _ => refused(
                Error::PidInUse,
                "another process of this node, which comes before this one in the job, has chosen it too"
                    .into(),
            ),
        }
    }

    /// How this process's interfaces are opened where [`PORTALS`] says; `None`: the job has no agents.
    ///
    /// # Errors
    /// A sentence: mpiexec has started it for another place.
    pub fn portals_by(&self) -> Result<Option<Access>, String> {
        let place = self.settings.portals_place;
        self.portals_access(Owner::Mpi, place, &format!("{PORTALS}={}", place.name()))
    }

    fn portals_access(
        &self,
        owner: Owner,
        place: PortalsPlace,
        asked: &str,
    ) -> Result<Option<Access>, String> {
        let routes = routes(&self.job)?;
        let client = routes
            .as_ref()
            .is_some_and(|routes| routes.is_client(self.job.rank()));
        let mode = place.mode();
        match mode {
            Some(_) if !client => {
                let there = match &routes {
                    None => "this job has no Portals agents",
                    Some(_) => "mpiexec started this process as one that is reached directly",
                };
                Err(format!(
                    "{asked}: {there}; start the job with Farpost's mpiexec and {PORTALS}={} in its environment or for this \
                     program (-env), or choose inline",
                    place.name()
                ))
            }
            // A program may have an inline interface beside the agent's.
            None if client && owner == Owner::Mpi => Err(format!(
                "{asked}: mpiexec started this process with {PORTALS}={}, so that others reach it by way of an agent; give \
                 mpiexec {PORTALS}=inline for this program (-env)",
                self.job.roles().of(self.job.rank()).unwrap_or_default()
            )),
            _ => {
                let Some(routes) = routes else { return Ok(None) };
                Ok(Some(Access {
                    routes,
                    mode,
                    patience: self.settings.start_timeout(),
                    memory: memory_of_agents(&self.job)?,
                    turn: None,
                }))
            }
        }
    }
}

/// An agent for the interfaces of `owner`.
fn agent(node: &Node, routes: &Routes, owner: Owner) -> Result<Agent<NodeFabric>, String> {
    let (job, settings) = (&node.job, &node.settings);
    let (processes, config) = match owner {
        Owner::Program => (node.portals_processes()?, settings.portals_agent.clone()),
        // Credits and shares of MPI's own bound what it has here and what waits for it, and it must not lose anything.
        Owner::Mpi => (
            Rc::new(Processes::by_rank(job.host_map().iter().copied())),
            AgentTunables {
                objects: OBJECTS_OF_MPI.max(settings.portals_agent.objects),
                patience: FOR_EVER,
                ..settings.portals_agent.clone()
            },
        ),
    };
    let routes = Rc::new(routes.clone().of(owner));
    Agent::new(
        Rc::clone(&node.fabric),
        &config,
        &settings.portals,
        routes,
        processes,
    )
    .map_err(|error| format!("making the agent's mailboxes: {error}"))
}

/// Be this host's agent: serve its clients until they have all left the job or ended. For a process that mpiexec starts as a
/// service.
///
/// # Errors
/// A sentence: the process is no service of a job, or has no memory for its clients.
pub fn serve_portals() -> Result<(), String> {
    let node = Node::join()?;
    let job = Rc::clone(&node.job);
    if job.rank() < job.size() {
        return Err(format!(
            "this process is no service of a job: mpiexec starts the Portals agents, one on each host, where {PORTALS} asks for them"
        ));
    }
    let routes = routes(&job)?.ok_or("the job has no Portals agents")?;
    let mut agents = [
        agent(&node, &routes, Owner::Program)?,
        agent(&node, &routes, Owner::Mpi)?,
    ];
    // It is there, and whoever started it need not mind when it ends.
    job.may_end();
    let local = job.local_ranks();
    let gone = |rank: &u32| {
        // One that has finalised may begin again until it has left.
        let (peer, aborted) = (Peer(*rank), job.state(*rank) == Some(RankState::Aborted));
        aborted || node.fabric.has_ended(peer) || node.fabric.end_of(peer).is_some()
    };
    let (turn, looked) = (Cell::new(0u32), Cell::new(Instant::now()));
    Agent::run_all(&mut agents, || {
        turn.set(turn.get().wrapping_add(1));
        if !turn.get().is_multiple_of(TURNS) || looked.get().elapsed() < LOOKS {
            return false;
        }
        looked.set(Instant::now());
        local.iter().all(gone)
    });
    let until = Instant::now() + LAST.min(FAREWELL);
    while Instant::now() < until {
        // What they asked last is still taken.
        let moved = agents.iter_mut().fold(false, |moved, agent| agent.step() | moved);
        if !moved && agents.iter().all(Agent::is_idle) {
            break;
        }
        if !moved {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    Ok(())
}
