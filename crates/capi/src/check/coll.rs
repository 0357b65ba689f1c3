//! Collectives of a checked program: what each member says of them, and the memory they use.

use core::ffi::c_int;

use farpost_mpi::Result;
use farpost_mpi::coll::{Block, Blocks, Root};
use farpost_mpi::datatype::Signature;

use super::areas::Area;
use super::ledger::{Flow, Said};
use crate::args::{Array, Counts};
use crate::cx::{CommRef, Cx, TypeRef};
use crate::imp::blocks::{block, each, each_w, in_place, role, whole};
use crate::imp::forms::{Ptr, PtrMut};

/// What a call says and the memory it uses.
#[derive(Default)]
pub(super) struct Described {
    pub(super) said: Said,
    pub(super) areas: Vec<Area>,
}

/// The three forms of a collective: told to the leader, its memory looked at, then run as ever. `$describe` is called with
/// the arguments; where these are wrong it describes nothing, and the ordinary body says what is wrong. Named by the
/// generator: keep the names on the first line.
macro_rules! checked_ways {
    ($blocking:ident, $nonblocking:ident, $init:ident, $module:ident, $describe:ident($($arg:ident: $ty:ty),*)) => {
        #[allow(clippy::too_many_arguments)] // The standard's own list.
        pub(crate) unsafe fn $blocking(
            cx: &'static $crate::cx::Cx,
            check: &'static $crate::check::Check,
            fun: $crate::cx::Fun,
            $($arg: $ty,)*
            comm: &$crate::cx::CommRef,
        ) -> farpost_mpi::Result<()> {
            // SAFETY: the buffers are there for the call.
            let described = unsafe { $describe(cx, comm, $(Clone::clone(&$arg)),*) }.unwrap_or_default();
            let joined = check.collective(cx, fun, comm, described.said);
            let _memory = check.during(cx, fun, joined.site, &described.areas);
            // SAFETY: as above.
            let done = unsafe { $crate::imp::$module::$blocking(cx, $($arg,)* comm) };
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
            let described = unsafe { $describe(cx, comm, $(Clone::clone(&$arg)),*) }.unwrap_or_default();
            let joined = check.collective(cx, fun, comm, described.said);
            let operation = check.operation(fun, joined.site, described.areas, None);
            let begun = check.begin(cx, operation.of(joined));
            // SAFETY: as above.
            let started = unsafe { $crate::imp::$module::$nonblocking(cx, $($arg,)* comm, request) };
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
            let described = unsafe { $describe(cx, comm, $(Clone::clone(&$arg)),*) }.unwrap_or_default();
            let joined = check.collective(cx, fun, comm, described.said);
            let operation = check.operation(fun, joined.site, described.areas, None).of(joined);
            // SAFETY: as above.
            unsafe { $crate::imp::$module::$init(cx, $($arg,)* comm, info, request) }?;
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

unsafe fn barrier(_: &Cx, _: &CommRef) -> Result<Described> {
    Ok(Described::default())
}

checked_ways!(mpi_barrier, mpi_ibarrier, mpi_barrier_init, coll, barrier());

unsafe fn bcast(
    _: &Cx,
    comm: &CommRef,
    buffer: PtrMut,
    count: i64,
    datatype: TypeRef,
    root: c_int,
) -> Result<Described> {
    let role = role(comm, root)?;
    // SAFETY: the caller's promise.
    let buffer = unsafe { whole(buffer, count, datatype) };
    let mut described = Described::default();
    described.said.root = Some(root);
    if role.at_root {
        described.said.sends = Flow::Same(signature(&buffer));
    } else if role.other {
        described.said.recvs = Flow::One(rank_of(role.root), signature(&buffer));
    }
    if role.at_root || role.other {
        described.areas.push(area(&buffer, !role.at_root));
    }
    Ok(described)
}

checked_ways!(mpi_bcast, mpi_ibcast, mpi_bcast_init, coll, bcast(
    buffer: PtrMut, count: i64, datatype: TypeRef, root: c_int));

/// A rooted collective that collects (`gather`) or spreads: the root's side and the others' one.
fn rooted(
    comm: &CommRef,
    root: c_int,
    gather: bool,
    central: impl FnOnce() -> Result<Blocks>,
    single: impl FnOnce() -> Result<Option<Block>>,
) -> Result<Described> {
    let role = role(comm, root)?;
    let mut described = Described::default();
    described.said.root = Some(root);
    let (mut at_root, mut at_others) = (Flow::Nothing, Flow::Nothing);
    let mut in_place = false;
    if role.other {
        match single()? {
            Some(block) => {
                at_others = Flow::One(rank_of(role.root), signature(&block));
                described.areas.push(area(&block, !gather));
            }
            None => in_place = true,
        }
    }
    if role.at_root {
        let blocks = central()?;
        at_root = flow(&blocks);
        let count = comm.peers() as usize;
        match blocks {
            // What is in place already is written where it lies and read from there.
            Blocks::Each(list) if in_place => {
                let others = list
                    .iter()
                    .enumerate()
                    .filter(|(rank, _)| *rank != comm.rank as usize);
                described
                    .areas
                    .extend(others.map(|(_, block)| area(block, gather)));
            }
            blocks => described.areas.extend(areas(&blocks, count, gather)),
        }
    }
    let said = &mut described.said;
    (said.sends, said.recvs) = if gather {
        (at_others, at_root)
    } else {
        (at_root, at_others)
    };
    Ok(described)
}

/// `None` for MPI_IN_PLACE.
///
/// # Safety
/// As [`Block::new`].
unsafe fn unless_in_place(
    cx: &Cx,
    side: &'static str,
    address: Ptr,
    count: i64,
    datatype: usize,
) -> Result<Option<Block>> {
    if in_place(address) {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { block(cx, side, address, count, datatype) }.map(Some)
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn gather(
    cx: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcount: i64,
    recvtype: usize,
    root: c_int,
) -> Result<Described> {
    rooted(
        comm,
        root,
        true,
        // SAFETY: the caller's promise.
        || unsafe { block(cx, "recv", recvbuf, recvcount, recvtype) }.map(Blocks::Even),
        // SAFETY: the caller's promise.
        || unsafe { unless_in_place(cx, "send", sendbuf, sendcount, sendtype) },
    )
}

checked_ways!(mpi_gather, mpi_igather, mpi_gather_init, coll, gather(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize, root: c_int));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn gatherv(
    cx: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcounts: Counts<'_>,
    displs: Counts<'_>,
    recvtype: usize,
    root: c_int,
) -> Result<Described> {
    let ranks = comm.peers() as usize;
    rooted(
        comm,
        root,
        true,
        // SAFETY: the caller's promise.
        || unsafe { each(cx, "recv", recvbuf, recvcounts, displs, recvtype, ranks) },
        // SAFETY: the caller's promise.
        || unsafe { unless_in_place(cx, "send", sendbuf, sendcount, sendtype) },
    )
}

checked_ways!(mpi_gatherv, mpi_igatherv, mpi_gatherv_init, coll, gatherv(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcounts: Counts<'_>, displs: Counts<'_>,
    recvtype: usize, root: c_int));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn scatter(
    cx: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcount: i64,
    recvtype: usize,
    root: c_int,
) -> Result<Described> {
    rooted(
        comm,
        root,
        false,
        // SAFETY: the caller's promise.
        || unsafe { block(cx, "send", sendbuf, sendcount, sendtype) }.map(Blocks::Even),
        // SAFETY: the caller's promise.
        || unsafe { unless_in_place(cx, "recv", recvbuf, recvcount, recvtype) },
    )
}

checked_ways!(mpi_scatter, mpi_iscatter, mpi_scatter_init, coll, scatter(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize, root: c_int));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn scatterv(
    cx: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcounts: Counts<'_>,
    displs: Counts<'_>,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcount: i64,
    recvtype: usize,
    root: c_int,
) -> Result<Described> {
    let ranks = comm.peers() as usize;
    rooted(
        comm,
        root,
        false,
        // SAFETY: the caller's promise.
        || unsafe { each(cx, "send", sendbuf, sendcounts, displs, sendtype, ranks) },
        // SAFETY: the caller's promise.
        || unsafe { unless_in_place(cx, "recv", recvbuf, recvcount, recvtype) },
    )
}

checked_ways!(mpi_scatterv, mpi_iscatterv, mpi_scatterv_init, coll, scatterv(
    sendbuf: Ptr, sendcounts: Counts<'_>, displs: Counts<'_>, sendtype: usize, recvbuf: PtrMut, recvcount: i64,
    recvtype: usize, root: c_int));

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

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn allgather(
    cx: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcount: i64,
    recvtype: usize,
) -> Result<Described> {
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            unless_in_place(cx, "send", sendbuf, sendcount, sendtype)?,
            block(cx, "recv", recvbuf, recvcount, recvtype)?,
        )
    };
    Ok(everybody(comm, send.map(Blocks::Even), true, &Blocks::Even(recv)))
}

checked_ways!(mpi_allgather, mpi_iallgather, mpi_allgather_init, coll, allgather(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn allgatherv(
    cx: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcounts: Counts<'_>,
    displs: Counts<'_>,
    recvtype: usize,
) -> Result<Described> {
    let ranks = comm.peers() as usize;
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            unless_in_place(cx, "send", sendbuf, sendcount, sendtype)?,
            each(cx, "recv", recvbuf, recvcounts, displs, recvtype, ranks)?,
        )
    };
    Ok(everybody(comm, send.map(Blocks::Even), true, &recv))
}

checked_ways!(mpi_allgatherv, mpi_iallgatherv, mpi_allgatherv_init, coll, allgatherv(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcounts: Counts<'_>, displs: Counts<'_>,
    recvtype: usize));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn alltoall(
    cx: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcount: i64,
    recvtype: usize,
) -> Result<Described> {
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            unless_in_place(cx, "send", sendbuf, sendcount, sendtype)?,
            block(cx, "recv", recvbuf, recvcount, recvtype)?,
        )
    };
    Ok(everybody(
        comm,
        send.map(Blocks::Even),
        false,
        &Blocks::Even(recv),
    ))
}

checked_ways!(mpi_alltoall, mpi_ialltoall, mpi_alltoall_init, coll, alltoall(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn alltoallv(
    cx: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcounts: Counts<'_>,
    sdispls: Counts<'_>,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcounts: Counts<'_>,
    rdispls: Counts<'_>,
    recvtype: usize,
) -> Result<Described> {
    let ranks = comm.peers() as usize;
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            if in_place(sendbuf) {
                None
            } else {
                Some(each(cx, "send", sendbuf, sendcounts, sdispls, sendtype, ranks)?)
            },
            each(cx, "recv", recvbuf, recvcounts, rdispls, recvtype, ranks)?,
        )
    };
    Ok(everybody(comm, send, false, &recv))
}

checked_ways!(mpi_alltoallv, mpi_ialltoallv, mpi_alltoallv_init, coll, alltoallv(
    sendbuf: Ptr, sendcounts: Counts<'_>, sdispls: Counts<'_>, sendtype: usize, recvbuf: PtrMut,
    recvcounts: Counts<'_>, rdispls: Counts<'_>, recvtype: usize));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn alltoallw(
    cx: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcounts: Counts<'_>,
    sdispls: Counts<'_>,
    sendtypes: Array<'_, usize>,
    recvbuf: PtrMut,
    recvcounts: Counts<'_>,
    rdispls: Counts<'_>,
    recvtypes: Array<'_, usize>,
) -> Result<Described> {
    let ranks = comm.peers() as usize;
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            if in_place(sendbuf) {
                None
            } else {
                let displs = sdispls.get(ranks)?;
                Some(each_w(
                    cx, "send", sendbuf, sendcounts, &displs, sendtypes, ranks,
                )?)
            },
            each_w(
                cx,
                "recv",
                recvbuf,
                recvcounts,
                &rdispls.get(ranks)?,
                recvtypes,
                ranks,
            )?,
        )
    };
    Ok(everybody(comm, send, false, &recv))
}

checked_ways!(mpi_alltoallw, mpi_ialltoallw, mpi_alltoallw_init, coll, alltoallw(
    sendbuf: Ptr, sendcounts: Counts<'_>, sdispls: Counts<'_>, sendtypes: Array<'_, usize>, recvbuf: PtrMut,
    recvcounts: Counts<'_>, rdispls: Counts<'_>, recvtypes: Array<'_, usize>));
