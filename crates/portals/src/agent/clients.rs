//! Clients come, tell how far they are, are told, go, and fail.

use super::state::{BodyAt, Core, Link, Lower, Standstill};
use crate::bridge::Mode;
use crate::bridge::mailbox::{
    CLIENT_BYTES, ClientState, Control, DOOR_AT, Door, EVENTS, QUEUE_AT, RESULTS, RESULTS_AT, TOLD_AT, Title,
    Writer,
};
use crate::bridge::record::{VERSION, Words};
use crate::malformed::{self, Malformed, error, fail};
use crate::net::Placement;
use crate::types::Limits;
use farpost_fabric::{Fabric, LocalMemory, Peer, Permission, Register, Remote};
use std::rc::Rc;
use std::time::Duration;

impl<F: Fabric> Core<F> {
    /// A client attaches.
    ///
    /// # Errors
    /// It is of another version, or says what cannot be.
    pub fn hello(&mut self, at: usize, title: Title, mut words: Words) -> Result<(), Malformed> {
        let version: u64 = words.read()?;
        if version != VERSION {
            return fail!("the version of a mailbox", version);
        }
        let (limits, opening): (Limits, u32) = words.read()?;
        let mode = Mode::from_repr(title.aux).ok_or(error!("the mode of a client", title.aux))?;
        let entry = &mut self.clients[at];
        let (number, peer) = (entry.number, entry.peer());
        if opening != entry.era {
            return fail!("the number of an opening", opening);
        }
        let import = self
            .fabric
            .import(
                peer,
                self.routes.client_segment(),
                CLIENT_BYTES,
                Permission::ReadWrite,
            )
            .map_err(|_| error!("a mailbox that can be reached", number))?;
        if mode == Mode::Accelerated {
            entry.objects.begin(&limits, entry.era);
        }
        entry.link = Some(Link {
            events: Writer::new(&import, QUEUE_AT, EVENTS, 0),
            results: Writer::new(&import, RESULTS_AT, RESULTS, 0),
            import,
        });
        entry.mode = Some(mode);
        entry.carried = !self.fabric.can_transfer(peer);
        entry.figures.carried = entry.carried;
        entry.figures.openings += 1;
        let state = if entry.carried {
            ClientState::Carried
        } else {
            ClientState::Open
        };
        self.set_state(at, state);
        self.set_door(at, Door::InUse);
        Ok(())
    }

    /// A client takes leave: it may attach again.
    pub fn bye(&mut self, at: usize) {
        self.set_state(at, ClientState::Closed);
        self.tell(at);
        self.clear(at);
        let entry = &self.clients[at];
        self.set_door(at, Door::Free(entry.era, entry.commands.taken()));
    }

    /// A client wrote what cannot be: it is not served any more.
    #[cold]
    pub fn fault(&mut self, at: usize, bad: Malformed) {
        let peer = self.clients[at].peer();
        malformed::record(&*self.fabric, peer, bad);
        self.clients[at].figures.faulty = true;
        self.set_state(at, ClientState::Faulty);
        self.tell(at);
        self.clear(at);
        self.set_door(at, Door::Shut);
    }

    pub fn set_door(&self, at: usize, door: Door) {
        self.clients[at].memory.store(DOOR_AT, door.word());
    }

    fn set_state(&mut self, at: usize, state: ClientState) {
        let entry = &mut self.clients[at];
        entry.control.state = state as u64 | u64::from(entry.era) << 8;
        entry.figures.open = matches!(state, ClientState::Open | ClientState::Carried);
    }

    /// Forget all that a client has here.
    #[cold]
    pub fn clear(&mut self, at: usize) {
        let entry = &mut self.clients[at];
        entry.era = Door::opening_after(entry.era);
        entry.figures.open = false;
        entry.figures.wedged = false;
        entry.mode = None;
        entry.link = None;
        entry.carried = false;
        entry.stalled = false;
        entry.held = false;
        entry.ring = false;
        entry.refusing = None;
        entry.silent = None;
        (entry.shown, entry.settled) = (0, 0);
        entry.given = [0; 2];
        entry.control = Control {
            sends: entry.control.sends,
            ..Control::default()
        };
        entry.told = entry.control;
        for (items, arena) in entry.items.iter_mut().zip(&mut self.arenas) {
            for item in items.drain(..) {
                if let BodyAt::Here(room) = item.body {
                    arena.give_back(room);
                }
            }
        }
        for lower in &mut entry.lower {
            if let Lower::Shown(id) = *lower {
                self.placements.push((id, Placement::Discard));
            }
            *lower = Lower::Free;
        }
        entry.orders.clear();
        entry.objects.end(entry.era);
        self.forget_moves(at);
    }

    /// Hear what a client has taken and dealt with. What cannot be is not believed.
    #[inline]
    pub fn hear(&mut self, at: usize) {
        let entry = &mut self.clients[at];
        let Some(link) = &mut entry.link else { return };
        let [taken, settled, opening, ..] = entry.memory.load_line(TOLD_AT);
        if opening != u64::from(entry.era) {
            return;
        }
        link.events.told(taken as u32);
        if settled > entry.settled && settled <= entry.shown {
            entry.settled = settled;
        }
    }

    /// Tell a client how far it has been served, and ring it.
    #[inline]
    pub fn tell(&mut self, at: usize) {
        let entry = &mut self.clients[at];
        entry.control.taken = u64::from(entry.commands.taken());
        let mut ring = std::mem::take(&mut entry.ring);
        if entry.control != entry.told
            && let Some(link) = &entry.link
        {
            // The same line again: what was put before must not come later.
            let _ = link
                .import
                .order()
                .and_then(|()| link.import.put_line(0, &entry.control.line()));
            entry.told = entry.control;
            ring = true;
        }
        if ring {
            self.fabric.wake(Peer(entry.number));
        }
    }

    /// Messages that a generic client was shown hold up their senders, and who sends by the same ways, until it says where
    /// they go: not for longer than its patience.
    #[cold]
    pub fn give_up_shown(&mut self, at: usize) {
        let patience = Duration::from_millis(self.config.patience);
        let entry = &mut self.clients[at];
        let shown = entry.lower.iter().any(|lower| matches!(lower, Lower::Shown(_)));
        let (Some(link), true) = (&entry.link, shown) else {
            entry.silent = None;
            return;
        };
        let at_now = (link.events.taken(), u64::from(entry.commands.taken()));
        if !entry.orders.is_empty() {
            entry.silent = None;
        }
        match Standstill::lasts(&mut entry.silent, self.fabric.now(), at_now) {
            Some(time) if time > patience => entry.silent = None,
            _ => return,
        }
        entry.figures.wedged = true;
        for lower in &mut entry.lower {
            if let Lower::Shown(id) = *lower {
                *lower = Lower::Lost;
                entry.figures.dropped += 1;
                self.fabric
                    .add_register(Peer(entry.number), Register::PortalsAgentDropped, 1);
                self.placements.push((id, Placement::Discard));
            }
        }
    }

    /// What accelerated clients wait for from processes that have ended, or whose agents have, will not come.
    #[cold]
    pub fn tell_of_the_ended(&mut self, at: usize) {
        if self.clients[at].mode != Some(Mode::Accelerated) {
            return;
        }
        let (routes, fabric) = (Rc::clone(&self.routes), Rc::clone(&self.fabric));
        let ended = |number: u32| {
            let ended = |peer: Peer| peer != fabric.me() && fabric.has_ended(peer);
            ended(routes.process_of(number)) || ended(routes.via(number).unwrap_or(Peer(number)))
        };
        while let Some(number) = self.clients[at].objects.library.awaited_of(ended) {
            self.forward(at);
            let objects = &mut self.clients[at].objects;
            objects.library.peer_ended(number);
            objects.dirty = true;
        }
    }
}
