//! The bridge to an *agent*: a process of its own that plays the SeaStar's embedded processor (paper, sections 3 and 4).
//!
//! | File | What |
//! |---|---|
//! | `client` | what a client links |
//! | `run` | the agent: what it makes at its start, and its loop |
//! | `state`, `occupancy`, `figures` | what it knows of clients and messages; how much that is; what has happened |
//! | `tunables` | settings, and how many there are of everything |
//! | `clients` | clients that come, go, and fail |
//! | `arrive`, `serve`, `transmit` | what comes from the network, what clients ask, what they send |
//! | `objects` | an accelerated client's objects |
//! | `moves`, `movement` | bytes between the agent's memory and the clients' |
//! | `structures`, `pieces` | memory for bodies, jobs, lists of segments |
//!
//! Only the agent is on the network; its clients are processes of its host that give it commands through their mailboxes. A
//! **generic** client keeps its objects and matches by itself: a header that arrives goes to its event queue and takes a pending,
//! of which the client sees the number and the agent keeps what the network layer calls it; an interrupt tells; the client
//! answers where the body goes. Of an **accelerated** client the agent keeps the objects and matches; events go to the
//! client's queue, and it is not interrupted unless it sleeps. Bodies of at most 128 bytes travel within commands and events.
//!
//! The paper's structures (section 4.2) and where they are here:
//!
//! | There | Here |
//! |---|---|
//! | mailbox: command FIFO, result FIFO | a client's mailbox, with the event queue beside them |
//! | lower pendings, private to the firmware | `state::Lower` and `state::Item` of a client, the network layer's pendings |
//! | upper pendings, in the host's memory | the record that shows a header, in the client's event queue; a body that is short is in it |
//! | sources, found by node in a hash table | the network layer's ([`net`](crate::net)), by peer in a hash table of fixed size |
//! | transmit and receive list | a client's lists of messages by channel, and of orders to receive |
//!
//! All of that is made when the agent starts, and messages take nothing else ([`AgentOccupancy`]). What calls of an accelerated
//! client make, its entries, descriptors and queues, takes memory when it is made, within the limits of its interface and
//! `FARPOST_PORTALS_AGENT_OBJECTS`.
//!
//! Where the agent cannot reach a client's memory (the system permits no cross-memory attach), bodies go through windows of the
//! agent's, in pieces that the client moves when it is asked; which way it is is found out when the client attaches.
//!
//! Nobody waits in a circle. Answers and requests have lists, pendings and memory of their own. A client takes
//! everything it is shown at once, and is shown at most 64 requests that it has not dealt with and room for answers is left
//! in its queue, so that an answer that comes is always taken.
//!
//! Events of an accelerated client are handed on before anything else is logged in their queue, which may be short: what a queue
//! loses, with `PTL_EQ_DROPPED`, is decided by its size at the client. Handlers see every event: where the event queue in the client's memory is
//! full the agent keeps some, and when it could keep no more, messages for this client wait at their senders, and so do operations that
//! it begins itself.
//!
//! Messages from or to clients have an envelope behind the header: the numbers of receiver and sender. An agent speaks for
//! its clients and for nobody else: who else claims to be one is refused, and counted as a fault.
//!
//! What clients write is input. One that writes what cannot be is not served any more; one that takes no events
//! for `FARPOST_PORTALS_AGENT_PATIENCE` loses what comes for it until it does; one that ends is cleared away. All
//! three are counted, and none holds up another for longer than that. A client may close and attach again: what comes meanwhile is
//! dropped, what was on its way to the one before never reaches the one after.

mod arrive;
mod client;
mod clients;
mod figures;
mod movement;
mod moves;
pub(crate) mod objects;
mod occupancy;
mod pieces;
mod run;
mod serve;
mod state;
mod structures;
mod transmit;
mod tunables;

pub use crate::bridge::{Mode, Routes};
pub use client::{AttachError, Client};
pub use figures::ClientFigures;
pub use occupancy::AgentOccupancy;
pub use run::Agent;
pub use tunables::AgentTunables;

use std::time::Duration;

/// How a process of a job with agents opens an interface.
#[derive(Clone, Debug)]
pub struct Access {
    /// Who is reached by way of which agent.
    pub routes: Routes,
    /// How the process itself is; `None`: directly.
    pub mode: Option<Mode>,
    /// How long it waits for its agent.
    pub patience: Duration,
    /// Memory for bodies on their way through the agent that has the least (`FARPOST_PORTALS_AGENT_MEMORY`), bytes: nothing longer
    /// reaches a client or leaves one.
    pub memory: u64,
    /// For tests: called instead of letting time pass.
    pub turn: Option<fn()>,
}
