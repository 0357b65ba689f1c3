//! What a peer's message says about where it is to go is not believed: each wrong one is refused with a sentence that names the
//! peer and the value, nothing is written, and the next good one arrives.

use farpost_fabric::{
    Access, BulkTransfer, Completion, Descriptor, Direction, ErrorStatus, Fabric, FabricError, Fault,
    LocalMemory, PacketQueue, Peer, Permission, Port, Priority, Remote, RemoteMemory, SegmentId, Ticket,
    TrySend,
};
use farpost_mpi::carrier::{Carried, Device, DeviceConfig, DeviceTunables};
use farpost_shm::conformance::shm_ends;
use farpost_shm::{Shm, ShmTunables};
use std::rc::Rc;
use std::time::Duration;

const ID: SegmentId = SegmentId(0x40_0007);
const ALL: Access = Access::Everyone(Permission::ReadWrite);

fn two(device: Device) -> (Carried<Shm>, Carried<Shm>) {
    let config = DeviceConfig {
        device,
        tunables: DeviceTunables {
            jam_local: 0,
            ..DeviceTunables::default()
        },
        ..DeviceConfig::default()
    };
    let ends = shm_ends(2, &ShmTunables::default());
    let mut ends = ends.into_iter().map(|end| Carried::new(Rc::new(end), &config));
    (ends.next().unwrap(), ends.next().unwrap())
}

fn settle(a: &Carried<Shm>, b: &Carried<Shm>) {
    for _ in 0..2000 {
        a.progress();
        b.progress();
    }
}

#[test]
fn puts_arrive_in_order_whatever_their_size() {
    for device in [Device::Fm, Device::Jam] {
        let (a, b) = two(device);
        assert!(!a.maps(Peer(1)) && a.common(Peer(1)).is_none());
        let memory = b.export(ID, 1 << 20, ALL).unwrap();
        let to = a.import(Peer(1), ID, 1 << 20, Permission::ReadWrite).unwrap();
        let bytes: Vec<u8> = (0..300_001).map(|i| (i * 7 + (i >> 9)) as u8).collect();
        // More than the layer has room for: it waits in the outbox.
        to.put(8 + 3, &bytes).unwrap();
        to.order().unwrap();
        to.put_word(0, 1).unwrap();
        let mut seen = false;
        for _ in 0..1_000_000 {
            a.progress();
            b.progress();
            if memory.load(0) == 1 {
                seen = true;
                break;
            }
        }
        assert!(seen, "{device:?}: the word never arrived");
        let mut got = vec![0; bytes.len()];
        memory.read(8 + 3, &mut got);
        assert!(got == bytes, "{device:?}");
        assert!(a.flush(Duration::from_secs(5), |_| false));
    }
}

#[test]
fn what_a_put_says_is_checked() {
    for device in [Device::Fm, Device::Jam] {
        let (a, b) = two(device);
        let good = b.export(ID, 4096, ALL).unwrap();
        let own = SegmentId(ID.0 + 1);
        b.export(own, 4096, Access::Only(vec![(Peer(1), Permission::ReadWrite)]))
            .unwrap();
        let read = SegmentId(ID.0 + 2);
        b.export(read, 4096, Access::Everyone(Permission::Read)).unwrap();
        let never = SegmentId(0x3f_1234);
        let cases = [
            (never, 0, "0x3f1234"),
            (own, 0, "0x400008"),
            (read, 64, "0x400009"),
            (ID, 4096 - 8, "leave a segment"),
            (ID, 1 << 31, "leave a segment"),
        ];
        for (id, offset, says) in cases {
            let to = a.import(Peer(1), id, usize::MAX, Permission::ReadWrite).unwrap();
            to.put(offset, &[0xee; 56]).unwrap();
            settle(&a, &b);
            let (faults, _) = b.take_faults();
            assert_eq!(faults.len(), 1, "{device:?} {id:?}");
            assert_eq!(faults[0].peer, Peer(0));
            let text = faults[0].error.to_string();
            assert!(text.contains(says), "{device:?}: {text}");
            // And what is right still arrives.
            let word = 0x100 + offset as u64;
            to_good(&a).put_word(128, word).unwrap();
            settle(&a, &b);
            assert_eq!(good.load(128), word);
            assert_eq!(good.load(4096 - 8), 0, "nothing of it was written");
        }
        b.unpublish(ID).unwrap();
        to_good(&a).put_word(128, 1).unwrap();
        settle(&a, &b);
        assert_eq!(b.take_faults().0.len(), 1, "{device:?}: withdrawn");
        assert_ne!(good.load(128), 1);
    }
}

fn to_good(a: &Carried<Shm>) -> <Carried<Shm> as RemoteMemory>::Import {
    a.import(Peer(1), ID, 4096, Permission::ReadWrite).unwrap()
}

#[test]
fn garbage_is_refused_and_puts_past_the_end_do_not_leave() {
    for device in [Device::Fm, Device::Jam] {
        let (a, b) = two(device);
        let good = b.export(ID, 4096, ALL).unwrap();
        for garbage in [&[0u8; 0][..], &[1; 7], &[0xff; 16], &[3; 176]] {
            let sent = a.inner().try_send(Peer(1), Port::Device, Priority::Low, garbage);
            assert_eq!(sent, TrySend::Sent);
            settle(&a, &b);
            let (faults, _) = b.take_faults();
            assert_eq!(
                (faults.len(), faults[0].peer),
                (1, Peer(0)),
                "{device:?} {garbage:?}"
            );
        }
        let to = to_good(&a);
        let past = to.put(4090, &[0; 8]);
        assert!(
            matches!(past, Err(FabricError::OutOfRange { end: 4098, .. })),
            "{past:?}"
        );
        to.put_word(0, 5).unwrap();
        settle(&a, &b);
        assert_eq!(good.load(0), 5, "{device:?}");
    }
}

/// Let `to` get `len` bytes at `remote` of what peer 0 exposed under `key`.
fn get(b: &Carried<Shm>, key: u64, remote: usize, to: &mut [u8], len: usize) -> Ticket {
    let descriptor = Descriptor {
        peer: Peer(0),
        direction: Direction::Get,
        local: to.as_mut_ptr().expose_provenance(),
        remote,
        key,
        len,
    };
    // SAFETY: the caller keeps `to`, and looks at it after the transfer only.
    match unsafe { b.submit(&descriptor) }.unwrap() {
        Completion::Pending(ticket) => ticket,
        Completion::Done => panic!("nothing has moved yet"),
    }
}

fn expose(a: &Carried<Shm>, bytes: &[u8]) -> u64 {
    assert!(a.can_transfer(Peer(1)));
    let address = bytes.as_ptr().expose_provenance();
    assert_eq!(a.exposed_base(Peer(1), address), 0);
    // SAFETY: the caller keeps `bytes` until it withdraws the key.
    unsafe { a.expose(Peer(1), address, bytes.len(), false) }.unwrap()
}

#[test]
fn long_messages_by_fast_messages_go_from_buffer_to_buffer() {
    let (a, b) = two(Device::Fm);
    let bytes: Vec<u8> = (0..70_001).map(|i| (i * 11 + (i >> 8)) as u8).collect();
    // Several at once, of every length about a piece; and a part of one.
    let lens = [1, 119, 120, 121, 240, 70_001];
    let keys = lens.map(|len| expose(&a, &bytes[..len]));
    let mut buffers = lens.map(|len| vec![0; len]);
    let mut tickets: Vec<_> = (0..lens.len())
        .map(|at| Some(get(&b, keys[at], 0, &mut buffers[at], lens[at])))
        .collect();
    let part = expose(&a, &bytes);
    let mut middle = vec![0; 500];
    tickets.push(Some(get(&b, part, 1234, &mut middle, 500)));
    for _ in 0..100_000 {
        a.progress();
        b.progress();
        for ticket in &mut tickets {
            if ticket.is_some_and(|ticket| b.poll_transfer(ticket).unwrap()) {
                *ticket = None;
            }
        }
    }
    assert!(tickets.iter().all(Option::is_none), "some never ended");
    for (buffer, len) in buffers.iter().zip(lens) {
        assert!(buffer[..] == bytes[..len], "{len}");
    }
    assert!(middle[..] == bytes[1234..1734]);
    keys.iter().for_each(|key| a.withdraw(*key));
    a.withdraw(part);
    assert!(a.take_faults().0.is_empty() && b.take_faults().0.is_empty());
}

#[test]
fn what_a_get_says_is_checked() {
    let (a, b) = two(Device::Fm);
    let bytes = vec![7; 100_000];
    let ended = |ticket| {
        for _ in 0..20_000 {
            a.progress();
            b.progress();
            match b.poll_transfer(ticket) {
                Ok(false) => {}
                other => return other,
            }
        }
        panic!("a transfer never ended");
    };
    let mut room = vec![0; 100_001];
    // There is no such key; no fault either, for it may just have gone.
    let key = expose(&a, &bytes);
    assert!(ended(get(&b, key + 1, 0, &mut room, 10)).is_err());
    assert!(ended(get(&b, u64::MAX, 0, &mut room, 10)).is_err());
    assert!(a.take_faults().0.is_empty());
    // More than there is.
    for (remote, len) in [(0, 100_001), (1, 100_000), (usize::MAX, 1)] {
        assert!(ended(get(&b, key, remote, &mut room, len)).is_err());
        let (faults, _) = a.take_faults();
        assert_eq!((faults.len(), faults[0].peer), (1, Peer(1)));
    }
    assert!(room.iter().all(|byte| *byte == 0));
    assert_eq!(ended(get(&b, key, 0, &mut room, 100_000)), Ok(true));
    assert!(room[..100_000] == bytes[..]);
    // Once is enough.
    let ticket = get(&b, key, 0, &mut room, 1);
    settle(&a, &b);
    assert_eq!(a.take_faults().0.len(), 1);
    assert_eq!(b.poll_transfer(ticket), Ok(false));
    b.cancel_transfer(ticket);
    a.withdraw(key);
    // Of what is withdrawn in the middle no more comes, and who gets it learns that.
    let key = expose(&a, &bytes);
    let ticket = get(&b, key, 0, &mut room, 100_000);
    for _ in 0..3 {
        b.progress();
        a.progress();
    }
    a.withdraw(key);
    assert!(ended(ticket).is_err());
    // What comes of a transfer that was cancelled is dropped, and the next one in its place is not mistaken for it.
    let key = expose(&a, &bytes);
    room.fill(1);
    let ticket = get(&b, key, 0, &mut room, 100_000);
    b.progress();
    a.progress();
    b.cancel_transfer(ticket);
    let other = expose(&a, &bytes[..300]);
    let mut short = vec![0; 300];
    assert_eq!(ended(get(&b, other, 0, &mut short, 300)), Ok(true));
    assert!(short[..] == bytes[..300] && room.iter().all(|byte| *byte == 1));
    settle(&a, &b);
    assert!(room.iter().all(|byte| *byte == 1));
    // And of a peer that is lost nothing is waited for.
    let key = expose(&a, &bytes);
    let ticket = get(&b, key, 0, &mut room, 100_000);
    b.record_fault(Fault {
        peer: Peer(0),
        error: FabricError::PeerDead {
            peer: Peer(0),
            why: "said so".into(),
        },
    });
    b.take_faults();
    assert!(b.poll_transfer(ticket).is_err());
}
