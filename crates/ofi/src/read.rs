//! Long gets: `fi_read` straight from a peer's segment, instead of question and answer for every message's worth.
//!
//! A segment's memory is ours, so that it can be registered once, when it is first read so, and for as long as it is published. The
//! reader asks for position and key and says when it has read: until then the memory stays registered even if the segment is
//! withdrawn meanwhile, because a key that means nothing any more would cost the connection where the provider is one on sockets.
//!
//! Cost class: *queued path*.

use super::Ofi;
use super::core::Inner;
use super::link::Link;
use super::wire::{control, outcome};
use farpost_fabric::{
    BulkTransfer, Completion, Descriptor, Direction, FabricError, LocalMemory, Result, SegmentId,
};
use farpost_mapped::Mapping;
use std::rc::Rc;

/// Gets of fewer bytes are messages: the question for the key costs as much as they do.
pub const READ_FROM: usize = 32 << 10;

impl Inner {
    /// A peer wants to read from a segment. None: it cannot be.
    pub fn on_read(&self, link: &Rc<Link>, words: &[u64]) -> Option<()> {
        let (number, handle, offset, len) = (words[0], words[1], words[2], words[3]);
        self.resolve(link)?;
        let entries = self.segments.entries();
        let entry = entries.get(usize::try_from(handle).ok()?)?;
        if !Rc::ptr_eq(&entry.link, link) {
            return None;
        }
        let memory = entry.range(offset, len).ok()?.cloned();
        drop(entries);
        let answer = match memory {
            None => [number, outcome::NOT_PUBLISHED, 0, 0],
            Some(memory) => match self.let_read(link, memory) {
                Ok((position, key)) => [number, outcome::YES, position.wrapping_add(offset), key],
                Err(_) => [number, outcome::CANNOT, 0, 0],
            },
        };
        self.control(link, control::READABLE, 0, &answer);
        Some(())
    }

    /// Position and key of a segment's memory, which is `link`'s to read until it says otherwise.
    fn let_read(&self, link: &Rc<Link>, memory: Mapping) -> Result<(u64, u64)> {
        let (address, len) = (memory.address(), LocalMemory::len(&memory));
        if !self.readers.has_registered(&memory) {
            let key = self.expose((address, len), false)?;
            if let Some(old) = self.readers.register(&memory, key) {
                self.bulk.withdraw(old);
            }
        }
        // Once more, and so the same.
        let key = self.expose((address, len), false)?;
        self.readers.begin(link, key, memory);
        Ok((self.exposed_base(address), key))
    }

    /// A peer has read.
    pub fn on_was_read(&self, link: &Rc<Link>, key: u64) {
        self.readers.end(link, key, |key| self.bulk.withdraw(key));
    }

    /// A peer reads no more.
    pub fn forget_reader(&self, link: &Rc<Link>) {
        self.readers.forget(link, |key| self.bulk.withdraw(key));
    }

    /// Whether the provider holds a segment's memory, because a peer has read it.
    pub fn is_registered(&self, memory: &Mapping) -> bool {
        self.readers.holds(memory)
    }

    /// A segment is no more; those who read it now read on.
    pub fn forget_segment(&self, memory: &Mapping) {
        if let Some(key) = self.readers.deregister(memory) {
            self.bulk.withdraw(key);
        }
    }

    /// Read from segment `id` of `link`'s. False: it cannot be read so, and messages must do.
    pub fn read_segment(
        self: &Rc<Self>,
        link: &Rc<Link>,
        (id, handle): (SegmentId, u32),
        offset: usize,
        to: &mut [u8],
    ) -> Result<bool> {
        let words = [u64::from(handle), offset as u64, to.len() as u64];
        let answer = self.ask(link, control::READ, &words, "a question for memory to read")?;
        match answer[1] {
            outcome::YES => {}
            outcome::CANNOT => return Ok(false),
            _ => return Err(FabricError::not_published(link.peer, id)),
        }
        let outcome = self.read_into(link, (answer[2], answer[3]), to);
        if !link.is_dead() {
            self.control(link, control::WAS_READ, 0, &answer[3..4]);
        }
        outcome.map(|()| true)
    }

    fn read_into(self: &Rc<Self>, link: &Rc<Link>, (position, key): (u64, u64), to: &mut [u8]) -> Result<()> {
        let fabric = Ofi(Rc::clone(self));
        let descriptor = Descriptor {
            peer: link.peer,
            direction: Direction::Get,
            local: to.as_mut_ptr().expose_provenance(),
            remote: position as usize,
            key,
            len: to.len(),
        };
        // SAFETY: `to` is ours alone until this returns, and this returns after the completion.
        let Completion::Pending(ticket) = (unsafe { fabric.submit(&descriptor) })? else {
            return Ok(());
        };
        let mut idle = 0;
        while !fabric.poll_transfer(ticket)? {
            if let Err(error) = self.check_alive(link) {
                fabric.cancel_transfer(ticket);
                return Err(error);
            }
            if self.progress() {
                idle = 0;
                continue;
            }
            self.idle(&mut idle);
        }
        Ok(())
    }
}
