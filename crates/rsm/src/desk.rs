//! The desk: lines of an area that owner and receivers may use for whatever they agree on, where the fabric
//! maps memory.

use crate::area::DESK_LINES;
use crate::postbox::Postboxes;
use farpost_fabric::{Fabric, LINE_BYTES, LocalMemory, Peer, RemoteMemory};

impl<F: Fabric> Postboxes<F> {
    /// My desk: lines in my area that receivers may read and write too. None where the fabric does not map
    /// even the processes of one host.
    pub fn my_desk(&mut self) -> Option<Desk<F>> {
        if !self.fabric.maps(self.fabric.me()) {
            return None;
        }
        self.ensure_own_area();
        let memory = self.own_area.clone()?;
        Some(Desk {
            memory,
            offset: self.layout.desk(),
        })
    }

    /// The desk of a process that has opened a queue to us.
    pub fn desk_of(&self, peer: Peer) -> Option<Desk<F>> {
        if !self.fabric.maps(peer) {
            return None;
        }
        let rx = self.rx[peer.index()].as_deref()?;
        Some(Desk {
            memory: rx.memory.clone(),
            offset: rx.layout.desk(),
        })
    }
}

/// Lines of an area that owner and receivers both may touch.
pub struct Desk<F: RemoteMemory> {
    memory: F::Export,
    offset: usize,
}

impl<F: RemoteMemory> Desk<F> {
    /// Lines on it.
    pub const LINES: u32 = DESK_LINES as u32;

    fn at(&self, line: u32, word: usize) -> usize {
        assert!(line < Self::LINES && word < 8);
        self.offset + line as usize * LINE_BYTES + word * 8
    }

    /// Load a word of a line.
    pub fn load(&self, line: u32, word: usize) -> u64 {
        self.memory.load(self.at(line, word))
    }

    /// Store a word of a line.
    pub fn store(&self, line: u32, word: usize, value: u64) {
        self.memory.store(self.at(line, word), value);
    }

    /// Add to a word of a line; the value before.
    pub fn fetch_add(&self, line: u32, word: usize, amount: u64) -> u64 {
        self.memory.fetch_add(self.at(line, word), amount)
    }
}
