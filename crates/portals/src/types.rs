//! Types and constants (section 3.2 of the document).

use crate::memory::Segment;
use std::rc::Rc;

/// Any identifier (`PTL_NID_ANY`, `PTL_PID_ANY`, `PTL_UID_ANY`, `PTL_JID_ANY`, `PTL_PT_INDEX_ANY`).
pub const ANY: u32 = u32::MAX;
/// A threshold that is never reached (`PTL_MD_THRESH_INF`).
pub const THRESHOLD_INFINITE: i32 = -1;
/// The only status register: requests dropped (`PTL_SR_DROP_COUNT`).
pub const SR_DROP_COUNT: u32 = 0;
/// Wait without end (`PTL_TIME_FOREVER`).
pub const TIME_FOREVER: u32 = u32::MAX;

/// A process: its node and its number there. In match entries and access entries either may be [`ANY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct ProcessId {
    /// The node: the host's index in the job.
    pub nid: u32,
    /// The process on that node.
    pub pid: u32,
}

impl ProcessId {
    /// Everybody.
    pub const ANY: ProcessId = ProcessId { nid: ANY, pid: ANY };

    /// Process `pid` of node `nid`.
    pub const fn new(nid: u32, pid: u32) -> Self {
        Self { nid, pid }
    }
}

impl core::fmt::Display for ProcessId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "process {} of node {}", self.pid, self.nid)
    }
}

/// Who a process is to the others. Comes from the job and the fabric, never from a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Node and number.
    pub id: ProcessId,
    /// The user.
    pub uid: u32,
    /// The job.
    pub jid: u32,
}

/// What kind of object a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HandleKind {
    /// A network interface.
    Ni = 0,
    /// A match entry.
    Me = 1,
    /// A memory descriptor.
    Md = 2,
    /// An event queue.
    Eq = 3,
}

/// A handle: kind (2 bits), interface (3), generation (11) and index (16) of an object. A generation is never 0 and never
/// all ones, so that no handle is 0 or one of the three constants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Handle(pub u32);

impl Handle {
    /// `PTL_INVALID_HANDLE`.
    pub const INVALID: Handle = Handle(0xffff_ffff);
    /// `PTL_HANDLE_NONE`.
    pub const NONE: Handle = Handle(0x7fff_ffff);
    /// `PTL_EQ_NONE`.
    pub const EQ_NONE: Handle = Handle(0xbfff_ffff);
    /// How many generations a place has before a handle repeats.
    pub const GENERATIONS: u32 = 2046;

    /// The handle of place `index` in its `generation`th use, which is counted from 0 and may be of any size.
    #[inline]
    pub const fn new(kind: HandleKind, interface: u8, index: u16, generation: u32) -> Self {
        let generation = generation % Self::GENERATIONS + 1;
        Self((kind as u32) << 30 | (interface as u32 & 7) << 27 | generation << 16 | index as u32)
    }

    /// The kind of object.
    #[inline]
    pub const fn kind(self) -> HandleKind {
        match self.0 >> 30 {
            0 => HandleKind::Ni,
            1 => HandleKind::Me,
            2 => HandleKind::Md,
            _ => HandleKind::Eq,
        }
    }

    /// The interface that the object belongs to.
    #[inline]
    pub const fn interface(self) -> u8 {
        (self.0 >> 27 & 7) as u8
    }

    /// The object's place in the table of its kind.
    #[inline]
    pub const fn index(self) -> u16 {
        self.0 as u16
    }

    /// Whether it could name an object: none of the three constants, and a generation that exists.
    #[inline]
    pub const fn is_plausible(self) -> bool {
        let generation = self.0 >> 16 & 0x7ff;
        generation != 0 && generation != 0x7ff
    }
}

impl core::fmt::Debug for Handle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Handle({:#010x})", self.0)
    }
}

/// Sizes of an interface's tables (`ptl_ni_limits_t`). The two `*_index` members are the highest valid indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Limits {
    /// Match entries.
    pub max_mes: i32,
    /// Memory descriptors.
    pub max_mds: i32,
    /// Event queues.
    pub max_eqs: i32,
    /// Highest access control index.
    pub max_ac_index: i32,
    /// Highest portal index.
    pub max_pt_index: i32,
    /// Segments of a descriptor.
    pub max_md_iovecs: i32,
    /// Entries of one match list.
    pub max_me_list: i32,
    /// Bytes of a get-put.
    pub max_getput_md: i32,
}

impl Limits {
    /// What the library can do. The reference library stops at 8 portals, 8 access entries and 16 segments, which is
    /// little for several users of one interface.
    pub const LIBRARY: Limits = Limits {
        max_mes: 65536,
        max_mds: 65536,
        max_eqs: 65536,
        max_ac_index: 63,
        max_pt_index: 63,
        max_md_iovecs: 256,
        max_me_list: 65536,
        max_getput_md: 64,
    };
}

/// Whether an object is released when it has served its purpose (`ptl_unlink_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u32)]
pub enum Unlink {
    /// Stays until unlinked by a call (`PTL_RETAIN`).
    Retain = 0,
    /// Goes by itself (`PTL_UNLINK`).
    Unlink = 1,
}

/// Where a match entry goes (`ptl_ins_pos_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u32)]
pub enum Position {
    /// Before the base entry, or at the head of the list (`PTL_INS_BEFORE`).
    Before = 0,
    /// After the base entry, or at the tail of the list (`PTL_INS_AFTER`).
    After = 1,
}

/// Whether a put asks for an acknowledgement (`ptl_ack_req_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u32)]
pub enum AckReq {
    /// `PTL_ACK_REQ`.
    Ack = 0,
    /// `PTL_NO_ACK_REQ`.
    NoAck = 1,
}

/// Options of a memory descriptor (section 3.10.1). None at all is legal: every descriptor can receive replies.
pub mod option {
    /// Accepts put (`PTL_MD_OP_PUT`).
    pub const OP_PUT: u32 = 0x001;
    /// Accepts get (`PTL_MD_OP_GET`).
    pub const OP_GET: u32 = 0x002;
    /// The offset comes from the request (`PTL_MD_MANAGE_REMOTE`); otherwise the descriptor's own runs.
    pub const MANAGE_REMOTE: u32 = 0x004;
    /// A request longer than the room left is shortened instead of rejected (`PTL_MD_TRUNCATE`).
    pub const TRUNCATE: u32 = 0x008;
    /// Never acknowledges puts (`PTL_MD_ACK_DISABLE`).
    pub const ACK_DISABLE: u32 = 0x010;
    /// `start` is an array of segments and `length` counts them (`PTL_MD_IOVEC`).
    pub const IOVEC: u32 = 0x020;
    /// `max_size` means something (`PTL_MD_MAX_SIZE`).
    pub const MAX_SIZE: u32 = 0x040;
    /// No START events (`PTL_MD_EVENT_START_DISABLE`).
    pub const EVENT_START_DISABLE: u32 = 0x080;
    /// No END events (`PTL_MD_EVENT_END_DISABLE`).
    pub const EVENT_END_DISABLE: u32 = 0x100;
    /// Every bit that means something.
    pub const ALL: u32 = 0x1ff;
}

/// A memory descriptor as the program writes it (`ptl_md_t`, section 3.10.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Md {
    /// First byte, or the array of segments with [`option::IOVEC`].
    pub start: usize,
    /// Bytes, or segments with [`option::IOVEC`].
    pub length: u64,
    /// Operations that it takes part in before it is inactive, or [`THRESHOLD_INFINITE`].
    pub threshold: i32,
    /// With [`option::MAX_SIZE`]: becomes inactive when less room than this is left.
    pub max_size: u64,
    /// See [`option`].
    pub options: u32,
    /// The program's own.
    pub user_ptr: usize,
    /// Where its events go, or [`Handle::EQ_NONE`].
    pub eq_handle: Handle,
}

impl Md {
    /// A descriptor of nothing, to be written over.
    pub const BLANK: Md = Md {
        threshold: 0,
        ..Md::new(0, 0, 0, Handle::EQ_NONE)
    };

    /// A descriptor of `length` bytes, or segments with [`option::IOVEC`], that never runs out.
    pub const fn new(start: usize, length: u64, options: u32, eq_handle: Handle) -> Self {
        Self {
            start,
            length,
            threshold: THRESHOLD_INFINITE,
            max_size: 0,
            options,
            user_ptr: 0,
            eq_handle,
        }
    }

    /// A descriptor of `memory` that never runs out.
    pub fn of<T>(memory: &mut [T], options: u32, eq_handle: Handle) -> Self {
        let length = size_of_val(memory) as u64;
        Self::new(
            memory.as_mut_ptr().expose_provenance(),
            length,
            options,
            eq_handle,
        )
    }
}

/// What a descriptor's memory is, in calls: with [`option::IOVEC`] the segments that `start` points to, read and given
/// by the caller; the library follows no address itself.
pub type Iovec = Option<Rc<[Segment]>>;

/// What an event tells (`ptl_event_kind_t`, section 3.11.1), in the order of the enumeration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::FromRepr)]
#[repr(u32)]
pub enum EventKind {
    /// A get has matched.
    GetStart = 0,
    /// The reply to a get has been sent.
    GetEnd = 1,
    /// A put has matched.
    PutStart = 2,
    /// A put's data is in place.
    PutEnd = 3,
    /// A get-put has matched.
    GetPutStart = 4,
    /// A get-put has swapped and its reply has been sent.
    GetPutEnd = 5,
    /// A reply has begun to arrive.
    ReplyStart = 6,
    /// A reply is in place.
    ReplyEnd = 7,
    /// A put begins to leave.
    SendStart = 8,
    /// A put has left: its memory may be used again.
    SendEnd = 9,
    /// The target has acknowledged a put.
    Ack = 10,
    /// A descriptor has been released by itself.
    Unlink = 11,
}

/// What went wrong with an operation, in END and ACK events (`ptl_ni_fail_t`); `PTL_NI_OK` is 0. The document names no
/// other value, so these are ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct NiFail(pub u32);

impl NiFail {
    /// Nothing (`PTL_NI_OK`).
    pub const OK: NiFail = NiFail(0);
    /// The other process has ended (`PTL_NI_UNDELIVERABLE`).
    pub const UNDELIVERABLE: NiFail = NiFail(1);
    /// The bytes could not be moved: the memory is not there, or the fabric failed (`PTL_NI_FAIL`).
    pub const FAIL: NiFail = NiFail(2);
}

/// An event (`ptl_event_t`, section 3.11.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// Who began it: for puts and gets the remote process, for sends this one; for replies and acknowledgements who
    /// answered.
    pub initiator: ProcessId,
    /// The user of `initiator`.
    pub uid: u32,
    /// The job of `initiator`.
    pub jid: u32,
    /// Portal index of the request; [`ANY`] for replies and acknowledgements.
    pub pt_index: u32,
    /// Match bits of the request; 0 for replies.
    pub match_bits: u64,
    /// Bytes asked for.
    pub rlength: u64,
    /// Bytes moved.
    pub mlength: u64,
    /// Where in the descriptor (for sends and acknowledgements: in the target's).
    pub offset: u64,
    /// The descriptor.
    pub md_handle: Handle,
    /// The descriptor's values after the event.
    pub md: Md,
    /// 64 bits from the initiator of a put or get-put.
    pub hdr_data: u64,
    /// The same in START and END of one operation; in UNLINK the `sequence` of the event that caused it.
    pub link: u32,
    /// Whether it worked.
    pub ni_fail_type: NiFail,
    /// Counts the events of a queue. Written last.
    pub sequence: u32,
}

/// What `eq_get` and its like answer when there is an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The event.
    pub event: Event,
    /// At least one event before it was lost: C's `PTL_EQ_DROPPED`, which returns an event too.
    pub dropped: bool,
}
