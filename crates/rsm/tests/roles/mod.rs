//! What RSMAPI promises, as roles that the ends of a job play on any fabric (`farpost_fabric::conformance`).
#![allow(dead_code, reason = "each test file uses some of it")]

use farpost_fabric::conformance::{End, Harness};
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{Fabric, LocalMemory, Peer, Port, Priority};
use farpost_rsm::{
    AccessEntry, Accumulate, Barrier, Cause, Code, Controller, Export, FIRST_ASSIGNED, Identity, Import,
    Local, Memory, Mode, Perm, Request, Result, Rsm, RsmError, RsmTunables, Striping, Transfer,
};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

pub const ID: u32 = 0x50_0000;
const LEN: usize = 3 * 4096;

pub fn code<T>(result: Result<T>) -> Option<Code> {
    result.err().map(|error: RsmError| error.code)
}

pub fn entry(node: u32, permission: u32) -> AccessEntry {
    AccessEntry {
        node,
        permission: Perm(permission),
    }
}

/// The interface on a fabric, as a user with a group.
pub fn of<F: Fabric>(fabric: Rc<F>, uid: u32, gid: u32, groups: &[u32]) -> Rsm<F> {
    let identity = Identity {
        uid,
        gid,
        groups: groups.to_vec(),
    };
    Rsm::new(
        fabric,
        identity,
        &RsmTunables::default(),
        &WaitTunables::default(),
    )
}

fn open<F: Fabric>(end: &End<F>) -> Rsm<F> {
    of(end.fabric.clone(), 100, 100, &[])
}

/// A segment of `len` bytes for the owner, published as `ID`, and its memory.
pub fn publish<F: Fabric>(rsm: &Rsm<F>, len: usize, list: &[AccessEntry]) -> (Memory<F>, Export<F>) {
    let memory = rsm.memory(len).unwrap();
    let export = rsm
        .export(main_controller(rsm), &memory, len, Perm(0o600))
        .unwrap();
    export.publish(ID, list).unwrap();
    (memory, export)
}

/// The controller that most nodes are reached by.
pub fn main_controller<F: Fabric>(rsm: &Rsm<F>) -> Controller {
    *rsm.controllers().last().unwrap()
}

/// One node looks for a segment from its first moment on, while the other makes its directory.
async fn early<F: Fabric>(end: &End<F>) {
    let rsm = open(end);
    if rsm.node() == 0 {
        let kept = publish(&rsm, LEN, &[]);
        end.barrier().await;
        drop(kept);
    } else {
        let import = connect(end, &rsm, 0, ID, Perm(0o600)).await;
        drop(import);
        end.barrier().await;
    }
    assert!(rsm.next_fault().is_none());
}

async fn connect<F: Fabric>(end: &End<F>, rsm: &Rsm<F>, node: u32, id: u32, perm: Perm) -> Import<F> {
    loop {
        match rsm.connect(main_controller(rsm), node, id, perm) {
            Ok(import) => return import,
            Err(error) if error.code == Code::SEG_NOT_PUBLISHED => end.pause().await,
            Err(error) => panic!("node {} connects to {id:#x} of {node}: {error}", rsm.node()),
        }
    }
}

macro_rules! roles {
    ($($name:ident: $run:ident by $size:literal;)*) => {
        /// The names of all roles.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// Play the role of that name.
        pub fn play<H: Harness>(harness: &H, name: &str) {
            match name {
                $(stringify!($name) => {
                    harness.run($size, async |end: &End<H::Fabric>| $run(end).await);
                })*
                _ => panic!("there is no role {name}"),
            }
        }
    };
}

roles! {
    names_and_places: topology by 3;
    looked_for_from_the_start: early by 2;
    what_publishing_checks: publishing by 2;
    puts_and_gets_of_all_kinds: accesses by 2;
    who_may_connect: rights by 3;
    lies_about_users: liars by 3;
    withdrawn_while_connected: withdrawn by 3;
    another_list_for_those_who_come_later: republished by 3;
    signals_are_counted: signals by 3;
    strangers_are_refused: strangers by 3;
    lists_of_transfers: lists by 2;
    mapping: mapped by 2;
    several_requests_at_once: requests by 2;
    requests_that_do_not_arrive: lost_requests by 2;
}

/// Sizes below, at and above what fabrics treat differently; the fabric that plays all orders has a step for each line.
fn request_sizes<F: Fabric>(fabric: &F) -> [usize; 9] {
    let all = [1, 8, 64, 4000, 16 << 10, 40_000, 100_000, 0, 300_001];
    match fabric.name() {
        "inproc" => all.map(|len| len.min(300)),
        _ => all,
    }
}

fn request_bytes(number: usize, len: usize) -> Box<[u8]> {
    let byte = |i| (i * 7 + number * 31 + i / 256) as u8;
    (0..len).map(byte).collect()
}

async fn over<F: Fabric>(end: &End<F>, request: &Request<F>) -> Result<()> {
    end.until("a request", || request.test().is_some()).await;
    request.test().unwrap()
}

async fn requests<F: Fabric>(end: &End<F>) {
    const ROOM: usize = 512 << 10;
    let rsm = open(end);
    let sizes = request_sizes(&*end.fabric);
    let len = 2 * ROOM;
    let kept = publish(&rsm, len, &[]);
    let import = connect(end, &rsm, (end.me() + 1) % 2, ID, Perm::RDWR).await;
    // The upper half is this end's to read, and does not change.
    let upper: Vec<u8> = (0..ROOM).map(|i| (i % 251) as u8 + 1).collect();
    kept.0.local().write(ROOM, &upper);
    end.barrier().await;
    for round in 0..3 {
        // Both ends at once, and in both directions; no barrier is needed.
        let mut at = 0;
        let (mut puts, mut gets) = (Vec::new(), Vec::new());
        for (number, size) in sizes.into_iter().enumerate() {
            puts.push(import.start_put(at, request_bytes(number, size)).unwrap());
            let room = vec![0; size].into_boxed_slice();
            gets.push(import.start_get(ROOM + at, room).unwrap());
            at += size;
        }
        // In any order.
        for request in puts.iter().rev().chain(&gets) {
            assert_eq!(over(end, request).await, Ok(()));
            assert!(request.is_over());
            assert_eq!(request.wait(Some(Duration::ZERO)), Ok(()));
        }
        assert_eq!((import.under_way(), rsm.under_way()), (0, 0));
        at = 0;
        for (number, (put, get)) in puts.into_iter().zip(gets).enumerate() {
            let len = sizes[number];
            assert!(put.into_bytes().unwrap() == request_bytes(number, len));
            assert!(
                get.into_bytes().unwrap()[..] == upper[at..at + len],
                "round {round}: get {number}"
            );
            at += len;
        }
        end.barrier().await;
        at = 0;
        for (number, len) in sizes.into_iter().enumerate() {
            let mut got = vec![0; len];
            kept.0.local().read(at, &mut got);
            assert!(
                got[..] == request_bytes(number, len)[..],
                "round {round}: put {number}"
            );
            at += len;
        }
        end.barrier().await;
        kept.0.local().write(0, &vec![0; ROOM]);
        end.barrier().await;
    }
    // What no request is made of.
    let nothing = || vec![0; 2].into_boxed_slice();
    assert_eq!(code(import.start_put(len - 1, nothing())), Some(Code::BAD_LENGTH));
    assert_eq!(
        code(import.start_get(usize::MAX, nothing())),
        Some(Code::BAD_LENGTH)
    );
    let reader = connect(end, &rsm, (end.me() + 1) % 2, ID, Perm::READ).await;
    assert_eq!(code(reader.start_put(0, nothing())), Some(Code::PERM_DENIED));
    assert_eq!(over(end, &reader.start_get(0, nothing()).unwrap()).await, Ok(()));
    end.barrier().await;
}

async fn lost_requests<F: Fabric>(end: &End<F>) {
    const ROOM: usize = 1 << 20;
    let rsm = open(end);
    if end.me() == 0 {
        let (_memory, export) = publish(&rsm, ROOM, &[]);
        end.barrier().await;
        end.barrier().await;
        export.unpublish().unwrap();
        end.barrier().await;
        end.barrier().await;
        return;
    }
    end.barrier().await;
    let import = connect(end, &rsm, 0, ID, Perm::RDWR).await;
    let other = connect(end, &rsm, 0, ID, Perm::RDWR).await;
    let most = *request_sizes(&*end.fabric).last().unwrap();
    let some = || vec![5; most].into_boxed_slice();
    // Given up by one, by dropping it, and by the end of the connection: its memory comes back, and the others go on.
    let given_up = import.start_put(0, some()).unwrap();
    drop(import.start_get(0, some()));
    let stays = import.start_put(400_000, some()).unwrap();
    let was_over = given_up.is_over();
    given_up.cancel();
    assert!(given_up.is_over());
    let expected = if was_over { None } else { Some(Code::INTERRUPTED) };
    assert_eq!(given_up.test().unwrap().err().map(|error| error.code), expected);
    assert_eq!(given_up.into_bytes().map(|bytes| bytes.len()), Some(most));
    assert_eq!(over(end, &stays).await, Ok(()));
    let ends = [
        other.start_put(0, some()).unwrap(),
        other.start_get(0, some()).unwrap(),
    ];
    let were_over = ends.each_ref().map(Request::is_over);
    other.disconnect().unwrap();
    for (request, was_over) in ends.iter().zip(were_over) {
        let expected = if was_over {
            None
        } else {
            Some(Code::SEG_NOT_CONNECTED)
        };
        assert_eq!(request.test().unwrap().err().map(|error| error.code), expected);
    }
    assert_eq!(code(other.start_put(0, some())), Some(Code::BAD_SEG_HNDL));
    assert_eq!(rsm.under_way(), 0);
    end.barrier().await;
    // Withdrawn: each that is begun afterwards says so, and none says that it has arrived.
    end.barrier().await;
    for put in [true, false, true] {
        let begun = match put {
            true => import.start_put(0, some()),
            false => import.start_get(0, some()),
        };
        let became = match begun {
            Ok(request) => over(end, &request).await,
            Err(error) => Err(error),
        };
        assert_eq!(code(became), Some(Code::CONN_ABORTED), "put: {put}");
    }
    assert!(rsm.take_error_status().is_some());
    end.barrier().await;
}

/// Everything that waits for room has gone out.
async fn drained<F: Fabric>(end: &End<F>, rsm: &Rsm<F>) {
    end.until("room", || {
        rsm.progress();
        !rsm.owes()
    })
    .await;
}

async fn topology<F: Fabric>(end: &End<F>) {
    let rsm = open(end);
    let all = rsm.topology();
    assert_eq!(all[0].name, "loopback");
    assert_eq!(all[1].name, "shm0");
    assert_eq!(all[0].remotes.len(), 1);
    let reached: usize = all[1..].iter().map(|c| c.remotes.len()).sum();
    assert_eq!(reached, 3);
    for connections in &all {
        assert_eq!(rsm.controller(&connections.name), Ok(connections.controller));
        let attributes = rsm.attributes(connections.controller);
        assert_eq!(attributes.page_size, 4096);
        let loopback = connections.controller == Controller::Loopback;
        assert_eq!(attributes.max_export_segment_size == 0, loopback);
        for remote in &connections.remotes {
            assert!(remote.active && rsm.reaches(connections.controller, remote.node));
            let rails = Ok(Striping { degree: 1, rails: 1 });
            assert_eq!(rsm.striping(remote.node), rails);
        }
    }
    for name in ["tcp7", "inproc1", "shm1", "", "Loopback"] {
        assert_eq!(code(rsm.controller(name)), Some(Code::CTLR_NOT_PRESENT), "{name}");
    }
    let unreachable = [
        (Controller::Loopback, (end.me() + 1) % 3),
        (Controller::Rail(9), (end.me() + 1) % 3),
        (main_controller(&rsm), 3),
    ];
    for (controller, node) in unreachable {
        let refused = rsm.connect(controller, node, ID, Perm::READ);
        assert_eq!(code(refused), Some(Code::REMOTE_NODE_UNREACHABLE));
    }
    assert_eq!(code(rsm.striping(3)), Some(Code::REMOTE_NODE_UNREACHABLE));
    assert_eq!(rsm.refused().controllers, 5 + 3 + 1);
    end.barrier().await;
}

async fn publishing<F: Fabric>(end: &End<F>) {
    let rsm = open(end);
    let controller = main_controller(&rsm);
    let memory = rsm.memory(LEN).unwrap();
    let create = |len| rsm.export(controller, &memory, len, Perm(0o600));
    assert_eq!(code(create(0)), Some(Code::BAD_LENGTH));
    assert_eq!(code(create(LEN + 4097)), Some(Code::BAD_LENGTH));
    let one = create(LEN).unwrap();
    let two = create(4096).unwrap();
    assert_eq!(code(one.unpublish()), Some(Code::SEG_NOT_PUBLISHED));
    assert_eq!(code(one.republish(&[])), Some(Code::SEG_NOT_PUBLISHED));
    for (list, wrong) in [
        (vec![entry(2, 0o600)], Code::BAD_ACL),
        (vec![entry(1, 0o600), entry(1, 0o400)], Code::BAD_ACL),
        (vec![entry(1, 0o1000)], Code::BAD_PERMS),
    ] {
        assert_eq!(code(one.publish(ID, &list)), Some(wrong));
    }
    for reserved in [1, 0x20_0000, 0x3f_ffff, FIRST_ASSIGNED, u32::MAX] {
        assert_eq!(code(one.publish(reserved, &[])), Some(Code::RESERVED_SEGID));
    }
    assert_eq!(one.publish(ID, &[]), Ok(ID));
    assert_eq!(one.id(), Some(ID));
    assert_eq!(code(one.publish(ID + 1, &[])), Some(Code::SEG_ALREADY_PUBLISHED));
    assert_eq!(code(two.publish(ID, &[])), Some(Code::SEGID_IN_USE));
    assert_eq!(two.publish(0, &[]), Ok(FIRST_ASSIGNED));
    two.unpublish().unwrap();
    assert_eq!(two.publish(0, &[]), Ok(FIRST_ASSIGNED + 1));
    // Two segments of one memory, and one of them is withdrawn: the other stays.
    end.barrier().await;
    let other = (end.me() + 1) % 2;
    let import = connect(end, &rsm, other, ID, Perm::RDWR).await;
    end.barrier().await;
    two.unpublish().unwrap();
    one.memory().local().store(8, 5);
    end.barrier().await;
    import.init_barrier().unwrap();
    let mut got = [0; 8];
    import.get_elements(8, &mut got, 8).unwrap();
    assert_eq!(u64::from_ne_bytes(got), 5);
    end.barrier().await;
    // As many as there is room for, and then as many again.
    drop((import, one, two));
    for _ in 0..2 {
        let all: Vec<_> = (0..64u32)
            .map(|i| {
                let export = create(4096).unwrap();
                export.publish(ID + i, &[]).map(|_| export)
            })
            .collect();
        assert!(all.iter().take(20).all(|published| published.is_ok()));
        let more = create(4096).unwrap().publish(ID + 100, &[]);
        assert_eq!(code(more), Some(Code::INSUFFICIENT_RESOURCES));
        drop(all);
    }
    end.barrier().await;
}

async fn accesses<F: Fabric>(end: &End<F>) {
    let rsm = open(end);
    if end.me() == 0 {
        let (memory, export) = publish(&rsm, LEN - 4096, &[]);
        end.barrier().await;
        end.until("importers", || !export.importers().is_empty()).await;
        end.barrier().await;
        let mut seen = vec![0; LEN - 4096];
        memory.local().read(0, &mut seen);
        assert!(seen.iter().enumerate().all(|(i, byte)| *byte == pattern(i)));
        end.until("a disconnect", || export.importers().is_empty()).await;
        return;
    }
    let len = LEN - 4096;
    end.barrier().await;
    let missing = rsm.connect(main_controller(&rsm), 0, ID + 1, Perm::RDWR);
    assert_eq!(code(missing), Some(Code::SEG_NOT_PUBLISHED));
    let none = rsm.connect(main_controller(&rsm), 1, ID, Perm::RDWR);
    if rsm.reaches(main_controller(&rsm), 1) {
        assert_eq!(code(none), Some(Code::SEG_NOT_PUBLISHED));
    } else {
        assert_eq!(code(none), Some(Code::REMOTE_NODE_UNREACHABLE));
    }
    let import = connect(end, &rsm, 0, ID, Perm::RDWR).await;
    assert_eq!(
        (import.len(), import.node(), import.mode()),
        (len, 0, Mode::Implicit)
    );
    // Checks, in their order.
    assert_eq!(
        code(import.put_elements(1, &[0; 8], 8)),
        Some(Code::BAD_MEM_ALIGNMENT)
    );
    assert_eq!(code(import.put(len, &[0])), Some(Code::BAD_LENGTH));
    assert_eq!(code(import.put(usize::MAX, &[0])), Some(Code::BAD_LENGTH));
    assert_eq!(code(import.put(0, &[0])), Some(Code::BARRIER_UNINITIALIZED));
    let mut barrier = Barrier::default();
    assert_eq!(
        code(import.open_barrier(&mut barrier)),
        Some(Code::BARRIER_UNINITIALIZED)
    );
    barrier = import.init_barrier().unwrap();
    assert_eq!(
        code(import.close_barrier(&mut barrier)),
        Some(Code::BARRIER_NOT_OPENED)
    );
    let all: Vec<u8> = (0..len).map(pattern).collect();
    // Implicit mode: there when the call returns.
    let third = (len / 3) & !63;
    for (i, part) in all[..third].chunks(200).enumerate() {
        import.put(i * 200, part).unwrap();
        let mut back = vec![0; part.len()];
        import.get(i * 200, &mut back).unwrap();
        assert!(back == part);
    }
    // Explicit mode.
    import.set_mode(Mode::Explicit);
    import.open_barrier(&mut barrier).unwrap();
    let mut at = third;
    for (i, size) in [1, 2, 4, 8, 0, 0].into_iter().cycle().enumerate() {
        let left = len - at;
        if left == 0 {
            break;
        }
        let many = (64 * (1 + i % 5)).min(left);
        let part = &all[at..at + many];
        match size {
            0 => import.put(at, part).unwrap(),
            size => import.put_elements(at, part, size).unwrap(),
        }
        at += many;
        if i % 7 == 0 {
            import.order_barrier(&mut barrier).unwrap();
        }
    }
    import.close_barrier(&mut barrier).unwrap();
    assert_eq!(
        code(import.order_barrier(&mut barrier)),
        Some(Code::BARRIER_NOT_OPENED)
    );
    let mut back = vec![0; len];
    import.get(0, &mut back).unwrap();
    assert!(back == all);
    for size in [1, 2, 4, 8] {
        let mut back = vec![0; 64];
        import.get_elements(128, &mut back, size).unwrap();
        assert!(back == all[128..192]);
    }
    // Nothing at the very end.
    import.put(len, &[]).unwrap();
    import.destroy_barrier(&mut barrier).unwrap();
    assert_eq!(
        code(import.destroy_barrier(&mut barrier)),
        Some(Code::BARRIER_UNINITIALIZED)
    );
    assert_eq!(rsm.take_error_status(), None);
    end.barrier().await;
    import.disconnect().unwrap();
    assert_eq!(code(import.put(0, &[0])), Some(Code::BAD_SEG_HNDL));
    assert_eq!(code(import.disconnect()), Some(Code::SEG_NOT_CONNECTED));
    assert_eq!(code(import.init_barrier()), Some(Code::BAD_SEG_HNDL));
    drained(end, &rsm).await;
}

fn pattern(i: usize) -> u8 {
    (i * 7 + i / 256) as u8
}

async fn rights<F: Fabric>(end: &End<F>) {
    // The owner is user 100 of group 100.
    let rsm = open(end);
    let user = |uid, gid| of(end.fabric.clone(), uid, gid, &[7]);
    if end.me() == 0 {
        let controller = main_controller(&rsm);
        let memory = rsm.memory(4096).unwrap();
        let make = || rsm.export(controller, &memory, 4096, Perm(0o640)).unwrap();
        let (listed, open_to_all, nothing) = (make(), make(), make());
        listed.publish(ID, &[entry(1, 0o624)]).unwrap();
        open_to_all.publish(ID + 1, &[]).unwrap();
        nothing.publish(ID + 2, &[entry(1, 0), entry(2, 0o060)]).unwrap();
        end.barrier().await;
        end.barrier().await;
        return;
    }
    end.barrier().await;
    let try_as = |uid, gid, id, perm| {
        let rsm = user(uid, gid);
        code(rsm.connect(main_controller(&rsm), 0, id, Perm(perm)))
    };
    const DENIED: Option<Code> = Some(Code::PERM_DENIED);
    if end.me() == 1 {
        // As in the manual: 0624 is read and write to the owner, write to the group, read to others.
        for (uid, gid, perm, outcome) in [
            (100, 1, 0o600, None),
            (1, 100, 0o200, None),
            (1, 100, 0o400, DENIED),
            (1, 1, 0o400, None),
            (1, 1, 0o600, DENIED),
            (1, 1, 0, None),
            (1, 1, 0o1000, DENIED),
            (1, 1, 0o040, DENIED),
        ] {
            assert_eq!(try_as(uid, gid, ID, perm), outcome, "{uid} {gid} {perm:o}");
        }
        assert_eq!(try_as(100, 100, ID + 2, 0), None);
        assert_eq!(try_as(100, 100, ID + 2, 0o400), DENIED);
        let reader = connect(end, &rsm, 0, ID + 1, Perm::READ).await;
        let writer = connect(end, &rsm, 0, ID + 1, Perm::WRITE).await;
        let nobody = connect(end, &rsm, 0, ID + 1, Perm::NONE).await;
        reader.set_mode(Mode::Explicit);
        writer.set_mode(Mode::Explicit);
        assert_eq!(code(reader.put(0, &[1])), DENIED);
        assert_eq!(code(writer.get(0, &mut [1])), DENIED);
        assert_eq!(code(nobody.get(0, &mut [1])), DENIED);
        writer.put(0, &[1]).unwrap();
        reader.get(0, &mut [1]).unwrap();
    } else {
        let unlisted = Some(Code::SEG_NOT_PUBLISHED_TO_NODE);
        assert_eq!(try_as(100, 100, ID, 0o400), unlisted);
        assert_eq!(try_as(100, 100, ID, 0), unlisted);
        assert_eq!(try_as(100, 1, ID + 1, 0o600), None);
        assert_eq!(try_as(1, 100, ID + 1, 0o400), None);
        assert_eq!(try_as(1, 100, ID + 1, 0o600), DENIED);
        assert_eq!(try_as(1, 1, ID + 1, 0o400), DENIED);
        assert_eq!(try_as(100, 1, ID + 2, 0o400), DENIED);
        assert_eq!(try_as(1, 100, ID + 2, 0o600), None);
    }
    end.barrier().await;
    assert_eq!(end.fabric.take_faults().0, vec![]);
}

/// The exporter knows who its peers are; what their libraries take them for lets them into nothing.
async fn liars<F: Fabric>(end: &End<F>) {
    let rsm = open(end);
    if end.me() == 0 {
        rsm.set_vouched(|peer| {
            let identity = |uid, groups: &[u32]| Identity {
                uid,
                gid: uid,
                groups: groups.to_vec(),
            };
            match peer.0 {
                1 => Some(identity(101, &[])),
                2 => Some(identity(102, &[9, 100])),
                _ => None,
            }
        });
        let memory = rsm.memory(4096).unwrap();
        let make = |mask| {
            rsm.export(main_controller(&rsm), &memory, 4096, Perm(mask))
                .unwrap()
        };
        let (secret, listed, open_to_all) = (make(0o640), make(0o600), make(0o444));
        secret.publish(ID, &[]).unwrap();
        listed
            .publish(ID + 1, &[entry(1, 0o604), entry(2, 0o660)])
            .unwrap();
        open_to_all.publish(ID + 2, &[]).unwrap();
        end.barrier().await;
        end.barrier().await;
        // Who says that it may do more than it may is not believed when others are admitted.
        secret.republish(&[entry(2, 0o640)]).unwrap();
        listed.republish(&[]).unwrap();
        end.barrier().await;
        end.barrier().await;
        return;
    }
    end.barrier().await;
    let (uid, groups): (_, &[u32]) = if end.me() == 1 {
        (101, &[])
    } else {
        (102, &[9, 100])
    };
    let honest = of(end.fabric.clone(), uid, uid, groups);
    let liar = of(end.fabric.clone(), 100, 100, &[]);
    let try_as = |rsm: &Rsm<F>, id, perm| code(rsm.connect(main_controller(rsm), 0, id, Perm(perm)));
    let refused = |outcome: Option<Code>| {
        // What is not for it the fabric denies, or does not show.
        matches!(outcome, Some(Code::PERM_DENIED | Code::SEG_NOT_PUBLISHED))
    };
    const DENIED: Option<Code> = Some(Code::PERM_DENIED);
    if end.me() == 1 {
        assert_eq!(try_as(&honest, ID, 0o400), DENIED);
        assert!(refused(try_as(&liar, ID, 0o400)) && refused(try_as(&liar, ID, 0o600)));
        assert_eq!(try_as(&honest, ID + 1, 0o400), None);
        assert_eq!(try_as(&liar, ID + 1, 0o400), None);
        assert!(refused(try_as(&liar, ID + 1, 0o600)));
    } else {
        assert_eq!(try_as(&honest, ID, 0o400), None);
        assert_eq!(try_as(&honest, ID, 0o600), DENIED);
        assert_eq!(try_as(&liar, ID, 0o400), None);
        assert!(refused(try_as(&liar, ID, 0o600)));
        assert_eq!(try_as(&honest, ID + 1, 0o600), None);
    }
    assert_eq!(try_as(&honest, ID + 2, 0o400), None);
    // A connection without any right gives none when others are admitted.
    let nothing = connect(end, &liar, 0, ID, Perm::NONE).await;
    end.barrier().await;
    end.barrier().await;
    assert!(refused(try_as(&liar, ID, 0o600)) || end.me() == 1);
    if end.me() == 1 {
        assert!(try_as(&liar, ID, 0o400).is_some() && try_as(&liar, ID + 1, 0o400).is_some());
    }
    drop(nothing);
    end.barrier().await;
}

async fn withdrawn<F: Fabric>(end: &End<F>) {
    let rsm = open(end);
    if end.me() == 0 {
        let (memory, export) = publish(&rsm, LEN, &[]);
        end.until("both", || export.importers().len() == 2).await;
        // Its barrier has seen it, too.
        end.until("a put", || memory.local().load(64) == 1 && end.posted(0) == 1)
            .await;
        export.unpublish().unwrap();
        memory.local().store(72, 7);
        end.barrier().await;
        end.barrier().await;
        end.settle();
        assert_eq!((memory.local().load(64), memory.local().load(72)), (1, 7));
        // The same memory again: a new connection, with the contents as they are.
        export.publish(ID, &[]).unwrap();
        end.barrier().await;
        end.until("a put", || memory.local().load(64) == 3).await;
        end.barrier().await;
        return;
    }
    let import = connect(end, &rsm, 0, ID, Perm::RDWR).await;
    let mut barrier = import.init_barrier().unwrap();
    import.set_mode(Mode::Explicit);
    import.open_barrier(&mut barrier).unwrap();
    if end.me() == 1 {
        import.put_elements(64, &1u64.to_ne_bytes(), 8).unwrap();
        import.order_barrier(&mut barrier).unwrap();
        end.post(0, 1);
    }
    end.barrier().await;
    // Nothing happens to the importer, until it looks.
    import.put_elements(64, &2u64.to_ne_bytes(), 8).unwrap();
    import.put(0, &[9; 64]).unwrap();
    assert_eq!(code(import.order_barrier(&mut barrier)), Some(Code::CONN_ABORTED));
    assert_eq!(code(import.close_barrier(&mut barrier)), Some(Code::CONN_ABORTED));
    // The next scope is no better, nor is implicit mode, nor a signal.
    import.open_barrier(&mut barrier).unwrap();
    assert_eq!(code(import.close_barrier(&mut barrier)), Some(Code::CONN_ABORTED));
    import.set_mode(Mode::Implicit);
    assert_eq!(code(import.put(0, &[1])), Some(Code::CONN_ABORTED));
    assert_eq!(code(import.post(Accumulate::Yes)), Some(Code::CONN_ABORTED));
    assert_eq!(code(import.try_wait()), Some(Code::CONN_ABORTED));
    assert!(import.is_aborted());
    let report = rsm.take_error_status().unwrap();
    assert_eq!(
        (report.cause, report.node, report.segment),
        (Cause::TranslationViolation, 0, ID)
    );
    assert!(
        report.count > 0 && report.message.contains("node 0"),
        "{report:?}"
    );
    assert_eq!(rsm.take_error_status(), None);
    // What is lost from now on is told like the first, each time anew, and to those only who lost something.
    let lost_again = |what: &str, wanted: u64| {
        let report = rsm.take_error_status();
        let told = report.as_ref().map(|r| (r.cause, r.node, r.segment, r.count));
        let one = (Cause::TranslationViolation, 0, ID, wanted);
        assert_eq!(told, (wanted > 0).then_some(one), "{what}: {report:?}");
        assert!(
            report.is_none_or(|r| r.message.contains("it was withdrawn")),
            "{what}"
        );
    };
    assert_eq!(code(import.put(0, &[1])), Some(Code::CONN_ABORTED));
    assert_eq!(code(import.put(0, &[1; 64])), Some(Code::CONN_ABORTED));
    lost_again("two implicit puts", 2);
    import.set_mode(Mode::Explicit);
    import.open_barrier(&mut barrier).unwrap();
    assert_eq!(code(import.close_barrier(&mut barrier)), Some(Code::CONN_ABORTED));
    lost_again("nothing was put", 0);
    for round in 0..3 {
        if end.me() == 1 || round == 1 {
            import.open_barrier(&mut barrier).unwrap();
            import.put(128, &[round; 64]).unwrap();
            assert_eq!(code(import.order_barrier(&mut barrier)), Some(Code::CONN_ABORTED));
            assert_eq!(code(import.close_barrier(&mut barrier)), Some(Code::CONN_ABORTED));
        }
        lost_again("puts by one of two", u64::from(end.me() == 1 || round == 1));
    }
    end.barrier().await;
    end.barrier().await;
    import.disconnect().unwrap();
    let again = connect(end, &rsm, 0, ID, Perm::RDWR).await;
    again.init_barrier().unwrap();
    let mut got = [0; 8];
    again.get_elements(72, &mut got, 8).unwrap();
    assert_eq!(u64::from_ne_bytes(got), 7);
    again.put_elements(64, &3u64.to_ne_bytes(), 8).unwrap();
    end.barrier().await;
}

async fn republished<F: Fabric>(end: &End<F>) {
    let rsm = open(end);
    if end.me() == 0 {
        let (memory, export) = publish(&rsm, 4096, &[entry(1, 0o600)]);
        end.until("importer", || export.importers().len() == 1).await;
        end.barrier().await;
        export.republish(&[entry(2, 0o400)]).unwrap();
        end.settle();
        end.barrier().await;
        end.barrier().await;
        end.until("a put", || memory.local().load(8) == 1).await;
        export.republish(&[]).unwrap();
        end.barrier().await;
        end.until("a put", || memory.local().load(16) == 1).await;
        end.barrier().await;
        return;
    }
    let denied = |result| assert_eq!(code(result), Some(Code::PERM_DENIED));
    let controller = main_controller(&rsm);
    if end.me() == 1 {
        let import = connect(end, &rsm, 0, ID, Perm::RDWR).await;
        import.init_barrier().unwrap();
        end.barrier().await;
        end.barrier().await;
        // No more for newcomers, and as before for who is connected.
        let later = rsm.connect(controller, 0, ID, Perm::READ);
        assert_eq!(code(later), Some(Code::SEG_NOT_PUBLISHED_TO_NODE));
        end.barrier().await;
        import.put_elements(8, &1u64.to_ne_bytes(), 8).unwrap();
        end.barrier().await;
    } else {
        end.barrier().await;
        end.barrier().await;
        denied(rsm.connect(controller, 0, ID, Perm::RDWR));
        let import = connect(end, &rsm, 0, ID, Perm::READ).await;
        import.init_barrier().unwrap();
        end.barrier().await;
        end.barrier().await;
        let mut got = [0; 8];
        import.get(8, &mut got).unwrap();
        assert_eq!(u64::from_ne_bytes(got), 1);
        let writer = connect(end, &rsm, 0, ID, Perm::RDWR).await;
        writer.init_barrier().unwrap();
        writer.put_elements(16, &1u64.to_ne_bytes(), 8).unwrap();
    }
    end.barrier().await;
}

async fn signals<F: Fabric>(end: &End<F>) {
    const MANY: u32 = 100;
    let rsm = open(end);
    if end.me() == 0 {
        let (memory, export) = publish(&rsm, 4096, &[]);
        // Signals of a process come in order: those of this one tell that the others are here.
        let of_mark = rsm.memory(4096).unwrap();
        let mark = rsm
            .export(main_controller(&rsm), &of_mark, 4096, Perm(0o600))
            .unwrap();
        mark.publish(ID + 1, &[]).unwrap();
        let both = || export.importers().len() == 2 && mark.importers().len() == 2;
        end.until("both", both).await;
        assert_eq!(export.try_wait(), Ok(false));
        assert_eq!(code(export.wait(Some(Duration::ZERO))), Some(Code::TIMEOUT));
        end.barrier().await;
        let mut got = 0;
        end.until("signals", || {
            got += u32::from(export.try_wait().unwrap());
            got == 2 * MANY
        })
        .await;
        // What was put before a signal is there with it.
        assert_eq!((memory.local().load(64), memory.local().load(128)), (1, 2));
        end.barrier().await;
        assert_eq!(export.try_wait(), Ok(false));
        // Of these an importer sees one, and of the next ones five, if it takes none meanwhile.
        for many in [1, 5] {
            for _ in 0..many {
                export.post(Accumulate::Yes).unwrap();
            }
            for _ in 0..20 {
                export.post(Accumulate::No).unwrap();
            }
            mark.post(Accumulate::Yes).unwrap();
            drained(end, &rsm).await;
            end.barrier().await;
        }
        export.post(Accumulate::Yes).unwrap();
        export.hold_poll();
        assert_eq!(code(export.destroy()), Some(Code::POLLFD_IN_USE));
        assert!(export.release_poll() && !export.release_poll());
        end.until("both have taken one", || {
            rsm.progress();
            memory.local().load(256) + memory.local().load(320) == 2
        })
        .await;
        end.barrier().await;
        export.destroy().unwrap();
        drained(end, &rsm).await;
        end.barrier().await;
        return;
    }
    let import = connect(end, &rsm, 0, ID, Perm::RDWR).await;
    import.init_barrier().unwrap();
    let mark = connect(end, &rsm, 0, ID + 1, Perm::READ).await;
    end.barrier().await;
    let me = u64::from(end.me());
    import
        .put_elements(64 * me as usize, &me.to_ne_bytes(), 8)
        .unwrap();
    for _ in 0..MANY {
        import.post(Accumulate::Yes).unwrap();
        end.pause().await;
    }
    drained(end, &rsm).await;
    end.barrier().await;
    let told = Rc::new(Cell::new(None));
    let tell = Rc::clone(&told);
    import.watch(Some(Box::new(move |ready| tell.set(Some(ready)))));
    assert_eq!(told.get(), Some(false));
    for many in [1, 5] {
        end.until("the mark", || mark.try_wait().unwrap()).await;
        assert_eq!(told.get(), Some(true));
        let mut got = 0;
        while import.try_wait().unwrap() {
            got += 1;
        }
        assert_eq!((got, told.get()), (many, Some(false)));
        end.barrier().await;
    }
    end.until("a signal", || import.try_wait().unwrap()).await;
    import
        .put_elements(192 + 64 * me as usize, &1u64.to_ne_bytes(), 8)
        .unwrap();
    import.hold_poll();
    assert_eq!(code(import.disconnect()), Some(Code::POLLFD_IN_USE));
    assert!(import.release_poll());
    end.barrier().await;
    end.barrier().await;
    end.until("the end of it", || import.try_wait().is_err()).await;
    assert_eq!(told.get(), Some(true));
}

async fn strangers<F: Fabric>(end: &End<F>) {
    let rsm = open(end);
    let packet = |kind: u8, slot: u32, generation: u64, connection: u32| {
        let mut bytes = [0u8; 32];
        (bytes[0], bytes[1]) = (kind, 1);
        bytes[4..8].copy_from_slice(&slot.to_le_bytes());
        bytes[8..16].copy_from_slice(&generation.to_le_bytes());
        bytes[16..20].copy_from_slice(&connection.to_le_bytes());
        bytes[20] = 1;
        bytes
    };
    if end.me() == 0 {
        let (_memory, export) = publish(&rsm, 4096, &[entry(1, 0o600)]);
        end.until("the importer", || export.importers() == [1]).await;
        end.barrier().await;
        let mut faults = Vec::new();
        end.until("refusals", || {
            rsm.progress();
            faults.extend(end.fabric.take_faults().0);
            faults.len() == 6
        })
        .await;
        // Each names who it was.
        assert!(faults.iter().all(|fault| fault.peer == Peer(2)), "{faults:?}");
        let refused = rsm.refused();
        assert_eq!((refused.strangers, refused.malformed, refused.late), (4, 2, 0));
        // This interface's user is told of each once, with the values, by nobody else's leave.
        let told: Vec<_> = std::iter::from_fn(|| rsm.next_fault()).collect();
        assert_eq!(told, faults);
        for (fault, value) in told.iter().zip(["0x500000", "0x500000", "0x63", "0x4d"]) {
            let sentence = fault.error.to_string();
            assert!(
                sentence.contains("process 2") && sentence.contains(value),
                "{sentence}"
            );
        }
        assert_eq!(rsm.next_fault(), None);
        assert_eq!(export.importers(), [1]);
        // The next good one still arrives, and only that.
        end.barrier().await;
        end.until("a signal", || export.try_wait().unwrap()).await;
        assert_eq!(export.try_wait(), Ok(false));
    } else if end.me() == 1 {
        let import = connect(end, &rsm, 0, ID, Perm::RDWR).await;
        end.barrier().await;
        end.barrier().await;
        import.post(Accumulate::Yes).unwrap();
        drained(end, &rsm).await;
    } else {
        end.barrier().await;
        // A signal for a segment it is not connected to; as if it were node 1's connection; a connection it may not
        // have, to something never published; a signal for a connection that was never made; malformed packets.
        let say = [
            packet(3, 0, 1, 1).to_vec(),
            packet(1, 0, 1, 9).to_vec(),
            packet(1, 0, 99, 9).to_vec(),
            packet(4, 0, 1, 77).to_vec(),
            packet(9, 0, 1, 1).to_vec(),
            vec![1, 2, 3],
        ];
        for bytes in say {
            end.until("room", || {
                let sent = end.fabric.try_send(Peer(0), Port::Rsm, Priority::High, &bytes);
                sent == farpost_fabric::TrySend::Sent
            })
            .await;
        }
        end.barrier().await;
    }
    end.barrier().await;
}

async fn lists<F: Fabric>(end: &End<F>) {
    let rsm = open(end);
    if end.me() == 0 {
        let (memory, export) = publish(&rsm, 4096, &[]);
        end.until("the signal", || export.try_wait().unwrap()).await;
        let mut got = [0; 6];
        memory.local().read(10, &mut got);
        assert_eq!(&got, b"abcxyz");
        end.barrier().await;
        assert_eq!(export.try_wait(), Ok(false));
        end.barrier().await;
        return;
    }
    let import = connect(end, &rsm, 0, ID, Perm::RDWR).await;
    import.init_barrier().unwrap();
    let from = |local, offset| Transfer {
        local: Local::From(local),
        offset,
    };
    let post = Some(Accumulate::Yes);
    for bad in [0, 17] {
        let mut list: Vec<_> = (0..bad).map(|i| from(b"a", i)).collect();
        let outcome = import.transfer(&mut list, post);
        assert_eq!(
            (outcome.residual, code(outcome.result)),
            (bad, Some(Code::BAD_SGIO))
        );
    }
    // Past the end in the second: it and the third are not done, and nobody is signalled.
    let mut list = [from(b"1", 0), from(b"2", 4096), from(b"3", 1)];
    let outcome = import.transfer(&mut list, post);
    assert_eq!(
        (outcome.residual, code(outcome.result)),
        (2, Some(Code::BAD_LENGTH))
    );
    let mut list = [from(b"abc", 10), from(b"xyz", 13)];
    let outcome = import.transfer(&mut list, post);
    assert_eq!((outcome.residual, outcome.result), (0, Ok(())));
    let (mut one, mut two) = ([0; 3], [0; 2]);
    let mut list = [
        Transfer {
            local: Local::To(&mut one),
            offset: 10,
        },
        Transfer {
            local: Local::To(&mut two),
            offset: 0,
        },
    ];
    assert_eq!(import.transfer(&mut list, None).result, Ok(()));
    assert_eq!((&one, &two), (b"abc", b"1\0"));
    end.barrier().await;
    end.barrier().await;
}

async fn mapped<F: Fabric>(end: &End<F>) {
    let rsm = open(end);
    let maps = end.fabric.maps(end.next());
    if end.me() == 0 {
        let (memory, _export) = publish(&rsm, LEN, &[]);
        end.barrier().await;
        if maps {
            end.until("a store", || memory.local().load(4096 + 64) == 5).await;
        }
        end.barrier().await;
        return;
    }
    let import = connect(end, &rsm, 0, ID, Perm::RDWR).await;
    import.set_mode(Mode::Explicit);
    let fails = |offset, len, perm| import.map(offset, len, Perm(perm)).err().map(|e| e.code);
    assert_eq!(fails(0, 4096, 0o1600), Some(Code::BAD_PERMS));
    assert_eq!(fails(0, 0, 0o600), Some(Code::BAD_LENGTH));
    assert_eq!(fails(4096, LEN, 0o600), Some(Code::BAD_LENGTH));
    assert_eq!(fails(64, 64, 0o600), Some(Code::BAD_MEM_ALIGNMENT));
    assert_eq!(code(import.unmap()), Some(Code::SEG_NOT_MAPPED));
    let reader = connect(end, &rsm, 0, ID, Perm::READ).await;
    assert_eq!(
        reader.map(0, LEN, Perm::RDWR).err().map(|e| e.code),
        Some(Code::PERM_DENIED)
    );
    let attributes = rsm.attributes(main_controller(&rsm));
    assert_eq!(attributes.direct_access_sizes != 0, maps);
    if maps {
        let memory = import.map(0, LEN, Perm::RDWR).unwrap();
        memory.store(4096 + 64, 5);
        assert_eq!(fails(0, LEN, 0o600), Some(Code::SEG_ALREADY_MAPPED));
        assert_eq!(code(import.put(LEN, &[1])), Some(Code::BAD_OFFSET));
        assert_eq!(code(import.disconnect()), Some(Code::SEG_STILL_MAPPED));
        import.unmap().unwrap();
    } else {
        assert_eq!(fails(0, LEN, 0o600), Some(Code::MAP_FAILED));
    }
    assert_eq!(code(import.put(LEN, &[1])), Some(Code::BAD_LENGTH));
    end.barrier().await;
    end.barrier().await;
    import.disconnect().unwrap();
}
