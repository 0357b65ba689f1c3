//! Tests and models of the ring.

use super::*;

/// A producer as it keeps its own things.
struct Producer<'a> {
    ring: &'a Ring,
    claim: &'a AtomicU64,
    seen: u64,
    me: Peer,
}

/// To the one ring there is.
fn ring_id() -> RingId {
    RingId::new(Peer(0), 1)
}

impl Producer<'_> {
    fn send(&mut self, payload: &[u8]) -> SendOutcome {
        self.ring
            .try_send(ring_id(), self.claim, &mut self.seen, self.me, payload)
    }
}

#[cfg(not(loom))]
mod plain {
    use super::*;

    fn producer<'a>(ring: &'a Ring, claim: &'a AtomicU64) -> Producer<'a> {
        Producer {
            ring,
            claim,
            seen: 0,
            me: Peer(3),
        }
    }

    fn take(ring: &Ring, cursor: &mut Cursor) -> Result<(Peer, Vec<u8>), ReceiveOutcome> {
        let mut got = None;
        match ring.take(cursor, 4, |_, from, bytes| got = Some((from, bytes.to_vec()))) {
            ReceiveOutcome::Packet => Ok(got.unwrap()),
            other => Err(other),
        }
    }

    #[test]
    fn packets_arrive_in_order_and_full_is_said() {
        let (ring, claim) = (Ring::new(), AtomicU64::new(0));
        let (mut producer, mut cursor) = (producer(&ring, &claim), Cursor::default());
        for lap in 0..5u8 {
            for i in 0..SLOTS as u8 {
                assert_eq!(producer.send(&[lap, i, 7]), SendOutcome::Sent);
            }
            assert_eq!(producer.send(&[0]), SendOutcome::Full);
            for i in 0..SLOTS as u8 {
                assert_eq!(take(&ring, &mut cursor), Ok((Peer(3), vec![lap, i, 7])));
            }
            assert_eq!(take(&ring, &mut cursor), Err(ReceiveOutcome::Empty));
            assert_eq!(claim.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn room_is_told_now_and_then_and_at_rest() {
        let (ring, claim) = (Ring::new(), AtomicU64::new(0));
        let (mut producer, mut cursor) = (producer(&ring, &claim), Cursor::default());
        while producer.send(b"x") == SendOutcome::Sent {}
        take(&ring, &mut cursor).unwrap();
        assert_eq!(producer.send(b"x"), SendOutcome::Full, "one is not published");
        for _ in 1..PUBLISH_AFTER {
            take(&ring, &mut cursor).unwrap();
        }
        for _ in 0..PUBLISH_AFTER {
            assert_eq!(producer.send(b"x"), SendOutcome::Sent);
        }
        assert_eq!(producer.send(b"x"), SendOutcome::Full);
        while take(&ring, &mut cursor).is_ok() {}
        for _ in 0..SLOTS {
            assert_eq!(producer.send(b"x"), SendOutcome::Sent);
        }
    }

    #[test]
    fn packets_of_every_length_come_back() {
        let (ring, claim) = (Ring::new(), AtomicU64::new(0));
        let (mut producer, mut cursor) = (producer(&ring, &claim), Cursor::default());
        for len in (0..=PACKET_BYTES).chain((0..=PACKET_BYTES).rev()) {
            let bytes: Vec<u8> = (0..len).map(|i| (i + len) as u8).collect();
            assert_eq!(producer.send(&bytes), SendOutcome::Sent);
            assert_eq!(take(&ring, &mut cursor), Ok((Peer(3), bytes)));
        }
    }

    #[test]
    fn a_stranger_or_a_lying_length_is_refused() {
        let (ring, claim) = (Ring::new(), AtomicU64::new(0));
        let (mut producer, mut cursor) = (producer(&ring, &claim), Cursor::default());
        producer.me = Peer(9);
        assert_eq!(producer.send(&[1]), SendOutcome::Sent);
        assert!(matches!(
            take(&ring, &mut cursor),
            Err(ReceiveOutcome::Corrupt { .. })
        ));
        producer.me = Peer(1);
        assert_eq!(producer.send(&[1]), SendOutcome::Sent);
        let word = 2 | 1 << 32 | (PACKET_BYTES as u64 + 1) << 56;
        ring.slots[1].words[0].store(word, Ordering::Relaxed);
        assert_eq!(take(&ring, &mut cursor), Err(ReceiveOutcome::Corrupt { word }));
        assert_eq!(producer.send(&[5]), SendOutcome::Sent);
        assert_eq!(take(&ring, &mut cursor), Ok((Peer(1), vec![5])));
    }

    #[test]
    fn the_sequence_goes_round() {
        let (ring, claim) = (Ring::new(), AtomicU64::new(0));
        let mut producer = producer(&ring, &claim);
        let start = (1 << 32) - SLOTS as u64;
        let mut cursor = Cursor {
            position: start,
            published: start,
        };
        ring.tail.0.store(start, Ordering::Relaxed);
        ring.head.0.store(start, Ordering::Relaxed);
        for position in start - SLOTS as u64..start {
            ring.slot(position).words[0].store(sequence(position).into(), Ordering::Relaxed);
        }
        for i in 0..3 * SLOTS as u8 {
            assert_eq!(take(&ring, &mut cursor), Err(ReceiveOutcome::Empty));
            assert_eq!(producer.send(&[i]), SendOutcome::Sent);
            assert_eq!(take(&ring, &mut cursor), Ok((Peer(3), vec![i])));
        }
    }

    /// Claims a position and does no more: what a process leaves that is killed there.
    fn claim_only(producer: &mut Producer<'_>) -> u64 {
        producer
            .ring
            .claim(ring_id(), producer.claim, &mut producer.seen)
            .unwrap()
    }

    #[test]
    fn what_the_dead_left_is_skipped_and_the_slow_are_waited_for() {
        let (ring, claims) = (Ring::new(), [AtomicU64::new(0), AtomicU64::new(0)]);
        let (mut dying, mut slow) = (producer(&ring, &claims[0]), producer(&ring, &claims[1]));
        let mut cursor = Cursor::default();
        let examine = |cursor: &mut Cursor, dead: Option<Peer>| {
            let all = claims.iter().enumerate().map(|(i, c)| (Peer(i as u32), c));
            ring.examine(cursor, ring_id(), all, |peer| Some(peer) == dead)
        };
        for lap in 0..3 * SLOTS as u8 {
            claim_only(&mut dying);
            let late = claim_only(&mut slow);
            assert_eq!(take(&ring, &mut cursor), Err(ReceiveOutcome::Empty));
            assert_eq!(examine(&mut cursor, None), Gap::Writing, "both live");
            assert_eq!(examine(&mut cursor, Some(Peer(1))), Gap::Writing, "another died");
            assert_eq!(examine(&mut cursor, Some(Peer(0))), Gap::Ended(Peer(0)));
            assert_eq!(examine(&mut cursor, Some(Peer(0))), Gap::Writing, "the slow one");
            ring.fill(late, &claims[1], Peer(1), &[lap]);
            assert_eq!(examine(&mut cursor, Some(Peer(1))), Gap::None, "it is there");
            assert_eq!(take(&ring, &mut cursor), Ok((Peer(1), vec![lap])));
            assert_eq!(examine(&mut cursor, Some(Peer(1))), Gap::None, "all is taken");
            assert_eq!(take(&ring, &mut cursor), Err(ReceiveOutcome::Empty));
        }
    }

    #[test]
    fn damaged_positions_and_slots_are_mended() {
        let values = [2, SLOTS as u64, SLOTS as u64 + 1, 1 << 32, 1 << 63, u64::MAX];
        for (which, value) in (0..3).flat_map(|w| values.map(|v| (w, v))) {
            let (ring, claim) = (Ring::new(), AtomicU64::new(0));
            let (mut producer, mut cursor) = (producer(&ring, &claim), Cursor::default());
            assert_eq!(producer.send(b"before"), SendOutcome::Sent);
            match which {
                0 => ring.tail.0.store(value, Ordering::Relaxed),
                1 => ring.head.0.store(value, Ordering::Relaxed),
                _ => ring.slots[0].words[0].store(value << 8, Ordering::Relaxed),
            }
            // Whatever it says, it returns.
            let mut lost = usize::from(producer.send(b"lost?") == SendOutcome::Sent);
            let mut mended = 0;
            for _ in 0..3 * SLOTS {
                while take(&ring, &mut cursor).is_ok() {}
                let all = [(Peer(3), &claim)].into_iter();
                mended += usize::from(ring.examine(&mut cursor, ring_id(), all, |_| false) != Gap::None);
            }
            // A head is also mended by being published again.
            assert!(mended > 0 || which == 1, "{which} {value:#x}");
            for i in 0..3 * SLOTS as u8 {
                assert_eq!(producer.send(&[i]), SendOutcome::Sent, "{which} {value:#x}");
                match take(&ring, &mut cursor) {
                    Ok(packet) => assert_eq!(packet, (Peer(3), vec![i])),
                    other => {
                        lost += 1;
                        assert!(lost < 3, "{which} {value:#x}: {other:?}");
                    }
                }
            }
        }
    }
}

#[cfg(loom)]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    struct Shared {
        ring: Ring,
        claims: [AtomicU64; 2],
    }

    fn shared() -> Arc<Shared> {
        Arc::new(Shared {
            ring: Ring::new(),
            claims: [AtomicU64::new(0), AtomicU64::new(0)],
        })
    }

    impl Shared {
        fn producer(&self, me: u32) -> Producer<'_> {
            Producer {
                ring: &self.ring,
                claim: &self.claims[me as usize],
                seen: 0,
                me: Peer(me),
            }
        }

        fn take(&self, cursor: &mut Cursor) -> Option<(u32, u8)> {
            let mut got = None;
            match self
                .ring
                .take(cursor, 2, |_, from, bytes| got = Some((from.0, bytes[0])))
            {
                ReceiveOutcome::Corrupt { word } => panic!("{word:#x}"),
                _ => got,
            }
        }

        fn examine(&self, cursor: &mut Cursor, dead: u32) -> Gap {
            let claims = self.claims.iter().enumerate();
            let claims = claims.map(|(i, claim)| (Peer(i as u32), claim));
            self.ring
                .examine(cursor, ring_id(), claims, |peer| peer.0 == dead)
        }
    }

    fn model(check: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(check);
    }

    #[test]
    fn loom_two_producers_one_consumer() {
        model(|| {
            let shared = shared();
            let producers = [0, 1].map(|me: u32| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.producer(me).send(&[me as u8 + 1]))
            });
            let (mut cursor, mut seen) = (Cursor::default(), 0);
            let mut take = |seen: &mut u32| match shared.take(&mut cursor) {
                Some((from, byte)) => {
                    assert_eq!(u32::from(byte), from + 1);
                    *seen += 1 << from;
                    true
                }
                None => false,
            };
            take(&mut seen);
            for producer in producers {
                assert_eq!(producer.join().unwrap(), SendOutcome::Sent);
            }
            while take(&mut seen) {}
            assert_eq!(seen, 3);
        });
    }

    /// More packets than slots: a slot is used again only when it was emptied, heads remembered are never too new, and
    /// nothing that happens by itself looks corrupt.
    #[test]
    fn loom_slots_are_used_again() {
        model(|| {
            let shared = shared();
            let mut first = shared.producer(0);
            for i in 0..SLOTS as u8 {
                assert_eq!(first.send(&[i]), SendOutcome::Sent);
            }
            let producer = thread::spawn({
                let shared = Arc::clone(&shared);
                move || {
                    let mut producer = shared.producer(1);
                    let sent = [2, 3].map(|byte| {
                        let offered = producer.send(&[byte]);
                        assert!(!matches!(offered, SendOutcome::Corrupt { .. }));
                        offered == SendOutcome::Sent
                    });
                    sent.into_iter().filter(|sent| *sent).count()
                }
            });
            let (mut cursor, mut count) = (Cursor::default(), 0);
            let mut last = None;
            let mut take = || match shared.take(&mut cursor) {
                Some(packet) => {
                    assert!(last < Some(packet.1) && (packet.0 == 1) == (packet.1 >= SLOTS as u8));
                    (last, count) = (Some(packet.1), count + 1);
                    true
                }
                None => false,
            };
            take();
            take();
            let sent = producer.join().unwrap();
            while take() {}
            assert_eq!(count, SLOTS + sent);
        });
    }

    /// Two compete for the last free slot while the consumer makes room.
    #[test]
    fn loom_two_compete_for_room() {
        model(|| {
            let shared = shared();
            assert_eq!(shared.producer(0).send(&[9]), SendOutcome::Sent);
            let producers = [0, 1].map(|me: u32| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.producer(me).send(&[me as u8]))
            });
            let (mut cursor, mut seen) = (Cursor::default(), Vec::new());
            seen.extend(shared.take(&mut cursor).map(|packet| packet.1));
            let sent = producers.map(|producer| producer.join().unwrap());
            assert!(
                sent.contains(&SendOutcome::Sent)
                    && sent
                        .iter()
                        .all(|s| matches!(s, SendOutcome::Sent | SendOutcome::Full))
            );
            while let Some(packet) = shared.take(&mut cursor) {
                seen.push(packet.1);
            }
            assert_eq!(
                seen.len(),
                1 + sent.iter().filter(|s| **s == SendOutcome::Sent).count()
            );
            assert_eq!(seen[0], 9);
        });
    }

    /// One producer dies between claiming and filling, the other lives: what the first left is skipped, and nothing
    /// that the other sends is, however slow it is.
    #[test]
    fn loom_the_dead_are_skipped_and_nobody_else() {
        model(|| {
            let shared = shared();
            let living = thread::spawn({
                let shared = Arc::clone(&shared);
                move || shared.producer(1).send(&[7])
            });
            let mut dying = shared.producer(0);
            dying.ring.claim(ring_id(), dying.claim, &mut dying.seen).unwrap();
            let (mut cursor, mut got, mut skipped) = (Cursor::default(), 0, 0);
            let mut turn = || {
                match shared.examine(&mut cursor, 0) {
                    Gap::Ended(peer) => {
                        assert_eq!(peer, Peer(0));
                        skipped += 1;
                    }
                    Gap::None | Gap::Writing => {}
                    corrupt @ Gap::Corrupt(..) => panic!("{corrupt:?}"),
                }
                got += shared
                    .take(&mut cursor)
                    .map_or(0, |packet| u32::from(packet == (1, 7)));
            };
            turn();
            turn();
            assert_eq!(living.join().unwrap(), SendOutcome::Sent);
            turn();
            turn();
            assert_eq!((got, skipped), (1, 1));
        });
    }
}
