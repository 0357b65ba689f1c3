//! The puts and gets of segments that go on after their call (see `started.rs`).

use super::link::Link;
use farpost_fabric::{Result, SegmentId, Ticket, TransferMemory};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What is waited for.
pub enum Stage {
    /// The answer to the fence behind a put, and how often the segment's withdrawal was told before it was imported.
    Fenced(u64),
    /// So many answers with bytes.
    Parts(usize),
    /// Where to read.
    Readable,
    /// The end of a read, with the key that was lent for it.
    Read(Ticket, u64),
    /// The end is known.
    Over(Result<()>),
}

/// A peer's segment.
#[derive(Clone)]
pub struct OfSegment {
    pub link: Rc<Link>,
    pub id: SegmentId,
    pub handle: u32,
}

/// A put or a get under way.
pub struct Transfer {
    pub segment: OfSegment,
    pub offset: usize,
    pub memory: TransferMemory,
    pub stage: Stage,
}

/// Those of a process, and the questions that they wait for.
#[derive(Default)]
pub struct StartedTransfers {
    pub all: RefCell<BTreeMap<u64, Transfer>>,
    /// By the number of a question: the transfer, and which of its bytes the answer has.
    pub questions: RefCell<BTreeMap<u64, (u64, usize, usize)>>,
}
