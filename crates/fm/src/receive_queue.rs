//! The receive queue (paper, section 4.4): what the network has brought and nobody has looked at. It is the fabric's:
//! the packet queues of the FM port, data in the low priority and control (acknowledgements, returned frames) in the high
//! one, so that control is always taken in, whatever data waits. The interface does not look into packets; sorting is the
//! host's job, in [`crate::state`].

use crate::wire::Frame;
use farpost_fabric::{Fabric, Port, Priority};

/// The next packet of data. False: none waits.
#[inline(always)]
pub fn data<F: Fabric>(fabric: &F, frame: &mut Frame) -> bool {
    take(fabric, Priority::Low, frame)
}

/// The next packet of control. False: none waits.
#[inline(always)]
pub fn control<F: Fabric>(fabric: &F, frame: &mut Frame) -> bool {
    take(fabric, Priority::High, frame)
}

#[inline(always)]
fn take<F: Fabric>(fabric: &F, priority: Priority, frame: &mut Frame) -> bool {
    let mut taken = false;
    // A poll that found something damaged calls nothing; the fabric has recorded it.
    while !taken
        && fabric.poll_priority(Port::Fm, priority, |from, packet| {
            frame.fill(from.0, packet);
            taken = true;
        })
    {}
    taken
}

/// Whether anything waits.
pub fn waits<F: Fabric>(fabric: &F) -> bool {
    fabric.packets_waiting(Port::Fm, Priority::High, 1) > 0
        || fabric.packets_waiting(Port::Fm, Priority::Low, 1) > 0
}
