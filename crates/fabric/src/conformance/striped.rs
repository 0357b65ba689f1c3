//! Long puts and gets of imports that may use every rail: cases for fabrics that have several, beside [`run_all`](super::run_all).

use super::{End, Harness, Outcome, pattern};
use crate::{Access, LocalMemory, Peer, Permission, Remote, RemoteMemory, SegmentId};

const EVERYONE: Access = Access::Everyone(Permission::ReadWrite);
const LEN: usize = 256 << 10;

/// Long and short puts by an import that is striped, in both directions at once: all are there after the fence, and before what follows
/// `order`, and nothing else changes.
pub fn puts_and_gets<H: Harness>(harness: &H) -> Outcome {
    harness.run(2, async |end: &End<H::Fabric>| {
        let mine = end.fabric.export(SegmentId(1), LEN, EVERYONE).unwrap();
        for (round, rails) in [u32::MAX, 2].into_iter().enumerate() {
            let theirs = end.import(end.next(), SegmentId(1), LEN).await;
            theirs.stripe(rails);
            let mut rng = fastrand::Rng::with_seed(round as u64);
            let mut model = vec![0; LEN];
            let mut at = 64;
            while at < LEN - 40_000 {
                let len = match rng.u32(0..3) {
                    0 => rng.usize(1..300),
                    _ => rng.usize(10_000..36_000),
                };
                let bytes = pattern(at as u64 + round as u64, len);
                theirs.put(at, &bytes).unwrap();
                model[at..at + len].copy_from_slice(&bytes);
                if rng.bool() {
                    let mut got = vec![0; len];
                    theirs.order().unwrap();
                    theirs.get(at, &mut got).unwrap();
                    assert!(got == bytes, "round {round}: {len} bytes at {at}");
                }
                at += len + rng.usize(0..2000);
            }
            // What is put after `order` is seen after what was put before.
            theirs.order().unwrap();
            theirs.put_word(0, round as u64 + 1).unwrap();
            theirs.fence().unwrap();
            end.until("the word", || mine.load(0) == round as u64 + 1).await;
            let mut got = vec![0; LEN - 64];
            mine.read(64, &mut got);
            // Both ends draw the same.
            assert!(got == model[64..], "round {round}");
            end.barrier().await;
            mine.write(64, &vec![0; LEN - 64]);
            end.barrier().await;
        }
    });
    Outcome::Held
}

/// A segment withdrawn while long puts are under way: nothing of them is seen afterwards, and other segments are none the worse.
pub fn withdrawn_meanwhile<H: Harness>(harness: &H) -> Outcome {
    const ROUNDS: u32 = 2;
    harness.run(2, async |end: &End<H::Fabric>| {
        let fabric = &end.fabric;
        for round in 0..ROUNDS {
            let ids = [SegmentId(10 + round), SegmentId(100 + round)];
            if end.me() == 0 {
                let memories = ids.map(|id| {
                    let memory = fabric.allocate(LEN).unwrap();
                    fabric.publish(id, &memory, EVERYONE).unwrap();
                    memory
                });
                end.barrier().await;
                end.until("puts under way", || memories[0].load(0) != 0).await;
                fabric.unpublish(ids[0]).unwrap();
                fabric.detach(&memories[0]).unwrap();
                memories[0].write(0, &vec![9; LEN]);
                end.barrier().await;
                end.settle();
                let mut got = vec![0; LEN];
                memories[0].read(0, &mut got);
                assert!(got == vec![9; LEN], "round {round}");
                memories[1].read(0, &mut got);
                assert!(got == vec![5; LEN], "round {round}");
                fabric.unpublish(ids[1]).unwrap();
            } else {
                let mut theirs = Vec::new();
                for id in ids {
                    let import = end.import(Peer(0), id, LEN).await;
                    import.stripe(u32::MAX);
                    theirs.push(import);
                }
                end.barrier().await;
                theirs[0].put_word(0, 1).unwrap();
                for part in 0..4 {
                    let _ = theirs[0].put(64 + part * 16_000, &[7; 20_000]);
                }
                theirs[1].put(0, &vec![5; LEN]).unwrap();
                theirs[1].fence().unwrap();
                // Once, if at all.
                let _ = theirs[0].fence();
                theirs[1].fence().unwrap();
                end.barrier().await;
            }
            end.barrier().await;
        }
    });
    Outcome::Held
}
