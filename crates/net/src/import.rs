//! Segments imported over a network: one's own by loads and stores, those of peers by what the fabric does. What is checked of either is
//! checked here.

use farpost_fabric::{
    Completion, Grant, LINE_BYTES, Line, LocalMemory, Remote, Result, Ticket, TransferMemory, assert_aligned,
};
use farpost_mapped::Mapping;

/// A peer's segment, as a fabric reaches it: as [`Remote`], with ranges, permissions and alignment checked before.
pub trait Far: Clone {
    /// See [`Remote::put`].
    fn put(&self, offset: usize, from: &[u8]) -> Result<()>;
    /// See [`Remote::put_word`].
    fn put_word(&self, offset: usize, value: u64) -> Result<()>;
    /// See [`Remote::put_line`].
    fn put_line(&self, offset: usize, line: &Line) -> Result<()>;
    /// See [`Remote::put_line_ahead`].
    fn put_line_ahead(&self, offset: usize, line: &Line) -> Result<()>;
    /// See [`Remote::get`].
    fn get(&self, offset: usize, to: &mut [u8]) -> Result<()>;
    /// See [`Remote::fence`].
    fn fence(&self) -> Result<()>;
    /// See [`Remote::order`].
    fn order(&self) -> Result<()>;
    /// See [`Remote::stripe`].
    fn stripe(&self, _rails: u32) {}
    /// See [`Remote::start_put`].
    fn start_put(&self, offset: usize, from: &TransferMemory) -> Result<Completion>;
    /// See [`Remote::start_get`].
    fn start_get(&self, offset: usize, to: &TransferMemory) -> Result<Completion>;
    /// See [`Remote::poll_started`].
    fn poll_started(&self, ticket: Ticket) -> Result<bool>;
    /// See [`Remote::cancel_started`].
    fn cancel_started(&self, ticket: Ticket);
}

/// Whose memory it is.
#[derive(Clone)]
enum Location<F> {
    Own(Mapping),
    Far(F),
}

/// An imported segment.
#[derive(Clone)]
pub struct Imported<F> {
    at: Location<F>,
    grant: Grant,
}

impl<F: Far> Imported<F> {
    /// This process's own segment.
    pub fn own(memory: Mapping, grant: Grant) -> Self {
        let at = Location::Own(memory);
        Self { at, grant }
    }

    /// A peer's.
    pub fn far(far: F, grant: Grant) -> Self {
        let at = Location::Far(far);
        Self { at, grant }
    }

    #[inline(always)]
    fn by(&self, own: impl FnOnce(&Mapping), far: impl FnOnce(&F) -> Result<()>) -> Result<()> {
        match &self.at {
            Location::Far(it) => far(it),
            Location::Own(memory) => {
                own(memory);
                Ok(())
            }
        }
    }

    #[inline(always)]
    fn check_line(&self, offset: usize) -> Result<()> {
        self.grant.check_write(offset, LINE_BYTES)?;
        assert_aligned(offset, LINE_BYTES);
        Ok(())
    }
}

impl<F: Far> Remote for Imported<F> {
    fn len(&self) -> usize {
        self.grant.len
    }

    fn put(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.grant.check_write(offset, from.len())?;
        self.by(|memory| memory.write(offset, from), |far| far.put(offset, from))
    }

    #[inline]
    fn put_word(&self, offset: usize, value: u64) -> Result<()> {
        self.grant.check_write(offset, 8)?;
        assert_aligned(offset, 8);
        self.by(
            |memory| memory.store(offset, value),
            |far| far.put_word(offset, value),
        )
    }

    #[inline]
    fn put_line(&self, offset: usize, line: &Line) -> Result<()> {
        self.check_line(offset)?;
        self.by(
            |memory| memory.store_line(offset, line),
            |far| far.put_line(offset, line),
        )
    }

    #[inline]
    fn put_line_ahead(&self, offset: usize, line: &Line) -> Result<()> {
        self.check_line(offset)?;
        self.by(
            |memory| memory.store_line(offset, line),
            |far| far.put_line_ahead(offset, line),
        )
    }

    fn get(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.grant.check(offset, to.len())?;
        match &self.at {
            Location::Far(far) => far.get(offset, to),
            Location::Own(memory) => {
                memory.read(offset, to);
                Ok(())
            }
        }
    }

    fn fence(&self) -> Result<()> {
        self.by(|_| (), F::fence)
    }

    #[inline]
    fn order(&self) -> Result<()> {
        self.by(|_| (), F::order)
    }

    fn stripe(&self, rails: u32) {
        if let Location::Far(far) = &self.at {
            far.stripe(rails);
        }
    }

    fn start_put(&self, offset: usize, from: &TransferMemory) -> Result<Completion> {
        self.grant.check_write(offset, from.len())?;
        match &self.at {
            Location::Far(far) => far.start_put(offset, from),
            Location::Own(memory) => {
                // SAFETY: memory is for one transfer at a time, and this one only reads it.
                memory.write(offset, unsafe { from.bytes() });
                Ok(Completion::Done)
            }
        }
    }

    fn start_get(&self, offset: usize, to: &TransferMemory) -> Result<Completion> {
        self.grant.check(offset, to.len())?;
        match &self.at {
            Location::Far(far) => far.start_get(offset, to),
            Location::Own(memory) => {
                // SAFETY: memory is for one transfer at a time, and this is it.
                memory.read(offset, unsafe { to.bytes_mut() });
                Ok(Completion::Done)
            }
        }
    }

    fn poll_started(&self, ticket: Ticket) -> Result<bool> {
        match &self.at {
            Location::Far(far) => far.poll_started(ticket),
            Location::Own(_) => Ok(true),
        }
    }

    fn cancel_started(&self, ticket: Ticket) {
        if let Location::Far(far) = &self.at {
            far.cancel_started(ticket);
        }
    }
}
