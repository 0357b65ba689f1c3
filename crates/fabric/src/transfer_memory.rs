//! Memory that a transfer uses after the call that began it has returned.

use std::rc::Rc;

/// Memory of this process that a transfer under way reads or writes ([`Remote::start_put`](crate::Remote::start_put)). Clones are the same
/// memory: whoever may still touch it holds one. For one transfer at a time.
#[derive(Clone, Debug)]
pub struct TransferMemory(Rc<Piece>);

#[derive(Debug)]
struct Piece {
    /// Exposed, as a plain number.
    address: usize,
    len: usize,
    /// It was a box, and is dropped as one.
    owned: bool,
}

impl Drop for Piece {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: what `from` took apart; nobody has a clone any more.
            drop(unsafe { Box::from_raw(self.slice()) });
        }
    }
}

impl Piece {
    fn slice(&self) -> *mut [u8] {
        std::ptr::slice_from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(self.address), self.len)
    }
}

impl From<Box<[u8]>> for TransferMemory {
    fn from(bytes: Box<[u8]>) -> Self {
        let len = bytes.len();
        let address = Box::into_raw(bytes).cast::<u8>().expose_provenance();
        Self(Rc::new(Piece {
            address,
            len,
            owned: true,
        }))
    }
}

impl TransferMemory {
    /// `len` bytes at `address` that somebody else owns.
    ///
    /// # Safety
    /// Valid memory as long as there are clones, which nobody writes; nor reads, if it is for a get.
    pub unsafe fn lent(address: usize, len: usize) -> Self {
        Self(Rc::new(Piece {
            address,
            len,
            owned: false,
        }))
    }

    /// Where it is.
    pub fn address(&self) -> usize {
        self.0.address
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Its bytes, to be put.
    ///
    /// # Safety
    /// No transfer writes them meanwhile.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: valid as long as this is, by the promise of `lent` or of the box; the caller vouches for the rest.
        unsafe { &*self.0.slice() }
    }

    /// Its bytes, to be filled.
    ///
    /// # Safety
    /// Nobody else uses them meanwhile.
    #[allow(
        clippy::mut_from_ref,
        reason = "clones are the same memory; the caller vouches for being alone"
    )]
    pub unsafe fn bytes_mut(&self) -> &mut [u8] {
        // SAFETY: as in `bytes`.
        unsafe { &mut *self.0.slice() }
    }

    /// The box it was made of. None: a transfer still holds it, or it is somebody else's.
    pub fn into_box(self) -> Option<Box<[u8]>> {
        let mut piece = Rc::into_inner(self.0)?;
        if !std::mem::replace(&mut piece.owned, false) {
            return None;
        }
        // SAFETY: what `from` took apart; nobody has a clone, and the piece does not drop it any more.
        Some(unsafe { Box::from_raw(piece.slice()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_comes_back_when_nobody_else_holds_it() {
        let memory = TransferMemory::from(vec![1, 2, 3].into_boxed_slice());
        let other = memory.clone();
        // SAFETY: nobody else uses them.
        unsafe { other.bytes_mut()[1] = 9 };
        assert!(memory.into_box().is_none());
        assert_eq!(other.into_box().as_deref(), Some(&[1, 9, 3][..]));
        let mut mine = [4, 5];
        // SAFETY: alive, and used by nobody meanwhile.
        let lent = unsafe { TransferMemory::lent(mine.as_mut_ptr().expose_provenance(), 2) };
        assert!(lent.len() == 2 && !lent.is_empty() && lent.into_box().is_none());
        assert_eq!(mine, [4, 5]);
    }
}
