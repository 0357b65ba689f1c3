//! Bytes between the agent's memory and its clients'. The agent moves them itself where it reaches a client's memory; else it asks
//! the client, and they go through *windows*, memory of the agent's that both see.

use super::moves::Part;
use super::state::{BodyAt, Core, Job, Moving, Purpose};
use crate::bridge::mailbox::{SLOT_BYTES, SLOTS, Title, WINDOWS_AT, title};
use crate::bridge::record::{Words, event};
use crate::library::NO_TOKEN;
use crate::malformed::{Malformed, fail};
use crate::memory::user;
use crate::types::NiFail;
use farpost_fabric::{Direction, Fabric, LocalMemory};
use std::time::Duration;

impl<F: Fabric> Core<F> {
    /// Begin to move the bytes of a job.
    pub fn move_bytes(&mut self, name: u64) {
        self.movements.push(name);
        self.advance_one(name);
    }

    /// Move bytes. True: some have moved.
    pub fn advance(&mut self) -> bool {
        let mut moved = false;
        // From the back: a job that ends takes itself out.
        for at in (0..self.movements.len()).rev() {
            if let Some(name) = self.movements.get(at).copied() {
                moved |= self.advance_one(name);
            }
        }
        moved
    }

    fn advance_one(&mut self, name: u64) -> bool {
        let Some(Moving { client, mv, .. }) = self.jobs.get(name).and_then(Job::moving) else {
            return false;
        };
        let client = *client;
        let entry = &mut self.clients[client];
        let before = mv.done;
        let outcome = if entry.carried {
            match self.ask_client(client, name) {
                true => NiFail::OK,
                false => return false,
            }
        } else {
            match mv.advance(&*self.fabric, entry.peer(), &self.arenas) {
                Ok(false) => return mv.done > before,
                Ok(true) => NiFail::OK,
                Err(_) => NiFail::FAIL,
            }
        };
        self.end_move(name, outcome);
        true
    }

    fn end_move(&mut self, name: u64, outcome: NiFail) {
        self.movements.retain(|other| *other != name);
        self.moved(name, outcome);
    }

    /// Let a client move the next part of a job's bytes. True: all have moved.
    fn ask_client(&mut self, client: usize, name: u64) -> bool {
        let entry = &mut self.clients[client];
        let Some(Moving { mv, .. }) = self.jobs.get(name).and_then(Job::moving) else {
            return false;
        };
        if mv.under_way.is_some() {
            return false;
        }
        let Some((key, position, len)) = (mv.done < mv.len).then(|| mv.next_part(SLOT_BYTES)).flatten()
        else {
            return true;
        };
        mv.since.get_or_insert_with(|| self.fabric.now());
        let (Some(slot), Some(link)) = (
            entry.windows.iter().position(Option::is_none),
            entry.link.as_mut(),
        ) else {
            return false;
        };
        let into_client = mv.direction == Direction::Put;
        if into_client {
            let from = self.arenas[mv.arena].segment(mv.room, mv.at + mv.done, len);
            user::read(from, |bytes| {
                entry.memory.write(WINDOWS_AT + slot * SLOT_BYTES, bytes)
            });
        }
        let way = if into_client { event::INTO_CLIENT } else { 0 };
        let title = title(event::CARRY, slot as u16 | way << 8);
        let posted = link.events.put(title, &[name, key, position, len as u64]);
        if posted.unwrap_or(false) {
            entry.windows[slot] = Some(name);
            entry.ring = true;
            mv.under_way = Some(Part::Window(slot, len));
        }
        false
    }

    /// A client says that it has moved bytes to or from a window.
    ///
    /// # Errors
    /// It was not asked to.
    pub fn client_moved(&mut self, at: usize, title: Title, mut words: Words) -> Result<(), Malformed> {
        let slot = usize::from(title.aux & 0xff);
        let name = words.next()?;
        let done = words.at_most("whether bytes have moved", 1)? == 1;
        let window = self.clients[at].windows.get_mut(slot);
        match window {
            Some(window) if *window == Some(name) => *window = None,
            _ => {
                return fail!("the number of a window", slot);
            }
        }
        let Some(Moving { client, mv, .. }) = self.jobs.get(name).and_then(Job::moving) else {
            // It was given up.
            return Ok(());
        };
        let (true, Some(Part::Window(of, len))) = (*client == at, mv.under_way) else {
            return Ok(());
        };
        if of != slot {
            return Ok(());
        }
        mv.under_way = None;
        mv.since = None;
        if !done {
            self.end_move(name, NiFail::FAIL);
            return Ok(());
        }
        if mv.direction == Direction::Get {
            let into = self.arenas[mv.arena].segment(mv.room, mv.at + mv.done, len);
            let memory = &self.clients[at].memory;
            user::write(into, |bytes| memory.read(WINDOWS_AT + slot * SLOT_BYTES, bytes));
        }
        mv.done += len;
        self.advance_one(name);
        Ok(())
    }

    /// Give up what a client was to move and has not within its patience: what comes for it is lost, and its own messages wait
    /// until it does something.
    #[cold]
    pub fn give_up_moves(&mut self, at: usize) {
        let patience = Duration::from_millis(self.config.patience);
        let now = self.fabric.now();
        let late = |core: &mut Self, name: u64| match core.moving(name) {
            Some(it) => it.client == at && it.mv.since.is_some_and(|since| now - since > patience),
            None => false,
        };
        if !self.clients[at].carried || !(0..self.movements.len()).any(|i| late(self, self.movements[i])) {
            return;
        }
        for i in (0..self.movements.len()).rev() {
            let Some(name) = self.movements.get(i).copied() else {
                continue;
            };
            let Some(purpose) = self
                .moving(name)
                .filter(|it| it.client == at)
                .map(|it| it.purpose)
            else {
                continue;
            };
            let Purpose::Fetch(channel) = purpose else {
                self.clients[at].figures.wedged = true;
                self.end_move(name, NiFail::FAIL);
                continue;
            };
            self.movements.swap_remove(i);
            if let Some(Moving { mv, .. }) = self.remove_moving(name) {
                self.arenas[mv.arena].give_back(mv.room);
                if let Some(item) = self.clients[at].items[channel].front_mut() {
                    item.body = BodyAt::Away(mv.pieces);
                }
            }
        }
        self.clients[at].stalled = true;
    }

    /// All bytes of a job have moved, or cannot.
    fn moved(&mut self, name: u64, outcome: NiFail) {
        let purpose = self.moving(name).map(|it| it.purpose);
        if let Some(Purpose::Swap(token)) = purpose {
            return self.swap_moved(name, token, outcome);
        }
        let (Some(purpose), Some(Moving { client, mv, .. })) = (purpose, self.remove_moving(name)) else {
            return;
        };
        match purpose {
            Purpose::Fetch(channel) => {
                let Some(item) = self.clients[client].items[channel].front_mut() else {
                    return;
                };
                if outcome == NiFail::OK {
                    item.body = BodyAt::Here(mv.room);
                    // The program's memory is free already.
                    let token = std::mem::replace(&mut item.token, NO_TOKEN);
                    self.finished(client, token, NiFail::OK);
                } else {
                    item.body = BodyAt::Lost;
                    self.arenas[mv.arena].give_back(mv.room);
                }
            }
            Purpose::Deposit(token, pending) => {
                self.arenas[mv.arena].give_back(mv.room);
                self.stored(client, token, pending, outcome);
            }
            Purpose::Swap(_) => {}
        }
    }

    /// Forget what was to be moved for a client: it has gone.
    #[cold]
    pub fn forget_moves(&mut self, at: usize) {
        self.clients[at].windows = [None; SLOTS];
        // What the network layer is still writing ends when it has ended.
        let waits = |job: &Job| {
            matches!(job, Job::Moving(it)
                if it.client == at && matches!(it.purpose, Purpose::Swap(_)) && it.mv.direction == Direction::Get)
        };
        let mut over: Vec<u64> = self.jobs.names(waits);
        let jobs = &mut self.jobs;
        self.movements.retain(|name| {
            let job = jobs.get(*name).and_then(Job::moving);
            let its = job.is_some_and(|it| it.client == at);
            if its && !over.contains(name) {
                over.push(*name);
            }
            !its
        });
        for name in over {
            if let Some(Moving { mv, .. }) = self.remove_moving(name) {
                if let Some(Part::Transfer(ticket, _)) = mv.under_way {
                    self.fabric.cancel_transfer(ticket);
                }
                self.arenas[mv.arena].give_back(mv.room);
            }
        }
    }
}
