//! Arithmetic on the machine types of the predefined datatypes.

/// Values that can be added and multiplied.
pub(super) trait Number: Copy {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

/// Real numbers besides: needed for complex products.
pub(super) trait Real: Number {
    fn minus(self, other: Self) -> Self;
}

/// Values with an order. Comparisons with a NaN are false.
pub(super) trait Less: Copy {
    fn less(self, other: Self) -> bool;
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
        impl Less for $t {
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }
        }
    )*};
}
integers!(i8 i16 i32 i64 i128 u8 u16 u32 u64 u128);

macro_rules! floats {
    ($($t:ty)*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
        }
        impl Real for $t {
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self - other
            }
        }
        impl Less for $t {
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }
        }
    )*};
}
floats!(f32 f64);

/// IEEE binary16. Computed in binary32, which is wide enough that rounding twice changes nothing.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct F16(pub u16);

impl F16 {
    #[inline]
    pub fn to_f32(self) -> f32 {
        let bits = self.0 as u32;
        let sign = (bits & 0x8000) << 16;
        let magnitude = bits & 0x7fff;
        let value = if magnitude >= 0x7c00 {
            // Infinity and NaN.
            f32::from_bits(magnitude << 13 | 0x7f80_0000)
        } else {
            // Scaling by 2^112 puts the exponent right, for subnormals too.
            f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000)
        };
        f32::from_bits(value.to_bits() | sign)
    }

    /// To nearest, ties to even.
    #[inline]
    pub fn from_f32(value: f32) -> F16 {
        let bits = value.to_bits();
        let sign = (bits >> 16 & 0x8000) as u16;
        let magnitude = bits & 0x7fff_ffff;
        let half = if magnitude > 0x7f80_0000 {
            0x7e00 | (magnitude >> 13 & 0x3ff) as u16
        } else if magnitude >= 0x4780_0000 {
            0x7c00
        } else if magnitude >= 0x3880_0000 {
            // Normal: a carry out of the fraction correctly raises the exponent, up to infinity.
            let odd = magnitude >> 13 & 1;
            ((magnitude - 0x3800_0000 + 0xfff + odd) >> 13) as u16
        } else {
            // Subnormal: adding 0.5 lines the fraction up, and the processor rounds.
            let shifted = f32::from_bits(magnitude) + 0.5;
            (shifted.to_bits() - 0.5f32.to_bits()) as u16
        };
        F16(sign | half)
    }
}

impl Number for F16 {
    #[inline]
    fn plus(self, other: Self) -> Self {
        Self::from_f32(self.to_f32() + other.to_f32())
    }
    #[inline]
    fn times(self, other: Self) -> Self {
        Self::from_f32(self.to_f32() * other.to_f32())
    }
}

impl Real for F16 {
    #[inline]
    fn minus(self, other: Self) -> Self {
        Self::from_f32(self.to_f32() - other.to_f32())
    }
}

impl Less for F16 {
    #[inline]
    fn less(self, other: Self) -> bool {
        self.to_f32() < other.to_f32()
    }
}

/// A complex number.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Complex<T> {
    re: T,
    im: T,
}

impl<T: Real> Number for Complex<T> {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self {
            re: self.re.plus(other.re),
            im: self.im.plus(other.im),
        }
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Self {
            re: self.re.times(other.re).minus(self.im.times(other.im)),
            im: self.re.times(other.im).plus(self.im.times(other.re)),
        }
    }
}

/// A value and an index, as C lays them out.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Pair<V, I> {
    pub value: V,
    pub index: I,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_the_way_to_single_and_back() {
        for bits in 0..=u16::MAX {
            let single = F16(bits).to_f32();
            let back = F16::from_f32(single).0;
            if single.is_nan() {
                assert!(back & 0x7fff > 0x7c00, "{bits:#x}");
            } else {
                assert_eq!(back, bits);
            }
        }
        assert_eq!(F16(0x3c00).to_f32(), 1.0);
        assert_eq!(F16(0x7bff).to_f32(), 65504.0);
        assert_eq!(F16(0x0001).to_f32(), 1.0 / (1 << 24) as f32);
    }

    #[test]
    fn half_rounds_to_even() {
        assert_eq!(F16::from_f32(2049.0).0, F16::from_f32(2048.0).0);
        assert_eq!(F16::from_f32(2051.0).0, F16::from_f32(2052.0).0);
        assert_eq!(F16::from_f32(65519.0).0, 0x7bff);
        assert_eq!(F16::from_f32(65520.0).0, 0x7c00);
        let below = 1.0 / (1 << 25) as f32;
        assert_eq!(F16::from_f32(below).0, 0);
        assert_eq!(F16::from_f32(1.5 * below).0, 1);
        assert_eq!(F16::from_f32(-1e9).0, 0xfc00);
    }
}
