//! The interface of a host: pids, messages, who is who, who has gone, and what cannot be asked.

#[path = "hosts/mod.rs"]
mod hosts;

use farpost_portals::EventKind::*;
use farpost_portals::host::{INTERFACE, PIDS};
use farpost_portals::{
    ANY, AccessEntry, AckReq, DropReason, Error, NetworkInterface, NiFail, ProcessId, Segment, Target, option,
};
use hosts::{ALONE, BASE, BYTES, One, PT, Who, agent, any, join};
use std::cell::RefCell;
use std::rc::Rc;

fn to(one: &One, bits: u64) -> Target {
    Target {
        id: one.id,
        pt_index: PT,
        ac_index: 0,
        match_bits: bits,
        offset: 0,
    }
}

const BOTH: u32 = option::OP_PUT | option::OP_GET | option::MANAGE_REMOTE;

/// Lengths on both sides of a piece that is copied at a time.
#[test]
fn put_and_get_of_all_lengths() {
    let agent = agent();
    let (a, b) = (any(&agent), any(&agent));
    b.attach(1, b.md(0, 300_000, BOTH), None);
    let from = a.bind(a.md(0, 300_000, 0));
    let into = a.bind(a.md(300_000, 300_000, 0));
    for (turn, len) in [0u64, 1, 8, 4096, 262_144, 262_145, 300_000]
        .into_iter()
        .enumerate()
    {
        let bytes: Vec<u8> = (0..len).map(|n| (n * 7 + turn as u64) as u8).collect();
        a.fill(0, &bytes);
        a.member
            .put_region(from, (0, len), AckReq::Ack, &to(&b, 1), 40 + turn as u64)
            .unwrap();
        assert_eq!(a.kinds(), [SendStart, SendEnd, Ack]);
        let events = b.events();
        assert_eq!([events[0].kind, events[1].kind], [PutStart, PutEnd]);
        assert_eq!((events[1].mlength, events[1].hdr_data), (len, 40 + turn as u64));
        assert_eq!((events[1].initiator, events[1].uid), (a.id, ALONE.uid));
        assert_eq!(b.bytes(0, len as usize), bytes);
        a.member.get_region(into, (0, len), &to(&b, 1)).unwrap();
        assert_eq!(a.kinds(), [ReplyStart, ReplyEnd]);
        assert_eq!(b.kinds(), [GetStart, GetEnd]);
        assert_eq!(a.bytes(300_000, len as usize), bytes);
    }
}

#[test]
fn segments_and_get_put() {
    let agent = agent();
    let (a, b) = (any(&agent), any(&agent));
    let pieces: Rc<[Segment]> = [(10, 3), (100, 0), (50, 5)]
        .map(|(at, len)| Segment::new(BASE + at, len))
        .into();
    let md = farpost_portals::Md {
        length: 3,
        ..b.md(0, 0, BOTH | option::IOVEC)
    };
    b.attach(2, md, Some(pieces));
    b.fill(10, b"abc");
    b.fill(50, b"defgh");
    a.fill(0, b"01234567");
    let (from, into) = (a.bind(a.md(0, 8, 0)), a.bind(a.md(100, 8, 0)));
    a.member.get_put(into, from, &to(&b, 2), 9).unwrap();
    assert_eq!(a.bytes(100, 8), b"abcdefgh");
    assert_eq!(
        (b.bytes(10, 3), b.bytes(50, 5)),
        (b"012".to_vec(), b"34567".to_vec())
    );
    assert_eq!(a.kinds(), [SendStart, SendEnd, ReplyStart, ReplyEnd]);
    assert_eq!(b.kinds(), [GetPutStart, GetPutEnd]);
}

#[test]
fn pids_are_chosen_or_given() {
    let agent = agent();
    let a = join(&agent, 5, ALONE).unwrap();
    assert_eq!(
        (a.id, a.member.handle().interface()),
        (ProcessId::new(0, 5), INTERFACE)
    );
    let refused = join(&agent, 5, ALONE).err().unwrap();
    assert_eq!(refused.code, Error::PidInUse);
    assert!(refused.why.contains("process 1000 of user 7"), "{}", refused.why);
    for pid in [0, PIDS, PIDS + 7] {
        assert_eq!(join(&agent, pid, ALONE).err().unwrap().code, Error::PidInvalid);
    }
    assert_eq!(any(&agent).id.pid, PIDS - 1, "the one before it has gone");
    let all: Vec<One> = (0..PIDS - 2).map(|_| any(&agent)).collect();
    let full = join(&agent, ANY, ALONE).err().unwrap();
    assert!(full.why.contains("in use"), "{}", full.why);
    let stale = a.eq;
    drop(a);
    let again = join(&agent, 5, ALONE).unwrap();
    assert_eq!(again.member.eq_get(stale), Err(Error::EqInvalid));
    assert!(all.iter().all(|one| one.id != again.id));
}

/// A header has neither user nor job: entries that admit one of them admit whom the kernel says, and nobody else.
#[test]
fn user_and_job_are_the_hosts_word() {
    let agent = agent();
    let who = |uid, process, job| Who { uid, process, job };
    let service = join(&agent, 9, who(7, 50, None)).unwrap();
    let first = join(&agent, ANY, who(7, 60, Some((1, 1)))).unwrap();
    let second = join(&agent, ANY, who(7, 61, Some((1, 1)))).unwrap();
    let other = join(&agent, ANY, who(7, 62, Some((1, 2)))).unwrap();
    let stranger = join(&agent, ANY, who(8, 63, Some((1, 1)))).unwrap();
    let jid = |one: &One| one.member.identity().jid;
    assert_eq!(jid(&first), jid(&second));
    assert!(
        jid(&first) != jid(&other) && jid(&first) != jid(&stranger),
        "the same file of another user"
    );
    service.attach(1, service.md(0, 64, BOTH), None);
    let entry = |uid, jid| AccessEntry {
        id: ProcessId::ANY,
        uid,
        jid,
        pt_index: ANY,
    };
    service.member.ac_entry(1, entry(ANY, jid(&first))).unwrap();
    service.member.ac_entry(2, entry(8, ANY)).unwrap();
    let say = |one: &One, ac_index| {
        let md = one.bind(one.md(0, 8, 0));
        let target = Target {
            ac_index,
            ..to(&service, 1)
        };
        one.member.put(md, AckReq::NoAck, &target, 0).unwrap();
        let came = service.events().into_iter().find(|event| event.kind == PutEnd);
        came.map(|event| (event.uid, event.jid))
    };
    let mut dropped = [0, 0];
    for one in [&first, &second, &other, &stranger] {
        let (uid, job) = (one.member.identity().uid, jid(one));
        let admitted = |passes: bool| passes.then_some((uid, job));
        assert_eq!(say(one, 0), admitted(uid == 7), "entry 0 is the user's");
        assert_eq!(say(one, 1), admitted(job == jid(&first)));
        assert_eq!(say(one, 2), admitted(uid == 8));
        dropped[0] += u64::from(uid != 7) + u64::from(uid != 8);
        dropped[1] += u64::from(job != jid(&first));
    }
    let counts = [DropReason::AccessUid, DropReason::AccessJid].map(|why| service.member.dropped(why));
    assert_eq!(counts, dropped);
    assert_eq!(dropped, [4, 2]);
}

/// The number of a job whose first process has gone stays with it; a process that has the number now is another job.
#[test]
fn numbers_of_jobs_are_not_shared() {
    let agent = agent();
    let who = |process, job| Who { uid: 7, process, job };
    let first = join(&agent, ANY, who(60, Some((1, 1)))).unwrap();
    let second = join(&agent, ANY, who(61, Some((1, 1)))).unwrap();
    drop(first);
    let stranger = join(&agent, ANY, who(60, None)).unwrap();
    assert_eq!(second.member.identity().jid, 60);
    assert_ne!(stranger.member.identity().jid, 60);
}

#[test]
fn who_has_gone_is_told_of() {
    let agent = agent();
    let (a, b) = (any(&agent), any(&agent));
    b.attach(1, b.md(0, 64, BOTH), None);
    let target = to(&b, 1);
    drop(b);
    let md = a.bind(a.md(0, 8, 0));
    a.member.put(md, AckReq::Ack, &target, 0).unwrap();
    let events = a.events();
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.kind, event.ni_fail_type))
        .collect();
    assert_eq!(
        told[..2],
        [(SendStart, NiFail::OK), (SendEnd, NiFail::UNDELIVERABLE)]
    );
    a.member.get(md, &target).unwrap();
    let events = a.events();
    assert_eq!(
        events.last().map(|e| (e.kind, e.ni_fail_type)),
        Some((ReplyEnd, NiFail::UNDELIVERABLE))
    );
    let nowhere = Target {
        id: ProcessId::new(1, 5),
        ..target
    };
    assert_eq!(
        a.member.put(md, AckReq::Ack, &nowhere, 0),
        Err(Error::ProcessInvalid)
    );
    // Nothing is left of them.
    a.member.md_unlink(md).unwrap();
}

#[test]
fn memory_that_is_not_there() {
    let agent = agent();
    let (a, b) = (any(&agent), any(&agent));
    b.attach(1, b.md(0, 64, BOTH), None);
    b.attach(2, b.md(BYTES - 4, 64, BOTH), None);
    let (good, bad) = (a.bind(a.md(0, 8, 0)), a.bind(a.md(BYTES, 8, 0)));
    let ends = |one: &One| {
        let events = one.events();
        events
            .iter()
            .map(|e| (e.kind, e.ni_fail_type))
            .filter(|(kind, _)| *kind != SendStart && *kind != PutStart)
            .collect::<Vec<_>>()
    };
    a.member.put(bad, AckReq::NoAck, &to(&b, 1), 0).unwrap();
    assert_eq!(
        (ends(&a), ends(&b)),
        (vec![(SendEnd, NiFail::FAIL)], vec![(PutEnd, NiFail::FAIL)])
    );
    a.member.put(good, AckReq::NoAck, &to(&b, 2), 0).unwrap();
    assert_eq!(
        (ends(&a), ends(&b)),
        (vec![(SendEnd, NiFail::OK)], vec![(PutEnd, NiFail::FAIL)])
    );
    a.member.put(good, AckReq::NoAck, &to(&b, 1), 0).unwrap();
    assert_eq!(
        (ends(&a), ends(&b)),
        (vec![(SendEnd, NiFail::OK)], vec![(PutEnd, NiFail::OK)])
    );
}

#[test]
fn handlers_see_what_comes() {
    let agent = agent();
    let (a, b) = (any(&agent), any(&agent));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let of_handler = Rc::clone(&seen);
    let handler = move |event: &farpost_portals::Event| of_handler.borrow_mut().push(event.hdr_data);
    let eq = b.member.eq_alloc(64, Some(Rc::new(handler))).unwrap();
    let md = farpost_portals::Md {
        eq_handle: eq,
        ..b.md(0, 64, BOTH | option::EVENT_START_DISABLE)
    };
    b.attach(1, md, None);
    let md = a.bind(a.md(0, 8, option::EVENT_START_DISABLE));
    for n in 0..40 {
        a.member.put(md, AckReq::NoAck, &to(&b, 1), n).unwrap();
    }
    assert!(b.member.progress());
    assert_eq!(*seen.borrow(), (0..40).collect::<Vec<_>>());
    assert_eq!(
        b.member.eq_get(eq).unwrap().event.hdr_data,
        0,
        "they are in the queue, too"
    );
}

/// Events that nobody takes are kept up to a bound; then messages are dropped and counted, and others go on.
#[test]
fn handlers_that_take_nothing() {
    let agent = agent();
    let (a, b) = (any(&agent), any(&agent));
    let eq = b
        .member
        .eq_alloc(64, Some(Rc::new(|_: &farpost_portals::Event| {})))
        .unwrap();
    let md = farpost_portals::Md {
        eq_handle: eq,
        ..b.md(0, 64, BOTH | option::EVENT_START_DISABLE)
    };
    b.attach(1, md, None);
    let from = a.bind(farpost_portals::Md {
        eq_handle: farpost_portals::Handle::EQ_NONE,
        ..a.md(0, 8, 0)
    });
    for _ in 0..16_384 + 3 {
        a.member.put(from, AckReq::NoAck, &to(&b, 1), 0).unwrap();
    }
    assert_eq!(b.member.dropped(DropReason::NoRoom), 3);
    assert!(b.member.progress());
    a.member.put(from, AckReq::NoAck, &to(&b, 1), 0).unwrap();
    assert_eq!(b.member.dropped(DropReason::NoRoom), 3, "they have been taken");
}

/// One asks whatever there is. It is put out at once or answered; two others go on.
#[test]
fn whatever_is_asked() {
    for seed in 0..100 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let agent = agent();
        let (a, b, mut bad) = (any(&agent), any(&agent), any(&agent));
        b.attach(1, b.md(0, 64, BOTH), None);
        bad.attach(1, bad.md(0, 64, BOTH), None);
        let from = a.bind(a.md(0, 8, 0));
        for _ in 0..8 {
            let mut words = vec![u64::from(rng.u8(..45))];
            words.extend((0..rng.usize(..40)).map(|_| match rng.u8(..6) {
                0 => u64::from(rng.u8(..4)),
                1 => u64::from(bad.eq.0),
                2 => u64::MAX - rng.u64(..3),
                3 => rng.u64(..300) | rng.u64(..6) << 32,
                4 => BASE as u64 + rng.u64(..BYTES as u64),
                _ => rng.u64(..),
            }));
            let pid = bad.id.pid;
            if agent.borrow_mut().ask(pid, &words).is_err() {
                agent.borrow_mut().leave(pid);
                bad.ended.set(true);
                bad = any(&agent);
            }
            let byte = rng.u8(..);
            a.fill(0, &[byte; 8]);
            a.member.put(from, AckReq::Ack, &to(&b, 1), 5).unwrap();
            assert_eq!(b.bytes(0, 8), [byte; 8], "seed {seed}");
            assert_eq!(a.kinds(), [SendStart, SendEnd, Ack], "seed {seed}");
        }
    }
}

#[test]
fn an_agent_that_has_ended() {
    let agent = agent();
    let a = any(&agent);
    a.ended.set(true);
    assert_eq!(a.member.eq_get(a.eq), Err(Error::Fail));
    assert_eq!(a.member.eq_wait(a.eq), Err(Error::Fail));
    assert!(a.member.has_ended());
}
