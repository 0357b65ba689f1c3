//! Tails: bytes of the user's memory that go to the socket right behind the line that tells of them.
//!
//! The first frame of a tail is not read beyond its header before the protocol above has had a chance to look at the
//! line: then the socket is read straight into the place that it names. A tail that nobody wants yet goes to memory of
//! ours, so that what is behind it can be read; what a peer may send so is bounded by grants.
//!
//! Cost class: *fast path* for tails that are expected, *queued path* for others.

use super::Tcp;
use super::apply::Code;
use super::other::{NONE, Standing};
use super::receive::End;
use super::state::State;
use crate::link::{Header, LinkError, TAILS_MAX};
use farpost_fabric::{Counter, FabricError, Peer, Tails};
use std::collections::{HashMap, VecDeque};

/// Looks that the protocol above gets before a tail is put elsewhere: one that finds the line, and one by who posts
/// the receive meanwhile.
const LOOKS: u8 = 2;

/// Buffers kept for later, and the longest of them.
const SPARE: usize = 8;
const SPARE_MAX: usize = 1 << 20;

/// What becomes of a tail that comes.
enum Fate {
    /// Nobody has been asked but so often.
    Open(u8),
    /// It goes to its place, or has gone there.
    Direct,
    /// It goes to memory of ours, and from there to that address when it is complete.
    Kept(Vec<u8>, Option<usize>),
    /// It is thrown away.
    Dropped,
}

struct Came {
    len: u32,
    complete: bool,
    fate: Fate,
}

struct Sent {
    number: u32,
    address: usize,
    len: usize,
    /// A copy, when the user's memory was wanted back.
    kept: Option<Vec<u8>>,
}

/// The tails between this process and one peer.
#[derive(Default)]
pub struct PeerTails {
    /// Bytes that the peer lets us send in all, and those sent.
    granted: u64,
    sent: u64,
    out: VecDeque<Sent>,
    came: HashMap<u32, Came>,
    /// Bytes that it may send in all, and what it was told.
    lets: u64,
    told: u64,
}

/// Buffers for tails without a place.
#[derive(Default)]
pub struct Spare(Vec<Vec<u8>>);

impl Spare {
    /// A buffer of at least `len` bytes, which may have any values.
    fn take(&mut self, len: usize) -> Vec<u8> {
        let fits = self.0.iter().position(|buffer| buffer.len() >= len);
        match fits {
            Some(at) => self.0.swap_remove(at),
            None => vec![0; len.next_power_of_two()],
        }
    }

    fn give(&mut self, buffer: Vec<u8>) {
        if self.0.len() < SPARE && buffer.len() <= SPARE_MAX {
            self.0.push(buffer);
        }
    }
}

/// What to do with a frame of a tail.
#[derive(PartialEq, Eq)]
pub enum Look {
    /// Read it.
    GoOn,
    /// First let the protocol above look.
    Wait,
}

fn corrupt(peer: Peer, number: u32) -> FabricError {
    FabricError::Corrupt {
        peer,
        what: "the number and length of bytes behind a line",
        value: u64::from(number),
    }
}

impl State {
    /// Tell a peer that was just met how much it may send.
    pub fn open_tails(&mut self, peer: Peer) {
        let window = self.settings.tcp.tails;
        if let Some(other) = self.others[peer.index()].as_deref_mut()
            && window > 0
        {
            other.link.grant_tails(window);
            (other.tails.lets, other.tails.told) = (window, window);
            other.control(Code::Tails, 0, &[window]);
        }
    }

    /// A peer says how much we may send.
    pub fn tails_granted(&mut self, peer: Peer, granted: u64) -> Result<(), End> {
        if let Some(other) = self.others[peer.index()].as_deref_mut() {
            if granted < other.tails.granted {
                return Err(End::Bad("how much may follow lines", granted));
            }
            other.tails.granted = granted;
        }
        Ok(())
    }

    fn tail_room(&self, peer: Peer) -> usize {
        let Some(Some(other)) = self.others.get(peer.index()) else {
            return 0;
        };
        let open = other.rails.iter().filter(|rail| rail.slot != NONE).count();
        if !other.is_here() || !other.is_free() || open == 0 || other.link.tails_ahead() >= TAILS_MAX / 2 {
            return 0;
        }
        let most = match open {
            1 => usize::MAX,
            // Long messages gain more by going by all rails.
            _ => self.settings.link.chunk as usize,
        };
        most.min((other.tails.granted - other.tails.sent) as usize)
    }

    /// The peer has all of tail `number`.
    pub fn tail_arrived(&mut self, peer: Peer, number: u32) {
        let Some(other) = self.others[peer.index()].as_deref_mut() else {
            return;
        };
        let at = other.tails.out.iter().position(|sent| sent.number == number);
        if let Some(Some(kept)) = at.and_then(|at| other.tails.out.remove(at)).map(|sent| sent.kept) {
            self.spare.give(kept);
        }
    }

    /// A frame of a tail begins.
    pub fn tail_begins(&mut self, peer: Peer, header: &Header) -> Result<Look, LinkError> {
        let Some(other) = self.others[peer.index()].as_deref_mut() else {
            return Ok(Look::GoOn);
        };
        let number = header.object;
        if !other.link.expect_tail(number, header.seq)? {
            return Ok(Look::GoOn);
        }
        let came = other.tails.came.entry(number).or_insert(Came {
            len: header.seq,
            complete: false,
            fate: Fate::Open(LOOKS),
        });
        match &mut came.fate {
            Fate::Open(0) => {
                let mut buffer = self.spare.take(came.len as usize);
                let address = buffer.as_mut_ptr().expose_provenance();
                other.link.land_tail(number, Some(address));
                came.fate = Fate::Kept(buffer, None);
                Ok(Look::GoOn)
            }
            Fate::Open(looks) => {
                *looks -= 1;
                Ok(Look::Wait)
            }
            _ => Ok(Look::GoOn),
        }
    }

    /// All of a tail is here.
    pub fn tail_complete(&mut self, peer: Peer, number: u32) {
        let Some(other) = self.others[peer.index()].as_deref_mut() else {
            return;
        };
        if !other.owing {
            other.owing = true;
            self.owing.push(peer.0);
        }
        let Some(came) = other.tails.came.get_mut(&number) else {
            return;
        };
        came.complete = true;
        let len = came.len;
        match std::mem::replace(&mut came.fate, Fate::Direct) {
            Fate::Kept(buffer, Some(address)) => {
                copy_out(&buffer[..len as usize], address);
                self.spare.give(buffer);
            }
            Fate::Kept(buffer, None) => {
                came.fate = Fate::Kept(buffer, None);
                return;
            }
            Fate::Dropped => drop(other.tails.came.remove(&number)),
            _ => {}
        }
        self.tail_taken(peer, len);
    }

    /// A tail takes no memory of ours any more: the peer may send as much again.
    fn tail_taken(&mut self, peer: Peer, len: u32) {
        let Some(other) = self.others[peer.index()].as_deref_mut() else {
            return;
        };
        other.link.grant_tails(u64::from(len));
        other.tails.lets += u64::from(len);
        if other.tails.lets - other.tails.told >= self.settings.tcp.tails / 4 {
            other.tails.told = other.tails.lets;
            let lets = other.tails.lets;
            self.control(peer, Code::Tails, 0, &[lets]);
        }
    }

    /// What came is told to those who wait for it, when nothing else is to do.
    #[inline]
    pub fn settle_owing(&mut self) {
        while let Some(index) = self.owing.pop() {
            if let Some(other) = &mut self.others[index as usize] {
                other.owing = false;
            }
            self.list(Peer(index));
        }
    }

    /// Why nothing more comes from `peer`, if that is so.
    fn nothing_more(&mut self, peer: Peer) -> Option<FabricError> {
        match &self.others[peer.index()] {
            Some(other) if other.standing == Standing::Here || other.is_connected() => None,
            Some(_) => self.other(peer).err(),
            None => None,
        }
    }

    /// The entry of a tail that was spoken of, whether some of it is here or not.
    fn tail(&mut self, peer: Peer, number: u32, len: usize) -> Result<&mut Came, FabricError> {
        let bad = corrupt(peer, number);
        let (Some(other), Ok(len)) = (self.others[peer.index()].as_deref_mut(), u32::try_from(len)) else {
            return Err(bad);
        };
        if !other.tails.came.contains_key(&number) {
            if !other.link.expect_tail(number, len).is_ok_and(|missing| missing) {
                return Err(bad);
            }
            let came = Came {
                len,
                complete: false,
                fate: Fate::Open(LOOKS),
            };
            other.tails.came.insert(number, came);
        }
        let came = other.tails.came.get_mut(&number);
        came.filter(|came| came.len == len).ok_or(bad)
    }

    fn place_tail(&mut self, peer: Peer, number: u32, address: Option<usize>) {
        if let Some(other) = self.others[peer.index()].as_deref_mut() {
            other.link.land_tail(number, address);
        }
    }

    fn land_tail(&mut self, peer: Peer, number: u32, address: usize, len: usize) -> Result<(), FabricError> {
        let came = self.tail(peer, number, len)?;
        match std::mem::replace(&mut came.fate, Fate::Direct) {
            Fate::Open(_) => self.place_tail(peer, number, Some(address)),
            Fate::Kept(buffer, None) if came.complete => {
                copy_out(&buffer[..len], address);
                self.spare.give(buffer);
                self.tail_taken(peer, len as u32);
            }
            Fate::Kept(buffer, None) => came.fate = Fate::Kept(buffer, Some(address)),
            other => {
                came.fate = other;
                return Err(corrupt(peer, number));
            }
        }
        Ok(())
    }

    fn tail_landed(&mut self, peer: Peer, number: u32) -> Result<bool, FabricError> {
        let Some(other) = self.others[peer.index()].as_deref_mut() else {
            return Err(corrupt(peer, number));
        };
        match other.tails.came.get(&number) {
            Some(came) if !came.complete => self.nothing_more(peer).map_or(Ok(false), Err),
            Some(_) => {
                other.tails.came.remove(&number);
                Ok(true)
            }
            None => Err(corrupt(peer, number)),
        }
    }

    /// The buffer of a complete tail.
    fn take_tail(&mut self, peer: Peer, number: u32, len: usize) -> Result<Option<Vec<u8>>, FabricError> {
        let came = self.tail(peer, number, len)?;
        let complete = came.complete;
        match &mut came.fate {
            Fate::Open(_) => {
                let mut buffer = self.spare.take(len);
                let address = buffer.as_mut_ptr().expose_provenance();
                self.place_tail(peer, number, Some(address));
                self.tail(peer, number, len)?.fate = Fate::Kept(buffer, None);
            }
            Fate::Kept(buffer, None) if complete => {
                let buffer = std::mem::take(buffer);
                if let Some(other) = &mut self.others[peer.index()] {
                    other.tails.came.remove(&number);
                }
                self.tail_taken(peer, len as u32);
                return Ok(Some(buffer));
            }
            Fate::Kept(_, None) => {}
            _ => return Err(corrupt(peer, number)),
        }
        self.nothing_more(peer).map_or(Ok(None), Err)
    }

    fn drop_tail(&mut self, peer: Peer, number: u32, len: usize) {
        let Ok(came) = self.tail(peer, number, len) else {
            return;
        };
        let complete = came.complete;
        let before = std::mem::replace(&mut came.fate, Fate::Dropped);
        if complete {
            if let Some(other) = &mut self.others[peer.index()] {
                other.tails.came.remove(&number);
            }
            // One that had a place was counted when it was complete.
            if matches!(before, Fate::Kept(..)) {
                self.tail_taken(peer, len as u32);
            }
        } else {
            self.place_tail(peer, number, None);
        }
        if let Fate::Kept(buffer, _) = before {
            self.spare.give(buffer);
        }
    }
}

fn copy_out(from: &[u8], address: usize) {
    // SAFETY: the place of a tail, as long as it, which its user has lent until it is told that the tail has landed.
    unsafe {
        std::ptr::copy_nonoverlapping(
            from.as_ptr(),
            std::ptr::with_exposed_provenance_mut(address),
            from.len(),
        );
    }
}

impl Tails for Tcp {
    #[inline]
    fn tail_room(&self, peer: Peer) -> usize {
        self.core.state.borrow().tail_room(peer)
    }

    unsafe fn send_tail(&self, peer: Peer, address: usize, len: usize) -> Result<u32, FabricError> {
        let state = &mut *self.core.state.borrow_mut();
        assert!(
            (1..=state.tail_room(peer)).contains(&len),
            "{len} bytes do not follow a line to {peer}"
        );
        state.count(peer, Counter::BulkBytes, len as u64);
        let other = state.other(peer)?;
        let number = other.link.send_tail(address, len as u32);
        other.tails.sent += len as u64;
        other.tails.out.push_back(Sent {
            number,
            address,
            len,
            kept: None,
        });
        Ok(number)
    }

    fn tail_sent(&self, peer: Peer, number: u32) -> Result<bool, FabricError> {
        let state = &mut *self.core.state.borrow_mut();
        let Some(other) = state.others[peer.index()].as_deref_mut() else {
            return Ok(true);
        };
        let Some(at) = other.tails.out.iter().position(|sent| sent.number == number) else {
            return Ok(true);
        };
        match state.nothing_more(peer) {
            None => Ok(false),
            Some(error) => {
                if let Some(other) = &mut state.others[peer.index()] {
                    other.tails.out.remove(at);
                }
                Err(error)
            }
        }
    }

    fn release_tail(&self, peer: Peer, number: u32) {
        let state = &mut *self.core.state.borrow_mut();
        let Some(other) = state.others[peer.index()].as_deref_mut() else {
            return;
        };
        let Some(sent) = other.tails.out.iter_mut().find(|sent| sent.number == number) else {
            return;
        };
        if sent.kept.is_some() {
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
        other
            .link
            .move_tail(number, buffer.as_mut_ptr().expose_provenance());
        sent.kept = Some(buffer);
    }

    unsafe fn land_tail(
        &self,
        peer: Peer,
        number: u32,
        address: usize,
        len: usize,
    ) -> Result<(), FabricError> {
        let state = &mut *self.core.state.borrow_mut();
        state.check_peer(peer)?;
        state.land_tail(peer, number, address, len)
    }

    fn tail_landed(&self, peer: Peer, number: u32) -> Result<bool, FabricError> {
        let state = &mut *self.core.state.borrow_mut();
        state.check_peer(peer)?;
        state.tail_landed(peer, number)
    }

    fn take_tail(
        &self,
        peer: Peer,
        number: u32,
        len: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, FabricError> {
        let taken = {
            let state = &mut *self.core.state.borrow_mut();
            state.check_peer(peer)?;
            state.take_tail(peer, number, len)?
        };
        let Some(buffer) = taken else { return Ok(false) };
        take(&buffer[..len]);
        self.core.state.borrow_mut().spare.give(buffer);
        Ok(true)
    }

    fn drop_tail(&self, peer: Peer, number: u32, len: usize) {
        let state = &mut *self.core.state.borrow_mut();
        if state.check_peer(peer).is_ok() {
            state.drop_tail(peer, number, len);
        }
    }
}
