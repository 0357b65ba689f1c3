//! The postbox protocol: queues of 64-byte postboxes, one line each, and blocks for what is longer.
//!
//! Cost class: [`Postboxes::post`] and [`Postboxes::peek`] are *fast path*: no system call, no heap, no lock,
//! no dynamic call, one shared line written per postbox. Everything in `connect` is *set-up path*.
//!
//! The low 32 bits of a postbox's first word are its sequence number, counted from 1 per queue; they are
//! written last. The rest is the caller's. A postbox is taken when the receiver's count of consumed
//! postboxes (the ack) passes it; with it the blocks that were posted along are free again.
//!
//! With the count goes a word of the receiver's: [`HOLD_BACK`]. All room that the sender gets to know of after the
//! receiver has said so comes with it, so that what comes unasked from then on is at most one queue of postboxes.

use crate::area::Layout;
use crate::connect::Service;
use crate::pool::{Pool, Size};
use crate::waiting::Waiting;
use farpost_fabric::{
    Cost, Counter, Fabric, FabricError, Fault, LINE_BYTES, Line, Lines, LocalMemory, Peer, Remote,
    RemoteMemory,
};
use std::collections::VecDeque;
use std::rc::Rc;

/// How many postboxes ahead lines are fetched: enough to hide the way between two cores in a burst.
pub(crate) const AHEAD: u32 = 6;

/// The most bytes of blocks fetched for the next message: no more than the cache next to the core has room for.
const PREPARED: usize = 32 << 10;

/// Where an ack costs a message, so many bytes are owed one.
const OWED_BYTES: u64 = 2 << 10;

/// In the upper half of an ack: the receiver wants no more messages that it has to keep until somebody asks for them.
const HOLD_BACK: u32 = 1;

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
    pub(crate) queue: usize,
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
    /// Postboxes and bytes consumed but not acknowledged (fabrics where an ack costs a message).
    pub(crate) owed: u32,
    owed_bytes: u64,
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

/// All postbox connections of one process.
pub struct Postboxes<F: Fabric> {
    pub(crate) fabric: Rc<F>,
    pub(crate) service: Service,
    pub(crate) layout: Layout,
    pub(crate) tx: Vec<Option<Box<Tx<F>>>>,
    pub(crate) rx: Vec<Option<Box<Rx<F>>>>,
    pub(crate) senders: Vec<Peer>,
    /// Senders whose queues [rest](crate::rest): not among the others meanwhile.
    pub(crate) resting: Vec<Peer>,
    /// For each peer, whether messages may go to it [at once](crate::lane), as far as its user knows.
    pub(crate) open: Vec<bool>,
    pub(crate) pools: Vec<Option<Box<Pool>>>,
    pub(crate) connecting: Vec<crate::connect::Pending>,
    /// Connections that wait for descriptors or memory.
    pub(crate) lacks: Vec<crate::connect::Lack>,
    pub(crate) own_area: Option<F::Export>,
    pub(crate) own_acks: Option<F::Export>,
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
        let lines = match &outlet {
            Outlet::Own(area) => Some(area.lines(queue, layout.slots)),
            Outlet::Far(_) => None,
        };
        Tx {
            lines,
            outlet,
            bell,
            layout,
            queue,
            head: 0,
            limit: 0,
            counted: Traffic::default(),
            acked: 0,
            half: layout.slots / 2,
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
        self.head = self.acked.wrapping_add(self.layout.slots);
        self.renew();
    }

    /// Fetch `count` lines from the one `ahead` of the next on, to be written.
    #[inline(always)]
    fn prepare(&self, ahead: u32, count: u32) {
        if let Some(lines) = &self.lines {
            for index in ahead..ahead + count {
                lines.prefetch_write(self.head.wrapping_add(index));
            }
        }
    }

    /// One of several that are put at once, the last of them first.
    fn put_line_of_run(&self, number: u32, index: usize, line: &Line) -> Result<(), FabricError> {
        match &self.outlet {
            Outlet::Far(memory) if index > 0 => {
                let mut line = *line;
                line[0] = line[0] & !0xffff_ffff | u64::from(number.wrapping_add(1));
                let slot = (number & (self.layout.slots - 1)) as usize;
                memory.put_line_ahead(self.queue + slot * LINE_BYTES, &line)
            }
            _ => self.put_line(number, &mut { *line }, 8),
        }
    }

    /// `words` of the line count.
    #[inline(always)]
    fn put_line(&self, number: u32, line: &mut Line, words: usize) -> Result<(), FabricError> {
        // A whole word: half of one, which the compiler would make of it, keeps the reads below waiting until it is written.
        let first = std::hint::black_box(line[0]);
        line[0] = first & !0xffff_ffff | u64::from(number.wrapping_add(1));
        if let Some(lines) = &self.lines {
            lines.put(number, line, words);
        } else if let Outlet::Far(memory) = &self.outlet {
            let slot = (number & (self.layout.slots - 1)) as usize;
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
        Rx {
            lines: memory.lines(queue, layout.slots),
            ack_line: match &ack {
                AckLine::Mapped(offset) => Some(memory.lines(*offset, 1)),
                AckLine::Far(..) => None,
            },
            counted: Traffic::default(),
            memory,
            layout,
            tail: 0,
            ack,
            owed: 0,
            owed_bytes: 0,
            say: 0,
            dead: false,
        }
    }

    /// An ack frees postboxes and blocks: neither may run out while acks are owed, nor is more memory to be touched for want
    /// of one.
    #[inline]
    pub(crate) fn owes_much(&self) -> bool {
        self.owed >= self.layout.slots.min(self.layout.blocks) / 4 || self.owed_bytes >= OWED_BYTES
    }

    pub(crate) fn acknowledge(&mut self) -> Result<(), FabricError> {
        (self.owed, self.owed_bytes) = (0, 0);
        let word = self.ack_word();
        if let Some(line) = &self.ack_line {
            line.put_first(0, word);
        } else if let AckLine::Far(memory, offset) = &self.ack {
            // Puts may overtake each other: an older count must not arrive after this one.
            memory.order()?;
            return memory.put_word(*offset, word);
        }
        Ok(())
    }
}

impl<F: Fabric> Postboxes<F> {
    /// No connections yet; they are made at the first message.
    pub fn new(fabric: Rc<F>, tunables: &crate::ChannelTunables) -> Self {
        let service = Service::postboxes(fabric.size());
        Self::of_service(fabric, service, tunables)
    }

    /// As [`new`](Self::new), for one of several users of channels in this process.
    pub fn of_service(fabric: Rc<F>, service: Service, tunables: &crate::ChannelTunables) -> Self {
        farpost_fabric::fits::<F>();
        let size = service.processes;
        Self {
            service,
            layout: Layout::new(tunables, size),
            tx: (0..size).map(|_| None).collect(),
            rx: (0..size).map(|_| None).collect(),
            senders: Vec::new(),
            resting: Vec::new(),
            open: vec![true; size as usize],
            pools: (0..size).map(|_| None).collect(),
            connecting: Vec::new(),
            lacks: Vec::new(),
            own_area: None,
            own_acks: None,
            fabric,
        }
    }

    /// The fabric below.
    pub fn fabric(&self) -> &Rc<F> {
        &self.fabric
    }

    /// Bytes in a block.
    pub fn block_bytes(&self) -> usize {
        self.layout.block as usize
    }

    /// Bytes in blocks that can be posted to one peer at once, sooner or later, whatever is under way and
    /// whatever acks are owed.
    pub fn bytes_at_once(&self) -> u64 {
        u64::from(self.layout.slots.min(self.layout.blocks) / 2) * u64::from(self.layout.block)
    }

    /// Postboxes in a queue.
    pub fn slots(&self) -> u32 {
        self.layout.slots
    }

    /// Those who have opened a queue to us, and have not said that it rests.
    #[inline]
    pub fn senders(&self) -> &[Peer] {
        &self.senders
    }

    /// Whether `peer` has opened a queue to us.
    pub fn has_sender(&self, peer: Peer) -> bool {
        self.rx[peer.index()].is_some()
    }

    /// Postboxes that can be posted to `peer` now. 0 while the connection is being made; connects at the
    /// first call.
    #[inline(always)]
    pub fn room(&mut self, peer: Peer) -> u32 {
        if let Some(tx) = &self.tx[peer.index()] {
            let used = tx.head.wrapping_sub(tx.acked);
            if used < tx.half {
                return tx.layout.slots - used;
            }
        }
        self.room_slow(peer)
    }

    /// As [`room`](Self::room), for messages that the receiver has to keep if nobody waits for them: 0 as long as it
    /// [holds them back](Self::is_held_back).
    #[inline(always)]
    pub fn eager_room(&mut self, peer: Peer) -> u32 {
        if let Some(tx) = &self.tx[peer.index()]
            && tx.is_clear()
        {
            return tx.layout.slots - tx.head.wrapping_sub(tx.acked);
        }
        self.eager_room_slow(peer)
    }

    #[cold]
    #[inline(never)]
    fn eager_room_slow(&mut self, peer: Peer) -> u32 {
        let room = self.room_slow(peer);
        if self.is_held_back(peer) { 0 } else { room }
    }

    /// Whether `peer` wants no more messages that it would have to keep, as far as we know.
    pub fn is_held_back(&self, peer: Peer) -> bool {
        self.tx[peer.index()]
            .as_deref()
            .is_some_and(|tx| tx.said & HOLD_BACK != 0)
    }

    /// Tell `peer` whether messages that have to be kept are held back.
    #[cold]
    pub fn hold_back(&mut self, peer: Peer, on: bool) {
        let Some(rx) = self.rx[peer.index()].as_deref_mut() else {
            return;
        };
        rx.say = if on { HOLD_BACK } else { 0 };
        let result = rx.acknowledge();
        self.check_ack(peer, result);
    }

    #[cold]
    #[inline(never)]
    fn room_slow(&mut self, peer: Peer) -> u32 {
        if self.tx[peer.index()].is_none() {
            self.connect(peer);
        }
        self.resume(peer);
        self.refresh(peer);
        match &self.tx[peer.index()] {
            Some(tx) if !tx.dead => {
                let room = tx.layout.slots - tx.head.wrapping_sub(tx.acked);
                if room == 0 {
                    self.fabric.count(peer, Counter::Stalls, 1);
                }
                room
            }
            _ => 0,
        }
    }

    /// Read the receiver's ack and take back what it frees.
    pub(crate) fn refresh(&mut self, peer: Peer) {
        let Some(tx) = self.tx[peer.index()].as_deref_mut() else {
            return;
        };
        if tx.dead || tx.head == tx.acked && tx.said == 0 {
            return;
        }
        let word = tx.ack_memory.load(tx.ack_offset);
        let (consumed, said) = (word as u32, (word >> 32) as u32);
        if said & !HOLD_BACK != 0 || consumed.wrapping_sub(tx.acked) > tx.head.wrapping_sub(tx.acked) {
            tx.die();
            let error = FabricError::Corrupt {
                peer,
                what: "an ack",
                value: word,
            };
            self.fabric.record_fault(Fault { peer, error });
            return;
        }
        tx.acked = consumed;
        tx.said = said;
        tx.renew();
        while let Some(&(number, block)) = tx.blocks.front() {
            // The postbox `number` (counted from 0) is consumed when the count exceeds it.
            if (consumed.wrapping_sub(number) as i32) <= 0 {
                break;
            }
            tx.blocks.pop_front();
            if let Some(pool) = &mut self.pools[tx.home] {
                tx.lent -= pool.parts(block);
                pool.give(block);
            }
        }
    }

    /// Post one postbox. The caller has seen [`room`](Self::room) for it. `bytes` of payload are counted.
    #[inline]
    pub fn post(&mut self, peer: Peer, line: &Line, bytes: u64) {
        self.post_words(peer, &mut { *line }, 8, bytes);
    }

    /// As [`post`](Self::post); only the first `words` words of the line count.
    #[inline(always)]
    pub fn post_words(&mut self, peer: Peer, line: &mut Line, words: usize, bytes: u64) {
        let tx = self.tx[peer.index()]
            .as_deref_mut()
            .expect("room was asked first");
        debug_assert!(!tx.resting, "room was asked after the queue rested");
        if let Err(error) = tx.put_line(tx.head, line, words) {
            tx.die();
            self.fabric.record_fault(Fault { peer, error });
            return;
        }
        tx.head = tx.head.wrapping_add(1);
        tx.prepare(AHEAD - 1, 1);
        tx.counted.postboxes += 1;
        tx.counted.bytes += bytes;
        self.fabric.wake_by(&tx.bell);
    }

    /// Post several postboxes that belong together: whoever sees the first sees all (on fabrics that map;
    /// elsewhere they arrive in any order and the receiver waits for each).
    pub fn post_run(&mut self, peer: Peer, lines: &[Line], bytes: u64) {
        let tx = self.tx[peer.index()]
            .as_deref_mut()
            .expect("room was asked first");
        for (index, line) in lines.iter().enumerate().rev() {
            if let Err(error) = tx.put_line_of_run(tx.head.wrapping_add(index as u32), index, line) {
                tx.die();
                self.fabric.record_fault(Fault { peer, error });
                return;
            }
        }
        tx.head = tx.head.wrapping_add(lines.len() as u32);
        tx.prepare(0, AHEAD.max(lines.len() as u32));
        tx.counted.postboxes += lines.len() as u64;
        tx.counted.bytes += bytes;
        self.fabric.wake_by(&tx.bell);
    }

    /// A block for a message to `peer`, if there is one that it may have: where receivers share a pool, none has more than
    /// [a share](Pool::take) of it.
    pub fn take_block(&mut self, peer: Peer) -> Option<u32> {
        self.take(peer, Size::Block)
    }

    /// As [`take_block`](Self::take_block), for `bytes` that fit into one: a part of a block if they fit into that.
    #[inline]
    pub fn take_block_for(&mut self, peer: Peer, bytes: usize) -> Option<u32> {
        let size = if bytes <= self.layout.part() {
            Size::Part
        } else {
            Size::Block
        };
        self.take(peer, size)
    }

    fn take(&mut self, peer: Peer, size: Size) -> Option<u32> {
        if let Some(block) = self.try_block(peer, size) {
            return Some(block);
        }
        let home = self.tx[peer.index()].as_deref()?.home;
        for other in 0..self.tx.len() {
            if self.tx[other]
                .as_deref()
                .is_some_and(|tx| tx.home == home && !tx.blocks.is_empty())
            {
                self.refresh(Peer(other as u32));
            }
        }
        self.try_block(peer, size)
    }

    #[inline]
    fn try_block(&mut self, peer: Peer, size: Size) -> Option<u32> {
        let tx = self.tx[peer.index()].as_deref()?;
        if tx.resting {
            self.resume(peer);
        } else if !F::MAPPED && matches!(tx.outlet, Outlet::Far(_))
            || self.pools[tx.home].as_ref()?.is_untouched(size)
        {
            // What was not touched yet costs memory. Where the fabric does not map, the ack is in our own cache.
            self.refresh(peer);
        }
        let tx = self.tx[peer.index()].as_deref_mut()?;
        let block = self.pools[tx.home].as_mut()?.take(tx.lent, size)?;
        tx.lent += size.parts();
        Some(block)
    }

    /// Whether blocks are under way to `peer`: it frees them when it takes their postboxes. Where none are, a block that
    /// is not there now may be somebody else's for as long as he likes.
    pub fn has_blocks(&self, peer: Peer) -> bool {
        self.tx[peer.index()]
            .as_deref()
            .is_some_and(|tx| !tx.blocks.is_empty())
    }

    /// A message of `bytes` went through blocks to `peer`: get hold of the lines that the next one like it will be
    /// written to. Their last reader still has copies, which have to be called back before a store takes effect; now
    /// that costs nobody anything, later it is a quarter of the time of a message.
    pub fn prepare_blocks(&mut self, peer: Peer, bytes: usize) {
        let Some(tx) = self.tx[peer.index()].as_deref() else {
            return;
        };
        let (Outlet::Own(memory), Some(pool)) = (&tx.outlet, &self.pools[tx.home]) else {
            return;
        };
        let layout = tx.layout;
        if bytes <= layout.part() {
            if let Some(part) = pool.next_part() {
                memory.prefetch_write(layout.pool_block(part), bytes);
            }
            return;
        }
        let mut left = bytes.min(PREPARED);
        for block in pool.next() {
            if left == 0 {
                break;
            }
            let here = left.min(tx.layout.block as usize);
            memory.prefetch_write(tx.layout.pool_block(block), here);
            left -= here;
        }
    }

    /// Write into a block that was taken.
    pub fn write_block(&mut self, peer: Peer, block: u32, offset: usize, from: &[u8]) {
        let tx = self.tx[peer.index()]
            .as_deref_mut()
            .expect("the block was taken for this peer");
        assert!(
            tx.layout
                .holds(block)
                .is_some_and(|holds| offset + from.len() <= holds),
            "write leaves the block"
        );
        let at = tx.layout.pool_block(block) + offset;
        self.fabric.charge(Cost::Copy(from.len()));
        let result = match &tx.outlet {
            Outlet::Own(memory) => {
                memory.write(at, from);
                Ok(())
            }
            Outlet::Far(memory) => memory.put(at, from),
        };
        if let Err(error) = result {
            tx.die();
            self.fabric.record_fault(Fault { peer, error });
        }
    }

    /// Post a postbox that refers to bytes written to a block: they are there before the postbox is. With the
    /// last such postbox the block is given along, and is free again when that one is consumed.
    pub fn post_block(&mut self, peer: Peer, line: &Line, last_of: Option<u32>, bytes: u64) {
        let tx = self.tx[peer.index()]
            .as_deref_mut()
            .expect("room was asked first");
        if let Outlet::Far(memory) = &tx.outlet
            && let Err(error) = memory.order()
        {
            tx.die();
            self.fabric.record_fault(Fault { peer, error });
            return;
        }
        if let Some(block) = last_of {
            tx.blocks.push_back((tx.head, block));
        }
        self.post(peer, line, bytes);
    }

    /// Give back a block that was taken and not posted.
    pub fn return_block(&mut self, peer: Peer, block: u32) {
        if let Some(tx) = self.tx[peer.index()].as_deref_mut()
            && let Some(pool) = &mut self.pools[tx.home]
        {
            tx.lent -= pool.parts(block);
            pool.give(block);
        }
    }

    /// Whether everything posted to `peer` has been consumed.
    pub fn drained(&mut self, peer: Peer) -> bool {
        self.refresh(peer);
        self.tx[peer.index()]
            .as_deref()
            .is_none_or(|tx| tx.dead || tx.head == tx.acked)
    }

    /// Whether somebody who maps what we post has not taken all of it.
    pub fn has_untaken(&self) -> bool {
        self.tx.iter().flatten().any(|tx| {
            matches!(tx.outlet, Outlet::Own(..))
                && !tx.dead
                && tx.head != tx.acked
                && tx.ack_memory.load(tx.ack_offset) as u32 != tx.head
        })
    }

    /// Whether the queue to `peer` broke: what was or is posted there is lost.
    pub fn is_dead(&self, peer: Peer) -> bool {
        self.tx[peer.index()].as_deref().is_some_and(|tx| tx.dead)
    }

    /// A hint that postboxes from `peer`, which are there, will be read soon; counted from the next one.
    #[inline]
    pub fn prefetch(&self, peer: Peer, range: std::ops::Range<u32>) {
        if let Some(waiting) = self.waiting(peer) {
            range.for_each(|ahead| waiting.prefetch(ahead));
        }
    }

    /// Whether the next postbox from `peer` is there.
    #[inline(always)]
    pub fn is_there(&self, peer: Peer) -> bool {
        self.waiting(peer)
            .is_some_and(|waiting| waiting.first(0).is_some())
    }

    /// The next postbox from `peer`, if it is there. It stays until [`consume`](Self::consume).
    #[inline(always)]
    pub fn peek(&self, peer: Peer) -> Option<Line> {
        let rx = self.rx[peer.index()].as_deref()?;
        self.fabric.charge(Cost::Poll);
        if rx.lines.first(rx.tail) as u32 != rx.tail.wrapping_add(1) {
            return None;
        }
        Some(rx.lines.line(rx.tail))
    }

    /// The postboxes of `peer`, to look at several at once.
    #[inline(always)]
    pub fn waiting(&self, peer: Peer) -> Option<Waiting<'_, <F::Export as LocalMemory>::Lines>> {
        let rx = self.rx[peer.index()].as_deref()?;
        self.fabric.charge(Cost::Poll);
        Some(Waiting {
            lines: &rx.lines,
            tail: rx.tail,
        })
    }

    /// The postbox `ahead` of the next one.
    #[inline]
    pub fn peek_ahead(&self, peer: Peer, ahead: u32) -> Option<Line> {
        let rx = self.rx[peer.index()].as_deref()?;
        let number = rx.tail.wrapping_add(ahead);
        let line = rx.lines.line(number);
        (ahead < rx.layout.slots && line[0] as u32 == number.wrapping_add(1)).then_some(line)
    }

    /// Done with the next `count` postboxes from `peer`, which were seen.
    #[inline(always)]
    pub fn consume(&mut self, peer: Peer, count: u32, bytes: u64) {
        if let Some(waiting) = self.waiting(peer) {
            waiting.prefetch(count + AHEAD);
        }
        self.consume_burst(peer, count, bytes);
    }

    /// As [`consume`](Self::consume) where nobody knows whether there are more to come: nothing is prefetched.
    #[inline(always)]
    pub fn consume_burst(&mut self, peer: Peer, count: u32, bytes: u64) {
        let Some(rx) = self.rx[peer.index()].as_deref_mut() else {
            return;
        };
        rx.tail = rx.tail.wrapping_add(count);
        rx.owed += count;
        rx.counted.postboxes += u64::from(count);
        rx.counted.bytes += bytes;
        rx.owed_bytes += bytes;
        if rx.ack_line.is_some() || rx.owes_much() {
            let result = rx.acknowledge();
            self.check_ack(peer, result);
        }
    }

    #[inline]
    fn check_ack(&self, peer: Peer, result: Result<(), FabricError>) {
        if let Err(error) = result {
            self.fabric.record_fault(Fault { peer, error });
        }
    }

    /// Copy out of a block that a postbox from `peer` referred to. The error names the peer when the block
    /// or the length cannot be right.
    pub fn read_block(
        &self,
        peer: Peer,
        block: u32,
        offset: usize,
        to: &mut [u8],
    ) -> Result<(), FabricError> {
        let rx = self.rx[peer.index()].as_deref().ok_or(FabricError::PeerDead {
            peer,
            why: "it has opened no queue".into(),
        })?;
        let holds = rx.layout.holds(block).ok_or(FabricError::Corrupt {
            peer,
            what: "a block index",
            value: u64::from(block),
        })?;
        if offset > holds || to.len() > holds - offset {
            return Err(FabricError::Corrupt {
                peer,
                what: "a block length",
                value: to.len() as u64,
            });
        }
        self.fabric.charge(Cost::Copy(to.len()));
        rx.memory.read(rx.layout.pool_block(block) + offset, to);
        Ok(())
    }

    /// The sender's queue is beyond trust: record why and stop reading it.
    #[cold]
    pub fn fail_sender(&mut self, peer: Peer, error: FabricError) {
        if let Some(rx) = self.rx[peer.index()].as_deref_mut() {
            rx.dead = true;
        }
        self.senders.retain(|sender| *sender != peer);
        self.resting.retain(|sender| *sender != peer);
        self.rx[peer.index()] = None;
        self.fabric.record_fault(Fault { peer, error });
    }

    /// Where puts may be lost, find out about those whose acks are missing.
    fn audit_outlets(&mut self) {
        if F::MAPPED {
            return;
        }
        for index in 0..self.tx.len() {
            if let Some(tx) = self.tx[index].as_deref_mut()
                && !tx.dead
                && tx.head != tx.acked
                && let Outlet::Far(memory) = &tx.outlet
                && let Err(error) = memory.order()
            {
                tx.die();
                let peer = Peer(index as u32);
                self.fabric.record_fault(Fault { peer, error });
            }
        }
    }

    /// Check that the next slot of every queue holds what it may hold: the next postbox, the one from a
    /// lap ago, or nothing since its memory was [given back](crate::rest). For the slow path: an idle receiver finds garbage that the fast path only fails to match. And look,
    /// now and then, whether those who take nothing are still there. True: a queue was closed, and a fault says why.
    pub fn audit(&mut self) -> bool {
        self.audit_outlets();
        let mut closed = self.reap_ended();
        for index in (0..self.senders.len()).rev() {
            let peer = self.senders[index];
            let Some(rx) = self.rx[peer.index()].as_deref() else {
                continue;
            };
            let found = rx.lines.first(rx.tail) as u32;
            let wanted = rx.tail.wrapping_add(1);
            let before = if rx.tail < rx.layout.slots {
                0
            } else {
                wanted.wrapping_sub(rx.layout.slots)
            };
            // Numbers wrap after 2^32 postboxes; then the first lap's zero is a number like any other.
            if found != wanted
                && found != before
                && found != 0
                && found != wanted.wrapping_sub(rx.layout.slots)
            {
                let value = u64::from(found);
                self.fail_sender(
                    peer,
                    FabricError::Corrupt {
                        peer,
                        what: "a postbox number",
                        value,
                    },
                );
                closed = true;
            }
        }
        closed
    }

    /// Pay acks that are owed and add to the counters what was counted here: for the idle moment.
    pub fn settle(&mut self) {
        for index in 0..self.senders.len() {
            let peer = self.senders[index];
            let Some(rx) = self.rx[peer.index()].as_deref_mut() else {
                continue;
            };
            if rx.owed > 0 {
                let result = rx.acknowledge();
                self.check_ack(peer, result);
            }
        }
        for (index, tx) in self.tx.iter_mut().enumerate() {
            if let Some(tx) = tx
                && tx.counted.postboxes > 0
            {
                let peer = Peer(index as u32);
                self.fabric
                    .count(peer, Counter::Sent, std::mem::take(&mut tx.counted.postboxes));
                self.fabric
                    .count(peer, Counter::SentBytes, std::mem::take(&mut tx.counted.bytes));
            }
        }
        for (index, rx) in self.rx.iter_mut().enumerate() {
            if let Some(rx) = rx
                && rx.counted.postboxes > 0
            {
                let peer = Peer(index as u32);
                self.fabric
                    .count(peer, Counter::Received, std::mem::take(&mut rx.counted.postboxes));
                self.fabric.count(
                    peer,
                    Counter::ReceivedBytes,
                    std::mem::take(&mut rx.counted.bytes),
                );
            }
        }
    }
}
