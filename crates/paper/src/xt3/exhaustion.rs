//! What the SeaStar does when its structures are exhausted, and how many interrupts messages make.

use super::{machine, netpipe};
use farpost_fabric::{ErrorStatus, Fabric, PacketQueue, Peer, Port, Priority, Time, TrySend};
use farpost_sim::fabric::SimFabric;
use farpost_sim::machine::Machine;
use farpost_sim::net::HostId;
use farpost_sim::ranks;
use farpost_sim::time::Ps;

/// Nodes that send, and messages of each.
const SENDERS: u32 = 4;
const MESSAGES: u32 = 30;
/// Pendings of a node; half of them are for what it receives.
const PENDINGS: i64 = 64;

/// What became of a node that several others sent to while it computed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub sent: u32,
    pub received: u32,
    pub refused: u64,
    pub panicked: bool,
}

fn register(core: &mut farpost_sim::core::Core, host: u32, name: &str) -> u64 {
    let (adapter, _) = core.adapter_of(HostId(host));
    let registers = adapter.registers();
    registers
        .into_iter()
        .find(|(of, _)| of == name)
        .map_or(0, |(_, value)| value)
}

/// Four nodes send to a fifth that looks at nothing for a millisecond, and has few pendings.
///
/// # Panics
/// When the machine has no SeaStars, or there is no such `policy`.
pub fn run(machine: &Machine, policy: &str) -> Outcome {
    let machine = machine
        .with("adapter.seastar.exhaustion", policy)
        .expect("a policy");
    let machine = machine
        .with("adapter.seastar.pendings", PENDINGS)
        .expect("a number");
    let nodes: Vec<HostId> = (0..=SENDERS).map(HostId).collect();
    let core = machine::core(&machine, SENDERS + 1, &nodes, 1);
    let (results, mut core) = ranks::run(core, |fabric| match fabric.me().0 {
        0 => receive(&fabric),
        _ => send(&fabric),
    })
    .expect("no rank hangs");
    Outcome {
        sent: results[1..].iter().sum(),
        received: results[0],
        refused: register(&mut core, 0, "refused"),
        panicked: register(&mut core, 0, "panicked") == 1,
    }
}

fn send(fabric: &SimFabric) -> u32 {
    for number in 0..MESSAGES {
        let message = number.to_le_bytes();
        while fabric.try_send(Peer(0), Port::Portals, Priority::Low, &message) == TrySend::Full {
            fabric.spin();
        }
    }
    MESSAGES
}

/// Messages of each sender are received in order, as long as this node lives.
fn receive(fabric: &SimFabric) -> u32 {
    fabric.compute(Ps::from_nanos(1_000_000));
    let (mut received, mut next) = (0, [0u32; SENDERS as usize + 1]);
    while received < SENDERS * MESSAGES && !fabric.has_ended(fabric.me()) {
        let mut take = |from: Peer, bytes: &[u8]| {
            let number = bytes.try_into().map_or(u32::MAX, u32::from_le_bytes);
            assert_eq!(number, next[from.index()], "messages of {from} are in order");
            next[from.index()] += 1;
            received += 1;
        };
        if !fabric.poll_priority(Port::Portals, Priority::Low, &mut take) {
            fabric.spin();
        }
    }
    received
}

/// Interrupts of the receiver of some puts of `len` bytes.
pub fn interrupts(machine: &Machine, len: usize) -> u64 {
    let mut core = netpipe::after(machine::pair(machine), netpipe::Test::PingPong, len).1;
    register(&mut core, 1, "interrupts")
}
