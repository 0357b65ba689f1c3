//! A process that interrupts whom it may not: when process 0 has published a segment that is not for this one, it sends
//! packets of RSMAPI made by hand. Its name, which the fabric attaches, it cannot choose. Run by `rsm_strangers.sh`.

use std::time::{Duration, Instant};

use farpost_fabric::{Fabric, Interrupt, PacketQueue, Peer, Port, Priority, TrySend};
use farpost_node::Node;
use farpost_rsm::{Code, Controller, Identity, Perm, Rsm, RsmTunables};

const ID: u32 = 0x50_0000;
const VICTIM: Peer = Peer(0);

/// Kinds of packets: a connection, and a signal for the exporter.
const CONNECT: u8 = 1;
const SIGNAL: u8 = 3;

fn packet(kind: u8, slot: u32, generation: u64, connection: u32) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    (bytes[0], bytes[1], bytes[20]) = (kind, 1, 1);
    bytes[4..8].copy_from_slice(&slot.to_le_bytes());
    bytes[8..16].copy_from_slice(&generation.to_le_bytes());
    bytes[16..20].copy_from_slice(&connection.to_le_bytes());
    bytes
}

fn main() -> Result<(), String> {
    let patience = Instant::now() + Duration::from_secs(30);
    let node = Node::join()?;
    let fabric = &node.fabric;
    let rsm = Rsm::new(
        fabric.clone(),
        Identity::default(),
        &RsmTunables::default(),
        &node.settings.wait,
    );
    let mut controllers = rsm.controllers().into_iter();
    let way = controllers.find(|controller| rsm.reaches(*controller, VICTIM.0));
    let way = way.unwrap_or(Controller::Loopback);
    loop {
        match rsm.connect(way, VICTIM.0, ID, Perm::WRITE) {
            Err(error) if error.code == Code::SEG_NOT_PUBLISHED && Instant::now() < patience => {}
            Err(error) if error.code == Code::SEG_NOT_PUBLISHED_TO_NODE => break,
            other => return Err(format!("a segment for others: {:?}", other.map(|_| "connected"))),
        }
    }
    // As if this process had a connection; as if it had process 1's; a connection that it may not have, and one to what
    // was never published; and malformed packets.
    let say = [
        packet(SIGNAL, 0, 1, 7),
        packet(SIGNAL, 0, 1, 1),
        packet(CONNECT, 0, 1, 7),
        packet(CONNECT, 0, 4711, 7),
        vec![1, 2, 3],
    ];
    for bytes in say {
        while fabric.try_send(VICTIM, Port::Rsm, Priority::High, &bytes) != TrySend::Sent {
            fabric.progress();
            if Instant::now() > patience {
                return Err("no room".into());
            }
        }
    }
    fabric.wake(VICTIM);
    Ok(())
}
