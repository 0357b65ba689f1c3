//! Variables that each rank has for itself: the writable segments of the program and its libraries, and their blocks of thread-local storage, of the one thread.
//!
//! They have one place in memory, which the code knows. There are the running rank's; those of the others are kept, each in a piece of memory as long as all
//! segments together. The C library's and the like are the process's: what they keep is made for many users (streams, the heap), and ranks share it, but for
//! some words ([`crate::library_variables`]).

use crate::library_variables;
use crate::modules::Module;
use crate::paged::{Paged, whole_pages};

/// Bytes of variables that are pages rather than copied.
const LONG: usize = 256 << 10;

/// Memory of a segment, and where its bytes are in what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    start: usize,
    len: usize,
    at: usize,
}

/// A rank's variables while others are in their place.
#[derive(Clone, Default)]
enum Kept {
    /// It has not run.
    #[default]
    Nothing,
    Bytes(Box<[u8]>),
    /// It has ended.
    Gone,
}

/// The variables of all ranks.
pub struct Segments {
    /// By their addresses.
    parts: Vec<Part>,
    bytes: usize,
    /// As they were at the start.
    first: Box<[u8]>,
    /// Long ones, and where their first bytes are in `first`.
    paged: Vec<(Paged, usize)>,
    /// Those of ranks that have run.
    kept: Vec<Kept>,
    /// Whose are in their place.
    whose: Option<u32>,
}

impl Segments {
    /// Those of this process, as they are now.
    pub fn find(modules: &[Module]) -> Self {
        let mut found: Vec<(usize, usize)> = modules.iter().flat_map(|it| it.variables.clone()).collect();
        for (start, len) in library_variables::all() {
            // The program's copy of a library's variable is among its own.
            if !found
                .iter()
                .any(|(first, many)| (*first..first + many).contains(&start))
            {
                found.push((start, len));
            }
        }
        // SAFETY: segments of loaded modules that may be written, and so read, and variables of others.
        unsafe { Self::of(found) }
    }

    /// Of these addresses and lengths, as they are now.
    ///
    /// # Safety
    /// All of it may be read and written as long as this is there, is changed by nobody while a method runs, and no references to it are kept meanwhile.
    unsafe fn of(mut found: Vec<(usize, usize)>) -> Self {
        found.sort_unstable();
        let mut bytes = 0;
        let parts: Vec<Part> = found
            .into_iter()
            .filter(|(_, len)| *len > 0)
            .map(|(start, len)| {
                let at = bytes;
                bytes += len;
                Part { start, len, at }
            })
            .collect();
        let mut segments = Self {
            parts,
            bytes,
            first: vec![0; bytes].into_boxed_slice(),
            paged: Vec::new(),
            kept: Vec::new(),
            whose: None,
        };
        let mut first = std::mem::take(&mut segments.first);
        segments.keep(&mut first);
        segments.first = first;
        segments
    }

    /// `len` bytes from `start` on are one for all ranks.
    pub fn leave_out(&mut self, start: usize, len: usize) {
        let end = start + len;
        let parts = self.parts.iter().flat_map(|part| {
            let part_end = part.start + part.len;
            [(part.start, part_end.min(start)), (end.max(part.start), part_end)]
                .into_iter()
                .filter(|(from, to)| from < to)
                .map(|(from, to)| Part {
                    start: from,
                    len: to - from,
                    at: part.at + from - part.start,
                })
        });
        self.parts = parts.collect();
    }

    /// Long ones are pages of `ranks` ranks from now on, which are not copied.
    pub fn page(&mut self, ranks: usize) {
        for part in self.parts.clone() {
            let pages = whole_pages(part.start..part.start + part.len);
            if pages.len() >= LONG
                && let Some(paged) = Paged::new(&pages, ranks)
            {
                self.leave_out(pages.start, pages.len());
                self.paged.push((paged, part.at + pages.start - part.start));
            }
        }
        // What is kept has no bytes of theirs.
        let mut bytes = 0;
        let before = std::mem::take(&mut self.parts);
        let mut first = Vec::new();
        for part in before {
            first.extend_from_slice(&self.first[part.at..part.at + part.len]);
            self.parts.push(Part { at: bytes, ..part });
            bytes += part.len;
        }
        for (paged, at) in &mut self.paged {
            let len = paged.place().len();
            first.extend_from_slice(&self.first[*at..*at + len]);
            *at = first.len() - len;
        }
        (self.bytes, self.first) = (bytes, first.into_boxed_slice());
    }

    fn keep(&self, to: &mut [u8]) {
        for part in &self.parts {
            let to = &mut to[part.at..part.at + part.len];
            // SAFETY: the promise of `of`: so much may be read there; `to` is somewhere else.
            unsafe { std::ptr::copy_nonoverlapping(part.start as *const u8, to.as_mut_ptr(), part.len) };
        }
    }

    fn put(&self, from: &[u8]) {
        for part in &self.parts {
            let from = &from[part.at..part.at + part.len];
            // SAFETY: the promise of `of`: so much may be written there; `from` is somewhere else.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), part.start as *mut u8, part.len) };
        }
    }

    /// From now on those of `rank` are in their place.
    pub fn enter(&mut self, rank: u32) {
        if self.whose == Some(rank) {
            return;
        }
        if let Some(last) = self.whose.take() {
            let last = last as usize;
            if self.kept.len() <= last {
                self.kept.resize(last + 1, Kept::Nothing);
            }
            let mut kept = match std::mem::take(&mut self.kept[last]) {
                Kept::Bytes(kept) => kept,
                _ => vec![0; self.bytes].into_boxed_slice(),
            };
            self.keep(&mut kept);
            self.kept[last] = Kept::Bytes(kept);
        }
        let begins = !matches!(self.kept.get(rank as usize), Some(Kept::Bytes(_)));
        match self.kept.get(rank as usize) {
            Some(Kept::Bytes(kept)) => self.put(kept),
            _ => self.put(&self.first),
        }
        for (paged, at) in &self.paged {
            if begins {
                paged.begin(rank, &self.first[*at..*at + paged.place().len()]);
            }
            // SAFETY: the promise of `of`.
            unsafe { paged.enter(rank) };
        }
        self.whose = Some(rank);
    }

    /// `rank` has ended: nothing of it is kept any more.
    pub fn forget(&mut self, rank: u32) {
        if self.whose == Some(rank) {
            self.whose = None;
        }
        if self.kept.len() <= rank as usize {
            self.kept.resize(rank as usize + 1, Kept::Nothing);
        }
        self.kept[rank as usize] = Kept::Gone;
        for (paged, _) in &self.paged {
            paged.forget(rank);
        }
    }

    /// Where the byte is that `rank` has at `address`, and how many of `len` lie together from there on; at 0, where nothing is, if it has ended.
    pub fn find_of(&self, rank: u32, address: usize, len: usize) -> (usize, usize) {
        if self.whose == Some(rank) {
            return (address, len);
        }
        if let Some((paged, _)) = self
            .paged
            .iter()
            .find(|(paged, _)| paged.place().contains(&address))
        {
            let now = match self.kept.get(rank as usize) {
                Some(Kept::Bytes(_)) => paged.find(rank, address),
                _ => 0,
            };
            return (now, len.min(paged.place().end - address));
        }
        // Paged ones begin behind all that lies together before them.
        let ahead = self.paged.iter().map(|(paged, _)| paged.place().start);
        let len = ahead
            .filter(|start| *start > address)
            .fold(len, |len, start| len.min(start - address));
        let before = self.parts.partition_point(|part| part.start <= address);
        if let Some(part) = before.checked_sub(1).map(|last| self.parts[last])
            && address - part.start < part.len
        {
            let offset = address - part.start;
            let now = match self.kept.get(rank as usize) {
                Some(Kept::Bytes(kept)) => kept[part.at..].as_ptr() as usize + offset,
                _ => 0,
            };
            return (now, len.min(part.len - offset));
        }
        match self.parts.get(before) {
            Some(next) => (address, len.min(next.start - address)),
            None => (address, len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_left_out() {
        let part = |start, len, at| Part { start, len, at };
        let parts = vec![part(100, 10, 0), part(200, 10, 10)];
        let without = |start, len| {
            let mut segments = Segments {
                parts: parts.clone(),
                bytes: 20,
                first: Box::default(),
                paged: Vec::new(),
                kept: Vec::new(),
                whose: None,
            };
            segments.leave_out(start, len);
            segments.parts
        };
        assert_eq!(without(103, 2), [part(100, 3, 0), part(105, 5, 5), parts[1]]);
        assert_eq!(without(90, 15), [part(105, 5, 5), parts[1]]);
        assert_eq!(without(105, 100), [part(100, 5, 0), part(205, 5, 15)]);
        assert_eq!(without(110, 90), parts);
        assert_eq!(without(200, 10), [parts[0]]);
    }

    /// Three variables in one piece of memory, of which the first and the last are a rank's own.
    #[test]
    fn each_rank_has_its_own_and_others_find_it() {
        let mut memory = [1_u64, 2, 3];
        let at = memory.as_mut_ptr() as usize;
        let read = |nr: usize| {
            // SAFETY: within `memory`, to which there is no reference.
            unsafe { ((at + 8 * nr) as *const u64).read_volatile() }
        };
        let write = |nr: usize, value: u64| {
            // SAFETY: as above.
            unsafe { ((at + 8 * nr) as *mut u64).write_volatile(value) };
        };
        // SAFETY: as above, and the segments do not outlive it.
        let mut segments = unsafe { Segments::of(vec![(at + 16, 8), (at, 8), (at + 8, 0)]) };
        assert_eq!(segments.bytes, 16);
        segments.enter(0);
        (0..3).for_each(|nr| write(nr, 10 + nr as u64));
        segments.enter(1);
        assert_eq!([read(0), read(1), read(2)], [1, 11, 3]);
        write(2, 33);
        // In place, kept, before and between the parts.
        assert_eq!(segments.find_of(1, at, 24), (at, 24));
        let (kept, together) = segments.find_of(0, at, 24);
        assert!(kept != at && together == 8);
        // SAFETY: a kept variable, as long as nobody enters.
        assert_eq!(unsafe { (kept as *const u64).read_unaligned() }, 10);
        assert_eq!(segments.find_of(0, at + 8, 16), (at + 8, 8));
        assert_eq!(segments.find_of(0, at - 8, 4), (at - 8, 4));
        assert_eq!(segments.find_of(0, at + 20, 8).1, 4);
        assert_eq!(segments.find_of(0, at + 24, 8), (at + 24, 8));
        segments.enter(0);
        assert_eq!([read(0), read(1), read(2)], [10, 11, 12]);
        segments.enter(1);
        assert_eq!([read(0), read(1), read(2)], [1, 11, 33]);
        segments.forget(1);
        assert_eq!(segments.find_of(1, at, 24), (0, 8));
        assert_eq!(segments.find_of(1, at + 8, 8), (at + 8, 8));
        segments.enter(0);
        assert_eq!([read(0), read(1), read(2)], [10, 11, 12]);
    }
}
