//! Long messages through blocks, where one copy is not possible: the receiver asks, the sender fills blocks
//! while the receiver empties earlier ones. Where all blocks are under way to others, who may take nothing for long, pieces
//! go in postboxes.

use crate::engine::request::{Operation, Payload, RecvState, SendState};
use crate::engine::{Carrier, Engine, wire};
use farpost_fabric::{Fabric, Line, Peer};

impl<F: Fabric, C: Carrier<F>> Engine<F, C> {
    /// Receiver: ask for `wanted` bytes.
    pub(crate) fn ask(&mut self, handle: usize, peer: Peer, sender: u64, wanted: u64) {
        if let Some((recv, _)) = self.requests.recv_mut(handle) {
            recv.state = RecvState::Streaming { peer, at: 0, wanted };
        }
        let mut line = [0; 8];
        line[0] = u64::from(wire::KIND_CTS) << 32;
        line[3] = sender;
        line[4] = handle as u64;
        line[5] = wanted;
        C::answer(self, peer, line);
    }

    /// Sender: the receiver asks for the bytes of a send of ours.
    #[inline(never)]
    pub(crate) fn on_cts(&mut self, peer: Peer, line: &Line) -> bool {
        let handle = line[3] as usize;
        let (remote, wanted) = (line[4], line[5]);
        let offered = match self.requests.send_mut(handle) {
            Some(send) if send.peer == peer && wanted <= send.payload.bytes() && wanted > 0 => {
                let offered = send.state;
                let SendState::Offered { .. } = offered else {
                    self.fail_sender(peer, "the request of a send", line[3]);
                    return false;
                };
                send.state = SendState::Streaming {
                    remote,
                    sent: 0,
                    wanted,
                };
                offered
            }
            _ => {
                self.fail_sender(peer, "the request of a send", line[3]);
                return false;
            }
        };
        self.end_offer(offered);
        self.offered.retain(|h| *h != handle);
        self.engage(peer);
        self.outgoing[peer.index()].streams.push_back(handle);
        C::push(self, peer);
        self.retire_if_empty(peer);
        true
    }

    /// Sender: fill blocks while there are blocks and room, streams in turn.
    pub(crate) fn push_streams(&mut self, peer: Peer) -> bool {
        let mut moved = false;
        while let Some(handle) = self.outgoing[peer.index()].streams.pop_front() {
            let Some(request) = self.requests.get_mut(handle) else {
                continue;
            };
            let Operation::Send(mut send) = std::mem::replace(&mut request.operation, Operation::Idle) else {
                continue;
            };
            let SendState::Streaming { remote, sent, wanted } = send.state else {
                continue;
            };
            let room = self.post.room(peer);
            let len = (self.post.block_bytes() as u64).min(wanted - sent);
            let block = if room > 0 {
                self.post.take_block_for(peer, len as usize)
            } else {
                None
            };
            let len = if let Some(block) = block {
                self.fill_block(peer, block, 0, &send.payload, sent, len as usize);
                let mut line = [0; 8];
                line[0] = u64::from(wire::KIND_DATA) << 32;
                line[3] = remote;
                line[4] = wire::piece(block, len as usize);
                self.post.post_block(peer, &line, Some(block), len);
                len
            } else if room > 0 && !self.post.has_blocks(peer) {
                self.post_part(peer, room, remote, &send.payload, sent, wanted)
            } else {
                0
            };
            if len > 0 {
                send.state = SendState::Streaming {
                    remote,
                    sent: sent + len,
                    wanted,
                };
                moved = true;
            }
            let over = sent + len == wanted;
            let request = self.requests.get_mut(handle).expect("still there");
            request.operation = Operation::Send(send);
            if over {
                self.complete(handle, |_| {});
                continue;
            }
            if len == 0 {
                self.outgoing[peer.index()].streams.push_front(handle);
                break;
            }
            self.outgoing[peer.index()].streams.push_back(handle);
        }
        moved
    }

    /// Sender: the next piece in at most `room` postboxes alone; its bytes.
    #[cold]
    fn post_part(
        &mut self,
        peer: Peer,
        room: u32,
        remote: u64,
        payload: &Payload,
        sent: u64,
        wanted: u64,
    ) -> u64 {
        let most = wire::PART_FIRST + (room as usize - 1).min(wire::MAX_RUN - 1) * wire::MORE_BYTES;
        let len = (wanted - sent).min(most as u64) as usize;
        let mut packed = [0; wire::PART_MAX];
        let mut at = 0;
        while at < len {
            let n = payload.pack_on(&*self.fabric, sent + at as u64, &mut packed[at..len]);
            assert!(n > 0, "a payload gave fewer bytes than it said");
            at += n;
        }
        let (first, rest) = packed[..len].split_at(len.min(wire::PART_FIRST));
        let count = 1 + rest.len().div_ceil(wire::MORE_BYTES);
        let mut lines = [[0; 8]; wire::MAX_RUN];
        lines[0][0] = u64::from(wire::KIND_DATA) << 32 | (count as u64) << 40 | (len as u64) << 48;
        lines[0][3] = remote;
        wire::fill_part(&mut lines[0], first);
        for (line, part) in lines[1..].iter_mut().zip(rest.chunks(wire::MORE_BYTES)) {
            line[0] = u64::from(wire::KIND_MORE) << 32;
            wire::fill_more(line, part);
        }
        self.post.post_run(peer, &lines[..count], len as u64);
        len as u64
    }

    /// Receiver: the bytes of a piece without a block and its postboxes, if all are there and right.
    fn part(&mut self, peer: Peer, line: &Line) -> Option<(usize, [u8; wire::PART_MAX])> {
        let (count, len) = (wire::count(line), wire::inline_bytes(line));
        if !(1..=wire::MAX_RUN).contains(&count) || len > wire::PART_FIRST + (count - 1) * wire::MORE_BYTES {
            self.fail_sender(peer, "the length of a piece in postboxes", len as u64);
            return None;
        }
        let mut bytes = [0; wire::PART_MAX];
        bytes[..wire::PART_FIRST].copy_from_slice(&wire::first_part(line));
        let parts = bytes[wire::PART_FIRST..].chunks_exact_mut(wire::MORE_BYTES);
        for (index, part) in (1..count).zip(parts) {
            let more = self.post.peek_ahead(peer, index as u32)?;
            if wire::kind(&more) != wire::KIND_MORE {
                self.fail_sender(
                    peer,
                    "the kind of a postbox in a piece",
                    u64::from(wire::kind(&more)),
                );
                return None;
            }
            part.copy_from_slice(&wire::more_payload(&more));
        }
        Some((count, bytes))
    }

    /// Receiver: a piece.
    #[inline(never)]
    pub(crate) fn on_data(&mut self, peer: Peer, line: &Line) -> bool {
        let handle = line[3] as usize;
        let inline = wire::inline_bytes(line);
        let (block, len) = match inline {
            0 => (line[4] as u32, line[4] >> 32),
            _ => (0, inline as u64),
        };
        let (mut buf, at, wanted) = match self.requests.recv(handle) {
            Some(recv) => match recv.state {
                RecvState::Streaming {
                    peer: from,
                    at,
                    wanted,
                } if from == peer && len > 0 && len <= wanted - at => (recv.buf.clone(), at, wanted),
                _ => {
                    self.fail_sender(peer, "a piece of a message", len);
                    return false;
                }
            },
            _ => {
                self.fail_sender(peer, "the request of a receive", line[3]);
                return false;
            }
        };
        let mut postboxes = 1;
        if inline > 0 {
            let Some((count, bytes)) = self.part(peer, line) else {
                return false;
            };
            buf.unpack_on(&*self.fabric, at, &bytes[..inline]);
            postboxes = count;
        } else if let Err(error) = self.read_piece(peer, (block, 0, len as usize), &mut buf, at) {
            self.post.fail_sender(peer, error);
            self.fail_peer(peer);
            return false;
        }
        self.post.consume(peer, postboxes as u32, len);
        if at + len == wanted {
            // Source, tag and bytes were noted when the message was matched.
            self.complete(handle, |_| {});
        } else if let Some((recv, _)) = self.requests.recv_mut(handle) {
            recv.state = RecvState::Streaming {
                peer,
                at: at + len,
                wanted,
            };
        }
        true
    }
}
