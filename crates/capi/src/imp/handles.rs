//! Handles as integers (MPI-5.0 section 20.4): the low half of a handle, which is the whole of a predefined one.

use core::ffi::c_int;

pub(crate) fn mpi_comm_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_comm_fromint(int: c_int) -> usize {
    int as usize
}

pub(crate) fn mpi_errhandler_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_errhandler_fromint(int: c_int) -> usize {
    int as usize
}

pub(crate) fn mpi_file_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_file_fromint(int: c_int) -> usize {
    int as usize
}

pub(crate) fn mpi_group_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_group_fromint(int: c_int) -> usize {
    int as usize
}

pub(crate) fn mpi_info_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_info_fromint(int: c_int) -> usize {
    int as usize
}

pub(crate) fn mpi_message_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_message_fromint(int: c_int) -> usize {
    int as usize
}

pub(crate) fn mpi_op_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_op_fromint(int: c_int) -> usize {
    int as usize
}

pub(crate) fn mpi_request_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_request_fromint(int: c_int) -> usize {
    int as usize
}

pub(crate) fn mpi_session_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_session_fromint(int: c_int) -> usize {
    int as usize
}

pub(crate) fn mpi_type_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_type_fromint(int: c_int) -> usize {
    int as usize
}

pub(crate) fn mpi_win_toint(handle: usize) -> c_int {
    handle as c_int
}

pub(crate) fn mpi_win_fromint(int: c_int) -> usize {
    int as usize
}
