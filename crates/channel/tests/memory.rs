//! Bytes of the areas that a process exports for its peers, in pages that are touched.
#![cfg(all(not(loom), target_os = "linux"))]

mod support;

use farpost_channel::{ChannelTunables, Layout};
use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::{Fabric, LINE_BYTES, Peer, Permission, Remote, RemoteMemory, SegmentId};
use farpost_mapped::Mapping;
use farpost_shm::ShmTunables;
use farpost_shm::conformance::shm_ends;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use support::Talk;

/// The segment of the area for a sender (see `connect`).
const AREA_FOR: u32 = 0x41_0000;
const PAGE: usize = 4096;

fn talk_over<F: Fabric>(talks: &mut [Talk<F>], senders: usize, bytes: usize, settle: impl Fn()) {
    let size = talks.len();
    for (from, talk) in talks.iter_mut().enumerate().take(senders) {
        for to in (0..size).filter(|to| *to != from) {
            talk.send(Peer(to as u32), vec![from as u8 + 1; bytes]);
        }
    }
    for _ in 0..400 {
        for talk in talks.iter_mut() {
            talk.push();
            talk.pull();
            talk.boxes.settle();
        }
        settle();
        let taken = |(at, talk): (usize, &Talk<F>)| {
            let from = (0..senders).filter(|from| *from != at);
            from.clone().all(|from| talk.received[from].len() == 1)
        };
        if talks.iter().enumerate().all(taken) {
            for talk in talks.iter_mut() {
                talk.received.iter_mut().for_each(|from| drop(from.pop_front()));
            }
            return;
        }
    }
    panic!("messages of {bytes} bytes did not all arrive");
}

/// Everybody rests for a while, and says what is owed.
fn rest<F: Fabric>(talks: &mut [Talk<F>], settle: impl Fn()) {
    for _ in 0..8 {
        for talk in talks.iter_mut() {
            talk.pull();
            talk.boxes.settle();
            talk.rest();
        }
        settle();
    }
}

/// Bytes of the file behind an area that `of` exports, as the system counts them.
fn file_bytes(area: &Mapping) -> usize {
    let file = std::fs::File::from(area.clone_file().unwrap());
    file.metadata().unwrap().blocks() as usize * 512
}

/// One area for all receivers of a host: a page for each that was met, and the blocks that were in use at once; nothing of them
/// after a rest but the pages that receivers look at. 256 processes in one.
#[test]
fn areas_on_shared_memory() {
    const SIZE: u32 = 256;
    const SENDERS: usize = 4;
    let tunables = ChannelTunables::default();
    let ends: Vec<_> = shm_ends(SIZE, &ShmTunables::default())
        .into_iter()
        .map(Rc::new)
        .collect();
    let mut talks: Vec<_> = ends.iter().map(|end| Talk::new(end, &tunables)).collect();
    let layout = Layout::new(&tunables, SIZE);
    let nothing = || ();
    talk_over(&mut talks, SENDERS, 8, nothing);
    let areas: Vec<_> = (0..SENDERS)
        .map(|of| talks[of].boxes.own_area().expect("messages were sent").clone())
        .collect();
    let acks = (SIZE as usize * LINE_BYTES).next_multiple_of(PAGE);
    let met = acks + (SIZE as usize - 1) * PAGE;
    for area in &areas {
        assert_eq!(file_bytes(area), met);
    }
    talk_over(&mut talks, SENDERS, 3000, nothing);
    for area in &areas {
        let bytes = file_bytes(area);
        assert!(bytes > met && bytes <= met + (layout.blocks * layout.block) as usize);
    }
    rest(&mut talks, nothing);
    for area in &areas {
        assert_eq!(file_bytes(area), acks, "the acknowledgements alone");
    }
    talk_over(&mut talks, SENDERS, 8, nothing);
    for area in &areas {
        assert_eq!(file_bytes(area), met);
    }
}

/// Pages with anything in them, of the areas that processes export for one sender each.
fn touched(ends: &[Rc<InProc>], layout: &Layout) -> usize {
    let mut pages = 0;
    for from in 0..ends.len() {
        for to in (0..ends.len()).filter(|to| *to != from) {
            let id = SegmentId(AREA_FOR + from as u32);
            let area = ends[from]
                .import(Peer(to as u32), id, layout.bytes(), Permission::ReadWrite)
                .unwrap();
            let mut bytes = vec![0; layout.bytes()];
            area.get(0, &mut bytes).unwrap();
            let any = |page: &&[u8]| page.iter().any(|b| *b != 0);
            pages += bytes.chunks(PAGE).filter(any).count();
        }
    }
    pages
}

/// A sender takes what the receiver has taken before it touches more, and short messages take parts of a block: a page, however many
/// messages there were. A burst grows the queue; what that takes goes back after a rest as well.
#[test]
fn short_messages_one_after_the_other() {
    const SIZE: u32 = 4;
    let tunables = ChannelTunables::default();
    let layout = Layout::new(&tunables, 1);
    let ends: Vec<_> = Network::new(SIZE, 1, Config::default())
        .into_iter()
        .map(Rc::new)
        .collect();
    let network = ends[0].network().clone();
    let mut talks: Vec<_> = ends.iter().map(|end| Talk::new(end, &tunables)).collect();
    let settle = || network.settle();
    let pairs = (SIZE * (SIZE - 1)) as usize;
    for bytes in [8, 1000] {
        for _ in 0..100 {
            talk_over(&mut talks, SIZE as usize, bytes, settle);
        }
        assert_eq!(touched(&ends, &layout), pairs, "{bytes} bytes");
    }
    let before = network.memory();
    assert!(before <= pairs * PAGE + acks(SIZE), "{before} bytes have memory");
    // More at once than a queue begins with, and on into its next lap.
    for round in 0..8 {
        for from in 0..SIZE {
            for to in (0..SIZE).filter(|to| *to != from) {
                (0..40).for_each(|n| talks[from as usize].send(Peer(to), vec![n + 1; 8]));
            }
        }
        for _ in 0..400 {
            talks.iter_mut().for_each(|talk| {
                talk.push();
                talk.pull();
                talk.boxes.settle();
            });
            settle();
        }
        for talk in &mut talks {
            for from in talk.received.iter_mut().filter(|from| !from.is_empty()) {
                let found: Vec<_> = from.drain(..).map(|message| message[0]).collect();
                assert_eq!(found, Vec::from_iter(1..=40), "round {round}");
            }
        }
    }
    assert!(touched(&ends, &layout) >= 3 * pairs, "the other queue is used");
    rest(&mut talks, settle);
    assert_eq!(touched(&ends, &layout), 0);
    assert_eq!(
        network.memory(),
        acks(SIZE),
        "acknowledgements are not given back"
    );
    talk_over(&mut talks, SIZE as usize, 1000, settle);
    let faults = |end: &Rc<InProc>| farpost_fabric::ErrorStatus::take_faults(&**end).0;
    assert!(ends.iter().all(|end| faults(end).is_empty()));
}

/// Bytes that the segments of acknowledgements have in all, in the pieces of in-process memory.
fn acks(size: u32) -> usize {
    const PIECE: usize = 1024;
    size as usize * (size as usize * LINE_BYTES).next_multiple_of(PIECE)
}

/// Elsewhere each receiver has an area for each sender. After a rest there is nothing in it: all its pages were given back.
#[test]
fn areas_without_mapping() {
    const SIZE: u32 = 8;
    let tunables = support::SMALL;
    let layout = Layout::new(&tunables, 1);
    for seed in 0..10 {
        let ends: Vec<_> = Network::new(SIZE, seed, Config::default())
            .into_iter()
            .map(Rc::new)
            .collect();
        let network = ends[0].network().clone();
        let mut talks: Vec<_> = ends.iter().map(|end| Talk::new(end, &tunables)).collect();
        let settle = || network.settle();
        let touched = || touched(&ends, &layout);
        let pairs = (SIZE * (SIZE - 1)) as usize;
        talk_over(&mut talks, SIZE as usize, 8, settle);
        assert_eq!(touched(), pairs);
        talk_over(&mut talks, SIZE as usize, 6000, settle);
        assert!(touched() >= 2 * pairs);
        rest(&mut talks, settle);
        assert_eq!(touched(), 0, "seed {seed}");
        talk_over(&mut talks, SIZE as usize, 6000, settle);
        assert!(
            ends.iter()
                .all(|end| farpost_fabric::ErrorStatus::take_faults(&**end).0.is_empty())
        );
    }
}
