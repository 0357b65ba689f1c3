//! Handles as integers (MPI-5.0 section 20.4): the low half of a handle, which is the whole of a predefined one.

use core::ffi::c_int;

use crate::cx::{self, Cx};

/// Below this are the handles of the ABI.
const DYNAMIC: c_int = 0x1000;

/// The live handle that `int` stands for. An integer that stands for none becomes a handle that is none either,
/// so that its use is an error.
fn from_int(int: c_int, find: impl FnOnce(&Cx, c_int) -> Option<usize>) -> usize {
    let plain = int as usize;
    if int < DYNAMIC {
        plain
    } else {
        cx::inside(|cx| find(cx, int)).unwrap_or(plain)
    }
}

/// Both conversions of a kind of handle. Named by the generator: keep the names first.
macro_rules! integers {
    ($($toint:ident, $fromint:ident: |$cx:ident, $int:ident| $find:expr;)*) => {$(
        pub(crate) fn $toint(handle: usize) -> c_int {
            handle as c_int
        }

        pub(crate) fn $fromint(int: c_int) -> usize {
            from_int(int, |$cx, $int| $find)
        }
    )*};
}

integers! {
    mpi_errhandler_toint, mpi_errhandler_fromint: |cx, int| cx.objects.errhandler_from_int(int);
    mpi_group_toint, mpi_group_fromint: |cx, int| cx.objects.group_from_int(int);
    mpi_info_toint, mpi_info_fromint: |cx, int| cx.objects.info_from_int(int);
    mpi_op_toint, mpi_op_fromint: |cx, int| cx.objects.ops.borrow().from_int(int);
    mpi_type_toint, mpi_type_fromint: |cx, int| cx.objects.types.borrow().from_int(int);
    mpi_comm_toint, mpi_comm_fromint: |cx, int| cx.world.get()?.comm_from_int(int);
    mpi_message_toint, mpi_message_fromint: |cx, int| cx.world.get()?.message_from_int(int);
    mpi_request_toint, mpi_request_fromint: |cx, int| cx.world.get()?.request_from_int(int);
    mpi_session_toint, mpi_session_fromint: |cx, int| cx.world.get()?.session_from_int(int);
    mpi_win_toint, mpi_win_fromint: |cx, int| cx.windows.get()?.from_int(int);
    // Nothing makes these yet.
    mpi_file_toint, mpi_file_fromint: |_cx, _int| None;
}
