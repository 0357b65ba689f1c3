//! What the network brings an agent.

use super::moves::Move;
use super::state::{ARRIVALS, BodyAt, Core, Item, Job, Lower, Moving, Purpose, Standstill};
use super::tunables::ANSWERS;
use crate::bridge::mailbox::{SLOTS, lines_of, title};
use crate::bridge::record::{SMALL, event};
use crate::bridge::{ENVELOPE_BYTES, Mode, open_envelope};
use crate::library::{HEADER_BYTES, MessageKind, Verdict, lose_body};
use crate::malformed::{self, error};
use crate::memory::{SWAP_BYTES, Segments, user};
use crate::net::{Channel, Outcome, Placement, RxId, Upper};
use crate::translate::fail_of;
use crate::types::NiFail;
use farpost_fabric::{Cost, Counter, Direction, Fabric, Peer, Register};
use std::time::Duration;

/// Lines of an event queue that requests leave to answers.
const FOR_ANSWERS: u32 = 128;

/// A message on its way to a client.
#[derive(Clone, Copy)]
struct Message<'a> {
    id: RxId,
    /// The process that sent it.
    from: u32,
    header: [u8; HEADER_BYTES],
    length: u64,
    inline: Option<&'a [u8]>,
}

impl Message<'_> {
    fn is_request(&self) -> bool {
        MessageKind::is_request(&self.header)
    }

    fn unwanted(&self) -> Placement {
        Placement::unwanted(self.inline.is_some())
    }
}

impl<F: Fabric> Core<F> {
    /// Drop a message for a client that cannot have it, count it, and release whoever waits for an answer.
    #[cold]
    fn drop_message(&mut self, at: usize, message: &Message) -> Placement {
        let entry = &mut self.clients[at];
        entry.figures.dropped += 1;
        self.fabric
            .add_register(entry.peer(), Register::PortalsAgentDropped, 1);
        let verdict =
            entry
                .objects
                .library
                .incoming_while_closed(message.from, &message.header, message.length);
        if let Verdict::Drop {
            answer: Some(answer), ..
        } = verdict
        {
            self.push(at, Channel::Answer, answer, false);
        }
        message.unwanted()
    }

    /// A client has no room for a message now, or for its events, or has dealt with too few of those before: it comes again, unless the
    /// client has been doing nothing about it for too long.
    #[cold]
    fn refuse(&mut self, at: usize, message: &Message) -> Placement {
        let mut patience = Duration::from_millis(self.config.patience);
        let entry = &mut self.clients[at];
        let Some(link) = &entry.link else {
            return Placement::Refuse;
        };
        let at_now = (link.events.taken(), entry.settled);
        if link.events.is_empty() {
            // It takes what it is shown, and waits for others to take its answers, for whom others are patient as well.
            patience *= 4;
        }
        match Standstill::lasts(&mut entry.refusing, self.fabric.now(), at_now) {
            None => entry.figures.wedged = false,
            Some(time) if entry.figures.wedged || time > patience => {
                entry.figures.wedged = true;
                return self.drop_message(at, message);
            }
            Some(_) => {}
        }
        self.note_refused(at);
        Placement::Refuse
    }

    /// A message was refused for want of room: it comes again.
    #[cold]
    fn note_refused(&mut self, at: usize) {
        let entry = &mut self.clients[at];
        entry.figures.refused += 1;
        self.fabric
            .add_register(entry.peer(), Register::PortalsAgentRefused, 1);
    }

    /// A client has got a message, for who watches the agent.
    #[inline]
    fn count_shown(&self, at: usize, message: &Message) {
        let client = self.clients[at].peer();
        self.fabric.count(client, Counter::Sent, 1);
        self.fabric.count(client, Counter::SentBytes, message.length);
    }

    /// Show a message to a generic client: with its body, if that is short; else the client says where it goes.
    fn show(&mut self, at: usize, message: &Message) -> Placement {
        let owed = (self.config.pendings + 2 * self.config.sends) as u32;
        let entry = &mut self.clients[at];
        let Some(link) = &mut entry.link else {
            return message.unwanted();
        };
        let body = message.inline.filter(|bytes| bytes.len() <= SMALL);
        let free = || entry.lower.iter().position(|lower| *lower == Lower::Free);
        let pending = match body {
            Some(_) => Some(event::NO_PENDING),
            None => free().map(|place| place as u16),
        };
        let words = 2 + HEADER_BYTES.div_ceil(8) + body.map_or(0, |bytes| bytes.len().div_ceil(8));
        // Room is kept for what the agent owes anyway, and requests leave some to answers: those free whoever waits for them.
        let request = message.is_request();
        let kept = owed + SLOTS as u32 + if request { FOR_ANSWERS } else { 0 };
        let possible = link.events.room() >= kept + lines_of(words)
            && !(request && entry.shown - entry.settled >= ANSWERS as u64);
        let (Some(pending), true) = (pending, possible) else {
            return self.refuse(at, message);
        };
        if pending != event::NO_PENDING {
            entry.lower[usize::from(pending)] = Lower::Shown(message.id);
        }
        entry.shown += u64::from(request);
        entry.figures.wedged = false;
        entry.refusing = None;
        let shown = (
            message.from,
            message.length,
            message.header,
            body.unwrap_or_default(),
        );
        entry.post(title(event::ARRIVED, pending), self.pen.begin(shown));
        self.count_shown(at, message);
        if body.is_some() {
            Placement::Done
        } else {
            Placement::Later
        }
    }

    /// A message for which there is never memory: it is dropped, and whoever it was for learns of it as of one whose body could not be
    /// read.
    #[cold]
    fn lose_too_long(&mut self, at: usize, message: &Message) -> Placement {
        let mut header = message.header;
        if lose_body(&mut header, message.length) {
            let lost = Message {
                header,
                length: 0,
                inline: Some(&[]),
                ..*message
            };
            if matches!(self.match_message(at, &lost), Placement::Refuse) {
                return Placement::Refuse;
            }
        }
        self.drop_message(at, message)
    }

    /// Match a message in place of its client.
    fn match_message(&mut self, at: usize, message: &Message) -> Placement {
        // Whatever is decided must be possible: a message can be refused only before it has matched.
        let too_long = !self.arenas[ARRIVALS].could_hold(message.length);
        if too_long {
            return self.lose_too_long(at, message);
        }
        let answers = self.clients[at].items[Channel::Answer as usize].len();
        let has_body = message.length > 0;
        if (message.is_request() && answers >= ANSWERS)
            || self.jobs.is_full()
            || (has_body && !self.arenas[ARRIVALS].has_room(message.length.max(2 * SWAP_BYTES as u64)))
        {
            self.note_refused(at);
            return Placement::Refuse;
        }
        if message.is_request() && !self.clients[at].objects.has_room_for_events(false) {
            return self.refuse(at, message);
        }
        self.forward(at);
        self.count_shown(at, message);
        let entry = &mut self.clients[at];
        (entry.refusing, entry.figures.wedged) = (None, false);
        let objects = &mut entry.objects;
        objects.dirty = true;
        let searched = |entries| self.fabric.charge(Cost::Match(entries));
        let (from, length) = (message.from, message.length);
        let library = &mut objects.library;
        let verdict = library.incoming_searched(from, &message.header, length, searched);
        match verdict {
            Verdict::Drop { answer, .. } => {
                let client = self.clients[at].peer();
                self.fabric.add_register(client, Register::PortalsAgentDropped, 1);
                if let Some(answer) = answer {
                    self.push(at, Channel::Answer, answer, false);
                }
            }
            Verdict::Done => {}
            Verdict::Reply(reply) => self.push(at, Channel::Answer, reply, false),
            Verdict::Store { token, keep: 0, .. } => self.finished(at, token, NiFail::OK),
            Verdict::Store { token, keep, into } => {
                let pieces = self.clients[at].objects.pieces_of(&self.lists, token, &into);
                let (Some(pieces), Some(room)) = (pieces, self.arenas[ARRIVALS].take(keep)) else {
                    self.finished(at, token, NiFail::FAIL);
                    return message.unwanted();
                };
                let mv = Move::new(pieces, Direction::Put, (ARRIVALS, room, 0), keep as usize);
                return self.body_for(at, message, Purpose::Deposit(token, None), mv);
            }
            Verdict::Swap { token, keep, with } => {
                let pieces = self.clients[at].objects.pieces_of(&self.lists, token, &with);
                let pieces = pieces.unwrap_or_default();
                let Some(room) = self.arenas[ARRIVALS].take(2 * SWAP_BYTES as u64) else {
                    return message.unwanted();
                };
                let mv = Move::new(pieces, Direction::Put, (ARRIVALS, room, 0), keep as usize);
                return self.body_for(at, message, Purpose::Swap(token), mv);
            }
        }
        message.unwanted()
    }

    /// Take a body into the arena, to be moved on.
    fn body_for(&mut self, client: usize, message: &Message, purpose: Purpose, mv: Move) -> Placement {
        let keep = mv.len as u64;
        let into = self.arenas[ARRIVALS].memory(mv.room, 0, mv.len);
        let era = self.clients[client].era;
        let moving = Moving {
            client,
            era,
            mv,
            purpose,
        };
        let Some(name) = self.jobs.insert(Job::Moving(moving)) else {
            return message.unwanted();
        };
        match message.inline {
            Some(bytes) => {
                self.fabric.charge(Cost::Copy(keep as usize));
                user::store(&into, &bytes[..keep as usize]);
                self.arrived_whole(name);
                Placement::Done
            }
            None if keep == 0 => {
                self.arrived_whole(name);
                Placement::Discard
            }
            None => Placement::Keep {
                token: name,
                bytes: keep,
                into,
            },
        }
    }

    /// A body is in the arena.
    fn arrived_whole(&mut self, name: u64) {
        let Some(moving) = self.jobs.get(name).and_then(Job::moving) else {
            return;
        };
        let client = &mut self.clients[moving.client];
        if client.era != moving.era {
            let room = moving.mv.room;
            self.jobs.remove(name);
            return self.arenas[ARRIVALS].give_back(room);
        }
        if let Purpose::Swap(_) = moving.purpose {
            moving.mv.direction = Direction::Get;
            moving.mv.at = SWAP_BYTES;
            let swaps = &mut client.objects.swaps;
            swaps.push_back(name);
            if swaps.len() > 1 {
                // One at a time: get-puts do not interrupt each other.
                return;
            }
        }
        self.move_bytes(name);
    }

    /// A half of an exchange has been done.
    pub fn swap_moved(&mut self, name: u64, token: u64, outcome: NiFail) {
        let Some(Moving { client, mv, .. }) = self.moving(name) else {
            return;
        };
        let (at, room, len) = (*client, mv.room, mv.len);
        if outcome == NiFail::OK && mv.direction == Direction::Get {
            let pieces = std::mem::take(&mut mv.pieces);
            *mv = Move::new(pieces, Direction::Put, (ARRIVALS, room, 0), len);
            self.move_bytes(name);
            return;
        }
        self.jobs.remove(name);
        let objects = &mut self.clients[at].objects;
        objects.swaps.pop_front();
        objects.dirty = true;
        let next = objects.swaps.front().copied();
        let mut reply = None;
        if outcome == NiFail::OK {
            let old = self.arenas[ARRIVALS].memory(room, SWAP_BYTES, len);
            let mut bytes = [0; SMALL];
            self.fabric.charge(Cost::Copy(len));
            user::load(&old, &mut bytes[..len]);
            let swapped = objects.library.swapped(token, Segments::default());
            reply = swapped.map(|reply| (reply, bytes));
        }
        self.arenas[ARRIVALS].give_back(room);
        match reply {
            Some((reply, old)) => self.clients[at].items[Channel::Answer as usize].push_back(Item {
                to: reply.to,
                header: reply.header,
                len: len as u64,
                body: BodyAt::Small(old, len as u8),
                token: reply.token,
                counted: false,
            }),
            None => self.finished(at, token, NiFail::FAIL),
        }
        if let Some(next) = next {
            self.move_bytes(next);
        }
    }
}

impl<F: Fabric> Upper for Core<F> {
    fn arrived(
        &mut self,
        id: RxId,
        from: Peer,
        header: &[u8],
        length: u64,
        inline: Option<&[u8]>,
    ) -> Placement {
        let inline = if length == 0 { Some(&[][..]) } else { inline };
        let opened = open_envelope(header)
            .filter(|(_, _, source)| self.routes.speaks_for(from, *source))
            .and_then(|(header, to, source)| Some((header, self.find(to)?, source)));
        let Some((header, at, from)) = opened else {
            let value = if header.len() == ENVELOPE_BYTES {
                u64::from_le_bytes(header[HEADER_BYTES..].try_into().expect("eight bytes"))
            } else {
                header.len() as u64
            };
            let bad = error!("the envelope of a message to an agent", value);
            malformed::record(&*self.fabric, from, bad);
            return Placement::unwanted(inline.is_some());
        };
        let message = Message {
            id,
            from,
            header,
            length,
            inline,
        };
        let client = &self.clients[at];
        if !client.accepts && !client.figures.ended && !client.figures.faulty {
            // Nothing of MPI's is lost, and a rank that has not begun yet still will.
            self.note_refused(at);
            return Placement::Refuse;
        }
        match self.clients[at].mode {
            Some(Mode::Generic) => self.show(at, &message),
            Some(Mode::Accelerated) => self.match_message(at, &message),
            None if self.clients[at].items[0].len() >= ANSWERS => Placement::Refuse,
            None => self.drop_message(at, &message),
        }
    }

    fn deposited(&mut self, name: u64, outcome: Outcome) {
        if outcome == Outcome::Done {
            return self.arrived_whole(name);
        }
        let Some(Moving {
            client,
            era,
            mv,
            purpose,
        }) = self.remove_moving(name)
        else {
            return;
        };
        self.arenas[ARRIVALS].give_back(mv.room);
        if self.clients[client].era == era {
            match purpose {
                Purpose::Fetch(_) => {}
                Purpose::Deposit(token, pending) => self.stored(client, token, pending, fail_of(outcome)),
                Purpose::Swap(token) => self.finished(client, token, fail_of(outcome)),
            }
        }
    }

    fn sent(&mut self, name: u64, _: Outcome) {
        if let Some(Job::Leaving(arena, room)) = self.jobs.remove(name) {
            self.arenas[arena].give_back(room);
        }
    }
}
