//! Fast Messages: a piece is a frame of FM 2.x, its kind the number of the handler, its number the bytes that are announced. A message of
//! at most 24 bytes is one line of a packet queue in shared memory.

use super::{Head, Layer, Messages};
use crate::carrier::{Chosen, DeviceConfig};
use farpost_fabric::{Fabric, Peer, Port};
use farpost_fm::{FRAME_PAYLOAD, Fm, FmTunables, Label};
use std::cell::Cell;
use std::rc::Rc;

/// Polls in a row that find nothing after which all that is owed is acknowledged: longer than an answer takes to
/// come, which acknowledges by the way.
const QUIET: u32 = 512;

/// This process's node.
pub(crate) struct ByFm<F: Fabric + 'static> {
    fm: Fm<F>,
    quiet: Cell<u32>,
}

impl<F: Fabric> ByFm<F> {
    pub fn new(fabric: Rc<F>, tunables: &FmTunables) -> Self {
        Self {
            fm: Fm::on_port(fabric, tunables, Port::Device),
            quiet: Cell::new(0),
        }
    }

    #[cold]
    fn tell_faults(&self) {
        let (faults, _) = self.fm.take_faults();
        faults
            .into_iter()
            .for_each(|fault| self.fm.fabric().record_fault(fault));
    }
}

impl<F: Fabric> Layer<F> for ByFm<F> {
    const MOST: usize = FRAME_PAYLOAD;
    const TRANSFERS: bool = false;

    #[inline(always)]
    fn try_send(&self, to: Peer, head: Head, words: &[u64], bytes: &[u8]) -> bool {
        let label = Label {
            kind: u16::from(head.kind),
            number: head.number,
        };
        self.fm.try_frame(to.0, label, words, bytes)
    }

    #[inline(always)]
    fn poll(&self, most: u32, mut take: impl FnMut(Peer, Head, &[u8])) -> u32 {
        let frames = self.fm.extract_frames_of(most, |peer, label, bytes| {
            let head = Head {
                // No kind has this number.
                kind: u8::try_from(label.kind).unwrap_or(u8::MAX),
                number: label.number,
            };
            take(peer, head, bytes);
        });
        if self.fm.has_faults() {
            self.tell_faults();
        }
        if frames > 0 {
            self.quiet.set(0);
        } else {
            self.quiet.set(self.quiet.get() + 1);
            if self.quiet.get() == QUIET {
                self.rest();
            }
        }
        frames
    }

    /// Somebody may wait for what is owed to him.
    #[cold]
    fn rest(&self) {
        self.quiet.set(0);
        self.fm.acknowledge();
        self.fm.time_passed();
    }

    fn has_unsent(&self) -> bool {
        self.fm.has_unsent()
    }

    fn lose(&self, peer: Peer) {
        self.fm.lose(peer);
    }

    fn eager(eager: u64, _: &DeviceConfig, _: bool) -> u64 {
        eager
    }

    chosen!(Fm);
}
