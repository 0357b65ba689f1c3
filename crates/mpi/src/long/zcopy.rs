//! Messages between hosts whose bytes go along with the line that tells of them: the fabric sends them from the user's
//! buffer and, where a receive waits, reads them into the user's buffer. Which receive that is, the line tells first.
//!
//! Line, header and user buffer go out with one system call, and nothing is copied for retransmission: bytes that were not acknowledged are sent
//! again from the user's buffer. So the send is complete when the receiver has all bytes. A blocking send of up to 256 KiB is copied instead if
//! its receiver does not answer soon, so that the call can return. Each sender is granted `FARPOST_TCP_ZCOPY` bytes for messages that no receive
//! waits for; a sender that has used its grant takes blocks or rendezvous.

use crate::engine::context::Held;
use crate::engine::deliver::note_match;
use crate::engine::envelope::Envelope;
use crate::engine::request::{Operation, Recv, RecvState, Request, Send, SendState};
use crate::engine::{Carrier, Engine, wire};
use farpost_fabric::{Fabric, Line, Peer};

/// The longest message of a blocking send that is copied so that the call can return.
const COPIED_MAX: u64 = 256 << 10;

impl<F: Fabric, C: Carrier<F>> Engine<F, C> {
    /// Sender: post a message with its bytes behind it. False: not this way, or not now.
    pub(crate) fn post_zcopy(&mut self, peer: Peer, send: &mut Send, handle: usize) -> bool {
        let total = send.payload.bytes();
        if self.post.room(peer) == 0 {
            return false;
        }
        let Some(number) = send.payload.start_zcopy(&*self.fabric, peer) else {
            return false;
        };
        let mut line = send.envelope.line(wire::KIND_ZCOPY, 1, 0);
        line[3] = total;
        line[4] = u64::from(number);
        send.state = SendState::ZeroCopy { number };
        self.post.post(peer, &line, total);
        self.zcopy.push(handle);
        true
    }

    /// Sender: sends whose bytes have all arrived.
    pub(crate) fn serve_zcopy(&mut self) -> bool {
        let mut moved = false;
        for index in (0..self.zcopy.len()).rev() {
            let Some(&handle) = self.zcopy.get(index) else {
                continue;
            };
            let Some((peer, number, _)) = self.zcopy_of(handle) else {
                self.zcopy.swap_remove(index);
                continue;
            };
            let result = match self.fabric.zcopy_sent(peer, number) {
                Ok(false) => continue,
                Ok(true) => Ok(()),
                Err(error) => Err(error),
            };
            self.zcopy.swap_remove(index);
            self.finish_transfer(handle, result);
            moved = true;
        }
        moved
    }

    fn zcopy_of(&self, handle: usize) -> Option<(Peer, u32, u64)> {
        match &self.requests.get(handle)?.operation {
            Operation::Send(send) => match send.state {
                SendState::ZeroCopy { number } => Some((send.peer, number, send.payload.bytes())),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a send would be complete if its bytes were copied.
    pub(crate) fn is_zcopy(&self, handle: usize) -> bool {
        self.zcopy_of(handle)
            .is_some_and(|(_, _, total)| total <= COPIED_MAX)
    }

    /// Sender: complete such a send, whether its bytes have arrived or not.
    pub(crate) fn release_zcopy_send(&mut self, handle: usize) {
        if let Some((peer, number, _)) = self.zcopy_of(handle) {
            self.fabric.release_zcopy(peer, number);
            self.zcopy.retain(|other| *other != handle);
            self.complete(handle, |_| {});
        }
    }

    /// Receiver: a message whose bytes follow.
    #[inline(never)]
    pub(crate) fn on_zcopy(&mut self, peer: Peer, line: &Line) -> bool {
        let (total, number) = (line[3], line[4]);
        if total == 0 || total > u64::from(u32::MAX) || number > u64::from(u32::MAX) {
            self.fail_sender(peer, "the length of a message that follows", total);
            return false;
        }
        let envelope = Envelope::of(line);
        let Some(context) = self.admit(peer, &envelope) else {
            return false;
        };
        self.post.consume(peer, 1, total);
        match self.match_posted(context, &envelope) {
            Some(handle) => self.land(handle, peer, &envelope, total, number as u32),
            None => {
                let number = number as u32;
                self.hold(peer, context, envelope, Held::ZeroCopy { total, number }, None);
            }
        }
        true
    }

    /// Receiver: the receive `handle` takes a message whose bytes follow.
    pub(crate) fn land(&mut self, handle: usize, peer: Peer, envelope: &Envelope, total: u64, number: u32) {
        let Some((recv, status)) = self.requests.recv_mut(handle) else {
            return;
        };
        let wanted = note_match(status, &recv.buf, envelope, total);
        if wanted == 0 {
            self.fabric.drop_zcopy(peer, number, total as usize);
            self.complete(handle, |_| {});
            return;
        }
        let landed = match wanted == total {
            true => recv.buf.start_landing(&*self.fabric, peer, number, total),
            false => None,
        };
        recv.state = RecvState::Landing {
            peer,
            number,
            total,
            direct: landed.is_some(),
        };
        if let Some(Err(error)) = landed {
            self.finish_transfer(handle, Err(error));
            return;
        }
        self.landing.push(handle);
        self.serve_landing();
    }

    /// Receiver: messages that are here.
    pub(crate) fn serve_landing(&mut self) -> bool {
        let mut moved = false;
        for index in (0..self.landing.len()).rev() {
            let Some(&handle) = self.landing.get(index) else {
                continue;
            };
            let Some(Request {
                operation:
                    Operation::Recv(Recv {
                        buf,
                        state:
                            RecvState::Landing {
                                peer,
                                number,
                                total,
                                direct,
                            },
                        ..
                    }),
                status,
                ..
            }) = self.requests.get(handle)
            else {
                self.landing.swap_remove(index);
                continue;
            };
            let landed = if *direct {
                self.fabric.zcopy_landed(*peer, *number)
            } else {
                let wanted = status.bytes as usize;
                self.fabric
                    .take_zcopy(*peer, *number, *total as usize, &mut |data| {
                        buf.unpack_on(&*self.fabric, 0, &data[..wanted]);
                    })
            };
            let result = match landed {
                Ok(false) => continue,
                Ok(true) => Ok(()),
                Err(error) => Err(error),
            };
            self.landing.swap_remove(index);
            self.finish_transfer(handle, result);
            moved = true;
        }
        moved
    }
}
