//! What a receiver or a sender reads from an area is input from another process. Each field is corrupted
//! from outside here: the culprit is named, its messages are lost, nothing else is.
#![cfg(not(loom))]

mod support;

use farpost_channel::{ChannelTunables, Layout, Postboxes};
use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::{
    Fabric, FabricError, Fault, LINE_BYTES, LocalMemory, Peer, Permission, Port, Priority, RemoteMemory,
    SegmentId, TrySend,
};
use farpost_shm::conformance::shm_ends;
use farpost_shm::{Shm, ShmTunables};
use proptest::prelude::*;
use std::rc::Rc;
use support::{SMALL, Talk};

const SENDER: Peer = Peer(0);
const RECEIVER: Peer = Peer(1);
/// A third process whose traffic must not suffer.
const BYSTANDER: Peer = Peer(2);
const SIZE: u32 = 3;

/// Where things are: the segment ids of the postbox protocol.
const AREA: u32 = 0x40_0000;
const ACKS: u32 = 0x40_0001;
const AREA_FOR: u32 = 0x41_0000;

/// A fabric whose memory can be reached from outside.
trait Open: Fabric + Sized {
    fn job(seed: u64) -> Vec<Rc<Self>>;
    /// Let everything arrive.
    fn settle(&self);
    /// Any segment.
    fn memory(&self, owner: Peer, id: SegmentId) -> Self::Export;

    /// The area that carries from SENDER to RECEIVER, and where in it the queue starts and the pool is.
    fn area(&self) -> (Self::Export, usize, Layout) {
        if Self::MAPPED {
            let layout = Layout::new(&SMALL, SIZE);
            let area = self.memory(SENDER, SegmentId(AREA));
            (area, layout.queue(RECEIVER.0), layout)
        } else {
            let layout = Layout::new(&SMALL, 1);
            let area = self.memory(RECEIVER, SegmentId(AREA_FOR + SENDER.0));
            (area, layout.queue(0), layout)
        }
    }

    /// Where RECEIVER acknowledges to SENDER.
    fn ack(&self) -> (Self::Export, usize) {
        if Self::MAPPED {
            let (area, _, layout) = self.area();
            (area, layout.ack(RECEIVER.0))
        } else {
            let acks = self.memory(SENDER, SegmentId(ACKS));
            (acks, RECEIVER.index() * LINE_BYTES)
        }
    }
}

impl Open for Shm {
    fn job(_seed: u64) -> Vec<Rc<Self>> {
        shm_ends(SIZE, &ShmTunables::default())
            .into_iter()
            .map(Rc::new)
            .collect()
    }

    fn settle(&self) {}

    fn memory(&self, owner: Peer, id: SegmentId) -> Self::Export {
        self.import(owner, id, 64, Permission::ReadWrite).unwrap()
    }
}

impl Open for InProc {
    fn job(seed: u64) -> Vec<Rc<Self>> {
        Network::new(SIZE, seed, Config::default())
            .into_iter()
            .map(Rc::new)
            .collect()
    }

    fn settle(&self) {
        self.network().settle();
    }

    fn memory(&self, owner: Peer, id: SegmentId) -> Self::Export {
        self.network().segment(owner, id).unwrap()
    }
}

/// A job whose ends are stepped one after the other.
struct Job<F: Open> {
    ends: Vec<Rc<F>>,
    talks: Vec<Talk<F>>,
}

impl<F: Open> Job<F> {
    fn new(seed: u64, tunables: &ChannelTunables) -> Self {
        let ends = F::job(seed);
        let talks = ends.iter().map(|end| Talk::new(end, tunables)).collect();
        Self { ends, talks }
    }

    /// A job in which SENDER and BYSTANDER have each sent RECEIVER a message.
    fn connected() -> Self {
        Self::connected_with(&SMALL)
    }

    fn connected_with(tunables: &ChannelTunables) -> Self {
        let mut job = Self::new(1, tunables);
        // A queue that rests is not looked at, so whoever writes there is not found.
        job.talks.iter_mut().for_each(|talk| talk.rests = false);
        for from in [SENDER, BYSTANDER] {
            assert!(job.delivers(from, b"hello"));
        }
        job
    }

    fn talk(&mut self, who: Peer) -> &mut Talk<F> {
        &mut self.talks[who.index()]
    }

    fn progress(&mut self) {
        for _ in 0..60 {
            for talk in &mut self.talks {
                talk.progress();
            }
            self.ends[0].settle();
        }
    }

    /// Whether a message from `from` reaches RECEIVER.
    fn delivers(&mut self, from: Peer, bytes: &[u8]) -> bool {
        self.talk(from).send(RECEIVER, bytes.to_vec());
        self.progress();
        let got = self.talk(RECEIVER).received[from.index()].pop_front();
        got.as_deref() == Some(bytes)
    }

    fn faults(&self, who: Peer) -> Vec<Fault> {
        self.ends[who.index()].take_faults().0
    }

    /// `who` reports exactly one fault, and blames `culprit`.
    fn one_fault(&self, who: Peer, culprit: Peer) -> FabricError {
        let mut faults = self.faults(who);
        assert_eq!(faults.len(), 1, "{faults:?}");
        let fault = faults.pop().unwrap();
        assert_eq!(fault.peer, culprit);
        if let FabricError::Corrupt { peer, .. } = &fault.error {
            assert_eq!(*peer, culprit);
        }
        fault.error
    }

    /// The bystander's traffic is as it was, and nobody complains any more.
    fn others_are_fine(&mut self) {
        assert!(self.delivers(BYSTANDER, b"still here"));
        for who in 0..SIZE {
            assert_eq!(self.faults(Peer(who)), vec![]);
        }
    }
}

macro_rules! on_both {
    ($($case:ident),* $(,)?) => {
        mod on_shared_memory { $(#[test] fn $case() { super::$case::<super::Shm>(); })* }
        mod without_mapping { $(#[test] fn $case() { super::$case::<super::InProc>(); })* }
    };
}

on_both! {
    sequence_word, ack_word, word_of_rest, word_that_it_was_seen, length_and_block_words, pool_bytes, control_packets, second_hello, growth,
    unasked_welcome, hello_that_promises_too_much,
}

/// A number that no sender would write there now.
fn sequence_word<F: Open>() {
    // 2 is what comes next.
    let mut values: Vec<u64> = (0..32).map(|bit| 1 << bit).filter(|v| *v != 2).collect();
    values.extend([u64::from(u32::MAX), 0xdead_beef, 17, 18, 50]);
    for value in values {
        let mut job = Job::<F>::connected();
        let (area, queue, _) = job.ends[0].area();
        area.store(queue + LINE_BYTES, value);
        job.progress();
        let error = job.one_fault(RECEIVER, SENDER);
        let what = "a postbox number";
        assert_eq!(
            error,
            FabricError::Corrupt {
                peer: SENDER,
                what,
                value
            }
        );
        assert_eq!(job.talk(RECEIVER).boxes.senders(), [BYSTANDER]);
        assert!(!job.talk(RECEIVER).boxes.has_sender(SENDER));
        assert_eq!(job.talk(RECEIVER).boxes.peek(SENDER), None);
        job.others_are_fine();
    }
}

/// A count of a queue at rest that is not the receiver's, and what is no such count.
fn word_of_rest<F: Open>() {
    for value in [
        1 << 32,
        1 << 32 | 2,
        1 << 32 | 0xffff_ffff,
        1,
        2 << 32 | 1,
        1 << 63,
        u64::MAX,
    ] {
        let mut job = Job::<F>::connected();
        let (area, _, layout) = job.ends[0].area();
        let index = if job.ends[0].maps(RECEIVER) { RECEIVER.0 } else { 0 };
        area.store(layout.ack(index) + 8, value);
        job.talk(RECEIVER).rests = true;
        job.progress();
        let error = job.one_fault(RECEIVER, SENDER);
        let what = "the count of a queue at rest";
        assert_eq!(
            error,
            FabricError::Corrupt {
                peer: SENDER,
                what,
                value
            }
        );
        assert!(!job.talk(RECEIVER).boxes.has_sender(SENDER));
        job.others_are_fine();
    }
}

/// That a rest was seen, when it was not: at worst memory is given back early that nobody needs.
fn word_that_it_was_seen<F: Open>() {
    for value in [
        1,
        1 << 32,
        1 << 32 | 1,
        1 << 32 | 2,
        1 << 32 | 3,
        2 << 32 | 1,
        u64::MAX,
    ] {
        let mut job = Job::<F>::connected();
        job.talks.iter_mut().for_each(|talk| talk.rests = true);
        let (area, _, layout) = job.ends[0].area();
        let index = if job.ends[0].maps(RECEIVER) { RECEIVER.0 } else { 0 };
        for round in 0..20u8 {
            area.store(layout.ack(index) + 16, value);
            assert!(job.delivers(SENDER, &vec![round; 60 * usize::from(round)]));
        }
        job.others_are_fine();
    }
}

/// Acks of what was never sent, of what was acknowledged before, and numbers that are none.
fn ack_word<F: Open>() {
    // 2 << 32: the queue has grown, which nobody asked for.
    let grown = [2 << 32 | 2, 2 << 32 | 3];
    let numbers = [3, 0, 1 << 31, u64::from(u32::MAX), 1 << 32, 1 << 63 | 2, u64::MAX];
    for value in numbers.into_iter().chain(grown) {
        let mut job = Job::<F>::connected();
        assert!(job.talk(SENDER).boxes.drained(RECEIVER));
        // Two under way that the receiver does not take.
        for _ in 0..2 {
            assert!(job.talk(SENDER).boxes.room(RECEIVER) >= 2);
            job.talk(SENDER).boxes.post(RECEIVER, &[0; 8], 0);
        }
        let (acks, at) = job.ends[0].ack();
        assert_eq!(acks.load(at), 1);
        // 0 was before 1; 1 + 2 is the most that can be acknowledged, so 4 is too much.
        let value = if value == 3 { 4 } else { value };
        acks.store(at, value);
        let talk = job.talk(SENDER);
        assert!(talk.boxes.drained(RECEIVER));
        assert_eq!(talk.boxes.room(RECEIVER), 0);
        assert!(talk.boxes.is_dead(RECEIVER));
        let error = job.one_fault(SENDER, RECEIVER);
        let what = "an ack";
        assert_eq!(
            error,
            FabricError::Corrupt {
                peer: RECEIVER,
                what,
                value
            }
        );
        // The sender can still talk to others.
        job.talk(SENDER).send(BYSTANDER, vec![7]);
        job.progress();
        assert_eq!(
            job.talk(BYSTANDER).received[SENDER.index()].pop_front(),
            Some(vec![7])
        );
        let _ = job.faults(RECEIVER);
        job.others_are_fine();
    }
}

/// Words of a postbox that say how long a message is and in which block.
fn length_and_block_words<F: Open>() {
    for (word, value) in [
        (1, 0),
        (1, 1 << 40),
        (1, u64::MAX),
        (2, 8),
        (2, u64::from(u32::MAX)),
        (2, 1 << 32),
        (3, 0),
        (3, 1025),
        (3, 1 << 63),
        (3, u64::MAX),
    ] {
        let mut job = Job::<F>::connected();
        let peer = RECEIVER;
        let boxes = &mut job.talk(SENDER).boxes;
        let block = boxes.take_block(peer).unwrap();
        boxes.write_block(peer, block, 0, &[5; 1024]);
        let line = [0, 3000, u64::from(block), 1024, 0, 0, 0, 0];
        boxes.post_block(peer, &line, Some(block), 1024);
        job.ends[0].settle();
        let (area, queue, _) = job.ends[0].area();
        area.store(queue + LINE_BYTES + 8 * word, value);
        job.progress();
        let error = job.one_fault(RECEIVER, SENDER);
        assert!(
            matches!(error, FabricError::Corrupt { peer: SENDER, .. }),
            "{error}"
        );
        assert_eq!(job.talk(RECEIVER).received[SENDER.index()].len(), 0);
        job.others_are_fine();
    }
}

/// Bytes of the pool are only bytes.
fn pool_bytes<F: Open>() {
    let mut job = Job::<F>::connected();
    let (area, _, layout) = job.ends[0].area();
    job.talk(SENDER).send(RECEIVER, vec![1; 2500]);
    job.talks[SENDER.index()].progress();
    job.ends[0].settle();
    for block in 0..layout.blocks {
        area.write(layout.pool_block(block), &[0xAA; 1024]);
    }
    job.progress();
    let got = job.talk(RECEIVER).received[SENDER.index()].pop_front().unwrap();
    assert_eq!(got, vec![0xAA; 2500]);
    job.others_are_fine();
    assert!(job.delivers(SENDER, &[2; 2500]));
}

/// Send a packet past the protocol, unless nobody empties the queue.
fn inject<F: Open>(job: &Job<F>, packet: &[u8]) {
    for _ in 0..200 {
        if job.ends[0].try_send(RECEIVER, Port::Postbox, Priority::High, packet) == TrySend::Sent {
            break;
        }
    }
    job.ends[0].settle();
}

/// The bytes of a control packet: kind, version, two unused, four sizes.
fn control(kind: u8, version: u8, sizes: [u32; 4]) -> Vec<u8> {
    let mut packet = vec![kind, version, 0, 0];
    packet.extend(sizes.iter().flat_map(|s| s.to_le_bytes()));
    packet
}

/// Sizes that are none, kinds and versions that do not exist, packets too short and too long.
fn control_packets<F: Open>() {
    let good = [if F::MAPPED { SIZE } else { 1 }, 16, 1024, 8];
    let mut bad = vec![
        vec![],
        vec![1],
        control(0, 1, good),
        control(3, 1, good),
        control(1, 2, good),
    ];
    bad.push(control(1, 1, good)[..19].to_vec());
    bad.push([control(1, 1, good), vec![0]].concat());
    for (at, sizes) in [
        (0, [0, u32::MAX]),
        (1, [0, 15]),
        (1, [24, 8192]),
        (2, [0, 1023]),
        (2, [1025, 1 << 31]),
        (3, [0, 7]),
        (3, [65537, u32::MAX]),
    ] {
        for size in sizes {
            let mut layout = good;
            layout[at] = size;
            bad.push(control(1, 1, layout));
        }
    }
    let mut job = Job::<F>::new(2, &SMALL);
    assert!(job.delivers(BYSTANDER, b"hello"));
    for packet in bad {
        inject(&job, &packet);
        assert!(job.talk(RECEIVER).boxes.poll_control());
        let error = job.one_fault(RECEIVER, SENDER);
        assert!(
            matches!(error, FabricError::Corrupt { peer: SENDER, .. }),
            "{packet:?}: {error}"
        );
        assert!(!job.talk(RECEIVER).boxes.has_sender(SENDER));
    }
    // None of them is in the way of an honest one.
    assert!(job.delivers(SENDER, b"honest"));
    job.others_are_fine();
}

/// Who says hello twice does not move its queue.
fn second_hello<F: Open>() {
    let mut job = Job::<F>::connected();
    let queues = if F::MAPPED { SIZE } else { 1 };
    inject(&job, &control(1, 1, [queues, 16, 1024, 8]));
    job.progress();
    job.one_fault(RECEIVER, SENDER);
    assert!(job.delivers(SENDER, b"as before"));
    job.others_are_fine();
}

/// A queue that is to grow at a count that cannot be, twice, or that has all its postboxes.
fn growth<F: Open>() {
    let tunables = ChannelTunables { slots: 64, ..SMALL };
    let queues = if F::MAPPED { SIZE } else { 1 };
    let grow = |count: u16| {
        let mut packet = control(3, 1, [queues, 64, 1024, 8]);
        packet[2..4].copy_from_slice(&count.to_le_bytes());
        packet
    };
    let mut job = Job::<F>::new(1, &tunables);
    inject(&job, &grow(0));
    job.progress();
    job.one_fault(RECEIVER, SENDER);
    // One was taken, and at most 16 more are posted.
    for count in [0, 18, 100, u16::MAX] {
        let mut job = Job::<F>::connected_with(&tunables);
        inject(&job, &grow(count));
        job.progress();
        job.one_fault(RECEIVER, SENDER);
        assert!(job.delivers(SENDER, b"as before"));
        job.others_are_fine();
    }
    let mut job = Job::<F>::connected_with(&tunables);
    if F::MAPPED {
        inject(&job, &grow(1));
        job.progress();
        job.one_fault(RECEIVER, SENDER);
        assert!(job.delivers(SENDER, b"as before"));
        return job.others_are_fine();
    }
    // Its sender's own doing: for others nothing changes.
    inject(&job, &grow(10));
    job.progress();
    assert_eq!(job.faults(RECEIVER), vec![]);
    for count in [10, 1] {
        inject(&job, &grow(count));
        job.progress();
        job.one_fault(RECEIVER, SENDER);
        job.others_are_fine();
    }
}

/// A welcome that nobody asked for.
fn unasked_welcome<F: Open>() {
    let mut job = Job::<F>::connected();
    for _ in 0..3 {
        inject(&job, &control(2, 1, [1, 16, 1024, 8]));
        job.progress();
        job.one_fault(RECEIVER, SENDER);
        assert!(job.delivers(SENDER, b"as before"));
    }
    job.others_are_fine();
}

/// An area larger than the one that was exported, or none at all.
fn hello_that_promises_too_much<F: Open>() {
    if !F::MAPPED {
        // The receiver makes the area, and not one of any size.
        let mut job = Job::<F>::new(3, &SMALL);
        inject(&job, &control(1, 1, [1, 16, 1 << 20, 65536]));
        assert!(job.talk(RECEIVER).boxes.poll_control());
        job.one_fault(RECEIVER, SENDER);
        assert!(job.delivers(SENDER, b"honest"));
        return job.others_are_fine();
    }
    let mut job = Job::<F>::new(3, &SMALL);
    let hello = |blocks| control(1, 1, [SIZE, 16, 1024, blocks]);
    inject(&job, &hello(8));
    job.talk(RECEIVER).boxes.poll_control();
    job.one_fault(RECEIVER, SENDER);
    // The area exists from here on.
    job.talk(SENDER).boxes.my_slots();
    inject(&job, &hello(65536));
    job.talk(RECEIVER).boxes.poll_control();
    job.one_fault(RECEIVER, SENDER);
    assert!(job.delivers(BYSTANDER, b"hello"));
    job.others_are_fine();
}

/// What happens in a run in which memory changes at random.
#[derive(Clone, Debug)]
enum Act {
    Send(u16),
    Progress,
    /// Write into the area: place (as a share of it) and bytes.
    Area(u16, Vec<u8>),
    /// Write near the start, where the postboxes are.
    Queue(u16, Vec<u8>),
    Ack(u64),
    Packet(Vec<u8>),
}

fn act() -> impl Strategy<Value = Act> {
    let bytes = || prop::collection::vec(any::<u8>(), 1..80);
    let small = || prop::collection::vec(0..20u8, 1..16);
    prop_oneof![
        4 => (0..4000u16).prop_map(Act::Send),
        4 => Just(Act::Progress),
        1 => (any::<u16>(), bytes()).prop_map(|(at, b)| Act::Area(at, b)),
        2 => (any::<u16>(), prop_oneof![bytes(), small()]).prop_map(|(at, b)| Act::Queue(at, b)),
        1 => prop_oneof![any::<u64>(), 0..40u64].prop_map(Act::Ack),
        1 => prop::collection::vec(any::<u8>(), 0..=24).prop_map(Act::Packet),
        1 => (0..4u8, 0..2u8, 0..5u32, 0..40u32, 0..3u32, 0..40u32).prop_map(|(k, v, q, s, b, n)| {
            Act::Packet(control(k, v, [q, s, b * 1024, n]))
        }),
    ]
}

/// Nothing panics, and nobody but the two ends blames or is blamed.
fn vandalised<F: Open>(seed: u64, acts: &[Act]) {
    let mut job = Job::<F>::new(seed, &SMALL);
    assert!(job.delivers(SENDER, b"hello"));
    let (area, queue, layout) = job.ends[0].area();
    for act in acts {
        match act {
            Act::Send(len) => job.talk(SENDER).send(RECEIVER, vec![3; usize::from(*len)]),
            Act::Progress => {
                for talk in &mut job.talks {
                    talk.progress();
                }
                job.ends[0].settle();
            }
            Act::Area(at, bytes) => {
                let limit = layout.bytes() - bytes.len();
                area.write(usize::from(*at) * limit / usize::from(u16::MAX), bytes);
            }
            Act::Queue(at, bytes) => area.write(queue + usize::from(*at) % (15 * LINE_BYTES), bytes),
            Act::Ack(value) => {
                let (acks, at) = job.ends[0].ack();
                acks.store(at, *value);
            }
            Act::Packet(packet) => inject(&job, packet),
        }
    }
    job.progress();
    for fault in job.faults(RECEIVER) {
        assert_eq!(fault.peer, SENDER, "{fault:?}");
    }
    for fault in job.faults(SENDER) {
        assert_eq!(fault.peer, RECEIVER, "{fault:?}");
    }
    assert_eq!(job.faults(BYSTANDER), vec![]);
    assert!(job.delivers(BYSTANDER, b"unharmed"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn vandals_on_shared_memory(acts in prop::collection::vec(act(), 1..40)) {
        vandalised::<Shm>(0, &acts);
    }

    #[test]
    fn vandals_without_mapping(seed: u64, acts in prop::collection::vec(act(), 1..40)) {
        vandalised::<InProc>(seed, &acts);
    }

    /// A queue and a pool full of anything: whatever peek, peek_ahead and read_block make of it.
    #[test]
    fn random_areas(bytes in prop::collection::vec(any::<u8>(), 16 * LINE_BYTES), block: u32, offset: usize, len in 0..5000usize) {
        let mut job = Job::<Shm>::connected();
        let (area, queue, _) = job.ends[0].area();
        area.write(queue, &bytes);
        let boxes: &mut Postboxes<Shm> = &mut job.talk(RECEIVER).boxes;
        for ahead in [0, 1, 15, 16, u32::MAX] {
            if let Some(line) = boxes.peek_ahead(SENDER, ahead) {
                prop_assert_eq!(line[0] as u32, 2u32.wrapping_add(ahead));
            }
        }
        let mut to = vec![0; len];
        // Eight blocks of 1024 bytes, then their parts.
        let holds = |block| match block {
            0..8 => 1024,
            8..72 => 128,
            _ => 0,
        };
        let fits = block < 72 && offset <= holds(block) && len <= holds(block) - offset;
        prop_assert_eq!(boxes.read_block(SENDER, block, offset, &mut to).is_ok(), fits);
        let (block, offset, len) = (block % 80, offset % 1100, len.min(100));
        let small = boxes.read_block(SENDER, block, offset, &mut to[..len]);
        prop_assert_eq!(small.is_ok(), block < 72 && offset + len <= holds(block));
        job.progress();
        for fault in job.faults(RECEIVER) {
            prop_assert_eq!(fault.peer, SENDER);
        }
        prop_assert!(job.delivers(BYSTANDER, b"unharmed"));
    }
}
