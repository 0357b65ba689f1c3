//! Transfers and tails of the fabric below. JAM's block transfer lets the receiver fetch from the sender's memory, once it has been
//! asked: what the engine's offers and gets are. Over Fast Messages they go by frames ([`gets`](super::gets)). Tails are the
//! fabric's own way.
#![allow(unsafe_code)]

use super::Carried;
use farpost_fabric::{BulkTransfer, Completion, Descriptor, Fabric, FabricError, Peer, Tails, Ticket};

impl<F: Fabric + 'static> BulkTransfer for Carried<F> {
    #[inline]
    fn can_transfer(&self, peer: Peer) -> bool {
        match self.gets() {
            Some(gets) => gets.has_room(),
            None => self.inner().can_transfer(peer),
        }
    }

    unsafe fn expose(
        &self,
        peer: Peer,
        address: usize,
        len: usize,
        writable: bool,
    ) -> Result<u64, FabricError> {
        if let Some(gets) = self.gets() {
            // SAFETY: the caller's promise is the same.
            return Ok(unsafe { gets.expose(peer, address, len) });
        }
        // SAFETY: the caller's promise is the same.
        unsafe { self.inner().expose(peer, address, len, writable) }
    }

    fn exposed_base(&self, peer: Peer, address: usize) -> u64 {
        match self.gets() {
            Some(_) => 0,
            None => self.inner().exposed_base(peer, address),
        }
    }

    fn withdraw(&self, key: u64) {
        match self.gets() {
            Some(gets) => gets.withdraw(key),
            None => self.inner().withdraw(key),
        }
    }

    unsafe fn submit(&self, descriptor: &Descriptor) -> Result<Completion, FabricError> {
        if let Some(gets) = self.gets() {
            // SAFETY: the caller's promise is the same.
            return Ok(Completion::Pending(unsafe { gets.submit(descriptor) }));
        }
        // SAFETY: the caller's promise is the same.
        unsafe { self.inner().submit(descriptor) }
    }

    fn poll_transfer(&self, ticket: Ticket) -> Result<bool, FabricError> {
        match self.gets() {
            Some(gets) => gets.poll(ticket),
            None => self.inner().poll_transfer(ticket),
        }
    }

    fn cancel_transfer(&self, ticket: Ticket) {
        match self.gets() {
            Some(gets) => gets.cancel(ticket),
            None => self.inner().cancel_transfer(ticket),
        }
    }
}

impl<F: Fabric + 'static> Tails for Carried<F> {
    #[inline]
    fn tail_room(&self, peer: Peer) -> usize {
        if self.is_plain(peer) {
            self.inner().tail_room(peer)
        } else {
            0
        }
    }

    unsafe fn send_tail(&self, peer: Peer, address: usize, len: usize) -> Result<u32, FabricError> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.inner().send_tail(peer, address, len) }
    }

    fn tail_sent(&self, peer: Peer, number: u32) -> Result<bool, FabricError> {
        self.inner().tail_sent(peer, number)
    }

    fn release_tail(&self, peer: Peer, number: u32) {
        self.inner().release_tail(peer, number);
    }

    unsafe fn land_tail(
        &self,
        peer: Peer,
        number: u32,
        address: usize,
        len: usize,
    ) -> Result<(), FabricError> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.inner().land_tail(peer, number, address, len) }
    }

    fn tail_landed(&self, peer: Peer, number: u32) -> Result<bool, FabricError> {
        self.inner().tail_landed(peer, number)
    }

    fn take_tail(
        &self,
        peer: Peer,
        number: u32,
        len: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, FabricError> {
        self.inner().take_tail(peer, number, len, take)
    }

    fn drop_tail(&self, peer: Peer, number: u32, len: usize) {
        self.inner().drop_tail(peer, number, len);
    }
}
