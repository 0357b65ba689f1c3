//! Memory of ours that messages are received into.
#![allow(unsafe_code)]

use crate::buffer::RecvBuf;
use crate::datatype::Datatype;
use std::cell::Cell;

/// Bytes that stay where they are, whoever owns them.
pub(crate) struct Room(Box<[Cell<u8>]>);

impl Room {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(vec![Cell::new(0); bytes].into_boxed_slice())
    }

    /// As the buffer of a receive, which ends before this goes.
    pub(crate) fn recv_buf(&self) -> RecvBuf {
        let start = self.0.as_ptr().cast_mut().cast::<u8>();
        // SAFETY: cells may be written through a shared reference, they do not move, and whoever receives into them keeps them
        // until the receive is complete.
        unsafe { RecvBuf::new(start, self.0.len() as u64, Datatype::byte()) }
    }

    /// Its bytes, once the receive is complete.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: a `Cell<u8>` is laid out as a `u8`, and nobody writes after the receive.
        unsafe { core::slice::from_raw_parts(self.0.as_ptr().cast::<u8>(), self.0.len()) }
    }
}
