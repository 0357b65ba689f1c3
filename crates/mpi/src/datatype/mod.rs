//! Datatypes (MPI-5.0 chapter 5): constructors, layout, envelope and contents, packing.

use std::rc::Rc;

/// A datatype. Cheap to clone; immutable but for "committed".
#[derive(Clone)]
pub struct Datatype(Rc<TypeObject>);

/// What a datatype is.
pub struct TypeObject {
    size: u64,
}

impl Datatype {
    /// Bytes of data in one element.
    #[inline]
    pub fn size(&self) -> u64 {
        self.0.size
    }
}
