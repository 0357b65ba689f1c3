//! Data movement (section 3.13) and what leaves: operations, answers, and what waits for a pending. Fast path.

use super::{Interface, InterfaceState};
use crate::backend::Waiting;
use crate::bridge::envelope;
use crate::error::Error;
use crate::library::{HEADER_BYTES, Library, NO_TOKEN, Outgoing, Target};
use crate::memory::user;
use crate::net::{Channel, Departure};
use crate::translate::channel_of;
use crate::types::{AckReq, Handle, NiFail};
use farpost_fabric::{Cost, Fabric, Peer, Work};
use std::cell::RefMut;
use std::collections::VecDeque;

impl<F: Fabric> Interface<F> {
    /// A put that fits into a packet and leaves here and now. False: nothing has happened, it takes the ordinary way.
    #[inline(always)]
    pub(super) fn put_at_once(
        &self,
        md: Handle,
        region: Option<(u64, u64)>,
        ack: AckReq,
        target: &Target,
        hdr_data: u64,
    ) -> Result<bool, Error> {
        let mut borrowed = self.state.borrow_mut();
        let state = &mut *borrowed;
        // What waits goes first.
        if !state.open || self.waiting.get() {
            return Ok(false);
        }
        let sent = state.library.put_at_once(
            md,
            region,
            ack,
            target,
            hdr_data,
            #[inline(always)]
            |to, header, body| {
                if self.routes.as_ref().is_some_and(|_| self.has_envelope(to)) {
                    return false;
                }
                let (words, half) = header.words();
                self.net.send_now(
                    Peer(to),
                    Channel::Request,
                    (HEADER_BYTES, body.len),
                    #[inline(always)]
                    |packet| user::compose(packet, &words, half, body),
                )
            },
        )?;
        if state.library.has_handled() {
            drop(borrowed);
            self.run_handlers();
        }
        Ok(sent)
    }

    /// Begin an operation: it is on its way before it is counted and logged.
    #[inline]
    pub(super) fn start(
        &self,
        prepare: impl FnOnce(&mut Library) -> Result<Outgoing, Error>,
    ) -> Result<(), Error> {
        let mut borrowed = self.state.borrow_mut();
        let state = &mut *borrowed;
        if !state.open {
            return Err(Error::NiInvalid);
        }
        let message = prepare(&mut state.library)?;
        let departure = match state.outbox[Channel::Request as usize].is_empty() {
            true => self.try_send(Channel::Request, &message),
            false => None,
        };
        state.library.started(message.token);
        match departure {
            Some(Departure::Gone) => self.gone(state, message.token, NiFail::OK),
            Some(Departure::Waits) => {}
            None => self.queue(state, Channel::Request, message),
        }
        self.after(borrowed);
        Ok(())
    }

    /// A call of the program's is about to return.
    #[inline]
    pub(super) fn after(&self, state: RefMut<'_, InterfaceState>) {
        let handled = state.library.has_handled();
        drop(state);
        if self.waiting.get() {
            // Programs that only send make room here.
            self.advance();
        } else if handled {
            self.run_handlers();
        }
    }

    /// Whether a message for `to` has to say for whom it is, or of whom.
    #[inline]
    fn has_envelope(&self, to: u32) -> bool {
        self.beside || self.routes.as_ref().is_some_and(|routes| routes.is_client(to))
    }

    #[inline]
    fn try_send(&self, channel: Channel, message: &Outgoing) -> Option<Departure> {
        let Outgoing {
            to,
            header,
            body,
            token,
        } = message;
        let send = |to, header: &[u8]| self.net.send(to, channel, header, body, *token).ok();
        match &self.routes {
            Some(routes) if self.has_envelope(*to) => {
                send(routes.via(*to)?, &envelope(header, *to, self.number))
            }
            _ => send(Peer(*to), header),
        }
    }

    #[cold]
    fn queue(&self, state: &mut InterfaceState, channel: Channel, message: Outgoing) {
        state.outbox[channel as usize].push_back(message);
        self.waiting.set(true);
    }

    /// Send a message, or let it wait for a pending. Those of one channel keep their order.
    #[inline]
    pub(super) fn post(&self, state: &mut InterfaceState, message: Outgoing) {
        let channel = channel_of(&message.header);
        if !state.outbox[channel as usize].is_empty() || !self.send(state, channel, &message) {
            self.queue(state, channel, message);
        }
    }

    #[inline]
    fn send(&self, state: &mut InterfaceState, channel: Channel, message: &Outgoing) -> bool {
        let departure = self.try_send(channel, message);
        if departure == Some(Departure::Gone) {
            self.gone(state, message.token, NiFail::OK);
        }
        departure.is_some()
    }

    /// The memory of a message's body is free again.
    #[inline]
    pub(super) fn gone(&self, state: &mut InterfaceState, token: u64, outcome: NiFail) {
        if token == NO_TOKEN {
            return;
        }
        self.fabric().charge(Cost::Work(Work::PortalsEvent));
        if !state.swaps.is_empty() {
            self.forget_swap(state, token);
        }
        if let Some(answer) = state.library.finished(token, outcome) {
            self.post(state, answer);
        }
    }

    #[cold]
    pub(super) fn forget_swap(&self, state: &mut InterfaceState, token: u64) {
        if let Some(at) = state.swaps.iter().position(|s| s.token == token) {
            let over = state.swaps.swap_remove(at);
            state.spare.push(over);
        }
    }

    /// Send what waits for pendings, answers first. What one target has no share for holds up none to others.
    #[cold]
    pub(super) fn empty_outbox(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        let (mut moved, mut held_up) = (false, Vec::new());
        for channel in [Channel::Answer, Channel::Request] {
            held_up.clear();
            let mut kept = VecDeque::new();
            while let Some(message) = state.outbox[channel as usize].pop_front() {
                if self.net.available(channel) == 0 {
                    kept.push_back(message);
                    break;
                }
                if held_up.contains(&message.to) || !self.send(state, channel, &message) {
                    held_up.push(message.to);
                    kept.push_back(message);
                } else {
                    moved = true;
                }
            }
            kept.append(&mut state.outbox[channel as usize]);
            state.outbox[channel as usize] = kept;
        }
        self.waiting
            .set(state.outbox.iter().any(|waiting| !waiting.is_empty()));
        moved
    }
}
