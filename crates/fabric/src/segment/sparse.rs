//! Bytes of a segment, of which those that were never written have no memory.

/// Bytes that get memory together. A multiple of a line, so that none crosses two.
pub(super) const CHUNK: usize = 1024;

type Chunk = Box<[u8; CHUNK]>;

/// Chunks that follow each other, whose places get memory together: a segment has a line for each process of a large job, of which a few are written.
const GROUP: usize = 16;

type Group = Box<[Option<Chunk>; GROUP]>;

/// `len` bytes, zeroes at first.
#[derive(Clone)]
pub(super) struct SparseBytes {
    len: usize,
    /// As far as anything was written. `None`: zeroes.
    groups: Vec<Option<Group>>,
}

/// The pieces of a range that lie in one chunk each: the chunk, where in it, and where in the range.
fn pieces(
    offset: usize,
    len: usize,
) -> impl Iterator<Item = (usize, std::ops::Range<usize>, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == len {
            return None;
        }
        let (chunk, start) = ((offset + at) / CHUNK, (offset + at) % CHUNK);
        let here = (CHUNK - start).min(len - at);
        at += here;
        Some((chunk, start..start + here, at - here..at))
    })
}

impl SparseBytes {
    pub fn new(len: usize) -> Self {
        Self {
            len,
            groups: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes that have memory.
    pub fn memory(&self) -> usize {
        self.groups
            .iter()
            .flatten()
            .flat_map(|group| group.iter().flatten())
            .count()
            * CHUNK
    }

    fn chunk(&self, number: usize) -> Option<&Chunk> {
        let group = self.groups.get(number / GROUP)?.as_deref()?;
        group[number % GROUP].as_ref()
    }

    fn chunk_mut(&mut self, number: usize) -> &mut Option<Chunk> {
        if number / GROUP >= self.groups.len() {
            self.groups.resize_with(number / GROUP + 1, || None);
        }
        let group = self.groups[number / GROUP].get_or_insert_with(Box::default);
        &mut group[number % GROUP]
    }

    /// # Panics
    /// When the range leaves the segment, as slices do; so do the others.
    fn check(&self, offset: usize, len: usize) {
        assert!(
            offset <= self.len && len <= self.len - offset,
            "{len} bytes at {offset} of a segment of {}",
            self.len
        );
    }

    pub fn read(&self, offset: usize, to: &mut [u8]) {
        self.check(offset, to.len());
        for (chunk, place, part) in pieces(offset, to.len()) {
            match self.chunk(chunk) {
                Some(bytes) => to[part].copy_from_slice(&bytes[place]),
                None => to[part].fill(0),
            }
        }
    }

    pub fn write(&mut self, offset: usize, from: &[u8]) {
        self.check(offset, from.len());
        for (chunk, place, part) in pieces(offset, from.len()) {
            let bytes = self.chunk_mut(chunk).get_or_insert_with(|| Box::new([0; CHUNK]));
            bytes[place].copy_from_slice(&from[part]);
        }
    }

    /// Make `range` zeroes. Chunks that lie in it have no memory afterwards.
    pub fn clear(&mut self, range: std::ops::Range<usize>) {
        self.check(range.start, range.len());
        for (chunk, place, _) in pieces(range.start, range.len()) {
            let end = self.len.min((chunk + 1) * CHUNK) - chunk * CHUNK;
            if self.chunk(chunk).is_none() {
                continue;
            }
            match self.chunk_mut(chunk) {
                bytes if place == (0..end) => *bytes = None,
                Some(bytes) => bytes[place].fill(0),
                None => {}
            }
        }
        for group in &mut self.groups {
            if group
                .as_ref()
                .is_some_and(|chunks| chunks.iter().all(Option::is_none))
            {
                *group = None;
            }
        }
        let used = self
            .groups
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |last| last + 1);
        self.groups.truncate(used);
        self.groups.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is written and cleared, it reads as a slice does, and has memory only where something was written.
    #[test]
    fn sparse_bytes_are_as_a_slice() {
        for seed in 0..50 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let len = rng.usize(1..40 * CHUNK);
            let (mut sparse, mut slice) = (SparseBytes::new(len), vec![0; len]);
            assert_eq!((sparse.memory(), sparse.len()), (0, len));
            for _ in 0..200 {
                let start = rng.usize(0..=len);
                let range = start..rng.usize(start..=len);
                match rng.u8(..3) {
                    0 => {
                        let bytes: Vec<u8> = range.clone().map(|_| rng.u8(..)).collect();
                        sparse.write(start, &bytes);
                        slice[range].copy_from_slice(&bytes);
                    }
                    1 => {
                        sparse.clear(range.clone());
                        slice[range].fill(0);
                    }
                    _ => {
                        let mut got = vec![1; range.len()];
                        sparse.read(start, &mut got);
                        assert_eq!(got, slice[range], "seed {seed}");
                    }
                }
                let least = slice
                    .chunks(CHUNK)
                    .filter(|chunk| chunk.iter().any(|b| *b != 0))
                    .count();
                assert!(sparse.memory() >= least * CHUNK);
            }
            sparse.clear(0..len);
            assert_eq!(sparse.memory(), 0);
        }
    }

    #[test]
    #[should_panic(expected = "2 bytes at 9 of a segment of 10")]
    fn sparse_bytes_end_at_their_length() {
        SparseBytes::new(10).write(9, &[1, 2]);
    }
}
