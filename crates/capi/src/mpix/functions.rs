//! The bodies of the C functions.

use core::ffi::c_int;

use farpost_mpi::buffer::RecvBuf;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::{Error, ErrorClass, Result};

use crate::abi;
use crate::cx::{CommRef, Cx};
use crate::entry::seam::{On, not_now, raise};
use crate::interfaces::Place;
use crate::interfaces::mpix::arg;
use crate::names::Fun;

/// Runs a body and turns its error into a code.
fn run(cx: &'static Cx, name: &str, handle: usize, body: impl FnOnce(&CommRef) -> Result<()>) -> c_int {
    let fun = Fun::mpix(name);
    if !cx.life.stage.get().is_active() {
        return not_now(cx, fun);
    }
    match cx.comm("comm", handle).and_then(|comm| body(&comm)) {
        Ok(()) => 0,
        Err(error) => raise(cx, fun, On::Comm(handle), &error),
    }
}

fn need<T>(argument: &str, place: Place<T>) -> Result<()> {
    if place.is_null() {
        return Err(Error::new(ErrorClass::ERR_ARG, format!("{argument} is NULL")));
    }
    Ok(())
}

/// Where a value of the program's goes when a request is complete.
fn later<T>(place: Place<T>) -> RecvBuf {
    let bytes = size_of::<T>() as u64;
    // SAFETY: the caller has seen that it is not null; it is the program's variable, which stays until the request is complete.
    unsafe { RecvBuf::new(place.pointer().cast(), bytes, Datatype::byte()) }
}

pub(crate) fn mpix_comm_revoke(cx: &'static Cx, a: arg::MPIX_Comm_revoke) -> c_int {
    run(cx, "MPIX_Comm_revoke", a.comm, |comm| {
        cx.world().comm_revoke(comm);
        Ok(())
    })
}

pub(crate) fn mpix_comm_is_revoked(cx: &'static Cx, a: arg::MPIX_Comm_is_revoked) -> c_int {
    run(cx, "MPIX_Comm_is_revoked", a.comm, |comm| {
        need("flag", a.flag)?;
        cx.world().progress();
        a.flag.set(c_int::from(comm.is_revoked()));
        Ok(())
    })
}

pub(crate) fn mpix_comm_get_failed(cx: &'static Cx, a: arg::MPIX_Comm_get_failed) -> c_int {
    a.failed.set(abi::MPI_GROUP_NULL);
    run(cx, "MPIX_Comm_get_failed", a.comm, |comm| {
        need("failed", a.failed)?;
        a.failed
            .set(cx.objects.new_group(cx.world().comm_get_failed(comm))?);
        Ok(())
    })
}

pub(crate) fn mpix_comm_ack_failed(cx: &'static Cx, a: arg::MPIX_Comm_ack_failed) -> c_int {
    run(cx, "MPIX_Comm_ack_failed", a.comm, |comm| {
        need("num_acked", a.num_acked)?;
        let many = usize::try_from(a.num_to_ack).map_err(|_| {
            let message = format!("num_to_ack={}: a number of processes is 0 or more", a.num_to_ack);
            Error::new(ErrorClass::ERR_ARG, message)
        })?;
        a.num_acked.set(cx.world().comm_ack_failed(comm, many) as c_int);
        Ok(())
    })
}

pub(crate) fn mpix_comm_agree(cx: &'static Cx, a: arg::MPIX_Comm_agree) -> c_int {
    run(cx, "MPIX_Comm_agree", a.comm, |comm| {
        need("flag", a.flag)?;
        let (flags, result) = cx.world().comm_agree(comm, a.flag.get().unwrap_or(0))?;
        a.flag.set(flags);
        result
    })
}

pub(crate) fn mpix_comm_iagree(cx: &'static Cx, a: arg::MPIX_Comm_iagree) -> c_int {
    a.request.set(abi::MPI_REQUEST_NULL);
    run(cx, "MPIX_Comm_iagree", a.comm, |comm| {
        need("flag", a.flag)?;
        need("request", a.request)?;
        let flags = a.flag.get().unwrap_or(0);
        a.request
            .set(cx.world().comm_agree_later(comm, flags, later(a.flag), false)?);
        Ok(())
    })
}

pub(crate) fn mpix_comm_shrink(cx: &'static Cx, a: arg::MPIX_Comm_shrink) -> c_int {
    a.newcomm.set(abi::MPI_COMM_NULL);
    run(cx, "MPIX_Comm_shrink", a.comm, |comm| {
        need("newcomm", a.newcomm)?;
        if let Some(new) = cx.world().comm_shrink(comm)? {
            a.newcomm.set(new.handle.get());
        }
        Ok(())
    })
}

pub(crate) fn mpix_comm_ishrink(cx: &'static Cx, a: arg::MPIX_Comm_ishrink) -> c_int {
    a.newcomm.set(abi::MPI_COMM_NULL);
    a.request.set(abi::MPI_REQUEST_NULL);
    run(cx, "MPIX_Comm_ishrink", a.comm, |comm| {
        need("newcomm", a.newcomm)?;
        need("request", a.request)?;
        a.request
            .set(cx.world().comm_agree_later(comm, 0, later(a.newcomm), true)?);
        Ok(())
    })
}
