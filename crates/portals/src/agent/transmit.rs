//! What clients send, and what they are told of it.

use super::moves::Move;
use super::state::{BodyAt, Core, Item, Job, Lower, Moving, Purpose};
use crate::bridge::mailbox::title;
use crate::bridge::record::{SMALL, event};
use crate::bridge::{Mode, Routes, envelope};
use crate::library::{NO_TOKEN, Outgoing, lose_body};
use crate::malformed::error;
use crate::memory::{Segments, user};
use crate::net::{Channel, Departure, Net};
use crate::types::NiFail;
use farpost_fabric::{Cost, Direction, Fabric};

impl<F: Fabric> Core<F> {
    /// Post what a generic client always has room for, unless it lies about what it has taken.
    pub fn post_outcome(&mut self, at: usize, kind: u8, token: u64, outcome: NiFail) {
        let words = [token, u64::from(outcome.0)];
        let entry = &mut self.clients[at];
        if entry.mode.is_some() && !entry.post(title(kind, 0), &words) {
            self.fault(at, error!("the number of events taken", token));
        }
    }

    /// The memory of a message's body is free again, or what was to be stored is.
    #[inline]
    pub fn finished(&mut self, at: usize, token: u64, outcome: NiFail) {
        if token == NO_TOKEN {
            return;
        }
        match self.clients[at].mode {
            Some(Mode::Generic) => self.post_outcome(at, event::SENT, token, outcome),
            Some(Mode::Accelerated) => {
                self.forward(at);
                if let Some(answer) = self.clients[at].objects.library.finished(token, outcome) {
                    self.push(at, Channel::Answer, answer, false);
                }
                self.clients[at].objects.dirty = true;
            }
            None => {}
        }
    }

    /// A message of an accelerated client's, or an answer in the name of one that is not open.
    #[inline]
    pub fn push(&mut self, at: usize, channel: Channel, message: Outgoing, counted: bool) {
        let entry = &mut self.clients[at];
        let body = if message.body.is_empty() {
            BodyAt::Small([0; SMALL], 0)
        } else {
            match entry.mode {
                Some(Mode::Accelerated) => entry
                    .objects
                    .pieces_of(&self.lists, message.token, &message.body)
                    .map_or(BodyAt::Lost, BodyAt::Away),
                _ => BodyAt::Lost,
            }
        };
        entry.items[channel as usize].push_back(Item {
            to: message.to,
            header: message.header,
            len: message.body.len() as u64,
            body,
            token: message.token,
            counted,
        });
    }

    /// Send what is at the head of a client's list, for as long as there are pendings.
    #[inline]
    pub fn transmit(&mut self, net: &Net<F>, at: usize, channel: Channel) -> bool {
        let mut moved = false;
        while !self.clients[at].items[channel as usize].is_empty() {
            if !self.transmit_one(net, at, channel) {
                return moved;
            }
            moved = true;
        }
        moved
    }

    /// False: not now.
    fn transmit_one(&mut self, net: &Net<F>, at: usize, channel: Channel) -> bool {
        let entry = &mut self.clients[at];
        let (number, stalled, arena) = (entry.number, entry.stalled, channel as usize);
        let Some(item) = entry.items[arena].front_mut() else {
            return false;
        };
        let len = item.len as usize;
        let nothing = Segments::default();
        let outcome = match &mut item.body {
            BodyAt::Moving => return false,
            BodyAt::Away(pieces) => {
                if !self.arenas[arena].could_hold(item.len) {
                    item.body = BodyAt::Lost;
                    return true;
                }
                if self.jobs.is_full() || stalled {
                    return false;
                }
                let Some(room) = self.arenas[arena].take(item.len) else {
                    return false;
                };
                let mv = Move::new(std::mem::take(pieces), Direction::Get, (arena, room, 0), len);
                item.body = BodyAt::Moving;
                let moving = Moving {
                    client: at,
                    era: entry.era,
                    mv,
                    purpose: Purpose::Fetch(arena),
                };
                if let Some(name) = self.jobs.insert(Job::Moving(moving)) {
                    self.move_bytes(name);
                }
                return true;
            }
            BodyAt::Small(bytes, used) if *used > 0 => {
                let Some(room) = self.arenas[arena].take(u64::from(*used)) else {
                    return false;
                };
                self.fabric.charge(Cost::Copy(len));
                user::store(&self.arenas[arena].memory(room, 0, len), &bytes[..len]);
                item.body = BodyAt::Here(room);
                return true;
            }
            BodyAt::Small(..) => {
                let sent = send(net, &self.routes, (number, channel), item, &nothing, NO_TOKEN);
                if sent.is_none() {
                    return false;
                }
                NiFail::OK
            }
            BodyAt::Lost => {
                // Its header goes all the same: who waits for the message is not to wait for ever.
                let tells = lose_body(&mut item.header, item.len);
                if tells && send(net, &self.routes, (number, channel), item, &nothing, NO_TOKEN).is_none() {
                    return false;
                }
                NiFail::FAIL
            }
            BodyAt::Here(room) => {
                let room = *room;
                let body = self.arenas[arena].memory(room, 0, len);
                // Made before: the message may wait in the network layer.
                let Some(name) = self.jobs.insert(Job::Leaving(arena, room)) else {
                    return false;
                };
                match send(net, &self.routes, (number, channel), item, &body, name) {
                    None => {
                        self.jobs.remove(name);
                        return false;
                    }
                    Some(Departure::Waits) => {}
                    Some(Departure::Gone) => {
                        self.jobs.remove(name);
                        self.arenas[arena].give_back(room);
                    }
                }
                NiFail::OK
            }
        };
        let entry = &mut self.clients[at];
        if let Some(item) = entry.items[arena].pop_front() {
            entry.control.sent[arena] += u64::from(item.counted);
            self.finished(at, item.token, outcome);
        }
        true
    }

    /// A body is where it belongs, or will never be.
    pub fn stored(&mut self, at: usize, token: u64, pending: Option<u16>, outcome: NiFail) {
        match (self.clients[at].mode, pending) {
            (Some(Mode::Generic), Some(pending)) => {
                self.clients[at].lower[usize::from(pending)] = Lower::Free;
                self.post_outcome(at, event::DEPOSITED, token, outcome);
            }
            _ => self.finished(at, token, outcome),
        }
    }
}

fn send<F: Fabric>(
    net: &Net<F>,
    routes: &Routes,
    (from, channel): (u32, Channel),
    item: &Item,
    body: &Segments,
    token: u64,
) -> Option<Departure> {
    let via = routes.via(item.to)?;
    let header = envelope(&item.header, item.to, from);
    net.send(via, channel, &header, body, token).ok()
}
