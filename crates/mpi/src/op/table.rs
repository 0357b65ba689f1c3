//! The operations of a process by handle.
//!
//! Requirements of MPI-5.0 section 6.9.5.

use super::{OP_NULL, Op, Predefined, Which};
use crate::errors::Result;
use crate::handle::{HandleKind, HandleTable};

/// One past the last ABI value of a predefined operation.
const LAST: usize = 0x40;

/// Predefined operations and those the program made.
pub struct Ops {
    predefined: [Option<Op>; LAST - OP_NULL],
    table: HandleTable<Op>,
}

impl Default for Ops {
    fn default() -> Self {
        Self::new()
    }
}

impl Ops {
    /// The predefined ones.
    pub fn new() -> Self {
        let mut predefined = [const { None }; LAST - OP_NULL];
        for (op, _) in Predefined::ALL {
            predefined[op as usize - OP_NULL] = Some(Op(Which::Predefined(op)));
        }
        Self {
            predefined,
            table: HandleTable::new(HandleKind::Op),
        }
    }

    /// Gives a user operation a handle.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when there are too many.
    pub fn insert(&mut self, op: Op) -> Result<usize> {
        self.table.insert_with(|handle| {
            if let Which::User(user) = &op.0 {
                user.handle.set(handle);
            }
            op
        })
    }

    /// The operation of a live handle.
    #[inline]
    pub fn get(&self, handle: usize) -> Option<&Op> {
        match self.predefined.get(handle.wrapping_sub(OP_NULL)) {
            Some(predefined) => predefined.as_ref(),
            None => self.table.get(handle),
        }
    }

    /// The operation of a handle argument.
    ///
    /// # Errors
    /// `MPI_ERR_OP` saying whether the handle is null or invalid.
    #[inline]
    pub fn lookup(&self, handle: usize) -> Result<&Op> {
        match self.get(handle) {
            Some(op) => Ok(op),
            None => invalid(handle),
        }
    }

    /// `MPI_Op_free`. Operations in progress keep it.
    ///
    /// # Errors
    /// `MPI_ERR_OP` for a predefined operation or a handle that is not alive.
    pub fn free(&mut self, handle: usize) -> Result<Op> {
        let op = self.lookup(handle)?;
        if op.is_predefined() {
            let name = op.describe();
            return fail!(ERR_OP: "op={name}: a predefined operation cannot be freed");
        }
        match self.table.remove(handle) {
            Some(op) => Ok(op),
            None => invalid(handle),
        }
    }

    /// `MPI_Op_fromint`.
    pub fn from_int(&self, int: i32) -> Option<usize> {
        match usize::try_from(int).ok()? {
            value @ OP_NULL..LAST => (value == OP_NULL || self.get(value).is_some()).then_some(value),
            _ => self.table.from_int(int),
        }
    }
}

#[cold]
fn invalid<T>(handle: usize) -> Result<T> {
    match handle {
        OP_NULL => fail!(ERR_OP: "op=MPI_OP_NULL: an operation is needed"),
        _ => fail!(ERR_OP: "op={handle:#x}: not an operation, or already freed"),
    }
}
