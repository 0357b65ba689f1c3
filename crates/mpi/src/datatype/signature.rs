//! Type signatures (MPI-5.0 section 5.1): the sequence of basic types of a buffer, as a hash by which two of any length
//! compare, and its first runs, by which a person is told what it is.
//!
//! The hash is a polynomial in the codes of the elements, so that the signature of a thousand copies costs ten
//! multiplications. Types of one kind and size have one code, as in [`Basic::signature`]: `MPI_INT` and `int32_t`. Bytes
//! and characters are one kind, which matches no other. Packed data match everything.
//!
//! Cost class: set-up path; for programs that are checked.

use super::Datatype;
use super::basic::{Basic, Class};
use super::shape::Shape;

/// 2^61 - 1, a prime.
const MODULUS: u64 = (1 << 61) - 1;
/// The point of the polynomials.
const POINT: u64 = 0x0123_4567_89ab_cdef;
/// Runs of equal elements that are kept for people.
const RUNS: usize = 3;
/// Bits of a run that count; the others are the code.
const COUNT_BITS: u32 = 56;
/// Code of everything that has one byte and no more meaning.
const BYTES: u8 = 0x08;
/// In the word that tells the bytes: packed data are among them.
const PACKED: u64 = 1 << 63;

/// The type signature of some elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    hash: u64,
    /// [`POINT`] to the power of `elements`.
    power: u64,
    /// Basic elements.
    pub elements: u64,
    /// Bytes of data.
    pub bytes: u64,
    packed: bool,
    runs: [u64; RUNS],
}

fn times(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let folded = (product as u64 & MODULUS) + (product >> 61) as u64;
    folded % MODULUS
}

fn code(basic: Basic) -> u8 {
    match basic.signature() {
        0 => BYTES,
        code => code,
    }
}

impl Signature {
    /// Words of [`Signature::words`].
    pub const WORDS: usize = 3 + RUNS;

    /// Of no elements.
    pub const NONE: Signature = Signature {
        hash: 0,
        power: 1,
        elements: 0,
        bytes: 0,
        packed: false,
        runs: [0; RUNS],
    };

    fn basic(basic: Basic) -> Self {
        let code = code(basic);
        Self {
            hash: u64::from(code) + 1,
            power: POINT,
            elements: 1,
            bytes: basic.size(),
            packed: basic.info().class == Class::Packed,
            runs: [u64::from(code) << COUNT_BITS | 1, 0, 0],
        }
    }

    /// These elements and then `next`.
    #[must_use]
    pub fn then(&self, next: &Signature) -> Self {
        let mut runs = Vec::with_capacity(2 * RUNS);
        for run in self.whole_runs().chain(next.whole_runs()) {
            match runs.last_mut() {
                Some(last) if *last >> COUNT_BITS == run >> COUNT_BITS => *last = longer(*last, run),
                _ => runs.push(run),
            }
        }
        // What follows a cut is not known any more.
        let kept = if self.is_cut() {
            self.whole_runs().collect()
        } else {
            runs
        };
        let mut first = [0; RUNS];
        first.iter_mut().zip(kept).for_each(|(to, run)| *to = run);
        Self {
            hash: (times(self.hash, next.power) + next.hash) % MODULUS,
            power: times(self.power, next.power),
            elements: self.elements.saturating_add(next.elements),
            bytes: self.bytes.saturating_add(next.bytes),
            packed: self.packed | next.packed,
            runs: first,
        }
    }

    /// These elements `count` times.
    #[must_use]
    pub fn repeated(&self, count: u64) -> Self {
        let (mut all, mut square, mut left) = (Self::NONE, *self, count);
        while left > 0 {
            if left & 1 == 1 {
                all = all.then(&square);
            }
            left >>= 1;
            if left > 0 {
                square = square.then(&square);
            }
        }
        all
    }

    fn whole_runs(&self) -> impl Iterator<Item = u64> {
        self.runs.into_iter().take_while(|run| count_of(*run) > 0)
    }

    /// Whether there are elements behind the runs that are kept.
    fn is_cut(&self) -> bool {
        let told = self
            .whole_runs()
            .fold(0u64, |sum, run| sum.saturating_add(count_of(run)));
        told < self.elements
    }

    /// Whether data of this signature may be received as that.
    pub fn matches(&self, other: &Signature) -> bool {
        if self.packed || other.packed {
            return self.bytes == other.bytes;
        }
        self.hash == other.hash && self.elements == other.elements
    }

    /// For a message or record.
    pub fn words(&self) -> [u64; Self::WORDS] {
        let mut words = [0; Self::WORDS];
        words[0] = self.hash;
        words[1] = self.elements;
        words[2] = self.bytes & !PACKED | if self.packed { PACKED } else { 0 };
        words[3..].copy_from_slice(&self.runs);
        words
    }

    /// What [`words`](Self::words) gave. Any words make one.
    pub fn from_words(words: &[u64; Self::WORDS]) -> Self {
        let mut runs = [0; RUNS];
        runs.copy_from_slice(&words[3..]);
        Self {
            hash: words[0],
            power: 1,
            elements: words[1],
            bytes: words[2] & !PACKED,
            packed: words[2] & PACKED != 0,
            runs,
        }
    }

    /// For people: `4 MPI_INT, 1 MPI_DOUBLE, ...`.
    pub fn describe(&self) -> String {
        if self.elements == 0 {
            return "no data".into();
        }
        if self.packed {
            return format!("{} bytes of packed data", self.bytes);
        }
        let runs = self.whole_runs().map(|run| {
            let name = match (run >> COUNT_BITS) as u8 {
                BYTES => "MPI_BYTE".to_owned(),
                code => super::class_name(code),
            };
            format!("{} {name}", count_of(run))
        });
        let mut parts: Vec<String> = runs.collect();
        if self.is_cut() {
            parts.push("...".into());
        }
        parts.join(", ")
    }
}

fn count_of(run: u64) -> u64 {
    run & ((1 << COUNT_BITS) - 1)
}

/// Two runs of one code as one.
fn longer(first: u64, second: u64) -> u64 {
    let most = (1 << COUNT_BITS) - 1;
    let count = (count_of(first) + count_of(second)).min(most);
    first & !most | count
}

impl Datatype {
    /// The signature of one element.
    pub fn signature(&self) -> Signature {
        **self.0.full_signature.get_or_init(|| Box::new(self.work_out()))
    }

    fn work_out(&self) -> Signature {
        match self.shape() {
            Shape::Basic(basic) => Signature::basic(*basic),
            Shape::Pair { value, index, .. } => Signature::basic(*value).then(&Signature::basic(*index)),
            Shape::Repeat {
                count, block, child, ..
            } => child.signature().repeated(count.saturating_mul(*block)),
            Shape::Blocks { block, disps, child } => {
                let count = block.saturating_mul(disps.len() as u64);
                child.signature().repeated(count)
            }
            Shape::Indexed { blocks, child, .. } => {
                let count = blocks.iter().fold(0u64, |sum, block| sum.saturating_add(*block));
                child.signature().repeated(count)
            }
            Shape::Struct { blocks, children, .. } => {
                let parts = blocks.iter().zip(children.iter());
                parts.fold(Signature::NONE, |all, (block, child)| {
                    all.then(&child.signature().repeated(*block))
                })
            }
            Shape::Same(child) => child.signature(),
            Shape::Mark(_) => Signature::NONE,
        }
    }

    /// The signature of the first `bytes` of a stream of this type; `None`: they end within a basic element.
    pub fn signature_of(&self, bytes: u64) -> Option<Signature> {
        let size = self.size();
        if size == 0 {
            return (bytes == 0).then_some(Signature::NONE);
        }
        let whole = self.signature().repeated(bytes / size);
        Some(whole.then(&self.signature_in(bytes % size)?))
    }

    /// As `signature_of`, for less than one element.
    fn signature_in(&self, bytes: u64) -> Option<Signature> {
        if bytes == 0 {
            return Some(Signature::NONE);
        }
        match self.shape() {
            Shape::Basic(_) | Shape::Mark(_) => None,
            Shape::Pair { value, .. } => (bytes == value.size()).then(|| Signature::basic(*value)),
            Shape::Repeat { child, .. }
            | Shape::Blocks { child, .. }
            | Shape::Indexed { child, .. }
            | Shape::Same(child) => child.signature_of(bytes),
            Shape::Struct { blocks, children, .. } => {
                let (mut left, mut all) = (bytes, Signature::NONE);
                for (block, child) in blocks.iter().zip(children.iter()) {
                    let here = block.saturating_mul(child.size());
                    let taken = left.min(here);
                    all = all.then(&child.signature_of(taken)?);
                    left -= taken;
                }
                Some(all)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int() -> Datatype {
        Datatype::from_basic(Basic::INT)
    }

    fn double() -> Datatype {
        Datatype::from_basic(Basic::DOUBLE)
    }

    #[test]
    fn equal_sequences_have_equal_signatures_however_they_are_made() {
        let vector = Datatype::vector(4, 1, 3, &int()).unwrap();
        assert!(vector.signature().matches(&int().signature().repeated(4)));
        assert!(!vector.signature().matches(&int().signature().repeated(5)));
        let mixed = Datatype::structure(&[2, 1], &[0, 16], &[int(), double()]).unwrap();
        let spelled = int()
            .signature()
            .then(&int().signature())
            .then(&double().signature());
        assert!(mixed.signature().matches(&spelled));
        assert!(
            !mixed
                .signature()
                .matches(&double().signature().then(&int().signature().repeated(2)))
        );
        assert_eq!(mixed.signature().describe(), "2 MPI_INT, 1 MPI_DOUBLE");
        assert_eq!(
            mixed.signature().repeated(1000).describe(),
            "2 MPI_INT, 1 MPI_DOUBLE, 2 MPI_INT, ..."
        );
        assert_eq!(int().signature().repeated(1 << 40).elements, 1 << 40);
    }

    #[test]
    fn the_beginning_of_a_stream_has_a_signature_where_it_ends_between_elements() {
        let mixed = Datatype::structure(&[2, 1], &[0, 16], &[int(), double()]).unwrap();
        let of = |bytes| mixed.signature_of(bytes);
        assert!(of(0).unwrap().matches(&Signature::NONE));
        assert!(of(4).unwrap().matches(&int().signature()));
        assert!(of(6).is_none());
        assert!(of(12).is_none());
        assert!(
            of(20)
                .unwrap()
                .matches(&mixed.signature().then(&int().signature()))
        );
    }

    #[test]
    fn packed_data_match_everything_and_bytes_only_bytes() {
        let packed = Datatype::predefined(0x207).unwrap().signature().repeated(8);
        let byte = Datatype::byte().signature();
        let char_ = Datatype::predefined(0x243).unwrap().signature();
        assert!(packed.matches(&double().signature()));
        assert!(!packed.matches(&int().signature()));
        assert!(byte.matches(&char_));
        assert!(!byte.repeated(4).matches(&int().signature()));
        let back = Signature::from_words(&packed.words());
        assert!(back.matches(&packed) && back.describe() == packed.describe());
    }
}
