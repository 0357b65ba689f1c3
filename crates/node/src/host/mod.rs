//! Portals between processes of a host that need not be of one job: the host's agent, and the way to it.
//!
//! | File | What |
//! |---|---|
//! | `socket` | the agent's address, messages and descriptors on their way |
//! | `agent` | the agent: who may come, who is who, who has gone |
//! | `link` | a process's connection, and how an agent is started |
//!
//! There is one agent for each user of a host (of a network namespace). It is reached by an abstract socket, which ends with it: nothing is left
//! in a file system. It is started by hand (`farpost portals-host`), or by a program that no launcher started and that finds none; then it
//! ends a second after its last member. A job's processes start none, because their launcher would end it together with the job.
//!
//! Both sides ask the kernel who the other one is. A member shows its memory by a descriptor of `/proc/self/mem`, and its job by the descriptor
//! of the job's memory, which nobody has who is not of the job or the user.

mod agent;
mod link;
mod socket;

pub use agent::{HostAgent, host_agent};
pub use farpost_portals::host::Refusal as HostRefusal;
pub use link::start_host_agent;

/// Words of an answer at most, and bytes of a question: 256 segments and what goes with them.
const LONGEST: usize = 16 << 10;
