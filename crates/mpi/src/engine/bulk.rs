//! One-copy transfers between a message buffer and a peer's memory.
#![allow(unsafe_code)]

use super::request::Payload;
use crate::buffer::RecvBuf;
use farpost_fabric::{Completion, Descriptor, Direction, Fabric, FabricError, Peer};

/// Submit and wait.
///
/// # Safety
/// As for [`farpost_fabric::BulkTransfer::submit`].
unsafe fn run<F: Fabric>(fabric: &F, descriptor: &Descriptor) -> Result<(), FabricError> {
    // SAFETY: the caller vouches for the local range.
    match unsafe { fabric.submit(descriptor) }? {
        Completion::Done => Ok(()),
        Completion::Pending(ticket) => {
            while !fabric.poll_transfer(ticket)? {
                std::hint::spin_loop();
            }
            Ok(())
        }
    }
}

/// Fill `to` from `remote` in `peer`.
pub(crate) fn get<F: Fabric>(fabric: &F, peer: Peer, remote: u64, to: &mut [u8]) -> Result<(), FabricError> {
    let local = to.as_mut_ptr().expose_provenance();
    let descriptor = descriptor(peer, Direction::Get, (local, to.len()), (remote, 0));
    // SAFETY: `to` is writable memory that nobody else uses until this returns.
    unsafe { run(fabric, &descriptor) }
}

/// Copy `from` to `remote` in `peer`.
pub(crate) fn put<F: Fabric>(fabric: &F, peer: Peer, remote: u64, from: &[u8]) -> Result<(), FabricError> {
    let local = from.as_ptr().expose_provenance();
    let descriptor = descriptor(peer, Direction::Put, (local, from.len()), (remote, 0));
    // SAFETY: `from` is memory that nobody changes until this returns.
    unsafe { run(fabric, &descriptor) }
}

/// A transfer between memory here (address and bytes) and in `peer` (position and key).
fn descriptor(
    peer: Peer,
    direction: Direction,
    (local, len): (usize, usize),
    (remote, key): (u64, u64),
) -> Descriptor {
    Descriptor {
        peer,
        direction,
        local,
        remote: remote as usize,
        key,
        len,
    }
}

/// A buffer that both sides copy is in one run.
fn has_gaps(peer: Peer) -> FabricError {
    FabricError::Unsupported {
        peer,
        what: "one copy",
        why: "the buffer has gaps".into(),
    }
}

impl RecvBuf {
    /// Have the fabric fill the first `len` bytes from what `peer` exposes, if the buffer is one run. The buffer
    /// stays where it is, unused by others, until the transfer ends or is cancelled: it belongs to a request.
    pub(crate) fn start_get<F: Fabric>(
        &self,
        fabric: &F,
        peer: Peer,
        from: (u64, u64),
        len: u64,
    ) -> Option<Result<Completion, FabricError>> {
        let local = self.contiguous_address()?;
        let descriptor = descriptor(peer, Direction::Get, (local, len as usize), from);
        // SAFETY: the buffer has `len` bytes, and the program leaves it alone until its request has completed
        // (`RecvBuf::new`), which is after the end of the transfer.
        Some(unsafe { fabric.submit(&descriptor) })
    }

    /// Have the fabric fill the buffer with the bytes that follow a line of `peer`'s, if it is one run. It stays where it
    /// is, unused by others, until they have landed or are dropped: it belongs to a request.
    pub(crate) fn start_landing<F: Fabric>(
        &self,
        fabric: &F,
        peer: Peer,
        number: u32,
        len: u64,
    ) -> Option<Result<(), FabricError>> {
        let local = self.contiguous_address()?;
        // SAFETY: the buffer has `len` bytes, and the program leaves it alone until its request has completed
        // (`RecvBuf::new`), which is after the end of the transfer.
        Some(unsafe { fabric.land_zcopy(peer, number, local, len as usize) })
    }

    /// Fill `len` bytes at `at` of a buffer that is one run from `remote` in `peer`.
    pub(crate) fn fill_part_from_peer<F: Fabric>(
        &self,
        fabric: &F,
        peer: Peer,
        remote: u64,
        at: u64,
        len: u64,
    ) -> Result<(), FabricError> {
        let mut buf = self.clone();
        let whole = buf.contiguous_mut().ok_or_else(|| has_gaps(peer))?;
        get(fabric, peer, remote, &mut whole[at as usize..(at + len) as usize])
    }

    /// Fill the first `len` packed bytes of any buffer from `remote` in `peer`.
    pub(crate) fn fill_from_peer<F: Fabric>(
        &self,
        fabric: &F,
        peer: Peer,
        remote: u64,
        len: u64,
    ) -> Result<(), FabricError> {
        if self.contiguous_address().is_some() {
            return self.fill_part_from_peer(fabric, peer, remote, 0, len);
        }
        let mut packed = vec![0u8; len.min(64 << 10) as usize];
        let mut at = 0;
        while at < len {
            let n = (packed.len() as u64).min(len - at) as usize;
            get(fabric, peer, remote + at, &mut packed[..n])?;
            self.unpack(at, &packed[..n]);
            at += n as u64;
        }
        Ok(())
    }
}

impl Payload {
    /// Let `peer` get the bytes, if they lie in one run: their position and key there.
    pub(crate) fn expose<F: Fabric>(&self, fabric: &F, peer: Peer) -> Option<(u64, u64)> {
        let data = self.contiguous()?;
        let address = data.as_ptr().expose_provenance();
        // SAFETY: the payload belongs to a request that completes only after `withdraw`, and stays as it is until
        // then (`SendBuf::new`).
        let key = unsafe { fabric.expose(peer, address, data.len(), false) }.ok()?;
        Some((fabric.exposed_base(peer, address), key))
    }

    /// Have the bytes follow the next line to `peer`, if they lie in one run: their number.
    pub(crate) fn start_zcopy<F: Fabric>(&self, fabric: &F, peer: Peer) -> Option<u32> {
        let data = self.contiguous()?;
        // SAFETY: the payload belongs to a request that completes only when the fabric has sent the bytes or has
        // released them, and stays as it is until then (`SendBuf::new`).
        unsafe { fabric.send_zcopy(peer, data.as_ptr().expose_provenance(), data.len()) }.ok()
    }

    /// Copy `len` bytes at `at` of a payload that is one run to `remote` in `peer`.
    pub(crate) fn copy_to_peer<F: Fabric>(
        &self,
        fabric: &F,
        peer: Peer,
        at: u64,
        len: u64,
        remote: u64,
    ) -> Result<(), FabricError> {
        let whole = self.contiguous().ok_or_else(|| has_gaps(peer))?;
        put(fabric, peer, remote, &whole[at as usize..(at + len) as usize])
    }
}
