//! The postbox queue model-checked: memory is loom's atomics, and pool blocks are cells whose races loom
//! reports. Everything but the memory is the real code.

use farpost_channel::{ChannelTunables, Layout, Postboxes};
use farpost_fabric::clock::Clock;
use farpost_fabric::{
    Access, BulkTransfer, Completion, Counter, Counters, Descriptor, Distance, ErrorStatus, Fabric,
    FabricError, Fault, Interrupt, Line, LocalMemory, Moment, PacketQueue, Peer, Permission, PlainLines,
    Port, Priority, RemoteMemory, SegmentId, Ticket, Time, Topology, TrySend, Wake,
};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

const TUNABLES: ChannelTunables = ChannelTunables {
    slots: 16,
    block: 1024,
    blocks: 8,
};
const SENDER: Peer = Peer(0);
const RECEIVER: Peer = Peer(1);
/// The block that the models send, and how much of it.
const BLOCK_BYTES: usize = 16;

/// The words of an area that a model uses, and the beginnings of its blocks.
#[derive(Clone)]
struct Memory(Rc<Cells>);

struct Cells {
    len: usize,
    words: BTreeMap<usize, AtomicU64>,
    blocks: BTreeMap<usize, UnsafeCell<[u8; BLOCK_BYTES]>>,
}

impl Memory {
    fn new(len: usize) -> Self {
        let layout = Layout::new(&TUNABLES, 2);
        let mut words: Vec<usize> = vec![layout.ack(RECEIVER.0)];
        let queue = layout.queue(RECEIVER.0);
        words.extend([8, 16].map(|word| layout.ack(RECEIVER.0) + word));
        words.extend((0..layout.slots as usize * 8).map(|word| queue + word * 8));
        let block = |block| (layout.pool_block(block), UnsafeCell::new([0; BLOCK_BYTES]));
        Self(Rc::new(Cells {
            len,
            words: words.into_iter().map(|at| (at, AtomicU64::new(0))).collect(),
            blocks: (0..layout.blocks).map(block).collect(),
        }))
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.0.words[&offset]
    }
}

impl LocalMemory for Memory {
    // Reads and writes lines by `load_line` and `store_line` below.
    type Lines = PlainLines<Memory>;
    fn lines(&self, offset: usize, count: u32) -> PlainLines<Memory> {
        PlainLines::new(self.clone(), offset, count)
    }
    fn len(&self) -> usize {
        self.0.len
    }
    fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }
    fn store(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }
    fn fetch_add(&self, offset: usize, amount: u64) -> u64 {
        self.word(offset).fetch_add(amount, Ordering::AcqRel)
    }
    // As the mapped memory of the shared-memory fabric does it; of the six words in the middle, one stands
    // for all.
    fn load_line(&self, offset: usize) -> Line {
        let first = self.word(offset).load(Ordering::Acquire);
        let rest = self.word(offset + 56).load(Ordering::Relaxed);
        [first, 0, 0, 0, 0, 0, 0, rest]
    }
    fn store_line(&self, offset: usize, line: &Line) {
        self.word(offset + 56).store(line[7], Ordering::Relaxed);
        self.word(offset).store(line[0], Ordering::Release);
    }
    fn read(&self, offset: usize, to: &mut [u8]) {
        // SAFETY: loom checks that nobody writes meanwhile.
        self.0.blocks[&offset].with(|bytes| unsafe { to.copy_from_slice(&(&(*bytes))[..to.len()]) });
    }
    fn write(&self, offset: usize, from: &[u8]) {
        // SAFETY: loom checks that nobody else reads or writes meanwhile.
        self.0.blocks[&offset]
            .with_mut(|bytes| unsafe { (&mut (*bytes))[..from.len()].copy_from_slice(from) });
    }
}

remote!(Memory);

/// What both ends share besides memory; used while the connection is made, before there are two threads.
#[derive(Default)]
struct Shared {
    segments: RefCell<BTreeMap<(Peer, SegmentId), Memory>>,
    packets: RefCell<[VecDeque<(Peer, Vec<u8>)>; 2]>,
}

struct Modelled {
    me: Peer,
    clock: Rc<Clock>,
    shared: Rc<Shared>,
}

impl RemoteMemory for Modelled {
    const MAPPED: bool = true;
    type Export = Memory;
    type Import = Memory;
    fn export_with(
        &self,
        id: SegmentId,
        len: usize,
        access: Access,
        begin: impl FnOnce(&Memory),
    ) -> Result<Memory, FabricError> {
        let memory = self.allocate(len)?;
        begin(&memory);
        self.publish(id, &memory, access)?;
        Ok(memory)
    }
    fn allocate(&self, len: usize) -> Result<Memory, FabricError> {
        Ok(Memory::new(len))
    }
    fn publish(&self, id: SegmentId, memory: &Memory, _: Access) -> Result<(), FabricError> {
        let mut segments = self.shared.segments.borrow_mut();
        segments.insert((self.me, id), memory.clone());
        Ok(())
    }
    fn republish(&self, id: SegmentId, memory: &Memory, access: Access) -> Result<(), FabricError> {
        self.publish(id, memory, access)
    }
    fn unpublish(&self, _: SegmentId) -> Result<(), FabricError> {
        Ok(())
    }
    fn import(&self, peer: Peer, id: SegmentId, _: usize, _: Permission) -> Result<Memory, FabricError> {
        let segments = self.shared.segments.borrow();
        let memory = segments.get(&(peer, id)).cloned();
        memory.ok_or(FabricError::NotPublished { peer, id: id.0 })
    }
    fn mapped(import: &Memory) -> Option<&Memory> {
        Some(import)
    }
    fn gives_back(&self, _: Peer) -> bool {
        true
    }
    // In no order that anybody could lean on.
    fn give_back(&self, _: Peer, memory: &Memory, range: std::ops::Range<usize>) {
        let words = memory.0.words.range(range);
        words.for_each(|(_, word)| word.store(0, Ordering::Relaxed));
    }
}

impl PacketQueue for Modelled {
    const ORDERED: bool = true;
    const PACKET_BYTES: usize = 176;
    fn try_send(&self, peer: Peer, _: Port, _: Priority, payload: &[u8]) -> TrySend {
        let packet = (self.me, payload.to_vec());
        self.shared.packets.borrow_mut()[peer.index()].push_back(packet);
        TrySend::Sent
    }
    fn poll_priority(&self, _: Port, priority: Priority, mut take: impl FnMut(Peer, &[u8])) -> bool {
        if priority == Priority::Low {
            return false;
        }
        let next = self.shared.packets.borrow_mut()[self.me.index()].pop_front();
        if let Some((from, bytes)) = &next {
            take(*from, bytes);
        }
        next.is_some()
    }
    fn packets_waiting(&self, _: Port, _: Priority, limit: u32) -> u32 {
        let waiting = self.shared.packets.borrow()[self.me.index()].len();
        (waiting as u32).min(limit)
    }
}

impl BulkTransfer for Modelled {
    fn can_transfer(&self, _: Peer) -> bool {
        false
    }
    unsafe fn submit(&self, d: &Descriptor) -> Result<Completion, FabricError> {
        let why = "not modelled".into();
        Err(FabricError::Unsupported {
            peer: d.peer,
            what: "bulk transfer",
            why,
        })
    }
    fn poll_transfer(&self, _: Ticket) -> Result<bool, FabricError> {
        Ok(true)
    }
}

impl Time for Modelled {
    fn clock(&self) -> &Rc<Clock> {
        &self.clock
    }
}

impl Interrupt for Modelled {
    type Bell = ();
    fn bell(&self, _: Peer) {}
    fn wake_by(&self, _: &()) {}
    fn wake(&self, _: Peer) {}
    fn sleep(&self, _: Duration, _: &mut dyn FnMut() -> bool) -> Wake {
        Wake::Timeout
    }
}

impl ErrorStatus for Modelled {
    fn record_fault(&self, fault: Fault) {
        panic!("{fault:?}");
    }
    fn take_faults(&self) -> (Vec<Fault>, u64) {
        (Vec::new(), 0)
    }
}

impl Counters for Modelled {
    fn count(&self, _: Peer, _: Counter, _: u64) {}
    fn counter(&self, _: Peer, _: Peer, _: Counter) -> u64 {
        0
    }
}

impl Topology for Modelled {
    fn hosts(&self) -> u32 {
        1
    }
    fn host_of(&self, _: Peer) -> u32 {
        0
    }
    fn distance(&self, _: Peer) -> Distance {
        Distance::Host
    }
    fn rails(&self, _: Peer) -> u32 {
        1
    }
    fn cores_and_processes(&self) -> (u32, u32) {
        (2, 2)
    }
}

impl farpost_fabric::ZeroCopy for Modelled {}

impl Fabric for Modelled {
    fn me(&self) -> Peer {
        self.me
    }
    fn size(&self) -> u32 {
        2
    }
    fn name(&self) -> &'static str {
        "modelled"
    }
}

type Ends = (Postboxes<Modelled>, Postboxes<Modelled>);

/// Both ends, connected; `consumed` postboxes have gone through, `waiting` more are there.
fn connected(consumed: u64, waiting: u64) -> Ends {
    let shared = Rc::new(Shared::default());
    let end = |me| {
        let shared = Rc::clone(&shared);
        let clock = Rc::default();
        Postboxes::new(Rc::new(Modelled { me, shared, clock }), &TUNABLES)
    };
    let (mut sender, mut receiver) = (end(SENDER), end(RECEIVER));
    assert_eq!(sender.room(RECEIVER), 16);
    assert!(receiver.poll_control());
    for number in 0..consumed + waiting {
        post(&mut sender, number);
        if number < consumed {
            assert_eq!(take(&mut receiver), Some(number));
        }
    }
    (sender, receiver)
}

fn post(sender: &mut Postboxes<Modelled>, number: u64) -> bool {
    let room = sender.room(RECEIVER) > 0;
    if room {
        sender.post(RECEIVER, &[0, 0, 0, 0, 0, 0, 0, number], 0);
    }
    room
}

fn take(receiver: &mut Postboxes<Modelled>) -> Option<u64> {
    let line = receiver.peek(SENDER)?;
    receiver.consume(SENDER, 1, 0);
    Some(line[7])
}

/// The same by the lane, which is open as long as there is room without a look.
fn post_by_lane(sender: &mut Postboxes<Modelled>, number: u64) -> bool {
    match sender.lane(RECEIVER) {
        Some(lane) => lane.post([0, 0, 0, 0, 0, 0, 0, number], 8, 0),
        None => return post(sender, number),
    }
    true
}

fn take_next(receiver: &mut Postboxes<Modelled>) -> Option<u64> {
    let next = receiver.next(SENDER)?;
    let number = next.word(7);
    next.consume(0);
    Some(number)
}

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 20_000;
    builder.check(check);
}

/// Postboxes into a queue with room: each is seen whole and in order, or not yet.
#[test]
fn posted_and_taken() {
    model(|| {
        let (mut sender, mut receiver) = connected(0, 0);
        let posting = loom::thread::spawn(move || {
            assert!(post(&mut sender, 0));
            assert!(post(&mut sender, 1));
            sender
        });
        let mut next = 0;
        for _ in 0..2 {
            if let Some(number) = take(&mut receiver) {
                assert_eq!(number, next);
                next += 1;
            }
        }
        let mut sender = posting.join().unwrap();
        while let Some(number) = take(&mut receiver) {
            assert_eq!(number, next);
            next += 1;
        }
        assert_eq!(next, 2);
        assert!(sender.drained(RECEIVER));
    });
}

/// The same, by the lane of the sender and the next postbox of the receiver; with half a queue under way the lane is closed.
#[test]
fn posted_by_the_lane() {
    model(|| {
        let (mut sender, mut receiver) = connected(0, 7);
        let posting = loom::thread::spawn(move || {
            assert!(post_by_lane(&mut sender, 7));
            assert!(post_by_lane(&mut sender, 8));
            sender
        });
        for number in 0..7 {
            assert_eq!(take_next(&mut receiver), Some(number));
        }
        let mut next = 7;
        for _ in 0..2 {
            if let Some(number) = take_next(&mut receiver) {
                assert_eq!(number, next);
                next += 1;
            }
        }
        let mut sender = posting.join().unwrap();
        while let Some(number) = take_next(&mut receiver) {
            assert_eq!(number, next);
            next += 1;
        }
        assert_eq!(next, 9);
        assert!(sender.drained(RECEIVER));
    });
}

/// A queue with one free slot: a slot is written again only when it was taken, and its first reader never
/// sees the second postbox.
#[test]
fn full_and_around() {
    model(|| {
        let (mut sender, mut receiver) = connected(3, 15);
        let posting = loom::thread::spawn(move || {
            let mut posted = 18;
            for _ in 0..2 {
                posted += u64::from(post(&mut sender, posted));
            }
            posted
        });
        let mut next = 3;
        for _ in 0..2 {
            // These were there before.
            assert_eq!(take(&mut receiver), Some(next));
            next += 1;
        }
        let posted = posting.join().unwrap();
        assert!(posted >= 19);
        while let Some(number) = take(&mut receiver) {
            assert_eq!(number, next);
            next += 1;
        }
        assert_eq!(next, posted);
    });
}

/// A queue whose memory is given back while its receiver looks and takes: only when all is taken, and nothing is lost after.
#[test]
fn given_back_and_used_again() {
    model(|| {
        let (mut sender, mut receiver) = connected(1, 1);
        let posting = loom::thread::spawn(move || {
            let now = Moment::START;
            sender.rest(now);
            sender.rest(now + farpost_channel::rest::REST);
            sender.rest(now + farpost_channel::rest::REST);
            assert!(post(&mut sender, 2));
            sender
        });
        assert_eq!(take(&mut receiver), Some(1));
        let mut next = 2;
        for _ in 0..2 {
            receiver.rest(Moment::START);
            receiver.poll_control();
            for _ in receiver.senders().to_vec() {
                if let Some(number) = take(&mut receiver) {
                    assert_eq!(number, next);
                    next += 1;
                }
            }
        }
        let mut sender = posting.join().unwrap();
        receiver.poll_control();
        assert_eq!(receiver.senders(), [SENDER]);
        while let Some(number) = take(&mut receiver) {
            assert_eq!(number, next);
            next += 1;
        }
        assert_eq!(next, 3);
        assert!(sender.drained(RECEIVER));
    });
}

/// Postboxes that belong together: who sees the first sees all.
#[test]
fn runs_arrive_together() {
    model(|| {
        let (mut sender, mut receiver) = connected(14, 0);
        let posting = loom::thread::spawn(move || {
            let lines: [Line; 3] = [5, 6, 7].map(|number| [0, 0, 0, 0, 0, 0, 0, number]);
            sender.post_run(RECEIVER, &lines, 0);
        });
        let mut look = || {
            let line = receiver.peek(SENDER)?;
            for ahead in 1..3 {
                let next = receiver.peek_ahead(SENDER, ahead).expect("the rest of the run");
                assert_eq!(next[7], line[7] + u64::from(ahead));
            }
            receiver.consume(SENDER, 3, 0);
            Some(line[7])
        };
        let before = look();
        posting.join().unwrap();
        assert_eq!(before.or_else(look), Some(5));
    });
}

/// One block for several messages: it is read only after it was written, and written again only after it
/// was read.
#[test]
fn blocks_are_handed_over() {
    model(|| {
        let (mut sender, mut receiver) = connected(1, 0);
        // All that one receiver may have but one are taken and stay so.
        for _ in 1..6 {
            sender.take_block(RECEIVER).unwrap();
        }
        let posting = loom::thread::spawn(move || {
            let mut posted = 0;
            for number in 1..=2u8 {
                if let Some(block) = sender.take_block(RECEIVER) {
                    sender.write_block(RECEIVER, block, 0, &[number; BLOCK_BYTES]);
                    let line = [0, 0, 0, 0, 0, 0, 0, u64::from(block) << 8 | u64::from(number)];
                    sender.post_block(RECEIVER, &line, Some(block), 0);
                    posted += 1;
                }
            }
            posted
        });
        let mut got = 0;
        let mut look = |receiver: &mut Postboxes<Modelled>| {
            if let Some(line) = receiver.peek(SENDER) {
                let mut bytes = [0; BLOCK_BYTES];
                receiver
                    .read_block(SENDER, (line[7] >> 8) as u32, 0, &mut bytes)
                    .unwrap();
                assert_eq!(bytes, [line[7] as u8; BLOCK_BYTES]);
                receiver.consume(SENDER, 1, 0);
                got += 1;
            }
        };
        look(&mut receiver);
        look(&mut receiver);
        let posted = posting.join().unwrap();
        look(&mut receiver);
        look(&mut receiver);
        assert_eq!(got, posted);
        assert!(posted > 0);
    });
}
