//! Requirements of MPI-5.0 section 9.3.4.

use super::*;
use crate::ErrorClass;
use std::cell::RefCell;

#[test]
fn predefined_handlers() {
    let on = |handle: usize| ErrorHandler::predefined(handle).unwrap();
    assert_eq!(on(0x141).raise(1, 6), Outcome::AbortJob(6));
    assert_eq!(on(0x142).raise(1, 6), Outcome::AbortObject(6));
    assert_eq!(on(0x143).raise(1, 6), Outcome::Return(6));
    for handle in 0x141..=0x143 {
        assert_eq!(on(handle).handle(), handle);
        assert!(on(handle).check_kind(HandlerKind::Win).is_ok());
        assert_eq!(on(handle), on(handle));
    }
    assert_ne!(on(0x141), on(0x142));
    assert_eq!(ErrorHandler::predefined(0x140), None);
    assert_eq!(
        ErrorHandler::from_info_value("mpi_errors_return"),
        Some(ErrorHandler::Return)
    );
    assert_eq!(ErrorHandler::from_info_value("MPI_ERRORS_RETURN?"), None);
}

#[test]
fn a_users_handler_is_called_and_counted() {
    let log = Rc::new(RefCell::new(Vec::new()));
    let log2 = log.clone();
    let user = UserHandler::new(HandlerKind::Comm, move |handle, code| {
        log2.borrow_mut().push((handle, code));
    });
    user.set_handle(0x1234);
    let handler = ErrorHandler::User(user.clone());
    assert_eq!(handler.handle(), 0x1234);
    assert_eq!(handler.raise(9, 134), Outcome::Return(134));
    assert_eq!(*log.borrow(), [(9, 134)]);

    assert!(!user.retain());
    assert!(!user.release());
    assert!(user.release(), "the last reference of the user's");
    assert_eq!(handler.handle(), 0, "an object has it still, without a handle");
    assert!(user.retain(), "MPI_Comm_get_errhandler gives it a new handle");

    let error = handler.check_kind(HandlerKind::Win).unwrap_err();
    assert_eq!(error.class, ErrorClass::ERR_ERRHANDLER);
    assert_eq!(
        error.message,
        "errhandler: made by MPI_Comm_create_errhandler for a communicator, not for a window"
    );
    let other = ErrorHandler::User(UserHandler::new(HandlerKind::Comm, |_, _| ()));
    assert_eq!(handler, handler.clone());
    assert_ne!(handler, other);
    assert_ne!(handler, ErrorHandler::Return);
}
