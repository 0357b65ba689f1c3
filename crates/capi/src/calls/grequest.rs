//! Generalized requests (MPI-5.0 section 13.2).

use core::ffi::{c_int, c_void};

use farpost_mpi::Result;
use farpost_mpi::engine::request::Status;
use farpost_mpi::world::Generalized;

use super::arg;
use super::request::to_abi;
use crate::abi::{MPI_Grequest_cancel_function, MPI_Grequest_free_function, MPI_Grequest_query_function};
use crate::cx::Cx;
use crate::roll::outside;

pub(crate) unsafe fn mpi_grequest_start(cx: &Cx, a: arg::GrequestStart) -> Result<usize> {
    for (name, function) in [
        ("query_fn", a.query_fn),
        ("free_fn", a.free_fn),
        ("cancel_fn", a.cancel_fn),
    ] {
        crate::args::not_null(name, function as *const c_void)?;
    }
    // SAFETY: the program gave functions of these types, by the prototype.
    let (query, free, cancel) = unsafe {
        (
            core::mem::transmute::<usize, MPI_Grequest_query_function>(a.query_fn),
            core::mem::transmute::<usize, MPI_Grequest_free_function>(a.free_fn),
            core::mem::transmute::<usize, MPI_Grequest_cancel_function>(a.cancel_fn),
        )
    };
    let callbacks = Generalized {
        query: Box::new(move |status: &mut Status| {
            let mut seen = to_abi(status);
            // SAFETY: the arguments are what the standard says.
            let code = outside(|| unsafe { query(a.extra_state, &mut seen) });
            status.source = seen.MPI_SOURCE;
            status.tag = seen.MPI_TAG;
            status.bytes = seen.bytes();
            status.cancelled = seen.cancelled();
            code
        }),
        // SAFETY: the arguments are what the standard says.
        free: Box::new(move || outside(|| unsafe { free(a.extra_state) })),
        // SAFETY: the arguments are what the standard says.
        cancel: Box::new(move |complete| outside(|| unsafe { cancel(a.extra_state, c_int::from(complete)) })),
    };
    cx.world().generalized(callbacks)
}

pub(crate) fn mpi_grequest_complete(cx: &Cx, a: arg::GrequestComplete) -> Result<()> {
    cx.world().complete_generalized(a.request)
}
