//! From bytes to elements and back (`MPI_Get_count`, `MPI_Get_elements`, `MPI_Status_set_elements`).
//!
//! Requirements of MPI-5.0 sections 3.2.5, 5.1.11.

use super::Datatype;
use super::shape::Shape;

impl Datatype {
    /// Whole elements in `bytes`; `None` is `MPI_UNDEFINED`.
    #[inline]
    pub fn count_of(&self, bytes: u64) -> Option<u64> {
        match self.size() {
            0 => (bytes == 0).then_some(0),
            size => bytes.is_multiple_of(size).then(|| bytes / size),
        }
    }

    /// Basic elements in the first `bytes` of a stream of this type; `None` is `MPI_UNDEFINED`: the
    /// last one is incomplete.
    pub fn elements_of(&self, bytes: u64) -> Option<u64> {
        let size = self.size();
        if size == 0 {
            return (bytes == 0).then_some(0);
        }
        let whole = (bytes / size).checked_mul(self.elements())?;
        whole.checked_add(self.elements_in(bytes % size)?)
    }

    /// Bytes of the first `elements` basic elements; `None` when that leaves 64 bits, or when there are
    /// no elements in the type.
    pub fn bytes_of_elements(&self, elements: u64) -> Option<u64> {
        if self.elements() == 0 {
            return (elements == 0).then_some(0);
        }
        let whole = (elements / self.elements()).checked_mul(self.size())?;
        whole.checked_add(self.bytes_in(elements % self.elements()))
    }

    /// As `elements_of` for less than or exactly one element.
    fn elements_in(&self, bytes: u64) -> Option<u64> {
        if bytes == 0 || bytes == self.size() {
            return Some(if bytes == 0 { 0 } else { self.elements() });
        }
        if let Some(basic) = self.basic() {
            return bytes.is_multiple_of(basic.size()).then(|| bytes / basic.size());
        }
        match self.shape() {
            Shape::Basic(_) => None,
            Shape::Pair { value, .. } => (bytes == value.size()).then_some(1),
            Shape::Repeat { child, .. } | Shape::Blocks { child, .. } | Shape::Indexed { child, .. } => {
                child.elements_of(bytes)
            }
            Shape::Same(child) => child.elements_in(bytes),
            Shape::Mark(_) => None,
            Shape::Struct { blocks, children, .. } => {
                let (mut left, mut elements) = (bytes, 0);
                for (block, child) in blocks.iter().zip(children.iter()) {
                    if left < block * child.size() {
                        return Some(elements + child.elements_of(left)?);
                    }
                    left -= block * child.size();
                    elements += block * child.elements();
                }
                Some(elements)
            }
        }
    }

    fn bytes_in(&self, elements: u64) -> u64 {
        if let Some(basic) = self.basic() {
            return elements * basic.size();
        }
        if elements == 0 {
            return 0;
        }
        match self.shape() {
            Shape::Basic(basic) => elements * basic.size(),
            Shape::Pair { value, index, .. } => value.size() + (elements - 1) * index.size(),
            Shape::Repeat { child, .. } | Shape::Blocks { child, .. } | Shape::Indexed { child, .. } => {
                elements / child.elements() * child.size() + child.bytes_in(elements % child.elements())
            }
            Shape::Same(child) => child.bytes_in(elements),
            Shape::Mark(_) => 0,
            Shape::Struct { blocks, children, .. } => {
                let (mut left, mut bytes) = (elements, 0);
                for (block, child) in blocks.iter().zip(children.iter()) {
                    let here = block * child.elements();
                    if left < here {
                        return bytes
                            + left / child.elements() * child.size()
                            + child.bytes_in(left % child.elements());
                    }
                    left -= here;
                    bytes += block * child.size();
                }
                bytes
            }
        }
    }
}
