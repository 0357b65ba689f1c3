//! Put and get.
//!
//! Cost class: *fast path* in explicit mode where the fabric maps.

use crate::barrier::Mark;
use crate::cesr;
use crate::error::{Code, Result, RsmError};
use crate::import::memory;
use crate::names::Perm;
use crate::state::{Import, ImportState, Mode};
use farpost_fabric::{Cost, Counter, Fabric, FabricError, LINE_BYTES, Remote};

/// Sizes of elements.
pub const ELEMENT_SIZES: [usize; 4] = [1, 2, 4, 8];

impl<F: Fabric> ImportState<F> {
    /// What every access checks, in this order.
    #[inline]
    fn check(&self, offset: usize, len: usize, size: usize, wanted: Perm) -> Result<&F::Import> {
        if !offset.is_multiple_of(size) {
            return Err(misaligned(offset, size));
        }
        let memory = self.check_access(offset, len, wanted)?;
        if self.mode.get() == Mode::Implicit {
            if self.barriers.get() == 0 {
                return fail!(
                    BARRIER_UNINITIALIZED: "implicit mode needs a barrier of the segment's: initialise one first"
                );
            }
            self.reroutes.set(self.inner.fabric.reroutes(self.peer));
        }
        Ok(memory)
    }

    /// What accesses check in any mode.
    #[inline]
    pub(crate) fn check_access(&self, offset: usize, len: usize, wanted: Perm) -> Result<&F::Import> {
        self.check_handle()?;
        let memory = match memory(self) {
            Some(memory) if self.perm.allows(wanted) => memory,
            _ => return Err(self.denied(wanted)),
        };
        if offset > self.len || len > self.len - offset {
            return Err(self.outside(offset, len));
        }
        if self.rails.get() != 0 {
            self.check_rails(self.rails.get())?;
        }
        Ok(memory)
    }

    #[cold]
    fn denied(&self, wanted: Perm) -> RsmError {
        self.inner.refuse(|refused| &mut refused.denied);
        error!(
            PERM_DENIED: "segment {:#x} of node {} was connected with 0{:o}; this needs 0{:o}",
            self.id, self.peer.0, self.perm.0, wanted.0
        )
    }

    #[cold]
    fn outside(&self, offset: usize, len: usize) -> RsmError {
        self.inner.refuse(|refused| &mut refused.ranges);
        let code = if self.mapped.get() {
            Code::BAD_OFFSET
        } else {
            Code::BAD_LENGTH
        };
        let what = format!(
            "{len} bytes at {offset}: segment {:#x} of node {} has {}",
            self.id, self.peer.0, self.len
        );
        RsmError::new(code, what)
    }

    /// What became of an access: in implicit mode the caller is told, in explicit mode the next barrier is.
    #[inline]
    fn done(&self, result: std::result::Result<(), FabricError>, put: bool) -> Result<()> {
        if let Err(error) = &result {
            self.failed(error, put);
        }
        match self.mode.get() {
            Mode::Explicit => {
                self.open.set(true);
                Ok(())
            }
            Mode::Implicit => {
                let before = Mark {
                    errors: self.errors.get() - u64::from(result.is_err()),
                    reroutes: self.reroutes.get(),
                };
                self.complete(before, put, true)
            }
        }
    }

    /// An access failed.
    #[cold]
    pub(crate) fn failed(&self, error: &FabricError, put: bool) {
        self.errors.set(self.errors.get() + 1);
        // On a connection whose segment is gone the end of the scope tells.
        if !self.is_aborted() {
            self.record(cesr::cause(error, put), &error.to_string());
        }
    }

    /// Put bytes: elements of `size`, or, for 0, as they come.
    #[inline]
    pub(crate) fn put(&self, offset: usize, from: &[u8], size: usize) -> Result<()> {
        let memory = self.check(offset, from.len(), size.max(1), Perm::WRITE)?;
        let result = if size != 0 {
            memory.put_elements(offset, from, size)
        } else if (offset | from.len()).is_multiple_of(LINE_BYTES) {
            memory.put_lines(offset, from)
        } else {
            memory.put(offset, from)
        };
        self.inner.fabric.count(self.peer, Counter::Sent, 1);
        self.inner
            .fabric
            .count(self.peer, Counter::SentBytes, from.len() as u64);
        self.done(result, true)
    }

    #[inline]
    pub(crate) fn get(&self, offset: usize, to: &mut [u8], size: usize) -> Result<()> {
        let memory = self.check(offset, to.len(), size.max(1), Perm::READ)?;
        // What is put the fabric charges as stores; what is got its caller copies.
        self.inner.fabric.charge(Cost::Copy(to.len()));
        let result = if size != 0 {
            memory.get_elements(offset, to, size)
        } else {
            memory.get(offset, to)
        };
        self.inner.fabric.count(self.peer, Counter::Received, 1);
        self.inner
            .fabric
            .count(self.peer, Counter::ReceivedBytes, to.len() as u64);
        self.done(result, false)
    }
}

#[cold]
fn misaligned(offset: usize, size: usize) -> RsmError {
    error!(BAD_MEM_ALIGNMENT: "offset {offset} is not a multiple of {size}")
}

impl<F: Fabric> Import<F> {
    /// Whether `len` bytes at `offset` are in the segment.
    ///
    /// # Errors
    /// `BAD_OFFSET` (`BAD_LENGTH` where the segment is not mapped).
    pub fn check_range(&self, offset: usize, len: usize) -> Result<()> {
        if offset > self.state.len || len > self.state.len - offset {
            return Err(self.state.outside(offset, len));
        }
        Ok(())
    }

    /// Put bytes (`rsm_memseg_import_put`). Whole lines, from a multiple of 64 on, are stored as lines, each by the widest
    /// stores that the processor has; of others, no element is promised to be whole.
    ///
    /// # Errors
    /// In this order: `BAD_SEG_HNDL`: disconnected; `PERM_DENIED`; `BAD_OFFSET` (`BAD_LENGTH` where the segment is not
    /// mapped): past the end; `BARRIER_UNINITIALIZED`; and in implicit mode `CONN_ABORTED`, `BARRIER_FAILURE`.
    #[inline]
    pub fn put(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.state.put(offset, from, 0)
    }

    /// Put elements of `size` bytes (1, 2, 4 or 8), in the byte order of this host, none of which is ever seen in part
    /// (`rsm_memseg_import_put8` to `64`).
    ///
    /// # Errors
    /// `BAD_MEM_ALIGNMENT`: the offset, and then as [`put`](Self::put).
    ///
    /// # Panics
    /// When there is no such size, or the bytes are not whole elements.
    #[inline]
    pub fn put_elements(&self, offset: usize, from: &[u8], size: usize) -> Result<()> {
        check_elements(from.len(), size);
        self.state.put(offset, from, size)
    }

    /// Get bytes (`rsm_memseg_import_get`); they are there when this returns.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    #[inline]
    pub fn get(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.state.get(offset, to, 0)
    }

    /// Get elements of `size` bytes (`rsm_memseg_import_get8` to `64`).
    ///
    /// # Errors
    /// As [`put_elements`](Self::put_elements).
    ///
    /// # Panics
    /// As there.
    #[inline]
    pub fn get_elements(&self, offset: usize, to: &mut [u8], size: usize) -> Result<()> {
        check_elements(to.len(), size);
        self.state.get(offset, to, size)
    }
}

#[inline]
fn check_elements(len: usize, size: usize) {
    assert!(
        ELEMENT_SIZES.contains(&size) && len & (size - 1) == 0,
        "{len} bytes in elements of {size}"
    );
}
