//! Eager zero-copy payloads: bytes of the user's memory that go to the socket right behind the line that announces them.
//!
//! Behind the header of a payload's first frame the socket is not read before the protocol above has polled the line: a receive
//! that matches names the buffer, and the socket is read straight into it. A payload that no receive has matched goes to a buffer
//! of the fabric, so that what is behind it can be read. Grants bound the bytes of these buffers.
//!
//! Cost class: *fast path* for eager zero-copy payloads that are expected, *queued path* for others.

use super::Tcp;
use super::close_reason::CloseReason;
use super::control::ControlCode;
use super::payloads::{Destination, IncomingPayload, OutgoingPayload, ZcopyAction};
use super::peer::{NONE, PeerStatus};
use super::state::TcpState;
use crate::link::{Header, LinkError, ZCOPY_MAX};
use farpost_fabric::{Counter, FabricError, Peer, Result, ZeroCopy};

fn corrupt(peer: Peer, number: u32) -> FabricError {
    FabricError::corrupt(peer, "the number and length of bytes behind a line", number)
}

impl TcpState {
    /// Send the first grant to a new peer.
    pub fn open_zcopy(&mut self, peer: Peer) {
        let window = self.settings.tcp.zcopy;
        if let Some(remote) = self.peers.at(peer)
            && window > 0
        {
            remote.link.grant_zcopy(window);
            (remote.zcopy.allowed, remote.zcopy.advertised) = (window, window);
            remote.control(ControlCode::ZcopyGrant, 0, &[window]);
        }
    }

    /// A grant arrived.
    pub fn zcopy_granted(&mut self, peer: Peer, granted: u64) -> Result<(), CloseReason> {
        if let Some(remote) = self.peers.at(peer) {
            if granted < remote.zcopy.granted {
                return Err(CloseReason::Violation("how much may follow lines", granted));
            }
            remote.zcopy.granted = granted;
        }
        Ok(())
    }

    fn zcopy_room(&self, peer: Peer) -> usize {
        let Some(remote) = self.peers.get(peer) else {
            return 0;
        };
        let open = remote.rails.iter().filter(|rail| rail.slot != NONE).count();
        if !remote.is_active() || !remote.is_free() || open == 0 || remote.link.zcopy_ahead() >= ZCOPY_MAX / 2
        {
            return 0;
        }
        let most = match open {
            1 => usize::MAX,
            // Long messages gain more by being striped over all rails.
            _ => self.settings.link.chunk as usize,
        };
        most.min((remote.zcopy.granted - remote.zcopy.sent) as usize)
    }

    /// The peer has all of zero-copy payload `number`.
    pub fn zcopy_arrived(&mut self, peer: Peer, number: u32) {
        let Some(remote) = self.peers.at(peer) else {
            return;
        };
        let at = remote.zcopy.out.iter().position(|sent| sent.number == number);
        if let Some(Some(copy)) = at
            .and_then(|at| remote.zcopy.out.remove(at))
            .map(|sent| sent.copy)
        {
            self.spare.give(copy);
        }
    }

    /// A frame of an eager zero-copy payload begins.
    pub fn zcopy_begins(&mut self, peer: Peer, header: &Header) -> Result<ZcopyAction, LinkError> {
        let Some(remote) = self.peers.at(peer) else {
            return Ok(ZcopyAction::Read);
        };
        let number = header.object;
        if !remote.link.expect_zcopy(number, header.seq)? {
            return Ok(ZcopyAction::Read);
        }
        let came = remote
            .zcopy
            .came
            .entry(number)
            .or_insert(IncomingPayload::new(header.seq));
        match &mut came.destination {
            Destination::Undecided(0) => {
                let mut buffer = self.spare.take(came.len as usize);
                let address = buffer.as_mut_ptr().expose_provenance();
                remote.link.land_zcopy(number, Some(address));
                came.destination = Destination::Buffered(buffer, None);
                Ok(ZcopyAction::Read)
            }
            Destination::Undecided(looks) => {
                *looks -= 1;
                Ok(ZcopyAction::Wait)
            }
            _ => Ok(ZcopyAction::Read),
        }
    }

    /// All of an eager zero-copy payload is here.
    pub fn zcopy_complete(&mut self, peer: Peer, number: u32) {
        let Some(remote) = self.peers.at(peer) else {
            return;
        };
        if !remote.ack_pending {
            remote.ack_pending = true;
            self.ack_pending.push(peer.0);
        }
        let Some(came) = remote.zcopy.came.get_mut(&number) else {
            return;
        };
        came.complete = true;
        let len = came.len;
        match std::mem::replace(&mut came.destination, Destination::Direct) {
            Destination::Buffered(buffer, Some(address)) => {
                copy_out(&buffer[..len as usize], address);
                self.spare.give(buffer);
            }
            Destination::Buffered(buffer, None) => {
                came.destination = Destination::Buffered(buffer, None);
                return;
            }
            Destination::Dropped => drop(remote.zcopy.came.remove(&number)),
            _ => {}
        }
        self.zcopy_taken(peer, len);
    }

    /// A payload occupies no buffer any more: grant as many bytes again.
    fn zcopy_taken(&mut self, peer: Peer, len: u32) {
        let Some(remote) = self.peers.at(peer) else {
            return;
        };
        remote.link.grant_zcopy(u64::from(len));
        remote.zcopy.allowed += u64::from(len);
        if remote.zcopy.allowed - remote.zcopy.advertised >= self.settings.tcp.zcopy / 4 {
            remote.zcopy.advertised = remote.zcopy.allowed;
            let allowed = remote.zcopy.allowed;
            self.control(peer, ControlCode::ZcopyGrant, 0, &[allowed]);
        }
    }

    /// Send acknowledgements that are due, when nothing else is to do.
    #[inline]
    pub fn flush_pending_acks(&mut self) {
        while let Some(index) = self.ack_pending.pop() {
            if let Some(remote) = self.peers.at(Peer(index)) {
                remote.ack_pending = false;
            }
            self.schedule_send(Peer(index));
        }
    }

    /// The error if nothing more can come from `peer`.
    fn closed_error(&mut self, peer: Peer) -> Option<FabricError> {
        match self.peers.get(peer) {
            Some(remote) if remote.status == PeerStatus::Active || remote.is_connected() => None,
            Some(_) => self.peer_state(peer).err(),
            None => None,
        }
    }

    /// The entry of an announced payload, whether some of it is here or not.
    fn zcopy(&mut self, peer: Peer, number: u32, len: usize) -> Result<&mut IncomingPayload> {
        let bad = corrupt(peer, number);
        let (Some(remote), Ok(len)) = (self.peers.at(peer), u32::try_from(len)) else {
            return Err(bad);
        };
        if !remote.zcopy.came.contains_key(&number) {
            if !remote.link.expect_zcopy(number, len).is_ok_and(|missing| missing) {
                return Err(bad);
            }
            remote.zcopy.came.insert(number, IncomingPayload::new(len));
        }
        let came = remote.zcopy.came.get_mut(&number);
        came.filter(|came| came.len == len).ok_or(bad)
    }

    fn place_zcopy(&mut self, peer: Peer, number: u32, address: Option<usize>) {
        if let Some(remote) = self.peers.at(peer) {
            remote.link.land_zcopy(number, address);
        }
    }

    fn land_zcopy(&mut self, peer: Peer, number: u32, address: usize, len: usize) -> Result<()> {
        let came = self.zcopy(peer, number, len)?;
        match std::mem::replace(&mut came.destination, Destination::Direct) {
            Destination::Undecided(_) => self.place_zcopy(peer, number, Some(address)),
            Destination::Buffered(buffer, None) if came.complete => {
                copy_out(&buffer[..len], address);
                self.spare.give(buffer);
                self.zcopy_taken(peer, len as u32);
            }
            Destination::Buffered(buffer, None) => {
                came.destination = Destination::Buffered(buffer, Some(address))
            }
            other => {
                came.destination = other;
                return Err(corrupt(peer, number));
            }
        }
        Ok(())
    }

    fn zcopy_landed(&mut self, peer: Peer, number: u32) -> Result<bool> {
        let Some(remote) = self.peers.at(peer) else {
            return Err(corrupt(peer, number));
        };
        match remote.zcopy.came.get(&number) {
            Some(came) if !came.complete => self.closed_error(peer).map_or(Ok(false), Err),
            Some(_) => {
                remote.zcopy.came.remove(&number);
                Ok(true)
            }
            None => Err(corrupt(peer, number)),
        }
    }

    /// The buffer of a complete zero-copy payload.
    fn take_zcopy(&mut self, peer: Peer, number: u32, len: usize) -> Result<Option<Vec<u8>>> {
        let came = self.zcopy(peer, number, len)?;
        let complete = came.complete;
        match &mut came.destination {
            Destination::Undecided(_) => {
                let mut buffer = self.spare.take(len);
                let address = buffer.as_mut_ptr().expose_provenance();
                self.place_zcopy(peer, number, Some(address));
                self.zcopy(peer, number, len)?.destination = Destination::Buffered(buffer, None);
            }
            Destination::Buffered(buffer, None) if complete => {
                let buffer = std::mem::take(buffer);
                if let Some(remote) = self.peers.at(peer) {
                    remote.zcopy.came.remove(&number);
                }
                self.zcopy_taken(peer, len as u32);
                return Ok(Some(buffer));
            }
            Destination::Buffered(_, None) => {}
            _ => return Err(corrupt(peer, number)),
        }
        self.closed_error(peer).map_or(Ok(None), Err)
    }

    fn drop_zcopy(&mut self, peer: Peer, number: u32, len: usize) {
        let Ok(came) = self.zcopy(peer, number, len) else {
            return;
        };
        let complete = came.complete;
        let before = std::mem::replace(&mut came.destination, Destination::Dropped);
        if complete {
            if let Some(remote) = self.peers.at(peer) {
                remote.zcopy.came.remove(&number);
            }
            // One with a destination was counted when it was complete.
            if matches!(before, Destination::Buffered(..)) {
                self.zcopy_taken(peer, len as u32);
            }
        } else {
            self.place_zcopy(peer, number, None);
        }
        if let Destination::Buffered(buffer, _) = before {
            self.spare.give(buffer);
        }
    }
}

fn copy_out(from: &[u8], address: usize) {
    // SAFETY: the receive buffer of the payload, as long as it, which its user has lent until it is told that the payload has landed.
    unsafe {
        std::ptr::copy_nonoverlapping(
            from.as_ptr(),
            std::ptr::with_exposed_provenance_mut(address),
            from.len(),
        );
    }
}

impl ZeroCopy for Tcp {
    #[inline]
    fn zcopy_room(&self, peer: Peer) -> usize {
        self.core.state.borrow().zcopy_room(peer)
    }

    unsafe fn send_zcopy(&self, peer: Peer, address: usize, len: usize) -> Result<u32> {
        let state = &mut *self.core.state.borrow_mut();
        assert!(
            (1..=state.zcopy_room(peer)).contains(&len),
            "{len} bytes do not follow a line to {peer}"
        );
        state.diagnostics.count(peer, Counter::BulkBytes, len as u64);
        let remote = state.peer_state(peer)?;
        let number = remote.link.send_zcopy(address, len as u32);
        remote.zcopy.sent += len as u64;
        remote.zcopy.out.push_back(OutgoingPayload {
            number,
            address,
            len,
            copy: None,
        });
        Ok(number)
    }

    fn zcopy_sent(&self, peer: Peer, number: u32) -> Result<bool> {
        let state = &mut *self.core.state.borrow_mut();
        let Some(remote) = state.peers.at(peer) else {
            return Ok(true);
        };
        let Some(at) = remote.zcopy.out.iter().position(|sent| sent.number == number) else {
            return Ok(true);
        };
        match state.closed_error(peer) {
            None => Ok(false),
            Some(error) => {
                if let Some(remote) = state.peers.at(peer) {
                    remote.zcopy.out.remove(at);
                }
                Err(error)
            }
        }
    }

    fn release_zcopy(&self, peer: Peer, number: u32) {
        let state = &mut *self.core.state.borrow_mut();
        let Some(remote) = state.peers.at(peer) else {
            return;
        };
        let Some(sent) = remote.zcopy.out.iter_mut().find(|sent| sent.number == number) else {
            return;
        };
        if sent.copy.is_some() {
            return;
        }
        let mut buffer = state.spare.take(sent.len);
        // SAFETY: memory that the user has lent for reading until this returns, and a buffer of ours as long at least.
        unsafe {
            std::ptr::copy_nonoverlapping(
                std::ptr::with_exposed_provenance::<u8>(sent.address),
                buffer.as_mut_ptr(),
                sent.len,
            );
        }
        remote
            .link
            .move_zcopy(number, buffer.as_mut_ptr().expose_provenance());
        sent.copy = Some(buffer);
    }

    unsafe fn land_zcopy(&self, peer: Peer, number: u32, address: usize, len: usize) -> Result<()> {
        let state = &mut *self.core.state.borrow_mut();
        state.check_peer(peer)?;
        state.land_zcopy(peer, number, address, len)
    }

    fn zcopy_landed(&self, peer: Peer, number: u32) -> Result<bool> {
        let state = &mut *self.core.state.borrow_mut();
        state.check_peer(peer)?;
        state.zcopy_landed(peer, number)
    }

    fn take_zcopy(&self, peer: Peer, number: u32, len: usize, take: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let taken = {
            let state = &mut *self.core.state.borrow_mut();
            state.check_peer(peer)?;
            state.take_zcopy(peer, number, len)?
        };
        let Some(buffer) = taken else { return Ok(false) };
        take(&buffer[..len]);
        self.core.state.borrow_mut().spare.give(buffer);
        Ok(true)
    }

    fn drop_zcopy(&self, peer: Peer, number: u32, len: usize) {
        let state = &mut *self.core.state.borrow_mut();
        if state.check_peer(peer).is_ok() {
            state.drop_zcopy(peer, number, len);
        }
    }
}
