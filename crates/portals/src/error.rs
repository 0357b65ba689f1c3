//! Return codes (section 3.3 of the document has them function by function), in the reference implementation's order.

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal, $c:literal, $text:literal;)*) => {
        /// What a call answers instead of success. The number is the C return code; `PTL_OK` is 0.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
        #[repr(i32)]
        pub enum Error {
            $($(#[doc = $doc])+ #[error($text)] $name = $code,)*
        }

        impl Error {
            /// All of them, by number.
            pub const ALL: &'static [Error] = &[$(Error::$name),*];

            /// The C return code.
            #[inline]
            pub const fn code(self) -> i32 {
                self as i32
            }

            /// The C name.
            pub const fn name(self) -> &'static str {
                match self { $(Error::$name => $c,)* }
            }
        }
    };
}

codes! {
    /// The access control index is beyond the table.
    AcIndexInvalid = 1, "PTL_AC_INDEX_INVALID", "the access control index is beyond the table's last entry (limits: max_ac_index)";
    /// An event is returned, and at least one before it was lost.
    EqDropped = 2, "PTL_EQ_DROPPED", "events before this one were lost: the event queue is too short or is not emptied often enough";
    /// There is no event.
    EqEmpty = 3, "PTL_EQ_EMPTY", "the event queue holds no event";
    /// Not an event queue, or not one of that interface.
    EqInvalid = 4, "PTL_EQ_INVALID", "the handle does not name an event queue of this interface (any more)";
    /// An operation failed for a reason of the system's.
    Fail = 5, "PTL_FAIL", "the operation failed below Portals";
    /// Not a handle of any object.
    HandleInvalid = 6, "PTL_HANDLE_INVALID", "the handle names no object";
    /// No such interface.
    IfaceInvalid = 7, "PTL_IFACE_INVALID", "there is no such network interface";
    /// The descriptor's values contradict each other or the interface.
    MdIllegal = 8, "PTL_MD_ILLEGAL", "the memory descriptor's values are not legal: region, options, limits or event queue";
    /// Not a descriptor, or an inactive one.
    MdInvalid = 9, "PTL_MD_INVALID", "the handle does not name a memory descriptor that is active";
    /// The descriptor has operations in progress.
    MdInUse = 10, "PTL_MD_IN_USE", "the memory descriptor has operations in progress: try again after they have ended";
    /// The update was refused, since the queue to be tested was not empty.
    MdNoUpdate = 11, "PTL_MD_NO_UPDATE", "the memory descriptor was not updated: the tested event queue is not empty, or operations are in progress";
    /// Not a match entry.
    MeInvalid = 12, "PTL_ME_INVALID", "the handle does not name a match entry (any more)";
    /// The entry has a descriptor already, or its descriptor has operations in progress.
    MeInUse = 13, "PTL_ME_IN_USE", "the match entry has a memory descriptor already, or one with operations in progress";
    /// The match list has as many entries as it may.
    MeListTooLong = 14, "PTL_ME_LIST_TOO_LONG", "the match list has as many entries as it may have (limits: max_me_list)";
    /// Not a network interface.
    NiInvalid = 15, "PTL_NI_INVALID", "the handle does not name an open network interface";
    /// `PtlInit` has not been called.
    NoInit = 16, "PTL_NO_INIT", "Portals is not initialised: call PtlInit first";
    /// A table is full.
    NoSpace = 17, "PTL_NO_SPACE", "there is no room for another object (see the interface's limits)";
    /// The process number is not available.
    PidInvalid = 18, "PTL_PID_INVALID", "this process identifier cannot be had";
    /// No such process.
    ProcessInvalid = 19, "PTL_PROCESS_INVALID", "there is no such process";
    /// All portal indexes are taken.
    PtFull = 20, "PTL_PT_FULL", "every index of the portal table is in use";
    /// The portal index is beyond the table.
    PtIndexInvalid = 21, "PTL_PT_INDEX_INVALID", "the portal index is beyond the table's last entry (limits: max_pt_index)";
    /// A pointer that cannot be right.
    Segv = 22, "PTL_SEGV", "a pointer argument is not valid";
    /// No such status register.
    SrIndexInvalid = 23, "PTL_SR_INDEX_INVALID", "there is no such status register";
    /// Anything else.
    UnknownError = 24, "PTL_UNKNOWN_ERROR", "an error without a name";
    /// Another process has the number.
    PidInUse = 26, "PTL_PID_INUSE", "another process has this process identifier";
}
