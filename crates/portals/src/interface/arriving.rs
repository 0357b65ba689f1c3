//! What arrives: the interface as the network layer sees it. Matching is done here, where the message is found. Fast path.

use super::{Interface, InterfaceState};
use crate::bridge::{ENVELOPE_BYTES, Routes, open_envelope};
use crate::library::{DropReason, HEADER_BYTES, MessageKind, Outgoing, Verdict};
use crate::malformed::{self, error};
use crate::memory::{Segments, user};
use crate::net::{Channel, Outcome, Placement, RxId, Upper};
use crate::swap::Swap;
use crate::translate::fail_of;
use crate::types::NiFail;
use farpost_fabric::{Cost, Fabric, Peer, Work};

/// Answers that may wait for a pending before requests are refused: they come again.
const ANSWERS: usize = 64;

/// Whether a message asks for something, and is no answer.
#[inline(always)]
fn is_request(header: &[u8]) -> bool {
    matches!(header.first(), Some(kind) if *kind != MessageKind::Ack as u8
        && *kind != MessageKind::Reply as u8 && *kind != MessageKind::Nothing as u8
        && *kind != MessageKind::LostReply as u8)
}

/// What the taking in of a message costs that is not dropped.
#[inline(always)]
fn charge(fabric: &impl Fabric, header: &[u8]) {
    if is_request(header) {
        fabric.charge(Cost::Work(Work::PortalsReceive));
    }
    fabric.charge(Cost::Work(Work::PortalsEvent));
}

/// The interface as the network layer sees it.
pub(super) struct Upcalls<'a, F: Fabric>(pub(super) &'a Interface<F>);

impl<F: Fabric> Upcalls<'_, F> {
    /// A get-put whose bytes are here: exchange, and send what was there.
    fn exchange(&self, state: &mut InterfaceState, at: usize) {
        let swap = &mut state.swaps[at];
        let token = swap.token;
        let Some(old) = swap.exchange() else { return };
        self.0.fabric().charge(Cost::Copy(old.len()));
        match state.library.swapped(token, old) {
            Some(reply) => self.0.post(state, reply),
            None => self.0.forget_swap(state, token),
        }
    }

    /// A message with an envelope: that an agent sent for one of its clients, or of or for an interface beside an agent's. Nobody speaks for
    /// anybody else.
    #[inline(never)]
    fn arrived_by_agent(
        &mut self,
        from: Peer,
        bytes: &[u8],
        length: u64,
        inline: Option<&[u8]>,
    ) -> Placement {
        let me = self.0.number;
        let opened = open_envelope(bytes).filter(|(_, to, source)| {
            let right = |routes: &Routes| {
                (self.0.beside || routes.is_client(*source)) && routes.speaks_for(from, *source)
            };
            *to == me && self.0.routes.as_deref().is_some_and(right)
        });
        match opened {
            Some((header, _, source)) => self.matched(Peer(source), &header, length, inline),
            None => {
                self.refused(from, bytes, DropReason::Malformed);
                Placement::unwanted(inline.is_some() || length == 0)
            }
        }
    }

    /// A message of process or interface `from`.
    #[inline(always)]
    fn matched(&mut self, from: Peer, header: &[u8], length: u64, inline: Option<&[u8]>) -> Placement {
        let state = &mut *self.0.state.borrow_mut();
        if state.outbox[Channel::Answer as usize].len() >= ANSWERS && is_request(header) {
            // Whoever asks more than can be answered comes again.
            return Placement::Refuse;
        }
        let fabric = &**self.0.fabric();
        let searched = |entries| fabric.charge(Cost::Match(entries));
        let store = |memory: &Segments, at, bytes: &[u8]| {
            fabric.charge(Cost::Copy(bytes.len()));
            user::store_short(memory, at, bytes);
        };
        let library = &mut state.library;
        let verdict = match inline {
            _ if !state.open => library.incoming_while_closed(from.0, header, length),
            Some(body) => library.incoming_whole(from.0, header, body, store, searched),
            None => library.incoming_searched(from.0, header, length, searched),
        };
        if !matches!(verdict, Verdict::Drop { .. }) {
            charge(fabric, header);
        }
        let inline = if length == 0 { Some(&[][..]) } else { inline };
        let unwanted = Placement::unwanted(inline.is_some());
        match verdict {
            Verdict::Drop { reason, answer } => {
                self.drop(state, (from, header), reason, answer);
                unwanted
            }
            Verdict::Done => unwanted,
            Verdict::Reply(reply) => {
                self.0.post(state, reply);
                unwanted
            }
            Verdict::Store { token, keep, into } => {
                match inline {
                    Some(bytes) => {
                        fabric.charge(Cost::Copy(keep as usize));
                        user::store(&into, &bytes[..keep as usize]);
                    }
                    None if keep > 0 => {
                        return Placement::Keep {
                            token,
                            bytes: keep,
                            into,
                        };
                    }
                    None => {}
                }
                self.0.gone(state, token, NiFail::OK);
                unwanted
            }
            Verdict::Swap { token, keep, with } => {
                let at = state.swaps.len();
                let mut swap = Swap::new(token, keep, with, state.spare.pop());
                if let Some(bytes) = inline {
                    fabric.charge(Cost::Copy(keep as usize));
                    swap.fill(bytes);
                }
                state.swaps.push(swap);
                if inline.is_none() && keep > 0 {
                    return Placement::Keep {
                        token,
                        bytes: keep,
                        into: state.swaps[at].memory(),
                    };
                }
                self.exchange(state, at);
                unwanted
            }
        }
    }

    /// A message is dropped; its initiator is released, if it waits.
    #[cold]
    fn drop(
        &self,
        state: &mut InterfaceState,
        (from, header): (Peer, &[u8]),
        reason: DropReason,
        answer: Option<Outgoing>,
    ) {
        let fabric = &**self.0.fabric();
        fabric.add_register(fabric.me(), reason.register(), 1);
        self.refused(from, header, reason);
        if let Some(answer) = answer {
            self.0.post(state, answer);
        }
    }

    #[cold]
    fn refused(&self, from: Peer, header: &[u8], reason: DropReason) {
        if reason == DropReason::Malformed {
            let value = header.first().copied().map_or(u64::MAX, u64::from);
            malformed::record(&**self.0.fabric(), from, error!("a Portals header", value));
        }
    }
}

impl<F: Fabric> Upper for Upcalls<'_, F> {
    const AT_ONCE: usize = HEADER_BYTES;

    #[inline(always)]
    fn arrived(
        &mut self,
        _: RxId,
        from: Peer,
        header: &[u8],
        length: u64,
        inline: Option<&[u8]>,
    ) -> Placement {
        // Beside an agent's interface nothing is for the process itself.
        if header.len() == ENVELOPE_BYTES || self.0.beside {
            return self.arrived_by_agent(from, header, length, inline);
        }
        self.matched(from, header, length, inline)
    }

    #[inline(always)]
    fn arrived_at_once(&mut self, from: Peer, body: usize, word: impl Fn(usize) -> u64) -> bool {
        let state = &mut *self.0.state.borrow_mut();
        if !state.open || self.0.beside {
            return false;
        }
        let fabric = &**self.0.fabric();
        let words = [word(0), word(1), word(2), word(3)];
        let last = word(words.len());
        state.library.put_again(
            from.0,
            (words, last as u32),
            body as u64,
            #[inline(always)]
            |memory, at, kept| {
                fabric.charge(Cost::Match(1));
                fabric.charge(Cost::Work(Work::PortalsReceive));
                fabric.charge(Cost::Work(Work::PortalsEvent));
                fabric.charge(Cost::Copy(kept as usize));
                user::store_behind(memory, at, kept as usize, last, |index| word(5 + index));
            },
        )
    }

    #[inline]
    fn arrived_near(
        &mut self,
        from: Peer,
        header: &[u8],
        length: u64,
        fetch: impl FnOnce(&Segments, u64, u64),
    ) -> bool {
        let state = &mut *self.0.state.borrow_mut();
        if header.len() == ENVELOPE_BYTES
            || self.0.beside
            || !state.open
            || state.outbox[Channel::Answer as usize].len() >= ANSWERS
        {
            return false;
        }
        let searched = |entries| self.0.fabric().charge(Cost::Match(entries));
        match state
            .library
            .incoming_near(from.0, header, length, fetch, searched)
        {
            None => return false,
            Some(Verdict::Drop { reason, answer }) => self.drop(state, (from, header), reason, answer),
            Some(Verdict::Reply(reply)) => {
                charge(&**self.0.fabric(), header);
                self.0.post(state, reply);
            }
            Some(_) => charge(&**self.0.fabric(), header),
        }
        true
    }

    #[inline]
    fn deposited(&mut self, token: u64, outcome: Outcome) {
        let state = &mut *self.0.state.borrow_mut();
        if !state.swaps.is_empty()
            && outcome == Outcome::Done
            && let Some(at) = state.swaps.iter().position(|s| s.token == token)
        {
            return self.exchange(state, at);
        }
        self.0.gone(state, token, fail_of(outcome));
    }

    #[inline]
    fn sent(&mut self, token: u64, outcome: Outcome) {
        self.0
            .gone(&mut self.0.state.borrow_mut(), token, fail_of(outcome));
    }
}
