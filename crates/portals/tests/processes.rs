//! Portals between real processes on shared memory: two and eight of them, and one that is killed.
#![allow(
    clippy::disallowed_methods,
    reason = "processes and threads of a test wait by the host's clock"
)]

mod common;

use common::*;
use farpost_fabric::conformance::{child, kill, reap};
use farpost_mapped::sealed_memory;
use farpost_portals::EventKind::{Ack, PutEnd, ReplyEnd, SendEnd};
use farpost_portals::net::NetTunables;
use farpost_portals::option::*;
use farpost_portals::*;
use farpost_shm::conformance::shm_end;
use farpost_shm::{Shm, ShmTunables, region_bytes};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

const PLACE: usize = 40_000;
const ROUNDS: usize = 20;
const LENGTHS: [usize; 6] = [8, 0, 100, 3000, 17_000, 40_000];

fn open(file: &OwnedFd, index: u32, size: u32) -> Interface<Shm> {
    let shm = shm_end(file, (index, size), 2, ShmTunables::default());
    let processes = Rc::new(Processes::on_one_host(size, 1000, 1));
    interface(Rc::new(shm), &NetTunables::default(), &processes)
}

/// The next event of `kind`.
fn wait(ni: &Interface<Shm>, eq: Handle, kind: EventKind) -> Event {
    loop {
        let (_, taken) = ni
            .eq_poll(&[eq], Some(Duration::from_secs(60)))
            .expect("an event within a minute");
        assert!(!taken.dropped);
        if taken.event.kind == kind {
            return taken.event;
        }
    }
}

/// Everybody puts to everybody, waits for what all put here, and gets it from the next.
fn all_to_all(ni: &Interface<Shm>, me: u32, size: u32) {
    let (own, came) = (ni.eq_alloc(4096, None).unwrap(), ni.eq_alloc(4096, None).unwrap());
    let board = Memory::zeros(PLACE * size as usize);
    let only_ends = OP_PUT | MANAGE_REMOTE | EVENT_START_DISABLE;
    post(ni, (1, 0), board.md(only_ends, came), None);
    post(
        ni,
        (2, 0),
        board.md(OP_GET | MANAGE_REMOTE, Handle::EQ_NONE),
        None,
    );
    // Nobody puts before everybody is ready: a put to nobody would be dropped. Each tells each, again until it is heard.
    let word = Memory::zeros(1);
    let ready = bind(ni, word.md(EVENT_START_DISABLE, own));
    for to in (0..size).filter(|to| *to != me) {
        loop {
            let offset = PLACE as u64 * u64::from(me);
            ni.put(
                ready,
                AckReq::Ack,
                &Target {
                    offset,
                    ..target(to, 1)
                },
                u64::MAX,
            )
            .unwrap();
            wait(ni, own, SendEnd);
            let answered = ni.eq_poll(&[own], Some(Duration::from_millis(100)));
            match answered {
                Ok((_, taken)) if taken.event.kind == Ack => break,
                Ok(_) | Err(Error::EqEmpty) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
    let bytes = |round: usize, from: u32, to: u32| {
        let seed = (round as u64) << 32 | u64::from(from) << 16 | u64::from(to);
        pattern(
            seed,
            LENGTHS[(round + from as usize + to as usize) % LENGTHS.len()],
        )
    };
    // What came with a later round before this one was over.
    let mut early = [0; ROUNDS + 1];
    for round in 0..ROUNDS {
        let mut kept = Vec::new();
        for to in 0..size {
            let memory = Memory::new(&bytes(round, me, to));
            let md = bind(ni, memory.md(EVENT_START_DISABLE, own));
            let offset = PLACE as u64 * u64::from(me);
            ni.put(
                md,
                AckReq::Ack,
                &Target {
                    offset,
                    ..target(to, 1)
                },
                round as u64,
            )
            .unwrap();
            kept.push((memory, md));
        }
        for _ in 0..size {
            let ack = wait(ni, own, Ack);
            assert_eq!(ack.ni_fail_type, NiFail::OK);
        }
        while early[round] < size {
            let event = wait(ni, came, PutEnd);
            if event.hdr_data != u64::MAX {
                early[event.hdr_data as usize] += 1;
            }
        }
        for (_, md) in &kept {
            while ni.md_unlink(*md) == Err(Error::MdInUse) {}
        }
        // My place at the next one: nobody else writes it.
        let next = (me + 1) % size;
        let expected = bytes(round, me, next);
        let copy = Memory::zeros(expected.len());
        let md = bind(ni, copy.md(0, own));
        let offset = PLACE as u64 * u64::from(me);
        ni.get(
            md,
            &Target {
                offset,
                ..target(next, 2)
            },
        )
        .unwrap();
        let reply = wait(ni, own, ReplyEnd);
        assert_eq!(
            (reply.mlength, reply.ni_fail_type),
            (expected.len() as u64, NiFail::OK)
        );
        assert!(copy.bytes() == expected, "round {round}: what {next} has of {me}");
        ni.md_unlink(md).unwrap();
    }
    // Others may still get: until all have said that they are done.
    let done = bind(ni, word.md(EVENT_START_DISABLE, own));
    for to in 0..size {
        let offset = PLACE as u64 * u64::from(me);
        ni.put(
            done,
            AckReq::Ack,
            &Target {
                offset,
                ..target(to, 1)
            },
            ROUNDS as u64,
        )
        .unwrap();
    }
    for _ in 0..size {
        wait(ni, own, Ack);
    }
    while early[ROUNDS] < size {
        let event = wait(ni, came, PutEnd);
        if event.hdr_data != u64::MAX {
            early[event.hdr_data as usize] += 1;
        }
    }
    assert!(
        ni.close(Duration::from_secs(20)),
        "something is under way for ever"
    );
}

/// Process 0 has puts and gets under way with process 1, which is killed without having looked.
fn with_a_victim(ni: &Interface<Shm>, me: u32) {
    if me == 1 {
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    let own = ni.eq_alloc(1024, None).unwrap();
    let memory = Memory::zeros(PLACE);
    let md = bind(ni, memory.md(EVENT_START_DISABLE, own));
    for len in LENGTHS {
        ni.put_region(md, (0, len as u64), AckReq::Ack, &target(1, 1), 0)
            .unwrap();
        ni.get_region(md, (0, len as u64), &target(1, 1)).unwrap();
    }
    let (mut sent, mut failed, mut acks, mut replies) = (0, 0, 0, 0);
    while sent < LENGTHS.len() || acks + failed < LENGTHS.len() || replies < LENGTHS.len() {
        let (_, taken) = ni
            .eq_poll(&[own], Some(Duration::from_secs(60)))
            .expect("every operation ends");
        let event = taken.event;
        match event.kind {
            SendEnd => {
                sent += 1;
                failed += usize::from(event.ni_fail_type != NiFail::OK);
            }
            Ack => acks += 1,
            ReplyEnd => replies += 1,
            other => panic!("{other:?}"),
        }
        assert!(
            event.kind == SendEnd || event.ni_fail_type == NiFail::UNDELIVERABLE,
            "{event:?}"
        );
    }
    while ni.md_unlink(md) == Err(Error::MdInUse) {}
    assert!(ni.close(Duration::from_secs(20)));
}

/// Run `role` in `size` processes; those in `victims` are killed after a while.
fn job(size: u32, victims: &[u32], role: fn(&Interface<Shm>, u32, u32)) {
    let file = sealed_memory(c"farpost-test", region_bytes(size)).expect("a region");
    let mut children = Vec::new();
    for index in 0..size {
        children.push(child(|| {
            // SAFETY: no memory is involved; the child ends after two minutes.
            unsafe { libc::alarm(120) };
            role(&open(&file, index, size), index, size);
        }));
    }
    if !victims.is_empty() {
        std::thread::sleep(Duration::from_millis(300));
    }
    for victim in victims {
        kill(children[*victim as usize]);
    }
    for (index, pid) in children.into_iter().enumerate() {
        let status = reap(pid);
        assert!(
            status == 0 || victims.contains(&(index as u32)),
            "process {index} ended with {status:#x}"
        );
    }
}

fn main() {
    for (name, size) in [("two", 2), ("eight", 8)] {
        println!("{name} processes");
        job(size, &[], all_to_all);
    }
    println!("a victim");
    job(2, &[1], |ni, me, _| with_a_victim(ni, me));
    println!("all held");
}
