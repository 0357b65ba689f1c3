//! The "external32" representation (MPI-5.0 section 14.5.2): big-endian, standard sizes, no padding.
//!
//! Requirements of MPI-5.0 section 5.3.

use super::{room, total};
use crate::Result;
use crate::buffer::{RecvBuf, SendBuf};
use crate::datatype::Datatype;
use crate::datatype::basic::{Basic, Repr};
use crate::datatype::construct::count_arg;
use crate::datatype::shape::Shape;

/// Native bytes converted at a time.
const CHUNK: usize = 4096;

/// Refuses data representations other than "external32".
///
/// # Errors
/// `MPI_ERR_ARG`.
pub fn check_datarep(datarep: &str) -> Result<()> {
    if datarep == "external32" {
        return Ok(());
    }
    fail!(ERR_ARG: "datarep={datarep:?}: the only representation that can be packed is \"external32\"")
}

/// `MPI_Pack_external_size`, bytes.
///
/// # Errors
/// As [`super::pack_size`].
pub fn pack_external_size(count: i64, datatype: &Datatype) -> Result<i64> {
    total(count_arg("incount", count)?, external_size(datatype))
}

/// Bytes of one element. No type grows in external32, so nothing here can overflow that passed the
/// constructors.
fn external_size(datatype: &Datatype) -> u64 {
    if datatype.size() == 0 {
        return 0;
    }
    if let Some(basic) = datatype.basic() {
        return datatype.elements() * basic.info().external as u64;
    }
    match datatype.shape() {
        Shape::Basic(basic) => basic.info().external as u64,
        Shape::Pair { value, index, .. } => (value.info().external + index.info().external) as u64,
        Shape::Repeat {
            count, block, child, ..
        } => count * block * external_size(child),
        Shape::Blocks { block, disps, child } => disps.len() as u64 * block * external_size(child),
        Shape::Indexed { blocks, child, .. } => blocks.iter().sum::<u64>() * external_size(child),
        Shape::Struct { blocks, children, .. } => blocks
            .iter()
            .zip(children.iter())
            .map(|(block, child)| block * external_size(child))
            .sum(),
        Shape::Same(child) => external_size(child),
        Shape::Mark(_) => 0,
    }
}

/// Calls `each(type, how many)` for the leaves of `copies` elements, in stream order.
fn leaves(datatype: &Datatype, copies: u64, each: &mut dyn FnMut(Basic, u64) -> Result<()>) -> Result<()> {
    if copies == 0 || datatype.size() == 0 {
        return Ok(());
    }
    if let Some(basic) = datatype.basic() {
        return each(basic, copies * datatype.elements());
    }
    for _ in 0..copies {
        match datatype.shape() {
            Shape::Basic(basic) => each(*basic, 1)?,
            Shape::Pair { value, index, .. } => {
                each(*value, 1)?;
                each(*index, 1)?;
            }
            Shape::Repeat {
                count, block, child, ..
            } => leaves(child, count * block, each)?,
            Shape::Blocks { block, disps, child } => leaves(child, disps.len() as u64 * block, each)?,
            Shape::Indexed { blocks, child, .. } => leaves(child, blocks.iter().sum(), each)?,
            Shape::Struct { blocks, children, .. } => {
                for (block, child) in blocks.iter().zip(children.iter()) {
                    leaves(child, *block, each)?;
                }
            }
            Shape::Same(child) => leaves(child, 1, each)?,
            Shape::Mark(_) => {}
        }
    }
    Ok(())
}

/// `MPI_Pack_external`: appends at `position` and moves it on.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` when `out` is too small; `MPI_ERR_CONVERSION` when a value of type `MPI_LONG`,
/// `MPI_UNSIGNED_LONG` or `MPI_WCHAR` does not fit the fewer bytes it has in external32.
pub fn pack_external(data: &SendBuf, out: &mut [u8], position: &mut u64) -> Result<()> {
    let bytes = total(data.count(), external_size(data.datatype()))? as u64;
    let end = room("outsize", out.len(), *position, bytes)?;
    let mut target = &mut out[*position as usize..end as usize];
    let (mut native, mut from) = ([0u8; CHUNK], 0);
    leaves(data.datatype(), data.count(), &mut |basic, mut many| {
        let (size, external) = (basic.size() as usize, basic.info().external as usize);
        while many > 0 {
            let batch = many.min((CHUNK / size) as u64) as usize;
            from += data.pack(from, &mut native[..batch * size]) as u64;
            let (now, later) = std::mem::take(&mut target).split_at_mut(batch * external);
            for (value, place) in native.chunks_exact(size).zip(now.chunks_exact_mut(external)) {
                to_external(basic, value, place)?;
            }
            target = later;
            many -= batch as u64;
        }
        Ok(())
    })?;
    *position = end;
    Ok(())
}

/// `MPI_Unpack_external`: takes from `position` and moves it on.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` when `packed` is too short.
pub fn unpack_external(packed: &[u8], position: &mut u64, data: &RecvBuf) -> Result<()> {
    let bytes = total(data.count(), external_size(data.datatype()))? as u64;
    let end = room("insize", packed.len(), *position, bytes)?;
    let mut source = &packed[*position as usize..end as usize];
    let (mut native, mut at) = ([0u8; CHUNK], 0);
    leaves(data.datatype(), data.count(), &mut |basic, mut many| {
        let (size, external) = (basic.size() as usize, basic.info().external as usize);
        while many > 0 {
            let batch = many.min((CHUNK / size) as u64) as usize;
            let (now, later) = source.split_at(batch * external);
            for (value, place) in now.chunks_exact(external).zip(native.chunks_exact_mut(size)) {
                from_external(basic, value, place);
            }
            source = later;
            at += data.unpack(at, &native[..batch * size]) as u64;
            many -= batch as u64;
        }
        Ok(())
    })?;
    *position = end;
    Ok(())
}

/// Number of equal parts a value consists of: 2 for complex.
fn parts(repr: Repr) -> usize {
    use Repr::*;
    match repr {
        ComplexF16 | ComplexF32 | ComplexF64 | ComplexF80 | ComplexF128 => 2,
        _ => 1,
    }
}

fn is_x87(repr: Repr) -> bool {
    matches!(repr, Repr::F80 | Repr::ComplexF80)
}

fn to_external(basic: Basic, native: &[u8], external: &mut [u8]) -> Result<()> {
    let repr = basic.info().repr;
    let parts = parts(repr);
    let (from, to) = (native.len() / parts, external.len() / parts);
    for (value, place) in native.chunks_exact(from).zip(external.chunks_exact_mut(to)) {
        if is_x87(repr) {
            let bits: [u8; 16] = value.try_into().expect("long double has 16 bytes");
            place.copy_from_slice(&x87_to_quad(u128::from_le_bytes(bits)).to_be_bytes());
            continue;
        }
        let fill = match repr {
            Repr::Int(_) if value[to - 1] & 0x80 != 0 => 0xff,
            _ => 0,
        };
        if value[to..].iter().any(|byte| *byte != fill) {
            return fail!(
                ERR_CONVERSION: "a value of type {basic:?} does not fit the {to} bytes it has in external32"
            );
        }
        for (byte, place) in value[..to].iter().rev().zip(place) {
            *place = *byte;
        }
    }
    Ok(())
}

fn from_external(basic: Basic, external: &[u8], native: &mut [u8]) {
    let repr = basic.info().repr;
    let parts = parts(repr);
    let (from, to) = (external.len() / parts, native.len() / parts);
    for (value, place) in external.chunks_exact(from).zip(native.chunks_exact_mut(to)) {
        if is_x87(repr) {
            let bits: [u8; 16] = value.try_into().expect("external32 long double has 16 bytes");
            place.copy_from_slice(&quad_to_x87(u128::from_be_bytes(bits)).to_le_bytes());
            continue;
        }
        for (byte, place) in value.iter().rev().zip(place.iter_mut()) {
            *place = *byte;
        }
        let fill = if matches!(repr, Repr::Int(_)) && value[0] & 0x80 != 0 {
            0xff
        } else {
            0
        };
        place[from..].fill(fill);
    }
}

const EXPONENT: u128 = 0x7fff;

/// x87 extended (low 80 bits) to binary128. Exact.
fn x87_to_quad(bits: u128) -> u128 {
    let mantissa = bits & u64::MAX as u128;
    let (sign, exponent) = (bits >> 79 & 1, bits >> 64 & EXPONENT);
    // The format has an explicit integer bit; below the smallest normal it carries into the exponent.
    let fraction = if exponent == 0 {
        mantissa
    } else {
        mantissa & (u64::MAX as u128 >> 1)
    };
    sign << 127 | ((exponent << 112) + (fraction << 49))
}

/// binary128 to x87 extended, to nearest, ties to even.
fn quad_to_x87(bits: u128) -> u128 {
    let (sign, exponent) = (bits >> 127, bits >> 112 & EXPONENT);
    let fraction = bits & ((1 << 112) - 1);
    if exponent == EXPONENT {
        let quiet = if fraction == 0 { 0 } else { 1 << 62 };
        return sign << 79 | EXPONENT << 64 | 1 << 63 | fraction >> 49 | quiet;
    }
    let full = if exponent == 0 {
        fraction
    } else {
        fraction | 1 << 112
    };
    let (kept, lost) = (full >> 49, full & ((1 << 49) - 1));
    let half = 1 << 48;
    let mut mantissa = kept + (lost > half || lost == half && kept & 1 == 1) as u128;
    let mut exponent = exponent;
    if mantissa >> 64 != 0 {
        mantissa >>= 1;
        exponent += 1;
    } else if exponent == 0 && mantissa >> 63 != 0 {
        exponent = 1;
    }
    if exponent == EXPONENT {
        mantissa = 1 << 63;
    }
    sign << 79 | exponent << 64 | mantissa
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The x87 bits of a double that is not subnormal.
    fn x87(value: f64) -> u128 {
        let bits = value.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as u128 + 16383 - 1023;
        let mantissa = 1 << 63 | (bits & ((1 << 52) - 1)) << 11;
        ((bits >> 63) as u128) << 79 | exponent << 64 | mantissa as u128
    }

    #[test]
    fn long_double_becomes_quad_and_back() {
        assert_eq!(x87_to_quad(x87(1.0)), 0x3fff << 112);
        assert_eq!(x87_to_quad(x87(-1.5)), 0xbfff8 << 108);
        for value in [1.0, -2.5, 1e300, 1e-300, 3.15, 1.0 / 3.0] {
            assert_eq!(quad_to_x87(x87_to_quad(x87(value))), x87(value), "{value}");
        }
        let infinity = 0x7fff << 64 | 1 << 63;
        assert_eq!(x87_to_quad(infinity), 0x7fff << 112);
        assert_eq!(quad_to_x87(0x7fff << 112), infinity);
        for subnormal in [0u128, 1, 1 << 62, (1 << 63) - 1] {
            assert_eq!(quad_to_x87(x87_to_quad(subnormal)), subnormal);
        }
    }

    #[test]
    fn quad_rounds_to_even() {
        let one = 0x3fffu128 << 112;
        let one_x87 = x87(1.0);
        assert_eq!(quad_to_x87(one | 1 << 48), one_x87);
        assert_eq!(quad_to_x87(one | 1 << 48 | 1), one_x87 + 1);
        assert_eq!(quad_to_x87(one | 3 << 48), one_x87 + 2);
        let below_two = one | ((1 << 112) - 1);
        assert_eq!(quad_to_x87(below_two), x87(2.0));
        let largest = (0x7ffe << 112) | ((1 << 112) - 1);
        assert_eq!(quad_to_x87(largest), 0x7fff << 64 | 1 << 63);
    }
}
