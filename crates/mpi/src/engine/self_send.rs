//! Messages of a process to itself: they never see the fabric.

use super::context::Held;
use super::deliver::fit;
use super::envelope::Envelope;
use super::request::{Mode, Operation, Payload, Request, Send, SendState};
use super::{Carrier, Engine};
use crate::Result;
use farpost_fabric::Fabric;

/// Messages up to this size are copied when nobody receives them yet.
const COPIED_MAX: u64 = 16 << 10;

impl<F: Fabric, C: Carrier<F>> Engine<F, C> {
    /// Start a send to this process.
    pub(crate) fn send_to_self(
        &mut self,
        envelope: Envelope,
        payload: Payload,
        mode: Mode,
    ) -> Result<Option<usize>> {
        let context = self.context(envelope.context);
        if let Some(handle) = self.match_posted(context, &envelope) {
            self.copy_own(handle, &payload, &envelope);
            return Ok(None);
        }
        let total = payload.bytes();
        if mode == Mode::Standard && total <= COPIED_MAX && !self.is_held_back.get(self.me) {
            let mut data = vec![0; total as usize].into_boxed_slice();
            payload.pack_on(&*self.fabric, 0, &mut data);
            self.hold(self.me, context, envelope, Held::Data(data), None);
            return Ok(None);
        }
        let send = Send {
            peer: self.me,
            payload,
            envelope,
            state: SendState::Matched,
            for_space: mode == Mode::Standard && total <= COPIED_MAX,
            cancelling: false,
        };
        let request = self
            .requests
            .insert(Request::new(Operation::Send(Box::new(send))))?;
        self.hold(self.me, context, envelope, Held::Own { request, total }, None);
        Ok(Some(request))
    }

    /// A receive meets a message that is still in its sender's buffer: ours.
    pub(crate) fn deliver_own(&mut self, handle: usize, sender: usize, envelope: &Envelope) {
        let Some(request) = self.requests.get_mut(sender) else {
            return;
        };
        let Operation::Send(send) = std::mem::replace(&mut request.operation, Operation::Idle) else {
            return;
        };
        self.copy_own(handle, &send.payload, envelope);
        self.complete(sender, |_| {});
    }

    fn copy_own(&mut self, handle: usize, payload: &Payload, envelope: &Envelope) {
        let Some(recv) = self.requests.recv(handle) else {
            return;
        };
        let (wanted, error) = fit(&recv.buf, payload.class(), payload.bytes());
        match payload.contiguous() {
            Some(data) => {
                recv.buf.unpack_on(&*self.fabric, 0, &data[..wanted as usize]);
            }
            None => {
                let mut packed = [0; 4096];
                let mut at = 0;
                while at < wanted {
                    let want = (packed.len() as u64).min(wanted - at) as usize;
                    let n = payload.pack_on(&*self.fabric, at, &mut packed[..want]);
                    recv.buf.unpack_on(&*self.fabric, at, &packed[..n]);
                    at += n as u64;
                }
            }
        }
        self.finish_recv(handle, envelope, wanted, error);
    }
}
