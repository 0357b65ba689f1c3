//! Cancelling (MPI-5.0 section 3.8.4): receives that are not matched at once, sends that wait for their match by asking their
//! receiver.
//!
//! A send whose message still waits for room here is taken back here. Of one that was offered, or whose match is awaited, the
//! receiver is told, behind the message itself: if it holds the message unmatched, it drops it and says so; if not, a receive
//! or a matched probe has it, and the send ends as if nothing had been asked. Either way it ends, whatever receives are posted,
//! when the receiver next makes progress: a receiver that computes for long is waited for.

use crate::carrier::{Chosen, Engine};
use crate::engine::Carrier;
use crate::engine::context::{Held, Unexpected};
use crate::engine::request::{RecvState, SendState};
use farpost_fabric::Fabric;

impl<F: Fabric> Engine<F> {
    /// Cancel a send or receive.
    pub fn cancel(&mut self, handle: usize) {
        let Some(send) = self.requests.send_mut(handle) else {
            return self.cancel_receive(handle);
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
            SendState::Matched | SendState::Offered { .. } | SendState::Carried { .. } if !asked => {
                Chosen::ask_back(self, handle);
            }
            // A receive has it, or it needs none to end.
            _ => {}
        }
    }

    /// Cancel a receive that has not been matched.
    pub(crate) fn cancel_receive(&mut self, handle: usize) {
        let Some(recv) = self.requests.recv(handle) else {
            return;
        };
        let (context, source) = (recv.context, recv.source);
        let taken_back = match recv.state {
            RecvState::Posted => {
                Chosen::give_up(self, handle) && self.contexts[context].queues.cancel(source, handle)
            }
            RecvState::Entered { .. } => Chosen::give_up(self, handle),
            _ => false,
        };
        if taken_back {
            self.complete(handle, |status| status.cancelled = true);
        }
    }
}
