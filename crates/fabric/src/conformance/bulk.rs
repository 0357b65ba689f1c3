//! Bulk transfer.

use super::{End, Harness, Outcome, pattern};
use crate::{
    BulkTransfer, Completion, Descriptor, Direction, Fabric, FabricError, PIECES, Peer, Piece, Result,
};

const CANNOT: &str = "this fabric cannot transfer between these processes";

/// Run a transfer to its end. `local` is alive meanwhile.
async fn transfer<F: Fabric>(end: &End<F>, descriptor: Descriptor) -> Result<()> {
    // SAFETY: the callers' buffers outlive this call and are used by nobody else.
    match unsafe { end.fabric.submit(&descriptor) }? {
        Completion::Done => Ok(()),
        Completion::Pending(ticket) => {
            while !end.fabric.poll_transfer(ticket)? {
                end.pause().await;
            }
            Ok(())
        }
    }
}

/// Whether every end can transfer with the next; they agree on the answer.
async fn all_can<F: Fabric>(end: &End<F>) -> bool {
    // Only who has attached can be probed.
    end.barrier().await;
    let can = end.fabric.can_transfer(end.next());
    end.post(16 + end.me() as usize, u64::from(can));
    end.barrier().await;
    (0..end.fabric.size() as usize).all(|i| end.posted(16 + i) == 1)
}

/// Bytes go both ways between user memories, of any length and alignment, and nothing around them changes.
pub fn get_and_put<H: Harness>(harness: &H) -> Outcome {
    const LEN: usize = 300_000;
    let skipped = harness.run(2, async |end: &End<H::Fabric>| {
        let mut memory = pattern(u64::from(end.me()), LEN);
        let base = memory.as_mut_ptr().expose_provenance();
        // SAFETY: the memory is alive until it is withdrawn, and not used by anybody else until then.
        let key = unsafe { end.fabric.expose(end.next(), base, LEN, true) }.unwrap();
        end.post(end.me() as usize, end.fabric.exposed_base(end.next(), base));
        end.post(8 + end.me() as usize, key);
        if !all_can(end).await {
            end.skip();
            return;
        }
        if end.me() == 0 {
            let (theirs, key) = (end.posted(1) as usize, end.posted(9));
            let mut model = pattern(1, LEN);
            for (i, len) in [0, 1, 7, 4096, 4097, 100_000].into_iter().enumerate() {
                let at = 1 + 1000 * i;
                let mut here = vec![0xEE; len + 2];
                let local = here.as_mut_ptr().expose_provenance() + 1;
                let mut d = Descriptor {
                    peer: Peer(1),
                    direction: Direction::Get,
                    local,
                    remote: theirs + at,
                    key,
                    len,
                };
                transfer(end, d).await.unwrap();
                let here = std::hint::black_box(here);
                assert!(here[1..=len] == model[at..at + len], "get of {len} bytes");
                assert_eq!((here[0], here[len + 1]), (0xEE, 0xEE));
                let mut there = pattern(len as u64 + 5, len);
                (d.direction, d.local) = (Direction::Put, there.as_mut_ptr().expose_provenance());
                transfer(end, d).await.unwrap();
                model[at..at + len].copy_from_slice(&there);
            }
            end.barrier().await;
        } else {
            end.barrier().await;
            end.fabric.withdraw(key);
            let mut model = pattern(1, LEN);
            for (i, len) in [0, 1, 7, 4096, 4097, 100_000].into_iter().enumerate() {
                let at = 1 + 1000 * i;
                model[at..at + len].copy_from_slice(&pattern(len as u64 + 5, len));
            }
            assert!(std::hint::black_box(&memory) == &model);
        }
    });
    Outcome::unless_skipped(skipped, CANNOT)
}

/// An address that is none of the peer's is an error that names the peer, in either direction.
pub fn bad_address_is_an_error<H: Harness>(harness: &H) -> Outcome {
    let skipped = harness.run(2, async |end: &End<H::Fabric>| {
        if !all_can(end).await {
            end.skip();
            return;
        }
        let mut here = vec![1; 64];
        // Where positions are counted from what is exposed, that is so little that they all lie outside.
        let mut little = [0u8; 32];
        let address = little.as_mut_ptr().expose_provenance();
        // SAFETY: the array is alive until it is withdrawn, and not used by anybody else until then.
        let key = unsafe { end.fabric.expose(end.next(), address, little.len(), true) }.unwrap();
        end.post(8 + end.me() as usize, key);
        end.barrier().await;
        for remote in [0, 4096, usize::MAX - 63, 1 << 63] {
            for direction in [Direction::Get, Direction::Put] {
                let d = Descriptor {
                    peer: end.next(),
                    direction,
                    local: here.as_mut_ptr().expose_provenance(),
                    remote,
                    key: end.posted(8 + end.next().index()),
                    len: 64,
                };
                let error = transfer(end, d).await.unwrap_err();
                assert!(
                    matches!(&error, FabricError::Corrupt { peer, .. } if *peer == end.next()),
                    "{error}"
                );
            }
        }
        end.barrier().await;
        end.fabric.withdraw(key);
        assert_eq!(std::hint::black_box(little), [0; 32]);
    });
    Outcome::unless_skipped(skipped, CANNOT)
}

/// Who cannot be reached is said before and at the attempt.
pub fn impossible_is_refused<H: Harness>(harness: &H) -> Outcome {
    harness.run(1, async |end: &End<H::Fabric>| {
        let stranger = Peer(1);
        assert!(!end.fabric.can_transfer(stranger));
        let d = Descriptor {
            peer: stranger,
            direction: Direction::Get,
            local: 0,
            remote: 0,
            len: 0,
            key: 0,
        };
        let error = transfer(end, d).await.unwrap_err();
        assert_eq!(
            error,
            FabricError::NoSuchPeer {
                peer: stranger,
                size: 1
            }
        );
    });
    Outcome::Held
}

/// Lists of pieces that are cut differently on both sides; a list with a bad address is an error; who has no such transfers
/// says so.
pub fn pieces<H: Harness>(harness: &H) -> Outcome {
    const LEN: usize = 300_000;
    harness.run(2, async |end: &End<H::Fabric>| {
        let mut memory = pattern(u64::from(end.me()), LEN);
        let base = memory.as_mut_ptr().expose_provenance();
        end.post(end.me() as usize, base as u64);
        end.barrier().await;
        let peer = end.next();
        let mut here = vec![0; LEN];
        let local = here.as_mut_ptr().expose_provenance();
        let theirs = end.posted(peer.index()) as usize;
        let cut = |base: usize, each: usize, step: usize| -> Vec<Piece> {
            let piece = |i| Piece {
                address: base + i * step,
                len: each,
            };
            (0..PIECES).map(piece).collect()
        };
        // SAFETY: `here` has room for all of them and is used by nobody else; so has the peer's memory, which it leaves alone.
        let run = |direction, local: &[Piece], remote: &[Piece]| unsafe {
            end.fabric.transfer_pieces(peer, direction, local, remote)
        };
        if !end.fabric.can_transfer_pieces(peer) {
            let refused = run(Direction::Get, &[], &[]);
            assert!(
                matches!(refused, Err(FabricError::Unsupported { .. })),
                "{refused:?}"
            );
            end.barrier().await;
            return;
        }
        let (gaps, one) = (
            cut(theirs, 1000, 1100),
            [Piece {
                address: local,
                len: PIECES * 1000,
            }],
        );
        run(Direction::Get, &one, &gaps).unwrap();
        let model = pattern(u64::from(peer.0), LEN);
        for (i, part) in std::hint::black_box(&here).chunks(1000).take(PIECES).enumerate() {
            assert!(part == &model[i * 1100..i * 1100 + 1000], "piece {i}");
        }
        let mut wrong = gaps.clone();
        wrong[PIECES / 2].address = 4096;
        let error = run(Direction::Get, &one, &wrong).unwrap_err();
        assert!(
            matches!(&error, FabricError::Corrupt { peer: of, .. } if *of == peer),
            "{error}"
        );
        end.barrier().await;
        if end.me() == 0 {
            here.fill(7);
            let (from, to) = (
                cut(local, 10, 20),
                [Piece {
                    address: theirs + 1,
                    len: PIECES * 10,
                }],
            );
            run(Direction::Put, &from, &to).unwrap();
        }
        end.barrier().await;
        if end.me() == 1 {
            let mut model = pattern(1, LEN);
            model[1..=PIECES * 10].fill(7);
            assert!(std::hint::black_box(&memory) == &model);
        }
    });
    Outcome::Held
}
