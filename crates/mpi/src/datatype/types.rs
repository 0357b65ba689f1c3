//! The datatypes of a process by handle.
//!
//! Requirements of MPI-5.0 section 5.1.9.

use super::basic::{Basic, FIRST, LAST};
use super::shape::Mark;
use super::{DATATYPE_NULL, Datatype};
use crate::errors::Result;
use crate::handle::{HandleKind, HandleTable};
use std::collections::BTreeMap;

/// Predefined datatypes and those the program made.
pub struct Types {
    named: Vec<Option<Datatype>>,
    table: HandleTable<Datatype>,
    /// Handles of the Fortran types: asked with the same arguments, the answer is the same handle.
    pub(super) f90: BTreeMap<(i32, i32, i32), usize>,
}

impl Default for Types {
    fn default() -> Self {
        Self::new()
    }
}

impl Types {
    /// The predefined ones.
    pub fn new() -> Self {
        let mut named: Vec<_> = (FIRST..LAST)
            .map(|abi| Basic::from_abi(abi).map(Datatype::new_basic))
            .collect();
        for mark in [Mark::Lower, Mark::Upper] {
            let marking = Datatype::new_mark(mark);
            let at = marking.handle() - FIRST;
            named[at] = Some(marking);
        }
        Self {
            named,
            table: HandleTable::new(HandleKind::Datatype),
            f90: BTreeMap::new(),
        }
    }

    /// Gives a constructor's result a handle.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when there are too many.
    pub fn insert(&mut self, datatype: Datatype) -> Result<usize> {
        self.table.insert_with(|handle| {
            datatype.0.handle.set(handle);
            datatype
        })
    }

    /// The datatype of a live handle.
    #[inline]
    pub fn get(&self, handle: usize) -> Option<&Datatype> {
        match self.named.get(handle.wrapping_sub(FIRST)) {
            Some(named) => named.as_ref(),
            None => self.table.get(handle),
        }
    }

    /// The datatype of a handle argument.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE` saying whether the handle is null or invalid.
    #[inline]
    pub fn lookup(&self, handle: usize) -> Result<&Datatype> {
        match self.get(handle) {
            Some(datatype) => Ok(datatype),
            None => invalid(handle),
        }
    }

    /// A predefined datatype.
    pub fn basic(&self, basic: Basic) -> &Datatype {
        self.named[basic.abi() - FIRST]
            .as_ref()
            .expect("every Basic has an entry")
    }

    /// `MPI_Type_free`. The object lives on in types, requests and windows that use it. Attributes are the
    /// caller's to delete, before.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE` for a handle that is not alive or belongs to MPI.
    pub fn free(&mut self, handle: usize) -> Result<Datatype> {
        let datatype = self.lookup(handle)?;
        if datatype.is_predefined() {
            let name = datatype.describe();
            return fail!(ERR_TYPE: "datatype={name}: a predefined datatype cannot be freed");
        }
        match self.table.remove(handle) {
            Some(datatype) => Ok(datatype),
            None => invalid(handle),
        }
    }

    /// The handle for a datatype out of [`Datatype::contents`]: its own when it is predefined, else a new one,
    /// which the program frees.
    ///
    /// # Errors
    /// As [`Types::insert`].
    pub fn reopen(&mut self, datatype: &Datatype) -> Result<usize> {
        if datatype.is_predefined() {
            return Ok(datatype.handle());
        }
        self.insert(datatype.reopened())
    }

    /// `MPI_Type_fromint`.
    pub fn from_int(&self, int: i32) -> Option<usize> {
        match usize::try_from(int).ok()? {
            value @ FIRST..LAST => (value == DATATYPE_NULL || self.get(value).is_some()).then_some(value),
            _ => self.table.from_int(int),
        }
    }

    /// Datatypes the program made and did not free.
    pub fn derived(&self) -> impl Iterator<Item = &Datatype> {
        self.table
            .iter()
            .map(|(_, datatype)| datatype)
            .filter(|datatype| !datatype.is_predefined())
    }
}

#[cold]
fn invalid<T>(handle: usize) -> Result<T> {
    match handle {
        DATATYPE_NULL => fail!(ERR_TYPE: "datatype=MPI_DATATYPE_NULL: a datatype is needed"),
        _ => fail!(ERR_TYPE: "datatype={handle:#x}: not a datatype, or already freed"),
    }
}
