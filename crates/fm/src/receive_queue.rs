//! The receive queue (paper, section 4.4): what the network has brought and nobody has looked at. It is the fabric's:
//! the packet queues of its port, data in the low priority and control (acknowledgements, returned frames) in the high
//! one, so that control is always taken in, whatever data waits. The interface does not look into packets; sorting is the
//! host's job, in [`crate::sorting`].

use crate::wire::Frame;
use farpost_fabric::{Cost, PacketQueue, Peer, Port, Priority, Time};

/// The next packet of data. False: none waits.
#[inline(always)]
pub fn data<F: PacketQueue + Time, const WORDS: usize>(
    fabric: &F,
    port: Port,
    frame: &mut Frame<WORDS>,
) -> bool {
    let mut taken = false;
    // A poll that found something damaged calls nothing; the fabric has recorded it.
    while !taken
        && fabric.poll_priority(
            port,
            Priority::Low,
            #[inline(always)]
            |from, packet| {
                fabric.charge(Cost::Copy(packet.len()));
                frame.fill(from.0, packet);
                taken = true;
            },
        )
    {}
    taken
}

/// Hand the next packet of control to `sort`. False: none waits.
#[inline(always)]
pub fn control<F: PacketQueue + Time>(fabric: &F, port: Port, mut sort: impl FnMut(Peer, &[u8])) -> bool {
    fabric.poll_priority(port, Priority::High, |from, packet| {
        fabric.charge(Cost::Copy(packet.len()));
        sort(from, packet);
    })
}

/// Whether anything waits.
pub fn waits<F: PacketQueue>(fabric: &F) -> bool {
    waits_on(fabric, Port::Fm)
}

/// Whether anything waits in the queues of a port.
pub fn waits_on<F: PacketQueue>(fabric: &F, port: Port) -> bool {
    fabric.packets_waiting(port, Priority::High, 1) > 0 || fabric.packets_waiting(port, Priority::Low, 1) > 0
}
