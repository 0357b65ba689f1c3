//! The predefined attributes (MPI-5.0 section 9.1.2).

use crate::errors::LASTCODE;
use std::cell::Cell;

/// `MPI_KEYVAL_INVALID`.
pub const KEYVAL_INVALID: i32 = 0;

macro_rules! keys {
    ($(#[$doc:meta])* $Key:ident: $($variant:ident = $value:literal $name:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub enum $Key {
            $(#[doc = concat!("`", $name, "`")] $variant = $value,)*
        }

        impl $Key {
            /// Every key.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The predefined key with this number, if it is one.
            pub fn of(id: i32) -> Option<Self> {
                match id {
                    $($value => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The MPI name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

keys! {
    /// Predefined attributes of communicators.
    CommKey:
    TagUb = 501 "MPI_TAG_UB";
    Io = 502 "MPI_IO";
    Host = 503 "MPI_HOST";
    WtimeIsGlobal = 504 "MPI_WTIME_IS_GLOBAL";
    Appnum = 505 "MPI_APPNUM";
    LastUsedCode = 506 "MPI_LASTUSEDCODE";
    UniverseSize = 507 "MPI_UNIVERSE_SIZE";
}

keys! {
    /// Predefined attributes of windows.
    WinKey:
    Base = 601 "MPI_WIN_BASE";
    DispUnit = 602 "MPI_WIN_DISP_UNIT";
    Size = 603 "MPI_WIN_SIZE";
    CreateFlavor = 604 "MPI_WIN_CREATE_FLAVOR";
    Model = 605 "MPI_WIN_MODEL";
}

/// The values of the predefined communicator attributes. C gets pointers to them, so whoever owns this must
/// keep it where it is.
#[derive(Debug)]
pub struct CommAttributes {
    values: [Cell<Option<i32>>; CommKey::ALL.len()],
    /// What the pointers point to; separate because an `Option` has no layout to rely on.
    cells: [Cell<i32>; CommKey::ALL.len()],
}

impl Default for CommAttributes {
    /// Tags up to 2^31 - 1, every process can do input and output, no host process, clocks of one
    /// host, no application number, no universe size.
    fn default() -> Self {
        let new = Self {
            values: Default::default(),
            cells: Default::default(),
        };
        new.set(CommKey::TagUb, Some(i32::MAX));
        new.set(CommKey::Io, Some(ANY_SOURCE));
        new.set(CommKey::Host, Some(crate::group::PROC_NULL));
        new.set(CommKey::WtimeIsGlobal, Some(1));
        new.set(CommKey::LastUsedCode, Some(LASTCODE));
        new
    }
}

/// `MPI_ANY_SOURCE`: the value of `MPI_IO` when every process can do input and output.
const ANY_SOURCE: i32 = -1;

impl CommAttributes {
    /// Sets the value; `None` for "not set".
    pub fn set(&self, key: CommKey, value: Option<i32>) {
        let at = key as usize - CommKey::TagUb as usize;
        self.values[at].set(value);
        self.cells[at].set(value.unwrap_or(0));
    }

    /// The value; `None` when it is not set.
    pub fn get(&self, key: CommKey) -> Option<i32> {
        self.values[key as usize - CommKey::TagUb as usize].get()
    }

    /// Where the value is stored; `None` when it is not set. Valid while `self` lives.
    pub fn cell(&self, key: CommKey) -> Option<&Cell<i32>> {
        self.get(key)
            .map(|_| &self.cells[key as usize - CommKey::TagUb as usize])
    }
}
