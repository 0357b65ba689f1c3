//! Who reads segments by `fi_read`, and what is registered for them (see `read.rs`).

use super::link::Link;
use farpost_fabric::LocalMemory;
use farpost_mapped::Mapping;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A peer that reads.
struct Reader {
    link: Rc<Link>,
    key: u64,
    /// Mapped for as long as it is read.
    _memory: Mapping,
}

/// Who reads what, and what is registered for them.
#[derive(Default)]
pub struct Readers {
    reading: RefCell<Vec<Reader>>,
    /// Keys of segments that were read, by address.
    registered: RefCell<BTreeMap<usize, (u64, Mapping)>>,
}

impl Readers {
    /// Whether the memory is registered, as long as it is.
    pub fn has_registered(&self, memory: &Mapping) -> bool {
        let registered = self.registered.borrow();
        let known = registered.get(&memory.address());
        known.is_some_and(|(_, known)| LocalMemory::len(known) == LocalMemory::len(memory))
    }

    /// The memory is registered as `key`. The key of what was at its address before, if anything.
    pub fn register(&self, memory: &Mapping, key: u64) -> Option<u64> {
        let mut registered = self.registered.borrow_mut();
        let old = registered.insert(memory.address(), (key, memory.clone()));
        old.map(|(key, _)| key)
    }

    /// The memory is a segment's no more. The key it had, if any.
    pub fn deregister(&self, memory: &Mapping) -> Option<u64> {
        let old = self.registered.borrow_mut().remove(&memory.address());
        old.map(|(key, _)| key)
    }

    /// Whether the provider holds memory at this address.
    pub fn holds(&self, memory: &Mapping) -> bool {
        self.registered.borrow().contains_key(&memory.address())
    }

    /// `link` reads `memory`, exposed as `key`.
    pub fn begin(&self, link: &Rc<Link>, key: u64, memory: Mapping) {
        self.reading.borrow_mut().push(Reader {
            link: Rc::clone(link),
            key,
            _memory: memory,
        });
    }

    /// `link` has read what is exposed as `key`, so that `withdraw` may follow. Nothing happens if it was not reading.
    pub fn end(&self, link: &Rc<Link>, key: u64, withdraw: impl FnOnce(u64)) {
        let mut reading = self.reading.borrow_mut();
        let found = reading
            .iter()
            .position(|r| r.key == key && Rc::ptr_eq(&r.link, link));
        if let Some(at) = found {
            withdraw(key);
            reading.swap_remove(at);
        }
    }

    /// `link` reads no more: `withdraw` what was exposed for it.
    pub fn forget(&self, link: &Rc<Link>, mut withdraw: impl FnMut(u64)) {
        self.reading.borrow_mut().retain(|reader| {
            let stays = !Rc::ptr_eq(&reader.link, link);
            if !stays {
                withdraw(reader.key);
            }
            stays
        });
    }
}
