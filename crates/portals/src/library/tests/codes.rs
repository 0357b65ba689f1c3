//! Every function with every error code it has (section 3).

use super::*;
use crate::memory::Segment;
use crate::types::option::*;

#[test]
fn numbers_and_names_of_the_return_codes() {
    let numbers: Vec<i32> = Error::ALL.iter().map(|e| e.code()).collect();
    // 25, which Cray returns of a second PtlNIInit of an interface, is never returned here.
    assert_eq!(numbers, (1..=24).chain([26]).collect::<Vec<_>>());
    assert!(
        Error::ALL
            .iter()
            .all(|e| e.name().starts_with("PTL_") && e.to_string().len() > 10)
    );
    assert_eq!((Error::EqDropped.code(), Error::PtFull.code()), (2, 20));
}

#[test]
fn opening() {
    let processes = processes(2);
    assert_eq!(
        Library::new(0, 0, 2, Rc::clone(&processes), None).err(),
        Some(Error::PidInvalid)
    );
    let end = library(1, &processes, None);
    assert_eq!(
        end.identity(),
        Identity {
            id: id(1),
            uid: UID,
            jid: JID
        }
    );
    assert_eq!(*end.limits(), Limits::LIBRARY);
    assert_eq!(end.status(SR_DROP_COUNT), Ok(0));
    assert_eq!(end.status(1), Err(Error::SrIndexInvalid));
    let wanted = Limits {
        max_mes: -5,
        max_mds: 0,
        max_eqs: 1,
        max_ac_index: i32::MAX,
        max_pt_index: 2,
        max_md_iovecs: 3,
        max_me_list: i32::MIN,
        max_getput_md: 1000,
    };
    let actual = Limits {
        max_mes: 0,
        max_ac_index: 63,
        max_me_list: 0,
        max_getput_md: 64,
        ..wanted
    };
    let mut end = library(0, &processes, Some(&wanted));
    assert_eq!(*end.limits(), actual);
    assert_eq!(
        end.md_bind(md(8, 0, Handle::EQ_NONE), None, Unlink::Retain),
        Err(Error::NoSpace)
    );
    assert!(end.eq_alloc(2, false).unwrap().is_some());
    assert_eq!(end.eq_alloc(2, false), Err(Error::NoSpace));
    assert_eq!(
        end.me_attach(3, ProcessId::ANY, (0, 0), Unlink::Retain, Position::After),
        Err(Error::PtIndexInvalid)
    );
}

#[test]
fn handles_stale_and_forged() {
    let mut w = world(1);
    let end = &mut w.ends[0];
    let eq = end.queue();
    let (me, here) = end.post(7, md(8, OP_PUT, eq), Unlink::Retain);
    for known in [eq, me, here, end.handle()] {
        assert_eq!(end.interface_of(known), Ok(end.handle()));
        assert!(known.is_plausible() && known.interface() == 0);
    }
    assert_eq!(
        Library::new(0, 1, 0, Rc::clone(end.processes()), None)
            .unwrap()
            .interface_of(end.handle()),
        Err(Error::HandleInvalid)
    );
    let mut forged = vec![Handle(0), Handle::INVALID, Handle::NONE, Handle::EQ_NONE];
    for bit in 0..32 {
        forged.extend([eq, me, here].map(|h| Handle(h.0 ^ 1 << bit)));
    }
    let live = [eq, me, here, end.handle()];
    forged.retain(|forged| !live.contains(forged));
    let good = md(8, OP_PUT, eq);
    for bad in forged {
        assert_eq!(end.interface_of(bad), Err(Error::HandleInvalid), "{bad:?}");
        assert_eq!(end.me_unlink(bad), Err(Error::MeInvalid));
        let inserted = end.me_insert(bad, ProcessId::ANY, (0, 0), Unlink::Retain, Position::After);
        assert_eq!(inserted, Err(Error::MeInvalid));
        assert_eq!(
            end.md_attach(bad, good, None, Unlink::Retain),
            Err(Error::MeInvalid)
        );
        assert_eq!(end.md_unlink(bad), Err(Error::MdInvalid));
        assert_eq!(
            end.md_update(bad, None, None, Handle::EQ_NONE),
            Err(Error::MdInvalid)
        );
        assert_eq!(
            end.put(bad, None, AckReq::Ack, &target(0, 7), 0).unwrap_err(),
            Error::MdInvalid
        );
        assert_eq!(end.get(bad, None, &target(0, 7)).unwrap_err(), Error::MdInvalid);
        assert_eq!(
            end.get_put(bad, here, &target(0, 7), 0).unwrap_err(),
            Error::MdInvalid
        );
        assert_eq!(
            end.get_put(here, bad, &target(0, 7), 0).unwrap_err(),
            Error::MdInvalid
        );
        assert_eq!(end.eq_free(bad), Err(Error::EqInvalid));
        assert_eq!(end.eq_get(bad), Err(Error::EqInvalid));
        assert_eq!(end.eq_has_events(bad), Err(Error::EqInvalid));
        if bad != Handle::EQ_NONE {
            assert_eq!(
                end.md_update(here, None, Some((good, None)), bad),
                Err(Error::EqInvalid)
            );
            let other = bad.is_plausible() && bad.kind() == HandleKind::Eq && bad.interface() != 0;
            let expected = if other { Error::MdIllegal } else { Error::EqInvalid };
            assert_eq!(
                end.md_bind(md(8, 0, bad), None, Unlink::Retain),
                Err(expected),
                "{bad:?}"
            );
        }
    }
    // Handles are not used again for long: whatever is freed is stale.
    let mut seen = std::collections::HashSet::new();
    for _ in 0..Handle::GENERATIONS {
        let handle = end.md_bind(good, None, Unlink::Retain).unwrap();
        assert!(handle.is_plausible() && seen.insert(handle));
        end.md_unlink(handle).unwrap();
        assert_eq!(end.md_unlink(handle), Err(Error::MdInvalid));
    }
    end.me_unlink(me).unwrap();
    assert_eq!(end.me_unlink(me), Err(Error::MeInvalid));
    assert_eq!(
        end.md_unlink(here),
        Err(Error::MdInvalid),
        "it went with its entry"
    );
    end.eq_free(eq).unwrap();
    assert_eq!(end.eq_get(eq), Err(Error::EqInvalid));
}

#[test]
fn match_entries() {
    let processes = processes(2);
    let limits = Limits {
        max_mes: 3,
        max_pt_index: 1,
        ..Limits::LIBRARY
    };
    let mut end = library(0, &processes, Some(&limits));
    let all =
        |end: &mut Library, pt| end.me_attach(pt, ProcessId::ANY, (0, 0), Unlink::Retain, Position::After);
    assert_eq!(all(&mut end, 2), Err(Error::PtIndexInvalid));
    assert_eq!(all(&mut end, u32::MAX), Err(Error::PtIndexInvalid));
    for nobody in [
        ProcessId::new(9, 0),
        ProcessId::new(9, ANY),
        ProcessId::new(ANY, 9),
        ProcessId::new(0, 2),
    ] {
        let attached = end.me_attach(0, nobody, (0, 0), Unlink::Retain, Position::After);
        assert_eq!(attached, Err(Error::ProcessInvalid), "{nobody}");
        assert_eq!(
            end.me_attach_any(nobody, (0, 0), Unlink::Retain),
            Err(Error::ProcessInvalid)
        );
    }
    // An index without entries is taken, and is free again when its entries have gone.
    let (first, a) = end.me_attach_any(ProcessId::ANY, (0, 0), Unlink::Retain).unwrap();
    let (second, _) = end.me_attach_any(ProcessId::ANY, (0, 0), Unlink::Retain).unwrap();
    assert_eq!((first, second), (0, 1));
    assert_eq!(
        end.me_attach_any(ProcessId::ANY, (0, 0), Unlink::Retain),
        Err(Error::PtFull)
    );
    let third = end
        .me_insert(a, id(1), (0, 0), Unlink::Retain, Position::Before)
        .unwrap();
    assert_eq!(all(&mut end, 0), Err(Error::NoSpace));
    assert_eq!(
        end.me_insert(a, id(1), (0, 0), Unlink::Retain, Position::Before),
        Err(Error::NoSpace)
    );
    assert_eq!(
        end.me_insert(a, id(2), (0, 0), Unlink::Retain, Position::Before),
        Err(Error::ProcessInvalid)
    );
    end.me_unlink(third).unwrap();
    end.me_unlink(a).unwrap();
    assert_eq!(end.me_attach_any(id(1), (0, 0), Unlink::Retain).unwrap().0, 0);
}

#[test]
fn descriptors() {
    let mut w = world(1);
    let end = &mut w.ends[0];
    let eq = end.queue();
    let none = Handle::EQ_NONE;
    let (me, here) = end.post(7, md(8, OP_PUT, eq), Unlink::Retain);
    assert_eq!(
        end.md_attach(me, md(8, 0, eq), None, Unlink::Retain),
        Err(Error::MeInUse)
    );
    let illegal = [
        (
            "unknown option",
            Md {
                options: 0x200,
                ..md(8, 0, none)
            },
            None,
        ),
        ("threshold", with_threshold(-2, md(8, 0, none)), None),
        ("threshold", with_threshold(i32::MIN, md(8, 0, none)), None),
        (
            "no memory",
            Md {
                start: 0,
                ..md(1, 0, none)
            },
            None,
        ),
        ("too long", md(u64::MAX, 0, none), None),
        (
            "past the end",
            Md {
                start: usize::MAX - 7,
                ..md(9, 0, none)
            },
            None,
        ),
        (
            "segments without the option",
            md(1, 0, none),
            Some([Segment { address: 1, len: 1 }].into()),
        ),
        ("the option without segments", md(1, IOVEC, none), None),
        (
            "another number",
            md(2, IOVEC, none),
            Some([Segment { address: 1, len: 1 }].into()),
        ),
        (
            "too many",
            md(257, IOVEC, none),
            Some(vec![Segment { address: 1, len: 1 }; 257].into()),
        ),
        (
            "no memory",
            md(1, IOVEC, none),
            Some([Segment { address: 0, len: 1 }].into()),
        ),
        (
            "past the end",
            md(1, IOVEC, none),
            Some(
                [Segment {
                    address: usize::MAX,
                    len: 2,
                }]
                .into(),
            ),
        ),
        (
            "overflow",
            md(3, IOVEC, none),
            Some(
                vec![
                    Segment {
                        address: 8,
                        len: isize::MAX as usize
                    };
                    3
                ]
                .into(),
            ),
        ),
    ];
    let free = end
        .me_attach(3, ProcessId::ANY, (0, 0), Unlink::Retain, Position::After)
        .unwrap();
    for (what, values, iovec) in illegal {
        let iovec: Iovec = iovec;
        assert_eq!(
            end.md_bind(values, iovec.clone(), Unlink::Retain),
            Err(Error::MdIllegal),
            "{what}"
        );
        assert_eq!(
            end.md_attach(free, values, iovec.clone(), Unlink::Retain),
            Err(Error::MdIllegal),
            "{what}"
        );
        let updated = end.md_update(here, None, Some((values, iovec)), none);
        assert_eq!(updated, Err(Error::MdIllegal), "{what}");
    }
    for (values, iovec) in [
        (
            Md {
                start: 0,
                ..md(0, 0, none)
            },
            None,
        ),
        (
            Md {
                start: usize::MAX - 7,
                ..md(7, 0, none)
            },
            None,
        ),
        (md(0, IOVEC, none), Some(Rc::from([]))),
        (
            md(256, IOVEC, none),
            Some(vec![Segment { address: 1, len: 1 }; 256].into()),
        ),
    ] {
        assert!(end.md_bind(values, iovec, Unlink::Retain).is_ok());
    }
    let processes = processes(1);
    let mut end = library(
        0,
        &processes,
        Some(&Limits {
            max_mds: 1,
            ..Limits::LIBRARY
        }),
    );
    end.post(7, md(8, 0, none), Unlink::Retain);
    assert_eq!(
        end.md_bind(md(8, 0, none), None, Unlink::Retain),
        Err(Error::NoSpace)
    );
    let me = end
        .me_attach(3, ProcessId::ANY, (0, 0), Unlink::Retain, Position::After)
        .unwrap();
    assert_eq!(
        end.md_attach(me, md(8, 0, none), None, Unlink::Retain),
        Err(Error::NoSpace)
    );
}

#[test]
fn queues() {
    let mut w = world(1);
    let end = &mut w.ends[0];
    assert_eq!(end.eq_alloc(0, false), Ok(None));
    assert_eq!(end.eq_alloc(u32::MAX, false), Err(Error::NoSpace));
    let eq = end.queue();
    assert_eq!(end.eq_get(eq), Err(Error::EqEmpty));
    // A descriptor whose queue is gone, against the rules, logs nothing and stays usable.
    let (me, here) = end.post(7, md(8, OP_PUT | MANAGE_REMOTE, eq), Unlink::Retain);
    end.eq_free(eq).unwrap();
    let again = end.queue();
    w.put(0, 8, AckReq::Ack, &target(0, 7));
    assert!(w.ends[0].events(again).is_empty());
    w.ends[0].md_unlink(here).unwrap();
    w.ends[0].me_unlink(me).unwrap();
}

#[test]
fn access_entries() {
    let mut w = world(2);
    let open = AccessEntry {
        id: ProcessId::ANY,
        uid: ANY,
        jid: ANY,
        pt_index: ANY,
    };
    let end = &mut w.ends[0];
    assert_eq!(end.ac_entry(64, open), Err(Error::AcIndexInvalid));
    assert_eq!(end.ac_entry(u32::MAX, open), Err(Error::AcIndexInvalid));
    assert_eq!(
        end.ac_entry(63, AccessEntry { pt_index: 64, ..open }),
        Err(Error::PtIndexInvalid)
    );
    assert_eq!(
        end.ac_entry(63, AccessEntry { id: id(2), ..open }),
        Err(Error::ProcessInvalid)
    );
    assert_eq!(
        end.ac_entry(
            63,
            AccessEntry {
                id: ProcessId::new(7, ANY),
                ..open
            }
        ),
        Err(Error::ProcessInvalid)
    );
    assert_eq!(
        end.ac_entry(
            63,
            AccessEntry {
                pt_index: 63,
                id: id(1),
                ..open
            }
        ),
        Ok(())
    );
}

#[test]
fn movement() {
    let mut w = world(2);
    let end = &mut w.ends[0];
    let eq = end.queue();
    let good = end.md_bind(md(64, 0, eq), None, Unlink::Retain).unwrap();
    let off = end
        .md_bind(with_threshold(0, md(64, 0, eq)), None, Unlink::Retain)
        .unwrap();
    let long = end.md_bind(md(65, 0, eq), None, Unlink::Retain).unwrap();
    let to = target(1, 7);
    // Section 7: an inactive descriptor is refused.
    assert_eq!(
        end.put(off, None, AckReq::Ack, &to, 0).unwrap_err(),
        Error::MdInvalid
    );
    assert_eq!(end.get(off, None, &to).unwrap_err(), Error::MdInvalid);
    assert_eq!(end.get_put(off, good, &to, 0).unwrap_err(), Error::MdInvalid);
    assert_eq!(end.get_put(good, off, &to, 0).unwrap_err(), Error::MdInvalid);
    for region in [
        (0, 65),
        (64, 1),
        (65, 0),
        (u64::MAX, 1),
        (1, u64::MAX),
        (u64::MAX, u64::MAX),
    ] {
        assert_eq!(
            end.put(good, Some(region), AckReq::Ack, &to, 0).unwrap_err(),
            Error::MdIllegal,
            "{region:?}"
        );
        assert_eq!(
            end.get(good, Some(region), &to).unwrap_err(),
            Error::MdIllegal,
            "{region:?}"
        );
    }
    assert_eq!(end.get_put(good, long, &to, 0).unwrap_err(), Error::MdIllegal);
    for nobody in [id(2), ProcessId::ANY, ProcessId::new(0, ANY)] {
        let to = Target { id: nobody, ..to };
        assert_eq!(
            end.put(good, None, AckReq::Ack, &to, 0).unwrap_err(),
            Error::ProcessInvalid
        );
        assert_eq!(end.get(good, None, &to).unwrap_err(), Error::ProcessInvalid);
        assert_eq!(
            end.get_put(good, good, &to, 0).unwrap_err(),
            Error::ProcessInvalid
        );
    }
    assert!(end.events(eq).is_empty(), "what is refused makes no event");
    assert_eq!(end.operations(), 0);
    assert!(
        end.put(good, Some((64, 0)), AckReq::NoAck, &to, 0)
            .unwrap()
            .body
            .is_empty()
    );
    assert!(end.get_put(long, good, &to, 0).is_ok());
}

/// The limit of operations in progress: an initiator is told, a target drops and counts.
#[test]
fn operations_without_room() {
    let mut w = world(2);
    let eq = w.ends[0].queue();
    w.ends[1].post(
        7,
        md(64, OP_PUT | OP_GET | MANAGE_REMOTE, Handle::EQ_NONE),
        Unlink::Retain,
    );
    let source = w.ends[0].md_bind(md(8, 0, eq), None, Unlink::Retain).unwrap();
    w.ends[0].operations = ObjectTable::new(2);
    w.ends[1].operations = ObjectTable::new(1);
    let to = target(1, 7);
    let first = w.ends[0].put(source, None, AckReq::Ack, &to, 0).unwrap();
    let second = w.ends[0].get(source, None, &to).unwrap();
    let end = &mut w.ends[0];
    assert_eq!(
        end.put(source, None, AckReq::NoAck, &to, 0).unwrap_err(),
        Error::NoSpace
    );
    assert_eq!(
        end.put(source, Some((1, 2)), AckReq::NoAck, &to, 0).unwrap_err(),
        Error::NoSpace
    );
    assert_eq!(end.get(source, None, &to).unwrap_err(), Error::NoSpace);
    assert_eq!(end.get_put(source, source, &to, 0).unwrap_err(), Error::NoSpace);
    assert_eq!(end.kinds(eq), [SendStart], "what is refused makes no event");
    let Verdict::Store { token, .. } = w.ends[1].incoming(0, &first.header, 8) else {
        panic!("a place")
    };
    w.carry(0, second);
    assert_eq!(w.dropped(1, DropReason::NoRoom), 1);
    w.ended(0, first.token, NiFail::OK);
    w.ended(1, token, NiFail::OK);
    assert_eq!(
        w.ends[0].kinds(eq),
        [SendEnd, Ack],
        "what was accepted is acknowledged"
    );
    assert!(w.at_rest());
}

/// A get-put that the initiator's limit allows and the target's does not is a drop, and no fault of the initiator's.
#[test]
fn a_get_put_longer_than_the_target_allows() {
    let processes = processes(2);
    let few = Limits {
        max_getput_md: 8,
        ..Limits::LIBRARY
    };
    let mut w = World {
        ends: vec![library(0, &processes, None), library(1, &processes, Some(&few))],
    };
    w.ends[1].post(
        7,
        md(64, OP_PUT | OP_GET | MANAGE_REMOTE, Handle::EQ_NONE),
        Unlink::Retain,
    );
    for (length, reason) in [
        (8, None),
        (9, Some(DropReason::NoMatch)),
        (64, Some(DropReason::NoMatch)),
    ] {
        let eq = w.ends[0].queue();
        let md = w.ends[0]
            .md_bind(md(length, 0, eq), None, Unlink::Retain)
            .unwrap();
        let message = w.ends[0].get_put(md, md, &target(1, 7), 0).unwrap();
        let before = reason.map_or(0, |reason| w.dropped(1, reason));
        w.carry(0, message.clone());
        if let Some(reason) = reason {
            assert_eq!(w.dropped(1, reason), before + 1, "{length} bytes");
        }
        assert_eq!(w.ends[0].kinds(eq).len(), if reason.is_none() { 4 } else { 2 });
        w.ends[0].md_unlink(md).unwrap();
        w.ends[0].eq_free(eq).unwrap();
        // No library sends more than 64.
        let forged = w.ends[1].incoming(0, &message.header, 65);
        assert!(matches!(
            forged,
            Verdict::Drop {
                reason: DropReason::Malformed,
                answer: Some(_)
            }
        ));
    }
    assert!(w.at_rest());
}
