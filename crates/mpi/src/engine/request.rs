//! Requests: operations under way.

use super::envelope::{Envelope, FLAG_SYNC};
use crate::buffer::{RecvBuf, SendBuf};
use crate::handle::HandleTable;
use crate::{Error, Rank, Result};
use farpost_fabric::{Cost, Peer, Ticket, Time};

/// What a completed operation says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Rank in the communicator; `MPI_PROC_NULL` or `MPI_ANY_SOURCE` where the standard says so.
    pub source: Rank,
    pub tag: i32,
    /// Bytes received.
    pub bytes: u64,
    pub cancelled: bool,
    /// The error of a failed operation.
    pub error: Option<Box<Error>>,
}

impl Status {
    /// The empty status (MPI-5.0 section 3.7.3).
    pub const EMPTY: Status = Status {
        source: -1,
        tag: -2,
        bytes: 0,
        cancelled: false,
        error: None,
    };
    /// Make it the empty status again.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.set(-1, -2, 0);
        self.cancelled = false;
    }

    /// A message was received; `cancelled` stays.
    #[inline(always)]
    pub fn set(&mut self, source: Rank, tag: i32, bytes: u64) {
        self.source = source;
        self.tag = tag;
        self.bytes = bytes;
        if self.error.is_some() {
            self.forget_error();
        }
    }

    #[cold]
    fn forget_error(&mut self) {
        self.error = None;
    }

    /// The status of a receive from `MPI_PROC_NULL`.
    pub const PROC_NULL: Status = Status {
        source: -3,
        tag: -2,
        bytes: 0,
        cancelled: false,
        error: None,
    };
}

/// Send modes (MPI-5.0 section 3.4). Ready sends are standard ones; buffered ones are standard sends of a
/// copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Standard,
    Synchronous,
}

/// What a send sends.
pub enum Payload {
    /// The user's buffer.
    User(SendBuf),
    /// A copy of our own (buffered mode).
    Owned(Box<[u8]>),
}

impl Payload {
    pub fn bytes(&self) -> u64 {
        match self {
            Payload::User(buf) => buf.bytes(),
            Payload::Owned(data) => data.len() as u64,
        }
    }

    /// The bytes where they lie in one run.
    pub fn contiguous(&self) -> Option<&[u8]> {
        match self {
            Payload::User(buf) => buf.contiguous(),
            Payload::Owned(data) => Some(data),
        }
    }

    /// As [`pack`](Self::pack), and charged to who copies.
    #[inline(always)]
    pub fn pack_on(&self, time: &impl Time, from: u64, to: &mut [u8]) -> usize {
        let packed = self.pack(from, to);
        time.charge(Cost::Copy(packed));
        packed
    }

    /// Copy packed bytes from position `from`.
    pub fn pack(&self, from: u64, to: &mut [u8]) -> usize {
        match self {
            Payload::User(buf) => buf.pack(from, to),
            Payload::Owned(data) => {
                let rest = &data[(from as usize).min(data.len())..];
                let n = rest.len().min(to.len());
                to[..n].copy_from_slice(&rest[..n]);
                n
            }
        }
    }

    pub fn class(&self) -> u8 {
        match self {
            Payload::User(buf) => buf.sig(),
            Payload::Owned(_) => 0,
        }
    }
}

/// A send under way.
pub struct Send {
    pub peer: Peer,
    pub payload: Payload,
    pub envelope: Envelope,
    pub state: SendState,
    /// It was offered, or waits for its match, because the receiver would have had to keep it or blocks were scarce.
    pub for_space: bool,
    /// The program would rather not have sent it.
    pub cancelling: bool,
}

impl Send {
    /// One that nothing was done about yet.
    pub fn new(peer: Peer, mut envelope: Envelope, payload: Payload, mode: Mode) -> Self {
        if mode == Mode::Synchronous {
            envelope.flags |= FLAG_SYNC;
        }
        Self {
            peer,
            payload,
            envelope,
            state: SendState::Queued,
            for_space: false,
            cancelling: false,
        }
    }

    /// Whether its bytes are still to be fetched, though the program need not wait for that: it may have freed the
    /// request, or sent from a buffer of ours.
    pub fn is_promise(&self) -> bool {
        self.envelope.flags & FLAG_SYNC == 0
            && matches!(
                self.state,
                SendState::Matched | SendState::Offered { .. } | SendState::Streaming { .. }
            )
    }

    /// Whether it waits for room at its receiver: in the queue, in blocks, or for what the receiver keeps unasked.
    pub fn waits_for_space(&self) -> bool {
        self.for_space
            || matches!(
                self.state,
                SendState::Queued | SendState::Leaving | SendState::Streaming { .. }
            )
    }
}

/// How far a send is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendState {
    /// Waits for room in the queue.
    Queued,
    /// Some of its bytes have left.
    Leaving,
    /// All bytes are on their way; waits for the match.
    Matched,
    /// The request to send is out; the receiver may open the rendezvous slot.
    /// With the key by which the fabric lets the receiver get the bytes, where it needs one.
    Offered { slot: Option<u32>, key: Option<u64> },
    /// All bytes are with the fabric, under this number, and the buffer is needed until it says otherwise.
    ZeroCopy { number: u32 },
    /// The carrier has it, under this number.
    Carried { number: u32 },
    /// The receiver asked for the bytes through blocks; `sent` of `wanted` are out.
    Streaming { remote: u64, sent: u64, wanted: u64 },
}

/// A receive under way.
pub struct Recv {
    pub buf: RecvBuf,
    pub context: usize,
    pub source: Rank,
    pub tag: i32,
    pub state: RecvState,
}

/// How far a receive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvState {
    /// Not matched.
    Posted,
    /// Bytes come through blocks.
    Streaming { peer: Peer, at: u64, wanted: u64 },
    /// Both sides copy; waits for the sender's last chunk.
    /// From `address` in the sender's memory; by `grant` the sender may write to ours.
    Copying {
        peer: Peer,
        slot: u32,
        address: u64,
        grant: Option<u16>,
    },
    /// The bytes follow by themselves: to the buffer, or they are taken from the fabric when all are there.
    Landing {
        peer: Peer,
        number: u32,
        total: u64,
        direct: bool,
    },
    /// With a carrier that matches by itself, under this number.
    Entered { number: u32 },
    /// Matched; the carrier has begun to bring the message of this number.
    Coming { peer: Peer, number: u32 },
    /// Matched; the carrier gets the bytes.
    Got { peer: Peer, fetch: u32 },
    /// The fabric gets the bytes; `sender` is the sender's request.
    Fetching { peer: Peer, ticket: Ticket, sender: u64 },
}

impl RecvState {
    /// Whose message it takes, once that is known.
    pub fn peer(&self) -> Option<Peer> {
        match *self {
            Self::Posted | Self::Entered { .. } => None,
            Self::Streaming { peer, .. }
            | Self::Copying { peer, .. }
            | Self::Landing { peer, .. }
            | Self::Coming { peer, .. }
            | Self::Got { peer, .. }
            | Self::Fetching { peer, .. } => Some(peer),
        }
    }
}

/// The operation behind a request.
pub enum Operation {
    Send(Box<Send>),
    Recv(Recv),
    /// Complete, or completed by somebody else (collectives, generalized requests, inactive ones).
    Idle,
}

/// An operation under way, or complete and not yet asked for.
pub struct Request {
    pub operation: Operation,
    pub complete: bool,
    /// Freed by the user before it completed, or never given to one: goes when it completes.
    pub detached: bool,
    pub status: Status,
}

impl Request {
    #[inline(always)]
    pub fn new(operation: Operation) -> Self {
        Self {
            operation,
            complete: false,
            detached: false,
            status: Status::EMPTY,
        }
    }
}

impl Request {
    /// A receive, not matched.
    #[inline(always)]
    pub fn recv(buf: RecvBuf, context: usize, source: Rank, tag: i32) -> Self {
        Self::new(Operation::Recv(Recv {
            buf,
            context,
            source,
            tag,
            state: RecvState::Posted,
        }))
    }

    /// Make a receive out of one that is over, without moving anything. Its buffer is still the old one, which is
    /// returned to be replaced. `None`: it was none.
    #[inline(always)]
    pub fn renew_recv(&mut self, context: usize, source: Rank, tag: i32) -> Option<&mut RecvBuf> {
        let Operation::Recv(recv) = &mut self.operation else {
            return None;
        };
        recv.context = context;
        recv.source = source;
        recv.tag = tag;
        recv.state = RecvState::Posted;
        self.complete = false;
        self.detached = false;
        self.status.clear();
        Some(&mut recv.buf)
    }
}

impl HandleTable<Request> {
    /// A request that somebody else completes.
    pub(crate) fn insert_idle(&mut self) -> Result<usize> {
        self.insert(Request::new(Operation::Idle))
    }

    /// Whether a request is there, and complete.
    pub(crate) fn is_complete(&self, handle: usize) -> bool {
        self.get(handle).is_some_and(|request| request.complete)
    }

    /// Whether a request is complete, or gone.
    pub(crate) fn is_over(&self, handle: usize) -> bool {
        self.get(handle).is_none_or(|request| request.complete)
    }

    /// The send behind a handle, if it is under way.
    #[inline(always)]
    pub(crate) fn send(&self, handle: usize) -> Option<&Send> {
        match &self.get(handle)?.operation {
            Operation::Send(send) => Some(send),
            _ => None,
        }
    }

    /// The same, to be changed.
    #[inline(always)]
    pub(crate) fn send_mut(&mut self, handle: usize) -> Option<&mut Send> {
        match &mut self.get_mut(handle)?.operation {
            Operation::Send(send) => Some(send),
            _ => None,
        }
    }

    /// The receive behind a handle, if it is under way.
    #[inline(always)]
    pub(crate) fn recv(&self, handle: usize) -> Option<&Recv> {
        match self.get(handle)? {
            Request {
                operation: Operation::Recv(recv),
                complete: false,
                ..
            } => Some(recv),
            _ => None,
        }
    }

    /// The same, to be changed, and its status.
    #[inline(always)]
    pub(crate) fn recv_mut(&mut self, handle: usize) -> Option<(&mut Recv, &mut Status)> {
        match self.get_mut(handle)? {
            Request {
                operation: Operation::Recv(recv),
                complete: false,
                status,
                ..
            } => Some((recv, status)),
            _ => None,
        }
    }
}

// One is written for every receive that is posted: it stays within two lines.
const _: () = assert!(size_of::<Request>() <= 128);
