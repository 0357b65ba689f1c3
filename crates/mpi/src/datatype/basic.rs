//! The predefined datatypes of the ABI: value, name, size, alignment, machine representation.
//!
//! Requirements of MPI-5.0 section 3.3.1.

/// How a value is laid out in memory, for arithmetic and conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr {
    /// Signed integer of this many bytes.
    Int(u8),
    /// Unsigned integer of this many bytes.
    Uint(u8),
    /// IEEE binary16.
    F16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// x87 80-bit extended in 16 bytes.
    F80,
    /// IEEE binary128.
    F128,
    /// Two values of a floating representation, real part first.
    ComplexF16,
    /// Two binary32.
    ComplexF32,
    /// Two binary64.
    ComplexF64,
    /// Two x87 extended.
    ComplexF80,
    /// Two binary128.
    ComplexF128,
    /// A logical value of this many bytes: zero is false.
    Logical(u8),
    /// Bytes without arithmetic.
    Opaque,
    /// A value and an index (`MPI_MINLOC`, `MPI_MAXLOC`).
    Pair,
}

/// The groups by which MPI-5.0 section 6.9.2 says which operation works on which type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    CInteger,
    FortranInteger,
    Floating,
    Logical,
    Complex,
    Byte,
    MultiLanguage,
    /// Printable characters: no reduction is defined.
    Character,
    Packed,
    Pair,
}

/// Facts about one predefined datatype.
#[derive(Debug)]
pub struct Info {
    /// Handle value of the ABI.
    pub abi: u16,
    /// MPI name.
    pub name: &'static str,
    /// Bytes of data.
    pub size: u8,
    /// Alignment of the C type, bytes.
    pub align: u8,
    /// Machine representation.
    pub repr: Repr,
    /// Group for reductions.
    pub class: Class,
    /// Bytes in the "external32" representation (MPI-5.0 section 14.5.2).
    pub external: u8,
    /// ABI values of value and index type, for a pair.
    pub pair: Option<(u16, u16)>,
}

/// The representation of C `long double` here.
const LONG_DOUBLE: Repr = if cfg!(target_arch = "x86_64") {
    Repr::F80
} else {
    Repr::F128
};
const LONG_DOUBLE_COMPLEX: Repr = if cfg!(target_arch = "x86_64") {
    Repr::ComplexF80
} else {
    Repr::ComplexF128
};

const fn plain(abi: u16, name: &'static str, size: u8, align: u8, repr: Repr, class: Class) -> Info {
    Info {
        abi,
        name,
        size,
        align,
        repr,
        class,
        external: size,
        pair: None,
    }
}

/// A type whose external32 size differs from its size in memory.
const fn narrowed(info: Info, external: u8) -> Info {
    Info { external, ..info }
}

const fn pair(abi: u16, name: &'static str, size: u8, align: u8, value: u16, index: u16) -> Info {
    Info {
        pair: Some((value, index)),
        ..plain(abi, name, size, align, Repr::Pair, Class::Pair)
    }
}

use Class::*;
use Repr::*;

/// Every predefined datatype, by ABI value.
pub const TABLE: &[Info] = &[
    plain(0x201, "MPI_AINT", 8, 8, Int(8), MultiLanguage),
    plain(0x202, "MPI_COUNT", 8, 8, Int(8), MultiLanguage),
    plain(0x203, "MPI_OFFSET", 8, 8, Int(8), MultiLanguage),
    plain(0x207, "MPI_PACKED", 1, 1, Opaque, Packed),
    plain(0x208, "MPI_SHORT", 2, 2, Int(2), CInteger),
    plain(0x209, "MPI_INT", 4, 4, Int(4), CInteger),
    narrowed(plain(0x20a, "MPI_LONG", 8, 8, Int(8), CInteger), 4),
    plain(0x20b, "MPI_LONG_LONG", 8, 8, Int(8), CInteger),
    plain(0x20c, "MPI_UNSIGNED_SHORT", 2, 2, Uint(2), CInteger),
    plain(0x20d, "MPI_UNSIGNED", 4, 4, Uint(4), CInteger),
    narrowed(plain(0x20e, "MPI_UNSIGNED_LONG", 8, 8, Uint(8), CInteger), 4),
    plain(0x20f, "MPI_UNSIGNED_LONG_LONG", 8, 8, Uint(8), CInteger),
    plain(0x210, "MPI_FLOAT", 4, 4, F32, Floating),
    plain(0x212, "MPI_C_FLOAT_COMPLEX", 8, 4, ComplexF32, Complex),
    plain(0x213, "MPI_CXX_FLOAT_COMPLEX", 8, 4, ComplexF32, Complex),
    plain(0x214, "MPI_DOUBLE", 8, 8, F64, Floating),
    plain(0x216, "MPI_C_DOUBLE_COMPLEX", 16, 8, ComplexF64, Complex),
    plain(0x217, "MPI_CXX_DOUBLE_COMPLEX", 16, 8, ComplexF64, Complex),
    plain(0x218, "MPI_LOGICAL", 4, 4, Repr::Logical(4), Class::Logical),
    plain(0x219, "MPI_INTEGER", 4, 4, Int(4), FortranInteger),
    plain(0x21a, "MPI_REAL", 4, 4, F32, Floating),
    plain(0x21b, "MPI_COMPLEX", 8, 4, ComplexF32, Complex),
    plain(0x21c, "MPI_DOUBLE_PRECISION", 8, 8, F64, Floating),
    plain(0x21d, "MPI_DOUBLE_COMPLEX", 16, 8, ComplexF64, Complex),
    plain(0x21e, "MPI_CHARACTER", 1, 1, Opaque, Character),
    plain(0x220, "MPI_LONG_DOUBLE", 16, 16, LONG_DOUBLE, Floating),
    plain(
        0x224,
        "MPI_C_LONG_DOUBLE_COMPLEX",
        32,
        16,
        LONG_DOUBLE_COMPLEX,
        Complex,
    ),
    plain(
        0x225,
        "MPI_CXX_LONG_DOUBLE_COMPLEX",
        32,
        16,
        LONG_DOUBLE_COMPLEX,
        Complex,
    ),
    pair(0x228, "MPI_FLOAT_INT", 8, 4, 0x210, 0x209),
    pair(0x229, "MPI_DOUBLE_INT", 12, 8, 0x214, 0x209),
    pair(0x22a, "MPI_LONG_INT", 12, 8, 0x20a, 0x209),
    pair(0x22b, "MPI_2INT", 8, 4, 0x209, 0x209),
    pair(0x22c, "MPI_SHORT_INT", 6, 4, 0x208, 0x209),
    pair(0x22d, "MPI_LONG_DOUBLE_INT", 20, 16, 0x220, 0x209),
    pair(0x230, "MPI_2REAL", 8, 4, 0x21a, 0x21a),
    pair(0x231, "MPI_2DOUBLE_PRECISION", 16, 8, 0x21c, 0x21c),
    pair(0x232, "MPI_2INTEGER", 8, 4, 0x219, 0x219),
    plain(0x238, "MPI_C_BOOL", 1, 1, Repr::Logical(1), Class::Logical),
    plain(0x239, "MPI_CXX_BOOL", 1, 1, Repr::Logical(1), Class::Logical),
    narrowed(plain(0x23c, "MPI_WCHAR", 4, 4, Opaque, Character), 2),
    plain(0x240, "MPI_INT8_T", 1, 1, Int(1), CInteger),
    plain(0x241, "MPI_UINT8_T", 1, 1, Uint(1), CInteger),
    // Operations are not defined on it (MPI-5.0 section 6.9.2); programs use them all the same, and other libraries let them.
    plain(
        0x243,
        "MPI_CHAR",
        1,
        1,
        if core::ffi::c_char::MIN == 0 {
            Uint(1)
        } else {
            Int(1)
        },
        CInteger,
    ),
    plain(0x244, "MPI_SIGNED_CHAR", 1, 1, Int(1), CInteger),
    plain(0x245, "MPI_UNSIGNED_CHAR", 1, 1, Uint(1), CInteger),
    plain(0x247, "MPI_BYTE", 1, 1, Opaque, Byte),
    plain(0x248, "MPI_INT16_T", 2, 2, Int(2), CInteger),
    plain(0x249, "MPI_UINT16_T", 2, 2, Uint(2), CInteger),
    plain(0x250, "MPI_INT32_T", 4, 4, Int(4), CInteger),
    plain(0x251, "MPI_UINT32_T", 4, 4, Uint(4), CInteger),
    plain(0x258, "MPI_INT64_T", 8, 8, Int(8), CInteger),
    plain(0x259, "MPI_UINT64_T", 8, 8, Uint(8), CInteger),
    plain(0x2c0, "MPI_LOGICAL1", 1, 1, Repr::Logical(1), Class::Logical),
    plain(0x2c1, "MPI_INTEGER1", 1, 1, Int(1), FortranInteger),
    plain(0x2c8, "MPI_LOGICAL2", 2, 2, Repr::Logical(2), Class::Logical),
    plain(0x2c9, "MPI_INTEGER2", 2, 2, Int(2), FortranInteger),
    plain(0x2ca, "MPI_REAL2", 2, 2, F16, Floating),
    plain(0x2d0, "MPI_LOGICAL4", 4, 4, Repr::Logical(4), Class::Logical),
    plain(0x2d1, "MPI_INTEGER4", 4, 4, Int(4), FortranInteger),
    plain(0x2d2, "MPI_REAL4", 4, 4, F32, Floating),
    plain(0x2d3, "MPI_COMPLEX4", 4, 2, ComplexF16, Complex),
    plain(0x2d8, "MPI_LOGICAL8", 8, 8, Repr::Logical(8), Class::Logical),
    plain(0x2d9, "MPI_INTEGER8", 8, 8, Int(8), FortranInteger),
    plain(0x2da, "MPI_REAL8", 8, 8, F64, Floating),
    plain(0x2db, "MPI_COMPLEX8", 8, 4, ComplexF32, Complex),
    plain(0x2e0, "MPI_LOGICAL16", 16, 16, Repr::Logical(16), Class::Logical),
    plain(0x2e1, "MPI_INTEGER16", 16, 16, Int(16), FortranInteger),
    plain(0x2e2, "MPI_REAL16", 16, 16, F128, Floating),
    plain(0x2e3, "MPI_COMPLEX16", 16, 8, ComplexF64, Complex),
    plain(0x2eb, "MPI_COMPLEX32", 32, 16, ComplexF128, Complex),
];

static FACTS: &[Info] = TABLE;

/// First ABI value of a datatype (`MPI_DATATYPE_NULL`).
pub const FIRST: usize = 0x200;
/// One past the last ABI value of a predefined datatype.
pub const LAST: usize = 0x300;

const NONE: u8 = u8::MAX;

const BY_ABI: [u8; LAST - FIRST] = {
    let mut map = [NONE; LAST - FIRST];
    let mut at = 0;
    while at < TABLE.len() {
        map[TABLE[at].abi as usize - FIRST] = at as u8;
        at += 1;
    }
    map
};

/// One predefined datatype.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Basic(u8);

impl Basic {
    pub const BYTE: Basic = Basic::known(0x247);
    pub const INT: Basic = Basic::known(0x209);
    pub const DOUBLE: Basic = Basic::known(0x214);
    pub const LONG_DOUBLE: Basic = Basic::known(0x220);

    /// A predefined datatype that exists.
    pub(crate) const fn known(abi: usize) -> Basic {
        let at = BY_ABI[abi - FIRST];
        assert!(at != NONE, "no predefined datatype has this ABI value");
        Basic(at)
    }

    /// The predefined datatype with this handle value.
    #[inline]
    pub fn from_abi(abi: usize) -> Option<Basic> {
        match BY_ABI.get(abi.wrapping_sub(FIRST)) {
            Some(&at) if at != NONE => Some(Basic(at)),
            _ => None,
        }
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Basic> {
        (0..TABLE.len() as u8).map(Basic)
    }

    /// Place in [`TABLE`].
    #[inline]
    pub(super) fn number(self) -> usize {
        self.0 as usize
    }

    /// The facts.
    #[inline]
    pub fn info(self) -> &'static Info {
        &FACTS[self.0 as usize]
    }

    /// Handle value.
    pub fn abi(self) -> usize {
        self.info().abi as usize
    }

    /// Bytes of data.
    pub fn size(self) -> u64 {
        self.info().size as u64
    }

    /// Code by which sender and receiver are compared: kind and size; 0 matches everything.
    pub(crate) fn signature(self) -> u8 {
        let info = self.info();
        let log2 = info.size.trailing_zeros() as u8;
        let kind = match info.class {
            // Programs carry raw memory as characters; Python does by default.
            Character | CInteger | FortranInteger if info.size == 1 => return 0,
            CInteger | FortranInteger | MultiLanguage => 1,
            Floating => 2 + (info.repr == F128) as u8,
            Complex => 4 + (info.repr == ComplexF128) as u8,
            Class::Logical => 6,
            Character => 7,
            Byte | Packed | Class::Pair => return 0,
        };
        kind << 4 | log2
    }
}

impl core::fmt::Debug for Basic {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.info().name)
    }
}
