//! Who is who: the processes that a job has, by the fabric's number and by their Portals identifier.

use crate::types::{Identity, ProcessId};

/// The processes of a job. Known at the start, fixed afterwards; the library takes no identity from anywhere else.
#[derive(Clone, Debug)]
pub struct Processes {
    identities: Vec<Identity>,
    /// Open addressing by identifier: numbers into `identities`, [`EMPTY`] where there is none.
    slots: Vec<u32>,
    /// No two have one identifier.
    distinct: bool,
    /// The number on its node of process 0.
    first: u32,
}

const EMPTY: u32 = u32::MAX;

#[inline]
fn hash(id: ProcessId) -> usize {
    let word = (u64::from(id.nid) << 32 | u64::from(id.pid)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> 32) as usize
}

impl Processes {
    /// `identities` by the fabric's process numbers. Of two with one identifier the first is found.
    pub fn new(identities: Vec<Identity>) -> Self {
        let mut slots = vec![EMPTY; (identities.len() * 2).next_power_of_two().max(2)];
        let mask = slots.len() - 1;
        let mut distinct = true;
        for (number, identity) in identities.iter().enumerate() {
            let mut at = hash(identity.id) & mask;
            while slots[at] != EMPTY {
                distinct &= identities[slots[at] as usize].id != identity.id;
                at = (at + 1) & mask;
            }
            slots[at] = number as u32;
        }
        Self {
            first: identities.first().map_or(0, |i| i.id.pid),
            identities,
            slots,
            distinct,
        }
    }

    /// Processes of one host and one user: process `n` is number `n` of node 0.
    pub fn on_one_host(size: u32, uid: u32, jid: u32) -> Self {
        Self::new(
            (0..size)
                .map(|pid| Identity {
                    id: ProcessId::new(0, pid),
                    uid,
                    jid,
                })
                .collect(),
        )
    }

    /// Processes whose number in the job is their number on their node, by their hosts: as MPI names them.
    pub fn by_rank(hosts: impl IntoIterator<Item = u32>) -> Self {
        let identity = |(rank, host)| Identity {
            id: ProcessId::new(host, rank),
            uid: 0,
            jid: 0,
        };
        Self::new((0..).zip(hosts).map(identity).collect())
    }

    /// The same, but for the user and the job of process `number`.
    pub fn with(&self, number: u32, uid: u32, jid: u32) -> Self {
        let mut with = self.clone();
        if let Some(identity) = with.identities.get_mut(number as usize) {
            (identity.uid, identity.jid) = (uid, jid);
        }
        with
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.identities.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.identities.is_empty()
    }

    /// The fabric's number of a process. On one host, the process's own tells it.
    #[inline(always)]
    pub fn number(&self, id: ProcessId) -> Option<u32> {
        let likely = id.pid.wrapping_sub(self.first);
        if self.identities.get(likely as usize).is_some_and(|i| i.id == id) && self.distinct {
            return Some(likely);
        }
        self.look_up(id)
    }

    #[inline(never)]
    fn look_up(&self, id: ProcessId) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = hash(id) & mask;
        loop {
            let number = self.slots[at];
            if number == EMPTY {
                return None;
            }
            if self.identities[number as usize].id == id {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
    }

    /// Who process `number` is.
    #[inline]
    pub fn identity(&self, number: u32) -> Option<&Identity> {
        self.identities.get(number as usize)
    }

    /// Whether a match entry or access entry may name `id`: a process that exists, or one with a wildcard in it.
    pub fn admissible(&self, id: ProcessId) -> bool {
        use crate::types::ANY;
        match (id.nid, id.pid) {
            (ANY, ANY) => true,
            (ANY, pid) => self.identities.iter().any(|i| i.id.pid == pid),
            (nid, ANY) => self.identities.iter().any(|i| i.id.nid == nid),
            _ => self.number(id).is_some(),
        }
    }
}
