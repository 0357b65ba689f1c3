//! The check that a message carries. The paper has 16 bits and does not name the polynomial: this is the X.25
//! one (CRC-16/IBM-SDLC), which finds all errors of up to three bits in messages of this length.

use crc::{CRC_16_IBM_SDLC, Crc, Table};

static CHECK: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_IBM_SDLC);

/// The check of `bytes`.
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    CHECK.checksum(bytes)
}
