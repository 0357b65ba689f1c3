//! A node for another messaging layer, which carries its own messages by Fast Messages: on a port of its own, so that the
//! program's Fast Messages go on beside it, with waiting and counting left to that layer.

use crate::engine::Fm;
use crate::wire::{BEGIN, END, FRAME_PAYLOAD, FrameKind, Header};
use crate::{FmError, FmTunables, receive_queue};
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{Fabric, Peer, Port};
use std::rc::Rc;

/// Extractions of which one takes in control whatever the state.
const CONTROL_EVERY: u32 = 8;

/// Most slots of such a node.
const MOST_SLOTS: u64 = 4096;

impl<F: Fabric + 'static> Fm<F> {
    /// As [`new`](Fm::new), for packets of `port`. Such a node is not to wait by itself.
    pub fn on_port(fabric: Rc<F>, tunables: &FmTunables, max_handlers: u32, port: Port) -> Self {
        // One for each other node, and some to spare.
        let least = 4 * u64::from(fabric.size());
        let tunables = FmTunables {
            slots: tunables.slots.max(least.min(MOST_SLOTS)),
            ..tunables.clone()
        };
        let fm = Self::build(fabric, &tunables, &WaitTunables::default(), max_handlers, port);
        fm.0.state.borrow_mut().shares = true;
        fm
    }

    /// Offer a message of FM 2.x that is one frame, of at most 128 bytes: eight, the lowest of `first` at the front, and
    /// `bytes`. Such messages to the same node are handled in order. `Ok(false)`: not now, for want of a slot or of room in the network. Traffic is not counted.
    #[inline(always)]
    pub fn try_send_in_order(
        &self,
        to: u32,
        handler: u32,
        first: u64,
        bytes: &[u8],
    ) -> Result<bool, FmError> {
        let len = 8 + bytes.len();
        if len > FRAME_PAYLOAD {
            return Err(FmError::TooLong { bytes: len });
        }
        self.check(to, handler)?;
        let mut header = Header::new(FrameKind::Piece, BEGIN | END, handler as u16, len);
        header.announced = len as u32;
        let mut state = self.0.state.borrow_mut();
        if state.is_lost(to) {
            return Err(FmError::Lost { peer: Peer(to) });
        }
        Ok(state.offer(&*self.0.fabric, to, &mut header, (&[first], bytes)))
    }

    /// Handle everything that has arrived: the number of frames. Acknowledges who runs out of slots, and who is owed
    /// many; the rest is [`acknowledge`](Fm::acknowledge)d at rest. Control is looked for now and then, and always while
    /// slots are scarce or frames wait to leave: acknowledgements travel with answers most of the time.
    #[inline(always)]
    pub fn extract_quietly(&self) -> u32 {
        let engine = &*self.0;
        let looks = engine.looks.get().wrapping_add(1);
        engine.looks.set(looks);
        let control = looks.is_multiple_of(CONTROL_EVERY) || {
            let state = engine.state.borrow();
            state.window.is_scarce() || state.has_unsent()
        };
        self.extract_frames(usize::MAX, control).0
    }

    /// Acknowledge everything that is owed, as far as there is room.
    pub fn acknowledge(&self) {
        self.0.state.borrow_mut().acknowledge_all(&*self.0.fabric);
    }

    /// Time has passed that calls do not show: what came back may go again.
    pub fn time_passed(&self) {
        self.0.state.borrow_mut().time_passed();
    }

    /// Whether frames have not left yet, or are back.
    pub fn has_unsent(&self) -> bool {
        self.0.state.borrow().has_unsent()
    }

    /// Whether everything sent has been acknowledged.
    pub fn is_acknowledged(&self) -> bool {
        self.0.state.borrow().window.is_idle()
    }

    /// Whether packets wait to be extracted.
    pub fn waits(&self) -> bool {
        let port = self.0.state.borrow().port;
        receive_queue::waits_on(&*self.0.fabric, port)
    }
}
