//! Who is who: the processes that a job has, by the fabric's number and by their Portals identifier.

use crate::types::{Identity, ProcessId};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The processes of a job. Known at the start, fixed afterwards; the library takes no identity from anywhere else. But processes may have
/// [chosen](Self::with_chosen) their numbers, which is learnt when they are first met.
#[derive(Clone, Debug)]
pub struct Processes {
    identities: Vec<Identity>,
    /// Where some may have chosen others.
    chosen: Option<Rc<Chosen>>,
    /// Open addressing by identifier: numbers into `identities`, [`EMPTY`] where there is none.
    slots: Vec<u32>,
    /// No two have one identifier.
    distinct: bool,
    /// The number on its node of process 0.
    first: u32,
}

const EMPTY: u32 = u32::MAX;

/// What is known of a process's number on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pid {
    /// Not whether it will choose one: it has not come yet.
    Unknown,
    /// That which it was given.
    Given,
    /// This one, unless a process of its node that comes before it has the same.
    Chosen(u32),
}

/// Numbers that processes have chosen. Given ones name their processes as well, and nobody else's choice is one of them.
struct Chosen {
    /// What a process has chosen. Its answer changes once, from [`Pid::Unknown`].
    ask: Box<dyn Fn(u32) -> Pid>,
    /// By process, as soon as it is known: who has chosen, as what.
    known: Vec<OnceCell<Option<Identity>>>,
    /// Those that have been looked for by what they have chosen.
    found: RefCell<BTreeMap<(u32, u32), u32>>,
}

impl core::fmt::Debug for Chosen {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Chosen")
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

impl Chosen {
    /// Process `number`, which was `given` an identity, if it has chosen another.
    #[inline]
    fn of(&self, number: u32, given: &[Identity]) -> Option<&Identity> {
        let known = self.known.get(number as usize)?;
        match known.get() {
            Some(chosen) => chosen.as_ref(),
            None => self.learn(number, given),
        }
    }

    #[cold]
    fn learn(&self, number: u32, given: &[Identity]) -> Option<&Identity> {
        let own = given.get(number as usize)?;
        let chosen = match (self.ask)(number) {
            Pid::Unknown => return None,
            Pid::Given => None,
            Pid::Chosen(pid) => {
                let mut before = (0..number).filter(|other| given[*other as usize].id.nid == own.id.nid);
                // Whoever has chosen waits for those before it; until they have come its choice is none.
                let taken = before.try_fold(false, |taken, other| match (self.ask)(other) {
                    Pid::Unknown => None,
                    Pid::Given => Some(taken),
                    Pid::Chosen(other) => Some(taken || other == pid),
                });
                let id = ProcessId::new(own.id.nid, pid);
                (!taken?).then_some(Identity { id, ..*own })
            }
        };
        self.known[number as usize].get_or_init(|| chosen).as_ref()
    }

    fn find(&self, id: ProcessId, given: &[Identity]) -> Option<u32> {
        let key = (id.nid, id.pid);
        if let Some(found) = self.found.borrow().get(&key) {
            return Some(*found);
        }
        let of_node = (0..).zip(given).filter(|(_, identity)| identity.id.nid == id.nid);
        let found = of_node
            .map(|(number, _)| number)
            .find(|number| self.of(*number, given).is_some_and(|chosen| chosen.id == id))?;
        self.found.borrow_mut().insert(key, found);
        Some(found)
    }
}

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
            chosen: None,
            slots,
            distinct,
        }
    }

    /// The same, where processes may have chosen other numbers on their nodes than they were given, none of which is one that another
    /// was given. `ask` tells what a process has chosen, and does not wait. Of two of a node with the same choice the first has it.
    pub fn with_chosen(mut self, ask: impl Fn(u32) -> Pid + 'static) -> Self {
        self.chosen = Some(Rc::new(Chosen {
            ask: Box::new(ask),
            known: self.identities.iter().map(|_| OnceCell::new()).collect(),
            found: RefCell::default(),
        }));
        self
    }

    /// Who process `number` was at the start.
    pub fn given(&self, number: u32) -> Option<&Identity> {
        self.identities.get(number as usize)
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
                let chosen = self.chosen.as_ref()?;
                return chosen.find(id, &self.identities);
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
        let given = self.identities.get(number as usize)?;
        match &self.chosen {
            None => Some(given),
            Some(chosen) => Some(chosen.of(number, &self.identities).unwrap_or(given)),
        }
    }

    /// Whether a match entry or access entry may name `id`: a process that exists, or one with a wildcard in it.
    pub fn admissible(&self, id: ProcessId) -> bool {
        use crate::types::ANY;
        match (id.nid, id.pid) {
            (ANY, ANY) => true,
            (ANY, pid) => {
                let has = |number| self.identity(number).is_some_and(|i| i.id.pid == pid);
                (0..self.identities.len() as u32).any(has)
            }
            (nid, ANY) => self.identities.iter().any(|i| i.id.nid == nid),
            _ => self.number(id).is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ANY;
    use std::cell::Cell;

    const NODE: u32 = 3;

    fn id(pid: u32) -> ProcessId {
        ProcessId::new(NODE, pid)
    }

    /// Four processes of a node that were given 1 to 4, and one of another.
    fn five(ask: impl Fn(u32) -> Pid + 'static) -> Processes {
        let given = |pid| Identity {
            id: id(pid),
            uid: 7,
            jid: 9,
        };
        let mut all: Vec<Identity> = (1..5).map(given).collect();
        all.push(Identity {
            id: ProcessId::new(NODE + 1, 1),
            ..given(1)
        });
        Processes::new(all).with_chosen(ask)
    }

    #[test]
    fn who_has_chosen_a_number_is_known_by_it_and_found_by_both() {
        let processes = five(|number| match number {
            2 => Pid::Chosen(77),
            4 => Pid::Chosen(77),
            _ => Pid::Given,
        });
        assert_eq!(processes.number(id(77)), Some(2));
        assert_eq!(processes.number(id(3)), Some(2), "the given one stays");
        assert_eq!(processes.number(ProcessId::new(NODE + 1, 77)), Some(4));
        assert_eq!(processes.number(id(78)), None);
        let who = processes.identity(2).expect("a process");
        assert_eq!((who.id, who.uid, who.jid), (id(77), 7, 9));
        assert_eq!(processes.identity(1).map(|who| who.id), Some(id(2)));
        assert!(processes.admissible(id(77)) && processes.admissible(ProcessId::new(ANY, 77)));
        assert!(!processes.admissible(id(78)) && !processes.admissible(ProcessId::new(ANY, 78)));
    }

    #[test]
    fn of_two_with_one_choice_the_first_has_it() {
        let processes = five(|number| match number {
            1 | 3 => Pid::Chosen(50),
            _ => Pid::Given,
        });
        assert_eq!(processes.number(id(50)), Some(1));
        assert_eq!(processes.identity(3).map(|who| who.id), Some(id(4)));
    }

    #[test]
    fn a_choice_is_none_as_long_as_somebody_before_may_have_the_same() {
        let come = Rc::new(Cell::new(false));
        let seen = Rc::clone(&come);
        let processes = five(move |number| match number {
            0 if !seen.get() => Pid::Unknown,
            1 => Pid::Chosen(50),
            _ => Pid::Given,
        });
        assert_eq!(processes.number(id(50)), None);
        assert_eq!(processes.identity(1).map(|who| who.id), Some(id(2)));
        come.set(true);
        assert_eq!(processes.identity(1).map(|who| who.id), Some(id(50)));
        assert_eq!(processes.number(id(50)), Some(1));
    }
}
