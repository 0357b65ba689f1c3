//! The check that a message carries. The paper has 16 bits and does not name the polynomial: this is the X.25
//! one (CRC-16/IBM-SDLC), which finds all errors of up to three bits in messages of this length.
//!
//! Byte by byte the check of a short message would take longer than all else of it. So it is multiplied out where the processor
//! can ([`carryless`]); elsewhere tables take eight bytes, then four, at a time.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod carryless;

/// The polynomial, reflected.
const POLYNOMIAL: u16 = 0x8408;
/// The check before the first byte.
const FIRST: u16 = 0xffff;

/// `TABLES[k][b]`: what byte `b` adds when `k` bytes follow it.
static TABLES: [[u16; 256]; 8] = tables();

const fn tables() -> [[u16; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut check = byte as u16;
        let mut bit = 0;
        while bit < 8 {
            check = if check & 1 == 1 {
                check >> 1 ^ POLYNOMIAL
            } else {
                check >> 1
            };
            bit += 1;
        }
        tables[0][byte] = check;
        byte += 1;
    }
    let mut after = 1;
    while after < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[after - 1][byte];
            tables[after][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        after += 1;
    }
    tables
}

/// The check of `bytes`.
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= 8 && carryless::is_there() {
        return !carryless::take(FIRST, bytes);
    }
    !plain(FIRST, bytes)
}

/// What `check` becomes by `bytes`, with tables.
fn plain(mut check: u16, bytes: &[u8]) -> u16 {
    let (eights, rest) = bytes.as_chunks::<8>();
    for part in eights {
        check = take(check, part);
    }
    let (fours, rest) = rest.as_chunks::<4>();
    for part in fours {
        check = take(check, part);
    }
    for byte in rest {
        check = check >> 8 ^ TABLES[0][usize::from(check as u8 ^ byte)];
    }
    check
}

/// Several bytes at once, at least two.
#[inline(always)]
fn take<const N: usize>(check: u16, part: &[u8; N]) -> u16 {
    let [low, high] = check.to_le_bytes();
    let mut next = 0;
    for (at, byte) in part.iter().enumerate() {
        let byte = match at {
            0 => byte ^ low,
            1 => byte ^ high,
            _ => *byte,
        };
        next ^= TABLES[N - 1 - at][usize::from(byte)];
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crc::{CRC_16_IBM_SDLC, Crc};
    use proptest::prelude::*;

    /// Bit by bit.
    fn slow(bytes: &[u8]) -> u16 {
        let turn = |check: u16, _| {
            let next = check >> 1;
            if check & 1 == 1 { next ^ POLYNOMIAL } else { next }
        };
        let take = |check: u16, byte: &u8| (0..8).fold(check ^ u16::from(*byte), turn);
        !bytes.iter().fold(FIRST, take)
    }

    /// The catalogue's check value, and vectors of X.25's frames and of long and uniform strings.
    #[test]
    fn it_is_the_one_of_the_catalogue() {
        let vectors: [(&[u8], u16); 6] = [
            (b"123456789", 0x906e),
            (b"", 0x0000),
            (b"A", 0xa3f5),
            (&[0; 8], 0x8373),
            (&[0xff; 16], 0x2da9),
            (b"The quick brown fox jumps over the lazy dog", 0x9358),
        ];
        let catalogue = Crc::<u16>::new(&CRC_16_IBM_SDLC);
        for (bytes, check) in vectors {
            assert_eq!(
                (of(bytes), slow(bytes), catalogue.checksum(bytes)),
                (check, check, check),
                "{bytes:?}"
            );
        }
    }

    /// Every length that a message can have and more, at every place in a line.
    #[test]
    fn all_ways_agree_for_every_length_and_place() {
        let bytes: Vec<u8> = (0..400u32).map(|i| (i * i * 7 + i) as u8).collect();
        for from in 0..64 {
            for to in from..bytes.len() {
                let part = &bytes[from..to];
                let right = slow(part);
                assert_eq!(of(part), right, "{from}..{to}");
                assert_eq!(!plain(FIRST, part), right, "{from}..{to} with tables");
            }
        }
    }

    proptest! {
        #[test]
        fn all_ways_agree(bytes in proptest::collection::vec(any::<u8>(), 0..300), from in 0usize..16) {
            let part = bytes.get(from..).unwrap_or_default();
            prop_assert_eq!(of(part), slow(part));
            prop_assert_eq!(!plain(FIRST, part), slow(part));
        }

        #[test]
        fn any_three_wrong_bits_are_noticed(bytes in proptest::collection::vec(any::<u8>(), 16..98),
                                            bits: [prop::sample::Index; 3]) {
            let mut wrong = bytes.clone();
            for bit in bits {
                let bit = bit.index(8 * bytes.len());
                wrong[bit / 8] ^= 1 << (bit % 8);
            }
            prop_assert_eq!(of(&wrong) == of(&bytes), wrong == bytes);
        }
    }
}
