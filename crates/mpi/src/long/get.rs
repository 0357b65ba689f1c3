//! No copy: the sender exposes its buffer, and the receiver, once matched, has the fabric get it straight into its own.

use crate::engine::lost::of_transfer;
use crate::engine::request::{Operation, Recv, RecvState, Request};
use crate::engine::{Carrier, Engine};
use farpost_fabric::{Completion, Fabric, FabricError, Peer};

impl<F: Fabric, C: Carrier<F>> Engine<F, C> {
    /// Receiver, with a buffer that is one run: get `wanted` bytes at `from` (position and key in the sender).
    pub(super) fn get_remote(
        &mut self,
        handle: usize,
        (peer, request): (Peer, u64),
        from: (u64, u64),
        wanted: u64,
    ) {
        let Some((recv, _)) = self.requests.recv_mut(handle) else {
            return;
        };
        match recv.buf.start_get(&*self.fabric, peer, from, wanted) {
            // The step was chosen for a buffer in one run.
            None => self.ask(handle, peer, request, wanted),
            Some(Ok(Completion::Pending(ticket))) => {
                recv.state = RecvState::Fetching {
                    peer,
                    ticket,
                    sender: request,
                };
                self.fetching.push(handle);
            }
            Some(Ok(Completion::Done)) => self.end_of_get(handle, (peer, request), Ok(())),
            Some(Err(error)) => self.end_of_get(handle, (peer, request), Err(error)),
        }
    }

    /// Receiver: transfers that have ended.
    pub(crate) fn serve_fetching(&mut self) -> bool {
        let mut moved = false;
        for index in (0..self.fetching.len()).rev() {
            let Some(&handle) = self.fetching.get(index) else {
                continue;
            };
            let Some(Request {
                operation:
                    Operation::Recv(Recv {
                        state: RecvState::Fetching { peer, ticket, sender },
                        ..
                    }),
                ..
            }) = self.requests.get(handle)
            else {
                self.fetching.swap_remove(index);
                continue;
            };
            let (peer, sender) = (*peer, *sender);
            let result = match self.fabric.poll_transfer(*ticket) {
                Ok(false) => continue,
                Ok(true) => Ok(()),
                Err(error) => Err(error),
            };
            self.fetching.swap_remove(index);
            self.end_of_get(handle, (peer, sender), result);
            moved = true;
        }
        moved
    }

    /// Receiver: the bytes are here or will not come; the sender is told.
    pub(super) fn end_of_get(
        &mut self,
        handle: usize,
        (peer, request): (Peer, u64),
        result: Result<(), FabricError>,
    ) {
        self.answer_done(peer, request);
        self.finish_transfer(handle, result);
    }

    /// A request ends with its transfer.
    pub(super) fn finish_transfer(&mut self, handle: usize, result: Result<(), FabricError>) {
        self.complete(handle, |status| {
            if let Err(error) = result {
                status.error.get_or_insert(Box::new(of_transfer(&error)));
            }
        });
    }
}
