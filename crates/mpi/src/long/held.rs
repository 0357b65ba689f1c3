//! A receive takes a message that came before it.

use crate::engine::context::{Held, Unexpected};
use crate::engine::{Carrier, Engine};
use farpost_fabric::Fabric;

impl<F: Fabric, C: Carrier<F>> Engine<F, C> {
    /// Give a held message to the receive `handle`.
    pub(crate) fn deliver_held(&mut self, handle: usize, message: Unexpected) {
        self.discharge(message.peer, message.cost());
        let Unexpected {
            peer,
            envelope,
            held,
            sync,
            ..
        } = message;
        match held {
            Held::Data(data) => {
                self.deliver_bytes(handle, &envelope, &data);
                if let Some(request) = sync {
                    self.release_sender(peer, request);
                }
            }
            Held::Offered(offer) => {
                if !self.lost.is_empty()
                    && let Some(error) = self.lost_error(peer)
                {
                    // Who offered it is gone, and the bytes with it.
                    return self.fail(handle, error);
                }
                self.fetch(handle, peer, &envelope, &offer);
            }
            Held::ZeroCopy { total, number } => self.land(handle, peer, &envelope, total, number),
            Held::Carried { number, .. } => C::take_held(self, peer, &envelope, number, Some(handle)),
            Held::Own { request, .. } => self.deliver_own(handle, request, &envelope),
        }
    }
}
