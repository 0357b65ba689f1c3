//! What a process of its own and the coordinator say to each other: one question and one answer at a time, each a datagram of a
//! connected socket. Long bytes stay where they are; the coordinator reads and writes the process's memory.

use crate::costs::Costs;
use farpost_fabric::{Access, Descriptor, Direction, FabricError, Fault, Peer, Permission, Result, Route};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Of what this module says. Both sides must have the same.
pub const VERSION: u32 = 3;

/// Variable: the coordinator's socket, a name in the system's abstract name space.
pub const SOCKET: &str = "FARPOST_SIM";

/// Bytes of a datagram at most.
pub const LONGEST: usize = 128 << 10;

/// Bytes of a put that go with the question at most.
pub const INLINE: usize = 512;

/// A question, and what its process has done since the last answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Question<'a> {
    /// Time that it has spent, picoseconds.
    pub spent: u64,
    /// Functions of interfaces that have looked at the machine and returned to the program.
    pub polls: u32,
    /// The last of them; without any, that which the program is in.
    pub call: &'a str,
    #[serde(borrow)]
    pub ask: Ask<'a>,
}

/// Bytes of a put.
#[derive(Debug, Serialize, Deserialize)]
pub enum Bytes<'a> {
    With(&'a [u8]),
    /// In the process's memory.
    At {
        address: u64,
        len: u64,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Ask<'a> {
    /// The first one.
    Hello {
        version: u32,
        rank: u32,
        size: u32,
    },
    Sync,
    Sleep {
        period: u64,
        deadline: u64,
    },
    /// The program waits outside the library: the answer comes when something has happened to the process, or after [`Back`](Self::Back).
    Rest,
    /// The program calls again. Has no answer of its own, and is nothing where [`Rest`](Self::Rest) has been answered.
    Back,
    Random,
    TrySend {
        peer: u32,
        lane: u8,
        /// None: a random one.
        route: Option<u8>,
        bytes: &'a [u8],
    },
    Poll {
        lane: u8,
    },
    Waiting {
        lane: u8,
        limit: u32,
    },
    Publish {
        id: u32,
        address: u64,
        len: u64,
        access: Admitted,
    },
    Republish {
        id: u32,
        access: Admitted,
    },
    Unpublish {
        id: u32,
    },
    Import {
        peer: u32,
        id: u32,
        writes: bool,
        len: u64,
    },
    Put {
        to: u32,
        offset: u64,
        whole: bool,
        #[serde(borrow)]
        bytes: Bytes<'a>,
    },
    Get {
        from: u32,
        offset: u64,
        len: u64,
    },
    Fence {
        of: u32,
    },
    Fenced {
        of: u32,
    },
    Expose {
        peer: u32,
        address: u64,
        len: u64,
    },
    Withdraw {
        key: u64,
    },
    Transfer {
        peer: u32,
        reads: bool,
        local: u64,
        remote: u64,
        key: u64,
        len: u64,
    },
    /// Bytes that the operation gave go to this address.
    Ended {
        op: u64,
        address: u64,
        len: u64,
    },
    TakeFaults,
    /// The program calls this function of an interface; the one before ended at that time, and between them it computed so long.
    Call {
        name: &'a str,
        ended: u64,
        computed: u64,
    },
    /// The last one.
    Leave,
}

/// What the coordinator answers, when the process's turn has come.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The process's time, picoseconds.
    pub clock: u64,
    /// Nothing happens on the machine before this time, so that nobody need ask.
    pub horizon: u64,
    /// Something has happened to the process since the last answer.
    pub touched: bool,
    /// There are faults to take.
    pub faulted: bool,
    /// Processes that have ended before their time, so far.
    pub dead: u32,
    pub reply: Reply,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    Done,
    Welcome(Box<Welcome>),
    Yes(bool),
    Number(u64),
    Packet(Option<(u32, Vec<u8>)>),
    Imported {
        handle: u32,
        len: u64,
        writes: bool,
    },
    /// Whether the operation has ended, or how it failed.
    Ended(Option<core::result::Result<(), WireError>>),
    Faults {
        first: Vec<(u32, WireError)>,
        more: u64,
        dead: Vec<u32>,
    },
    Failed(WireError),
}

/// What a process learns of the machine first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// For people.
    pub machine: String,
    /// Of each process.
    pub host_of: Vec<u32>,
    pub rails: u32,
    pub costs: Costs,
    /// Times as long as another's everything takes that software does: in the costs already.
    pub slow: f64,
    /// Of hosts that are this process's own, and of others: whether bytes are moved between memories.
    pub transfers: [bool; 2],
    /// A look at the clock, picoseconds.
    pub tick: u64,
    /// After so long of real time without a question others run on, nanoseconds.
    pub patience: u64,
    /// What computing between calls takes.
    pub compute: Compute,
    /// All functions of interfaces are to be told when they are called.
    pub calls: bool,
}

/// What computing between calls takes in virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Compute {
    /// Nothing.
    #[default]
    Nothing,
    /// Measured processor time, times this.
    Measured(f64),
    /// Counted instructions, so many millions of them a second.
    Counted(f64),
}

/// Who is admitted to a segment; true: may write.
#[derive(Debug, Serialize, Deserialize)]
pub enum Admitted {
    Everyone(bool),
    Only(Vec<(u32, bool)>),
}

/// The permission that a question or answer has as a truth value.
pub fn permission_of(writes: bool) -> Permission {
    if writes {
        Permission::ReadWrite
    } else {
        Permission::Read
    }
}

/// Whether it permits writing.
pub fn writes(permission: Permission) -> bool {
    permission == Permission::ReadWrite
}

impl From<&Access> for Admitted {
    fn from(access: &Access) -> Self {
        match access {
            Access::Everyone(all) => Self::Everyone(writes(*all)),
            Access::Only(list) => Self::Only(list.iter().map(|(peer, p)| (peer.0, writes(*p))).collect()),
        }
    }
}

impl From<Admitted> for Access {
    fn from(admitted: Admitted) -> Self {
        match admitted {
            Admitted::Everyone(writes) => Self::Everyone(permission_of(writes)),
            Admitted::Only(list) => Self::Only(
                list.into_iter()
                    .map(|(peer, w)| (Peer(peer), permission_of(w)))
                    .collect(),
            ),
        }
    }
}

/// The number of a route, none for a random one.
pub fn route_of(route: Route) -> Option<u8> {
    match route {
        Route::Fixed(number) => Some(number),
        Route::Random => None,
    }
}

/// A [`FabricError`] on its way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WireError {
    NotPublished(u32, u32),
    Denied(u32, u32),
    OutOfRange(u64, u64, u64),
    InUse(u32),
    Corrupt(u32, String, u64),
    PeerDead(u32, String),
    PutFailed(u32, String),
    NoSuchPeer(u32, u32),
    Unsupported(u32, String, String),
    Os(String, i32, String),
}

impl From<FabricError> for WireError {
    fn from(error: FabricError) -> Self {
        use FabricError as E;
        match error {
            E::NotPublished { peer, id } => Self::NotPublished(peer.0, id),
            E::Denied { peer, id } => Self::Denied(peer.0, id),
            E::OutOfRange { offset, end, len } => Self::OutOfRange(offset as u64, end as u64, len as u64),
            E::InUse { id } => Self::InUse(id),
            E::Corrupt { peer, what, value } => Self::Corrupt(peer.0, what.into(), value),
            E::PeerDead { peer, why } => Self::PeerDead(peer.0, why),
            E::PutFailed { peer, why } => Self::PutFailed(peer.0, why),
            E::NoSuchPeer { peer, size } => Self::NoSuchPeer(peer.0, size),
            E::Unsupported { peer, what, why } => Self::Unsupported(peer.0, what.into(), why),
            E::Os {
                what,
                errno,
                source_text,
            } => Self::Os(what.into(), errno, source_text),
        }
    }
}

impl From<WireError> for FabricError {
    fn from(error: WireError) -> Self {
        use WireError as W;
        match error {
            W::NotPublished(peer, id) => Self::NotPublished { peer: Peer(peer), id },
            W::Denied(peer, id) => Self::Denied { peer: Peer(peer), id },
            W::OutOfRange(offset, end, len) => Self::OutOfRange {
                offset: offset as usize,
                end: end as usize,
                len: len as usize,
            },
            W::InUse(id) => Self::InUse { id },
            W::Corrupt(peer, what, value) => Self::corrupt(Peer(peer), kept(what), value),
            W::PeerDead(peer, why) => Self::dead(Peer(peer), why),
            W::PutFailed(peer, why) => Self::put_failed(Peer(peer), why),
            W::NoSuchPeer(peer, size) => Self::NoSuchPeer {
                peer: Peer(peer),
                size,
            },
            W::Unsupported(peer, what, why) => Self::unsupported(Peer(peer), kept(what), why),
            W::Os(what, errno, source_text) => Self::Os {
                what: kept(what),
                errno,
                source_text,
            },
        }
    }
}

/// The text for as long as the program runs. There are few of them: the constants of the coordinator's code.
fn kept(text: String) -> &'static str {
    static ALL: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    match all.get(&*text) {
        Some(known) => known,
        None => {
            let text: &'static str = Box::leak(text.into_boxed_str());
            all.insert(text);
            text
        }
    }
}

/// Faults as they were recorded.
pub fn faults_of(list: Vec<(u32, WireError)>) -> Vec<Fault> {
    let fault = |(peer, error): (u32, WireError)| Fault {
        peer: Peer(peer),
        error: error.into(),
    };
    list.into_iter().map(fault).collect()
}

/// A transfer in a question.
pub fn transfer_of(d: &Descriptor) -> Ask<'static> {
    Ask::Transfer {
        peer: d.peer.0,
        reads: d.direction == Direction::Get,
        local: d.local as u64,
        remote: d.remote as u64,
        key: d.key,
        len: d.len as u64,
    }
}

/// Write down.
pub fn pack(what: &impl Serialize, to: &mut Vec<u8>) {
    to.clear();
    *to = postcard::to_extend(what, std::mem::take(to)).expect("memory never refuses");
}

/// Read.
///
/// # Errors
/// It is none.
pub fn unpack<'a, T: Deserialize<'a>>(from: &'a [u8]) -> Result<T, postcard::Error> {
    postcard::from_bytes(from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farpost_fabric::SegmentId;

    #[test]
    fn errors_come_as_they_were() {
        let peer = Peer(3);
        let errors = [
            FabricError::not_published(peer, SegmentId(7)),
            FabricError::Denied { peer, id: 8 },
            FabricError::OutOfRange {
                offset: 1,
                end: 9,
                len: 8,
            },
            FabricError::InUse { id: 5 },
            FabricError::corrupt(peer, "a word", 4_u64),
            FabricError::dead(peer, "gone"),
            FabricError::put_failed(peer, "lost"),
            FabricError::NoSuchPeer { peer, size: 2 },
            FabricError::unsupported(peer, "flying", "no wings"),
            FabricError::Os {
                what: "opening",
                errno: 2,
                source_text: "no such file".into(),
            },
        ];
        for error in errors {
            let mut bytes = Vec::new();
            pack(&WireError::from(error.clone()), &mut bytes);
            let back: WireError = unpack(&bytes).expect("as written");
            assert_eq!(FabricError::from(back), error);
        }
    }

    #[test]
    fn garbage_is_refused() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            let bytes: Vec<u8> = (0..rng.usize(..40)).map(|_| rng.u8(..)).collect();
            let _ = unpack::<Question>(&bytes);
            let _ = unpack::<Answer>(&bytes);
        }
        assert!(unpack::<Question>(&[0, 200]).is_err());
    }
}
