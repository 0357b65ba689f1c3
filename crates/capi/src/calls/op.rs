//! Reduction operations (MPI-5.0 section 6.9).

use core::ffi::{c_int, c_void};
use std::rc::Rc;

use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::Op;
use farpost_mpi::{Result, fail};

use super::arg;
use crate::abi::{MPI_User_function, MPI_User_function_c};
use crate::cx::Cx;
use crate::roll::outside;

/// What calls the program's function, which takes counts of type `$count`.
macro_rules! calling {
    ($call:ident, $count:ty) => {
        move |invec: *const u8, inoutvec: *mut u8, len: u64, datatype: &Datatype| {
            let (mut len, mut handle) = (len as $count, datatype.handle());
            let invec = invec.cast_mut().cast::<c_void>();
            // SAFETY: `Op` hands over `len` elements of `datatype` in both vectors, at most what the count holds.
            outside(|| unsafe { $call(invec, inoutvec.cast(), &mut len, &mut handle) })
        }
    };
}

pub(crate) fn mpi_op_create(cx: &Cx, a: arg::OpCreate) -> Result<usize> {
    let user_fn = a.user_fn;
    if user_fn.address == 0 {
        return fail!(ERR_ARG: "user_fn=NULL: a function is needed");
    }
    let made = if user_fn.large {
        // SAFETY: the program gave a function of this type, by the prototype of MPI_Op_create_c.
        let call = unsafe { core::mem::transmute::<usize, MPI_User_function_c>(user_fn.address) };
        Op::user(Rc::new(calling!(call, i64)), a.commute)
    } else {
        // SAFETY: the program gave a function of this type, by the prototype of MPI_Op_create.
        let call = unsafe { core::mem::transmute::<usize, MPI_User_function>(user_fn.address) };
        Op::user_int(Rc::new(calling!(call, c_int)), a.commute)
    };
    cx.objects.ops.borrow_mut().insert(made)
}

pub(crate) fn mpi_op_free(cx: &Cx, a: arg::OpFree) -> Result<()> {
    cx.objects.ops.borrow_mut().free(a.op).map(drop)
}

pub(crate) fn mpi_op_commutative(_: &Cx, a: arg::OpCommutative) -> Result<bool> {
    Ok(a.op.is_commutative())
}
