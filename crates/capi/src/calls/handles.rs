//! Handles as integers (MPI-5.0 section 20.4): the low half of a handle, which is the whole of a predefined one.

use core::ffi::c_int;

use crate::cx::{self, Cx};

/// Below this are the handles of the ABI.
const DYNAMIC: c_int = 0x1000;

/// The live handle that `int` stands for. An integer that stands for none becomes a handle that is none either,
/// so that its use is an error.
fn from_int(int: c_int, find: impl FnOnce(&Cx) -> Option<usize>) -> usize {
    let plain = int as usize;
    if int < DYNAMIC {
        plain
    } else {
        cx::inside(find).unwrap_or(plain)
    }
}

pub(crate) fn mpi_errhandler_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_errhandler_fromint(int: c_int) -> usize {
    from_int(int, |cx| cx.objects.errhandler_from_int(int))
}

pub(crate) fn mpi_group_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_group_fromint(int: c_int) -> usize {
    from_int(int, |cx| cx.objects.group_from_int(int))
}

pub(crate) fn mpi_info_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_info_fromint(int: c_int) -> usize {
    from_int(int, |cx| cx.objects.info_from_int(int))
}

pub(crate) fn mpi_op_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_op_fromint(int: c_int) -> usize {
    from_int(int, |cx| cx.objects.ops.borrow().from_int(int))
}

pub(crate) fn mpi_type_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_type_fromint(int: c_int) -> usize {
    from_int(int, |cx| cx.objects.types.borrow().from_int(int))
}

pub(crate) fn mpi_comm_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_comm_fromint(int: c_int) -> usize {
    from_int(int, |cx| cx.world.get()?.comm_from_int(int))
}

pub(crate) fn mpi_message_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_message_fromint(int: c_int) -> usize {
    from_int(int, |cx| cx.world.get()?.message_from_int(int))
}

pub(crate) fn mpi_request_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_request_fromint(int: c_int) -> usize {
    from_int(int, |cx| cx.world.get()?.request_from_int(int))
}

pub(crate) fn mpi_file_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_file_fromint(int: c_int) -> usize {
    int as usize
}

pub(crate) fn mpi_session_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_session_fromint(int: c_int) -> usize {
    int as usize
}

pub(crate) fn mpi_win_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_win_fromint(int: c_int) -> usize {
    int as usize
}
