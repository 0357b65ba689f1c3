//! Who is who for Portals: node, number, user and job of every process. From the job and the kernel, never from a message.
//!
//! Processes of a host can only be of one user, since they open each other's descriptors. So one process of each other host is
//! asked, and only when somebody opens the interface.
//!
//! And where the library runs (paper, section 3): in the process itself, or with an *agent* of its host, a service process
//! that mpiexec starts when [`PORTALS`] asks for it. Everybody must know who is reached by way of an agent, which mpiexec
//! tells all of them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use farpost_fabric::{ErrorStatus, Peer};
use farpost_job::{Job, JobError, Opening, RankState};
use farpost_portals::agent::{Access, Agent, AgentTunables, Mode, Routes};
use farpost_portals::library::Processes;
use farpost_portals::{AnyInterface, Identity, Owner, ProcessId};

use crate::{FAREWELL, Node, NodeFabric};

/// Key under which a rank publishes its user and its process number, where others could be on another host.
const KEY: &str = "farpost-owner";

/// Key under which an agent publishes its memory for bodies, bytes.
const MEMORY: &str = "farpost-agent-memory";

/// Variable: where the library of Portals runs for this process. mpiexec reads it too.
pub const PORTALS: &str = "FARPOST_PORTALS";

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

/// Where the library of Portals runs for a process.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr, strum::EnumString, strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum PortalsPlace {
    /// In the process itself, as is the network layer.
    #[default]
    Inline,
    /// In the process; an agent has the network layer, and an interrupt tells of what has arrived.
    Generic,
    /// With an agent.
    Accelerated,
}

impl PortalsPlace {
    /// As [`PORTALS`] calls it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What [`PORTALS`] says; empty is the default.
    pub(crate) fn parse(value: &str) -> Result<Self, String> {
        if value.is_empty() {
            return Ok(Self::default());
        }
        let found = value.parse();
        found.map_err(|_| format!("{PORTALS}={value}: allowed are inline, generic and accelerated"))
    }

    /// Where an interface's library runs.
    pub fn of(interface: &AnyInterface<NodeFabric>) -> Self {
        match interface.mode() {
            None => Self::Inline,
            Some(Mode::Generic) => Self::Generic,
            Some(Mode::Accelerated) => Self::Accelerated,
        }
    }

    fn mode(self) -> Option<Mode> {
        match self {
            Self::Inline => None,
            Self::Generic => Some(Mode::Generic),
            Self::Accelerated => Some(Mode::Accelerated),
        }
    }
}

/// Who is reached by way of which agent; `None` where the job has none.
///
/// # Errors
/// A host has processes that need an agent, and none.
fn routes(job: &Job) -> Result<Option<Routes>, String> {
    if job.services() == 0 {
        return Ok(None);
    }
    let agents: Vec<(u32, Peer)> = (job.size()..job.processes())
        .map(|agent| (job.host_of(agent), Peer(agent)))
        .collect();
    let mut clients = Vec::new();
    for rank in 0..job.size() {
        let inline = PortalsPlace::Inline.name();
        if job.roles().of(rank).is_none_or(|role| role == inline) {
            continue;
        }
        let agent = agents.iter().find(|(host, _)| *host == job.host_of(rank));
        let agent = agent.ok_or_else(|| {
            format!("the host of rank {rank} has no Portals agent: the launcher placed the agents elsewhere")
        })?;
        clients.push((rank, agent.1));
    }
    Ok(Some(Routes::new(job.processes(), &clients)))
}

fn user() -> u32 {
    // SAFETY: asks the kernel for a number.
    unsafe { libc::getuid() }
}

/// Say what this process has as an agent, and who it is to other hosts.
pub(crate) fn publish(opening: &mut Opening, agent: &AgentTunables) -> Result<(), JobError> {
    // Always: who asks for a key that nobody publishes is kept waiting by some launchers (PMIx).
    if opening.rank() >= opening.size() {
        opening.put(MEMORY, &agent.memory.to_le_bytes())?;
    }
    if !opening.may_span_hosts() {
        return Ok(());
    }
    let [a, b, c, d] = user().to_le_bytes();
    let [e, f, g, h] = std::process::id().to_le_bytes();
    opening.put(KEY, &[a, b, c, d, e, f, g, h])
}

/// Memory for bodies of the agent that has the least, bytes.
fn memory_of_agents(job: &Job) -> Result<u64, String> {
    let failed =
        |agent: u32, why: String| format!("asking for the memory of the Portals agent {agent}: {why}");
    let memory = |agent| {
        let value = job.get_from(agent, MEMORY);
        match value
            .map_err(|error| failed(agent, error.to_string()))?
            .as_deref()
        {
            None => Ok(AgentTunables::default().memory),
            Some(bytes) => (bytes.try_into().map(u64::from_le_bytes))
                .map_err(|_| failed(agent, format!("it published {} bytes, not 8", bytes.len()))),
        }
    };
    (job.size()..job.processes())
        .map(memory)
        .try_fold(u64::MAX, |least, memory| Ok(least.min(memory?)))
}

/// User and process number that rank `of` has published.
fn published(job: &Job, of: u32) -> Result<(u32, u32), String> {
    let failed = |why: String| format!("asking for the user of rank {of}: {why}");
    let value = job.get_from(of, KEY).map_err(|error| failed(error.to_string()))?;
    match value.as_deref() {
        Some(&[a, b, c, d, e, f, g, h]) => {
            Ok((u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])))
        }
        Some(other) => Err(failed(format!("it published {} bytes, not 8", other.len()))),
        None => Err(failed(
            "it published nothing: does it run another version of Farpost?".into(),
        )),
    }
}

/// Every process of the job by number: nid is the number of its host, pid its number there from 1 (so that an id that nobody has
/// set names nobody), jid the process number of rank 0.
///
/// # Errors
/// A sentence: what another host's process published cannot be had.
pub fn processes(job: &Job) -> Result<Processes, String> {
    let jid = match (job.rank(), job.hosts()) {
        (0, _) => std::process::id(),
        (_, 1) => job.pid(0).unwrap_or(0),
        _ => published(job, 0)?.1,
    };
    let mut users = vec![None; job.hosts() as usize];
    let mut beside = vec![0; job.hosts() as usize];
    let own = job.host_of(job.rank());
    users[own as usize] = Some(user());
    let mut all = Vec::with_capacity(job.processes() as usize);
    for (rank, host) in (0..).zip(job.host_map()) {
        let uid = match users[*host as usize] {
            Some(uid) => uid,
            None => *users[*host as usize].insert(published(job, rank)?.0),
        };
        beside[*host as usize] += 1;
        let id = ProcessId::new(*host, beside[*host as usize]);
        all.push(Identity { id, uid, jid });
    }
    Ok(Processes::new(all))
}

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
        let access = self.portals_access(place, asked)?;
        let made = AnyInterface::open(
            Owner::Program,
            Rc::clone(&self.fabric),
            access.as_ref(),
            (&self.settings.portals, &self.settings.wait),
            Rc::new(processes(&self.job)?),
            limits,
        );
        made.map_err(|error| format!("{asked}: {error}"))
    }

    /// How this process's interfaces are opened where [`PORTALS`] says; `None`: the job has no agents.
    ///
    /// # Errors
    /// A sentence: mpiexec has started it for another place.
    pub fn portals_by(&self) -> Result<Option<Access>, String> {
        let place = self.settings.portals_place;
        self.portals_access(place, &format!("{PORTALS}={}", place.name()))
    }

    fn portals_access(&self, place: PortalsPlace, asked: &str) -> Result<Option<Access>, String> {
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
            None if client => Err(format!(
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
        Owner::Program => (processes(job)?, settings.portals_agent.clone()),
        // Credits and shares of MPI's own bound what it has here and what waits for it, and it must not lose anything.
        Owner::Mpi => (
            Processes::by_rank(job.host_map().iter().copied()),
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
        Rc::new(processes),
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
        let left = matches!(job.state(*rank), Some(RankState::Finalised | RankState::Aborted));
        left || node.fabric.has_ended(Peer(*rank))
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

#[cfg(test)]
mod tests {
    use super::*;
    use strum::VariantArray;

    #[test]
    fn places_have_names() {
        for &place in PortalsPlace::VARIANTS {
            assert_eq!(PortalsPlace::parse(place.name()), Ok(place));
        }
        assert_eq!(PortalsPlace::parse(""), Ok(PortalsPlace::Inline));
        let error = PortalsPlace::parse("there").unwrap_err();
        assert!(error.contains("inline, generic and accelerated"), "{error}");
    }
}
