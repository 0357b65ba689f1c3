//! Collectives of a checked program: what each member says of them, and the memory they use.

use farpost_mpi::Result;
use farpost_mpi::coll::{Block, Blocks, Root};
use farpost_mpi::datatype::Signature;

use super::areas::Area;
use super::ledger::{Flow, Joined, Said};
use super::p2p::Checked;
use super::{neighbor, reduce};
use crate::calls::blocks::Role;
use crate::calls::forms::Collective;
use crate::cx::{CommRef, Cx};

/// What a call says and the memory it uses.
#[derive(Default)]
pub(super) struct Described {
    pub(super) said: Said,
    pub(super) areas: Vec<Area>,
}

/// The signature of a block.
pub(super) fn signature(block: &Block) -> Signature {
    block.datatype().signature().repeated(block.count())
}

/// The signatures of `count` blocks.
pub(super) fn signatures(blocks: &Blocks, count: usize) -> Vec<Signature> {
    match blocks {
        Blocks::Even(block) => vec![signature(block); count],
        Blocks::Each(list) => list.iter().take(count).map(signature).collect(),
    }
}

/// With `count` ranks.
fn flow(blocks: &Blocks) -> Flow {
    match blocks {
        Blocks::Even(block) => Flow::Same(signature(block)),
        Blocks::Each(list) => Flow::Each(list.iter().map(signature).collect()),
    }
}

/// A block that is read or written.
pub(super) fn area(block: &Block, write: bool) -> Area {
    let buf = block.to_send();
    if write {
        Area::written(buf)
    } else {
        Area::read(buf)
    }
}

/// `count` blocks that are read or written.
pub(super) fn areas(blocks: &Blocks, count: usize, write: bool) -> Vec<Area> {
    match blocks {
        Blocks::Even(block) => vec![area(&block.nths(0, count), write)],
        Blocks::Each(list) => list.iter().map(|block| area(block, write)).collect(),
    }
}

fn rank_of(root: Root) -> u32 {
    match root {
        Root::Rank(rank) => rank as u32,
        Root::Me | Root::Idle => 0,
    }
}

impl Checked<'static> {
    /// A collective is about to begin: tell the leader, and give the memory it uses. Where its arguments are wrong nothing is
    /// described, and what is wrong is said when it is run.
    pub(super) fn join(
        self,
        cx: &'static Cx,
        comm: &CommRef,
        made: &Result<Collective>,
    ) -> (Joined, Vec<Area>) {
        let described = made
            .as_ref()
            .map(|collective| described(comm, collective.clone()));
        let Described { said, areas } = described.unwrap_or_default();
        (self.check.collective(cx, self.call.fun, comm, said), areas)
    }
}

/// What a rank says of a collective.
fn described(comm: &CommRef, collective: Collective) -> Described {
    match collective {
        Collective::Barrier => Described::default(),
        Collective::Bcast { role, buffer } => bcast(role, &buffer),
        Collective::Gather { role, single, row } => rooted(comm, role, true, single, row),
        Collective::Scatter { role, single, row } => rooted(comm, role, false, single, row),
        Collective::Allgather { send, recv } => everybody(comm, send.map(Blocks::Even), true, &recv),
        Collective::Alltoall { send, recv } => everybody(comm, send, false, &recv),
        Collective::NeighborAllgather { around, send, recv } => neighbor::one_to_all(&around, &send, &recv),
        Collective::NeighborAlltoall { around, send, recv } => {
            neighbor::exchange(&around, Some(&send), &recv)
        }
        Collective::Reduction { of, send, recv, op } => reduce::reduction(comm, &of, send, &recv, &op),
    }
}

fn bcast(role: Role, buffer: &Block) -> Described {
    let mut described = Described::default();
    described.said.root = Some(role.argument);
    if role.at_root {
        described.said.sends = Flow::Same(signature(buffer));
    } else if role.other {
        described.said.recvs = Flow::One(rank_of(role.root), signature(buffer));
    }
    if role.at_root || role.other {
        described.areas.push(area(buffer, !role.at_root));
    }
    described
}

/// A rooted collective that collects (`gather`) or spreads: the root's row of blocks and the others' one.
fn rooted(comm: &CommRef, role: Role, gather: bool, single: Option<Block>, row: Blocks) -> Described {
    let mut described = Described::default();
    described.said.root = Some(role.argument);
    let (mut at_root, mut at_others) = (Flow::Nothing, Flow::Nothing);
    let in_place = single.is_none();
    if let Some(block) = single.filter(|_| role.other) {
        at_others = Flow::One(rank_of(role.root), signature(&block));
        described.areas.push(area(&block, !gather));
    }
    if role.at_root {
        at_root = flow(&row);
        let count = comm.peers() as usize;
        match row {
            // What is in place already is written where it lies and read from there.
            Blocks::Each(list) if in_place => {
                let others = (0..).zip(&list).filter(|(rank, _)| *rank != comm.rank);
                described
                    .areas
                    .extend(others.map(|(_, block)| area(block, gather)));
            }
            row => described.areas.extend(areas(&row, count, gather)),
        }
    }
    let said = &mut described.said;
    (said.sends, said.recvs) = if gather {
        (at_others, at_root)
    } else {
        (at_root, at_others)
    };
    described
}

/// A collective in which all receive from all. `send`: `None` for MPI_IN_PLACE, what is sent then lies in `recv`.
fn everybody(comm: &CommRef, send: Option<Blocks>, to_all: bool, recv: &Blocks) -> Described {
    let ranks = comm.peers() as usize;
    let mut described = Described::default();
    described.said.recvs = flow(recv);
    described.said.sends = match &send {
        Some(send) => flow(send),
        None if to_all => Flow::Same(signature(&recv.get(comm.rank as usize))),
        None => flow(recv),
    };
    if let Some(send) = &send {
        let count = if to_all { 1 } else { ranks };
        described.areas.extend(areas(send, count, false));
    }
    described.areas.extend(areas(recv, ranks, true));
    described
}
