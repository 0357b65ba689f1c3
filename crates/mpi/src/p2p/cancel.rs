//! Cancelling (MPI-5.0 section 3.8.4): receives that are not matched at once, sends that wait for their match by asking their
//! receiver.
//!
//! A send whose message still waits for room here is taken back here. Of one that was offered, or whose match is awaited, the
//! receiver is told, behind the message itself: if it holds the message unmatched, it drops it and says so; if not, a receive
//! or a matched probe has it, and the send ends as if nothing had been asked. Either way it ends, whatever receives are posted,
//! when the receiver next makes progress: a receiver that computes for long is waited for.

use crate::device::wire;
use crate::engine::Engine;
use crate::engine::context::{Held, Unexpected};
use crate::engine::request::{Operation, RecvState, Request, Send, SendState};
use farpost_fabric::{Fabric, Line, Peer};

/// Turns in which a process has answered its own question.
const OWN_TURNS: u32 = 64;

impl<F: Fabric> Engine<F> {
    /// Cancel a send or receive.
    pub fn cancel(&mut self, handle: usize) {
        let send = match self.requests.get_mut(handle) {
            Some(Request {
                operation: Operation::Send(send),
                complete: false,
                ..
            }) => send,
            _ => return self.cancel_receive(handle),
        };
        let peer = send.peer;
        let asked = std::mem::replace(&mut send.cancelling, true);
        match send.state {
            SendState::Queued => {
                self.outgoing[peer.index()]
                    .sends
                    .retain(|queued| *queued != handle);
                self.retire_if_empty(peer);
                self.complete(handle, |status| status.cancelled = true);
            }
            SendState::Matched if peer == self.me => {
                let held = |message: &Unexpected| matches!(message.held, Held::Own { request, .. } if request == handle);
                if self.take_back(held) {
                    self.complete(handle, |status| status.cancelled = true);
                }
            }
            SendState::Matched | SendState::Offered { .. } if !asked => {
                let mut line = [0; 8];
                line[0] = u64::from(wire::KIND_CANCEL) << 32;
                line[3] = handle as u64;
                self.answer(peer, line);
            }
            SendState::ByPortals { index } if !asked => {
                if let Some(portals) = &mut self.portals {
                    portals.ask_back(index);
                }
                // A process asks itself without the network: programs look right after the cancellation, and receive the message
                // if it was not cancelled.
                for _ in 0..if peer == self.me { OWN_TURNS } else { 0 } {
                    self.progress_portals();
                    if self.requests.get(handle).is_none_or(|request| request.complete) {
                        break;
                    }
                }
            }
            // A receive has it, or it needs none to end.
            _ => {}
        }
    }

    /// Cancel a receive that has not been matched.
    pub(crate) fn cancel_receive(&mut self, handle: usize) {
        if self.portals.is_some() {
            return self.cancel_by_portals(handle);
        }
        let Some(Request {
            operation: Operation::Recv(recv),
            ..
        }) = self.requests.get(handle)
        else {
            return;
        };
        let (context, source) = (recv.context, recv.source);
        if recv.state == RecvState::Posted && self.contexts[context].queues.cancel(source, handle) {
            self.complete(handle, |status| status.cancelled = true);
        }
    }

    /// Drop the held message that `is_it` means. False: it is not held, or not any more.
    fn take_back(&mut self, is_it: impl Fn(&Unexpected) -> bool) -> bool {
        let mut contexts = self.contexts.iter_mut();
        let Some(message) = contexts.find_map(|context| context.queues.take_back(&is_it)) else {
            return false;
        };
        self.discharge(message.peer, message.cost());
        true
    }

    /// Receiver: the sender of a message would have it back.
    pub(crate) fn on_cancel(&mut self, peer: Peer, line: &Line) {
        let request = line[3];
        let taken = self.take_back(|message| {
            message.peer == peer
                && match message.held {
                    Held::Rts { request: of, .. } => of == request,
                    Held::Data(_) => message.sync == Some(request),
                    _ => false,
                }
        });
        if taken {
            let mut answer = [0; 8];
            answer[0] = u64::from(wire::KIND_CANCELLED) << 32;
            answer[3] = request;
            self.answer(peer, answer);
        }
    }

    /// Sender: the receiver has dropped the message. False: nobody asked it to.
    pub(crate) fn on_cancelled(&mut self, peer: Peer, line: &Line) -> bool {
        let handle = line[3] as usize;
        let Some(Request {
            operation: Operation::Send(send),
            complete: false,
            ..
        }) = self.requests.get(handle)
        else {
            self.condemn(peer, "the request of a cancelled send", line[3]);
            return false;
        };
        let Send {
            state, cancelling, ..
        } = **send;
        if send.peer != peer
            || !cancelling
            || !matches!(state, SendState::Matched | SendState::Offered { .. })
        {
            self.condemn(peer, "the request of a cancelled send", line[3]);
            return false;
        }
        self.end_offer(state);
        self.offered.retain(|offered| *offered != handle);
        self.complete(handle, |status| status.cancelled = true);
        true
    }
}
