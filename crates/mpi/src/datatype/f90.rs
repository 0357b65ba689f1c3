//! Datatypes by precision and size (MPI-5.0 section 19.1.9) and by value and index (section 6.9.4).

use super::basic::Basic;
use super::envelope::{Combiner, Envelope};
use super::shape::Shape;
use super::types::Types;
use super::{DATATYPE_NULL, Datatype, UNDEFINED};
use crate::errors::Result;

/// `MPIX_TYPECLASS_LOGICAL`, an extension.
pub const TYPECLASS_LOGICAL: i32 = 191;
/// `MPI_TYPECLASS_INTEGER`.
pub const TYPECLASS_INTEGER: i32 = 192;
/// `MPI_TYPECLASS_REAL`.
pub const TYPECLASS_REAL: i32 = 193;
/// `MPI_TYPECLASS_COMPLEX`.
pub const TYPECLASS_COMPLEX: i32 = 194;

/// `MPI_Type_match_size`: the Fortran type of this class and size in bytes.
///
/// # Errors
/// `MPI_ERR_ARG` when there is none.
pub fn match_size(typeclass: i32, size: i32) -> Result<Basic> {
    let (word, table): (&str, &[(i32, usize)]) = match typeclass {
        TYPECLASS_LOGICAL => (
            "logical",
            &[(1, 0x2c0), (2, 0x2c8), (4, 0x2d0), (8, 0x2d8), (16, 0x2e0)],
        ),
        TYPECLASS_INTEGER => (
            "integer",
            &[(1, 0x2c1), (2, 0x2c9), (4, 0x2d1), (8, 0x2d9), (16, 0x2e1)],
        ),
        TYPECLASS_REAL => ("real", &[(2, 0x2ca), (4, 0x2d2), (8, 0x2da), (16, 0x2e2)]),
        TYPECLASS_COMPLEX => ("complex", &[(4, 0x2d3), (8, 0x2db), (16, 0x2e3), (32, 0x2eb)]),
        _ => {
            return fail!(ERR_ARG: "typeclass={typeclass}: allowed are MPI_TYPECLASS_INTEGER, MPI_TYPECLASS_REAL and \
                     MPI_TYPECLASS_COMPLEX");
        }
    };
    match table.iter().find(|(bytes, _)| *bytes == size) {
        Some((_, abi)) => Ok(Basic::known(*abi)),
        None => {
            let sizes: Vec<String> = table.iter().map(|(bytes, _)| bytes.to_string()).collect();
            fail!(ERR_ARG: "size={size}: Fortran {word} types have {} bytes",
                    sizes.join(", "))
        }
    }
}

/// Decimal digits, decimal exponent range, ABI value of real and of complex type.
const REALS: [(i32, i32, usize, usize); 4] = [
    (6, 37, 0x2d2, 0x2db),
    (15, 307, 0x2da, 0x2e3),
    // Compilers give selected_real_kind(18) the x87 format where it exists.
    (18, 4931, 0x220, 0x224),
    (33, 4931, 0x2e2, 0x2eb),
];

/// Decimal digits and ABI value.
const INTEGERS: [(i32, usize); 5] = [(2, 0x2c1), (4, 0x2c9), (9, 0x2d1), (18, 0x2d9), (38, 0x2e1)];

fn real_kind(p: i32, r: i32) -> Result<(Basic, Basic)> {
    if p == UNDEFINED && r == UNDEFINED {
        return fail!(ERR_ARG: "p and r are both MPI_UNDEFINED: at least one must be given");
    }
    let fits = |want: i32, have: i32| want == UNDEFINED || want <= have;
    match REALS
        .iter()
        .find(|(digits, range, ..)| fits(p, *digits) && fits(r, *range))
    {
        Some((_, _, real, complex)) => Ok((Basic::known(*real), Basic::known(*complex))),
        None => fail!(ERR_ARG: "p={p}, r={r}: no real type has that; at most 33 digits and a range of 4931"),
    }
}

impl Types {
    /// `MPI_Type_create_f90_real`: p decimal digits, exponent range r; the same handle for the same
    /// arguments.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when no type has that.
    pub fn f90_real(&mut self, p: i32, r: i32) -> Result<usize> {
        let (real, _) = real_kind(p, r)?;
        self.f90(Combiner::F90_REAL, real, &[p, r])
    }

    /// `MPI_Type_create_f90_complex`.
    ///
    /// # Errors
    /// As [`Types::f90_real`].
    pub fn f90_complex(&mut self, p: i32, r: i32) -> Result<usize> {
        let (_, complex) = real_kind(p, r)?;
        self.f90(Combiner::F90_COMPLEX, complex, &[p, r])
    }

    /// `MPI_Type_create_f90_integer`: r decimal digits.
    ///
    /// # Errors
    /// As [`Types::f90_real`].
    pub fn f90_integer(&mut self, r: i32) -> Result<usize> {
        match INTEGERS.iter().find(|(digits, _)| r <= *digits) {
            Some((_, abi)) if r != UNDEFINED => self.f90(Combiner::F90_INTEGER, Basic::known(*abi), &[r]),
            _ => fail!(ERR_ARG: "r={r}: integer types have at most 38 decimal digits"),
        }
    }

    fn f90(&mut self, combiner: Combiner, basic: Basic, arguments: &[i32]) -> Result<usize> {
        let key = (combiner.0, arguments[0], arguments.get(1).copied().unwrap_or(0));
        if let Some(handle) = self.f90.get(&key) {
            return Ok(*handle);
        }
        let integers = arguments.iter().map(|value| *value as i64).collect();
        let envelope = Envelope::plain(combiner, integers, vec![], vec![]);
        let made = Datatype::build_predefined(Shape::of(basic), envelope, "", DATATYPE_NULL)?;
        let handle = self.insert(made)?;
        self.f90.insert(key, handle);
        Ok(handle)
    }

    /// `MPI_Type_get_value_index`: the type of pairs for `MPI_MINLOC` and `MPI_MAXLOC`; `None` is
    /// `MPI_DATATYPE_NULL`: there is no pair of these types. The pairs are the named ones: MPI would own any
    /// other, and programs are seen to free what has no name.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE` for an invalid handle.
    pub fn value_index(&self, value: usize, index: usize) -> Result<Option<usize>> {
        let (value, index) = (self.lookup(value)?, self.lookup(index)?);
        let (Shape::Basic(value), Shape::Basic(index)) = (value.shape(), index.shape()) else {
            return Ok(None);
        };
        let wanted = Some((value.info().abi, index.info().abi));
        Ok(Basic::all()
            .find(|pair| pair.info().pair == wanted)
            .map(Basic::abi))
    }
}
