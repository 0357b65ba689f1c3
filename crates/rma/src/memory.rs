//! The window's memory: the only place here that touches memory of the program's that no buffer describes.
//!
//! The invariant of every block: [`Area::place`] has found that the piece lies in memory that the program has given to
//! the window, and gives it up only after every member has synchronised (MPI-5.0 section 12.2).
//!
//! Requirements of MPI-5.0 sections 12.3, 12.3.4, 12.7.
#![allow(unsafe_code)]

use crate::message::Piece;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::{Op, Predefined};
use farpost_mpi::{Result, fail};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Memory that others may reach.
pub(crate) enum Area {
    /// So many bytes from an address on.
    Fixed { base: usize, len: u64 },
    /// What is attached: bytes by address.
    Dynamic(RefCell<BTreeMap<usize, usize>>),
}

impl Area {
    /// Where a piece lies, if it is in the window.
    pub(crate) fn place(&self, piece: Piece) -> Option<usize> {
        let (at, len) = piece;
        match self {
            Self::Fixed { base, len: all } => {
                let at = u64::try_from(at).ok()?;
                (at.checked_add(len)? <= *all).then(|| base.wrapping_add(at as usize))
            }
            Self::Dynamic(regions) => {
                let at = at.cast_unsigned() as usize;
                let end = at.checked_add(usize::try_from(len).ok()?)?;
                let regions = regions.borrow();
                // Regions that touch are one.
                let mut from = at;
                while let Some((base, size)) = regions.range(..=from).next_back() {
                    let past = base + size;
                    if end <= past {
                        return Some(at);
                    }
                    if past <= from {
                        return None;
                    }
                    from = past;
                }
                None
            }
        }
    }

    fn places(&self, pieces: &[Piece]) -> Result<Vec<(usize, usize)>> {
        let places = pieces.iter().map(|piece| {
            let found = self.place(*piece);
            found.map_or_else(
                || fail!(ERR_RMA_RANGE: "{} bytes at {:#x} of the target are not in the window", piece.1, piece.0),
                |at| Ok((at, piece.1 as usize)),
            )
        });
        places.collect()
    }

    /// Copies the pieces' bytes out, one after the other.
    pub(crate) fn gather(&self, pieces: &[Piece]) -> Result<Vec<u8>> {
        let places = self.places(pieces)?;
        let mut out = vec![0; places.iter().map(|(_, len)| len).sum()];
        let mut to = 0;
        for (at, len) in places {
            // SAFETY: see the top of the file; `out` is ours.
            unsafe { core::ptr::copy(at as *const u8, out.as_mut_ptr().add(to), len) };
            to += len;
        }
        Ok(out)
    }

    /// Copies `data` to the pieces.
    pub(crate) fn scatter(&self, pieces: &[Piece], data: &[u8]) -> Result<()> {
        let places = self.places(pieces)?;
        if places.iter().map(|(_, len)| len).sum::<usize>() != data.len() {
            return fail!(ERR_INTERN: "{} bytes of data for other memory of a window", data.len());
        }
        let mut from = 0;
        for (at, len) in places {
            // SAFETY: see the top of the file; `data` has as many bytes as the pieces.
            unsafe { core::ptr::copy(data.as_ptr().add(from), at as *mut u8, len) };
            from += len;
        }
        Ok(())
    }

    /// The piece as a buffer that a message fills.
    pub(crate) fn incoming(&self, piece: Piece) -> Result<RecvBuf> {
        let at = self.places(&[piece])?[0].0;
        // SAFETY: see the top of the file.
        Ok(unsafe { RecvBuf::new(at as *mut u8, piece.1, Datatype::byte()) })
    }

    /// The piece as a buffer that is sent.
    pub(crate) fn outgoing(&self, piece: Piece) -> Result<SendBuf> {
        let at = self.places(&[piece])?[0].0;
        // SAFETY: see the top of the file.
        Ok(unsafe { SendBuf::new(at as *const u8, piece.1, Datatype::byte()) })
    }

    /// Combines `data`, elements of the predefined type `element`, with the pieces; what was there.
    pub(crate) fn accumulate(
        &self,
        op: &Op,
        element: &Datatype,
        pieces: &[Piece],
        data: &[u8],
    ) -> Result<Vec<u8>> {
        let old = self.gather(pieces)?;
        match op.as_predefined() {
            Some(Predefined::NoOp) => {}
            Some(Predefined::Replace) => self.scatter(pieces, data)?,
            Some(_) if data.len() == old.len() => {
                self.scatter(pieces, &combined(op, element, data, &old)?)?
            }
            _ => return fail!(ERR_INTERN: "an accumulate operation of another process is none"),
        }
        Ok(old)
    }

    /// Stores the first half of `data` if the second is there; what was there.
    pub(crate) fn compare_and_swap(&self, pieces: &[Piece], data: &[u8]) -> Result<Vec<u8>> {
        let old = self.gather(pieces)?;
        let (new, compare) = data.split_at(data.len() / 2);
        if old == compare {
            self.scatter(pieces, new)?;
        }
        Ok(old)
    }
}

/// `data op old`, element by element. Elements have their gaps only while they are combined.
fn combined(op: &Op, element: &Datatype, data: &[u8], old: &[u8]) -> Result<Vec<u8>> {
    let (size, extent) = (element.size() as usize, element.extent() as usize);
    let count = data.len() / size.max(1);
    if count * size != data.len() {
        return fail!(ERR_INTERN: "{} bytes of elements of {size} bytes", data.len());
    }
    let mut result = old.to_vec();
    if size == extent {
        // SAFETY: both hold `count` elements without gaps, and are apart.
        unsafe { op.apply(data.as_ptr(), result.as_mut_ptr(), count as u64, element) }?;
        return Ok(result);
    }
    let spread = |stream: &[u8]| {
        let mut wide = vec![0u8; count * extent];
        // SAFETY: `wide` has room for `count` elements, and is ours.
        unsafe { RecvBuf::new(wide.as_mut_ptr(), count as u64, element.clone()) }.unpack(0, stream);
        wide
    };
    let (left, mut right) = (spread(data), spread(old));
    // SAFETY: both hold `count` elements, and are apart.
    unsafe { op.apply(left.as_ptr(), right.as_mut_ptr(), count as u64, element) }?;
    // SAFETY: `right` holds `count` elements.
    unsafe { SendBuf::new(right.as_ptr(), count as u64, element.clone()) }.pack(0, &mut result);
    Ok(result)
}

/// Memory of our own for messages.
pub(crate) struct Room(Box<[u8]>);

impl Room {
    pub(crate) fn new(len: usize) -> Self {
        Self(vec![0; len].into_boxed_slice())
    }

    /// For a receive. The room is kept until that is over, and not looked at meanwhile.
    pub(crate) fn buffer(&mut self) -> RecvBuf {
        // SAFETY: the caller keeps the room as said.
        unsafe { RecvBuf::new(self.0.as_mut_ptr(), self.0.len() as u64, Datatype::byte()) }
    }

    pub(crate) fn bytes(&self, len: usize) -> &[u8] {
        &self.0[..len.min(self.0.len())]
    }
}

/// Zeroed memory that the library gives to the program. It stays where it is.
pub(crate) struct Given {
    at: *mut u8,
    layout: std::alloc::Layout,
}

impl Given {
    /// `None`: there is not as much.
    pub(crate) fn new(len: u64, alignment: usize) -> Option<Self> {
        let len = usize::try_from(len).ok()?.max(1);
        let layout = std::alloc::Layout::from_size_align(len, alignment).ok()?;
        // SAFETY: the layout has a size.
        let at = unsafe { std::alloc::alloc_zeroed(layout) };
        (!at.is_null()).then_some(Self { at, layout })
    }

    pub(crate) fn address(&self) -> usize {
        self.at.addr()
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        // SAFETY: from `new`, with this layout.
        unsafe { std::alloc::dealloc(self.at, self.layout) };
    }
}

/// The pieces of `count` elements of `ty` at byte `from` of their data on, at most `most` of them, in a window's memory from `disp` on;
/// and their bytes.
pub(crate) fn pieces(disp: i64, ty: &Datatype, count: u64, from: u64, most: usize) -> (Vec<Piece>, u64) {
    let mut list = Vec::new();
    // SAFETY: only places are asked for, and no byte is touched.
    let buffer = unsafe { SendBuf::new(core::ptr::null(), count, ty.clone()) };
    let bytes = buffer.segments(from, most, &mut list);
    let pieces = list
        .into_iter()
        .map(|(at, len)| (disp.wrapping_add(at as i64), len as u64));
    (pieces.collect(), bytes)
}

/// Bytes `from..from + len` of a buffer's data as one run, if they are one.
pub(crate) fn run_to_send(buf: &SendBuf, from: u64, len: u64) -> Option<SendBuf> {
    let at = buf.contiguous_address()?.wrapping_add(from as usize);
    // SAFETY: a part of what the buffer's maker promised.
    Some(unsafe { SendBuf::new(at as *const u8, len, Datatype::byte()) })
}

/// As [`run_to_send`], to be filled.
pub(crate) fn run_to_fill(buf: &RecvBuf, from: u64, len: u64) -> Option<RecvBuf> {
    let at = buf.contiguous_address()?.wrapping_add(from as usize);
    // SAFETY: a part of what the buffer's maker promised.
    Some(unsafe { RecvBuf::new(at as *mut u8, len, Datatype::byte()) })
}

/// Bytes of an accumulate operation that are done under one hold of the lock.
pub(crate) const CHUNK_DIRECT: u64 = 16 * 1024;

/// Copies a buffer's data to one piece.
pub(crate) fn copy_in(area: &Area, piece: Piece, from: &SendBuf) -> Result<()> {
    let at = area.places(&[piece])?[0].0;
    // Memory that the program reads meanwhile is seen through raw copies only where it is contiguous; gaps are packed first.
    if let Some(run) = from.contiguous_address() {
        // SAFETY: see the top of the file; the origin's run has as many bytes.
        unsafe { core::ptr::copy(run as *const u8, at as *mut u8, piece.1 as usize) };
        return Ok(());
    }
    let mut data = vec![0; piece.1 as usize];
    from.pack(0, &mut data);
    area.scatter(&[piece], &data)
}

/// Copies one piece to a buffer.
pub(crate) fn copy_out(area: &Area, piece: Piece, to: &RecvBuf) -> Result<()> {
    let at = area.places(&[piece])?[0].0;
    if let Some(run) = to.contiguous_address() {
        // SAFETY: see the top of the file; the origin's run has as many bytes.
        unsafe { core::ptr::copy(at as *const u8, run as *mut u8, piece.1 as usize) };
        return Ok(());
    }
    to.unpack(0, &area.gather(&[piece])?);
    Ok(())
}

/// As many of the pieces as make `bytes`.
pub(crate) fn cut(pieces: Vec<Piece>, mut bytes: u64) -> Vec<Piece> {
    let mut list = Vec::with_capacity(pieces.len());
    for (at, len) in pieces {
        let len = len.min(bytes);
        if len > 0 {
            list.push((at, len));
        }
        bytes -= len;
    }
    list
}
