//! Who is who for Portals: node, number, user and job of every process. From the job and the kernel, never from a message.
//!
//! Processes of a host can only be of one user, since they open each other's descriptors. So one process of each other host is
//! asked, and only when somebody opens the interface.
//!
//! Everybody must know who is reached by way of an agent too, which mpiexec tells all of them.

use std::collections::HashMap;
use std::rc::Rc;

use farpost_fabric::Peer;
use farpost_job::{Job, JobError, Opening};
use farpost_portals::agent::{AgentTunables, Routes};
use farpost_portals::library::{Pid, Processes};
use farpost_portals::{Identity, ProcessId};

use crate::credentials::Credentials;
use crate::place::PortalsPlace;
use crate::settings::Settings;

/// Key under which a rank publishes its user and its process number, where others could be on another host.
const KEY: &str = "farpost-owner";

/// Key under which a rank of a job on one host publishes which number it has chosen on its node.
const CHOSEN: &str = "farpost-portals-pid";

/// Numbers that processes may choose on their nodes are at most this.
pub const MOST_PID: u32 = 0xffff;

/// Which number a process would have on its node, and for which of its interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PidChoice {
    pub pid: u32,
    /// For the inline one; `None`: for the one that the settings name.
    pub inline: Option<bool>,
}

/// A choice as it is published; 0: there is none.
type Published = [u8; 8];

fn published_choice(choice: Option<PidChoice>, place: PortalsPlace) -> Published {
    let word = choice.map_or(0, |choice| {
        let inline = choice.inline.unwrap_or(place == PortalsPlace::Inline);
        u64::from(inline) << 32 | u64::from(choice.pid)
    });
    word.to_le_bytes()
}

/// Number and whether it is the inline interface's.
fn read_choice(bytes: &[u8]) -> Option<(u32, bool)> {
    let word = u64::from_le_bytes(bytes.try_into().ok()?);
    (word != 0).then_some((word as u32, word >> 32 != 0))
}

/// What rank `of` has chosen, if it has joined.
fn choice_of(job: &Job, of: u32) -> Result<Option<Option<(u32, bool)>>, JobError> {
    let (key, from) = if job.hosts() == 1 { (CHOSEN, 0) } else { (KEY, 8) };
    let value = job.get_from_joined(of, key)?;
    Ok(value.map(|value| value.and_then(|bytes| read_choice(bytes.get(from..from + 8)?))))
}

/// Wait until rank `of` has joined, and has published what it has chosen.
pub(crate) fn wait_for_choice(job: &Job, of: u32) -> Result<(), String> {
    let key = if job.hosts() == 1 { CHOSEN } else { KEY };
    let waited = job.get_from(of, key);
    waited.map_err(|error| format!("asking rank {of} which pid it has chosen: {error}"))?;
    Ok(())
}

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
    Ok(Some(
        Routes::new(job.processes(), &clients).with_interfaces_beside(),
    ))
}

fn user() -> u32 {
    // SAFETY: asks the kernel for a number.
    unsafe { libc::getuid() }
}

/// Say what this process has as an agent, and who it is to other hosts.
pub(crate) fn publish(
    opening: &mut Opening,
    settings: &Settings,
    choice: Option<PidChoice>,
) -> Result<(), JobError> {
    // Always: who asks for a key that nobody publishes is kept waiting by some launchers (PMIx).
    if opening.rank() >= opening.size() {
        opening.put(MEMORY, &settings.portals_agent.memory.to_le_bytes())?;
    }
    let chosen = published_choice(choice, settings.portals_place);
    if choice.is_some() {
        opening.put(CHOSEN, &chosen)?;
    }
    if !opening.may_span_hosts() {
        return Ok(());
    }
    let own = [user().to_le_bytes(), std::process::id().to_le_bytes()].concat();
    opening.put(KEY, &[&own[..], &chosen[..], &Credentials::own()].concat())
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

/// What a process has published of itself: user, process number, and user and groups as [`Credentials`] has them.
struct Owner {
    uid: u32,
    pid: u32,
    credentials: Vec<u8>,
}

/// Whether rank `of` of this host has joined the job.
fn has_joined(job: &Job, of: u32) -> bool {
    matches!(job.get_from_joined(of, CHOSEN), Ok(Some(_)))
}

/// Who the user of rank `of` is, as far as anybody but itself says so. `None`: nobody does, or it has ended.
///
/// A process of this host that has not joined yet is taken for one of this process's user: the kernel opens what this process exports to no
/// other user's. One that has joined and become another user since is known by the kernel's word.
pub fn credentials(job: &Job, of: u32) -> Option<Credentials> {
    if !job.is_local(of) {
        return Credentials::published(&published(job, of).ok()?.credentials);
    }
    let pid = match job.pid(of).filter(|pid| *pid != 0 && has_joined(job, of)) {
        Some(pid) => pid,
        None => std::process::id(),
    };
    Credentials::of_process(pid)
}

/// What rank `of` has published.
fn published(job: &Job, of: u32) -> Result<Owner, String> {
    let failed = |why: String| format!("asking for the user of rank {of}: {why}");
    let value = job.get_from(of, KEY).map_err(|error| failed(error.to_string()))?;
    match value.as_deref() {
        Some([a, b, c, d, e, f, g, h, rest @ ..]) if rest.len() >= 8 => Ok(Owner {
            uid: u32::from_le_bytes([*a, *b, *c, *d]),
            pid: u32::from_le_bytes([*e, *f, *g, *h]),
            credentials: rest[8..].to_vec(),
        }),
        Some(other) => Err(failed(format!(
            "it published {} bytes, not 16 or more",
            other.len()
        ))),
        None => Err(failed(
            "it published nothing: does it run another version of Farpost?".into(),
        )),
    }
}

/// Every process of the job by number, on hosts with the numbers `nodes`, and behind them the interfaces of those that have one `beside`
/// an agent's: nid is the number of its host, pid the one it has chosen or else its number there from 1 (so that an id that nobody has set
/// names nobody), jid the process number of rank 0.
///
/// # Errors
/// A sentence: what another host's process published cannot be had.
pub(crate) fn processes(job: &Rc<Job>, nodes: &[u32], beside: &[u32]) -> Result<Processes, String> {
    let jid = match (job.rank(), job.hosts()) {
        (0, _) => std::process::id(),
        (_, 1) => job.pid(0).unwrap_or(0),
        _ => published(job, 0)?.pid,
    };
    let mut users = vec![None; job.hosts() as usize];
    let mut given = HashMap::new();
    let own = job.host_of(job.rank());
    users[own as usize] = Some(user());
    let mut all = Vec::with_capacity(job.processes() as usize + beside.len());
    let places = (0..).zip(job.host_map()).zip(nodes);
    for ((rank, host), node) in places {
        let uid = match users[*host as usize] {
            Some(uid) => uid,
            None => *users[*host as usize].insert(published(job, rank)?.uid),
        };
        let pid = given.entry(*node).or_insert(0);
        *pid += 1;
        let id = ProcessId::new(*node, *pid);
        all.push(Identity { id, uid, jid });
    }
    for rank in beside {
        let of = all[*rank as usize];
        let pid = given.entry(of.id.nid).or_insert(0);
        *pid += 1;
        let id = ProcessId::new(of.id.nid, *pid);
        all.push(Identity { id, ..of });
    }
    let (job, nodes, beside) = (Rc::clone(job), nodes.to_vec(), beside.to_vec());
    let ask = move |number: u32| {
        let at = number.checked_sub(job.processes());
        let of = at.map_or(number, |at| beside[at as usize]);
        if of >= job.size() {
            return Pid::Given;
        }
        match choice_of(&job, of) {
            Ok(Some(Some((pid, inline)))) => {
                let for_beside = inline && beside.binary_search(&of).is_ok();
                let free = pid <= MOST_PID && pid > given[&nodes[of as usize]];
                match for_beside == at.is_some() && free {
                    true => Pid::Chosen(pid),
                    false => Pid::Given,
                }
            }
            Ok(Some(None)) => Pid::Given,
            Ok(None) | Err(_) => Pid::Unknown,
        }
    };
    Ok(Processes::new(all).with_chosen(ask))
}
