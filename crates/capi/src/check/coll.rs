//! Collectives of a checked program: what each member says of them, and the memory they use.

use core::ffi::c_int;

use farpost_mpi::Result;
use farpost_mpi::coll::{Block, Blocks, Root};
use farpost_mpi::datatype::Signature;

use super::areas::Area;
use super::ledger::{Flow, Said};
use super::{neighbor, reduce};
use crate::args::{Array, Counts};
use crate::calls::blocks::Role;
use crate::calls::forms::{Collective, Ptr, PtrMut};
use crate::cx::{CommRef, TypeRef};

/// What a call says and the memory it uses.
#[derive(Default)]
pub(super) struct Described {
    pub(super) said: Said,
    pub(super) areas: Vec<Area>,
}

/// The three forms of a collective: told to the leader, its memory looked at, then run as ever. `$made` checks the
/// arguments; where these are wrong nothing is described, and the ordinary body says what is wrong. Named by the
/// generator: keep the names on the first line.
macro_rules! checked_ways {
    ($blocking:ident, $nonblocking:ident, $init:ident, $module:ident, $made:ident($($arg:ident: $ty:ty),*)) => {
        #[allow(clippy::too_many_arguments)] // The standard's own list.
        pub(crate) unsafe fn $blocking(
            cx: &'static $crate::cx::Cx,
            check: &'static $crate::check::Check,
            fun: $crate::cx::Fun,
            $($arg: $ty,)*
            comm: &$crate::cx::CommRef,
        ) -> farpost_mpi::Result<()> {
            // SAFETY: the buffers are there for the call.
            let made = unsafe { $crate::calls::$module::$made(cx, comm, $(Clone::clone(&$arg)),*) };
            let described = $crate::check::coll::described(comm, made);
            let joined = check.collective(cx, fun, comm, described.said);
            let _memory = check.during(cx, fun, joined.site, &described.areas);
            // SAFETY: as above.
            let done = unsafe { $crate::calls::$module::$blocking(cx, $($arg,)* comm) };
            done.inspect_err(|error| check.explain(cx, joined, error))
        }

        #[allow(clippy::too_many_arguments)] // The standard's own list.
        pub(crate) unsafe fn $nonblocking(
            cx: &'static $crate::cx::Cx,
            check: &'static $crate::check::Check,
            fun: $crate::cx::Fun,
            $($arg: $ty,)*
            comm: &$crate::cx::CommRef,
            request: $crate::args::Out<usize>,
        ) -> farpost_mpi::Result<()> {
            // SAFETY: the buffers are there until the request completes.
            let made = unsafe { $crate::calls::$module::$made(cx, comm, $(Clone::clone(&$arg)),*) };
            let described = $crate::check::coll::described(comm, made);
            let joined = check.collective(cx, fun, comm, described.said);
            let operation = check.operation(fun, joined.site, described.areas, None);
            let begun = check.begin(cx, operation.of(joined));
            // SAFETY: as above.
            let started = unsafe { $crate::calls::$module::$nonblocking(cx, $($arg,)* comm, request) };
            // SAFETY: the body has stored it.
            check.begun(begun, started.is_ok().then(|| unsafe { request.stored() }));
            started
        }

        #[allow(clippy::too_many_arguments)] // The standard's own list.
        pub(crate) unsafe fn $init(
            cx: &'static $crate::cx::Cx,
            check: &'static $crate::check::Check,
            fun: $crate::cx::Fun,
            $($arg: $ty,)*
            comm: &$crate::cx::CommRef,
            info: Option<$crate::cx::InfoRef>,
            request: $crate::args::Out<usize>,
        ) -> farpost_mpi::Result<()> {
            // SAFETY: the buffers are there until the request is freed.
            let made = unsafe { $crate::calls::$module::$made(cx, comm, $(Clone::clone(&$arg)),*) };
            let described = $crate::check::coll::described(comm, made);
            let joined = check.collective(cx, fun, comm, described.said);
            let operation = check.operation(fun, joined.site, described.areas, None).of(joined);
            // SAFETY: as above.
            unsafe { $crate::calls::$module::$init(cx, $($arg,)* comm, info, request) }?;
            // SAFETY: the body has stored it.
            check.persistent(unsafe { request.stored() }, operation);
            Ok(())
        }
    };
}

pub(super) use checked_ways;

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

/// What a rank says of a collective.
pub(super) fn described(comm: &CommRef, made: Result<Collective>) -> Described {
    let Ok(collective) = made else {
        return Described::default();
    };
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

checked_ways!(mpi_barrier, mpi_ibarrier, mpi_barrier_init, coll, barrier());
checked_ways!(mpi_bcast, mpi_ibcast, mpi_bcast_init, coll, bcast(
    buffer: PtrMut, count: i64, datatype: TypeRef, root: c_int));
checked_ways!(mpi_gather, mpi_igather, mpi_gather_init, coll, gather(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize, root: c_int));
checked_ways!(mpi_gatherv, mpi_igatherv, mpi_gatherv_init, coll, gatherv(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcounts: Counts<'_>, displs: Counts<'_>,
    recvtype: usize, root: c_int));
checked_ways!(mpi_scatter, mpi_iscatter, mpi_scatter_init, coll, scatter(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize, root: c_int));
checked_ways!(mpi_scatterv, mpi_iscatterv, mpi_scatterv_init, coll, scatterv(
    sendbuf: Ptr, sendcounts: Counts<'_>, displs: Counts<'_>, sendtype: usize, recvbuf: PtrMut, recvcount: i64,
    recvtype: usize, root: c_int));
checked_ways!(mpi_allgather, mpi_iallgather, mpi_allgather_init, coll, allgather(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize));
checked_ways!(mpi_allgatherv, mpi_iallgatherv, mpi_allgatherv_init, coll, allgatherv(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcounts: Counts<'_>, displs: Counts<'_>,
    recvtype: usize));
checked_ways!(mpi_alltoall, mpi_ialltoall, mpi_alltoall_init, coll, alltoall(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize));
checked_ways!(mpi_alltoallv, mpi_ialltoallv, mpi_alltoallv_init, coll, alltoallv(
    sendbuf: Ptr, sendcounts: Counts<'_>, sdispls: Counts<'_>, sendtype: usize, recvbuf: PtrMut,
    recvcounts: Counts<'_>, rdispls: Counts<'_>, recvtype: usize));
checked_ways!(mpi_alltoallw, mpi_ialltoallw, mpi_alltoallw_init, coll, alltoallw(
    sendbuf: Ptr, sendcounts: Counts<'_>, sdispls: Counts<'_>, sendtypes: Array<'_, usize>, recvbuf: PtrMut,
    recvcounts: Counts<'_>, rdispls: Counts<'_>, recvtypes: Array<'_, usize>));
