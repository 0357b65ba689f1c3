//! Long messages between hosts: the sender exposes its buffer, the receiver, once matched, has the fabric get it
//! straight into its own.

use crate::engine::Engine;
use crate::engine::request::{Operation, RecvState, Request};
use farpost_fabric::{Completion, Fabric, Peer};

impl<F: Fabric> Engine<F> {
    /// Receiver: get `wanted` bytes at `from` (position and key in the sender). False: not this way.
    pub(crate) fn get_remote(
        &mut self,
        handle: usize,
        peer: Peer,
        sender: u64,
        (position, key): (u64, u64),
        wanted: u64,
    ) -> bool {
        let Some(Request {
            operation: Operation::Recv(recv),
            ..
        }) = self.requests.get_mut(handle)
        else {
            return true;
        };
        match recv.buf.start_get(&*self.fabric, peer, (position, key), wanted) {
            None => return false,
            Some(Ok(Completion::Pending(ticket))) => {
                recv.state = RecvState::Fetching { peer, ticket, sender };
                self.fetching.push(handle);
            }
            Some(Ok(Completion::Done)) => self.got(handle, peer, sender, Ok(())),
            Some(Err(error)) => self.got(handle, peer, sender, Err(error)),
        }
        true
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
                    Operation::Recv(crate::engine::request::Recv {
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
            self.got(handle, peer, sender, result);
            moved = true;
        }
        moved
    }

    fn got(
        &mut self,
        handle: usize,
        peer: Peer,
        sender: u64,
        result: Result<(), farpost_fabric::FabricError>,
    ) {
        self.answer_done(peer, sender);
        self.complete(handle, |status| {
            if let Err(error) = result {
                let error = crate::engine::lost::of_transfer(&error);
                status.error.get_or_insert(Box::new(error));
            }
        });
    }
}
