//! Who is who for Portals: node, number, user and job of every process. From the job and the kernel, never from a message.
//!
//! Processes of a host can only be of one user, since they open each other's descriptors. So one process of each other host is
//! asked, and only when somebody opens the interface.
//!
//! Everybody must know who is reached by way of an agent too, which mpiexec tells all of them.

use std::collections::HashMap;

use farpost_fabric::Peer;
use farpost_job::{Job, JobError, Opening};
use farpost_portals::agent::{AgentTunables, Routes};
use farpost_portals::library::Processes;
use farpost_portals::{Identity, ProcessId};

use crate::place::PortalsPlace;

/// Key under which a rank publishes its user and its process number, where others could be on another host.
const KEY: &str = "farpost-owner";

/// Key under which an agent publishes its memory for bodies, bytes.
const MEMORY: &str = "farpost-agent-memory";

/// Who is reached by way of which agent; `None` where the job has none.
///
/// # Errors
/// A host has processes that need an agent, and none.
pub(crate) fn routes(job: &Job) -> Result<Option<Routes>, String> {
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
pub(crate) fn memory_of_agents(job: &Job) -> Result<u64, String> {
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

/// Every process of the job by number, on hosts with the numbers `nodes`: nid is the number of its host, pid its number there from 1 (so that an id that nobody has
/// set names nobody), jid the process number of rank 0.
///
/// # Errors
/// A sentence: what another host's process published cannot be had.
pub fn processes(job: &Job, nodes: &[u32]) -> Result<Processes, String> {
    let jid = match (job.rank(), job.hosts()) {
        (0, _) => std::process::id(),
        (_, 1) => job.pid(0).unwrap_or(0),
        _ => published(job, 0)?.1,
    };
    let mut users = vec![None; job.hosts() as usize];
    let mut beside = HashMap::new();
    let own = job.host_of(job.rank());
    users[own as usize] = Some(user());
    let mut all = Vec::with_capacity(job.processes() as usize);
    for ((rank, host), node) in (0..).zip(job.host_map()).zip(nodes) {
        let uid = match users[*host as usize] {
            Some(uid) => uid,
            None => *users[*host as usize].insert(published(job, rank)?.0),
        };
        let beside = beside.entry(*node).or_insert(0);
        *beside += 1;
        let id = ProcessId::new(*node, *beside);
        all.push(Identity { id, uid, jid });
    }
    Ok(Processes::new(all))
}
