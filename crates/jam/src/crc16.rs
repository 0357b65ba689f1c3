//! The check that a message carries. The paper has 16 bits and does not name the polynomial: this is the X.25
//! one (CRC-16/IBM-SDLC), which finds all errors of up to three bits in messages of this length.
//!
//! Messages are a few words long, so eight bytes, then four, are taken at a time: byte by byte the check of a short message would
//! take longer than all else of it.

/// The polynomial, reflected.
const POLYNOMIAL: u16 = 0x8408;

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
    let mut check = 0xffff_u16;
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
    !check
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

    #[test]
    fn it_is_the_one_of_the_catalogue() {
        assert_eq!(of(b"123456789"), 0x906e);
        let catalogue = Crc::<u16>::new(&CRC_16_IBM_SDLC);
        let bytes: Vec<u8> = (0..100u32).map(|i| (i * i * 7 + i) as u8).collect();
        for from in 0..4 {
            for to in from..bytes.len() {
                assert_eq!(
                    of(&bytes[from..to]),
                    catalogue.checksum(&bytes[from..to]),
                    "{from}..{to}"
                );
            }
        }
    }
}
