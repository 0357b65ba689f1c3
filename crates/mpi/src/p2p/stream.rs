//! Long messages through blocks, where one copy is not possible: the receiver asks, the sender fills blocks
//! while the receiver empties earlier ones.

use crate::device::wire;
use crate::engine::Engine;
use crate::engine::request::{Operation, RecvState, Request, SendState};
use farpost_fabric::{Fabric, Line, Peer};

impl<F: Fabric> Engine<F> {
    /// Receiver: ask for `wanted` bytes.
    pub(crate) fn ask(&mut self, handle: usize, peer: Peer, sender: u64, wanted: u64) {
        if let Some(Request {
            operation: Operation::Recv(recv),
            ..
        }) = self.requests.get_mut(handle)
        {
            recv.state = RecvState::Streaming { peer, at: 0, wanted };
        }
        let mut line = [0; 8];
        line[0] = u64::from(wire::KIND_CTS) << 32;
        line[3] = sender;
        line[4] = handle as u64;
        line[5] = wanted;
        self.answer(peer, line);
    }

    /// Sender: the receiver asks for the bytes of a send of ours.
    #[inline(never)]
    pub(crate) fn on_cts(&mut self, peer: Peer, line: &Line) -> bool {
        self.post.consume(peer, 1, 0);
        let handle = line[3] as usize;
        let (remote, wanted) = (line[4], line[5]);
        let offered = match self.requests.get_mut(handle) {
            Some(Request {
                operation: Operation::Send(send),
                complete: false,
                ..
            }) if send.peer == peer && wanted <= send.payload.bytes() && wanted > 0 => {
                let offered = send.state;
                let SendState::Offered { .. } = offered else {
                    self.condemn(peer, "the request of a send", line[3]);
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
                self.condemn(peer, "the request of a send", line[3]);
                return false;
            }
        };
        self.end_offer(offered);
        self.offered.retain(|h| *h != handle);
        self.engage(peer);
        self.outgoing[peer.index()].streams.push_back(handle);
        self.push_streams(peer);
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
            let block = if self.post.room(peer) > 0 {
                self.post.take_block(peer)
            } else {
                None
            };
            let len = (self.post.block_bytes() as u64).min(wanted - sent);
            if let Some(block) = block {
                self.fill_block(peer, block, 0, &send.payload, sent, len as usize);
                let mut line = [0; 8];
                line[0] = u64::from(wire::KIND_DATA) << 32;
                line[3] = remote;
                line[4] = wire::piece(block, len as usize);
                self.post.post_block(peer, &line, Some(block), len);
                send.state = SendState::Streaming {
                    remote,
                    sent: sent + len,
                    wanted,
                };
                moved = true;
            }
            let over = block.is_some() && sent + len == wanted;
            let request = self.requests.get_mut(handle).expect("still there");
            request.operation = Operation::Send(send);
            if over {
                self.complete(handle, |_| {});
                continue;
            }
            if block.is_none() {
                self.outgoing[peer.index()].streams.push_front(handle);
                break;
            }
            self.outgoing[peer.index()].streams.push_back(handle);
        }
        moved
    }

    /// Receiver: a piece.
    #[inline(never)]
    pub(crate) fn on_data(&mut self, peer: Peer, line: &Line) -> bool {
        let handle = line[3] as usize;
        let (block, len) = (line[4] as u32, line[4] >> 32);
        let (mut buf, at, wanted) = match self.requests.get(handle) {
            Some(Request {
                operation: Operation::Recv(recv),
                complete: false,
                ..
            }) => match recv.state {
                RecvState::Streaming {
                    peer: from,
                    at,
                    wanted,
                } if from == peer && len > 0 && len <= wanted - at => (recv.buf.clone(), at, wanted),
                _ => {
                    self.condemn(peer, "a piece of a message", len);
                    return false;
                }
            },
            _ => {
                self.condemn(peer, "the request of a receive", line[3]);
                return false;
            }
        };
        if let Err(error) = self.read_piece(peer, (block, 0, len as usize), &mut buf, at) {
            self.post.condemn(peer, error);
            self.fail_peer(peer);
            return false;
        }
        self.post.consume(peer, 1, len);
        if at + len == wanted {
            // Source, tag and bytes were noted when the message was matched.
            self.complete(handle, |_| {});
        } else if let Some(Request {
            operation: Operation::Recv(recv),
            ..
        }) = self.requests.get_mut(handle)
        {
            recv.state = RecvState::Streaming {
                peer,
                at: at + len,
                wanted,
            };
        }
        true
    }
}
