//! Making communicators, in all the ways there are.
//!
//! Requirements of MPI-5.0 sections 7.4.2, 7.4.3, 7.6.2, 7.7.2, 11.3.

mod common;

use common::{ShmWorld, recv_buf, run, send_buf};
use farpost_mpi::ErrorClass;
use farpost_mpi::attr::{CopyFn, DeleteFn, Keyvals, ObjectKind};
use farpost_mpi::comm::{Comm, SplitType};
use farpost_mpi::errhandler::ErrorHandler;
use farpost_mpi::group::{Comparison, Group, UNDEFINED};
use farpost_mpi::info::Info;
use farpost_mpi::p2p::Mode;
use farpost_mpi::session::{ProcessSet, Session};
use farpost_mpi::world::WorldConfig;
use farpost_mpi::{Result, coll};
use std::cell::Cell;
use std::rc::Rc;

const SIZES: [u32; 5] = [1, 2, 3, 5, 7];

fn each(body: impl Fn(&ShmWorld) + Sync) {
    for size in SIZES {
        run(size, WorldConfig::default(), &body);
    }
}

fn class<T>(result: Result<T>) -> ErrorClass {
    match result {
        Ok(_) => panic!("an error was due"),
        Err(error) => error.class,
    }
}

/// Messages and collectives on it reach whom they should and nobody else.
fn check(world: &ShmWorld, comm: &Rc<Comm>) {
    let (me, peers) = (comm.rank, comm.peers() as i32);
    assert_eq!(comm.local.pid(me), Some(world.pid()));
    assert_eq!(world.comm(comm.handle.get()).unwrap().context, comm.context);
    let number = |pid: u32| [pid as u8, (comm.context >> 2) as u8, 7];
    let mine = number(world.pid());
    let sends: Vec<usize> = (0..peers)
        .map(|to| {
            world
                .isend(comm, &send_buf(&mine), to, 3, Mode::Standard)
                .unwrap()
        })
        .collect();
    for from in 0..peers {
        let mut got = [0; 3];
        let status = world.recv(comm, recv_buf(&mut got), from, 3).unwrap();
        assert_eq!((status.error, status.source), (None, from));
        assert_eq!(got, number(comm.peer(from).unwrap().0));
    }
    for send in sends {
        world.wait(send).unwrap();
    }
    world
        .run_collective(comm, coll::barrier(&world.site(comm)).unwrap())
        .unwrap();
}

#[test]
fn duplicates_have_the_group_and_another_context() {
    each(|world| {
        let first = world.comm_world();
        let mut last = Rc::clone(first);
        for _ in 0..4 {
            let new = world.comm_dup(&last, None).unwrap();
            assert_eq!(new.compare(first), Comparison::Congruent);
            assert_eq!(new.compare(&new), Comparison::Ident);
            assert_eq!(new.local, first.local);
            check(world, &new);
            last = new;
        }
    });
}

#[test]
fn thousands_of_duplicates_come_and_go() {
    for size in [2, 4] {
        run(size, WorldConfig::default(), |world| {
            for round in 0..3000 {
                let new = world.comm_dup(world.comm_world(), None).unwrap();
                if round % 500 == 0 {
                    check(world, &new);
                }
                world.comm_free(&new).unwrap();
            }
            assert_eq!(world.comm_handles(), Vec::<usize>::new());
        });
    }
}

#[test]
fn a_nonblocking_duplicate_is_there_when_its_request_is_complete() {
    each(|world| {
        let comm = world.comm_world();
        let keyvals = Keyvals::new();
        let id = keyvals
            .create(ObjectKind::Comm, CopyFn::Dup, DeleteFn::Null)
            .unwrap();
        let key = keyvals.find(ObjectKind::Comm, id).unwrap();
        comm.attrs.set(comm.handle.get(), &key, 55).unwrap();
        let mut hints = Info::new();
        hints.set(b"mpi_assert_exact_length", b"true").unwrap();
        hints.set(b"color", b"blue").unwrap();
        let started: Vec<_> = (0..5)
            .map(|_| world.comm_idup(comm, Some(&hints)).unwrap())
            .collect();
        // What is set later is not copied.
        comm.attrs.set(comm.handle.get(), &key, 56).unwrap();
        // It may be named while it is not there yet.
        for (handle, _) in &started {
            world.comm(*handle).unwrap().name.replace(b"early".to_vec());
        }
        for (handle, request) in started.into_iter().rev() {
            assert_eq!(world.wait(request).unwrap().error, None);
            let new = world.comm(handle).expect("a communicator");
            assert_eq!(new.attrs.get(&key), Some(55));
            assert_eq!(new.info.borrow().nkeys(), 1);
            assert_eq!(*new.name.borrow(), b"early");
            check(world, &new);
            world.comm_free(&new).unwrap();
        }
    });
}

#[test]
fn a_failing_copy_callback_leaves_nothing_behind() {
    run(3, WorldConfig::default(), |world| {
        let comm = world.comm_dup(world.comm_world(), None).unwrap();
        let handle = comm.handle.get();
        let keyvals = Keyvals::new();
        let deleted = Rc::new(Cell::new(0));
        let (count, me) = (Rc::clone(&deleted), world.pid());
        let good = CopyFn::Dup;
        let delete = DeleteFn::User(Rc::new(move |_, _, _| {
            count.set(count.get() + 1);
            Ok(())
        }));
        let id = keyvals.create(ObjectKind::Comm, good, delete).unwrap();
        let good = keyvals.find(ObjectKind::Comm, id).unwrap();
        let bad = CopyFn::User(Rc::new(
            move |_, _, value| if me == 1 { Err(5) } else { Ok(Some(value)) },
        ));
        let id = keyvals.create(ObjectKind::Comm, bad, DeleteFn::Null).unwrap();
        let bad = keyvals.find(ObjectKind::Comm, id).unwrap();
        comm.attrs.set(handle, &good, 1).unwrap();
        comm.attrs.set(handle, &bad, 2).unwrap();
        let live = world.comm_handles().len();
        if me == 1 {
            assert_eq!(class(world.comm_dup(&comm, None)), ErrorClass(5));
            assert_eq!(deleted.get(), 1);
            assert_eq!(class(world.comm_idup(&comm, None)), ErrorClass(5));
            assert_eq!(deleted.get(), 2);
            check(world, &comm);
        } else {
            world.comm_dup(&comm, None).unwrap();
            let (_, request) = world.comm_idup(&comm, None).unwrap();
            world.wait(request).unwrap();
            assert_eq!(world.comm_handles().len(), live + 2);
            check(world, &comm);
        }
    });
}

#[test]
fn splitting_orders_by_key_and_then_by_rank() {
    each(|world| {
        let comm = world.comm_world();
        let (me, size) = (comm.rank, comm.size() as i32);
        // Everybody, backwards.
        let new = world.comm_split(comm, 4, -me).unwrap().unwrap();
        assert_eq!(new.rank, size - 1 - me);
        assert_eq!(
            new.compare(comm),
            if size == 1 {
                Comparison::Congruent
            } else {
                Comparison::Similar
            }
        );
        check(world, &new);
        // Odd and even, all with the same key.
        let new = world.comm_split(comm, me % 2, 9).unwrap().unwrap();
        assert_eq!(new.rank, me / 2);
        check(world, &new);
        // Rank 0 stays out.
        let color = if me == 0 { UNDEFINED } else { 0 };
        let new = world.comm_split(comm, color, 0).unwrap();
        assert_eq!(new.is_none(), me == 0);
        if let Some(new) = new {
            assert_eq!(new.size() as i32, size - 1);
            check(world, &new);
        }
        // One bad color is everybody's error.
        let color = if me == size - 1 { -1 } else { 0 };
        assert_eq!(class(world.comm_split(comm, color, 0)), ErrorClass::ERR_ARG);
        check(world, comm);
    });
}

#[test]
fn all_share_the_memory_of_one_host() {
    each(|world| {
        let comm = world.comm_world();
        let split = |kind, info| world.comm_split_type(comm, kind, 0, info).unwrap();
        let new = split(Some(SplitType::Shared), None).unwrap();
        assert_eq!(new.local, comm.local);
        assert!(split(None, None).is_none());
        assert!(split(Some(SplitType::HwUnguided), None).is_none());
        assert!(split(Some(SplitType::HwGuided), None).is_none());
        let mut info = Info::new();
        info.set(b"mpi_hw_resource_type", b"mpi_shared_memory").unwrap();
        assert!(split(Some(SplitType::HwGuided), Some(&info)).is_some());
        let mut info = Info::new();
        info.set(b"mpi_pset_name", b"mpi://SELF").unwrap();
        let alone = split(Some(SplitType::ResourceGuided), Some(&info)).unwrap();
        assert_eq!(alone.size(), 1);
        let kind = if comm.rank == 0 {
            SplitType::Shared
        } else {
            SplitType::HwUnguided
        };
        let mixed = world.comm_split_type(comm, Some(kind), 0, None);
        assert_eq!(mixed.is_err(), world.size() > 1);
    });
}

#[test]
fn groups_become_communicators() {
    each(|world| {
        let comm = world.comm_world();
        let (me, size) = (comm.rank, comm.size() as i32);
        let backwards: Vec<u32> = (0..size as u32).rev().collect();
        let new = world
            .comm_create(comm, &Group::from_pids(&backwards))
            .unwrap()
            .unwrap();
        assert_eq!(new.rank, size - 1 - me);
        check(world, &new);
        assert!(world.comm_create(comm, &Group::empty()).unwrap().is_none());
        // Different groups at once: halves.
        let half: Vec<u32> = (0..size as u32)
            .filter(|pid| (*pid as i32) % 2 == me % 2)
            .collect();
        let new = world
            .comm_create(comm, &Group::from_pids(&half))
            .unwrap()
            .unwrap();
        check(world, &new);
        // Not all of the job is in there.
        if size > 1 {
            assert_eq!(class(world.comm_create(&new, &comm.local)), ErrorClass::ERR_GROUP);
            assert_eq!(
                class(world.comm_create_group(&new, &comm.local, 0)),
                ErrorClass::ERR_GROUP
            );
        }
        check(world, comm);
    });
}

#[test]
fn members_make_a_communicator_while_others_do_not_know() {
    each(|world| {
        let comm = world.comm_world();
        let (me, size) = (comm.rank, comm.size());
        // Windows of two and of three that overlap, in an order without circles, with the same tag or not.
        for round in 0..20 {
            for width in [1, 2, 3] {
                for first in 0..size.saturating_sub(width - 1) {
                    let members: Vec<u32> = (first..first + width).rev().collect();
                    let group = Group::from_pids(&members);
                    if !group.contains(world.pid()) {
                        continue;
                    }
                    let tag = if round % 2 == 0 { 11 } else { first as i32 };
                    let new = world.comm_create_group(comm, &group, tag).unwrap().unwrap();
                    assert_eq!(new.local, group);
                    if round == 0 {
                        check(world, &new);
                    }
                    world.comm_free(&new).unwrap();
                }
            }
        }
        // A message of the program's with the same tag is none of its business.
        if size > 1 && me < 2 {
            let note = world
                .isend(comm, &send_buf(b"x"), 1 - me, 11, Mode::Standard)
                .unwrap();
            let pair = Group::all(2);
            let new = world.comm_create_group(comm, &pair, 11).unwrap().unwrap();
            check(world, &new);
            let mut got = [0];
            world.recv(comm, recv_buf(&mut got), 1 - me, 11).unwrap();
            world.wait(note).unwrap();
            assert_eq!(got, *b"x");
        }
    });
}

#[test]
fn groups_alone_are_enough() {
    each(|world| {
        let all = Group::all(world.size());
        let new = world
            .comm_create_from_group(&all, b"org.example.all")
            .unwrap()
            .unwrap();
        check(world, &new);
        let empty = world.comm_create_from_group(&Group::empty(), b"").unwrap();
        assert!(empty.is_none());
        let size = world.size() as i32;
        if size == 1 {
            return;
        }
        let mut sides: Vec<Group> = (0..2)
            .map(|side| {
                let members: Vec<u32> = (0..world.size()).filter(|pid| pid % 2 == side).collect();
                Group::from_pids(&members)
            })
            .collect();
        if world.pid() % 2 == 1 {
            sides.reverse();
        }
        let last = |side: usize| sides[side].size() as i32 - 1;
        for (near, far) in [(0, 0), (last(0), last(1))] {
            let inter = world
                .intercomm_create_from_groups(&sides[0], near, &sides[1], far, b"two")
                .unwrap();
            check(world, &inter);
        }
        let made = |near: &Group, far: &Group, leader| {
            class(world.intercomm_create_from_groups(near, leader, far, 0, b"bad"))
        };
        assert_eq!(made(&sides[1], &sides[0], 0), ErrorClass::ERR_GROUP);
        assert_eq!(made(&sides[0], &all, 0), ErrorClass::ERR_GROUP);
        assert_eq!(made(&sides[0], &sides[1], size), ErrorClass::ERR_RANK);
        let wrong = world.comm_create_from_group(&sides[1], b"bad");
        assert_eq!(class(wrong), ErrorClass::ERR_GROUP);
    });
}

/// What is made of what a session made goes with it, and nothing else does.
#[test]
fn sessions_keep_what_is_theirs() {
    each(|world| {
        let begin = || {
            let session = Session::new(ErrorHandler::Return, Info::new());
            world.session(world.add_session(session).unwrap()).unwrap()
        };
        let (one, other) = (begin(), begin());
        let of = |session: &Session, set, tag: &[u8]| {
            let group = world.pset_group(session, set);
            world.comm_create_from_group(&group, tag).unwrap().unwrap()
        };
        let all = of(&one, ProcessSet::World, b"all");
        let own = of(&one, ProcessSet::Own, b"own");
        let theirs = of(&other, ProcessSet::World, b"all");
        assert_eq!((all.size(), own.size()), (world.size(), 1));
        let half = world.comm_split(&all, all.rank % 2, 0).unwrap().unwrap();
        let twin = world.comm_dup(&half, None).unwrap();
        let apart = world.comm_dup(world.comm_world(), None).unwrap();
        for comm in [&all, &half, &twin, &theirs, &apart] {
            check(world, comm);
        }
        let mixed = world.comm_create(&all, &theirs.local);
        assert_eq!(class(mixed), ErrorClass::ERR_SESSION);
        // A receive that nobody has answered keeps everything as it is.
        let mut got = [0; 3];
        let peer = twin.size() as i32 - 1;
        let request = world.irecv(&twin, recv_buf(&mut got), peer, 3).unwrap();
        assert_eq!(class(world.finalize_session(&one)), ErrorClass::ERR_PENDING);
        world.cancel(request).unwrap();
        world.wait(request).unwrap();
        assert_eq!(world.comms_of(&one).len(), 4);
        world.finalize_session(&one).unwrap();
        for comm in [&all, &own, &half, &twin] {
            assert!(world.comm(comm.handle.get()).is_none());
        }
        for comm in [&theirs, &apart] {
            check(world, comm);
        }
        assert!(world.session(one.handle.get()).is_none() && world.has_sessions());
        world.finalize_session(&other).unwrap();
        assert!(!world.has_sessions());
        check(world, &apart);
    });
}

/// Messages of these two strings look alike: whoever meets another process's call learns of it.
#[test]
fn strings_that_cannot_be_told_apart_are_found_out() {
    run(3, WorldConfig::default(), |world| {
        let all = Group::all(3);
        let tag: &[u8] = if world.pid() == 0 {
            b"tag 7387"
        } else {
            b"tag 16581"
        };
        let made = world.comm_create_from_group(&all, tag);
        if world.pid() > 0 {
            assert_eq!(class(made), ErrorClass::ERR_ARG);
        }
        let comm = world.comm_create_from_group(&all, b"the same").unwrap().unwrap();
        check(world, &comm);
    });
}

/// Odd and even ranks of the job, joined; `None` with one process.
fn bridge(world: &ShmWorld) -> Option<Rc<Comm>> {
    let comm = world.comm_world();
    if comm.size() == 1 {
        return None;
    }
    let side = comm.rank % 2;
    let local = world.comm_split(comm, side, -comm.rank).unwrap().unwrap();
    // The last of each group leads: after the reversal these are ranks 0 and 1 of the job.
    let leader = local.size() as i32 - 1;
    let peer = (comm.rank < 2).then_some(comm);
    let inter = world
        .intercomm_create(&local, leader, peer, 1 - side, 77)
        .unwrap();
    Some(inter)
}

#[test]
fn two_groups_are_joined() {
    each(|world| {
        let Some(inter) = bridge(world) else { return };
        let comm = world.comm_world();
        let size = comm.size();
        assert!(inter.is_inter());
        let even = size.div_ceil(2);
        let (near, far) = if comm.rank % 2 == 0 {
            (even, size - even)
        } else {
            (size - even, even)
        };
        assert_eq!((inter.size(), inter.peers()), (near, far));
        check(world, &inter);

        let twin = world.comm_dup(&inter, None).unwrap();
        assert_eq!(twin.compare(&inter), Comparison::Congruent);
        assert_eq!(twin.compare(comm), Comparison::Unequal);
        check(world, &twin);
        let (handle, request) = world.comm_idup(&inter, None).unwrap();
        world.wait(request).unwrap();
        check(world, &world.comm(handle).unwrap());

        for (even_high, odd_high) in [(false, true), (true, false), (false, false), (true, true)] {
            let high = if comm.rank % 2 == 0 { even_high } else { odd_high };
            let merged = world.intercomm_merge(&inter, high).unwrap();
            assert_eq!(merged.size(), size);
            if even_high != odd_high {
                let place = if high { far as i32 + inter.rank } else { inter.rank };
                assert_eq!(merged.rank, place);
            }
            check(world, &merged);
            world.comm_free(&merged).unwrap();
        }
        world.comm_disconnect(&inter).unwrap();
        assert!(world.comm(inter.handle.get()).is_none());
    });
}

#[test]
fn joined_groups_are_split_and_selected() {
    each(|world| {
        let Some(inter) = bridge(world) else { return };
        let me = inter.rank;
        // All, both sides backwards.
        let new = world.comm_split(&inter, 1, -me).unwrap().unwrap();
        assert_eq!((new.size(), new.peers()), (inter.size(), inter.peers()));
        assert_eq!(new.rank, inter.size() as i32 - 1 - me);
        check(world, &new);
        // Rank by rank: only where the other side has one too.
        let new = world.comm_split(&inter, me, 0).unwrap();
        assert_eq!(new.is_some(), (me as u32) < inter.peers());
        if let Some(new) = new {
            assert_eq!((new.size(), new.peers()), (1, 1));
            check(world, &new);
        }
        let color = if me == 0 { -3 } else { UNDEFINED };
        assert_eq!(class(world.comm_split(&inter, color, 0)), ErrorClass::ERR_ARG);
        // The first of each side; then nobody on one side.
        let first = Group::from_pids(&[inter.local.pid(0).unwrap()]);
        let new = world.comm_create(&inter, &first).unwrap();
        assert_eq!(new.is_some(), me == 0);
        if let Some(new) = new {
            check(world, &new);
        }
        let half = if inter.leads() { first } else { Group::empty() };
        assert!(world.comm_create(&inter, &half).unwrap().is_none());
        let strangers = if inter.leads() {
            inter.remote.clone().unwrap()
        } else {
            Group::empty()
        };
        assert_eq!(
            class(world.comm_create(&inter, &strangers)),
            ErrorClass::ERR_GROUP
        );
        check(world, &inter);
    });
}

#[test]
fn wrong_leaders_and_wrong_kinds_are_refused() {
    run(2, WorldConfig::default(), |world| {
        let (comm, alone) = (world.comm_world(), world.comm_self());
        let other = 1 - comm.rank;
        let made =
            |local, leader, peer, remote| class(world.intercomm_create(local, leader, peer, remote, 1));
        assert_eq!(made(alone, 1, Some(comm), other), ErrorClass::ERR_RANK);
        assert_eq!(made(alone, 0, Some(comm), 2), ErrorClass::ERR_RANK);
        assert_eq!(made(alone, 0, Some(comm), comm.rank), ErrorClass::ERR_RANK);
        assert_eq!(made(alone, 0, None, other), ErrorClass::ERR_COMM);
        assert_eq!(class(world.intercomm_merge(comm, true)), ErrorClass::ERR_COMM);
        assert_eq!(class(world.comm_free(comm)), ErrorClass::ERR_COMM);
        assert_eq!(class(world.comm_disconnect(alone)), ErrorClass::ERR_COMM);
        let inter = world.intercomm_create(alone, 0, Some(comm), other, 1).unwrap();
        check(world, &inter);
        assert_eq!(made(&inter, 0, Some(comm), other), ErrorClass::ERR_COMM);
        assert_eq!(
            class(world.comm_create_group(&inter, &inter.local, 1)),
            ErrorClass::ERR_COMM
        );
        assert_eq!(
            class(world.cart_create(&inter, &[1], &[true])),
            ErrorClass::ERR_COMM
        );
        // Leaders may meet on an intercommunicator.
        let again = world.intercomm_create(alone, 0, Some(&inter), 0, 1).unwrap();
        check(world, &again);
        // Groups that overlap: rank 0 leads one, rank 1 the other, both with everybody in it.
        let crossed = world.intercomm_create(comm, comm.rank, Some(comm), other, 2);
        assert_eq!(class(crossed), ErrorClass::ERR_COMM);
    });
}

#[test]
fn collectives_outlive_their_communicator() {
    run(4, WorldConfig::default(), |world| {
        for _ in 0..200 {
            let new = world.comm_dup(world.comm_world(), None).unwrap();
            let plan = coll::barrier(&world.site(&new)).unwrap();
            let request = world.start_collective(&new, plan).unwrap();
            world.comm_free(&new).unwrap();
            drop(new);
            // Another takes what the first has left.
            let other = world.comm_split(world.comm_world(), 0, 0).unwrap().unwrap();
            world.wait(request).unwrap();
            check(world, &other);
            world.comm_free(&other).unwrap();
        }
    });
}
