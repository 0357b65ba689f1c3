//! The check by multiplication without carries, which processors have had since 2010.
//!
//! Polynomials over two elements, in the mirrored order of the check: bit *i* of a word of 64 is the coefficient of
//! x^(63 - i). A message is a sum of words, each times a power of x, of which only the rest by the polynomial
//! counts; such a rest has 16 bits, so word and rest have a product of 80. No product waits for another: their sum is reduced
//! once (by Barrett's method), however long the message.
//!
//! Words are read by eight bytes, as they were written a moment before: a wider read would wait for the writes.

use super::POLYNOMIAL;
use std::arch::is_x86_feature_detected;
use std::arch::x86_64::{
    _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_setzero_si128, _mm_unpackhi_epi64,
    _mm_xor_si128,
};

/// Words whose sum is reduced at once: a message is shorter.
const AT_ONCE: usize = 16;

/// `POWERS[r][k]`: x^(64 k + 8 r + 15) mod P, the weight of a word that `k` words and `r` bytes follow.
static POWERS: [[u64; AT_ONCE]; 8] = powers();

/// floor(x^80 / P) without its last coefficient.
const INVERSE: u64 = inverse();

/// `rest` times x^8, mod P.
const fn times_x8(mut rest: u16) -> u16 {
    let mut bit = 0;
    while bit < 8 {
        let last = rest & 1;
        rest >>= 1;
        if last == 1 {
            rest ^= POLYNOMIAL;
        }
        bit += 1;
    }
    rest
}

const fn powers() -> [[u64; AT_ONCE]; 8] {
    let mut powers = [[0; AT_ONCE]; 8];
    // x^15.
    let mut rest = 1;
    let mut bytes = 0;
    while bytes < 8 * AT_ONCE {
        powers[bytes % 8][bytes / 8] = rest as u64;
        rest = times_x8(rest);
        bytes += 1;
    }
    powers
}

/// By long division: x^80 has one coefficient, so what comes down after the first is 0.
const fn inverse() -> u64 {
    let (mut quotient, mut rest, mut bit) = (1, POLYNOMIAL, 1);
    while bit < 64 {
        if rest & 1 == 1 {
            quotient |= 1 << bit;
            rest = rest >> 1 ^ POLYNOMIAL;
        } else {
            rest >>= 1;
        }
        bit += 1;
    }
    quotient
}

/// Whether this processor multiplies so.
#[inline(always)]
pub(super) fn is_there() -> bool {
    is_x86_feature_detected!("pclmulqdq")
}

/// What `check` becomes by at least eight bytes.
#[inline(always)]
pub(super) fn take(check: u16, bytes: &[u8]) -> u16 {
    debug_assert!(is_there() && bytes.len() >= 8);
    let (words, rest) = bytes.as_chunks::<8>();
    // SAFETY: callers ask `is_there` before.
    unsafe { take_words(check, words, rest) }
}

#[target_feature(enable = "pclmulqdq")]
fn take_words(mut check: u16, mut words: &[[u8; 8]], rest: &[u8]) -> u16 {
    while words.len() > AT_ONCE {
        let (first, others) = words.split_at(AT_ONCE);
        check = reduce_sum(check, first, &[]);
        words = others;
    }
    reduce_sum(check, words, rest)
}

/// At most [`AT_ONCE`] words, at least one, and fewer than eight bytes.
#[inline]
#[target_feature(enable = "pclmulqdq")]
fn reduce_sum(check: u16, words: &[[u8; 8]], rest: &[u8]) -> u16 {
    let last = match *rest {
        [] => 0,
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])) << 32,
        _ => {
            rest.iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte))
                << (64 - 8 * rest.len())
        }
    };
    let mut sum = _mm_cvtsi64_si128(last as i64);
    let mut before = u64::from(check);
    let weights = POWERS[rest.len() % 8][..words.len()].iter().rev();
    for (word, weight) in words.iter().zip(weights) {
        let word = _mm_cvtsi64_si128((u64::from_le_bytes(*word) ^ before) as i64);
        let weight = _mm_cvtsi64_si128(*weight as i64);
        sum = _mm_xor_si128(sum, _mm_clmulepi64_si128::<0>(word, weight));
        before = 0;
    }
    // The sum is Y x^16 + Z: Y the lower word, Z the next 16 bits. The quotient's last 16 coefficients say what Y leaves.
    let inverse = _mm_cvtsi64_si128(INVERSE as i64);
    let quotient = _mm_cvtsi128_si64(_mm_clmulepi64_si128::<0>(sum, inverse)) as u64 >> 48;
    let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(sum, _mm_setzero_si128())) as u64;
    (times_polynomial(quotient) ^ high) as u16
}

/// The last 16 coefficients of `quotient` times P = x^16 + x^12 + x^5 + 1.
#[inline(always)]
fn times_polynomial(quotient: u64) -> u64 {
    const { assert!(POLYNOMIAL == 1 << 15 | 1 << 10 | 1 << 3) };
    quotient ^ quotient >> 5 ^ quotient >> 12
}
