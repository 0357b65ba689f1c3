//! The send path: from the layers above to the link, and from the link to the sockets.
//!
//! Cost class: *fast path*, but for its system call.

use super::connections::Connection;
use super::peer::Deferred;
use super::socket;
use super::state::TcpState;
use crate::link::{Link, ORDERED_MAX, PIECES_MAX, Piece, PushError};
use farpost_fabric::{Counter, Line, Peer, Result};
use farpost_net::poll;
use std::os::fd::{AsRawFd, RawFd};

/// Bytes that are sealed at once.
const SEALED_AT_ONCE: usize = 256 << 10;

impl TcpState {
    /// Put bytes, held back to be sent together with what follows if they are few.
    pub fn put(&mut self, peer: Peer, handle: u32, offset: usize, from: &[u8]) -> Result<()> {
        let most = (self.settings.link.log as usize / 4).max(ORDERED_MAX);
        if from.len() > most {
            return self.put_in_parts(peer, handle, offset, from.chunks(most));
        }
        let many = from.len() >= self.settings.tcp.direct as usize;
        let at = offset as u64;
        let later = || Deferred::Put(handle, at, from.to_vec());
        if !self.push(peer, |link| link.push_put(handle, at, from), later)? {
            self.diagnostics.count(peer, Counter::Stalls, 1);
        }
        if many {
            let now = self.now();
            self.pump(peer, now);
        } else {
            self.schedule_send(peer);
        }
        Ok(())
    }

    /// A put that is longer than what a link ever has room for at once.
    #[cold]
    fn put_in_parts(
        &mut self,
        peer: Peer,
        handle: u32,
        mut offset: usize,
        parts: std::slice::Chunks<'_, u8>,
    ) -> Result<()> {
        for part in parts {
            self.put(peer, handle, offset, part)?;
            offset += part.len();
        }
        Ok(())
    }

    /// Put a word, held back to be sent together with what follows.
    pub fn put_word(&mut self, peer: Peer, handle: u32, offset: usize, value: u64) -> Result<()> {
        let at = offset as u64;
        let later = || Deferred::Word(handle, at, value);
        self.push(peer, |link| link.push_word(handle, at, value), later)?;
        self.schedule_send(peer);
        Ok(())
    }

    /// Put a line, and send what waits.
    #[inline]
    pub fn put_line(&mut self, peer: Peer, handle: u32, offset: usize, line: &Line) -> Result<()> {
        let now = self.now();
        self.push_line(peer, handle, offset, line)?;
        self.pump(peer, now);
        Ok(())
    }

    /// Put a line, held back to be sent together with the next one.
    #[inline]
    pub fn put_line_ahead(&mut self, peer: Peer, handle: u32, offset: usize, line: &Line) -> Result<()> {
        self.push_line(peer, handle, offset, line)?;
        self.schedule_send(peer);
        Ok(())
    }

    #[inline(always)]
    fn push_line(&mut self, peer: Peer, handle: u32, offset: usize, line: &Line) -> Result<()> {
        let at = offset as u64;
        let later = || Deferred::Line(handle, at, *line);
        self.push(peer, |link| link.push_line(handle, at, line), later)
            .map(drop)
    }

    /// A put by `now`, or, where the link has no room, kept as what `later` makes. True: it is in the link.
    #[inline(always)]
    fn push(
        &mut self,
        peer: Peer,
        now: impl FnOnce(&mut Link) -> Result<(), PushError>,
        later: impl FnOnce() -> Deferred,
    ) -> Result<bool> {
        let remote = self.peer_state(peer)?;
        remote.unfenced = true;
        remote.note_sent();
        let pushed = remote.is_free() && now(&mut remote.link) != Err(PushError::Full);
        if !pushed {
            remote.push_or_defer(later());
        }
        Ok(pushed)
    }

    /// Send a packet of a lane, which has its place in the window.
    pub fn send_packet(&mut self, peer: Peer, lane: u8, payload: &[u8]) {
        if peer == self.me {
            let own = self.packets.arrived(peer, lane, payload);
            debug_assert_eq!(own, Ok(()), "as many as the window has arrive");
            self.arrivals += 1;
            return;
        }
        self.push_or_defer(peer, Deferred::Packet(lane, payload.to_vec()));
        self.flush();
    }

    /// Send what `peer`'s link has to send, as far as the sockets take it.
    #[inline]
    pub fn pump(&mut self, peer: Peer, now: u64) {
        let Some(remote) = self.peers.at(peer) else {
            return;
        };
        if !remote.is_free() {
            remote.push_deferred();
        }
        for at in 0..remote.rails.len() {
            let rail = &mut remote.rails[at];
            if rail.fd < 0 || rail.blocked {
                continue;
            }
            let full = if rail.sealed {
                match self.conns.at(rail.slot) {
                    Some(conn) => !pump_sealed(conn, &mut remote.link, at, now),
                    // Being read: its turn comes.
                    _ => continue,
                }
            } else {
                !pump_rail(&mut remote.link, at, rail.fd, now)
            };
            if full {
                // Or broken: then the receiving side finds out why, and what came before it.
                rail.blocked = true;
                self.conns.blocked += 1;
                let _ = self.poll.change(rail.fd, poll::IN | poll::OUT, rail.slot as u64);
            }
        }
        self.deadline = self.deadline.min(remote.link.next_deadline());
    }

    pub fn unblock(&mut self, peer: Peer, at: usize) {
        let Some(remote) = self.peers.at(peer) else {
            return;
        };
        let rail = &mut remote.rails[at];
        if std::mem::take(&mut rail.blocked) {
            self.conns.blocked -= 1;
            let _ = self.poll.change(rail.fd, poll::IN, rail.slot as u64);
            self.schedule_send(peer);
        }
    }

    /// Send what waits, to everybody.
    pub fn flush(&mut self) {
        if self.send_list.is_empty() {
            return;
        }
        let now = self.now();
        while let Some(index) = self.send_list.pop() {
            if let Some(remote) = self.peers.at(Peer(index)) {
                remote.in_send_list = false;
            }
            self.pump(Peer(index), now);
        }
    }

    /// Send what waits for `peer`; ring it if nothing was sent since the last time.
    #[inline]
    pub fn wake(&mut self, peer: Peer) {
        if peer == self.me {
            return;
        }
        let Ok(remote) = self.peer_state(peer) else { return };
        let told = std::mem::take(&mut remote.sent_since_ring);
        if told && !remote.in_send_list {
            return;
        }
        if !told {
            remote.push_or_defer(Deferred::Ring);
        }
        let now = self.now();
        self.pump(peer, now);
    }
}

/// Where a piece lies.
fn part(piece: &Piece<'_>) -> socket::Part {
    match piece {
        Piece::Bytes(bytes) => socket::part(bytes.as_ptr(), bytes.len()),
        Piece::Memory { address, len } => socket::part(std::ptr::with_exposed_provenance(*address), *len),
    }
}

/// Send what a rail has to send. False: the socket is full, or broken.
#[inline]
fn pump_rail(link: &mut Link, rail: usize, fd: RawFd, now: u64) -> bool {
    loop {
        let mut pieces = link.next_send(rail, now);
        let Some(first) = pieces.next() else { return true };
        let mut offered = first.len();
        let second = pieces.next();
        let sent = match (&first, second) {
            (Piece::Bytes(bytes), None) => socket::send(fd, bytes),
            (_, second) => {
                let mut parts = [socket::part(std::ptr::null(), 0); PIECES_MAX];
                parts[0] = part(&first);
                let mut count = 1;
                for (to, piece) in parts[1..].iter_mut().zip(second.into_iter().chain(pieces)) {
                    *to = part(&piece);
                    offered += piece.len();
                    count += 1;
                }
                // SAFETY: bytes of the link, borrowed here, and memory that was exposed to the peer and is not
                // taken back before `Link::withdraw`.
                unsafe { socket::send_parts(fd, &parts[..count]) }
            }
        };
        let taken = sent.unwrap_or(0);
        link.sent(rail, taken, now);
        if taken < offered {
            return false;
        }
    }
}

/// The same, encrypted.
#[cold]
fn pump_sealed(conn: &mut Connection, link: &mut Link, rail: usize, now: u64) -> bool {
    let fd = conn.fd.as_raw_fd();
    let Some(seal) = &mut conn.seal else { return true };
    loop {
        while seal.sent < seal.out.len() {
            match socket::send(fd, &seal.out[seal.sent..]) {
                Ok(sent) => seal.sent += sent,
                Err(_) => return false,
            }
        }
        (seal.sent, seal.out) = (0, std::mem::take(&mut seal.out));
        seal.out.clear();
        let mut plain = 0;
        let mut slices = Vec::new();
        for piece in link.next_send(rail, now) {
            let len = piece.len().min(SEALED_AT_ONCE - plain);
            if len == 0 {
                break;
            }
            let at = part(&piece).iov_base.cast::<u8>().cast_const();
            // SAFETY: as in `pump_rail`; the slice ends with this round. What was exposed is not written meanwhile, by
            // the promise of who exposed it.
            slices.push(std::io::IoSlice::new(unsafe {
                std::slice::from_raw_parts(at, len)
            }));
            plain += len;
        }
        if plain == 0 {
            return true;
        }
        seal.out.resize(crate::trust::Sealer::sealed_len(plain), 0);
        let sealed = seal.sealer.seal(&slices, &mut seal.out);
        debug_assert_eq!(sealed, seal.out.len());
        link.sent(rail, plain, now);
    }
}
