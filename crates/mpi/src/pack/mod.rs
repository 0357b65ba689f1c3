//! `MPI_Pack`, `MPI_Unpack` and `MPI_Pack_size` (MPI-5.0 section 5.2). The packed form is the packed
//! stream, without a header.

mod external;

pub use external::{check_datarep, pack_external, pack_external_size, unpack_external};

use crate::Result;
use crate::buffer::{RecvBuf, SendBuf};
use crate::datatype::Datatype;
use crate::datatype::construct::count_arg;

/// Bytes that `count` elements take in a pack buffer.
///
/// # Errors
/// `MPI_ERR_COUNT` for a negative count, `MPI_ERR_VALUE_TOO_LARGE` when 63 bits do not hold the size.
pub fn pack_size(count: i64, datatype: &Datatype) -> Result<i64> {
    total(count_arg("incount", count)?, datatype.size())
}

fn total(count: u64, size: u64) -> Result<i64> {
    match count
        .checked_mul(size)
        .and_then(|bytes| i64::try_from(bytes).ok())
    {
        Some(bytes) => Ok(bytes),
        None => fail!(
            ERR_VALUE_TOO_LARGE: "{count} elements of {size} bytes do not fit the range of MPI_Count"
        ),
    }
}

/// Checks that `bytes` at `position` lie inside a pack buffer and returns the range's end.
fn room(what: &str, length: usize, position: u64, bytes: u64) -> Result<u64> {
    if position > length as u64 {
        return fail!(ERR_ARG: "position={position}: beyond {what}={length}");
    }
    match position.checked_add(bytes) {
        Some(end) if end <= length as u64 => Ok(end),
        _ => fail!(ERR_TRUNCATE: "{what}={length}: {bytes} bytes are needed at position {position}"),
    }
}

/// `MPI_Pack`: appends the data at `position` and moves it on.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` when `out` is too small; then nothing is written.
pub fn pack(data: &SendBuf, out: &mut [u8], position: &mut u64) -> Result<()> {
    let end = room("outsize", out.len(), *position, data.bytes())?;
    data.pack(0, &mut out[*position as usize..end as usize]);
    *position = end;
    Ok(())
}

/// `MPI_Unpack`: takes the data from `position` and moves it on.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` when `packed` holds less than the data asked for; then nothing is written.
pub fn unpack(packed: &[u8], position: &mut u64, data: &RecvBuf) -> Result<()> {
    let end = room("insize", packed.len(), *position, data.bytes())?;
    data.unpack(0, &packed[*position as usize..end as usize]);
    *position = end;
    Ok(())
}
