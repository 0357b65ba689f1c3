//! Address translation against a model that does what section 4.2 says and nothing clever, from seeds.

use super::*;
use crate::types::option::*;

/// An entry of the model's list.
struct Entry {
    me: Handle,
    id: ProcessId,
    bits: u64,
    ignore: u64,
    md: Option<Model>,
}

struct Model {
    handle: Handle,
    md: Md,
    offset: u64,
    /// False: retired by max_size.
    room_left: bool,
    unlink: Unlink,
}

impl Model {
    fn active(&self) -> bool {
        self.md.threshold != 0 && self.room_left
    }

    /// Rules 5 to 7 for one descriptor.
    fn take(&mut self, operations: u32, requested: u64, length: u64) -> Option<(u64, u64)> {
        let remote = self.md.options & MANAGE_REMOTE != 0;
        let offset = if remote { requested } else { self.offset };
        if !self.active() || self.md.options & operations != operations {
            return None;
        }
        let fits = u128::from(offset) + u128::from(length) <= u128::from(self.md.length);
        let accepted = if fits {
            length
        } else if self.md.options & TRUNCATE != 0 && offset <= self.md.length {
            self.md.length - offset
        } else {
            return None;
        };
        if !remote {
            self.offset += accepted;
            if self.md.options & MAX_SIZE != 0 && self.md.length - self.offset < self.md.max_size {
                self.room_left = false;
            }
        }
        if self.md.threshold > 0 {
            self.md.threshold -= 1;
        }
        Some((offset, accepted))
    }
}

fn random_id(random: &mut fastrand::Rng) -> ProcessId {
    let any = |random: &mut fastrand::Rng, part| if random.bool() { ANY } else { part };
    let someone = id(random.u32(0..4));
    ProcessId::new(any(random, someone.nid), any(random, someone.pid))
}

fn random_md(random: &mut fastrand::Rng, eq: Handle) -> Md {
    let mut options = 0;
    for option in [OP_PUT, OP_GET, MANAGE_REMOTE, TRUNCATE, MAX_SIZE] {
        if random.bool() || (option <= OP_GET && random.bool()) {
            options |= option;
        }
    }
    if options & MANAGE_REMOTE != 0 {
        options &= !MAX_SIZE;
    }
    let threshold = *random.choice([-1, 0, 1, 2, 5].iter()).unwrap();
    Md {
        max_size: random.u64(0..20),
        ..with_threshold(threshold, md(random.u64(0..60), options, eq))
    }
}

#[test]
fn translation_is_that_of_a_naive_model() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut w = world(4);
        let eq = w.ends[0].queue();
        let mut list: Vec<Entry> = Vec::new();
        let mut dropped = 0;
        for step in 0..300 {
            let unlink = if random.bool() {
                Unlink::Unlink
            } else {
                Unlink::Retain
            };
            // Few different bits, so that much matches.
            let (bits, ignore) = (random.u64(0..4), random.u64(0..4) & random.u64(0..4));
            let here = (!list.is_empty()).then(|| random.usize(0..list.len()));
            match (random.u32(0..10), here) {
                (0..=2, here) => {
                    let id = random_id(&mut random);
                    let position = if random.bool() {
                        Position::Before
                    } else {
                        Position::After
                    };
                    let end = &mut w.ends[0];
                    let (at, me) = match here {
                        Some(at) if random.bool() => (
                            at + usize::from(position == Position::After),
                            end.me_insert(list[at].me, id, (bits, ignore), Unlink::Retain, position),
                        ),
                        _ => (
                            if position == Position::Before {
                                0
                            } else {
                                list.len()
                            },
                            end.me_attach(3, id, (bits, ignore), Unlink::Retain, position),
                        ),
                    };
                    let me = me.expect("an entry");
                    let md = random_md(&mut random, eq);
                    let md = random.u32(0..8).gt(&0).then(|| Model {
                        handle: end.md_attach(me, md, None, unlink).expect("a descriptor"),
                        md,
                        offset: 0,
                        room_left: true,
                        unlink,
                    });
                    list.insert(
                        at,
                        Entry {
                            me,
                            id,
                            bits,
                            ignore,
                            md,
                        },
                    );
                }
                (3, Some(at)) if list.len() > 8 => {
                    w.ends[0]
                        .me_unlink(list.remove(at).me)
                        .expect("nothing is in progress");
                }
                (4, Some(at)) => {
                    if let Some(model) = &mut list[at].md {
                        let new = random_md(&mut random, eq);
                        let testq = Handle::EQ_NONE;
                        w.ends[0]
                            .md_update(model.handle, None, Some((new, None)), testq)
                            .expect("an update");
                        (model.md, model.offset, model.room_left) = (new, 0, true);
                    }
                }
                _ => {
                    let from = random.u32(0..4);
                    let (kind, operations) = *random
                        .choice(
                            [
                                (MessageKind::Put, OP_PUT),
                                (MessageKind::Get, OP_GET),
                                (MessageKind::GetPut, OP_PUT | OP_GET),
                            ]
                            .iter(),
                        )
                        .unwrap();
                    let length = random.u64(0..40);
                    let offset = random.u64(0..60);
                    let header = Header {
                        kind,
                        pt_index: 3,
                        ac_index: 0,
                        interface: 0,
                        operation: 5,
                        match_bits: bits,
                        offset,
                        data: length,
                    };
                    let body = if kind == MessageKind::Get { 0 } else { length };
                    let verdict = w.ends[0].incoming(from, &header.encode(), body);
                    let expected = list.iter_mut().enumerate().find_map(|(at, entry)| {
                        let who = id(from);
                        let admits = (entry.id.nid == ANY || entry.id.nid == who.nid)
                            && (entry.id.pid == ANY || entry.id.pid == who.pid)
                            && (entry.bits ^ bits) & !entry.ignore == 0;
                        let model = entry.md.as_mut().filter(|_| admits)?;
                        let took = model.take(operations, offset, length)?;
                        let goes = !model.active() && model.unlink == Unlink::Unlink;
                        Some((at, model.handle, took, goes))
                    });
                    let token = match verdict {
                        Verdict::Drop {
                            reason: DropReason::NoMatch,
                            ..
                        } => None,
                        Verdict::Store { token, .. } | Verdict::Swap { token, .. } => Some(token),
                        Verdict::Reply(reply) => Some(reply.token),
                        other => panic!("seed {seed}, step {step}: {other:?}"),
                    };
                    assert_eq!(token.is_some(), expected.is_some(), "seed {seed}, step {step}");
                    let Some((token, (at, handle, (used, accepted), goes))) = token.zip(expected) else {
                        dropped += 1;
                        continue;
                    };
                    let _ = w.ends[0].finished(token, NiFail::OK);
                    let events = w.ends[0].events(eq);
                    let told = (events[0].md_handle, events[0].offset, events[0].mlength);
                    assert_eq!(told, (handle, used, accepted), "seed {seed}, step {step}");
                    assert_eq!(events.len(), if goes { 3 } else { 2 }, "seed {seed}, step {step}");
                    if goes {
                        list[at].md = None;
                    }
                }
            }
            let order: Vec<_> = list.iter().map(|e| e.me.index()).collect();
            assert!(
                w.ends[0].portals[3].entries().eq(order),
                "order, seed {seed}, step {step}"
            );
        }
        assert_eq!(w.ends[0].status(SR_DROP_COUNT), Ok(dropped));
    }
}

/// Insertions between the same two entries use the labels up: they are spread, and order stays.
#[test]
fn insertions_at_one_place() {
    let mut w = world(1);
    let end = &mut w.ends[0];
    let all = (0, NO_BITS);
    let first = end
        .me_attach(3, ProcessId::ANY, all, Unlink::Retain, Position::After)
        .unwrap();
    let last = end
        .me_attach(3, ProcessId::ANY, all, Unlink::Retain, Position::After)
        .unwrap();
    let mut between = Vec::new();
    for n in 0..500 {
        let (base, position) = if n % 2 == 0 {
            (first, Position::After)
        } else {
            (last, Position::Before)
        };
        let me = end
            .me_insert(base, ProcessId::ANY, all, Unlink::Retain, position)
            .unwrap();
        between.insert(between.len().div_ceil(2).min(n / 2 + n % 2), (n, me));
    }
    // After `first` come the even ones, latest first; before `last` the odd ones, latest last.
    let mut order: Vec<u16> = vec![first.index()];
    let of = |n: usize| between.iter().find(|b| b.0 == n).unwrap().1.index();
    order.extend((0..500).rev().filter(|n| n % 2 == 0).map(of));
    order.extend((0..500).filter(|n| n % 2 == 1).map(of));
    order.push(last.index());
    assert!(end.portals[3].entries().eq(order));
    for (_, me) in between {
        end.me_unlink(me).unwrap();
    }
    assert!(end.portals[3].entries().eq([first.index(), last.index()]));
}
