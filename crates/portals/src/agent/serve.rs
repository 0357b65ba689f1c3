//! What clients ask of an agent. Everything here is input from another process.

use super::mailbox::{CLIENT_BYTES, LINES, QUEUE_AT, RESULTS, RESULTS_AT, State, Title, Writer};
use super::run::{ARRIVALS, BodyAt, Core, Item, Job, Lower, Move, Objects, Open, Order, Side, code_of};
use super::words::{Bad, Pen, SMALL, VERSION, Words, command, event};
use super::{CLIENT_SEGMENT, Mode};
use crate::error::Error;
use crate::library::{Library, Outgoing};
use crate::memory::Segment;
use crate::net::{Channel, Placement};
use crate::types::{AckReq, Handle, Iovec, Md, Position, Unlink, option};
use farpost_fabric::{Direction, Fabric, LocalMemory, Permission};
use std::collections::VecDeque;
use std::rc::Rc;

/// Commands of one client in a turn.
const BURST: usize = 16;
/// Events of all queues of an accelerated client at most: a bound for what its commands may ask of the agent's memory.
const MAX_EVENTS: u32 = 1 << 16;

fn unlink_of(word: u64) -> Unlink {
    if word == 0 { Unlink::Retain } else { Unlink::Unlink }
}

fn position_of(word: u32) -> Position {
    if word == 0 {
        Position::Before
    } else {
        Position::After
    }
}

fn bad(what: &'static str, value: u64) -> Bad {
    Bad { what, value }
}

/// The segments of a descriptor's pieces.
fn iovec_of(md: &Md, pieces: &[super::words::Piece]) -> Iovec {
    (md.options & option::IOVEC != 0).then(|| {
        let segments = pieces.iter().map(|p| Segment {
            address: p.address as usize,
            len: p.len as usize,
        });
        segments.collect::<Rc<[Segment]>>()
    })
}

impl<F: Fabric> Core<F> {
    /// Do what a client asks. True: it asked for something.
    pub fn serve(&mut self, at: usize) -> bool {
        let mut moved = false;
        for _ in 0..BURST {
            let entry = &mut self.clients[at];
            if entry.figures.faulty || entry.figures.ended {
                break;
            }
            let mut words = std::mem::take(&mut self.words);
            words.clear();
            let done = match entry.commands.take() {
                Ok(None) => {
                    self.words = words;
                    break;
                }
                Ok(Some((title, record))) => {
                    words.extend_from_slice(record);
                    self.obey(at, title, Words(&words))
                }
                Err(bad) => Err(bad),
            };
            self.words = words;
            moved = true;
            match done {
                Ok(()) => self.collect(at),
                Err(bad) => self.fault(at, bad),
            }
        }
        moved
    }

    fn obey(&mut self, at: usize, title: Title, mut words: Words) -> Result<(), Bad> {
        let generic = match self.clients[at].open.as_ref().map(|open| &open.side) {
            None if title.kind == command::HELLO => return self.hello(at, title, &mut words),
            None => return Err(bad("a command before the first", u64::from(title.kind))),
            Some(side) => matches!(side, Side::Generic { .. }),
        };
        match title.kind {
            command::BYE => {
                self.clear(at);
                self.set_state(at, State::Closed);
                Ok(())
            }
            command::SEND | command::SEND_SMALL if generic => self.send(at, title, words),
            command::RECEIVE | command::DISCARD if generic => self.receive(at, title, words),
            command::PUT | command::GET | command::GET_PUT if !generic => self.initiate(at, title, words),
            command::ME_ATTACH..=command::STATUS if !generic => self.call(at, title, words),
            other => Err(bad("the kind of a command", u64::from(other))),
        }
    }

    fn hello(&mut self, at: usize, title: Title, words: &mut Words) -> Result<(), Bad> {
        words.next().and_then(|version| match version {
            VERSION => Ok(()),
            other => Err(bad("the version of a mailbox", other)),
        })?;
        let limits = words.limits()?;
        let opening = words.at_most("the number of an opening", u64::from(u32::MAX))? as u32;
        let (number, peer) = (self.clients[at].number, self.clients[at].peer());
        let import = self
            .fabric
            .import(peer, CLIENT_SEGMENT, CLIENT_BYTES, Permission::ReadWrite)
            .map_err(|_| bad("a mailbox that can be reached", u64::from(number)))?;
        let side = if title.aux == Mode::Generic as u16 {
            Side::Generic {
                lower: vec![Lower::Free; self.config.pendings as usize].into(),
                orders: VecDeque::with_capacity(self.config.pendings as usize),
            }
        } else {
            let library = Library::new(0, opening, number, Rc::clone(&self.processes), Some(&limits))
                .map_err(|_| bad("the number of a process", u64::from(number)))?;
            Side::Accelerated(Box::new(Objects {
                library,
                exposed: Vec::new(),
                queues: Vec::new(),
                dirty: false,
                swaps: VecDeque::new(),
            }))
        };
        let entry = &mut self.clients[at];
        entry.open = Some(Open {
            events: Writer::new(&import, QUEUE_AT, LINES, 0),
            results: Writer::new(&import, RESULTS_AT, RESULTS, 0),
            side,
            refusing: None,
            ring: false,
        });
        entry.import = Some(import);
        if self.fabric.can_transfer(peer) {
            self.set_state(at, State::Open);
        } else {
            self.clear(at);
            self.set_state(at, State::Unreachable);
        }
        Ok(())
    }

    /// One more message of a client's, of those that may wait here.
    fn count(&mut self, at: usize, channel: usize) -> Result<(), Bad> {
        let most = self.config.sends;
        let entry = &mut self.clients[at];
        entry.given[channel] += 1;
        let waiting = entry.given[channel] - entry.control.sent[channel];
        if waiting > most {
            return Err(bad("the number of messages given", waiting));
        }
        Ok(())
    }

    fn send(&mut self, at: usize, title: Title, mut words: Words) -> Result<(), Bad> {
        let channel = usize::from(title.aux);
        if channel > 1 {
            return Err(bad("the channel of a message", u64::from(title.aux)));
        }
        let to = words.at_most("the number of a process", u64::from(self.routes.size() - 1))? as u32;
        let len = words.at_most("the length of a message", isize::MAX as u64)?;
        let token = words.next()?;
        let header = words.header()?;
        let body = if title.kind == command::SEND_SMALL {
            if len > SMALL as u64 {
                return Err(bad("the length of a short message", len));
            }
            let mut bytes = [0; SMALL];
            words.bytes(&mut bytes[..len as usize])?;
            BodyAt::Small(bytes, len as u8)
        } else {
            let pieces = words.pieces()?;
            if pieces.iter().map(|p| p.len).sum::<u64>() != len || len == 0 {
                return Err(bad("the length of a message", len));
            }
            BodyAt::Away(pieces)
        };
        self.count(at, channel)?;
        // Short ones are copied: the client does not wait for a word of them.
        let token = if title.kind == command::SEND_SMALL {
            crate::library::NO_TOKEN
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

    fn receive(&mut self, at: usize, title: Title, mut words: Words) -> Result<(), Bad> {
        let Some(Open {
            side: Side::Generic { lower, orders },
            ..
        }) = &mut self.clients[at].open
        else {
            return Ok(());
        };
        let place = lower.get_mut(usize::from(title.aux));
        let Some(Lower::Shown(id)) = place.as_deref().copied() else {
            return Err(bad("a pending", u64::from(title.aux)));
        };
        if title.kind == command::DISCARD {
            lower[usize::from(title.aux)] = Lower::Free;
            self.placements.push((id, Placement::Discard));
            return Ok(());
        }
        let token = words.next()?;
        let keep = words.at_most("the length of a message", isize::MAX as u64)?;
        let pieces = words.pieces()?;
        if pieces.iter().map(|p| p.len).sum::<u64>() != keep || keep == 0 {
            return Err(bad("the length of a message", keep));
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
    pub fn receive_orders(&mut self, at: usize) -> bool {
        let mut moved = false;
        loop {
            let era = self.clients[at].era;
            let Some(Open {
                side: Side::Generic { lower, orders },
                ..
            }) = &mut self.clients[at].open
            else {
                break;
            };
            let Some(order) = orders.front() else { break };
            let Some(Lower::Shown(id)) = lower.get(usize::from(order.pending)).copied() else {
                // Asked for twice.
                orders.pop_front();
                continue;
            };
            let possible = self.arenas[ARRIVALS].could_hold(order.keep);
            if possible && self.jobs.is_full() {
                break;
            }
            let room = if possible {
                match self.arenas[ARRIVALS].take(order.keep) {
                    None => break,
                    room => room,
                }
            } else {
                None
            };
            let Some(order) = orders.pop_front() else { break };
            moved = true;
            lower[usize::from(order.pending)] = Lower::Receiving;
            let Some(room) = room else {
                self.placements.push((id, Placement::Discard));
                self.stored(at, order.token, Some(order.pending), crate::types::NiFail::FAIL);
                continue;
            };
            let into = self.arenas[ARRIVALS].memory(room, 0, order.keep as usize);
            let job = Job::Deposit {
                client: at,
                era,
                token: order.token,
                pending: Some(order.pending),
                mv: Move::new(
                    order.pieces,
                    Direction::Put,
                    (ARRIVALS, room, 0),
                    order.keep as usize,
                ),
            };
            let Some(token) = self.jobs.insert(job) else { break };
            let bytes = order.keep;
            self.placements.push((id, Placement::Keep { token, bytes, into }));
        }
        moved
    }

    /// Put, get, get-put of an accelerated client. What is wrong with them does nothing, as section 3.10.1 has it of an
    /// inactive descriptor: there is no result to tell it in.
    fn initiate(&mut self, at: usize, title: Title, mut words: Words) -> Result<(), Bad> {
        self.count(at, Channel::Request as usize)?;
        let Some(Open {
            side: Side::Accelerated(objects),
            ..
        }) = &mut self.clients[at].open
        else {
            return Ok(());
        };
        let md = words.handle()?;
        let other = words.handle()?;
        let region = match words.next()? {
            0 => None,
            _ => Some(()),
        };
        let (offset, length) = (words.next()?, words.next()?);
        let region = region.map(|()| (offset, length));
        let target = words.target()?;
        let ack = words.next()?;
        let hdr_data = words.next()?;
        let ack = if ack == AckReq::Ack as u64 {
            AckReq::Ack
        } else {
            AckReq::NoAck
        };
        let started: Result<Outgoing, Error> = match title.kind {
            command::PUT => objects.library.put(md, region, ack, &target, hdr_data),
            command::GET => objects.library.get(md, region, &target),
            _ => objects.library.get_put(md, other, &target, hdr_data),
        };
        match started {
            Ok(message) => {
                self.push(at, Channel::Request, message, true);
                // The body may have come along.
                let inline = words.at_most("the length of a short message", SMALL as u64)? as usize;
                if let Some(item) = self.clients[at].items[Channel::Request as usize].back_mut()
                    && inline > 0
                    && item.len == inline as u64
                {
                    let mut bytes = [0; SMALL];
                    words.bytes(&mut bytes[..inline])?;
                    item.body = BodyAt::Small(bytes, inline as u8);
                }
            }
            Err(_) => self.clients[at].control.sent[Channel::Request as usize] += 1,
        }
        Ok(())
    }

    /// Calls of an accelerated client that have a result.
    fn call(&mut self, at: usize, title: Title, words: Words) -> Result<(), Bad> {
        let mut pen = std::mem::take(&mut self.pen);
        pen.begin();
        let Some(Open {
            side: Side::Accelerated(objects),
            results,
            ring,
            ..
        }) = &mut self.clients[at].open
        else {
            return Ok(());
        };
        let code = objects.call(title, words, &mut pen)?;
        let posted = results.put(Title { kind: 1, aux: code }, &pen.0);
        // One call at a time: what there is a result for has been taken.
        results.told(results.written());
        *ring = true;
        self.pen = pen;
        posted
            .ok()
            .filter(|posted| *posted)
            .map(|_| ())
            .ok_or(bad("a mailbox that can be reached", 0))
    }

    /// Give an accelerated client the events of its queues, and hear what it has taken.
    pub fn forward(&mut self, at: usize) -> bool {
        self.collect(at);
        let entry = &mut self.clients[at];
        let Some(open) = &mut entry.open else { return false };
        open.events.told(entry.memory.load(0) as u32);
        let Side::Accelerated(objects) = &mut open.side else {
            return false;
        };
        if !std::mem::take(&mut objects.dirty) {
            return false;
        }
        let pen = &mut self.pen;
        let mut moved = false;
        for (handle, forwarded) in &mut objects.queues {
            while let Ok(true) = objects.library.eq_has_events(*handle) {
                if open.events.room() < 4 {
                    objects.dirty = true;
                    return moved;
                }
                let Ok(taken) = objects.library.eq_get(*handle) else {
                    break;
                };
                pen.begin().word(u64::from(handle.0)).event(&taken.event);
                let title = Title {
                    kind: event::EVENT,
                    aux: u16::from(taken.dropped),
                };
                let _ = open.events.put(title, &pen.0);
                *forwarded += 1;
                open.ring = true;
                moved = true;
            }
        }
        moved
    }
}

impl Objects {
    fn call(&mut self, title: Title, mut words: Words, pen: &mut Pen) -> Result<u16, Bad> {
        let library = &mut self.library;
        Ok(match title.kind {
            command::ME_ATTACH => {
                let pt_index = words.next()? as u32;
                let (id, bits) = (words.id()?, (words.next()?, words.next()?));
                let (unlink, position) = words.pair()?;
                let made = library.me_attach(
                    pt_index,
                    id,
                    bits,
                    unlink_of(u64::from(unlink)),
                    position_of(position),
                );
                handle_result(pen, made)
            }
            command::ME_ATTACH_ANY => {
                let (id, bits) = (words.id()?, (words.next()?, words.next()?));
                let made = library.me_attach_any(id, bits, unlink_of(words.next()?));
                if let Ok((pt_index, handle)) = made {
                    pen.pair(handle.0, pt_index);
                }
                code_of(&made)
            }
            command::ME_INSERT => {
                let base = words.handle()?;
                let (id, bits) = (words.id()?, (words.next()?, words.next()?));
                let (unlink, position) = words.pair()?;
                let made = library.me_insert(
                    base,
                    id,
                    bits,
                    unlink_of(u64::from(unlink)),
                    position_of(position),
                );
                handle_result(pen, made)
            }
            command::ME_UNLINK => {
                let done = library.me_unlink(words.handle()?);
                self.forget_what_is_gone();
                code_of(&done)
            }
            command::MD_ATTACH | command::MD_BIND => {
                let me = words.handle()?;
                let unlink = unlink_of(words.next()?);
                let md = words.md()?;
                let pieces = words.pieces()?;
                let iovec = iovec_of(&md, &pieces);
                let made = if title.kind == command::MD_ATTACH {
                    library.md_attach(me, md, iovec, unlink)
                } else {
                    library.md_bind(md, iovec, unlink)
                };
                if let Ok(handle) = made {
                    self.forget_what_is_gone();
                    self.exposed.push((handle, pieces));
                }
                handle_result(pen, made)
            }
            command::MD_UNLINK => {
                let done = library.md_unlink(words.handle()?);
                self.forget_what_is_gone();
                code_of(&done)
            }
            command::MD_UPDATE => {
                let md = words.handle()?;
                let testq = words.handle()?;
                let seen = words.next()?;
                let replaces = words.next()? != 0;
                let new = words.md()?;
                let pieces = words.pieces()?;
                // What has been forwarded and not been seen is in the queue as far as the program is concerned.
                let unseen = self
                    .queues
                    .iter()
                    .any(|(eq, forwarded)| *eq == testq && *forwarded != seen);
                let mut old = new;
                let iovec = iovec_of(&new, &pieces);
                let done = if unseen && replaces {
                    let _ = library.md_update(md, Some(&mut old), None, testq);
                    Err(Error::MdNoUpdate)
                } else {
                    library.md_update(md, Some(&mut old), replaces.then_some((new, iovec)), testq)
                };
                if done.is_ok() && replaces {
                    self.exposed.retain(|(handle, _)| *handle != md);
                    self.exposed.push((md, pieces));
                }
                pen.md(&old);
                code_of(&done)
            }
            command::EQ_ALLOC => {
                let count = words.next()?;
                let made = if count > u64::from(MAX_EVENTS) || self.queues.len() >= 64 {
                    Err(Error::NoSpace)
                } else {
                    library.eq_alloc(count as u32, true)
                };
                if let Ok(Some(handle)) = made {
                    self.queues.push((handle, 0));
                }
                handle_result(pen, made.map(|handle| handle.unwrap_or(Handle::EQ_NONE)))
            }
            command::EQ_FREE => {
                let handle = words.handle()?;
                let done = library.eq_free(handle);
                if done.is_ok() {
                    self.queues.retain(|(eq, _)| *eq != handle);
                }
                code_of(&done)
            }
            command::AC_ENTRY => {
                let index = words.next()? as u32;
                code_of(&library.ac_entry(index, words.access()?))
            }
            command::STATUS => {
                let status = library.status(words.next()? as u32);
                pen.word(status.unwrap_or(0));
                code_of(&status)
            }
            other => return Err(bad("the kind of a command", u64::from(other))),
        })
    }

    fn forget_what_is_gone(&mut self) {
        let library = &self.library;
        self.exposed.retain(|(md, _)| library.interface_of(*md).is_ok());
    }
}

fn handle_result(pen: &mut Pen, made: Result<Handle, Error>) -> u16 {
    if let Ok(handle) = made {
        pen.word(u64::from(handle.0));
    }
    code_of(&made)
}
