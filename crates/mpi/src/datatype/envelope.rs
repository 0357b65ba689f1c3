//! How a datatype was made (MPI-5.0 section 5.1.13): envelope and contents.

use super::Datatype;
use crate::errors::Result;

/// The constructor of a datatype. The number is the ABI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combiner(pub i32);

#[allow(missing_docs)]
impl Combiner {
    pub const NAMED: Self = Self(101);
    pub const DUP: Self = Self(102);
    pub const CONTIGUOUS: Self = Self(103);
    pub const VECTOR: Self = Self(104);
    pub const HVECTOR: Self = Self(105);
    pub const INDEXED: Self = Self(106);
    pub const HINDEXED: Self = Self(107);
    pub const INDEXED_BLOCK: Self = Self(108);
    pub const HINDEXED_BLOCK: Self = Self(109);
    pub const STRUCT: Self = Self(110);
    pub const SUBARRAY: Self = Self(111);
    pub const DARRAY: Self = Self(112);
    pub const F90_REAL: Self = Self(113);
    pub const F90_COMPLEX: Self = Self(114);
    pub const F90_INTEGER: Self = Self(115);
    pub const RESIZED: Self = Self(116);
    pub const VALUE_INDEX: Self = Self(117);

    pub(super) fn word(self) -> &'static str {
        const WORDS: [&str; 17] = [
            "predefined",
            "duplicated",
            "contiguous",
            "vector",
            "hvector",
            "indexed",
            "hindexed",
            "indexed_block",
            "hindexed_block",
            "struct",
            "subarray",
            "darray",
            "Fortran real",
            "Fortran complex",
            "Fortran integer",
            "resized",
            "value-index",
        ];
        WORDS[(self.0 - Self::NAMED.0) as usize]
    }
}

/// Arguments in the order of the constructors with `int` counts.
pub(super) struct Envelope {
    pub combiner: Combiner,
    integers: Vec<i64>,
    addresses: Vec<i64>,
    pub(super) types: Vec<Datatype>,
}

impl Envelope {
    pub fn plain(combiner: Combiner, integers: Vec<i64>, addresses: Vec<i64>, types: Vec<Datatype>) -> Self {
        Self {
            combiner,
            integers,
            addresses,
            types,
        }
    }
}

/// Which C twin asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Getter {
    /// `MPI_Type_get_envelope`, `MPI_Type_get_contents`.
    Int,
    /// Their `_c` twins.
    Large,
}

/// Result of `MPI_Type_get_envelope_c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvelopeCounts {
    pub integers: usize,
    pub addresses: usize,
    pub large_counts: usize,
    pub datatypes: usize,
    pub combiner: Combiner,
}

/// Result of `MPI_Type_get_contents_c`. Derived types in it need [`super::Types::reopen`] for a handle.
#[derive(Clone, Debug)]
pub struct Contents {
    pub integers: Vec<i32>,
    pub addresses: Vec<i64>,
    pub large_counts: Vec<i64>,
    pub datatypes: Vec<Datatype>,
}

impl Datatype {
    /// How the type was made.
    pub fn combiner(&self) -> Combiner {
        self.0.envelope.combiner
    }

    /// The lengths of the lists [`Datatype::contents`] returns; none for a named type.
    ///
    /// # Errors
    /// `MPI_ERR_VALUE_TOO_LARGE` when a large-count type is asked about without `_c` and an argument does not
    /// fit an `int`.
    pub fn envelope(&self, getter: Getter) -> Result<EnvelopeCounts> {
        let parts = self.arguments(getter)?;
        Ok(EnvelopeCounts {
            integers: parts.integers.len(),
            addresses: parts.addresses.len(),
            large_counts: parts.large_counts.len(),
            datatypes: parts.datatypes.len(),
            combiner: self.combiner(),
        })
    }

    /// The arguments of the constructor call.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE` for a named type, which has none; else as [`Datatype::envelope`].
    pub fn contents(&self, getter: Getter) -> Result<Contents> {
        if self.combiner() == Combiner::NAMED {
            return fail!(ERR_TYPE: "datatype={self:?}: a predefined datatype has no contents");
        }
        self.arguments(getter)
    }

    fn arguments(&self, getter: Getter) -> Result<Contents> {
        let envelope = &*self.0.envelope;
        let all = &envelope.integers;
        let datatypes = envelope.types.clone();
        if !(self.0.large.get() && getter == Getter::Large) {
            let integers = all
                .iter()
                .map(|value| i32::try_from(*value))
                .collect::<core::result::Result<_, _>>();
            return match integers {
                Ok(integers) => Ok(Contents {
                    integers,
                    addresses: envelope.addresses.clone(),
                    large_counts: vec![],
                    datatypes,
                }),
                Err(_) => {
                    fail!(ERR_VALUE_TOO_LARGE: "datatype={self:?}: it was made with a count or displacement beyond 2^31-1; \
                         ask with the function whose name ends in _c")
                }
            };
        }
        // The `_c` constructors of arrays keep some arguments as int.
        let (integers, large_counts): (Vec<i64>, Vec<i64>) = match envelope.combiner {
            Combiner::SUBARRAY => {
                let last = all.len() - 1;
                (vec![all[0], all[last]], all[1..last].to_vec())
            }
            Combiner::DARRAY => {
                let dims = all[2] as usize;
                let rest = all[..3].iter().chain(&all[3 + dims..]).copied().collect();
                (rest, all[3..3 + dims].to_vec())
            }
            Combiner::DUP | Combiner::F90_REAL | Combiner::F90_COMPLEX | Combiner::F90_INTEGER => {
                (all.clone(), vec![])
            }
            _ => (vec![], all.iter().chain(&envelope.addresses).copied().collect()),
        };
        Ok(Contents {
            integers: integers.iter().map(|value| *value as i32).collect(),
            addresses: vec![],
            large_counts,
            datatypes,
        })
    }
}
