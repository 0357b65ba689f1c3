//! Error status, counters, topology.

use super::{End, Harness, Outcome};
use crate::{Counter, Counters, Distance, ErrorStatus, Fabric, FabricError, Fault, Peer, Register, Topology};
use strum::IntoEnumIterator;

/// Faults stay until read, the oldest are kept, the rest counted; each process has its own.
pub fn faults<H: Harness>(harness: &H) -> Outcome {
    harness.run(2, async |end: &End<H::Fabric>| {
        let fault = |value: u64| Fault {
            peer: end.next(),
            error: FabricError::Corrupt {
                peer: end.next(),
                what: "a test",
                value,
            },
        };
        assert_eq!(end.fabric.take_faults(), (vec![], 0));
        end.barrier().await;
        if end.me() == 0 {
            end.fabric.record_fault(fault(1));
            end.fabric.record_fault(fault(2));
        }
        end.barrier().await;
        let expected = if end.me() == 0 {
            vec![fault(1), fault(2)]
        } else {
            vec![]
        };
        assert_eq!(end.fabric.take_faults(), (expected, 0));
        assert_eq!(end.fabric.take_faults(), (vec![], 0));
        for i in 0..10_000 {
            end.fabric.record_fault(fault(i));
        }
        let (kept, lost) = end.fabric.take_faults();
        assert!(!kept.is_empty() && lost > 0);
        assert_eq!(kept.len() as u64 + lost, 10_000);
        assert!(kept.iter().enumerate().all(|(i, f)| *f == fault(i as u64)));
        let mut all = 10_000;
        if end.me() == 0 {
            all += 2;
        }
        let counted = end.fabric.counter(end.fabric.me(), end.next(), Counter::Faults);
        assert_eq!(counted, all);
        // A fault blamed on nobody known is kept all the same.
        let stranger = Peer(77);
        end.fabric.record_fault(Fault {
            peer: stranger,
            error: FabricError::NoSuchPeer {
                peer: stranger,
                size: 2,
            },
        });
        assert_eq!(end.fabric.take_faults().0.len(), 1);
    });
    Outcome::Held
}

/// Every counter of every process about every peer is one of its own, and all of its host can watch.
pub fn counters<H: Harness>(harness: &H) -> Outcome {
    const SIZE: u32 = 3;
    let value = |of: u32, peer: u32, counter: Counter| {
        u64::from(of) * 1000 + u64::from(peer) * 100 + counter as u64 + 1
    };
    harness.run(SIZE, async |end: &End<H::Fabric>| {
        for peer in 0..SIZE {
            for counter in Counter::iter() {
                end.fabric
                    .count(Peer(peer), counter, value(end.me(), peer, counter) - 1);
                end.fabric.count(Peer(peer), counter, 1);
            }
        }
        end.barrier().await;
        for of in 0..SIZE {
            for peer in 0..SIZE {
                for counter in Counter::iter() {
                    let seen = end.fabric.counter(Peer(of), Peer(peer), counter);
                    // Those of other hosts may be out of sight.
                    if end.fabric.distance(Peer(of)) == Distance::Far && seen == 0 {
                        continue;
                    }
                    assert_eq!(seen, value(of, peer, counter), "{counter:?} of {of} about {peer}");
                }
            }
        }
        end.barrier().await;
        // Registers are apart, and all of a host can look; not every fabric keeps them.
        let register = |of: u32| end.fabric.register(Peer(of), Register::JamRefused);
        end.fabric.set_register(end.fabric.me(), Register::JamRefused, 7);
        end.fabric
            .add_register(end.fabric.me(), Register::JamRefused, u64::from(end.me()));
        end.barrier().await;
        for of in 0..SIZE {
            assert!(
                [0, 7 + u64::from(of)].contains(&register(of)),
                "{} of {of}",
                register(of)
            );
        }
        assert_eq!(end.fabric.register(end.fabric.me(), Register::FmReturned), 0);
        // Counters wrap; nothing overflows.
        end.fabric.count(end.next(), Counter::Retries, u64::MAX);
        let seen = end.fabric.counter(end.fabric.me(), end.next(), Counter::Retries);
        assert_eq!(seen, value(end.me(), end.next().0, Counter::Retries) - 1);
    });
    Outcome::Held
}

/// Hosts, distances and rails fit together.
pub fn topology<H: Harness>(harness: &H) -> Outcome {
    const SIZE: u32 = 4;
    harness.run(SIZE, async |end: &End<H::Fabric>| {
        let (fabric, me) = (&end.fabric, end.fabric.me());
        assert_eq!(fabric.size(), SIZE);
        assert!(!fabric.name().is_empty());
        let mut together = 0;
        for peer in (0..SIZE).map(Peer) {
            assert!(fabric.host_of(peer) < fabric.hosts());
            assert!(fabric.rails(peer) > 0);
            let same_host = fabric.host_of(peer) == fabric.host_of(me);
            let distance = match (peer == me, same_host) {
                (true, _) => Distance::Same,
                (false, true) => Distance::Host,
                (false, false) => Distance::Far,
            };
            assert_eq!(fabric.distance(peer), distance);
            together += u32::from(same_host);
            end.post(me.index() * 8 + peer.index(), u64::from(fabric.host_of(peer)));
        }
        let (cores, processes) = fabric.cores_and_processes();
        assert!(cores > 0);
        assert_eq!(processes, together);
        end.barrier().await;
        for peer in 0..SIZE as usize {
            assert_eq!(
                end.posted(peer),
                end.posted(me.index() * 8 + peer),
                "all see one map"
            );
        }
    });
    Outcome::Held
}
