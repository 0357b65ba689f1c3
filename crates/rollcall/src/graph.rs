//! Who waits for whom: cycles, and who is missing from a collective.

use crate::record::{Collective, Record, WaitKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The records of those that wait, by rank.
pub(crate) type Waiting<'a> = BTreeMap<u32, &'a Record>;

/// A collective as its ranks name it: the communicator's number, and the function.
pub(crate) type Key<'a> = (u64, &'a str);

/// Whom a process waits for: each of them has to do something before it goes on.
pub(crate) fn waits_for(record: &Record) -> BTreeSet<u32> {
    let peers: BTreeSet<u32> = record.wants.iter().filter_map(|want| want.peer).collect();
    let all_named = record.wants.iter().all(|want| want.peer.is_some()) && record.more == 0;
    if record.any && !(all_named && peers.len() == 1) {
        // Somebody else may do.
        return BTreeSet::new();
    }
    peers
}

/// A shortest cycle of each group of ranks that wait for each other in a circle, the lowest rank first.
pub(crate) fn cycles(waiting: &Waiting) -> Vec<Vec<u32>> {
    let edges: BTreeMap<u32, BTreeSet<u32>> = waiting
        .iter()
        .map(|(rank, record)| (*rank, waits_for(record)))
        .collect();
    let mut named = BTreeSet::new();
    let mut cycles = Vec::new();
    for start in edges.keys() {
        if named.contains(start) {
            continue;
        }
        let Some(cycle) = shortest(&edges, *start) else {
            continue;
        };
        if cycle.iter().any(|rank| named.contains(rank)) {
            continue;
        }
        named.extend(cycle.iter().copied());
        cycles.push(cycle);
    }
    cycles
}

/// The shortest way from `start` back to it.
fn shortest(edges: &BTreeMap<u32, BTreeSet<u32>>, start: u32) -> Option<Vec<u32>> {
    let mut from: BTreeMap<u32, u32> = BTreeMap::new();
    let mut next = VecDeque::from([start]);
    while let Some(rank) = next.pop_front() {
        for peer in edges.get(&rank).into_iter().flatten() {
            if *peer == start {
                let mut cycle = vec![rank];
                while let Some(before) = from.get(cycle.last()?) {
                    cycle.push(*before);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if !from.contains_key(peer) && edges.contains_key(peer) {
                from.insert(*peer, rank);
                next.push_back(*peer);
            }
        }
    }
    None
}

pub(crate) fn key(collective: &Collective) -> Key<'_> {
    (collective.communicator.context, &collective.function)
}

fn is_in(record: &Record, wanted: Key) -> bool {
    record.collectives.iter().any(|one| key(one) == wanted)
}

/// Who keeps `rank` waiting in a collective without being in it, seen through those that are.
pub(crate) fn missing(waiting: &Waiting, rank: u32, wanted: Key) -> BTreeSet<u32> {
    let mut seen = BTreeSet::from([rank]);
    let mut missing = BTreeSet::new();
    let mut next = vec![rank];
    while let Some(rank) = next.pop() {
        let Some(record) = waiting.get(&rank).filter(|record| is_in(record, wanted)) else {
            missing.insert(rank);
            continue;
        };
        let parts = record
            .wants
            .iter()
            .filter(|want| want.kind == WaitKind::Part && want.communicator.context == wanted.0);
        next.extend(
            parts
                .filter_map(|want| want.peer)
                .filter(|peer| seen.insert(*peer)),
        );
    }
    missing
}

/// The ranks in each collective, the collectives of a communicator side by side.
pub(crate) fn collectives<'a>(waiting: &Waiting<'a>) -> BTreeMap<Key<'a>, (&'a str, Vec<u32>)> {
    let mut all: BTreeMap<Key, (&str, Vec<u32>)> = BTreeMap::new();
    for (rank, record) in waiting {
        for one in &record.collectives {
            let (_, ranks) = all
                .entry(key(one))
                .or_insert_with(|| (&one.communicator.name, Vec::new()));
            if ranks.last() != Some(rank) {
                ranks.push(*rank);
            }
        }
    }
    all
}
