//! What clients ask of an agent. Everything here is input from another process.

use super::moves::Move;
use super::state::{ARRIVALS, BodyAt, Core, Item, Job, Lower, Moving, Order, Purpose};
use crate::bridge::Mode;
use crate::bridge::mailbox::{EVENTS, Title, title};
use crate::bridge::record::{SMALL, Words, command, event};
use crate::error::Error;
use crate::library::{NO_TOKEN, Outgoing};
use crate::malformed::{Malformed, fail};
use crate::net::{Channel, Placement};
use crate::types::NiFail;
use farpost_fabric::{Direction, Fabric};

/// Commands of one client in a turn.
const BURST: usize = 16;
/// Lines of the event queue that an accelerated client's events leave free: for what the agent asks of it.
const RESERVE: u32 = 8;
/// Lines of an event.
const EVENT_LINES: u32 = 4;
/// With fewer lines left, it is looked how many the client has taken meanwhile.
const MUCH: u32 = EVENTS / 2;

/// Whether a command begins an operation whose objects are here.
fn begins(kind: u8) -> bool {
    matches!(kind, command::PUT | command::GET | command::GET_PUT)
}

impl<F: Fabric> Core<F> {
    /// Do what a client asks. True: it asked for something.
    #[inline]
    pub fn serve(&mut self, at: usize) -> bool {
        let mut moved = false;
        for _ in 0..BURST {
            let entry = &mut self.clients[at];
            entry.held = false;
            let Some(kind) = entry.commands.kind().filter(|_| !entry.is_waived()) else {
                break;
            };
            if begins(kind) && !entry.objects.has_room_for_events(true) {
                entry.held = true;
                break;
            }
            entry.stalled = false;
            let mut words = std::mem::take(&mut self.words);
            let done = match entry.commands.take_into(&mut words) {
                Ok(None) => {
                    self.words = words;
                    break;
                }
                Ok(Some(title)) => self.obey(at, title, Words(&words)),
                Err(bad) => Err(bad),
            };
            self.words = words;
            moved = true;
            if let Err(bad) = done {
                self.fault(at, bad);
            }
        }
        moved
    }

    fn obey(&mut self, at: usize, title: Title, words: Words) -> Result<(), Malformed> {
        let Some(mode) = self.clients[at].mode else {
            return match title.kind {
                command::HELLO => self.hello(at, title, words),
                other => fail!("a command before the first", other),
            };
        };
        let generic = mode == Mode::Generic;
        match title.kind {
            kind if begins(kind) && !generic => self.initiate(at, title, words),
            command::PUT_HEADER if !generic => self.initiate_header(at, words),
            command::SEND | command::SEND_SMALL if generic => self.send(at, title, words),
            command::RECEIVE | command::DISCARD if generic => self.receive(at, title, words),
            command::CARRIED => self.client_moved(at, title, words),
            command::ME_ATTACH..=command::INTERFACE_OF if !generic => self.call(at, title, words),
            command::ACCEPT => {
                self.clients[at].accepts = true;
                Ok(())
            }
            command::BYE => {
                self.bye(at);
                Ok(())
            }
            other => fail!("the kind of a command", other),
        }
    }

    /// One more message of a client's, of those that may wait here.
    fn count(&mut self, at: usize, channel: usize) -> Result<(), Malformed> {
        let most = self.config.sends;
        let entry = &mut self.clients[at];
        entry.given[channel] += 1;
        let waiting = entry.given[channel] - entry.control.sent[channel];
        if waiting > most {
            return fail!("the number of messages given", waiting);
        }
        Ok(())
    }

    fn send(&mut self, at: usize, title: Title, mut words: Words) -> Result<(), Malformed> {
        let channel = usize::from(title.aux);
        if channel > 1 {
            return fail!("the channel of a message", title.aux);
        }
        let to = words.at_most("the number of a process", u64::from(self.routes.size() - 1))? as u32;
        let len = words.at_most("the length of a message", isize::MAX as u64)?;
        let (token, header) = words.read()?;
        let body = if title.kind == command::SEND_SMALL {
            if len > SMALL as u64 {
                return fail!("the length of a short message", len);
            }
            let mut bytes = [0; SMALL];
            words.bytes(&mut bytes[..len as usize])?;
            BodyAt::Small(bytes, len as u8)
        } else {
            let pieces = self.lists.read(&mut words)?;
            if pieces.len() != len || len == 0 {
                return fail!("the length of a message", len);
            }
            BodyAt::Away(pieces)
        };
        self.count(at, channel)?;
        // Short ones are copied: the client does not wait for a word of them.
        let token = if title.kind == command::SEND_SMALL {
            NO_TOKEN
        } else {
            token
        };
        self.clients[at].items[channel].push_back(Item {
            to,
            header,
            len,
            body,
            token,
            counted: true,
        });
        Ok(())
    }

    fn receive(&mut self, at: usize, title: Title, mut words: Words) -> Result<(), Malformed> {
        let place = usize::from(title.aux);
        let id = match self.clients[at].lower.get(place).copied() {
            Some(Lower::Shown(id)) => id,
            Some(Lower::Lost) => {
                self.clients[at].lower[place] = Lower::Free;
                if title.kind == command::RECEIVE {
                    let token = words.next()?;
                    self.post_outcome(at, event::DEPOSITED, token, NiFail::FAIL);
                }
                return Ok(());
            }
            _ => return fail!("a pending", title.aux),
        };
        if title.kind == command::DISCARD {
            self.clients[at].lower[place] = Lower::Free;
            self.placements.push((id, Placement::Discard));
            return Ok(());
        }
        let token = words.next()?;
        let keep = words.at_most("the length of a message", isize::MAX as u64)?;
        let pieces = self.lists.read(&mut words)?;
        if pieces.len() != keep || keep == 0 {
            return fail!("the length of a message", keep);
        }
        let orders = &mut self.clients[at].orders;
        if orders.len() >= self.sizes.pendings {
            return fail!("a pending", title.aux);
        }
        orders.push_back(Order {
            pending: title.aux,
            token,
            keep,
            pieces,
        });
        Ok(())
    }

    /// Let messages come for which a generic client has said where they go, as long as there is memory.
    #[inline]
    pub fn receive_orders(&mut self, at: usize) -> bool {
        let mut moved = false;
        while !self.clients[at].orders.is_empty() {
            if !self.receive_order(at) {
                break;
            }
            moved = true;
        }
        moved
    }

    /// False: not now.
    fn receive_order(&mut self, at: usize) -> bool {
        let entry = &mut self.clients[at];
        let Some((pending, keep)) = entry.orders.front().map(|order| (order.pending, order.keep)) else {
            return false;
        };
        let Some(Lower::Shown(id)) = entry.lower.get(usize::from(pending)).copied() else {
            // Asked for twice.
            entry.orders.pop_front();
            return true;
        };
        let possible = self.arenas[ARRIVALS].could_hold(keep);
        if possible && self.jobs.is_full() {
            return false;
        }
        let room = self.arenas[ARRIVALS].take(keep);
        if possible && room.is_none() {
            return false;
        }
        let Some(order) = entry.orders.pop_front() else {
            return false;
        };
        entry.lower[usize::from(pending)] = Lower::Receiving;
        let Some(room) = room else {
            self.placements.push((id, Placement::Discard));
            self.stored(at, order.token, Some(pending), NiFail::FAIL);
            return true;
        };
        let into = self.arenas[ARRIVALS].memory(room, 0, keep as usize);
        let moving = Moving {
            client: at,
            era: entry.era,
            mv: Move::new(order.pieces, Direction::Put, (ARRIVALS, room, 0), keep as usize),
            purpose: Purpose::Deposit(order.token, Some(pending)),
        };
        if let Some(token) = self.jobs.insert(Job::Moving(moving)) {
            let bytes = keep;
            self.placements.push((id, Placement::Keep { token, bytes, into }));
        }
        true
    }

    /// Put, get, get-put of an accelerated client. What is wrong with them does nothing, as section 3.10.1 has it of an
    /// inactive descriptor: there is no result to tell it in.
    fn initiate(&mut self, at: usize, title: Title, mut words: Words) -> Result<(), Malformed> {
        self.count(at, Channel::Request as usize)?;
        let (md, other, (is_region, region), target, (ack, hdr_data)): (_, _, (bool, _), _, _) =
            words.read()?;
        let region = is_region.then_some(region);
        let inline = words.at_most("the length of a short message", SMALL as u64)? as usize;
        self.forward(at);
        let objects = &mut self.clients[at].objects;
        objects.dirty = true;
        let started: Result<Outgoing, Error> = match title.kind {
            command::PUT => objects.library.prepare_put(md, region, ack, &target, hdr_data),
            command::GET => objects.library.get(md, region, &target),
            _ => objects.library.prepare_get_put(md, other, &target, hdr_data),
        };
        let Ok(message) = started else {
            self.clients[at].control.sent[Channel::Request as usize] += 1;
            return Ok(());
        };
        objects.library.started(message.token);
        if inline > 0 && message.body.len() == inline {
            // The body has come along.
            let mut bytes = [0; SMALL];
            words.bytes(&mut bytes[..inline])?;
            self.clients[at].items[Channel::Request as usize].push_back(Item {
                to: message.to,
                header: message.header,
                len: inline as u64,
                body: BodyAt::Small(bytes, inline as u8),
                token: message.token,
                counted: true,
            });
        } else {
            self.push(at, Channel::Request, message, true);
        }
        Ok(())
    }

    /// A put of an accelerated client of which only the header goes.
    fn initiate_header(&mut self, at: usize, mut words: Words) -> Result<(), Malformed> {
        self.count(at, Channel::Request as usize)?;
        let (target, length, hdr_data) = words.read()?;
        match self.clients[at]
            .objects
            .library
            .put_header(length, &target, hdr_data)
        {
            Ok(message) => self.push(at, Channel::Request, message, true),
            Err(_) => self.clients[at].control.sent[Channel::Request as usize] += 1,
        }
        Ok(())
    }

    /// Calls of an accelerated client that have a result.
    fn call(&mut self, at: usize, title: Title, words: Words) -> Result<(), Malformed> {
        let entry = &mut self.clients[at];
        let Some(link) = &mut entry.link else {
            return Ok(());
        };
        let code = entry.objects.call(title, words, &mut self.pen)?;
        let posted = link.results.put(Title { kind: 1, aux: code }, &self.pen.0);
        // One call at a time: what there is a result for has been taken.
        link.results.told(link.results.written());
        entry.ring = true;
        if posted == Ok(true) {
            Ok(())
        } else {
            fail!("a mailbox that can be reached", 0)
        }
    }

    /// Give an accelerated client the events of its queues: before anything else is logged there, for a queue may be short.
    #[inline]
    pub fn forward(&mut self, at: usize) -> bool {
        let entry = &mut self.clients[at];
        if !std::mem::take(&mut entry.objects.dirty) {
            return false;
        }
        if entry.link.as_ref().is_some_and(|link| link.events.room() < MUCH) {
            self.hear(at);
        }
        let entry = &mut self.clients[at];
        let Some(link) = &mut entry.link else {
            return false;
        };
        let pen = &mut self.pen;
        let mut moved = false;
        let objects = &mut entry.objects;
        for queue in &mut objects.queues {
            loop {
                if link.events.room() < EVENT_LINES + RESERVE {
                    objects.dirty |= objects.library.eq_has_events(queue.handle).unwrap_or(false);
                    break;
                }
                let Ok((event, dropped)) = objects.library.eq_take(queue.handle) else {
                    break;
                };
                let title = title(event::EVENT, u16::from(dropped));
                let _ = link.events.put(title, pen.begin((queue.handle, event)));
                queue.forwarded += 1;
                entry.figures.events += 1;
                entry.ring = true;
                moved = true;
            }
        }
        moved
    }
}
