//! What an origin keeps for a target that it has met.

use farpost_fabric::Fabric;
use farpost_mpi::buffer::RecvBuf;
use farpost_mpi::world::World;
use std::cell::Cell;
use std::rc::Rc;

/// Most operations at a target that it has not said to be done.
pub(crate) const OUTSTANDING: u64 = 64;
/// Operations after which a target says so unasked.
pub(crate) const UNASKED: u64 = 16;

#[derive(Default)]
pub(crate) struct Peer {
    /// Operations that are not known to be done.
    pub outstanding: u64,
    /// Of these, such as have no reply of their own, since the target was last hurried.
    pub silent: u64,
    /// Operations that still use memory of the program's here.
    pub local: u64,
    pub granted: bool,
    pub unlocked: bool,
}

/// An operation, or a part of one, that waits for its end.
pub(crate) struct PendingReply {
    pub target: i32,
    /// Where the reply goes, and from which byte on.
    pub to: Option<(RecvBuf, u64)>,
    pub track: Option<Rc<Track>>,
}

/// A request of the program's for an operation in parts.
pub(crate) struct Track {
    request: usize,
    left: Cell<u64>,
}

impl Track {
    pub(crate) fn new(request: usize) -> Rc<Self> {
        // One for whoever makes the parts.
        Rc::new(Self {
            request,
            left: Cell::new(1),
        })
    }

    pub(crate) fn begin(&self) {
        self.left.set(self.left.get() + 1);
    }

    pub(crate) fn end<F: Fabric>(&self, world: &World<F>) {
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            world.complete_request(self.request, None);
        }
    }
}

impl Track {
    pub(crate) fn fail<F: Fabric>(&self, world: &World<F>, error: &farpost_mpi::Error) {
        world.complete_request(self.request, Some(error.clone()));
    }
}
