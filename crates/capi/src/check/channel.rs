//! Records between the checks of different processes, on a communicator that the program does not see.
//!
//! Nobody waits for a record: a send of one goes on by itself, and what has come is looked at whenever the program calls
//! and while it waits. A record may be of any length; it travels in parts of at most [`PART`] bytes, in order.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use farpost_mpi::buffer::RecvBuf;
use farpost_mpi::comm::Comm;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::engine::SENT;
use farpost_mpi::engine::context::ANY_SOURCE;

use super::Check;
use crate::cx::{Cx, World};

/// Bytes of a message, the first of which tells whether more of the record follows.
const PART: usize = 4096;
/// The tag of all records.
const TAG: i32 = 0;
/// A longer record is none of ours.
const LONGEST: usize = 1 << 30;

pub(super) struct Channel {
    pub(super) comm: Rc<Comm>,
    /// Where the posted receive writes.
    room: Box<[Cell<u8>; PART]>,
    posted: Cell<Option<usize>>,
    /// Sends that are not over.
    sends: RefCell<Vec<usize>>,
    /// Records of which parts have come, by sender.
    parts: RefCell<HashMap<u32, Vec<u8>>>,
    /// Processes that messages or records of mine have gone to.
    pub(super) met: RefCell<HashSet<u32>>,
    busy: Cell<bool>,
    closed: Cell<bool>,
}

impl Channel {
    pub(super) fn open(world: &World) -> Self {
        Self {
            comm: world.hidden_comm(),
            room: Box::new([const { Cell::new(0) }; PART]),
            posted: Cell::new(None),
            sends: RefCell::default(),
            parts: RefCell::default(),
            met: RefCell::default(),
            busy: Cell::new(false),
            closed: Cell::new(false),
        }
    }
}

impl Check {
    /// Send a record to a process; to myself it comes at once.
    pub(super) fn send(&self, cx: &'static Cx, to: u32, record: &[u8]) {
        if to == self.rank {
            self.take(cx, to, record);
            return;
        }
        self.channel.met.borrow_mut().insert(to);
        let parts = record.chunks(PART - 1);
        let last = parts.len().saturating_sub(1);
        for (at, part) in parts.enumerate() {
            let mut data = Vec::with_capacity(part.len() + 1);
            data.push(u8::from(at < last));
            data.extend_from_slice(part);
            // Who has gone hears nothing any more.
            let sent = cx
                .world()
                .isend_owned(&self.channel.comm, data.into(), to as i32, TAG);
            if let Ok(handle) = sent
                && handle != SENT
            {
                self.channel.sends.borrow_mut().push(handle);
            }
        }
    }

    /// Look at what has come, without waiting.
    pub(super) fn poll(&self, cx: &'static Cx) {
        let channel = &self.channel;
        // What a record leads to may poll.
        if channel.busy.replace(true) {
            return;
        }
        let world = cx.world();
        while let Some((source, more, part)) = self.arrived(world) {
            let mut record = channel.parts.borrow_mut().remove(&source).unwrap_or_default();
            record.extend_from_slice(&part);
            if !more {
                self.take(cx, source, &record);
            } else if record.len() < LONGEST {
                channel.parts.borrow_mut().insert(source, record);
            }
        }
        let over = |handle: &usize| !matches!(world.is_complete(*handle), Ok(false));
        let sends = &mut *channel.sends.borrow_mut();
        for handle in sends.extract_if(.., |handle| over(handle)) {
            let _ = world.finish(handle);
        }
        channel.busy.set(false);
    }

    /// The next message; a receive for the one after it is posted.
    fn arrived(&self, world: &World) -> Option<(u32, bool, Vec<u8>)> {
        let channel = &self.channel;
        let mut came = None;
        if let Some(handle) = channel.posted.get() {
            if !world.is_complete(handle).ok()? {
                return None;
            }
            channel.posted.set(None);
            let (status, _) = world.finish(handle).ok()?;
            if status.error.is_some() {
                // Somebody has ended, and with him what all had in common.
                channel.closed.set(true);
            }
            let len = (status.bytes as usize).min(PART);
            if status.error.is_none() && !status.cancelled && len > 0 {
                let data: Vec<u8> = channel.room[1..len].iter().map(Cell::get).collect();
                came = Some((status.source as u32, channel.room[0].get() != 0, data));
            }
        }
        if channel.closed.get() {
            return came;
        }
        // SAFETY: the room stays where it is until MPI ends, and is looked at only when the receive is complete.
        let room = unsafe {
            RecvBuf::new(
                channel.room.as_ptr().cast_mut().cast(),
                PART as u64,
                Datatype::byte(),
            )
        };
        channel
            .posted
            .set(world.irecv(&channel.comm, room, ANY_SOURCE, TAG).ok());
        came.or_else(|| self.arrived_at_once(world))
    }

    /// A message that was there when its receive was posted.
    fn arrived_at_once(&self, world: &World) -> Option<(u32, bool, Vec<u8>)> {
        let handle = self.channel.posted.get()?;
        if world.is_complete(handle).ok()? {
            return self.arrived(world);
        }
        None
    }

    /// Requests of mine that live.
    pub(crate) fn requests(&self) -> usize {
        self.channel.sends.borrow().len() + usize::from(self.channel.posted.get().is_some())
    }

    /// Whether all records have left.
    pub(super) fn has_sent_all(&self) -> bool {
        self.channel.sends.borrow().is_empty()
    }

    /// Whether nothing comes any more.
    pub(super) fn is_closed(&self) -> bool {
        self.channel.closed.get()
    }

    /// Nothing more is expected.
    pub(super) fn close(&self, world: &World) {
        self.channel.closed.set(true);
        if let Some(handle) = self.channel.posted.take() {
            let _ = world.cancel(handle);
            let _ = world.free_request(handle);
        }
    }
}
