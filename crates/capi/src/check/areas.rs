//! Memory that an operation uses: where it lies, whether two pieces overlap, and what it holds.

use farpost_mpi::buffer::SendBuf;

/// Runs of memory that are looked at; a buffer of more is taken for one that overlaps nothing.
const MOST_RUNS: usize = 1 << 16;
/// Bytes that are summed up at a time.
const CHUNK: usize = 4096;

/// A buffer of the program's.
#[derive(Clone)]
pub(crate) struct Area {
    buf: SendBuf,
    /// It is written to.
    pub(crate) write: bool,
}

impl Area {
    /// A buffer that is read.
    pub(crate) fn read(buf: SendBuf) -> Self {
        Self { buf, write: false }
    }

    /// A buffer that is written to.
    pub(crate) fn written(buf: SendBuf) -> Self {
        Self { buf, write: true }
    }

    /// From the first to one past the last byte; `None`: there is none.
    pub(crate) fn bounds(&self) -> Option<(usize, usize)> {
        if self.buf.bytes() == 0 {
            return None;
        }
        let datatype = self.buf.datatype();
        let last = (self.buf.count() as i128 - 1) * i128::from(datatype.extent());
        let low = i128::from(self.buf.address() as u64) + i128::from(datatype.true_lb()) + last.min(0);
        let high = low + last.abs() + i128::from(datatype.true_extent());
        Some((usize::try_from(low).ok()?, usize::try_from(high).ok()?))
    }

    /// Every run of bytes; `None`: too many.
    fn runs(&self) -> Option<Vec<(usize, usize)>> {
        let mut list = Vec::new();
        let told = self.buf.segments(0, MOST_RUNS, &mut list);
        if told < self.buf.bytes() {
            return None;
        }
        list.sort_unstable();
        Some(list)
    }

    /// The first byte that both have.
    pub(crate) fn overlap(&self, other: &Area) -> Option<usize> {
        let ((low, high), (other_low, other_high)) = (self.bounds()?, other.bounds()?);
        if low >= other_high || other_low >= high {
            return None;
        }
        let (mine, theirs) = (self.runs()?, other.runs()?);
        let (mut i, mut k) = (0, 0);
        while let (Some(a), Some(b)) = (mine.get(i), theirs.get(k)) {
            let start = a.0.max(b.0);
            if start < (a.0 + a.1).min(b.0 + b.1) {
                return Some(start);
            }
            if a.0 + a.1 <= b.0 + b.1 {
                i += 1;
            } else {
                k += 1;
            }
        }
        None
    }

    /// The first byte that is written twice.
    pub(crate) fn overlaps_itself(&self) -> Option<usize> {
        if self.buf.bytes() == 0 || self.buf.datatype().is_contiguous() {
            return None;
        }
        let runs = self.runs()?;
        let twice = |pair: &&[(usize, usize)]| pair[0].0 + pair[0].1 > pair[1].0;
        runs.windows(2).find(twice).map(|pair| pair[1].0)
    }

    /// A checksum of the bytes.
    pub(crate) fn sum(&self) -> u64 {
        let mut chunk = [0; CHUNK];
        let (mut sum, mut at) = (0x9e37_79b9_7f4a_7c15u64, 0);
        loop {
            let len = self.buf.pack(at, &mut chunk);
            if len == 0 {
                return sum;
            }
            chunk[len..].fill(0);
            for word in chunk[..len.next_multiple_of(8)].chunks_exact(8) {
                let word = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
                let product = u128::from(sum ^ word) * 0xd6e8_feb8_6659_fd93_u128;
                sum = (product as u64).rotate_left(29) ^ (product >> 64) as u64 ^ word.rotate_left(7);
            }
            at += len as u64;
        }
    }

    /// Bytes of data.
    pub(crate) fn bytes(&self) -> u64 {
        self.buf.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farpost_mpi::datatype::{Basic, Datatype};

    fn area(data: &[i32], count: u64, datatype: &Datatype) -> Area {
        // SAFETY: the tests keep their data.
        Area::read(unsafe { SendBuf::new(data.as_ptr().cast(), count, datatype.clone()) })
    }

    #[test]
    fn columns_of_a_matrix_do_not_overlap_and_rows_meet_columns() {
        let matrix = [0; 16];
        let int = Datatype::from_basic(Basic::INT);
        let column = Datatype::vector(4, 1, 4, &int).unwrap();
        let (first, second) = (area(&matrix, 1, &column), area(&matrix[1..], 1, &column));
        assert_eq!(first.overlap(&second), None);
        assert_eq!(first.overlaps_itself(), None);
        let row = area(&matrix[4..], 4, &int);
        assert_eq!(second.overlap(&row), Some(matrix[5..].as_ptr() as usize));
        assert_eq!(area(&matrix, 0, &int).overlap(&row), None);
        assert_eq!(area(&matrix, 4, &int).overlap(&row), None);
        let twice = Datatype::vector(2, 2, 1, &int).unwrap();
        assert_eq!(
            area(&matrix, 1, &twice).overlaps_itself(),
            Some(matrix[1..].as_ptr() as usize)
        );
    }

    #[test]
    fn a_sum_tells_one_changed_byte() {
        let mut data = vec![1; 5000];
        let int = Datatype::from_basic(Basic::INT);
        let before = area(&data, 5000, &int).sum();
        assert_eq!(before, area(&data, 5000, &int).sum());
        data[4999] = 2;
        assert_ne!(before, area(&data, 5000, &int).sum());
    }
}
