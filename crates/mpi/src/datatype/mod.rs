//! Datatypes (MPI-5.0 chapter 5): constructors, layout, envelope and contents, packing.
//!
//! A [`Datatype`] is built by its constructors (`construct`, `array`, `f90`), which check arguments,
//! compute bounds and compile the layout plan (`layout`). [`Types`] gives it a handle. Building is set-up
//! path; everything asked per message is a field.
//!
//! Requirements of MPI-5.0 section 19.3.

mod accumulated;
mod array;
pub mod basic;
pub(crate) mod construct;
pub(crate) mod copy;
mod elements;
mod envelope;
mod f90;
mod headed;
pub(crate) mod layout;
pub(crate) mod shape;
mod signature;
#[cfg(test)]
mod tests;
mod types;

pub use array::{
    DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC, DISTRIBUTE_DFLT_DARG, DISTRIBUTE_NONE, ORDER_C, ORDER_FORTRAN,
};
pub use basic::Basic;
pub use envelope::{Combiner, Contents, EnvelopeCounts, Getter};
pub use f90::{TYPECLASS_COMPLEX, TYPECLASS_INTEGER, TYPECLASS_LOGICAL, TYPECLASS_REAL, match_size};
pub use headed::{HEADER_BYTES, HEADER_WORDS, Header};
pub use signature::Signature;
pub use types::Types;

use crate::attr::AttrSet;
use crate::errors::Result;
use envelope::Envelope;
use layout::Node;
use shape::{Mark, Metrics, Shape};
use std::cell::{Cell, OnceCell, RefCell};
use std::mem::ManuallyDrop;
use std::rc::Rc;

/// `MPI_DATATYPE_NULL`.
pub const DATATYPE_NULL: usize = basic::FIRST;
/// `MPI_LB`, removed in MPI-3.0.
pub const LB: usize = 0x206;
/// `MPI_UB`, removed in MPI-3.0.
pub const UB: usize = 0x205;
/// `MPI_UNDEFINED`.
pub const UNDEFINED: i32 = -32766;

/// A datatype. Cheap to clone; immutable but for "committed", its name, attributes and handle.
#[derive(Clone)]
pub struct Datatype(Rc<TypeObject>);

/// What a datatype is. In this order: what every message asks for comes first.
#[repr(C)]
pub struct TypeObject {
    contiguous: bool,
    signature: u8,
    committed: Cell<bool>,
    predefined: bool,
    large: Cell<bool>,
    metrics: Metrics,
    handle: Cell<usize>,
    layout: Node,
    shape: Rc<Shape>,
    envelope: Rc<Envelope>,
    name: RefCell<String>,
    attributes: AttrSet,
    /// Worked out when it is first asked for.
    full_signature: OnceCell<Box<Signature>>,
    /// What precedes the user's data.
    header: Option<Header>,
}

impl Datatype {
    /// The predefined datatype with this ABI value, for the library's own use: attributes and name that a
    /// program sets are on the object in [`Types`].
    #[inline]
    pub fn predefined(abi: usize) -> Option<Datatype> {
        Basic::from_abi(abi).map(Datatype::from_basic)
    }

    /// As [`Datatype::predefined`]. The object is kept by the thread and never dropped: threads end at times
    /// of their own, while the counts of references are guarded by the lock of the library.
    #[inline]
    pub fn from_basic(basic: Basic) -> Datatype {
        thread_local! {
            static KEPT: ManuallyDrop<[OnceCell<Datatype>; basic::TABLE.len()]> =
                const { ManuallyDrop::new([const { OnceCell::new() }; basic::TABLE.len()]) };
        }
        KEPT.with(|kept| {
            kept[basic.number()]
                .get_or_init(|| Self::new_basic(basic))
                .clone()
        })
    }

    /// A new object for a predefined datatype.
    fn new_basic(basic: Basic) -> Datatype {
        let envelope = Envelope::plain(Combiner::NAMED, vec![], vec![], vec![]);
        let name = basic.info().name;
        Self::build_predefined(Shape::of(basic), envelope, name, basic.abi())
            .expect("predefined datatypes are small")
    }

    /// `MPI_LB` and `MPI_UB` of MPI-1, which say where an element begins and ends and have no data. The standard has removed
    /// them; their handles are those of the one other library that has them under this ABI.
    fn new_mark(mark: Mark) -> Datatype {
        let (name, handle) = match mark {
            Mark::Lower => ("MPI_LB", LB),
            Mark::Upper => ("MPI_UB", UB),
        };
        let envelope = Envelope::plain(Combiner::NAMED, vec![], vec![], vec![]);
        Self::build_predefined(Shape::Mark(mark), envelope, name, handle).expect("it has no data")
    }

    /// Whether the two are one object.
    #[inline(always)]
    pub(crate) fn is_same_object(&self, other: &Datatype) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// `MPI_BYTE`, as [`Datatype::predefined`].
    #[inline]
    pub fn byte() -> Datatype {
        Self::from_basic(Basic::BYTE)
    }

    /// A committed type that the program cannot free.
    fn build_predefined(shape: Shape, envelope: Envelope, name: &str, handle: usize) -> Result<Datatype> {
        let mut made = Self::build(shape, None, envelope)?;
        let object = Rc::get_mut(&mut made.0).expect("just built");
        object.predefined = true;
        object.committed = Cell::new(true);
        object.handle = Cell::new(handle);
        object.name = RefCell::new(name.to_string());
        Ok(made)
    }

    /// The object for a checked shape. `bounds` are explicit lower bound and extent.
    fn build(shape: Shape, bounds: Option<(i64, i64)>, envelope: Envelope) -> Result<Datatype> {
        let metrics = shape.metrics(bounds)?;
        let layout = shape.layout();
        debug_assert_eq!(layout.size, metrics.size);
        Ok(Datatype(Rc::new(TypeObject {
            contiguous: layout.size == 0 || layout.is_run() && metrics.extent as u64 == metrics.size,
            signature: metrics.basic.map_or(0, Basic::signature),
            metrics,
            predefined: false,
            committed: Cell::new(false),
            handle: Cell::new(DATATYPE_NULL),
            large: Cell::new(false),
            layout,
            shape: Rc::new(shape),
            envelope: Rc::new(envelope),
            name: RefCell::new(String::new()),
            attributes: AttrSet::new(),
            full_signature: OnceCell::new(),
            header: None,
        })))
    }

    /// Another object of the same type: same envelope, name and commitment, no attributes, no handle.
    pub(crate) fn reopened(&self) -> Datatype {
        let this = &*self.0;
        Datatype(Rc::new(TypeObject {
            metrics: this.metrics.clone(),
            contiguous: this.contiguous,
            signature: this.signature,
            predefined: this.predefined,
            committed: this.committed.clone(),
            handle: Cell::new(DATATYPE_NULL),
            large: this.large.clone(),
            layout: this.layout.clone(),
            shape: this.shape.clone(),
            envelope: this.envelope.clone(),
            name: this.name.clone(),
            attributes: AttrSet::new(),
            full_signature: this.full_signature.clone(),
            header: None,
        }))
    }

    /// Bytes of data in one element.
    #[inline]
    pub fn size(&self) -> u64 {
        self.0.metrics.size
    }

    /// Lower bound, bytes.
    #[inline]
    pub fn lb(&self) -> i64 {
        self.0.metrics.lb
    }

    /// Upper bound, bytes.
    #[inline]
    pub fn ub(&self) -> i64 {
        self.lb().wrapping_add(self.extent())
    }

    /// Distance from one element to the next, bytes.
    #[inline]
    pub fn extent(&self) -> i64 {
        self.0.metrics.extent
    }

    /// Where the data really begin, bytes from the buffer address.
    #[inline]
    pub fn true_lb(&self) -> i64 {
        self.0.metrics.true_lb
    }

    /// Bytes from the first to one past the last byte of data.
    #[inline]
    pub fn true_extent(&self) -> i64 {
        self.0.metrics.true_extent
    }

    /// Whether any number of elements is one run of bytes that begins at `base + true_lb`.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.0.contiguous
    }

    /// The one predefined type of all leaves; `None` when there are several or none.
    #[inline]
    pub fn basic(&self) -> Option<Basic> {
        self.0.metrics.basic
    }

    /// Code for the comparison of sender's and receiver's type: equal or either 0 is a match.
    #[inline]
    pub fn sig(&self) -> u8 {
        self.0.signature
    }

    /// Basic elements in one element.
    pub fn elements(&self) -> u64 {
        self.0.metrics.elements
    }

    /// The handle value; `MPI_DATATYPE_NULL` before [`Types::insert`].
    #[inline]
    pub fn handle(&self) -> usize {
        self.0.handle.get()
    }

    /// Whether it is named or another type that the program must not free.
    #[inline]
    pub fn is_predefined(&self) -> bool {
        self.0.predefined
    }

    /// Whether it may be used in communication.
    #[inline]
    pub fn is_committed(&self) -> bool {
        self.0.committed.get()
    }

    /// `MPI_Type_commit`. The plan exists since construction.
    pub fn commit(&self) {
        self.0.committed.set(true);
    }

    /// The cached attributes.
    pub fn attributes(&self) -> &AttrSet {
        &self.0.attributes
    }

    /// Whether both are the same object.
    pub fn same(&self, other: &Datatype) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// `MPI_Type_get_name`.
    pub fn name(&self) -> String {
        self.0.name.borrow().clone()
    }

    /// `MPI_Type_set_name`.
    pub fn set_name(&self, name: &str) {
        *self.0.name.borrow_mut() = name.to_string();
    }

    /// For error messages: the name, or what the type is.
    pub fn describe(&self) -> String {
        let name = self.0.name.borrow();
        if name.is_empty() {
            format!(
                "{} datatype of {} bytes",
                self.0.envelope.combiner.word(),
                self.size()
            )
        } else {
            name.clone()
        }
    }

    /// Marks a type as made by a `_c` constructor, whose contents are large counts.
    pub fn via_large_count(self) -> Self {
        self.0.large.set(true);
        self
    }

    pub(crate) fn layout(&self) -> &Node {
        &self.0.layout
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// The predefined value, or pair of them, that reductions work on; looks through `MPI_Type_dup`.
    pub(crate) fn reducible(&self) -> Option<Reducible> {
        match self.shape() {
            Shape::Basic(basic) => Some(Reducible::Value(*basic)),
            Shape::Pair { value, index, at } => Some(Reducible::Pair {
                value: *value,
                index: *index,
                at: *at,
            }),
            Shape::Same(child) if self.combiner() == Combiner::DUP => child.reducible(),
            _ => None,
        }
    }
}

/// Chains of types of any length are dropped without recursion.
impl Drop for TypeObject {
    fn drop(&mut self) {
        let mut orphans = Vec::new();
        self.give_up_children(&mut orphans);
        while let Some(child) = orphans.pop() {
            if let Some(mut object) = Rc::into_inner(child.0) {
                object.give_up_children(&mut orphans);
            }
        }
    }
}

impl TypeObject {
    /// Moves the child types out, when nobody else shares the lists they are in.
    fn give_up_children(&mut self, to: &mut Vec<Datatype>) {
        if let Some(shape) = Rc::get_mut(&mut self.shape) {
            match std::mem::replace(shape, Shape::Basic(Basic::BYTE)) {
                Shape::Basic(_) | Shape::Pair { .. } | Shape::Mark(_) => {}
                Shape::Repeat { child, .. }
                | Shape::Blocks { child, .. }
                | Shape::Indexed { child, .. }
                | Shape::Same(child) => to.push(child),
                Shape::Struct { children, .. } => to.extend(children),
            }
        }
        if let Some(envelope) = Rc::get_mut(&mut self.envelope) {
            to.append(&mut envelope.types);
        }
    }
}

/// What a predefined reduction sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reducible {
    Value(Basic),
    /// Index `at` bytes after the value.
    Pair {
        value: Basic,
        index: Basic,
        at: u64,
    },
}

impl core::fmt::Debug for Datatype {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.describe())
    }
}

#[cold]
/// What a class code of [`Datatype::sig`] stands for, in words: `int of 4 bytes`.
pub fn class_name(class: u8) -> String {
    // The names that programs use most come first: MPI_INT rather than MPI_INTEGER.
    const USUAL: [usize; 9] = [0x209, 0x20a, 0x210, 0x214, 0x208, 0x216, 0x212, 0x220, 0x243];
    USUAL
        .into_iter()
        .chain(0x200..0x300)
        .filter_map(Datatype::predefined)
        .find(|ty| ty.sig() == class)
        .map_or_else(|| format!("type class {class}"), |ty| ty.name())
}
