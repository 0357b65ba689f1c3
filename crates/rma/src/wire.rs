//! Sending, receiving and waiting on a window's communicator. Nothing here waits but [`Win::wait`], which makes progress for everybody.

use crate::flight::{Flight, Slot, Then};
use crate::memory::Room;
use crate::message::{LONGEST, Message, TAG};
use crate::win::Win;
use farpost_fabric::Fabric;
use farpost_mpi::world::World;
use farpost_mpi::{Error, ErrorClass, Result};

const ANY_SOURCE: i32 = -1;
/// Receives that are posted at any time.
const SLOTS: usize = 4;

impl<F: Fabric> Win<F> {
    /// Send a message; to this process itself, act on it.
    pub(crate) fn send(&self, world: &World<F>, to: i32, message: Message) -> Result<()> {
        if to == self.comm.rank {
            self.take(world, to, message);
            return Ok(());
        }
        let request = world.isend_owned(&self.comm, message.encode(), to, TAG)?;
        self.begin(request, Then::Nothing);
        Ok(())
    }

    /// As [`send`](Self::send), of an answer: what goes wrong is the window's end.
    pub(crate) fn answer(&self, world: &World<F>, to: i32, message: Message) {
        if let Err(error) = self.send(world, to, message) {
            self.fail(world, error);
        }
    }

    pub(crate) fn begin(&self, request: usize, then: Then) {
        self.flights.borrow_mut().push(Flight { request, then });
    }

    /// The requests of the messages under way.
    pub(crate) fn requests(&self) -> Vec<usize> {
        let (slots, flights) = (self.slots.borrow(), self.flights.borrow());
        let slots = slots.iter().map(|slot| slot.request);
        slots.chain(flights.iter().map(|flight| flight.request)).collect()
    }

    /// Post the receives.
    pub(crate) fn open(&self, world: &World<F>) -> Result<()> {
        (0..SLOTS).try_for_each(|_| self.post_slot(world, Room::new(LONGEST)))
    }

    fn post_slot(&self, world: &World<F>, mut room: Room) -> Result<()> {
        let request = world.irecv(&self.comm, room.buffer(), ANY_SOURCE, TAG)?;
        self.slots.borrow_mut().push_back(Slot { request, room });
        Ok(())
    }

    /// Take back the receives; no message comes any more.
    pub(crate) fn close(&self, world: &World<F>) -> Result<()> {
        let slots = self.slots.take();
        for slot in &slots {
            world.cancel(slot.request)?;
        }
        for slot in slots {
            let _ = world.wait(slot.request)?;
        }
        world.wait_until(|| {
            self.land(world);
            Ok(self.flights.borrow().is_empty())
        })
    }

    /// The window can do nothing more, and who waits for it hears why.
    pub(crate) fn fail(&self, world: &World<F>, error: Error) {
        if self.failed.borrow().is_some() {
            return;
        }
        *self.failed.borrow_mut() = Some(error.clone());
        let flights = self.flights.borrow();
        let waiting = flights.iter().filter_map(|flight| match &flight.then {
            Then::Sent { track, .. } | Then::Got { track, .. } => track.clone(),
            _ => None,
        });
        let tracks: Vec<_> = waiting.collect();
        drop(flights);
        let pending = self.pending.take();
        for track in tracks
            .into_iter()
            .chain(pending.into_values().filter_map(|it| it.track))
        {
            track.fail(world, &error);
        }
    }

    /// Make progress until `done`.
    pub(crate) fn wait(&self, world: &World<F>, mut done: impl FnMut() -> bool) -> Result<()> {
        world.wait_until(
            || match self.failed.borrow().as_ref().or(self.lost.borrow().as_ref()) {
                Some(error) => Err(error.clone()),
                None => Ok(done()),
            },
        )
    }

    /// Act on what has come. True: something had.
    pub(crate) fn advance(&self, world: &World<F>) -> bool {
        let mut moved = false;
        loop {
            let front = self.slots.borrow().front().map(|slot| slot.request);
            let Some(request) = front else { break };
            if !world.is_complete(request).unwrap_or(true) {
                break;
            }
            moved = true;
            let slot = self.slots.borrow_mut().pop_front();
            let Some(Slot { request, room }) = slot else { break };
            let received = world.finish(request).and_then(|(status, _)| match status.error {
                Some(error) => Err(*error),
                None => Ok((status.source, Message::decode(room.bytes(status.bytes as usize))?)),
            });
            // In the order of arrival: the next one is looked at when this one is done.
            match received.and_then(|message| self.post_slot(world, room).map(|()| message)) {
                Ok((from, message)) => self.take(world, from, message),
                // Where nobody needs messages, those that live go on.
                Err(error) if self.is_direct() && error.class == ErrorClass::ERR_PROC_ABORTED => {
                    self.lost.borrow_mut().get_or_insert(error);
                }
                Err(error) => self.fail(world, error),
            }
        }
        moved | self.land(world)
    }

    /// What is over of the messages under way.
    fn land(&self, world: &World<F>) -> bool {
        if self.flights.borrow().is_empty() {
            return false;
        }
        let (over, left): (Vec<_>, Vec<_>) = self
            .flights
            .take()
            .into_iter()
            .partition(|flight| world.is_complete(flight.request).unwrap_or(true));
        self.flights.borrow_mut().extend(left);
        let moved = !over.is_empty();
        for Flight { request, then } in over {
            let result = world.finish(request).and_then(|(status, _)| match status.error {
                Some(error) => Err(*error),
                None => Ok(status.bytes),
            });
            match result {
                Ok(bytes) => self.landed(world, then, bytes),
                Err(error) => self.fail(world, error),
            }
        }
        moved
    }

    fn landed(&self, world: &World<F>, then: Then, came: u64) {
        match then {
            Then::Nothing => {}
            Then::Sent { target, track } => {
                self.with_peer(target, |peer| peer.local -= 1);
                if let Some(track) = track {
                    track.end(world);
                }
            }
            Then::Got { target, bytes, track } => {
                if came != bytes {
                    self.note_remote(farpost_mpi::ErrorClass::ERR_RMA_RANGE.0);
                }
                self.with_peer(target, |peer| {
                    peer.local -= 1;
                    peer.outstanding -= 1;
                });
                if let Some(track) = track {
                    track.end(world);
                }
            }
            Then::Written { origin, astray } => self.written(world, origin, astray.is_some()),
        }
    }
}
