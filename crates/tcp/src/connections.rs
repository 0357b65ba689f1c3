//! The connections of a process, in whatever stage they are.

use super::input::Input;
use super::peer::NONE;
use crate::trust::{GateSlot, Handshake, Opener, Sealer};
use farpost_fabric::Peer;
use std::os::fd::OwnedFd;

/// The stages of a connection.
pub enum ConnectionStage {
    /// Connecting from here: waiting for the kernel.
    Connecting { peer: Peer, rail: usize },
    /// Connected from here: in the handshake.
    Handshaking {
        peer: Peer,
        rail: usize,
        shake: Box<Handshake>,
    },
    /// Accepted here: not authenticated yet.
    Unauthenticated { place: GateSlot, shake: Box<Handshake> },
    /// In use as a rail.
    Open { peer: Peer, rail: usize },
}

/// The keys and the buffer of an encrypted connection.
pub struct Seal {
    pub sealer: Sealer,
    pub opener: Opener,
    /// Sealed bytes that wait for the socket.
    pub out: Vec<u8>,
    pub sent: usize,
}

pub struct Connection {
    pub fd: OwnedFd,
    pub stage: ConnectionStage,
    pub input: Input,
    pub seal: Option<Box<Seal>>,
    /// Not read before the protocol above has polled what came.
    pub paused: bool,
    pub since: u64,
}

/// The connections of a process, by slot.
pub struct Connections {
    slots: Vec<Option<Box<Connection>>>,
    /// The slot whose connection is taken out while it is read.
    pub reading: usize,
    /// Connections in use as rails.
    pub open: usize,
    /// The slot of the connection that last received something.
    pub hot: usize,
    /// Rails whose sockets are full.
    pub blocked: usize,
    /// Those that are not read before the protocol above has polled what they brought.
    pub paused: Vec<usize>,
}

impl Default for Connections {
    fn default() -> Self {
        let (slots, paused) = (Vec::new(), Vec::new());
        Self {
            slots,
            reading: NONE,
            open: 0,
            hot: NONE,
            blocked: 0,
            paused,
        }
    }
}

impl Connections {
    /// Slots, those without a connection included.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &Option<Box<Connection>>> {
        self.slots.iter()
    }

    pub fn get(&self, slot: usize) -> Option<&Connection> {
        self.slots.get(slot)?.as_deref()
    }

    /// As [`get`](Self::get), to be changed.
    pub fn at(&mut self, slot: usize) -> Option<&mut Connection> {
        self.slots.get_mut(slot)?.as_deref_mut()
    }

    /// Take a connection out; [`put`](Self::put) puts it back.
    #[inline]
    pub fn take(&mut self, slot: usize) -> Option<Box<Connection>> {
        self.slots.get_mut(slot)?.take()
    }

    #[inline]
    pub fn put(&mut self, slot: usize, conn: Box<Connection>) {
        self.slots[slot] = Some(conn);
    }

    /// Put a new connection into a [free slot](Self::free_slot).
    pub fn add(&mut self, slot: usize, conn: Connection) {
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(Box::new(conn));
    }

    /// Close a connection, if it is there.
    pub fn close(&mut self, slot: usize) {
        self.take(slot);
    }

    pub fn free_slot(&self) -> usize {
        let free = |slot: &usize| self.slots[*slot].is_none() && *slot != self.reading;
        (0..self.len()).find(free).unwrap_or(self.len())
    }

    /// Forget free slots at the end.
    pub fn trim(&mut self) {
        while let Some(None) = self.slots.last() {
            self.slots.pop();
        }
    }
}
