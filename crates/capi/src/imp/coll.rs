//! Collective communication (MPI-5.0 chapter 6): each operation is described once, as a maker of plans, and runs
//! in three ways: blocking, nonblocking, persistent.

use core::ffi::c_int;

use farpost_mpi::Result;
use farpost_mpi::coll::{self, Block, Blocks};

use super::blocks::{apart, apart_from_row, block, each, each_w, in_place, role, whole};
use super::forms::{Maker, Ptr, PtrMut, maker, three_ways};
use crate::args::{Array, Counts};
use crate::cx::{CommRef, Cx, TypeRef};

unsafe fn barrier(cx: &'static Cx, comm: &CommRef) -> Result<Maker> {
    maker!(cx, comm, |site| coll::barrier(site))
}

three_ways!(
    mpi_barrier,
    mpi_ibarrier,
    mpi_barrier_init,
    barrier(),
    |cx, comm| cx.world().quick_barrier(comm)?
);

unsafe fn bcast(
    cx: &'static Cx,
    comm: &CommRef,
    buffer: PtrMut,
    count: i64,
    datatype: TypeRef,
    root: c_int,
) -> Result<Maker> {
    let root = role(comm, root)?.root;
    // SAFETY: the caller's promise.
    let buffer = unsafe { whole(buffer, count, datatype) };
    maker!(cx, comm, |site| coll::bcast(site, buffer.clone(), root))
}

three_ways!(mpi_bcast, mpi_ibcast, mpi_bcast_init, bcast(buffer: PtrMut, count: i64, datatype: TypeRef, root: c_int),
|cx, comm| {
    // SAFETY: the buffer is there for the call.
    let buffer = unsafe { whole(buffer, count, datatype.clone()) };
    cx.world().quick_bcast(comm, &buffer, root)?
});

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn gather(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcount: i64,
    recvtype: usize,
    root: c_int,
) -> Result<Maker> {
    let role = role(comm, root)?;
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            match () {
                () if role.at_root && in_place(sendbuf) => None,
                () if role.other => Some(block(cx, "send", sendbuf, sendcount, sendtype)?),
                () => Some(Block::none()),
            },
            if role.at_root {
                block(cx, "recv", recvbuf, recvcount, recvtype)?
            } else {
                Block::none()
            },
        )
    };
    if let (true, Some(mine)) = (role.at_root, &send) {
        apart_from_row(comm, mine, &Blocks::Even(recv.clone()))?;
    }
    maker!(cx, comm, |site| coll::gather(
        site,
        send.clone(),
        recv.clone(),
        role.root
    ))
}

three_ways!(mpi_gather, mpi_igather, mpi_gather_init, gather(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize, root: c_int));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn gatherv(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcounts: Counts<'_>,
    displs: Counts<'_>,
    recvtype: usize,
    root: c_int,
) -> Result<Maker> {
    let role = role(comm, root)?;
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            match () {
                () if role.at_root && in_place(sendbuf) => None,
                () if role.other => Some(block(cx, "send", sendbuf, sendcount, sendtype)?),
                () => Some(Block::none()),
            },
            if role.at_root {
                each(
                    cx,
                    "recv",
                    recvbuf,
                    recvcounts,
                    displs,
                    recvtype,
                    comm.peers() as usize,
                )?
            } else {
                Blocks::Each(Vec::new())
            },
        )
    };
    if let (true, Some(mine)) = (role.at_root, &send) {
        apart_from_row(comm, mine, &recv)?;
    }
    maker!(cx, comm, |site| coll::gatherv(
        site,
        send.clone(),
        recv.clone(),
        role.root
    ))
}

three_ways!(mpi_gatherv, mpi_igatherv, mpi_gatherv_init, gatherv(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcounts: Counts<'_>, displs: Counts<'_>,
    recvtype: usize, root: c_int));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn scatter(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcount: i64,
    recvtype: usize,
    root: c_int,
) -> Result<Maker> {
    let role = role(comm, root)?;
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            if role.at_root {
                block(cx, "send", sendbuf, sendcount, sendtype)?
            } else {
                Block::none()
            },
            match () {
                () if role.at_root && in_place(recvbuf) => None,
                () if role.other => Some(block(cx, "recv", recvbuf, recvcount, recvtype)?),
                () => Some(Block::none()),
            },
        )
    };
    if let (true, Some(mine)) = (role.at_root, &recv) {
        apart_from_row(comm, mine, &Blocks::Even(send.clone()))?;
    }
    maker!(cx, comm, |site| coll::scatter(
        site,
        send.clone(),
        recv.clone(),
        role.root
    ))
}

three_ways!(mpi_scatter, mpi_iscatter, mpi_scatter_init, scatter(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize, root: c_int));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn scatterv(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcounts: Counts<'_>,
    displs: Counts<'_>,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcount: i64,
    recvtype: usize,
    root: c_int,
) -> Result<Maker> {
    let role = role(comm, root)?;
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            if role.at_root {
                each(
                    cx,
                    "send",
                    sendbuf,
                    sendcounts,
                    displs,
                    sendtype,
                    comm.peers() as usize,
                )?
            } else {
                Blocks::Each(Vec::new())
            },
            match () {
                () if role.at_root && in_place(recvbuf) => None,
                () if role.other => Some(block(cx, "recv", recvbuf, recvcount, recvtype)?),
                () => Some(Block::none()),
            },
        )
    };
    if let (true, Some(mine)) = (role.at_root, &recv) {
        apart_from_row(comm, mine, &send)?;
    }
    maker!(cx, comm, |site| coll::scatterv(
        site,
        send.clone(),
        recv.clone(),
        role.root
    ))
}

three_ways!(mpi_scatterv, mpi_iscatterv, mpi_scatterv_init, scatterv(
    sendbuf: Ptr, sendcounts: Counts<'_>, displs: Counts<'_>, sendtype: usize, recvbuf: PtrMut, recvcount: i64,
    recvtype: usize, root: c_int));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn allgather(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcount: i64,
    recvtype: usize,
) -> Result<Maker> {
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            if in_place(sendbuf) {
                None
            } else {
                Some(block(cx, "send", sendbuf, sendcount, sendtype)?)
            },
            block(cx, "recv", recvbuf, recvcount, recvtype)?,
        )
    };
    if let Some(mine) = &send {
        apart_from_row(comm, mine, &Blocks::Even(recv.clone()))?;
    }
    maker!(cx, comm, |site| coll::allgather(site, send.clone(), recv.clone()))
}

three_ways!(mpi_allgather, mpi_iallgather, mpi_allgather_init, allgather(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn allgatherv(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcounts: Counts<'_>,
    displs: Counts<'_>,
    recvtype: usize,
) -> Result<Maker> {
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            if in_place(sendbuf) {
                None
            } else {
                Some(block(cx, "send", sendbuf, sendcount, sendtype)?)
            },
            each(
                cx,
                "recv",
                recvbuf,
                recvcounts,
                displs,
                recvtype,
                comm.peers() as usize,
            )?,
        )
    };
    if let Some(mine) = &send {
        apart_from_row(comm, mine, &recv)?;
    }
    maker!(cx, comm, |site| coll::allgatherv(
        site,
        send.clone(),
        recv.clone()
    ))
}

three_ways!(mpi_allgatherv, mpi_iallgatherv, mpi_allgatherv_init, allgatherv(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcounts: Counts<'_>, displs: Counts<'_>,
    recvtype: usize));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn alltoall(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcount: i64,
    recvtype: usize,
) -> Result<Maker> {
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            if in_place(sendbuf) {
                None
            } else {
                Some(block(cx, "send", sendbuf, sendcount, sendtype)?)
            },
            block(cx, "recv", recvbuf, recvcount, recvtype)?,
        )
    };
    if let Some(send) = &send {
        apart(send, &recv)?;
    }
    maker!(cx, comm, |site| coll::alltoall(site, send.clone(), recv.clone()))
}

three_ways!(mpi_alltoall, mpi_ialltoall, mpi_alltoall_init, alltoall(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn alltoallv(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcounts: Counts<'_>,
    sdispls: Counts<'_>,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcounts: Counts<'_>,
    rdispls: Counts<'_>,
    recvtype: usize,
) -> Result<Maker> {
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
    if let Some(send) = &send {
        apart_from_row(comm, &send.get(0), &recv)?;
    }
    maker!(cx, comm, |site| coll::alltoallv(site, send.clone(), recv.clone()))
}

three_ways!(mpi_alltoallv, mpi_ialltoallv, mpi_alltoallv_init, alltoallv(
    sendbuf: Ptr, sendcounts: Counts<'_>, sdispls: Counts<'_>, sendtype: usize, recvbuf: PtrMut,
    recvcounts: Counts<'_>, rdispls: Counts<'_>, recvtype: usize));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn alltoallw(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcounts: Counts<'_>,
    sdispls: Counts<'_>,
    sendtypes: Array<'_, usize>,
    recvbuf: PtrMut,
    recvcounts: Counts<'_>,
    rdispls: Counts<'_>,
    recvtypes: Array<'_, usize>,
) -> Result<Maker> {
    let ranks = comm.peers() as usize;
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            if in_place(sendbuf) {
                None
            } else {
                Some(each_w(
                    cx,
                    "send",
                    sendbuf,
                    sendcounts,
                    &sdispls.get(ranks)?,
                    sendtypes,
                    ranks,
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
    if let Some(send) = &send {
        apart_from_row(comm, &send.get(0), &recv)?;
    }
    maker!(cx, comm, |site| coll::alltoallv(site, send.clone(), recv.clone()))
}

three_ways!(mpi_alltoallw, mpi_ialltoallw, mpi_alltoallw_init, alltoallw(
    sendbuf: Ptr, sendcounts: Counts<'_>, sdispls: Counts<'_>, sendtypes: Array<'_, usize>, recvbuf: PtrMut,
    recvcounts: Counts<'_>, rdispls: Counts<'_>, recvtypes: Array<'_, usize>));
