//! What can go wrong for a caller.

use farpost_fabric::Peer;

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FmError {
    /// The destination is not of the job.
    #[error("node {node} does not exist: the job has nodes 0 to {}", size - 1)]
    NoSuchNode { node: u32, size: u32 },
    /// Longer than one frame.
    #[error(
        "a message of {bytes} bytes does not fit a frame of {most}: send at most {most} bytes, or stream it as pieces of one message"
    )]
    TooLong { bytes: usize, most: usize },
    /// A frame that a node cannot be made with.
    #[error(
        "a frame of {bytes} bytes: allowed are {least} to {most}, what a packet of the fabric has room for beside a header of 16"
    )]
    FrameSize { bytes: usize, least: usize, most: usize },
    /// Without flow control the network has to keep the order.
    #[error("Fast Messages without flow control need packets in order, and {fabric} has them in any")]
    Unordered { fabric: &'static str },
    /// A handler's number outside the table.
    #[error("handler {id} is outside the table: numbers are 0 to {}", max - 1)]
    NoSuchHandler { id: u32, max: u32 },
    /// All numbers are taken.
    #[error("all {max} numbers of handlers are taken: allow more, or register again under a number in use")]
    NoHandlerLeft { max: u32 },
    /// The receiver is gone.
    #[error("{peer} is gone: what was sent to it and not acknowledged is lost")]
    Lost { peer: Peer },
    /// More than was announced.
    #[error(
        "a piece of {bytes} bytes to {peer} would make {total} of a message announced as {announced}: announce an upper bound"
    )]
    MoreThanAnnounced {
        peer: Peer,
        bytes: usize,
        total: usize,
        announced: usize,
    },
    /// Longer than a message may be.
    #[error("a message of {bytes} bytes is longer than the longest, {} bytes", u32::MAX)]
    AnnouncedTooMuch { bytes: usize },
    /// The handler wants more than was sent.
    #[error(
        "a handler wanted {wanted} more bytes of a message from {peer} that has ended: receive no more than was sent"
    )]
    PastEnd { peer: Peer, wanted: usize },
    /// The sender began another message without ending this one.
    #[error("{peer} broke off a message: its end never came")]
    BrokenOff { peer: Peer },
    /// A handler waits for what only handlers could bring about.
    #[error(
        "a send to {peer} from inside a handler found no slot for {seconds} s, and handlers are not run inside {depth} others: let handlers send less, or send from outside them"
    )]
    Stuck { peer: Peer, seconds: u64, depth: u32 },
}
