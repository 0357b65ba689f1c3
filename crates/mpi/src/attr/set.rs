//! The attributes of one object, and the protocol of their callbacks.
//!
//! Requirements of MPI-5.0 sections 7.7.2, 7.7.5.

use super::keyval::{CopyFn, DeleteFn, Keyval};
use crate::{Error, ErrorClass, Result};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// One attribute.
#[derive(Clone, Debug)]
pub struct Attribute {
    pub keyval: Rc<Keyval>,
    /// What the user stored: a pointer, or whatever fits.
    pub value: usize,
    /// Which setting this is: tells a value from a later one under the same key.
    stamp: u64,
}

/// The attributes of one object, in the order they were last set.
#[derive(Debug, Default)]
pub struct AttrSet {
    list: RefCell<Vec<Attribute>>,
    next: Cell<u64>,
}

impl AttrSet {
    /// No attributes.
    pub const fn new() -> Self {
        Self {
            list: RefCell::new(Vec::new()),
            next: Cell::new(0),
        }
    }

    /// Number of attributes.
    pub fn len(&self) -> usize {
        self.list.borrow().len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }

    /// `MPI_Comm_get_attr` and its kin: the value, if set.
    pub fn get(&self, keyval: &Keyval) -> Option<usize> {
        self.find(keyval).map(|attribute| attribute.value)
    }

    /// All attributes in the order they were last set.
    pub fn snapshot(&self) -> Vec<Attribute> {
        self.list.borrow().clone()
    }

    /// `MPI_Comm_set_attr` and its kin, for the object with `handle`. An earlier value is deleted first, with
    /// its callback.
    ///
    /// # Errors
    /// What the delete callback returned; the earlier value then stays.
    pub fn set(&self, handle: usize, keyval: &Rc<Keyval>, value: usize) -> Result<()> {
        self.delete(handle, keyval)?;
        self.put(keyval.clone(), value);
        Ok(())
    }

    /// `MPI_Comm_delete_attr` and its kin. Deleting what is not set is no error.
    ///
    /// # Errors
    /// What the delete callback returned; the attribute then stays.
    pub fn delete(&self, handle: usize, keyval: &Keyval) -> Result<()> {
        match self.find(keyval) {
            Some(attribute) => self.remove(handle, &attribute),
            None => Ok(()),
        }
    }

    /// Deletes every attribute, the one set last first: before the object is freed, and for `MPI_COMM_SELF` at the
    /// start of `MPI_Finalize`. Those that callbacks set meanwhile go too.
    ///
    /// # Errors
    /// What a delete callback returned. Its attribute and those set before it stay, and the object must not
    /// be freed.
    pub fn delete_all(&self, handle: usize) -> Result<()> {
        loop {
            let last = self.list.borrow().last().cloned();
            match last {
                Some(attribute) => self.remove(handle, &attribute)?,
                None => return Ok(()),
            }
        }
    }

    /// Copies the attributes of the object with `handle`, which is being duplicated, into `new` as their copy
    /// callbacks say, in the order they were set.
    ///
    /// # Errors
    /// What a copy callback returned. `new` then has the attributes copied before; whoever owns the new object
    /// gives up on it with [`AttrSet::delete_all`].
    pub fn copy_into(&self, handle: usize, new: &AttrSet) -> Result<()> {
        for Attribute { keyval, value, .. } in self.snapshot() {
            let copied = match &keyval.copy {
                CopyFn::Null => None,
                CopyFn::Dup => Some(value),
                CopyFn::User(call) => {
                    call(handle, keyval.id(), value).map_err(|code| failed("copy", &keyval, code))?
                }
            };
            if let Some(value) = copied {
                new.put(keyval, value);
            }
        }
        Ok(())
    }

    /// Makes the attributes of `other` its own, which has none then; runs no callbacks.
    pub fn take_over(&self, other: &AttrSet) {
        let before = self.list.replace(other.list.take());
        self.next.set(other.next.get());
        drop(before);
    }

    fn find(&self, keyval: &Keyval) -> Option<Attribute> {
        let list = self.list.borrow();
        list.iter().find(|a| a.keyval.id() == keyval.id()).cloned()
    }

    /// Adds an attribute whose key is not set; replaces silently what a callback has set meanwhile.
    fn put(&self, keyval: Rc<Keyval>, value: usize) {
        let stamp = self.next.get();
        self.next.set(stamp + 1);
        let replaced = {
            let mut list = self.list.borrow_mut();
            let at = list.iter().position(|a| a.keyval.id() == keyval.id());
            let replaced = at.map(|at| list.remove(at));
            list.push(Attribute { keyval, value, stamp });
            replaced
        };
        drop(replaced);
    }

    /// Runs the delete callback of `attribute`, then takes it away unless the callback has done so or set it
    /// anew.
    fn remove(&self, handle: usize, attribute: &Attribute) -> Result<()> {
        if let DeleteFn::User(call) = &attribute.keyval.delete {
            call(handle, attribute.keyval.id(), attribute.value)
                .map_err(|code| failed("delete", &attribute.keyval, code))?;
        }
        self.list.borrow_mut().retain(|a| a.stamp != attribute.stamp);
        Ok(())
    }
}

/// A callback's return code as an error of the calling function. A class or code of the user's passes through.
fn failed(which: &str, keyval: &Keyval, code: i32) -> Error {
    let class = match code {
        0x4000.. => ErrorClass(code),
        _ => Some(ErrorClass(code & 0x7f))
            .filter(|class| *class != ErrorClass::SUCCESS && class.name().is_some())
            .unwrap_or(ErrorClass::ERR_OTHER),
    };
    Error::new(
        class,
        format!(
            "the {which} callback of keyval {} returned error code {code}",
            keyval.id()
        ),
    )
}
