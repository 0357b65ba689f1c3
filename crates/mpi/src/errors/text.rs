//! One sentence for every predefined error class: what `MPI_Error_string` says of a bare class.

use super::ErrorClass;

/// The sentence for a predefined class; `None` for any other number.
pub(super) fn sentence(class: ErrorClass) -> Option<&'static str> {
    use ErrorClass as E;
    Some(match class {
        E::SUCCESS => "no error",
        E::ERR_BUFFER => "the buffer address is not usable, for example null with a count above zero",
        E::ERR_COUNT => "the count is negative or too large for this call",
        E::ERR_TYPE => "the datatype is not valid, not committed, or not allowed here",
        E::ERR_TAG => {
            "the tag is not between 0 and the attribute MPI_TAG_UB (receives also take MPI_ANY_TAG)"
        }
        E::ERR_COMM => "the communicator is null, freed, or of the wrong kind for this call",
        E::ERR_RANK => "the rank is not in the group or communicator, or is named twice",
        E::ERR_REQUEST => "the request is freed, or of the wrong kind for this call",
        E::ERR_ROOT => "the root is not a rank of the communicator",
        E::ERR_GROUP => "the group is null or freed",
        E::ERR_OP => "the operation is not valid, or not defined for this datatype",
        E::ERR_TOPOLOGY => "the communicator has no topology, or another one than this call needs",
        E::ERR_DIMS => "the dimensions of the grid are not possible for this number of processes",
        E::ERR_ARG => "an argument is not valid",
        E::ERR_UNKNOWN => "an error happened that fits no error class",
        E::ERR_TRUNCATE => "the message is longer than the receive buffer",
        E::ERR_OTHER => "an error happened that has no error class of its own",
        E::ERR_INTERN => "the library found its own state to be wrong; please report this",
        E::ERR_PENDING => "the operation is neither finished nor failed yet",
        E::ERR_IN_STATUS => "some of the operations failed; the error code of each is in its status",
        E::ERR_ACCESS => "permission denied",
        E::ERR_AMODE => "the file access mode is not a possible combination",
        E::ERR_ASSERT => "the assertion argument has bits this call does not define",
        E::ERR_BAD_FILE => "the file name is not valid, for example too long",
        E::ERR_BASE => "the base address of the memory is not usable",
        E::ERR_CONVERSION => "a user-defined data conversion function failed",
        E::ERR_DISP => "the displacement is negative or not allowed here",
        E::ERR_DUP_DATAREP => "a data representation of this name is already registered",
        E::ERR_FILE_EXISTS => "the file exists already",
        E::ERR_FILE_IN_USE => "the file is open in some process",
        E::ERR_FILE => "the file handle is null, closed, or not valid",
        E::ERR_INFO_KEY => "the info key is empty or longer than MPI_MAX_INFO_KEY allows",
        E::ERR_INFO_NOKEY => "the info object has no such key",
        E::ERR_INFO_VALUE => {
            "the info value is longer than MPI_MAX_INFO_VAL allows, or means nothing for its key"
        }
        E::ERR_INFO => "the info object is null, freed, or cannot be changed",
        E::ERR_IO => "an input or output operation failed",
        E::ERR_KEYVAL => "the attribute key is not valid, freed, or belongs to another kind of object",
        E::ERR_LOCKTYPE => "the lock type is neither MPI_LOCK_SHARED nor MPI_LOCK_EXCLUSIVE",
        E::ERR_NAME => "no service of this name is published",
        E::ERR_NO_MEM => "there is not enough memory",
        E::ERR_NOT_SAME => {
            "the processes passed different values for an argument that must be the same in all"
        }
        E::ERR_NO_SPACE => "there is not enough space on the file system",
        E::ERR_NO_SUCH_FILE => "the file does not exist",
        E::ERR_PORT => "the port name is not valid, or nobody accepts there",
        E::ERR_QUOTA => "the file system quota is used up",
        E::ERR_READ_ONLY => "the file or file system is read-only",
        E::ERR_RMA_ATTACH => "the memory cannot be attached to the window",
        E::ERR_RMA_CONFLICT => "accesses to the window conflict",
        E::ERR_RMA_RANGE => "the target memory is not inside the window",
        E::ERR_RMA_SHARED => "the processes cannot share memory",
        E::ERR_RMA_SYNC => "the synchronization call does not fit the state of the window's epochs",
        E::ERR_SERVICE => "the name to unpublish is not published",
        E::ERR_SIZE => "the size is negative or not possible",
        E::ERR_SPAWN => "the processes could not be started",
        E::ERR_UNSUPPORTED_DATAREP => "this data representation is not supported",
        E::ERR_UNSUPPORTED_OPERATION => "this operation is not supported",
        E::ERR_WIN => "the window is null, freed, or of the wrong kind for this call",
        E::ERR_RMA_FLAVOR => "the window was created in a way that does not allow this call",
        E::ERR_PROC_ABORTED => "a process this operation needs has ended",
        E::ERR_VALUE_TOO_LARGE => {
            "the value does not fit the type it is to be returned in; use the large-count call"
        }
        E::ERR_SESSION => "the session is null, finalized, or not valid",
        E::ERR_ERRHANDLER => "the error handler is null, freed, or made for another kind of object",
        E::ERR_ABI => "the program and the library disagree on the binary interface",
        E::T_ERR_CANNOT_INIT => "the tool information interface cannot be initialized now",
        E::T_ERR_NOT_ACCESSIBLE => "this tool information is not accessible now",
        E::T_ERR_NOT_INITIALIZED => {
            "the tool information interface is not initialized; call MPI_T_init_thread"
        }
        E::T_ERR_NOT_SUPPORTED => "the tool information interface does not support this",
        E::T_ERR_MEMORY => "there is not enough memory for the tool information interface",
        E::T_ERR_INVALID => "an argument to the tool information interface is not valid",
        E::T_ERR_INVALID_INDEX => {
            "the index is not one of the variables, categories, events or items there are"
        }
        E::T_ERR_INVALID_ITEM => "the item index is not below the number of items",
        E::T_ERR_INVALID_SESSION => "the performance experiment session is not valid",
        E::T_ERR_INVALID_HANDLE => "the variable or event handle is not valid",
        E::T_ERR_INVALID_NAME => "no variable or category has this name",
        E::T_ERR_OUT_OF_HANDLES => "no more variable handles can be made",
        E::T_ERR_OUT_OF_SESSIONS => "no more performance experiment sessions can be made",
        E::T_ERR_CVAR_SET_NOT_NOW => "the control variable cannot be set at this moment",
        E::T_ERR_CVAR_SET_NEVER => "the control variable cannot be set",
        E::T_ERR_PVAR_NO_WRITE => "the performance variable cannot be written or reset",
        E::T_ERR_PVAR_NO_STARTSTOP => "the performance variable cannot be started or stopped",
        E::T_ERR_PVAR_NO_ATOMIC => "the performance variable cannot be read and reset in one step",
        _ => return None,
    })
}
