//! MPI over JAM: every put is a PIO message of low priority, or a few. Messages of one priority and one way up the fat
//! tree arrive in order.
//!
//! ```text
//! second header word  bits 0..30 number of the receiver's segment, 30..32 bytes of the last word that do not count
//! payload             what to write there, filled up to whole words; last word: where in it
//! ```
//!
//! A postbox of a message of 8 bytes is a message of 9 words: one line of a packet queue in shared memory.
//!
//! Long messages go by block transfer where the fabric moves bytes between memories: MPI's offer is JAM's *ask*, and the
//! receiver, once the message is matched, fetches them. Elsewhere they are puts like others.
//!
//! Cost class: *fast path* while there is room.

use super::Offered;
use super::exports::Exports;
use farpost_fabric::{Fabric, FabricError, Fault, Peer, Port, Priority, RemoteMemory};
use farpost_jam::pio::Pio;
use farpost_jam::{Header, MAX_WORDS};
use std::rc::Rc;

/// Requests are low, so that nothing of JAM's protocols waits behind them.
const PRIORITY: Priority = Priority::Low;
/// Bits of a segment's number.
const ID_BITS: u32 = 30;
/// Messages taken in by one poll.
const AT_ONCE: u32 = 4096;

/// This process's FIFOs.
pub(super) struct ByJam<F: Fabric> {
    fabric: Rc<F>,
    pio: Pio<F>,
    exports: Rc<Exports<<F as RemoteMemory>::Export>>,
}

impl<F: Fabric> ByJam<F> {
    /// Bytes that one message writes at most.
    pub const MOST: usize = 4 * (MAX_WORDS - 1);

    pub fn new(fabric: Rc<F>, exports: Rc<Exports<<F as RemoteMemory>::Export>>) -> Self {
        Self {
            pio: Pio::new(Rc::clone(&fabric), Port::Device),
            fabric,
            exports,
        }
    }

    /// Send a put. False: not now. It does not wait in the transmit queue, where it would hold up those to others.
    #[inline(always)]
    pub fn offer(&self, to: Peer, id: u32, offset: u32, bytes: &[u8]) -> Offered {
        debug_assert!(id >> ID_BITS == 0 && !bytes.is_empty());
        let unused = bytes.len().wrapping_neg() as u32 & 3;
        let header = Header::new(to, PRIORITY, id | unused << ID_BITS);
        let sent = self.pio.try_bytes(&header, bytes, offset);
        sent.map_err(|error| FabricError::PutFailed {
            peer: to,
            why: error.to_string(),
        })
    }

    #[inline(always)]
    pub fn poll(&self) -> u32 {
        self.fabric.progress();
        let mut taken = 0;
        while taken < AT_ONCE
            && self.pio.receive_in_place(
                PRIORITY,
                #[inline(always)]
                |peer, tag, payload| {
                    if let Err(error) = self.take(peer, tag, payload) {
                        self.fabric.record_fault(Fault { peer, error });
                    }
                },
            )
        {
            taken += 1;
        }
        taken
    }

    #[inline(always)]
    fn take(&self, peer: Peer, tag: u32, payload: &[u8]) -> Result<(), FabricError> {
        let (data, offset) = payload.split_last_chunk().expect("at least two words");
        let len = data.len() - (tag >> ID_BITS) as usize;
        let id = tag & ((1 << ID_BITS) - 1);
        let offset = u32::from_le_bytes(*offset) as usize;
        self.exports.write(peer, id, offset, &data[..len])
    }
}
