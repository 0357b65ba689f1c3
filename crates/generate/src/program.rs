//! What a program is made of: instructions of each thread of each rank, over numbered buffers, requests, status slots,
//! communicators and datatypes.

use crate::types::Types;
use crate::values::Numbers;

/// `MPI_ANY_SOURCE`, `MPI_ANY_TAG`, `MPI_PROC_NULL` and `MPI_ROOT` of the standard ABI.
pub const ANY_SOURCE: i32 = -1;
pub const ANY_TAG: i32 = -2;
pub const PROC_NULL: i32 = -3;
pub const ROOT: i32 = -4;

/// A thread of a rank of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor {
    pub rank: usize,
    pub thread: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Standard,
    Buffered,
    Synchronous,
    Ready,
}

/// Elements of a datatype at the start of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    pub buf: usize,
    pub ty: usize,
    pub count: u64,
    /// The call gets a duplicate of the type, which is freed as soon as it returns.
    pub brief: bool,
}

/// Bytes of pattern `id`, from its beginning, that lie as `count` elements of `ty` from byte `at` of a buffer on.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub at: u64,
    pub ty: usize,
    pub count: u64,
    pub id: u32,
}

impl Part {
    /// All that `data` describes.
    pub fn whole(data: &Data, id: u32) -> Self {
        let (ty, count) = (data.ty, data.count);
        Self { at: 0, ty, count, id }
    }

    /// Of the pattern so many behind its own.
    pub fn from(self, id: u32) -> Self {
        let id = self.id + id;
        Self { id, ..self }
    }
}

/// What a receive asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub data: Data,
    /// Rank, or `ANY_SOURCE`, `PROC_NULL`.
    pub from: i32,
    pub tag: i32,
    pub comm: usize,
    /// Where its status goes.
    pub slot: usize,
    /// The message is longer than the room.
    pub truncated: bool,
}

impl Wanted {
    /// One that fits, in the order of `MPI_Recv`'s arguments.
    pub fn of(data: Data, from: i32, tag: i32, comm: usize, slot: usize) -> Self {
        let truncated = false;
        Self {
            data,
            from,
            tag,
            comm,
            slot,
            truncated,
        }
    }
}

/// What a send sends.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    pub mode: Mode,
    pub data: Data,
    /// Rank, or `PROC_NULL`.
    pub to: i32,
    pub tag: i32,
    pub comm: usize,
}

impl Outgoing {
    /// In the order of `MPI_Send`'s arguments.
    pub fn of(mode: Mode, data: Data, to: i32, tag: i32, comm: usize) -> Self {
        Self {
            mode,
            data,
            to,
            tag,
            comm,
        }
    }
}

/// Elements `first..first + n` of a contribution to a reduction, or of the reduction over several, from byte `at` of a buffer on.
#[derive(Clone, Debug)]
pub struct Values {
    pub at: u64,
    pub numbers: Numbers,
    pub first: u64,
    pub n: u64,
    pub who: Vec<usize>,
}

/// How a message is looked at before it is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub enum Look {
    Probe,
    Iprobe,
    Mprobe,
    Improbe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    Sendrecv,
    Replace,
    /// `MPI_Isendrecv`, with this request.
    Isendrecv(usize),
}

/// How a set of requests is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub enum Style {
    Wait,
    Waitall,
    Waitany,
    Waitsome,
    Test,
    Testall,
    Testany,
    Testsome,
    GetStatus,
}

/// A buffer argument of a collective.
#[derive(Clone, Debug)]
pub enum Arg {
    /// Not significant at this rank.
    None,
    InPlace,
    One(Data),
    /// Counts and displacements in elements.
    V {
        buf: usize,
        ty: usize,
        counts: Vec<u64>,
        displs: Vec<u64>,
    },
    /// Displacements in bytes, a datatype each.
    W {
        buf: usize,
        counts: Vec<u64>,
        displs: Vec<u64>,
        types: Vec<usize>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Coll {
    Barrier,
    Bcast,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    Alltoallw,
    Reduce,
    Allreduce,
    ReduceScatter,
    ReduceScatterBlock,
    Scan,
    Exscan,
    NeighborAllgather,
    NeighborAllgatherv,
    NeighborAlltoall,
    NeighborAlltoallv,
    NeighborAlltoallw,
}

/// A call of a collective at one rank.
#[derive(Clone, Debug)]
pub struct Call {
    pub coll: Coll,
    pub comm: usize,
    /// Rank, `ROOT` or `PROC_NULL`.
    pub root: i32,
    pub send: Arg,
    pub recv: Arg,
    pub op: Option<Numbers>,
    /// Elements each rank gets of `MPI_Reduce_scatter`.
    pub shares: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallMode {
    Blocking,
    Nonblocking(usize),
    Init(usize),
}

/// A message that may come, of a group of messages to one rank.
#[derive(Clone, Debug)]
pub struct Sent {
    pub source: i32,
    pub tag: i32,
    /// Bytes of data, and of one unit of it.
    pub bytes: u64,
    pub id: u32,
}

impl Sent {
    pub fn of(source: usize, tag: i32, bytes: u64, id: u32) -> Self {
        let source = source as i32;
        Self {
            source,
            tag,
            bytes,
            id,
        }
    }
}

/// A receive of such a group, in the order of posting.
#[derive(Clone, Debug)]
pub struct Got {
    pub wanted: Wanted,
    pub len: u64,
    /// Messages (of [`PoolCheck::sent`]) that matching may give it.
    pub may: Vec<usize>,
}

/// After all receives of a group: each has got what the model allows.
#[derive(Clone, Debug)]
pub struct PoolCheck {
    pub name: String,
    pub sent: Vec<Sent>,
    pub got: Vec<Got>,
}

/// How a rank makes a communicator. Numbers of communicators; 0 is there from the start.
#[derive(Clone, Debug)]
pub enum Making {
    Dup {
        of: usize,
        new: usize,
    },
    Idup {
        of: usize,
        new: usize,
        req: usize,
    },
    /// `color`: none is `MPI_UNDEFINED`.
    Split {
        of: usize,
        color: Option<i32>,
        key: i32,
        new: Option<usize>,
    },
    /// `MPI_Comm_create`, or `MPI_Comm_create_group` with this tag: ranks of `of`. `new` is none where the rank is not among them.
    Create {
        of: usize,
        ranks: Vec<usize>,
        tag: Option<i32>,
        new: Option<usize>,
    },
    Cart {
        of: usize,
        dims: Vec<i32>,
        periods: Vec<bool>,
        new: Option<usize>,
    },
    /// `MPI_Cart_sub` of a grid.
    CartSub {
        of: usize,
        remain: Vec<bool>,
        new: usize,
    },
    /// `MPI_Graph_create`.
    OldGraph {
        of: usize,
        index: Vec<i32>,
        edges: Vec<i32>,
        new: Option<usize>,
    },
    Graph {
        of: usize,
        sources: Vec<i32>,
        destinations: Vec<i32>,
        new: usize,
    },
    Inter {
        local: usize,
        leader: usize,
        peer: usize,
        remote_leader: usize,
        tag: i32,
        new: usize,
    },
    Merge {
        of: usize,
        high: bool,
        new: usize,
    },
}

impl Making {
    /// Communicators that it is made of.
    pub fn of(&self) -> Vec<usize> {
        match self {
            Self::Dup { of, .. }
            | Self::Idup { of, .. }
            | Self::Split { of, .. }
            | Self::Create { of, .. }
            | Self::Cart { of, .. }
            | Self::CartSub { of, .. }
            | Self::OldGraph { of, .. }
            | Self::Graph { of, .. }
            | Self::Merge { of, .. } => vec![*of],
            Self::Inter { local, peer, .. } => vec![*local, *peer],
        }
    }
}

#[derive(Clone, Debug)]
pub enum Instr {
    Make(Box<Making>),
    /// `MPI_Comm_free`, or `MPI_Comm_disconnect`.
    FreeComm {
        comm: usize,
        disconnect: bool,
    },
    /// A buffer of so many bytes, all of the guard value.
    Room {
        buf: usize,
        len: u64,
    },
    Clear {
        buf: usize,
        len: u64,
    },
    Place {
        buf: usize,
        part: Part,
    },
    /// Of one contribution.
    PutNumbers {
        buf: usize,
        values: Values,
        id: u32,
    },
    Send(Outgoing),
    /// `init`: make a persistent request.
    StartSend {
        send: Outgoing,
        req: usize,
        init: bool,
    },
    Recv(Wanted),
    StartRecv {
        wanted: Wanted,
        req: usize,
        init: bool,
    },
    /// Look, then receive; `req`: nonblocking.
    LookRecv {
        look: Look,
        wanted: Wanted,
        req: Option<usize>,
    },
    Swap {
        swap: Swap,
        send: Outgoing,
        wanted: Wanted,
    },
    /// `MPI_Start` of one, `MPI_Startall` of several.
    Start(Vec<usize>),
    /// `MPI_Request_free`.
    Release(usize),
    Complete {
        style: Style,
        reqs: Vec<usize>,
    },
    /// One look: what is complete is taken.
    Poke {
        style: Style,
        reqs: Vec<usize>,
    },
    Cancel(usize),
    /// The request was cancelled, and has to be.
    MustBeCancelled(usize),
    /// If the request was cancelled, receive now.
    RecvIfCancelled {
        req: usize,
        wanted: Wanted,
    },
    Coll {
        call: Box<Call>,
        how: CallMode,
    },
    CheckPool(Box<PoolCheck>),
    /// The buffer holds these parts and guards elsewhere.
    Expect {
        buf: usize,
        len: u64,
        parts: Vec<Part>,
        name: String,
    },
    /// The buffer holds these of the reduction and guards elsewhere.
    ExpectNumbers {
        buf: usize,
        len: u64,
        values: Values,
        id: u32,
        name: String,
    },
    Sleep {
        us: u32,
    },
}

impl Instr {
    /// `MPI_Isend` in its modes.
    pub fn isend(send: Outgoing, req: usize) -> Self {
        let init = false;
        Self::StartSend { send, req, init }
    }

    pub fn irecv(wanted: Wanted, req: usize) -> Self {
        let init = false;
        Self::StartRecv { wanted, req, init }
    }

    pub fn coll(call: &Call, how: CallMode) -> Self {
        let call = Box::new(call.clone());
        Self::Coll { call, how }
    }

    /// [`Expect`](Self::Expect).
    pub fn expect(buf: usize, len: u64, parts: Vec<Part>, name: impl Into<String>) -> Self {
        let name = name.into();
        Self::Expect {
            buf,
            len,
            parts,
            name,
        }
    }

    /// [`CheckPool`](Self::CheckPool).
    pub fn check_pool(name: String, sent: Vec<Sent>, got: Vec<Got>) -> Self {
        Self::CheckPool(Box::new(PoolCheck { name, sent, got }))
    }

    /// Without types that are freed after the call: a request that is started again needs its own.
    pub fn keeping_types(mut self) -> Self {
        match &mut self {
            Self::StartSend { send, init: true, .. } => send.data.brief = false,
            Self::StartRecv {
                wanted, init: true, ..
            } => wanted.data.brief = false,
            Self::Coll {
                call,
                how: CallMode::Init(_),
            } => {
                for arg in [&mut call.send, &mut call.recv] {
                    if let Arg::One(data) = arg {
                        data.brief = false;
                    }
                }
            }
            _ => {}
        }
        self
    }

    /// The communicator that the call names.
    pub fn comm(&self) -> Option<usize> {
        match self {
            Self::Send(send) | Self::StartSend { send, .. } => Some(send.comm),
            Self::Recv(wanted)
            | Self::StartRecv { wanted, .. }
            | Self::LookRecv { wanted, .. }
            | Self::Swap { wanted, .. }
            | Self::RecvIfCancelled { wanted, .. } => Some(wanted.comm),
            Self::Coll { call, .. } => Some(call.comm),
            _ => None,
        }
    }
}

/// How far from where the allocator puts it the memory of buffer `buf` begins: most are aligned. `legal.h` says the same in C.
pub fn skew(seed: u64, buf: usize) -> u64 {
    let (seed, buf) = (seed & 0xffff, buf as u64);
    if (buf * 7 + seed) % 8 < 3 {
        (buf * 5 + seed) % 16
    } else {
        0
    }
}

/// A program: its threads' instructions, and what they refer to.
#[derive(Clone, Debug)]
pub struct Program {
    pub seed: u64,
    pub ranks: usize,
    pub threads: usize,
    pub types: Types,
    pub code: Vec<Code>,
    pub comms: usize,
    pub bufs: usize,
    pub reqs: usize,
    pub slots: usize,
    /// Bytes and messages of buffered sends, per rank.
    pub buffered: Vec<(u64, u64)>,
}

/// One thread's part. `before` and `after` are thread 0's, while it is alone.
#[derive(Clone, Debug, Default)]
pub struct Code {
    pub rank: usize,
    pub thread: usize,
    pub before: Vec<Instr>,
    pub body: Vec<Instr>,
    pub after: Vec<Instr>,
}
