//! VI mode: receive regions of the program's, and rings whose memory is damaged.

mod support;

use farpost_fabric::inproc::{Config, InProc, Segment};
use farpost_fabric::{FabricError, LINE_BYTES, LocalMemory, Peer, Priority, SegmentId};
use farpost_jam::region::{self, Region};
use farpost_jam::vi::Batch;
use farpost_jam::{Header, Jam, JamError, JamTunables, Message};
use support::{jams, roomy, until};

/// By PIO with high priority, process 1; by batches, process 2; each message has its number as user's word, and so many words.
struct Senders {
    sent: u32,
    rung: u32,
    batch: Batch,
}

fn words(number: u32) -> Vec<u32> {
    vec![number * 3; 2 + number as usize % 21]
}

impl Senders {
    fn new() -> Self {
        Self {
            sent: 0,
            rung: 0,
            batch: Batch::new(Peer(0)),
        }
    }

    fn send(&mut self, jams: &[Jam<InProc>], most: u32) {
        let header = Header::new(Peer(0), Priority::High, self.sent);
        if self.sent < most && jams[1].send(&header, &words(self.sent)).is_ok() {
            self.sent += 1;
        }
        if self.batch.is_empty() {
            for _ in 0..3 {
                if self.rung < most {
                    self.batch.push(self.rung, &words(self.rung)).unwrap();
                    self.rung += 1;
                }
            }
        }
        jams[2].doorbell(&mut self.batch).unwrap();
    }
}

/// Each sender's messages so far.
#[derive(Default)]
struct Seen([u32; 3]);

impl Seen {
    fn note(&mut self, from: Peer, tag: u32, payload: &[u32]) {
        let next = &mut self.0[from.index()];
        assert_eq!((tag, payload), (*next, &words(*next)[..]), "from {from}");
        *next += 1;
    }

    fn take(&mut self, message: &Message) {
        self.note(message.from, message.tag, message.words());
    }
}

#[test]
fn regions_fill_with_messages_of_both_kinds_and_are_armed_again() {
    const MOST: u32 = 300;
    for seed in 0..10 {
        let jams = jams(3, seed, Config::default(), &JamTunables::default());
        let (mut senders, mut seen) = (Senders::new(), Seen::default());
        let mut names = Vec::new();
        for bytes in [region::LONGEST, 1000] {
            names.push(jams[0].arm(Region::new(bytes)).unwrap());
        }
        let mut emptied = 0;
        until(&jams, || {
            senders.send(&jams, MOST);
            while let Some(message) = jams[0].take_deposited() {
                seen.take(&message);
            }
            while let Some((name, region)) = jams[0].exhausted() {
                assert_eq!(name, names[emptied]);
                emptied += 1;
                names.push(jams[0].arm(region).unwrap());
            }
            seen.0 == [0, MOST, MOST]
        });
        assert!(emptied > 10, "{emptied}");
        assert_eq!(jams[0].refused(), 0);
    }
}

/// What does not fit stays where it was, and is there for a receiver without regions.
#[test]
fn what_finds_no_room_in_a_region_waits() {
    const MOST: u32 = 60;
    for seed in 0..10 {
        let jams = jams(3, seed, Config::default(), &JamTunables::default());
        let (mut senders, mut seen) = (Senders::new(), Seen::default());
        let name = jams[0].arm(Region::new(800)).unwrap();
        for _ in 0..300 {
            senders.send(&jams, MOST);
            support::step(&jams);
        }
        let (region, filled) = jams[0].disarm(name).unwrap();
        assert!(jams[0].disarm(name).is_none());
        assert!(filled > 800 - region::LONGEST, "{filled}");
        let mut at = 0;
        let mut held = 0;
        while let Some((message, next)) = region.look(at) {
            seen.take(&message);
            (at, held) = (next, held + 1);
        }
        assert_eq!(at, filled);
        assert!(region.ends_at(at) && held > 5 && held < MOST);
        until(&jams, || {
            senders.send(&jams, MOST);
            if let Some(message) = jams[0].receive(Priority::High) {
                seen.take(&message);
            }
            jams[0].receive_batches(5, |from, tag, payload| seen.note(from, tag, payload));
            seen.0 == [0, MOST, MOST]
        });
    }
}

/// Who looks at the memory sees messages grow, whole and in order, while somebody else deposits them.
#[test]
fn a_region_is_read_without_a_call() {
    for seed in 0..10 {
        let jams = jams(3, seed, roomy(8), &JamTunables::default());
        let mut senders = Senders::new();
        let region = Region::new(1 << 16);
        jams[0].arm(region.clone()).unwrap();
        let mut seen = Seen::default();
        let mut at = 0;
        until(&jams, || {
            senders.send(&jams, 100);
            // What goes to a region goes nowhere else.
            assert_eq!(jams[0].receive(Priority::High), None);
            assert_eq!(jams[0].receive_batches(9, |_, _, _| ()), 0);
            while let Some((message, next)) = region.look(at) {
                assert_eq!(message.priority, Priority::High);
                seen.take(&message);
                at = next;
            }
            assert!(!region.ends_at(at));
            seen.0 == [0, 100, 100]
        });
        // Low priority has nothing to do with it.
        jams[1]
            .send(&Header::new(Peer(0), Priority::Low, 5), &[1, 2])
            .unwrap();
        until(&jams, || jams[0].receive(Priority::Low).is_some());
        assert!(region.look(at).is_none());
    }
}

#[test]
fn depositing_runs_no_procedures() {
    let jams = jams(2, 1, roomy(8), &JamTunables::default());
    let region = Region::new(1 << 12);
    jams[0].arm(region.clone()).unwrap();
    jams[1].rpc(Peer(0), 7, b"nobody registered it").unwrap();
    jams[1]
        .send(&Header::new(Peer(0), Priority::High, 5), &[1, 2])
        .unwrap();
    jams[0].fabric().network().settle();
    assert!(jams[0].deposit() && !jams[0].deposit());
    assert_eq!(
        region.look(0).map(|(message, next)| (message.tag, next)),
        Some((5, 32))
    );
    assert_eq!((jams[0].refused(), jams[0].calls()), (0, 0));
    jams[0].poll();
    assert_eq!(jams[0].refused(), 1);
}

#[test]
fn a_block_on_its_way_keeps_messages_out_of_the_region() {
    let config = Config {
        bulk: false,
        ..roomy(8)
    };
    let jams = jams(3, 5, config, &JamTunables::default());
    let region = Region::new(1 << 12);
    jams[0].arm(region.clone()).unwrap();
    jams[0].rdma().post(vec![0; 20_000]);
    jams[1].rdma().send(Peer(0), 1, vec![1; 20_000]).unwrap();
    until(&jams, || jams[0].rdma().is_owned());
    jams[2]
        .send(&Header::new(Peer(0), Priority::High, 5), &[1, 2])
        .unwrap();
    let mut packets = 0;
    until(&jams, || {
        packets += u32::from(jams[0].rdma().is_owned());
        assert!(region.look(0).is_none() || !jams[0].rdma().is_owned());
        region.look(0).is_some()
    });
    assert!(packets > 10, "the block took {packets} steps");
    assert!(jams[0].rdma().arrived().is_some());
}

#[test]
fn a_region_holds_at_least_the_longest_message() {
    let jams = jams(1, 1, roomy(8), &JamTunables::default());
    let short = jams[0].arm(Region::new(region::LONGEST - 1));
    assert_eq!(short, Err(JamError::Region(region::LONGEST - region::ALIGNMENT)));
    assert!(jams[0].arm(Region::new(region::LONGEST)).is_ok());
}

/// A ring at process 0 in which `batch` has arrived, and where it begins.
fn ring(jams: &[Jam<InProc>], batch: &mut Batch) -> Segment {
    until(jams, || jams[1].doorbell(batch).unwrap());
    let network = jams[0].fabric().network();
    network.settle();
    network.segment(Peer(0), SegmentId(0x7a00_0001)).unwrap()
}

fn numbered(numbers: std::ops::Range<u32>) -> Batch {
    let mut batch = Batch::new(Peer(0));
    for number in numbers {
        batch.push(number, &[number, 7, 8, 9]).unwrap();
    }
    batch
}

/// Where message `number` of the ring is: each has a header of 8 bytes and four words.
const fn place(number: usize) -> usize {
    LINE_BYTES + 24 * number
}

#[test]
fn damage_in_a_ring_is_noticed_and_costs_that_message_alone() {
    // The user's word, the first and the last word of the payload, the check itself.
    for (word, bit) in [
        (0, 32_u32),
        (0, 63),
        (1, 0),
        (1, 40),
        (2, 31),
        (2, 63),
        (0, 16),
        (0, 31),
    ] {
        for with_region in [false, true] {
            let jams = jams(2, u64::from(bit), roomy(8), &JamTunables::default());
            let region = Region::new(1 << 12);
            if with_region {
                jams[0].arm(region.clone()).unwrap();
            }
            let memory = ring(&jams, &mut numbered(0..5));
            let at = place(2) + 8 * word;
            memory.store(at, memory.load(at) ^ 1 << bit);
            let mut tags = Vec::new();
            if with_region {
                while let Some(message) = jams[0].take_deposited() {
                    tags.push(message.tag);
                }
            } else {
                jams[0].receive_batches(100, |_, tag, _| tags.push(tag));
            }
            assert_eq!(tags, [0, 1, 3, 4], "word {word}, bit {bit}");
            assert_eq!(jams[0].refused(), 1);
            let fault = jams[0].next_fault().unwrap();
            assert!(matches!(
                fault.error,
                FabricError::Corrupt {
                    peer: Peer(1),
                    what: "the check of a message in a ring",
                    ..
                }
            ));
            // The ring goes on.
            let mut more = numbered(5..7);
            assert!(jams[1].doorbell(&mut more).unwrap());
            jams[0].fabric().network().settle();
            if with_region {
                jams[0].deposit();
                assert!(jams[0].take_deposited().is_some_and(|message| message.tag == 5));
            } else {
                assert_eq!(jams[0].receive_batches(100, |_, tag, _| assert!(tag >= 5)), 2);
            }
        }
    }
}

#[test]
fn a_damaged_length_or_doorbell_closes_the_ring_and_no_other() {
    let lengths = [0, 1, 23, 0xfffe].map(|words| (place(2), words));
    // Beyond the ring, and between messages.
    let doorbells = [(0, 1 << 40), (0, 121)];
    for (at, value) in lengths.into_iter().chain(doorbells) {
        let jams = jams(3, 4, roomy(8), &JamTunables::default());
        let memory = ring(&jams, &mut numbered(0..5));
        let value = if at == 0 {
            value
        } else {
            memory.load(at) & !0xffff | value
        };
        memory.store(at, value);
        let mut tags = Vec::new();
        jams[0].receive_batches(100, |_, tag, _| tags.push(tag));
        assert_eq!(tags, if at == 0 { vec![] } else { vec![0, 1] });
        assert_eq!(jams[0].next_fault().map(|fault| fault.peer), Some(Peer(1)));
        // Whose ring is whole is heard.
        let mut batch = numbered(9..10);
        until(&jams, || jams[2].doorbell(&mut batch).unwrap());
        let mut from = None;
        until(&jams, || {
            jams[0].receive_batches(100, |peer, tag, _| from = Some((peer, tag)));
            from.is_some()
        });
        assert_eq!(from, Some((Peer(2), 9)));
        assert_eq!(jams[0].next_fault(), None);
    }
}

/// A sleep ends when something comes, of whichever kind, and not before.
#[test]
fn a_sleep_ends_by_what_comes() {
    for kind in 0..4 {
        let jams = jams(2, 7, roomy(8), &JamTunables::default());
        let day = std::time::Duration::from_secs(3600);
        let network = jams[0].fabric().network().clone();
        let started = network.now();
        assert!(!jams[0].sleep(day));
        assert!(network.now() - started >= day);
        let mut batch = numbered(0..1);
        until(&jams, || kind != 3 || jams[1].doorbell(&mut batch).unwrap());
        match kind {
            0 | 1 => {
                let header = Header::new(Peer(0), Priority::ALL[kind], 5);
                jams[1].send(&header, &[1, 2]).unwrap();
            }
            2 => jams[1].rpc(Peer(0), 7, b"a call").unwrap(),
            _ => {}
        }
        let started = network.now();
        assert!(jams[0].sleep(day), "kind {kind}");
        assert!(network.now() - started < day / 1000);
    }
}
