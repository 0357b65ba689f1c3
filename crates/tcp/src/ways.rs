//! Ways to other hosts. Links to the processes of one host have them in common, and tell each other what they know of them: idle
//! links of a job with many ranks would else spend their time with pings.
//!
//! Cost class: *queued path*.

use super::other::{NONE, Other};
use super::state::State;
use crate::link::Way;
use farpost_fabric::Peer;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Ways to other hosts, by host and rail.
pub type Ways = HashMap<(u32, usize), Way>;

impl State {
    /// What the links to the processes of each host know of their ways, which they have in common. Empty if no host has several.
    pub fn ways(&self) -> Ways {
        let mut ways = Ways::new();
        let mut shared = false;
        for (of, other) in self.others.iter().enumerate() {
            let (Some(other), Some(&host)) = (other, self.net.host_of.get(of)) else {
                continue;
            };
            for rail in 0..other.rails.len() {
                if let Some(way) = other.link.way(rail) {
                    let joined = ways.entry((host, rail));
                    shared |= matches!(joined, Entry::Occupied(_));
                    joined.or_default().join(&way);
                }
            }
        }
        if !shared {
            ways.clear();
        }
        ways
    }

    /// Tell the link to `peer` what others to its host know, or add what it knows now: one ping is enough for all.
    pub fn share(&mut self, peer: Peer, ways: &mut Ways, now: u64, tell: bool) {
        if ways.is_empty() {
            return;
        }
        let Some(&host) = self.net.host_of.get(peer.index()) else {
            return;
        };
        let Some(other) = self.others[peer.index()].as_deref_mut() else {
            return;
        };
        for rail in 0..other.rails.len() {
            let Some(way) = ways.get_mut(&(host, rail)) else {
                continue;
            };
            if tell {
                other.link.on_way(rail, way, now);
            } else if let Some(known) = other.link.way(rail) {
                way.join(&known);
            }
        }
    }
}

/// Most ways that one sentence tells.
const WAYS_TOLD: usize = 8;

/// The sentence about a peer that no way led to.
pub fn never_reached(host: &str, other: &Other, waited: u64) -> String {
    let since = SystemTime::now() - Duration::from_nanos(waited);
    let day = since
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs() % 86_400);
    let mut tried: Vec<String> = Vec::new();
    for rail in &other.rails {
        tried.extend(rail.outcomes.iter().filter(|o| !o.is_empty()).cloned());
        // What is being tried now.
        let now = rail.next % rail.candidates.len().max(1);
        let known = rail.outcomes.get(now).is_some_and(|o| !o.is_empty());
        if let Some(way) = rail.candidates.get(now).filter(|_| !known && rail.trying != NONE) {
            tried.push(format!("{} via {}: no answer", way.to, way.interface));
        }
    }
    let more = match tried.len().saturating_sub(WAYS_TOLD) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let ways = match tried.is_empty() {
        true => "nothing could be tried".to_owned(),
        false => tried[..tried.len().min(WAYS_TOLD)].join("; "),
    };
    format!(
        "host {host}: connecting has waited {}.{} s, since {:02}:{:02}:{:02} UTC, and no way led there: {ways}{more}. \
         `farpost doctor --hosts` tells which networks reach it, FARPOST_INTERFACE chooses them, FARPOST_CONNECT_MS is the time allowed",
        waited / 1_000_000_000,
        waited / 100_000_000 % 10,
        day / 3600,
        day / 60 % 60,
        day % 60,
    )
}
