//! Error codes of RSMAPI, each with a sentence for people.

use farpost_fabric::FabricError;

macro_rules! codes {
    ($($(#[$about:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        /// What RSMAPI functions return when they fail (`RSMERR_*` in C).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "the interface's own names")]
        pub enum Code {
            $(#[doc = $text] $(#[$about])* $name = $value,)*
        }

        impl Code {
            /// All of them, in order.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The name in C.
            pub fn name(self) -> &'static str {
                match self { $(Code::$name => concat!("RSMERR_", stringify!($name)),)* }
            }

            /// What it means.
            pub fn text(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }
        }
    };
}

codes! {
    BAD_LIBRARY_VERSION = 1, "the library is of another version";
    BAD_TOPOLOGY_PTR = 2, "no place for the topology";
    BAD_CTLR_HNDL = 3, "not a handle of a controller";
    CTLR_NOT_PRESENT = 4, "there is no such controller";
    BAD_SEG_HNDL = 5, "not a handle of a segment";
    SEG_ALREADY_PUBLISHED = 6, "the segment is published already";
    SEG_NOT_PUBLISHED = 7, "the segment is not published";
    SEG_NOT_PUBLISHED_TO_NODE = 8, "the segment is not published to this node";
    SEG_ALREADY_MAPPED = 9, "the segment is mapped already";
    SEG_STILL_MAPPED = 10, "the segment is still mapped";
    SEG_NOT_MAPPED = 11, "the segment is not mapped";
    NOT_CREATOR = 12, "only the process that created the segment may do this";
    BAD_BARRIER_PTR = 13, "no barrier";
    BAD_SGIO = 14, "bad list of transfers";
    BAD_LOCALMEM_HNDL = 15, "not a handle of local memory";
    BAD_ADDR = 16, "bad address";
    BAD_MEM_ALIGNMENT = 17, "address or length is not aligned";
    BAD_OFFSET = 18, "the offset is outside the segment";
    MISALIGNED_OFFSET = 19, "the offset is not aligned";
    BAD_LENGTH = 20, "bad length";
    BAD_ACL = 21, "bad access list";
    BAD_SEGID = 22, "bad segment identifier";
    RESERVED_SEGID = 23, "the segment identifier is reserved";
    SEGID_IN_USE = 24, "the segment identifier is in use";
    BAD_MODE = 25, "bad barrier mode";
    BAD_PERMS = 26, "bad permissions";
    PERM_DENIED = 27, "permission denied";
    LOCKS_NOT_SUPPORTED = 28, "locks are not supported";
    LOCKS_NOT_ENABLED = 29, "locks are not enabled";
    REBIND_NOT_ALLOWED = 30, "the segment may not be bound to other memory";
    INSUFFICIENT_RESOURCES = 31, "not enough resources";
    INSUFFICIENT_MEM = 32, "not enough memory";
    MAP_FAILED = 33, "mapping failed";
    POLLFD_IN_USE = 34, "a pollable descriptor is in use";
    BARRIER_UNINITIALIZED = 35, "the barrier is not initialised";
    BARRIER_OPEN_FAILED = 36, "the barrier could not be opened";
    BARRIER_NOT_OPENED = 37, "the barrier is not open";
    BARRIER_FAILURE = 38, "accesses failed since the barrier was opened";
    REMOTE_NODE_UNREACHABLE = 39, "the node cannot be reached";
    CONN_ABORTED = 40, "the segment was withdrawn or its owner is gone";
    INTERRUPTED = 41, "interrupted";
    TIMEOUT = 42, "the time is up";
    BAD_APPID = 43, "no such application";
    BAD_CONF = 44, "the file of segment identifiers is malformed";
    SEG_NOT_CONNECTED = 45, "the segment is not connected";
}

/// A call that failed: the code that C sees, and a sentence that says with whom and with which values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({})", code.name())]
pub struct RsmError {
    /// The code.
    pub code: Code,
    /// The sentence.
    pub message: String,
}

/// Result of the calls of this interface.
pub type Result<T> = std::result::Result<T, RsmError>;

/// An error of the named code with a sentence, formatted as by [`format!`]: `error!(BAD_LENGTH: "length {len}")`.
#[macro_export]
macro_rules! error {
    ($code:ident: $($sentence:tt)+) => { $crate::RsmError::new($crate::Code::$code, format!($($sentence)+)) };
}

/// A result that is such an [`error!`].
#[macro_export]
macro_rules! fail {
    ($code:ident: $($sentence:tt)+) => { Err($crate::error!($code: $($sentence)+)) };
}

impl RsmError {
    /// `code` because of `message`.
    #[cold]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// `code` in its own words.
    #[cold]
    pub fn of(code: Code) -> Self {
        Self::new(code, code.text())
    }

    /// What the fabric said while `what` was tried on a segment's way in or out of this process.
    #[cold]
    pub(crate) fn fabric(what: &str, error: &FabricError) -> Self {
        let code = match error {
            FabricError::NotPublished { .. } => Code::SEG_NOT_PUBLISHED,
            FabricError::Denied { .. } => Code::PERM_DENIED,
            FabricError::OutOfRange { .. } => Code::BAD_LENGTH,
            FabricError::InUse { .. } => Code::SEGID_IN_USE,
            FabricError::PeerDead { .. } | FabricError::NoSuchPeer { .. } | FabricError::Corrupt { .. } => {
                Code::REMOTE_NODE_UNREACHABLE
            }
            FabricError::PutFailed { .. } => Code::BARRIER_FAILURE,
            FabricError::Unsupported { .. } => Code::INSUFFICIENT_RESOURCES,
            FabricError::Os { .. } => Code::INSUFFICIENT_MEM,
        };
        Self::new(code, format!("{what}: {error}"))
    }
}
