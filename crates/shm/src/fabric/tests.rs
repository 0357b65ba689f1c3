//! What a reader makes of a region in which somebody else writes: every field is corrupted from outside.

use super::region::{self, GONE, Identity, Process, Published, SEGMENTS, Sleep};
use super::ring::RingId;
use super::{Shm, ShmConfig, ShmTunables, region_bytes};
use farpost_fabric::lane;
use farpost_fabric::sync::Ordering;
use farpost_fabric::*;
use farpost_mapped::{Mapping, sealed_memory};
use proptest::prelude::*;
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Who publishes, and whose part of the region is corrupted.
const MAD: Peer = Peer(0);
/// Who reads it.
const READER: Peer = Peer(1);
const ID: SegmentId = SegmentId(7);

fn config(file: &OwnedFd, index: u32, size: u32) -> ShmConfig {
    ShmConfig {
        file: file.try_clone().unwrap(),
        offset: 0,
        len: region_bytes(size) as u64,
        index,
        size,
        processes: size,
        cores: 1,
        tunables: ShmTunables::default(),
    }
}

/// A job in one thread, and its region as a vandal sees it.
fn job(size: u32) -> (Vec<Shm>, Mapping) {
    let file = sealed_memory(c"farpost-test", region_bytes(size)).unwrap();
    let ends = (0..size)
        .map(|i| Shm::attach(config(&file, i, size)).unwrap())
        .collect();
    let region = Mapping::new(file.as_fd(), 0, region_bytes(size), Permission::ReadWrite).unwrap();
    (ends, region)
}

/// MAD has published ID, and a packet waits at each.
fn lively() -> (Vec<Shm>, Mapping, Mapping) {
    let (ends, region) = job(2);
    let everyone = Access::Everyone(Permission::ReadWrite);
    let segment = ends[0].export(ID, 4096, everyone).unwrap();
    for (from, to) in [(0, 1), (1, 0)] {
        let sent = ends[from].try_send(Peer(to), Port::Fm, Priority::Low, b"before");
        assert_eq!(sent, TrySend::Sent);
    }
    (ends, region, segment)
}

fn import(ends: &[Shm]) -> Result<Mapping, FabricError> {
    ends[READER.index()].import(MAD, ID, 4096, Permission::ReadWrite)
}

/// Offset of a field of MAD's part.
fn field(offset: usize) -> usize {
    region::process_offset(MAD.0, 2) + offset
}

fn published(offset: usize) -> usize {
    field(offset_of!(Process, segments) + offset)
}

/// Do everything with everybody; nothing may panic or hang, and who is blamed for a fault is MAD or nobody
/// that exists.
fn exercise(ends: &[Shm]) {
    let reader = &ends[READER.index()];
    if let Err(error) = import(ends) {
        let culprit = match &error {
            FabricError::NotPublished { peer, .. }
            | FabricError::Denied { peer, .. }
            | FabricError::Corrupt { peer, .. }
            | FabricError::PeerDead { peer, .. } => *peer,
            FabricError::Os { .. } => MAD,
            other => panic!("{other}"),
        };
        assert_eq!(culprit, MAD, "{error}");
    }
    if reader.can_transfer(MAD) {
        let mut bytes = [0u8; 16];
        let d = Descriptor {
            peer: MAD,
            direction: Direction::Get,
            local: bytes.as_mut_ptr().expose_provenance(),
            remote: 4096,
            len: 16,
            key: 0,
        };
        // SAFETY: `bytes` outlives the call.
        let error = unsafe { reader.submit(&d) }.unwrap_err();
        // A start time that is not the process's tells of one that had its number before.
        let blamed = matches!(
            error,
            FabricError::Corrupt { peer: MAD, .. } | FabricError::PeerDead { peer: MAD, .. }
        );
        assert!(blamed, "{error}");
    }
    for end in ends {
        let mut polled = 0;
        while polled < 500
            && end.poll_packet(Port::Fm, |from, _, bytes| {
                assert!(from.0 < 2 && bytes.len() <= PACKET_BYTES);
            })
        {
            polled += 1;
        }
        for peer in [MAD, READER] {
            for priority in [Priority::High, Priority::Low] {
                let _ = end.try_send(peer, Port::Fm, priority, b"after");
            }
            end.wake(peer);
            end.count(peer, Counter::Sent, 1);
            for of in [MAD, READER] {
                end.counter(of, peer, Counter::Sent);
            }
        }
        end.sleep(Duration::from_micros(1), &mut || false);
        let (faults, _) = end.take_faults();
        for fault in faults {
            assert!(
                fault.peer == MAD || fault.peer.0 >= 2 || end.me() == MAD,
                "{fault:?}"
            );
        }
    }
}

const VALUES: [u64; 8] = [0, 1, 2, 3, 0x7fff_ffff, u32::MAX as u64, 1 << 63, u64::MAX];

#[test]
fn each_word_of_a_process_may_be_anything() {
    // Everything up to the first packets of both rings, word by word.
    let end = offset_of!(Process, rings) + 1024;
    for offset in (0..end).step_by(4) {
        for value in VALUES {
            let (ends, region, _segment) = lively();
            region.word32(field(offset)).store(value as u32, Ordering::SeqCst);
            exercise(&ends);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_region_may_hold_anything(writes in prop::collection::vec((any::<u16>(), any::<u64>()), 1..20), all in any::<bool>()) {
        let (ends, region, _segment) = lively();
        let (start, len) = if all {
            (0, region_bytes(2))
        } else {
            (field(0), size_of::<Process>())
        };
        for (at, value) in writes {
            let offset = (usize::from(at) * (len - 8) / usize::from(u16::MAX)) & !7;
            region.word(start + offset).store(value, Ordering::SeqCst);
        }
        let reader = &ends[READER.index()];
        let _ = import(&ends);
        let _ = reader.can_transfer(MAD);
        for end in &ends {
            for _ in 0..200 {
                end.poll_packet(Port::Fm, |from, _, bytes| assert!(from.0 < 2 && bytes.len() <= PACKET_BYTES));
            }
            for peer in [MAD, READER] {
                let _ = end.try_send(peer, Port::Fm, Priority::High, b"after");
                end.count(peer, Counter::Sent, 1);
            }
            end.sleep(Duration::from_micros(1), &mut || false);
            end.take_faults();
        }
    }
}

fn corrupt(result: Result<Mapping, FabricError>, wanted: &'static str, wrong: Option<u64>) {
    match result.err() {
        Some(FabricError::Corrupt { peer, what, value }) => {
            assert_eq!((peer, what), (MAD, wanted));
            assert!(wrong.is_none_or(|wrong| wrong == value));
        }
        other => panic!("{other:?} instead of {wanted}"),
    }
}

#[test]
fn a_wrong_table_entry_names_its_publisher() {
    let cases = [
        (offset_of!(Published, len), "a segment's size"),
        (offset_of!(Published, device), "a segment's device"),
        (offset_of!(Published, inode), "a segment's inode"),
    ];
    for (offset, what) in cases {
        for wrong in [1, 4096, 1 << 63, u64::MAX] {
            let (ends, region, _segment) = lively();
            region.word(published(offset)).fetch_xor(wrong, Ordering::SeqCst);
            corrupt(import(&ends), what, None);
        }
    }
    let (ends, region, _segment) = lively();
    for value in [4, 5, 1 << 31, u32::MAX] {
        region
            .word32(published(offset_of!(Published, access)))
            .store(value, Ordering::SeqCst);
        corrupt(import(&ends), "a segment's access", Some(u64::from(value)));
    }
    // A descriptor that is not there, and one that is another file.
    region
        .word32(published(offset_of!(Published, access)))
        .store(region::access::READ_WRITE, Ordering::SeqCst);
    let fd = region.word32(published(offset_of!(Published, fd)));
    for value in [1 << 20, u32::MAX] {
        fd.store(value, Ordering::SeqCst);
        corrupt(import(&ends), "a segment's descriptor", Some(u64::from(value)));
    }
    let other = std::fs::File::open("/dev/null").unwrap();
    fd.store(std::os::fd::AsRawFd::as_raw_fd(&other) as u32, Ordering::SeqCst);
    assert!(matches!(
        import(&ends),
        Err(FabricError::Corrupt { peer: MAD, .. })
    ));
    // A pipe nobody writes to does not hold us up.
    let (reading, _writing) = std::io::pipe().unwrap();
    fd.store(std::os::fd::AsRawFd::as_raw_fd(&reading) as u32, Ordering::SeqCst);
    assert!(matches!(
        import(&ends),
        Err(FabricError::Corrupt { peer: MAD, .. })
    ));
}

#[test]
fn nobody_finds_a_segment_before_it_is_written() {
    let (ends, _region) = job(2);
    let everyone = Access::Everyone(Permission::ReadWrite);
    for round in 1..5 {
        let begin = |memory: &Mapping| {
            let absent = FabricError::NotPublished { peer: MAD, id: ID.0 };
            assert_eq!(import(&ends).err(), Some(absent));
            memory.store(64, round);
        };
        let segment = ends[0].export_with(ID, 4096, everyone.clone(), begin).unwrap();
        assert_eq!(import(&ends).unwrap().load(64), round);
        ends[0].unpublish(ID).unwrap();
        drop(segment);
    }
}

/// A peer on this host sleeps on its pipe, and this process has no descriptor to open it with: it is rung later, by this
/// process before it sleeps, or by the next that sends to it.
#[test]
fn who_could_not_be_rung_for_want_of_descriptors_is_rung_later() {
    let (ends, region, _segment) = lively();
    let flag = region.word32(field(offset_of!(Process, sleep) + offset_of!(Sleep, asleep)));
    let Some((pipe, _)) = ends[0].arm_wait(Duration::from_secs(1), &mut || false) else {
        panic!("nothing is there");
    };
    let rung = || {
        let mut polled = libc::pollfd {
            fd: pipe,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&raw mut polled, 1, 0) == 1 }
    };
    // As if descriptors had run out: so does the number that is published lead nowhere for the time being. (The limit is
    // the whole process's, and other tests run in it.)
    ends[1].fail_to_open(libc::EMFILE);
    ends[1].wake(MAD);
    assert!(!rung());
    assert_eq!(flag.load(Ordering::SeqCst), super::flag::POLLING);
    assert_eq!(ends[1].take_faults().0.len(), 1);
    ends[1].wake(MAD);
    assert!(!rung() && ends[1].take_faults().0.is_empty(), "once is enough");
    // It sleeps for moments only, and tries again before.
    let started = Instant::now();
    assert_eq!(
        ends[1].sleep(Duration::from_secs(60), &mut || false),
        Wake::Timeout
    );
    assert!(started.elapsed() < Duration::from_secs(30));
    ends[1].fail_to_open(0);
    assert_eq!(
        ends[1].sleep(Duration::from_millis(1), &mut || false),
        Wake::Timeout
    );
    assert!(rung());
    assert_eq!(flag.load(Ordering::SeqCst), 0);
    ends[0].disarm_wait();
    assert!(!rung());
    // The same by sending, from now on without opening anything.
    ends[1].fail_to_open(libc::EMFILE);
    let Some(_) = ends[0].arm_wait(Duration::from_secs(1), &mut || false) else {
        panic!("nothing is there");
    };
    ends[1].wake(MAD);
    assert!(rung());
    // When the peer is gone nobody else reads its pipe, and who writes to one without a reader is ended by SIGPIPE.
    let opened = ends[1].opened(MAD).unwrap();
    // SAFETY: a plain call on a descriptor that is open.
    let flags = unsafe { libc::fcntl(opened, libc::F_GETFL) };
    assert_eq!(flags & libc::O_ACCMODE, libc::O_RDWR);
}

#[test]
fn a_file_that_could_shrink_is_refused() {
    let (ends, region, _segment) = lively();
    // SAFETY: a fresh descriptor, owned by nobody else.
    let unsealed = unsafe {
        let fd = libc::memfd_create(c"unsealed".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd)
    };
    let file = std::fs::File::from(unsealed);
    file.set_len(4096).unwrap();
    let about = super::file_identity(&file.try_clone().unwrap().into()).unwrap();
    let store = |offset, value| region.word(published(offset)).store(value, Ordering::SeqCst);
    store(offset_of!(Published, device), about.0);
    store(offset_of!(Published, inode), about.1);
    region
        .word32(published(offset_of!(Published, fd)))
        .store(std::os::fd::AsRawFd::as_raw_fd(&file) as u32, Ordering::SeqCst);
    corrupt(import(&ends), "a segment's seals", None);
}

#[test]
fn a_wrong_process_id_is_nobody_here() {
    let pid = field(offset_of!(Process, identity) + offset_of!(Identity, pid));
    let (ends, region, _segment) = lively();
    let set = |value| region.word32(pid).store(value, Ordering::SeqCst);
    set(0);
    let not_yet = Some(FabricError::NotPublished { peer: MAD, id: ID.0 });
    assert_eq!(import(&ends).err(), not_yet);
    // Not attached: nothing is decided about it.
    assert!(!ends[1].can_transfer(MAD));
    // Above what the system hands out.
    for value in [0x7fff_ffff, 0x8000_0000, GONE] {
        set(value);
        let error = import(&ends).err();
        assert!(
            matches!(error, Some(FabricError::PeerDead { peer: MAD, .. })),
            "{error:?}"
        );
        let (others, region, _segment) = lively();
        region.word32(pid).store(value, Ordering::SeqCst);
        assert!(!others[1].can_transfer(MAD));
    }
    set(std::process::id());
    import(&ends).unwrap();
}

#[test]
fn a_dead_peer_is_named_with_its_end_though_that_is_told_a_moment_later() {
    let (mut ends, region, _segment) = lively();
    let asked = std::rc::Rc::new(std::cell::Cell::new(0));
    let times = std::rc::Rc::clone(&asked);
    let reader = ends.pop().unwrap().with_end_report(Box::new(move |peer, _| {
        times.set(times.get() + 1);
        let why = format!("rank {} fell off its chair", peer.0);
        (times.get() > 3).then_some(farpost_fabric::End { why, in_order: false })
    }));
    assert!(reader.can_transfer(MAD));
    let pid = field(offset_of!(Process, identity) + offset_of!(Identity, pid));
    region.word32(pid).store(GONE, Ordering::SeqCst);
    let d = Descriptor {
        peer: MAD,
        direction: Direction::Get,
        local: 0,
        remote: 0,
        len: 0,
        key: 0,
    };
    // SAFETY: no bytes.
    let error = unsafe { reader.submit(&d) }.unwrap_err();
    assert_eq!(error.to_string(), "process 0 is gone (rank 0 fell off its chair)");
    assert_eq!(asked.get(), 4);
}

#[test]
fn a_wrong_probe_is_not_believed() {
    for (offset, value) in [
        (offset_of!(Identity, probe_address), 0),
        (offset_of!(Identity, probe_address), 4096),
        (offset_of!(Identity, probe_address), u64::MAX),
        (offset_of!(Identity, probe_value), 0),
    ] {
        let (ends, region, _segment) = lively();
        let at = field(offset_of!(Process, identity) + offset);
        region.word(at).store(value, Ordering::SeqCst);
        assert!(!ends[1].can_transfer(MAD));
        let d = Descriptor {
            peer: MAD,
            direction: Direction::Put,
            local: 0,
            remote: 0,
            len: 0,
            key: 0,
        };
        // SAFETY: no bytes.
        let error = unsafe { ends[1].submit(&d) }.unwrap_err();
        assert!(matches!(error, FabricError::Unsupported { peer: MAD, .. }));
    }
}

#[test]
fn who_claims_to_be_this_process_must_be() {
    let (ends, region) = job(3);
    drop(ends);
    let file = sealed_memory(c"farpost-test", region_bytes(3)).unwrap();
    let me = Shm::attach(config(&file, 0, 3)).unwrap();
    let region2 = Mapping::new(file.as_fd(), 0, region_bytes(3), Permission::ReadWrite).unwrap();
    drop(region);
    // Process 2 copies what process 0 says of itself: its id, its address, its value.
    for word in 0..8 {
        let from = region2.word(region::process_offset(0, 3) + 8 * word);
        let to = region2.word(region::process_offset(2, 3) + 8 * word);
        to.store(from.load(Ordering::SeqCst), Ordering::SeqCst);
    }
    assert!(me.can_transfer(Peer(0)));
    assert!(!me.can_transfer(Peer(2)));
}

#[test]
fn a_flag_may_be_anything() {
    let flag = field(offset_of!(Process, sleep) + offset_of!(Sleep, asleep));
    for value in [2, u32::MAX] {
        let (ends, region, _segment) = lively();
        region.word32(flag).store(value, Ordering::SeqCst);
        ends[1].wake(MAD);
        assert_eq!(region.word32(flag).load(Ordering::SeqCst), 0);
        let wake = ends[0].sleep(Duration::from_millis(1), &mut || {
            // After the flag was raised.
            region.word32(flag).store(value, Ordering::SeqCst);
            false
        });
        assert_eq!(wake, Wake::Rung);
    }
}

/// Where READER's ring for low packets of Port::Fm is: its tail, then its head, then the first slot.
fn low_ring() -> [usize; 3] {
    let ring_bytes = size_of::<super::ring::Ring>();
    let rings = region::process_offset(READER.0, 2) + offset_of!(Process, rings);
    let tail = rings + lane(Port::Fm, Priority::Low) * ring_bytes;
    [tail, tail + 128, tail + 256]
}

/// Poll, and sleep in between, until something is recorded.
fn until_a_fault(end: &Shm) -> (Vec<Vec<u8>>, Vec<Fault>) {
    let mut seen = Vec::new();
    let started = Instant::now();
    loop {
        while end.poll_packet(Port::Fm, |_, _, bytes| seen.push(bytes.to_vec())) {}
        let faults = end.take_faults().0;
        if !faults.is_empty() {
            while end.poll_packet(Port::Fm, |_, _, bytes| seen.push(bytes.to_vec())) {}
            return (seen, faults);
        }
        assert!(started.elapsed() < Duration::from_secs(60), "nothing was noticed");
        end.sleep(Duration::from_millis(20), &mut || false);
    }
}

#[test]
fn a_ring_recovers_from_a_wrong_head_or_tail() {
    for value in [2, 63, 65, 1 << 40, u64::MAX, 1 << 63] {
        for (which, at) in low_ring().into_iter().take(2).enumerate() {
            let (ends, region) = job(2);
            let (mad, reader) = (&ends[0], &ends[1]);
            reader.poll_packet(Port::Fm, |_, _, _| panic!("there is no packet"));
            region.word(at).store(value, Ordering::SeqCst);
            // Whatever the sender makes of it, it does not hang.
            let _ = mad.try_send(READER, Port::Fm, Priority::Low, b"lost?");
            mad.take_faults();
            // A head is also mended by being published again.
            if which == 0 {
                until_a_fault(reader);
            }
            // Positions that nobody claimed are skipped one by one; then everything arrives.
            let mut arrived = Vec::new();
            let started = Instant::now();
            while !arrived.ends_with(&[1, 2, 3]) {
                assert!(started.elapsed() < Duration::from_secs(100), "{which} {value:#x}");
                arrived.clear();
                for i in 1..=3u8 {
                    let _ = mad.try_send(READER, Port::Fm, Priority::Low, &[i]);
                }
                while reader.poll_packet(Port::Fm, |from, _, bytes| {
                    assert_eq!(from, MAD);
                    arrived.extend_from_slice(bytes);
                }) {}
                reader.sleep(Duration::from_millis(1), &mut || false);
            }
        }
    }
}

#[test]
fn a_packet_with_a_wrong_first_word_is_lost_and_the_next_is_not() {
    let [.., slot] = low_ring();
    for value in [1 | 5 << 32, 1 | u64::MAX << 32, 77, 0] {
        let (ends, region) = job(2);
        for i in 0..2 {
            let sent = ends[0].try_send(READER, Port::Fm, Priority::Low, &[i]);
            assert_eq!(sent, TrySend::Sent);
        }
        region.word(slot).store(value, Ordering::SeqCst);
        let (seen, faults) = until_a_fault(&ends[1]);
        assert_eq!(seen, [[1]]);
        assert_eq!(faults.len(), 1);
        assert!(
            matches!(faults[0].error, FabricError::Corrupt { .. }),
            "{faults:?}"
        );
    }
}

/// A process is killed after it has claimed a place and before it has filled it.
#[test]
fn what_a_dead_sender_left_does_not_stop_the_queue() {
    let [tail, ..] = low_ring();
    let (ends, region) = job(2);
    let reader = &ends[READER.index()];
    let mad = region::process_offset(MAD.0, 2);
    let claim = RingId::new(READER, lane(Port::Fm, Priority::Low)).claimed(0);
    region
        .word(mad + offset_of!(Process, claim))
        .store(claim, Ordering::SeqCst);
    region.word(tail).store(1, Ordering::SeqCst);
    let sent = reader.try_send(READER, Port::Fm, Priority::Low, b"behind");
    assert_eq!(sent, TrySend::Sent);
    // While it lives, it is waited for.
    for _ in 0..30 {
        for _ in 0..2000 {
            assert!(!reader.poll_packet(Port::Fm, |_, _, _| panic!("not yet")));
        }
        reader.sleep(Duration::from_millis(10), &mut || false);
    }
    assert_eq!(reader.take_faults().0.len(), 0);
    let pid = mad + offset_of!(Process, identity) + offset_of!(Identity, pid);
    region.word32(pid).store(GONE, Ordering::SeqCst);
    let (seen, faults) = until_a_fault(reader);
    assert_eq!(seen, [b"behind"]);
    let [Fault { peer: MAD, error }] = &faults[..] else {
        panic!("{faults:?}");
    };
    assert!(matches!(error, FabricError::PeerDead { .. }), "{error}");
}
#[test]
fn lists_of_many_processes() {
    const SIZE: u32 = 70;
    let (ends, _region) = job(SIZE);
    let permission = |peer: u32| match peer {
        0 | 31 | 63 => Some(Permission::ReadWrite),
        1 | 32 | 64 | 69 => Some(Permission::Read),
        _ => None,
    };
    let list = (0..SIZE)
        .filter_map(|p| permission(p).map(|granted| (Peer(p), granted)))
        .collect();
    // The last of all entries, so that lists do not run into each other.
    let mut segments = Vec::new();
    for i in 0..SEGMENTS as u32 - 1 {
        let nobody = Access::Only(vec![]);
        segments.push(ends[5].export(SegmentId(100 + i), 64, nobody).unwrap());
    }
    let _last = ends[5].export(ID, 64, Access::Only(list)).unwrap();
    let one_more = ends[5].export(SegmentId(1), 64, Access::Everyone(Permission::Read));
    assert!(matches!(
        one_more,
        Err(FabricError::Unsupported { peer: Peer(5), .. })
    ));
    for (peer, end) in ends.iter().enumerate() {
        let may = |wanted| end.import(Peer(5), ID, 64, wanted).is_ok();
        let granted = permission(peer as u32);
        assert_eq!(may(Permission::Read), granted.is_some(), "process {peer}");
        assert_eq!(may(Permission::ReadWrite), granted == Some(Permission::ReadWrite));
        assert!(end.import(Peer(5), SegmentId(100), 64, Permission::Read).is_err());
    }
    let stranger = Access::Only(vec![(Peer(SIZE), Permission::Read)]);
    let error = ends[6].export(ID, 64, stranger).err();
    let size = SIZE;
    assert_eq!(
        error,
        Some(FabricError::NoSuchPeer {
            peer: Peer(SIZE),
            size
        })
    );
    // Of two entries for one process the first counts.
    let twice = vec![(Peer(2), Permission::Read), (Peer(2), Permission::ReadWrite)];
    let _segment = ends[6].export(ID, 64, Access::Only(twice)).unwrap();
    assert!(ends[2].import(Peer(6), ID, 64, Permission::Read).is_ok());
    assert!(ends[2].import(Peer(6), ID, 64, Permission::ReadWrite).is_err());
}

#[test]
fn a_reader_has_no_writable_pages() {
    let (ends, _region, segment) = lively();
    let reader = ends[1].import(MAD, ID, 4096, Permission::Read).unwrap();
    segment.store(64, 5);
    assert_eq!(reader.load(64), 5);
    assert_eq!(
        reader.put_word(64, 6),
        Err(FabricError::Denied { peer: MAD, id: ID.0 })
    );
    // The kernel agrees.
    let start = format!("{:x}-", std::ptr::from_ref(reader.word(0)).addr());
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.starts_with(&start)).unwrap();
    assert!(line.contains(" r--s "), "{line}");
}

#[test]
fn regions_that_do_not_fit_are_refused() {
    let file = sealed_memory(c"farpost-test", region_bytes(4)).unwrap();
    let first = Shm::attach(config(&file, 0, 4)).unwrap();
    let refused = |config| Shm::attach(config).err().unwrap().to_string();
    let other_size = refused(config(&file, 1, 3));
    assert!(other_size.contains("number of processes"), "{other_size}");
    refused(config(&file, 4, 4));
    refused(ShmConfig {
        len: 4096,
        ..config(&file, 1, 4)
    });
    // Being refused changed nothing.
    let second = Shm::attach(config(&file, 1, 4)).unwrap();
    assert_eq!(
        first.try_send(Peer(1), Port::Fm, Priority::High, b"x"),
        TrySend::Sent
    );
    assert!(second.poll_packet(Port::Fm, |from, _, _| assert_eq!(from, Peer(0))));
}

#[test]
fn who_leaves_is_gone() {
    let (mut ends, _region, segment) = lively();
    let before = import(&ends).unwrap();
    drop(segment);
    drop(ends.remove(0));
    let left = ends[0].import(MAD, ID, 64, Permission::Read).err();
    assert!(
        matches!(left, Some(FabricError::PeerDead { peer: MAD, .. })),
        "{left:?}"
    );
    // What was imported stays.
    before.store(0, 1);
    assert_eq!(before.load(0), 1);
}

#[test]
fn who_watches_sees_registers_and_rails_and_is_told_of_another_layout() {
    let file = sealed_memory(c"farpost-test", region_bytes(2)).unwrap();
    let watch = || super::Watch::open(file.as_fd(), 0, 2);
    // Before anybody has attached there is nothing.
    assert_eq!(watch().unwrap().register(MAD, Register::FmRejected), 0);
    let end = Shm::attach(config(&file, MAD.0, 2)).unwrap();
    end.add_register(MAD, Register::FmRejected, 2);
    end.add_register(MAD, Register::FmRejected, 3);
    // An agent's for a process that it acts for.
    end.set_register(READER, Register::PortalsAgentDropped, 1);
    let rail = |name: &str, up| RailFigures {
        name: name.into(),
        up,
        sent: 7,
        ..RailFigures::default()
    };
    let rails = [rail("r0", 1), rail("r1", 0)];
    end.show_rails(&rails);
    let seen = watch().unwrap();
    assert_eq!(seen.register(MAD, Register::FmRejected), 5);
    assert_eq!(seen.register(READER, Register::FmRejected), 0);
    assert_eq!(seen.register(READER, Register::PortalsAgentDropped), 1);
    assert_eq!((seen.rails(MAD), seen.rails(READER)), (rails.to_vec(), vec![]));
    // More than there is room for: the first.
    end.show_rails(&vec![rail("many", 1); RAILS_SHOWN + 1]);
    assert_eq!(watch().unwrap().rails(MAD).len(), RAILS_SHOWN);
    let region = Mapping::new(file.as_fd(), 0, region_bytes(2), Permission::ReadWrite).unwrap();
    region.word(0).store(region::MAGIC - (1 << 56), Ordering::SeqCst);
    let error = watch().err().expect("another layout").to_string();
    assert!(
        error.contains("layout 4") && error.contains("layout 5"),
        "{error}"
    );
}
