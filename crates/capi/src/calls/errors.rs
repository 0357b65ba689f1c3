//! Error classes, codes and strings, and error handlers (MPI-5.0 chapter 9).

use core::ffi::c_int;

use farpost_mpi::errhandler::{HandlerKind, Outcome, UserHandler};
use farpost_mpi::errors::MAX_ERROR_STRING;
use farpost_mpi::{Result, fail};

use super::arg;
use crate::abi::MPI_Comm_errhandler_function;
use crate::cx::Cx;
use crate::roll::outside;

pub(crate) fn mpi_error_class(cx: &Cx, a: arg::ErrorClass) -> Result<c_int> {
    Ok(cx.objects.codes.class_of(a.errorcode)?.0)
}

pub(crate) fn mpi_error_string(cx: &Cx, a: arg::ErrorString) -> Result<()> {
    let text = cx.objects.codes.string(a.errorcode)?;
    a.resultlen.set(a.string.set(&text, MAX_ERROR_STRING));
    Ok(())
}

pub(crate) fn mpi_add_error_class(cx: &Cx) -> Result<c_int> {
    Ok(cx.objects.codes.add_class()?.0)
}

pub(crate) fn mpi_add_error_code(cx: &Cx, a: arg::AddErrorCode) -> Result<c_int> {
    cx.objects.codes.add_code(a.errorclass)
}

pub(crate) fn mpi_add_error_string(cx: &Cx, a: arg::AddErrorString) -> Result<()> {
    cx.objects
        .codes
        .add_string(a.errorcode, &a.string.to_string_lossy())
}

pub(crate) fn mpi_remove_error_class(cx: &Cx, a: arg::RemoveErrorClass) -> Result<()> {
    cx.objects.codes.remove_class(a.errorclass)
}

pub(crate) fn mpi_remove_error_code(cx: &Cx, a: arg::RemoveErrorCode) -> Result<()> {
    cx.objects.codes.remove_code(a.errorcode)
}

pub(crate) fn mpi_remove_error_string(cx: &Cx, a: arg::RemoveErrorString) -> Result<()> {
    cx.objects.codes.remove_string(a.errorcode)
}

/// The program's error handler. Those for the kinds of object differ in the handle's type only, and handles are
/// pointers all; the variadic rest of the standard's prototype is never passed.
fn create(cx: &Cx, kind: HandlerKind, function: usize) -> Result<usize> {
    if function == 0 {
        return fail!(ERR_ARG: "errhandler function=NULL: a function is needed");
    }
    // SAFETY: the program gave a function of this type, by the prototype.
    let call = unsafe { core::mem::transmute::<usize, MPI_Comm_errhandler_function>(function) };
    let handler = UserHandler::new(kind, move |mut handle, mut code| {
        // SAFETY: the arguments are what the standard says.
        outside(|| unsafe { call(&mut handle, &mut code) })
    });
    cx.objects.new_errhandler(handler)
}

pub(crate) fn mpi_comm_create_errhandler(cx: &Cx, a: arg::CommCreateErrhandler) -> Result<usize> {
    create(cx, HandlerKind::Comm, a.comm_errhandler_fn)
}

pub(crate) fn mpi_win_create_errhandler(cx: &Cx, a: arg::WinCreateErrhandler) -> Result<usize> {
    create(cx, HandlerKind::Win, a.win_errhandler_fn)
}

pub(crate) fn mpi_file_create_errhandler(cx: &Cx, a: arg::FileCreateErrhandler) -> Result<usize> {
    create(cx, HandlerKind::File, a.file_errhandler_fn)
}

pub(crate) fn mpi_session_create_errhandler(cx: &Cx, a: arg::SessionCreateErrhandler) -> Result<usize> {
    create(cx, HandlerKind::Session, a.session_errhandler_fn)
}

pub(crate) fn mpi_errhandler_free(cx: &Cx, a: arg::ErrhandlerFree) -> Result<()> {
    cx.objects.free_errhandler(a.errhandler)
}

pub(crate) fn mpi_comm_set_errhandler(cx: &Cx, a: arg::CommSetErrhandler) -> Result<()> {
    let handler = cx.objects.errhandler("errhandler", a.errhandler)?;
    handler.check_kind(HandlerKind::Comm)?;
    cx.life.note_errhandler(a.comm.handle.get());
    *a.comm.errhandler.borrow_mut() = handler;
    Ok(())
}

pub(crate) fn mpi_comm_get_errhandler(cx: &Cx, a: arg::CommGetErrhandler) -> Result<usize> {
    cx.objects.errhandler_handle(&a.comm.errhandler.borrow())
}

pub(crate) fn mpi_comm_call_errhandler(cx: &Cx, a: arg::CommCallErrhandler) -> Result<()> {
    let errorcode = a.errorcode;
    let text = cx.objects.codes.string(errorcode)?;
    let handler = a.comm.errhandler.borrow().clone();
    match handler.raise(a.comm.handle.get(), errorcode) {
        Outcome::Return(_) => Ok(()),
        Outcome::AbortJob(code) | Outcome::AbortObject(code) => {
            let name = crate::cx::comm_name(a.comm);
            cx.abort(
                code,
                &format!("MPI_Comm_call_errhandler({name}, {errorcode}): {text}"),
            )
        }
    }
}

pub(crate) fn mpi_session_set_errhandler(cx: &Cx, a: arg::SessionSetErrhandler) -> Result<()> {
    let handler = cx.objects.errhandler("errhandler", a.errhandler)?;
    handler.check_kind(HandlerKind::Session)?;
    *a.session.errhandler.borrow_mut() = handler;
    Ok(())
}

pub(crate) fn mpi_session_get_errhandler(cx: &Cx, a: arg::SessionGetErrhandler) -> Result<usize> {
    cx.objects.errhandler_handle(&a.session.errhandler.borrow())
}

pub(crate) fn mpi_session_call_errhandler(cx: &Cx, a: arg::SessionCallErrhandler) -> Result<()> {
    let errorcode = a.errorcode;
    let text = cx.objects.codes.string(errorcode)?;
    let handler = a.session.errhandler.borrow().clone();
    match handler.raise(a.session.handle.get(), errorcode) {
        Outcome::Return(_) => Ok(()),
        Outcome::AbortJob(code) | Outcome::AbortObject(code) => {
            cx.abort(code, &format!("MPI_Session_call_errhandler({errorcode}): {text}"))
        }
    }
}

pub(crate) fn mpi_win_set_errhandler(cx: &Cx, a: arg::WinSetErrhandler) -> Result<()> {
    let handler = cx.objects.errhandler("errhandler", a.errhandler)?;
    handler.check_kind(HandlerKind::Win)?;
    *a.win.errhandler.borrow_mut() = handler;
    Ok(())
}

pub(crate) fn mpi_win_get_errhandler(cx: &Cx, a: arg::WinGetErrhandler) -> Result<usize> {
    cx.objects.errhandler_handle(&a.win.errhandler.borrow())
}

pub(crate) fn mpi_win_call_errhandler(cx: &Cx, a: arg::WinCallErrhandler) -> Result<()> {
    let errorcode = a.errorcode;
    let text = cx.objects.codes.string(errorcode)?;
    let handler = a.win.errhandler.borrow().clone();
    match handler.raise(a.win.handle.get(), errorcode) {
        Outcome::Return(_) => Ok(()),
        Outcome::AbortJob(code) | Outcome::AbortObject(code) => cx.abort(
            code,
            &format!("MPI_Win_call_errhandler(win, {errorcode}): {text}"),
        ),
    }
}
