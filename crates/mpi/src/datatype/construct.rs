//! The constructors of MPI-5.0 section 5.1.2 but for arrays. One function for the C twins `MPI_Type_x`
//! and `MPI_Type_x_c`; the latter marks its result with [`Datatype::via_large_count`].
//!
//! Requirements of MPI-5.0 section 5.1.10.

use super::Datatype;
use super::envelope::{Combiner, Envelope};
use super::shape::Shape;
use crate::errors::Result;
use std::rc::Rc;

/// A count that must not be negative.
pub(crate) fn count_arg(name: &str, value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| error!(ERR_COUNT: "{name}={value}: a count is zero or positive"))
}

fn length_arg(name: &str, value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| error!(ERR_ARG: "{name}={value}: a block length is zero or positive"))
}

fn lengths_arg(values: &[i64]) -> Result<Rc<[u64]>> {
    values
        .iter()
        .enumerate()
        .map(|(at, value)| match u64::try_from(*value) {
            Ok(value) => Ok(value),
            Err(_) => length_arg(&format!("array_of_blocklengths[{at}]"), *value),
        })
        .collect()
}

fn same_length(what: &str, left: usize, right: usize) -> Result<()> {
    if left == right {
        return Ok(());
    }
    fail!(ERR_ARG: "array_of_blocklengths has {left} entries but {what} has {right}; they must be as many")
}

/// `factor` times the extent of `old`, for displacements counted in elements.
fn scaled(name: &str, factor: i64, old: &Datatype) -> Result<i64> {
    factor.checked_mul(old.extent()).map_or_else(
        || {
            fail!(ERR_VALUE_TOO_LARGE: "{name}={factor} times the extent {} of {old:?} does not fit 64 bits",
                    old.extent())
        },
        Ok,
    )
}

fn scaled_all(displacements: &[i64], old: &Datatype) -> Result<Rc<[i64]>> {
    displacements
        .iter()
        .map(|disp| scaled("array_of_displacements", *disp, old))
        .collect()
}

impl Datatype {
    /// `MPI_Type_contiguous`.
    ///
    /// # Errors
    /// As all constructors: `MPI_ERR_COUNT` or `MPI_ERR_ARG` for a negative argument,
    /// `MPI_ERR_VALUE_TOO_LARGE` when size or bounds leave 64 bits.
    pub fn contiguous(count: i64, old: &Datatype) -> Result<Datatype> {
        let shape = Shape::Repeat {
            count: 1,
            block: count_arg("count", count)?,
            stride: 0,
            child: old.clone(),
        };
        let envelope = Envelope::plain(Combiner::CONTIGUOUS, vec![count], vec![], vec![old.clone()]);
        Self::build(shape, None, envelope)
    }

    /// `MPI_Type_vector`; stride in elements.
    pub fn vector(count: i64, blocklength: i64, stride: i64, old: &Datatype) -> Result<Datatype> {
        let shape = Shape::Repeat {
            count: count_arg("count", count)?,
            block: length_arg("blocklength", blocklength)?,
            stride: scaled("stride", stride, old)?,
            child: old.clone(),
        };
        let integers = vec![count, blocklength, stride];
        let envelope = Envelope::plain(Combiner::VECTOR, integers, vec![], vec![old.clone()]);
        Self::build(shape, None, envelope)
    }

    /// `MPI_Type_create_hvector`; stride in bytes.
    pub fn hvector(count: i64, blocklength: i64, stride: i64, old: &Datatype) -> Result<Datatype> {
        let shape = Shape::Repeat {
            count: count_arg("count", count)?,
            block: length_arg("blocklength", blocklength)?,
            stride,
            child: old.clone(),
        };
        let integers = vec![count, blocklength];
        let envelope = Envelope::plain(Combiner::HVECTOR, integers, vec![stride], vec![old.clone()]);
        Self::build(shape, None, envelope)
    }

    /// `MPI_Type_indexed`; displacements in elements.
    pub fn indexed(blocklengths: &[i64], displacements: &[i64], old: &Datatype) -> Result<Datatype> {
        same_length("array_of_displacements", blocklengths.len(), displacements.len())?;
        let shape = Shape::Indexed {
            blocks: lengths_arg(blocklengths)?,
            disps: scaled_all(displacements, old)?,
            child: old.clone(),
        };
        let integers = counted(&[blocklengths, displacements]);
        let envelope = Envelope::plain(Combiner::INDEXED, integers, vec![], vec![old.clone()]);
        Self::build(shape, None, envelope)
    }

    /// `MPI_Type_create_hindexed`; displacements in bytes.
    pub fn hindexed(blocklengths: &[i64], displacements: &[i64], old: &Datatype) -> Result<Datatype> {
        same_length("array_of_displacements", blocklengths.len(), displacements.len())?;
        let shape = Shape::Indexed {
            blocks: lengths_arg(blocklengths)?,
            disps: displacements.into(),
            child: old.clone(),
        };
        let integers = counted(&[blocklengths]);
        let addresses = displacements.to_vec();
        let envelope = Envelope::plain(Combiner::HINDEXED, integers, addresses, vec![old.clone()]);
        Self::build(shape, None, envelope)
    }

    /// `MPI_Type_create_indexed_block`; displacements in elements.
    pub fn indexed_block(blocklength: i64, displacements: &[i64], old: &Datatype) -> Result<Datatype> {
        let shape = Shape::Blocks {
            block: length_arg("blocklength", blocklength)?,
            disps: scaled_all(displacements, old)?,
            child: old.clone(),
        };
        let mut integers = vec![displacements.len() as i64, blocklength];
        integers.extend_from_slice(displacements);
        let envelope = Envelope::plain(Combiner::INDEXED_BLOCK, integers, vec![], vec![old.clone()]);
        Self::build(shape, None, envelope)
    }

    /// `MPI_Type_create_hindexed_block`; displacements in bytes.
    pub fn hindexed_block(blocklength: i64, displacements: &[i64], old: &Datatype) -> Result<Datatype> {
        let shape = Shape::Blocks {
            block: length_arg("blocklength", blocklength)?,
            disps: displacements.into(),
            child: old.clone(),
        };
        let integers = vec![displacements.len() as i64, blocklength];
        let addresses = displacements.to_vec();
        let envelope = Envelope::plain(Combiner::HINDEXED_BLOCK, integers, addresses, vec![old.clone()]);
        Self::build(shape, None, envelope)
    }

    /// `MPI_Type_create_struct`; displacements in bytes.
    pub fn structure(blocklengths: &[i64], displacements: &[i64], types: &[Datatype]) -> Result<Datatype> {
        same_length("array_of_displacements", blocklengths.len(), displacements.len())?;
        same_length("array_of_types", blocklengths.len(), types.len())?;
        let shape = Shape::Struct {
            blocks: lengths_arg(blocklengths)?,
            disps: displacements.into(),
            children: types.to_vec(),
        };
        let integers = counted(&[blocklengths]);
        let envelope = Envelope::plain(Combiner::STRUCT, integers, displacements.to_vec(), types.to_vec());
        Self::build(shape, None, envelope)
    }

    /// `MPI_Type_create_resized`: explicit lower bound and extent, bytes.
    pub fn resized(old: &Datatype, lb: i64, extent: i64) -> Result<Datatype> {
        let shape = Shape::Same(old.clone());
        let envelope = Envelope::plain(Combiner::RESIZED, vec![], vec![lb, extent], vec![old.clone()]);
        Self::build(shape, Some((lb, extent)), envelope)
    }

    /// `MPI_Type_dup`: committed as the old type is. Attributes are the caller's to copy.
    pub fn dup(&self) -> Result<Datatype> {
        let shape = Shape::Same(self.clone());
        let envelope = Envelope::plain(Combiner::DUP, vec![], vec![], vec![self.clone()]);
        let new = Self::build(shape, None, envelope)?;
        new.0.committed.set(self.is_committed());
        Ok(new)
    }
}

/// The number of entries, then the entries of each list.
fn counted(lists: &[&[i64]]) -> Vec<i64> {
    let mut all = vec![lists[0].len() as i64];
    for list in lists {
        all.extend_from_slice(list);
    }
    all
}
