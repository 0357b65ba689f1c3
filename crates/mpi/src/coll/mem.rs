//! Memory of a collective: blocks of user memory or of temporaries, described by address, count and
//! datatype, and the pool that temporaries come from.
//!
//! Every [`Block`] starts from a buffer whose constructor promised that the memory stays valid until the
//! operation completes, or from a [`Temp`] owned by the plan that uses it. Sub-blocks stay inside the block
//! they were made from. Those two facts are the invariant of every `unsafe` block here.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;

use crate::Result;
use crate::buffer::{RecvBuf, SendBuf};
use crate::datatype::Datatype;
use crate::op::Op;
use farpost_channel::rows::WORDS;

/// `count` elements of a datatype at an address: what one step of a schedule sends, receives, copies or
/// reduces.
#[derive(Clone)]
pub struct Block {
    base: *mut u8,
    count: u64,
    ty: Datatype,
}

impl Block {
    /// The buffer of a collective at `base`. What is only read may be given as `*mut` too: a block is written
    /// to only when the collective's argument is an output.
    ///
    /// # Safety
    /// The memory that `count` elements of `ty` at `base` span stays valid until the collective (for a
    /// persistent one: its request) is finished, and for outputs is not accessed by anybody else meanwhile.
    #[inline]
    pub unsafe fn new(base: *mut u8, count: u64, ty: Datatype) -> Self {
        Self { base, count, ty }
    }

    /// No data: for arguments that are not significant at this rank.
    pub fn none() -> Self {
        Self {
            base: std::ptr::null_mut(),
            count: 0,
            ty: Datatype::byte(),
        }
    }

    /// Elements.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The datatype of the elements.
    #[inline]
    pub fn datatype(&self) -> &Datatype {
        &self.ty
    }

    /// Bytes of data, gaps not counted.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.count * self.ty.size()
    }

    /// Whether the elements follow each other without gaps from the block's address on.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.ty.is_contiguous() && self.ty.true_lb() == 0
    }

    /// The address as a number.
    pub(crate) fn address(&self) -> usize {
        self.base.addr()
    }

    /// The same place: address and datatype size, used to see whether a copy can be left out.
    pub(crate) fn same_place(&self, other: &Block) -> bool {
        std::ptr::eq(self.base, other.base)
    }

    /// Whether the first bytes of the data of both are the same ones: then they overlap. That they do not is not said.
    pub fn begins_like(&self, other: &Block) -> bool {
        let begin = |block: &Block| {
            // Elements that follow each other downwards begin elsewhere.
            let plain = block.bytes() > 0 && (block.count == 1 || block.ty.extent() >= 0);
            plain.then(|| block.base.wrapping_offset(block.ty.true_lb() as isize))
        };
        begin(self).is_some_and(|here| begin(other) == Some(here))
    }

    /// `count` elements from element `first` on.
    #[inline]
    pub fn part(&self, first: u64, count: u64) -> Self {
        Self {
            base: self
                .base
                .wrapping_offset((first as i64).wrapping_mul(self.ty.extent()) as isize),
            count,
            ty: self.ty.clone(),
        }
    }

    /// The `i`-th block of this size, blocks following each other, as in the buffers of `MPI_Gather`.
    #[inline]
    pub fn nth(&self, i: usize) -> Self {
        self.nths(i, 1)
    }

    /// `k` blocks of this size in a row from the `i`-th on.
    #[inline]
    pub fn nths(&self, i: usize, k: usize) -> Self {
        self.part(i as u64 * self.count, k as u64 * self.count)
    }

    /// The block moved by `bytes` (the displacements of `MPI_Alltoallw`).
    pub fn moved(&self, bytes: i64) -> Self {
        Self {
            base: self.base.wrapping_offset(bytes as isize),
            count: self.count,
            ty: self.ty.clone(),
        }
    }

    /// The same memory with another count.
    pub fn with_count(&self, count: u64) -> Self {
        Self {
            base: self.base,
            count,
            ty: self.ty.clone(),
        }
    }

    /// The same address with another count and datatype.
    #[cfg(test)]
    pub(crate) fn of_type(&self, count: u64, ty: Datatype) -> Self {
        Self {
            base: self.base,
            count,
            ty,
        }
    }

    /// The block as plain bytes, when its data is one run without gaps.
    pub(crate) fn as_bytes(&self) -> Option<Self> {
        let bytes = self.bytes();
        (bytes == 0 || self.ty.is_contiguous()).then(|| Self {
            base: self.base.wrapping_offset(self.ty.true_lb() as isize),
            count: bytes,
            ty: Datatype::byte(),
        })
    }

    /// As the argument of a send.
    pub fn to_send(&self) -> SendBuf {
        // SAFETY: the block lies in memory that is valid until the collective completes (module header).
        unsafe { SendBuf::new(self.base, self.count, self.ty.clone()) }
    }

    /// As the argument of a receive.
    pub fn to_recv(&self) -> RecvBuf {
        // SAFETY: as above, and a plan has at most one step at a time that writes a block.
        unsafe { RecvBuf::new(self.base, self.count, self.ty.clone()) }
    }
}

impl From<SendBuf> for Block {
    /// The buffer's own promise (valid until the operation completes) carries over.
    fn from(buf: SendBuf) -> Self {
        Self {
            base: buf.ptr().cast_mut(),
            count: buf.count(),
            ty: buf.datatype().clone(),
        }
    }
}

impl From<RecvBuf> for Block {
    fn from(buf: RecvBuf) -> Self {
        Self {
            base: buf.ptr(),
            count: buf.count(),
            ty: buf.datatype().clone(),
        }
    }
}

/// Copy `len` bytes of the packed stream of `from`, beginning at byte `from_at`, to the packed stream of
/// `to` at byte `to_at`. Less is copied when one of them ends before: how many bytes.
pub(crate) fn copy(from: &Block, from_at: u64, to: &Block, to_at: u64, len: u64) -> u64 {
    let len = len
        .min(from.bytes().saturating_sub(from_at))
        .min(to.bytes().saturating_sub(to_at));
    if len == 0 {
        return 0;
    }
    match (from.as_bytes(), to.as_bytes()) {
        (Some(from), Some(to)) => {
            // SAFETY: `len` is limited to both blocks, which are one run of valid memory each. They may be
            // the same memory when a program passes overlapping buffers, hence the overlapping copy.
            unsafe {
                std::ptr::copy(
                    from.base.wrapping_add(from_at as usize),
                    to.base.wrapping_add(to_at as usize),
                    len as usize,
                )
            }
        }
        (Some(from), None) => {
            let part = from.part(from_at, len).to_send();
            if let Some(bytes) = part.contiguous() {
                to.to_recv().unpack(to_at, bytes);
            }
        }
        (None, Some(to)) => {
            let mut part = to.part(to_at, len).to_recv();
            if let Some(bytes) = part.contiguous_mut() {
                from.to_send().pack(from_at, bytes);
            }
        }
        (None, None) => {
            let (from, to) = (from.to_send(), to.to_recv());
            let mut bounce = [0u8; 8192];
            let mut done = 0;
            while done < len {
                let n = (len - done).min(bounce.len() as u64) as usize;
                from.pack(from_at + done, &mut bounce[..n]);
                to.unpack(to_at + done, &bounce[..n]);
                done += n as u64;
            }
        }
    }
    len
}

/// `inout = input op inout`, element by element.
pub(crate) fn reduce(op: &Op, input: &Block, inout: &Block) -> Result<()> {
    if inout.count == 0 {
        return Ok(());
    }
    // SAFETY: both blocks hold `inout.count` elements of `inout.ty` in valid memory, and builders never
    // reduce a block into itself.
    unsafe { op.apply(input.base, inout.base, inout.count, &inout.ty) }
}

/// `out = a op b` by a predefined operation, element by element; `out` is another memory than both.
pub(crate) fn combine(op: &Op, a: &Block, b: &Block, out: &Block) -> Result<()> {
    // SAFETY: the blocks hold `out.count` elements of `out.ty` in valid memory.
    let done = unsafe { op.combine(a.base, b.base, out.base, out.count, &out.ty) }?;
    debug_assert!(done, "only predefined operations come here");
    Ok(())
}

/// Bytes of a [`Line`].
const BYTES: usize = WORDS * 8;

/// Packed bytes of a block in whole words, as ranks show them on their boards. Bytes beyond the block's are zero.
/// Aligned for elements of any type.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct Line {
    pub(crate) words: [u64; WORDS],
}

/// Its first words: of a line, which has no more.
impl<const N: usize> From<[u64; N]> for Line {
    #[inline]
    fn from(first: [u64; N]) -> Self {
        let mut words = [0; WORDS];
        words[..N].copy_from_slice(&first);
        Self { words }
    }
}

impl Line {
    /// The first words, for a line that has fewer.
    #[inline]
    pub(crate) fn first<const N: usize>(&self) -> [u64; N] {
        let mut words = [0; N];
        words.copy_from_slice(&self.words[..N]);
        words
    }

    /// Take the bytes of `block`, as many as there is room for.
    #[inline]
    pub(crate) fn pack(&mut self, block: &Block) {
        let words = self.words.as_mut_ptr().cast::<u8>();
        // SAFETY: the bytes of the words, which are ours alone; all bytes are words of some value.
        let bytes = unsafe { core::slice::from_raw_parts_mut(words, BYTES) };
        block.to_send().pack(0, bytes);
    }

    /// Give `block` as many bytes as it has.
    #[inline]
    pub(crate) fn unpack(&self, block: &Block) {
        // SAFETY: the bytes of the words.
        let bytes = unsafe { core::slice::from_raw_parts(self.words.as_ptr().cast::<u8>(), BYTES) };
        block.to_recv().unpack(0, bytes);
    }

    /// `inout = self op inout` for elements like those of `like`, which are [plain](Block::is_plain).
    #[inline]
    pub(crate) fn reduce_into(&self, inout: &mut Self, op: &Op, like: &Block) -> Result<()> {
        assert!(
            like.is_plain() && like.bytes() <= BYTES as u64,
            "elements on lines have no gaps"
        );
        let (from, to) = (self.words.as_ptr().cast(), inout.words.as_mut_ptr().cast());
        // SAFETY: the elements are one run no longer than a line, which both are; they are different variables.
        unsafe { op.apply(from, to, like.count, &like.ty) }
    }
}

/// Temporaries start at a multiple of this, so that any alignment a datatype needs is kept.
const ALIGN: usize = 64;

struct Chunk {
    ptr: NonNull<u8>,
    cap: usize,
}

impl Chunk {
    fn layout(cap: usize) -> Layout {
        Layout::from_size_align(cap, ALIGN).expect("a temporary is smaller than the address space")
    }

    fn new(bytes: usize) -> Self {
        // Whole powers of two up to a page, whole pages above: few sizes, so that the pool is hit often.
        let cap = if bytes <= 4096 {
            bytes.max(ALIGN).next_power_of_two()
        } else {
            bytes.next_multiple_of(4096)
        };
        // SAFETY: the size is not zero.
        let ptr = unsafe { alloc_zeroed(Self::layout(cap)) };
        let ptr = NonNull::new(ptr).unwrap_or_else(|| handle_alloc_error(Self::layout(cap)));
        Self { ptr, cap }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; owned by this value alone.
        unsafe { dealloc(self.ptr.as_ptr(), Self::layout(self.cap)) }
    }
}

/// Memory for temporaries, kept between collectives because fresh pages cost more than the copy into them.
#[derive(Clone)]
pub struct Pool(Rc<PoolState>);

struct PoolState {
    free: RefCell<Vec<Chunk>>,
    kept: Cell<usize>,
    limit: usize,
}

impl Pool {
    /// A pool that keeps at most `limit` bytes when nobody uses them.
    pub fn new(limit: usize) -> Self {
        Self(Rc::new(PoolState {
            free: RefCell::default(),
            kept: Cell::new(0),
            limit,
        }))
    }

    /// Bytes kept at the moment.
    pub fn kept(&self) -> usize {
        self.0.kept.get()
    }

    fn take(&self, bytes: usize) -> Chunk {
        let mut free = self.0.free.borrow_mut();
        // Best fit, but never a chunk far too large: that one is for somebody larger.
        let best = (0..free.len())
            .filter(|&i| free[i].cap >= bytes && free[i].cap / 4 <= bytes.max(1024))
            .min_by_key(|&i| free[i].cap);
        match best {
            Some(i) => {
                let chunk = free.swap_remove(i);
                self.0.kept.set(self.0.kept.get() - chunk.cap);
                chunk
            }
            None => Chunk::new(bytes),
        }
    }

    fn put(&self, chunk: Chunk) {
        if self.0.kept.get() + chunk.cap <= self.0.limit {
            self.0.kept.set(self.0.kept.get() + chunk.cap);
            self.0.free.borrow_mut().push(chunk);
        }
    }
}

/// A temporary, given back to the pool when its plan is dropped.
pub(crate) struct Temp {
    chunk: Option<Chunk>,
    pool: Pool,
}

impl Temp {
    /// Room for `count` elements of `ty`, laid out as in user memory. Returns the owner and the block.
    pub(crate) fn new(pool: &Pool, count: u64, ty: &Datatype) -> (Self, Block) {
        let last = (count.saturating_sub(1) as i64).wrapping_mul(ty.extent());
        // Rounding the lowest offset down keeps every element as aligned as it is in user memory.
        let low = (last.min(0) + ty.true_lb()).div_euclid(ALIGN as i64) * ALIGN as i64;
        let high = last.max(0) + ty.true_lb() + ty.true_extent();
        let bytes = if count == 0 {
            0
        } else {
            (high - low).max(0) as usize
        };
        let chunk = pool.take(bytes);
        let base = chunk.ptr.as_ptr().wrapping_offset(-low as isize);
        let block = Block {
            base,
            count,
            ty: ty.clone(),
        };
        (
            Self {
                chunk: Some(chunk),
                pool: pool.clone(),
            },
            block,
        )
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            self.pool.put(chunk);
        }
    }
}

/// One block per rank (or per neighbour).
#[derive(Clone)]
pub enum Blocks {
    /// Blocks of one size in a row: the plain collectives. The block given is the first one.
    Even(Block),
    /// Each its own address, count and datatype: the `v` and `w` collectives.
    Each(Vec<Block>),
}

impl Blocks {
    /// Blocks of a `v` collective: `counts[i]` elements at `displs[i]` extents from `base`, which holds the
    /// address and datatype (its count is not used).
    pub fn v(
        base: &Block,
        counts: impl IntoIterator<Item = u64>,
        displs: impl IntoIterator<Item = i64>,
    ) -> Self {
        let extent = base.ty.extent();
        Self::Each(
            counts
                .into_iter()
                .zip(displs)
                .map(|(count, displ)| base.moved(displ.wrapping_mul(extent)).with_count(count))
                .collect(),
        )
    }

    /// The block of rank (or neighbour) `i`.
    #[inline]
    pub fn get(&self, i: usize) -> Block {
        match self {
            Self::Even(first) => first.nth(i),
            Self::Each(blocks) => blocks[i].clone(),
        }
    }

    /// Is there a block for each of `n`? Plain collectives always have them.
    pub(crate) fn covers(&self, n: usize) -> bool {
        match self {
            Self::Even(_) => true,
            Self::Each(blocks) => blocks.len() >= n,
        }
    }
}
