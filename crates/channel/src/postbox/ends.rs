//! The two ends of a connection: what the sender and the receiver of a queue know of it.

use crate::area::Layout;
use farpost_fabric::{Fabric, FabricError, LINE_BYTES, Line, Lines, LocalMemory, Remote, RemoteMemory};
use std::collections::VecDeque;

/// Where an ack costs a message, so many bytes are owed one.
const OWED_BYTES: u64 = 2 << 10;

/// The sender's end of a queue: where its postboxes and blocks go.
pub(crate) enum Outlet<F: RemoteMemory> {
    /// My own exported area, which the receiver maps.
    Own(F::Export),
    /// An area that the receiver exported for me.
    Far(F::Import),
}

/// The receiver's way to acknowledge.
pub(crate) enum AckLine<F: RemoteMemory> {
    /// A line of the mapped area.
    Mapped(usize),
    /// The sender's ack segment.
    Far(F::Import, usize),
}

/// The sending end of a connection. What a [short message](crate::lane) takes is in the first line, with a mapped queue in this
/// process's memory (but for the end of the bell):
///
/// ```text
/// byte 0      4       8             32                  48
///      | head | limit | lines (24)  | postboxes | bytes | bell ...
/// ```
#[repr(C, align(64))]
pub(crate) struct Tx<F: Fabric> {
    /// Postboxes posted so far.
    pub(crate) head: u32,
    /// Up to this number of postboxes messages that the receiver may have to keep go without another look: half a queue beyond
    /// [`acked`](Self::acked), and none ([`renew`](Self::renew)) when anything is unusual.
    pub(crate) limit: u32,
    /// The queue, where it is my own memory.
    pub(crate) lines: Option<<F::Export as LocalMemory>::Lines>,
    pub(crate) counted: Traffic,
    pub(crate) bell: F::Bell,
    pub(crate) outlet: Outlet<F>,
    pub(crate) layout: Layout,
    /// Where the queue is, and its postboxes: those of the layout, or fewer until it has [grown](crate::grow).
    pub(crate) queue: usize,
    pub(crate) slots: u32,
    /// The receiver was asked for it to grow, and nothing is posted until it says that it has.
    pub(crate) growing: bool,
    /// Postboxes known to be consumed.
    pub(crate) acked: u32,
    /// With fewer postboxes under way there is room without another look: half of them, or none while the queue
    /// [rests](crate::rest), so that the fast path looks at nothing else.
    pub(crate) half: u32,
    /// Nothing else waits to be posted: the [lane](crate::lane) may be open.
    pub(crate) open: bool,
    /// The receiver's word that came with the last ack.
    pub(crate) said: u32,
    /// The receiver was told that nothing is on its way; the queue's memory, being ours, was given back.
    pub(crate) resting: bool,
    pub(crate) given_back: bool,
    /// The count at which nothing has been posted since then.
    pub(crate) quiet: Option<(u32, farpost_fabric::Moment)>,
    /// Where the receiver counts what it consumed.
    pub(crate) ack_memory: F::Export,
    pub(crate) ack_offset: usize,
    /// Which pool the blocks come from.
    pub(crate) home: usize,
    /// Blocks under way: freed when the postbox of that number is consumed.
    pub(crate) blocks: VecDeque<(u32, u32)>,
    /// Parts of blocks taken for this receiver and not free again: those, and what is about to be posted.
    pub(crate) lent: u32,
    /// Audits since the receiver last took something, and its count then.
    pub(crate) idle: (u32, u32),
    pub(crate) dead: bool,
}

/// The receiving end of a connection. What a [short message](crate::lane) takes is in the first line, with queues in mapped memory
/// (the acknowledgement's place is the first word of `ack_line`):
///
/// ```text
/// byte 0      4     8             32                  48       64
///      | tail | say | lines (24)  | postboxes | bytes | ack_line ...
/// ```
#[repr(C, align(64))]
pub(crate) struct Rx<F: RemoteMemory> {
    /// Postboxes consumed so far.
    pub(crate) tail: u32,
    /// What is said along with the count.
    pub(crate) say: u32,
    pub(crate) lines: <F::Export as LocalMemory>::Lines,
    pub(crate) counted: Traffic,
    /// The line of the acknowledgement, where it is mapped.
    pub(crate) ack_line: Option<<F::Export as LocalMemory>::Lines>,
    pub(crate) memory: F::Export,
    pub(crate) layout: Layout,
    pub(crate) ack: AckLine<F>,
    /// Postboxes of the queue: those of the layout, or fewer until it has [grown](crate::grow).
    pub(crate) slots: u32,
    /// The count at which it grows.
    pub(crate) grows_at: Option<u32>,
    /// Postboxes and bytes consumed but not acknowledged (fabrics where an ack costs a message), and how many postboxes may be.
    pub(crate) owed: u32,
    pub(crate) owed_most: u32,
    pub(super) owed_bytes: u64,
    pub(crate) dead: bool,
}

/// Traffic not yet added to the fabric's counters.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Traffic {
    pub(crate) postboxes: u64,
    pub(crate) bytes: u64,
}

/// Whether a field lies at `offset` if a queue takes the 24 bytes of a mapped one.
const fn lies_at<L>(field: usize, offset: usize) -> bool {
    size_of::<Option<L>>() != 24 || field == offset
}

impl<F: Fabric> Tx<F> {
    const LAYOUT: () = assert!(
        std::mem::offset_of!(Self, head) == 0
            && std::mem::offset_of!(Self, limit) == 4
            && std::mem::offset_of!(Self, lines) == 8
            && lies_at::<<F::Export as LocalMemory>::Lines>(std::mem::offset_of!(Self, counted), 32)
            && lies_at::<<F::Export as LocalMemory>::Lines>(std::mem::offset_of!(Self, bell), 48)
            && align_of::<Self>() == LINE_BYTES
    );

    pub(crate) fn new(
        bell: F::Bell,
        outlet: Outlet<F>,
        layout: Layout,
        queue: usize,
        ack: (F::Export, usize),
        home: usize,
    ) -> Self {
        let () = Self::LAYOUT;
        let (lines, slots) = match &outlet {
            Outlet::Own(area) => (Some(area.lines(queue, layout.slots)), layout.slots),
            Outlet::Far(_) => (None, layout.first_queue().1),
        };
        Tx {
            lines,
            outlet,
            bell,
            layout,
            queue,
            slots,
            growing: false,
            head: 0,
            limit: 0,
            counted: Traffic::default(),
            acked: 0,
            half: slots / 2,
            open: false,
            said: 0,
            resting: false,
            given_back: false,
            quiet: None,
            ack_memory: ack.0,
            ack_offset: ack.1,
            home,
            blocks: VecDeque::new(),
            lent: 0,
            idle: (0, 0),
            dead: false,
        }
    }

    /// Open the [lane](crate::lane) or close it, as what it depends on is now.
    pub(crate) fn renew(&mut self) {
        let usual = self.open && self.said == 0 && !self.resting && !self.dead;
        let room = if usual { self.half } else { 0 };
        self.limit = if room == 0 {
            self.head
        } else {
            self.acked.wrapping_add(room)
        };
    }

    /// The queue broke. It looks full from now on, so that the fast path of `room` needs no check.
    ///
    /// Blocks under way stay taken. A receiver that lives may read them yet, and it need not be the one to
    /// blame: a third process can have written the bad ack. With the blocks given to other messages, it would
    /// take their bytes for its own. They come back when the receiver is known to have ended: `reap_ended`.
    #[cold]
    pub(crate) fn die(&mut self) {
        self.dead = true;
        self.head = self.acked.wrapping_add(self.slots);
        self.renew();
    }

    /// Fetch `count` lines from the one `ahead` of the next on, to be written.
    #[inline(always)]
    pub(super) fn prepare(&self, ahead: u32, count: u32) {
        if let Some(lines) = &self.lines {
            for index in ahead..ahead + count {
                lines.prefetch_write(self.head.wrapping_add(index));
            }
        }
    }

    /// One of several that are put at once, the last of them first.
    pub(super) fn put_line_of_run(&self, number: u32, index: usize, line: &Line) -> Result<(), FabricError> {
        match &self.outlet {
            Outlet::Far(memory) if index > 0 => {
                let mut line = *line;
                line[0] = line[0] & !0xffff_ffff | u64::from(number.wrapping_add(1));
                let slot = (number & (self.slots - 1)) as usize;
                memory.put_line_ahead(self.queue + slot * LINE_BYTES, &line)
            }
            _ => self.put_line(number, &mut { *line }, 8),
        }
    }

    /// `words` of the line count.
    #[inline(always)]
    pub(super) fn put_line(&self, number: u32, line: &mut Line, words: usize) -> Result<(), FabricError> {
        // A whole word: half of one, which the compiler would make of it, keeps the reads below waiting until it is written.
        let first = std::hint::black_box(line[0]);
        line[0] = first & !0xffff_ffff | u64::from(number.wrapping_add(1));
        if let Some(lines) = &self.lines {
            lines.put(number, line, words);
        } else if let Outlet::Far(memory) = &self.outlet {
            let slot = (number & (self.slots - 1)) as usize;
            return memory.put_line_words(self.queue + slot * LINE_BYTES, line, words);
        }
        Ok(())
    }
}

impl<F: Fabric> Rx<F> {
    const LAYOUT: () = assert!(
        std::mem::offset_of!(Self, tail) == 0
            && std::mem::offset_of!(Self, say) == 4
            && std::mem::offset_of!(Self, lines) == 8
            && lies_at::<<F::Export as LocalMemory>::Lines>(std::mem::offset_of!(Self, counted), 32)
            && lies_at::<<F::Export as LocalMemory>::Lines>(std::mem::offset_of!(Self, ack_line), 48)
            && align_of::<Self>() == LINE_BYTES
    );

    pub(crate) fn new(memory: F::Export, layout: Layout, queue: usize, ack: AckLine<F>) -> Self {
        let () = Self::LAYOUT;
        let slots = match &ack {
            AckLine::Mapped(_) => layout.slots,
            AckLine::Far(..) => layout.first_queue().1,
        };
        Rx {
            lines: memory.lines(queue, slots),
            ack_line: match &ack {
                AckLine::Mapped(offset) => Some(memory.lines(*offset, 1)),
                AckLine::Far(..) => None,
            },
            counted: Traffic::default(),
            memory,
            layout,
            tail: 0,
            ack,
            slots,
            grows_at: None,
            owed: 0,
            // Of few half: a sender that has used those grows the queue.
            owed_most: if slots < layout.slots {
                slots / 2
            } else {
                slots.min(layout.blocks) / 4
            },
            owed_bytes: 0,
            say: 0,
            dead: false,
        }
    }

    /// An ack frees postboxes and blocks: neither may run out while acks are owed, nor is more memory to be touched for want
    /// of one.
    #[inline]
    pub(crate) fn owes_much(&self) -> bool {
        self.owed >= self.owed_most || self.owed_bytes >= OWED_BYTES
    }

    pub(crate) fn acknowledge(&mut self) -> Result<(), FabricError> {
        (self.owed, self.owed_bytes) = (0, 0);
        if let Some(line) = &self.ack_line {
            line.put_first(0, self.ack_word());
            return Ok(());
        }
        if self.grows_at == Some(self.tail) {
            self.grow();
        }
        if let AckLine::Far(memory, offset) = &self.ack {
            // Puts may overtake each other: an older count must not arrive after this one.
            memory.order_line()?;
            return memory.put_word(*offset, self.ack_word());
        }
        Ok(())
    }
}
