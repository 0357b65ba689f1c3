//! Long bodies that both sides copy ([`SharedCopy`]).
//!
//! The sender keeps a line of shared memory for such a message, a *rendezvous slot*. Where the body goes in the receiver's memory, its length and
//! that of a part come in a packet from the receiver alone ([`Op::Grant`](super::wire::Op::Grant)), which the fabric vouches for, and
//! not from the line, which others may write.

use super::tunables::NetTunables;
use crate::memory::{Segment, user};
use crate::owner::Owner;
use farpost_channel::{SharedCopy, Side};
use farpost_fabric::{Access, Completion, Direction, Fabric, LINE_BYTES, LocalMemory, Peer, Permission};

/// The rendezvous slots of a process.
pub const SLOTS_SEGMENT: u32 = 0x7b00_0001;
/// Lines of it.
const LINES: u16 = 64;
/// Parts that one call copies before it looks after the rest of the world.
const PARTS: u32 = 4;

/// A body of ours whose receiver lets us copy parts of it.
#[derive(Clone, Copy)]
pub struct Offer {
    pub peer: Peer,
    pub line: u16,
    /// Where it lies here.
    pub body: usize,
    /// How much of it is wanted.
    pub bytes: u64,
    /// Bytes of a part.
    pub chunk: u64,
    /// Where it goes there.
    pub address: u64,
}

/// The sender's side.
pub struct RendezvousSlots<F: Fabric> {
    memory: Option<F::Export>,
    free: Vec<u16>,
    open: Vec<Offer>,
    least: usize,
}

impl<F: Fabric> RendezvousSlots<F> {
    pub fn new(fabric: &F, owner: Owner, mapped: bool, config: &NetTunables) -> Self {
        let memory = mapped
            .then(|| {
                let everyone = Access::Everyone(Permission::ReadWrite);
                fabric
                    .export(
                        owner.segment(SLOTS_SEGMENT),
                        usize::from(LINES) * LINE_BYTES,
                        everyone,
                    )
                    .ok()
            })
            .flatten();
        let lines = if memory.is_some() { LINES } else { 0 };
        Self {
            memory,
            free: (0..lines).rev().collect(),
            open: Vec::with_capacity(usize::from(LINES)),
            least: config.shared as usize,
        }
    }

    /// A line for a body of that length, if it is to have one.
    pub fn take_line(&mut self, length: usize) -> Option<u16> {
        if length < self.least {
            return None;
        }
        let memory = self.memory.as_ref()?;
        let line = self.free.pop()?;
        SharedCopy::new(memory, usize::from(line) * LINE_BYTES).clear();
        Some(line)
    }

    /// The message is over.
    pub fn give_line(&mut self, line: u16) {
        self.open.retain(|offer| offer.line != line);
        self.free.push(line);
    }

    pub fn open(&mut self, offer: Offer) {
        if self.open.iter().all(|open| open.line != offer.line) {
            self.open.push(offer);
        }
    }

    #[inline(always)]
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Copy parts of what is open. True: some were copied.
    pub fn serve(&mut self, fabric: &F) -> bool {
        let Some(memory) = &self.memory else {
            return false;
        };
        let mut moved = false;
        self.open.retain(|offer| {
            let line = SharedCopy::new(memory, usize::from(offer.line) * LINE_BYTES);
            for _ in 0..PARTS {
                let left = line.copy_part(Side::Back, (offer.bytes, offer.chunk), |at, len| {
                    let part = Segment::new(offer.body.wrapping_add(at as usize), len as usize);
                    let to = (offer.address.wrapping_add(at), 0);
                    let copied = user::transfer(fabric, (offer.peer, Direction::Put), part, to);
                    if let Ok(Completion::Pending(ticket)) = copied {
                        fabric.cancel_transfer(ticket);
                    }
                    matches!(copied, Ok(Completion::Done))
                });
                if !left {
                    return false;
                }
                moved = true;
            }
            true
        });
        moved
    }
}

/// The rendezvous slot of a peer that it named, if it has it.
pub fn line_of<M: LocalMemory>(memory: &M, line: u64) -> Option<SharedCopy<'_, M>> {
    let line = usize::try_from(line)
        .ok()
        .filter(|line| *line < usize::from(LINES))?;
    (usize::from(LINES) * LINE_BYTES <= memory.len()).then(|| SharedCopy::new(memory, line * LINE_BYTES))
}
