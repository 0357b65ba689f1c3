// interface: rust
//! The fabric itself, in Rust and without MPI: a token goes twice around the ring of processes as packets.
//!
//! `cargo build -p farpost-node --example ring_packets && mpiexec -n 4 target/debug/examples/ring_packets`

use std::time::Duration;

use farpost_fabric::{Fabric, Interrupt, PacketQueue, Peer, Port, Priority, TrySend};
use farpost_node::{Node, NodeFabric};

const PORT: Port = Port::Portals;

fn send(fabric: &NodeFabric, to: Peer, token: u32) {
    while fabric.try_send(to, PORT, Priority::Low, &token.to_le_bytes()) == TrySend::Full {
        fabric.progress();
    }
    fabric.wake(to);
}

fn receive(fabric: &NodeFabric) -> Result<(Peer, u32), String> {
    let mut came = None;
    let mut poll = || {
        fabric.progress();
        fabric.poll_packet(PORT, |from, _, payload| {
            came = Some((from, payload.try_into().map(u32::from_le_bytes)));
        })
    };
    while !poll() {
        let mut taken = false;
        fabric.sleep(Duration::from_millis(10), &mut || {
            taken = poll();
            taken
        });
        if taken {
            break;
        }
    }
    match came {
        Some((from, Ok(token))) => Ok((from, token)),
        Some((from, Err(_))) => Err(format!("process {} sent no token", from.0)),
        None => Err("a packet was damaged on its way".into()),
    }
}

fn main() -> Result<(), String> {
    let node = Node::join()?;
    let (me, size) = (node.job.rank(), node.job.size());
    let (next, before) = (Peer((me + 1) % size), Peer((me + size - 1) % size));
    if me == 0 {
        send(&node.fabric, next, 0);
    }
    for round in 0..2 {
        let (from, token) = receive(&node.fabric)?;
        let expected = round * size + (me + size - 1) % size;
        if (from, token) != (before, expected) {
            return Err(format!(
                "token {token} from {}, expected {expected} from {}",
                from.0, before.0
            ));
        }
        if me != 0 || round == 0 {
            send(&node.fabric, next, token + 1);
        }
    }
    if me == 0 {
        println!("the token went twice around {size} processes");
    }
    Ok(())
}
