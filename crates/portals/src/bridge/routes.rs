//! Who is reached by way of which agent, and what tells an agent who a message is from and for.

use crate::library::HEADER_BYTES;
use crate::owner::Owner;
use farpost_fabric::{Peer, SegmentId};

/// Which processes are reached by way of an agent.
///
/// Each client may have an interface of its own in its process as well, *beside* the agent's. It has a number behind those of all
/// processes, and is reached directly; its messages have envelopes, since the fabric knows its process by another number.
#[derive(Clone, Debug)]
pub struct Routes {
    /// By number; behind the processes, the interfaces beside.
    via: Vec<Peer>,
    /// The processes of those, in this order.
    beside: Vec<u32>,
    owner: Owner,
}

impl Routes {
    /// All `size` processes of the job are reached directly, except for these (client, agent).
    ///
    /// # Panics
    /// When one of them does not exist, or an agent is somebody's client.
    pub fn new(size: u32, clients: &[(u32, Peer)]) -> Self {
        let mut via: Vec<Peer> = (0..size).map(Peer).collect();
        for (client, agent) in clients {
            assert!(agent.0 < size && agent.0 != *client, "{agent} is no agent");
            via[*client as usize] = *agent;
        }
        let routes = Self {
            via,
            beside: Vec::new(),
            owner: Owner::Program,
        };
        for (_, agent) in clients {
            assert!(
                routes.via(agent.0) == Some(*agent),
                "{agent} is an agent and a client"
            );
        }
        routes
    }

    /// The same, and each client may have an inline interface beside the agent's. Their [numbers](Self::number_beside) are those
    /// that follow the processes'.
    pub fn with_interfaces_beside(mut self) -> Self {
        let processes = self.processes();
        self.beside = (0..processes).filter(|number| self.is_client(*number)).collect();
        self.via.truncate(processes as usize);
        self.via.extend(self.beside.iter().copied().map(Peer));
        self
    }

    /// The same for the interfaces of `owner`. MPI has none beside another.
    pub fn of(mut self, owner: Owner) -> Self {
        if owner == Owner::Mpi {
            self.via.truncate(self.processes() as usize);
            self.beside.clear();
        }
        Self { owner, ..self }
    }

    /// Processes of the job.
    pub fn processes(&self) -> u32 {
        (self.via.len() - self.beside.len()) as u32
    }

    /// The number of the inline interface that client `number` may have beside the agent's.
    pub fn number_beside(&self, number: u32) -> Option<u32> {
        let at = self.beside.binary_search(&number).ok()?;
        Some(self.processes() + at as u32)
    }

    /// The processes that may have an interface beside the agent's, in the order of the numbers of these.
    pub fn beside(&self) -> &[u32] {
        &self.beside
    }

    /// Whose interface `number` is: that process's, or one beside an agent's.
    #[inline]
    pub fn process_of(&self, number: u32) -> Peer {
        let beside = number.checked_sub(self.processes());
        let of = beside.and_then(|at| self.beside.get(at as usize));
        Peer(of.copied().unwrap_or(number))
    }

    /// Whose interfaces are reached so.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The agent's segment for client `number`.
    pub(crate) fn agent_segment(&self, number: u32) -> SegmentId {
        self.owner.segment(0x5041_0000 + number)
    }

    /// A client's segment.
    pub(crate) fn client_segment(&self) -> SegmentId {
        self.owner.segment(0x5043_0000)
    }

    /// Who carries the messages of process `number`: its agent, or itself. None: there is no such process.
    #[inline]
    pub fn via(&self, number: u32) -> Option<Peer> {
        self.via.get(number as usize).copied()
    }

    /// Whether messages of and for `number` have envelopes: it is some agent's client, or beside one.
    #[inline]
    pub fn is_client(&self, number: u32) -> bool {
        self.via(number).is_some_and(|via| via.0 != number)
    }

    /// The clients of `agent`, which is one.
    pub fn clients_of(&self, agent: Peer) -> impl Iterator<Item = u32> + '_ {
        (0..self.processes())
            .zip(&self.via)
            .filter(move |(number, via)| **via == agent && *number != agent.0)
            .map(|(number, _)| number)
    }

    /// Numbers that there are.
    pub fn size(&self) -> u32 {
        self.via.len() as u32
    }

    /// Whether whoever carries messages of `number` sent this: `from`, as the fabric says.
    #[inline]
    pub fn speaks_for(&self, from: Peer, number: u32) -> bool {
        self.via(number) == Some(from)
    }
}

/// Bytes of a header with its envelope.
pub const ENVELOPE_BYTES: usize = HEADER_BYTES + 8;

/// A header for process `to` of process `from`.
#[inline]
pub fn envelope(header: &[u8; HEADER_BYTES], to: u32, from: u32) -> [u8; ENVELOPE_BYTES] {
    let mut bytes = [0; ENVELOPE_BYTES];
    bytes[..HEADER_BYTES].copy_from_slice(header);
    bytes[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&to.to_le_bytes());
    bytes[HEADER_BYTES + 4..].copy_from_slice(&from.to_le_bytes());
    bytes
}

/// Header, receiver and sender, of what is as long as an envelope.
#[inline]
pub fn open_envelope(bytes: &[u8]) -> Option<([u8; HEADER_BYTES], u32, u32)> {
    let bytes: &[u8; ENVELOPE_BYTES] = bytes.try_into().ok()?;
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let header = bytes[..HEADER_BYTES].try_into().expect("a header");
    Some((header, word(HEADER_BYTES), word(HEADER_BYTES + 4)))
}
