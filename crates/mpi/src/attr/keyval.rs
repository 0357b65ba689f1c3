//! Attribute keys: creation, freeing, look-up.

use super::predefined::{CommKey, KEYVAL_INVALID, WinKey};
use crate::Result;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// The kind of object an attribute key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    Comm,
    Type,
    Win,
}

/// What happens to an attribute when its object is duplicated.
#[derive(Clone)]
pub enum CopyFn {
    /// `MPI_COMM_NULL_COPY_FN` and its kin: not copied.
    Null,
    /// `MPI_COMM_DUP_FN` and its kin: same value.
    Dup,
    /// The user's function, with its extra state inside: (old object's handle, keyval, value) to the new value,
    /// or `None` for "not copied", or the error code it returned.
    User(Rc<CopyCall>),
}

/// What happens to an attribute when it is deleted or replaced, or its object is freed.
#[derive(Clone)]
pub enum DeleteFn {
    /// `MPI_COMM_NULL_DELETE_FN` and its kin: nothing.
    Null,
    /// The user's function, with its extra state inside: (object's handle, keyval, value) to success, or the
    /// error code it returned.
    User(Rc<DeleteCall>),
}

/// See [`CopyFn::User`].
pub type CopyCall = dyn Fn(usize, i32, usize) -> core::result::Result<Option<usize>, i32>;
/// See [`DeleteFn::User`].
pub type DeleteCall = dyn Fn(usize, i32, usize) -> core::result::Result<(), i32>;

/// An attribute key. Attributes keep theirs alive after the user freed it.
pub struct Keyval {
    id: i32,
    kind: ObjectKind,
    pub(super) copy: CopyFn,
    pub(super) delete: DeleteFn,
}

impl Keyval {
    /// The integer C sees.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// The kind of object this key is for.
    pub fn kind(&self) -> ObjectKind {
        self.kind
    }
}

impl core::fmt::Debug for Keyval {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Keyval({}, {:?})", self.id, self.kind)
    }
}

/// All attribute keys of a world. Identifiers are not used twice, so a freed one is recognised.
pub struct Keyvals {
    live: RefCell<BTreeMap<i32, Rc<Keyval>>>,
    /// Freed by the user while attributes still had it.
    freed: RefCell<BTreeMap<i32, Weak<Keyval>>>,
    next: Cell<i32>,
}

/// Above every predefined key.
const FIRST: i32 = 1024;

impl Default for Keyvals {
    fn default() -> Self {
        Self {
            live: RefCell::default(),
            freed: RefCell::default(),
            next: Cell::new(FIRST),
        }
    }
}

impl Keyvals {
    /// No keys but the predefined ones.
    pub fn new() -> Self {
        Self::default()
    }

    /// `MPI_Comm_create_keyval` and its kin: the new key's identifier.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER`: two thousand million were created before.
    pub fn create(&self, kind: ObjectKind, copy: CopyFn, delete: DeleteFn) -> Result<i32> {
        let id = self.next.get();
        let all_used = || error!(ERR_OTHER: "all numbers for attribute keys are used up");
        let next = id.checked_add(1).ok_or_else(all_used)?;
        self.next.set(next);
        let keyval = Keyval {
            id,
            kind,
            copy,
            delete,
        };
        self.live.borrow_mut().insert(id, Rc::new(keyval));
        Ok(id)
    }

    /// `MPI_Comm_free_keyval` and its kin. Attributes that have the key keep it with its callbacks; until the last of
    /// them is gone freeing again does nothing, as a delete callback may have freed the key before.
    ///
    /// # Errors
    /// `MPI_ERR_KEYVAL`: invalid, predefined, freed, or of another kind of object.
    pub fn free(&self, kind: ObjectKind, id: i32) -> Result<()> {
        self.freed.borrow_mut().retain(|_, weak| weak.strong_count() > 0);
        let again = self.freed.borrow().get(&id).and_then(Weak::upgrade);
        if again.is_some_and(|keyval| keyval.kind == kind) {
            return Ok(());
        }
        let keyval = self.find(kind, id)?;
        self.live.borrow_mut().remove(&id);
        // Dropping a key drops closures of the C layer; that runs no user code, and no borrow is held.
        self.freed.borrow_mut().insert(id, Rc::downgrade(&keyval));
        Ok(())
    }

    /// The key `id`, for setting, getting and deleting attributes of an object of `kind`. A freed key serves until the last
    /// attribute under it has gone (MPI-5.0 section 7.7.2): programs keep a copy of the integer for that.
    ///
    /// # Errors
    /// `MPI_ERR_KEYVAL`: invalid, predefined (look those up with [`CommKey::of`] before), freed and out of use, or of
    /// another kind of object.
    pub fn find(&self, kind: ObjectKind, id: i32) -> Result<Rc<Keyval>> {
        let live = self.live.borrow().get(&id).cloned();
        let found = live.or_else(|| self.freed.borrow().get(&id).and_then(Weak::upgrade));
        let complaint = match found {
            Some(keyval) if keyval.kind == kind => return Ok(keyval),
            Some(keyval) => format!("created for {}, not for {}", keyval.kind.plural(), kind.plural()),
            None => self.why_unknown(id),
        };
        fail!(ERR_KEYVAL: "keyval={id}: {complaint}")
    }

    fn why_unknown(&self, id: i32) -> String {
        let name = CommKey::of(id)
            .map(CommKey::name)
            .or(WinKey::of(id).map(WinKey::name));
        match (id, name) {
            (KEYVAL_INVALID, _) => "this is MPI_KEYVAL_INVALID".into(),
            (_, Some(name)) => format!("{name} is predefined; it cannot be set, deleted or freed"),
            (id, None) if (FIRST..self.next.get()).contains(&id) => "freed before".into(),
            _ => "not an attribute key".into(),
        }
    }
}

impl ObjectKind {
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Comm => "communicators",
            Self::Type => "datatypes",
            Self::Win => "windows",
        }
    }
}
