//! Collective communication (MPI-5.0 chapter 6): the arguments of each operation are checked once, whether it runs blocking,
//! nonblocking or persistent, plain, with counts (v) or with datatypes (w) of each rank.

use core::ffi::c_int;

use farpost_mpi::Result;
use farpost_mpi::coll::Block;

use super::blocks::{Each, One, Side, Typed, apart_from_row, in_place, role, whole};
use super::forms::{Collective, Ptr, PtrMut, three_ways};
use crate::args::{Array, Counts};
use crate::cx::{CommRef, Cx, TypeRef};

three_ways!(mpi_barrier, mpi_ibarrier, mpi_barrier_init, barrier(),
    |cx, _comm| Ok(Collective::Barrier),
    at_once: cx.world().quick_barrier(_comm)?);

three_ways!(mpi_bcast, mpi_ibcast, mpi_bcast_init, bcast(buffer: PtrMut, count: i64, datatype: TypeRef, root: c_int),
|cx, comm| {
    let role = role(comm, root)?;
    // SAFETY: the caller's promise.
    let buffer = unsafe { whole(buffer, count, datatype) };
    Ok(Collective::Bcast { role, buffer })
},
at_once: {
    // SAFETY: the buffer is there for the call.
    let buffer = unsafe { whole(buffer, count, datatype.clone()) };
    cx.world().quick_bcast(comm, &buffer, root)?
});

/// A rooted collective that collects (`gather`) or spreads: the one block of each rank, and the root's row of all.
///
/// # Safety
/// As [`Block::new`].
unsafe fn rooted(
    cx: &Cx,
    comm: &CommRef,
    root: c_int,
    gather: bool,
    single: One,
    row: impl Side,
) -> Result<Collective> {
    let role = role(comm, root)?;
    let [one, all] = if gather {
        ["send", "recv"]
    } else {
        ["recv", "send"]
    };
    let row = || match role.at_root {
        // SAFETY: the caller's promise.
        true => unsafe { row.blocks(cx, all, comm.peers() as usize) },
        false => Ok(row.nothing()),
    };
    let early = if gather { None } else { Some(row()?) };
    let single = match () {
        () if role.at_root && in_place(single.0) => None,
        // SAFETY: the caller's promise.
        () if role.other => Some(unsafe { single.block(cx, one) }?),
        () => Some(Block::none()),
    };
    let row = early.map_or_else(row, Ok)?;
    if let (true, Some(mine)) = (role.at_root, &single) {
        apart_from_row(comm, mine, &row)?;
    }
    Ok(if gather {
        Collective::Gather { role, single, row }
    } else {
        Collective::Scatter { role, single, row }
    })
}

/// A collective in which all get one block of each.
///
/// # Safety
/// As [`Block::new`].
unsafe fn one_to_all(cx: &Cx, comm: &CommRef, send: One, recv: impl Side) -> Result<Collective> {
    // SAFETY: the caller's promise.
    let send = (!in_place(send.0)).then(|| unsafe { send.block(cx, "send") });
    let send = send.transpose()?;
    // SAFETY: the caller's promise.
    let recv = unsafe { recv.blocks(cx, "recv", comm.peers() as usize) }?;
    if let Some(mine) = &send {
        apart_from_row(comm, mine, &recv)?;
    }
    Ok(Collective::Allgather { send, recv })
}

/// A collective in which all get another block of each.
///
/// # Safety
/// As [`Block::new`].
unsafe fn exchange<S: Side>(cx: &Cx, comm: &CommRef, send: S, recv: S) -> Result<Collective> {
    let ranks = comm.peers() as usize;
    // SAFETY: the caller's promise.
    let send = (!in_place(send.address())).then(|| unsafe { send.blocks(cx, "send", ranks) });
    let send = send.transpose()?;
    // SAFETY: the caller's promise.
    let recv = unsafe { recv.blocks(cx, "recv", ranks) }?;
    if let Some(send) = &send {
        apart_from_row(comm, &send.get(0), &recv)?;
    }
    Ok(Collective::Alltoall { send, recv })
}

three_ways!(mpi_gather, mpi_igather, mpi_gather_init, gather(
sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize, root: c_int),
|cx, comm| {
    let (send, recv) = (One(sendbuf, sendcount, sendtype), One(recvbuf, recvcount, recvtype));
    // SAFETY: the caller's promise.
    unsafe { rooted(cx, comm, root, true, send, recv) }
});

three_ways!(mpi_gatherv, mpi_igatherv, mpi_gatherv_init, gatherv(
sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcounts: Counts<'_>, displs: Counts<'_>,
recvtype: usize, root: c_int),
|cx, comm| {
    let recv = Each(recvbuf, recvcounts, displs, recvtype);
    // SAFETY: the caller's promise.
    unsafe { rooted(cx, comm, root, true, One(sendbuf, sendcount, sendtype), recv) }
});

three_ways!(mpi_scatter, mpi_iscatter, mpi_scatter_init, scatter(
sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize, root: c_int),
|cx, comm| {
    let (send, recv) = (One(sendbuf, sendcount, sendtype), One(recvbuf, recvcount, recvtype));
    // SAFETY: the caller's promise.
    unsafe { rooted(cx, comm, root, false, recv, send) }
});

three_ways!(mpi_scatterv, mpi_iscatterv, mpi_scatterv_init, scatterv(
sendbuf: Ptr, sendcounts: Counts<'_>, displs: Counts<'_>, sendtype: usize, recvbuf: PtrMut, recvcount: i64,
recvtype: usize, root: c_int),
|cx, comm| {
    let send = Each(sendbuf, sendcounts, displs, sendtype);
    // SAFETY: the caller's promise.
    unsafe { rooted(cx, comm, root, false, One(recvbuf, recvcount, recvtype), send) }
});

three_ways!(mpi_allgather, mpi_iallgather, mpi_allgather_init, allgather(
sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize),
|cx, comm| {
    let (send, recv) = (One(sendbuf, sendcount, sendtype), One(recvbuf, recvcount, recvtype));
    // SAFETY: the caller's promise.
    unsafe { one_to_all(cx, comm, send, recv) }
});

three_ways!(mpi_allgatherv, mpi_iallgatherv, mpi_allgatherv_init, allgatherv(
sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcounts: Counts<'_>, displs: Counts<'_>,
recvtype: usize),
|cx, comm| {
    let recv = Each(recvbuf, recvcounts, displs, recvtype);
    // SAFETY: the caller's promise.
    unsafe { one_to_all(cx, comm, One(sendbuf, sendcount, sendtype), recv) }
});

three_ways!(mpi_alltoall, mpi_ialltoall, mpi_alltoall_init, alltoall(
sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize),
|cx, comm| {
    let (send, recv) = (One(sendbuf, sendcount, sendtype), One(recvbuf, recvcount, recvtype));
    // SAFETY: the caller's promise.
    unsafe { exchange(cx, comm, send, recv) }
});

three_ways!(mpi_alltoallv, mpi_ialltoallv, mpi_alltoallv_init, alltoallv(
sendbuf: Ptr, sendcounts: Counts<'_>, sdispls: Counts<'_>, sendtype: usize, recvbuf: PtrMut,
recvcounts: Counts<'_>, rdispls: Counts<'_>, recvtype: usize),
|cx, comm| {
    let send = Each(sendbuf, sendcounts, sdispls, sendtype);
    // SAFETY: the caller's promise.
    unsafe { exchange(cx, comm, send, Each(recvbuf, recvcounts, rdispls, recvtype)) }
});

three_ways!(mpi_alltoallw, mpi_ialltoallw, mpi_alltoallw_init, alltoallw(
sendbuf: Ptr, sendcounts: Counts<'_>, sdispls: Counts<'_>, sendtypes: Array<'_, usize>, recvbuf: PtrMut,
recvcounts: Counts<'_>, rdispls: Counts<'_>, recvtypes: Array<'_, usize>),
|cx, comm| {
    let send = Typed(sendbuf, sendcounts, sdispls, sendtypes);
    // SAFETY: the caller's promise.
    unsafe { exchange(cx, comm, send, Typed(recvbuf, recvcounts, rdispls, recvtypes)) }
});
