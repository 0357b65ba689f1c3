//! Who is who for Portals: node, number, user and job of every process. From the job and the kernel, never from a message.
//!
//! Processes of a host can only be of one user, since they open each other's descriptors. So one process of each other host is
//! asked, and only when somebody opens the interface.

use std::rc::Rc;

use farpost_job::{Job, JobError, Opening};
use farpost_portals::library::Processes;
use farpost_portals::{Identity, Interface, ProcessId};

use crate::{Node, NodeFabric};

/// Key under which a rank publishes its user and its process number, where others could be on another host.
const KEY: &str = "farpost-owner";

fn user() -> u32 {
    // SAFETY: asks the kernel for a number.
    unsafe { libc::getuid() }
}

/// Say who this process is to other hosts.
pub(crate) fn publish(opening: &mut Opening) -> Result<(), JobError> {
    if !opening.may_span_hosts() {
        return Ok(());
    }
    let [a, b, c, d] = user().to_le_bytes();
    let [e, f, g, h] = std::process::id().to_le_bytes();
    opening.put(KEY, &[a, b, c, d, e, f, g, h])
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

/// Every process of the job by rank: nid is the number of its host, pid its number there from 1 (so that an id that nobody has
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
    let mut all = Vec::with_capacity(job.size() as usize);
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
    /// A Portals interface on this process's fabric. To be made once; it is closed and opened again.
    ///
    /// # Errors
    /// A sentence: who the others are cannot be learnt.
    pub fn portals(&self, limits: Option<&farpost_portals::Limits>) -> Result<Interface<NodeFabric>, String> {
        let fabric = Rc::clone(&self.fabric);
        let processes = Rc::new(processes(&self.job)?);
        let (net, wait) = (&self.settings.portals, &self.settings.world.wait);
        Interface::new(fabric, net, wait, processes, limits, 0).map_err(|error| error.to_string())
    }
}
