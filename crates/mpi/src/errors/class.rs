//! The error classes of the MPI-5.0 ABI with their values.

/// An MPI error class. The number is the ABI's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorClass(pub i32);

macro_rules! classes {
    ($($name:ident = $value:literal;)*) => {
        impl ErrorClass {
            $(#[doc = concat!("`MPI_", stringify!($name), "`")] pub const $name: Self = Self($value);)*
            /// Every predefined class with its MPI name.
            pub const ALL: &'static [(Self, &'static str)] =
                &[$((Self($value), concat!("MPI_", stringify!($name))),)*];
        }
    };
}

classes! {
    SUCCESS = 0;
    ERR_BUFFER = 1;
    ERR_COUNT = 2;
    ERR_TYPE = 3;
    ERR_TAG = 4;
    ERR_COMM = 5;
    ERR_RANK = 6;
    ERR_REQUEST = 7;
    ERR_ROOT = 8;
    ERR_GROUP = 9;
    ERR_OP = 10;
    ERR_TOPOLOGY = 11;
    ERR_DIMS = 12;
    ERR_ARG = 13;
    ERR_UNKNOWN = 14;
    ERR_TRUNCATE = 15;
    ERR_OTHER = 16;
    ERR_INTERN = 17;
    ERR_PENDING = 18;
    ERR_IN_STATUS = 19;
    ERR_ACCESS = 20;
    ERR_AMODE = 21;
    ERR_ASSERT = 22;
    ERR_BAD_FILE = 23;
    ERR_BASE = 24;
    ERR_CONVERSION = 25;
    ERR_DISP = 26;
    ERR_DUP_DATAREP = 27;
    ERR_FILE_EXISTS = 28;
    ERR_FILE_IN_USE = 29;
    ERR_FILE = 30;
    ERR_INFO_KEY = 31;
    ERR_INFO_NOKEY = 32;
    ERR_INFO_VALUE = 33;
    ERR_INFO = 34;
    ERR_IO = 35;
    ERR_KEYVAL = 36;
    ERR_LOCKTYPE = 37;
    ERR_NAME = 38;
    ERR_NO_MEM = 39;
    ERR_NOT_SAME = 40;
    ERR_NO_SPACE = 41;
    ERR_NO_SUCH_FILE = 42;
    ERR_PORT = 43;
    ERR_QUOTA = 44;
    ERR_READ_ONLY = 45;
    ERR_RMA_ATTACH = 46;
    ERR_RMA_CONFLICT = 47;
    ERR_RMA_RANGE = 48;
    ERR_RMA_SHARED = 49;
    ERR_RMA_SYNC = 50;
    ERR_SERVICE = 51;
    ERR_SIZE = 52;
    ERR_SPAWN = 53;
    ERR_UNSUPPORTED_DATAREP = 54;
    ERR_UNSUPPORTED_OPERATION = 55;
    ERR_WIN = 56;
    ERR_RMA_FLAVOR = 57;
    ERR_PROC_ABORTED = 58;
    ERR_VALUE_TOO_LARGE = 59;
    ERR_SESSION = 60;
    ERR_ERRHANDLER = 61;
    ERR_ABI = 62;
    T_ERR_CANNOT_INIT = 1001;
    T_ERR_NOT_ACCESSIBLE = 1002;
    T_ERR_NOT_INITIALIZED = 1003;
    T_ERR_NOT_SUPPORTED = 1004;
    T_ERR_MEMORY = 1005;
    T_ERR_INVALID = 1006;
    T_ERR_INVALID_INDEX = 1007;
    T_ERR_INVALID_ITEM = 1008;
    T_ERR_INVALID_SESSION = 1009;
    T_ERR_INVALID_HANDLE = 1010;
    T_ERR_INVALID_NAME = 1011;
    T_ERR_OUT_OF_HANDLES = 1012;
    T_ERR_OUT_OF_SESSIONS = 1013;
    T_ERR_CVAR_SET_NOT_NOW = 1014;
    T_ERR_CVAR_SET_NEVER = 1015;
    T_ERR_PVAR_NO_WRITE = 1016;
    T_ERR_PVAR_NO_STARTSTOP = 1017;
    T_ERR_PVAR_NO_ATOMIC = 1018;
}

impl ErrorClass {
    /// A communicator is revoked. Beyond the ABI's classes, where a code has room.
    pub const MPIX_ERR_REVOKED: Self = Self(126);

    /// The MPI name, when the class is a predefined one.
    pub fn name(self) -> Option<&'static str> {
        if self == Self::MPIX_ERR_REVOKED {
            return Some("MPIX_ERR_REVOKED");
        }
        Self::ALL
            .iter()
            .find(|(class, _)| *class == self)
            .map(|(_, name)| *name)
    }
}

impl core::fmt::Debug for ErrorClass {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error class {}", self.0),
        }
    }
}
