//! JAM: a piece is a PIO message of low priority, so that nothing of JAM's protocols waits behind it. Messages of one priority and one way
//! up the fat tree arrive in order.
//!
//! ```text
//! second header word  bits 0..8 kind, 8..11 bytes of the payload before its last word that do not count
//! payload             words and bytes of the piece, filled up to whole words; last word: its number
//! ```
//!
//! A message of at most 8 bytes is one line of a packet queue in shared memory.

use super::{Head, Layer, Messages};
use crate::carrier::{Chosen, DeviceConfig};
use farpost_fabric::{Cost, Fabric, Peer, Port, Priority};
use farpost_jam::pio::Pio;
use farpost_jam::{Header, MAX_WORDS};
use std::rc::Rc;

const PRIORITY: Priority = Priority::Low;

/// This process's FIFOs.
pub(crate) struct ByJam<F: Fabric> {
    fabric: Rc<F>,
    pio: Pio<F>,
}

impl<F: Fabric> ByJam<F> {
    pub fn new(fabric: Rc<F>) -> Self {
        Self {
            pio: Pio::new(Rc::clone(&fabric), Port::Device),
            fabric,
        }
    }
}

impl<F: Fabric> Layer<F> for ByJam<F> {
    const MOST: usize = 4 * (MAX_WORDS - 1);
    const TRANSFERS: bool = true;

    #[inline(always)]
    fn try_send(&self, to: Peer, head: Head, words: &[u64], bytes: &[u8]) -> bool {
        let unused = if words.is_empty() && bytes.is_empty() {
            4
        } else {
            bytes.len().wrapping_neg() & 3
        };
        let header = Header::new(to, PRIORITY, u32::from(head.kind) | (unused as u32) << 8);
        let sent = self.pio.try_bytes(&header, (words, bytes), head.number);
        sent.expect("a peer of this job")
    }

    #[inline(always)]
    fn poll(&self, most: u32, mut take: impl FnMut(Peer, Head, &[u8])) -> u32 {
        self.fabric.progress();
        let mut pieces = 0;
        while pieces < most {
            // Taken out first: what is done with it may send.
            let mut piece = [0; 4 * MAX_WORDS];
            let mut taken = None;
            let waited = self.pio.receive_in_place(
                PRIORITY,
                #[inline(always)]
                |peer, tag, payload| {
                    self.fabric.charge(Cost::Copy(payload.len()));
                    piece[..payload.len()].copy_from_slice(payload);
                    taken = Some((peer, tag, payload.len()));
                },
            );
            if !waited {
                break;
            }
            pieces += 1;
            let Some((peer, tag, len)) = taken else { continue };
            let unused = (tag >> 8) as usize;
            if unused > 4 {
                self.pio.refuse(peer, "the length of a piece", u64::from(tag));
                continue;
            }
            let (bytes, number) = piece[..len].split_last_chunk().expect("at least two words");
            let head = Head {
                kind: tag as u8,
                number: u32::from_le_bytes(*number),
            };
            take(peer, head, &bytes[..bytes.len() - unused]);
        }
        pieces
    }

    fn rest(&self) {}

    fn has_unsent(&self) -> bool {
        false
    }

    fn lose(&self, _: Peer) {}

    fn eager(eager: u64, config: &DeviceConfig, transfers: bool) -> u64 {
        if transfers {
            eager.min(config.tunables.jam_rdma)
        } else {
            eager
        }
    }

    chosen!(Jam);
}
