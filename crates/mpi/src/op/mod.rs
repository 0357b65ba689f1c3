//! Reduction operations (MPI-5.0 section 6.9).

mod kernels;
mod table;
#[cfg(test)]
mod tests;

pub use table::Ops;

use crate::datatype::{Datatype, Reducible};
use crate::errors::Result;
use kernels::Kernel;
use std::cell::Cell;
use std::rc::Rc;

/// `MPI_OP_NULL`.
pub const OP_NULL: usize = 0x20;

/// A predefined operation. The number is the ABI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Predefined {
    Sum = 0x21,
    Min = 0x22,
    Max = 0x23,
    Prod = 0x24,
    Band = 0x28,
    Bor = 0x29,
    Bxor = 0x2a,
    Land = 0x30,
    Lor = 0x31,
    Lxor = 0x32,
    Minloc = 0x38,
    Maxloc = 0x39,
    Replace = 0x3c,
    NoOp = 0x3d,
}

impl Predefined {
    /// Every predefined operation with its MPI name.
    pub const ALL: [(Predefined, &'static str); 14] = [
        (Predefined::Sum, "MPI_SUM"),
        (Predefined::Min, "MPI_MIN"),
        (Predefined::Max, "MPI_MAX"),
        (Predefined::Prod, "MPI_PROD"),
        (Predefined::Band, "MPI_BAND"),
        (Predefined::Bor, "MPI_BOR"),
        (Predefined::Bxor, "MPI_BXOR"),
        (Predefined::Land, "MPI_LAND"),
        (Predefined::Lor, "MPI_LOR"),
        (Predefined::Lxor, "MPI_LXOR"),
        (Predefined::Minloc, "MPI_MINLOC"),
        (Predefined::Maxloc, "MPI_MAXLOC"),
        (Predefined::Replace, "MPI_REPLACE"),
        (Predefined::NoOp, "MPI_NO_OP"),
    ];

    /// The MPI name.
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(op, _)| *op == self)
            .map_or("", |(_, name)| name)
    }
}

/// A user function: `(invec, inoutvec, len, datatype)`.
pub type UserFunction = Rc<dyn Fn(*const u8, *mut u8, u64, &Datatype)>;

struct User {
    function: UserFunction,
    commute: bool,
    /// Most elements of one call: `i32::MAX` for a function that takes an `int`.
    most: u64,
    handle: Cell<usize>,
}

#[derive(Clone)]
enum Which {
    Predefined(Predefined),
    User(Rc<User>),
}

/// A reduction operation. Cheap to clone.
#[derive(Clone)]
pub struct Op(Which);

impl Op {
    pub const SUM: Op = Op(Which::Predefined(Predefined::Sum));
    pub const MIN: Op = Op(Which::Predefined(Predefined::Min));
    pub const MAX: Op = Op(Which::Predefined(Predefined::Max));
    pub const PROD: Op = Op(Which::Predefined(Predefined::Prod));
    pub const BAND: Op = Op(Which::Predefined(Predefined::Band));
    pub const BOR: Op = Op(Which::Predefined(Predefined::Bor));
    pub const BXOR: Op = Op(Which::Predefined(Predefined::Bxor));
    pub const LAND: Op = Op(Which::Predefined(Predefined::Land));
    pub const LOR: Op = Op(Which::Predefined(Predefined::Lor));

    /// The predefined operation with this ABI value.
    #[inline]
    pub fn predefined(abi: usize) -> Option<Op> {
        Predefined::ALL
            .iter()
            .find(|(op, _)| *op as usize == abi)
            .map(|(op, _)| Op(Which::Predefined(*op)))
    }

    /// A user operation with large counts (`MPI_Op_create_c`).
    pub fn user(function: UserFunction, commute: bool) -> Op {
        Self::with_most(function, commute, u64::MAX)
    }

    /// A user operation whose function counts in `int` (`MPI_Op_create`): it is called in pieces when a
    /// reduction has more elements.
    pub fn user_int(function: UserFunction, commute: bool) -> Op {
        Self::with_most(function, commute, i32::MAX as u64)
    }

    fn with_most(function: UserFunction, commute: bool, most: u64) -> Op {
        Op(Which::User(Rc::new(User {
            function,
            commute,
            most,
            handle: Cell::new(OP_NULL),
        })))
    }

    /// Whether operands may be exchanged. All operations count as associative.
    #[inline]
    pub fn is_commutative(&self) -> bool {
        match &self.0 {
            Which::Predefined(op) => !matches!(op, Predefined::Replace | Predefined::NoOp),
            Which::User(user) => user.commute,
        }
    }

    /// Which predefined operation it is.
    #[inline]
    pub fn as_predefined(&self) -> Option<Predefined> {
        match &self.0 {
            Which::Predefined(op) => Some(*op),
            Which::User(_) => None,
        }
    }

    /// Whether it is a predefined one.
    pub fn is_predefined(&self) -> bool {
        self.as_predefined().is_some()
    }

    /// The handle value; `MPI_OP_NULL` for a user operation before [`Ops::insert`].
    pub fn handle(&self) -> usize {
        match &self.0 {
            Which::Predefined(op) => *op as usize,
            Which::User(user) => user.handle.get(),
        }
    }

    /// For error messages.
    pub fn describe(&self) -> &'static str {
        match &self.0 {
            Which::Predefined(op) => op.name(),
            Which::User(_) => "a user operation",
        }
    }

    /// Whether the operation works on this type, by the tables of MPI-5.0 sections 6.9.2 and 6.9.4.
    ///
    /// # Errors
    /// `MPI_ERR_OP` naming both.
    #[inline]
    pub fn valid_for(&self, datatype: &Datatype) -> Result<()> {
        match &self.0 {
            Which::User(_) => Ok(()),
            Which::Predefined(Predefined::Replace | Predefined::NoOp) => Ok(()),
            Which::Predefined(op) => kernel(*op, datatype).map(|_| ()),
        }
    }

    /// `inout = inp op inout` for `count` elements.
    ///
    /// # Errors
    /// `MPI_ERR_OP` when the operation is not defined for the type.
    ///
    /// # Safety
    /// Both addresses hold `count` elements of `datatype`, `inout` is ours alone, and they do not overlap.
    #[allow(unsafe_code)]
    pub unsafe fn apply(
        &self,
        inp: *const u8,
        inout: *mut u8,
        count: u64,
        datatype: &Datatype,
    ) -> Result<()> {
        match &self.0 {
            Which::Predefined(Predefined::NoOp) => Ok(()),
            Which::Predefined(Predefined::Replace) => {
                // SAFETY: the caller's promise covers both buffers.
                let (from, to) = unsafe {
                    (
                        crate::buffer::SendBuf::new(inp, count, datatype.clone()),
                        crate::buffer::RecvBuf::new(inout, count, datatype.clone()),
                    )
                };
                replace(&from, &to);
                Ok(())
            }
            Which::Predefined(op) => {
                let kernel = kernel(*op, datatype)?;
                // SAFETY: as the caller promised; the kernel is for this type.
                unsafe { (kernel.two)(inp, inout, count as usize) };
                Ok(())
            }
            Which::User(user) => {
                let (mut inp, mut inout, mut left) = (inp, inout, count);
                while left > 0 {
                    let now = left.min(user.most);
                    (user.function)(inp, inout, now, datatype);
                    let step = (now as isize).wrapping_mul(datatype.extent() as isize);
                    (inp, inout) = (inp.wrapping_offset(step), inout.wrapping_offset(step));
                    left -= now;
                }
                Ok(())
            }
        }
    }

    /// `out = a op b` for `count` elements, when it can be done in one pass: predefined operations but
    /// `MPI_REPLACE` and `MPI_NO_OP`. Says whether it did.
    ///
    /// # Errors
    /// As [`Op::apply`].
    ///
    /// # Safety
    /// As [`Op::apply`]; `out` overlaps neither operand.
    #[allow(unsafe_code)]
    pub unsafe fn combine(
        &self,
        a: *const u8,
        b: *const u8,
        out: *mut u8,
        count: u64,
        datatype: &Datatype,
    ) -> Result<bool> {
        match &self.0 {
            Which::Predefined(Predefined::NoOp | Predefined::Replace) | Which::User(_) => Ok(false),
            Which::Predefined(op) => {
                let kernel = kernel(*op, datatype)?;
                // SAFETY: as the caller promised; the kernel is for this type.
                unsafe { (kernel.three)(a, b, out, count as usize) };
                Ok(true)
            }
        }
    }
}

impl core::fmt::Debug for Op {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.describe())
    }
}

/// The loop for this operation on this type.
#[inline]
fn kernel(op: Predefined, datatype: &Datatype) -> Result<Kernel> {
    let found = match datatype.reducible() {
        Some(Reducible::Value(basic)) => kernels::of_value(op, basic),
        Some(Reducible::Pair { value, index, at }) => {
            kernels::of_pair(op, value, index, at, datatype.extent())
        }
        None => None,
    };
    match found {
        Some(kernel) => Ok(kernel),
        None => undefined(op, datatype),
    }
}

#[cold]
fn undefined(op: Predefined, datatype: &Datatype) -> Result<Kernel> {
    let name = op.name();
    if datatype.reducible().is_some() {
        return fail!(ERR_OP: "op={name}: not defined for datatype {datatype:?}");
    }
    fail!(ERR_OP: "op={name}: defined for predefined datatypes only, not for a {datatype:?}")
}

/// Copies elements of any layout.
fn replace(from: &crate::buffer::SendBuf, to: &crate::buffer::RecvBuf) {
    let mut piece = [0u8; 4096];
    let mut at = 0;
    while at < from.bytes() {
        let len = from.pack(at, &mut piece);
        to.unpack(at, &piece[..len]);
        at += len as u64;
    }
}

/// `inout = inp op inout`: the name the collectives use.
///
/// # Errors
/// As [`Op::apply`].
///
/// # Safety
/// As [`Op::apply`].
#[allow(unsafe_code)]
#[inline]
pub unsafe fn reduce_into(
    op: &Op,
    inp: *const u8,
    inout: *mut u8,
    count: u64,
    datatype: &Datatype,
) -> Result<()> {
    // SAFETY: the caller's promise is passed on.
    unsafe { op.apply(inp, inout, count, datatype) }
}
