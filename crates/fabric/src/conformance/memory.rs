//! Remote memory, with and without mapping.

use super::{End, Harness, Outcome, panics, pattern};
use crate::{
    Access, COMMON_BYTES, Fabric, FabricError, LINE_BYTES, Line, Lines, LocalMemory, Peer, Permission,
    Remote, RemoteMemory, Result, SegmentId,
};

const EVERYONE: Access = Access::Everyone(Permission::ReadWrite);

type Import<H> = <<H as Harness>::Fabric as RemoteMemory>::Import;

/// Bytes put anywhere are there after the fence, for the owner and for a get, and nothing else changes.
pub fn put_fence_get<H: Harness>(harness: &H) -> Outcome {
    const LEN: usize = 10_000;
    harness.run(2, async |end: &End<H::Fabric>| {
        if end.me() == 0 {
            let segment = end.fabric.export(SegmentId(3), LEN, EVERYONE).unwrap();
            assert!(segment.len() >= LEN);
            let mut model = vec![0; LEN];
            for round in 0..20 {
                let (offset, bytes) = piece(round, LEN - 8);
                model[offset..offset + bytes.len()].copy_from_slice(&bytes);
                end.until("a put", || segment.load(LEN - 8) == round + 1).await;
                let mut got = vec![0; LEN - 8];
                segment.read(0, &mut got);
                assert!(got == model[..LEN - 8], "round {round}");
                segment.write(0, &[round as u8]);
                model[0] = round as u8;
                end.barrier().await;
            }
        } else {
            let import = end.import(Peer(0), SegmentId(3), LEN).await;
            for round in 0..20 {
                let (offset, bytes) = piece(round, LEN - 8);
                import.put(offset, &bytes).unwrap();
                import.fence().unwrap();
                let mut got = vec![0; bytes.len()];
                import.get(offset, &mut got).unwrap();
                assert!(got == bytes, "round {round}");
                import.put_word(LEN - 8, round + 1).unwrap();
                import.fence().unwrap();
                end.barrier().await;
                let mut first = [0];
                import.get(0, &mut first).unwrap();
                assert_eq!(first[0], round as u8);
            }
        }
    });
    Outcome::Held
}

fn piece(round: u64, limit: usize) -> (usize, Vec<u8>) {
    let mut rng = fastrand::Rng::with_seed(round);
    // From 1: byte 0 belongs to the owner.
    let offset = rng.usize(1..limit);
    let len = rng.usize(0..=(limit - offset).min(2000));
    (offset, pattern(round, len))
}

/// What was put before a fence is seen by who sees what was put after.
pub fn fence_orders<H: Harness>(harness: &H) -> Outcome {
    const DATA: usize = 64;
    const LEN: usize = DATA + 512;
    harness.run(2, async |end: &End<H::Fabric>| {
        let mine = end.fabric.export(SegmentId(1), LEN, EVERYONE).unwrap();
        let theirs = end.import(end.next(), SegmentId(1), LEN).await;
        for round in 1..=200u64 {
            if (round + u64::from(end.me())) % 2 == 0 {
                let bytes = pattern(round, 1 + round as usize % 500);
                for (i, part) in bytes.chunks(48).enumerate() {
                    theirs.put(DATA + i * 48, part).unwrap();
                }
                theirs.fence().unwrap();
                theirs.put_word(0, round).unwrap();
            } else {
                end.until("the flag", || mine.load(0) == round).await;
                let mut got = vec![0; 1 + round as usize % 500];
                mine.read(DATA, &mut got);
                assert!(got == pattern(round, got.len()), "round {round}");
            }
        }
        theirs.fence().unwrap();
    });
    Outcome::Held
}

/// Who sees the first word of a line sees the rest of it.
pub fn lines_arrive_whole<H: Harness>(harness: &H) -> Outcome {
    const LINES: usize = 300;
    const LEN: usize = LINES * LINE_BYTES;
    let line = |k: usize| std::array::from_fn(|i| (k as u64 + 1) << 8 | i as u64);
    harness.run(3, async |end: &End<H::Fabric>| {
        if end.me() == 0 {
            let segment = end.fabric.export(SegmentId(0), LEN, EVERYONE).unwrap();
            for k in 0..LINES {
                end.until("a line", || segment.load(k * LINE_BYTES) != 0).await;
                assert_eq!(segment.load_line(k * LINE_BYTES), line(k));
            }
        } else {
            let import = end.import(Peer(0), SegmentId(0), LEN).await;
            let last = (0..LINES).rev().find(|k| k % 2 + 1 == end.me() as usize).unwrap();
            for k in (0..LINES).filter(|k| k % 2 + 1 == end.me() as usize) {
                // Some wait for the next one.
                if k % 7 != 0 && k % 3 == 0 && k != last {
                    import.put_line_ahead(k * LINE_BYTES, &line(k)).unwrap();
                    continue;
                }
                import.put_line(k * LINE_BYTES, &line(k)).unwrap();
                if k % 7 == 0 {
                    end.pause().await;
                }
            }
            import.fence().unwrap();
            let mut got = [0; LINE_BYTES];
            import.get(last * LINE_BYTES, &mut got).unwrap();
            for (bytes, word) in got.chunks_exact(8).zip(line(last)) {
                assert_eq!(bytes, word.to_ne_bytes());
            }
        }
    });
    Outcome::Held
}

/// What leaves the segment is refused with the numbers, and changes nothing.
pub fn bounds<H: Harness>(harness: &H) -> Outcome {
    harness.run(2, async |end: &End<H::Fabric>| {
        let mine = end.fabric.export(SegmentId(9), 4096, EVERYONE).unwrap();
        let import = end.import(end.next(), SegmentId(9), 4096).await;
        let len = Remote::len(&import);
        assert!(len >= 4096 && len == LocalMemory::len(&mine));
        let refused = |result: Result<()>, offset: usize, end: usize| {
            assert_eq!(result, Err(FabricError::OutOfRange { offset, end, len }));
        };
        refused(import.put(len - 1, &[1, 2]), len - 1, len + 1);
        refused(import.put(len + 1, &[]), len + 1, len + 1);
        refused(import.put(usize::MAX, &[1]), usize::MAX, usize::MAX);
        refused(import.put_word(len, 1), len, len + 8);
        refused(import.put_line(len, &[1; 8]), len, len + LINE_BYTES);
        refused(import.get(len - 4, &mut [0; 5]), len - 4, len + 1);
        refused(
            import.get(usize::MAX - 7, &mut [0; 100]),
            usize::MAX - 7,
            usize::MAX,
        );
        import.put(len, &[]).unwrap();
        import.get(len, &mut []).unwrap();
        import.fence().unwrap();
        let mut all = vec![7; len];
        mine.read(0, &mut all);
        assert!(all.iter().all(|b| *b == 0));
        let longer = end
            .fabric
            .import(end.next(), SegmentId(9), len + 1, Permission::Read);
        assert_eq!(
            longer.err(),
            Some(FabricError::OutOfRange {
                offset: 0,
                end: len + 1,
                len
            })
        );
        end.barrier().await;
    });
    Outcome::Held
}

fn denied<H: Harness>(result: Result<Import<H>>, peer: Peer, id: u32) {
    assert_eq!(result.err(), Some(FabricError::Denied { peer, id }));
}

/// Access lists of any shape, and imports that may only read.
pub fn permissions<H: Harness>(harness: &H) -> Outcome {
    use Permission::{Read, ReadWrite};
    const SIZE: u32 = 5;
    harness.run(SIZE, async |end: &End<H::Fabric>| {
        let owner = Peer(0);
        // Segment 1: everyone reads. 2: nobody. 3: 1 reads, 2 and 4 read and write. 4: only 3 writes.
        let lists = [
            Access::Everyone(Read),
            Access::Only(vec![]),
            Access::Only(vec![(Peer(1), Read), (Peer(2), ReadWrite), (Peer(4), ReadWrite)]),
            Access::Only(vec![(Peer(3), ReadWrite)]),
        ];
        let kept: Vec<_> = if end.me() == 0 {
            let make = |(i, access): (usize, &Access)| {
                let segment = end.fabric.export(SegmentId(i as u32 + 1), 256, access.clone());
                segment.inspect(|s| s.store(8, 77)).unwrap()
            };
            lists.iter().enumerate().map(make).collect()
        } else {
            Vec::new()
        };
        end.barrier().await;
        if end.me() != 0 {
            for (i, access) in lists.iter().enumerate() {
                let id = i as u32 + 1;
                let ask = |permission| end.fabric.import(owner, SegmentId(id), 256, permission);
                let mine = access.of(Peer(end.me()));
                match mine {
                    None => {
                        denied::<H>(ask(Read), owner, id);
                        denied::<H>(ask(ReadWrite), owner, id);
                    }
                    Some(granted) => {
                        let reader = ask(Read).unwrap();
                        let mut got = [0; 8];
                        reader.get(8, &mut got).unwrap();
                        assert_eq!(u64::from_ne_bytes(got), 77);
                        let refusal = Err(FabricError::Denied { peer: owner, id });
                        assert_eq!(reader.put(0, &[1]), refusal);
                        assert_eq!(reader.put_word(0, 1), refusal);
                        assert_eq!(reader.put_line(0, &[1; 8]), refusal);
                        if granted == Read {
                            denied::<H>(ask(ReadWrite), owner, id);
                        } else {
                            let writer = ask(ReadWrite).unwrap();
                            writer.put_word(64 + 8 * end.me() as usize, 5).unwrap();
                            writer.fence().unwrap();
                        }
                    }
                }
            }
        }
        end.barrier().await;
        for (segment, access) in kept.iter().zip(&lists) {
            for peer in 1..SIZE {
                let writes = access.of(Peer(peer)) == Some(ReadWrite);
                assert_eq!(segment.load(64 + 8 * peer as usize), if writes { 5 } else { 0 });
            }
            assert_eq!((segment.load(0), segment.load(8)), (0, 77));
        }
    });
    Outcome::Held
}

/// Identifiers: taken, unknown, withdrawn, used again; processes that do not exist.
pub fn publishing<H: Harness>(harness: &H) -> Outcome {
    harness.run(2, async |end: &End<H::Fabric>| {
        let (fabric, peer) = (&end.fabric, end.next());
        let ask = |id: u32| fabric.import(peer, SegmentId(id), 64, Permission::ReadWrite);
        let gone = |id| Some(FabricError::NotPublished { peer, id });
        assert_eq!(ask(5).err(), gone(5));
        end.barrier().await;
        let first = fabric.export(SegmentId(5), 64, EVERYONE).unwrap();
        let again = fabric.export(SegmentId(5), 64, EVERYONE);
        assert_eq!(again.err(), Some(FabricError::InUse { id: 5 }));
        // The largest identifier is one like any other.
        let _largest = fabric.export(SegmentId(u32::MAX), 64, EVERYONE).unwrap();
        end.barrier().await;
        assert_eq!(ask(6).err(), gone(6));
        let old = ask(5).unwrap();
        ask(u32::MAX).unwrap();
        end.barrier().await;
        let me = fabric.me();
        fabric.unpublish(SegmentId(5)).unwrap();
        assert_eq!(
            fabric.unpublish(SegmentId(5)),
            Err(FabricError::NotPublished { peer: me, id: 5 })
        );
        end.barrier().await;
        assert_eq!(ask(5).err(), gone(5));
        end.barrier().await;
        let second = fabric.export(SegmentId(5), 128, EVERYONE).unwrap();
        end.barrier().await;
        // Late accesses through the old import do no harm.
        let _ = old.put_word(0, 1);
        let _ = old.fence();
        let new = ask(5).unwrap();
        new.put_word(8, 2).unwrap();
        new.fence().unwrap();
        end.barrier().await;
        assert_eq!((second.load(0), second.load(8), first.load(8)), (0, 2, 0));
        let stranger = fabric.import(Peer(2), SegmentId(5), 64, Permission::Read);
        let error = FabricError::NoSuchPeer {
            peer: Peer(2),
            size: 2,
        };
        assert_eq!(stranger.err(), Some(error));
        // Far more segments over time than any table has entries.
        for round in 0..100 {
            let segment = fabric.export(SegmentId(1000 + round), 64, EVERYONE).unwrap();
            assert_eq!(segment.load(0), 0);
            segment.store(0, u64::MAX);
            fabric.unpublish(SegmentId(1000 + round)).unwrap();
        }
    });
    Outcome::Held
}

/// A put to a segment that is withdrawn is no error of another's.
pub fn errors_are_of_one_segment<H: Harness>(harness: &H) -> Outcome {
    harness.run(2, async |end: &End<H::Fabric>| {
        let fabric = &end.fabric;
        let segments: Vec<_> = (0..2)
            .map(|id| fabric.export(SegmentId(id), 128, EVERYONE).unwrap())
            .collect();
        let theirs = [
            end.import(end.next(), SegmentId(0), 128).await,
            end.import(end.next(), SegmentId(1), 128).await,
        ];
        end.barrier().await;
        fabric.unpublish(SegmentId(0)).unwrap();
        end.barrier().await;
        let refused = theirs[0].put_word(0, 1).is_err();
        theirs[1].put_word(64, 7).unwrap();
        theirs[1].fence().unwrap();
        // Where it is one, it is told to who waits for that segment, once.
        let late = theirs[0].fence().is_err();
        theirs[0].fence().unwrap();
        assert!(!(refused && late));
        theirs[1].fence().unwrap();
        end.barrier().await;
        assert_eq!(segments[1].load(64), 7);
    });
    Outcome::Held
}

/// Who finds a segment finds in it what its owner wrote first, however early it looks.
pub fn found_written<H: Harness>(harness: &H) -> Outcome {
    const ROUNDS: u32 = 40;
    const WRITTEN: u64 = 0x7772_6974_7465_6e21;
    harness.run(2, async |end: &End<H::Fabric>| {
        let (fabric, peer) = (&end.fabric, end.next());
        for round in 0..ROUNDS {
            let id = SegmentId(round);
            if fabric.me() == Peer(0) {
                let begin = |memory: &_| LocalMemory::store(memory, 64, WRITTEN + u64::from(round));
                let mine = fabric.export_with(id, 128, EVERYONE, begin).unwrap();
                assert_eq!(mine.load(64), WRITTEN + u64::from(round));
                end.barrier().await;
                fabric.unpublish(id).unwrap();
            } else {
                let theirs = end.import(peer, id, 128).await;
                let mut word = [0; 8];
                theirs.get(64, &mut word).unwrap();
                assert_eq!(u64::from_ne_bytes(word), WRITTEN + u64::from(round));
                end.barrier().await;
            }
        }
    });
    Outcome::Held
}

/// Two processes set up segments for each other at the same time, several each.
pub fn both_directions_at_once<H: Harness>(harness: &H) -> Outcome {
    harness.run(2, async |end: &End<H::Fabric>| {
        let mut pairs = Vec::new();
        for id in 0..8 {
            let mine = end.fabric.export(SegmentId(id), 128, EVERYONE).unwrap();
            end.pause().await;
            pairs.push((mine, end.import(end.next(), SegmentId(id), 128).await));
        }
        for (i, (_, theirs)) in pairs.iter().enumerate() {
            theirs.put_line(64, &[i as u64 + 1; 8]).unwrap();
        }
        for (i, (mine, theirs)) in pairs.iter().enumerate() {
            end.until("a line", || mine.load(64) != 0).await;
            assert_eq!(mine.load_line(64), [i as u64 + 1; 8]);
            theirs.fence().unwrap();
        }
    });
    Outcome::Held
}

/// Every process writes to every other.
pub fn everyone_to_everyone<H: Harness>(harness: &H) -> Outcome {
    const SIZE: u32 = 4;
    const LEN: usize = SIZE as usize * LINE_BYTES;
    harness.run(SIZE, async |end: &End<H::Fabric>| {
        let mine = end.fabric.export(SegmentId(0), LEN, EVERYONE).unwrap();
        let slot = end.me() as usize * LINE_BYTES;
        let mut imports = Vec::new();
        for peer in end.others() {
            let import = end.import(peer, SegmentId(0), LEN).await;
            import.put_line(slot, &[u64::from(end.me() + 1); 8]).unwrap();
            imports.push(import);
        }
        for peer in end.others() {
            let at = peer.index() * LINE_BYTES;
            end.until("a line", || mine.load(at) != 0).await;
            assert_eq!(mine.load_line(at), [u64::from(peer.0 + 1); 8]);
        }
        assert_eq!(mine.load_line(slot), [0; 8]);
        for import in imports {
            import.fence().unwrap();
        }
    });
    Outcome::Held
}

/// Long gets, in both directions at once, bring what is there, what was put before included, and leave the rest of the buffer.
pub fn long_gets<H: Harness>(harness: &H) -> Outcome {
    const LEN: usize = 300_000;
    harness.run(2, async |end: &End<H::Fabric>| {
        let everyone = Access::Everyone(Permission::ReadWrite);
        let mine = end.fabric.export(SegmentId(3), LEN, everyone).unwrap();
        mine.write(0, &pattern(end.me().into(), LEN));
        end.barrier().await;
        let theirs = end
            .fabric
            .import(end.next(), SegmentId(3), LEN, Permission::ReadWrite)
            .unwrap();
        let mut model = pattern(end.next().0.into(), LEN);
        let put = pattern(77, 5000);
        for (i, len) in [32 << 10, (32 << 10) + 1, 100_003, 262_144]
            .into_iter()
            .enumerate()
        {
            let at = 1 + 1000 * i;
            theirs.put(at + 100, &put).unwrap();
            theirs.fence().unwrap();
            model[at + 100..at + 5100].copy_from_slice(&put);
            let mut here = vec![0xEE; len + 2];
            theirs.get(at, &mut here[1..=len]).unwrap();
            assert!(here[1..=len] == model[at..at + len], "{len} bytes");
            assert_eq!((here[0], here[len + 1]), (0xEE, 0xEE));
        }
        end.barrier().await;
        end.fabric.unpublish(SegmentId(3)).unwrap();
        end.barrier().await;
        // Whether it fails now is the fabric's affair; that it does no harm is not.
        let _ = theirs.get(0, &mut vec![0; LEN]);
        end.barrier().await;
    });
    Outcome::Held
}

/// A process may import what it exported itself.
pub fn own_segment<H: Harness>(harness: &H) -> Outcome {
    harness.run(1, async |end: &End<H::Fabric>| {
        let mine = end.fabric.export(SegmentId(1), 512, EVERYONE).unwrap();
        let import = end.import(Peer(0), SegmentId(1), 512).await;
        let bytes = pattern(1, 500);
        import.put(3, &bytes).unwrap();
        import.fence().unwrap();
        let mut got = vec![0; 500];
        mine.read(3, &mut got);
        assert!(got == bytes);
        let alias = mine.clone();
        alias.store_line(64, &[4; 8]);
        assert_eq!(mine.load_line(64), [4; 8]);
        assert_eq!((mine.fetch_add(72, 5), alias.load(72), mine.load(64)), (4, 9, 4));
        assert_eq!((alias.fetch_add(72, u64::MAX), mine.load(72)), (9, 8));
    });
    Outcome::Held
}

/// Lines of own memory as a queue: by running number, around and around, whole or their first words only.
pub fn lines_as_a_queue<H: Harness>(harness: &H) -> Outcome {
    harness.run(1, async |end: &End<H::Fabric>| {
        let mine = end.fabric.export(SegmentId(1), 4096, EVERYONE).unwrap();
        let lines = mine.lines(2 * LINE_BYTES, 4);
        for number in (0..50).chain(u32::MAX - 5..=u32::MAX) {
            let slot = (2 + number as usize % 4) * LINE_BYTES;
            let line: Line = std::array::from_fn(|i| u64::from(number) << 8 | i as u64);
            let words = number as usize % 8 + 1;
            lines.put(number, &line, words);
            assert_eq!(lines.first(number), line[0]);
            assert_eq!(lines.line(number)[..words], line[..words]);
            assert_eq!(mine.load_line(slot)[..words], line[..words]);
        }
        assert_eq!(
            (mine.load_line(LINE_BYTES), mine.load_line(6 * LINE_BYTES)),
            ([0; 8], [0; 8])
        );
        mine.store_line(3 * LINE_BYTES, &[8; 8]);
        assert_eq!((lines.first(1), lines.line(5)), (8, [8; 8]));
        let len = LocalMemory::len(&mine);
        for (offset, count) in [(0, 3), (len, 1), (len - LINE_BYTES, 2), (0, 1 << 31), (0, 0)] {
            assert!(panics(|| mine.lines(offset, count)), "{count} lines at {offset}");
        }
    });
    Outcome::Held
}

/// Memory that every process of a host sees from the start: zeroed, one's own to write, others' to read.
pub fn common<H: Harness>(harness: &H) -> Outcome {
    const SIZE: u32 = 3;
    let skipped = harness.run(SIZE, async |end: &End<H::Fabric>| {
        assert!(end.fabric.common(Peer(SIZE)).is_none());
        let Some(mine) = end.fabric.common(end.fabric.me()) else {
            assert!(end.others().all(|p| end.fabric.common(p).is_none()));
            return end.skip();
        };
        assert_eq!(LocalMemory::len(&mine), COMMON_BYTES);
        let mut all = vec![1; COMMON_BYTES];
        mine.read(0, &mut all);
        assert!(all.iter().all(|b| *b == 0));
        end.barrier().await;
        let lines = COMMON_BYTES / LINE_BYTES;
        let value = |i: usize, of: Peer| i as u64 * 256 + u64::from(of.0) + 1;
        for i in 0..lines {
            mine.store_line(i * LINE_BYTES, &[value(i, end.fabric.me()); 8]);
        }
        for peer in end.others() {
            let theirs = end.fabric.common(peer).unwrap();
            for i in 0..lines {
                let wanted = value(i, peer);
                end.until("a line", || theirs.load(i * LINE_BYTES) == wanted)
                    .await;
                assert_eq!(theirs.load_line(i * LINE_BYTES), [wanted; 8]);
            }
        }
    });
    Outcome::unless_skipped(skipped, "this fabric has no common memory")
}

/// Where the fabric maps, an import is plain memory; where not, it says so.
pub fn mapped<H: Harness>(harness: &H) -> Outcome {
    harness.run(2, async |end: &End<H::Fabric>| {
        let mine = end.fabric.export(SegmentId(1), 4096, EVERYONE).unwrap();
        let theirs = end.import(end.next(), SegmentId(1), 4096).await;
        let plain = <H::Fabric as RemoteMemory>::mapped(&theirs);
        assert_eq!(plain.is_some(), <H::Fabric as RemoteMemory>::MAPPED);
        if let Some(plain) = plain {
            plain.store_line(64, &[u64::from(end.me()) + 1; 8]);
            plain.write(200, b"plain");
            plain.store(0, 1);
            end.until("a store", || mine.load(0) == 1).await;
            assert_eq!(mine.load_line(64), [u64::from(end.next().0) + 1; 8]);
            let mut got = [0; 5];
            mine.read(200, &mut got);
            assert_eq!(&got, b"plain");
            mine.store(8, 9);
            end.until("their store", || plain.load(8) == 9).await;
        }
    });
    if <H::Fabric as RemoteMemory>::MAPPED {
        Outcome::Held
    } else {
        Outcome::Skipped("this fabric does not map")
    }
}

/// Memory may be published, withdrawn and published again, with other lists; when it is detached, old imports see none
/// of it.
pub fn publishing_again<H: Harness>(harness: &H) -> Outcome {
    const ID: SegmentId = SegmentId(7);
    harness.run(3, async |end: &End<H::Fabric>| {
        let fabric = &end.fabric;
        let only = |peers: &[(u32, Permission)]| {
            Access::Only(peers.iter().map(|(peer, p)| (Peer(*peer), *p)).collect())
        };
        let import = |permission| fabric.import(Peer(0), ID, 4096, permission);
        if end.me() == 0 {
            let memory = fabric.allocate(5000).unwrap();
            assert!(LocalMemory::len(&memory) >= 5000);
            let missing = fabric.republish(ID, &memory, EVERYONE);
            assert!(
                matches!(missing, Err(FabricError::NotPublished { .. })),
                "{missing:?}"
            );
            let both = only(&[(1, Permission::ReadWrite), (2, Permission::ReadWrite)]);
            fabric.publish(ID, &memory, both).unwrap();
            let twice = fabric.publish(ID, &memory, EVERYONE);
            assert_eq!(twice, Err(FabricError::InUse { id: ID.0 }));
            end.barrier().await;
            end.until("a put", || memory.load(64) == 1).await;
            end.barrier().await;
            fabric
                .republish(
                    ID,
                    &memory,
                    only(&[(1, Permission::ReadWrite), (2, Permission::Read)]),
                )
                .unwrap();
            end.settle();
            end.barrier().await;
            end.until("a put of who still may", || memory.load(64) == 2).await;
            end.barrier().await;
            fabric.unpublish(ID).unwrap();
            fabric.detach(&memory).unwrap();
            memory.store(72, 3);
            end.barrier().await;
            end.barrier().await;
            end.settle();
            assert_eq!((memory.load(64), memory.load(72)), (2, 3));
            fabric.publish(ID, &memory, EVERYONE).unwrap();
            end.barrier().await;
            end.until("a put to what is published again", || memory.load(64) == 5)
                .await;
        } else {
            end.barrier().await;
            let first = end.import(Peer(0), ID, 4096).await;
            if end.me() == 1 {
                first.put_word(64, 1).unwrap();
                first.fence().unwrap();
            }
            end.barrier().await;
            end.barrier().await;
            end.settle();
            if end.me() == 1 {
                first.put_word(64, 2).unwrap();
                first.fence().unwrap();
            } else {
                import(Permission::Read).unwrap();
                let denied = import(Permission::ReadWrite).err();
                assert!(matches!(denied, Some(FabricError::Denied { .. })), "{denied:?}");
            }
            end.barrier().await;
            end.barrier().await;
            // Nobody sees these.
            let _ = first.put_word(64, 4).and_then(|()| first.fence());
            end.barrier().await;
            end.barrier().await;
            if end.me() == 1 {
                let again = end.import(Peer(0), ID, 4096).await;
                let mut got = [0; 8];
                again.get(72, &mut got).unwrap();
                assert_eq!(u64::from_ne_bytes(got), 3);
                again.put_word(64, 5).unwrap();
                again.fence().unwrap();
            }
        }
    });
    Outcome::Held
}

/// Whole lines, and elements of every size.
pub fn lines_and_elements<H: Harness>(harness: &H) -> Outcome {
    harness.run(2, async |end: &End<H::Fabric>| {
        let mine = end.fabric.export(SegmentId(2), 8192, EVERYONE).unwrap();
        let theirs = end.import(end.next(), SegmentId(2), 8192).await;
        let mut model = vec![0; 8192];
        let mut put = |at: usize, len: usize, how: &dyn Fn(usize, &[u8])| {
            let bytes = pattern(at as u64 + 1, len);
            model[at..at + len].copy_from_slice(&bytes);
            how(at, &bytes);
        };
        put(64, 64, &|at, bytes| theirs.put_lines(at, bytes).unwrap());
        put(256, 640, &|at, bytes| theirs.put_lines(at, bytes).unwrap());
        for (i, size) in [1, 2, 4, 8].into_iter().enumerate() {
            put(1024 + 512 * i + size, 37 * size, &|at, bytes| {
                theirs.put_elements(at, bytes, size).unwrap();
            });
        }
        theirs.fence().unwrap();
        let mut got = vec![0; 8192];
        theirs.get(0, &mut got).unwrap();
        assert!(got == model);
        for size in [1, 2, 4, 8] {
            let mut got = vec![0; 3000 * 8 / 8];
            theirs.get_elements(64, &mut got[..2048], size).unwrap();
            assert!(got[..2048] == model[64..64 + 2048]);
        }
        end.barrier().await;
        mine.read(0, &mut got);
        assert!(got == model);
        let len = Remote::len(&theirs);
        assert!(matches!(
            theirs.put_lines(len, &[0; 64]),
            Err(FabricError::OutOfRange { .. })
        ));
        assert!(matches!(
            theirs.put_elements(len - 4, &[0; 8], 4),
            Err(FabricError::OutOfRange { .. })
        ));
        assert!(matches!(
            theirs.get_elements(len - 4, &mut [0; 8], 4),
            Err(FabricError::OutOfRange { .. })
        ));
    });
    Outcome::Held
}

/// A program's own memory as a segment: peers see its contents and it sees what they put, and it gets it back.
pub fn own_pages<H: Harness>(harness: &H) -> Outcome {
    const LEN: usize = 3 * 4096;
    let skipped = harness.run(2, async |end: &End<H::Fabric>| {
        let mut own = vec![0u8; LEN + 4096];
        let start = own.as_ptr().align_offset(4096);
        own[start + 100] = end.me() as u8 + 1;
        let address = own.as_ptr().addr() + start;
        let memory = end.fabric.allocate(LEN).unwrap();
        // SAFETY: the range is in `own`, which outlives the overlay and which nobody uses during the call.
        let covered = unsafe { memory.overlay(address) };
        if let Err(FabricError::Unsupported { .. }) = covered {
            return end.skip();
        }
        covered.unwrap();
        end.fabric.publish(SegmentId(4), &memory, EVERYONE).unwrap();
        let theirs = end.import(end.next(), SegmentId(4), LEN).await;
        let mut byte = [0];
        theirs.get(100, &mut byte).unwrap();
        assert_eq!(u32::from(byte[0]), end.next().0 + 1);
        theirs.put(8000, b"theirs").unwrap();
        theirs.fence().unwrap();
        end.barrier().await;
        let seen = |own: &[u8]| std::hint::black_box(own)[start + 8000..start + 8006].to_vec();
        assert_eq!(seen(&own), b"theirs");
        end.fabric.unpublish(SegmentId(4)).unwrap();
        end.fabric.detach(&memory).unwrap();
        // SAFETY: as above.
        unsafe { memory.uncover().unwrap() };
        memory.write(8000, b"not me");
        assert_eq!(seen(&own), b"theirs");
        end.barrier().await;
    });
    Outcome::unless_skipped(skipped, "this fabric has no mappings")
}
