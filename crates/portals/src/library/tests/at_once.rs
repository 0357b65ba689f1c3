//! Puts that leave at once, and those whose body comes with the header: nobody can tell them from others.

use super::*;
use crate::types::option::*;

/// Two processes, of which one puts and the other has what is put to. In two worlds: in the second, puts take the short way
/// where there is one.
struct Pair {
    worlds: [World; 2],
    /// Taken by the short way at the sender.
    short: usize,
    /// Of those, over in one step at the receiver.
    again: usize,
}

/// Everything that programs can see of a library and its queues.
fn seen(end: &mut Library, eqs: &[Handle], mds: &[Handle]) -> String {
    let events: Vec<_> = eqs.iter().map(|eq| end.eq_get(*eq)).collect();
    let handled: Vec<_> = std::iter::from_fn(|| end.next_handled()).collect();
    let mut values = Vec::new();
    for md in mds {
        let mut old = md_of_nothing();
        let found = end.md_update(*md, Some(&mut old), None, Handle::EQ_NONE);
        values.push((found, old));
    }
    format!("{events:?} {handled:?} {values:?} {:?}", end.drops())
}

fn md_of_nothing() -> Md {
    md(0, 0, Handle::EQ_NONE)
}

/// A put by the short way, or by the ordinary one where that is none; and whether it was over in one step at its receiver.
fn put_short(
    world: &mut World,
    (md, region, ack): (Handle, Option<(u64, u64)>, AckReq),
    to: &Target,
    hdr_data: u64,
) -> (Result<bool, Error>, bool) {
    let mut left = None;
    let sent = world.ends[0].put_at_once(md, region, ack, to, hdr_data, |to, header, body| {
        // As a network layer that has room for short bodies only.
        let fits = body.len <= 100;
        left = fits.then_some((to, *header, body));
        fits
    });
    assert_eq!(sent == Ok(true), left.is_some());
    let Some((to, header, body)) = left else {
        return (sent, false);
    };
    let bytes = vec![0; body.len];
    let end = &mut world.ends[to as usize];
    let store = |memory: &Segments, at, kept: &[u8]| assert!(at as usize + kept.len() <= memory.len());
    let again = end.put_again(0, header.words(), bytes.len() as u64, |memory, at, kept| {
        store(memory, at, &bytes[..kept as usize])
    });
    if !again {
        let verdict = end.incoming_whole(0, &header.encode(), &bytes, store, |_| {});
        assert!(!matches!(verdict, Verdict::Store { .. }));
        world.obey(to, verdict);
    }
    (sent, again)
}

impl Pair {
    fn put(
        &mut self,
        what: (Handle, Option<(u64, u64)>, AckReq),
        to: &Target,
        hdr_data: u64,
    ) -> Result<(), Error> {
        let [long, short] = &mut self.worlds;
        let (md, region, ack) = what;
        let message = long.ends[0].put(md, region, ack, to, hdr_data);
        let answer = message.as_ref().map(|_| ()).map_err(|error| *error);
        if let Ok(message) = message {
            long.carry(0, message);
        }
        match put_short(short, what, to, hdr_data) {
            (Ok(true), again) => {
                assert_eq!(answer, Ok(()));
                self.short += 1;
                self.again += usize::from(again);
            }
            (Ok(false), _) => {
                let message = short.ends[0].put(md, region, ack, to, hdr_data);
                assert_eq!(message.as_ref().map(|_| ()).map_err(|error| *error), answer);
                if let Ok(message) = message {
                    // The body comes with the header all the same.
                    carry_whole(short, message);
                }
            }
            (Err(error), _) => assert_eq!(answer, Err(error)),
        }
        answer
    }
}

/// As `carry`, of a put of process 0 whose body comes with its header or, when it is longer, lies where it can be had at once.
fn carry_whole(world: &mut World, message: Outgoing) {
    let (to, header, length) = (message.to, &message.header, message.body.len());
    let end = &mut world.ends[to as usize];
    let verdict = if length > 100 {
        let near = end.incoming_near(
            0,
            header,
            length as u64,
            |memory, at, kept| {
                assert!((at + kept) as usize <= memory.len());
            },
            |_| {},
        );
        near.expect("a put")
    } else {
        end.incoming_whole(0, header, &vec![0; length], |_, _, _| {}, |_| {})
    };
    world.ended(0, message.token, NiFail::OK);
    world.obey(to, verdict);
}

#[test]
fn what_is_no_put_is_not_over_at_once() {
    let mut world = world(2);
    for header in [&[][..], &[0xff; 36], &[0; 36]] {
        assert!(
            world.ends[1]
                .incoming_near(0, header, 500, |_, _, _| panic!("stored"), |_| {})
                .is_none()
        );
    }
    let md = world.ends[0].md_bind(Md::new(0x1000, 64, 0, Handle::EQ_NONE), None, Unlink::Retain);
    let target = Target {
        id: ProcessId::new(0, 1),
        pt_index: 0,
        ac_index: 0,
        match_bits: 0,
        offset: 0,
    };
    let get = world.ends[0]
        .get(md.expect("a descriptor"), None, &target)
        .expect("a get");
    assert!(
        world.ends[1]
            .incoming_near(0, &get.header, 500, |_, _, _| panic!("stored"), |_| {})
            .is_none()
    );
    assert_eq!(world.ends[1].drops().total(), 0);
}

#[test]
fn nobody_can_tell_a_put_that_was_over_at_once() {
    let (mut short, mut again) = (0, 0);
    for seed in seeds(30) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pair = Pair {
            worlds: [world(2), world(2)],
            short: 0,
            again: 0,
        };
        let mut queues = [Vec::new(), Vec::new()];
        for (end, queues) in queues.iter_mut().enumerate() {
            for handled in [false, true] {
                let both = pair
                    .worlds
                    .each_mut()
                    .map(|world| world.ends[end].eq_alloc(256, handled));
                assert_eq!(both[0], both[1]);
                queues.push(both[0].expect("a queue").expect("more than no events"));
            }
            queues.push(Handle::EQ_NONE);
        }
        let mut mds = [Vec::new(), Vec::new()];
        let mut mes = Vec::new();
        for step in 0..200 {
            let options = [
                TRUNCATE,
                MANAGE_REMOTE,
                ACK_DISABLE,
                EVENT_START_DISABLE,
                EVENT_END_DISABLE,
                MAX_SIZE,
            ];
            let options = options
                .into_iter()
                .filter(|_| random.u32(0..3) == 0)
                .fold(0, |all, one| all | one);
            let unlink = if random.bool() {
                Unlink::Unlink
            } else {
                Unlink::Retain
            };
            let threshold = [-1, -1, 0, 1, 2, 5][random.usize(0..6)];
            let length = [0, 8, 40, 100, 300][random.usize(0..5)];
            match random.u32(0..16) {
                0 => {
                    let values = with_threshold(
                        threshold,
                        md(length, options, *random.choice(&queues[0]).unwrap()),
                    );
                    let both = pair
                        .worlds
                        .each_mut()
                        .map(|world| world.ends[0].md_bind(values, None, unlink));
                    assert_eq!(both[0], both[1]);
                    mds[0].extend(both[0]);
                }
                1 | 2 => {
                    let mut values = md(length, options | OP_PUT, *random.choice(&queues[1]).unwrap());
                    (values.threshold, values.max_size) = (threshold, random.u64(0..60));
                    let bits = (random.u64(0..3), random.u64(0..2));
                    let position = if random.bool() {
                        Position::Before
                    } else {
                        Position::After
                    };
                    let base = random.choice(&mes).copied();
                    let both = pair.worlds.each_mut().map(|world| {
                        let end = &mut world.ends[1];
                        let me = match base {
                            Some(base) => end.me_insert(base, ProcessId::ANY, bits, unlink, position)?,
                            None => end.me_attach(3, ProcessId::ANY, bits, unlink, position)?,
                        };
                        Ok::<_, Error>((me, end.md_attach(me, values, None, unlink)?))
                    });
                    assert_eq!(both[0], both[1]);
                    if let Ok((me, md)) = both[0] {
                        mes.push(me);
                        mds[1].push(md);
                    }
                }
                3 => {
                    let Some(me) = random.choice(&mes).copied() else {
                        continue;
                    };
                    let both = pair.worlds.each_mut().map(|world| world.ends[1].me_unlink(me));
                    assert_eq!(both[0], both[1]);
                }
                4 => {
                    let Some(old) = random.choice(&mds[1]).copied() else {
                        continue;
                    };
                    let values = with_threshold(
                        threshold,
                        md(length, options | OP_PUT, *random.choice(&queues[1]).unwrap()),
                    );
                    let both = pair.worlds.each_mut().map(|world| {
                        world.ends[1].md_update(old, None, Some((values, None)), Handle::EQ_NONE)
                    });
                    assert_eq!(both[0], both[1]);
                }
                5 if step % 3 == 0 => {
                    let uid = if random.bool() { UID } else { UID + 1 };
                    for world in &mut pair.worlds {
                        assert_eq!(world.ends[1].ac_entry(0, AccessEntry::of_user(uid)), Ok(()));
                    }
                }
                _ => {
                    let Some(md) = random.choice(&mds[0]).copied() else {
                        continue;
                    };
                    let region = random.bool().then(|| (random.u64(0..20), random.u64(0..20)));
                    let ack = if random.u32(0..4) == 0 {
                        AckReq::Ack
                    } else {
                        AckReq::NoAck
                    };
                    let mut to = Target {
                        offset: random.u64(0..50),
                        ..target(1, random.u64(0..3))
                    };
                    match random.u32(0..20) {
                        0 => to.pt_index = 70,
                        1 => to.ac_index = 300,
                        2 => to.id = ProcessId::new(9, 9),
                        _ => {}
                    }
                    // Now and then the same several times.
                    for _ in 0..random.u32(1..4) {
                        let _ = pair.put((md, region, ack), &to, step);
                    }
                }
            }
            let [long, quick] = &mut pair.worlds;
            for end in 0..2 {
                let all = (&queues[end][..], &mds[end][..]);
                let before = seen(&mut long.ends[end], all.0, all.1);
                assert_eq!(
                    before,
                    seen(&mut quick.ends[end], all.0, all.1),
                    "seed {seed}, step {step}"
                );
            }
        }
        assert!(pair.worlds.iter().all(World::at_rest), "seed {seed}");
        short += pair.short;
        again += pair.again;
    }
    assert!(short > 250 && again > 20, "{short}, {again}");
}

#[test]
fn words_of_a_packet_are_header_and_body() {
    let mut random = fastrand::Rng::with_seed(3);
    for len in (0..=132).chain([8; 20]) {
        let header = Header {
            kind: MessageKind::Put,
            pt_index: random.u8(..),
            ac_index: random.u8(..),
            interface: random.u8(..),
            operation: random.u64(..),
            match_bits: random.u64(..),
            offset: random.u64(..),
            data: random.u64(..),
        };
        let body: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
        let segment = crate::memory::Segment {
            address: body.as_ptr().expose_provenance(),
            len: body.len(),
        };
        let mut packet = [[0xee; 8]; 21];
        let (words, half) = header.words();
        crate::memory::user::compose(&mut packet, &words, half, segment);
        let bytes = packet.as_flattened();
        assert_eq!(bytes[..HEADER_BYTES], header.encode());
        assert_eq!(bytes[HEADER_BYTES..][..len], body);
        let mut into = vec![0xaa; len + 9];
        let memory = Segments::one(into.as_mut_ptr().expose_provenance(), into.len());
        let at = random.u64(0..9);
        crate::memory::user::store_short(&memory, at, &bytes[HEADER_BYTES..][..len]);
        assert_eq!(into[at as usize..][..len], body);
        let others = into[..at as usize].iter().chain(&into[at as usize + len..]);
        assert_eq!(others.filter(|byte| **byte != 0xaa).count(), 0);
    }
}
