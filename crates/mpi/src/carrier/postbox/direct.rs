//! A blocking receive from one source that waits for a short message without a request, in a few quick looks.

use super::Short;
use crate::Rank;
use crate::carrier::Engine;
use crate::engine::carrier::Direct;
use farpost_fabric::{Distance, Fabric};

/// Looks at a queue that another host fills before a wait begins in earnest.
const FAR_LOOKS: u32 = 64;

impl<F: Fabric> Engine<F> {
    /// Receive a message into `to` if it comes within so many `looks` and nothing else is to be done meanwhile: source, tag
    /// and bytes. `None`: take the long way.
    pub(super) fn receive_soon(
        &mut self,
        wanted: &Direct,
        to: &mut [u8],
        mut looks: u32,
    ) -> Option<(Rank, i32, usize)> {
        if self.has_duties() {
            looks = 1;
        }
        let peer = wanted.peer;
        // What comes from another host comes by calls of ours, each as long as many looks.
        let far = !self.fabric.maps(peer);
        if far && self.fabric.distance(peer) == Distance::Far {
            looks = looks.min(FAR_LOOKS);
        }
        loop {
            match self.receive_short(wanted, to) {
                Short::Got { source, tag, len } => return Some((source, tag, len)),
                Short::Other => return None,
                Short::Nothing => {}
            }
            looks -= 1;
            if looks == 0 {
                return None;
            }
            if far {
                self.fabric.progress();
                continue;
            }
            // A pause costs as much as the message takes, so the first looks do without.
            if looks & 15 == 0 {
                std::hint::spin_loop();
            }
        }
    }
}
