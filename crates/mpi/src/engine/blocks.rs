//! Bytes of a message into blocks of a channel, and out of them.

use super::Engine;
use super::request::Payload;
use crate::buffer::RecvBuf;
use farpost_fabric::{Fabric, FabricError, Peer};

impl<F: Fabric, C> Engine<F, C> {
    /// Copy `len` packed bytes from position `at` into a block.
    pub(crate) fn fill_block(
        &mut self,
        peer: Peer,
        block: u32,
        offset: usize,
        payload: &Payload,
        at: u64,
        len: usize,
    ) {
        if let Some(data) = payload.contiguous() {
            self.post
                .write_block(peer, block, offset, &data[at as usize..at as usize + len]);
            return;
        }
        let mut packed = [0; 4096];
        let mut done = 0;
        while done < len {
            let want = packed.len().min(len - done);
            let n = payload.pack_on(&*self.fabric, at + done as u64, &mut packed[..want]);
            assert!(n > 0, "a payload gave fewer bytes than it said");
            self.post.write_block(peer, block, offset + done, &packed[..n]);
            done += n;
        }
    }

    /// Copy a piece (block, offset in it, bytes) to position `at` of a receive buffer.
    pub(crate) fn read_piece(
        &self,
        peer: Peer,
        (block, offset, len): (u32, usize, usize),
        buf: &mut RecvBuf,
        at: u64,
    ) -> Result<(), FabricError> {
        if let Some(whole) = buf.contiguous_mut() {
            return self
                .post
                .read_block(peer, block, offset, &mut whole[at as usize..at as usize + len]);
        }
        let mut packed = [0; 4096];
        let mut done = 0;
        while done < len {
            let n = packed.len().min(len - done);
            self.post
                .read_block(peer, block, offset + done, &mut packed[..n])?;
            buf.unpack_on(&*self.fabric, at + done as u64, &packed[..n]);
            done += n;
        }
        Ok(())
    }
}
