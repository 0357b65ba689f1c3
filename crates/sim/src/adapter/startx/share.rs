//! What software of all hosts knows by its messages: who owns the high-priority side of which receiver, and what is on its way to it.
//!
//! A block transfer needs the receiver's high priority for itself (section 5.3): nobody else sends with high priority to it until it has ended, and it begins
//! when what was on its way before has been taken. The messages by which software comes to know that are those of the layers.

use crate::net::HostId;
use farpost_fabric::Peer;

#[derive(Clone, Default)]
pub(super) struct Receiver {
    /// Whose block is on its way.
    pub owner: Option<HostId>,
    /// Messages of high priority on their way to it, or in its queue.
    pub under_way: u32,
    /// Whose blocks wait for it.
    pub waiting: Vec<HostId>,
    /// Who found it owned, and wants to send.
    pub refused: Vec<Peer>,
}

/// Of all hosts.
#[derive(Default)]
pub(super) struct Share(pub Vec<Receiver>);

impl Share {
    pub fn of(&mut self, host: HostId) -> &mut Receiver {
        &mut self.0[host.index()]
    }

    /// Whether `from` may begin a block to `to`, and then owns it; else it is told when it may ask again.
    pub fn own(&mut self, from: HostId, to: HostId) -> bool {
        let it = self.of(to);
        if it.owner == Some(from) {
            return true;
        }
        if it.owner.is_none() && it.under_way == 0 {
            it.owner = Some(from);
            return true;
        }
        if !it.waiting.contains(&from) {
            it.waiting.push(from);
        }
        false
    }
}
