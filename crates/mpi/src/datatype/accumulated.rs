//! The type of the elements that accumulate operations work on (MPI-5.0 section 12.3.4).

use super::Datatype;
use super::basic::{Basic, Class};
use super::shape::Shape;

impl Datatype {
    /// The one predefined datatype, a pair maybe, of which all data are; `None`: there are several, or none.
    pub fn accumulated(&self) -> Option<Datatype> {
        let mut found: Option<Datatype> = None;
        let mut left = vec![self.clone()];
        while let Some(ty) = left.pop() {
            let leaf = match ty.shape() {
                Shape::Basic(basic) => Datatype::from_basic(*basic),
                Shape::Pair { value, index, .. } => pair(*value, *index)?,
                Shape::Repeat { child, .. }
                | Shape::Blocks { child, .. }
                | Shape::Indexed { child, .. }
                | Shape::Same(child) => {
                    left.push(child.clone());
                    continue;
                }
                Shape::Struct { children, blocks, .. } => {
                    let used = children
                        .iter()
                        .zip(blocks.iter())
                        .filter(|(_, block)| **block > 0);
                    left.extend(used.map(|(child, _)| child.clone()));
                    continue;
                }
                Shape::Mark(_) => continue,
            };
            match &found {
                Some(found) if found.handle() != leaf.handle() => return None,
                _ => found = Some(leaf),
            }
        }
        found
    }

    /// Whether `MPI_Compare_and_swap` takes it: predefined integers, logicals and bytes.
    pub fn is_comparable(&self) -> bool {
        let whole = matches!(self.shape(), Shape::Basic(_));
        self.is_predefined()
            && whole
            && self.basic().is_some_and(|basic| {
                !matches!(
                    basic.info().class,
                    Class::Floating | Class::Complex | Class::Character | Class::Packed | Class::Pair
                )
            })
    }
}

/// The predefined pair of these two.
fn pair(value: Basic, index: Basic) -> Option<Datatype> {
    let this = (value.abi() as u16, index.abi() as u16);
    let found = Basic::all().find(|basic| basic.info().pair == Some(this))?;
    Some(Datatype::from_basic(found))
}
