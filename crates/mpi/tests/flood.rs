//! Messages that nobody waits for take bounded memory, whatever else is under way.
//!
//! Requirements of MPI-5.0 section 3.4.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "processes and threads of a test wait by the host's clock"
)]

#[path = "common/hosts.rs"]
mod hosts;

use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::p2p::Mode;
use hosts::run;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LONG: usize = 4 << 20;
const EACH: usize = 3000;
const MESSAGES: usize = 4000;

fn send_buf(data: &[u8]) -> SendBuf {
    // SAFETY: tests wait for the operation before the data goes.
    unsafe { SendBuf::new(data.as_ptr(), data.len() as u64, Datatype::byte()) }
}

fn recv_buf(data: &mut [u8]) -> RecvBuf {
    // SAFETY: as above.
    unsafe { RecvBuf::new(data.as_mut_ptr(), data.len() as u64, Datatype::byte()) }
}

/// Rank 0 waits for a long message of rank 2, who is away; rank 1, its neighbour, sends what nobody has asked for.
#[test]
fn a_neighbour_is_held_up_while_a_message_is_fetched_from_another_host() {
    let (flooded, kept) = (AtomicBool::new(false), AtomicU64::new(0));
    run(&[0, 0, 1], |world| {
        let comm = world.comm_world();
        // Everybody has spoken with rank 0, so that nothing needs an answer before it goes.
        for other in 1..3 {
            let (mut got, me) = ([0], world.pid());
            if me == 0 {
                world.recv(comm, recv_buf(&mut got), other, 0).unwrap();
                world
                    .send(comm, &send_buf(&got), other, 0, Mode::Standard)
                    .unwrap();
            } else if me == other as u32 {
                world.send(comm, &send_buf(&got), 0, 0, Mode::Standard).unwrap();
                world.recv(comm, recv_buf(&mut got), 0, 0).unwrap();
            }
        }
        match world.pid() {
            0 => {
                let mut long = vec![0; LONG];
                let status = world.recv(comm, recv_buf(&mut long), 2, 1).unwrap();
                assert_eq!((status.error, status.bytes), (None, LONG as u64));
                assert!(long.iter().all(|byte| *byte == 7));
                kept.store(world.kept_bytes(), Ordering::Release);
                let mut one = [0; EACH];
                for number in 0..MESSAGES {
                    world.recv(comm, recv_buf(&mut one), 1, 2).unwrap();
                    assert!(one.iter().all(|byte| *byte == number as u8));
                }
            }
            1 => {
                let data: Vec<Vec<u8>> = (0..MESSAGES).map(|number| vec![number as u8; EACH]).collect();
                let sends: Vec<usize> = data
                    .iter()
                    .map(|data| world.isend(comm, &send_buf(data), 0, 2, Mode::Standard).unwrap())
                    .collect();
                // Long enough for all of them to go, if they were let in.
                let until = Instant::now() + Duration::from_millis(500);
                while Instant::now() < until {
                    if !world.progress() {
                        std::thread::yield_now();
                    }
                }
                flooded.store(true, Ordering::Release);
                for send in sends {
                    assert_eq!(world.wait(send).unwrap().error, None);
                }
            }
            _ => {
                let long = vec![7; LONG];
                let send = world.isend(comm, &send_buf(&long), 0, 1, Mode::Standard).unwrap();
                // The offer is out; nobody serves what is asked for it until then.
                for _ in 0..100 {
                    world.progress();
                }
                while !flooded.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                assert_eq!(world.wait(send).unwrap().error, None);
            }
        }
    });
    // And what was on its way: a queue of 128 postboxes, and as many blocks.
    let kept = kept.into_inner();
    let most = hosts::UNEXPECTED + 128 * (8192 + 400);
    assert!(
        (100_000..most).contains(&kept),
        "{kept} bytes of messages are kept that nobody waits for"
    );
}
