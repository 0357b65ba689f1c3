//! The receive queue (paper, section 4.4): what the network has brought and nobody has looked at. It is the fabric's:
//! the packet queues of its port, data in the low priority and control (acknowledgements, returned frames) in the high
//! one, so that control is always taken in, whatever data waits. The interface does not look into packets; sorting is the
//! host's job, in [`crate::state`].

use crate::wire::Frame;
use farpost_fabric::{Fabric, Port, Priority};

/// The next packet of data. False: none waits.
#[inline(always)]
pub fn data<F: Fabric>(fabric: &F, port: Port, frame: &mut Frame) -> bool {
    take(fabric, port, Priority::Low, frame)
}

/// The next packet of control. False: none waits.
#[inline(always)]
pub fn control<F: Fabric>(fabric: &F, port: Port, frame: &mut Frame) -> bool {
    take(fabric, port, Priority::High, frame)
}

#[inline(always)]
fn take<F: Fabric>(fabric: &F, port: Port, priority: Priority, frame: &mut Frame) -> bool {
    let mut taken = false;
    // A poll that found something damaged calls nothing; the fabric has recorded it.
    while !taken
        && fabric.poll_priority(port, priority, |from, packet| {
            frame.fill(from.0, packet);
            taken = true;
        })
    {}
    taken
}

/// Whether anything waits.
pub fn waits<F: Fabric>(fabric: &F) -> bool {
    waits_on(fabric, Port::Fm)
}

/// Whether anything waits in the queues of a port.
pub fn waits_on<F: Fabric>(fabric: &F, port: Port) -> bool {
    fabric.packets_waiting(port, Priority::High, 1) > 0 || fabric.packets_waiting(port, Priority::Low, 1) > 0
}
