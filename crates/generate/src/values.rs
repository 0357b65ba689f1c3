//! What buffers hold: patterns of bytes, and numbers to be reduced with what comes of them.
//!
//! `tests/generated/legal.h` says the same in C.

/// Value of bytes that nobody may write.
pub const GUARD: u8 = 0xA5;

/// Byte `k` of pattern `id`.
pub fn pattern(id: u32, k: u64) -> u8 {
    let mixed = u64::from(id) * 151 + k * 7 + (k >> 8) * 29 + (k >> 16) * 53;
    (mixed ^ u64::from(id >> 7)) as u8
}

/// Numbers of a type with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub enum Numbers {
    SumU32,
    ProdU32,
    MaxI32,
    MinI64,
    SumF64,
    BxorI64,
    BandI32,
    BorByte,
    Maxloc,
    /// The program's own operation, which does not commute: x -> a x + b, one after the other.
    Compose,
}

impl Numbers {
    /// Bytes of one element.
    pub fn size(self) -> u64 {
        match self {
            Self::SumU32 | Self::ProdU32 | Self::MaxI32 | Self::BandI32 => 4,
            Self::MinI64 | Self::SumF64 | Self::BxorI64 | Self::Maxloc | Self::Compose => 8,
            Self::BorByte => 1,
        }
    }

    /// The names of type and operation in C.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::SumU32 => ("MPI_UINT32_T", "MPI_SUM"),
            Self::ProdU32 => ("MPI_UINT32_T", "MPI_PROD"),
            Self::MaxI32 => ("MPI_INT32_T", "MPI_MAX"),
            Self::MinI64 => ("MPI_INT64_T", "MPI_MIN"),
            Self::SumF64 => ("MPI_DOUBLE", "MPI_SUM"),
            Self::BxorI64 => ("MPI_INT64_T", "MPI_BXOR"),
            Self::BandI32 => ("MPI_INT32_T", "MPI_BAND"),
            Self::BorByte => ("MPI_BYTE", "MPI_BOR"),
            Self::Maxloc => ("MPI_2INT", "MPI_MAXLOC"),
            Self::Compose => ("two_numbers", "compose"),
        }
    }

    /// Element `i` of contribution `who` of `id`.
    pub fn value(self, id: u32, who: usize, i: u64) -> [u32; 2] {
        let x = id
            .wrapping_mul(2_654_435_761)
            .wrapping_add(who as u32 * 40_503 + i as u32 * 977);
        let x = x ^ (x >> 15);
        match self {
            Self::MaxI32 | Self::BandI32 => [x & 0x7fff_ffff, 0],
            Self::SumF64 => [x & 0xffff, 0],
            Self::BorByte => [x & 0x15 << (who & 3), 0],
            Self::Maxloc => [x >> 8 & 15, who as u32],
            Self::Compose => [x | 1, x >> 7],
            Self::SumU32 | Self::ProdU32 => [x | 1, 0],
            Self::MinI64 | Self::BxorI64 => [x, 0],
        }
    }

    /// `a` combined with `b` that stands to its right.
    pub fn combine(self, a: [u32; 2], b: [u32; 2]) -> [u32; 2] {
        match self {
            Self::SumU32 | Self::SumF64 => [a[0].wrapping_add(b[0]), 0],
            Self::ProdU32 => [a[0].wrapping_mul(b[0]), 0],
            Self::MaxI32 => [a[0].max(b[0]), 0],
            Self::MinI64 => [a[0].min(b[0]), 0],
            Self::BxorI64 => [a[0] ^ b[0], 0],
            Self::BandI32 => [a[0] & b[0], 0],
            Self::BorByte => [a[0] | b[0], 0],
            Self::Maxloc if a[0] == b[0] => [a[0], a[1].min(b[1])],
            Self::Maxloc => std::cmp::max_by_key(a, b, |v| v[0]),
            Self::Compose => [
                a[0].wrapping_mul(b[0]),
                a[1].wrapping_mul(b[0]).wrapping_add(b[1]),
            ],
        }
    }

    /// The reduction of element `i` over `who`, in this order.
    pub fn reduced(self, id: u32, who: &[usize], i: u64) -> [u32; 2] {
        let mut all = who.iter().map(|who| self.value(id, *who, i));
        let first = all.next().unwrap_or_default();
        all.fold(first, |a, b| self.combine(a, b))
    }

    /// The bytes of a value.
    pub fn bytes(self, value: [u32; 2]) -> Vec<u8> {
        match self {
            Self::SumU32 | Self::ProdU32 | Self::MaxI32 | Self::BandI32 => value[0].to_ne_bytes().to_vec(),
            Self::MinI64 | Self::BxorI64 => u64::from(value[0]).to_ne_bytes().to_vec(),
            Self::SumF64 => f64::from(value[0]).to_ne_bytes().to_vec(),
            Self::BorByte => vec![value[0] as u8],
            Self::Maxloc | Self::Compose => value.iter().flat_map(|v| v.to_ne_bytes()).collect(),
        }
    }
}
