//! Progress: what Portals has logged, and what follows from it.

use super::managed::Place;
use super::{Portals, Seen, bits, questions, user};
use crate::Error;
use crate::carrier::{Chosen, Engine};
use crate::engine::request::{Operation, RecvState, SendState};
use farpost_fabric::{End, Fabric};
use farpost_portals::{EventKind, NetworkInterface, NiFail};

impl<F: Fabric> Portals<F> {
    /// The next event of operations of ours and of posted receives.
    #[inline]
    fn next(&self) -> Option<Seen> {
        let busy = self.queues.iter().filter(|queue| queue.reserved > 0);
        busy.map(|queue| queue.eq)
            .find_map(|eq| self.ni.eq_take(eq, Seen::of))
    }
}

impl<F: Fabric> Engine<F> {
    /// Let everything move that can. True: something did.
    #[inline]
    pub(crate) fn progress_portals(&mut self) -> bool {
        let portals = portals!(self, false);
        let mut moved = portals.ni.progress();
        if moved || portals.needs_progress {
            portals.needs_progress = false;
            moved |= self.note_unexpected();
            self.note_returned();
            moved |= self.note_events();
            self.enter_behind();
        }
        if !self.busy.is_empty() {
            return self.push_by_portals() | moved;
        }
        moved
    }

    /// Take in the events of operations of ours and of posted receives.
    #[inline]
    pub(crate) fn note_events(&mut self) -> bool {
        let mut any = false;
        let portals = portals!(self, false);
        if !portals.leftovers.is_empty() {
            portals.unlink_leftovers();
        }
        while let Some(seen) = self.carrier.portals().and_then(|portals| portals.next()) {
            any = true;
            self.note_event(&seen);
        }
        // What has ended made room.
        if let Chosen::Portals(portals) = &mut self.carrier
            && !portals.wanted.is_empty()
        {
            portals.answer_wants();
        }
        self.fetch_later();
        any
    }

    /// Take in one of them.
    pub(super) fn note_event(&mut self, seen: &Seen) {
        let lost = match seen.fail {
            NiFail::UNDELIVERABLE => self.carrier.portals_mut().map(|portals| portals.other_of(seen)),
            _ => None,
        };
        let lost = lost.filter(|peer| *peer != self.me);
        let told = lost.and_then(|peer| {
            let by_agent =
                |portals: &Portals<F>| portals.agents.as_ref()?.end_of(&*self.fabric, self.me, peer);
            let fabric = self.fabric.end_of(peer);
            fabric.or_else(|| by_agent(self.carrier.portals()?))
        });
        match (seen.user & ((1 << user::BITS) - 1), seen.kind) {
            (user::POSTED, EventKind::PutEnd) => self.on_received(seen),
            (user::POSTED, _) => {}
            (user::FETCH, EventKind::ReplyEnd) => self.on_got(seen),
            (user::FETCH, _) => {}
            _ => {
                let over = self.carrier.portals_mut().and_then(|p| p.on_send_event(seen));
                if let Some(sending) = over
                    && let Some(handle) = sending.request
                {
                    let error = sending.error().map(|error| match &told {
                        Some(end) => Error::new(error.class, end.why.clone()),
                        None => error,
                    });
                    self.complete(handle, |status| status.error = error.map(Box::new));
                }
            }
        }
        if let Some(peer) = lost {
            let end = told.unwrap_or_else(|| End {
                why: format!("{peer} cannot be reached: its process, or an agent on the way, has ended"),
                in_order: false,
            });
            self.lose(peer, end);
        }
    }

    /// List what came and nobody waited for. True: something did.
    pub(super) fn note_unexpected(&mut self) -> bool {
        let mut any = false;
        while let Chosen::Portals(portals) = &mut self.carrier
            && let Some(seen) = portals.ni.eq_take(portals.unexpected, Seen::of)
        {
            any = true;
            if seen.user == user::REST {
                let (_, id) = bits::of_header(seen.data);
                let place = match seen.fail {
                    NiFail::OK => Place::Kept { id },
                    fail => Place::Failed(fail),
                };
                self.on_unexpected(&seen, place);
                continue;
            }
            let buffer = seen.number();
            match seen.kind {
                EventKind::PutStart => {
                    let (link, at) = (seen.link, seen.offset as usize);
                    self.on_unexpected(&seen, Place::Coming { link, buffer, at });
                }
                EventKind::PutEnd => {
                    if let Some(number) = portals.managed.arrived(seen.link, seen.fail) {
                        self.on_arrived(number);
                    }
                }
                EventKind::Unlink => {
                    let renewed = portals.managed.renew(&*portals.fabric, &portals.ni, buffer);
                    debug_assert!(Portals::<F>::begun(renewed), "{renewed:?}");
                }
                _ => {}
            }
        }
        any
    }

    /// Take in credits.
    fn note_returned(&mut self) {
        while let Chosen::Portals(portals) = &mut self.carrier
            && let Some(seen) = portals.ni.eq_take(portals.returned, Seen::of)
        {
            if seen.kind != EventKind::PutEnd {
                continue;
            }
            let right = if questions::is_word(seen.data) {
                self.on_word(&seen)
            } else {
                portals.paid(seen.from, seen.data)
            };
            if !right {
                let what = "the credits that it returns, or what it asks or answers";
                self.note_corrupt(seen.from, what, seen.data);
            }
        }
    }

    /// What was begun with Portals for a request that fails now. False: it is about to come to a good end.
    pub(crate) fn give_up_by_portals(&mut self, handle: usize) -> bool {
        let portals = portals!(self, true);
        match self.requests.get(handle).map(|request| &request.operation) {
            Some(Operation::Send(send)) => {
                if let SendState::Carried { number: index } = send.state {
                    portals.abandon(index);
                }
            }
            Some(Operation::Recv(recv)) => match recv.state {
                RecvState::Entered { number: entry } => {
                    if !portals.disarm(entry) {
                        return false;
                    }
                    let context = recv.context;
                    self.contexts[context].queues.left();
                }
                RecvState::Posted => portals.posted.remove_behind(handle),
                RecvState::Coming { number, .. } => portals.drop_message(number),
                RecvState::Got { fetch, peer } => {
                    let lost = self.lost.contains_key(&peer.0);
                    portals.want_no_more(handle, lost);
                    portals.abandon_fetch(fetch, lost);
                }
                _ => {}
            },
            _ => {}
        }
        true
    }
}
