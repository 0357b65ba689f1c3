//! Error classes, codes and strings, and error handlers (MPI-5.0 chapter 9).

use core::ffi::{CStr, c_int};

use farpost_mpi::Result;
use farpost_mpi::errors::MAX_ERROR_STRING;

use crate::args::{Out, OutString};
use crate::cx::Cx;

pub(crate) fn mpi_error_class(cx: &Cx, errorcode: c_int, errorclass: Out<c_int>) -> Result<()> {
    errorclass.set(cx.objects.codes.class_of(errorcode)?.0);
    Ok(())
}

pub(crate) fn mpi_error_string(
    cx: &Cx,
    errorcode: c_int,
    string: OutString,
    resultlen: Out<c_int>,
) -> Result<()> {
    let text = cx.objects.codes.string(errorcode)?;
    resultlen.set(string.set(&text, MAX_ERROR_STRING));
    Ok(())
}

pub(crate) fn mpi_add_error_class(cx: &Cx, errorclass: Out<c_int>) -> Result<()> {
    errorclass.set(cx.objects.codes.add_class()?.0);
    Ok(())
}

pub(crate) fn mpi_add_error_code(cx: &Cx, errorclass: c_int, errorcode: Out<c_int>) -> Result<()> {
    errorcode.set(cx.objects.codes.add_code(errorclass)?);
    Ok(())
}

pub(crate) fn mpi_add_error_string(cx: &Cx, errorcode: c_int, string: &CStr) -> Result<()> {
    cx.objects.codes.add_string(errorcode, &string.to_string_lossy())
}

pub(crate) fn mpi_remove_error_class(cx: &Cx, errorclass: c_int) -> Result<()> {
    cx.objects.codes.remove_class(errorclass)
}

pub(crate) fn mpi_remove_error_code(cx: &Cx, errorcode: c_int) -> Result<()> {
    cx.objects.codes.remove_code(errorcode)
}

pub(crate) fn mpi_remove_error_string(cx: &Cx, errorcode: c_int) -> Result<()> {
    cx.objects.codes.remove_string(errorcode)
}
