//! Segments on both fabrics: what is put and fenced is there, and permissions hold.
#![cfg(not(loom))]

use farpost_fabric::inproc::{Config, Network};
use farpost_fabric::{Access, Fabric, FabricError, LocalMemory, Peer, Permission, SegmentId};
use farpost_rsm::{Exported, Imported};
use farpost_shm::ShmTunables;
use farpost_shm::conformance::shm_ends;

const ID: SegmentId = SegmentId(0x50_0000);

fn exchange<F: Fabric>(owner: &F, other: &F, stranger: &F) {
    let me = other.me();
    let access = Access::Only(vec![(me, Permission::ReadWrite)]);
    let missing = Imported::connect(other, owner.me(), ID, 64, Permission::Read).err();
    assert!(
        matches!(missing, Some(FabricError::NotPublished { .. })),
        "{missing:?}"
    );

    let exported = Exported::publish(owner, ID, 8192, access.clone()).unwrap();
    assert_eq!(exported.id(), ID);
    assert!(matches!(
        Exported::publish(owner, ID, 64, access).err(),
        Some(FabricError::InUse { .. })
    ));
    let denied = Imported::connect(stranger, owner.me(), ID, 64, Permission::Read).err();
    assert!(matches!(denied, Some(FabricError::Denied { .. })), "{denied:?}");

    let writer = Imported::connect(other, owner.me(), ID, 8192, Permission::ReadWrite).unwrap();
    assert_eq!(writer.mapped().is_some(), F::MAPPED);
    for round in 0..20u8 {
        let data: Vec<u8> = (0..3000).map(|i| (i as u8).wrapping_mul(7) ^ round).collect();
        let offset = usize::from(round) * 100;
        writer.put(offset, &data).unwrap();
        writer.fence().unwrap();
        let mut seen = vec![0; data.len()];
        exported.memory().read(offset, &mut seen);
        assert!(seen == data);
        let mut fetched = vec![0; data.len()];
        writer.get(offset, &mut fetched).unwrap();
        assert!(fetched == data);
    }
    assert!(writer.put(8190, &[0; 3]).and_then(|()| writer.fence()).is_err());
    let reader = Imported::connect(other, owner.me(), ID, 64, Permission::Read).unwrap();
    assert_eq!(
        reader.put(0, &[1]).err(),
        Some(FabricError::Denied {
            peer: owner.me(),
            id: ID.0
        })
    );

    drop(exported);
    let gone = Imported::connect(other, owner.me(), ID, 64, Permission::Read).err();
    assert!(matches!(gone, Some(FabricError::NotPublished { .. })), "{gone:?}");
}

#[test]
fn segments_over_shared_memory() {
    let ends = shm_ends(3, &ShmTunables::default());
    exchange(&ends[0], &ends[1], &ends[2]);
}

#[test]
fn segments_without_mapping() {
    for seed in 0..50 {
        let ends = Network::new(3, seed, Config::default());
        assert_eq!(ends[2].me(), Peer(2));
        exchange(&ends[0], &ends[1], &ends[2]);
    }
}
