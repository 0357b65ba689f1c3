//! An agent, a generic client, an accelerated one and an inline interface as real processes on shared memory: all with
//! all, without cross-memory attach, with a client that comes again, that is killed, that is stopped, that writes garbage,
//! then with the agent killed.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "processes and threads of a test wait by the host's clock"
)]

mod common;

use farpost_fabric::conformance::{child, reap};
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{Fabric, Interrupt, Peer, Permission, Remote, RemoteMemory, SegmentId};
use farpost_mapped::sealed_memory;
use farpost_portals::agent::{Agent, AgentTunables, Client, Mode, Routes};
use farpost_portals::net::NetTunables;
use farpost_portals::*;
use farpost_shm::conformance::shm_end;
use farpost_shm::{Shm, ShmTunables, region_bytes};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

const SIZE: u32 = 4;
const AGENT: u32 = 0;
const MEMBERS: [u32; 3] = [1, 2, 3];
const PLACE: usize = 64 << 10;
const LENGTHS: [usize; 5] = [8, 0, 128, 3000, 60_000];
/// Times that a client closes and opens again.
const AGAIN: u64 = 20;
const RETRY: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scene {
    /// Everybody with everybody, so many rounds.
    Peace,
    /// The same where the system lets nobody reach another's memory.
    Apart,
    /// Process 2 closes and opens again, and again, while the others send.
    ClientComesAgain,
    /// Process 2 is killed; the others go on.
    ClientDies,
    /// Process 2 is stopped and takes nothing; the others go on.
    ClientStops,
    /// Process 2 writes garbage to its mailbox; the others go on.
    ClientLies,
    /// The agent is killed.
    AgentDies,
}

fn attach(file: &OwnedFd, index: u32, scene: Scene) -> Rc<Shm> {
    let tunables = ShmTunables {
        cma: u64::from(scene != Scene::Apart),
        ..ShmTunables::default()
    };
    Rc::new(shm_end(file, (index, SIZE), 2, tunables))
}

fn everybody() -> (Rc<Routes>, Rc<Processes>) {
    let routes = Routes::new(SIZE, &[(1, Peer(AGENT)), (2, Peer(AGENT))]);
    (Rc::new(routes), Rc::new(Processes::on_one_host(SIZE, 1000, 1)))
}

/// Whether the parent has closed the other end.
fn over(end: &OwnedFd) -> bool {
    let mut poll = libc::pollfd {
        fd: end.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor, valid for the call.
    unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    (reader.into(), writer.into())
}

/// Tell the parent.
fn tell(done: &OwnedFd, what: u8) {
    // SAFETY: one byte of ours.
    let written = unsafe { libc::write(done.as_raw_fd(), (&raw const what).cast(), 1) };
    assert_eq!(written, 1);
}

fn agent(file: &OwnedFd, scene: Scene, (done, end): (&OwnedFd, &OwnedFd)) {
    let (routes, processes) = everybody();
    let (mut config, net) = (AgentTunables::default(), NetTunables::default());
    config.patience = 300;
    let mut agent =
        Agent::new(attach(file, AGENT, scene), &config, &net, routes, processes).expect("an agent");
    if scene == Scene::ClientDies {
        let begun = Instant::now();
        while !agent.client(2).expect("a client").ended {
            assert!(
                begun.elapsed() < 2 * MINUTE,
                "nobody told that a client has ended"
            );
            let slice = Instant::now();
            agent.run(|| slice.elapsed() > Duration::from_millis(10));
        }
        assert!(!agent.client(1).expect("a client").ended);
        tell(done, b'a');
    }
    agent.run(|| over(end));
    let of = |number| agent.client(number).expect("a client");
    match scene {
        Scene::Apart => assert!(of(1).carried && of(2).carried),
        Scene::ClientComesAgain => assert!(of(2).openings > AGAIN),
        Scene::ClientStops => assert!(of(2).dropped > 0, "{:?}", of(2)),
        Scene::ClientLies => assert!(of(2).faulty && !of(1).faulty, "{:?}", of(2)),
        Scene::Peace | Scene::ClientDies | Scene::AgentDies => {}
    }
}

fn open(fabric: Rc<Shm>, me: u32, scene: Scene) -> AnyInterface<Shm> {
    let (routes, processes) = everybody();
    let wait = WaitTunables::default();
    if me == 3 {
        let net = NetTunables::default();
        let interface = Interface::new(fabric, &net, &wait, processes, None, 0).expect("opened");
        return AnyInterface::Inline(Box::new(interface.with_routes(routes)));
    }
    // What a stopped process does not take is what it would match itself.
    let mode = match (me, scene) {
        (1, _) | (_, Scene::ClientStops) => Mode::Generic,
        _ => Mode::Accelerated,
    };
    let client = Client::attach(fabric, mode, &routes, &wait, processes, None, MINUTE, None);
    AnyInterface::Agent(Box::new(client.expect("attached")))
}

/// Why a member stopped early.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    /// Its agent has ended.
    NoAgent,
    /// The target is gone.
    Undeliverable,
}

/// The next event of a kind, within a minute.
fn wait(
    ni: &AnyInterface<Shm>,
    eq: Handle,
    kind: EventKind,
    patience: Duration,
) -> Result<Option<Event>, Stop> {
    let deadline = Instant::now() + patience;
    loop {
        match ni.eq_poll(&[eq], Some(deadline.saturating_duration_since(Instant::now()))) {
            Ok((_, taken)) if taken.event.ni_fail_type != NiFail::OK => return Err(Stop::Undeliverable),
            Ok((_, taken)) if taken.event.kind == kind => return Ok(Some(taken.event)),
            Ok(_) => {}
            Err(Error::Fail) => return Err(Stop::NoAgent),
            Err(error) => {
                assert_eq!(error, Error::EqEmpty);
                return Ok(None);
            }
        }
    }
}

fn bytes(round: usize, from: u32, to: u32) -> Vec<u8> {
    let seed = (round as u64) << 32 | u64::from(from) << 16 | u64::from(to);
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..LENGTHS[round % LENGTHS.len()]).map(|_| rng.u8(..)).collect()
}

/// Put to all `others`, `rounds` times, and get it back.
fn talk(
    ni: &AnyInterface<Shm>,
    me: u32,
    others: &[u32],
    rounds: usize,
    patience: Duration,
) -> Result<(), Stop> {
    let no = |_| Stop::NoAgent;
    let own = ni.eq_alloc(4096, None).map_err(no)?;
    let mut memory = vec![0; PLACE];
    let target = |to: u32| Target {
        id: ProcessId::new(0, to),
        pt_index: 3,
        ac_index: 0,
        match_bits: 0,
        offset: PLACE as u64 * u64::from(me),
    };
    for round in 0..rounds {
        for to in others {
            let data = bytes(round, me, *to);
            memory[..data.len()].copy_from_slice(&data);
            // SAFETY: the memory outlives the descriptor, which is unlinked below or ends with the process.
            let md = unsafe { ni.md_bind(Md::of(&mut memory[..data.len()], 0, own), None, Unlink::Retain) };
            let md = md.map_err(no)?;
            // What is for somebody who has ended is dropped, and nothing tells: again for some time.
            let begun = Instant::now();
            let mut puts = 0;
            loop {
                puts += 1;
                ni.put(md, AckReq::Ack, &target(*to), 0).map_err(no)?;
                if wait(ni, own, EventKind::Ack, RETRY.min(patience))?.is_some() {
                    break;
                }
                if begun.elapsed() > patience {
                    return Err(Stop::Undeliverable);
                }
            }
            memory.fill(0xee);
            let Some(reply) = ({
                ni.get(md, &target(*to)).map_err(no)?;
                wait(ni, own, EventKind::ReplyEnd, patience)?
            }) else {
                return Err(Stop::Undeliverable);
            };
            assert_eq!(reply.mlength, data.len() as u64);
            // One that was put again may have been on its way when the memory was filled.
            assert!(puts > 1 || memory[..data.len()] == data[..], "{me} got from {to}");
            let begun = Instant::now();
            loop {
                match ni.md_unlink(md) {
                    Ok(()) => break,
                    Err(Error::Fail) => return Err(Stop::NoAgent),
                    Err(error) => assert!(error == Error::MdInUse && begun.elapsed() < MINUTE),
                }
            }
        }
    }
    Ok(())
}

/// Make what the others put to and get from.
fn open_window(ni: &AnyInterface<Shm>, window: &mut [u8]) {
    let entry = ni.me_attach(3, ProcessId::ANY, (0, u64::MAX), Unlink::Retain, Position::After);
    let options = option::OP_PUT | option::OP_GET | option::MANAGE_REMOTE;
    // SAFETY: the window lives until the process ends.
    unsafe {
        ni.md_attach(
            entry.expect("an entry"),
            Md::of(window, options, Handle::EQ_NONE),
            None,
            Unlink::Retain,
        )
    }
    .expect("a descriptor");
}

/// Put to process 2 without waiting for anything: beside what the others talk about, for a long body may land after a short
/// one that was put later (only STARTs are in order, section 5).
fn pester(ni: &AnyInterface<Shm>, times: usize) {
    let room = PLACE - LENGTHS.into_iter().max().unwrap_or(0);
    let mut memory = vec![0u8; 3000.min(room)];
    for len in [8, memory.len()] {
        // SAFETY: the memory is not written, and is there until nothing is under way.
        let md = unsafe {
            ni.md_bind(
                Md::of(&mut memory[..len], 0, Handle::EQ_NONE),
                None,
                Unlink::Retain,
            )
        };
        let md = md.expect("a descriptor");
        let target = Target {
            id: ProcessId::new(0, 2),
            pt_index: 3,
            ac_index: 0,
            match_bits: 0,
            offset: (PLACE as u64) * (u64::from(ni.identity().id.pid) + 1) - room as u64,
        };
        for _ in 0..times {
            ni.put(md, AckReq::NoAck, &target, 0).expect("a put");
        }
    }
    let begun = Instant::now();
    while !ni.is_idle() {
        ni.progress();
        std::thread::yield_now();
        assert!(
            begun.elapsed() < MINUTE,
            "what is for one client holds up another"
        );
    }
}

/// Anything at all in one's own mailbox, with the numbers that the agent looks for.
fn lie(fabric: &Shm, end: &OwnedFd, told: impl FnOnce()) {
    let id = SegmentId(0x5041_0000 + fabric.me().0);
    let mailbox = fabric
        .import(Peer(AGENT), id, 0, Permission::ReadWrite)
        .expect("imported");
    let mut rng = fastrand::Rng::with_seed(9);
    let mut told = Some(told);
    let mut rounds = 0;
    while !over(end) {
        // The next number that the agent looks for is among these.
        for number in 0..4096u64 {
            let mut line = [0; 8].map(|_: u64| rng.u64(..) >> rng.u32(0..64));
            line[0] = (number + 1) | rng.u64(..27) << 32 | rng.u64(..3) << 40 | rng.u64(..3) << 48;
            let at = 128 + (number as usize % 512) * 64;
            mailbox.put_line(at, &line).expect("put");
            mailbox.put_word(8 * rng.usize(0..3), rng.u64(..)).expect("put");
            if number % 512 == 511 {
                fabric.wake(Peer(AGENT));
                std::thread::yield_now();
            }
        }
        rounds += 1;
        if rounds > 50
            && let Some(told) = told.take()
        {
            told();
        }
    }
}

/// Wait for the parent to open a gate.
fn pass(ni: &AnyInterface<Shm>, gate: &OwnedFd) {
    let begun = Instant::now();
    while !over(gate) {
        ni.progress();
        std::thread::yield_now();
        assert!(begun.elapsed() < 2 * MINUTE, "the others do not come");
    }
}

fn member(file: &OwnedFd, me: u32, scene: Scene, (done, gates): (&OwnedFd, &[OwnedFd; 4])) {
    let [begin, met, again, end] = gates;
    let fabric = attach(file, me, scene);
    let ni = open(Rc::clone(&fabric), me, scene);
    let mut window = vec![0; PLACE * SIZE as usize];
    open_window(&ni, &mut window);
    let others = |but: u32| -> Vec<u32> { MEMBERS.into_iter().filter(|n| *n != but).collect() };
    let say = |what| tell(done, what);
    say(b'0');
    pass(&ni, begin);
    // All with all first, themselves included.
    assert_eq!(talk(&ni, me, &MEMBERS, 10, MINUTE), Ok(()));
    say(b'1');
    // Nobody waits for an answer any more: now they may end, stop, lie.
    pass(&ni, met);
    match scene {
        Scene::Peace | Scene::Apart => {}
        Scene::ClientComesAgain => {
            for opening in 0..AGAIN {
                if me == 2 {
                    assert!(ni.close(MINUTE));
                    ni.reopen(None, 1 + opening as u32, MINUTE).expect("opened again");
                    open_window(&ni, &mut window);
                } else {
                    pester(&ni, 20);
                }
            }
            say(b'r');
            pass(&ni, again);
            assert_eq!(talk(&ni, me, &MEMBERS, 10, MINUTE), Ok(()));
        }
        Scene::ClientDies | Scene::ClientStops if me == 2 => {
            let _ = talk(&ni, me, &others(2), usize::MAX, MINUTE);
        }
        Scene::ClientLies if me == 2 => return lie(&fabric, end, || say(b'2')),
        // The other one may take any time to end, and whoever is told of it by an event has heard enough.
        Scene::ClientDies | Scene::ClientStops | Scene::ClientLies => {
            if scene == Scene::ClientStops {
                pass(&ni, again);
                pester(&ni, 600);
            }
            assert_ne!(talk(&ni, me, &[2], usize::MAX, Duration::from_secs(1)), Ok(()));
            assert_eq!(talk(&ni, me, &others(2), 10, MINUTE), Ok(()));
        }
        Scene::AgentDies => {
            let told = talk(&ni, me, &others(me), usize::MAX, MINUTE);
            let expected = if me == 3 {
                Stop::Undeliverable
            } else {
                Stop::NoAgent
            };
            // A client may be told of what it put to the inline interface first: then of the agent.
            assert!(
                told == Err(expected) || told == Err(Stop::Undeliverable),
                "{told:?}"
            );
            say(b'2');
            return;
        }
    }
    say(b'2');
    // The others may not be done.
    pass(&ni, end);
}

/// Wait until so many have said `what`; some are further already.
fn hear(reader: &OwnedFd, heard: &mut [usize; 256], count: usize, what: u8) {
    while heard[usize::from(what)] < count {
        let mut poll = libc::pollfd {
            fd: reader.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut byte = 0u8;
        // SAFETY: one descriptor and one byte, valid for the calls.
        unsafe {
            assert!(
                libc::poll(&raw mut poll, 1, 120_000) > 0,
                "nobody is done within two minutes"
            );
            assert_eq!(
                libc::read(reader.as_raw_fd(), (&raw mut byte).cast(), 1),
                1,
                "all have ended"
            );
        }
        heard[usize::from(byte)] += 1;
    }
}

/// Returns when the process runs no more.
fn stop(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: our own child; `status` is valid for the call.
    unsafe {
        assert_eq!(libc::kill(pid, libc::SIGSTOP), 0);
        assert_eq!(libc::waitpid(pid, &raw mut status, libc::WUNTRACED), pid);
    }
    assert!(libc::WIFSTOPPED(status), "it ended with {status:#x}");
}

fn play(scene: Scene) {
    let file = sealed_memory(c"farpost-test", region_bytes(SIZE)).expect("a region");
    let (done, say) = pipe();
    let (gates, holds): (Vec<OwnedFd>, Vec<OwnedFd>) = (0..4).map(|_| pipe()).unzip();
    let gates: [OwnedFd; 4] = gates.try_into().expect("four");
    let mut children = vec![];
    for index in 0..SIZE {
        children.push(child(|| {
            // SAFETY: the parent's ends, which nothing here uses any more.
            unsafe {
                for hold in &holds {
                    libc::close(hold.as_raw_fd());
                }
                libc::close(done.as_raw_fd());
            }
            match index {
                AGENT => agent(&file, scene, (&say, &gates[3])),
                _ => member(&file, index, scene, (&say, &gates)),
            }
        }));
    }
    drop(say);
    let heard = &mut [0; 256];
    let mut holds = holds.into_iter();
    hear(&done, heard, 3, b'0');
    drop(holds.next());
    hear(&done, heard, 3, b'1');
    drop(holds.next());
    if scene == Scene::ClientComesAgain {
        hear(&done, heard, 3, b'r');
    }
    if scene == Scene::ClientStops {
        // In the midst of its talk, and before the others go on.
        std::thread::sleep(Duration::from_millis(20));
        stop(children[2]);
    }
    drop(holds.next());
    let victim = match scene {
        Scene::Peace | Scene::Apart | Scene::ClientComesAgain | Scene::ClientLies => None,
        Scene::ClientDies | Scene::ClientStops => Some(2),
        Scene::AgentDies => Some(AGENT),
    };
    let kill = |victim: u32| {
        let pid = children[victim as usize];
        // SAFETY: our own child; no memory is involved.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        // A zombie still has a number: it goes at once.
        let status = reap(pid);
        assert!(
            libc::WIFSIGNALED(status),
            "{scene:?}: the victim ended with {status:#x} before it was killed"
        );
    };
    let others = if victim == Some(2) { 2 } else { 3 };
    match (scene, victim) {
        (Scene::ClientStops, Some(victim)) => {
            hear(&done, heard, others, b'2');
            kill(victim);
        }
        (_, Some(victim)) => {
            std::thread::sleep(Duration::from_millis(20));
            let begun = Instant::now();
            kill(victim);
            hear(&done, heard, others, b'2');
            // Whoever waits is told in bounded time: seconds, on a host that does other things as well.
            assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        }
        (_, None) => hear(&done, heard, others, b'2'),
    }
    if scene == Scene::ClientDies {
        hear(&done, heard, 1, b'a');
    }
    drop(holds);
    for (index, pid) in (0u32..).zip(children) {
        if Some(index) != victim {
            assert_eq!(reap(pid), 0, "{scene:?}: process {index}");
        }
    }
}

fn main() {
    for scene in [
        Scene::Peace,
        Scene::Apart,
        Scene::ClientComesAgain,
        Scene::ClientDies,
        Scene::ClientStops,
        Scene::ClientLies,
        Scene::AgentDies,
    ] {
        let begun = Instant::now();
        play(scene);
        println!("{scene:?}: {:?}", begun.elapsed());
    }
}
