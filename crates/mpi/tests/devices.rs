//! What a peer's message says about where it is to go is not believed: each wrong one is refused with a sentence that names the
//! peer and the value, nothing is written, and the next good one arrives.

use farpost_fabric::{
    Access, ErrorStatus, Fabric, FabricError, LocalMemory, PacketQueue, Peer, Permission, Port, Priority,
    Remote, RemoteMemory, SegmentId, TrySend,
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
