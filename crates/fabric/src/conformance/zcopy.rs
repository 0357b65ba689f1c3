//! Bytes that follow a line.

use super::{End, Harness, Outcome, pattern};
use crate::{Access, Fabric, LocalMemory, Permission, Remote, RemoteMemory, SegmentId, Topology, ZeroCopy};

const CANNOT: &str = "nothing follows a line on this fabric";

/// Whether bytes may follow lines between all ends; they agree on the answer.
async fn all_can<F: Fabric>(end: &End<F>) -> bool {
    for _ in 0..1000 {
        if end.fabric.zcopy_room(end.next()) > 0 {
            break;
        }
        end.fabric.progress();
        end.pause().await;
    }
    let can = end.fabric.zcopy_room(end.next()) > 0;
    end.post(16 + end.me() as usize, u64::from(can));
    end.barrier().await;
    (0..end.fabric.size() as usize).all(|i| end.posted(16 + i) == 1)
}

/// Bytes that follow a line arrive whatever is done with them, and whenever; memory that was asked back may be used.
pub fn follow_their_lines<H: Harness>(harness: &H) -> Outcome {
    const LENS: [usize; 5] = [1, 100, 4096, 65_537, 100_001];
    const LINES: usize = 64 * LENS.len() * 5;
    let skipped = harness.run(2, async |end: &End<H::Fabric>| {
        let access = Access::Everyone(Permission::ReadWrite);
        let mine = end.fabric.export(SegmentId(1), LINES, access).unwrap();
        let theirs = end.import(end.next(), SegmentId(1), LINES).await;
        theirs.fence().unwrap();
        if !all_can(end).await {
            end.skip();
            return;
        }
        let (fabric, other) = (&end.fabric, end.next());
        let mut at = 0;
        // Where there are several rails, only what does not gain by going by all of them.
        let most = if end.fabric.rails(end.next()) > 1 {
            100_000
        } else {
            1 << 20
        };
        for len in LENS.into_iter().filter(|len| *len <= most) {
            for way in 0..5 {
                while fabric.zcopy_room(other) < len {
                    fabric.progress();
                    end.pause().await;
                }
                let mut data = pattern(u64::from(end.me()) * 1000 + at as u64, len);
                // SAFETY: alive until it is sent or released.
                let number =
                    unsafe { fabric.send_zcopy(other, data.as_mut_ptr().expose_provenance(), len) }.unwrap();
                theirs
                    .put_line(at, &[1, u64::from(number), len as u64, 0, 0, 0, 0, 0])
                    .unwrap();
                if way % 2 == 0 {
                    fabric.release_zcopy(other, number);
                    std::hint::black_box(&mut data).fill(0xdd);
                }
                while mine.load(at) == 0 {
                    fabric.progress();
                    end.pause().await;
                }
                let line = mine.load_line(at);
                let (theirs, its_len) = (line[1] as u32, line[2] as usize);
                assert_eq!(its_len, len);
                let expected = pattern(u64::from(other.0) * 1000 + at as u64, len);
                let mut to = vec![0xee; len + 2];
                let place = to.as_mut_ptr().expose_provenance() + 1;
                if way > 2 {
                    // Late: it may be here, wholly or in part.
                    for _ in 0..20 * (way - 2) {
                        fabric.progress();
                        end.pause().await;
                    }
                }
                match way {
                    0 | 3 => {
                        // SAFETY: alive until it has landed.
                        unsafe { fabric.land_zcopy(other, theirs, place, len) }.unwrap();
                        // SAFETY: never lent, since it is refused.
                        let again = unsafe { fabric.land_zcopy(other, theirs, place, len) };
                        assert!(again.is_err(), "claimed twice");
                        while !fabric.zcopy_landed(other, theirs).unwrap() {
                            fabric.progress();
                            end.pause().await;
                        }
                        let to = std::hint::black_box(&to);
                        assert!(to[1..=len] == expected[..], "{len} bytes, way {way}");
                        assert_eq!((to[0], to[len + 1]), (0xee, 0xee));
                    }
                    1 | 4 => loop {
                        let mut seen = false;
                        let taken = fabric.take_zcopy(other, theirs, len, &mut |bytes| {
                            assert!(bytes == &expected[..], "{len} bytes, way {way}");
                            seen = true;
                        });
                        assert_eq!(taken, Ok(seen));
                        if seen {
                            break;
                        }
                        fabric.progress();
                        end.pause().await;
                    },
                    _ => fabric.drop_zcopy(other, theirs, len),
                }
                if way % 2 != 0 {
                    while !fabric.zcopy_sent(other, number).unwrap() {
                        fabric.progress();
                        end.pause().await;
                    }
                    assert!(
                        std::hint::black_box(&data) == &pattern(u64::from(end.me()) * 1000 + at as u64, len)
                    );
                }
                at += 64;
            }
        }
        // SAFETY: never lent, since there is no such payload.
        let old = unsafe { fabric.land_zcopy(other, 3, 4096, 1) };
        assert!(old.is_err(), "long over");
        end.barrier().await;
    });
    Outcome::unless_skipped(skipped, CANNOT)
}
