//! A node for another messaging layer, which carries its own messages by Fast Messages: on a port of its own, so that the
//! program's Fast Messages go on beside it, with waiting and counting left to that layer.

use crate::FmTunables;
use crate::config::FmConfig;
use crate::engine::Fm;
use crate::wire::{BEGIN, END, FRAME_PAYLOAD, FrameKind, Header, Malformed};
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{Fabric, Peer, Port};
use std::rc::Rc;

/// Extractions of which one takes in control whatever the state.
const CONTROL_EVERY: u32 = 8;
/// Frames between two looks at control.
const FRAMES_BETWEEN: u32 = 32;

/// Most slots of such a node.
const MOST_SLOTS: u64 = 4096;

/// What the layer says of a frame of its own, beside its bytes: the handler's number and the bytes announced are its to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    pub kind: u16,
    pub number: u32,
}

impl<F: Fabric + 'static> Fm<F> {
    /// As [`new`](Fm::new), for packets of `port`. Such a node is not to wait by itself, and has no handlers.
    pub fn on_port(fabric: Rc<F>, tunables: &FmTunables, port: Port) -> Self {
        // One for each other node, and some to spare.
        let least = 4 * u64::from(fabric.size());
        let tunables = FmTunables {
            slots: tunables.slots.max(least.min(MOST_SLOTS)),
            ..tunables.clone()
        };
        // With frames and features of FM 1.0's, whatever the program's own node has.
        let config = FmConfig::from(&tunables);
        let fm = Self::build(fabric, &config, &WaitTunables::default(), 1, port);
        fm.0.state.borrow_mut().share();
        fm
    }

    /// Offer a frame of FM 2.x gathered from `words` and `bytes`, of at most 128 bytes together. Frames to the same node arrive in
    /// order. False: not now, for want of a slot or of room in the network, or never, because the node is lost. Traffic is not counted.
    ///
    /// # Panics
    /// With more bytes, or a node that does not exist.
    #[inline(always)]
    pub fn try_frame(&self, to: u32, label: Label, words: &[u64], bytes: &[u8]) -> bool {
        let len = 8 * words.len() + bytes.len();
        assert!(len <= FRAME_PAYLOAD && to < self.0.fabric.size());
        let mut header = Header::new(FrameKind::Piece, BEGIN | END, label.kind, len);
        header.announced = label.number;
        let mut state = self.0.state.borrow_mut();
        !state.is_lost(to) && state.offer(&*self.0.fabric, to, &mut header, (words, bytes))
    }

    /// Show `take` at most so many frames that have arrived: how many. Acknowledges who runs out of slots, and who is owed
    /// many; the rest is [`acknowledge`](Fm::acknowledge)d at rest. Control is looked for now and then, and always while
    /// slots are scarce or frames wait to leave: acknowledgements travel with answers most of the time. `take` may send.
    #[inline(always)]
    pub fn extract_frames_of(&self, most: u32, mut take: impl FnMut(Peer, Label, &[u8])) -> u32 {
        let engine = &*self.0;
        let fabric = &*engine.fabric;
        let looks = engine.looks.get().wrapping_add(1);
        engine.looks.set(looks);
        {
            let mut state = engine.state.borrow_mut();
            if looks.is_multiple_of(CONTROL_EVERY) || state.window.is_scarce() || state.has_unsent() {
                state.serve(fabric);
            } else {
                fabric.progress();
            }
        }
        // Made once: most extractions find nothing. Those inside another make their own.
        let mut spare = engine.spare.take().unwrap_or_default();
        let frame = &mut *spare;
        let mut frames = 0;
        while frames < most {
            let Some(header) = engine.state.borrow_mut().next(fabric, true, frame) else {
                break;
            };
            frames += 1;
            if header.kind == FrameKind::Piece && header.has(BEGIN) && header.has(END) {
                let (kind, number) = (header.handler, header.announced);
                take(Peer(frame.peer), Label { kind, number }, frame.payload());
            } else {
                self.refuse_part(frame.peer, &header);
            }
            if frames % FRAMES_BETWEEN == 0 {
                engine.state.borrow_mut().serve(fabric);
            }
        }
        engine.spare.set(Some(spare));
        if frames > 0 {
            engine.state.borrow_mut().acknowledge_if_urgent(fabric);
        }
        frames
    }

    /// A frame that is not a whole message: no such layer sends one.
    #[cold]
    fn refuse_part(&self, peer: u32, header: &Header) {
        let mut state = self.0.state.borrow_mut();
        state.incoming.clear();
        let what = "a frame that is a message";
        let value = u64::from(header.flags);
        state.refuse(&*self.0.fabric, peer, Malformed { what, value });
    }

    /// Whether there are faults to be [taken](Fm::take_faults).
    #[inline(always)]
    pub fn has_faults(&self) -> bool {
        self.0.state.borrow().has_faults()
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
}
