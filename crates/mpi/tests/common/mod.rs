//! Worlds in the threads of a test, joined by shared memory.
#![allow(dead_code)]

use farpost_mapped::sealed_memory;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::world::{World, WorldConfig};
use farpost_shm::conformance::shm_end;
use farpost_shm::{Shm, region_bytes};

pub type ShmWorld = World<Shm>;

/// Run `body` as each of `size` processes.
pub fn run(size: u32, config: WorldConfig, body: impl Fn(&ShmWorld) + Sync) {
    let file = sealed_memory(c"test", region_bytes(size)).unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..size)
            .map(|index| {
                let (file, body, config) = (&file, &body, config.clone());
                scope.spawn(move || {
                    let shm = shm_end(file, (index, size), 2, Default::default());
                    let world = World::new(shm, config);
                    body(&world);
                    world.quiesce().unwrap();
                    assert_eq!(world.take_faults(), Vec::<String>::new());
                    // Others may still read from our memory.
                    barrier(&world);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// A barrier of empty messages.
pub fn barrier(world: &ShmWorld) {
    let (me, size) = (world.pid() as i32, world.size() as i32);
    let comm = world.comm_world();
    let mut nothing = [0u8; 0];
    for _ in 0..2 {
        if me > 0 {
            world.recv(comm, recv_buf(&mut nothing), me - 1, 32767).unwrap();
        }
        world
            .send(
                comm,
                &send_buf(&nothing),
                (me + 1) % size,
                32767,
                farpost_mpi::p2p::Mode::Standard,
            )
            .unwrap();
        if me == 0 {
            world.recv(comm, recv_buf(&mut nothing), size - 1, 32767).unwrap();
        }
    }
}

/// `MPI_BYTE`.
pub fn byte() -> Datatype {
    Datatype::predefined(0x247).unwrap()
}

pub fn send_buf(data: &[u8]) -> SendBuf {
    // SAFETY: tests wait for the operation before the data goes.
    unsafe { SendBuf::new(data.as_ptr(), data.len() as u64, byte()) }
}

pub fn recv_buf(data: &mut [u8]) -> RecvBuf {
    // SAFETY: tests wait for the operation before the data goes.
    unsafe { RecvBuf::new(data.as_mut_ptr(), data.len() as u64, byte()) }
}
