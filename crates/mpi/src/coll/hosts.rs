//! Which ranks share a host, and collectives that use it: what has to go to another host goes there once, between one
//! rank of each, its *leader*, and is spread or taken together within each host.
//!
//! The ranks of a host are in ascending order, and hosts are in the order of their lowest ranks; the same at all ranks.
//!
//! A broadcast crosses to each other host once: down a tree, or along a chain in pieces when it is long, so that one piece is on its way to the next
//! host while the one before is spread within this host. Reduce and allreduce of long vectors reduce within each host first
//! (`FARPOST_COLL_REDUCE_HOSTS_MIN`); then one rank of each host exchanges the results. Where the operation does not commute this needs the ranks
//! of each host to follow each other. Gather, scatter, allgather, alltoall, scans, reduce-scatter and barriers without boards do not look at hosts.

use super::mem::Block;
use super::plan::Builder;
use super::{Tuning, allreduce, bcast, reduce};
use std::rc::Rc;

/// The hosts of a group of ranks that are on several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts(Repr);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Repr {
    /// So many ranks that follow each other on each host, and as many or fewer on the last: nothing that grows with the group.
    Blocks { each: usize, ranks: usize },
    Listed {
        /// By rank: its host.
        host_of: Vec<u32>,
        /// By host: its ranks. A slice that plans share.
        members: Vec<Rc<[usize]>>,
        /// Ranks of a host follow each other.
        in_order: bool,
    },
}

impl Hosts {
    /// From a number per rank that says where it is; `None` when all are the same.
    pub fn of(places: impl IntoIterator<Item = u32>) -> Option<Self> {
        let places: Vec<u32> = places.into_iter().collect();
        if let Some(each) = block(&places) {
            let ranks = places.len();
            return (each < ranks).then_some(Self(Repr::Blocks { each, ranks }));
        }
        let mut known = std::collections::BTreeMap::new();
        let mut members: Vec<Vec<usize>> = Vec::new();
        let mut host_of: Vec<u32> = Vec::new();
        let mut in_order = true;
        for (rank, place) in places.into_iter().enumerate() {
            let host = *known.entry(place).or_insert_with(|| {
                members.push(Vec::new());
                members.len() as u32 - 1
            });
            members[host as usize].push(rank);
            in_order &= host_of.last().is_none_or(|last| *last <= host);
            host_of.push(host);
        }
        (members.len() > 1).then(|| {
            Self(Repr::Listed {
                host_of,
                members: members.into_iter().map(Rc::from).collect(),
                in_order,
            })
        })
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> usize {
        match &self.0 {
            Repr::Blocks { each, ranks } => ranks.div_ceil(*each),
            Repr::Listed { members, .. } => members.len(),
        }
    }

    /// The host of a rank.
    #[inline]
    pub fn host_of(&self, rank: usize) -> usize {
        match &self.0 {
            Repr::Blocks { each, .. } => rank / each,
            Repr::Listed { host_of, .. } => host_of[rank] as usize,
        }
    }

    /// The ranks of a host, in order.
    pub fn ranks(&self, host: usize) -> Rc<[usize]> {
        match &self.0 {
            Repr::Blocks { each, ranks } => (host * each..(*ranks).min((host + 1) * each)).collect(),
            Repr::Listed { members, .. } => Rc::clone(&members[host]),
        }
    }

    /// The lowest rank of a host.
    fn lowest(&self, host: usize) -> usize {
        match &self.0 {
            Repr::Blocks { each, .. } => host * each,
            Repr::Listed { members, .. } => members[host][0],
        }
    }

    /// The lowest ranks of all hosts, in the order of hosts.
    pub fn lowest_ranks(&self) -> impl Iterator<Item = usize> {
        (0..self.count()).map(|host| self.lowest(host))
    }

    /// Ranks of a host follow each other, so that reducing by host keeps the order of ranks.
    #[inline]
    pub fn in_order(&self) -> bool {
        match &self.0 {
            Repr::Blocks { .. } => true,
            Repr::Listed { in_order, .. } => *in_order,
        }
    }

    /// Most ranks on one host.
    pub fn most(&self) -> usize {
        match &self.0 {
            Repr::Blocks { each, .. } => *each,
            Repr::Listed { members, .. } => members.iter().map(|ranks| ranks.len()).max().unwrap_or(0),
        }
    }

    /// One rank per host: `root` on its own, the lowest on the others.
    fn leaders(&self, root: usize) -> Rc<[usize]> {
        let here = self.host_of(root);
        let lead = |host| if host == here { root } else { self.lowest(host) };
        (0..self.count()).map(lead).collect()
    }
}

/// How many ranks are on each host, where they follow each other and the numbers of places grow; the last one may have fewer.
fn block(places: &[u32]) -> Option<usize> {
    let each = places.chunk_by(|a, b| a == b).next()?.len();
    let mut chunks = places.chunks(each);
    let whole = chunks.all(|chunk| chunk.iter().all(|place| *place == chunk[0]));
    let apart = places.chunks(each).is_sorted_by(|a, b| a[0] < b[0]);
    (whole && apart).then_some(each)
}

/// Broadcast: to one rank of each host, and from there to its neighbours, piece by piece, so that a piece is on its way to
/// the next host while the one before is spread within this one.
pub(super) fn bcast_by_host(b: &mut Builder, hosts: &Hosts, tuning: &Tuning, buf: &Block, root: usize) {
    let host = hosts.host_of(b.rank);
    let leaders = hosts.leaders(root);
    let long = buf.bytes() >= tuning.bcast_chain_min;
    let mut parent = None;
    let mut children = Vec::new();
    // The far ones first: theirs is the longer way.
    if leaders[host] == b.rank {
        let (from, to) = bcast::relatives(host, hosts.host_of(root), leaders.len(), long);
        parent = from.map(|from| leaders[from]);
        children.extend(to.into_iter().map(|to| leaders[to]));
    }
    let here = &hosts.ranks(host);
    let place = |rank| here.iter().position(|other| *other == rank).unwrap_or(0);
    let (from, to) = bcast::relatives(place(b.rank), place(leaders[host]), here.len(), long);
    parent = parent.or(from.map(|from| here[from]));
    children.extend(to.into_iter().map(|to| here[to]));
    let pieces = buf.bytes().div_ceil(tuning.link(buf.bytes())) as usize;
    bcast::flow(b, tuning, buf, pieces, parent, &children);
}

/// Whether reducing `bytes` by host pays and gives what the operation demands.
pub(super) fn reduces(b: &Builder, tuning: &Tuning, bytes: u64) -> Option<Rc<Hosts>> {
    let hosts = b.hosts.as_ref().filter(|_| bytes >= tuning.reduce_hosts_min)?;
    (hosts.most() > 1 && (hosts.in_order() || b.commutes())).then(|| Rc::clone(hosts))
}

/// Reduce: within each host to its leader, between the leaders to the root.
pub(super) fn reduce_by_host(
    b: &mut Builder,
    hosts: &Hosts,
    tuning: &Tuning,
    send: &Block,
    recv: &Block,
    root: usize,
) {
    let host = hosts.host_of(b.rank);
    let (leaders, here) = (hosts.leaders(root), &hosts.ranks(host));
    let leader = leaders[host];
    if b.rank != leader {
        b.within(here, leader, |b, leader| {
            reduce::intra(b, tuning, send, &Block::none(), leader);
        });
        return;
    }
    let mut part = send.clone();
    if here.len() > 1 {
        if b.rank != root {
            part = b.temp(send.count(), send.datatype());
        } else {
            part = recv.clone();
        }
        b.within(here, leader, |b, leader| {
            reduce::intra(b, tuning, send, &part, leader)
        });
        b.round();
    }
    b.within(&leaders, root, |b, root| {
        reduce::intra(b, tuning, &part, recv, root)
    });
}

/// Allreduce: within each host to its leader, between the leaders, and back.
pub(super) fn allreduce_by_host(b: &mut Builder, hosts: &Hosts, tuning: &Tuning, send: &Block, recv: &Block) {
    let host = hosts.host_of(b.rank);
    let here = &hosts.ranks(host);
    let leader = here[0];
    b.within(here, leader, |b, leader| {
        reduce::intra(b, tuning, send, recv, leader)
    });
    b.round();
    if b.rank == leader {
        let leaders = hosts.leaders(0);
        b.within(&leaders, leader, |b, _| allreduce::intra(b, tuning, recv, recv));
        b.round();
    }
    b.within(here, leader, |b, leader| bcast::intra(b, tuning, recv, leader));
}
