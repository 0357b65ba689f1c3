//! Cancelling sends (MPI-5.0 section 3.8.4): of one that was offered, or whose match is awaited, the receiver is told, behind the
//! message itself: if it holds the message unmatched, it drops it and says so; if not, a receive or a matched probe has it, and
//! the send ends as if nothing had been asked.

use crate::carrier::{Chosen, Engine};
use crate::engine::context::Held;
use crate::engine::request::{Send, SendState};
use crate::engine::{Carrier, wire};
use farpost_fabric::{Fabric, Line, Peer};

impl<F: Fabric> Engine<F> {
    /// Sender: ask the receiver to drop a message.
    pub(crate) fn ask_for_cancel(&mut self, handle: usize) {
        if let Some(send) = self.requests.send(handle) {
            let peer = send.peer;
            let mut line = [0; 8];
            line[0] = u64::from(wire::KIND_CANCEL) << 32;
            line[3] = handle as u64;
            Chosen::answer(self, peer, line);
        }
    }

    /// Receiver: the sender of a message would have it back.
    pub(crate) fn on_cancel(&mut self, peer: Peer, line: &Line) {
        let request = line[3];
        let taken = self.take_back(|message| {
            message.peer == peer
                && match message.held {
                    Held::Offered(offer) => offer.request == request,
                    Held::Data(_) => message.sync == Some(request),
                    _ => false,
                }
        });
        if taken {
            let mut answer = [0; 8];
            answer[0] = u64::from(wire::KIND_CANCELLED) << 32;
            answer[3] = request;
            Chosen::answer(self, peer, answer);
        }
    }

    /// Sender: the receiver has dropped the message. False: nobody asked it to.
    pub(crate) fn on_cancelled(&mut self, peer: Peer, line: &Line) -> bool {
        let handle = line[3] as usize;
        let Some(send) = self.requests.send(handle) else {
            self.fail_sender(peer, "the request of a cancelled send", line[3]);
            return false;
        };
        let Send {
            state, cancelling, ..
        } = *send;
        if send.peer != peer
            || !cancelling
            || !matches!(state, SendState::Matched | SendState::Offered { .. })
        {
            self.fail_sender(peer, "the request of a cancelled send", line[3]);
            return false;
        }
        self.end_offer(state);
        self.offered.retain(|offered| *offered != handle);
        self.complete(handle, |status| status.cancelled = true);
        true
    }
}
