//! Worlds in the threads of a test, on several hosts: a memory each, joined by TCP over loopback.
#![allow(
    clippy::disallowed_methods,
    reason = "processes and threads of a test wait by the host's clock"
)]
#![allow(dead_code)]

use farpost_fabric::{Fabric, Peer};
use farpost_mapped::sealed_memory;
use farpost_mpi::world::{World, WorldConfig};
use farpost_net::interfaces::{Class, Subnet, Usable};
use farpost_net::{AddressBook, NetConfig};
use farpost_routed::Routed;
use farpost_shm::{Shm, ShmConfig, region_bytes};
use farpost_tcp::{Listening, Tcp, TcpSettings};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub type HostsWorld = World<Routed<Tcp>>;

/// Bytes that a process keeps of messages that nobody has asked for.
pub const UNEXPECTED: u64 = 1 << 20;

struct Book(Vec<Vec<u8>>);

impl AddressBook for Book {
    fn card(&self, peer: Peer) -> Result<Vec<u8>, String> {
        Ok(self.0[peer.index()].clone())
    }
}

/// A process that can be found.
pub fn listen(settings: &TcpSettings) -> Listening {
    let on = [Usable {
        name: "lo".into(),
        class: Class::Network,
        speed: 0,
        addresses: vec![Subnet {
            ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
            prefix: 8,
        }],
    }];
    Listening::open_on(settings.clone(), &on).unwrap()
}

/// Its world, with those of `host_of` that have the same host in `memory`.
pub fn world(
    listening: Listening,
    index: usize,
    host_of: &[u32],
    memory: OwnedFd,
    cards: &[Vec<u8>],
) -> HostsWorld {
    let size = host_of.len() as u32;
    let host = host_of[index];
    let processes = host_of.iter().filter(|other| **other == host).count() as u32;
    let near = Shm::attach(ShmConfig {
        file: memory,
        offset: 0,
        len: region_bytes(size) as u64,
        index: index as u32,
        size,
        processes,
        cores: 1,
        tunables: Default::default(),
    })
    .unwrap();
    let map: Rc<[u32]> = host_of.into();
    let far = listening
        .start(NetConfig {
            me: Peer(index as u32),
            size,
            host_of: Rc::clone(&map),
            cores: 1,
            processes,
            secret: [7; 32],
            book: Box::new(Book(cards.to_vec())),
        })
        .unwrap();
    let mut config = WorldConfig::default();
    config.engine.unexpected_bytes = UNEXPECTED;
    World::new(Routed::new(near, Some(far), map), config)
}

/// The memory of a host of a job of `size` processes.
pub fn memory(size: usize) -> OwnedFd {
    sealed_memory(c"test", region_bytes(size as u32)).unwrap()
}

/// Counts down what is left even when its thread panics.
struct Leave<'a>(&'a AtomicUsize);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Run `body` as each process of `host_of` whose `listening` is there. Worlds go when all have returned.
pub fn run_some(
    host_of: &[u32],
    listening: Vec<Option<Listening>>,
    cards: &[Vec<u8>],
    body: impl Fn(&HostsWorld) + Sync,
) {
    let hosts = host_of.iter().max().unwrap() + 1;
    let memories: Vec<_> = (0..hosts).map(|_| memory(host_of.len())).collect();
    let left = AtomicUsize::new(listening.iter().flatten().count());
    std::thread::scope(|scope| {
        for (index, listening) in listening.into_iter().enumerate() {
            let Some(listening) = listening else {
                continue;
            };
            let (body, left) = (&body, &left);
            let memory = memories[host_of[index] as usize].try_clone().unwrap();
            scope.spawn(move || {
                let world = world(listening, index, host_of, memory, cards);
                let leave = Leave(left);
                body(&world);
                drop(leave);
                // Others may still read from our memory, or wait for what we have queued.
                while left.load(Ordering::Acquire) > 0 {
                    world.progress();
                    std::thread::yield_now();
                }
            });
        }
    });
}

/// Run `body` as each process of `host_of`.
pub fn run(host_of: &[u32], body: impl Fn(&HostsWorld) + Sync) {
    run_with(&TcpSettings::default(), host_of, body);
}

/// The same with other settings.
pub fn run_with(settings: &TcpSettings, host_of: &[u32], body: impl Fn(&HostsWorld) + Sync) {
    let listening: Vec<_> = host_of.iter().map(|_| Some(listen(settings))).collect();
    let cards: Vec<Vec<u8>> = listening
        .iter()
        .flatten()
        .map(|one| one.card().to_vec())
        .collect();
    run_some(host_of, listening, &cards, |world| {
        body(world);
        world.quiesce().unwrap();
        let comm = world.comm_world();
        let plan = farpost_mpi::coll::barrier(&world.site(comm)).unwrap();
        world.run_collective(comm, plan).unwrap();
        world.fabric().close(Duration::from_secs(5));
    });
}
