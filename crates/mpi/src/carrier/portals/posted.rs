//! Posted receives: match entries in the order of their receives. One that has done its work stays in the list for the next
//! receive that asks for the same, if it stands behind all that still wait: then posting is one update.
//!
//! Cost class: *fast path* where an entry is used again.

use super::descriptor;
use super::memory;
use farpost_fabric::Fabric;
use farpost_portals::{
    AnyInterface, Error as PortalsError, Handle, Iovec, Md, NetworkInterface, Position, ProcessId, Unlink,
    option,
};
use std::collections::VecDeque;

/// Entries without work beyond this and as many as work are taken out.
const IDLE: usize = 64;
/// Entries looked at for one that can be used again.
const LOOKS: usize = 8;

/// What a receive takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub id: ProcessId,
    pub bits: u64,
    pub ignore: u64,
}

/// A match entry.
pub(super) struct Entry {
    me: Handle,
    md: Handle,
    wanted: Wanted,
    /// Where in `order`.
    at: usize,
    pub active: bool,
    /// The request. None: it was given up.
    pub request: Option<usize>,
    /// The queue with room for its event.
    pub queue: u8,
    /// Where the bytes land that go to scattered memory.
    pub landing: Option<Box<[u8]>>,
}

/// The entries of posted receives.
pub(super) struct Posted {
    /// Receives are inserted before it.
    mark: Handle,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// As in the match list.
    order: Vec<u32>,
    /// From here on all are idle.
    cursor: usize,
    active: usize,
    /// Most that may be active.
    most: usize,
    /// Requests of later receives than all that have an entry, oldest first.
    behind: VecDeque<usize>,
}

impl Posted {
    pub fn new(mark: Handle, most: u64) -> Self {
        Self {
            mark,
            most: most as usize,
            behind: VecDeque::new(),
            entries: Vec::new(),
            free: Vec::new(),
            order: Vec::new(),
            cursor: 0,
            active: 0,
        }
    }

    pub fn get(&mut self, number: usize) -> Option<&mut Entry> {
        self.entries.get_mut(number)?.as_mut()
    }

    /// Whether no further receive may have an entry now.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.active >= self.most
    }

    /// Whether receives are posted that have no entry.
    #[inline]
    pub fn has_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// A receive is posted behind all others, without an entry.
    pub fn push_behind(&mut self, request: usize) {
        self.behind.push_back(request);
    }

    /// The next one to have an entry, if it may.
    #[inline]
    pub fn next_behind(&self) -> Option<usize> {
        let next = self.behind.front()?;
        (!self.is_full()).then_some(*next)
    }

    /// A receive waits without an entry no more.
    pub fn remove_behind(&mut self, request: usize) {
        if let Some(at) = self.behind.iter().position(|waiting| *waiting == request) {
            self.behind.remove(at);
        }
    }

    /// An entry behind all that wait, idle.
    #[inline]
    pub fn place<F: Fabric>(&mut self, ni: &AnyInterface<F>, wanted: Wanted) -> Result<u32, PortalsError> {
        for at in self.cursor..self.order.len().min(self.cursor + LOOKS) {
            let number = self.order[at];
            if self.entries[number as usize]
                .as_ref()
                .is_some_and(|entry| entry.wanted == wanted)
            {
                return Ok(number);
            }
        }
        self.insert(ni, wanted)
    }

    fn insert<F: Fabric>(&mut self, ni: &AnyInterface<F>, wanted: Wanted) -> Result<u32, PortalsError> {
        // At most a quarter more than may be active, so that taking them out takes four looks for each that is made.
        let most = self.most + IDLE.max(self.most / 4);
        if self.order.len() >= most.min(2 * self.active + IDLE) {
            self.compact(ni);
        }
        let bits = (wanted.bits, wanted.ignore);
        let me = ni.me_insert(self.mark, wanted.id, bits, Unlink::Retain, Position::Before)?;
        let number = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() as u32 - 1
        });
        let mut md = descriptor(0, 0, 0, 0, Handle::EQ_NONE);
        md.threshold = 0;
        let md = match memory::attach(ni, me, md, None, Unlink::Retain) {
            Ok(md) => md,
            Err(error) => {
                self.free.push(number);
                let _ = ni.me_unlink(me);
                return Err(error);
            }
        };
        self.entries[number as usize] = Some(Entry {
            me,
            md,
            wanted,
            at: self.order.len(),
            active: false,
            request: None,
            queue: 0,
            landing: None,
        });
        self.order.push(number);
        Ok(number)
    }

    /// Take the idle ones out.
    #[cold]
    fn compact<F: Fabric>(&mut self, ni: &AnyInterface<F>) {
        let mut order = Vec::with_capacity(self.active);
        for number in std::mem::take(&mut self.order) {
            let place = &mut self.entries[number as usize];
            let Some(entry) = place else { continue };
            if entry.active || ni.me_unlink(entry.me).is_err() {
                entry.at = order.len();
                order.push(number);
            } else {
                *place = None;
                self.free.push(number);
            }
        }
        self.order = order;
        self.cursor = self.order.len();
        self.retreat();
    }

    /// Let an entry take one message into `room`, unless `testq` holds an event or will. False: it does.
    #[inline]
    pub fn arm<F: Fabric>(
        &mut self,
        ni: &AnyInterface<F>,
        number: u32,
        room: (usize, u64, Iovec),
        names: (usize, Handle, Handle),
    ) -> Result<bool, PortalsError> {
        self.arm_with(number, room, names, |md, new, testq| {
            memory::update(ni, md, None, new, testq)
        })
    }

    /// The same, unless the last of the queues holds an event now: what is on its way to it is listed already.
    #[inline]
    pub fn arm_behind_listed<F: Fabric>(
        &mut self,
        ni: &AnyInterface<F>,
        number: u32,
        room: (usize, u64, Iovec),
        names: (usize, Handle, Handle),
    ) -> Result<bool, PortalsError> {
        self.arm_with(number, room, names, |md, new, eq| {
            memory::update_unless_logged(ni, md, new, eq)
        })
    }

    #[inline(always)]
    fn arm_with(
        &mut self,
        number: u32,
        (start, length, iovec): (usize, u64, Iovec),
        (user_ptr, eq, testq): (usize, Handle, Handle),
        update: impl FnOnce(Handle, (Md, Iovec), Handle) -> Result<bool, PortalsError>,
    ) -> Result<bool, PortalsError> {
        let Some(entry) = &mut self.entries[number as usize] else {
            return Err(PortalsError::MeInvalid);
        };
        let pieces = if iovec.is_some() { option::IOVEC } else { 0 };
        let mut md = descriptor(
            start,
            length,
            option::OP_PUT | option::TRUNCATE | pieces,
            user_ptr,
            eq,
        );
        md.threshold = 1;
        if !update(entry.md, (md, iovec), testq)? {
            return Ok(false);
        }
        entry.active = true;
        self.active += 1;
        self.cursor = self.cursor.max(entry.at + 1);
        Ok(true)
    }

    /// An entry has taken its message. False: it was taken back before.
    #[inline]
    pub fn over(&mut self, number: usize) -> bool {
        if let Some(Some(entry)) = self.entries.get_mut(number)
            && std::mem::replace(&mut entry.active, false)
        {
            self.active -= 1;
            self.retreat();
            return true;
        }
        false
    }

    #[inline]
    fn retreat(&mut self) {
        while let Some(before) = self.cursor.checked_sub(1)
            && self.entries[self.order[before] as usize]
                .as_ref()
                .is_none_or(|entry| !entry.active)
        {
            self.cursor = before;
        }
    }

    /// Take back an entry that has not taken anything. False: it has.
    pub fn disarm<F: Fabric>(&mut self, ni: &AnyInterface<F>, number: usize) -> bool {
        let Some(Some(entry)) = self.entries.get_mut(number) else {
            return false;
        };
        let mut off = descriptor(0, 0, 0, 0, Handle::EQ_NONE);
        off.threshold = 0;
        let mut old = off;
        let none = Handle::EQ_NONE;
        // A message that is being received refuses the update, one that has been received has used up the threshold; but then
        // its event is still to be logged to the queue that the descriptor named, or is there.
        match memory::update(ni, entry.md, Some(&mut old), (off, None), none) {
            Ok(true) if old.threshold != 0 => {}
            // The agent that has it has ended: nothing will come by it.
            Err(PortalsError::Fail) => {}
            _ => return false,
        }
        self.over(number);
        true
    }
}
