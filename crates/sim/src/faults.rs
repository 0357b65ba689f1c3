//! Faults that strike a run: which links and hosts they are, and when, as the machine's file or an option says, or the seed.

use crate::adapter::Event;
use crate::core::Core;
use crate::machine::{FaultKind, FaultNode, FaultPlace, FaultSpec, FaultTime};
use crate::net::{Faults, HostId, ResourceId};
use crate::process::ImportId;
use crate::strikes::Strike;
use crate::time::Ps;
use crate::topology::{Link, Node};
use farpost_fabric::{FabricError, Fault, Peer};

fn node(node: FaultNode) -> Node {
    match node {
        FaultNode::Host(host) => Node::Host(HostId(host)),
        FaultNode::Switch { level, number } => Node::Switch { level, number },
    }
}

fn is_at(link: &Link, node: Node) -> bool {
    link.from == node || link.to == node
}

/// Both directions of links.
fn links(all: &[Link], place: FaultPlace, chance: &mut fastrand::Rng) -> Vec<Link> {
    let wanted = |link: &Link| match place {
        FaultPlace::Any => false,
        FaultPlace::At(there) => is_at(link, node(there)),
        FaultPlace::Rail(host, rail) => is_at(link, Node::Host(HostId(host))) && link.rail == rail,
        FaultPlace::Between(a, b) => {
            [(link.from, link.to), (link.to, link.from)].contains(&(node(a), node(b)))
        }
    };
    if place == FaultPlace::Any && !all.is_empty() {
        let one = all[chance.usize(..all.len())];
        let same = |link: &&Link| {
            link.rail == one.rail
                && [(link.from, link.to), (link.to, link.from)].contains(&(one.from, one.to))
        };
        return all.iter().filter(same).copied().collect();
    }
    all.iter().filter(|link| wanted(link)).copied().collect()
}

fn time(time: FaultTime, chance: &mut fastrand::Rng) -> Ps {
    Ps(chance.u64(time.first.0..=time.last.0))
}

fn host_of(link: &Link) -> u32 {
    match (link.from, link.to) {
        (Node::Host(host), _) | (_, Node::Host(host)) => host.0,
        _ => 0,
    }
}

impl Core {
    /// These strike the run, which has not begun.
    ///
    /// # Errors
    /// A sentence: there is no such host or link.
    pub fn add_faults(&mut self, faults: &[FaultSpec], seed: u64) -> Result<(), String> {
        let mut chances = Faults::default();
        // Not what anything else draws from, so that a fault more changes nothing else.
        let mut chance = fastrand::Rng::with_seed(seed ^ 0x6661_756c_7473);
        let all = self.kernel.topology().links();
        for fault in faults {
            self.add(fault, &all, &mut chance, &mut chances)
                .map_err(|why| format!("fault \"{}\": {why}", fault.text))?;
        }
        self.kernel.net.set_faults(chances);
        Ok(())
    }

    fn add(
        &mut self,
        fault: &FaultSpec,
        all: &[Link],
        chance: &mut fastrand::Rng,
        chances: &mut Faults,
    ) -> Result<(), String> {
        let hosts = self.adapters().count() as u32;
        let known = |host: u32| match host < hosts {
            true => Ok(host),
            false => Err(format!(
                "there is no host {host} in this run, allowed are 0 to {}",
                hosts - 1
            )),
        };
        match fault.kind {
            FaultKind::Loss(number) => chances.loss = number,
            FaultKind::Damage(number) => chances.damage = number,
            FaultKind::Slow { host, factor } => {
                let host = HostId(known(host)?);
                for rank in self.ranks_of(host) {
                    self.kernel.procs.schedule.set_slow(rank, factor);
                }
            }
            FaultKind::Dead { host, at } => {
                let host = match host {
                    Some(host) => known(host)?,
                    None => chance.u32(..hosts),
                };
                let at = time(at, chance);
                self.strike_at(at, host, Strike::Dead(HostId(host)));
            }
            FaultKind::Cut { place, at, lasts } => {
                for end in match place {
                    FaultPlace::At(it) => vec![it],
                    FaultPlace::Rail(host, _) => vec![FaultNode::Host(host)],
                    FaultPlace::Between(a, b) => vec![a, b],
                    FaultPlace::Any => Vec::new(),
                } {
                    if let FaultNode::Host(host) = end {
                        known(host)?;
                    }
                }
                let cut = links(all, place, chance);
                let Some(first) = cut.first() else {
                    return Err("no link is there".into());
                };
                let (host, at) = (host_of(first), time(at, chance));
                let cut: Vec<ResourceId> = cut.iter().map(|link| link.resource).collect();
                if let Some(lasts) = lasts {
                    let end = at + time(lasts, chance);
                    self.strike_at(end, host, Strike::Mend(cut.clone()));
                }
                self.strike_at(at, host, Strike::Cut(cut));
            }
        }
        Ok(())
    }

    fn strike_at(&mut self, at: Ps, host: u32, strike: Strike) {
        let number = self.faults.all.len();
        self.faults.all.push((host, strike));
        self.kernel.queue.at(at, Event::Fault(number));
    }

    fn ranks_of(&self, host: HostId) -> Vec<u32> {
        let procs = &self.kernel.procs;
        let on = |rank: &u32| procs.host_of(Peer(*rank)) == host;
        (0..procs.size()).filter(on).collect()
    }

    /// The fault of this number happens.
    pub(crate) fn strike(&mut self, number: usize) {
        match self.faults.all[number].1.clone() {
            Strike::Cut(links) => links.into_iter().for_each(|link| self.cut(link)),
            Strike::Mend(links) => {
                for link in links {
                    let by = self.faults.broken.entry(link).or_default();
                    *by = by.saturating_sub(1);
                    if *by == 0 {
                        self.kernel.set_broken(link, false);
                    }
                }
            }
            Strike::Dead(host) => self.host_dies(host),
        }
    }

    fn cut(&mut self, link: ResourceId) {
        let by = self.faults.broken.entry(link).or_default();
        *by += 1;
        if *by == 1 {
            self.kernel.set_broken(link, true);
        }
    }

    /// Its links are cut for ever, and its processes do nothing any more: others hear of it as of processes that have ended.
    fn host_dies(&mut self, host: HostId) {
        if !self.faults.dead.insert(host) {
            return;
        }
        let all = self.kernel.topology().links();
        for link in all.iter().filter(|link| is_at(link, Node::Host(host))) {
            self.cut(link.resource);
        }
        let (now, why) = (
            self.kernel.now,
            format!("host {} is dead, by a fault that was asked for", host.0),
        );
        for rank in self.ranks_of(host) {
            self.kernel.procs.kill(Peer(rank), &why);
        }
        for rank in 0..self.kernel.procs.size() {
            self.kernel.procs.touch(Peer(rank), now);
        }
    }

    /// Whether the host of a rank has died.
    pub(crate) fn is_struck(&self, rank: Peer) -> bool {
        !self.faults.dead.is_empty() && self.faults.dead.contains(&self.kernel.procs.host_of(rank))
    }

    /// A put was lost, and its status is still there: whoever stores without asking is told by the fabric.
    pub(crate) fn tell_of_put(&mut self, import: ImportId) {
        let it = self.kernel.procs.import_of(import);
        let (from, peer) = (it.from, it.to);
        if let Some(error) = &it.error {
            let error = FabricError::dead(peer, error.to_string());
            self.kernel.fault(from, Fault { peer, error });
        }
    }
}
