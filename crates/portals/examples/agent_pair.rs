//! Two clients of an agent, three processes of one host: puts of 8 bytes back and forth, half of a round trip in
//! nanoseconds, by mode. `agent_pair [ROUNDS [AGENT'S CORE, FIRST CLIENT'S, SECOND'S]]`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "an example measures, by the host's clock"
)]

use farpost_fabric::Peer;
use farpost_fabric::wait::WaitTunables;
use farpost_mapped::sealed_memory;
use farpost_portals::agent::{Agent, AgentTunables, Client, Mode, Routes};
use farpost_portals::net::NetTunables;
use farpost_portals::*;
use farpost_shm::{Shm, ShmConfig, ShmTunables, region_bytes};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

const SIZE: u32 = 3;
const AGENT: u32 = 2;

fn attach(file: &OwnedFd, index: u32) -> Rc<Shm> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let shm = Shm::attach(ShmConfig {
        file: file.try_clone().expect("a descriptor"),
        offset: 0,
        len: region_bytes(SIZE) as u64,
        index,
        size: SIZE,
        processes: SIZE,
        cores,
        tunables: ShmTunables::default(),
    });
    Rc::new(shm.expect("attached"))
}

fn pin(core: usize) {
    // SAFETY: the set is ours and as long as is said.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &raw const set), 0);
    }
}

fn client(fabric: Rc<Shm>, me: u32, mode: Mode, rounds: usize) {
    let routes = Routes::new(SIZE, &[(0, Peer(AGENT)), (1, Peer(AGENT))]);
    let processes = Rc::new(Processes::on_one_host(SIZE, 1000, 1));
    let (wait, patience) = (WaitTunables::default(), Duration::from_secs(20));
    let ni = Client::attach(fabric, mode, &routes, &wait, processes, None, patience, None).expect("attached");
    let mut memory = [0u8; 8];
    let eq = ni.eq_alloc(64, None).expect("a queue");
    let mut own = [0u8; 8];
    let md = |memory: &mut [u8; 8], options, eq| Md::of(memory, options | option::EVENT_START_DISABLE, eq);
    let me_ = ni
        .me_attach(3, ProcessId::ANY, (0, 0), Unlink::Retain, Position::After)
        .expect("an entry");
    let window = md(&mut memory, option::OP_PUT | option::MANAGE_REMOTE, eq);
    // SAFETY: the memory lives until the process ends.
    let from = unsafe {
        ni.md_attach(me_, window, None, Unlink::Retain)
            .expect("a descriptor");
        ni.md_bind(
            md(&mut own, option::EVENT_END_DISABLE, Handle::EQ_NONE),
            None,
            Unlink::Retain,
        )
        .expect("another")
    };
    let target = Target {
        id: ProcessId::new(0, 1 - me),
        pt_index: 3,
        ac_index: 0,
        match_bits: 0,
        offset: 0,
    };
    // The other one may not be there yet.
    std::thread::sleep(Duration::from_millis(100));
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let begun = Instant::now();
        if me == 0 {
            ni.put(from, AckReq::NoAck, &target, 0).expect("put");
            ni.eq_wait(eq).expect("came");
        } else {
            ni.eq_wait(eq).expect("came");
            ni.put(from, AckReq::NoAck, &target, 0).expect("put");
        }
        times.push(begun.elapsed().as_nanos() as u64 / 2);
    }
    times.sort_unstable();
    if me == 0 {
        println!(
            "{mode:?}: median {} ns, tenth {} ns",
            times[rounds / 2],
            times[rounds / 10]
        );
    }
    ni.close(patience);
}

fn main() {
    let args: Vec<usize> = std::env::args()
        .skip(1)
        .map(|a| a.parse().expect("a number"))
        .collect();
    let rounds = args.first().copied().unwrap_or(20_000);
    for mode in [Mode::Generic, Mode::Accelerated] {
        let file = sealed_memory(c"farpost-pair", region_bytes(SIZE)).expect("a region");
        let mut children = vec![];
        for index in 0..SIZE {
            // SAFETY: one thread.
            let child = unsafe { libc::fork() };
            if child == 0 {
                if args.len() == 4 {
                    pin(args[1 + [1, 2, 0][index as usize]]);
                }
                // SAFETY: the child ends with its parent.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                let fabric = attach(&file, index);
                if index == AGENT {
                    let routes = Routes::new(SIZE, &[(0, Peer(AGENT)), (1, Peer(AGENT))]);
                    let processes = Rc::new(Processes::on_one_host(SIZE, 1000, 1));
                    let (config, net) = (AgentTunables::default(), NetTunables::default());
                    let mut agent =
                        Agent::new(fabric, &config, &net, Rc::new(routes), processes).expect("an agent");
                    agent.run(|| false);
                } else {
                    client(fabric, index, mode, rounds);
                }
                // SAFETY: ends the child.
                unsafe { libc::_exit(0) };
            }
            children.push(child);
        }
        for child in &children[..2] {
            // SAFETY: our own children.
            unsafe { libc::waitpid(*child, std::ptr::null_mut(), 0) };
        }
        // SAFETY: our own child.
        unsafe {
            libc::kill(children[2], libc::SIGKILL);
            libc::waitpid(children[2], std::ptr::null_mut(), 0);
        }
    }
}
