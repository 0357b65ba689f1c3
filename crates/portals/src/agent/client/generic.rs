//! The objects of a generic client: matching is done here, moving by the agent.

use super::post::Mailbox;
use crate::bridge::mailbox::Title;
use crate::bridge::record::{Piece, SMALL, Words, command, event};
use crate::library::{HEADER_BYTES, Library, NO_TOKEN, Outgoing, Verdict, lose_body};
use crate::malformed::{Malformed, fail};
use crate::memory::{Segments, user};
use crate::net::Channel;
use crate::swap::Swap;
use crate::translate::channel_of;
use crate::types::NiFail;
use farpost_fabric::{Cost, Fabric};
use std::collections::VecDeque;

/// Memory that the agent may reach for an operation.
struct Lent {
    token: u64,
    pieces: Vec<Piece>,
    /// For the body of a request, of which the agent is to hear that it was dealt with.
    request: bool,
}

pub(super) struct GenericObjects {
    pub library: Library,
    outbox: [VecDeque<Outgoing>; 2],
    swaps: Vec<Swap>,
    lent: Vec<Lent>,
    /// Requests that were shown, and those of them whose bodies are on their way.
    requests: u64,
    receiving: u64,
}

impl GenericObjects {
    pub fn new(library: Library) -> Self {
        Self {
            library,
            outbox: Default::default(),
            swaps: Vec::new(),
            lent: Vec::new(),
            requests: 0,
            receiving: 0,
        }
    }

    /// Requests that have been answered, or need no answer.
    pub fn settled(&self) -> u64 {
        self.requests - self.receiving - self.outbox[Channel::Answer as usize].len() as u64
    }

    /// Whether all messages have been given to the agent.
    pub fn is_clear(&self) -> bool {
        self.outbox.iter().all(VecDeque::is_empty)
    }

    pub fn is_idle(&self) -> bool {
        self.outbox.iter().all(VecDeque::is_empty) && self.swaps.is_empty() && self.lent.is_empty()
    }

    /// Give the agent a message, in order of its channel.
    pub fn post<F: Fabric>(&mut self, mailbox: &mut Mailbox<F>, message: Outgoing) {
        self.outbox[channel_of(&message.header) as usize].push_back(message);
        self.empty_outbox(mailbox);
    }

    pub fn empty_outbox<F: Fabric>(&mut self, mailbox: &mut Mailbox<F>) -> bool {
        let mut moved = false;
        for channel in [Channel::Answer, Channel::Request] {
            while !self.outbox[channel as usize].is_empty() && mailbox.may_send(channel) {
                if let Some(message) = self.outbox[channel as usize].pop_front() {
                    self.give(mailbox, channel, message);
                    moved = true;
                }
            }
        }
        moved
    }

    fn give<F: Fabric>(&mut self, mailbox: &mut Mailbox<F>, channel: Channel, message: Outgoing) {
        let len = message.body.len();
        mailbox.count_given(message.to, len as u64);
        let title = (message.to, len, message.token, message.header);
        if len <= SMALL {
            let mut bytes = [0; SMALL];
            mailbox.fabric.charge(Cost::Copy(len));
            user::load(&message.body, &mut bytes[..len]);
            mailbox.command(command::SEND_SMALL, channel as u16, (title, &bytes[..len]));
            return self.finished(mailbox, message.token, NiFail::OK);
        }
        match mailbox.expose(&message.body, false) {
            Ok(pieces) => {
                mailbox.command(command::SEND, channel as u16, (title, &pieces[..]));
                self.lent.push(Lent {
                    token: message.token,
                    pieces,
                    request: false,
                });
            }
            Err(_) => {
                // The agent has been told of one more.
                let mut header = message.header;
                if !lose_body(&mut header, len as u64) {
                    header = [0xff; HEADER_BYTES];
                }
                let lost = (message.to, 0usize, NO_TOKEN, header);
                mailbox.command(command::SEND_SMALL, channel as u16, lost);
                self.finished(mailbox, message.token, NiFail::FAIL);
            }
        }
    }

    fn finished<F: Fabric>(&mut self, mailbox: &mut Mailbox<F>, token: u64, outcome: NiFail) {
        if token == NO_TOKEN {
            return;
        }
        self.swaps
            .retain(|swap| swap.token != token || !swap.is_exchanged());
        if let Some(answer) = self.library.finished(token, outcome) {
            self.post(mailbox, answer);
        }
    }

    pub fn event<F: Fabric>(
        &mut self,
        mailbox: &mut Mailbox<F>,
        title: Title,
        mut words: Words,
    ) -> Result<(), Malformed> {
        match title.kind {
            event::ARRIVED => {
                let (from, length, header): (u32, u64, [u8; HEADER_BYTES]) = words.read()?;
                let mut bytes = [0; SMALL];
                let inline = if title.aux == event::NO_PENDING {
                    if length > SMALL as u64 {
                        return fail!("the length of a short message", length);
                    }
                    words.bytes(&mut bytes[..length as usize])?;
                    Some(&bytes[..length as usize])
                } else {
                    None
                };
                mailbox.count_taken(from, length);
                self.arrived(mailbox, title.aux, from, &header, length, inline);
            }
            event::DEPOSITED | event::SENT => {
                let (token, outcome) = words.read()?;
                if let Some(at) = self.lent.iter().position(|lent| lent.token == token) {
                    let lent = self.lent.swap_remove(at);
                    self.receiving -= u64::from(lent.request);
                    mailbox.withdraw(&lent.pieces);
                }
                if title.kind == event::DEPOSITED
                    && outcome == NiFail::OK
                    && self.swaps.iter().any(|swap| swap.token == token)
                {
                    self.exchange(mailbox, token);
                } else {
                    self.swaps.retain(|swap| swap.token != token);
                    self.finished(mailbox, token, outcome);
                }
            }
            other => {
                return fail!("the kind of an event", other);
            }
        }
        Ok(())
    }

    fn arrived<F: Fabric>(
        &mut self,
        mailbox: &mut Mailbox<F>,
        pending: u16,
        from: u32,
        header: &[u8],
        length: u64,
        inline: Option<&[u8]>,
    ) {
        let request = header
            .first_chunk()
            .is_some_and(|h| channel_of(h) == Channel::Request);
        self.requests += u64::from(request);
        // The interrupt in which the system matches.
        mailbox.fabric.charge(Cost::Trap);
        let searched = |entries| mailbox.fabric.charge(Cost::Match(entries));
        match self.library.incoming_searched(from, header, length, searched) {
            Verdict::Drop { answer, reason } => {
                let fabric = &*mailbox.fabric;
                fabric.add_register(fabric.me(), reason.register(), 1);
                if let Some(answer) = answer {
                    self.post(mailbox, answer);
                }
            }
            Verdict::Done => {}
            Verdict::Reply(reply) => self.post(mailbox, reply),
            Verdict::Store { token, keep, into } => {
                match inline {
                    Some(bytes) => {
                        mailbox.fabric.charge(Cost::Copy(keep as usize));
                        user::store(&into, &bytes[..keep as usize]);
                    }
                    None if keep > 0 => return self.receive(mailbox, (pending, request), token, keep, &into),
                    None => {}
                }
                self.finished(mailbox, token, NiFail::OK);
            }
            Verdict::Swap { token, keep, with } => {
                let mut swap = Swap::new(token, keep, with, None);
                if let Some(bytes) = inline {
                    mailbox.fabric.charge(Cost::Copy(keep as usize));
                    swap.fill(bytes);
                }
                let into = swap.memory();
                self.swaps.push(swap);
                if inline.is_none() && keep > 0 {
                    return self.receive(mailbox, (pending, request), token, keep, &into);
                }
                self.exchange(mailbox, token);
            }
        }
        if inline.is_none() {
            mailbox.command(command::DISCARD, pending, ());
        }
    }

    /// Say where a message goes.
    fn receive<F: Fabric>(
        &mut self,
        mailbox: &mut Mailbox<F>,
        (pending, request): (u16, bool),
        token: u64,
        keep: u64,
        into: &Segments,
    ) {
        match mailbox.expose(into, true) {
            Ok(pieces) => {
                mailbox.command(command::RECEIVE, pending, (token, keep, &pieces[..]));
                self.lent.push(Lent {
                    token,
                    pieces,
                    request,
                });
                self.receiving += u64::from(request);
            }
            Err(_) => {
                mailbox.command(command::DISCARD, pending, ());
                self.swaps.retain(|swap| swap.token != token);
                self.finished(mailbox, token, NiFail::FAIL);
            }
        }
    }

    /// A get-put whose bytes are here.
    fn exchange<F: Fabric>(&mut self, mailbox: &mut Mailbox<F>, token: u64) {
        let Some(swap) = self.swaps.iter_mut().find(|swap| swap.token == token) else {
            return;
        };
        let Some(old) = swap.exchange() else { return };
        mailbox.fabric.charge(Cost::Copy(old.len()));
        match self.library.swapped(token, old) {
            Some(reply) => self.post(mailbox, reply),
            None => self.swaps.retain(|swap| swap.token != token),
        }
    }

    /// Nothing that waits for the agent will happen any more.
    pub fn agent_ended<F: Fabric>(&mut self, mailbox: &mut Mailbox<F>) {
        let mut tokens: Vec<u64> = self.lent.drain(..).map(|lent| lent.token).collect();
        for outbox in &mut self.outbox {
            tokens.extend(outbox.drain(..).map(|message| message.token));
        }
        for token in tokens.into_iter().filter(|token| *token != NO_TOKEN) {
            // Answers have nowhere to go.
            let _ = self.library.finished(token, NiFail::UNDELIVERABLE);
        }
        self.receiving = 0;
        self.swaps.clear();
        for peer in self.library.awaited() {
            self.library.peer_ended(peer);
        }
        mailbox.ended = true;
    }

    /// What is awaited from processes that have ended will not come.
    pub fn tell_of_the_ended<F: Fabric>(&mut self, mailbox: &Mailbox<F>) {
        for number in self.library.awaited() {
            if mailbox.fabric.has_ended(mailbox.routes.process_of(number)) {
                self.library.peer_ended(number);
            }
        }
    }
}
