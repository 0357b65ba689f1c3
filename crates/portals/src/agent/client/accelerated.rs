//! Objects that the agent keeps, as far as the client has to know of them.

use super::Side;
use super::post::Mailbox;
use crate::bridge::mailbox::Title;
use crate::bridge::record::{Piece, Words, event};
use crate::error::Error;
use crate::malformed::{Malformed, fail};
use crate::memory::Segments;
use crate::types::{Event, EventKind, Handle, HandleKind, Taken};
use farpost_fabric::Fabric;
use std::collections::VecDeque;

#[derive(Default)]
pub(super) struct AcceleratedObjects {
    pub mds: Vec<Shown>,
    pub queues: Vec<Queue>,
    /// Events for handlers.
    pub handled: VecDeque<(Handle, Event)>,
}

/// A descriptor.
pub(super) struct Shown {
    pub handle: Handle,
    pub me: Handle,
    pub memory: Segments,
    pub pieces: Vec<Piece>,
}

/// Events of a queue that have been taken from the mailbox.
pub(super) struct Queue {
    pub handle: Handle,
    pub events: VecDeque<Taken>,
    most: usize,
    handled: bool,
    /// How many have come.
    pub seen: u64,
}

impl Queue {
    pub fn new(handle: Handle, count: u32, handled: bool) -> Self {
        Self {
            handle,
            events: VecDeque::new(),
            // As the library has it.
            most: count.max(2).next_power_of_two() as usize,
            handled,
            seen: 0,
        }
    }
}

impl AcceleratedObjects {
    pub fn memory(&self, md: Handle) -> Result<&Segments, Error> {
        let shown = self.mds.iter().find(|shown| shown.handle == md);
        shown.map(|shown| &shown.memory).ok_or(Error::MdInvalid)
    }

    pub fn forget<F: Fabric>(&mut self, mailbox: &mut Mailbox<F>, which: impl Fn(&Shown) -> bool) {
        self.mds.retain(|shown| {
            let goes = which(shown);
            if goes {
                mailbox.withdraw(&shown.pieces);
            }
            !goes
        });
    }
}

impl Side {
    /// Take events. True: there were some.
    pub fn take_events<F: Fabric>(&mut self, mailbox: &mut Mailbox<F>) -> bool {
        let mut moved = false;
        loop {
            if let Side::Generic(generic) = self {
                moved |= generic.empty_outbox(mailbox);
            }
            let (title, words) = match mailbox.next_event() {
                Ok(None) => return moved,
                Ok(Some(record)) => record,
                Err(_) => {
                    // An agent that writes malformed messages is none.
                    self.agent_ended(mailbox);
                    return true;
                }
            };
            moved = true;
            let done = match self {
                _ if title.kind == event::CARRY => mailbox.carried(title, Words(&words)),
                Side::Generic(generic) => generic.event(mailbox, title, Words(&words)),
                Side::Accelerated(accelerated) => accelerated.event(mailbox, title, Words(&words)),
            };
            mailbox.record_back(words);
            if done.is_err() {
                self.agent_ended(mailbox);
                return true;
            }
        }
    }

    pub fn agent_ended<F: Fabric>(&mut self, mailbox: &mut Mailbox<F>) {
        mailbox.ended = true;
        if let Side::Generic(generic) = self {
            generic.agent_ended(mailbox);
        }
    }

    pub fn tell_of_the_ended<F: Fabric>(&mut self, mailbox: &Mailbox<F>) {
        if let Side::Generic(generic) = self
            && !mailbox.ended
        {
            generic.tell_of_the_ended(mailbox);
        }
    }
}

impl AcceleratedObjects {
    fn event<F: Fabric>(
        &mut self,
        mailbox: &mut Mailbox<F>,
        title: Title,
        mut words: Words,
    ) -> Result<(), Malformed> {
        if title.kind != event::EVENT {
            return fail!("the kind of an event", title.kind);
        }
        let (eq, event): (Handle, Event) = words.read()?;
        if event.kind == EventKind::Unlink && event.md_handle.kind() == HandleKind::Md {
            self.forget(mailbox, |shown| shown.handle == event.md_handle);
        }
        if let Some(queue) = self.queues.iter_mut().find(|queue| queue.handle == eq) {
            queue.seen += 1;
            if queue.handled {
                self.handled.push_back((eq, event));
            }
            let mut dropped = title.aux != 0;
            if queue.events.len() >= queue.most {
                // The newest takes the place of the oldest, and whoever reads next is told.
                queue.events.pop_front();
                match queue.events.front_mut() {
                    Some(next) => next.dropped = true,
                    None => dropped = true,
                }
            }
            queue.events.push_back(Taken { event, dropped });
        }
        Ok(())
    }
}
