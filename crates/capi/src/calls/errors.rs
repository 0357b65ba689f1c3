//! Error classes, codes and strings, and error handlers (MPI-5.0 chapter 9).

use core::ffi::{CStr, c_int};

use farpost_mpi::errhandler::{HandlerKind, Outcome, UserHandler};
use farpost_mpi::errors::MAX_ERROR_STRING;
use farpost_mpi::{Error, ErrorClass, Result};

use crate::abi::{self, MPI_Comm_errhandler_function};
use crate::args::{InOut, Out, OutString};
use crate::cx::{CommRef, Cx};
use crate::roll::outside;

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

/// The program's error handler. Those for the kinds of object differ in the handle's type only, and handles are
/// pointers all; the variadic rest of the standard's prototype is never passed.
fn create(cx: &Cx, kind: HandlerKind, function: usize, errhandler: Out<usize>) -> Result<()> {
    if function == 0 {
        return Err(Error::new(
            ErrorClass::ERR_ARG,
            "errhandler function=NULL: a function is needed",
        ));
    }
    // SAFETY: the program gave a function of this type, by the prototype.
    let call = unsafe { core::mem::transmute::<usize, MPI_Comm_errhandler_function>(function) };
    let handler = UserHandler::new(kind, move |mut handle, mut code| {
        // SAFETY: the arguments are what the standard says.
        outside(|| unsafe { call(&mut handle, &mut code) })
    });
    errhandler.set(cx.objects.new_errhandler(handler)?);
    Ok(())
}

pub(crate) fn mpi_comm_create_errhandler(cx: &Cx, function: usize, errhandler: Out<usize>) -> Result<()> {
    create(cx, HandlerKind::Comm, function, errhandler)
}

pub(crate) fn mpi_win_create_errhandler(cx: &Cx, function: usize, errhandler: Out<usize>) -> Result<()> {
    create(cx, HandlerKind::Win, function, errhandler)
}

pub(crate) fn mpi_file_create_errhandler(cx: &Cx, function: usize, errhandler: Out<usize>) -> Result<()> {
    create(cx, HandlerKind::File, function, errhandler)
}

pub(crate) fn mpi_session_create_errhandler(cx: &Cx, function: usize, errhandler: Out<usize>) -> Result<()> {
    create(cx, HandlerKind::Session, function, errhandler)
}

pub(crate) fn mpi_errhandler_free(cx: &Cx, errhandler: InOut<usize>) -> Result<()> {
    cx.objects.free_errhandler(errhandler.get())?;
    errhandler.set(abi::MPI_ERRHANDLER_NULL);
    Ok(())
}

pub(crate) fn mpi_comm_set_errhandler(cx: &Cx, comm: &CommRef, errhandler: usize) -> Result<()> {
    let handler = cx.objects.errhandler("errhandler", errhandler)?;
    handler.check_kind(HandlerKind::Comm)?;
    cx.life.note_errhandler(comm.handle.get());
    *comm.errhandler.borrow_mut() = handler;
    Ok(())
}

pub(crate) fn mpi_comm_get_errhandler(cx: &Cx, comm: &CommRef, errhandler: Out<usize>) -> Result<()> {
    errhandler.set(cx.objects.errhandler_handle(&comm.errhandler.borrow())?);
    Ok(())
}

pub(crate) fn mpi_comm_call_errhandler(cx: &Cx, comm: &CommRef, errorcode: c_int) -> Result<()> {
    let text = cx.objects.codes.string(errorcode)?;
    let handler = comm.errhandler.borrow().clone();
    match handler.raise(comm.handle.get(), errorcode) {
        Outcome::Return(_) => Ok(()),
        Outcome::AbortJob(code) | Outcome::AbortObject(code) => {
            let name = crate::cx::comm_name(comm);
            crate::process::abort(
                cx,
                code,
                &format!("MPI_Comm_call_errhandler({name}, {errorcode}): {text}"),
            )
        }
    }
}
