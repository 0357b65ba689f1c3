//! An agent, a generic client, an accelerated one and an inline interface as real processes on shared memory: all with
//! all, then with a client that is killed, then with the agent killed.

use farpost_fabric::Peer;
use farpost_fabric::shm::{Shm, ShmConfig, ShmTunables, region_bytes, sealed_memory};
use farpost_fabric::wait::WaitTunables;
use farpost_portals::agent::{Agent, AgentTunables, Client, Mode, Routes};
use farpost_portals::net::NetTunables;
use farpost_portals::*;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

const SIZE: u32 = 4;
const AGENT: u32 = 0;
const MEMBERS: [u32; 3] = [1, 2, 3];
const PLACE: usize = 64 << 10;
const LENGTHS: [usize; 5] = [8, 0, 128, 3000, 60_000];
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scene {
    /// Everybody with everybody, so many rounds.
    Peace,
    /// Process 2 is killed; the others go on.
    ClientDies,
    /// The agent is killed.
    AgentDies,
}

fn attach(file: &OwnedFd, index: u32) -> Rc<Shm> {
    let shm = Shm::attach(ShmConfig {
        file: file.try_clone().expect("a descriptor"),
        offset: 0,
        len: region_bytes(SIZE) as u64,
        index,
        size: SIZE,
        processes: SIZE,
        cores: 2,
        tunables: ShmTunables::default(),
    });
    Rc::new(shm.expect("attach"))
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

fn agent(file: &OwnedFd, end: &OwnedFd) {
    let (routes, processes) = everybody();
    let (config, net) = (AgentTunables::default(), NetTunables::default());
    let mut agent = Agent::new(attach(file, AGENT), &config, &net, routes, processes).expect("an agent");
    agent.run(|| over(end));
}

fn open(file: &OwnedFd, me: u32) -> AnyInterface<Shm> {
    let (routes, processes) = everybody();
    let (fabric, wait) = (attach(file, me), WaitTunables::default());
    if me == 3 {
        let net = NetTunables::default();
        let interface = Interface::new(fabric, &net, &wait, processes, None, 0).expect("opened");
        return AnyInterface::Inline(Box::new(interface.with_routes(routes)));
    }
    let mode = if me == 1 { Mode::Generic } else { Mode::Accelerated };
    let client = Client::attach(fabric, mode, &routes, &wait, processes, None, MINUTE, None);
    AnyInterface::Agent(Box::new(client.expect("attached")))
}

fn md(memory: &mut [u8], options: u32, eq: Handle) -> Md {
    Md {
        start: memory.as_mut_ptr().expose_provenance(),
        length: memory.len() as u64,
        threshold: THRESHOLD_INFINITE,
        max_size: 0,
        options,
        user_ptr: 0,
        eq_handle: eq,
    }
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
            let md = unsafe { ni.md_bind(md(&mut memory[..data.len()], 0, own), None, Unlink::Retain) };
            let md = md.map_err(no)?;
            // Who has not opened an interface yet drops what comes: again until it is heard.
            let begun = Instant::now();
            loop {
                ni.put(md, AckReq::Ack, &target(*to), 0).map_err(no)?;
                if wait(ni, own, EventKind::Ack, Duration::from_millis(500))?.is_some() {
                    break;
                }
                if begun.elapsed() > patience {
                    // What is for a client that has ended is dropped.
                    return Err(Stop::Undeliverable);
                }
            }
            memory.fill(0xee);
            ni.get(md, &target(*to)).map_err(no)?;
            let reply = wait(ni, own, EventKind::ReplyEnd, patience)?.ok_or(Stop::Undeliverable)?;
            assert_eq!(reply.mlength, data.len() as u64);
            assert!(memory[..data.len()] == data[..], "{me} got from {to}");
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

fn member(file: &OwnedFd, me: u32, scene: Scene, (done, end): (&OwnedFd, &OwnedFd)) {
    let ni = open(file, me);
    let mut window = vec![0; PLACE * SIZE as usize];
    let entry = ni.me_attach(3, ProcessId::ANY, (0, u64::MAX), Unlink::Retain, Position::After);
    let options = option::OP_PUT | option::OP_GET | option::MANAGE_REMOTE;
    // SAFETY: the window lives until the process ends.
    unsafe {
        ni.md_attach(
            entry.expect("an entry"),
            md(&mut window, options, Handle::EQ_NONE),
            None,
            Unlink::Retain,
        )
    }
    .expect("a descriptor");
    let others = |but: u32| -> Vec<u32> { MEMBERS.into_iter().filter(|n| *n != but).collect() };
    let say = |what: u8| {
        // SAFETY: one byte of ours.
        let written = unsafe { libc::write(done.as_raw_fd(), (&raw const what).cast(), 1) };
        assert_eq!(written, 1);
    };
    // All with all first, themselves included.
    assert_eq!(talk(&ni, me, &MEMBERS, 10, MINUTE), Ok(()));
    say(b'1');
    match scene {
        Scene::Peace => {}
        Scene::ClientDies if me == 2 => {
            let _ = talk(&ni, me, &others(2), usize::MAX, MINUTE);
        }
        // The other one may take any time to end, and whoever is told of it by an event has heard enough.
        Scene::ClientDies => {
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
    let begun = Instant::now();
    while !over(end) {
        ni.progress();
        std::thread::yield_now();
        assert!(begun.elapsed() < MINUTE, "the end does not come");
    }
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

fn reap(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: `status` is valid for the call.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

fn play(scene: Scene) {
    let file = sealed_memory(c"farpost-test", region_bytes(SIZE)).expect("a region");
    let (done, say) = pipe();
    let (end, hold) = pipe();
    let mut children = vec![];
    for index in 0..SIZE {
        // SAFETY: this process has one thread, so that the child may do anything.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork");
        if child == 0 {
            // SAFETY: no memory is involved; the child ends with its parent.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::close(hold.as_raw_fd());
                libc::close(done.as_raw_fd());
            }
            let worked = std::panic::catch_unwind(|| match index {
                AGENT => agent(&file, &end),
                _ => member(&file, index, scene, (&say, &end)),
            });
            // SAFETY: ends the child without running what belongs to the parent.
            unsafe { libc::_exit(i32::from(worked.is_err())) };
        }
        children.push(child);
    }
    drop(say);
    let heard = &mut [0; 256];
    hear(&done, heard, 3, b'1');
    let victim = match scene {
        Scene::Peace => None,
        Scene::ClientDies => Some(2),
        Scene::AgentDies => Some(AGENT),
    };
    if let Some(victim) = victim {
        std::thread::sleep(Duration::from_millis(20));
        let pid = children[victim as usize];
        // SAFETY: our own child; no memory is involved.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        // A zombie still has a number: it goes at once.
        let status = reap(pid);
        assert!(
            libc::WIFSIGNALED(status),
            "{scene:?}: the victim ended with {status:#x} before it was killed"
        );
    }
    hear(&done, heard, if victim == Some(2) { 2 } else { 3 }, b'2');
    drop(hold);
    for (index, pid) in (0u32..).zip(children) {
        if Some(index) != victim {
            assert_eq!(reap(pid), 0, "{scene:?}: process {index}");
        }
    }
}

fn main() {
    for scene in [Scene::Peace, Scene::ClientDies, Scene::AgentDies] {
        let begun = Instant::now();
        play(scene);
        println!("{scene:?}: {:?}", begun.elapsed());
    }
}
