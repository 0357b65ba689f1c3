//! Long messages in one copy. The sender offers its buffer's address; the receiver, once matched, opens the
//! offer on the sender's desk, and then both sides claim chunks and copy until none is left.
//!
//! `farpost_channel::DeskLine` is what the line says, and in which order. Third processes map it too, so that nothing in it says where
//! bytes go or come from: that is in the receiver's grant (`grant`).
//!
//! Requirements of MPI-5.0 section 3.4.

use super::grant::{self, Grant, Message};
use super::wire;
use crate::engine::Engine;
use crate::engine::context::Held;
use crate::engine::envelope::Envelope;
use crate::engine::lost::of_transfer;

use crate::engine::request::{Operation, RecvState, Request, Send, SendState};
use crate::p2p::note_match;
use crate::{Error, ErrorClass};
use farpost_channel::Desk;
use farpost_fabric::{Direction, Fabric, Line, Peer, memcheck};

/// Chunks that one call copies before it looks after the rest of the world.
const CHUNKS_A_CALL: u32 = 8;

impl<F: Fabric> Engine<F> {
    fn take_desk(&mut self) -> Option<u32> {
        if self.tunables.both_copy == 0 {
            return None;
        }
        if self.free_desk.is_none() {
            self.post.my_desk()?;
            self.free_desk = Some((0..Desk::<F>::LINES).rev().collect());
        }
        let line = self.free_desk.as_mut()?.pop()?;
        let desk = self.post.my_desk()?;
        desk.line(line).clear();
        Some(line)
    }

    pub(crate) fn give_desk(&mut self, line: u32) {
        if let Some(free) = &mut self.free_desk {
            free.push(line);
        }
    }

    /// Sender: offer a long message. False: no room for the offer yet.
    pub(crate) fn post_rts(&mut self, peer: Peer, send: &mut Send, handle: usize) -> bool {
        if self.post.room(peer) == 0 {
            return false;
        }
        // Where the fabric cannot transfer, nothing is exposed and the bytes go through blocks.
        let exposed = if self.fabric.can_transfer(peer) {
            send.payload.expose(&*self.fabric, peer)
        } else {
            None
        };
        let maps = self.fabric.maps(peer);
        // What is one chunk is the receiver's to copy.
        let desk = if maps && exposed.is_some() && send.payload.bytes() > self.tunables.chunk_min {
            self.take_desk()
        } else {
            None
        };
        let mut line = send.envelope.line(wire::KIND_RTS, 1, 0);
        line[3] = send.payload.bytes();
        line[5] = handle as u64;
        line[6] = desk.map_or(0, |desk| u64::from(desk) + 1);
        if let Some((position, key)) = exposed {
            line[4] = position;
            line[6] |= wire::ONE_RUN;
            line[7] = key;
        }
        send.state = SendState::Offered {
            desk,
            key: exposed.filter(|_| !maps).map(|(_, key)| key),
        };
        self.post.post(peer, &line, 0);
        if desk.is_some() {
            self.offered.push(handle);
        }
        true
    }

    /// Sender: the receiver has what it wanted, or wants it in another way.
    pub(crate) fn end_offer(&mut self, state: SendState) {
        if let SendState::Offered { desk, key } = state {
            if let Some(desk) = desk {
                self.give_desk(desk);
            }
            if let Some(key) = key {
                self.fabric.withdraw(key);
            }
        }
    }

    /// Receiver: an offer.
    #[inline(never)]
    pub(crate) fn on_rts(&mut self, peer: Peer, line: &Line) -> bool {
        let envelope = Envelope::of(line);
        let (total, request) = (line[3], line[5]);
        let exposed = (line[6] & wire::ONE_RUN != 0).then_some((line[4], line[7]));
        let desk = line[6] & !wire::ONE_RUN;
        if total > 1 << 60 || desk > u64::from(Desk::<F>::LINES) {
            self.fail_sender(peer, "the length of a long message", total);
            return false;
        }
        let Some(context) = self.admit(peer, &envelope) else {
            return false;
        };
        match self.contexts[context]
            .queues
            .take_posted(envelope.source, envelope.tag)
        {
            Some(handle) => self.fetch(handle, peer, &envelope, total, exposed, request, desk),
            None => {
                let held = Held::Rts {
                    total,
                    exposed,
                    request,
                    desk,
                };
                self.hold(peer, context, envelope, held, None);
            }
        }
        true
    }

    /// Receiver: the receive `handle` takes a message that was offered.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn fetch(
        &mut self,
        handle: usize,
        peer: Peer,
        envelope: &Envelope,
        total: u64,
        exposed: Option<(u64, u64)>,
        sender: u64,
        desk: u64,
    ) {
        let Some(Request {
            operation: Operation::Recv(recv),
            status,
            ..
        }) = self.requests.get_mut(handle)
        else {
            return;
        };
        let wanted = note_match(status, &recv.buf, envelope, total);
        if wanted == 0 {
            self.answer_done(peer, sender);
            self.complete(handle, |_| {});
            return;
        }
        let local = recv.buf.contiguous_address();
        let Some((address, key)) = exposed.filter(|_| self.fabric.can_transfer(peer)) else {
            self.ask(handle, peer, sender, wanted);
            return;
        };
        if !self.fabric.maps(peer) {
            if !self.get_remote(handle, peer, sender, (address, key), wanted) {
                self.ask(handle, peer, sender, wanted);
            }
            return;
        }
        match (local, desk.checked_sub(1), self.post.desk_of(peer)) {
            (Some(local), Some(desk_line), Some(desk)) => {
                let chunk = self.chunk_bytes(wanted);
                let message = Message {
                    sender: peer,
                    line: desk_line as u32,
                    request: sender,
                };
                let grant = Grant {
                    address: local as u64,
                    bytes: wanted,
                    chunk,
                };
                let granted = self.grants.give(&message, &grant);
                desk.line(desk_line as u32).open(granted.map_or(0, |(_, at)| at));
                self.fabric.wake(peer);
                let chunks = wanted.div_ceil(chunk);
                if let Some(Request {
                    operation: Operation::Recv(recv),
                    ..
                }) = self.requests.get_mut(handle)
                {
                    recv.state = RecvState::Copying {
                        peer,
                        desk: desk_line as u32,
                        chunks,
                        address,
                        grant: granted.map(|(slot, _)| slot),
                    };
                }
                self.copying.push(handle);
                self.serve_copying();
            }
            _ => {
                let result = self.fetch_alone(handle, peer, address, wanted);
                self.answer_done(peer, sender);
                self.complete(handle, |status| {
                    status.error = status.error.take().or(result.err().map(Box::new))
                });
            }
        }
    }

    /// Chunks small enough that both sides get some, large enough to be worth a system call.
    fn chunk_bytes(&self, wanted: u64) -> u64 {
        let low = self.tunables.chunk_min.min(self.tunables.chunk_max);
        (wanted / 8)
            .clamp(low, self.tunables.chunk_max)
            .next_multiple_of(4096)
    }

    /// Receiver, with a buffer that is not one run or no desk: copy everything.
    fn fetch_alone(&mut self, handle: usize, peer: Peer, address: u64, wanted: u64) -> Result<(), Error> {
        let Some(Request {
            operation: Operation::Recv(recv),
            ..
        }) = self.requests.get(handle)
        else {
            return Ok(());
        };
        let moved = recv.buf.fill_from_peer(&*self.fabric, peer, address, wanted);
        moved.map_err(|error| of_transfer(&error))
    }

    /// Receiver: copy chunks of what is being fetched.
    pub(crate) fn serve_copying(&mut self) -> bool {
        let mut moved = false;
        for index in (0..self.copying.len()).rev() {
            let handle = self.copying[index];
            let Some(Request {
                operation: Operation::Recv(recv),
                ..
            }) = self.requests.get(handle)
            else {
                self.copying.swap_remove(index);
                continue;
            };
            let RecvState::Copying {
                peer,
                desk: line,
                chunks,
                address,
                grant,
            } = recv.state
            else {
                continue;
            };
            let Some(desk) = self.post.desk_of(peer) else {
                continue;
            };
            let wanted = self
                .requests
                .get(handle)
                .map_or(0, |request| request.status.bytes);
            let chunk = self.chunk_bytes(wanted);
            // What is copied by both is one run of memory (`fetch`).
            let local = recv.buf.contiguous_address().unwrap_or(0);
            let mut failed = None;
            let line = desk.line(line);
            for _ in 0..CHUNKS_A_CALL {
                let copied = line.copy_part(chunks, |part| {
                    let at = part * chunk;
                    let len = chunk.min(wanted - at);
                    let from = address.wrapping_add(at);
                    let filled = recv.buf.fill_part_from_peer(&*self.fabric, peer, from, at, len);
                    filled.map_err(|error| failed = Some(error)).is_ok()
                });
                if !copied {
                    break;
                }
                moved = true;
            }
            if let Some(error) = failed {
                let error = of_transfer(&error);
                if let Some(request) = self.requests.get_mut(handle) {
                    request.status.error.get_or_insert(Box::new(error));
                }
            }
            if line.is_complete(chunks) {
                memcheck::written_by_peer(local, wanted as usize);
                if line.has_failed()
                    && let Some(request) = self.requests.get_mut(handle)
                {
                    request.status.error.get_or_insert_with(|| {
                        let text = format!("{peer} could not copy its part of the message");
                        Box::new(Error::new(ErrorClass::ERR_OTHER, text))
                    });
                }
                line.close();
                if let Some(slot) = grant {
                    self.grants.take_back(slot);
                }
                self.fabric.wake(peer);
                self.copying.swap_remove(index);
                self.complete(handle, |_| {});
                moved = true;
            }
        }
        moved
    }

    /// Sender: help the receivers that have opened an offer.
    pub(crate) fn serve_offered(&mut self) -> bool {
        let Some(desk) = self.post.my_desk() else {
            return false;
        };
        let mut moved = false;
        for index in (0..self.offered.len()).rev() {
            let Some(&handle) = self.offered.get(index) else {
                continue;
            };
            let Some(Request {
                operation: Operation::Send(send),
                ..
            }) = self.requests.get(handle)
            else {
                self.offered.swap_remove(index);
                continue;
            };
            let SendState::Offered { desk: Some(line), .. } = send.state else {
                continue;
            };
            let shared = desk.line(line);
            if !shared.is_open() {
                continue;
            }
            let peer = send.peer;
            let message = Message {
                sender: self.fabric.me(),
                line,
                request: handle as u64,
            };
            // Without a grant the receiver copies alone.
            let granted = shared.record(|at| grant::fetch(&*self.fabric, peer, at, &message));
            if let Some(Grant { bytes, .. }) = granted
                && bytes > send.payload.bytes()
            {
                self.fail_sender(peer, "the length of an opened offer", bytes);
                return true;
            }
            if let Some(Grant {
                address: remote,
                bytes,
                chunk,
            }) = granted
            {
                let mut copied = false;
                for _ in 0..CHUNKS_A_CALL {
                    let more = shared.copy_part(bytes.div_ceil(chunk), |part| {
                        let at = part * chunk;
                        let len = chunk.min(bytes - at);
                        let to = remote.wrapping_add(at);
                        send.payload
                            .copy_to_peer(&*self.fabric, peer, Direction::Put, at, len, to)
                            .is_ok()
                    });
                    if !more {
                        break;
                    }
                    copied = true;
                }
                if copied {
                    self.fabric.wake(peer);
                    moved = true;
                }
            }
            if shared.is_closed() {
                self.offered.swap_remove(index);
                self.give_desk(line);
                self.complete(handle, |_| {});
                moved = true;
            }
        }
        moved
    }
}
